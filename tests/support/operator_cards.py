"""operator_cards.py: what an operator does to a topic while it is under fire.

Each card runs the command as an operator would, on one server through a door
that may cut the answer off; then it is run again, as the manual says.  What it
allows is written down from what is in the logs at that moment: a message that a
seek brings back may come once more (AGAIN), and nothing else may.
"""

import subprocess
import time

from chaos import BUILD, say
from topic_run import GROUP, PARTITIONS
from topics import AGAIN

BACK = 50           # messages that a seek goes back by
KEEP = 400          # messages that a trim leaves in each partition
PATIENCE = 60       # seconds for a command
TRIES = 5


def order_of(at):
    """A position as numbers; it may be a text."""
    if isinstance(at, tuple):
        return at
    return tuple(int(x) for x in at.split("-"))


class Operator:
    """Of the class that is made of this: consumer_url, rig, ask(), written(),
    rest(), cut_off(), producers."""

    def leat(self, *words):
        """True: it was done.  Whoever gets no answer asks again."""
        self.asked = []         # when, in ns
        for _ in range(TRIES):
            self.asked.append(time.monotonic_ns())
            p = self.rig.start([str(BUILD / "leat"), *words, "--url",
                                self.consumer_url, "--yes"],
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            try:
                if p.wait(PATIENCE) == 0:
                    return True
            except subprocess.TimeoutExpired:
                self.rig.end(p)
        say(f"leat {' '.join(words)}: not done")
        return False

    def losing_answers(self, r):
        """On one server: the answer to one of the operator's steps is lost."""
        proxy = getattr(self, "proxy", None)
        if proxy and r.random() < 0.5:
            self.cut_off()
            proxy.order(f"rule dir=up command=EVALSHA:{r.randint(1, 3)} after "
                        "do=cut times=1")
            self.rig.counts["cuts"] += 1
        return proxy

    def operate(self, r, *words):
        proxy = self.losing_answers(r)
        done = self.leat(*words)
        if proxy:
            proxy.order("clear")
        return done

    def pause_group(self, seconds, r):
        """Nothing is handed out, and nothing of it is lost."""
        self.operate(r, "group", "pause", "orders", GROUP)
        self.rest(seconds)
        while not self.operate(r, "group", "resume", "orders", GROUP):
            self.rest(0.1)

    def alter_topic(self, seconds, r):
        """A cap refuses what is sent, honestly, until it is taken away."""
        self.operate(r, "topic", "alter", "orders", "--cap",
                     str(r.choice((100, 1000000))))
        self.rest(seconds)
        while not self.operate(r, "topic", "alter", "orders", "--cap", "0"):
            self.rest(0.1)

    def trim_topic(self, _seconds, r):
        """What all have settled goes; what was there is remembered."""
        self.remember()
        self.operate(r, "topic", "trim", "orders", "--max-entries", str(KEEP))

    def seek_back(self, _seconds, r):
        """One partition, by some messages; those and what follows may come
        once more."""
        i = r.randrange(PARTITIONS)
        log, cursor = (f"leat:{{orders/{i}}}:{k}"
                       for k in ("log", f"cur:{GROUP}"))
        at = self.ask(cursor, "HGET", cursor, "c")
        before = at and self.ask(log, "XREVRANGE", log, at, "-", "COUNT",
                                 BACK + 1)
        if not before or len(before) < 2:
            return
        target = before[-2][0].decode()
        self.cut_off()
        self.sought.append((i, order_of(before[-1][0].decode()),
                            order_of(target)))
        self.operate(r, "group", "seek", "orders", GROUP, "--partition",
                     str(i), "--to", target, "--force")
        # Read afterwards: what was sent before it was done comes again, too.
        again = [int(text) for position, text in self.written(i)
                 if order_of(position) >= order_of(target)]
        for ns in self.asked:
            for number in again:
                self.notes.of(AGAIN, number, ns)

    def stop_producer(self, seconds, r):
        """It stands, with what it sent under way."""
        w = r.choice(self.producers)
        w.stop()
        self.rig.counts["pauses"] += 1
        self.rest(2 * seconds)
        w.go_on()

    def remember(self):
        """What is in the logs, before some of it goes."""
        for i in range(PARTITIONS):
            self.seen.setdefault(i, {}).update(self.written(i))

    def ever_written(self, i):
        """What is in a log, and what was there before it was trimmed."""
        both = {**self.seen.get(i, {}), **dict(self.written(i))}
        return sorted(both.items(), key=lambda x: order_of(x[0]))


CARDS = (Operator.pause_group, Operator.alter_topic, Operator.trim_topic,
         Operator.seek_back, Operator.stop_producer)
