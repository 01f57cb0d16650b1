"""passing_cards.py: groups and topics that come and go while a run is under fire.

Beside the group that is judged others join, are removed and made again, and so is
a topic of its own.  What they have seen is in ledgers of their own, of which only
one thing is asked: whatever was acknowledged and was not removed with them has
its effect there.  Which was removed the run knows by the time: what was tried
before the removal was done may be gone, what was tried afterwards may not.
"""

import time

from chaos import say
from topic_run import PARTITIONS
from topics import ACK, ATTEMPT, EFFECT, Ledgers, Worker

LATE_KEEP = 100     # messages that a trim leaves while a group joins
SOME = 30           # effects, until something works
KEYS = 8            # of the topic that is removed
FIRST_KEY = 3000
RATE = 100          # messages a second to it
LONG = 120          # seconds for what must happen
GONE_ALREADY = (1,)     # how a removal ends that is asked for again


class Passing:
    """Of the class that is made of this: rig, operate(), insist(), trim(),
    ask(), written(), ledgers, wrong."""

    def books(self, name):
        """Ledgers of their own, new for each card."""
        self.passed += 1
        where = self.rig.dir / f"{name}{self.passed}"
        where.mkdir()
        return Ledgers(where)

    def passer(self, books, role, verb="consume", **more):
        url = self.producer_url if verb == "produce" else self.consumer_url
        lease = int(self.lease * 1000) if verb == "consume" else None
        return Worker(self.rig, verb, url, books.directory, role,
                      **{"partitions": PARTITIONS, "lease": lease,
                         "durability": self.durability,
                         "replicas": self.replicas, "led": 1, **more})

    def see(self, books, wanted, what):
        """All of these have their effect in time; how many have not."""
        def left():
            return wanted - {r.id for r in books.read().of(EFFECT)}
        try:
            self.wait(lambda: not left(), LONG, what)
        except TimeoutError:
            missing = left()
            say(f"{what}: {len(missing)} of {len(wanted)} were not seen, such "
                f"as {[(n >> 32, n & 0xffffffff) for n in sorted(missing)[:3]]}")
            self.rig.bad = True
            return len(missing)
        return 0

    def works_for(self, books, count):
        self.wait(lambda: books.read().counts[EFFECT] >= count, LONG,
                  "it works for who passes")

    def dismiss(self, workers):
        for w in workers:
            w.terminate()
        self.through(workers, "who passes")

    def in_logs(self):
        return {int(text) for i in range(PARTITIONS)
                for _, text in self.written(i)}

    # ---- cards ------------------------------------------------------------

    def join_late(self, seconds, r):
        """A group joins and reads nothing, while others trim; whoever comes for
        it later finds all that was acknowledged since."""
        books, group = self.books("late"), f"late{self.passed}"
        w = self.passer(books, "early", group=group).ready()
        since = time.monotonic_ns()
        w.kill()
        self.rest(1 + 2 * seconds)
        self.trim(r, LATE_KEEP)
        until = time.monotonic_ns()
        acked = {x.id for x in self.ledgers.read().kept[ACK]
                 if since < x.ns < until}
        there = {int(text) for i in range(PARTITIONS)
                 for _, text in self.ever_written(i)}
        w = self.passer(books, "late", group=group)
        self.wrong["unheld"] += self.see(books, acked & there,
                                         "a group that joined under retention")
        self.dismiss([w])
        self.insist(r, "group", "rm", "orders", group, "--force",
                    done=GONE_ALREADY)

    def remove_group(self, seconds, r):
        """While two read for it; one of them is killed meanwhile, the other
        makes it anew, and a third comes."""
        books, group = self.books("passing"), "passing"
        killed, left = (self.passer(books, f"c{n}", group=group).ready()
                        for n in range(2))
        self.works_for(books, SOME)
        key = f"leat:{{orders}}:group:{group}"
        which = (self.ask(key, "HGET", key, "u") or b"").decode()
        killed.kill()
        self.insist(r, "group", "rm", "orders", group, "--force", "--id",
                    which, done=GONE_ALREADY)
        self.rest(seconds)
        third = self.passer(books, "c2", group=group)
        self.wrong["forsaken"] += self.see(books, self.in_logs(),
                                           "a group that was made again")
        self.dismiss([left, third])
        self.insist(r, "group", "rm", "orders", group, "--force",
                    done=GONE_ALREADY)

    def remove_topic(self, seconds, r):
        """While one sends to it and two read; then it is made again, and all
        of them go on."""
        books = self.books("fleeting")
        topic = {"topic": "fleeting", "partitions": 2}
        sender = self.passer(books, "producer", "produce", key=FIRST_KEY,
                             keys=KEYS, rate=RATE, led=None, **topic)
        readers = [self.passer(books, f"c{n}", **topic) for n in range(2)]
        self.works_for(books, SOME)
        self.insist(r, "topic", "rm", "fleeting", "--force",
                    done=GONE_ALREADY)
        self.insist(r, "topic", "create", "fleeting", "--partitions", "2",
                    done=GONE_ALREADY)
        since = time.monotonic_ns()
        self.rest(seconds)
        readers.pop().kill()
        readers.append(self.passer(books, "c2", **topic))
        self.rest(0.5)
        self.dismiss([sender])
        sent = {x.id for x in books.read().of(ATTEMPT) if x.ns > since}
        acked = {x.id for x in books.of(ACK)} & sent
        if not acked:
            say("nothing was acknowledged to a topic that was made again")
            self.wrong["outlived"] += 1
        self.wrong["outlived"] += self.see(books, acked,
                                           "a topic that was made again")
        self.dismiss(readers)
        self.insist(r, "topic", "rm", "fleeting", "--force",
                    done=GONE_ALREADY)
