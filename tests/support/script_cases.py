"""What each script of streams and topics is given, by its name.

A case: commands before, then KEYS and ARGV, then the keys to look at if they
are more.  Names are made from the case's number, so that each has keys of its
own.
"""

GROUP = "billing"
ME, OTHER, DEAD = "a" * 32, "b" * 32, "d" * 32
KEEP = 86400000
LANE = "0123456789abcdef"
TOPIC = "fedcba9876543210"


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


def unstream(k):
    yield stream(k), [k], []


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
    yield (), [k], [8, "murmur2", "aa", "max_age", 1000, "forget", "all"]


def topic(k):
    return ["HSET", k, "partitions", 8, "created", 5, "updated", 5, "u", TOPIC]


def of_topic(k):
    """A partition's id."""
    return ["SET", k + "id", TOPIC]


def mark_topic(k):
    yield (topic(k),), [k], [TOPIC, "marked"]
    yield (topic(k + "x"),), [k + "x"], [TOPIC, "gone"]


def unmake(k):
    yield (topic(k), ["HSET", k, "gone", 1]), [k], [TOPIC]


def identify(k):
    """None was there; one of a topic that is no more; ours goes."""
    yield (), [k], ["", TOPIC]
    yield (["SET", k + "x", "bb"],), [k + "x"], ["bb", TOPIC]
    yield (["SET", k + "y", TOPIC],), [k + "y"], [TOPIC, ""]


def unlog(k):
    keys = [k + x for x in ("l", "q", "t", "u", "v", "b", "z", "j")]
    yield ([*log(keys[0]), *dead(keys[1]), ["ZADD", keys[2], 1, "x"],
            ["HSET", keys[5], "1-0", "large"], ["HSET", keys[7], GROUP, "aa"],
            of_topic(k)], [*keys, k + "id"], [TOPIC])


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
        yield ([*before, of_topic(f"{k}{n}")],
               [f"{k}{n}{x}" for x in ("", "c", "l", "j", "k", "d", "n", "id")],
               [ME, DEAD, "start", GROUP, KEEP, "", "dead", "", 0, "key",
                TOPIC])
    c = k + "x"
    yield ([*log(c + "l"), ["HSET", c + "c", "e", 9, "q", 4, "c", "2-0", "u",
                            "aa", "o", "key"],
            ["HSET", c + "j", GROUP, "bb"], ["HSET", c + "k", "1-0", "x"]],
           [c + x for x in ("", "c", "l", "j", "k", "d", "n", "id")],
           [ME, "", "start", GROUP, KEEP, "", "dead", "bb", 0, "none", ""])


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
        keys = [c + x for x in ("", "c", "l", "k", "d", "n", "j", "id")]
        yield ([*log(c + "l"), of_topic(c),
                ["HSET", c, "o", OTHER, "e", 9, "to", ""],
                ["HSET", c + "c", "e", 9, "q", 4, "c", "3-0", "m", "4-0", "n",
                 3, "s", "4-0", "t", ""],
                ["XGROUP", "CREATE", c + "l", GROUP, "3-0"],
                ["HSET", c + "k", "1-0", "x", "1-0m", "y"],
                ["ZADD", c + "d", 5, "1-0"], ["ZADD", c + "n", 0, "a/1"]],
               keys, [where, 2, GROUP, "*", KEEP, "channel", drop, "", TOPIC])
    yield ([*log(k + "xl")], [k + "x" + x for x in
                              ("", "c", "l", "k", "d", "n", "j", "id")],
           ["start", "", GROUP, "", KEEP, "channel", "", "aa", ""])


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
    fields = [kept(keys[3], entry, lane)
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


KEEP_ONE = ("redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack({'b', 'x'}), "
            "ARGV[1] .. 'm', cmsgpack.pack({1, 1, 0, 0, '', '', ARGV[2], 0, "
            "'', ''}))")


def kept(key, entry, lane=""):
    """A message that was put by."""
    return ["EVAL", KEEP_ONE, 1, key, entry, lane]


def due(k):
    """One that can be handed out, and some that nobody can read."""
    keys = [k + x for x in ("", "k", "d", "n", "q", "c")]
    yield ([["HSET", k, "o", ME, "e", 9], ["HSET", k + "c", "u", "aa"],
            *(kept(k + "k", f"{i}-0", LANE if i == 2 else "")
              for i in range(1, 5)),
            ["HSET", k + "k", "1-0", "no fields", "2-0m", "no meta"],
            ["ZADD", k + "d", *(x for i in (1, 2, 4, 9) for x in (i, f"{i}-0"))],
            ["ZADD", k + "n", 0, f"{LANE}/{2:020}{0:020}", 0,
             f"{LANE}/{3:020}{0:020}"]],
           keys, [ME, 9, 10, 1000, GROUP])


def letter(k, at, i, group=GROUP):
    """A dead letter."""
    return ["XADD", k, at, "g", group, "i", i, "n", 5, "f", 5, "fm", 1, "lm",
            2, "fe", "no", "le", "no", "e", 9, "r", "", "x", "", "c", 1, "b",
            "body " + i]


def dead(k):
    """Some of this group and one of another."""
    return [letter(k, "5-0", "1-0"), letter(k, "6-0", "2-0", "other"),
            letter(k, "7-0", "3-0"), of_topic(k)]


def discard(k):
    yield dead(k), [k, k + "id"], ["", "5-0", "6-0", "9-0", TOPIC]


def edit(k):
    yield dead(k), [k, k + "id"], ["5-0", "b", "another body", TOPIC]


def replay(k):
    keys = [k, k + "k", k + "d", k + "n", k + "c", k + "id"]
    yield ([*dead(k), ["HSET", k + "c", "c", "3-0"]], keys,
           ["", GROUP, 0, "5-0", "6-0", "7-0", TOPIC])


def republish(k):
    """The second with a large body."""
    yield (dead(k), [k, k + "l", k + "b", k + "z", k + "id"],
           ["", 0, 0, 20, "5-0", 1, "b", "body 1-0",
            "6-0", 1, "b", "a body that is large", TOPIC])


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
    args = [GROUP, "aa", "lease", 1000, "order", "key", TOPIC]
    yield (of_topic(k),), [k, k + "g", k + "id"], args
    yield ((["SADD", k + "x", GROUP], of_topic(k)),
           [k + "x", k + "xg", k + "id"], args)


def joined(k):
    yield (of_topic(k),), [k, k + "id"], [GROUP, "aa", TOPIC]


def known(k):
    return (["SADD", k, GROUP],
            ["HSET", k + "g", "u", "aa", "lease", 15000, "gone", 1])


def mark(k):
    yield known(k), [k, k + "g"], [GROUP, "aa", "joined"]
    c = k + "x"
    yield ((["SADD", c, GROUP], ["HSET", c + "g", "u", "aa"]),
           [c, c + "g"], [GROUP, "aa", "gone"])


def forget(k):
    yield ((*known(k), ["HSET", k + "m", ME, record(1)],
            ["HSET", k + "b", ME, "1 2"], ["SET", k + "p", 1]),
           [k, k + "g", k + "m", k + "b", k + "p"], [GROUP, "aa", "gone"])


def group_alter(k):
    usual = ["lease", 9, "order", "key", "delay", 1, "max_delay", 5]
    asked = ["lease", 1000, "order", "none", "delay", "", "max_delay", ""]
    yield known(k), [k, k + "g"], [GROUP, "aa", "channel", *asked, *usual]
    yield ((*known(k), ["HSET", k + "g", *usual]), [k, k + "g"],
           [GROUP, "aa", "channel", *asked, *usual])


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
    """Two that are due, one of them large; one that no log can take."""
    keys = [k + x for x in ("l", "b", "z", "", "s", "e", "q")]
    yield ([["EVAL", PACK, 3, k, k + "s", k + "e", f"token {n}", n * "body"]
            for n in (1, 20)], keys, [10, 1000, 20, 0])
    c = k + "x"
    yield ([["ZADD", c, 1, "token"], ["HSET", c + "s", "token", "no fields"]],
           [c + x for x in ("l", "b", "z", "", "s", "e", "q")],
           [10, 1000, 20, 0])


def alter(k):
    yield (topic(k),), [k], [
        TOPIC, "max_age", 1000, "max_entries", 20, "forget", "all"]


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
                ["PEXPIRE", key + "b", KEEP], of_topic(key)],
               [key + "l", key + "b", key + "z", key + "j", key + "c", key + "e",
                *([key + "d", key + "f"] if abandoned == "detach" else []),
                key + "id"],
               ["", keep, "never", abandoned, 1000, KEEP, 1000, "",
                2 if abandoned == "detach" else 1, "here",
                *(["gone"] if abandoned == "detach" else []), TOPIC])


CASES = {
    "admin/alter": group_alter, "admin/discard": discard, "admin/edit": edit,
    "admin/forget": forget, "admin/pause": pause,
    "admin/replay": replay, "admin/republish": republish, "admin/seek": seek,
    "admin/ungroup": ungroup, "admin/unlog": unlog, "admin/unmake": unmake,
    "admin/unstream": unstream,
    "topic/identify": identify, "topic/mark_topic": mark_topic,
    "stream/ack": ack, "stream/autoclaim": autoclaim,
    "stream/idle": idle, "stream/remove": remove, "stream/take": stream_take,
    "topic/add": bounded, "topic/alter": alter, "topic/beat": beat,
    "topic/bury": bury, "topic/due": due, "topic/enter": enter, "topic/hand": hand,
    "topic/joined": joined, "topic/later": later, "topic/leave": leave,
    "topic/make": make, "topic/move": move, "topic/renew": renew,
    "topic/ripe": ripe, "topic/save": save, "topic/take": take,
    "topic/trim": trim, "topic/trim60": trim, "topic/mark": mark,
}
