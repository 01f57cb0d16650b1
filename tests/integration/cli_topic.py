"""Topics, groups and consume by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_topic.py PATH_TO_LEAT [PATTERN]
"""

import base64
import collections
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time

from cli import (LEAT, PATTERN, Home, Server, alive, equal, exits,
                 on_terminal, wait_for)

SECONDS = 30    # for what must come about, however busy the machine


class Redis(Server):
    """The server, and commands from the side."""

    def call(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(SECONDS)
            s.connect(self.socket)
            text = b"*%d\r\n" % len(words)
            for w in words:
                b = w if isinstance(w, bytes) else str(w).encode()
                text += b"$%d\r\n%s\r\n" % (len(b), b)
            s.sendall(text)
            return self.reply(s.makefile("rb"))

    def reply(self, f):
        line = f.readline()
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-":
            return line[:-2].decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else f.read(int(rest) + 2)[:-2]
        return [self.reply(f) for _ in range(int(rest))]


class Bench:
    """What a test works with: a user, a server, files."""

    def __init__(self, server):
        self.home = Home()
        self.server = server
        self.started = []
        server.call("FLUSHALL")

    def run(self, *args, **kw):
        kw["env"] = {"LEAT_URL": self.server.url, **kw.get("env", {})}
        return self.home.run(*args, **kw)

    def good(self, *args, **kw):
        p = self.run(*args, **kw)
        exits(p, 0)
        return p

    def json(self, *args):
        return json.loads(self.good(*args, "-o", "json").out)

    def start(self, *args, env=None, **kw):
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
              "stderr": subprocess.PIPE, **kw}
        p = subprocess.Popen([LEAT, *args], env=self.home.env(
            LEAT_URL=self.server.url, **(env or {})), **kw)
        self.started.append(p)
        return p

    def path(self, name):
        return os.path.join(self.home.tmp, name)

    def lines(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def script(self, text, name="program"):
        """A program; $T is its directory."""
        path = self.path(name)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\nT='{self.home.tmp}'\n{text}\n")
        os.chmod(path, 0o700)
        return path

    def topic(self, name="orders", partitions=1, lines=0):
        self.good("topic", "create", name, "-n", str(partitions))
        if lines:
            self.send(name, [f"m{i}" for i in range(lines)])

    def send(self, name, lines, *options):
        return self.good("topic", "send", name, *options,
                         stdin="".join(x + "\n" for x in lines).encode())

    def tail(self, name, *options):
        p = self.good("topic", "tail", name, "--from", "start", "-o",
                      "ndjson", *options)
        return [json.loads(x) for x in p.out.splitlines()]

    def consume(self, *options, n=0, group="g", topic="orders", **kw):
        """Until n messages are through; 0: until nothing comes."""
        end = ["--count", str(n)] if n else ["--until-idle", "1s"]
        return self.run("consume", topic, "-g", group, *end, *options, **kw)

    def dead(self, topic="orders", partition=0):
        """The dead letters of a partition, by the names of their fields."""
        rows = self.server.call("XRANGE", f"leat:{{{topic}/{partition}}}:dlq",
                                "-", "+")
        rows = [[x.decode(errors="replace") for x in r[1]] for r in rows]
        return [dict(zip(r[::2], r[1::2])) for r in rows]

    def lag(self, group="g", topic="orders"):
        return self.json("group", "info", topic, group)["lag"]

    def answer(self, question, word, *args):
        """On a terminal, to this question; the exit code."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(LEAT, [LEAT, *args],
                      self.home.env(LEAT_URL=self.server.url))
        text = b""
        while question.encode() not in text:
            text += os.read(fd, 4096)    # ends by an error if it ends
        os.write(fd, word.encode() + b"\n")
        try:
            while os.read(fd, 4096):
                pass
        except OSError:
            pass
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.home.close()


def ended(p, code, seconds=SECONDS):
    out, err = p.communicate(timeout=seconds)
    assert p.returncode == code, (p.returncode, out, err)
    return (out or b"").decode(), err.decode()


def counts(text):
    """Of the last line of consume: acknowledged, to be tried again, dead
    letters, no message."""
    m = re.search(r"(\d+) attempts: (\d+) acknowledged, (\d+) to be tried "
                  r"again, (\d+) dead letters, (\d+) no message", text)
    assert m, text
    attempts, *rest = (int(x) for x in m.groups())
    equal(attempts, sum(rest[:3]))
    return tuple(rest)


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
        out, err = ended(p, 75)
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
    assert "no message" in lines[0] and "name=value" in lines[0], lines
    p = b.good("topic", "tail", "orders", "--raw")
    equal(p.out, "good\n")
    assert "no message" in p.err


def nothing_reaches_a_terminal_that_it_could_obey(b):
    b.topic()
    b.send("orders", ["\x1b[31mred\x07\u202e"], "-k", "\x1b]0;t\x07")
    text, code = on_terminal(b.home, "topic", "tail", "orders",
                             env={"LEAT_URL": b.server.url})
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


# ---- groups -------------------------------------------------------------

def a_group_is_described_while_it_works(b):
    b.topic(partitions=4, lines=8)
    equal(b.json("group", "ls", "orders"), [])
    p = b.start("consume", "orders", "-g", "g", "--name", "alice", "-q")
    wait_for(lambda: b.run("group", "info", "orders", "g").returncode == 0
             and b.json("group", "info", "orders", "g")["owned"] == 4
             and b.lag() == 0, SECONDS)
    equal(b.json("group", "ls", "orders"),
          [{"group": "g", "members": 1, "owned": 4, "partitions": 4,
            "lag": 0}])
    member, = b.json("group", "members", "orders", "g")
    equal((member["name"], member["partitions"], member["leaving"]),
          ("alice", 4, False))
    assert re.fullmatch("[0-9a-f]{32}", member["nonce"]), member
    assert member["born"].startswith("20"), member
    rows = json.loads(b.good("group", "lag", "orders", "g", "-o", "json",
                             "--columns", "partition,lag,owner,epoch,nonce,"
                             "cursor,last,mark").out)
    for i, r in enumerate(rows):
        equal((r["partition"], r["lag"], r["owner"], r["nonce"]),
              (i, 0, "alice", member["nonce"]))
        assert r["epoch"] > 0
        equal((r["cursor"], r["mark"]), (r["last"], r["last"]))
    p.send_signal(signal.SIGTERM)
    ended(p, 0)
    equal(b.json("group", "members", "orders", "g"), [])
    b.send("orders", ["x"] * 7)
    equal(b.lag(), 7)
    equal(sum(r["lag"] for r in b.json("group", "lag", "orders", "g")), 7)
    p = b.run("group", "lag", "orders", "gg")
    exits(p, 1)
    assert "no group 'gg'" in p.err and "leat group ls" in p.err, p.err


def lag_is_watched(b):
    b.topic(lines=2)
    exits(b.consume("-q", n=2), 0)
    p = b.start("group", "lag", "orders", "g", "--watch", "-i", "50ms", "-o",
                "ndjson")
    equal(json.loads(p.stdout.readline())["lag"], 0)
    b.send("orders", ["x", "y", "z"])
    wait_for(lambda: json.loads(p.stdout.readline())["lag"] == 3, SECONDS)
    p.send_signal(signal.SIGINT)
    ended(p, 0)


# ---- consuming ----------------------------------------------------------

def messages_are_printed_and_acknowledged(b):
    b.topic(partitions=2, lines=20)
    p = b.consume("--format", "%p %k %v\\n", n=20)
    exits(p, 0)
    equal(sorted(x.split()[1] for x in p.out.splitlines()),
          sorted(f"m{i}" for i in range(20)))
    equal(counts(p.err), (20, 0, 0, 0))
    equal(b.lag(), 0)
    p = b.consume("-o", "json")
    equal(json.loads(p.out), [])
    b.send("orders", ["more"])
    equal([m["data"] for m in json.loads(b.consume("-o", "json",
                                                           n=1).out)],
          ["more"])


def a_program_gets_body_and_attributes(b):
    b.topic(partitions=2)
    program = b.script('cat >"$T/body"; env >"$T/env"; echo "$@" >"$T/args";'
                       'ls -l /proc/self/fd >"$T/fds"')
    b.good("topic", "send", "orders", "-f", "-", "-p", "1", "-k", "the key",
           "-t", "the.type", "-H", "Trace-Parent:00-1", "-H", "trace_parent:2",
           "-H", "empty:", "-H", "originalMessageId:7-0",
           stdin=b"first\nsecond\xff\0")
    read, write = os.pipe()     # somebody else's, which leat was given
    p = b.consume("--exec", program, "--format", "-q", "a b", n=1,
                  env={"LEAT_KEY": "old", "LEAT_HEADER_X": "old",
                       "LEAT_REPLAYED_FROM": "old"},
                  pass_fds=(read, write))
    os.close(read)
    os.close(write)
    exits(p, 0)
    with open(b.path("body"), "rb") as f:
        equal(f.read(), b"first\nsecond\xff\0")
    equal(b.lines("args"), ["--format -q a b"])
    env = dict(x.split("=", 1) for x in b.lines("env") if "=" in x)
    m, = b.tail("orders")
    equal({k: v for k, v in env.items() if k.startswith("LEAT_")
           and k not in ("LEAT_URL", "LEAT_REDIS_SERVER", "LEAT_FENCE")},
          {"LEAT_TOPIC": "orders", "LEAT_PARTITION": "1",
           "LEAT_POSITION": m["position"], "LEAT_ID": m["id"],
           "LEAT_KEY": "the key", "LEAT_TYPE": "the.type",
           "LEAT_ATTEMPT": "1", "LEAT_HEADER_TRACE_PARENT": "00-1",
           "LEAT_ORIGINAL_ID": "7-0", "LEAT_HEADER_ORIGINALMESSAGEID": "7-0"})
    assert int(env["LEAT_FENCE"]) > 0
    # 0, 1, 2 and the directory that ls reads.
    equal(len([x for x in b.lines("fds") if "->" in x]), 4)
    equal(counts(p.err), (1, 0, 0, 0))


def a_program_gets_its_signals(b):
    """None is blocked, and SIGPIPE is not ignored; a shell would tidy up."""
    b.topic(lines=1)
    p = b.consume("-e", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status",
                  n=1)
    exits(p, 0)
    blocked, ignored = [int(x.split()[1], 16) for x in p.out.splitlines()]
    equal((blocked, ignored >> signal.SIGPIPE - 1 & 1), (0, 0))


def exit_codes_are_verdicts(b):
    b.topic()
    b.send("orders", ["good", "later", "bad", "shot"])
    program = b.script(
        'read x; echo "$x $LEAT_ATTEMPT" >>"$T/log"\n'
        'case $x$LEAT_ATTEMPT in later1) exit 75 ;; bad*) exit 65 ;; '
        'shot1) kill -9 $$ ;; esac')
    p = b.consume("--backoff", "fixed:10ms", "--", program, n=4)
    exits(p, 0)
    equal(b.lines("log"), ["good 1", "later 1", "later 2", "bad 1", "shot 1",
                           "shot 2"])
    equal(counts(p.err), (3, 2, 1, 0))
    assert "attempt 1: exit status 75" in p.err
    assert "attempt 1: exit status 65" in p.err
    assert "attempt 1: killed by signal 9" in p.err
    equal([(m["n"], m["le"]) for m in b.dead()], [("1", "exit status 65")])
    equal(b.lag(), 0)
    equal(len(b.tail("orders")), 4)


def a_message_that_always_fails_is_a_dead_letter(b):
    b.topic()
    b.send("orders", ["good", "bad", "fine"])
    program = b.script(
        'read x; echo "$x $LEAT_ATTEMPT" >>"$T/log"; [ "$x" != bad ] && exit\n'
        'echo "looking" >&2; printf "no \\033[1mcustomer\\n\\n" >&2; exit 3')
    p = b.consume("--max-attempts", "3", "--backoff",
                  "exponential:5ms..10ms,nojitter", "-e", program, n=3)
    exits(p, 0)
    equal(b.lines("log"), ["good 1", "bad 1", "bad 2", "bad 3", "fine 1"])
    equal(counts(p.err), (2, 2, 1, 0))
    equal(p.err.count("no \x1b[1mcustomer\n"), 3)   # its stderr is ours
    assert "a dead letter after 3 attempts; leat dlq ls orders" in p.err
    dead, = b.dead()
    equal((dead["g"], dead["n"], dead["f"]), ("g", "3", "3"))
    equal(dead["le"], "exit status 3: no \\x1b[1mcustomer")
    equal(b.lag(), 0)


def failures_are_for_good_where_that_is_wished(b):
    b.topic()
    b.send("orders", ["once", "later", "long"])
    program = b.script(
        'read x; echo "$x $LEAT_ATTEMPT" >>"$T/log"\n'
        'case $x$LEAT_ATTEMPT in once*) exit 3 ;; later1) exit 75 ;; '
        'long*) head -c 100000 /dev/zero | tr "\\0" "\\346" >&2; exit 1 ;; '
        'esac')
    p = b.consume("--on-failure", "dead", "--backoff", "fixed:10ms", "-e",
                  program, n=3)
    exits(p, 0)
    equal(b.lines("log"), ["once 1", "later 1", "later 2", "long 1"])
    equal(counts(p.err), (1, 1, 2, 0))
    once, long = b.dead()
    equal(once["le"], "exit status 3")
    equal(long["le"][:23], "exit status 1: \\xe6\\xe6")
    assert 240 < len(long["le"]) <= 255, long["le"]


def a_program_that_cannot_be_started_costs_no_attempt(b):
    b.topic(lines=3)
    text = 'read x; echo "$x $LEAT_ATTEMPT" >>"$T/log"; [ $x = m0 ] && rm "$0"'
    p = b.start("consume", "orders", "-g", "g", "-n", "3", "--max-attempts",
                "1", "-e", b.script(text + "; exit 0"))
    said = b""
    while said.count(b"given back") < 2:
        said += os.read(p.stderr.fileno(), 4096)
        assert p.poll() is None, said
    b.script('read x; echo "$x $LEAT_ATTEMPT" >>"$T/log"')
    err = said.decode() + ended(p, 0)[1]
    equal(b.lines("log"), ["m0 1", "m1 1", "m2 1"])
    equal(counts(err), (3, 0, 0, 0))


def nonsense_about_retries_is_refused(b):
    b.topic(lines=1)
    for option, text in (("--backoff", "soon"), ("--backoff", "fixed:"),
                         ("--backoff", "fixed:1s..2s"),
                         ("--backoff", "exponential:5s..1s"),
                         ("--backoff", "exponential:1s,jitter"),
                         ("--backoff", "linear:1s"), ("--backoff", "fixed:0"),
                         ("--backoff", "x" * 100),
                         ("--max-attempts", "-1"),
                         ("--max-attempts", "99999999999"),
                         ("--on-failure", "ignore"), ("--order", "all")):
        p = b.run("consume", "orders", "-g", "g", option, text)
        exits(p, 64)
        assert option in p.err, p.err
    exits(b.run("group", "info", "orders", "g"), 1)


def a_body_that_is_not_read_is_no_error(b):
    b.topic()
    for _ in range(3):
        b.good("topic", "send", "orders", "-f", "-", stdin=b"x" * 1000000)
    p = b.consume("--", "true", n=3)
    exits(p, 0)
    equal(counts(p.err), (3, 0, 0, 0))


def idleness_ends_it(b):
    b.topic(partitions=2, lines=5)
    p = b.run("consume", "orders", "-g", "g", "--until-idle", "4s", "--raw")
    exits(p, 0)
    equal(sorted(p.out.split()), [f"m{i}" for i in range(5)])


def the_count_ends_it(b):
    b.topic(partitions=2, lines=30)
    program = b.script('echo x >>"$T/log"; sleep 0.01')
    p = b.run("consume", "orders", "-g", "g", "-n", "7", "-c", "3", "--",
              program, timeout=SECONDS)
    exits(p, 0)
    equal(counts(p.err)[0], 7)
    equal(len(b.lines("log")), 7)
    equal(b.lag(), 23)


def a_program_that_runs_too_long_is_killed_with_its_children(b):
    b.topic()
    b.send("orders", ["x"])
    # However slow the machine, each of the first two gets to its child.
    program = b.script(
        'echo $LEAT_ATTEMPT >>"$T/log"\n'
        'case $(cat "$T/child" 2>/dev/null | wc -l) in\n'
        '0) trap "" TERM; sleep 1000 & echo $! >>"$T/child"; wait ;;\n'
        '1) (trap "" TERM; exec sleep 1000) & echo $! >>"$T/child"; wait ;;\n'
        'esac')
    p = b.consume("--max-time", "1s", "--backoff", "fixed:10ms",
                  "--max-attempts", "0", "--", program, n=1, timeout=120)
    exits(p, 0)
    attempts = b.lines("log")
    equal(attempts, [str(i + 1) for i in range(len(attempts))])
    equal(counts(p.err), (1, len(attempts) - 1, 0, 0))
    equal(len(b.lines("child")), 2)
    for child in b.lines("child"):
        wait_for(lambda pid=int(child): not alive(pid), SECONDS)


def a_signal_lets_programs_finish(b):
    b.topic(lines=3)
    program = b.script('echo $LEAT_POSITION >>"$T/begun"\n'
                       'while [ ! -e "$T/go" ]; do sleep 0.02; done\n'
                       'echo x >>"$T/done"')
    p = b.start("consume", "orders", "-g", "g", "--", program)
    wait_for(lambda: b.lines("begun"), SECONDS)
    p.send_signal(signal.SIGTERM)
    with open(b.path("go"), "w"):
        pass
    err = ended(p, 0)[1]
    done = len(b.lines("done"))
    equal(len(b.lines("begun")), done)
    equal(counts(err), (done, 0, 0, 0))
    equal(b.lag(), 3 - done)    # the signal may come between two
    if done < 3:
        exits(b.consume("--", program, n=3 - done), 0)
    equal(len(b.lines("done")), 3)


def a_program_that_does_not_end_in_time_is_killed(b):
    b.topic(lines=1)
    program = b.script('echo $$ >>"$T/begun"; exec sleep 1000')
    p = b.start("consume", "orders", "-g", "g", "--drain", "100ms", "--",
                program)
    wait_for(lambda: b.lines("begun"), SECONDS)
    p.send_signal(signal.SIGINT)
    err = ended(p, 75)[1]
    assert "--drain" in err, err
    wait_for(lambda: not alive(int(b.lines("begun")[0])), SECONDS)
    # The attempt counts, and the message is somebody else's at once.
    p = b.consume("-e", b.script('echo "$LEAT_ATTEMPT" >>"$T/next"', "other"),
                  n=1)
    exits(p, 0)
    equal(b.lines("next"), ["2"])


def a_second_signal_ends_at_once(b):
    b.topic(lines=1)
    program = b.script('trap "" TERM; echo $$ >>"$T/begun"; sleep 1000')
    p = b.start("consume", "orders", "-g", "g", "--", program)
    wait_for(lambda: b.lines("begun"), SECONDS)
    p.send_signal(signal.SIGTERM)

    def gone():
        p.send_signal(signal.SIGINT)
        return p.poll() is not None
    wait_for(gone, SECONDS)
    assert p.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    wait_for(lambda: not alive(int(b.lines("begun")[0])), SECONDS)


def two_consumers_share_the_partitions(b):
    b.topic(partitions=4)
    program = b.script('read x; echo "$WHO $LEAT_PARTITION $x" >>"$T/log"')
    both = [b.start("consume", "orders", "-g", "g", "--name", who, "--",
                    program, env={"WHO": who}) for who in ("a", "b")]

    def balanced():
        p = b.run("group", "members", "orders", "g", "-o", "json")
        return p.returncode == 0 and \
            [m["partitions"] for m in json.loads(p.out)] == [2, 2]
    wait_for(balanced, 60)
    for p in range(4):
        b.send("orders", [f"{p}.{i}" for i in range(5)], "-p", str(p))
    wait_for(lambda: len(b.lines("log")) >= 20 and b.lag() == 0, 60)
    for p in both:
        p.send_signal(signal.SIGTERM)
    for p in both:
        ended(p, 0)
    seen = [x.split() for x in b.lines("log")]
    equal(sorted(x[2] for x in seen),
          sorted(f"{p}.{i}" for p in range(4) for i in range(5)))
    equal({who: len({x[1] for x in seen if x[0] == who})
           for who in ("a", "b")}, {"a": 2, "b": 2})
    for p in range(4):
        equal([x[2] for x in seen if x[1] == str(p)],
              [f"{p}.{i}" for i in range(5)])


def concurrency_keeps_the_order_of_keys(b):
    b.topic(partitions=2)
    b.send("orders", [f"k{i % 5},{i}" for i in range(60)], "-K", ",")
    program = b.script('read x; echo "$LEAT_KEY $x" >>"$T/log"')
    p = b.consume("-c", "6", "--order", "key", "-e", program, n=60)
    exits(p, 0)
    equal(counts(p.err), (60, 0, 0, 0))
    order = collections.defaultdict(list)
    for line in b.lines("log"):
        k, x = line.split()
        order[k].append(int(x))
    equal(sorted(len(v) for v in order.values()), [12] * 5)
    for v in order.values():
        equal(v, sorted(v))


def what_is_no_message_is_rejected_and_stays(b):
    b.topic()
    b.send("orders", ["one"])
    b.server.call("XADD", "leat:{orders/0}:log", "*", "foreign", "field")
    b.server.call("XADD", "leat:{orders/0}:log", "*", "a", b"\x01garbage")
    b.send("orders", ["two"])
    program = b.script('read x; echo "$x" >>"$T/log"')
    p = b.consume("-e", program, n=2)
    exits(p, 0)
    equal(b.lines("log"), ["one", "two"])
    equal(counts(p.err), (2, 0, 0, 2))
    assert "leat topic tail orders shows why" in p.err, p.err
    equal(b.lag(), 0)
    equal(b.server.call("XLEN", "leat:{orders/0}:log"), 4)
    p = b.consume("-o", "ndjson", group="other", n=2)
    exits(p, 0)
    equal([json.loads(x)["data"] for x in p.out.splitlines()], ["one", "two"])
    equal(counts(p.err), (2, 0, 0, 2))
    equal(["error" in m for m in b.tail("orders")],
          [False, True, True, False])


def a_legacy_stream_is_consumed_as_it_is(b):
    b.send("new", ["x"], "--auto-create", "--codec", "ce", "-t", "t")
    entry = b.server.call("XRANGE", "leat:{new/0}:log", "-", "+")[0][1]
    b.server.call("XADD", "bare", "*", *entry)
    p = b.consume("--codec", "ce", "--format", "%v\\n", topic="bare", n=1)
    exits(p, 0)
    equal(p.out, "x\n")
    equal(b.lag(topic="bare"), 0)


def what_cannot_be_printed_is_not_acknowledged(b):
    b.topic(lines=5)
    with open("/dev/full", "w") as full:
        p = b.start("consume", "orders", "-g", "g", stdout=full)
        ended(p, 74)
    equal(b.lag(), 5)


def a_new_group_begins_where_it_is_told(b):
    b.topic(lines=3)
    exits(b.consume("--from", "end", "-q", group="end"), 0)
    equal(b.lag("end"), 0)
    b.send("orders", ["later"])
    equal(b.consume("--from", "start", "--raw", group="end", n=1).out,
          "later\n")
    equal(b.consume("--from", "10m", "--raw", group="ago", n=4).out,
          "m0\nm1\nm2\nlater\n")


def a_leat_inside_a_program_does_not_take_its_message_for_options(b):
    b.topic(partitions=4)
    b.topic("out", partitions=1)
    b.send("orders", ["x"], "-p", "3", "-k", "key", "-t", "type")
    p = b.consume("-e", LEAT, "topic", "send", "out", "-q", n=1)
    exits(p, 0)
    m, = b.tail("out")
    equal((m["data"], m["key"], m["type"], m["partition"]),
          ("x", None, None, 0))


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


# ---- running ------------------------------------------------------------

def tests():
    return [f for name, f in globals().items()
            if callable(f) and getattr(f, "__code__", None)
            and f.__code__.co_varnames[:1] == ("b",)
            and f.__code__.co_argcount == 1 and PATTERN in name]


def told(e, path=__file__):
    """The line of ours where it went wrong."""
    where = e.__traceback__
    line = where.tb_lineno
    while where:
        if where.tb_frame.f_code.co_filename == path:
            line = where.tb_lineno
        where = where.tb_next
    text = str(e).replace("\n", "\n# ")
    return f"# line {line}: {type(e).__name__}: {text}"


def main():
    # A job of a script starts with SIGINT ignored, and so would leat.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    server = Redis(None, "--appendonly", "yes")
    print(f"1..{len(tests())}")
    bad = 0
    for i, test in enumerate(tests(), 1):
        bench = Bench(server)
        try:
            test(bench)
            print(f"ok {i} {test.__name__}")
        except Exception as e:  # each test reports its own failure
            bad += 1
            print(f"not ok {i} {test.__name__}\n{told(e)}")
        finally:
            bench.close()
        sys.stdout.flush()
    server.close()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
