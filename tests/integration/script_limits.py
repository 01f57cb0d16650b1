"""Scripts at the most that they take, and one beyond.

Lua passes on some 8,000 values at once, and what a script wrote before it is
refused stays.  So each script has a bound on what it is given: at it everything
is done and whatever has a body stands in one place; beyond it the script fails
and has changed nothing.

Usage: script_limits.py [name...]
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aof_cuts import (KEEP, LANE, LATER, ME, Tap, entry, flying,  # noqa: E402
                      owl_case, queue_case, scripts, shard, start)
from chaos import Rig  # noqa: E402
from script_refusals import Case, Queue  # noqa: E402
from wire import Wire  # noqa: E402


def in_lots(words, values, lot=1000):
    """A command on many values, as some."""
    for i in range(0, len(values), lot):
        yield [*words, *values[i:i + lot]]


def numbered(n):
    return range(1, n + 1)


def with_bodies(base, n, queue="o"):
    return in_lots(["HSET", f"{base}{queue}:body"],
                   [x for i in numbered(n) for x in (f"id{i}", f"body {i}")])


def with_flying(base, n):
    return in_lots(["ZADD", base + "due"],
                   [x for i in numbered(n) for x in (LATER, flying(i))])


def flights(n):
    return [flying(i) for i in numbered(n)]


def ids(n):
    return [f"id{i}" for i in numbered(n)]


# ---- a call on n of them, for each script

def send(n):
    base, made, keys = shard("l")
    return queue_case(base, made, keys, "o", LANE, 1, "0", 0, "0", *(
        x for i in numbered(n) for x in (f"id{i}", "body")))


def send_later(n):
    base, made, keys = shard("l")
    return queue_case(base, made, keys, "o", LANE, 1, "0", 5000, "0", *(
        x for i in numbered(n) for x in (f"id{i}", "body")))


def send_each(n):
    base, made, keys = shard("l", fifo=1)
    return queue_case(base, made, keys, "o", LANE, 1, "0", 1, "0", *(
        x for i in numbered(n)
        for x in (f"id{i}", "body", f"g{i}", f"x{i}", 0, 1)))


def take(n, **settings):
    base, made, keys = shard("l", **settings)
    return queue_case(base, [
        *made, *with_bodies(base, n),
        *in_lots(["RPUSH", base + "o:ready"],
                 [entry(i, sent=LATER) for i in numbered(n)])], keys,
        "o", LANE, 1, "0", n, 0, 10, 0)


def take_picking(n):
    return take(n, ttl=KEEP)


def ack(n):
    base, made, keys = shard("l")
    return queue_case(base, [*made, *with_bodies(base, n),
                             *with_flying(base, n)], keys,
                      "o", "0", "0", "0", 0, *flights(n), *ids(n))


def change(how):
    def case(n):
        base, made, keys = shard("l")
        return queue_case(base, [*made, *with_bodies(base, n),
                                 *with_flying(base, n)], keys,
                          "o", LANE, 7, "0", "0", how, 5000, "", *flights(n))
    return case


def expire(n):
    base, made, keys = shard("l")
    return queue_case(base, [
        *made, *with_bodies(base, n), *in_lots(
            ["ZADD", base + "due"],
            [x for i in numbered(n) for x in (1, flying(i))])], keys,
        n, "0", "", 0, "1")


def of_dead(n):
    base, made, keys = shard("l")
    return base, [*made, *with_bodies(base, n), *in_lots(
        ["RPUSH", base + "o:dead"], [entry(i, 3) for i in numbered(n)])], keys


def redrive(n):
    base, before, keys = of_dead(n)
    return queue_case(base, before, keys, "o", LANE, 7, "0", n, 1)


def drop(n):
    base, before, keys = of_dead(n)
    return queue_case(base, before, keys, "o", "dead", n, "0", 0, 1)


def peek(n):
    base, before, keys = of_dead(n)
    return queue_case(base, before, keys, "o", n, "1")


def serve(n, each=256):
    """Of as many queues as are needed, of which `o` is one."""
    base, made, keys = shard("l")
    names = ["o"] + [f"p{i}" for i in range((n - 1) // each)]
    before = []
    for name in names:
        before += [["HSET", f"{base}{name}:conf", *made[0][2:]],
                   ["ZADD", base + "work", 1, name],
                   *with_bodies(base, each, name),
                   ["RPUSH", f"{base}{name}:ready",
                    *(entry(i) for i in numbered(each))]]
    return queue_case(base, before, keys, len(names), LANE, 1, "0", 0, 1, each,
                      n, 1 << 26)


def serve_turn(n):
    return serve(n, n)


def serve_queues(n):
    base, made, keys = shard("l")
    return queue_case(base, made, keys, n, LANE, 1, "0", 0, 1, 1, 1, 1 << 26)


def done(n):
    """Each of a queue of its own."""
    base, _, keys = shard("l")
    before = [*in_lots(["ZADD", base + "due"],
                       [x for i in numbered(n)
                        for x in (LATER, f"v/p{i}/{entry(i, 1)}/{LANE}.1")])]
    return queue_case(base, before, keys, "0", "0", "1", *(
        x for i in numbered(n)
        for x in (f"p{i}", "", "1", 1, f"v/p{i}/{entry(i, 1)}/{LANE}.1",
                  f"id{i}")))


def done_of_one(n):
    base, made, keys = shard("l")
    return queue_case(base, [*made, *with_bodies(base, n),
                             *with_flying(base, n)], keys,
                      "0", "0", "1", "o", "+", "1", n, *flights(n), *ids(n))


def owl_messages(n):
    return [["HSET", f"msg:id{i}", "body", "eA==", "attrs", "null", "rc", 1,
             "created_at_ms", 1700000000000] for i in numbered(n)]


def owl_flying(n, when):
    receipts = [x for i in numbered(n) for x in (f"r{i}", f"id{i}")]
    due = [x for i in numbered(n) for x in (when, f"r{i}")]
    return [*owl_messages(n), *in_lots(["HSET", "receipt"], receipts),
            *in_lots(["ZADD", "inflight"], due)]


def owl_list(name, n):
    return [*owl_messages(n), *in_lots(["RPUSH", name], ids(n))]


OWL = {
    "ack": lambda n: owl_case("l", owl_flying(n, LATER), "o", "0", "0", "0", 0,
                              *(f"r{i}" for i in numbered(n)), *[""] * n),
    "change": lambda n: owl_case("l", owl_flying(n, LATER), "o", LANE, 7, "0",
                                 "0", "back", 0, "",
                                 *(f"r{i}" for i in numbered(n))),
    "drop": lambda n: owl_case("l", owl_list("dlq", n), "o", "dead", n, "0",
                               "1"),
    "expire": lambda n: owl_case("l", owl_flying(n, 1), n, "0", ME, KEEP, "0"),
    "peek": lambda n: owl_case("l", owl_list("dlq", n), "o", n, "1"),
    "redrive": lambda n: owl_case("l", owl_list("dlq", n), "o", LANE, 7, "0",
                                  n),
    "send": lambda n: owl_case("l", [], "o", LANE, 1, "0", 0, "0", *(
        x for i in numbered(n)
        for x in (f"id{i}", "4\nnulleA==", "", "", 5000, 0))),
    "take": lambda n: owl_case("l", owl_list("ready", n), "o", LANE, 1, "0", n,
                               5000, 10, "0", 0),
}


def fields(n):
    return [x for i in range(n // 2) for x in (f"f{i}", "x")] + \
        ["more"] * (n % 2 * 2)


def add(n):
    return (), ["l", "lt"], [0, 0, "", *fields(n)]


def later(n):
    return (), ["l", "ls", "le", "ll"], ["token", 5000, 0, *fields(n)]


HIDE = change("hide")
BATCH, LOT, TAKE, SETTLE = 1000, 400, 4096, 4096
LIMITS = [
    ("queue/send", BATCH, send), ("queue/send", BATCH, send_later),
    ("queue/send_each", LOT, send_each),
    ("queue/take", BATCH, take), ("queue/take", BATCH, take_picking),
    ("queue/ack", BATCH, ack),
    ("queue/change", SETTLE, HIDE),
    *(("queue/change", SETTLE, change(x))
      for x in ("back", "bury", "free", "late")),
    ("queue/expire", BATCH, expire), ("queue/redrive", BATCH, redrive),
    ("queue/drop", BATCH, drop), ("queue/peek", BATCH, peek),
    ("pool/serve", TAKE, serve), ("pool/serve", 256, serve_turn),
    ("pool/serve", 2000, serve_queues),
    ("pool/done", SETTLE, done), ("pool/done", SETTLE, done_of_one),
    *((f"queue/owl_{x}", BATCH, OWL[x]) for x in OWL),
    ("topic/add", 7000, add), ("topic/later", 7000, later),
]


# They look, hide for longer, or have nothing to serve.
UNCHANGED = (peek, OWL["peek"], HIDE, serve_queues)


def wrong_with(w, name, text, most, make):
    case = Case(w, name, text, make(most))
    before, how, bad = case.state(), case.run(), []
    if how is not True:
        bad.append(f"{most}: {how}")
    elif case.state() == before and make not in UNCHANGED:
        bad.append(f"{most}: nothing was done")
    if make in (serve, ack, take, take_picking, send, expire):
        bad += [f"{most}: strays {len(x)}" for x in Queue(case).strays()]
    case = Case(w, name, text, make(most + 1))
    before = case.state()
    if case.run() is True:
        bad.append(f"{most + 1} are not refused")
    if case.state() != before:
        bad.append(f"{most + 1} changed something")
    return bad


def main():
    tap, begin, texts = Tap(), time.monotonic(), scripts()
    with Rig() as rig:
        start(rig, rig.dir / "s", rig.dir)
        with Wire(rig.dir / "s") as w:
            w.call("CONFIG", "SET", "appendonly", "no")
            for i, (name, most, make) in enumerate(LIMITS):
                if sys.argv[1:] and name not in sys.argv[1:]:
                    continue
                bad = wrong_with(w, name, texts[name], most, make)
                tap.say(not bad, f"{name} takes {most}, and no more, case {i}",
                        "; ".join(bad))
    print(f"# {time.monotonic() - begin:.1f} s")
    print(f"1..{tap.n}")
    return 1 if tap.bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
