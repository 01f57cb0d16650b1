"""A queue's scripts where the server refuses them.

Every script of a queue that changes something is run on the states of
aof_cuts.py, which gives each its cases: at maxmemory, where commands that need
memory are refused until something was written; and with one of its keys after
the other holding something of another type, as if somebody else had written
there.  A script that fails has changed nothing.  One that goes on has lost and
doubled no message: whatever has a body stands in one place, once.

Usage: queue_refusals.py
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from aof_cuts import CASES, Tap, look_at, scripts, start  # noqa: E402
from chaos import Rig  # noqa: E402
from wire import Refused, Wire  # noqa: E402

# What a script may do though it fails: notice that the clock ran back, and take
# the turn of the reaper.
PASSING = ("clock", "reaper")


class Case:
    """One case of one script, on keys of its own."""

    def __init__(self, w, name, text, case):
        before, self.keys, self.args, *more = case
        self.w, self.name, self.text = w, name, text
        self.all = more[0]
        self.base = self.keys[0][:-len("due")]
        for words in before:
            w.call(*words)

    def run(self):
        """True: it was done; otherwise why it was not."""
        try:
            answer = self.w.call("EVAL", self.text, len(self.keys),
                                 *self.keys, *self.args)
        except Refused as e:
            return str(e)
        bad = [x for x in answer if isinstance(x, Refused)]
        return str(bad[0]) if bad else True

    def state(self):
        """But for counters of 0 and deadlines: what could not be settled may
        come back at once."""
        state = []
        for key, kind, ttl, value in look_at(self.w, self.all):
            if key.endswith(PASSING):
                continue
            if key.endswith(":stat") and value:
                value = {k: v for k, v in value.items() if v != b"0"} or None
            if key.endswith("due") and value:
                value = sorted(value[::2])
            state.append((key, ttl if value else None, value))
        return state

    def fifo(self):
        return self.w.call("HGET", self.base + "o:conf", "fifo") == b"1"

    def places(self):
        """Each id that stands somewhere, as often as it does."""
        w, base, fifo = self.w, self.base, self.fifo()
        entries = w.call("LRANGE", base + "o:dead", 0, -1)
        if not fifo:
            entries += w.call("LRANGE", base + "o:ready", 0, -1)
        for group in ("a", "b"):
            entries += w.call("LRANGE", base + "o:g:" + group, 0, -1)
        due = [x.split(b"/") for x in w.call("ZRANGE", base + "due", 0, -1)]
        found = [x.split(b"/")[-1] for x in entries]
        found += [x[-1 if x[0] == b"d" else -2] for x in due if x[1] == b"o"]
        return sorted(found)

    def strays(self):
        """What has a body and no place, or more than one."""
        there = sorted(self.w.call("HKEYS", self.base + "o:body"))
        found = [x for x in self.places() if x in there]
        return [] if found == there else [found, there]


def at_maxmemory(case):
    before = case.state()
    case.w.call("CONFIG", "SET", "maxmemory", 1)
    how = case.run()
    case.w.call("CONFIG", "SET", "maxmemory", 0)
    return judge(case, before, how)


def judge(case, before, how):
    if how is not True and case.state() != before:
        after = case.state()
        return [f"failed, and changed {x[0]}: {x[2]} to {y[2]}"
                for x, y in zip(before, after) if x != y] + [how]
    strays = case.strays()
    return [f"strays: {strays}"] if strays else []


def put_wrong(w, key):
    """Another type under a key; what was there goes aside."""
    kind = w.call("TYPE", key)
    if kind != "none":
        w.call("RENAME", key, key + "-aside")
    # What the scripts keep as strings they would read as such.
    w.call(*(["RPUSH", key, "wrong"] if kind == "string"
             else ["SET", key, "wrong"]))
    return kind != "none"


def with_wrong(case, key):
    before = case.state()
    aside = put_wrong(case.w, key)
    how = case.run()
    case.w.call("DEL", key)
    if aside:
        case.w.call("RENAME", key + "-aside", key)
    return judge(case, before, how)


def all_cases(w, name, text, prefix):
    """The cases, made anew."""
    for case in CASES[name](f"{prefix}:{name}"):
        yield Case(w, name, text, case)


def wrong_keys(w, name, text):
    """Each case with each of its keys, on keys of its own."""
    kinds = len(next(iter(all_cases(w, name, text, "n"))).all)
    for i in range(kinds):
        for case in all_cases(w, name, text, f"w{i}"):
            yield case, case.all[i]


def main():
    tap, begin, runs = Tap(), time.monotonic(), 0
    texts = scripts()
    with Rig() as rig:
        start(rig, rig.dir / "s", rig.dir)
        w = Wire(rig.dir / "s")
        for name in (x for x in CASES if x.startswith(("queue/", "pool/")) and
                     not x.startswith("queue/owl_")):
            text = texts[name]
            bad = [x for case in all_cases(w, name, text, "m")
                   for x in at_maxmemory(case)]
            tap.say(not bad, f"{name} at maxmemory does all or nothing",
                    "; ".join(bad))
            bad = []
            for case, key in wrong_keys(w, name, text):
                runs += 1
                bad += [f"{key} {case.args}: {x}"
                        for x in with_wrong(case, key)]
            tap.say(not bad, f"{name} loses nothing where a key is wrong",
                    "\n# ".join(bad))
        w.close()
    print(f"# {runs} wrong keys, {time.monotonic() - begin:.1f} s")
    print(f"1..{tap.n}")
    return 1 if tap.bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
