"""queue_run.py: producers and consumers of some queues, and what is done to them.

Two producers send numbered messages of 32 keys to some queues, each of another
shard or, by the seed, all of one; one message in a hundred is large.  Three to eight consumers, each of its own kind (one call at a time, in
batches, by a runner, by a pool), have them for a second at a time and write down what they
do.  A run adds the servers and the harm done to those: harm.py.

With fates some messages fail for a time or for ever, some are rejected, some kill
the process that handles them.  In the end the dead letters are exactly those of
them that must be, each once; then they are redriven, by one who is killed midway
and by two at once, to handlers that succeed, and each has its effect once.
"""

import contextlib
import signal
import time

from chaos import judge, say, wait_for
from harm import ManyServers, OneServer
from operator_cards import Operator
from queues import (SHARDS, Audit, QueueWorker, Receipts, State, burials,
                    key_of, shard_key)
from topic_policies import Fates
from topic_run import KEYS, SAFE, Run
from topics import ATTEMPT, DELIVERY, EFFECT, GONE, Ledgers
from topologies import TOPOLOGIES
from wire import Refused

QUEUES = 4          # of as many shards
CROWD = 12          # of one
LARGE = 100         # one message of so many has a large body
RATE = 200          # messages a second, of each producer
RECORDS = 120000    # messages that a producer sends at most, about
LONG = 120          # seconds for what must happen
KINDS = ({"api": "direct"}, {"api": "run"}, {"api": "direct", "ack": "batch"},
         {"api": "direct", "hold": 1}, {"api": "pool"})
FAULTS = ("lost", "stuck", "repeated", "unexpected", "dishonest",
          "handed_twice", "risen", "torn", "unsettled")
WRITES = ("sent_twice", "usurped", "acked_twice", "crowded", "shared")
GONE_ALREADY = (1,)     # how a command ends that is asked for again
BURIALS = ("undead", "innocent", "buried_twice", "unredriven",
           "redriven_twice")


def at(number):
    """Its key and its place in that."""
    return number >> 32, number & 0xffffffff


class Poison:
    """Messages that fail.  What Run asks of policies."""

    def __init__(self, seed, short):
        # Kills, stops and clocks count as receives of who is innocent, too,
        # so a queue allows more than the flaky need.  Who dies takes with him
        # what he has besides, so where some kill each consumer has one at a
        # time; and each costs so many visibilities.
        self.kills = not short
        self.receives = (6 if self.kills else 10) + seed % 3
        self.fates = Fates(poison=20, flaky=30, reject=10,
                           crash=2 if self.kills else 0, most=4)
        self.rate = 50 if self.kills else RATE
        self.crashes = 0
        self.buried = []

    def options(self):
        mine = {k: v for k, v in self.fates.options.items() if v}
        if self.kills:
            mine.update(batch=1, threads=1, in_flight=1)
        return mine

    def begin(self, run):
        pass

    def revive(self, run, w):
        """Who died of what he handled comes back.  False: he did not."""
        if w not in run.consumers or w.process.poll() != -signal.SIGKILL:
            return False
        self.crashes += 1
        run.died(w)
        run.forget(w)
        run.consumers.append(run.consumer(w.name))
        return True

    def drained(self, run):
        return True

    def progress(self, run):
        return run.ledgers.read().counts[:], self.crashes

    def complain(self, run):
        pass

    def read_letters(self, run):
        self.buried = [n for s in run.states() for n in s.buried()]

    def redrive(self, run, verdict):
        """In the end: all of them, to handlers that succeed; the ledgers are others."""
        run.step("redriving")
        run.ledgers = Ledgers(run.rig.dir / "redriven")
        run.dir = run.ledgers.directory
        run.dir.mkdir()
        members = [run.consumer(hide=600000), run.consumer(hide=600000)]
        rate = max(len(self.buried) // len(run.names), 1)
        for name in run.names:
            self.redrive_one(run, name, rate)
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not any(s.bodies for s in run.states()), LONG,
                     "all are redriven")
        for w in members:
            w.terminate()
        run.through(members, "who saw the redriven")
        seen = [r.id for r in run.ledgers.read().of(EFFECT)]
        again = [r for r in run.ledgers.of(DELIVERY) if r.detail & 0xffff != 1]
        for r in again:
            say(f"redriven once more: {r.key}/{r.seq}, receive "
                f"{r.detail & 0xffff}, by {r.who}")
        verdict.update(
            redriven=len(set(seen)),
            unredriven=len(set(self.buried) ^ set(seen)),
            redriven_twice=len(seen) - len(set(seen)) + len(again))

    @staticmethod
    def redrive_one(run, queue, rate):
        def start(role, rate):
            return run.worker("redrive", run.consumer_url, role, queue=queue,
                              queues=1, names=None, rate=rate)
        killed = start("killed", rate)
        time.sleep(0.15)
        killed.kill()
        run.through([start("r1", 200), start("r2", 200)], "redrive")


def names_of(seed):
    """Of the queues."""
    if seed % 2:
        return [f"orders-{i}" for i in range(QUEUES)]
    all_of = (f"orders-{i}" for i in range(100 * SHARDS))
    shard = shard_key("orders-0", "")
    return [n for n in all_of if shard_key(n, "") == shard][:CROWD]


class QueueRun(Operator, Run):
    rate = RATE
    fifo = False

    def __init__(self, rig, o):
        self.fifo = o.fifo
        self.names = names_of(o.seed)
        self.purged = set()     # may be gone
        self.policies = Poison(o.seed, o.seconds < 10) if o.poison else None
        self.rate = int(max(min(RATE, RECORDS / o.seconds), 20))
        super().__init__(rig)
        self.ledgers.keep = True

    def worker(self, verb, url, role, **more):
        most = self.policies.receives if self.policies else None
        return QueueWorker(self.rig, verb, url, self.dir, role,
                           **{"queues": len(self.names),
                              "names": ",".join(self.names), "again": 1,
                              "fifo": int(self.fifo),
                              "visibility": int(self.lease * 1000),
                              "receives": most,
                              "durability": self.durability,
                              "replicas": self.replicas, **more})

    def refused(self, w):
        return False

    def producer(self, n):
        return self.worker("produce", self.producer_url, f"producer{n}",
                           key=1 + n * KEYS, keys=KEYS, rate=self.rate,
                           batch=(1, 4)[n], given=n, large=LARGE)

    def consumer(self, name=None, **more):
        self.born += 1
        if self.policies:
            more = {**self.policies.options(), **more}
        kind = KINDS[self.born % len(KINDS)]
        w = self.worker("consume", self.consumer_url, f"c{self.born}",
                        **{"work": self.born % 3, "wait": 300, **kind,
                           **more})
        w.name = name
        return w

    def steal_reaper(self, _seconds, r):
        """The lease of who gives back what expires is nobody's, or for ever
        somebody's who is not there; the next look at the queue helps."""
        key = shard_key(r.choice(self.names), "reaper")
        with contextlib.suppress(OSError, Refused):
            self.ask(key, "DEL", key)

    def alter_queue(self, seconds, r):
        """Settings change, and what is there keeps its own."""
        name = r.choice(self.names)
        self.operate(r, "queue", "alter", name, "--ttl", "12h")
        self.rest(seconds)
        self.insist(r, "queue", "alter", name, "--ttl", "0",
                    done=GONE_ALREADY)

    def taken(self, name, since):
        """Of this queue, what may have gone since then: what was tried by now,
        had no effect before and is not there."""
        at_last = time.monotonic_ns()
        number = self.names.index(name)
        there = set(State(self.ask, name, self.fifo).bodies.values())
        tried = {x.id for x in self.ledgers.read().records
                 if x.kind == ATTEMPT and x.ns < at_last and
                 x.key % len(self.names) == number}
        early = {x.id for x in self.ledgers.records
                 if x.kind == EFFECT and x.ns < since}
        gone = tried - early - there - self.purged
        for x in gone:
            self.notes.of(GONE, x)
        self.purged |= gone

    def purge_queue(self, _seconds, r):
        """Dead letters stay."""
        name, since = r.choice(self.names), time.monotonic_ns()
        self.operate(r, "queue", "purge", name)
        self.taken(name, since)

    def remove_queue(self, seconds, r):
        """And made again by whoever comes first, while all go on."""
        name, since = r.choice(self.names), time.monotonic_ns()
        key = key_of(name, "conf")
        self.insist(r, "queue", "rm", name, done=GONE_ALREADY)
        self.taken(name, since)
        self.rest(seconds)
        while self.ask(key, "HMGET", key, "created", "gone")[0] is None:
            self.operate(r, "queue", "create", name, *self.settings_of_queue())
        self.rest(seconds)

    def settings_of_queue(self):
        """As the workers have them."""
        most = ("--max-receives", str(self.policies.receives)) \
            if self.policies else ()
        return ("--visibility", f"{int(self.lease * 1000)}ms", *most,
                *(("--fifo",) if self.fifo else ()))

    def redrive_queue(self, _seconds, r):
        """What must die does so again."""
        self.operate(r, "queue", "redrive", r.choice(self.names))

    def states(self):
        return [State(self.ask, name, self.fifo) for name in self.names]

    def drained(self):
        """Who was buried without fault is not waited for; the verdict tells."""
        states = self.states()
        buried = {n for s in states for n in s.buried()} | self.purged
        self.ledgers.read()
        gone = sum(self.ledgers.was_acked(*at(n)) and
                   not self.ledgers.had_effect(*at(n)) and
                   not self.ledgers.doomed(n) for n in buried)
        return self.ledgers.missing == gone and all(s.idle() for s in states)

    def drain(self, what):
        super().drain(what)
        if self.drained():
            return
        for name, s in zip(self.names, self.states()):
            if not s.idle():
                self.stuck += 1
                say(f"{what}: {name} has {len(s.ready)} ready, "
                    f"{len(s.flying)} in flight, {len(s.delayed)} delayed, "
                    f"{s.busy} groups busy")

    def last_round(self):
        """Nothing of what was is unsettled: a new consumer gets new messages
        only.  How many it got besides."""
        since = time.monotonic_ns()
        if self.policies:
            self.policies.fates.over()
            self.policies.fates.options = {}
        w = self.consumer("")
        p = self.worker("produce", self.producer_url, "last", key=SAFE,
                        keys=64, count=256, batch=4)
        self.through([p], "producer")
        self.drain("the last round")
        w.terminate()
        self.through([w], "consumer")
        return sum(r.ns > since and r.key < SAFE
                   for r in self.ledgers.read().of(DELIVERY))

    def judge(self, seed):
        states = self.states()
        buried = [n for s in states for n in s.buried()]
        handed = {r.id for r in self.ledgers.read().of(DELIVERY)}
        for number in set(buried) & handed:     # they need no effect
            self.notes.of(GONE, number)
        verdict = judge(self.rig, self.dir, seed, self.stuck, "--unordered",
                        "--expiring")
        verdict.update(Receipts(self.ledgers.read(), buried).verdict())
        verdict["torn"] = sum(s.torn() for s in states)
        if self.policies:
            verdict.update(burials(self.ledgers, self.policies.fates, buried,
                                   self.purged))
            verdict["crashes"] = self.policies.crashes
        return verdict

    def faults(self):
        return FAULTS + (("reordered",) if self.fifo else ()) + \
            (BURIALS if self.policies else ())


class QueueOnOne(OneServer, QueueRun):
    commands = ("EVALSHA", "EVALSHA", "SUBSCRIBE")

    def __init__(self, rig, o):
        self.start_server(rig)
        super().__init__(rig, o)

    def jumps(self):
        """What a server remembers of calls is forgotten after an hour."""
        return 120, -3600, 3000

    def judge(self, seed):
        verdict = super().judge(seed)
        verdict.update(Audit(self.redis.history(), self.fifo).verdict())
        return verdict

    def faults(self):
        return super().faults() + WRITES


class QueueOnMany(ManyServers, QueueRun):
    """Class 3: what is acknowledged is on a replica, too, and stays."""

    commands = ("EVALSHA",)
    lease = 2.0
    durability = 3

    def __init__(self, rig, o):
        self.place = TOPOLOGIES[o.topology](rig, self.durability)
        self.producer_url = self.consumer_url = self.place.url
        self.replicas = self.place.replicas
        self.resumed = []       # seconds until messages flowed after harm
        super().__init__(rig, o)

    @contextlib.contextmanager
    def struck(self, r=None):
        """Harm to servers: what it leaves is mended, and messages flow."""
        begin = time.monotonic()
        self.cut_off()
        yield r
        self.place.heal()
        self.flows(120)
        self.back()
        self.resumed.append(time.monotonic() - begin)

    def hot_keys(self):
        return [key_of(name, "body") for name in self.names]

    def judge(self, seed):
        verdict = super().judge(seed)
        verdict["moves"] = self.rig.moves
        verdict["slowest"] = round(max(self.resumed, default=0), 1)
        return verdict
