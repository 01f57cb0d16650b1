"""scenarios.py: a server, workers and a judge for one fault, done exactly.

A file of scenarios has functions whose names are promises, a letter and a digit
of docs/internals/scenarios.md first; main() runs those of a letter, each with a
Bench of its own, and says TAP on stdout.

Usage of such a file: FILE LETTER [PATTERN]
"""

import random
import sys
import time

from chaos import Proxy, Redis, Rig, judge, wait_for
from topics import EFFECT, LOST, OWNER, Ledgers, Worker, unfenced

PARTITIONS = 4
IN_FLIGHT = 64
LONG = 60           # seconds for what must happen
BAD = ("lost", "reordered", "stuck", "unexpected", "dishonest", "shared")


class AnyBench:
    """A server, a ledger and the workers of one scenario."""

    def __init__(self, rig):
        self.rig = rig
        self.dir = rig.dir / "ledgers"
        self.dir.mkdir()
        self.ledgers = Ledgers(self.dir)
        self.workers = []
        self.redis = self.url = None
        self.random = random.Random(1)

    def server(self, *config, clock=None):
        self.redis = Redis(self.rig, *config, clock=clock)
        self.url = f"unix://{self.redis.path}"
        return self.redis

    def proxy(self, name="control"):
        proxy = Proxy(self.rig, self.redis.path, name)
        proxy.url = f"redis://127.0.0.1:{proxy.port}"
        return proxy

    def send(self, count, **options):
        """Sent, and the outcome of each is known."""
        ends(self.produce(count, **options), 0)

    def drop(self, w):
        w.kill()
        self.workers.remove(w)

    def leave(self, w):
        w.terminate()
        self.workers.remove(w)
        ends(w, 0)

    def wait(self, look, what, seconds=LONG):
        wait_for(lambda: look(self.ledgers.read()), seconds, what)

    def flowing(self, more=50):
        """So many further effects."""
        want = self.ledgers.read().counts[EFFECT] + more
        self.wait(lambda l: l.counts[EFFECT] >= want, "messages flow")


class Bench(AnyBench):
    """The same, for a topic."""

    others = None       # ledgers of a second group

    def consume(self, role, url=None, env=None, wait=True, **options):
        """A consumer that has joined, unless it is not to be waited for.  It
        is killed from outside: no message is to be blamed."""
        w = Worker(self.rig, "consume", url or self.url, self.dir, role,
                   env=env, **{"led": 1, "lease": 2000, "max": 1000,
                               "in_flight": IN_FLIGHT, "threads": 2,
                               "partitions": PARTITIONS, **options})
        self.workers.append(w)
        return w.ready() if wait else w

    def produce(self, count, role="producer", url=None, **options):
        """A producer that sends so many; 0: until it is told."""
        return Worker(self.rig, "produce", url or self.url, self.dir, role,
                      count=count, partitions=PARTITIONS, **options)

    def second_group(self, directory, group):
        """Its only member, with ledgers of its own in others."""
        self.others = Ledgers(directory)
        w = Worker(self.rig, "consume", self.url, directory, group,
                   group=group, led=1, lease=20000, threads=2,
                   partitions=PARTITIONS)
        return w.ready()

    def drained(self, seconds=LONG):
        """Whatever was acknowledged had its effect."""
        self.wait(lambda l: l.missing == 0, "drained", seconds)

    def shared_out(self, *workers):
        """The partitions are shared between these, evenly."""
        def look():
            owned = [w.stats()["partitions"] for w in workers]
            return sum(owned) == PARTITIONS and max(owned) - min(owned) <= 1
        wait_for(look, LONG, "the partitions are shared out")

    def owners(self, what=None):
        """How many changes of ownership there were."""
        return len([r for r in self.ledgers.read().of(OWNER)
                    if what is None or r.detail == what])

    def at_rest(self, seconds=0.5):
        """Nobody's ownership has changed for so long."""
        since, seen = time.monotonic(), self.owners()

        def look():
            nonlocal since, seen
            now, owners = time.monotonic(), self.owners()
            if owners != seen:
                since, seen = now, owners
            return now - since > seconds
        wait_for(look, LONG, "ownership is at rest")
        return seen

    def settled(self):
        """The server knows of all that it is settled."""
        script = ("local last = redis.call('XREVRANGE', KEYS[1], '+', '-', "
                  "'COUNT', 1) return {redis.call('HGET', KEYS[2], 'c') or "
                  "'', last[1] and last[1][1] or '0-0'}")

        def look():
            return all(at == last for at, last in (
                self.redis.ask_all(
                    f'EVAL "{script}" 2 leat:{{orders/{i}}}:log '
                    f"leat:{{orders/{i}}}:cur:billing")
                for i in range(PARTITIONS)))
        wait_for(look, LONG, "all is settled on the server")

    def audit(self):
        """Settled is settled: a new member gets new messages only."""
        before = self.ledgers.read().twice
        # All have left but those that were killed, which count for a lease.
        self.redis.ask("DEL leat:{orders}:members:billing "
                       "leat:{orders}:beats:billing")
        w = self.consume("auditor", lease=0, max=0, delay=0, most_delay=0,
                         order="any", jitter=2)
        self.send(64, role="auditor", key=9000, keys=64)
        self.drained()
        self.leave(w)
        assert self.ledgers.read().twice == before, "the settled came back"

    def end(self, producer=None, twice=None, forgot=False):
        """Drain, end all in order, judge.  twice: so many effects there may
        be again, besides those of partitions lost by live owners.  forgot: the
        server's state was put back by hand."""
        if producer:
            producer.terminate()
            ends(producer, 0)
        self.drained()
        self.settled()
        for w in list(self.workers):
            self.leave(w)
        self.audit()
        lost = self.owners(LOST)
        verdict = judge(self.rig, self.dir, 0, 0)
        bad = {k: verdict[k] for k in BAD if verdict[k]}
        assert not bad, (bad, verdict)
        if not forgot:
            assert unfenced(self.redis) == (0, 0), unfenced(self.redis)
        if twice is not None:
            assert verdict["duplicated"] <= twice + lost * IN_FLIGHT, verdict
        return verdict


def ends(w, *codes):
    got = w.ended(LONG)
    assert got in codes, f"{w.role} ended with {got}, not {codes}"


def run(test, bench):
    with Rig() as rig:
        b = bench(rig)
        try:
            test(b)
        except Exception as e:
            e.history = [f"{r.ns / 1e9:.3f} {r.who} {r.kind} place={r.place} "
                         f"fence={r.fence} detail={r.detail}"
                         for r in b.ledgers.read().of(OWNER)][-40:]
            raise


def complain(e):
    where = e.__traceback__
    lines = []
    while where:
        if where.tb_frame.f_code.co_filename == sys.argv[0]:
            lines.append(str(where.tb_lineno))
        where = where.tb_next
    print(f"# lines {' '.join(lines)}: {type(e).__name__}: "
          + str(e).replace("\n", "\n# "))
    for line in getattr(e, "history", []):
        print(f"# {line}")


def main(functions, bench=Bench):
    """Runs those of a file that begin with the letter and a digit, or with one
    of several letters."""
    letters = sys.argv[1].lower()
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [f for name, f in functions.items()
             if name[:1] in letters and name[1:2].isdigit() and
             pattern in name]
    print(f"1..{len(tests)}")
    bad = 0
    for i, test in enumerate(tests, 1):
        start = time.monotonic()
        try:
            run(test, bench)
            print(f"ok {i} {test.__name__}")
            print(f"# {time.monotonic() - start:.1f} s")
        except Exception as e:  # each reports its own failure
            bad += 1
            print(f"not ok {i} {test.__name__}")
            complain(e)
        sys.stdout.flush()
    return 1 if bad or not tests else 0
