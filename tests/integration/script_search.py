"""A long queue is looked through for what stands nowhere, while it is used.

Between two calls of repair.lua messages are sent, received, acknowledged, given
back, put off, buried and redriven.  At the end whatever has a body stands in one
place, once: all that stood nowhere was found, and nothing else was taken for
that.

Usage: script_search.py [seed]
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from script_cases import LANE  # noqa: E402
from script_cases_queue import entry, queue_case, shard  # noqa: E402
from script_most import in_lots, numbered  # noqa: E402
from script_most_queue import with_bodies  # noqa: E402
from script_rig import Case, Queue, alone, run, scripts  # noqa: E402

ENTRIES, STRAYS, GROUPS, CALLS = 9000, 40, 300, 300


def queue_of(fifo):
    base, made, keys = shard("q", fifo=fifo, receives=3, hide=5)
    names = [f"{i % GROUPS:04}" for i in numbered(ENTRIES)]
    lists = [["RPUSH", f"{base}o:g:{names[i - 1]}",
              f"0/1700000000000/4/{names[i - 1]}/id{i}"]
             for i in numbered(ENTRIES)] if fifo else []
    ready = sorted(set(names)) if fifo else [entry(i)
                                             for i in numbered(ENTRIES)]
    return queue_case(base, [
        *made, *with_bodies(base, ENTRIES + STRAYS),
        ["SADD", base + "queues", "o"], *lists,
        *in_lots(["RPUSH", base + "o:ready"], ready)], keys, "0")


class User:
    """Somebody who uses the queue, by chance but for the seed."""

    def __init__(self, w, texts, due, fifo, seed):
        self.w, self.texts, self.due, self.fifo = w, texts, due, fifo
        self.chance, self.number, self.held = random.Random(seed), 0, []

    def call(self, name, *args):
        return self.w.call("EVAL", self.texts[name], 1, self.due, *args)

    def lane(self):
        self.number += 1
        return "o", LANE, self.number, "0"

    def some(self):
        n = self.chance.randrange(1, 30)
        got, self.held = self.held[:n], self.held[n:]
        return got

    def receive(self):
        got = self.call("queue/take", *self.lane(), 50, 60000, 0, 0)
        self.held += got[2::2] if got[0] == 0 else []

    def settle(self):
        got = self.some()
        ids = [x.split(b"/")[-2] for x in got]
        groups = [x.split(b"/")[-3] for x in got] if self.fifo else []
        if got:
            self.call("queue/ack", "o", "0", "0", self.fifo, 0, *got, *ids,
                      *groups)

    def change(self, how, ms=0):
        got = self.some()
        if got:
            self.call("queue/change", *self.lane(), self.fifo, how, ms, "",
                      *got)

    def redrive(self):
        self.call("queue/redrive", *self.lane(), 20, 1)

    def expire(self):
        self.call("queue/expire", 400, "0", "", 0, "1")

    def send(self):
        name = f"new{self.number}"
        self.call("queue/send_each", *self.lane(), self.fifo, "0", name,
                  "body", "0001" if self.fifo else "", "", 0, 0)

    def step(self):
        self.chance.choice((
            self.receive, self.receive, self.settle, self.redrive, self.expire,
            self.send, lambda: self.change("back"),
            lambda: self.change("bury"), lambda: self.change("free"),
            lambda: self.change("fail", 1),
            lambda: self.change("back" if self.fifo else "late", 1)))()


def wrong(w, texts, fifo, seed):
    case = Case(w, "queue/repair", texts["queue/repair"], queue_of(fifo))
    user = User(w, texts, case.keys[0], fifo, seed)
    lost, calls, restored = case.keys[0][:-3] + "lost", 0, 0
    while calls == 0 or w.call("EXISTS", lost) and calls < CALLS:
        restored += user.call("queue/repair", "0")[0]
        calls += 1
        for _ in range(20):
            user.step()
    strays = Queue(case).strays()
    return calls, [f"restored {restored}"] * (restored != STRAYS) + \
        [f"{len(x)} stand and are" for x in strays] + \
        w.call("KEYS", "*lost*") + ["at once"] * (calls < 2)


def main(rig, tap):
    seed = int(sys.argv[1]) if sys.argv[1:] else 1
    texts = scripts()
    with alone(rig) as w:
        for fifo, name in ((0, "a queue"), (1, "a queue of groups")):
            calls, bad = wrong(w, texts, fifo, seed)
            tap.say(not bad, f"what stands nowhere in {name} that is long and "
                    "used is found, and nothing else", "; ".join(
                        [f"{calls} calls", *map(str, bad)]))


if __name__ == "__main__":
    sys.exit(run(main))
