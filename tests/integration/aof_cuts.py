"""A server that dies while it writes down what a script did.

Each script of src/*/lua that changes something is run once or more on a real
server that keeps an append-only file.  The file is then cut at the bytes of the
script's effects, as a kill or a power cut leaves it, a server loads it, and
what it has is looked at: the state from before the script or the one from after
it, never one between.  With all bytes the state is that from before at every
cut but the last.

Usage: aof_cuts.py [--all]

By default some five hundred cuts spread over all effects, so that each script
gets its share, with LEAT_LONG=1 a larger one; --all: every byte.
"""

import os
import shutil
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from script_rig import CASES, look_at, run, scripts, start  # noqa: E402
from wire import Refused, Wire  # noqa: E402

CUTS = 480          # loads of a short run, in all
LONG_CUTS = 2000
READ_ONLY = {"admin/pending", "pool/look", "queue/owl_peek",
             "queue/owl_stats", "redis/probe", "topic/alive", "topic/count",
             "topic/lanes", "topic/sample", "topic/there",
             "topic/verify"}


class Loader:
    """Servers that load a cut file, one after the other."""

    def __init__(self, rig, whole):
        self.rig = rig
        self.socket = rig.dir / "load"
        self.dir = rig.dir / "cut"
        shutil.copytree(whole, self.dir / "appendonlydir")
        self.file = next((self.dir / "appendonlydir").glob("*.incr.aof"))
        self.bytes = self.file.read_bytes()
        self.loads = 0

    def load(self, size, keys):
        """What a server has that finds the first `size` bytes."""
        self.file.write_bytes(self.bytes[:size])
        self.loads += 1
        p = start(self.rig, self.socket, self.dir)
        with Wire(self.socket) as w:
            state = look_at(w, keys)
        p.kill()
        p.wait()
        self.rig.children.remove(p)
        self.socket.unlink(missing_ok=True)
        return state


class Effect:
    """What one run of a script wrote, and where."""

    def __init__(self, name, keys, begin, end, live):
        self.name, self.keys = name, keys
        self.begin, self.end = begin, end
        self.live = live


class Recorder:
    """The server on which all of it happens once."""

    def __init__(self, rig):
        self.dir = rig.dir / "whole"
        self.dir.mkdir()
        self.process = start(rig, rig.dir / "s", self.dir)
        self.wire = Wire(rig.dir / "s")
        self.file = next((self.dir / "appendonlydir").glob("*.incr.aof"))

    def run(self, name, commands):
        """Commands whose effects are looked at as one.  A command is answered
        when it is written, if not synced."""
        keys, act = commands
        begin = self.file.stat().st_size
        act(self.wire)
        return Effect(name, keys, begin, self.file.stat().st_size,
                      look_at(self.wire, keys))


def record_all(rec, texts):
    """Every case of every script."""
    effects = []
    for name, make_cases in CASES.items():
        for before, keys, args, *more in make_cases(name.replace("/", ":")):
            for words in before if isinstance(before, (list, tuple)) else \
                    list(before):
                rec.wire.call(*words)
            effects.append(rec.run(
                name, (more[0] if more else keys, lambda w: w.call(
                    "EVAL", texts[name], len(keys), *keys, *args))))
    return effects


def cuts_of(effect, every):
    """Where to cut: always at both ends and next to them."""
    ends = {effect.begin, effect.begin + 1, effect.end - 1, effect.end}
    return sorted(ends | set(range(effect.begin, effect.end, every)))


def lasting(state, should):
    """Without what should be there for a time that is over by now."""
    now = time.time() * 1000
    over = {key for key, _, till, _ in should if 0 < till < now}
    return [x for x in state if x[0] not in over]


def between(loader, effect, every):
    """The cuts that leave neither the state before nor the one after."""
    before = loader.load(effect.begin, effect.keys)
    bad = []
    for size in cuts_of(effect, every):
        state = loader.load(size, effect.keys)
        should = effect.live if size == effect.end else before
        if lasting(state, should) != lasting(should, should):
            bad.append(size - effect.begin)
    return bad, before


# ---- the checks -----------------------------------------------------------

def two_commands(w):
    w.call("HSET", "plain", "a", 1)
    w.call("HSET", "plain", "b", 2)


def check(rig, tap, every_byte):
    texts = scripts()
    left = sorted(set(texts) - READ_ONLY ^ set(CASES))
    tap.say(not left, "every script that changes something has a case",
            f"without a case, or without a script: {left}" if left else "")
    rec = Recorder(rig)
    plain = rec.run("two commands", (["plain"], two_commands))
    effects = record_all(rec, {n: texts[n] for n in texts if n in CASES})
    rec.wire.close()
    rec.process.kill()
    rec.process.wait()
    loader = Loader(rig, rec.dir / "appendonlydir")
    tap.say(bool(between(loader, plain, 1)[0]),
            "a state between two commands is seen as one")
    total = sum(e.end - e.begin for e in effects)
    cuts = LONG_CUTS if os.environ.get("LEAT_LONG") == "1" else CUTS
    every = 1 if every_byte else max(total // cuts, 1)
    for name in CASES:
        judge_script(tap, loader, name,
                     [e for e in effects if e.name == name], every)
    print(f"# {loader.loads} loads of {total} bytes of effects")


def judge_script(tap, loader, name, effects, every):
    bad, idle_cases, size = [], 0, 0
    for e in effects:
        cut, before = between(loader, e, every)
        bad += cut
        idle_cases += before == e.live
        size += e.end - e.begin
    tap.say(not bad and not idle_cases,
            f"{name} is done wholly or not at all",
            f"{size} bytes" + (f", between at {bad}" if bad else "") +
            (", a case changes nothing" if idle_cases else ""))


def main(rig, tap):
    try:
        check(rig, tap, "--all" in sys.argv[1:])
    except (OSError, Refused, RuntimeError, TimeoutError) as e:
        tap.say(False, "the run came to its end", f"{type(e)}: {e}")


if __name__ == "__main__":
    sys.exit(run(main))
