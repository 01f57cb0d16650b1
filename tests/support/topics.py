"""topics.py: the workers of tests/chaos/topic_worker.c, and their ledgers.

A record is that of ledger.h.  The place is a partition, from 1, the fence an
epoch; the detail is an attempt, a leat_code or a leat_assign; of an effect, a
position.
"""

import os
import select
import signal
import struct
import subprocess
import time
from collections import namedtuple

from chaos import program, say, wait_for

(ATTEMPT, ACK, FAIL, UNKNOWN, DELIVERY, EFFECT, SETTLED, OWNER,
 LOSS, STRIKE, END, GONE, AGAIN, LATE, TAKEN) = range(1, 16)
ASSIGNED, REVOKED, LOST = range(3)
OK, STALE = 0, 16           # leat_code
RECORD = struct.Struct("=IIQQQQQQqQ")
Record = namedtuple("Record", "kind key seq id place fence detail ns who")
MAGIC = 0x6c656467


class Notes:
    """What the run itself writes down, for the judge: whom it struck, and what
    its operator did.  A ledger as any other."""

    def __init__(self, directory, role="notes"):
        self.path = directory / f"{role}.{os.getpid()}.ledger"

    def write(self, kind, key=0, seq=0, number=0, fence=0, detail=0, ns=0):
        head = struct.pack("=IIQQQQQQq", MAGIC, kind, key, seq, number, 0,
                           fence, detail, ns or time.monotonic_ns())
        total = 14695981039346656037        # FNV-1a, as in ledger.c
        for byte in head:
            total = (total ^ byte) * 1099511628211 & (1 << 64) - 1
        with open(self.path, "ab") as f:
            f.write(head + struct.pack("=Q", total or 1))

    def strike(self, process, begin, end, lossy=False):
        """Seconds of the monotonic clock; process 0 is all of them.  lossy:
        what was saved meanwhile may be gone."""
        self.write(STRIKE, seq=int(lossy), number=process,
                   fence=max(int(begin * 1e9), 1), detail=int(end * 1e9))

    def of(self, kind, number, ns=0):
        """GONE, AGAIN or LATE: said of a message, from ns on (now)."""
        self.write(kind, number >> 32, number & 0xffffffff, number, ns=ns)


class Ledgers:
    """What the workers wrote down, taken in as it grows."""

    def __init__(self, directory, keep=True, doomed=lambda number: False):
        self.directory = directory
        self.offsets = {}
        self.keep = keep        # the records, not only their sums
        self.doomed = doomed    # such have no effect, and are not missed
        self.records = []
        self.acked, self.effected = {}, {}  # key: a byte for each seq
        self.delivered = {}
        self.missing = 0        # acknowledged, without an effect
        self.counts = [0] * (TAKEN + 1)
        self.kept = {ACK: [], LOSS: []}
        self.twice = 0          # effects beyond the first

    def read(self):
        for path in sorted(self.directory.glob("*.ledger")):
            at = self.offsets.get(path, 0)
            with open(path, "rb") as f:
                f.seek(at)
                data = f.read()
            whole = len(data) - len(data) % RECORD.size
            self.offsets[path] = at + whole
            for r in RECORD.iter_unpack(data[:whole]):
                self.take(Record(*r[1:9], path.stem))
        return self

    @staticmethod
    def mark(table, r):
        """True the first time."""
        seen = table.setdefault(r.key, bytearray())
        if r.seq >= len(seen):
            seen.extend(bytes(r.seq + 1024 - len(seen)))
        first, seen[r.seq] = not seen[r.seq], 1
        return first

    @staticmethod
    def marked(table, r):
        seen = table.get(r.key, b"")
        return r.seq < len(seen) and seen[r.seq]

    def was_acked(self, key, seq):
        seen = self.acked.get(key, b"")
        return bool(seq < len(seen) and seen[seq])

    def seen(self, key, seq):
        """It was handed out."""
        seen = self.delivered.get(key, b"")
        return bool(seq < len(seen) and seen[seq])

    def had_effect(self, key, seq):
        seen = self.effected.get(key, b"")
        return bool(seq < len(seen) and seen[seq])

    def take(self, r):
        if self.keep:
            self.records.append(r)
        self.counts[r.kind] += 1
        if r.kind in self.kept:
            self.kept[r.kind].append(r)
        if r.kind == ACK and self.mark(self.acked, r):
            self.missing += not self.marked(self.effected, r) and \
                not self.doomed(r.id)
        elif r.kind == DELIVERY:
            self.mark(self.delivered, r)
        elif r.kind == EFFECT:
            if self.mark(self.effected, r):
                self.missing -= bool(self.marked(self.acked, r)) and \
                    not self.doomed(r.id)
            else:
                self.twice += 1

    def of(self, kind, who=None):
        """The records of a kind, and of a role, in order of time."""
        return sorted((r for r in self.records if r.kind == kind and
                       (who is None or r.who.startswith(who + "."))),
                      key=lambda r: r.ns)


def unfenced(redis, sought=(), group="billing"):
    """How often, in all that the server ever wrote, a cursor of the group went
    back, and how often a lease was given with an epoch that did not rise.
    sought: partition, from and to of the places where it was sent."""
    def allowed(key, at):
        return any(f"orders/{i}}}".encode() in key and low <= at <= high
                   for i, low, high in sought)
    cursors, epochs, back, fell = {}, {}, 0, 0
    for words in redis.history():
        if words[0].upper() != b"HSET":
            continue
        key, fields = words[1], dict(zip(words[2::2], words[3::2]))
        if not key.startswith(b"leat:{orders/"):
            continue
        if key.endswith(f":cur:{group}".encode()) and b"c" in fields:
            at = tuple(int(x) for x in fields[b"c"].split(b"-"))
            back += at < cursors.get(key, (0, 0)) and not allowed(key, at)
            cursors[key] = at
        if key.endswith(f":lease:{group}".encode()) and b"e" in fields:
            epoch = int(fields[b"e"])
            fell += epoch <= epochs.get(key, 0)
            epochs[key] = epoch
    return back, fell


class Worker:
    """A process of topic_worker.c."""

    program = "chaos/topic_worker"

    def __init__(self, rig, verb, url, ledgers, role, env=None, **options):
        self.rig, self.role = rig, role
        self.led = bool(options.get("led"))
        argv = [program(self.program), verb, url, str(ledgers), role]
        argv += [f"{k}={v}" for k, v in options.items() if v is not None]
        pipe = subprocess.PIPE if self.led else None
        led = {"stdin": pipe, "stdout": pipe} if self.led else {}
        self.process = rig.start(argv, env={**os.environ, **(env or {})},
                                 **led)
        self.text = b""

    @property
    def pid(self):
        return self.process.pid

    def line(self, seconds=60):
        """The next line of its stdout."""
        end = time.monotonic() + seconds
        fd = self.process.stdout.fileno()
        while b"\n" not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError(f"{self.role} says nothing")
            got = os.read(fd, 4096)
            if not got:
                raise EOFError(f"{self.role} is gone")
            self.text += got
        said, self.text = self.text.split(b"\n", 1)
        return said.decode()

    def ready(self):
        assert self.line() == "ready"
        return self

    def stats(self):
        os.write(self.process.stdin.fileno(), b"stats\n")
        return {k: int(v) for k, v in
                (w.split("=") for w in self.line().split()[1:])}

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        self.signal(signal.SIGSTOP)

    def go_on(self):
        self.signal(signal.SIGCONT)

    def is_stopped(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    def await_stop(self, seconds=60):
        """By its own failpoint."""
        wait_for(self.is_stopped, seconds, f"{self.role} stands")

    def kill(self):
        self.rig.kill(self.process)
        self.close_pipes()

    def close_pipes(self):
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def terminate(self):
        self.signal(signal.SIGTERM)

    def ended(self, seconds=60):
        """Its exit code; None: it does not end."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            say(f"{self.role} does not end")
            return None
        self.close_pipes()
        return code

    def alive(self):
        return self.process.poll() is None
