"""What all commands have in common, as a person meets it: the words, the
questions, the screen, the exit codes.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_grammar.py PATH_TO_LEAT [PATTERN]
"""

import contextlib
import json
import os
import sys

from cli_bench import main
from cli_help import Server, equal, exits


def refused(p, code, *texts):
    exits(p, code)
    assert p.err.startswith("leat: ") or "\nleat: " in p.err, p.err
    for t in texts:
        assert t in p.err, (t, p.err)


# ---- a server that evicts -----------------------------------------------

WRITES = (["topic", "create", "t"], ["topic", "send", "t"],
          ["topic", "alter", "t", "--max-age", "1d"],
          ["topic", "trim", "t", "--max-entries", "1"], ["topic", "rm", "t"],
          ["consume", "t", "-g", "g", "--count", "1"],
          ["group", "seek", "t", "g", "--to", "end"],
          ["group", "alter", "t", "g", "--lease", "9s"],
          ["group", "pause", "t", "g"], ["group", "resume", "t", "g"],
          ["group", "rm", "t", "g"], ["dlq", "replay", "t", "--all"],
          ["dlq", "rm", "t", "--all"],
          ["dlq", "edit", "t", "0:1-1", "--key", "k"],
          ["queue", "create", "q"], ["queue", "send", "q", "m"],
          ["queue", "send", "q", "m", "--auto-create"],
          ["queue", "alter", "q", "--ttl", "1d"], ["queue", "receive", "q"],
          ["queue", "receive", "q", "--exec", "cat"],
          ["queue", "ack", "q", "r"], ["queue", "change", "q", "r", "1s"],
          ["queue", "reject", "q", "r"], ["queue", "redrive", "q"],
          ["queue", "purge", "q"], ["queue", "rm", "q"],
          ["queue", "expire", "q"], ["queue", "pool", "--exec", "cat"],
          ["demo", "-n", "1"])


def nothing_is_written_to_a_server_that_evicts(b):
    with contextlib.closing(Server(b.home, "--maxmemory", "100mb",
                                   "--maxmemory-policy",
                                   "allkeys-lru")) as server:
        for words in WRITES:
            p = b.home.run(*words, "-y", "-u", server.url, stdin=b"m\n")
            refused(p, 78, "may evict messages", "allkeys-lru",
                    "hint: ", "--allow-eviction")
        for words in (["topic", "ls"], ["queue", "ls"], ["status"],
                      ["ping", "-c", "1"]):
            exits(b.home.run(*words, "-u", server.url), 0)
        create = ["topic", "create", "-q"]
        exits(b.home.run(*create, "flag", "-u", server.url,
                         "--allow-eviction"), 0)
        exits(b.home.run(*create, "variable", "-u", server.url,
                         env={"LEAT_ALLOW_EVICTION": "yes"}), 0)
        exits(b.home.run(*create, "url", "-u",
                         server.url + "?allow_eviction=true"), 0)
        b.home.write_config(f'[context.a]\nurl = "{server.url}"\n'
                            'allow_eviction = true\n')
        exits(b.home.run(*create, "context", "--context", "a"), 0)
        p = b.home.run("topic", "ls", "-u", server.url, "-o", "json")
        equal(sorted(t["name"] for t in json.loads(p.out)),
              ["context", "flag", "url", "variable"])


# ---- programs -----------------------------------------------------------

def workers(bench):
    b = bench
    """Each verb that runs a program, with one message for it."""
    b.topic(lines=1)
    yield ["consume", "orders", "-g", "g"]
    b.good("queue", "send", "jobs", "m0", "--auto-create", "-q")
    yield ["queue", "receive", "jobs"]
    b.good("queue", "send", "jobs", "m0", "-q")
    yield ["queue", "pool"]


def count_of(words):
    return "--max" if "receive" in words else "--count"


def words_before_the_dashes_are_leats_and_behind_them_the_programs(b):
    program = b.script('echo "$(cat):$*" >>"$T/log"')
    for form in (lambda n: ["--exec", program, *n, "--", "--count", "9 9"],
                 lambda n: [*n, "--", program, "--count", "9 9"],
                 lambda n: ["-e" + program, *n, "--", "--count", "9 9"]):
        b.server.call("FLUSHALL")
        for words in workers(b):
            b.good(*words, *form([count_of(words), "1", "-q"]))
            equal(b.lines("log"), ["m0:--count 9 9"])
            os.unlink(b.path("log"))


def a_word_that_could_be_the_programs_is_refused(b):
    for words in workers(b):
        one = [count_of(words), "1"]
        hint = "hint: what is the program's stands behind --: --exec cat -- "
        refused(b.run(*words, *one, "--exec", "cat", "file"), 64, "'file'",
                hint + "file")
        refused(b.run(*words, *one, "--exec", "cat", "--number"), 64,
                "unknown option '--number'", hint + "--number")
        refused(b.run(*words, *one, "--exec", "cat", "-Zx"), 64,
                "unknown option '-Z'", hint + "-Zx")
        refused(b.run(*words, *one, "--"), 64, "no program behind --")
        refused(b.run(*words, *one, "--", "/no/such", "x"), 64,
                "no program '/no/such'")
        refused(b.run(*words, *one, "--exec", "cat x"), 64, "no shell")
        # Nothing was read: it is all there.
        equal(b.good(*words, *one, "--exec", "cat").out, "m0")


def a_program_of_the_environment_gives_way_to_one_that_is_named(b):
    for words in workers(b):
        p = b.good(*words, count_of(words), "1", "--", "sed", "s/m/x/",
                   env={"LEAT_EXEC": "false"})
        equal(p.out, "x0\n" if p.out.endswith("\n") else "x0")


# ---- so many, and no more ---------------------------------------------------

def counted(b, n, c, *words):
    """What n messages were, with so many programs at once, and the lag after
    them."""
    p = b.good("consume", "orders", "-g", "g", "--count", str(n), "-c", c, "-q",
               *words)
    return p.out.split(), b.lag()


def just_as_many_as_asked_for_are_handled_and_the_rest_stays(b):
    for partitions, c in ((1, "1"), (4, "3")):
        for words in (["--format", "%v:1\\n"],
                      ["--", "sh", "-c", 'echo "$(cat):$LEAT_ATTEMPT"']):
            b.server.call("FLUSHALL")
            b.topic(partitions=partitions, lines=20)
            seen, left = [], 20
            for n in (1, 7, 1, 7, 4):
                got, lag = counted(b, n, c, *words)
                left -= n
                equal((len(got), lag), (n, left))
                seen += got
            # Each once: what was put back was not begun.
            equal(sorted(seen), sorted(f"m{i}:1" for i in range(20)))


def those_that_end_as_dead_letters_count_and_no_more_become_one(b):
    for n in (1, 7, 12):
        b.server.call("FLUSHALL")
        b.topic(partitions=4, lines=20)
        b.good("consume", "orders", "-g", "g", "--count", str(n), "-c", "3",
               "--max-attempts", "2", "--backoff", "fixed:1ms,nojitter", "-q",
               "--exec", "false")
        equal(sum(len(b.dead(partition=i)) for i in range(4)), n)


if __name__ == "__main__":
    sys.exit(main(__name__))
