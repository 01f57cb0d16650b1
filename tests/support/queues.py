"""queues.py: the workers of tests/chaos/queue_worker.c, what they wrote down, and
what the server did.

A queue is judged from three sides: by ledger-check as everything else; by the
receipts in the ledgers (Receipts); and, where there is one server that keeps its
log, by every write that it ever did (Audit).
"""

import re

from topics import ACK, ATTEMPT, DELIVERY, EFFECT, OK, SETTLED, Ledgers, Worker
from topologies import crc16

SHARDS = 64
NUMBER = re.compile(rb"n=(\d+);")


class QueueWorker(Worker):
    """A process of queue_worker.c."""

    program = "chaos/queue_worker"


def key_of(queue, what):
    """queue/keys.h: where it is."""
    return f"leat:{{q/{crc16(queue.encode()) % SHARDS}}}:{queue}:{what}"


def shard_key(queue, what):
    return f"leat:{{q/{crc16(queue.encode()) % SHARDS}}}:{what}"


def number_in(value):
    """The message's number, out of its stored form; 0: none."""
    found = NUMBER.search(value or b"")
    return int(found[1]) if found else 0


class State:
    """What the server has of a queue; ask(key, *words) is a run's."""

    def __init__(self, ask, queue, fifo=False):
        def of(what, *words):
            key = key_of(queue, what)
            return ask(key, words[0], key, *words[1:])
        index = shard_key(queue, "due")
        mine = f"/{queue}/".encode()
        members = [m for m in ask(index, "ZRANGE", index, 0, -1)
                   if m[1:1 + len(mine)] == mine]
        self.ready = of("ready", "LRANGE", 0, -1)
        self.groups = {}
        self.flying = [m for m in members if m[:1] in b"vx"]
        self.delayed = [m for m in members if m[:1] == b"d"]
        self.busy = of("busy", "HLEN")
        bodies = of("body", "HGETALL")
        self.bodies = {k: number_in(v) for k, v in
                       zip(bodies[::2], bodies[1::2])}
        self.dead = [e.split(b"/")[-1] for e in of("dead", "LRANGE", 0, -1)]
        self.reasons = of("why", "HKEYS")
        if fifo:
            self.groups = {g: of("g:" + g.decode(), "LLEN")
                           for g in self.ready}

    def idle(self):
        """Nothing is left but dead letters."""
        return not (self.ready or self.flying or self.delayed or self.busy)

    def torn(self):
        """Of an idle queue, what should not be: bodies without a place, places
        without a body, reasons of nothing, groups that are blocked."""
        return len(set(self.bodies) ^ set(self.dead)) + \
            len(set(self.reasons) - set(self.dead)) + \
            (len(self.dead) - len(set(self.dead))) + len(self.ready) + \
            self.busy

    def buried(self):
        """The numbers of the dead letters, each as often as it is there."""
        return [self.bodies.get(i, 0) for i in self.dead]


def receipt_of(r):
    return r.detail >> 16


class Receipts:
    """What the receipts in the ledgers say.

    handed_twice   one receive of a message was handed out twice
    risen          received, by a call that began after it was acknowledged
    doubled        acknowledged under two receipts.  Whoever asks again because
                   an answer was lost is told that a message which is gone is
                   done, so this is a fault only where no answer was lost
    reordered      of a key, acknowledged to the producer: first had its effect
                   after a later one had
    """

    def __init__(self, ledgers, without=()):
        self.handed_twice = self.risen = self.doubled = self.reordered = 0
        self.stale = 0
        self.by_receipts(ledgers)
        self.by_order(ledgers, set(without))

    def by_receipts(self, ledgers):
        seen, done = set(), {}
        for r in ledgers.of(SETTLED):
            if r.detail & 0xffff == OK:
                done.setdefault(r.id, {}).setdefault(receipt_of(r), r.ns)
            else:
                self.stale += 1
        self.doubled = sum(len(x) - 1 for x in done.values())
        for r in ledgers.of(DELIVERY):
            if receipt_of(r) == 0:
                continue
            self.handed_twice += (r.id, receipt_of(r)) in seen
            seen.add((r.id, receipt_of(r)))
            if r.fence and r.id in done:
                self.risen += r.fence > min(done[r.id].values())

    def by_order(self, ledgers, without):
        last, seen = {}, set()
        for r in ledgers.of(EFFECT):
            if r.id in seen or r.id in without or \
                    not ledgers.was_acked(r.key, r.seq):
                continue
            seen.add(r.id)
            self.reordered += r.seq < last.get(r.key, 0)
            last[r.key] = max(r.seq, last.get(r.key, 0))

    def verdict(self):
        return {k: getattr(self, k) for k in
                ("handed_twice", "risen", "doubled", "reordered", "stale")}


class Audit:
    """Every write that a server ever did, looked at script by script.

    sent_twice     a number was stored a second time
    usurped        a body was deleted without removing, in the same script, a
                   receipt of it that was there
    acked_twice    acknowledged a second time
    shared         two receipts of one message were valid at once
    crowded        two of one fifo group were in flight at once
    """

    def __init__(self, history, fifo=False):
        self.fifo = fifo
        self.sent_twice = self.usurped = self.acked_twice = self.crowded = 0
        self.shared = 0
        self.flying = {}        # (key, id): how many receipts are valid
        self.live = {}          # receipt: (id, group)
        self.groups = {}        # group: how many are in flight
        self.stored, self.done = set(), set()
        block = []
        for words in history:
            name = words[0].upper()
            if name == b"MULTI":
                block = []
            elif name == b"EXEC":
                self.script(block)
                block = []
            else:
                block.append(words)
        self.acked = len(self.done)

    def parse(self, member):
        """The id and the group of a receipt."""
        _, queue, _, _, rest = member.split(b"/", 4)
        rest = rest.rsplit(b"/", 1)[0]
        if not self.fifo:
            return rest, None
        n, rest = rest.split(b"/", 1)
        return rest[int(n) + 1:], (queue, rest[:int(n)])

    def script(self, block):
        removed, dropped, counted, acked = set(), [], set(), []
        for words in block:
            name, key = words[0].upper(), words[1]
            if key.endswith(b"}:due"):
                if name == b"ZADD":
                    self.put(words)
                elif name == b"ZREM":
                    removed |= {self.take(key, m) for m in words[2:]
                                if m in self.live}
            elif key.endswith(b":body"):
                if name == b"HSET":
                    for value in words[3::2]:
                        self.store(number_in(value))
                elif name == b"HDEL":
                    dropped += words[2:]
            elif key.endswith(b":stat") and name == b"HINCRBY":
                counted.add(words[2])
        if not counted & {b"expired", b"purged"} and \
                not (counted and counted <= {b"sent"}):
            self.usurped += sum(i not in removed for i in dropped)
        if counted & {b"acked", b"dacked"}:
            acked = dropped
        self.acked_twice += len(set(acked) & self.done)
        self.done |= set(acked)

    def put(self, words):
        flags = [w.upper() for w in words[2:5] if w.upper() in
                 (b"XX", b"NX", b"CH")]
        if b"XX" in flags:
            return
        for m in words[3 + len(flags)::2]:
            if m[:1] in b"vx" and m not in self.live:
                self.live[m] = i, group = self.parse(m)
                self.shared += self.flying.get((words[1], i), 0) > 0
                self.flying[words[1], i] = 1
                if group and m[:1] == b"v":
                    self.groups[group] = self.groups.get(group, 0) + 1
                    self.crowded += self.groups[group] > 1

    def take(self, key, member):
        i, group = self.live.pop(member)
        self.flying.pop((key, i), None)
        if group and member[:1] == b"v":
            self.groups[group] -= 1
        return i

    def store(self, number):
        self.sent_twice += number in self.stored
        self.stored.add(number)

    def verdict(self):
        return {k: getattr(self, k) for k in
                ("sent_twice", "usurped", "acked_twice", "crowded",
                 "shared")}


def doomed_of(ledgers, fates):
    """Which must be among the dead letters, and which may be."""
    ledgers.read()
    must = {r.id for r in ledgers.of(ACK) if fates.doomed(r.id)}
    may = {r.id for r in ledgers.of(ATTEMPT) if fates.doomed(r.id)}
    return must, may


def burials(ledgers, fates, buried, purged=()):
    """What is wrong with these dead letters; the purged need not be there."""
    must, may = doomed_of(ledgers, fates)
    dead = set(buried)
    return {"dead": len(dead), "undead": len(must - dead - set(purged)),
            "innocent": len(dead - may),
            "buried_twice": len(buried) - len(dead)}


__all__ = ["Audit", "Ledgers", "QueueWorker", "Receipts", "State", "burials",
           "key_of", "number_in", "shard_key"]
