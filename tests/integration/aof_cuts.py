"""A server that dies while it writes down what a script did.

Each script of src/*/lua that changes something is run once or more on a real
server that keeps an append-only file.  The file is then cut at the bytes of the
script's effects, as a kill or a power cut leaves it, a server loads it, and
what it has is looked at: the state from before the script or the one from after
it, never one between.  With all bytes the state is that from before at every
cut but the last.

Usage: aof_cuts.py [--all]

By default some five hundred cuts spread over all effects, so that each script
gets its share, with LEAT_LONG=1 a larger one; --all: every byte.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import ROOT, Rig, redis_program, wait_for  # noqa: E402
from wire import Refused, Wire, answers  # noqa: E402

CUTS = 480          # loads of a short run, in all
LONG_CUTS = 2000
GROUP = "billing"
ME, OTHER, DEAD = "a" * 32, "b" * 32, "d" * 32
KEEP = 86400000
LANE = "0123456789abcdef"
READ_ONLY = {"admin/pending", "pool/look", "queue/owl_peek",
             "queue/owl_stats", "redis/clock", "redis/probe", "topic/alive",
             "topic/count", "topic/due", "topic/lanes", "topic/look",
             "topic/sample", "topic/there", "topic/verify"}


# ---- what the scripts are given -------------------------------------------
#
# A case: commands before, then KEYS and ARGV, then the keys to look at if they
# are more.  Names are made from the case's number, so that each has keys of its
# own.

def stream(key, entries=4, read=3):
    """A stream with a group, some of it pending for ME, the last for OTHER."""
    yield ["XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM"]
    for i in range(1, entries + 1):
        yield ["XADD", key, f"{i}-0", "b", f"body {i}"]
    yield ["XREADGROUP", "GROUP", GROUP, ME, "COUNT", read, "STREAMS", key,
           ">"]
    yield ["XREADGROUP", "GROUP", GROUP, OTHER, "STREAMS", key, ">"]


def ack(k):
    yield stream(k), [k], [GROUP, ME, "1-0", "2-0", "4-0", "9-0"]


def autoclaim(k):
    yield ([*stream(k), ["XDEL", k, "2-0"]], [k],
           [GROUP, OTHER, 0, "0-0", 10])


def idle(k):
    yield stream(k), [k], [GROUP, ME, "1-0", 0, -1, "2-0", 5000, 3,
                           "4-0", 0, -1]


def remove(k):
    yield (["XGROUP", "CREATE", k, GROUP, "0", "MKSTREAM"],
           ["XGROUP", "CREATECONSUMER", k, GROUP, ME]), [k], [GROUP, ME]


def stream_take(k):
    yield [*stream(k), ["XDEL", k, "2-0"]], [k], [GROUP, OTHER, 0, 1, "1-0",
                                                  "2-0", "3-0", "4-0"]


def record(beat, born="0", rest="host 2 0"):
    return f"1 {beat} {born} {rest}"


def beat(k):
    yield (), [k], [ME, record(1), KEEP]
    yield ((["HSET", k + "b", ME, record(1, 5), OTHER, record(7, 3)],),
           [k + "b"], [ME, record(2, 5, "host 2 1"), KEEP])
    yield (), [k + "c", k + "cb", k + "cp"], [ME, record(1), KEEP, 15000]


def bury(k):
    yield ((["HSET", k, ME, record(1, 5), DEAD, record(7, 3)],
            ["HSET", k + "b", ME, "1 2", DEAD, "1 2"]), [k, k + "b"],
           [DEAD, record(7, 3)])


def leave(k):
    yield ((["HSET", k, ME, record(1, 5), DEAD, record(7, 3)],
            ["HSET", k + "b", ME, "1 2", DEAD, "1 2"]), [k, k + "b"], [ME])


def hand(k):
    yield (["HSET", k, "o", ME, "e", 17, "to", ""],), [k], [
        ME, 17, OTHER, "channel", KEEP]


def make(k):
    yield (), [k], [8, "murmur2", "max_age", 1000, "forget", "all"]


def renew(k):
    yield (["HSET", k, "o", ME, "e", 17, "to", ""],), [k], [ME, 17, KEEP]


def log(k, entries=4):
    for i in range(1, entries + 1):
        yield ["XADD", k, f"{i}-0", "b", f"body {i}"]


def take(k):
    """A new group; one that a dead member leaves; one whose log has lost its
    end; one without a log."""
    for n, before in enumerate((
            [*log(f"{k}0l")],
            [*log(f"{k}1l"), ["HSET", f"{k}1", "o", DEAD, "e", 9, "to", ""],
             ["HSET", f"{k}1c", "e", 9, "q", 4, "c", "2-0", "m", "3-0", "n",
              2, "s", "", "t", ""],
             ["XGROUP", "CREATE", f"{k}1l", GROUP, "2-0"]],
            [*log(f"{k}2l"), ["HSET", f"{k}2", "o", DEAD, "e", 9, "to", ""],
             ["HSET", f"{k}2c", "e", 9, "q", 4, "c", "7-0", "m", "8-0", "n",
              7, "s", "", "t", "", "b", "0-0"]],
            [])):
        yield (before, [f"{k}{n}{x}" for x in ("", "c", "l", "j", "k", "d",
                                               "n")],
               [ME, DEAD, "start", GROUP, KEEP, "", "dead", "", 0, "key"])
    c = k + "x"
    yield ([*log(c + "l"), ["HSET", c + "c", "e", 9, "q", 4, "c", "2-0", "u",
                            "aa", "o", "key"],
            ["HSET", c + "j", GROUP, "bb"], ["HSET", c + "k", "1-0", "x"]],
           [c + x for x in ("", "c", "l", "j", "k", "d", "n")],
           [ME, "", "start", GROUP, KEEP, "", "dead", "bb", 0, "none"])


def save(k):
    yield ([*log(k + "l"), ["HSET", k, "o", ME, "e", 9, "to", ""],
            ["HSET", k + "c", "e", 9, "q", 4, "c", "1-0", "m", "3-0", "n", 1,
             "s", "", "t", ""], ["XGROUP", "CREATE", k + "l", GROUP, "1-0"]],
           [k, k + "c", k + "l"],
           [ME, 9, 5, "3-0", "4-0", 3, "", "", GROUP, KEEP, 0])


def pause(k):
    yield (), [k, k + "g"], [1, "channel", ""]
    yield ((["SET", k + "p", 1], ["HSET", k + "h", "u", "aa"]),
           [k + "p", k + "h"], [0, "channel", "aa"])


def seek(k):
    """A live owner is fenced; what is put by goes as well; a new group."""
    for n, (where, drop) in enumerate((("2-0", ""), ("end", 1))):
        c = f"{k}{n}"
        keys = [c + x for x in ("", "c", "l", "k", "d", "n", "j")]
        yield ([*log(c + "l"), ["HSET", c, "o", OTHER, "e", 9, "to", ""],
                ["HSET", c + "c", "e", 9, "q", 4, "c", "3-0", "m", "4-0", "n",
                 3, "s", "4-0", "t", ""],
                ["XGROUP", "CREATE", c + "l", GROUP, "3-0"],
                ["HSET", c + "k", "1-0", "x", "1-0m", "y"],
                ["ZADD", c + "d", 5, "1-0"], ["ZADD", c + "n", 0, "a/1"]],
               keys, [where, 2, GROUP, "*", KEEP, "channel", drop, ""])
    yield ([*log(k + "xl")], [k + "x" + x for x in
                              ("", "c", "l", "k", "d", "n", "j")],
           ["start", "", GROUP, "", KEEP, "channel", "", "aa"])


def step(number, what, entry, n=1, f=1, delay=0, error="", lane=""):
    return [number, what, entry, n, f, delay, error, lane]


def move(k):
    """From the log to a lane, beside it and to the dead letters; then from
    where it was kept to each of these, and done."""
    keys = [k + x for x in ("", "c", "l", "k", "d", "n", "q", "b", "t", "u",
                            "v")]
    owned = [*log(keys[2], 6), ["HSET", keys[0], "o", ME, "e", 9, "to", ""],
             ["HSET", keys[1], "e", 9, "q", 4, "c", "0-0", "m", "6-0", "n", 0,
              "s", "", "t", "", "k", 0],
             ["XGROUP", "CREATE", keys[2], GROUP, "0-0"]]
    state = [ME, 9, 5, "5-0", "6-0", 5, "", "", GROUP, KEEP, 0, 255]
    out = [*step(1, "keep", "1-0", error="no", lane=LANE),
           *step(2, "keep", "2-0", 0, 0, lane=LANE),
           *step(3, "keep", "3-0", delay=1000, error="no"),
           *step(4, "dead", "4-0", error="no", lane="1:a1:b"),
           *step(5, "keep", "5-0", error="no"),
           *step(6, "again", "6-0", delay=1000, lane="1:b4:body")]
    yield owned, keys, [*state, LANE, *out]

    keys = [x + "2" for x in keys]
    fields = [["EVAL", "redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack("
               "{'b', 'x'}), ARGV[1] .. 'm', cmsgpack.pack({1, 1, 0, 0, '', "
               "'', ARGV[2], 0, '', ''}))", 1, keys[3], entry, lane]
              for entry, lane in (("1-0", LANE), ("2-0", LANE), ("3-0", ""),
                                  ("4-0", ""))]
    index = [["ZADD", keys[4], 0, "1-0", 0, "3-0", 0, "4-0"],
             ["ZADD", keys[5], 0, f"{LANE}/{1:020}{0:020}", 0,
              f"{LANE}/{2:020}{0:020}"]]
    owned = [["HSET", keys[0], "o", ME, "e", 9, "to", ""],
             ["HSET", keys[1], "e", 9, "q", 4, "c", "5-0", "m", "6-0", "n", 5,
              "s", "", "t", "", "k", 0], *log(keys[2], 6)]
    yield ([*owned, *fields, *index], keys,
           [*state, LANE, *step(1, "begin", "1-0", 2, 1),
            *step(2, "done", "1-0", 2, 1),
            *step(3, "dead", "3-0", 2, 2, error="no"),
            *step(4, "keep", "4-0", 2, 2, 1000, "no"),
            *step(5, "again", "2-0", delay=1000, lane="1:b4:body")])


def letter(k, at, i, group=GROUP):
    """A dead letter."""
    return ["XADD", k, at, "g", group, "i", i, "n", 5, "f", 5, "fm", 1, "lm",
            2, "fe", "no", "le", "no", "e", 9, "r", "", "x", "", "c", 1, "b",
            "body " + i]


def dead(k):
    """Some of this group and one of another."""
    return [letter(k, "5-0", "1-0"), letter(k, "6-0", "2-0", "other"),
            letter(k, "7-0", "3-0")]


def discard(k):
    yield dead(k), [k], ["", "5-0", "6-0", "9-0"]


def edit(k):
    yield dead(k), [k], ["5-0", "b", "another body"]


def replay(k):
    keys = [k, k + "k", k + "d", k + "n", k + "c"]
    yield ([*dead(k), ["HSET", k + "c", "c", "3-0"]], keys,
           ["", GROUP, 0, "5-0", "6-0", "7-0"])


def republish(k):
    """The second with a large body."""
    yield (dead(k), [k, k + "l", k + "b", k + "z"],
           ["", 0, 0, 20, "5-0", 1, "b", "body 1-0",
            "6-0", 1, "b", "a body that is large"])


def bounded(k):
    """A small one, and a large one that drops old bodies."""
    yield [*log(k)], [k, k + "t"], [10, 0, "", "b", "body"]
    c = k + "x"
    yield ([*log(c), ["HSET", c + "b", "0-1", "old"],
            ["ZADD", c + "z", 0, "0-1"]],
           [c, c + "t", c + "b", c + "z"],
           [10, 100, "a body that is large", "a", "x", "@large", "b"])


def enter(k):
    """A new group; one that an earlier version made."""
    yield (), [k, k + "g"], [GROUP, "aa", "lease", 1000, "order", "key"]
    yield ((["SADD", k + "x", GROUP],), [k + "x", k + "xg"],
           [GROUP, "aa", "lease", 1000, "order", "key"])


def joined(k):
    yield (), [k], [GROUP, "aa"]


def known(k):
    return (["SADD", k, GROUP],
            ["HSET", k + "g", "u", "aa", "lease", 15000, "gone", 1])


def gone(k):
    yield (["SADD", k, GROUP], ["HSET", k + "g", "u", "aa"]), \
        [k, k + "g"], [GROUP, "aa"]


def whole(k):
    yield known(k), [k, k + "g"], [GROUP, "aa"]


def forget(k):
    yield ((*known(k), ["HSET", k + "m", ME, record(1)],
            ["HSET", k + "b", ME, "1 2"], ["SET", k + "p", 1]),
           [k, k + "g", k + "m", k + "b", k + "p"], [GROUP, "aa"])


def group_alter(k):
    yield known(k), [k, k + "g"], [GROUP, "aa", "channel", "lease", 1000,
                                   "order", "none"]


def ungroup(k):
    yield ([*log(k + "l"), ["XGROUP", "CREATE", k + "l", GROUP, "1-0"],
            ["HSET", k, GROUP, "aa", "other", ""],
            ["HSET", k + "c", "c", "1-0", "u", "aa"],
            ["HSET", k + "k", "1-0", "x"], ["ZADD", k + "d", 5, "1-0"]],
           [k + x for x in ("", "c", "l", "o", "k", "d", "n")],
           [GROUP, "aa", 1])


def later(k):
    yield [*log(k + "l")], [k, k + "s", k + "e", k + "l"], [
        "token", 5000, 10, "a", "x", "b", "body"]


PACK = ("redis.call('ZADD', KEYS[1], 1, ARGV[1]) "
        "redis.call('ZADD', KEYS[3], 1, ARGV[1]) "
        "redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack({'b', ARGV[2]}))")


def ripe(k):
    """Two that are due, one of them large."""
    keys = [k + x for x in ("l", "b", "z", "", "s", "e")]
    yield ([["EVAL", PACK, 3, k, k + "s", k + "e", f"token {n}", n * "body"]
            for n in (1, 20)], keys, [10, 1000, 20, 0])


def alter(k):
    yield (["HSET", k, "partitions", 8, "created", 5, "updated", 5],), [k], [
        "max_age", 1000, "max_entries", 20, "forget", "all"]


def trim(k):
    """By number, in bulk and the rest of a node, with large bodies; up to a
    cursor, with a group that is detached."""
    for n, (keep, entries, abandoned, at) in enumerate((
            (7, 250, "pin", "240-0"), (1, 6, "detach", "5-0"))):
        key = f"{k}{n}"
        yield ([*log(key + "l", entries),
                ["HSET", key + "b", "1-0", "large", "3-0", "larger", "248-0",
                 "stays"],
                ["ZADD", key + "z", 1, "1-0", 3, "3-0", 248, "248-0"],
                ["HSET", key + "c", "e", 9, "q", 4, "c", at],
                ["HSET", key + "d", "e", 9, "q", 4, "c", "1-0", "i", 5],
                ["PEXPIRE", key + "b", KEEP]],
               [key + "l", key + "b", key + "z", key + "j", key + "c", key + "e",
                *([key + "d", key + "f"] if abandoned == "detach" else [])],
               ["", keep, "never", abandoned, 1000, KEEP, 1000, "",
                2 if abandoned == "detach" else 1, "here",
                *(["gone"] if abandoned == "detach" else [])])


# ---- queues: all their keys are derived from that of the deadlines

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


LATER = 9999999999999  # a deadline that is not due


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
    """The second stands nowhere; groups: one is waited for."""
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


def queue_make(k):
    base, made, keys = shard(k)
    yield queue_case(base, [], keys, "o", "open", "u1", *made[0][4:])
    base, made, keys = shard(k + "a")
    yield queue_case(base, made, keys, "o", "alter", 1, "hide", 5, "ttl", 9)


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
    yield owl_case(k, owl_flying(LATER), "o", "2", "0", "0", 0, "r1", "r2",
                   "r9", "", "", "")


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
                   100, "2", ME, KEEP, "0")


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
            "o", LANE, 1, "2", 5, 5000, 10, dead, 2)


CASES = {
    "pool/done": pool_done, "pool/serve": pool_serve,
    "queue/owl_ack": owl_ack, "queue/owl_change": owl_change,
    "queue/owl_drop": owl_drop, "queue/owl_expire": owl_expire,
    "queue/owl_redrive": owl_redrive, "queue/owl_send": owl_send,
    "queue/owl_take": owl_take,
    "queue/ack": queue_ack, "queue/change": queue_change,
    "queue/drop": queue_drop, "queue/expire": queue_expire,
    "queue/make": queue_make, "queue/peek": queue_look(10, "1"),
    "queue/redrive": queue_redrive, "queue/repair": queue_repair, "queue/send": queue_send,
    "queue/send_each": queue_send_each, "queue/stats": queue_look(),
    "queue/take": queue_take,
    "admin/discard": discard, "admin/edit": edit, "admin/replay": replay,
    "admin/republish": republish,
    "admin/pause": pause, "admin/seek": seek, "admin/alter": group_alter,
    "admin/forget": forget, "admin/gone": gone, "admin/ungroup": ungroup,
    "stream/ack": ack, "stream/autoclaim": autoclaim, "stream/idle": idle,
    "stream/remove": remove, "stream/take": stream_take, "topic/beat": beat,
    "topic/add": bounded, "topic/alter": alter, "topic/bury": bury,
    "topic/joined": joined, "topic/whole": whole,
    "topic/enter": enter, "topic/hand": hand, "topic/later": later,
    "topic/leave": leave,
    "topic/move": move, "topic/ripe": ripe,
    "topic/make": make, "topic/renew": renew, "topic/save": save,
    "topic/take": take, "topic/trim": trim, "topic/trim60": trim,
}


def scripts():
    """Their names and texts, as the library has them; what is only included
    by others is none."""
    found, included = {}, set()

    def expand(path):
        def include(m):
            included.add(f"{m[1]}/{m[2]}")
            return expand(ROOT / "src" / m[1] / "lua" / f"{m[2]}.lua")

        return re.sub(r'^--#include "(\w+)/(\w+)\.lua"$', include,
                      path.read_text(), flags=re.M)

    for path in sorted((ROOT / "src").glob("*/lua/*.lua")):
        found[f"{path.parts[-3]}/{path.stem}"] = expand(path)
    return {name: text for name, text in found.items()
            if name not in included}


# ---- what a server has ----------------------------------------------------

def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def look_at_stream(w, key):
    groups = []
    for g in map(pairs, w.call("XINFO", "GROUPS", key)):
        name = g[b"name"]
        groups.append((
            name, g[b"last-delivered-id"],
            [(p[0], p[1], p[3]) for p in
             w.call("XPENDING", key, name, "-", "+", 1000)],
            sorted((c[b"name"], c[b"pending"]) for c in
                   map(pairs, w.call("XINFO", "CONSUMERS", key, name)))))
    return w.call("XRANGE", key, "-", "+"), groups


def look_at(w, keys):
    """All there is to see of these keys; idle times pass, and are left out."""
    state = []
    for key in keys:
        kind = w.call("TYPE", key)
        value = None
        if kind == "hash":
            value = pairs(w.call("HGETALL", key))
        elif kind == "list":
            value = w.call("LRANGE", key, 0, -1)
        elif kind == "set":
            value = sorted(w.call("SMEMBERS", key))
        elif kind == "zset":
            value = w.call("ZRANGE", key, 0, -1, "WITHSCORES")
        elif kind == "string":
            value = w.call("GET", key)
        elif kind == "stream":
            value = look_at_stream(w, key)
        elif kind != "none":
            raise RuntimeError(f"{key}: cannot look at a {kind}")
        state.append((key, kind, w.call("PEXPIRETIME", key), value))
    return state


class Loader:
    """Servers that load a cut file, one after the other."""

    def __init__(self, rig, whole):
        self.rig = rig
        self.socket = rig.dir / "load"
        self.dir = rig.dir / "cut"
        shutil.copytree(whole, self.dir / "appendonlydir")
        self.file = next((self.dir / "appendonlydir").glob("*.incr.aof"))
        self.bytes = self.file.read_bytes()
        self.loads = 0

    def load(self, size, keys):
        """What a server has that finds the first `size` bytes."""
        self.file.write_bytes(self.bytes[:size])
        self.loads += 1
        p = start(self.rig, self.socket, self.dir)
        with Wire(self.socket) as w:
            state = look_at(w, keys)
        p.kill()
        p.wait()
        self.rig.children.remove(p)
        self.socket.unlink(missing_ok=True)
        return state


def start(rig, path, directory):
    p = rig.start(["redis-server", "--port", "0", "--unixsocket", str(path),
                   "--dir", str(directory), "--save", "", "--appendonly",
                   "yes", "--appendfsync", "no", "--databases", "1",
                   "--auto-aof-rewrite-percentage", "0"],
                  executable=redis_program(), stdout=subprocess.DEVNULL)
    wait_for(lambda: answers(path, "PING") == "PONG" or p.poll() is not None,
             60, "redis answers")
    if p.poll() is not None:
        raise RuntimeError(f"redis ended with {p.returncode}")
    return p


class Effect:
    """What one run of a script wrote, and where."""

    def __init__(self, name, keys, begin, end, live):
        self.name, self.keys = name, keys
        self.begin, self.end = begin, end
        self.live = live


class Recorder:
    """The server on which all of it happens once."""

    def __init__(self, rig):
        self.dir = rig.dir / "whole"
        self.dir.mkdir()
        self.process = start(rig, rig.dir / "s", self.dir)
        self.wire = Wire(rig.dir / "s")
        self.file = next((self.dir / "appendonlydir").glob("*.incr.aof"))

    def run(self, name, commands):
        """Commands whose effects are looked at as one.  A command is answered
        when it is written, if not synced."""
        keys, act = commands
        begin = self.file.stat().st_size
        act(self.wire)
        return Effect(name, keys, begin, self.file.stat().st_size,
                      look_at(self.wire, keys))


def record_all(rec, texts):
    """Every case of every script."""
    effects = []
    for name, make_cases in CASES.items():
        for before, keys, args, *more in make_cases(name.replace("/", ":")):
            for words in before if isinstance(before, (list, tuple)) else \
                    list(before):
                rec.wire.call(*words)
            effects.append(rec.run(
                name, (more[0] if more else keys, lambda w: w.call(
                    "EVAL", texts[name], len(keys), *keys, *args))))
    return effects


def cuts_of(effect, every):
    """Where to cut: always at both ends and next to them."""
    ends = {effect.begin, effect.begin + 1, effect.end - 1, effect.end}
    return sorted(ends | set(range(effect.begin, effect.end, every)))


def between(loader, effect, every):
    """The cuts that leave neither the state before nor the one after."""
    before = loader.load(effect.begin, effect.keys)
    bad = []
    for size in cuts_of(effect, every):
        state = loader.load(size, effect.keys)
        if state != (effect.live if size == effect.end else before):
            bad.append(size - effect.begin)
    return bad, before


# ---- the checks -----------------------------------------------------------

class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def say(self, ok, name, note=""):
        self.n += 1
        self.bad += not ok
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name}", flush=True)
        if note:
            print(f"# {note}")


def two_commands(w):
    w.call("HSET", "plain", "a", 1)
    w.call("HSET", "plain", "b", 2)


def check(rig, tap, every_byte):
    texts = scripts()
    left = sorted(set(texts) - READ_ONLY ^ set(CASES))
    tap.say(not left, "every script that changes something has a case",
            f"without a case, or without a script: {left}" if left else "")
    rec = Recorder(rig)
    plain = rec.run("two commands", (["plain"], two_commands))
    effects = record_all(rec, {n: texts[n] for n in texts if n in CASES})
    rec.wire.close()
    rec.process.kill()
    rec.process.wait()
    loader = Loader(rig, rec.dir / "appendonlydir")
    tap.say(bool(between(loader, plain, 1)[0]),
            "a state between two commands is seen as one")
    total = sum(e.end - e.begin for e in effects)
    cuts = LONG_CUTS if os.environ.get("LEAT_LONG") == "1" else CUTS
    every = 1 if every_byte else max(total // cuts, 1)
    for name in CASES:
        judge_script(tap, loader, name,
                     [e for e in effects if e.name == name], every)
    print(f"# {loader.loads} loads of {total} bytes of effects")


def judge_script(tap, loader, name, effects, every):
    bad, idle_cases, size = [], 0, 0
    for e in effects:
        cut, before = between(loader, e, every)
        bad += cut
        idle_cases += before == e.live
        size += e.end - e.begin
    tap.say(not bad and not idle_cases,
            f"{name} is done wholly or not at all",
            f"{size} bytes" + (f", between at {bad}" if bad else "") +
            (", a case changes nothing" if idle_cases else ""))


def main():
    every_byte = "--all" in sys.argv[1:]
    tap, begin = Tap(), time.monotonic()
    with Rig() as rig:
        try:
            check(rig, tap, every_byte)
        except (OSError, Refused, RuntimeError, TimeoutError) as e:
            tap.say(False, "the run came to its end", f"{type(e)}: {e}")
    print(f"# {time.monotonic() - begin:.1f} s")
    print(f"1..{tap.n}")
    return 1 if tap.bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
