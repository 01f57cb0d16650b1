"""Dead letters by the command, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_dlq.py PATH_TO_LEAT [PATTERN]
"""

import json
import os
import re
import signal
import sys

from cli_bench import Bench, main
from cli_help import equal, exits, on_terminal

GROUP = "billing"


class Grave(Bench):
    """A bench with a topic "orders" of two partitions."""

    def __init__(self, server):
        super().__init__(server)
        self.call = server.call
        self.topic("orders", 2)
        self.call("SADD", "leat:{orders}:groups", GROUP)
        for p in range(2):
            self.call("HSET", f"leat:{{orders/{p}}}:cur:{GROUP}", "c", "0-0")

    def bury(self, body, error="no such user", partition=0, group=GROUP,
             key="k", headers=(), extra=""):
        """Send a message, and make a dead letter of it; its id."""
        log = f"leat:{{orders/{partition}}}:log"
        options = [x for h in headers for x in ("-H", h)]
        self.good("topic", "send", "orders", "-q", "-p", str(partition),
                  "-k", key, "--file", "-", *options,
                  stdin=body if isinstance(body, bytes) else body.encode())
        at, fields = self.call("XREVRANGE", log, "+", "-", "COUNT", 1)[0]
        dead = self.call(
            "XADD", f"leat:{{orders/{partition}}}:dlq", "*", "g", group, "i",
            at, "n", 5, "f", 4, "fm", 1700000000000, "lm", 1700000001000,
            "fe", "first " + error, "le", error, "e", 17, "r", "", "x", extra,
            "c", len(fields) // 2, *fields)
        return f"{partition}:{dead.decode()}"

    def left(self):
        return [x["id"] for x in self.json("dlq", "ls", "orders")]

    def waiting(self, group=GROUP):
        return sum(self.call("ZCARD", f"leat:{{orders/{p}}}:due:{group}")
                   for p in range(2))

    def on_terminal(self, *args, **env):
        return on_terminal(self.home, *args,
                           env={"LEAT_URL": self.server.url, **env})


# ---- looking ------------------------------------------------------------

def dead_letters_are_listed_in_every_form(b):
    ids = [b.bury(f"m{i}", partition=i % 2) for i in range(4)]
    rows = b.json("dlq", "ls", "orders")
    equal([x["id"] for x in rows], ids)
    equal({k: rows[0][k] for k in ("group", "key", "attempts", "error")},
          {"group": GROUP, "key": "k", "attempts": 5,
           "error": "no such user"})
    assert rows[0]["died"].startswith("20"), rows[0]
    out = b.good("dlq", "ls", "orders").out.splitlines()
    equal(out[0].split("\t"), ["id", "group", "key", "attempts", "died",
                               "error"])
    equal([x.split("\t")[0] for x in out[1:]], ids)
    out = b.good("dlq", "list", "orders", "-o", "ndjson", "--columns",
                 "id,body,position,fence,failures").out.splitlines()
    first = json.loads(out[0])
    equal((first["body"], first["fence"], first["failures"]), ("m0", 17, 4))
    text, code = b.on_terminal("dlq", "ls", "orders")
    equal(code, 0)
    assert all(i in text for i in ids) and "attempts" in text, text
    equal(b.json("dlq", "ls", "orders", "--newest")[0]["id"], ids[-1])


def a_long_error_is_cut_only_in_a_table(b):
    b.bury("x", error="é" * 40 + "end")
    table = b.good("dlq", "ls", "orders", "-o", "table").out
    assert "é..." in table and "end" not in table, table
    assert "end" in b.good("dlq", "ls", "orders").out


def no_terminal_is_told_what_to_do(b):
    i = b.bury(b"\x1b[31mred\x00\n", error="bad \x1b]0;x\x07",
               headers=["h: \x1b[1m"], extra="1:a4:\x1b[7m")
    for args in (["ls", "orders"], ["show", "orders", i],
                 ["errors", "orders"],
                 ["ls", "orders", "--columns", "body,headers,extra"]):
        text, code = b.on_terminal("dlq", *args, "--color", "never")
        equal(code, 0)
        assert "\x1b" not in text and "\x07" not in text, repr(text)
    text, _ = b.on_terminal("dlq", "show", "orders", i)
    assert "\\x1b[31mred\\x00" in text, text


def show_prints_everything(b):
    i = b.bury("hello", partition=1, headers=["a: 1", "b: two"],
               extra="4:host2:h1")
    x = b.json("dlq", "show", "orders", i)
    equal({k: x[k] for k in ("id", "group", "key", "attempts", "failures",
                             "error", "first_error", "last_error", "topic",
                             "partition", "fence", "replayed_from", "edited",
                             "extra", "headers", "body", "damaged")},
          {"id": i, "group": GROUP, "key": "k", "attempts": 5, "failures": 4,
           "error": "no such user", "first_error": "first no such user",
           "last_error": "no such user", "topic": "orders", "partition": 1,
           "fence": 17, "replayed_from": None, "edited": None,
           "extra": ["host: h1"], "headers": ["a: 1", "b: two"],
           "body": "hello", "damaged": None})
    equal((x["first"], x["last"]), ("2023-11-14T22:13:20.000Z",
                                    "2023-11-14T22:13:21.000Z"))
    assert re.match(r"\d+-\d+$", x["position"]), x
    text, code = b.on_terminal("dlq", "show", "orders", i, "--color", "never")
    equal(code, 0)
    assert re.search(r"body +hello", text) and "a: 1" in text, text
    data = bytes(range(256))
    i = b.bury(data)
    equal(b.good("dlq", "show", "orders", i, "--raw").stdout, data)
    x = b.json("dlq", "show", "orders", i, "--columns", "body_base64")
    assert x["body_base64"].startswith("AAECAwQF"), x
    equal(b.json("dlq", "show", "orders", i, "--columns", "body"), x)
    equal(b.json("dlq", "show", "orders", i, "--columns", "body,body_base64"),
          x)


def what_cannot_be_decoded_is_shown_with_its_fields(b):
    b.call("XADD", "leat:{orders/0}:dlq", "5-0", "g", GROUP, "i", "1-1", "n",
           1, "c", 1, "field", "value")
    x = b.json("dlq", "show", "orders", "0:5-0")
    equal(x["headers"], ["field: value"])
    assert x["damaged"], x
    equal(b.good("dlq", "show", "orders", "0:5-0", "--raw").out, "")


def pages_go_on_where_the_last_one_ended(b):
    ids = [b.bury(f"m{i}", partition=i % 2) for i in range(7)]
    seen, after = [], []
    for _ in range(9):
        p = b.good("dlq", "ls", "orders", "-n", "3", *after, "--columns",
                   "id", "--no-headers")
        page = p.out.split()
        seen += page
        m = re.search(r"--after (\S+)", p.err)
        if not m:
            break
        after = ["--after", m[1]]
    equal(seen, ids)
    equal(len(page), 1)


def filters_choose(b):
    ids = [b.bury(f"m{i}", partition=i % 2, key=f"k{i % 3}",
                  error="Timeout 5" if i % 2 else "no such user")
           for i in range(6)]
    other = b.bury("x", group="mail")
    for options, wanted in (
            (["-g", "mail"], [other]),
            (["-e", "TIMEOUT"], ids[1::2]),
            (["-k", "k0"], [ids[0], ids[3]]),
            (["-p", "1"], ids[1::2]),
            (["--since", "1h"], [*ids, other]),
            (["--until", "1h"], []),
            (["--since", "@1"], [*ids, other]),
            (["--until", "2020-01-01"], []),
            (["--since", "2020-01-01T00:00:00Z", "-k", "k1"],
             [ids[1], ids[4]]),
            (["--since", "2999-01-01T00:00:00.5+01:00"], []),
            (["-g", GROUP, "-e", "user", "-k", "k2"], [ids[2]])):
        equal([x["id"] for x in b.json("dlq", "ls", "orders", *options)],
              wanted)
    died = b.json("dlq", "ls", "orders", "-n", "1")[0]["died"]
    assert ids[0] in [x["id"] for x in b.json(
        "dlq", "ls", "orders", "--since", died)]


def errors_are_counted_by_what_they_have_in_common(b):
    for i in range(3):
        last = b.bury("x", error=f"timeout after {i} s")
    b.bury("x", error="no user 'ann'", group="mail")
    rows = b.json("dlq", "errors", "orders")
    equal([(r["count"], r["error"]) for r in rows],
          [(3, "timeout after <n> s"), (1, "no user <text>")])
    equal(rows[0]["newest"], last)
    rows = b.json("dlq", "errors", "orders", "--by-group")
    equal([(r["group"], r["count"]) for r in rows], [(GROUP, 3), ("mail", 1)])
    rows = b.json("dlq", "errors", "orders", "-g", "mail")
    equal([r["count"] for r in rows], [1])
    text, code = b.on_terminal("dlq", "errors", "orders")
    equal(code, 0)
    assert "timeout after <n> s" in text, text


def nothing_is_no_failure(b):
    equal(b.json("dlq", "ls", "orders"), [])
    equal(b.json("dlq", "errors", "orders"), [])
    p = b.good("dlq", "replay", "orders", "--all", "--yes")
    assert "0 dead letters replayed" in p.err, p.err
    b.good("dlq", "rm", "orders", "--all")


# ---- replaying ----------------------------------------------------------

def ids_are_replayed_and_counted(b):
    ids = [b.bury(f"m{i}", partition=i % 2) for i in range(4)]
    p = b.good("dlq", "replay", "orders", ids[0], ids[3])
    equal((p.out, p.err), ("", "leat: 2 dead letters replayed\n"))
    equal(b.left(), ids[1:3])
    equal(b.waiting(), 2)
    p = b.good("dlq", "replay", "orders", ids[1], "-o", "json")
    equal(json.loads(p.out), {"topic": "orders", "done": 1, "missing": 0,
                              "refused": 0, "unknown": 0, "dry_run": False})
    equal(b.good("dlq", "replay", "orders", ids[2], "-q").err, "")


def what_is_missing_is_named_and_the_rest_is_done(b):
    i = b.bury("x")
    p = b.run("dlq", "replay", "orders", "0:1-1", i, "1:2-2")
    exits(p, 1)
    assert "no dead letter 0:1-1" in p.err and "1:2-2" in p.err, p.err
    assert "1 dead letter replayed, 2 missing" in p.err, p.err
    equal(b.waiting(), 1)
    p = b.run("dlq", "replay", "orders", i)
    exits(p, 1)
    p = b.run("dlq", "rm", "orders", i, "--yes")
    exits(p, 1)
    assert "0 dead letters removed, 1 missing" in p.err, p.err


def many_that_fail_are_told_in_few_lines(b):
    for _ in range(30):
        b.call("XADD", "leat:{orders/0}:dlq", "*", "g", "gone", "i", "1-1",
               "c", 1, "a", "b")
    p = b.run("dlq", "replay", "orders", "--all", "--yes")
    exits(p, 1)
    assert "and 20 more" in p.err and "30 refused" in p.err, p.err
    assert "group 'gone'" in p.err, p.err
    assert len(p.err.splitlines()) < 15, p.err


def all_are_replayed_when_told_twice(b):
    ids = [b.bury(f"m{i}", partition=i % 2) for i in range(3)]
    p = b.run("dlq", "replay", "orders", "--all", stdin=b"y\n")
    exits(p, 64)
    assert "3 dead letters of topic orders" in p.err and "--yes" in p.err
    equal(b.left(), ids)
    question = "replay 3 dead letters of topic orders? [y/N]"
    equal(b.answer(question, "n", "dlq", "replay", "orders", "--all"), 1)
    equal(b.left(), ids)
    equal(b.answer(question, "y", "dlq", "replay", "orders", "--all"), 0)
    equal((b.left(), b.waiting()), ([], 3))


def a_filter_a_limit_and_a_dry_run(b):
    for i in range(6):
        b.bury(f"m{i}", error="late" if i % 2 else "wrong")
    all_of = ["dlq", "replay", "orders", "--all", "-e", "late"]
    p = b.good(*all_of, "--dry-run")
    assert "3 dead letters would be replayed" in p.err, p.err
    equal((len(b.left()), b.waiting()), (6, 0))
    b.good(*all_of, "-n", "2", "--yes")
    equal((len(b.left()), b.waiting()), (4, 2))
    b.good(*all_of, "--yes", "--rate", "1000")
    equal(b.waiting(), 3)
    p = b.good("dlq", "rm", "orders", "--all", "-e", "wrong", "--dry-run")
    assert "3 dead letters would be removed" in p.err, p.err


def progress_is_shown_on_a_terminal(b):
    for i in range(5):
        b.bury(f"m{i}")
    text, code = b.on_terminal("dlq", "replay", "orders", "--all", "--yes")
    equal(code, 0)
    assert "replaying" in text and "5/5" in text, text
    assert "5 dead letters replayed" in text, text


def republished_ones_are_messages_again(b):
    i = b.bury("hello", partition=1, headers=["a: 1"])
    p = b.good("dlq", "replay", "orders", i, "--republish")
    assert "1 dead letter republished" in p.err, p.err
    first, second = b.tail("orders")
    equal((second["data"], second["key"], second["partition"]),
          ("hello", "k", 1))
    equal(second["headers"], [{"name": "a", "value": "1"},
                              {"name": "replayedFrom", "value": i}])
    equal(second["id"], first["id"])
    equal((b.left(), b.waiting()), ([], 0))


def a_signal_stops_a_slow_replay(b):
    for i in range(10):
        b.bury(f"m{i}")
    p = b.start("dlq", "replay", "orders", "--all", "--yes", "--rate", "2")
    while b.waiting() < 2:
        assert p.poll() is None
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    equal(p.returncode, 130)
    n = int(re.search(r"(\d+) dead letters? replayed", err.decode())[1])
    equal((b.waiting(), len(b.left())), (n, 10 - n))
    assert n < 10


def removing_asks(b):
    ids = [b.bury(f"m{i}") for i in range(3)]
    exits(b.run("dlq", "rm", "orders", ids[0], stdin=b"y\n"), 64)
    question = "remove 1 dead letter of topic orders? [y/N]"
    equal(b.answer(question, "n", "dlq", "rm", "orders", ids[0]), 1)
    equal(b.answer(question, "y", "dlq", "rm", "orders", ids[0]), 0)
    equal(b.left(), ids[1:])
    p = b.good("dlq", "rm", "orders", "--all", "--yes")
    assert "2 dead letters removed" in p.err, p.err
    equal(b.left(), [])


def what_a_program_rejects_is_replayed_when_it_is_mended(b):
    b.send("orders", ["good", "bad"], "-p", "1")
    bad = b.script('x=$(cat); echo $x >>$T/seen; [ "$x" != bad ] && exit\n'
                   'echo cannot read this >&2; exit 65')
    exits(b.consume("-q", "--exec", bad, n=2, group="worker"), 0)
    row, = b.json("dlq", "ls", "orders", "-g", "worker", "--columns",
                  "id,body,attempts,error")
    equal((row["body"], row["attempts"], row["error"]),
          ("bad", 1, "exit status 65: cannot read this"))
    exits(b.run("dlq", "replay", "orders", row["id"]), 0)
    equal(b.json("dlq", "ls", "orders", "-g", "worker"), [])
    mended = b.script("cat >>$T/got; echo $LEAT_REPLAYED_FROM >>$T/from",
                      "mended")
    exits(b.consume("-q", "--exec", mended, n=1, group="worker"), 0)
    equal(b.lines("seen"), ["good", "bad"])
    equal((b.lines("got"), b.lines("from")), (["bad"], [row["id"]]))
    equal(b.waiting("worker"), 0)


# ---- editing ------------------------------------------------------------

def a_body_is_changed_from_a_file_or_stdin(b):
    i = b.bury("bad", headers=["a: 1"])
    p = b.good("dlq", "edit", "orders", i, "--body", "-", stdin=b"good\0\n")
    now = p.out.strip()
    assert now != i and now in p.err, (p.out, p.err)
    equal(b.good("dlq", "show", "orders", now, "--raw").stdout, b"good\0\n")
    x = b.json("dlq", "show", "orders", now)
    equal((x["group"], x["key"], x["headers"], x["attempts"]),
          (GROUP, "k", ["a: 1"], 5))
    assert x["edited"], x
    with open(b.path("f"), "w") as f:
        f.write("better")
    was, got = now, b.json("dlq", "edit", "orders", now, "-k", "other")
    now = got["id"]
    equal(got, {"topic": "orders", "id": now, "was": was})
    now = b.good("dlq", "edit", "orders", now, "--body", b.path("f"), "-k",
                 "q", "-H", "b: 2", "-H", "c: 3").out.strip()
    x = b.json("dlq", "show", "orders", now)
    equal((x["body"], x["key"], x["headers"]), ("better", "q",
                                                ["b: 2", "c: 3"]))
    equal(b.left(), [now])


def an_editor_changes_it_on_a_terminal(b):
    i = b.bury("one two")
    tool = b.script('sed -i s/two/three/ "$2"', "an editor")
    env = {"VISUAL": "", "EDITOR": f"'{tool}' --wait"}
    text, code = b.on_terminal("dlq", "edit", "orders", i, **env)
    equal(code, 0)
    now, = b.left()
    assert now != i and now in text, text
    equal(b.good("dlq", "show", "orders", now, "--raw").out, "one three")
    equal([f for f in os.listdir(b.home.tmp) if f.startswith("leat-")], [])
    text, code = b.on_terminal("dlq", "edit", "orders", now, VISUAL="true")
    equal((code, b.left()), (0, [now]))
    assert "nothing is changed" in text, text
    text, code = b.on_terminal("dlq", "edit", "orders", now, VISUAL="false")
    equal((code, b.left()), (1, [now]))
    p = b.good("dlq", "edit", "orders", now, "--editor",
               env={"VISUAL": f"'{tool}' x"})
    equal(b.left(), [now])


def an_oversize_edit_changes_nothing(b):
    i = b.bury("x")
    big = b"x" * ((1 << 20) + 1)
    for size in (big, big[:-10]):
        p = b.run("dlq", "edit", "orders", i, "--body", "-", stdin=size)
        exits(p, 65)
        assert "--max-size" in p.err, p.err
    equal(b.left(), [i])
    b.good("dlq", "edit", "orders", i, "--body", "-", "--max-size", "2000000",
           stdin=big)


# ---- bad input ----------------------------------------------------------

def bad_words_are_usage_errors(b):
    i = b.bury("x")
    for args in (["show", "orders"], ["show", "orders", "nonsense"],
                 ["show", "orders", "0:1"], ["replay", "orders"],
                 ["replay", "orders", "-g", GROUP],
                 ["replay", "orders", i, "--all"],
                 ["replay", "orders", i, "-g", GROUP],
                 ["replay", "orders", "1-1"], ["rm", "orders"],
                 ["rm", "orders", "x", "--yes"],
                 ["replay", "orders", "--all", "--yes", "--rate", "0"],
                 ["ls", "orders", "--since", "yesterday"],
                 ["ls", "orders", "--until", "2020-13-01T00:00:00Z"],
                 ["ls", "orders", "--since", "@"],
                 ["ls", "orders", "--since", "2020-01-01T00:00:00+x"],
                 ["ls", "orders", "--after", "1-1"],
                 ["ls", "orders", "-p", "2"], ["ls", "orders", "-g", "a b"],
                 ["ls", "a b"], ["edit", "orders", i],
                 ["edit", "orders", i, "--editor", "--body", "-"],
                 ["edit", "orders", i, "-H", "nocolon"],
                 ["edit", "orders", "x", "--body", "-"]):
        p = b.run("dlq", *args, stdin=b"")
        exits(p, 64)
        assert p.err.startswith("leat: "), (args, p.err)
    equal(b.left(), [i])


def what_is_not_there_is_told_with_a_hint(b):
    for verb in ("ls", "errors"):
        p = b.run("dlq", verb, "ordres")
        exits(p, 1)
        assert p.err.startswith("leat: no topic 'ordres'\n"
                                "hint: did you mean 'orders'?"), p.err
        p = b.run("dlq", verb, "orders", "-g", "biling")
        exits(p, 1)
        assert "no group 'biling'" in p.err and \
            "did you mean 'billing'?" in p.err, p.err
    for args in (["show", "orders", "0:1-1"],
                 ["edit", "orders", "0:1-1", "--body", "-"]):
        p = b.run("dlq", *args, stdin=b"x")
        exits(p, 1)
        assert "no dead letter 0:1-1" in p.err and "leat dlq ls" in p.err
    p = b.run("dlq", "replay", "orders", "--all", "--yes", "-g", "none")
    exits(p, 1)
    i = b.bury("x", group="gone")
    equal(b.json("dlq", "ls", "orders", "-g", "gone")[0]["id"], i)
    exits(b.run("dlq", "edit", "orders", i, "--body", b.path("none")), 74)


def another_type_under_the_key_is_told(b):
    b.call("SET", "leat:{orders/1}:dlq", "x")
    for args in (["ls", "orders"], ["errors", "orders"],
                 ["replay", "orders", "--all", "--yes"],
                 ["rm", "orders", "1:1-1", "--yes"]):
        p = b.run("dlq", *args)
        exits(p, 64)
        assert "WRONGTYPE" in p.err, p.err


def a_server_that_is_away_is_said(b):
    for args in (["ls", "orders"], ["replay", "orders", "0:1-1"],
                 ["edit", "orders", "0:1-1", "-k", "x"]):
        p = b.run("dlq", *args, "--timeout", "300ms",
                  env={"LEAT_URL": "unix:///nowhere/at/all"})
        exits(p, 69)


def names_complete(b):
    i = b.bury("x")
    out = b.good("__complete", "dlq", "").out
    for verb in ("ls", "show", "errors", "replay", "rm", "edit"):
        assert f"{verb}\t" in out, out
    assert "orders\t" in b.good("__complete", "dlq", "ls", "").out
    assert f"{i}\tno such user" in b.good("__complete", "dlq", "show",
                                          "orders", "").out
    assert f"{GROUP}\t" in b.good("__complete", "dlq", "ls", "orders", "-g",
                                  "").out
    assert "--republish" in b.good("__complete", "dlq", "replay", "--").out


if __name__ == "__main__":
    sys.exit(main(__name__, Grave))
