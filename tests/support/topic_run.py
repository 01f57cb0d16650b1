"""topic_run.py: producers and consumers of one topic, and what is done to them.

Two producers publish numbered messages of 32 keys to a topic of eight
partitions; three to eight consumers of one group, with leases of a second,
write down what they do.  A run adds the servers and the harm done to those:
chaos/topic.py on one server, topic_many.py on sentinels and clusters.

At the end all is healed: the producers end, what they were promised is waited
for, the consumers end, and a last one, alone, shows that nothing is unsettled.
"""

import random
import signal
import time
from collections import Counter

from chaos import judge, say, wait_for
from topics import ACK, EFFECT, GONE, LATE, Ledgers, Notes, Worker

PRODUCERS = 2
KEYS = 16           # of each producer
PARTITIONS = 8
LEAST, MOST = 3, 8  # consumers
IN_FLIGHT = 64
THREADS = 2
LEASE = 1.0
GRACE = 0.5         # of a lease, until all have found the server again
RATE = 400          # messages a second, of each producer
DRAIN_SECONDS = 120
DRAINS = 10         # so often
SAFE = 1000         # the keys of the last round
LARGE = 100         # one message of so many is kept beside the log
WRONG = ("admitted", "unheld", "forsaken", "outlived")  # operator_cards.py
REFUSED = 4         # how a consumer ends that asks for other settings
GROUP = "billing"


def number_in(fields):
    """Of an entry, as text: its body begins with it; one whose body is beside
    the log has it as its id, the first attribute (codec_native.c)."""
    pairs = dict(zip(fields[::2], fields[1::2]))
    if b"b" in pairs:
        return pairs[b"b"].decode()
    packed = pairs[b"a"]
    return packed[8:8 + packed[7]].decode()


class Run:
    """A topic under fire.  The servers are the subclass's: urls before this is
    made; ask(key, *words) and doors(), the ways to them."""

    producer_url = consumer_url = None
    durability = replicas = 0
    republish = 0
    lease = LEASE
    rate = RATE
    policies = None     # topic_policies.py
    started = 0.0

    def __init__(self, rig):
        self.rig = rig
        self.dir = rig.dir / "ledgers"
        self.dir.mkdir()
        self.ledgers = Ledgers(self.dir, keep=False)
        if self.policies:
            self.rate = min(self.rate, self.policies.rate)
            self.ledgers.doomed = self.policies.fates.doomed
        self.notes = Notes(self.dir)
        self.own = Notes(self.dir, "own")   # what is true of this group only
        self.seen = {}      # partition: what was in its log before a trim
        self.sought = []    # partition, from where to where a seek went back
        self.agains = Counter()     # number: how often a seek brought it back
        self.wrong = Counter()      # what went wrong, beside the ledgers
        self.passed = 0     # groups and topics that came and went
        order = getattr(self.policies, "order", "partition")
        self.settings = {"lease": int(self.lease * 1000), "order": order}
        self.since = None   # the server has been out of reach
        self.standing = {}  # consumer: since when it stands
        self.killed = set()  # ledgers of consumers that we killed
        self.stuck = 0
        self.born = 0
        self.resume = []    # (when, consumer)
        self.leaving = []
        self.producers = [self.producer(n) for n in range(PRODUCERS)]
        self.consumers = [self.consumer() for _ in range(LEAST + 1)]
        if self.policies:
            self.policies.begin(self)

    def worker(self, verb, url, role, **more):
        return Worker(self.rig, verb, url, self.dir, role,
                      partitions=PARTITIONS, durability=self.durability,
                      replicas=self.replicas, **more)

    def producer(self, n):
        return self.worker("produce", self.producer_url, f"producer{n}",
                           key=1 + n * KEYS, keys=KEYS, rate=self.rate,
                           republish=self.republish,
                           large=0 if self.policies else LARGE)

    def consumer(self, name=None, **more):
        self.born += 1
        if name is None:
            name = f"c{self.born}" if self.born % 2 else ""
        if self.policies:   # who dies often must be missed seldom
            name = name or (f"c{self.born}" if self.born % 4 else "")
            more = {**self.policies.options(), **more}
        else:               # killed from outside: no message is to blame
            more = {"max": 1000, **more}
        w = self.worker("consume", self.consumer_url, f"c{self.born}",
                        name=name, in_flight=IN_FLIGHT, threads=THREADS,
                        work=self.born % 3, **{**self.settings, **more})
        w.name = name
        return w

    def refused(self, w):
        """Who was early or late with what the group has now comes again.
        False: it did not end by that."""
        if w not in self.consumers or w.process.poll() != REFUSED:
            return False
        self.forget(w)
        self.consumers.append(self.consumer(w.name))
        return True

    def tick(self):
        """Who stood long enough goes on; nobody may end by himself."""
        now = time.monotonic()
        for when, w in [x for x in self.resume if x[0] <= now]:
            self.resume.remove((when, w))
            self.wake(w)
        for w in self.consumers + self.producers:
            if not w.alive() and not self.refused(w) and not (
                    self.policies and self.policies.revive(self, w)):
                raise RuntimeError(f"{w.role} ended with "
                                   f"{w.process.returncode}")

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.tick()
            time.sleep(min(left, 0.02))

    def wait(self, look, seconds, what):
        """As wait_for; who stands goes on meanwhile."""
        def turn():
            self.tick()
            return look()
        wait_for(turn, seconds, what)

    def works(self, seconds=60):
        self.wait(lambda: self.ledgers.read().counts[ACK] > 0, seconds,
                  "it works")

    def flows(self, seconds=60, acks=20, effects=20):
        """Further messages are acknowledged and have their effects."""
        counts = self.ledgers.read().counts
        want = counts[ACK] + acks, counts[EFFECT] + effects

        def look():
            now = self.ledgers.read().counts
            return now[ACK] >= want[0] and now[EFFECT] >= want[1]
        self.wait(look, seconds, "messages flow")

    def cut_off(self):
        """All lose the server for a while, until back()."""
        self.since = self.since or time.monotonic()

    def back(self):
        """The server is there again, and all find it within the grace."""
        if self.since:
            self.notes.strike(0, self.since,
                              time.monotonic() + self.lease * GRACE)
        self.since = None

    def do(self, fault, seconds, r):
        """One card of a deck."""
        self.step(fault.__name__)
        fault(self, seconds, r)
        self.back()

    # What is done to the processes.  Each fault: nominal seconds and the
    # numbers it needs, from the schedule.

    def forget(self, w):
        self.consumers.remove(w)
        self.resume = [x for x in self.resume if x[1] is not w]
        self.wake(w)

    def wake(self, w):
        """Who stood goes on; what it had in flight meanwhile was struck."""
        since = self.standing.pop(w, None)
        if since:
            self.notes.strike(w.pid, since, time.monotonic())
        if w.alive():
            w.go_on()

    def died(self, w):
        """Who is dead has in flight for ever what it had."""
        self.standing.pop(w, None)
        self.notes.strike(w.pid, time.monotonic(), 0)

    def kill_consumer(self, seconds, r, same=True):
        w = r.choice(self.consumers)
        self.killed.add(f"{w.role}.{w.pid}")
        w.kill()
        self.died(w)
        self.forget(w)
        if not same:
            self.rest(seconds)
        self.consumers.append(self.consumer(w.name if same else None))

    def kill_consumer_for_ever(self, seconds, r):
        self.kill_consumer(seconds, r, same=False)

    def kill_half(self, seconds, r):
        for _ in range(len(self.consumers) // 2):
            self.kill_consumer(seconds / 4, r, r.random() < 0.5)

    def pause_consumer(self, seconds, r):
        """Shorter than the lease."""
        self.stand(r.choice(self.consumers), seconds)

    def pause_consumer_long(self, seconds, r):
        """Longer; the others go on, and so do the faults."""
        self.stand(r.choice(self.consumers), self.lease + 4 * seconds)

    def stand(self, w, seconds):
        self.standing.setdefault(w, time.monotonic())
        w.stop()
        self.rig.counts["pauses"] += 1
        self.resume.append((time.monotonic() + seconds, w))

    def kill_producer(self, _seconds, r):
        n = r.randrange(PRODUCERS)
        self.producers[n].kill()
        self.producers[n] = self.producer(n)

    def come_and_go(self, seconds, r):
        """Every 200 ms somebody joins or leaves in order."""
        for _ in range(3 + int(seconds * 10)):
            many = len(self.consumers)
            if many > LEAST and (many == MOST or r.random() < 0.5):
                w = r.choice(self.consumers)
                self.forget(w)
                w.terminate()
                self.leaving.append(w)
            else:
                self.consumers.append(self.consumer())
            self.rest(0.2)

    # The end.

    def heal_servers(self):
        raise NotImplementedError

    def heal(self):
        self.cut_off()
        self.heal_servers()
        for _, w in self.resume:
            self.wake(w)
        self.resume = []
        self.back()

    def through(self, workers, what):
        """All of these end in order."""
        end = time.monotonic() + DRAIN_SECONDS
        for w in workers:
            code = w.ended(max(end - time.monotonic(), 0.1))
            # The signal itself ends only who had not begun yet.
            if code not in (0, -signal.SIGTERM) and not (
                    self.policies and code == -signal.SIGKILL):
                say(f"{what} {w.role} ended with {code}")
                self.stuck += 1

    def drained(self):
        return self.ledgers.read().missing == 0

    def drain(self, what):
        """Who dies of what he handles may take long; as long as something
        happens it is waited for."""
        seen = None

        def look():
            for w in list(self.consumers):
                if not self.refused(w) and self.policies:
                    self.policies.revive(self, w)
            return self.drained() and \
                (not self.policies or self.policies.drained(self))
        for _ in range(DRAINS):
            try:
                wait_for(look, DRAIN_SECONDS, "drained")
                return
            except TimeoutError:
                if not self.policies or \
                        seen == (seen := self.policies.progress(self)):
                    break
        say(f"{what}: {self.ledgers.missing} acknowledged messages "
            f"without an effect")
        if self.policies:
            self.policies.complain(self)

    def last_round(self):
        """Nothing of what was is unsettled: a new member is alone and gets
        new messages only.  How many it got besides."""
        before = self.ledgers.read().twice
        if self.policies:
            self.policies.fates.over()
        w = self.consumer("")
        p = self.worker("produce", self.producer_url, "last", key=SAFE,
                        keys=64, count=256)
        self.through([p], "producer")
        self.drain("the last round")
        w.terminate()
        self.through([w], "consumer")
        return self.ledgers.read().twice - before

    def written(self, partition):
        """Position and number of all that is in its log, in order."""
        key = f"leat:{{orders/{partition}}}:log"
        for at, fields in self.ask(key, "XRANGE", key, "-", "+"):
            ms, seq = at.split(b"-")
            yield (int(ms), int(seq)), number_in(fields)

    def ever_written(self, partition):
        """The same, with what was taken from it: operator_cards.py."""
        return self.written(partition)

    def doors(self):
        """The proxies that consumers and the operator come by."""
        raise NotImplementedError

    def ask(self, key, *words):
        """A command, to the server that has this key."""
        raise NotImplementedError

    @staticmethod
    def late(logs):
        """Those that stand behind a later one of their key."""
        for log in logs:
            last = {}
            for number in log:
                key, seq = number >> 32, number & 0xffffffff
                if seq < last.get(key, 0):
                    yield key, seq
                last[key] = max(seq, last.get(key, 0))

    def judge(self, seed, *flags):
        """What the producers left in the logs, in its order, is told to the
        judge: who stands behind a later one of its key is late, and comes so."""
        logs = [[int(text) for _, text in self.ever_written(i)]
                for i in range(PARTITIONS)]
        late = list(self.late(logs))
        for key, seq in late:
            self.notes.of(LATE, key << 32 | seq)
        for number in self.policies.dead if self.policies else ():
            self.own.of(GONE, number)   # it has no effect, and need not
        for number in self.policies.replayed() if self.policies else ():
            self.own.of(LATE, number)
        verdict = judge(self.rig, self.dir, seed, self.stuck, *flags)
        verdict["late"] = len(late)
        verdict["misplaced"] = sum(
            self.ledgers.was_acked(*x) for x in late
            if not self.policies or self.policies.in_order(x[0]))
        verdict["written_twice"] = sum(len(log) - len(set(log))
                                       for log in logs)
        verdict.update({k: self.wrong[k] for k in WRONG})
        return verdict

    def producers_ended(self):
        """Nothing is published any more but for the last round."""

    def step(self, what):
        say(f"{time.monotonic() - self.started:7.2f}  {what}")

    def end(self):
        """Returns what last_round does."""
        self.heal()
        self.step("healed")
        for w in self.producers:
            w.terminate()
        self.through(self.producers, "producer")
        self.step("the producers have ended")
        self.producers_ended()
        self.drain("the run")
        self.step("drained")
        if self.policies:
            self.policies.read_letters(self)
        for w in self.consumers:
            w.terminate()
        self.through(self.consumers + self.leaving, "consumer")
        self.step("the consumers have ended")
        again = self.last_round()
        self.step("all have ended")
        return again


def deals(seed, *decks):
    """Faults for ever, with their seconds and numbers: each of a deck once
    before any of it comes again, one deck after the other."""
    r = random.Random(seed)
    left = [[] for _ in decks]
    while True:
        for i, deck in enumerate(decks):
            if not left[i]:
                left[i] = list(deck)
                r.shuffle(left[i])
            yield (r.uniform(0.02, 0.2), left[i].pop(), r.uniform(0.05, 0.4),
                   random.Random(r.getrandbits(64)))
