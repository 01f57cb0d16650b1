"""topic.py: does a topic lose, repeat or reorder anything, under fire?

Two producers publish numbered messages of 32 keys to a topic of eight
partitions; three to eight consumers of one group, with leases of a second,
write down what they do.  Meanwhile consumers are killed and come back under the
same name or another, are stopped for less and for more than their lease, join
and leave every 200 ms; producers are killed; the server is killed, stopped,
paused, its clock is moved, its scripts are flushed; connections are cut at any
byte, held, refused and killed.

A command that was on its way when its sender gave up may land behind the
sender's next: its outcome was unknown, and so is its place.  The logs are looked
at for such, which are not the consumers' fault; an acknowledged message among
them would be the producer's, as would be one that was written twice.

At the end all is healed.  What was acknowledged must have had its effect, first
effects of a key in its producer's order, nothing that was not sent, no epoch of
a partition with two owners.  In all that the server ever wrote, no cursor goes
back and every epoch is above the one before.  The effects are kept as a store
would that refuses a lower fence (ledger.h): a consumer that was stopped inside
its handler wakes up and does what it was about to, and nothing but a fence can
tell.

Duplicates come from what was in flight when a fault struck, and are bounded.  A
consumer has at most IN_FLIGHT messages in flight: so many may come again for
each kill, each stop, and each time that one which was alive lost what it had,
which on a machine under load may happen without any fault of ours.  While the
server cannot be reached a runner gives up what it cannot keep, and what its
THREADS are at work on comes again.  Afterwards a new member finds nothing of all
that unsettled.
"""

import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import (FAULTS, Clock, Proxy, Redis, Rig, finish, judge,  # noqa
                   options, say, wait_for)
from topics import ACK, OWNER, Ledgers, Worker, unfenced  # noqa

PRODUCERS = 2
KEYS = 16           # of each producer
PARTITIONS = 8
LEAST, MOST = 3, 8  # consumers
IN_FLIGHT = 64
THREADS = 2
LEASE = 1.0
RATE = 400          # messages a second, of each producer
DRAIN_SECONDS = 120
SAFE = 1000         # the keys of the last round


def url(proxy):
    return f"redis://127.0.0.1:{proxy.port}"


BODIES = ("local out = {} for _, e in ipairs(redis.call('XRANGE', KEYS[1], "
          "'-', '+')) do out[#out + 1] = e[2][6] end return out")


class Run:
    def __init__(self, rig):
        self.rig = rig
        self.dir = rig.dir / "ledgers"
        self.dir.mkdir()
        self.ledgers = Ledgers(self.dir, keep=False)
        self.clock = Clock(rig)
        self.redis = Redis(rig, clock=self.clock)
        # Consumers and producers come by doors of their own: a producer's
        # command that is held for longer than its sender waits may land behind
        # its successors, and that would be no fault of the library.
        self.proxy = Proxy(rig, self.redis.path)
        self.gate = Proxy(rig, self.redis.path, "gate")
        self.bound = 0      # duplicates there may be
        self.stuck = 0
        self.born = 0
        self.resume = []    # (when, consumer)
        self.leaving = []
        self.producers = [self.producer(n) for n in range(PRODUCERS)]
        self.consumers = [self.consumer() for _ in range(LEAST + 1)]

    def producer(self, n):
        return Worker(self.rig, "produce", url(self.gate), self.dir,
                      f"producer{n}", key=1 + n * KEYS, keys=KEYS, rate=RATE,
                      partitions=PARTITIONS)

    def consumer(self, name=None, **more):
        self.born += 1
        if name is None:
            name = f"c{self.born}" if self.born % 2 else ""
        w = Worker(self.rig, "consume", url(self.proxy), self.dir,
                   f"c{self.born}", name=name, lease=int(LEASE * 1000), in_flight=IN_FLIGHT,
                   partitions=PARTITIONS, threads=THREADS, work=self.born % 3,
                   **more)
        w.name = name
        return w

    def tick(self):
        """Who stood long enough goes on; nobody may end by himself."""
        now = time.monotonic()
        for when, w in [x for x in self.resume if x[0] <= now]:
            self.resume.remove((when, w))
            if w.alive():
                w.go_on()
        for w in self.consumers + self.producers:
            if not w.alive():
                raise RuntimeError(f"{w.role} ended with "
                                   f"{w.process.returncode}")

    def rest(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.tick()
            time.sleep(min(left, 0.02))

    def cut_off(self):
        """All lose the server for a while."""
        self.bound += THREADS * (len(self.consumers) + len(self.leaving))

    # Each fault: nominal seconds and the numbers it needs, from the schedule.

    def forget(self, w):
        self.consumers.remove(w)
        self.resume = [x for x in self.resume if x[1] is not w]

    def kill_consumer(self, seconds, r, same=True):
        w = r.choice(self.consumers)
        self.bound += IN_FLIGHT
        w.kill()
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
        self.stand(r.choice(self.consumers), LEASE + 4 * seconds)

    def stand(self, w, seconds):
        self.bound += IN_FLIGHT
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
                w.go_on()
                w.terminate()
                self.leaving.append(w)
            else:
                self.consumers.append(self.consumer())
            self.rest(0.2)

    def kill_redis(self, seconds, _r):
        self.cut_off()
        self.redis.kill()
        self.rest(seconds)
        self.redis.start()

    def pause_redis(self, seconds, _r):
        self.cut_off()
        self.rig.pause(self.redis.process, seconds)

    def pause_redis_long(self, seconds, _r):
        """All leases are stale at once."""
        self.cut_off()
        self.rig.pause(self.redis.process, LEASE + 2 * seconds)

    def pause_clients(self, seconds, _r):
        self.cut_off()
        self.redis.ask(f"CLIENT PAUSE {int(seconds * 1000)} ALL")
        self.rest(seconds)

    def move_clock(self, seconds, r):
        self.cut_off()
        self.clock.set(r.choice((120, -3600, 86400)))
        self.rest(seconds)
        self.clock.set(0)

    def shake_clock(self, seconds, r):
        self.cut_off()
        for _ in range(int(seconds / 0.01)):
            self.clock.set(r.uniform(-0.05, 0.05))
            self.rest(0.01)
        self.clock.set(0)

    def both(self, line):
        for proxy in (self.proxy, self.gate):
            proxy.order(line)

    def harm(self, rule, seconds, *proxies):
        """With this rule of the proxies for a time."""
        self.cut_off()
        proxies = proxies or (self.proxy, self.gate)
        before = sum(p.fired() for p in proxies)
        for p in proxies:
            p.order("rule " + rule)
        self.rest(seconds)
        for p in proxies:
            p.order("clear")
            p.order("release")
        self.rig.counts["cuts"] += sum(p.fired() for p in proxies) - before

    def cut(self, seconds, r):
        """New connections, so that the offset is reached; the handshake is
        some 7,000 bytes down and 300 up."""
        where = r.choice(("dir=up", "dir=down"))
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        self.both("reset 0")
        self.harm(f"{where} offset={r.randrange(30000)} do={what}"
                  f" times={r.randint(1, 8)}", seconds)

    def cut_command(self, seconds, r):
        name = r.choice(("EVALSHA", "EVALSHA", "XREAD", "XREAD", "XADD"))
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        place = r.choice(("after", f"plus={r.randrange(80)}"))
        self.harm(f"dir=up command={name}:{r.randint(1, 10)} {place}"
                  f" do={what} times={r.randint(1, 8)}", seconds)

    def hold(self, seconds, r):
        """Answers late, some too late."""
        self.both("reset 0")
        self.harm(f"dir=down offset={7000 + r.randrange(20000)} do=hold",
                  seconds)

    def hold_requests(self, seconds, r):
        """Some of consumers, for longer than they wait: they go on by other
        connections, and what is released then comes too late."""
        self.harm("dir=up command=EVALSHA do=hold"
                  f" times={r.randint(1, 8)}", 1.2 + 2 * seconds, self.proxy)

    def delay(self, seconds, r):
        where = r.choice(("dir=up command=EVALSHA", "dir=down frame=0"))
        self.harm(f"{where} do=delay ms={r.randint(10, 80)}", seconds)

    def split(self, seconds, r):
        self.both("reset 0")
        self.harm(f"dir={r.choice(('up', 'down'))} offset=0 do=split", seconds)
        self.both("reset 0")

    def shut_door(self, seconds, r):
        self.cut_off()
        self.both("door " + r.choice(("refuse", "reset", "hang")))
        self.both("reset 0")
        self.rig.counts["cuts"] += 1
        self.rest(seconds)
        self.both("door open")
        self.both("drop 0")

    def drop_leases(self, _seconds, r):
        """By hand: the owners are fenced."""
        for i in r.sample(range(PARTITIONS), 3):
            self.bound += IN_FLIGHT
            self.redis.ask(f"DEL leat:{{orders/{i}}}:lease:billing")

    def kill_with_redis(self, seconds, r):
        """A consumer while the server is away."""
        self.cut_off()
        self.redis.kill()
        self.kill_consumer(seconds, r, same=r.random() < 0.5)
        self.redis.start()

    def flush_scripts(self, _seconds, _r):
        for _ in range(5):
            self.redis.ask("SCRIPT FLUSH")
            self.rest(0.05)

    def kill_clients(self, seconds, _r):
        self.cut_off()
        for _ in range(1 + int(seconds / 0.1)):
            self.redis.ask("CLIENT KILL TYPE normal SKIPME yes")
            self.rig.counts["cuts"] += 1
            self.rest(0.1)

    # The end.

    def heal(self):
        self.clock.set(0)
        self.cut_off()
        self.proxy.heal()
        self.gate.heal()
        for _, w in self.resume:
            w.go_on()
        self.resume = []

    def through(self, workers, what):
        """All of these end in order."""
        end = time.monotonic() + DRAIN_SECONDS
        for w in workers:
            code = w.ended(max(end - time.monotonic(), 0.1))
            # The signal itself ends only who had not begun yet.
            if code not in (0, -signal.SIGTERM):
                say(f"{what} {w.role} ended with {code}")
                self.stuck += 1

    def drained(self):
        return self.ledgers.read().missing == 0

    def drain(self, what):
        try:
            wait_for(self.drained, DRAIN_SECONDS, "drained")
        except TimeoutError:
            say(f"{what}: {self.ledgers.missing} acknowledged messages "
                f"without an effect")

    def last_round(self):
        """Nothing of what was is unsettled: a new member is alone and gets
        new messages only.  How many it got besides."""
        before = self.ledgers.read().twice
        w = self.consumer("")
        p = Worker(self.rig, "produce", url(self.gate), self.dir, "last",
                   key=SAFE, keys=64, count=256, partitions=PARTITIONS)
        self.through([p], "producer")
        self.drain("the last round")
        w.terminate()
        self.through([w], "consumer")
        return self.ledgers.read().twice - before

    def look_at_logs(self, verdict):
        """What the producers left there, in its order."""
        late = misplaced = again = 0
        for i in range(PARTITIONS):
            last, seen = {}, set()
            for text in self.redis.ask_all(
                    f'EVAL "{BODIES}" 1 leat:{{orders/{i}}}:log'):
                key, seq = divmod(int(text), 1 << 32)
                again += text in seen
                seen.add(text)
                if seq < last.get(key, 0):
                    late += 1
                    misplaced += self.ledgers.was_acked(key, seq)
                last[key] = max(seq, last.get(key, 0))
        verdict["late"] = late
        verdict["misplaced"] = misplaced
        verdict["written_twice"] = again
        verdict["reordered"] = abs(verdict["reordered"] - late)

    def end(self):
        self.heal()
        for w in self.producers:
            w.terminate()
        self.through(self.producers, "producer")
        self.drain("the run")
        for w in self.consumers:
            w.terminate()
        self.through(self.consumers + self.leaving, "consumer")
        return self.last_round()


# Come and go twice: it is what groups are made for.
FAULT_DECK = (
    Run.kill_consumer, Run.kill_consumer_for_ever, Run.kill_half,
    Run.pause_consumer, Run.pause_consumer_long, Run.pause_consumer_long,
    Run.kill_producer, Run.come_and_go, Run.come_and_go, Run.kill_redis,
    Run.pause_redis, Run.pause_redis_long, Run.pause_clients, Run.move_clock,
    Run.shake_clock, Run.cut, Run.cut, Run.cut_command, Run.cut_command,
    Run.hold, Run.hold_requests, Run.delay, Run.split, Run.shut_door,
    Run.flush_scripts, Run.kill_clients, Run.drop_leases, Run.kill_with_redis)


def schedule(seed, seconds):
    """Follows from its arguments alone: the calm before, the fault, how long,
    and the numbers it may take.  Each fault comes once before any comes
    again."""
    r = random.Random(seed)
    spent = 0.0
    while spent < seconds:
        deck = list(FAULT_DECK)
        r.shuffle(deck)
        for fault in deck:
            calm, long = r.uniform(0.02, 0.2), r.uniform(0.05, 0.4)
            spent += calm + long
            if spent >= seconds:
                return
            yield calm, fault, long, random.Random(r.getrandbits(64))


def main():
    o = options("a topic and its consumers, under fire")
    say(f"seed {o.seed}, {o.seconds:g} s")
    with Rig() as rig:
        run = Run(rig)
        start = time.monotonic()
        wait_for(lambda: run.ledgers.read().counts[ACK] > 0, 60, "it works")
        for calm, fault, long, numbers in schedule(o.seed, o.seconds):
            run.rest(calm)
            say(f"{time.monotonic() - start:7.2f}  {fault.__name__}")
            fault(run, long, numbers)
        say(f"{time.monotonic() - start:7.2f}  healed")
        again = run.end()
        say(f"{time.monotonic() - start:7.2f}  all have ended")
        verdict = judge(rig, run.dir, o.seed, run.stuck)
        run.look_at_logs(verdict)
        verdict["back"], verdict["fell"] = unfenced(run.redis)
    verdict["bound"] = run.bound + run.ledgers.losses(LEASE) * IN_FLIGHT
    verdict["repeated"] = max(verdict["duplicated"] - verdict["bound"], 0)
    verdict["unsettled"] = again
    finish(verdict, o.tap, [
        ("hundreds of messages were acknowledged", verdict["acked"] > 500),
        ("consumers were killed and stopped",
         verdict["kills"] > 0 and verdict["pauses"] > 0),
        ("partitions changed hands",
         run.ledgers.counts[OWNER] > 2 * PARTITIONS)],
        tuple(k for k in FAULTS if k != "duplicated") +
        ("shared", "repeated", "unsettled", "misplaced", "written_twice",
         "back", "fell"))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
