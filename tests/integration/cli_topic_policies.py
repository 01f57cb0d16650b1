"""What is kept of a topic, said and trimmed by the command.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_topic_policies.py PATH_TO_LEAT [PATTERN]
"""

import signal
import sys

from cli_bench import ended, main
from cli_help import SECONDS, equal, exits, on_terminal, wait_for

KEPT = ("max_age_ms", "max_entries", "cap", "lossy_maxlen", "forget",
        "abandoned", "abandoned_ms", "large_body")
WEEK = 7 * 86400 * 1000


def kept(b, name="orders"):
    info = b.json("topic", "info", name)
    return tuple(info[x] for x in KEPT)


def length(bench):
    return bench.json("topic", "info", "orders")["messages"]


def read_by(b, group, n):
    exits(b.consume("-q", n=n, group=group), 0)


# ---- saying it ------------------------------------------------------------

def a_topic_is_made_with_what_is_kept_of_it(b):
    b.good("topic", "create", "plain")
    equal(kept(b, "plain"), (None, None, None, None, "never", "pin", WEEK,
                             65536))
    b.good("topic", "create", "orders", "--max-age", "2h", "--max-entries",
           "10", "--cap", "20", "--forget", "all", "--abandoned", "detach",
           "--abandoned-after", "1d", "--large-body", "none")
    equal(kept(b), (7200000, 10, 20, None, "all", "detach", 86400000, None))
    text, code = on_terminal(b.home, "topic", "info", "orders",
                             env={"LEAT_URL": b.server.url})
    equal(code, 0)
    assert "max_entries" in text and "detach" in text, text


def an_alter_changes_only_what_is_given(b):
    b.good("topic", "create", "orders", "--max-age", "1h", "--cap", "9")
    p = b.good("topic", "alter", "orders", "--max-entries", "5", "--forget",
               "first")
    assert "altered" in p.err and p.out == "", p
    equal(kept(b), (3600000, 5, 9, None, "first", "pin", WEEK, 65536))
    b.good("topic", "alter", "orders", "--cap", "0", "--lossy-maxlen", "50",
           "--large-body", "1000")
    equal(kept(b), (3600000, 5, None, 50, "first", "pin", WEEK, 1000))
    b.good("topic", "alter", "orders", "--max-age", "0", "--abandoned",
           "alarm", "--abandoned-after", "90s")
    equal(kept(b), (None, 5, None, 50, "first", "alarm", 90000, 1000))


def what_cannot_be_is_refused(b):
    b.good("topic", "create", "orders", "--cap", "9")
    for words, text in (
            (["--max-age", "old"], "max-age"),
            (["--max-entries", "-1"], "max-entries"),
            (["--forget", "sometimes"], "forget"),
            (["--abandoned", "kill"], "abandoned"),
            (["--large-body", "huge"], "'huge' is no size"),
            (["--max-entries", "10"], "cap of 9 is below max_entries, 10"),
            (["--lossy-maxlen", "10"], "exclude each other")):
        p = b.run("topic", "alter", "orders", *words)
        assert p.returncode != 0 and text in p.err, (words, p)
    p = b.run("topic", "alter", "orders")
    exits(p, 64)
    assert "nothing is to be changed" in p.err, p.err
    equal(kept(b), (None, None, 9, None, "never", "pin", WEEK, 65536))
    p = b.run("topic", "create", "more", "--cap", "1", "--lossy-maxlen", "1")
    assert p.returncode != 0 and "exclude" in p.err, p
    exits(b.run("topic", "info", "more"), 1)
    p = b.run("topic", "alter", "ordres", "--cap", "1")
    exits(p, 1)
    assert "did you mean 'orders'" in p.err, p.err
    b.server.call("XADD", "bare", "*", "a", "b")
    p = b.run("topic", "alter", "bare", "--cap", "1")
    assert p.returncode != 0 and "bare stream" in p.err, p


# ---- trimming -------------------------------------------------------------

def a_trim_tells_what_went_and_who_holds_back(b):
    b.topic(lines=20)
    read_by(b, "fast", 15)
    read_by(b, "slow", 4)
    trim = ["topic", "trim", "orders", "--max-entries", "10"]
    want = {"removed": 4, "left": 16, "held": 6, "holder": "slow", "holds": 6,
            "dry_run": True}
    equal(b.json(*trim, "--dry-run"), want)
    equal(length(b), 20)
    p = b.run(*trim)
    exits(p, 64)
    assert "remove 4 messages of topic orders: not" in p.err, p.err
    equal(length(b), 20)
    equal(b.json(*trim, "--yes"), {**want, "dry_run": False})
    equal(length(b), 16)
    text, code = on_terminal(b.home, *trim, env={"LEAT_URL": b.server.url})
    equal(code, 0)
    assert "holder" in text and "slow" in text, text
    assert "slow" in b.good(*trim).out


def a_trim_by_age_takes_the_old(b):
    b.topic()
    for i in range(1, 4):
        b.server.call("XADD", "leat:{orders/0}:log", f"{i}-1", "b", "x")
    b.send("orders", ["new"])
    got = b.json("topic", "trim", "orders", "--older-than", "1h", "--yes")
    equal((got["removed"], got["left"], got["holder"]), (3, 1, None))
    got = b.json("topic", "trim", "orders", "--older-than", "0", "--yes")
    equal((got["removed"], got["left"]), (1, 0))


def a_trim_asks_on_a_terminal_and_needs_yes_elsewhere(b):
    b.topic(lines=6)
    read_by(b, "g", 2)
    trim = ["topic", "trim", "orders", "--max-entries", "0", "--force"]
    p = b.run(*trim)
    exits(p, 64)
    assert "remove 6 messages" in p.err and "--yes" in p.err, p.err
    equal(length(b), 6)
    equal(b.json(*trim, "--dry-run")["removed"], 6)
    equal(b.answer("settled or not? [y/N]", "n", *trim), 1)
    equal(length(b), 6)
    equal(b.answer("settled or not? [y/N]", "y", *trim), 0)
    equal(length(b), 0)
    b.send("orders", ["again"])
    equal(b.json(*trim, "--yes")["removed"], 1)


def a_trim_without_bounds_follows_the_topic(b):
    b.topic(lines=6)
    p = b.run("topic", "trim", "orders")
    assert p.returncode != 0 and "keeps everything" in p.err, p
    read_by(b, "g", 6)
    b.good("topic", "alter", "orders", "--forget", "all")
    equal(b.json("topic", "trim", "orders", "--yes")["removed"], 6)
    p = b.run("topic", "trim", "ordres", "--max-entries", "1")
    exits(p, 1)
    assert "did you mean 'orders'" in p.err, p.err


def a_running_member_trims_by_what_was_altered(b):
    b.topic(lines=12)
    p = b.start("consume", "orders", "-g", "g", "-q")
    wait_for(lambda: b.run("group", "info", "orders", "g").returncode == 0
             and b.lag() == 0, SECONDS)
    b.good("topic", "alter", "orders", "--max-entries", "3")
    wait_for(lambda: length(b) == 3, SECONDS)
    p.send_signal(signal.SIGTERM)
    ended(p, 0)


if __name__ == "__main__":
    sys.exit(main(__name__))
