"""Servers by the command: reached or not, up and down, and the demo on one.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_server.py PATH_TO_LEAT [PATTERN]
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from cli_help import (LEAT, Home, Server, alive, equal, exits, on_terminal,
                      run, wait_for)


def processes_of(text):
    """Processes whose command line or directory names this text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().decode("utf-8", "replace")
            cwd = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if (text in line or text in cwd) and int(pid) != os.getpid():
            found.append((int(pid), line))
    return found


# ---- servers ------------------------------------------------------------

def a_dead_address_is_69_in_time(h):
    start = time.monotonic()
    for args in (["ping"], ["status"], ["demo"]):
        p = h.run(*args, "-u", "redis://127.0.0.1:1", "--timeout", "2s")
        exits(p, 69)
        assert "hint: " in p.err
        equal(p.out, "")
    p = h.run("ping", "-u", f"unix://{h.dir}/none", "--timeout", "2s")
    exits(p, 69)
    assert time.monotonic() - start < 10


def a_server_that_never_answers_is_given_up_in_time(h):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(8)
        start = time.monotonic()
        p = h.run("ping", "-u", f"redis://127.0.0.1:{s.getsockname()[1]}",
                  "--timeout", "500ms")
        assert p.returncode in (69, 75), p
        assert 0.3 < time.monotonic() - start < 5


def a_bad_url_is_a_mistake_where_it_was_typed(h):
    exits(h.run("ping", "-u", "http://h"), 64)
    exits(h.run("ping", env={"LEAT_URL": "http://h"}), 78)
    exits(h.run("ping", "-u", "redis://h?x=y"), 64)


def status_tells_facts_and_weaknesses(h):
    server = Server(h, "--appendonly", "no", "--maxmemory", "100mb",
                    "--maxmemory-policy", "allkeys-lru")
    try:
        p = h.run("status", "-u", server.url, "-o", "json")
        exits(p, 0)
        s = json.loads(p.out)
        equal((s["role"], s["aof"], s["maxmemory_policy"], s["maxmemory"]),
              ("master", False, "allkeys-lru", 104857600))
        assert s["latency_ms"] >= 0 and s["version"][0].isdigit()
        assert s["protocol"] in (2, 3)
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z$", s["started"]), s
        equal(len(s["warnings"]), 2)
        assert "set appendonly yes" in s["warnings"][0]
        assert "noeviction" in s["warnings"][1]
        table = h.run("status", "-u", server.url, "-o", "table").out
        assert "100.0 MiB" in table and "appendonly is off" in table
        p = h.run("status", "-u", server.url, "--columns", "role,aof",
                  "--no-headers")
        equal(p.out, "master\tfalse\n")
    finally:
        server.close()


def ping_measures(h):
    server = Server(h)
    try:
        p = h.run("ping", "-c", "20", "-i", "1ms", "-u", server.url,
                  "-o", "json")
        exits(p, 0)
        r = json.loads(p.out)
        equal((r["sent"], r["answered"]), (20, 20))
        assert 0 < r["min_ms"] <= r["p50_ms"] <= r["max_ms"]
        assert r["min_ms"] <= r["avg_ms"] <= r["max_ms"]
    finally:
        server.close()


def a_server_stays_up_until_down(h):
    data = os.path.join(h.dir, "da ta")
    p = h.run("up", "--dir", data)
    exits(p, 0)
    url = p.out.strip()
    equal(url, "embedded://" + data.replace(" ", "%20"))
    s = json.loads(h.run("status", "-u", url, "-o", "json").out)
    assert s["aof"] and s["warnings"] == [], s
    equal(s["maxmemory_policy"], "noeviction")
    holder = s["holder_pid"]
    assert alive(holder)
    with open(os.path.join(data, "up.pid")) as f:
        pid, server = map(int, f.read().split()[:2])
    equal(pid, holder)
    assert alive(server)

    again = h.run("up", "--dir", data)
    exits(again, 0)
    equal(again.out.strip(), url)
    assert f"held by process {holder}" in again.err

    p = h.run("down", "--dir", data)
    exits(p, 0)
    assert "stopped" in p.err, p.err
    assert not alive(holder) and not alive(server)
    p = h.run("down", "--dir", data)
    exits(p, 0)
    assert "nothing runs" in p.err
    wait_for(lambda: not processes_of(data))


def the_default_server_is_found_without_words(h):
    exits(h.run("up", "-q"), 0)
    try:
        s = json.loads(h.run("status", "-o", "json").out)
        assert s["holder_pid"] and s["warnings"] == [], s
        exits(h.run("ping", "-c", "1"), 0)
    finally:
        exits(h.run("down"), 0)
    s = json.loads(h.run("status", "-o", "json").out)
    assert "'leat up' keeps it running" in s["warnings"][0]
    wait_for(lambda: not processes_of(h.dir))


def a_stale_pid_is_never_signalled(h):
    data = os.path.join(h.dir, "d")
    os.mkdir(data, 0o700)
    victim = subprocess.Popen(["sleep", "60"])
    try:
        with open(os.path.join(data, "up.pid"), "w") as f:
            f.write(f"{victim.pid}\n{victim.pid}\nembedded:\n")
        p = h.run("down", "--dir", data)
        exits(p, 0)
        assert "nothing runs" in p.err
        equal(victim.poll(), None)
    finally:
        victim.kill()
        victim.wait()


def up_in_the_foreground_ends_by_signal(h):
    data = os.path.join(h.dir, "d")
    p = subprocess.Popen([LEAT, "up", "--dir", data, "--foreground"],
                         env=h.env(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    equal(p.stdout.readline().decode().strip(), "embedded://" + data)
    equal(json.loads(h.run("status", "-u", "embedded://" + data, "-o",
                           "json").out)["holder_pid"], p.pid)
    p.send_signal(signal.SIGTERM)
    equal(p.wait(20), 0)
    p.communicate()
    wait_for(lambda: not processes_of(data))


def up_refuses_what_it_cannot_start(h):
    exits(h.run("up", "-u", "redis://h"), 64)
    with open(os.path.join(h.dir, "file"), "w"):
        pass
    p = h.run("up", "--dir", os.path.join(h.dir, "file/below"))
    assert p.returncode in (74, 78), p
    equal(p.out, "")


# ---- demo ---------------------------------------------------------------

def check_demo(p, count, killed=True):
    exits(p, 0)
    r = json.loads(p.out)
    equal((r["sent"], r["handled"], r["lost"], r["out_of_order"]),
          (count, count, 0, 0))
    equal((r["retried"], r["dead_letters"], r["replayed"]), (2, 1, 1))
    equal(r["takeover_ms"] is not None, killed)
    assert "0 lost, per-key order kept" in p.err, p.err
    poison = count // 10
    assert re.search(rf"order {poison} failed 3 times and is a dead letter; "
                     r"leat dlq ls orders:\nleat:   \d:\d+-\d+  billing  "
                     rf"order-{poison} of customer-\d+  3 attempts: the "
                     r"customer has no address\n", p.err), p.err
    assert "replay orders --all: 1 replayed" in p.err, p.err


def the_demo_kills_a_consumer_and_loses_nothing(h):
    p = h.run("demo", "--count", "6000", "-o", "json")
    check_demo(p, 6000)
    assert "was killed with -9" in p.err, p.err
    p = h.run("demo", "-n", "37", "--keys", "3", "--no-kill", "-o", "json")
    check_demo(p, 37, killed=False)
    equal(os.listdir(h.tmp), [])
    wait_for(lambda: not processes_of(h.tmp))
    exits(h.run("demo", "--keys", "2000000"), 64)


def a_demo_that_was_killed_is_swept_by_the_next(h):
    """But not one that runs, whose directory is beside it."""
    def begin():
        p = subprocess.Popen([LEAT, "demo", "-n", "100000", "-o", "json"],
                             env=h.env(), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        assert "topic orders" in p.stderr.readline()
        return p

    dead = begin()
    left = os.listdir(h.tmp)
    other = begin()
    beside = set(os.listdir(h.tmp)) - set(left)
    try:
        equal((len(left), len(beside)), (1, 1))
        dead.kill()
        dead.communicate()
        p = h.run("demo", "-n", "10", "--no-kill", "-o", "json")
        check_demo(p, 10, killed=False)
        assert f"{left[0]}, left by a demo that was killed" in p.err, p.err
        equal(set(os.listdir(h.tmp)), beside)
        assert not processes_of(os.path.join(h.tmp, left[0]))
        assert other.poll() is None
    finally:
        other.terminate()
        other.communicate()
    equal(os.listdir(h.tmp), [])


def the_demo_runs_on_a_server_only_when_told(h):
    server = Server(h)
    try:
        p = h.run("demo", "-n", "500", "--no-kill", "-o", "json", "-u",
                  server.url)
        check_demo(p, 500, killed=False)
        p = h.run("demo", "-n", "10", "--no-kill", "-o", "json",
                  env={"LEAT_URL": "redis://127.0.0.1:1"})
        check_demo(p, 10, killed=False)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.socket)
            s.sendall(b"DBSIZE\r\n")
            equal(s.recv(64), b":0\r\n")
    finally:
        server.close()
    equal(os.listdir(h.tmp), [])


def the_demo_notices_what_is_missing(h):
    """Entries are removed behind its back: those of the dead one's
    partitions wait for the takeover."""
    server = Server(h)
    p = subprocess.Popen([LEAT, "demo", "-n", "6000", "-o", "json", "-u",
                          server.url], env=h.env(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    trim = ("local n = 0 "
            "for _, k in ipairs(redis.call('KEYS', 'leat-demo-*:log')) do "
            "n = n + redis.call('XTRIM', k, 'MAXLEN', 0) end return n")
    try:
        while "killed" not in p.stderr.readline():
            assert p.poll() is None
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.socket)
            for _ in range(200):
                s.sendall(f"EVAL \"{trim}\" 0\r\n".encode())
                s.recv(64)
                time.sleep(0.005)
        out, err = p.communicate(timeout=90)
        equal(p.returncode, 1)
        r = json.loads(out)
        equal((r["sent"], r["handled"] + r["lost"]), (6000, 6000))
        assert r["lost"] > 0, r
        equal((r["retried"], r["dead_letters"]), (2, 1))
        assert f"{r['lost']} lost, per-key order kept" in err, err
    finally:
        p.kill()
        server.close()


def the_demo_notices_a_dead_letter_that_somebody_took(h):
    """Its order is then not handled, and is not replayed."""
    server = Server(h)
    p = subprocess.Popen([LEAT, "demo", "-n", "6000", "-o", "json", "-u",
                          server.url], env=h.env(), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    take = ("for _, k in ipairs(redis.call('KEYS', 'leat-demo-*:dlq')) do "
            "redis.call('DEL', k) end return 1")
    try:
        while "is a dead letter" not in p.stderr.readline():
            assert p.poll() is None
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.socket)
            s.sendall(f"EVAL \"{take}\" 0\r\n".encode())
            s.recv(64)
        out, err = p.communicate(timeout=90)
        equal(p.returncode, 1)
        r = json.loads(out)
        equal((r["sent"], r["handled"], r["lost"]), (6000, 5999, 1))
        equal((r["retried"], r["dead_letters"], r["replayed"]), (2, 1, 0))
        assert "1 lost, per-key order kept" in err, err
    finally:
        p.kill()
        server.close()


def ctrl_c_ends_the_demo_cleanly(h):
    p = subprocess.Popen([LEAT, "demo", "-n", "5000000"], env=h.env(),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         start_new_session=True)
    try:
        while b"handled" not in (line := p.stderr.readline()):
            assert line             # a line a second: it is at work
        assert processes_of(os.path.realpath(h.tmp))
        os.killpg(p.pid, signal.SIGINT)  # as a terminal does
        out, err = p.communicate(timeout=60)
    finally:
        p.kill()
    equal(p.returncode, 128 + signal.SIGINT)
    equal(out, b"")
    equal(os.listdir(h.tmp), [])
    wait_for(lambda: not processes_of(h.tmp))
    wait_for(lambda: not members_of(p.pid))


def members_of(group):
    """The processes of this process group."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[2]) == group:
                    found.append(int(pid))
        except OSError:
            continue
    return found


def a_terminal_sees_progress_and_a_table(h):
    text, code = on_terminal(h, "demo", "-n", "5000")
    equal(code, 0)
    assert "handled" in text and "100%" in text, text
    assert "ETA" in text and "5,000" in text, text
    assert "0 lost, per-key order kept" in text, text
    p = h.run("demo", "-n", "200", "--no-kill", "-q")
    equal(p.err, "")


if __name__ == "__main__":
    sys.exit(run(__name__, ("h",), Home))
