"""What `leat acl` prints is what each role needs, on a real server; and a user
without some rights is told which, not asked for a password.

Usage: cli_acl.py PATH_TO_LEAT [PATTERN]
"""

import json
import pathlib
import sys

from cli_help import Home, Redis, equal, exits, run, wait_for
from cli_status import SECONDS, Sentinel, Tcp

LOW = ["~leat:*", "&leat:*", "+@all", "-@dangerous", "-@admin"]
PASSWORD = "one-for-all"


class Place:
    """A home, a server, and users of it."""

    def __init__(self):
        self.home = Home()
        self.server = Redis(self.home)
        self.url = self.server.url

    def close(self):
        self.server.close()
        self.home.close()

    def add_user(self, name, *rules):
        equal(self.server.call("ACL", "SETUSER", name, "reset", "on",
                               ">" + PASSWORD, *rules), "+OK")

    def add_role(self, role, *options):
        """As the line says it, pasted."""
        p = self.home.run("acl", role, *options)
        exits(p, 0)
        words = p.out.replace("PASSWORD", PASSWORD).split()
        equal(words[:3], ["ACL", "SETUSER", "leat-" + role])
        equal(self.server.call(*words), "+OK")
        return "leat-" + role

    def run(self, user, *words, code=0, stdin=None):
        env = {"LEAT_URL": self.url, "LEAT_USER": user,
               "LEAT_PASSWORD": PASSWORD}
        p = self.home.run(*words, env=env, stdin=stdin)
        exits(p, code)
        return p

    def refusals(self):
        """What the ACL refused, beside questions that need no answer."""
        log = self.server.call("ACL", "LOG", "128")
        found = {(e[e.index(b"reason") + 1], e[e.index(b"object") + 1])
                 for e in log}
        self.server.call("ACL", "LOG", "RESET")
        asked = {b"info", b"config|get", b"role", b"client|kill"}
        return {(why, what) for why, what in found if what not in asked}


class ClusterPlace(Place):
    """A cluster of one node: what clusters alone are asked is asked."""

    def __init__(self):
        self.home = Home()
        self.server = Tcp(cluster=True)
        self.url = f"redis+cluster://127.0.0.1:{self.server.port}"
        equal(self.server.call("CLUSTER", "ADDSLOTS", *range(16384)), "+OK")
        wait_for(lambda: b"cluster_state:ok" in
                 self.server.call("CLUSTER", "INFO"), SECONDS)


class SentinelPlace(Place):
    """A master that a sentinel names; the sentinel itself asks for no user."""

    def __init__(self):
        self.home = Home()
        self.server = Tcp()
        self.watch = Sentinel(self.server)
        self.url = f"redis+sentinel://127.0.0.1:{self.watch.port}/mymaster"
        wait_for(lambda: self.home.run("ping", "-c", "1", "-u", self.url)
                 .returncode == 0, SECONDS)

    def close(self):
        self.watch.close()
        super().close()


# ---- the work of each role ----------------------------------------------

def makes_all(p, user):
    p.run(user, "topic", "create", "t", "--partitions", "2")
    p.run(user, "queue", "create", "q")
    p.run(user, "queue", "create", "f", "--fifo", "--dead", "q")


def produces(p, user):
    p.run(user, "topic", "send", "t", stdin=b"one\ntwo\nbad\n")
    p.run(user, "topic", "send", "t", "--delay", "50ms", stdin=b"late\n")
    p.run(user, "queue", "send", "q", "hi")
    p.run(user, "queue", "send", "q", "soon", "--delay", "10ms")
    p.run(user, "queue", "send", "q", "once", "--dedup", "d")
    p.run(user, "queue", "send", "q", stdin=b"a\nb\n")
    p.run(user, "queue", "send", "f", "x", "--group", "g")


def consumes(p, user):
    p.run(user, "consume", "t", "-g", "g", "--from", "start", "-n", "4",
          "--max-attempts", "2", "--backoff", "fixed:10ms", "--until-idle",
          "5s", "--", "sh", "-c", "read x; test $x != bad")
    p.run(user, "topic", "tail", "t", "--from", "start", "-n", "1")
    got = p.run(user, "queue", "receive", "q", "-o", "json")
    receipt = json.loads(got.out)[0]["receipt"]
    p.run(user, "queue", "change", "q", receipt, "60")
    p.run(user, "queue", "ack", "q", receipt)
    got = p.run(user, "queue", "receive", "q", "-o", "json")
    p.run(user, "queue", "reject", "q", json.loads(got.out)[0]["receipt"])
    p.run(user, "queue", "receive", "f", "--ack")
    p.run(user, "queue", "pool", "--until-idle", "200ms", "--exec", "true")
    p.run(user, "queue", "redrive", "q")


def looks(p, user):
    p.run(user, "status")
    p.run(user, "ping", "-c", "1")
    for words in ("topic ls", "topic info t", "group ls t", "group info t g",
                  "group lag t g", "group members t g", "group pending t g",
                  "dlq ls t", "dlq errors t", "queue ls", "queue stats q",
                  "queue peek q"):
        p.run(user, *words.split())


def operates(p, user):
    p.run(user, "group", "pause", "t", "g")
    p.run(user, "group", "resume", "t", "g")
    p.run(user, "group", "seek", "t", "g", "--to", "start", "-y")
    p.run(user, "group", "alter", "t", "g", "--lease", "20s")
    p.run(user, "topic", "alter", "t", "--max-age", "1d")
    p.run(user, "topic", "trim", "t")
    rows = json.loads(p.run(user, "dlq", "ls", "t", "-o", "json").out)
    p.run(user, "dlq", "show", "t", rows[0]["id"])
    p.run(user, "dlq", "replay", "t", rows[0]["id"], "-y")
    p.run(user, "queue", "alter", "q", "--visibility", "10s")
    p.run(user, "queue", "expire", "q")
    p.run(user, "queue", "purge", "q", "-y")
    p.run(user, "queue", "rm", "q", "-y")
    p.run(user, "group", "rm", "t", "g", "-y")
    p.run(user, "topic", "rm", "t", "-y")


# ---- tests --------------------------------------------------------------

def a_user_without_dangerous_commands_does_everything(p):
    p.add_user("low", *LOW)
    for work in (makes_all, produces, consumes, looks, operates):
        work(p, "low")
    # The bare name of a topic that is not there yet, which may be a stream.
    equal({what for what in p.refusals() if what[1] != b"t"}, set())


def each_role_does_its_work(p):
    operator = p.add_role("operator")
    producer, consumer = p.add_role("producer"), p.add_role("consumer")
    makes_all(p, operator)
    p.refusals()
    produces(p, producer)
    consumes(p, consumer)
    looks(p, operator)
    operates(p, operator)
    equal({what for what in p.refusals() if what[1] != b"t"}, set())


def elsewhere(place):
    try:
        each_role_does_its_work(place)
    finally:
        place.close()


def each_role_does_its_work_on_a_cluster(p):
    elsewhere(ClusterPlace())


def each_role_does_its_work_behind_sentinels(p):
    elsewhere(SentinelPlace())


def a_role_may_be_bound_to_names(p):
    operator = p.add_role("operator")
    makes_all(p, operator)
    p.run(operator, "topic", "create", "other")
    p.run(operator, "queue", "create", "other")
    names = ("--topic", "t", "--queue", "q", "--queue", "f")
    producer = p.add_role("producer", *names)
    consumer = p.add_role("consumer", *names)
    p.refusals()
    produces(p, producer)
    p.run(consumer, "consume", "t", "-g", "g", "--from", "start", "-n", "1")
    p.run(consumer, "queue", "receive", "q", "--ack")
    equal(p.refusals(), set())
    for user in (producer, consumer):
        p.run(user, "topic", "send", "other", stdin=b"m\n", code=77)
        p.run(user, "queue", "send", "other", "m", code=77)
    p.run(consumer, "consume", "other", "-g", "g", "-n", "1", code=77)


def a_plain_stream_is_allowed_by_name(p):
    p.server.call("XADD", "plain", "*", "a", "b")
    names = ("--stream", "plain")
    for role in ("producer", "consumer", "operator"):
        p.add_role(role, *names)
    p.run("leat-producer", "topic", "send", "plain", stdin=b"m\n")
    p.run("leat-consumer", "consume", "plain", "-g", "g", "--from", "start",
          "-n", "1", "--until-idle", "5s")
    p.run("leat-operator", "topic", "info", "plain")
    p.run("leat-operator", "group", "info", "plain", "g")
    p.run("leat-producer", "stream", "add", "plain", "m")
    p.run("leat-consumer", "stream", "consume", "plain", "-g", "own",
          "--codec", "fields", "-n", "1")
    for words in (["ls"], ["groups", "plain"], ["tail", "plain"],
                  ["rm", "plain", "--yes"]):
        p.run("leat-operator", "stream", *words)
    equal(p.refusals(), set())
    p.server.call("XADD", "foreign", "*", "a", "b")
    p.run("leat-operator", "stream", "ls")
    p.run("leat-operator", "stream", "rm", "foreign", "--yes", code=77)


def limits_and_large_bodies_need_no_more(p):
    operator = p.add_role("operator")
    producer, consumer = p.add_role("producer"), p.add_role("consumer")
    p.run(operator, "topic", "create", "cap", "--cap", "100",
          "--large-body", "1024")
    p.run(operator, "topic", "create", "lossy", "--lossy-maxlen", "10")
    p.refusals()
    for name in ("cap", "lossy"):
        p.run(producer, "topic", "send", name, stdin=b"x" * 3000 + b"\ny\n")
        p.run(consumer, "consume", name, "-g", "g", "--from", "start", "-n",
              "2")
    p.run(consumer, "topic", "trim", "cap", "--max-entries", "1",
          "-y")
    equal(p.refusals(), set())


def each_role_is_refused_what_is_not_its_own(p):
    server = p.server
    for role in ("producer", "consumer", "operator"):
        user = p.add_role(role)
        for words in ("FLUSHALL", "KEYS *", "CONFIG SET maxmemory 1", "DEBUG X",
                      "SHUTDOWN", "ACL LIST", "GET other", "SET leatx 1",
                      "SCRIPT FLUSH", "MONITOR", "PUBLISH other x",
                      "XADD orders * a b", "SAVE", "REPLICAOF a 1"):
            got = server.call("ACL", "DRYRUN", user, *words.split())
            assert b"permission" in got or b"NOPERM" in got, (role, words, got)
    # A producer does not touch what groups have read, nor dead letters.
    for key in ("leat:{t/0}:cur:g", "leat:{t/0}:lease:g", "leat:{t/0}:dlq",
                "leat:{t}:members:g"):
        got = server.call("ACL", "DRYRUN", "leat-producer", "DEL", key)
        assert b"permission" in got, (key, got)


def a_missing_right_is_named_with_what_to_add(p):
    p.add_user("nocmd", *LOW, "-xadd")
    p.add_user("nokey", "~leat:topics", "+@all")
    p.add_user("noeval", "~*", "&*", "+@all", "-eval", "-evalsha")
    p.add_user("low", *LOW)
    p.run("low", "topic", "create", "t")
    p.run("low", "queue", "create", "q")

    def told(user, words, *texts, stdin=None):
        got = p.run(user, *words.split(), stdin=stdin, code=77)
        for text in texts:
            assert text in got.err, (user, words, got.err)
        assert "LEAT_PASSWORD" not in got.err, got.err
        assert "leat acl" in got.err, got.err
    told("nokey", "topic info t", "leat:topic:t", "~leat:*")
    told("noeval", "topic create u", "+eval")
    told("noeval", "queue create u", "+eval")
    told("nocmd", "topic send t", "allow ", stdin=b"m\n")
    told("low", "queue create q -N other", "other:", "~leat:*")
    # And what is a matter of passwords still is.
    got = p.home.run("ping", "-u", p.server.url, "--user", "low",
                     env={"LEAT_PASSWORD": "wrong"})
    exits(got, 77)
    assert "LEAT_PASSWORD" in got.err, got.err


def what_may_not_be_seen_is_unknown(p):
    p.add_user("low", *LOW)
    got = json.loads(p.run("low", "status", "-o", "json").out)
    for name in ("version", "role", "replicas", "aof", "maxmemory_policy",
                 "used_memory", "maxmemory", "appendfsync"):
        equal((name, got[name]), (name, None))
    assert not any("replica" in n for n in got["nodes"]), got["nodes"]
    assert any("INFO is refused" in w for w in got["warnings"]), got


def what_is_printed_fits_a_file_and_other_servers(p):
    lines = p.home.run("acl", "--aclfile").out.splitlines()
    equal([x.split()[:2] for x in lines],
          [["user", "leat-" + r] for r in ("producer", "consumer", "operator")])
    text = p.home.run("acl", "consumer", "--prefix", "shop", "--no-channels",
                      "--topic", "a", "--topic", "b*").out
    assert "~shop:{a}:*" in text and "~shop:{b*/*}:*" in text, text
    assert "&" not in text and "channels" not in text, text
    rows = json.loads(p.home.run("acl", "-o", "json").out)
    equal([r["role"] for r in rows], ["producer", "consumer", "operator"])
    for bad in (["boss"], ["producer", "--topic", "a b"],
                ["--prefix", "a:b"], ["--prefix", "*"], ["--queue", "~*"]):
        exits(p.home.run("acl", *bad), 64)


def the_document_shows_what_is_printed(p):
    page = pathlib.Path(__file__).parents[2] / "docs/security.md"
    # Wrapped there, and the rule of all commands told once.
    shown = " ".join(page.read_text().split())
    for line in p.home.run("acl").out.splitlines():
        keys, commands = line.split(" -@all ")
        assert keys in shown, keys
        assert "-@all " + commands in shown, commands


if __name__ == "__main__":
    sys.exit(run(__name__, ("p",), Place))
