"""failover.py: does the work go on when servers are replaced?

All that can be done to a master with sentinels and to a cluster, one after the
other and each for itself, as docs/internals/scenarios.md numbers it; with a
topic at work that asks for class 3 (topic_run.py), and beside it four writers
that use plain connections (redis_worker.c).  After each the servers are mended,
and it is measured for how many seconds nobody was served, and for how many some
key was not.

The topic loses nothing.  Plain writers ask for nothing but an answer: what a
replaced master had answered and not passed on is lost to them, and counted; but
nothing is there twice, out of order, or though it was said to have failed.

--aof instead cuts the append-only file at every byte of what scripts write.
"""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import FAULTS, ROOT, Rig, finish, judge, options, program, say  # noqa
from topic_many import Many, faults_of  # noqa: E402
from topic_run import deals  # noqa: E402
from topics import ACK, Ledgers  # noqa: E402

WRITERS = 4
END_SECONDS = 60
# Of commands that a replica is never sent by its master.
READS = ("xread", "xrange", "xinfo", "xpending", "evalsha", "eval", "hgetall",
         "hmget", "get", "xlen")


class Failover(Many):
    def __init__(self, rig, o):
        super().__init__(rig, o)
        self.books = rig.dir / "plain"
        self.books.mkdir()
        self.plain = Ledgers(self.books, keep=False)
        self.writers = [rig.start(
            [program("chaos/redis_worker"), "write", self.place.url,
             str(self.books), str(n + 1), "50"]) for n in range(WRITERS)]
        self.times = {}
        self.strays = 0

    writers = ()

    def tick(self):
        super().tick()
        for w in self.writers:
            if w.poll() is not None:
                raise RuntimeError(f"a writer ended with {w.returncode}")

    def flows(self, seconds=60, acks=20, effects=20):
        super().flows(seconds, acks, effects)
        want = self.plain.read().counts[ACK] + 20
        self.wait(lambda: self.plain.read().counts[ACK] >= want, seconds,
                  "plain writers go on")

    @staticmethod
    def gap(times):
        times = sorted(times)
        return round(max((b - a for a, b in zip(times, times[1:])),
                         default=0), 1)

    def silence(self, ledgers, since):
        """The longest time without an acknowledgement: of all, and of one
        key."""
        acks = [(r.key, r.ns / 1e9) for r in ledgers.read().kept[ACK]
                if r.ns / 1e9 > since - 1]
        keys = {k for k, _ in acks}
        return (self.gap(t for _, t in acks),
                max(self.gap(t for k, t in acks if k == key)
                    for key in keys))

    # The scenarios that are not faults of the campaign already.

    def each_master_in_turn(self, seconds, r):
        for m in self.place.masters():
            with self.struck():
                self.place.remember(m)
                m.kill()
                self.place.await_other(m)

    def all_down_and_up(self, seconds, r):
        with self.struck():
            for n in self.place.nodes:
                n.kill()
            self.rest(seconds)

    def nothing_reads_replicas(self, seconds, r):
        """For a while in which all is well."""
        with self.struck():
            pass
        masters = self.place.masters()
        others = [n for n in self.place.nodes if n not in masters]
        for n in others:
            n.call("CONFIG", "RESETSTAT")
        self.flows(60, 100, 100)
        for n in others:
            stats = n.info("commandstats")
            found = [k for k in READS if f"cmdstat_{k}" in stats]
            if found:
                say(f"{n.name}, a replica, was sent {found}")
            self.strays += len(found)

    def work(self, name, fault, numbers):
        begin = time.monotonic()
        self.step(f"{name} {fault.__name__}")
        fault(self, numbers[0], numbers[1])
        self.times[name] = {"topic": self.silence(self.ledgers, begin),
                            "plain": self.silence(self.plain, begin)}
        say(f"         silent for {self.times[name]}")

    def end_writers(self):
        for w in self.writers:
            w.terminate()
        for n, w in enumerate(self.writers):
            try:
                code = w.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                code = "nothing"
            if code != 0:
                say(f"writer {n + 1} ended with {code}")
                self.stuck += 1
        self.writers = ()
        reader = self.rig.start([program("chaos/redis_worker"), "read",
                                 self.place.url, str(self.books),
                                 str(WRITERS)])
        if reader.wait(120) != 0:
            raise RuntimeError("the streams could not be read")

    def judge_plain(self, verdict, seed):
        plain = judge(self.rig, self.books, seed, 0, "--once")
        say(f"plain: {plain}")
        verdict["plain_acked"] = plain["acked"]
        verdict["plain_lost"] = plain["lost"]
        for k in FAULTS:
            if k != "lost":
                verdict[k] += plain[k] if k != "duplicated" else 0
        verdict["plain_twice"] = plain["duplicated"]
        verdict["strays"] = self.strays


SCENARIOS = {
    "sentinel": (("S1", Failover.kill_master), ("S2", Failover.stop_master),
                 ("S3", Failover.part_master), ("S4", Failover.ask_failover),
                 ("S5", Failover.kill_sentinel),
                 ("S10", Failover.nothing_reads_replicas)),
    "cluster": (("S6", Failover.each_master_in_turn),
                ("S7", Failover.move_slots), ("S8", Failover.everything),
                ("S9", Failover.all_down_and_up),
                ("S10", Failover.nothing_reads_replicas)),
}


def more_options(p):
    p.add_argument("--topology", choices=sorted(SCENARIOS),
                   help="one of them; both by default")
    p.add_argument("--only", help="one scenario, as S1")
    p.add_argument("--aof", action="store_true",
                   help="every byte of the append-only file instead")
    p.set_defaults(durability=3, replicas=None, republish=False)


def on(o, topology, seconds):
    """Round after round as long as there is time, the first to its end."""
    o.topology = topology
    chosen = [s for s in SCENARIOS[topology] if not o.only or s[0] == o.only]
    with Rig() as rig:
        rig.moves = 0
        run = Failover(rig, o)
        run.started = time.monotonic()
        numbers = ((d[2], d[3]) for d in deals(o.seed, (None,)))
        with rig.kept_if_bad():
            run.works()
            run.flows()
            while True:
                for name, scenario in chosen:
                    run.work(name, scenario, next(numbers))
                if time.monotonic() - run.started > seconds:
                    break
            run.heal()
            run.end_writers()
            again = run.end()
            verdict = run.judge(o.seed)
            verdict["unsettled"] = again
            run.judge_plain(verdict, o.seed)
            verdict["silent"] = run.times
            rig.bad = any(verdict[k] for k in bad_of(o))
    return verdict


def bad_of(o):
    return faults_of(o) + ("plain_twice", "strays")


def main():
    o = options("servers are replaced while they are at work", more_options)
    if o.aof:
        sys.exit(subprocess.call(
            [sys.executable, ROOT / "tests/integration/aof_cuts.py",
             "--all"]))
    say(f"seed {o.seed}, {o.seconds:g} s")
    chosen = [o.topology] if o.topology else sorted(
        t for t in SCENARIOS if not o.only or
        o.only in dict(SCENARIOS[t]))
    total = {}
    for topology in chosen:
        say(f"--- {topology}")
        verdict = on(o, topology, o.seconds / len(chosen))
        for k, v in verdict.items():
            if isinstance(v, dict):
                total.setdefault(k, {}).update(v)
            else:
                total[k] = v if k == "seed" else total.get(k, 0) + v
    finish(total, o.tap, [
        ("hundreds of messages were acknowledged", total["acked"] > 300),
        ("so were those of plain writers", total["plain_acked"] > 300)],
        bad_of(o))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
