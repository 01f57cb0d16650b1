"""Each script of queues on as many as it takes: see script_most.py."""

from script_cases import KEEP, LANE, ME
from script_cases_queue import (LATER, entry, flying, owl_case, queue_case,
                                shard)
from script_most import Limit, in_lots, numbered
from script_rig import Queue


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
    "ack": lambda n: owl_case("l", owl_flying(n, LATER), "o", LANE, 7, "0",
                              *(f"r{i}" for i in numbered(n))),
    "change": lambda n: owl_case("l", owl_flying(n, LATER), "o", LANE, 7, "0",
                                 "0", "back", 0, "",
                                 *(f"r{i}" for i in numbered(n))),
    "drop": lambda n: owl_case("l", owl_list("dlq", n), "o", "dead", n, "0",
                               "1"),
    "expire": lambda n: owl_case("l", owl_flying(n, 1), n, "0", ME, KEEP, "0",
                                 "l"),
    "peek": lambda n: owl_case("l", owl_list("dlq", n), "o", n, "1"),
    "redrive": lambda n: owl_case("l", owl_list("dlq", n), "o", LANE, 7, "0",
                                  n),
    "send": lambda n: owl_case("l", [], "o", LANE, 1, "0", 0, "0", *(
        x for i in numbered(n)
        for x in (f"id{i}", "4\nnulleA==", "", "", 5000, 0))),
    "take": lambda n: owl_case("l", owl_list("ready", n), "o", LANE, 1, "0", n,
                               5000, 10, "0", 0, "1"),
}


def look(n):
    return queue_case("l:{q/1}:", [], [], n, 1, "1", "")


def look_shards(n):
    return [], [f"l:{{q/{i}}}:due" for i in range(n)], [1, 1, "1", ""]


def make(n):
    base, _, keys = shard("l")
    return queue_case(base, [], keys, "o", "open", "aa", *(
        x for i in numbered(n) for x in (f"f{i}", 1)))


def with_fields(key):
    """What reads all settings, or all figures, of a queue."""
    def case(n):
        base, _, keys = shard("l")
        return queue_case(base, [["HSET", f"{base}o:{key}", *(
            x for i in numbered(n) for x in (f"f{i}", 1))]], keys, "o", "find",
            "aa")
    return case


def whole(case):
    """Whatever has a body stands in one place."""
    return [f"strays {len(x)}" for x in Queue(case).strays()]


def repair(n):
    """As many entries, and some that stand nowhere."""
    base, made, keys = shard("l")
    return queue_case(base, [
        *made, *with_bodies(base, n + 10), ["SADD", base + "queues", "o"],
        *in_lots(["RPUSH", base + "o:ready"], [entry(i) for i in numbered(n)])],
        keys, "0")


def repair_groups(n):
    """As many groups, some of them busy with what stands nowhere."""
    base, made, keys = shard("l", fifo=1)
    busy = range(n - 5, n + 1)
    return queue_case(base, [
        *made, *with_bodies(base, n + 10), ["SADD", base + "queues", "o"],
        *in_lots(["RPUSH", base + "o:ready"],
                 [f"g{i}" for i in range(1, n - 5)]),
        ["EVAL", FILL_GROUPS, 1, base + "o:g:g", n],
        ["HSET", base + "o:busy", *(
            x for i in busy for x in (f"g{i}", f"id{i + 10}"))]], keys, "0")


def repair_due(n):
    base, made, keys = shard("l")
    return queue_case(base, [
        *made, *with_bodies(base, n + 10), ["SADD", base + "queues", "o"],
        *with_flying(base, n)], keys, "0")


def repair_bodies(n):
    """Some have a place; at most 1,000 are restored in a call."""
    base, made, keys = shard("l")
    return queue_case(base, [
        *made, *with_bodies(base, n), ["SADD", base + "queues", "o"],
        *in_lots(["RPUSH", base + "o:ready"],
                 [entry(i) for i in numbered(PLACED)])], keys, "0")


PLACED = 3000
FILL_GROUPS = """
for i = 1, tonumber(ARGV[1]) do
    redis.call('RPUSH', KEYS[1] .. i, '0/5/' .. #('g' .. i) .. '/g' .. i ..
               '/id' .. i)
end
"""


def goes_on(case):
    """How many calls it takes until nothing of a search is left."""
    calls = 1
    while calls < 200 and case.w.call("EXISTS", case.keys[0][:-3] + "lost"):
        case.run()
        calls += 1
    return calls


def whole_soon(case):
    calls = goes_on(case)
    return whole(case) + case.w.call("KEYS", "*lost*") + \
        (["at once"] if calls < 2 else [])


BATCH, LOT, TAKE, SETTLE = 1000, 400, 4096, 4096
LIMITS = [
    Limit("queue/send", BATCH, send, at=whole),
    Limit("queue/send", BATCH, send_later),
    Limit("queue/send_each", LOT, send_each),
    Limit("queue/take", BATCH, take, at=whole),
    Limit("queue/take", BATCH, take_picking, at=whole),
    Limit("queue/ack", BATCH, ack, at=whole),
    Limit("queue/change", SETTLE, change("hide"), same=True),
    *(Limit("queue/change", SETTLE, change(x))
      for x in ("back", "bury", "free", "late")),
    Limit("queue/expire", BATCH, expire, at=whole),
    Limit("queue/redrive", BATCH, redrive), Limit("queue/drop", BATCH, drop),
    Limit("queue/peek", BATCH, peek, same=True),
    Limit("queue/make", 50, make),
    Limit("queue/make", 100, with_fields("conf"), same=True),
    Limit("queue/stats", 100, with_fields("conf"), same=True),
    Limit("queue/stats", 100, with_fields("stat"), same=True),
    *(Limit("queue/repair", 4000, x, at=whole, beyond=whole_soon)
      for x in (repair, repair_groups, repair_due)),
    Limit("queue/repair", 20000, repair_bodies, beyond=whole_soon),
    Limit("pool/look", 2000, look, same=True),
    Limit("pool/look", 64, look_shards, same=True),
    Limit("pool/serve", TAKE, serve, at=whole),
    Limit("pool/serve", 256, serve_turn),
    Limit("pool/serve", 2000, serve_queues, same=True),
    Limit("pool/done", SETTLE, done), Limit("pool/done", SETTLE, done_of_one),
    *(Limit(f"queue/owl_{x}", BATCH, OWL[x], same=x == "peek") for x in OWL),
]
