"""losses.py: was every loss noticed, and none imagined?

A producer's process writes down the position of each message that was
acknowledged, and each loss that the library tells it of: a partition, the first
and the last position that is missing.  The run knows when it did something that
may lose messages.  The logs, read when all is over, are the truth.

    gone        acknowledged, and in no log
    told        acknowledged, and inside a loss that was told afterwards
    undetected  gone, and not told
    imagined    told, and still there, at its very place
    misdated    gone, though acknowledged when nothing was done that could be
                why
    miscounted  losses whose number is not that of the messages inside
"""

import bisect
import time
from collections import defaultdict

from topics import ACK, LOSS


class Losses:
    WINDOW = 2.0    # seconds before a fault that it may still reach

    def __init__(self, ledgers):
        self.ledgers = ledgers
        self.windows = []       # when messages may have been lost
        self.failovers = 0      # seen by then
        self.logs = {}          # partition: position: body

    def begin(self, failovers):
        """Something is done now that may lose messages.  As unasked()."""
        before = self.unasked(failovers)
        self.windows.append([time.monotonic() - self.WINDOW, None])
        return before

    def over(self, failovers):
        """True: a server was replaced meanwhile."""
        self.windows[-1][1] = time.monotonic()
        replaced = failovers != self.failovers
        self.failovers = failovers
        return replaced

    def unasked(self, failovers):
        """A busy machine may make servers miss each other: if there were more
        failovers than at the end of the last window, there was another.  Its
        window, or None."""
        if failovers == self.failovers:
            return None
        self.windows.append([self.windows[-1][1] if self.windows else 0,
                             time.monotonic()])
        self.failovers = failovers
        return self.windows[-1]

    def read(self, run, partitions):
        self.logs = {i: dict(run.ever_written(i)) for i in range(partitions)}

    @property
    def bodies(self):
        return {b for log in self.logs.values() for b in log.values()}

    def gone(self):
        there = self.bodies
        return [r for r in self.ledgers.read().kept[ACK]
                if str(r.id) not in there]

    def excused(self, r):
        at = r.ns / 1e9
        return any(a <= at and (b is None or at <= b)
                   for a, b in self.windows)

    def told(self):
        """The acknowledged that a loss speaks of; and how many losses speak
        of another number."""
        mine = defaultdict(list)
        for r in self.ledgers.kept[ACK]:
            mine[r.who, r.detail & 0xffff].append(
                ((r.fence, r.detail >> 16), r))
        for acks in mine.values():
            acks.sort(key=lambda x: x[0])
        found, miscounted = {}, 0
        for loss in self.ledgers.kept[LOSS]:
            acks = mine[loss.who, loss.detail & 0xffff]
            low = bisect.bisect_left(acks, (loss.key, loss.seq),
                                     key=lambda x: x[0])
            high = bisect.bisect_right(acks, (loss.id, loss.fence),
                                       key=lambda x: x[0])
            inside = [r for _, r in acks[low:high] if r.ns <= loss.ns]
            count = loss.detail >> 16
            miscounted += count > 0 and count != len(inside)
            found.update({r.id: r for r in inside})
        return found, miscounted

    def judge(self, verdict):
        gone = self.gone()
        told, miscounted = self.told()
        # One that was delayed had no position, and none to be found missing.
        undetected = [r for r in gone if r.id not in told and r.fence]
        imagined = [r for r in told.values() if self.logs[
            (r.detail & 0xffff) - 1].get((r.fence, r.detail >> 16)) ==
            str(r.id)]
        misdated = [r for r in gone if not self.excused(r)]
        verdict.update(gone=len(gone), told=len(told),
                       undetected=len(undetected), imagined=len(imagined),
                       misdated=len(misdated), miscounted=miscounted)
        return {"undetected": undetected, "imagined": imagined,
                "misdated": misdated}
