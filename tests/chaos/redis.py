"""redis.py: are a connection's outcomes honest under fire?

Four writers append numbered entries to sixteen streams through the proxy, and
note for each what the library said of it.  Meanwhile the server is killed and
stopped, connections are cut at any byte, held, refused and killed, scripts are
flushed and the writers themselves killed and stopped.  At the end the streams
are read: what was acknowledged is there, what certainly failed is not, nothing
is there twice, and each key's numbers ascend.

One fault at a time, each undone before the next: a command held on its way for
longer than its sender lives may land behind its successors, and that would be
no fault of the library.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import (Proxy, Redis, Rig, finish, judge, options, program,  # noqa
                   say)

WRITERS = 4
TIMEOUT = 0.3       # the writers', see redis_worker.c
END_SECONDS = 20    # to end in order


class Run:
    def __init__(self, rig):
        self.rig = rig
        self.ledgers = rig.dir / "ledgers"
        self.ledgers.mkdir()
        self.redis = Redis(rig)
        self.proxy = Proxy(rig, self.redis.path)
        self.writers = [self.writer(n) for n in range(WRITERS)]

    def writer(self, n):
        return self.rig.start(
            [program("chaos/redis_worker"), "write",
             f"redis://127.0.0.1:{self.proxy.port}", str(self.ledgers),
             str(n + 1)])

    # Each fault: nominal seconds and the numbers it needs, from the schedule.

    def kill_redis(self, seconds, _r):
        self.redis.kill()
        time.sleep(seconds)
        self.redis.start()

    def pause_redis(self, seconds, _r):
        self.rig.pause(self.redis.process, seconds)

    def pause_redis_long(self, seconds, _r):
        self.rig.pause(self.redis.process, TIMEOUT + seconds)

    def kill_stopped_redis(self, seconds, _r):
        self.redis.process.send_signal(signal.SIGSTOP)
        self.rig.counts["pauses"] += 1
        time.sleep(seconds)
        self.redis.kill()
        self.redis.start()

    def kill_writer(self, _seconds, r):
        n = r.randrange(WRITERS)
        self.rig.kill(self.writers[n])
        self.writers[n] = self.writer(n)

    def pause_writer(self, seconds, r):
        self.rig.pause(self.writers[r.randrange(WRITERS)],
                       seconds + r.choice((0, TIMEOUT)))

    def harm(self, rule, seconds):
        """With this rule of the proxy for a time."""
        before = self.proxy.fired()
        self.proxy.order("rule " + rule)
        time.sleep(seconds)
        self.proxy.order("clear")
        self.proxy.order("release")
        self.rig.counts["cuts"] += self.proxy.fired() - before

    def cut(self, seconds, r):
        """New connections, so that the offset is reached; the handshake is
        some 7,000 bytes down and 300 up."""
        where = r.choice(("dir=up", "dir=down"))
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        self.proxy.order("reset 0")
        self.harm(f"{where} offset={r.randrange(30000)} do={what}"
                  f" times={r.randint(1, WRITERS)}", seconds)

    def cut_command(self, seconds, r):
        name = r.choice(("XADD", "XADD", "EVALSHA", "EXEC", "MULTI"))
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        place = r.choice(("after", f"plus={r.randrange(80)}"))
        self.harm(f"dir=up command={name}:{r.randint(1, 40)} {place}"
                  f" do={what} times={r.randint(1, WRITERS)}", seconds)

    def hold(self, seconds, r):
        """Answers late, some too late."""
        self.proxy.order("reset 0")
        self.harm(f"dir=down offset={7000 + r.randrange(20000)} do=hold",
                  seconds + r.choice((0, TIMEOUT)))

    def delay(self, seconds, r):
        where = r.choice(("dir=up command=XADD:5", "dir=down frame=0"))
        self.harm(f"{where} do=delay ms={r.randint(10, 80)}", seconds)

    def split(self, seconds, r):
        self.proxy.order("reset 0")
        self.harm(f"dir={r.choice(('up', 'down'))} offset=0 do=split", seconds)
        self.proxy.order("reset 0")

    def shut_door(self, seconds, r):
        self.proxy.order("door " + r.choice(("refuse", "reset", "hang")))
        self.proxy.order("reset 0")
        self.rig.counts["cuts"] += 1
        time.sleep(seconds)
        self.proxy.order("door open")
        self.proxy.order("drop 0")

    def flush_scripts(self, _seconds, _r):
        for _ in range(5):
            self.redis.ask("SCRIPT FLUSH")
            time.sleep(0.01)

    def kill_clients(self, _seconds, _r):
        self.redis.ask("CLIENT KILL TYPE normal SKIPME yes")
        self.rig.counts["cuts"] += 1

    def end(self):
        """Heal, let the writers end; how many could not."""
        self.proxy.heal()
        for w in self.writers:
            w.send_signal(signal.SIGTERM)
        stuck, deadline = 0, time.monotonic() + END_SECONDS
        for n, w in enumerate(self.writers):
            try:
                code = w.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                code = "nothing"
            if code != 0:
                say(f"writer {n + 1} ended with {code}")
                stuck += 1
        return stuck

    def read(self):
        reader = self.rig.start([program("chaos/redis_worker"), "read",
                                 f"unix://{self.redis.path}",
                                 str(self.ledgers), str(WRITERS)])
        if reader.wait(600) != 0:
            sys.exit("the streams could not be read")


FAULTS = (Run.kill_redis, Run.pause_redis, Run.pause_redis_long,
          Run.kill_stopped_redis, Run.kill_writer, Run.pause_writer, Run.cut,
          Run.cut, Run.cut_command, Run.cut_command, Run.hold, Run.delay,
          Run.split, Run.shut_door, Run.flush_scripts, Run.kill_clients)


def schedule(seed, seconds):
    """Follows from its arguments alone: the calm before, the fault, how long,
    and the numbers it may take.  Each fault comes once before any comes
    again."""
    r = random.Random(seed)
    spent = 0.0
    while spent < seconds:
        deck = list(FAULTS)
        r.shuffle(deck)
        for fault in deck:
            calm, long = r.uniform(0.02, 0.2), r.uniform(0.05, 0.35)
            spent += calm + long
            if spent >= seconds:
                return
            yield calm, fault, long, random.Random(r.getrandbits(64))


def main():
    o = options("honest outcomes of a connection, under fire")
    say(f"seed {o.seed}, {o.seconds:g} s")
    with Rig() as rig:
        run = Run(rig)
        start = time.monotonic()
        for calm, fault, long, numbers in schedule(o.seed, o.seconds):
            time.sleep(calm)
            say(f"{time.monotonic() - start:7.2f}  {fault.__name__}")
            fault(run, long, numbers)
        say(f"{time.monotonic() - start:7.2f}  healed")
        stuck = run.end()
        say(f"{time.monotonic() - start:7.2f}  the writers have ended")
        run.read()
        verdict = judge(rig, run.ledgers, o.seed, stuck, "--once")
    finish(verdict, o.tap, [
        ("thousands of messages were sent", verdict["attempted"] > 1000),
        ("most were acknowledged",
         verdict["acked"] * 2 > verdict["attempted"]),
        ("some outcomes were unknown", verdict["unknown"] > 0),
        ("every kind of harm was done", min(verdict[k] for k in (
            "kills", "pauses", "cuts")) > 0)])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
