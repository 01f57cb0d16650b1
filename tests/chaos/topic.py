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

With --policies some messages fail for a time or for ever, some kill the process
that handles them, and a second group reads along: topic_policies.py.

Duplicates come from what was in flight when a fault struck, and are bounded.  A
consumer has at most IN_FLIGHT messages in flight: so many may come again for
each kill, each stop, and each time that one which was alive lost what it had,
which on a machine under load may happen without any fault of ours.  While the
server cannot be reached a runner gives up what it cannot keep, and what its
THREADS are at work on comes again.  Afterwards a new member finds nothing of all
that unsettled.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import (FAULTS, Clock, Proxy, Redis, Rig, finish, judge,  # noqa
                   options, say)
from topic_many import many_options, on_many  # noqa: E402
from topic_run import (GROUP, IN_FLIGHT, LEASE, PARTITIONS,  # noqa: E402
                       Run, deals)
from topic_policies import BAD, Policies  # noqa: E402
from topics import OWNER, unfenced  # noqa: E402
from wire import ask  # noqa: E402

ENTRIES = ("local out = {} for _, e in ipairs(redis.call('XRANGE', KEYS[1], "
           "'-', '+')) do out[#out + 1] = e[1] out[#out + 1] = e[2][6] end "
           "return out")


class One(Run):
    """On one server that keeps what it acknowledged."""

    def __init__(self, rig, policies=None):
        self.policies = policies
        self.clock = Clock(rig)
        self.redis = Redis(rig, clock=self.clock)
        # Consumers and producers come by doors of their own: a producer's
        # command that is held for longer than its sender waits may land behind
        # its successors, and that would be no fault of the library.
        self.proxy = Proxy(rig, self.redis.path)
        self.gate = Proxy(rig, self.redis.path, "gate")
        self.consumer_url = f"redis://127.0.0.1:{self.proxy.port}"
        self.producer_url = f"redis://127.0.0.1:{self.gate.port}"
        super().__init__(rig)

    # What is done to the server.

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

    def drop_leases(self, _seconds, r):
        """By hand: the owners are fenced."""
        for i in r.sample(range(PARTITIONS), 3):
            self.bound += IN_FLIGHT
            self.redis.ask(f"DEL leat:{{orders/{i}}}:lease:billing")

    # What is done to the network.

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

    # The end.

    def heal_servers(self):
        self.clock.set(0)
        self.proxy.heal()
        self.gate.heal()

    def ask(self, key, *words):
        return ask(self.redis.path, *words)

    def written(self, partition):
        flat = self.redis.ask_all(
            f'EVAL "{ENTRIES}" 1 leat:{{orders/{partition}}}:log')
        return zip(flat[::2], flat[1::2])


# Come and go twice: it is what groups are made for.
DECK = (
    One.kill_consumer, One.kill_consumer_for_ever, One.kill_half,
    One.pause_consumer, One.pause_consumer_long, One.pause_consumer_long,
    One.kill_producer, One.come_and_go, One.come_and_go, One.kill_redis,
    One.pause_redis, One.pause_redis_long, One.pause_clients, One.move_clock,
    One.shake_clock, One.cut, One.cut, One.cut_command, One.cut_command,
    One.hold, One.hold_requests, One.delay, One.split, One.shut_door,
    One.flush_scripts, One.kill_clients, One.drop_leases, One.kill_with_redis)


def schedule(seed, seconds):
    """Follows from its arguments alone."""
    spent = 0.0
    for calm, fault, long, numbers in deals(seed, DECK):
        spent += calm + long
        if spent >= seconds:
            return
        yield calm, fault, long, numbers


def harm(run, faults):
    run.started = time.monotonic()
    run.works()
    for calm, fault, long, numbers in faults:
        run.rest(calm)
        run.step(fault.__name__)
        fault(run, long, numbers)
    return run.end()


def policies_of(o):
    return Policies(o.seed, GROUP, PARTITIONS, o.seconds < 10) \
        if o.policies else None


def on_one(o):
    with Rig() as rig:
        run = One(rig, policies_of(o))
        again = harm(run, schedule(o.seed, o.seconds))
        verdict = judge(rig, run.dir, o.seed, run.stuck)
        run.look_at_logs(verdict)
        run.repetitions(verdict)
        if run.policies:
            run.policies.judge(run, verdict)
            run.policies.replay(run, verdict)
        verdict["back"], verdict["fell"] = unfenced(run.redis)
    verdict["unsettled"] = again
    bad = tuple(k for k in FAULTS if k != "duplicated") + (
        "shared", "repeated", "unsettled", "misplaced", "written_twice",
        "back", "fell") + (BAD if o.policies else ())
    if o.policies and run.policies.order == "none":
        bad = tuple(k for k in bad if k != "reordered")
    finish(verdict, o.tap, [
        ("hundreds of messages were acknowledged", verdict["acked"] > 500),
        ("consumers were killed and stopped",
         verdict["kills"] > 0 and verdict["pauses"] > 0),
        ("partitions changed hands",
         run.ledgers.counts[OWNER] > 2 * PARTITIONS)] +
        (run.policies.felt(verdict) if o.policies else []), bad)


def main():
    o = options("a topic and its consumers, under fire", many_options)
    say(f"seed {o.seed}, {o.seconds:g} s")
    if o.topology == "single":
        on_one(o)
    else:
        on_many(o, policies_of(o))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
