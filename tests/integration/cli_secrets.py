"""No secret leaves the command: not by what it prints or logs, not by its
arguments, not to the programs it runs.

Usage: cli_secrets.py PATH_TO_LEAT [PATTERN]
"""

import json
import os
import socket
import subprocess
import sys

from cli_help import (LEAT, Home, Redis, equal, exits, on_terminal, run,
                      wait_for)

CANARY = "canary-7f3a91c2"
COMMANDS = [
    "status", "ping -c1", "config show --origin", "config show -o json",
    "context ls", "context show a", "context ls -o json --columns url,password",
    "topic create t", "topic ls", "topic info t", "topic send t",
    "topic tail t", "topic alter t --max-age 1d", "topic trim t", "topic rm t",
    "consume t --group g -n 1", "group ls t", "group info t g",
    "group lag t g", "group members t g", "group pending t g",
    "group pause t g", "group resume t g", "group seek t g --to start",
    "group alter t g --lease 9s", "group rm t g", "dlq ls t",
    "dlq show t 0:1-0", "dlq errors t", "dlq replay t",
    "dlq rm t", "queue create q", "queue ls", "queue stats q",
    "queue send q m", "queue receive q", "queue ack q r", "queue peek q",
    "queue redrive q", "queue purge q", "queue rm q", "queue expire q",
    "queue watch q", "queue pool --exec true",
    "stream ls", "stream info s", "stream add s m", "stream tail s",
    "stream groups s", "stream consume s -g g -n 1", "stream rm s", "up", "down", "version", "demo",
]


def dead_urls():
    """URLs with the canary in each place that a secret can have."""
    dead = "127.0.0.1:1"
    return [
        f"redis://user:{CANARY}@{dead}",
        f"redis://{dead}?password={CANARY}",
        f"redis+sentinel://{dead}/mymaster?sentinel_password={CANARY}",
        f"redis+sentinel://{dead}/m?SENTINEL_PASSWORD={CANARY}",
        f"redis+sentinel://:{CANARY}@{dead}/m?sentinel_user=u"
        f"&sentinel_password={CANARY}",
        f"rediss+sentinel://{dead}/m?sentinel_password={CANARY}&timeout=1s",
    ]


def damaged_urls():
    return [
        f"redis+sentinel://h/m?sentinel_pasword={CANARY}",
        f"redis://h?sentinel_password={CANARY}",
        f"redis://h?password=a&{CANARY}",
        f"redis://h?password=a#{CANARY}",
        f"redis://h?password=a@{CANARY}",
        f"redis://h?p%61ssword={CANARY}",
        f"redis://h?sentinel%5Fpassword={CANARY}",
        f"redis://u:a@{CANARY}@h", f"redis://u:a/{CANARY}@h",
        f"redis://u:{CANARY}", f"redis://u:{CANARY}/0",
        f"redis://:{CANARY}?timeout=1s", f"redis://h:1,u:{CANARY}",
        f"redis://[::1]:{CANARY}",
        f"rediss+sentinel://u:/{CANARY}", f"rediz://u:{CANARY}@h", f"redis:/h?auth_token={CANARY}",
        "redis://h?" + "&".join(["password=abc"] * 40) + f"&pass={CANARY}",
    ]


def unseen(p, *what):
    for text in (p.stdout, p.stderr):
        assert CANARY.encode() not in text, (what, p.stdout, p.stderr)


# ---- printing -----------------------------------------------------------

def no_command_prints_a_secret_of_its_url(h):
    for url in dead_urls():
        h.write_config(f'[context.a]\nurl = "{url}"\n')
        verbs = COMMANDS if "sentinel_user" in url else COMMANDS[:8]
        for words in verbs:
            args = [*words.split(), "--timeout=100ms", "-y"]
            if "--exec" not in words:
                args.append("-vv")
            else:
                args = [*words.split(" --")[0].split(), "--timeout=100ms",
                        "--exec", "true"]
            unseen(h.run(*args, env={"LEAT_URL": url}, stdin=b""), words, url)
    h.write_config(f'context = "a"\n[context.a]\nurl = "{dead_urls()[2]}"\n')
    for words in COMMANDS[:7]:
        unseen(h.run(*words.split(), "--timeout=100ms"), words)


def a_damaged_url_is_quoted_without_its_secrets(h):
    for url in damaged_urls():
        for args in (["ping", "-u", url], ["config", "show", "-u", url],
                     ["context", "add", "b", url, "--replace"], [url],
                     ["context", "ls"], ["ping", url], ["up", "-u", url]):
            unseen(h.run(*args, "--timeout=100ms"), args)
        unseen(h.run("ping", env={"LEAT_URL": url}), url)


def a_secret_is_hidden_also_as_the_server_is_told_it(h):
    server = Redis(h, "--requirepass", "other")
    try:
        url = f"{server.url}?password={CANARY[:6]}%2D{CANARY[7:]}"
        p = h.run("ping", "-vv", "-u", url)
        exits(p, 77)
        unseen(p)
    finally:
        server.close()


# ---- arguments ----------------------------------------------------------

def cmdline(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        return f.read()


def no_secret_stays_among_the_arguments(h):
    server = Redis(h, "--requirepass", CANARY)
    silent = socket.create_server(("127.0.0.1", 0))     # never answers
    at = f"127.0.0.1:{silent.getsockname()[1]}"
    forms = (["-u", f"{server.url}?password={CANARY}"],
             [f"--url={server.url}?password={CANARY}"],
             [f"-uunix://:{CANARY}@{server.socket}"],
             ["--timeout=20s", "-u", f"redis+sentinel://{at}/m?"
              f"sentinel_password={CANARY}"])
    try:
        for form in forms:
            p = subprocess.Popen([LEAT, "ping", "-c", "100000", *form],
                                 env=h.env(), stdout=subprocess.DEVNULL)
            try:
                wait_for(lambda p=p: b"***" in cmdline(p.pid))
                assert CANARY.encode() not in cmdline(p.pid), cmdline(p.pid)
            finally:
                p.kill()
                p.wait()
    finally:
        silent.close()
        server.close()


def no_secret_is_among_a_programs_arguments_and_variables(h):
    server = Redis(h, "--requirepass", CANARY)
    seen = os.path.join(h.dir, "seen")
    script = f"cat /proc/$PPID/cmdline /proc/$$/cmdline >{seen}; env >>{seen}"
    ways = (([], {"LEAT_PASSWORD": CANARY, "LEAT_URL": server.url}),
            ([], {"LEAT_URL": f"{server.url}?password={CANARY}"}),
            (["-u", f"{server.url}?password={CANARY}"],
             {"REDISCLI_AUTH": CANARY}))
    try:
        for words, env in ways:
            env = {**env, "OTHER": "stays", "LEAT_OUTPUT": "json"}
            h.run("queue", "create", "q", *words, env=env)
            exits(h.run("queue", "send", "q", "m", *words, env=env), 0)
            exits(h.run("queue", "receive", "q", *words, "--count", "1", "--",
                        "sh", "-c", script, env=env), 0)
            with open(seen) as f:
                text = f.read()
            assert CANARY not in text, text
            assert "OTHER=stays" in text and "LEAT_OUTPUT=json" in text, text
            equal("LEAT_URL=" + server.url + "\n" in text,
                  env.get("LEAT_URL") == server.url)
    finally:
        server.close()


def an_embedded_server_and_its_guardian_keep_no_secret(h):
    d = os.path.join(h.dir, "own")
    env = {"LEAT_PASSWORD": CANARY, "REDISCLI_AUTH": CANARY, "OTHER": "stays",
           "LEAT_URL": f"redis://u:{CANARY}@127.0.0.1:1"}
    exits(h.run("up", "-u", f"embedded://{d}", env=env), 0)
    try:
        with open(os.path.join(d, "guardian.pid")) as f:
            guardian = f.read().split()[0]
        with open(f"/proc/{guardian}/task/{guardian}/children") as f:
            pids = [guardian, *f.read().split()]
        equal(len(pids), 2)
        for pid in pids:
            with open(f"/proc/{pid}/environ", "rb") as f:
                text = f.read()
            assert CANARY.encode() not in text, text
            # The server itself writes its title over what it was given.
            assert pid != guardian or b"OTHER=stays" in text, text
    finally:
        h.run("down", "-u", f"embedded://{d}")


def an_editor_gets_no_secret(h):
    server = Redis(h, "--requirepass", CANARY)
    seen = os.path.join(h.dir, "seen")
    env = {"LEAT_PASSWORD": CANARY, "LEAT_URL": server.url,
           "EDITOR": f"env >{seen};false"}
    try:
        exits(h.run("topic", "create", "t", env=env), 0)
        exits(h.run("topic", "send", "t", env=env, stdin=b"m\n"), 0)
        h.run("consume", "t", "--group", "g", "--from", "start", "-n", "1",
              "--", "sh", "-c", "exit 65", env=env)
        rows = json.loads(h.run("dlq", "ls", "t", "-o", "json", env=env).out)
        on_terminal(h, "dlq", "edit", "t", rows[0]["id"], env=env)
        with open(seen) as f:
            text = f.read()
        assert CANARY not in text and "EDITOR=" in text, text
    finally:
        server.close()


# ---- the server's side --------------------------------------------------

def neither_client_list_nor_metrics_nor_logs_tell_a_secret(h):
    server = Redis(h)
    server.call("ACL", "SETUSER", "low", "on", ">" + CANARY, "~*", "&*", "+@all")
    url = f"unix://low:{CANARY}@{server.socket}"
    p = subprocess.Popen([LEAT, "queue", "pool", "-vv", "--exec", "true"],
                         env=h.env(LEAT_URL=url), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    try:
        def clients():
            return server.call("CLIENT", "LIST")
        wait_for(lambda: b"name=leat" in clients())
        assert CANARY.encode() not in clients()
        logs = server.call("SLOWLOG", "GET", "100")
        assert CANARY not in repr(logs)
        assert CANARY not in repr(server.call("ACL", "LOG"))
        p.terminate()
        assert CANARY.encode() not in p.communicate(timeout=30)[0]
    finally:
        p.kill()
        p.wait()
        server.close()


# ---- schemes in capitals ------------------------------------------------

def schemes_are_read_in_any_case(h):
    p = h.run("ping", "-u", "REDISS://127.0.0.1:1", "--cafile", "/none.pem")
    assert "/none.pem" in p.err, p.err
    exits(h.run("context", "add", "a", "REDISS://h:1"), 0)
    exits(h.run("context", "add", "b", "EMBEDDED:"), 0)
    d = os.path.join(h.dir, "own")
    p = h.run("status", "-u", f"Embedded://{d}", "-o", "json")
    exits(p, 0)
    assert any("holds" in w for w in json.loads(p.out)["warnings"]), p.out
    exits(h.run("up", "-u", f"EMBEDDED://{d}"), 0)
    exits(h.run("down", "-u", f"EMBEDDED://{d}"), 0)


# ---- what others wrote --------------------------------------------------

EVIL = "a\u009b31mb\x7fc\u202ed\u2066e\u200bf\U000e0041g"


def nothing_commands_a_terminal(h):
    server = Redis(h)
    env = {"LEAT_URL": server.url}
    try:
        exits(h.run("queue", "create", "q", env=env), 0)
        exits(h.run("queue", "send", "q", EVIL, "--header", "x:" + EVIL,
                    env=env), 0)
        for form in ("json", "ndjson", "table", "tsv", "csv"):
            text, code = on_terminal(h, "-q", "queue", "peek", "q", "-o",
                                     form, env=env)
            equal(code, 0)
            for c in EVIL:
                assert c.isascii() and c != "\x7f" or c not in text, (form, c)
            if form == "json":
                got = json.loads(text)[0]
                equal(got["data"], EVIL)
                equal(got["headers"][0]["value"], EVIL)
        got = json.loads(h.run("queue", "peek", "q", "-o", "json",
                               env=env).out)
        equal(got[0]["data"], EVIL)
    finally:
        server.close()


JUNK = [b"", b"a b", b"\x1b]0;x\x07", b"x" * 300, b"n\0n", "\u202e".encode(),
        b"..", b"a:b", b"\xff"]


def junk_in_a_registry_hides_nothing(h):
    server = Redis(h)
    env = {"LEAT_URL": server.url}
    try:
        exits(h.run("topic", "create", "t", env=env), 0)
        exits(h.run("queue", "create", "q", env=env), 0)
        exits(h.run("group", "ls", "t", env=env), 0)
        exits(h.run("topic", "send", "t", stdin=b"m\n", env=env), 0)
        exits(h.run("consume", "t", "--group", "g", "--from", "start", "-n", "1",
                    env=env), 0)
        for key in ("leat:topics", "leat:{t}:groups", "leat:{q/7}:queues"):
            for member in JUNK:
                server.call("SADD", key, member)
        for words, name in (("topic ls", "t"), ("group ls t", "g"),
                            ("queue ls", "q")):
            p = h.run(*words.split(), "-o", "json", env=env)
            exits(p, 0)
            rows = json.loads(p.out)
            equal([r.get("name", r.get("group")) for r in rows], [name])
            assert f"passed over {len(JUNK)} " in p.err, p.err
            assert "\x1b" not in p.err + p.out
    finally:
        server.close()


def a_damaged_topic_hides_no_other(h):
    server = Redis(h)
    env = {"LEAT_URL": server.url}
    try:
        for name in ("a", "c"):
            exits(h.run("topic", "create", name, env=env), 0)
        server.call("SADD", "leat:topics", "b", "d")
        server.call("HSET", "leat:topic:b", "partitions", "many")
        server.call("SET", "leat:topic:d", "no hash")
        p = h.run("topic", "ls", "-o", "json", env=env)
        exits(p, 65)
        equal([r["name"] for r in json.loads(p.out)], ["a", "c"])
        assert "leat: b: " in p.err and "leat: d: " in p.err, p.err
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(run(__name__, ("h",), Home))
