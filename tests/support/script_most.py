"""Each script of streams and topics on as many as it takes: n of them.

A case is as in script_cases.py.  A limit may say what is to be true at it, and
what beyond it, where the script does not refuse but does otherwise.
"""

from collections import namedtuple

from script_cases import (GROUP, KEEP, ME, OTHER, PACK, letter, log, step)

Limit = namedtuple("Limit", "name most make same at beyond",
                   defaults=(False, None, None))


def in_lots(words, values, lot=1000):
    """A command on many values, as some."""
    for i in range(0, len(values), lot):
        yield [*words, *values[i:i + lot]]


def numbered(n):
    return range(1, n + 1)


def fields(n):
    return [x for i in range(n // 2) for x in (f"f{i}", "x")] + \
        ["more"] * (n % 2 * 2)


def add(n):
    return (), ["l", "lt"], [0, 0, "", *fields(n)]


def later(n):
    return (), ["l", "ls", "le", "ll"], ["token", 5000, 0, *fields(n)]


def pending(n):
    """A stream of which ME has n entries."""
    return [["XGROUP", "CREATE", "l", GROUP, "0", "MKSTREAM"],
            *(["XADD", "l", f"{i}-0", "b", "x"] for i in numbered(n)),
            ["XREADGROUP", "GROUP", GROUP, ME, "STREAMS", "l", ">"]]


def at(n):
    return [f"{i}-0" for i in numbered(n)]


def stream_ack(n):
    return pending(n), ["l"], [GROUP, ME, *at(n)]


def stream_take(n):
    return pending(n), ["l"], [GROUP, OTHER, 0, 1, *at(n)]


def stream_idle(n):
    return pending(n), ["l"], [GROUP, ME, *(
        x for i in at(n) for x in (i, 5000, 3))]


def autoclaim(n):
    return pending(n), ["l"], [GROUP, OTHER, 0, "0-0", n]


def letters(n):
    return [letter("l", f"{i}-0", f"{i}-0") for i in numbered(n)]


def discard(n):
    return letters(n), ["l", "lid"], ["", *at(n), ""]


def replay(n):
    return ([*letters(n), ["HSET", "lc", "c", "3-0"]],
            ["l", "lk", "ld", "ln", "lc", "lid"],
            ["", GROUP, 0, *at(n), ""])


def republish(n):
    return letters(n), ["l", "ll", "lb", "lz", "lid"], ["", 0, 0, 0, *(
        x for i in at(n) for x in (i, 1, "b", "body")), ""]


def republish_fields(n):
    return letters(1), ["l", "ll", "lb", "lz", "lid"], [
        "", 0, 0, 0, "1-0", n, *fields(2 * n), ""]


HEAD = 26  # names and values of a dead letter around its message


def edit(n):
    return letters(1), ["l", "lid"], ["1-0", *fields(n - HEAD), ""]


def browse(n):
    return [["ZADD", "ld", 0, "1-0"]], ["l", "ld", "ln"], ["retry", 0, n]


def known_group():
    return [["SADD", "l", GROUP], ["HSET", "lg", "u", "aa"]]


def group_alter(n):
    return known_group(), ["l", "lg"], [GROUP, "aa", "channel", "lease", 5,
                                        *fields(2 * n - 2)]


def topic_alter(n):
    return [["HSET", "l", "partitions", 8]], ["l"], ["", *fields(2 * n)]


def topic_make(n):
    return [], ["l"], [8, "murmur2", "aa", *fields(2 * n)]


def unlog(n):
    return [["SET", "l1", "x"]], [*(f"l{i}" for i in numbered(n)), "lid"], [""]


def enter(n):
    return [], ["l", "lg", "lid"], [GROUP, "aa", *fields(2 * n), ""]


def names(n):
    return [f"g{i}" for i in numbered(n)]


def enter_group(n):
    return ([*in_lots(["SADD", "l"], names(n - 1))], ["l", "lg", "lid"],
            [GROUP, "aa", "lease", 1000, ""])


def members(n, key="l"):
    return in_lots(["HSET", key], [
        x for i in numbered(n) for x in (f"{i:032x}", f"1 7 {i} host 2 0")])


def beat(n):
    return [*members(n - 1)], ["l"], [ME, "1 1 0 host 2 0", KEEP]


def alive(n):
    return [*members(n)], ["l", "lp"], []


OWNED = [["HSET", "l", "o", ME, "e", 9, "to", ""]]
PARTS = ("", "c", "l", "k", "d", "n", "q", "b", "t", "u", "v")


def saved(entries):
    return [*OWNED, *log("ll", entries),
            ["HSET", "lc", "e", 9, "q", 4, "c", "0-0", "k", 0]], \
        ["l" + x for x in PARTS], \
        [ME, 9, 5, "1-0", "1-0", 5, "", "", GROUP, KEEP, 0, 255]


def move(what):
    """As many steps, each with a lane of its own to ask about."""
    def case(n):
        before, keys, state = saved(n)
        lanes = " ".join(f"{i:016x}" for i in numbered(n))
        more = "1:b1:x" if what == "again" else ""
        return before, keys, [*state, lanes, *(
            x for i in numbered(n)
            for x in step(i, what, f"{i}-0", error="no", lane=more))]
    return case


def move_again(n):
    """A step with as many names and values."""
    before, keys, state = saved(1)
    text = "".join(f"{len(x)}:{x}" for x in fields(n))
    return before, keys, [*state, "", *step(1, "again", "1-0", lane=text)]


def move_lanes(n):
    before, keys, state = saved(1)
    return before, keys, [*state, " ".join(f"{i:016x}" for i in numbered(n)),
                          *step(1, "keep", "1-0", error="no")]


DUE = ["l", "lk", "ld", "ln", "lq", "lc"]


def due(n):
    return OWNED, DUE, [ME, 9, n, 1000, GROUP]


def due_mine(n):
    return OWNED, DUE, [ME, 9, 1, 1000, GROUP, *at(n)]


def there(n):
    return [*log("l")], ["l"], [128, *at(n)]


def there_bytes(n):
    return [*log("l")], ["l"], [n, "1-0"]


def verify(n):
    return [*OWNED, *log("ll")], ["l", "lc", "ll"], [ME, 9, "1-0", n]


def lanes(n):
    return OWNED, ["l", "ln"], [ME, 9, "", n]


def count(n):
    return [*log("l")], ["l"], ["-", "+", n]


def sample(n):
    return [*log("l")], ["l", *["lk"] * (n - 1)], ["0-0"]


RIPE = ["l" + x for x in ("l", "b", "z", "", "s", "e", "q")]


def ripe(n):
    return [["EVAL", PACK, 3, "l", "ls", "le", "token", "body"]], RIPE, \
        [n, 1000, 0, 0]


PACK_MANY = """
local fields = {}
for i = 1, tonumber(ARGV[1]) do
    fields[i] = 'x'
end
redis.call('ZADD', KEYS[1], 1, 'billing 1-0', 2, 'behind')
redis.call('HSET', KEYS[2], 'billing 1-0', cmsgpack.pack(fields), 'behind',
           cmsgpack.pack({'b', 'x'}))
"""


def ripe_fields(n):
    """One that an earlier version let wait, and another behind it."""
    return [["EVAL", PACK_MANY, 2, "l", "ls", 2 * n]], RIPE, [10, 100000, 0, 0]


def is_set_aside(case):
    """It is a dead letter, and the one behind it is in the log."""
    w, (_, found), = case.w, case.w.call("XRANGE", "lq", "-", "+")[0]
    bad = [] if found[:4] == [b"g", b"billing", b"i", b"1-0"] else [found[:4]]
    return bad + [x for x in (w.call("XLEN", "ll") - 1, w.call("HLEN", "ls"),
                              w.call("ZCARD", "l")) if x]


def trimmed(most, groups, named):
    return ([*log("ll", 9), *(["HSET", f"lc{g}", "c", "5-0"]
                              for g in names(min(groups, 1)))],
            ["ll", "lb", "lz", "lj",
             *(x + g for g in names(groups) for x in ("lc", "le")), "lid"],
            ["", 1, "never", "pin", 1000, KEEP, most, "", groups,
             *names(named), ""])


def trim(n):
    return trimmed(n, 1, 1)


def trim_groups(n):
    """All but the first hold everything back."""
    return trimmed(1000, n, n)


def trim_named(n):
    return trimmed(1000, 1, n)


def trim_joined(n):
    before, keys, args = trimmed(1000, 1, n)
    return [*before, *in_lots(["HSET", "lj"], [
        x for g in names(n) for x in (g, "")])], keys, args


MAKE_GROUPS = """
for i = 1, tonumber(ARGV[1]) do
    redis.call('XGROUP', 'CREATE', KEYS[1], 'g' .. i, '0')
end
"""


def server_groups(n):
    return [["EVAL", MAKE_GROUPS, 1, "ll", n]]


def trim_server_groups(n):
    before, keys, args = trimmed(1000, 1, n)
    return [*before, *server_groups(n)], keys, args


# A mirror is made, or removed, unless somebody may have a group of that name.

def mirrors(case):
    return [x[1] for x in case.w.call("XINFO", "GROUPS", "ll")
            if x[1] == GROUP.encode()]


def mirrored(case):
    return [] if mirrors(case) else ["there is no mirror"]


def not_mirrored(case):
    return mirrors(case)

def topic_take(n):
    return ([*log("ll"), *server_groups(n)],
            ["l" + x for x in ("", "c", "l", "j", "k", "d", "n", "id")],
            [ME, "", "start", GROUP, KEEP, "", "dead", "", 0, "key", ""])


def seek(n):
    return ([*log("ll"), *server_groups(n)],
            ["l" + x for x in ("", "c", "l", "k", "d", "n", "j", "id")],
            ["2-0", 2, GROUP, "*", KEEP, "channel", "", "", ""])


def ungroup(n):
    """The mirror of a cursor that an earlier version made is one of them."""
    return ([*log("ll"), ["XGROUP", "CREATE", "ll", GROUP, "1-0"],
             *server_groups(n - 1), ["HSET", "lc", "c", "1-0", "u", "aa"]],
            ["l" + x for x in ("", "c", "l", "o", "k", "d", "n")],
            [GROUP, "aa", 1])


PAGE, GROUPS, MEMBERS = 100, 10000, 10000
LIMITS = [
    Limit("stream/ack", PAGE, stream_ack),
    Limit("stream/take", PAGE, stream_take),
    Limit("stream/idle", PAGE, stream_idle),
    Limit("stream/autoclaim", PAGE, autoclaim),
    Limit("admin/discard", PAGE, discard), Limit("admin/replay", PAGE, replay),
    Limit("admin/republish", PAGE, republish),
    Limit("admin/republish", 3000, republish_fields),
    Limit("admin/edit", 7000, edit),
    Limit("admin/pending", 200, browse, same=True),
    Limit("admin/alter", 100, group_alter), Limit("admin/unlog", 20, unlog),
    Limit("admin/seek", GROUPS, seek, at=mirrored, beyond=not_mirrored),
    Limit("admin/ungroup", GROUPS, ungroup, at=not_mirrored, beyond=mirrored),
    Limit("topic/alter", 100, topic_alter), Limit("topic/make", 100, topic_make),
    Limit("topic/enter", 100, enter), Limit("topic/enter", GROUPS, enter_group),
    Limit("topic/beat", MEMBERS, beat),
    Limit("topic/alive", MEMBERS, alive, same=True),
    *(Limit("topic/move", 100, move(x)) for x in ("keep", "dead", "again")),
    Limit("topic/move", 7000, move_again), Limit("topic/move", 100, move_lanes),
    Limit("topic/due", 64, due, same=True),
    Limit("topic/due", 64, due_mine, same=True),
    Limit("topic/there", 500, there, same=True),
    Limit("topic/there", 128, there_bytes, same=True),
    Limit("topic/verify", 128, verify, same=True),
    Limit("topic/lanes", 1000, lanes, same=True),
    Limit("topic/count", 500, count, same=True),
    Limit("topic/sample", 4, sample, same=True),
    Limit("topic/add", 7000, add), Limit("topic/later", 7000, later),
    Limit("topic/ripe", 200, ripe),
    Limit("topic/ripe", 3500, ripe_fields, beyond=is_set_aside),
    *(Limit(f"topic/{x}", *more) for x in ("trim", "trim60") for more in (
        (5000, trim), (GROUPS, trim_groups, True), (2 * GROUPS, trim_named),
        (GROUPS, trim_joined, True), (GROUPS, trim_server_groups))),
    Limit("topic/take", GROUPS, topic_take, at=mirrored, beyond=not_mirrored),
]
