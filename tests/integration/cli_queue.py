"""Queues by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_queue.py PATH_TO_LEAT [PATTERN]
"""

import base64
import csv
import io
import json
import os
import pty
import signal
import subprocess
import sys

from cli_bench import Bench, main
from cli_help import SECONDS, equal, exits, on_terminal, wait_for


class Queues(Bench):
    """A bench with a queue "jobs"."""

    def __init__(self, server):
        super().__init__(server)
        self.call = server.call
        self.good("queue", "create", "jobs", "-r", "3", "-q")

    def q(self, *args, **kw):
        return self.run("queue", *args, **kw)

    def ok(self, *args, **kw):
        return self.good("queue", *args, **kw)

    def put(self, *bodies, queue="jobs", options=()):
        self.ok("send", queue, "-q", *options,
                stdin="".join(x + "\n" for x in bodies).encode())

    def take(self, n=1, *options, queue="jobs"):
        """Received messages, as JSON; [] where there are none."""
        p = self.q("receive", queue, "-n", str(n), "-o", "json", *options)
        assert p.returncode in (0, 1), (p.returncode, p.err)
        return json.loads(p.out)

    def bodies(self, queue="jobs", *options):
        p = self.ok("peek", queue, "-n", "1000", "-o", "json", *options)
        return [x["data"] for x in json.loads(p.out)]

    def stats(self, queue="jobs"):
        return self.json("queue", "stats", queue)

    def counts(self, queue="jobs"):
        s = self.stats(queue)
        return [s[k] for k in ("visible", "delayed", "in_flight", "dead")]

    def key(self, what, queue="jobs"):
        found = [k.decode() for k in self.call("KEYS", f"*:{queue}:{what}")]
        equal(len(found), 1)
        return found[0]

    def screen(self, *args, **env):
        return on_terminal(self.home, "queue", *args, "--color", "never",
                           env={"LEAT_URL": self.server.url, **env})

    def connected(self, name):
        """Is a client of that name in the middle of a call?"""
        return name in self.call("CLIENT", "LIST").decode()


def refused(p, code, *texts):
    """One clear error, and the right exit code."""
    exits(p, code)
    lines = p.err.splitlines()
    assert any(x.startswith("leat: ") for x in lines), p.err
    for t in texts:
        assert t in p.err, (t, p.err)


# ---- making and looking ---------------------------------------------------

def queues_are_made_listed_and_removed(b):
    p = b.ok("create", "moves", "--fifo", "--visibility", "1m", "--ttl", "1d",
             "--max-size", "1000", "--content-dedup", "--dedup-window", "1h",
             "--dead-queue", "jobs", "--durable-events")
    assert "queue moves created" in p.err, p.err
    s = b.stats("moves")
    equal({k: s[k] for k in ("visibility_ms", "ttl_ms", "max_size", "fifo",
                             "content_dedup", "dedup_ms", "dead_queue",
                             "durable_events", "max_receives", "delay_ms",
                             "oldest_ms")},
          {"visibility_ms": 60000, "ttl_ms": 86400000, "max_size": 1000,
           "fifo": True, "content_dedup": True, "dedup_ms": 3600000,
           "dead_queue": "jobs", "durable_events": True,
           "max_receives": 10, "delay_ms": None, "oldest_ms": None})
    b.ok("create", "patient", "-r", "0", "-q")
    equal(b.stats("patient")["max_receives"], None)
    b.ok("rm", "patient", "-y", "-q")
    refused(b.q("create", "jobs"), 1, "there is a queue 'jobs' already")
    rows = [x.split("\t") for x in b.ok("ls").out.splitlines()]
    equal(rows[0], ["name", "visible", "delayed", "in_flight", "dead",
                    "oldest_ms"])
    equal([r[0] for r in rows[1:]], ["jobs", "moves"])
    equal([x["name"] for x in b.json("queue", "ls")], ["jobs", "moves"])
    text, code = b.screen("ls")
    equal(code, 0)
    assert "in_flight" in text and "moves" in text, text
    for verb, done in (["create", "rec"], "created"), \
            (["alter", "rec", "-r", "2"], "altered"), (["rm", "rec", "-y"],
                                                       "removed"):
        equal(b.json("queue", *verb), {"queue": "rec", "done": done,
                                       "dry_run": False})
    refused(b.q("rm", "moves"), 64, "not confirmed")
    assert "removed queue moves" in b.ok("rm", "moves", "--yes").err
    refused(b.q("rm", "moves", "-y"), 1, "no queue 'moves'")


def a_queue_is_paused_and_resumed(b):
    b.ok("create", "still", "-q")
    equal(b.stats("still")["paused"], None)
    assert "queue still is paused" in b.ok("pause", "still").err
    b.ok("send", "still", "x", "-q")
    refused(b.q("receive", "still"), 1, "nothing to receive")
    s = b.stats("still")
    assert s["visible"] == 1 and s["paused"], s
    assert next(x for x in b.json("queue", "ls", "--columns", "name,paused")
                if x["name"] == "still")["paused"]
    equal(b.json("queue", "resume", "still"),
          {"queue": "still", "done": "resumed", "dry_run": False})
    equal(b.stats("still")["paused"], None)
    b.ok("receive", "still", "--ack")
    b.ok("rm", "still", "-y", "-q")
    refused(b.q("pause", "still"), 1, "no queue 'still'")


def settings_are_altered(b):
    b.ok("alter", "jobs", "--visibility", "2m", "--delay", "5s", "-r", "7")
    s = b.stats()
    equal((s["visibility_ms"], s["delay_ms"], s["max_receives"]),
          (120000, 5000, 7))
    b.ok("create", "grave", "-q")
    b.ok("alter", "jobs", "--delay", "0", "-r", "0", "--dead-queue", "grave")
    s = b.stats()
    equal((s["visibility_ms"], s["delay_ms"], s["max_receives"],
           s["dead_queue"]), (120000, None, None, "grave"))
    b.ok("alter", "jobs", "--no-dead-queue")
    equal(b.stats()["dead_queue"], None)
    refused(b.q("alter", "jobs"), 64, "nothing was given")
    refused(b.q("alter", "jobs", "--visibility", "0"), 64, "hides nothing")
    refused(b.q("alter", "jobs", "--visibility", "13h"), 64, "12 hours")
    refused(b.q("alter", "jobs", "--dead-queue", "jobs"), 64, "its own")
    refused(b.q("alter", "jobs", "--dedup-window", "0"), 64, "remembers")
    equal(b.stats()["dedup_ms"], 300000)


def figures_are_shown_in_every_form(b):
    b.put("a", "b", "c")
    b.put("later", options=["--delay", "1h"])
    b.take()
    s = b.stats()
    equal([s[k] for k in ("visible", "delayed", "in_flight", "dead", "sent",
                          "received")], [2, 1, 1, 0, 4, 1])
    assert s["oldest_ms"] >= 0, s
    head, row = b.ok("stats", "jobs").out.splitlines()
    equal(dict(zip(head.split("\t"), row.split("\t")))["in_flight"], "1")
    text, code = b.screen("stats", "jobs")
    equal(code, 0)
    assert "visibility 30s" in " ".join(text.split()), text
    p = b.start("queue", "stats", "jobs", "--watch", "-i", "50ms", "-o",
                "ndjson")
    for _ in range(3):
        equal(json.loads(p.stdout.readline())["visible"], 2)
    p.terminate()
    equal(p.wait(SECONDS), 0)


# ---- sending --------------------------------------------------------------

def a_message_is_an_argument_a_line_or_a_file(b):
    p = b.ok("send", "jobs", "one", "-H", "user:ann", "-H", "mark:a=b")
    assert "1 message sent" in p.err and p.out == "", p
    p = b.ok("send", "jobs", "-o", "json", stdin=b"two\n\nthree")
    equal(json.loads(p.out), {"queue": "jobs", "sent": 3, "duplicates": 0,
                              "failed": 0, "unknown": 0, "id": None})
    b.ok("send", "jobs", "-0", stdin=b"x\ny\0z\0")
    with open(b.path("f"), "w") as f:
        f.write("whole\nfile\n")
    p = b.ok("send", "jobs", "--file", b.path("f"), "-o", "json")
    last = json.loads(p.out)["id"]
    equal(b.bodies(), ["one", "two", "", "three", "x\ny", "z",
                       "whole\nfile\n"])
    got = b.take(7)
    equal(got[0]["headers"], [{"name": "user", "value": "ann"},
                                 {"name": "mark", "value": "a=b"}])
    equal(got[6]["id"], last)
    text, code = b.screen("send", "jobs", "from a terminal")
    equal(code, 0)
    assert "1 message sent" in text, text


def any_bytes_arrive_as_they_were(b):
    data = bytes(range(256)) * 20
    b.ok("send", "jobs", "-q", "-f", "-", stdin=data)
    m = b.take()[0]
    equal(base64.b64decode(m["data_base64"]), data)
    b.ok("change", "jobs", m["receipt"], "0")
    equal(b.ok("receive", "jobs", "--format", "%v").stdout, data)
    lines = [os.urandom(40).replace(b"\n", b".") for _ in range(500)]
    b.ok("purge", "jobs", "-yq")
    b.ok("send", "jobs", "-n", "64", "-q", stdin=b"\n".join(lines) + b"\n")
    equal(b.ok("receive", "jobs", "-n", "500", "--raw").stdout,
          b"\n".join(lines) + b"\n")


def a_line_does_not_wait_for_the_batch_to_be_full(b):
    p = b.start("queue", "send", "jobs", "-n", "1000", stdin=subprocess.PIPE)
    for n in range(1, 4):
        p.stdin.write(b"line\n")
        p.stdin.flush()
        wait_for(lambda: b.stats()["visible"] == n, SECONDS)
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 0)


def progress_is_shown_on_a_terminal_only(b):
    lines = "".join(f"{i}\n" for i in range(20000)).encode()
    p = b.ok("send", "jobs", stdin=lines)
    equal(p.err, "leat: 20000 messages sent\n")
    ours, theirs = pty.openpty()
    p = b.start("queue", "send", "jobs", stdin=subprocess.PIPE, stderr=theirs)
    p.stdin.write(lines)
    p.stdin.close()
    p.stdin = None    # it is over
    os.close(theirs)
    text = b""
    try:
        while True:
            text += os.read(ours, 65536)
    except OSError:    # all of it was read
        pass
    os.close(ours)
    equal(p.wait(SECONDS), 0)
    assert b"sending" in text and b"20000 messages sent" in text, text[-300:]
    equal(b.stats()["visible"], 40000)


def what_was_sent_before_is_not_sent_again(b):
    b.ok("send", "jobs", "x", "-d", "id1", "-q")
    p = b.ok("send", "jobs", "y", "-d", "id1", "-o", "json")
    got = json.loads(p.out)
    equal((got["sent"], got["duplicates"]), (0, 1))
    assert "1 sent before" in b.ok("send", "jobs", "z", "-d", "id1").err
    b.ok("create", "once", "--content-dedup", "-q")
    p = b.ok("send", "once", stdin=b"a\nb\na\n")
    assert "2 messages sent, 1 sent before" in p.err, p.err
    equal(b.bodies(), ["x"])


def a_message_may_come_later(b):
    b.ok("send", "jobs", "x", "--delay", "1h", "-q")
    equal(b.counts(), [0, 1, 0, 0])
    b.ok("alter", "jobs", "--delay", "1h", "-q")
    b.put("y", options=["--delay", "0"])
    b.put("z")
    equal(b.counts(), [1, 2, 0, 0])
    equal(b.bodies(), ["y"])


def what_is_refused_is_told_and_the_rest_is_sent(b):
    b.ok("alter", "jobs", "--max-size", "1000", "-q")
    text = (b"one\n" + b"x" * 990 + b"\ntwo\n" + b"y" * 5000 + b"\nthree\n" +
            b"z" * 300000 + b"\nfour\n")
    p = b.q("send", "jobs", stdin=text)
    refused(p, 65, "line 2:", "line 4:", "line 6:", "--max-size",
            "4 messages sent, 3 failed")
    equal(b.bodies(), ["one", "two", "three", "four"])
    refused(b.q("send", "jobs", "x" * 2000), 65, "the message:")
    refused(b.q("send", "jobs", "-f", "-", stdin=b"x" * 300000), 65,
            "stdin: larger")
    p = b.q("send", "jobs", stdin=b"x" * 1001 + b"\n" * 1 + b"ok\n")
    refused(p, 65, "line 1")
    b.ok("create", "moves", "--fifo", "-q")
    refused(b.q("send", "moves", "x"), 64, "needs a group")
    refused(b.q("send", "moves", "x", "-g", "a", "--delay", "1s"), 64,
            "no delay")
    p = b.q("send", "moves", "-G", ":", stdin=b"a:1\nnone\nb:2\n")
    refused(p, 65, "line 2", "delimiter")
    equal(sorted(b.bodies("moves")), ["1", "2"])


def a_queue_is_made_only_where_it_is_asked_for(b):
    refused(b.q("send", "job", "x"), 1, "no queue 'job'",
            "did you mean 'jobs'?")
    b.ok("send", "new", "x", "--auto-create", "-q")
    equal(b.bodies("new"), ["x"])


# ---- receiving ------------------------------------------------------------

def messages_are_received_in_every_form(b):
    b.ok("send", "jobs", "tab\there", "-H", "a:1", "-t", "note", "-q")
    for _ in range(3):
        b.put("x")
    out = b.ok("receive", "jobs").out.splitlines()
    equal(out[0].split("\t"), ["receipt", "receives", "sent", "body",
                               "error"])
    receipt, receives, sent, body, error = out[1].split("\t")
    assert receipt.startswith("v/jobs/") and sent.endswith("Z"), out
    equal((receives, body, error), ("1", "tab\\there", ""))
    b.ok("change", "jobs", receipt, "0", "-q")
    p = b.ok("receive", "jobs", "-o", "csv", "--columns",
             "body,headers,type,receives,queue")
    equal(list(csv.reader(io.StringIO(p.out)))[1],
          ["tab\there", "a:1", "note", "2", "jobs"])
    p = b.ok("receive", "jobs", "-n", "2", "-o", "ndjson")
    rows = [json.loads(x) for x in p.out.splitlines()]
    equal([(r["data"], r["receives"], r["queue"]) for r in rows],
          [("x", 1, "jobs")] * 2)
    text, code = b.screen("receive", "jobs")
    equal(code, 0)
    lines = text.splitlines()
    equal(lines[:2], ["receipt", "  body"])
    assert lines[2].startswith("v/jobs/") and lines[3] == "  x", text
    assert "leat queue ack jobs" in text, text
    equal(b.counts(), [0, 0, 4, 0])


def nothing_is_a_negative_answer(b):
    p = b.q("receive", "jobs", "-o", "json")
    exits(p, 1)
    equal(json.loads(p.out), [])
    p = b.q("receive", "jobs")
    exits(p, 1)
    equal(len(p.out.splitlines()), 1)
    assert "nothing to receive" in p.err, p.err
    equal(b.screen("receive", "jobs")[1], 1)
    exits(b.q("receive", "jobs", "-w", "50ms", "-q"), 1)
    equal(b.ok("peek", "jobs", "-o", "json").out, "[]\n")


def a_receive_waits_for_a_send_or_a_signal(b):
    p = b.start("queue", "receive", "jobs", "-w", "10m", "--raw")
    wait_for(lambda: b.connected("leat-queue"), SECONDS)
    b.put("hello")
    equal(p.communicate(timeout=SECONDS)[0], b"hello\n")
    equal(p.returncode, 0)
    p = b.start("queue", "receive", "jobs", "-w", "10m")
    wait_for(lambda: b.connected("leat-queue"), SECONDS)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 130)


def what_is_acked_at_once_is_printed_first(b):
    b.put("a", "b", "c")
    equal(b.ok("receive", "jobs", "-n", "2", "--ack", "--raw").out, "a\nb\n")
    equal(b.stats()["acked"], 2)
    with open("/dev/full", "w") as full:
        p = b.start("queue", "receive", "jobs", "--ack", stdout=full)
        p.communicate(timeout=SECONDS)
    equal(p.returncode, 74)
    s = b.stats()
    equal((s["acked"], s["in_flight"]), (2, 1))


def looking_changes_nothing(b):
    b.put("a", "b", "c")
    before = b.stats()
    equal(b.bodies(), ["a", "b", "c"])
    head, row = b.ok("peek", "jobs", "-n", "1").out.splitlines()
    equal(head.split("\t")[:4], ["id", "receives", "sent", "body"])
    equal(row.split("\t")[1:4:2], ["0", "a"])
    text, code = b.screen("peek", "jobs", "--format", "%v|%c\\n")
    equal((text.split(), code), (["a|0", "b|0", "c|0"], 0))
    after = b.stats()
    equal({**before, "oldest_ms": 0}, {**after, "oldest_ms": 0})


def no_terminal_is_told_what_to_do(b):
    b.ok("create", "moves", "--fifo", "-q")
    b.ok("send", "moves", "-q", "-g", "g\x1b[7m", "-H", "h:\x1b[1m", "-f", "-",
         stdin=b"\x1b[31mred\x00\n")
    for args in (["peek", "moves", "--format", "%g %h %v\\n"],
                 ["receive", "moves"], ["stats", "moves"]):
        text, code = b.screen(*args)
        equal(code, 0)
        assert "\x1b" not in text, repr(text)
    text, code = b.screen("ack", "moves", "\x1b[31m")
    equal(code, 64)
    assert "\x1b" not in text, repr(text)


# ---- settling -------------------------------------------------------------

def receipts_settle_by_word_and_by_line(b):
    b.put(*"abcdef")
    got = b.take(2)
    p = b.ok("ack", "jobs", *(x["receipt"] for x in got))
    assert "2 messages acknowledged" in p.err, p.err
    table = b.ok("receive", "jobs", "-n", "3").out    # as it is, heading too
    p = b.ok("ack", "jobs", "-o", "json", stdin=table.encode())
    equal(json.loads(p.out), {"queue": "jobs", "settled": 3, "stale": 0,
                              "invalid": 0, "unknown": 0})
    receipt = b.ok("receive", "jobs", "--format", "%r").out
    b.ok("ack", "jobs", stdin=receipt.encode())
    equal(b.counts(), [0, 0, 0, 0])
    equal(b.stats()["acked"], 6)


def a_stale_receipt_deletes_nothing(b):
    b.put("a", "b")
    old = b.take()[0]["receipt"]
    b.ok("change", "jobs", old, "0", "-q")
    new = b.take()[0]
    equal((new["data"], new["receives"]), ("a", 2))
    good = b.take()[0]["receipt"]
    p = b.q("ack", "jobs", old, good)
    refused(p, 1, "stale receipt of queue 'jobs'", "1 message acknowledged")
    refused(b.q("ack", "jobs", good), 1, "stale")
    for verb in (["change", "jobs", old, "1m"], ["change", "jobs", old, "0"],
                 ["reject", "jobs", old]):
        refused(b.q(*verb), 1, "stale")
    refused(b.q("ack", "jobs", stdin=old.encode()), 1, "stale")
    text, code = b.screen("ack", "jobs", old)
    equal(code, 1)
    assert "hint:" in text, text
    equal(b.counts(), [0, 0, 1, 0])
    b.ok("ack", "jobs", new["receipt"])


def foreign_and_malformed_receipts_are_refused(b):
    b.ok("create", "other", "-q")
    b.put("x", queue="other")
    b.put("y")
    foreign = b.take(queue="other")[0]["receipt"]
    mine = b.take()[0]["receipt"]
    bad = [foreign, "x", "v/jobs", "v/jobs/1/1", mine + "/", "%00%ff" * 9,
           "v" * 600, "-", mine.replace("v/", "w/"),
           mine.replace("/1/", "/-1/"), "ü"]
    for r in bad:
        for verb in (["ack", "jobs", "--", r], ["reject", "jobs", "--", r],
                     ["change", "jobs", "--", r, "1m"]):
            refused(b.q(*verb), 64, "hint:")
    refused(b.q("ack", "jobs", foreign), 64, "no receipt of queue 'jobs'")
    refused(b.q("ack", "jobs", "x"), 64, "x: not a receipt")
    lines = "\n".join(bad) + "\n" + "q" * 200000 + "\n" + mine + "\n"
    p = b.q("ack", "jobs", "-o", "json", stdin=lines.encode())
    exits(p, 65)
    got = json.loads(p.out)
    equal((got["settled"], got["invalid"]), (1, len(bad) + 1))
    assert "and 2 more" in p.err, p.err
    equal(b.counts("other"), [0, 0, 1, 0])
    equal(b.counts(), [0, 0, 0, 0])


def a_receipt_of_any_message_group_survives_the_shell(b):
    b.ok("create", "moves", "--fifo", "-q")
    groups = ["a b", "tab\there", "new\nline", "100%/x", "quo'te\"\\", "é",
              "v/moves/1"]
    for g in groups:
        b.ok("send", "moves", "x", "-g", g, "-q")
    got = b.take(10, queue="moves")
    equal(sorted(m["group"] for m in got), sorted(groups))
    for m in got[:3]:
        b.ok("ack", "moves", m["receipt"])
    for m in got[3:]:
        b.ok("change", "moves", m["receipt"], "0", "-q")
    table = b.ok("receive", "moves", "-n", "9").out
    b.ok("ack", "moves", stdin=table.encode())
    equal(b.stats("moves")["acked"], len(groups))


def visibility_changes_both_ways(b):
    b.put("a", "b")
    one, two = b.take(2, "--visibility", "1h")
    p = b.ok("change", "jobs", one["receipt"], two["receipt"], "2h")
    assert "2 messages hidden" in p.err, p.err
    equal(b.counts(), [0, 0, 2, 0])
    p = b.ok("change", "jobs", one["receipt"], "0")
    assert "1 message given back" in p.err, p.err
    equal(b.counts(), [1, 0, 1, 0])
    b.ok("change", "jobs", two["receipt"], "1ms", "-q")
    wait_for(lambda: b.ok("expire", "jobs") and b.counts() == [2, 0, 0, 0],
             SECONDS)
    for t in ("-1", "-5s", "abc", "1e3", "13h", ""):
        refused(b.q("change", "jobs", "--", two["receipt"], t), 64)
    refused(b.q("change", "jobs", two["receipt"], "-5s"), 64, "'-5s'", "hint:")
    table = b.ok("receive", "jobs", "-n", "2").out
    p = b.ok("change", "jobs", "0", stdin=table.encode())
    assert "2 messages given back" in p.err, p.err
    refused(b.q("change", "jobs", "0", stdin=table.encode()), 1, "stale")


def what_is_rejected_is_a_dead_letter_with_its_reason(b):
    b.put("a", "b")
    one, two = b.take(2)
    p = b.ok("reject", "jobs", one["receipt"], "--reason", "no such file: é")
    assert "1 message to the dead letters" in p.err, p.err
    b.ok("reject", "jobs", stdin=two["receipt"].encode())
    equal(b.counts(), [0, 0, 0, 2])
    dead = json.loads(b.ok("peek", "jobs", "--dead", "-o", "json").out)
    equal([(x["data"], x.get("reason")) for x in dead],
          [("a", "no such file: é"), ("b", None)])
    text, _ = b.screen("peek", "jobs", "--dead")
    assert "reason: no such file: é" in text, text
    got = b.take(1, "--dead")[0]
    equal((got["data"], got["reason"], got["receipt"][:2]),
          ("a", "no such file: é", "x/"))
    equal(b.take(9, "--dead")[0]["data"], "b")
    exits(b.q("receive", "jobs", "--dead"), 1)    # hidden, as others are
    b.ok("ack", "jobs", got["receipt"])
    equal(b.counts(), [0, 0, 0, 1])


def expired_messages_come_back(b):
    b.put("a", "b")
    b.take(2, "--visibility", "1ms")
    wait_for(lambda: b.ok("expire", "jobs") and b.counts()[0] == 2, SECONDS)
    p = b.ok("expire", "jobs", "-o", "json")
    equal(json.loads(p.out), {"queue": "jobs", "moved": 0})
    equal(b.stats()["requeued"], 2)
    for n in range(2):    # the third receive is the last
        b.take(2, "--visibility", "1ms")
        wait_for(lambda: b.ok("expire", "jobs") and b.counts()[2] == 0,
                 SECONDS)
    equal(b.counts(), [0, 0, 0, 2])


def what_nobody_acknowledged_is_received_again_by_who_does_not_wait(b):
    b.put("a", "b")
    for n in range(1, 4):    # and nobody else has the queue open
        def taken():
            return [(m["data"], m["receives"]) for m in
                    b.take(2, "--visibility", "1ms")] == [("a", n), ("b", n)]

        wait_for(taken, SECONDS)
    wait_for(lambda: b.take(2, "--dead"), SECONDS)    # once too often
    equal(b.counts(), [0, 0, 0, 2])


# ---- care -----------------------------------------------------------------

def bury(bench, *bodies):
    bench.put(*bodies)
    for m in bench.take(len(bodies)):
        bench.ok("reject", "jobs", m["receipt"], "-q")


def dead_letters_go_back_the_oldest_first(b):
    bury(b, *"abcde")
    p = b.ok("redrive", "jobs", "--dry-run")
    assert "5 messages would be redriven" in p.err, p.err
    p = b.ok("redrive", "jobs", "-n", "2", "-o", "json")
    equal(json.loads(p.out), {"queue": "jobs", "redriven": 2,
                              "dry_run": False})
    equal(b.bodies(), ["a", "b"])
    equal(b.bodies("jobs", "--dead"), ["c", "d", "e"])
    text, code = b.screen("redrive", "jobs", "--rate", "100")
    equal(code, 0)
    assert "redriving" in text and "3 messages redriven" in text, text
    equal(b.bodies(), list("abcde"))
    equal({m["receives"] for m in b.take(5)}, {1})
    assert "0 messages redriven" in b.ok("redrive", "jobs").err


def a_signal_stops_a_slow_redrive_and_it_goes_on(b):
    bury(b, *(str(i) for i in range(20)))
    p = b.start("queue", "redrive", "jobs", "--rate", "1")
    wait_for(lambda: b.counts()[0] > 0, SECONDS)
    p.terminate()
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 143)
    b.ok("redrive", "jobs")
    equal(b.counts(), [20, 0, 0, 0])


def what_drops_messages_asks_first(b):
    b.put("a", "b", "c")
    b.take()
    refused(b.q("purge", "jobs"), 64, "drop 3 messages", "not confirmed")
    equal(b.json("queue", "purge", "jobs", "--dry-run"),
          {"queue": "jobs", "dropped": 3, "dry_run": True})
    p = b.ok("rm", "jobs", "--dry-run")
    assert "would remove queue jobs with 3 messages" in p.err, p.err
    equal(b.answer("drop 3 messages of queue jobs? [y/N]", "n", "queue",
                   "purge", "jobs"), 1)
    equal(b.answer("remove queue jobs with 3 messages", "no", "queue", "rm",
                   "jobs"), 1)
    equal(b.counts(), [2, 0, 1, 0])
    equal(b.answer("drop 3 messages", "y", "queue", "purge", "jobs"), 0)
    equal(b.counts(), [0, 0, 0, 0])
    equal(b.stats()["purged"], 3)
    bury(b, "x", "y")
    b.put("z")
    p = b.ok("purge", "jobs", "--dead", "-y", "-o", "json")
    equal(json.loads(p.out), {"queue": "jobs", "dropped": 2,
                              "dry_run": False})
    equal(b.counts(), [1, 0, 0, 0])
    equal(b.answer("1 message and 0 dead letters? [y/N]", "y", "queue", "rm",
                   "jobs"), 0)
    equal(b.json("queue", "ls"), [])


def the_queue_that_the_question_was_about_is_removed(b):
    """Another one is made before it is answered."""
    def replace():
        b.ok("rm", "jobs", "--yes")
        b.ok("create", "jobs", "-q")
        b.put("b", "c")

    b.put("a")
    equal(b.answer("remove queue jobs with 1 message", "y", "queue", "rm",
                   "jobs", before=replace), 1)
    equal(b.counts(), [2, 0, 0, 0])


def namespaces_do_not_meet(b):
    b.ok("create", "jobs", "-N", "game", "-q")
    b.put("there", options=["-N", "game"])
    b.put("here")
    equal(b.bodies(), ["here"])
    equal(b.bodies("jobs", "--namespace", "game"), ["there"])
    equal(b.ok("receive", "jobs", "--raw", env={"LEAT_NAMESPACE": "game"}).out,
          "there\n")
    equal([x["visible"] for x in b.json("queue", "ls", "-N", "game")], [0])
    refused(b.q("ls", "-N", "a b"), 64, "prefix")


def queues_of_redowl_are_used_by_their_profile(b):
    owl = ["--profile", "redowl"]
    b.put("a", "b", queue="moves", options=owl)
    assert b.call("KEYS", "redowl:moves:*"), "it has other keys"
    table = b.ok("receive", "moves", *owl).out
    b.ok("ack", "moves", *owl, stdin=table.encode())
    refused(b.q("ack", "moves", *owl, stdin=table.encode()), 1, "stale")
    refused(b.q("ack", "moves", *owl, "x"), 1, "stale")
    equal(b.take(1, *owl, queue="moves")[0]["data"], "b")
    equal([x["name"] for x in b.json("queue", "ls")], ["jobs"])
    refused(b.q("send", "moves", "x", "-g", "a", *owl), 64, "no group", "hint")
    refused(b.q("watch", "moves", "--durable", *owl), 64, "keeps no events")
    b.ok("purge", "moves", "-yq", *owl)
    refused(b.q("rm", "moves", "-y", *owl), 1, "no queue 'moves'", "redowl")
    b.put("bad", queue="moves", options=owl)
    b.ok("receive", "moves", *owl, "--retry-delay", "0", "--wait", "500ms",
         "--max-receives", "2", "-q", "--exec", "false")
    dead = json.loads(b.ok("peek", "moves", "--dead", "-o", "json", *owl).out)
    equal([(x["data"], x["receives"]) for x in dead], [("bad", 3)])
    refused(b.q("receive", "jobs", "-r", "2"), 64, "kept with the queue")


# ---- events ---------------------------------------------------------------

def subscribed(bench):
    return bench.call("PUBSUB", "CHANNELS", "*events*")


def events_are_told_as_they_happen(b):
    p = b.start("queue", "watch", "jobs", "-n", "4", "-o", "ndjson")
    wait_for(lambda: subscribed(b), SECONDS)
    b.put("x")
    m = b.take()[0]
    b.ok("change", "jobs", m["receipt"], "0", "-q")
    b.ok("ack", "jobs", b.take()[0]["receipt"], "-q")
    out = p.communicate(timeout=SECONDS)[0].decode()
    equal(p.returncode, 0)
    rows = [json.loads(x) for x in out.splitlines()]
    equal([r["type"] for r in rows], ["sent", "received", "requeued",
                                      "received"])
    equal({(r["queue"], r["message"], r["missed"]) for r in rows},
          {("jobs", m["id"], False)})


def events_of_all_queues_are_told_in_every_form(b):
    b.ok("create", "more", "-q")
    forms = {f: b.start("queue", "watch", "-n", "2", "-o", f)
             for f in ("json", "tsv", "table")}
    wait_for(lambda: b.call("PUBSUB", "NUMSUB", "leat:events")[1] == 3,
             SECONDS)
    b.put("x")
    b.put("y", queue="more")
    got = {f: p.communicate(timeout=SECONDS)[0].decode()
           for f, p in forms.items()}
    equal([r["queue"] for r in json.loads(got["json"])], ["jobs", "more"])
    rows = [x.split("\t") for x in got["tsv"].splitlines()]
    equal(rows[0], ["at", "type", "queue", "message", "receives", "missed"])
    equal([r[1:3] for r in rows[1:]], [["sent", "jobs"], ["sent", "more"]])
    equal([x.split()[1:3] for x in got["table"].splitlines()],
          [["type", "queue"], ["sent", "jobs"], ["sent", "more"]])


def kept_events_are_read_by_who_must_not_miss_one(b):
    refused(b.q("watch", "jobs", "--durable"), 78, "keeps no events")
    refused(b.q("watch", "--durable"), 64, "name a queue")
    refused(b.q("watch", "job"), 1, "did you mean 'jobs'?")
    b.ok("alter", "jobs", "--durable-events", "-q")
    p = b.start("queue", "watch", "jobs", "--durable", "-n", "2", "-o",
                "ndjson")
    wait_for(lambda: b.connected("cmd=xread"), SECONDS)
    b.put("x", "y")
    out = p.communicate(timeout=SECONDS)[0].decode()
    equal([json.loads(x)["type"] for x in out.splitlines()], ["sent"] * 2)
    p = b.start("queue", "watch", "jobs")
    wait_for(lambda: subscribed(b), SECONDS)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 130)


# ---- bad input ------------------------------------------------------------

EVERY = [["alter", "job", "-r", "1"], ["stats", "job"], ["send", "job", "x"],
         ["receive", "job"], ["receive", "job", "--exec", "cat"],
         ["ack", "job", "x"], ["change", "job", "x", "1m"],
         ["reject", "job", "x"], ["peek", "job"], ["redrive", "job"],
         ["purge", "job", "-y"], ["rm", "job", "-y"], ["expire", "job"],
         ["watch", "job"]]


def an_unknown_queue_is_a_negative_answer_everywhere(b):
    for args in EVERY:
        p = b.q(*args)
        refused(p, 1, "no queue 'job'", "did you mean 'jobs'?")
        equal(p.out, "")
    text, code = b.screen("receive", "job")
    equal(code, 1)
    assert "no queue 'job'" in text, text
    equal(b.json("queue", "ls")[0]["name"], "jobs")


def a_server_that_is_away_is_said_everywhere(b):
    for args in [*EVERY[:4], *EVERY[5:8], ["ls"], ["create", "x"]]:
        p = b.q(*args, "--timeout", "300ms",
                env={"LEAT_URL": "unix:///nowhere/at/all"})
        refused(p, 69)


def times_and_numbers_that_make_no_sense_are_refused(b):
    b.put("a")
    r = b.take()[0]["receipt"]
    for args in (["create", "x", "--visibility", "-1"],
                 ["create", "x", "--visibility", "0"],
                 ["create", "x", "--visibility", "13h"],
                 ["create", "x", "--delay", "-1s"],
                 ["create", "x", "--ttl", "-5m"],
                 ["create", "x", "--dedup-window", "-1"],
                 ["create", "x", "-r", "-1"],
                 ["create", "x", "--max-size", "-1"],
                 ["create", "a b"], ["create", ""], ["create", "x" * 201],
                 ["send", "jobs", "x", "--delay", "-1s"],
                 ["send", "jobs", "x", "--delay", "500d"],
                 ["send", "jobs", "-n", "1001"],
                 ["send", "jobs", "x", "-H", "noname"],
                 ["send", "jobs", "x", "-f", "y"],
                 ["receive", "jobs", "-n", "0"],
                 ["receive", "jobs", "-n", "1001"],
                 ["receive", "jobs", "-w", "-1"],
                 ["receive", "jobs", "--visibility", "-1"],
                 ["receive", "jobs", "--visibility", "0"],
                 ["receive", "jobs", "--visibility", "13h"],
                 ["receive", "jobs", "--format", "%x"],
                 ["change", "jobs", r], ["change", "jobs", "--", r, "-1"],
                 ["redrive", "jobs", "-n", "-1"],
                 ["redrive", "jobs", "--rate", "-1"],
                 ["peek", "jobs", "-n", "1001"], ["ack"],
                 ["frobnicate", "jobs"]):
        refused(b.q(*args), 64)
    equal(b.counts(), [0, 0, 1, 0])
    equal([x["name"] for x in b.json("queue", "ls")], ["jobs"])
    b.ok("ack", "jobs", r)


def a_key_of_somebody_else_is_said_and_nothing_is_lost(b):
    b.put("a", "b")
    b.ok("create", "fine", "-q")
    r = b.take()[0]["receipt"]
    for what in ("conf", "ready", "body", "stat"):
        key = b.key(what)
        b.call("RENAME", key, "saved")
        b.call("SET", key, "junk")
        for args in (["send", "jobs", "x"], ["send", "jobs"],
                     ["receive", "jobs"]):
            refused(b.q(*args, stdin=b"x\ny\n"), 65, "holds something else")
        if what != "body":    # figures do without
            refused(b.q("stats", "jobs"), 65, "holds something else")
        p = b.q("ls", "-o", "json")
        equal(p.returncode, 0 if what == "body" else 65)
        assert "fine" in [x["name"] for x in json.loads(p.out)], p.out
        equal(b.call("GET", key), b"junk")
        b.call("RENAME", "saved", key)
    b.ok("ack", "jobs", r)
    equal(b.take()[0]["data"], "b")


def names_complete(b):
    def offered(wanted, *words):
        """In its 200 ms a busy machine may have no answer."""
        wait_for(lambda: b.good("__complete", "queue", *words).out == wanted,
                 SECONDS)

    out = b.good("__complete", "queue", "").out
    for verb in ("create", "alter", "ls", "stats", "send", "receive", "ack",
                 "change", "reject", "peek", "redrive", "purge", "rm",
                 "expire", "watch", "pool"):
        assert f"{verb}\t" in out, (verb, out)
    assert "queue\t" in b.good("__complete", "qu").out
    for verb in ("send", "receive", "stats", "rm"):
        offered("jobs\tqueue\n", verb, "")
    b.ok("create", "rooms", "-N", "game", "-q")
    offered("rooms\tqueue\n", "stats", "-N", "game", "")
    offered("jobs\tqueue\n", "alter", "x", "--dead-queue", "j")
    assert "--retry-delay" in b.good("__complete", "queue", "receive",
                                     "--").out
    page = b.good("__man", "leat-queue").out
    assert "## redrive" in page and "LEAT\\_QUEUE" in page, page


if __name__ == "__main__":
    sys.exit(main(__name__, Queues))
