"""Queues that are shared with redowl, by the command, beside a program that does
its steps command by command.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_redowl.py PATH_TO_LEAT [PATTERN]

LEAT_REDOWL_SECONDS: for how long consumers are killed; 5.  A run of minutes says
what became of all messages on its last line but one.
"""

import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "support"))

from cli_bench import main
from cli_help import SECONDS, equal, wait_for
from cli_queue import Queues, refused
from redowl_peer import Peer

OWL = ["--profile", "redowl"]
KILL_S = float(os.environ.get("LEAT_REDOWL_SECONDS", "5"))
LOT = 10  # messages that a producer sends at a time


def a_pool_works_on_queues_of_redowl(b):
    other = Peer(b.server.socket)
    rooms = [f"room{i}" for i in range(5)]
    for r in rooms:
        for n in range(3):
            other.send(r, str(n))
    program = b.script('read x; echo $x >>$T/$LEAT_QUEUE')
    p = b.ok("pool", *OWL, "--until-idle", "2s", "-o", "json", "--exec",
             program)
    equal(json.loads(p.out), {"handled": 15, "acked": 15, "given_back": 0,
                              "rejected": 0})
    for r in rooms:
        equal(b.lines(r), list("012"))
    other.set_prefix("my:app")
    other.send("bad", "x")
    b.ok("pool", "my:app", *OWL, "-n", "3", "-q", "-r", "2", "--retry-delay",
         "10ms", "--until-idle", "2s", "--exec", "false")
    equal(b.call("LLEN", "my:app:bad:dlq"), 1)
    refused(b.q("pool", "-r", "2", "--exec", "cat"), 64, "kept with the queue")


def queues_of_redowl_are_listed(b):
    other = Peer(b.server.socket)
    other.send("b:c", "x")
    other.send("a", "x")
    other.receive("a", 60000, 0, 0)
    found = b.json("queue", "ls", *OWL)
    equal([(x["name"], x["visible"], x["in_flight"]) for x in found],
          [("a", 0, 1), ("b:c", 1, 0)])
    equal([x["name"] for x in b.json("queue", "ls")], ["jobs"])


def times_of_redowl_may_be_long(b):
    b.put("x", queue="moves", options=OWL)
    receipt = b.take(1, *OWL, "--visibility", "30d", queue="moves")[0]
    b.ok("change", "moves", *OWL, receipt["receipt"], "13h", "-q")
    refused(b.q("change", "jobs", "v/jobs/1/1/x/y", "13h"), 64, "12 hours")
    refused(b.q("receive", "jobs", "--visibility", "13h"), 64, "12 hours")


# ---- both at one queue, and kills -----------------------------------------

class Mixed:
    """Producers and consumers of both kinds at one queue."""

    def __init__(self, bench):
        self.b = bench
        self.stop = False
        self.quiet = False
        self.sent, self.by_other = set(), []
        self.errors = []
        self.kills = 0
        self.threads = [threading.Thread(target=self.guard, args=(f,))
                        for f in (self.produce, self.other_produces,
                                  self.other_consumes)]
        self.program = bench.script('printf "%s\\n" "$(cat)" >>$T/log')

    def guard(self, function):
        try:
            function()
        except Exception as e:  # told by the check
            self.errors.append(repr(e))

    def produce(self):
        n = 0
        while not self.quiet:
            lot = [f"leat-{n + i}" for i in range(LOT)]
            self.b.put(*lot, queue="moves", options=OWL)
            self.sent.update(lot)
            n += LOT

    def other_produces(self):
        peer, n = Peer(self.b.server.socket), 0
        while not self.quiet:
            peer.send("moves", f"other-{n}")
            self.sent.add(f"other-{n}")
            n += 1
            time.sleep(0.01)

    def other_consumes(self):
        peer = Peer(self.b.server.socket)
        while not self.stop:
            got = peer.receive("moves", 1000, 0, 0)
            if got == "none":
                time.sleep(0.01)
                continue
            _, receipt, _, body, *_ = got.split(" ")
            self.by_other.append(body)
            peer.ack("moves", receipt)

    def consumer(self, i):
        verb = ["receive", "moves", "--concurrency", "4"] if i else \
            ["pool", "--workers", "4"]
        return self.b.start("queue", *verb, *OWL, "--visibility", "1s", "-q",
                            "--exec", self.program)

    def kill_some(self, seconds):
        """One of three is killed at a time, and another one takes its place."""
        end = time.monotonic() + seconds
        running = [self.consumer(i) for i in range(3)]
        while time.monotonic() < end:
            time.sleep(random.uniform(0.2, 0.6))
            i = random.randrange(3)
            running[i].kill()
            running[i].communicate(timeout=SECONDS)
            running[i] = self.consumer(i)
            self.kills += 1
        return running

    def empty(self):
        return self.b.call("EXISTS", "redowl:moves:ready",
                           "redowl:moves:inflight") == 0

    def handled(self):
        return set(self.by_other) | set(self.b.lines("log"))


def nothing_is_lost_beside_the_other_program_when_consumers_are_killed(b):
    m = Mixed(b)
    for t in m.threads:
        t.start()
    try:
        running = m.kill_some(KILL_S)
        m.quiet = True
        for t in m.threads[:2]:
            t.join(SECONDS)
        wait_for(m.empty, 10 * SECONDS)
    finally:
        m.quiet = m.stop = True
        for t in m.threads:
            t.join(SECONDS)
    for p in running:
        p.terminate()
        p.communicate(timeout=SECONDS)
    ours = b.lines("log")
    print(f"# {m.kills} kills, {len(m.sent)} sent, {len(m.by_other)} handled "
          f"by the other, {len(ours)} by leat, "
          f"{len(m.sent - m.handled())} lost", flush=True)
    equal(m.errors, [])
    assert m.kills > 0 and ours and m.by_other, "one side did nothing"
    equal(sorted(m.sent - m.handled()), [])


if __name__ == "__main__":
    sys.exit(main(__name__, Queues))
