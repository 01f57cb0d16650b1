"""Topics by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_topic.py PATH_TO_LEAT [PATTERN]
"""

import base64
import collections
import json
import os
import re
import signal
import subprocess
import sys
import time

from cli_bench import ended, main
from cli_help import LEAT, SECONDS, equal, exits, on_terminal, wait_for


# ---- topics -------------------------------------------------------------

def topics_are_made_listed_and_described(b):
    p = b.good("topic", "create", "orders", "-n", "4", "--partitioner", "java")
    assert "4 partitions" in p.err
    b.good("topic", "create", "a.b_c-1")
    equal([(t["name"], t["partitions"], t["messages"], t["groups"])
           for t in b.json("topic", "ls")],
          [("a.b_c-1", 1, 0, 0), ("orders", 4, 0, 0)])
    b.send("orders", ["x", "y", "z"])
    info = b.json("topic", "info", "orders")
    equal((info["name"], info["partitions"], info["partitioner"],
           info["legacy"], info["messages"], info["groups"]),
          ("orders", 4, "java", False, 3, 0))
    assert info["created"].startswith("20") and info["updated"]
    rows = b.json("topic", "info", "orders", "-p")
    equal([r["partition"] for r in rows], [0, 1, 2, 3])
    equal(sum(r["messages"] for r in rows), 3)
    for r in rows:
        assert (r["first"] is None) == (r["messages"] == 0), r
    table = b.good("topic", "ls", "-o", "table").out.splitlines()
    equal([len(x) for x in table], [len(table[0])] * 3)
    equal(b.good("topic", "create", "quiet", "-q").err, "")


def a_topic_that_is_there_is_not_made_again(b):
    b.topic(partitions=2)
    p = b.run("topic", "create", "orders", "-n", "3")
    exits(p, 1)
    assert "already" in p.err and "hint:" in p.err
    equal(b.json("topic", "info", "orders")["partitions"], 2)


def a_stream_of_another_program_is_a_legacy_topic(b):
    b.server.call("XADD", "bare", "1-1", "f", "v")
    info = b.json("topic", "info", "bare")
    equal((info["legacy"], info["partitions"], info["messages"],
           info["created"]), (True, 1, 1, None))
    equal(b.json("topic", "ls"), [])


def names_that_cannot_be_are_refused(b):
    for name in ("a b", "a{b}", "", "x" * 201, "a/b", "\x1b[31m"):
        for verb in ("create", "info", "send", "tail"):
            p = b.run("topic", verb, name, stdin=b"")
            exits(p, 64)
            assert p.err.startswith("leat: "), p.err
            assert "\x1b" not in p.err
    equal(b.server.call("DBSIZE"), 0)


def an_unknown_topic_is_told_with_a_hint(b):
    b.topic("orders")
    for args in (["topic", "info", "ordres"], ["topic", "tail", "ordres"],
                 ["topic", "send", "ordres"], ["group", "ls", "ordres"],
                 ["group", "info", "ordres", "g"],
                 ["topic", "rm", "ordres", "--yes"],
                 ["consume", "ordres", "-g", "g"]):
        p = b.run(*args, stdin=b"x\n")
        exits(p, 1)
        equal(p.out, "")
        assert p.err.startswith("leat: no topic 'ordres'\n"
                                "hint: did you mean 'orders'?\n"), p.err
    p = b.run("topic", "info", "something-else")
    assert "leat topic ls" in p.err, p.err
    equal(b.server.call("EXISTS", "leat:topic:ordres"), 0)


def bad_words_are_usage_errors(b):
    b.topic(partitions=2)
    for args in (["topic", "create", "x", "-n", "0"],
                 ["topic", "create", "x", "-n", "16385"],
                 ["topic", "create", "x", "--partitioner", "magic"],
                 ["topic", "send", "orders", "-p", "2"],
                 ["topic", "send", "orders", "-p", "-1"],
                 ["topic", "send", "orders", "-n", "2"],
                 ["topic", "send", "orders", "-H", "nocolon"],
                 ["topic", "send", "orders", "-k", "a", "-K", ","],
                 ["topic", "tail", "orders", "-p", "2"],
                 ["topic", "tail", "orders", "--from", "yesterday"],
                 ["topic", "tail", "orders", "--from", "5x"],
                 ["topic", "tail", "orders", "--format", "%z"],
                 ["topic", "tail", "orders", "--format", "%v", "-o", "json"],
                 ["consume", "orders"],
                 ["consume", "orders", "-g", "a b"],
                 ["consume", "orders", "-g", "g", "--from", "nowhere"],
                 ["consume", "orders", "-g", "g", "--max-time", "soon"],
                 ["consume", "orders", "-g", "g", "-c", "0"],
                 ["consume", "orders", "-g", "g", "-e", "/no/such/program"],
                 ["consume", "orders", "-g", "g", "-e", "no-such-program"],
                 ["group", "lag", "orders"]):
        p = b.run(*args, stdin=b"x\n", timeout=SECONDS)
        exits(p, 64)
        assert p.err.startswith("leat: "), p.err
    equal(b.json("topic", "info", "orders")["messages"], 0)
    equal(b.json("topic", "info", "orders")["groups"], 0)


def a_topic_is_removed_only_when_told_twice(b):
    b.topic(partitions=2, lines=3)
    exits(b.consume("-q", n=3), 0)
    p = b.run("topic", "rm", "orders", stdin=b"y\n")
    exits(p, 64)
    assert "3 messages and 1 group" in p.err and "--yes" in p.err, p.err
    equal(b.json("topic", "info", "orders")["messages"], 3)
    question = "remove topic orders with 3 messages and 1 group? [y/N]"
    equal(b.answer(question, "n", "topic", "rm", "orders"), 1)
    equal(b.json("topic", "info", "orders")["messages"], 3)
    b.topic("other")
    question = "remove topic other with 0 messages and 0 groups? [y/N]"
    equal(b.answer(question, "y", "topic", "rm", "other"), 0)
    exits(b.run("topic", "info", "other"), 1)
    b.good("topic", "rm", "orders", "--yes")
    exits(b.run("topic", "info", "orders"), 1)
    equal(b.server.call("KEYS", "*orders*"), [])
    exits(b.run("topic", "rm", "orders", "--yes"), 1)


def a_topic_is_removed_by_its_id_and_no_other(b):
    b.topic(lines=1)
    first = b.json("topic", "info", "orders")["id"]
    equal(len(first), 16)
    rm = ["topic", "rm", "orders", "--yes", "--id"]
    b.good(*rm, first)
    exits(b.run(*rm, first), 1)
    b.topic(lines=2)
    second = b.json("topic", "info", "orders")["id"]
    assert first != second, first
    for more in ((), ("--force",), ("--dry-run",)):
        p = b.run(*rm, first, *more)
        exits(p, 1)
        assert f"has the id '{second}', not '{first}'" in p.err, p.err
    equal(b.json("topic", "info", "orders")["messages"], 2)
    b.good(*rm, second)


def the_topic_that_the_question_was_about_is_removed(b):
    """Another one is made before it is answered."""
    def replace():
        b.good("topic", "rm", "orders", "--yes")
        b.topic(lines=2)

    b.topic(lines=1)
    equal(b.answer("remove topic orders with 1 message and 0 groups? [y/N]",
                   "y", "topic", "rm", "orders", before=replace), 1)
    equal(b.json("topic", "info", "orders")["messages"], 2)


def a_topic_whose_removal_was_cut_off_is_made_after_it_is_removed(b):
    b.topic(lines=1)
    b.server.call("HSET", "leat:topic:orders", "gone", 1)
    p = b.run("topic", "create", "orders")
    exits(p, 75)
    assert "remove it again" in p.err, p.err
    equal(b.json("topic", "info", "orders")["removing"], True)
    b.good("topic", "rm", "orders", "--yes")
    b.topic(lines=1)


# ---- sending ------------------------------------------------------------

def ten_thousand_lines_arrive_each_once(b):
    b.topic(partitions=4)
    p = b.send("orders", [f"line {i}" for i in range(10000)])
    assert "10000 persisted, 0 failed, 0 unknown" in p.err, p.err
    got = b.tail("orders")
    equal(sorted(m["data"] for m in got),
          sorted(f"line {i}" for i in range(10000)))
    equal(len({m["id"] for m in got}), 10000)
    equal(b.json("topic", "info", "orders")["messages"], 10000)


def every_line_is_a_message_byte_for_byte(b):
    b.topic()
    b.good("topic", "send", "orders", stdin=b"a\n\n b\tc\r\n\xff\x00\xfe\nlast")
    got = b.tail("orders")
    equal([m.get("data") for m in got], ["a", "", " b\tc\r", None, "last"])
    equal(base64.b64decode(got[3]["data_base64"]), b"\xff\x00\xfe")
    b.good("topic", "send", "orders", stdin=b"")
    equal(len(b.tail("orders")), 5)


def zero_bytes_end_messages_where_asked(b):
    b.topic()
    b.good("topic", "send", "orders", "-0", stdin=b"a\nb\0\0c")
    equal([m["data"] for m in b.tail("orders")], ["a\nb", "", "c"])


def a_file_is_one_message(b):
    b.topic()
    data = bytes(range(256)) * 400
    with open(b.path("f"), "wb") as f:
        f.write(data)
    b.good("topic", "send", "orders", "--file", b.path("f"), "-k", "cat")
    b.good("topic", "send", "orders", "--file", "-", stdin=b"one\ntwo\n")
    first, second = b.tail("orders")
    equal(base64.b64decode(first["data_base64"]), data)
    equal((first["key"], second["data"]), ("cat", "one\ntwo\n"))
    exits(b.run("topic", "send", "orders", "--file", b.path("none")), 74)
    raw = b.good("topic", "tail", "orders", "-n", "2", "--format", "%v").stdout
    equal(raw, data + b"one\ntwo\n")


def keys_choose_partitions(b):
    b.topic(partitions=4)
    b.send("orders", [f"k{i % 7}::{i}:x" for i in range(70)], "-K", "::")
    where = collections.defaultdict(set)
    order = collections.defaultdict(list)
    for m in b.tail("orders"):
        where[m["key"]].add(m["partition"])
        order[m["key"]].append(m["data"])
    equal(sorted(where), [f"k{i}" for i in range(7)])
    assert all(len(x) == 1 for x in where.values()), where
    for k, got in order.items():
        equal(got, [f"{i}:x" for i in range(70) if f"k{i % 7}" == k])
    b.send("orders", ["one", "two"], "--key", "k3")
    equal([m["partition"] for m in b.tail("orders")
           if m["data"] in ("one", "two")], [*where["k3"]] * 2)


def a_line_that_cannot_be_sent_is_named(b):
    b.topic()
    p = b.run("topic", "send", "orders", "-K", ",", stdin=b"a,1\nb,2\nc\nd,4\n")
    exits(p, 65)
    assert "line 3" in p.err and "2 persisted" in p.err, p.err
    equal([m["data"] for m in b.tail("orders")], ["1", "2"])
    p = b.run("topic", "send", "orders", "--max-size", "10",
              stdin=b"0123456789\n" + b"x" * 11 + b"\nafter\n")
    exits(p, 65)
    assert "line 2" in p.err and "10 bytes" in p.err, p.err
    equal([m["data"] for m in b.tail("orders")], ["1", "2", "0123456789"])
    p = b.run("topic", "send", "orders", stdin=b"x" * (3 << 20))
    exits(p, 65)
    assert "line 1" in p.err and "--max-size" in p.err, p.err
    p = b.run("topic", "send", "orders", "-f", LEAT, "--max-size", "1000")
    exits(p, 65)
    assert "leat: " + LEAT in p.err, p.err
    equal(len(b.tail("orders")), 3)


def headers_type_and_partition_are_given(b):
    b.topic(partitions=3)
    b.send("orders", ["x"], "-H", "a:1", "--header", "b: two:2", "-H", "a:",
           "-t", "order.placed", "--content-type", "text/plain", "-p", "2")
    m, = b.tail("orders", "-p", "2")
    equal(m["headers"], [{"name": "a", "value": "1"},
                         {"name": "b", "value": "two:2"},
                         {"name": "a", "value": None}])
    equal((m["type"], m["content_type"], m["partition"]),
          ("order.placed", "text/plain", 2))
    equal(b.tail("orders", "-p", "0"), [])


def a_delayed_message_comes_later(b):
    b.topic()
    b.send("orders", ["later"], "--delay", "1h")
    b.send("orders", ["soon"], "--delay", "100ms")
    b.send("orders", ["now"])
    equal(b.server.call("ZCARD", "leat:{orders/0}:later"), 2)
    p = b.good("consume", "orders", "-g", "g", "-n", "2", "--format", "%v\\n")
    equal(sorted(p.out.split()), ["now", "soon"])
    equal(b.server.call("ZCARD", "leat:{orders/0}:later"), 1)
    for bad in ("-1s", "soon", "999999999h"):
        p = b.run("topic", "send", "orders", "--delay", bad, stdin=b"x\n")
        exits(p, 64)
    exits(b.run("topic", "send", "orders", "--delay", "1s", "-p", "0",
                stdin=b"x\n"), 64)


def a_large_message_is_sent_shown_and_consumed(b):
    b.topic()
    big = "x" * 300000
    b.send("orders", [big, "small"])
    equal(b.server.call("HLEN", "leat:{orders/0}:bodies"), 1)
    equal([m["data"] for m in b.tail("orders")], [big, "small"])
    p = b.good("consume", "orders", "-g", "g", "-n", "2", "--format", "%v\\n")
    equal(p.out.split(), [big, "small"])


def other_codecs_are_read_as_well(b):
    b.topic()
    b.send("orders", ["one"], "--codec", "ce", "-t", "t", "-k", "k")
    b.send("orders", ["two"], "--codec", "ce-json", "-t", "t")
    b.send("orders", ["three"])
    equal([m["data"] for m in b.tail("orders")], ["one", "two", "three"])
    equal([m.get("data") for m in b.tail("orders", "--codec", "native")],
          [None, None, "three"])


def a_topic_is_made_while_sending_where_asked(b):
    b.send("fresh", ["x"], "--auto-create", "-n", "3")
    equal(b.json("topic", "info", "fresh")["partitions"], 3)
    b.send("fresh", ["y"], "--auto-create", "-n", "5")
    equal(b.json("topic", "info", "fresh")["partitions"], 3)


def the_outcome_is_told_as_asked(b):
    b.topic()
    p = b.good("topic", "produce", "orders", "-o", "json", stdin=b"a\nb\n")
    equal(json.loads(p.out), {"topic": "orders", "persisted": 2, "failed": 0,
                              "unknown": 0})
    equal(p.err, "")
    p = b.good("topic", "publish", "orders", "-q", stdin=b"a\n")
    equal((p.out, p.err), ("", ""))


def what_was_not_answered_is_unknown(b):
    b.topic()
    p = b.start("topic", "send", "orders", "--timeout", "3s",
                stdin=subprocess.PIPE)
    p.stdin.write(b"one\n")
    p.stdin.flush()
    wait_for(lambda: b.server.call("XLEN", "leat:{orders/0}:log") == 1,
             SECONDS)
    os.kill(b.server.process.pid, signal.SIGSTOP)
    try:
        p.stdin.write(b"two\nthree\n")
        p.stdin.flush()
        out, err = ended(p, 76)
    finally:
        os.kill(b.server.process.pid, signal.SIGCONT)
    m = re.search(r"1 persisted, (\d+) failed, (\d+) unknown", err)
    assert m and int(m[2]) >= 1 and int(m[1]) + int(m[2]) == 2, err


def a_server_that_is_away_is_said(b):
    for args in (["topic", "ls"], ["topic", "send", "x"],
                 ["consume", "x", "-g", "g"], ["group", "ls", "x"]):
        p = b.run(*args, "-u", "unix:///nowhere/s", "--timeout", "100ms",
                  stdin=b"")
        exits(p, 69)
        assert "hint:" in p.err, p.err


# ---- looking ------------------------------------------------------------

def tail_shows_the_last_ten(b):
    b.topic(partitions=3, lines=25)
    rows = b.good("topic", "tail", "orders").out.splitlines()
    equal(rows[0].split("\t"), ["partition", "position", "key", "body",
                                "error"])
    equal(len(rows), 11)
    newest = sorted(b.tail("orders"), key=lambda m: [
        int(x) for x in m["position"].split("-")])[-10:]
    assert {m["data"] for m in newest} <= {f"m{i}" for i in range(10, 25)}
    equal(len(b.good("topic", "tail", "orders", "-n", "4").out.splitlines()),
          5)
    equal(len(b.good("topic", "tail", "orders", "-n", "99").out.splitlines()),
          26)


def tail_begins_where_it_is_told(b):
    b.topic()
    for i in range(5):
        b.server.call("XADD", "leat:{orders/0}:log", f"{i + 1}-0", "f", str(i))
    b.send("orders", ["now"])

    def seen(*args):
        p = b.good("topic", "tail", "orders", *args, "-o", "json")
        return [m["position"] for m in json.loads(p.out)]
    equal(len(seen("--from", "start")), 6)
    equal(seen("--from", "end"), [])
    equal(seen("--from", "3-0", "-n", "2"), ["3-0", "4-0"])
    equal(len(seen("--from", "10m")), 1)
    equal(seen("--from", "start", "-n", "1"), ["1-0"])


def tail_follows(b):
    b.topic(partitions=2, lines=3)
    p = b.start("topic", "tail", "orders", "-f", "--format", "%v\\n")
    equal(sorted(p.stdout.readline().strip() for _ in range(3)),
          [b"m0", b"m1", b"m2"])
    for i in range(5):
        b.send("orders", [f"new {i}"])
        equal(p.stdout.readline(), b"new %d\n" % i)
    p.send_signal(signal.SIGTERM)
    ended(p, 128 + signal.SIGTERM)
    p = b.start("topic", "tail", "orders", "-f", "--from", "end", "-n", "1",
                "--raw")
    # It may begin after the first: send until it has one.
    wait_for(lambda: b.send("orders", ["again"]) and p.poll() is not None,
             SECONDS)
    equal(ended(p, 0)[0], "again\n")


def tail_waits_for_a_server_that_stands_still(b):
    b.topic(lines=1)
    p = b.start("topic", "tail", "orders", "-f", "--raw", "--timeout",
                "2s")
    equal(p.stdout.readline(), b"m0\n")
    os.kill(b.server.process.pid, signal.SIGSTOP)
    try:
        said = p.stderr.readline()
    finally:
        os.kill(b.server.process.pid, signal.SIGCONT)
    assert b"waiting for it" in said, said
    b.send("orders", ["after"])
    equal(p.stdout.readline(), b"after\n")
    p.send_signal(signal.SIGTERM)
    ended(p, 128 + signal.SIGTERM)


def a_format_says_what_is_printed(b):
    b.topic(partitions=2)
    b.send("orders", ["body"], "-p", "1", "-k", "K", "-t", "T", "-H", "a:1",
           "-H", "b:2")
    p = b.good("topic", "tail", "orders", "--utc", "--format",
               r"%t|%p|%i|%I|%k|%y|%d|%h|%n|%v|%%|\t|\\|\0|\n")
    m, = b.tail("orders")
    equal(p.stdout.decode(),
          f"orders|1|{m['position']}|{m['id']}|K|T|{m['time']}|a:1 b:2|4|"
          "body|%|\t|\\|\0|\n")


def what_is_no_message_is_shown_as_such(b):
    b.topic()
    b.server.call("XADD", "leat:{orders/0}:log", "*", "name", "value", "b",
                  b"\xff")
    b.send("orders", ["good"])
    bad, good = b.tail("orders")
    equal(good["data"], "good")
    assert bad["error"] and "data" not in bad
    equal(bad["fields"], [{"name": "name", "value": "value"},
                          {"name": "b", "value_base64": "/w=="}])
    rows = b.good("topic", "tail", "orders").out.splitlines()
    assert rows[1].split("\t")[4] and not rows[2].split("\t")[4], rows
    lines = b.good("topic", "tail", "orders", "-o", "table").out.splitlines()
    equal(lines[0], "partition position key body")
    assert "no message" in lines[1] and "name=value" in lines[1], lines
    p = b.good("topic", "tail", "orders", "--raw")
    equal(p.out, "good\n")
    assert "no message" in p.err


def nothing_reaches_a_terminal_that_it_could_obey(b):
    b.topic()
    b.send("orders", ["\x1b[31mred\x07\u202e"], "-k", "\x1b]0;t\x07")
    text, code = b.screen("topic", "tail", "orders")
    equal(code, 0)
    assert "\\x1b[31mred\\x07" in text and "\x1b" not in text, text
    text, _ = on_terminal(b.home, "topic", "tail", "orders", "--raw",
                          env={"LEAT_URL": b.server.url})
    assert "\x1b[31mred" in text, text


def a_reader_that_goes_away_ends_tail_in_silence(b):
    b.topic()
    b.send("orders", ["x" * 1000] * 1000)    # more than a pipe holds
    p = b.start("topic", "tail", "orders", "--from", "start")
    p.stdout.readline()
    p.stdout.close()
    p.wait(SECONDS)
    equal((p.returncode, p.stderr.read()), (128 + signal.SIGPIPE, b""))


# ---- completion ---------------------------------------------------------

def names_complete_as_the_server_knows_them(b):
    b.topic("orders", lines=1)
    b.topic("payments")
    exits(b.consume("-q", group="billing", n=1), 0)

    def offered(*words):
        # The budget may be too short on a busy machine.
        return wait_for(lambda: [x.split("\t")[0] for x in
                                 b.run("__complete", *words).out.splitlines()],
                        SECONDS)
    equal(offered("topic", "info", ""), ["orders", "payments"])
    equal(offered("topic", "send", "--key", "k", "p"), ["payments"])
    equal(offered("group", "lag", "orders", ""), ["billing"])
    equal(offered("consume", "orders", "-g", "b"), ["billing"])
    equal(offered("consume", "orders", "--group=b"), ["--group=billing"])
    equal(offered("consume", "orders", "-g", "x", "--exec", ""), [":files"])
    equal(offered("consume", "orders", "--", "cat", ""), [":files"])
    url = b.server.url
    equal([x.split("\t")[0] for x in wait_for(
        lambda: b.home.run("__complete", "-u", url, "topic", "tail",
                           "").out.splitlines(), SECONDS)],
        ["orders", "payments"])


def completion_waits_for_nobody(b):
    """A server that stands still, and a private one that does not run."""
    os.kill(b.server.process.pid, signal.SIGSTOP)
    try:
        start = time.monotonic()
        p = b.run("__complete", "topic", "info", "", timeout=60,
                  env={"LEAT_TIMEOUT": "60s"})
        assert time.monotonic() - start < SECONDS
    finally:
        os.kill(b.server.process.pid, signal.SIGCONT)
    equal((p.returncode, p.out), (0, ""))
    p = b.run("__complete", "-u", f"embedded://{b.path('none')}", "topic",
              "info", "")
    equal((p.returncode, p.out), (0, ""))
    assert not os.path.exists(b.path("none"))


if __name__ == "__main__":
    sys.exit(main(__name__))
