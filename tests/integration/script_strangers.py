"""What others wrote among a queue's own, and what is more than a script takes.

Somebody else's entries and deadlines are passed over, put off or dropped as
messages that are gone: no script fails by them for ever, or half way, and the
messages around them stand in one place.

Usage: script_strangers.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from script_cases import LANE  # noqa: E402
from script_cases_queue import (LATER, entry, flying, queue_case,  # noqa: E402
                                shard)
from script_most import in_lots, numbered  # noqa: E402
from script_most_queue import with_bodies  # noqa: E402
from script_rig import Case, Queue, alone, run, scripts  # noqa: E402

ODD = ("", "x", "/", "//", "1/", "a/b/c", "1/2", "d/o", "v/o/", "x/o/1/2")


class Queues:
    """Cases of one queue, and what is wrong after a script ran on them."""

    def __init__(self, w):
        self.w, self.texts = w, scripts()

    def case(self, name, args, before, n=2, **settings):
        base, made, keys = shard("s", **settings)
        return Case(self.w, name, self.texts[name], queue_case(
            base, [*made, *with_bodies(base, n), ["SADD", base + "queues", "o"],
                   *([x[0], base + x[1], *x[2:]] for x in before)],
            keys, *args))

    def wrong(self, name, args, before, **settings):
        case = self.case(name, args, before, **settings)
        how = case.run()
        return [] if how is True else [how], Queue(case)


def due_odd(q):
    """The reaper."""
    odd = [x for m in ODD for x in (1, m)]
    bad, o = q.wrong("queue/expire", [400, "0", "", 0, "1"], [
        ["ZADD", "due", *odd, 1, flying(1), 2, "d/o/" + entry(2)]])
    ready = q.w.call("LRANGE", o.base + "o:ready", 0, -1)
    put_off = q.w.call("ZCARD", o.base + "due")
    return bad + o.strays() + [x for x in (
        len(ready) - 2, put_off - len(ODD)) if x]


def due_odd_fifo(q):
    bad, o = q.wrong("queue/expire", [400, "0", "", 0, "1"], [
        ["ZADD", "due", *(x for m in ODD for x in (1, m)),
         1, "v/o/1/5/9/a/id1/x", 1, "d/o/7", 1, flying(1, group="a"),
         2, f"d/o/{1:016}/" + entry(2, group="b")]], fifo=1)
    return bad + [x for x in (
        q.w.call("LLEN", o.base + "o:g:a") - 1,
        q.w.call("LLEN", o.base + "o:g:b") - 1) if x]


def ready_odd(how):
    """A receive, plain or one that looks at each."""
    def check(q):
        bad, o = q.wrong("queue/take", ["o", LANE, 1, "0", 100, 0, 10, 0], [
            ["RPUSH", "o:ready", *ODD, entry(1, sent=LATER), *ODD,
             entry(2, sent=LATER)]], **how)
        return bad + o.strays() + [
            x for x in [q.w.call("ZCARD", o.base + "due") - 2] if x]
    return check


def ready_odd_fifo(q):
    bad, o = q.wrong("queue/take", ["o", LANE, 1, "0", 100, 0, 10, 0], [
        ["RPUSH", "o:ready", "a", "b"],
        ["RPUSH", "o:g:a", *ODD, "1/5/9/a/id1", entry(1, group="a")],
        ["RPUSH", "o:g:b", entry(2, group="b")]], fifo=1)
    return bad + o.strays()


def served_odd(q):
    bad, o = q.wrong("pool/serve", [10, LANE, 1, "0", 0, 99, 99, 99, 1000], [
        ["ZADD", "work", 1, "o"],
        ["RPUSH", "o:ready", *ODD, entry(1), *ODD, entry(2)]])
    return bad + o.strays() + [
        x for x in [q.w.call("ZCARD", o.base + "due") - 2] if x]


def dead_odd(name, *args):
    def check(q):
        bad, o = q.wrong(name, args, [
            ["RPUSH", "o:dead", *ODD, entry(1, 3), *ODD, entry(2, 3)]])
        return bad + o.strays() + [
            x for x in [q.w.call("LLEN", o.base + "o:dead")]
            if x and name != "queue/peek"]
    return check


def purged_odd(q):
    bad, o = q.wrong("queue/drop", ["o", "due", 100, "0", 1, 1], [
        ["ZADD", "due", LATER, "v/o/", LATER, "d/o/7", LATER, flying(1), LATER,
         "d/o/" + entry(2), LATER, "odd"]])
    return bad + o.strays() + [
        x for x in [q.w.call("ZCARD", o.base + "due") - 1] if x]


MS, LOOKED = 1700000030000, 10000


def asked_again(q, others):
    """The answer to a receive that is asked for again, among the deadlines of
    so many others."""
    case = q.case("queue/take", ["o", LANE, 7, "0", 10, 0, 10, 0], [
        ["SET", "s:" + LANE, f"7 {MS} 1"],
        *in_lots(["ZADD", "due"], [x for i in numbered(others) for x in (
            MS, f"v/a/1/1700000000000/id{i}/{LANE}.3")]),
        ["ZADD", "due", MS, f"v/o/{entry(1, 1)}/{LANE}.7"]], n=1)
    case.answer = case.w.call("EVAL", case.text, 1, *case.keys, *case.args)
    return (len(case.answer) - 2) // 2


def again(q):
    got = [asked_again(q, LOOKED - 1), asked_again(q, LOOKED)]
    return [] if got == [1, 0] else [got]


CHECKS = {
    "what is due comes back among deadlines of others": due_odd,
    "what is due of a group comes back among them, too": due_odd_fifo,
    "a receive passes over what is no entry": ready_odd({}),
    "a receive that looks at each passes over it": ready_odd({"ttl": 60000}),
    "a receive of a group passes over it": ready_odd_fifo,
    "a pool passes over what is no entry": served_odd,
    "dead letters are redriven among what is none":
        dead_odd("queue/redrive", "o", LANE, 7, "0", 100, 1),
    "dead letters are dropped with what is none":
        dead_odd("queue/drop", "o", "dead", 100, "0", 0, 1),
    "dead letters are shown without what is none":
        dead_odd("queue/peek", "o", 100, "1"),
    "what is in flight is dropped among deadlines of others": purged_odd,
    f"a receive is found again among {LOOKED} of its millisecond": again,
}


def main(rig, tap):
    with alone(rig) as w:
        q = Queues(w)
        for name, check in CHECKS.items():
            bad = check(q)
            tap.say(not bad, name, "; ".join(map(str, bad)))


if __name__ == "__main__":
    sys.exit(run(main))
