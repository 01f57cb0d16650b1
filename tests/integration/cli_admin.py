"""Groups and topics set right by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_admin.py PATH_TO_LEAT [PATTERN]
"""

import json
import signal
import sys

from cli_bench import ended, main
from cli_help import SECONDS, equal, exits, on_terminal, wait_for


def ids(b, partition=0):
    return [x["position"] for x in b.tail("orders") if
            x["partition"] == partition]


def read_all(b, n, partitions=1):
    """A topic of n messages, all read by group g, whose member has left."""
    b.topic(partitions=partitions, lines=n)
    exits(b.consume("-q", n=n), 0)


def seek(bench, *words):
    return bench.run("group", "seek", "orders", "g", *words)


def seen(b, n):
    """What group g reads next."""
    return b.consume("--format", "%v\\n", n=n).out.split()


class Member:
    """A consumer of group g that runs, and leaves at the end."""

    def __init__(self, b, partitions=1):
        self.p = b.start("consume", "orders", "-g", "g", "--name", "alice",
                         "-q")
        wait_for(lambda: b.run("group", "info", "orders", "g").returncode == 0
                 and b.json("group", "info", "orders", "g")["owned"] ==
                 partitions and b.lag() == 0, SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.send_signal(signal.SIGTERM)
        ended(self.p, 0)


# ---- seeking --------------------------------------------------------------

def a_group_reads_again_from_where_it_is_told(b):
    read_all(b, 6)
    third = ids(b)[2]
    for to, first in (("start", 0), (third, 2), ("1h", 0), ("@1", 0),
                      ("@2001-02-03T04:05:06.7Z", 0), ("@2001-02-03", 0),
                      ("2001-02-03T04:05:06.789+01:00", 0),
                      ("2001-02-03T04:05", 0)):
        p = seek(b, "--to", to, "--yes", "-o", "json")
        exits(p, 0)
        row, = json.loads(p.out)
        equal((row["partition"], row["skipped"], row["again"], row["done"]),
              (0, 0, 6 - first, True))
        assert "1 of 1 partition set" in p.err, p.err
        equal(b.lag(), 6 - first)
        equal(seen(b, 6 - first), [f"m{i}" for i in range(first, 6)])


def a_dry_run_tells_and_changes_nothing(b):
    b.topic(partitions=2, lines=7)
    exits(b.consume("-q", n=3), 0)
    p = seek(b, "--to", "end", "--dry-run")
    exits(p, 0)
    assert "dry run" in p.err and "4 messages skipped" in p.err, p.err
    assert "0 messages to come again" in p.err, p.err
    rows = [x.split("\t") for x in p.out.splitlines()]
    equal(rows[0], ["partition", "from", "to", "skipped", "again", "kept",
                    "done"])
    equal(sum(int(r[3]) for r in rows[1:]), 4)
    equal(b.lag(), 4)
    p = seek(b, "--to", "end", "--dry-run", "--partition", "1", "-o", "json")
    equal([r["partition"] for r in json.loads(p.out)], [1])


def a_seek_asks_on_a_terminal_and_needs_yes_elsewhere(b):
    read_all(b, 3)
    p = seek(b, "--to", "start")
    exits(p, 64)
    equal(p.out, "")
    assert "3 messages to come again" in p.err and "--yes" in p.err, p.err
    equal(b.lag(), 0)
    question = ("seek group g of topic orders to start: 0 messages skipped, "
                "3 messages to come again? [y/N]")
    equal(b.answer(question, "n", "group", "seek", "orders", "g", "--to",
                   "start"), 1)
    equal(b.lag(), 0)
    equal(b.answer(question, "y", "group", "seek", "orders", "g", "--to",
                   "start"), 0)
    equal(b.lag(), 3)


def a_group_at_work_is_moved_only_by_force(b):
    b.topic(lines=3)
    with Member(b):
        p = seek(b, "--to", "start", "--yes")
        exits(p, 75)
        assert "1 live member" in p.err and "--force" in p.err, p.err
        exits(seek(b, "--to", "start", "--dry-run"), 0)
        exits(seek(b, "--to", "start", "--yes", "--force"), 0)
        wait_for(lambda: b.lag() == 0, SECONDS)
    info = json.loads(b.good("group", "lag", "orders", "g", "-o", "json",
                             "--columns", "partition,reason,changed").out)
    equal(info[0]["reason"], "handed")
    assert info[0]["changed"].startswith("20"), info


def a_place_that_is_none_is_a_usage_error(b):
    read_all(b, 3)
    b.server.call("XTRIM", "leat:{orders/0}:log", "MAXLEN", 2)
    for to, says in (("noon", "no place to seek to"),
                     ("@noon", "no place to seek to"),
                     ("@2026-99-99", "no place to seek to"),
                     ("1-2-3", "no place to seek to"),
                     ("1-0", "before the first message"),
                     ("99999999999999-0", "behind the last message"),
                     ("@2900-01-01", "has not come yet")):
        p = seek(b, "--to", to, "--yes")
        exits(p, 64)
        assert says in p.err, (to, p.err)
    p = seek(b, "--yes")
    exits(p, 64)
    assert "--to" in p.err, p.err
    p = seek(b, "--to", "end", "--partition", "1", "--yes")
    exits(p, 64)
    assert "no partition 1" in p.err, p.err
    equal(b.lag(), 0)


# ---- settings -------------------------------------------------------------

SETTINGS = ("lease_ms", "order", "max_attempts", "backoff", "delay_ms",
            "max_delay_ms", "jitter", "re_add")
USUAL = (15000, "partition", 5, "exponential", 1000, 60000, True, False)


def alter(bench, *words):
    return bench.run("group", "alter", "orders", "g", *words)


def settings(bench):
    info = bench.json("group", "info", "orders", "g")
    return tuple(info[x] for x in SETTINGS)


def an_alter_of_a_group_changes_only_what_is_given(b):
    read_all(b, 1)
    equal(settings(b), USUAL)
    p = alter(b, "--lease", "30s")
    exits(p, 0)
    assert "group g of orders altered" in p.err and p.out == "", p
    equal(settings(b), (30000, *USUAL[1:]))
    exits(alter(b, "--order", "key", "--max-attempts", "0"), 0)
    equal(settings(b), (30000, "key", 0, *USUAL[3:]))
    exits(alter(b, "--backoff", "fixed:7s,nojitter"), 0)
    equal(settings(b), (30000, "key", 0, "fixed", 7000, 60000, False, False))
    exits(alter(b, "--backoff", "exponential:2s..9s", "--lease", "24h"), 0)
    equal(settings(b), (86400000, "key", 0, "exponential", 2000, 9000, True,
                        False))
    equal(b.json("group", "alter", "orders", "g", "--lease", "300ms"),
          {"topic": "orders", "group": "g", "done": "altered",
           "dry_run": False})
    equal(settings(b)[0], 300)


def a_member_that_asks_for_other_settings_is_told_how_to_change_them(b):
    read_all(b, 1)
    for words, has, asks in (
            (["--order", "key"], "order partition", "key"),
            (["--max-attempts", "9"], "max-attempts 5", "9"),
            (["--max-attempts", "0"], "max-attempts 5", "no limit"),
            (["--backoff", "exponential:3s..1m"], "backoff exponential:1s..1m",
             "exponential:3s..1m"),
            (["--backoff", "fixed:1500ms,nojitter"],
             "backoff exponential:1s..1m", "fixed:1500ms,nojitter")):
        p = b.consume("-q", *words)
        exits(p, 64)
        assert (f"group 'g' has {has}, this member asks for {asks}: leave it "
                "out, or change it for all: leat group alter orders g "
                f"{' '.join(words)}\n") in p.err, p.err
        exits(alter(b, *words), 0)
        exits(b.consume("-q", *words), 0)
        exits(alter(b, "--order", "partition", "--max-attempts", "5",
                    "--backoff", "exponential:1s..60s"), 0)
        equal(settings(b), USUAL)


def a_member_that_asks_for_a_default_by_name_is_refused(b):
    read_all(b, 1)
    exits(alter(b, "--order", "key", "--backoff", "fixed:5s,nojitter"), 0)
    for words, says in ((["--order", "partition"], "order key"),
                        (["--backoff", "fixed:5s"],
                         "backoff fixed:5s,nojitter"),
                        (["--backoff", "exponential:5s,nojitter"],
                         "backoff fixed:5s,nojitter")):
        p = b.consume("-q", *words)
        exits(p, 64)
        assert f"group 'g' has {says}, this member asks for" in p.err, p.err
    exits(b.consume("-q"), 0)
    exits(b.consume("-q", "--order", "key", "--backoff", "fixed:5s,nojitter"),
          0)


def re_add_is_altered_like_the_rest(b):
    read_all(b, 1)
    for word, is_on in (("yes", True), ("no", False)):
        exits(alter(b, "--re-add", word), 0)
        equal(settings(b), (*USUAL[:7], is_on))
    exits(alter(b, "--re-add", "perhaps"), 64)


def of_two_alters_at_once_neither_undoes_the_other(b):
    read_all(b, 1)
    for n in range(10, 30):
        both = [b.start("group", "alter", "orders", "g", *words) for words in
                (["--lease", f"{n}s"], ["--max-attempts", str(n)])]
        for p in both:
            ended(p, 0)
        equal(settings(b), (n * 1000, "partition", n, *USUAL[3:]))


def an_alter_with_an_id_leaves_another_group_alone(b):
    read_all(b, 1)
    own = b.json("group", "info", "orders", "g")["id"]
    p = alter(b, "--lease", "9s", "--id", "0123456789abcdef")
    exits(p, 1)
    assert "group info orders g shows the id" in p.err, p.err
    equal(settings(b), USUAL)
    exits(alter(b, "--lease", "9s", "--id", own), 0)
    equal(settings(b), (9000, *USUAL[1:]))


def settings_that_cannot_be_are_refused(b):
    read_all(b, 1)
    for words, says in ((["--lease", "0"], "--lease: 0 is no lease"),
                        (["--lease", "299ms"], "299 ms is not between"),
                        (["--lease", "86400001ms"], "86400001 ms is not"),
                        (["--lease", "long"], "lease"),
                        (["--order", "random"], "order"),
                        (["--max-attempts", "-1"], "max-attempts"),
                        (["--max-attempts", "1000000001"], "max-attempts"),
                        (["--backoff", "sometimes"], "is no backoff"),
                        (["--backoff", "fixed:1s..2s"], "is no backoff"),
                        ([], "nothing is to be changed")):
        p = alter(b, *words)
        exits(p, 64)
        assert says in p.err and p.out == "", (words, p.err)
    equal(settings(b), USUAL)


def a_group_of_an_earlier_version_shows_neither_id_nor_settings(b):
    b.topic()
    b.server.call("SADD", "leat:{orders}:groups", "g")
    equal(settings(b), (None,) * len(SETTINGS))
    equal(b.json("group", "info", "orders", "g")["id"], None)


# ---- members --------------------------------------------------------------

def lives(box):
    """Partitions of each life of a name, the first life first."""
    members = box.json("group", "members", "orders", "g")
    return [m["partitions"] for m in sorted(members, key=lambda m: m["born"])]


def a_named_member_that_leaves_takes_its_killed_lives_along(b):
    read_all(b, 1, partitions=3)
    for n in range(2):
        member = Member(b, partitions=3)
        wait_for(lambda: lives(b) == [0] * n + [3], SECONDS)
        member.p.kill()
        ended(member.p, -signal.SIGKILL)
    with Member(b, partitions=3):
        wait_for(lambda: lives(b) == [0, 0, 3], SECONDS)
    equal(lives(b), [])
    equal(b.server.call("EXISTS", "leat:{orders}:beats:g"), 0)
    exits(b.run("group", "rm", "orders", "g", "--yes"), 0)


# ---- pausing --------------------------------------------------------------

def a_paused_group_gets_nothing(b):
    b.topic(lines=2)
    with Member(b):
        assert "is paused" in b.good("group", "pause", "orders", "g").err
        assert b.json("group", "info", "orders", "g")["paused"].startswith(
            "20")
        exits(b.run("group", "pause", "orders", "g"), 0)
    b.send("orders", ["x"])
    p = b.consume("--format", "%v\\n")
    exits(p, 0)
    equal((p.out, b.lag()), ("", 1))
    b.good("group", "resume", "orders", "g", "-q")
    equal(b.json("group", "info", "orders", "g")["paused"], None)
    equal(seen(b, 1), ["x"])


# ---- removing -------------------------------------------------------------

def a_group_is_removed_only_when_told_twice(b):
    read_all(b, 3)
    b.send("orders", ["x"])
    p = b.run("group", "rm", "orders", "g")
    exits(p, 64)
    assert "1 message not settled" in p.err and "--yes" in p.err, p.err
    p = b.good("group", "rm", "orders", "g", "--dry-run")
    assert "would be removed" in p.err, p.err
    question = ("remove group g of topic orders with 1 message not settled? "
                "[y/N]")
    equal(b.answer(question, "n", "group", "rm", "orders", "g"), 1)
    equal(b.lag(), 1)
    equal(b.answer(question, "y", "group", "rm", "orders", "g"), 0)
    exits(b.run("group", "info", "orders", "g"), 1)
    equal(b.server.call("KEYS", "*:g"), [])
    equal(b.json("topic", "info", "orders")["messages"], 4)
    exits(b.run("group", "rm", "orders", "g", "--yes"), 1)


def every_format_of_a_group_shows_its_id(b):
    read_all(b, 1)
    id = b.server.call("HGET", "leat:{orders}:group:g", "u").decode()
    equal(len(id), 16)
    for form in ("json", "ndjson", "csv", "tsv", "table"):
        assert id in b.good("group", "info", "orders", "g", "-o", form).out
    text, code = on_terminal(b.home, "group", "info", "orders", "g",
                             env={"LEAT_URL": b.server.url})
    equal(code, 0)
    assert id in text, text


def a_group_is_removed_by_its_id_and_no_other(b):
    read_all(b, 1)
    first = b.json("group", "info", "orders", "g")["id"]
    rm = ["group", "rm", "orders", "g", "--yes", "--id"]
    b.good(*rm, first)
    exits(b.run(*rm, first), 1)
    exits(b.consume("-q", n=1), 0)
    second = b.json("group", "info", "orders", "g")["id"]
    assert first != second, first
    exits(b.run(*rm, ""), 64)
    for wrong in (first, "x", second + "0", second[:-1]):
        for more in ((), ("--force",), ("--dry-run",), ("--dead-letters",)):
            p = b.run(*rm, wrong, *more)
            exits(p, 1)
            assert f"has the id '{second}', not '{wrong}'" in p.err, p.err
            assert "it stays" in p.err and p.out == "", p
            assert "leat group info orders g" in p.err, p.err
    equal(b.json("group", "info", "orders", "g")["id"], second)
    equal(b.lag(), 0)
    b.good(*rm, second, "--dry-run")
    equal(b.json("group", "info", "orders", "g")["id"], second)
    b.good(*rm, second)
    exits(b.run("group", "info", "orders", "g"), 1)


def a_removal_that_was_cut_short_is_run_again_by_id(b):
    read_all(b, 1)
    id = b.json("group", "info", "orders", "g")["id"]
    b.server.call("HSET", "leat:{orders}:group:g", "gone", 1)
    p = b.consume("-q", n=1)
    exits(p, 75)
    assert "is being removed" in p.err, p.err
    b.good("group", "rm", "orders", "g", "--yes", "--id", id)
    exits(b.run("group", "info", "orders", "g"), 1)
    exits(b.consume("-q", n=1), 0)


def a_wrong_id_is_told_before_live_members_are(b):
    b.topic(lines=1)
    with Member(b):
        id = b.json("group", "info", "orders", "g")["id"]
        p = b.run("group", "rm", "orders", "g", "--yes", "--id", "x")
        exits(p, 1)
        assert "not 'x'" in p.err, p.err
        p = b.run("group", "rm", "orders", "g", "--yes", "--id", id)
        exits(p, 75)
        assert "1 live member" in p.err, p.err


def what_is_put_by_is_counted_before_it_goes(b):
    b.topic(lines=3)
    exits(b.run("consume", "orders", "-g", "g", "--order", "none", "-q",
                "--backoff", "fixed:1h,nojitter", "--until-idle", "200ms",
                "-e", "false"), 0)
    wait_for(lambda: b.json("group", "info", "orders", "g")["retries"] == 3,
             SECONDS)
    equal(b.lag(), 0)
    p = b.run("group", "rm", "orders", "g")
    exits(p, 64)
    assert "3 messages not settled" in p.err, p.err
    p = seek(b, "--to", "end", "--drop")
    exits(p, 64)
    assert "3 messages put by dropped" in p.err, p.err
    exits(seek(b, "--to", "end", "--drop", "--yes"), 0)
    p = b.run("group", "rm", "orders", "g")
    assert "0 messages not settled" in p.err, p.err


def dead_letters_of_a_group_go_only_if_asked(b):
    b.topic()
    for flags, left in ((), 2), (("--dead-letters",), 2):
        b.server.call("SADD", "leat:{orders}:groups", "g")
        for group in ("g", "other"):
            b.server.call("XADD", "leat:{orders/0}:dlq", "*", *(
                f"g {group} i 1-0 n 1 f 1 fm 1 lm 1 fe no le no e 1 r r "
                "x 0: c 1 b body").split())
        b.good("group", "rm", "orders", "g", "--yes", *flags)
        equal(b.server.call("XLEN", "leat:{orders/0}:dlq"), left)


def what_is_in_use_is_not_removed(b):
    b.topic(lines=3)
    with Member(b):
        for words in (("group", "rm", "orders", "g"), ("topic", "rm",
                                                       "orders")):
            for more in ("--yes", "--dry-run"):
                p = b.run(*words, more)
                exits(p, 75)
                assert "1 live member" in p.err and "--force" in p.err, p.err
        equal(b.json("topic", "info", "orders")["messages"], 3)
        member, = b.json("group", "members", "orders", "g")
        equal((member["name"], member["alive"]), ("alice", True))
        assert 0 <= member["beat_s"] < SECONDS, member
    assert "would be removed" in b.good("topic", "rm", "orders",
                                        "--dry-run").err
    b.good("topic", "rm", "orders", "--yes")
    equal(b.server.call("KEYS", "*orders*"), [])


def a_topic_in_use_is_removed_by_force(b):
    b.topic(lines=3)
    with Member(b):
        b.good("topic", "rm", "orders", "--yes", "--force")
        exits(b.run("topic", "info", "orders"), 1)


def what_was_done_is_a_record_where_that_is_asked_for(b):
    made = b.json("topic", "create", "orders")
    equal(made, {"topic": "orders", "group": None, "done": "created",
                 "dry_run": False})
    b.send("orders", ["a"])
    exits(b.consume("-q", n=1), 0)
    for words, done in ((["pause"], "paused"), (["resume"], "resumed"),
                        (["rm", "--dry-run"], "removed"),
                        (["rm", "--yes"], "removed")):
        equal(b.json("group", words[0], "orders", "g", *words[1:]),
              {"topic": "orders", "group": "g", "done": done,
               "dry_run": "--dry-run" in words})
    equal(b.json("topic", "alter", "orders", "--cap", "9")["done"], "altered")
    equal(b.json("topic", "rm", "orders", "--dry-run")["dry_run"], True)
    equal(b.json("topic", "rm", "orders", "--yes")["done"], "removed")
    exits(b.run("topic", "info", "orders"), 1)


# ---- looking --------------------------------------------------------------

def pending_messages_are_listed_in_pages(b):
    b.topic(lines=5)
    b.server.call("SADD", "leat:{orders}:groups", "g")
    all_ids = ids(b)
    b.server.call("HSET", "leat:{orders/0}:cur:g", "e", 1, "c", "0-0", "m",
                  all_ids[-1], "n", 0, "s", all_ids[3], "t",
                  f"{all_ids[1]}=3")
    b.server.call("HSET", "leat:{orders/0}:lease:g", "o", "0a" + 30 * "0",
                  "e", 1)
    rows = b.json("group", "pending", "orders", "g")
    equal([r["position"] for r in rows], all_ids[:3] + all_ids[4:])
    equal([r["attempts"] for r in rows], [1, 3, 1, 1])
    equal({(r["partition"], r["state"], r["due"], r["error"]) for r in rows},
          {(0, "out", None, None)})
    assert all(r["age_s"] >= 0 for r in rows), rows
    got, after = [], []
    for _ in range(6):
        p = b.good("group", "pending", "orders", "g", "--sort", "attempts",
                   "--count", "3", *after, "-o", "json")
        got += [r["position"] for r in json.loads(p.out)]
        if "--after" not in p.err:
            break
        after = ["--after", p.err.split()[-1]]
    equal(got, [all_ids[1], all_ids[0], all_ids[2], all_ids[4]])
    plain = b.good("group", "pending", "orders", "g").out.splitlines()
    equal(plain[0].split("\t"), ["partition", "position", "state", "attempts",
                                 "age_s", "due", "error"])
    equal(len(plain), 5)
    text, code = on_terminal(b.home, "group", "pending", "orders", "g",
                             env={"LEAT_URL": b.server.url})
    equal(code, 0)
    assert "\t" not in text and all_ids[0] in text, text
    info = b.json("group", "info", "orders", "g")
    equal((info["in_flight"], info["retries"], info["parked"]), (4, 0, 0))
    for words in (["--after", "x"], ["--count", "10001"], ["--count", "0"],
                  ["--sort", "colour"], ["--partition", "1"]):
        exits(b.run("group", "pending", "orders", "g", *words), 64)


def a_topic_tells_its_size_and_rate(b):
    b.topic(partitions=2, lines=20)
    b.server.call("XADD", "leat:{orders/1}:dlq", "*", "g", "x")
    b.server.call("ZADD", "leat:{orders/0}:later", 10 ** 14, "x")
    info = b.json("topic", "info", "orders")
    assert info["bytes"] > 20 and info["rate"] > 0, info
    equal((info["dead"], info["delayed"]), (1, 1))
    parts = b.json("topic", "info", "orders", "-p")
    order = [tuple(int(n) for n in p[w].split("-")) for p in parts
             for w in ("first", "last")]
    equal((info["first"], info["last"]),
          ("%d-%d" % min(order), "%d-%d" % max(order)))
    rows = b.json("topic", "info", "orders", "-p")
    equal([(r["dead"], r["delayed"]) for r in rows], [(0, 1), (1, 0)])
    equal(sum(r["bytes"] for r in rows), info["bytes"])


# ---- what is not there ----------------------------------------------------

VERBS = (["seek", "--to", "end", "--yes"], ["pause"], ["resume"],
         ["rm", "--yes"], ["pending"], ["alter", "--lease", "9s"])


def unknown_names_are_told_with_a_hint(b):
    b.topic()
    b.server.call("SADD", "leat:{orders}:groups", "billing")
    for verb, *more in VERBS:
        p = b.run("group", verb, "orders", "biling", *more)
        exits(p, 1)
        assert "no group 'biling'" in p.err, p.err
        assert "did you mean 'billing'?" in p.err, p.err
        p = b.run("group", verb, "ordres", "billing", *more)
        exits(p, 1)
        assert "did you mean 'orders'?" in p.err, p.err
        p = b.run("group", verb, "orders", "a b", *more)
        exits(p, 64)
        assert "a b" in p.err, p.err
        exits(b.run("group", verb, "orders", *more), 64)


def every_verb_explains_itself_and_completes(b):
    for verb, *_ in VERBS:
        text = b.good("help", "group", verb).out
        assert "TOPIC GROUP" in text, text
        equal(b.good("group", verb, "--help").out, text)
    text = b.good("help", "group", "alter").out
    for option in ("--lease TIME", "--order ORDER", "--max-attempts N",
                   "--backoff HOW", "--re-add HOW", "--id ID"):
        assert option in text, text
    assert "--id ID" in b.good("help", "group", "rm").out
    offered = b.good("__complete", "group", "").out
    for verb, *_ in VERBS:
        assert verb in offered, offered
    b.topic()
    b.server.call("SADD", "leat:{orders}:groups", "billing")
    assert "billing" in b.good("__complete", "group", "seek", "orders",
                               "").out
    assert "attempts" in b.good("__complete", "group", "pending", "orders",
                                "billing", "--sort", "").out


if __name__ == "__main__":
    sys.exit(main(__name__))
