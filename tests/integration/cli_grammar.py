"""What all commands have in common, as a person meets it: the words, the
questions, the screen, the exit codes.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_grammar.py PATH_TO_LEAT [PATTERN]
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

from cli_bench import ended, main
from cli_help import SECONDS, Server, equal, exits, wait_for


def refused(p, code, *texts):
    exits(p, code)
    assert p.err.startswith("leat: ") or "\nleat: " in p.err, p.err
    for t in texts:
        assert t in p.err, (t, p.err)


# ---- a server that evicts -----------------------------------------------

WRITES = (["topic", "create", "t"], ["topic", "send", "t"],
          ["topic", "alter", "t", "--max-age", "1d"],
          ["topic", "trim", "t", "--max-entries", "1"], ["topic", "rm", "t"],
          ["consume", "t", "-g", "g", "--count", "1"],
          ["group", "seek", "t", "g", "--to", "end"],
          ["group", "alter", "t", "g", "--lease", "9s"],
          ["group", "pause", "t", "g"], ["group", "resume", "t", "g"],
          ["group", "rm", "t", "g"], ["dlq", "replay", "t", "--all"],
          ["dlq", "rm", "t", "--all"],
          ["dlq", "edit", "t", "0:1-1", "--key", "k"],
          ["queue", "create", "q"], ["queue", "send", "q", "m"],
          ["queue", "send", "q", "m", "--auto-create"],
          ["queue", "alter", "q", "--ttl", "1d"], ["queue", "receive", "q"],
          ["queue", "receive", "q", "--exec", "cat"],
          ["queue", "ack", "q", "r"], ["queue", "change", "q", "r", "1s"],
          ["queue", "reject", "q", "r"], ["queue", "redrive", "q"],
          ["queue", "purge", "q"], ["queue", "rm", "q"],
          ["queue", "expire", "q"], ["queue", "pool", "--exec", "cat"],
          ["demo", "-n", "1"])


def nothing_is_written_to_a_server_that_evicts(b):
    with contextlib.closing(Server(b.home, "--maxmemory", "100mb",
                                   "--maxmemory-policy",
                                   "allkeys-lru")) as server:
        for words in WRITES:
            p = b.home.run(*words, "-y", "-u", server.url, stdin=b"m\n")
            refused(p, 78, "may evict messages", "allkeys-lru",
                    "hint: ", "--allow-eviction")
        for words in (["topic", "ls"], ["queue", "ls"], ["status"],
                      ["ping", "-c", "1"]):
            exits(b.home.run(*words, "-u", server.url), 0)
        create = ["topic", "create", "-q"]
        exits(b.home.run(*create, "flag", "-u", server.url,
                         "--allow-eviction"), 0)
        exits(b.home.run(*create, "variable", "-u", server.url,
                         env={"LEAT_ALLOW_EVICTION": "yes"}), 0)
        exits(b.home.run(*create, "url", "-u",
                         server.url + "?allow_eviction=true"), 0)
        b.home.write_config(f'[context.a]\nurl = "{server.url}"\n'
                            'allow_eviction = true\n')
        exits(b.home.run(*create, "context", "--context", "a"), 0)
        p = b.home.run("topic", "ls", "-u", server.url, "-o", "json")
        equal(sorted(t["name"] for t in json.loads(p.out)),
              ["context", "flag", "url", "variable"])


# ---- programs -----------------------------------------------------------

def workers(bench):
    b = bench
    """Each verb that runs a program, with one message for it."""
    b.topic(lines=1)
    yield ["consume", "orders", "-g", "g"]
    b.good("queue", "send", "jobs", "m0", "--auto-create", "-q")
    yield ["queue", "receive", "jobs"]
    b.good("queue", "send", "jobs", "m0", "-q")
    yield ["queue", "pool"]


def words_before_the_dashes_are_leats_and_behind_them_the_programs(b):
    program = b.script('echo "$(cat):$*" >>"$T/log"')
    for form in (lambda n: ["--exec", program, *n, "--", "--count", "9 9"],
                 lambda n: [*n, "--", program, "--count", "9 9"],
                 lambda n: ["-e" + program, *n, "--", "--count", "9 9"]):
        b.server.call("FLUSHALL")
        for words in workers(b):
            b.good(*words, *form(["--count", "1", "-q"]))
            equal(b.lines("log"), ["m0:--count 9 9"])
            os.unlink(b.path("log"))


def a_word_that_could_be_the_programs_is_refused(b):
    for words in workers(b):
        one = ["--count", "1"]
        hint = "hint: what is the program's stands behind --: --exec cat -- "
        refused(b.run(*words, *one, "--exec", "cat", "file"), 64, "'file'",
                hint + "file")
        refused(b.run(*words, *one, "--exec", "cat", "--number"), 64,
                "unknown option '--number'", hint + "--number")
        refused(b.run(*words, *one, "--exec", "cat", "-Zx"), 64,
                "unknown option '-Z'", hint + "-Zx")
        refused(b.run(*words, *one, "--exec", "sh", "--count", "x y"), 64,
                "is not a number", "--exec sh -- --count")
        refused(b.run(*words, *one, "--"), 64, "no program behind --")
        refused(b.run(*words, *one, "--", "/no/such", "x"), 64,
                "no program '/no/such'")
        refused(b.run(*words, *one, "--exec", "cat x"), 64, "no shell")
        # Nothing was read: it is all there.
        equal(b.good(*words, *one, "--exec", "cat").out, "m0")


def a_program_of_the_environment_gives_way_to_one_that_is_named(b):
    for words in workers(b):
        p = b.good(*words, "--count", "1", "--", "sed", "s/m/x/",
                   env={"LEAT_EXEC": "false"})
        equal(p.out, "x0\n" if p.out.endswith("\n") else "x0")


# ---- so many, and no more ---------------------------------------------------

def counted(b, n, c, *words):
    """What n messages were, with so many programs at once, and the lag after
    them."""
    p = b.good("consume", "orders", "-g", "g", "--count", str(n), "-c", c, "-q",
               *words)
    return p.out.split(), b.lag()


def just_as_many_as_asked_for_are_handled_and_the_rest_stays(b):
    for partitions, c in ((1, "1"), (4, "3")):
        for words in (["--format", "%v:1\\n"],
                      ["--", "sh", "-c", 'echo "$(cat):$LEAT_ATTEMPT"']):
            b.server.call("FLUSHALL")
            b.topic(partitions=partitions, lines=20)
            seen, left = [], 20
            for n in (1, 7, 1, 7, 4):
                got, lag = counted(b, n, c, *words)
                left -= n
                equal((len(got), lag), (n, left))
                seen += got
            # Each once: what was put back was not begun.
            equal(sorted(seen), sorted(f"m{i}:1" for i in range(20)))


def those_that_end_as_dead_letters_count_and_no_more_become_one(b):
    for n in (1, 7, 12):
        b.server.call("FLUSHALL")
        b.topic(partitions=4, lines=20)
        b.good("consume", "orders", "-g", "g", "--count", str(n), "-c", "3",
               "--max-attempts", "2", "--backoff", "fixed:1ms,nojitter", "-q",
               "--exec", "false")
        equal(sum(len(b.dead(partition=i)) for i in range(4)), n)


# ---- again and again ------------------------------------------------------

LOOKS = {"topic ls": "partitions", "topic info orders": "partitioner",
         "topic info orders -p": "messages", "group ls orders": "lag",
         "group info orders g": "alive", "group lag orders g": "cursor",
         "group members orders g": "leaving",
         "group pending orders g": "attempts", "dlq ls orders": "died",
         "dlq errors orders": "newest", "queue ls": "visible",
         "queue stats jobs": "redriven", "status": "topology"}
ENTER, LEAVE, CLEAR, CTRL_C = "\x1b[?1049h", "\x1b[?1049l", "\x1b[H\x1b[J", "\x03"


def some_of_each(bench):
    """A topic with a group and a dead letter, and a queue."""
    bench.topic(lines=2)
    exits(bench.consume("-q", "--", "sh", "-c", "exit 65", n=1), 0)
    bench.good("queue", "create", "jobs", "-q")


def every_listing_follows_on_a_screen_of_its_own(b):
    some_of_each(b)
    for words, heading in LOOKS.items():
        text, code = b.screen(*words.split(), "--watch", "-i", "30ms", type=[
            (CLEAR, ""), (heading, ""), (CLEAR, ""), (heading, CTRL_C)])
        equal((words, code), (words, 130))
        equal((text.count(ENTER), text.count(LEAVE)), (1, 1))
        assert text.startswith(ENTER) and text.endswith(LEAVE), text
        said = " ".join(x for x in words.split() if x != "-p")
        assert f"{said}, every 30ms; Ctrl-C ends" in text, text


def every_listing_follows_as_lines_below_one_heading(b):
    some_of_each(b)
    for words, heading in LOOKS.items():
        p = b.start(*words.split(), "--watch", "-i", "30ms", "--timeout", "30s")
        first = p.stdout.readline().decode()
        if words.startswith(("group members", "group pending")):
            continue    # there are none
        assert heading in first.split(), (words, first)
        a, z = (p.stdout.readline().decode() for _ in range(2))
        assert a.count("\t") == z.count("\t") > 0 and a != first != z, (a, z)
        p.send_signal(signal.SIGINT)
        ended(p, 130)


def what_is_watched_is_what_is_there(b):
    b.topic()
    p = b.start("topic", "ls", "-w", "-i", "20ms", "-o", "ndjson")
    equal(json.loads(p.stdout.readline())["messages"], 0)
    b.send("orders", ["x", "y"])
    while json.loads(p.stdout.readline())["messages"] != 2:
        pass
    # One connection, whatever the rounds.
    names = b.server.call("CLIENT", "LIST").decode().count("name=leat-topic")
    equal(names, 1)


def a_long_list_fits_on_the_screen_that_is_watched(b):
    for i in range(30):
        b.server.call("XADD", f"t{i}", "*", "a", "b")
        b.good("queue", "create", f"q{i:02}", "-q")
    text, code = b.screen("queue", "ls", "--watch", "-i", "1h",
                          type=[("and 11 more", CTRL_C)])
    equal((code, "q18 " in text, "q19 " in text), (130, True, False))


def an_error_while_watching_stays_to_be_read(b):
    b.topic()
    text, code = b.screen("topic", "info", "orders", "--watch", "-i", "30ms",
                          type=[("partitioner",
                                 lambda: b.server.call("FLUSHALL"))])
    equal(code, 1)
    assert "no topic 'orders'" in text.split(LEAVE)[1], text


# ---- Ctrl-C ---------------------------------------------------------------

def ctrl_c_ends_every_verb_with_130(b):
    some_of_each(b)
    for words, said in (
            ("topic tail orders -f", "m1"), ("queue watch jobs", ""),
            ("consume orders -g h", "m1"), ("queue pool --exec cat", ""),
            ("queue receive jobs -w 1h", ""),
            ("queue receive jobs --exec cat", ""), ("ping -c 9999 -v", "ms"),
            ("topic send orders", "Ctrl-D"), ("queue send jobs", "Ctrl-D"),
            ("topic rm orders", "[y/N]"), ("dlq rm orders --all", "[y/N]"),
            ("queue purge jobs", "[y/N]"),
            (f"up -f --dir {b.path('own')}", "")):
        name = {"queue watch": "leat-watch", "queue pool": "leat-pool",
                "queue receive": "leat-queue"}.get(
                    " ".join(words.split()[:2]))

        def at_work():
            return not name or name in b.server.call("CLIENT", "LIST").decode()

        if said:
            code = b.screen(*words.split(), type=[(said, CTRL_C)])[1]
        else:
            p = b.start(*words.split(), env={"LEAT_OUTPUT": "table"})
            end = time.monotonic() + SECONDS
            while not at_work() and time.monotonic() < end:
                time.sleep(0.01)
            if words.startswith("up"):
                p.stdout.readline()
            p.send_signal(signal.SIGINT)
            ended(p, code := 130)
        equal((words, code), (words, 130))
    equal(len(b.tail("orders")), 2)


def ctrl_c_ends_who_waits_for_a_server_that_does_not_answer(b):
    path = b.path("deaf")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(path)
        deaf.listen(8)
        for words in ("topic ls", "topic create x", "queue stats q", "status",
                      "group lag t g --watch", "consume t -g g",
                      "topic tail t -f", "topic send t m", "queue receive q",
                      "queue pool --exec cat", "ping"):
            p = b.start(*words.split(), "-u", "unix://" + path, "--timeout",
                        "1h")
            peer = deaf.accept()[0]
            peer.recv(1)    # it has asked
            start = time.monotonic()
            p.send_signal(signal.SIGINT)
            ended(p, 130)
            assert time.monotonic() - start < SECONDS
            peer.close()


# ---- what is weak about a server, and what went wrong -----------------------

WEAK = "appendonly is off"


def what_is_weak_is_said_once_and_always_by_status(b):
    with contextlib.closing(Server(b.home)) as one, \
            contextlib.closing(Server(b.home, "--requirepass", "canary")) as two:
        for server, env in ((one, {}), (two, {"LEAT_PASSWORD": "canary"})):
            env["LEAT_URL"] = server.url
            p = b.home.run("topic", "create", "t", env=env)
            assert WEAK in p.err and "leat status" in p.err, p.err
            for words in ("topic ls", "queue ls", "topic rm t -y"):
                p = b.home.run(*words.split(), env=env)
                exits(p, 0)
                assert WEAK not in p.err, p.err
            p = b.home.run("status", "-o", "json", env=env)
            assert WEAK in p.out and p.err == "", (p.out, p.err)
            assert WEAK in b.home.run("topic", "ls", "-v", env=env).err
    path = os.path.join(b.home.dir, "state/leat/told")
    equal(os.stat(path).st_mode & 0o777, 0o600)
    with open(path) as f:
        lines = f.read().splitlines()
    equal([len(x) for x in lines], [16, 16])


def what_was_said_is_remembered_within_bounds(b):
    path = os.path.join(b.home.dir, "state/leat/told")
    with contextlib.closing(Server(b.home)) as server:
        def says():
            p = b.home.run("topic", "ls", "-u", server.url)
            exits(p, 0)
            return WEAK in p.err
        equal([says(), says()], [True, False])
        with open(path) as f:
            own = f.read()
        for others, said, size in ((254, False, 255 * 17),
                                   (255, True, 256 * 17), (256, True, 17),
                                   (10000, True, 17)):
            with open(path, "w") as f:
                f.write(own if not said else "")
                f.write("".join("%016x\n" % i for i in range(others)))
            equal((others, says(), os.stat(path).st_size),
                  (others, said, size))
            equal(says(), False)
        os.unlink(path)
        os.mkdir(path)      # it cannot be written: said each time
        equal([says(), says()], [True, True])


def errors_name_what_to_do(b):
    """The server, its disk, rights and the modes of files."""
    b.topic()
    b.server.call("CONFIG", "SET", "maxmemory", "1")
    try:
        for words in ("topic send orders m", "queue send jobs m --auto-create",
                      "topic create more", "queue create jobs"):
            refused(b.run(*words.split(), stdin=b"m\n"), 75,
                    "memory is full" if "queue" in words else "OOM",
                    "hint: nothing was written: the server's memory is full")
    finally:
        b.server.call("CONFIG", "SET", "maxmemory", "0")
    b.server.call("CONFIG", "SET", "min-replicas-to-write", "1")
    try:
        refused(b.run("topic", "send", "orders", "m"), 75, "NOREPLICAS",
                "hint: nothing was written: fewer replicas follow")
    finally:
        b.server.call("CONFIG", "SET", "min-replicas-to-write", "0")
    b.server.call("ACL", "SETUSER", "some", "on", ">canary", "~*", "&*",
                  "+@all", "-xadd")
    try:
        refused(b.run("topic", "send", "orders", "m",
                      env={"LEAT_USER": "some", "LEAT_PASSWORD": "canary"}),
                77, "xadd", "hint: a right is missing", "leat acl")
    finally:
        b.server.call("ACL", "DELUSER", "some")
    directory = b.path("open")
    os.mkdir(directory)
    os.chmod(directory, 0o755)
    for words in (["topic", "ls", "-u", "embedded://" + directory],
                  ["up", "--dir", directory]):
        refused(b.home.run(*words), 78, "others may enter",
                f"hint: chmod 700 {directory}")
    for words in (["topic", "ls", "-u", "embedded:///proc/none"],
                  ["up", "--dir", "/proc/none"]):
        refused(b.home.run(*words), 74, "hint: ", "that can be written")


def an_unknown_outcome_has_an_exit_code_of_its_own(b):
    b.topic()
    b.good("queue", "create", "jobs", "-q")
    for words in ("topic send orders m", "queue send jobs m"):
        os.kill(b.server.process.pid, signal.SIGCONT)
        p = b.start(*words.split()[:-1], "--timeout", "1s",
                    stdin=subprocess.PIPE)
        name = "leat-send" if "topic" in words else "leat-queue"
        wait_for(lambda: name in b.server.call("CLIENT", "LIST").decode(),
                 SECONDS)
        p.stdin.write(b"first\n")
        p.stdin.flush()
        place = ("XLEN", "leat:{orders/0}:log") if "topic" in words else None
        wait_for(lambda: b.server.call(*place) == 1 if place else
                 b.json("queue", "stats", "jobs")["visible"] == 1, SECONDS)
        os.kill(b.server.process.pid, signal.SIGSTOP)
        try:
            p.stdin.write(b"second\n")
            p.stdin.flush()
            err = ended(p, 76)[1]
        finally:
            os.kill(b.server.process.pid, signal.SIGCONT)
        assert "1 unknown" in err and "look before you repeat" in err, err


# ---- the same word for the same thing ---------------------------------------

def topics_and_queues_take_a_message_in_the_same_words(b):
    b.topic()
    b.good("queue", "create", "jobs", "-q")
    for noun, name in (("topic", "orders"), ("queue", "jobs")):
        send = [noun, "send", name]
        b.good(*send, "two words", "-q", "-k", "the key", "-t", "kind", "-H",
               "user: ann", "-H", "mark:a=b:c")
        b.good(*send, "-q", "--", "-1")
        b.good(*send, "-q", "")
        show = (["topic", "tail", name] if noun == "topic" else
                ["queue", "peek", name])
        got = b.json(*show)
        equal([m["data"] for m in got], ["two words", "-1", ""])
        equal((got[0]["key"], got[0]["type"]), ("the key", "kind"))
        equal(got[0]["headers"], [{"name": "user", "value": "ann"},
                                  {"name": "mark", "value": "a=b:c"}])
        for words in (["m", "-f", "x"], ["m", "-0"]):
            refused(b.run(*send, *words), 64, "")
        refused(b.run(*send, "m", "-H", "user=ann"), 64, "give NAME:VALUE")
        equal(len(b.json(*show)), 3)


def the_last_ones_are_shown_and_then_what_comes(b):
    b.topic(lines=3)
    p = b.start("topic", "tail", "orders", "-f", "-n", "1", "--format",
                "%v\\n")
    equal(p.stdout.readline(), b"m2\n")
    b.send("orders", ["x", "y"])
    equal([p.stdout.readline() for _ in range(2)], [b"x\n", b"y\n"])
    p.send_signal(signal.SIGINT)
    ended(p, 130)
    p = b.start("topic", "tail", "orders", "-f", "-n", "2", "--from", "start",
                "--format", "%v\\n")
    equal(ended(p, 0)[0], "m0\nm1\n")


def nothing_is_removed_without_a_yes(b):
    b.home.write_config('[context.old]\nurl = "redis://h"\n')
    b.topic(lines=3)
    exits(b.consume("-q", "--", "sh", "-c", "exit 65", n=2), 0)
    for q in ("jobs", "dead"):
        b.good("queue", "create", q, "-q")
        b.good("queue", "send", q, "m", "-q")
    got = json.loads(b.good("queue", "receive", "dead", "-o", "json").out)
    b.good("queue", "reject", "dead", got[0]["receipt"], "-q")
    letter = b.json("dlq", "ls", "orders")[0]["id"]

    def there():
        return (b.lag(), b.json("dlq", "ls", "orders"),
                b.json("topic", "info", "orders")["messages"],
                [(q["name"], q["visible"], q["dead"])
                 for q in b.json("queue", "ls")])
    before = there()
    for words in ("topic rm orders", "topic trim orders --max-entries 0 --force",
                  "group rm orders g", "group seek orders g --to start",
                  "group seek orders g --to end", f"dlq rm orders {letter}",
                  "dlq rm orders --all", "dlq replay orders --all",
                  "queue purge jobs", "queue purge dead --dead",
                  "queue rm jobs", "context rm old"):
        refused(b.run(*words.split(), stdin=b"y\n"), 64, "not confirmed",
                "hint: --yes")
        for key, code in (("n\r", 1), ("\r", 1), (CTRL_C, 130)):
            text, got = b.screen(*words.split(), type=[("? [y/N] ", key)])
            equal((words, got), (words, code))
        equal((words, there()), (words, before))
    exits(b.home.run("context", "show", "old"), 0)


# ---- for people, and for programs -------------------------------------------

def times_and_sizes_are_for_people_on_a_terminal_alone(b):
    b.topic()
    b.good("topic", "alter", "orders", "--max-age", "36h", "-q")
    b.good("queue", "create", "jobs", "-q", "--visibility", "13m",
           "--ttl", "7d", "--max-size", "2097152")
    text, code = b.screen("queue", "stats", "jobs")
    equal(code, 0)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in ("visibility 13m", "ttl 7d", "dedup 5m", "max_size 2.0 MiB"):
        assert line in lines, (line, text)
    assert "_ms" not in text, text
    p = b.json("queue", "stats", "jobs")
    equal((p["visibility_ms"], p["ttl_ms"], p["max_size"]),
          (780000, 604800000, 2097152))
    p = b.good("queue", "stats", "jobs", "--columns", "ttl,visibility_ms").out
    equal(p, "ttl_ms\tvisibility_ms\n604800000\t780000\n")
    text, _ = b.screen("topic", "info", "orders")
    assert "max_age       1d 12h" in text, text
    assert "abandoned_ms  7d" in text and "large_body    64.0 KiB" in text, text
    b.good("queue", "send", "jobs", "m", "-q")
    text, _ = b.screen("queue", "ls")
    assert re.search(r"oldest\r\n.* \d+(ms|(\.\d)?s)\r\n$", text), text


def every_table_has_a_heading(b):
    some_of_each(b)
    b.good("queue", "send", "jobs", "m", "-q")
    for words, heading in {**LOOKS, "topic tail orders": "partition position",
                           "queue peek jobs": "id receives body",
                           "consume orders -g k --count 1": "position key",
                           "queue receive jobs": "receipt\r\n  body"}.items():
        text, code = b.screen(*words.split())
        equal((words, code), (words, 0))
        assert heading in text, (words, text)
        equal((words, "(none)" in text),
              (words, words.startswith(("group members", "group pending"))))
        if words.startswith(("topic tail", "queue peek")):
            assert heading not in b.screen(*words.split(), "--no-headers")[0]
            assert heading not in b.screen(*words.split(), "--format", "%v")[0]


def a_long_body_is_shortened_on_a_terminal_and_whole_in_a_pipe(b):
    body = b"begin" + "\u00e4".encode() * 1048576
    b.topic()
    b.good("queue", "create", "jobs", "-q", "--max-size", "4000000")
    for noun, name, more in (("topic", "orders", ["--max-size", "4000000"]),
                             ("queue", "jobs", [])):
        b.good(noun, "send", name, "-q", "-f", "-", *more, stdin=body)
        show = (["topic", "tail", name] if noun == "topic" else
                ["queue", "peek", name])
        text, code = b.screen(*show)
        equal(code, 0)
        assert "begin\u00e4" in text and len(text) < 4096, len(text)
        assert "\u00e4... (2.0 MiB more; whole in a pipe)" in text, text[-200:]
        assert len(b.screen(*show, "--raw")[0].encode()) > len(body)
        equal(b.good(*show, "--raw").stdout, body + b"\n")
        assert body in b.good(*show).stdout
    exits(b.consume("-q", "--", "sh", "-c", "exit 65", n=1), 0)
    letter = b.json("dlq", "ls", "orders")[0]["id"]
    text, _ = b.screen("dlq", "show", "orders", letter)
    assert "MiB more; whole in a pipe)" in text and len(text) < 9000, len(text)
    equal(b.good("dlq", "show", "orders", letter, "--raw").stdout, body)
    # At the bound, and one beyond.
    for n, cut in ((2048, False), (2049, True)):
        b.good("topic", "send", "orders", "-q", "x" * n)
        text, _ = b.screen("topic", "tail", "orders", "-n", "1")
        equal(("more; whole" in text, text.count("x")), (cut, 2048))


if __name__ == "__main__":
    sys.exit(main(__name__))
