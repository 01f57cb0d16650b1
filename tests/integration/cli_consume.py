"""Groups and consume by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_consume.py PATH_TO_LEAT [PATTERN]
"""

import collections
import json
import os
import re
import signal
import sys
import time

from cli_bench import ended, main
from cli_help import LEAT, SECONDS, alive, equal, exits, wait_for


def counts(text):
    """Of the last line of consume: acknowledged, to be tried again, dead
    letters, no message."""
    m = re.search(r"(\d+) attempts?: (\d+) acknowledged, (\d+) to be tried "
                  r"again, (\d+) dead letters?, (\d+) no message", text)
    assert m, text
    attempts, *rest = (int(x) for x in m.groups())
    equal(attempts, sum(rest[:3]))
    return tuple(rest)


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
    ended(p, 130)


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
    p = b.consume("--exec", program, "--", "--format", "-q", "a b", n=1,
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
    p = b.consume("--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status",
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
    assert "is a dead letter of group 'g' after 3 attempts" in p.err, p.err
    equal(p.err.count("hint: leat dlq ls orders lists dead letters"), 1)
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


def headers_cost_what_they_are_and_a_program_gets_a_thousand(b):
    b.send("new", ["x"], "--auto-create", "--codec", "ce", "-t", "t")
    entry = b.server.call("XRANGE", "leat:{new/0}:log", "-", "+")[0][1]
    program = b.script('env | grep -c ^LEAT_HEADER_ >>"$T/log"')
    took = {}
    for i, many in enumerate((1000, 1100, 140000)):
        more = [x for k in range(many) for x in (f"h{k}", "1")]
        b.server.call("XADD", "bare", "*", *entry, *more)
        before = sum(os.times()[2:4])
        exits(b.consume("--codec", "ce", "--exec", program, topic="bare", n=1),
              0)
        took[many] = sum(os.times()[2:4]) - before
        count = int(b.lines("log")[i])
        assert count == many if many == 1000 else 1000 < count <= 1024, count
    # 140,000 took 15 s when each was looked for among all before it.
    assert took[140000] < 5, took


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
    p = b.consume("-e", LEAT, "--", "topic", "send", "out", "-q", n=1)
    exits(p, 0)
    m, = b.tail("out")
    equal((m["data"], m["key"], m["type"], m["partition"]),
          ("x", None, None, 0))


if __name__ == "__main__":
    sys.exit(main(__name__))
