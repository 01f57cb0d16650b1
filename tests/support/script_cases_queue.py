"""What each script of queues is given, by its name: see script_cases.py.

All keys of a queue are derived from that of the deadlines, those of a redowl
queue from that of what is in flight.
"""

from script_cases import KEEP, LANE, ME

LATER = 9999999999999  # a deadline that is not due


def shard(k, **settings):
    """The base of a shard's keys, what makes a queue in it, and its keys."""
    base = k + ":{q/1}:"
    conf = {"created": 1, "hide": 30000, "receives": 0, "delay": 0, "ttl": 0,
            "max": 1000, "dedup": KEEP, "fifo": 0, "events": 1, **settings}
    keys = [base + x for x in ("due", "work", "queues", "clock", "reaper",
                               "s:" + LANE)]
    keys += [base + "o:" + x for x in (
        "conf", "ready", "body", "dead", "stat", "why", "log", "busy", "g:a",
        "g:b", "dd:1:x", "by:id1")]
    return base, [["HSET", base + "o:conf",
                   *(y for x in conf.items() for y in x)]], keys


def entry(i, receives=0, group=None, sent=1700000000000):
    return f"{receives}/{sent}/" + (f"1/{group}/" if group else "") + f"id{i}"


def flying(i, kind="v", **more):
    return f"{kind}/o/{entry(i, 1, **more)}/{LANE}.1"


def bodies(base, *numbers):
    for i in numbers:
        yield ["HSET", base + "o:body", f"id{i}", f"body {i}"]


def queue_case(base, before, keys, *args):
    return before, [base + "due"], args, keys


def queue_ack(k):
    base, made, keys = shard(k)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2, 3), ["HSET", base + "o:why", "id3", "no"],
        ["ZADD", base + "due", LATER, flying(1), LATER, flying(2), LATER,
         flying(3, "x")]], keys,
        "o", "2", "0", "0", 1, flying(1), flying(2), flying(3, "x"), "id1",
        "id2", "id3")
    base, made, keys = shard(k + "f", fifo=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2), ["HSET", base + "o:busy", "a", "id1"],
        ["RPUSH", base + "o:g:a", entry(2, group="a")],
        ["ZADD", base + "due", LATER, flying(1, group="a")]], keys,
        "o", "2", "0", "1", 0, flying(1, group="a"), flying(9, group="b"),
        "id1", "id9", "a", "b")


def queue_change(k):
    for n, (how, reason) in enumerate((("hide", ""), ("back", ""), ("free", ""),
                                       ("fail", "no"), ("bury", "no"),
                                       ("wait", ""), ("late", ""))):
        base, made, keys = shard(f"{k}{n}", receives=int(how == "fail"))
        yield queue_case(base, [
            *made, *bodies(base, 1, 2),
            ["ZADD", base + "due", LATER, flying(1), LATER, flying(2, "x")]],
            keys, "o", LANE, 7, "2", "0", how, 5000, reason, flying(1),
            flying(2, "x"), flying(9))
    base, made, keys = shard(k + "f", fifo=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2), ["HSET", base + "o:busy", "a", "id1"],
        ["RPUSH", base + "o:g:a", entry(2, group="a")],
        ["ZADD", base + "due", LATER, flying(1, group="a")]], keys,
        "o", LANE, 7, "2", "1", "back", 0, "", flying(1, group="a"))


def queue_drop(k):
    for n, (what, which) in enumerate((("ready", 0), ("dead", 0), ("due", 1),
                                       ("mark", 0), ("end", 0))):
        base, made, keys = shard(f"{k}{n}")
        yield queue_case(base, [
            *made, *bodies(base, 1, 2, 3, 4), ["SADD", base + "queues", "o"],
            ["HSET", base + "o:why", "id3", "no"],
            ["RPUSH", base + "o:ready", entry(1)],
            ["ZADD", base + "work", 1, "o"],
            ["RPUSH", base + "o:dead", entry(3, 1)],
            ["ZADD", base + "due", LATER, flying(2), LATER,
             "d/o/" + entry(4), 1, "d/p/" + entry(9)]], keys,
            "o", what, 100, "0", which, 1)


def queue_expire(k):
    base, made, keys = shard(k, receives=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2, 3),
        ["ZADD", base + "due", 1, flying(1), 2, "d/o/" + entry(2), 3,
         flying(3, "x"), LATER, flying(4)]], keys, 100, "2", ME, KEEP, "0")
    base, made, keys = shard(k + "f", fifo=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2), ["HSET", base + "o:busy", "a", "id1"],
        ["ZADD", base + "due", 1, flying(1, group="a"), 2,
         f"d/o/{1:016}/" + entry(2, group="b")]], keys, 100, "2", "", 0, "1")


def queue_repair(k):
    """The second stands nowhere; groups: one is waited for; a search that is
    under way."""
    base, made, keys = shard(k)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2, 3), ["SADD", base + "queues", "o"],
        ["HSET", base + "o:stat", "sent", 3, "recv", 2],
        ["RPUSH", base + "o:ready", entry(1)],
        ["ZADD", base + "due", LATER, flying(3)]], keys, "2")
    base, made, keys = shard(k + "f", fifo=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2, 3), ["SADD", base + "queues", "o"],
        ["HSET", base + "o:busy", "a", "id1"],
        ["RPUSH", base + "o:g:a", entry(2, group="a")]], keys, "2")
    for n, phase in enumerate(("bodies", "restore")):
        base, made, keys = shard(f"{k}s{n}")
        lost = base + "lost"
        yield queue_case(base, [
            *made, *bodies(base, 1, 2, 3), ["SADD", base + "queues", "o"],
            ["RPUSH", base + "o:ready", entry(1)],
            ["ZADD", base + "due", LATER, flying(3)],
            ["HSET", lost, "queue", "o", "u", 1, "phase", phase, "at", 0,
             "body", 0, "found", 0, "group", ""],
            *([["SADD", lost + ":ids", "id2"]] if phase == "restore" else [])],
            [*keys, lost, *(lost + x for x in (":ids", ":groups", ":read",
                                               ":busy"))], "2")


def queue_make(k):
    base, made, keys = shard(k)
    yield queue_case(base, [], keys, "o", "open", "u1", *made[0][4:])
    base, made, keys = shard(k + "a")
    yield queue_case(base, made, keys, "o", "alter", 1, "hide", 5, "ttl", 9)
    base, made, keys = shard(k + "p")
    yield queue_case(base, made, keys, "o", "pause", 1)
    base, made, keys = shard(k + "r", paused=5)
    yield queue_case(base, [*made, ["RPUSH", base + "o:ready", entry(1)]],
                     keys, "o", "resume", 1)


def queue_redrive(k):
    for fifo in (0, 1):
        base, made, keys = shard(f"{k}{fifo}", fifo=fifo)
        group = "a" if fifo else None
        yield queue_case(base, [
            *made, *bodies(base, 1, 2), ["HSET", base + "o:why", "id1", "no"],
            ["RPUSH", base + "o:dead", entry(1, 3, group), entry(2, 3, group)]],
            keys, "o", LANE, 7, "2", 10, 1)


def queue_send(k):
    for delay in (0, 5000):
        base, made, keys = shard(f"{k}{delay}")
        yield queue_case(base, made, keys, "o", LANE, 1, "2", delay, "11",
                         "id1", "body 1", "id2", "body 2")


def queue_send_each(k):
    for fifo in (0, 1):
        base, made, keys = shard(f"{k}{fifo}", fifo=fifo)
        yield queue_case(base, made, keys, "o", LANE, 1, "2", fifo, "0",
                         "id1", "body 1", "a", "x", 0, 1,
                         "id2", "body 2", "b", "", 0 if fifo else 5000, 0,
                         "id3", "body 3", "a", "x", 0, 0)
    base, made, keys = shard(k + "d", fifo=1, delay=5000)
    yield queue_case(base, made, keys, "o", LANE, 1, "2", 1, "0",
                     "id1", "body 1", "a", "", -1, 0)


def queue_take(k):
    """Plain; what is due first; worn and too old; of groups; dead letters."""
    def lot(settings, n, dead, *more):
        base, made, keys = shard(f"{k}{n}", **settings)
        return queue_case(base, [
            *made, *bodies(base, 1, 2, 3), *([x[0], base + x[1], *x[2:]]
                                             for x in more)], keys,
            "o", LANE, 1, "2", 2, 0, 10, dead)

    ready = ["RPUSH", "o:ready", entry(1), entry(2, 3), entry(3)]
    work = ["ZADD", "work", 1, "o"]
    yield lot({}, 0, 0, ready, work)
    yield lot({}, 1, 0, ["ZADD", "due", 1, flying(1), 2, "d/o/" + entry(2)],
              work, ["RPUSH", "o:dead", entry(3, 1)])
    yield lot({"receives": 2, "ttl": KEEP}, 2, 0,
              ["RPUSH", "o:ready", entry(1, 3, sent=LATER), entry(2),
               entry(3, sent=LATER)], work)
    yield lot({"fifo": 1}, 3, 0, ["RPUSH", "o:ready", "a", "b"],
              ["RPUSH", "o:g:a", entry(1, group="a"), entry(3, group="a")],
              ["RPUSH", "o:g:b", entry(2, group="b")], work)
    yield lot({"fifo": 1, "ttl": 5}, 5, 0, ["RPUSH", "o:ready", "a", "c", "b"],
              ["RPUSH", "o:g:a", entry(1, group="a")],
              ["RPUSH", "o:g:c", entry(3, group="c")],
              ["RPUSH", "o:g:b", entry(2, group="b", sent=LATER)], work)
    yield lot({}, 4, 1, ["RPUSH", "o:dead", entry(1, 3), entry(2, 3),
                         entry(3, 3)], ["HSET", "o:why", "id1", "no"])


def pool_serve(k):
    """One at a time, many at once, worn ones, groups."""
    for n, (settings, limit, size, ready) in enumerate((
            ({}, 1, 1000, [entry(1), entry(2), entry(3)]),
            ({}, 10, 1, [entry(1), entry(2, 3), entry(3)]),
            ({"receives": 2}, 1, 1, [entry(1, 3), entry(2), entry(3)]),
            ({"fifo": 1}, 1, 1000, ["a"]))):
        base, made, keys = shard(f"{k}{n}", **settings)
        group = [["RPUSH", base + "o:g:a", *(entry(i, group="a")
                                             for i in (1, 2, 3))]]
        yield queue_case(base, [
            *made, *bodies(base, 1, 2, 3), ["ZADD", base + "work", 1, "o"],
            ["RPUSH", base + "o:ready", *ready],
            *(group if settings.get("fifo") else [])], keys,
            2, LANE, 1, "2", 0, limit, 2, 10, size)


def pool_done(k):
    """The first was received before; groups."""
    base, made, keys = shard(k)
    again = flying(1).replace("v/o/1/", "v/o/2/")
    yield queue_case(base, [
        *made, *bodies(base, 1, 2), ["ZADD", base + "work", LATER, "o"],
        ["ZADD", base + "due", LATER, again, LATER, flying(2)]], keys,
        "2", "0", "1", "o", "l+", "1", 2, again, flying(2), "id1", "id2")
    base, made, keys = shard(k + "f", fifo=1)
    yield queue_case(base, [
        *made, *bodies(base, 1, 2), ["HSET", base + "o:busy", "a", "id1"],
        ["RPUSH", base + "o:g:a", entry(2, group="a")],
        ["ZADD", base + "due", LATER, flying(1, group="a")]], keys,
        "2", "0", "1", "o", "fl", "1", 2, flying(1, group="a"),
        flying(9, group="b"), "id1", "id9", "a", "b")


def queue_look(*args):
    """They only read, but for a clock that has run back."""
    def make_cases(k):
        base, made, keys = shard(k)
        yield queue_case(base, [*made, ["SET", base + "clock",
                                        f"{LATER} 0"]], keys, "o", *args)
    return make_cases


# ---- redowl's: derived from that of what is in flight

def owl_case(k, before, *args):
    """Keys in `before` are named without their base."""
    base = k + ":o:"
    keys = [base + x for x in (
        "inflight", "ready", "dlq", "receipt", "dlq_inflight", "lane:" + LANE,
        "msg:id1", "msg:id2", "msg:id3")]
    return [[x[0], base + x[1], *x[2:]] for x in before], keys[:1], args, keys


def owl_messages(rc, *numbers):
    return [["HSET", f"msg:id{i}", "body", "eA==", "attrs", "null", "rc", rc,
             "created_at_ms", 1700000000000 + i] for i in numbers]


def owl_flying(when):
    """One in flight, and a dead letter."""
    return [*owl_messages(1, 1, 2), ["HSET", "receipt", "r1", "id1", "r2",
                                     "id2"],
            ["ZADD", "inflight", when, "r1"],
            ["ZADD", "dlq_inflight", when, "r2"]]


def owl_ack(k):
    yield owl_case(k, owl_flying(LATER), "o", LANE, 7, "2", "r1", "r2", "r9")


def owl_change(k):
    for n, (how, reason) in enumerate((("hide", ""), ("back", ""), ("free", ""),
                                       ("fail", "no"), ("bury", "no"))):
        yield owl_case(f"{k}{n}", owl_flying(LATER), "o", LANE, 7, "2", "0", how,
                       5000, reason, "r1", "r2", "r9")


def owl_drop(k):
    for n, what in enumerate(("ready", "dead", "due", "end")):
        yield owl_case(f"{k}{n}", [
            *owl_flying(LATER), *owl_messages(0, 3),
            ["RPUSH", "dlq" if what == "dead" else "ready", "id3"]],
            "o", what, 100, "0", "1")


def owl_expire(k):
    yield owl_case(k, [*owl_flying(1), *owl_messages(0, 3),
                       ["HSET", "receipt", "r3", "id3", "r4", "gone"],
                       ["ZADD", "inflight", 2, "r3", 3, "r4"]],
                   100, "2", ME, KEEP, "0", k)


def owl_redrive(k):
    yield owl_case(k, [*owl_messages(3, 1, 2),
                       ["HSET", "msg:id2", "reason", "no"],
                       ["RPUSH", "dlq", "gone", "id1", "id2"]],
                   "o", LANE, 7, "2", 10)


def owl_send(k):
    yield owl_case(k, [], "o", LANE, 1, "2", 0, "0",
                   "id1", "4\nnulleA==", "", "", 0, 0,
                   "id2", "4\nnulleA==", "", "", 5000, 1)


def owl_take(k):
    """What is due first, worn, and without message; of the dead letters."""
    for dead in ("0", "1"):
        yield owl_case(k + dead, [
            *owl_flying(1), ["HSET", "msg:id1", "rc", 2],
            *owl_messages(0, 3),
            ["RPUSH", "dlq" if dead == "1" else "ready", "gone", "id3"]],
            "o", LANE, 1, "2", 5, 5000, 10, dead, 2, "0")


CASES = {
    "pool/done": pool_done, "pool/serve": pool_serve, "queue/ack": queue_ack,
    "queue/change": queue_change, "queue/drop": queue_drop,
    "queue/expire": queue_expire, "queue/make": queue_make,
    "queue/owl_ack": owl_ack, "queue/owl_change": owl_change,
    "queue/owl_drop": owl_drop, "queue/owl_expire": owl_expire,
    "queue/owl_redrive": owl_redrive, "queue/owl_send": owl_send,
    "queue/owl_take": owl_take, "queue/peek": queue_look(10, "1"),
    "queue/redrive": queue_redrive, "queue/repair": queue_repair,
    "queue/send": queue_send, "queue/send_each": queue_send_each,
    "queue/stats": queue_look(), "queue/take": queue_take,
}
