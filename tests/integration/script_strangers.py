"""What others wrote among a queue's own or a topic's, and what is more than a
script takes.

Somebody else's entries and deadlines are passed over, put off or dropped as
messages that are gone: no script fails by them for ever, or half way, and the
messages around them stand in one place.  What a topic cannot read of what it put
by becomes a dead letter.

Usage: script_strangers.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from script_cases import (GROUP, LANE, ME, TOPIC, kept, letter,  # noqa: E402
                          of_topic, step)
from script_cases_queue import (LATER, entry, flying, queue_case,  # noqa: E402
                                shard)
from script_most import in_lots, numbered  # noqa: E402
from script_most_queue import with_bodies  # noqa: E402
from script_rig import Case, Queue, alone, run, scripts  # noqa: E402
from wire import Refused  # noqa: E402

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


# ---- topics ---------------------------------------------------------------

# Neither fields nor a meta: no table, one of other types, cut short, or of
# values that are out of range.
PACKED = ["no table", "", b"\xc1", b"\x92\xa1b", b"\x92\x01\x02", b"\x91\xa1b",
          b"\x80", b"\x9a" + 10 * (b"\xcb\x7f\xf8" + 6 * b"\0")]
NO_ID = ["x", "", "1", "-", "1-", "1-0-0", LANE + "/1"]


def member(lane, i):
    return f"{lane}/{i:020}{0:020}"


class Kept:
    """What one group has put by on a partition."""

    NAMES = ("", "k", "d", "n", "q", "c")  # lease, kept, due, lane, dlq, cursor

    def __init__(self, q, before):
        self.q, self.w = q, q.w
        self.before = [["HSET", "p", "o", ME, "e", 9],
                       ["HSET", "pc", "e", 9, "q", 4, "c", "0-0", "u", "aa",
                        "k", 0], *before]

    def run(self, name, keys, args):
        """Why it failed, if it did, and the answer."""
        case = Case(self.w, name, self.q.texts[name],
                    (self.before, ["p" + x for x in keys], args))
        try:
            return [], self.w.call("EVAL", case.text, len(case.keys),
                                   *case.keys, *case.args)
        except Refused as e:
            return [str(e)], None

    def due(self, rounds=1):
        """The ids that were handed out, how many went aside, and what failed."""
        ids, aside = [], 0
        bad, answer = self.run("topic/due", self.NAMES, [ME, 9, 10, 9999, GROUP])
        for _ in range(rounds - 1):
            aside += answer[2] if answer else 0
            if not bad:
                answer = self.w.call(
                    "EVAL", self.q.texts["topic/due"], len(self.NAMES),
                    *("p" + x for x in self.NAMES), ME, 9, 10, 9999, GROUP)
        if answer:
            ids, aside = [x[0] for x in answer[3:]], aside + answer[2]
        return bad, ids, aside

    def letters(self):
        """The fields of all dead letters, by name."""
        return [dict(zip(x[1][::2], x[1][1::2]))
                for x in self.w.call("XRANGE", "pq", "-", "+")]


def due_of(before, i):
    return [*before, ["ZADD", "pd", i, f"{i}-0"]]


def fields_odd(q):
    """Whatever is no fields is a dead letter, byte for byte."""
    odd = []
    for i, x in enumerate(PACKED, 1):
        odd += due_of([kept("pk", f"{i}-0"), ["HSET", "pk", f"{i}-0", x]], i)
    k = Kept(q, odd + due_of([kept("pk", "99-0")], 99))
    bad, ids, aside = k.due()
    got = [x[b"@packed"] for x in k.letters()]
    want = [x if isinstance(x, bytes) else x.encode() for x in PACKED]
    return bad + [x for x in (ids, aside, got, q.w.call("HLEN", "pk"))
                  if x not in ([b"99-0"], len(PACKED), want, 2)]


def meta_odd(q):
    """The message is a dead letter, and can be replayed."""
    odd = []
    for i, x in enumerate(PACKED, 1):
        odd += due_of([kept("pk", f"{i}-0"), ["HSET", "pk", f"{i}-0m", x]], i)
    k = Kept(q, odd + due_of([kept("pk", "99-0")], 99))
    bad, ids, aside = k.due()
    got = [(x[b"b"], x[b"u"], x[b"g"]) for x in k.letters()]
    return bad + [x for x in (ids, aside, got) if x not in (
        [b"99-0"], len(PACKED), [(b"x", b"aa", GROUP.encode())] * len(PACKED))]


def due_alone(q):
    """Times of nothing go, however many there are."""
    times = [x for i in range(200) for x in (i, f"{i}-7")]
    k = Kept(q, [["ZADD", "pd", *times], *due_of([kept("pk", "999-0")], 999),
                 ["ZADD", "pd", *(x for n in NO_ID for x in (5, n))]])
    bad, ids, aside = k.due(rounds=20)
    return bad + [x for x in (ids, aside, q.w.call("ZCARD", "pd"),
                              len(k.letters()))
                  if x not in ([b"999-0"], 0, 1)]


def lane_odd(q):
    """What is behind it in its lane comes next."""
    k = Kept(q, [*due_of([kept("pk", "1-0", LANE)], 1),
                 kept("pk", "2-0", LANE), ["HSET", "pk", "1-0m", "no meta"],
                 ["ZADD", "pn", 0, member(LANE, 1), 0, member(LANE, 2)]])
    bad, ids, aside = k.due(rounds=2)
    return bad + [x for x in (ids, aside, q.w.call("ZCARD", "pn"))
                  if x not in ([b"2-0"], 1)]


def moved_odd(what, which):
    """A message in hand whose values somebody else wrote over."""
    def check(q):
        k = Kept(q, [*due_of([kept("pk", "1-0", LANE)], 1),
                     kept("pk", "2-0", LANE), ["HSET", "pk", which, "odd"],
                     ["ZADD", "pn", 0, member(LANE, 1), 0, member(LANE, 2)]])
        bad, answer = k.run(
            "topic/move", ("", "c", "l", "k", "d", "n", "q", "b", "t", "u",
                           "v"),
            [ME, 9, 5, "5-0", "6-0", 5, "", "", GROUP, 1000, 0, 255, "",
             *step(1, what, "1-0", 2, 2, error="no",
                   lane="1:b1:x" if what == "again" else "")])
        left = q.w.call("HKEYS", "pk")
        gone = left == [b"2-0", b"2-0m"] and \
            q.w.call("ZRANGE", "pd", 0, -1) == [b"2-0"]
        return bad + ([] if answer == [b"1"] and (
            gone or what in ("begin", "keep")) else [answer, left])
    return check


def pending_odd(q):
    k = Kept(q, [*due_of([kept("pk", "1-0")], 1), *due_of([], 2),
                 ["HSET", "pk", "2-0", "x", "2-0m", "odd"]])
    bad, answer = k.run("admin/pending", ("k", "d", "n"), ["retry", 0, 10])
    return bad + [x for x in ([x[0] for x in (answer or [])[1:]],)
                  if x != [b"1-0"]]


def replayed_odd(q):
    """It is put by as it is, and can be handed out."""
    odd = letter("pq", "5-0", "1-0")
    k = Kept(q, [[*odd[:-2], "@packed", b"\x92\x01\x02"], of_topic("p"),
                 ["HDEL", "pc", "u"]])
    bad, answer = k.run("admin/replay", ("q", "k", "d", "n", "c", "id"),
                        ["", GROUP, 0, "5-0", TOPIC])
    if answer != [b"1"]:
        return [*bad, answer]
    got = q.w.call("EVAL", q.texts["topic/due"], 6,
                   *("p" + x for x in Kept.NAMES), ME, 9, 10, 9999, GROUP)
    return [] if [x[1] for x in got[3:]] == [[b"@packed", b"\x92\x01\x02"]] \
        else [got]


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
    "what was put by and has no fields becomes a dead letter": fields_odd,
    "what was put by and has no meta becomes a dead letter": meta_odd,
    "times at which nothing is due go": due_alone,
    "what is behind an unreadable one in its lane comes": lane_odd,
    "a step dead takes fields that cannot be read as they are":
        moved_odd("dead", "1-0"),
    **{f"a step {what} passes over a meta that cannot be read":
       moved_odd(what, "1-0m")
       for what in ("begin", "done", "dead", "again", "keep")},
    "what is pending is shown without what cannot be read": pending_odd,
    "a dead letter of what is no message is replayed as it is": replayed_odd,
}


def main(rig, tap):
    with alone(rig) as w:
        q = Queues(w)
        for name, check in CHECKS.items():
            bad = check(q)
            tap.say(not bad, name, "; ".join(map(str, bad)))


if __name__ == "__main__":
    sys.exit(run(main))
