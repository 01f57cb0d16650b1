"""Plain streams by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_stream.py PATH_TO_LEAT [PATTERN]
"""

import json
import os
import re
import signal
import sys

from cli_bench import Bench, ended, main
from cli_help import SECONDS, equal, exits, on_terminal, wait_for

ESCAPE = "\x1b]0;owned\x07\x1b[31m"


class Streams(Bench):
    """The bench, in words of streams."""

    def add(self, lines, *options, name="events"):
        return self.good("stream", "add", name, *options,
                         stdin="".join(x + "\n" for x in lines).encode())

    def tail(self, *options, name="events"):
        p = self.good("stream", "tail", name, "--from", "start", "-o",
                      "ndjson", *options)
        return [json.loads(x) for x in p.out.splitlines()]

    def bodies(self, *options, name="events"):
        return [m["data"] for m in self.tail(*options, name=name)]

    def work(self, *options, n=0, group="g", name="events", **kw):
        """Until n messages are through; 0: until nothing comes."""
        end = ["--count", str(n)] if n else ["--until-idle", "1s"]
        return self.run("stream", "consume", name, "-g", group, *end,
                        *options, **kw)

    def group(self, group="g", name="events"):
        return {g["group"]: g
                for g in self.json("stream", "groups", name)}[group]


def counts(text):
    """Of the last line of consume: acknowledged, given back, rejected."""
    m = re.search(r"(\d+) handled: (\d+) acknowledged, (\d+) given back, "
                  r"(\d+) rejected", text)
    assert m, text
    handled, *rest = (int(x) for x in m.groups())
    equal(handled, sum(rest))
    return tuple(rest)


# ---- looking ------------------------------------------------------------

def streams_are_listed_without_those_of_topics(b):
    equal(b.json("stream", "ls"), [])
    b.add(["a", "b"])
    b.server.call("XADD", "shop:log", "7-1", "f", "v")
    b.server.call("XGROUP", "CREATE", "shop:log", "g", "0")
    b.server.call("SET", "text", "x")
    b.topic("orders", lines=1)
    rows = b.json("stream", "ls")
    equal([(r["name"], r["messages"], r["groups"]) for r in rows],
          [("events", 2, 0), ("shop:log", 1, 1)])
    equal(rows[1]["last"], "7-1")
    equal([r["name"] for r in b.json("stream", "ls", "shop:*")], ["shop:log"])
    equal([r["name"] for r in b.json("stream", "ls", "--all")],
          ["events", "leat:{orders/0}:log", "shop:log"])
    info = b.json("stream", "info", "shop:log")
    equal((info["messages"], info["added"], info["first"]), (1, 1, "7-1"))
    assert info["bytes"] > 0, info


def groups_tell_what_is_pending_and_the_lag(b):
    b.add(["a"])
    equal(b.json("stream", "groups", "events"), [])
    for i in range(4):
        b.add([str(i)])
    b.server.call("XGROUP", "CREATE", "events", "g", "0")
    b.server.call("XREADGROUP", "GROUP", "g", "one", "COUNT", "2", "STREAMS",
                  "events", ">")
    g = b.group()
    equal((g["consumers"], g["pending"], g["lag"]), (1, 2, 3))
    b.server.call("XGROUP", "SETID", "events", "g", g["last"])
    equal(b.group()["lag"], None)    # nobody knows


def what_is_no_stream_is_told_with_a_hint(b):
    b.add(["x"])
    b.server.call("SET", "text", "x")
    for verb in ("info", "tail", "groups", "rm"):
        p = b.run("stream", verb, "event")
        exits(p, 1)
        equal(p.err, "leat: no stream 'event'\nhint: did you mean 'events'?\n")
        p = b.run("stream", verb, "text", *(["--yes"] if verb == "rm" else []))
        exits(p, 64)
        assert "'text' is a string, no stream" in p.err, p.err
    p = b.run("stream", "tail", "something-else")
    assert "leat stream ls" in p.err, p.err
    exits(b.run("stream", "add", "text", "body"), 64)
    exits(b.run("stream", "consume", "text", "-g", "g"), 64)
    equal(b.server.call("GET", "text"), b"x")


def bad_words_are_usage_errors(b):
    b.topic("orders", lines=1)
    b.add(["x"])
    own = "leat:{orders/0}:log"
    for args in (["stream", "add", "events", "x", "-f", "-"],
                 ["stream", "add", "events", "x", "-0"],
                 ["stream", "add", "events", "-k", "a", "-K", ","],
                 ["stream", "add", "events", "x", "-H", "nocolon"],
                 ["stream", "add", "", "x"],
                 ["stream", "add", "y" * 513, "x"],
                 ["stream", "add", own, "x"],
                 ["stream", "add", "events", "x", "--codec", "fields",
                  "-k", "k"],
                 ["stream", "tail", "events", "--from", "5x"],
                 ["stream", "tail", "events", "--format", "%p"],
                 ["stream", "consume", "events"],
                 ["stream", "consume", own, "-g", "g"],
                 ["stream", "consume", "events", "-g", "g", "--idle", "0"],
                 ["stream", "consume", "events", "-g", "g", "--backoff", "x"],
                 ["stream", "consume", "events", "-g", "g", "-e",
                  "/no/such/program"],
                 ["stream", "rm", own, "--yes"]):
        p = b.run(*args, stdin=b"", timeout=SECONDS)
        exits(p, 64)
        assert p.err.startswith("leat: "), p.err
    equal(len(b.tail()), 1)
    equal(len(b.tail(name=own)), 1)    # looking at it harms nobody


# ---- adding -------------------------------------------------------------

def messages_are_added_by_word_by_line_and_by_file(b):
    equal(b.good("stream", "add", "events", "one word").err,
          "leat: 1 persisted, 0 failed, 0 unknown\n")
    b.add(["first", "", "third"])
    b.good("stream", "add", "events", "-0", stdin=b"a\nb\0c")
    b.good("stream", "add", "events", "-f", "-", stdin=b"whole\nfile\n")
    equal(b.bodies(), ["one word", "first", "", "third", "a\nb", "c",
                       "whole\nfile\n"])
    record = b.json("stream", "add", "events", "x")
    equal(record, {"stream": "events", "persisted": 1, "failed": 0,
                   "unknown": 0})


def a_message_has_key_type_and_headers(b):
    b.good("stream", "add", "events", "body", "-k", "the key", "-t", "the.type",
           "-H", "a:1", "-H", "a: 2", "--content-type", "text/plain")
    m, = b.tail()
    equal((m["stream"], m["key"], m["type"], m["data"], m["content_type"]),
          ("events", "the key", "the.type", "body", "text/plain"))
    equal(m["headers"], [{"name": "a", "value": "1"},
                         {"name": "a", "value": "2"}])
    b.add(["k1,v1", "k2,v,2"], "-K", ",", name="keyed")
    equal([(m["key"], m["data"]) for m in b.tail(name="keyed")],
          [("k1", "v1"), ("k2", "v,2")])


def every_codec_is_written_and_read(b):
    for codec in ("native", "ce", "ce-json", "fields"):
        b.good("stream", "add", codec, "the body", "-H", "user:7", "--codec",
               codec)
        m, = b.tail("--codec", codec, name=codec)
        equal((m["data"], m["headers"]),
              ("the body", [{"name": "user", "value": "7"}]))
        p = b.work("--codec", codec, "--format", "%v %h", name=codec, n=1)
        exits(p, 0)
        equal(p.out, "the body user:7")
    (_, fields), = b.server.call("XRANGE", "fields", "-", "+")
    equal(fields, [b"user", b"7", b"body", b"the body"])
    assert b"ce_id" in b.server.call("XRANGE", "ce", "-", "+")[0][1]


def a_stream_is_kept_short(b):
    b.add([str(i) for i in range(2000)], "--lossy-maxlen", "100", "--codec",
          "fields")
    kept = b.json("stream", "info", "events")["messages"]
    assert 100 <= kept <= 300, kept


def a_message_that_is_too_large_names_its_line(b):
    p = b.run("stream", "add", "events", "--max-size", "5",
              stdin=b"12345\n123456\nlast\n")
    exits(p, 65)
    assert "leat: line 2: over 5 bytes" in p.err, p.err
    equal(b.bodies(), ["12345"])


# ---- tailing ------------------------------------------------------------

def tail_begins_where_it_is_told(b):
    for i in range(15):
        b.server.call("XADD", "events", f"{i + 1}-0", "body", str(i))
    fields = ["--codec", "fields"]
    equal(b.bodies(*fields), [str(i) for i in range(15)])
    p = b.good("stream", "tail", "events", *fields, "--format", "%v ")
    equal(p.out.split(), [str(i) for i in range(5, 15)])
    p = b.good("stream", "tail", "events", "-n", "2", *fields, "--format",
               "%t %i %v\\n")
    equal(p.out, "events 14-0 13\nevents 15-0 14\n")
    p = b.good("stream", "tail", "events", "--from", "3-0", "-n", "2", *fields,
               "--format", "%v ")
    equal(p.out.split(), ["2", "3"])
    equal(b.good("stream", "tail", "events", "--from", "end").out.splitlines(),
          ["position\tkey\tbody\terror"])


def tail_follows(b):
    b.add(["old"])
    p = b.start("stream", "tail", "events", "-f", "--format", "%v\\n")
    equal(p.stdout.readline(), b"old\n")
    b.add(["new"])
    equal(p.stdout.readline(), b"new\n")
    p.send_signal(signal.SIGINT)
    ended(p, 130)


def a_topic_of_the_same_name_is_another_thing(b):
    b.topic("events", lines=1)
    b.add(["of the stream"])
    equal(b.bodies(), ["of the stream"])
    equal([m["data"] for m in Bench.tail(b, "events")], ["m0"])


def an_entry_of_another_program_is_shown_with_its_fields(b):
    b.server.call("XADD", "events", "1-1", "user", "7")
    m, = b.tail()
    equal(m["fields"], [{"name": "user", "value": "7"}])
    assert m["error"], m
    text, code = on_terminal(b.home, "stream", "tail", "events",
                             env={"LEAT_URL": b.server.url})
    equal(code, 0)
    assert re.search(r"^1-1 \(no message: .*\) user=7\r?$", text, re.M), text


def hostile_bytes_do_nothing_to_a_terminal(b):
    name = "events" + ESCAPE
    b.good("stream", "add", name, "body" + ESCAPE, "-k", "key" + ESCAPE, "-H",
           "name" + ESCAPE + ":value" + ESCAPE)
    b.server.call("XADD", name, "*", "field" + ESCAPE, "value" + ESCAPE)
    b.server.call("XGROUP", "CREATE", name, "group" + ESCAPE, "0")
    env = {"LEAT_URL": b.server.url, "NO_COLOR": "1"}
    for args in (["ls"], ["info", name], ["groups", name], ["tail", name],
                 ["tail", name, "--format", "%t %k %h %v"],
                 ["rm", name, "--dry-run"], ["tail", "no" + ESCAPE],
                 ["consume", name, "-g", "g", "--until-idle", "1s"]):
        text, _ = on_terminal(b.home, "stream", *args, env=env)
        assert "\x1b" not in text and "\x07" not in text, (args, text)
        assert "\\x1b" in text, (args, text)
    raw, _ = on_terminal(b.home, "stream", "tail", name, "--raw", env=env)
    assert ESCAPE in raw, raw


# ---- consuming ----------------------------------------------------------

def messages_are_printed_and_acknowledged(b):
    b.add([f"m{i}" for i in range(20)])
    p = b.work("--format", "%v\\n", n=20)
    exits(p, 0)
    equal(p.out.splitlines(), [f"m{i}" for i in range(20)])
    equal(counts(p.err), (20, 0, 0))
    g = b.group()
    equal((g["pending"], g["lag"]), (0, 0))
    equal(json.loads(b.work("-o", "json").out), [])
    equal(b.json("stream", "info", "events")["groups"], 1)


def a_program_gets_body_and_attributes(b):
    program = b.script('cat >"$T/body"; env >"$T/env"; echo "$@" >"$T/args"')
    b.good("stream", "add", "events", "-f", "-", "-k", "the key", "-t",
           "the.type", "-H", "Trace-Parent:00-1", stdin=b"first\nsecond\xff\0")
    p = b.work(n=1, env={"LEAT_TOPIC": "old", "LEAT_STREAM": "old"},
               *["--", program, "--format", "a b"])
    exits(p, 0)
    with open(b.path("body"), "rb") as f:
        equal(f.read(), b"first\nsecond\xff\0")
    equal(b.lines("args"), ["--format a b"])
    env = dict(x.split("=", 1) for x in b.lines("env") if "=" in x)
    m, = b.tail()
    equal({k: v for k, v in env.items() if k.startswith("LEAT_")
           and k not in ("LEAT_URL", "LEAT_REDIS_SERVER")},
          {"LEAT_STREAM": "events", "LEAT_POSITION": m["position"],
           "LEAT_ID": m["id"], "LEAT_KEY": "the key", "LEAT_TYPE": "the.type",
           "LEAT_ATTEMPT": "1", "LEAT_HEADER_TRACE_PARENT": "00-1"})


def a_failure_is_tried_again_until_it_succeeds(b):
    program = b.script('echo "$LEAT_ATTEMPT" >>"$T/tries";'
                       '[ "$LEAT_ATTEMPT" = 3 ] || { echo no >&2; exit 1; }')
    b.add(["x"])
    p = b.work("--backoff", "fixed:50ms,nojitter", "--exec", program, n=1)
    exits(p, 0)
    equal(b.lines("tries"), ["1", "2", "3"])
    equal(counts(p.err), (1, 2, 0))
    assert re.search(r"message \d+-0, attempt 2: exit status 1: no", p.err), \
        p.err
    equal(b.group()["pending"], 0)


def what_fails_too_often_is_given_up_and_stays_in_the_stream(b):
    program = b.script('echo "$LEAT_ATTEMPT" >>"$T/tries"; exit 1')
    b.add(["x"])
    p = b.work("--max-attempts", "2", "--backoff", "fixed:50ms", "--exec",
               program, n=1)
    exits(p, 0)
    equal(b.lines("tries"), ["1", "2"])
    equal(counts(p.err), (0, 1, 1))
    assert "given up: this group does not see it again" in p.err, p.err
    equal((b.group()["pending"], b.bodies()), (0, ["x"]))


def what_is_to_be_tried_at_once_does_not_wait_for_others_to_claim_it(b):
    b.add(["x"])
    program = b.script('[ "$LEAT_ATTEMPT" -gt 5 ]')
    p = b.work("--backoff", "fixed:1ms", "--idle", "10m", "--exec", program,
               n=1, timeout=SECONDS)
    exits(p, 0)
    equal(counts(p.err), (1, 5, 0))


def exit_65_gives_a_message_up_at_once(b):
    b.add(["x"])
    p = b.work("--exec", b.script("exit 65"), n=1)
    exits(p, 0)
    equal(counts(p.err), (0, 0, 1))
    equal(b.group()["pending"], 0)


def what_a_killed_consumer_had_comes_to_another(b):
    hold = b.script('echo $$ >>"$T/held"; exec sleep 60', "hold")
    b.add(["x"])
    p = b.start("stream", "consume", "events", "-g", "g", "--idle", "1s",
                "--exec", hold)
    held, = wait_for(lambda: b.lines("held"), SECONDS)
    p.kill()
    p.wait()
    os.kill(int(held), signal.SIGKILL)
    equal(b.group()["pending"], 1)
    p = b.run("stream", "consume", "events", "-g", "g", "--idle", "1s", "-n",
              "1", "--exec", b.script('echo "$LEAT_ATTEMPT" >"$T/took"'))
    exits(p, 0)
    equal(b.lines("took"), ["2"])
    equal(b.group()["pending"], 0)


def a_signal_drains(b):
    slow = b.script('echo x >>"$T/begun"; sleep 0.5; echo x >>"$T/done"')
    b.add([str(i) for i in range(10)], "--codec", "fields")
    p = b.start("stream", "consume", "events", "-g", "g", "-c", "2", "--codec",
                "fields", "--exec", slow)
    wait_for(lambda: len(b.lines("begun")) >= 2, SECONDS)
    p.send_signal(signal.SIGTERM)
    _, err = ended(p, 0)
    done = len(b.lines("done"))
    equal(done, len(b.lines("begun")))
    equal(counts(err), (done, 0, 0))
    g = b.group()
    equal(g["pending"] + g["lag"], 10 - done)


def a_reader_that_went_away_costs_no_message(b):
    b.add([f"m{i}" for i in range(50)])
    read, write = os.pipe()
    os.close(read)
    p = b.start("stream", "consume", "events", "-g", "g", "--idle", "1s",
                stdout=write)
    os.close(write)
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 128 + signal.SIGPIPE)
    p = b.work("--format", "%v\\n", "--idle", "1s", n=50)
    exits(p, 0)
    equal(sorted(p.out.splitlines()), sorted(f"m{i}" for i in range(50)))


def a_group_begins_where_it_is_told(b):
    for i in range(1, 6):
        b.server.call("XADD", "events", f"{i}-0", "body", str(i))
    fields = ["--codec", "fields", "--format", "%v "]
    for n, (where, want) in enumerate((("start", "1 2 3 4 5"), ("end", ""),
                                       ("3-0", "3 4 5"), ("0-0", "1 2 3 4 5"),
                                       ("1h", ""))):
        p = b.work("--from", where, *fields, group=f"g{n}")
        exits(p, 0)
        equal(p.out.strip(), want)


def entries_that_are_no_message_are_told(b):
    b.server.call("XADD", "events", "*", "user", "7")
    b.add(["good"])
    p = b.work("--format", "%v", n=1)
    exits(p, 0)
    equal(p.out, "good")
    p = b.work()
    equal(p.out.splitlines(), ["position\tkey\tbody\terror"])
    p = b.work(group="other")
    assert "1 entry is no message of codec native" in p.err, p.err
    assert "hint: --codec fields takes any entry" in p.err, p.err
    p = b.work("--codec", "fields", "--exec",
               b.script('echo "$LEAT_HEADER_USER" >>"$T/users"'), group="third")
    exits(p, 0)
    equal(b.lines("users")[0], "7")


# ---- removing and completion --------------------------------------------

def a_stream_is_removed_only_when_told_twice(b):
    b.add(["a"])
    b.server.call("XGROUP", "CREATE", "events", "g", "0")
    b.server.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "events", ">")
    p = b.run("stream", "rm", "events", stdin=b"y\n")
    exits(p, 64)
    assert "1 message and 1 group, 1 pending" in p.err and "--yes" in p.err
    question = "remove stream events with 1 message and 1 group, 1 pending?"
    equal(b.answer(question, "n", "stream", "rm", "events"), 1)
    b.good("stream", "rm", "events", "--dry-run")
    equal(b.server.call("EXISTS", "events"), 1)
    equal(b.answer(question, "y", "stream", "rm", "events"), 0)
    equal(b.server.call("EXISTS", "events"), 0)
    b.add(["a"])
    equal(b.json("stream", "rm", "events", "--yes"),
          {"stream": "events", "done": "removed", "dry_run": False})
    exits(b.run("stream", "rm", "events", "--yes"), 1)


def streams_and_their_groups_complete(b):
    b.add(["x"])
    b.server.call("XADD", "bad\nname", "*", "f", "v")
    b.server.call("XGROUP", "CREATE", "events", "billing", "0")
    p = b.good("__complete", "stream", "tail", "")
    equal(p.out, "events\tstream\n")
    p = b.good("__complete", "stream", "consume", "events", "-g", "")
    equal(p.out, "billing\tgroup\n")
    p = b.good("__complete", "stream", "")
    equal([x.split("\t")[0] for x in p.out.splitlines()],
          ["ls", "info", "add", "tail", "consume", "groups", "rm"])


if __name__ == "__main__":
    sys.exit(main(__name__, Streams))
