"""topic_policies.py: messages that fail, in a run of topic_run.py.

What happens to a message follows from its number alone, as in topic_worker.c:
of a thousand some are poison and always fail, some are flaky and fail fewer
times than they may, some are rejected, some kill the process that handles them.
Such a process is started again at once, under its name if it had one.  The
order is none, key or partition by the seed.

A second group, of one member that nobody harms, never fails.  A third producer
sends with delays, which keep no order but that of the log.

In the end the dead letters are exactly the poison, the rejected and those that
kill, each once, with its reason, its attempts, and the very fields that the log
has.  All others had their effect, in the order of the log where there is one.
The second group saw everything, and has no dead letters.

Then the dead letters are replayed, by a command that is killed in the middle and
run again, to handlers that now succeed: each has its effect once.
"""

import contextlib
import shutil
import signal
from collections import Counter

from chaos import BUILD, judge, say, wait_for
from topics import DELIVERY, EFFECT, Ledgers, Worker
from wire import Refused

LEAT = "leat:{orders/%d}:%s"
RATE = 60           # messages a second, of each producer
LATER = 600         # the keys of those that are delayed
LAST = 1000         # the keys of the last round
LONG = 120          # seconds for what must happen
PLAIN, POISON, FLAKY, REJECTED, CRASHER = range(5)
HEAD = ("g", "i", "n", "f", "fm", "lm", "fe", "le", "e", "r", "x", "u", "c")
BAD = ("undead", "unseen", "innocent", "buried_twice", "mislabelled", "unlike",
       "told_lost", "told_reordered", "told_stuck", "told_repeated",
       "told_buried", "unreplayed", "replayed_twice")


class Fates:
    def __init__(self, poison=10, flaky=30, reject=5, crash=5, most=5):
        self.most = most
        self.shares = ((poison, POISON), (flaky, FLAKY), (reject, REJECTED),
                       (crash, CRASHER))
        self.options = {"poison": poison, "flaky": flaky, "reject": reject,
                        "crash": crash, "max": most}
        self.final = False

    def of(self, number):
        n = ((number * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 40) % 1000
        for share, fate in self.shares:
            if n < share:
                return fate
            n -= share
        return PLAIN

    def times(self, number):
        """How often a flaky one fails."""
        luck = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        return 1 + (luck >> 20 & 0xfffff) % max(self.most - 1, 1)

    def doomed(self, number):
        """It becomes a dead letter; nothing of the last round does."""
        return number >> 32 < LAST and \
            self.of(number) in (POISON, REJECTED, CRASHER)

    def over(self):
        """From now on every handler succeeds."""
        self.options = {"max": self.most}


class Dead:
    """A dead letter, as it is in the stream."""

    def __init__(self, partition, at, fields):
        self.partition, self.at = partition, at.decode()
        self.head = {n: fields[2 * i + 1].decode(errors="replace")
                     for i, n in enumerate(HEAD)}
        names = tuple(f.decode() for f in fields[:2 * len(HEAD):2])
        self.whole = names == HEAD
        self.fields = fields[2 * len(HEAD):]
        self.number = int(self.value(b"b") or 0)

    def value(self, name):
        pairs = dict(zip(self.fields[::2], self.fields[1::2]))
        return pairs.get(name)

    def __getattr__(self, name):
        return self.head[name]


def dead_letters(run, partitions, group):
    """Of one group; what is needed of a run is ask()."""
    for i in range(partitions):
        key = LEAT % (i, "dlq")
        for at, fields in run.ask(key, "XRANGE", key, "-", "+"):
            letter = Dead(i, at, fields)
            if letter.g == group:
                yield letter


def why_wrong(letter, fates, replays):
    """What its head lacks, or None.  replays: there were some before."""
    fate, n, f = fates.of(letter.number), int(letter.n), int(letter.f)
    key = f"key-{letter.number >> 32}".encode()
    if not letter.whole or 2 * int(letter.c) != len(letter.fields):
        return "fields"
    if letter.value(b"k") != key:
        return "key"
    if not letter.le or not letter.fe:
        return "reason"
    if letter.r and not replays:
        return "replay"
    if fate == POISON and letter.le != f"no {letter.number}":
        return "reason of poison"
    if fate == REJECTED and letter.le != f"never {letter.number}":
        return "reason of a rejection"
    if fate in (POISON, CRASHER) and n < fates.most:
        return "attempts"
    if not 0 <= f <= n or (fate == POISON and f < 1):
        return "failures"
    # The clock may have gone back between them.
    if int(letter.fm) < 1 or int(letter.lm) < 1 or int(letter.e) < 1:
        return "times"
    return None


def left_in(run, partitions, group):
    """Partitions with something that the group has not settled, and why."""
    found = {}
    for i in range(partitions):
        log, cursor, kept, due, lane = (LEAT % (i, k) for k in (
            "log", f"cur:{group}", f"kept:{group}", f"due:{group}",
            f"lane:{group}"))
        tail = run.ask(log, "XREVRANGE", log, "+", "-", "COUNT", 1)
        at = run.ask(cursor, "HGET", cursor, "c")
        state = (run.ask(kept, "HLEN", kept), run.ask(due, "ZCARD", due),
                 run.ask(lane, "ZCARD", lane))
        if any(state) or (tail and tail[0][0] != at):
            found[i] = (at, tail and tail[0][0], *state)
    return found


class Policies:
    def __init__(self, seed, group, partitions, short):
        self.group, self.partitions = group, partitions
        self.rate = 2 * RATE if short else RATE
        self.order = ("none", "key", "partition")[seed % 3]
        self.fates = Fates(most=3 + seed // 3 % 3)
        self.crashes = 0
        self.letters = []
        self.dead = {}      # number: letter
        self.replays = 0    # while the run went on
        self.second = self.other = None

    def options(self):
        """Of a consumer."""
        return {**self.fates.options, "delay": 20, "most_delay": 200}

    def begin(self, run):
        where = run.rig.dir / "second"
        where.mkdir()
        self.other = Ledgers(where, keep=False)
        self.second = Worker(
            run.rig, "consume", run.consumer_url, where, "second",
            group="second", partitions=self.partitions, name="second",
            durability=run.durability, replicas=run.replicas,
            lease=int(run.lease * 1000), in_flight=64, threads=2)
        run.producers.append(run.worker(
            "produce", run.producer_url, "producer-later", key=LATER, keys=16,
            rate=self.rate // 5, republish=run.republish, later=1500))

    @staticmethod
    def in_order(key):
        """Its messages are in the log as they were sent."""
        return not LATER <= key < LAST

    def revive(self, run, w):
        """Who died of what he handled comes back.  False: he did not."""
        if w not in run.consumers or w.process.poll() != -signal.SIGKILL:
            return False
        self.crashes += 1
        run.died(w)
        run.forget(w)
        run.consumers.append(run.consumer(w.name))
        return True

    # ---- is all done? -----------------------------------------------------

    def ripe(self, run):
        """Nothing is delayed any more."""
        keys = [LEAT % (i, "later") for i in range(self.partitions)]
        return not any(run.ask(k, "ZCARD", k) for k in keys)

    def drained(self, run):
        try:
            return self.ripe(run) and not left_in(run, self.partitions, self.group) and \
                not left_in(run, self.partitions, "second")
        except (OSError, Refused):
            return False

    def progress(self, run):
        """What changes as long as anything is done."""
        return (run.ledgers.read().counts[:], self.crashes)

    def complain(self, run):
        if not self.ripe(run):
            say("some are delayed still")
        for group in (self.group, "second"):
            for i, state in left_in(run, self.partitions,
                                    group).items():
                say(f"{group}, partition {i}: cursor, end, kept, due, lanes: "
                    f"{state}")

    # ---- judging ----------------------------------------------------------

    def read_letters(self, run):
        self.letters = list(dead_letters(run, self.partitions, self.group))
        self.dead = {x.number: x for x in self.letters}

    def unlike(self, run, letter):
        """Not what the log has under its id, in its own partition, or had
        before it was trimmed."""
        key = LEAT % (letter.partition, "log")
        found = run.ask(key, "XRANGE", key, letter.i, letter.i)
        if found:
            return found[0][1] != letter.fields
        at = tuple(int(x) for x in letter.i.split("-"))
        return run.seen.get(letter.partition, {}).get(at) != str(letter.number)

    def sort_innocent(self, run):
        """Who is killed from outside while he tries one that others had when
        they died looks like one who dies of it: struck, and no fault."""
        dead = [n for n in self.dead if not self.fates.doomed(n)]
        last = {}
        for r in Ledgers(run.dir).read().of(DELIVERY) if dead else ():
            if r.id in dead and r.ns > last.get(r.id, (0, ""))[0]:
                last[r.id] = r.ns, r.who
        struck = [n for n in dead if last.get(n, (0, ""))[1] in run.killed]
        return struck, [n for n in dead if n not in struck]

    def replay_now(self, run):
        """The numbers of what is dead, which is about to be replayed."""
        self.replays += 1
        return {x.number for x in dead_letters(run, self.partitions,
                                               self.group)}

    def replayed(self):
        """Of what is dead in the end, what was replayed before."""
        return {x.number for x in self.letters if x.r}

    def judge(self, run, verdict):
        """Once all is drained, before the last replay.  What a seek brought
        back may have become a dead letter as often."""
        in_logs = {int(text) for i in range(self.partitions)
                   for _, text in run.ever_written(i)}
        times = Counter(x.number for x in self.letters)
        doomed = {n for n in in_logs if self.fates.doomed(n)}
        wrong = [(x, why) for x in self.letters
                 if (why := why_wrong(x, self.fates, self.replays))]
        unlike = [x for x in self.letters if self.unlike(run, x)]
        struck, innocent = self.sort_innocent(run)
        verdict.update(
            order=self.order, crashes=self.crashes, dead=len(self.dead),
            doomed=len(doomed), undead=len(doomed - set(self.dead)),
            innocent=len(innocent), struck=len(struck),
            mislabelled=len(wrong),
            buried_twice=sum(max(n - 1 - run.agains[x], 0)
                             for x, n in times.items()),
            unlike=len(unlike))
        verdict["unseen"] = sum(
            not run.ledgers.seen(n >> 32, n & 0xffffffff) for n in self.dead)
        self.show(wrong, unlike, innocent, doomed - set(self.dead))
        self.judge_second(run, verdict)

    def felt(self, verdict):
        return [("messages of every fate became dead letters",
                 {self.fates.of(n) for n in self.dead} >=
                 {POISON, REJECTED, CRASHER}),
                ("processes died of what they handled",
                 verdict["crashes"] > 0)]

    def show(self, wrong, unlike, innocent, undead):
        for letter, why in wrong[:5]:
            say(f"{why}: {letter.number} {letter.head}")
        for letter in unlike[:5]:
            say(f"not as in the log: partition {letter.partition} "
                f"{letter.head} {letter.fields}")
        for n in innocent[:5]:
            say(f"innocent: {n} {self.dead[n].head}")
        for n in list(undead)[:5]:
            say(f"no dead letter: {n >> 32}/{n & 0xffffffff}")

    def judge_second(self, run, verdict):
        self.second.terminate()
        run.through([self.second], "the second group")
        for who in ("producer", "last", "notes"):
            for path in run.dir.glob(f"{who}*.ledger"):
                shutil.copy(path, self.other.directory)
        told = judge(run.rig, self.other.directory, 0, 0)
        verdict.update(
            told_lost=told["lost"], told_stuck=told["stuck"],
            told_reordered=told["reordered"], told_repeated=told["repeated"],
            told_buried=len(list(dead_letters(run, self.partitions,
                                              "second"))))

    # ---- replaying --------------------------------------------------------

    def command(self, run, *more):
        return run.rig.start([str(BUILD / "leat"), "dlq", "replay", "orders",
                              "--url", run.consumer_url, "--group",
                              self.group, "--all", "--yes", *more])

    def replay(self, run, verdict):
        """All of them, to handlers that succeed."""
        run.step("replaying")
        before = run.ledgers, run.dir
        run.ledgers = Ledgers(run.rig.dir / "replay")
        run.dir = run.ledgers.directory
        run.dir.mkdir()
        self.replay_all(run, verdict)
        run.ledgers, run.dir = before

    def replay_all(self, run, verdict):
        members = [run.consumer(), run.consumer()]
        rate = max(len(self.dead) // 2, 1)
        killed = self.command(run, "--rate", str(rate))
        wait_for(lambda: run.ledgers.read().of(EFFECT) or
                 killed.poll() is not None, LONG, "some are replayed")
        run.rig.kill(killed)
        code = self.command(run).wait(LONG)
        if len(self.letters) > len(self.dead):  # one of each at a time
            with contextlib.suppress(TimeoutError):
                wait_for(lambda: self.all_replayed(run), LONG, "the first are")
            if any(dead_letters(run, self.partitions, self.group)):
                code = self.command(run).wait(LONG)
        try:
            wait_for(lambda: self.all_replayed(run), LONG, "all are replayed")
        except TimeoutError:
            self.complain(run)
        seen = [r.id for r in run.ledgers.of(EFFECT)]
        again = [r for r in run.ledgers.of(DELIVERY) if r.detail != 1]
        left = list(dead_letters(run, self.partitions, self.group))
        verdict.update(replayed=len(set(seen)),
                       unreplayed=len(set(self.dead) ^ set(seen)) + len(left)
                       + (code != 0),
                       replayed_twice=max(len(seen) - len(self.letters), 0) +
                       len(again))
        for w in members:
            w.terminate()
        run.through(members, "who saw the replay")

    def all_replayed(self, run):
        seen = {r.id for r in run.ledgers.read().of(EFFECT)}
        return seen >= set(self.dead) and \
            not left_in(run, self.partitions, self.group)
