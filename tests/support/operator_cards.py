"""operator_cards.py: what an operator does while a run is under fire.

Each card runs the command as an operator would, through doors that may cut the
answer off; then it is run again, as the manual says.  What it allows is written
down from what is there at that moment: a message that a seek brings back may
come once more (AGAIN), and nothing else may.

Operator is any run's, TopicOperator a topic's.  What comes and goes beside the
topic, groups and another topic, is in passing_cards.py.
"""

import subprocess
import time

from chaos import BUILD, say
from passing_cards import Passing
from topic_run import GROUP, PARTITIONS
from topics import AGAIN, LATE

BACK = 50           # messages that a seek goes back by
KEEP = 400          # messages that a trim leaves in each partition
PATIENCE = 60       # seconds for a command
TRIES = 5
LONGER = 1.5        # of its lease, what a group is altered to
REFUSED = 4         # how a member ends that asks for other settings


class Operator:
    """Of the class that is made of this: consumer_url, rig, doors(), rest(),
    cut_off(), producers."""

    def leat(self, *words, done=()):
        """True: it was done.  Whoever gets no answer asks again, and then also
        one of these exit codes says so."""
        self.asked = []         # when, in ns
        for i in range(TRIES):
            self.asked.append(time.monotonic_ns())
            p = self.rig.start([str(BUILD / "leat"), *words, "--url",
                                self.consumer_url, "--yes"],
                               stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            try:
                code = p.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.rig.end(p)
                continue
            if code == 0 or (i > 0 and code in done):
                return True
        say(f"leat {' '.join(words)}: not done")
        return False

    def operate(self, r, *words, done=()):
        """Sometimes the answer to one of the operator's steps is lost."""
        losing = r.random() < 0.5
        if losing:
            self.cut_off()
            for door in self.doors():
                door.order(f"rule dir=up command=EVALSHA:{r.randint(1, 3)} "
                           "after do=cut times=1")
            self.rig.counts["cuts"] += 1
        was = self.leat(*words, done=done)
        if losing:
            for door in self.doors():
                door.order("clear")
        return was

    def insist(self, r, *words, done=()):
        """Until it is done."""
        while not self.operate(r, *words, done=done):
            self.rest(0.1)

    def stop_producer(self, seconds, r):
        """It stands, with what it sent under way."""
        w = r.choice(self.producers)
        w.stop()
        self.rig.counts["pauses"] += 1
        self.rest(2 * seconds)
        w.go_on()


class TopicOperator(Passing, Operator):
    """Besides: ask(), written(), consumer(), notes, settings."""

    def pause_group(self, seconds, r):
        """Nothing is handed out, and nothing of it is lost."""
        self.operate(r, "group", "pause", "orders", GROUP)
        self.rest(seconds)
        self.insist(r, "group", "resume", "orders", GROUP)

    def alter_topic(self, seconds, r):
        """A cap refuses what is sent, honestly, until it is taken away."""
        self.operate(r, "topic", "alter", "orders", "--cap",
                     str(r.choice((100, 1000000))))
        self.rest(seconds)
        self.insist(r, "topic", "alter", "orders", "--cap", "0")

    def set_right(self):
        """What was altered and is lost with a server that was replaced."""
        self.leat("group", "resume", "orders", GROUP)
        self.leat("topic", "alter", "orders", "--cap", "0")
        self.leat("group", "alter", "orders", GROUP, "--lease",
                  f"{self.settings['lease']}ms", "--order",
                  self.settings["order"])

    def alter_group(self, seconds, r):
        """Who lives learns of it and loses nothing; who comes from now on asks
        for it, and may be too early or too late: Run.tick."""
        if self.policies or r.random() < 0.5:
            short = int(self.lease * 1000)
            self.settings["lease"] = \
                int(short * LONGER) if self.settings["lease"] == short \
                else short
        else:
            self.settings["order"] = "key" \
                if self.settings["order"] == "partition" else "partition"
        self.insist(r, "group", "alter", "orders", GROUP, "--lease",
                    f"{self.settings['lease']}ms", "--order",
                    self.settings["order"])
        self.rest(seconds)

    def other_settings(self, _seconds, _r):
        """A member that asks for others is refused, whatever else goes on."""
        w = self.consumer("", lease=7 * self.settings["lease"])
        code = w.ended(PATIENCE)
        if code is None:
            self.rig.end(w.process)
        if code != REFUSED:
            say(f"a member that asks for another lease ended with {code}")
            self.wrong["admitted"] += 1

    def trim_topic(self, _seconds, r):
        """What all have settled goes; what was there is remembered."""
        self.trim(r, KEEP)

    def trim(self, r, keep):
        """From the oldest on, so what is gone is below what is left."""
        before = [dict(self.written(i)) for i in range(PARTITIONS)]
        self.operate(r, "topic", "trim", "orders", "--max-entries", str(keep))
        for i, log in enumerate(before):
            first = next(iter(self.written(i)), None)
            self.seen.setdefault(i, {}).update(
                x for x in log.items() if first and x[0] < first[0])

    def ever_written(self, i):
        """What is in a log, and what was there before it was trimmed."""
        return sorted({**self.seen.get(i, {}), **dict(self.written(i))}.items())

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
        low, high = (tuple(int(x) for x in e[0].split(b"-"))
                     for e in (before[-1], before[-2]))
        self.cut_off()
        self.sought.append((i, low, high))
        waiting = self.waiting(i)
        self.operate(r, "group", "seek", "orders", GROUP, "--partition",
                     str(i), "--to", before[-2][0].decode(), "--force")
        # Read afterwards: what was sent before it was done comes again, too.
        again = [int(text) for position, text in self.written(i)
                 if position >= high]
        for number in again:
            self.agains[number] += len(self.asked)
            for ns in self.asked:
                self.own.of(AGAIN, number, ns)
        # What is put by for a retry comes as well, in any order to those.
        first = min([high, *waiting, *self.waiting(i)])
        for position, text in self.written(i) if self.policies else ():
            if position >= first:
                self.own.of(LATE, int(text))

    def waiting(self, partition):
        """The positions that are put by."""
        key = f"leat:{{orders/{partition}}}:kept:{GROUP}"
        ids = [x for x in self.ask(key, "HKEYS", key) if x[-1:] != b"m"]
        return [tuple(int(n) for n in x.split(b"-")) for x in ids]

    def replay_letters(self, _seconds, r):
        """Those that must die do so again, others have their effect: all of
        them behind what passed them."""
        for number in self.policies.replay_now(self):
            self.own.of(LATE, number)
        self.operate(r, "dlq", "replay", "orders", "--group", GROUP, "--all")


# What is dealt everywhere; policies of a topic add the replay.
CARDS = ("pause_group", "alter_topic", "trim_topic", "seek_back",
         "stop_producer", "alter_group", "other_settings", "join_late",
         "remove_group", "remove_topic")


def cards_of(run, policies):
    """As functions of the class."""
    names = CARDS + (("replay_letters",) if policies else ())
    return tuple(getattr(run, name) for name in names)
