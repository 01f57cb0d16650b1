"""Scripts of src/*/lua on a server of their own, for tests of them all."""

import contextlib
import re
import subprocess
import time

import script_cases
import script_cases_queue
from chaos import ROOT, Rig, redis_program, wait_for
from wire import Refused, Wire, answers

CASES = {**script_cases.CASES, **script_cases_queue.CASES}


LUA = {f"{x.parts[-3]}/{x.stem}": x.read_text()
       for x in sorted((ROOT / "src").glob("*/lua/*.lua"))}
INCLUDE = re.compile(r'^--#include "(\w+/\w+)\.lua"\n', re.M)


def expand(text):
    return INCLUDE.sub(lambda m: expand(LUA[m[1]]), text)


def scripts():
    """Their names and texts, as the library has them; what is only included
    by others is none."""
    included = {name for text in LUA.values() for name in INCLUDE.findall(text)}
    return {name: expand(text) for name, text in LUA.items()
            if name not in included}


# ---- what a server has ----------------------------------------------------

def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def look_at_stream(w, key):
    groups, many = [], w.call("XINFO", "GROUPS", key)
    if len(many) > 100:  # then not at their consumers
        return w.call("XRANGE", key, "-", "+"), many
    for g in map(pairs, many):
        name = g[b"name"]
        groups.append((
            name, g[b"last-delivered-id"],
            [(p[0], p[1], p[3]) for p in
             w.call("XPENDING", key, name, "-", "+", 1000)],
            sorted((c[b"name"], c[b"pending"]) for c in
                   map(pairs, w.call("XINFO", "CONSUMERS", key, name)))))
    return w.call("XRANGE", key, "-", "+"), groups


def look_at(w, keys):
    """All there is to see of these keys; idle times pass, and are left out."""
    state = []
    for key in keys:
        kind = w.call("TYPE", key)
        value = None
        if kind == "hash":
            value = pairs(w.call("HGETALL", key))
        elif kind == "list":
            value = w.call("LRANGE", key, 0, -1)
        elif kind == "set":
            value = sorted(w.call("SMEMBERS", key))
        elif kind == "zset":
            value = w.call("ZRANGE", key, 0, -1, "WITHSCORES")
        elif kind == "string":
            value = w.call("GET", key)
        elif kind == "stream":
            value = look_at_stream(w, key)
        elif kind != "none":
            raise RuntimeError(f"{key}: cannot look at a {kind}")
        state.append((key, kind, w.call("PEXPIRETIME", key), value))
    return state


def start(rig, path, directory):
    p = rig.start(["redis-server", "--port", "0", "--unixsocket", str(path),
                   "--dir", str(directory), "--save", "", "--appendonly",
                   "yes", "--appendfsync", "no", "--databases", "1",
                   "--auto-aof-rewrite-percentage", "0"],
                  executable=redis_program(), stdout=subprocess.DEVNULL)
    wait_for(lambda: answers(path, "PING") == "PONG" or p.poll() is not None,
             60, "redis answers")
    if p.poll() is not None:
        raise RuntimeError(f"redis ended with {p.returncode}")
    return p


# ---- one case, alone ------------------------------------------------------

class Case:
    """One case of one script, alone on the server."""

    # What a script may do though it fails: notice that the clock ran back, and
    # take the turn of the reaper.
    PASSING = (":clock", ":reaper")

    def __init__(self, w, name, text, case):
        before, self.keys, self.args, *more = case
        self.w, self.name, self.text = w, name, text
        self.all = more[0] if more else self.keys
        w.call("FLUSHALL")
        for words in before:
            w.call(*words)

    def run(self, w=None):
        """True: it was done; otherwise why it was not."""
        try:
            answer = (w or self.w).call("EVAL", self.text, len(self.keys),
                                        *self.keys, *self.args)
        except Refused as e:
            return str(e)
        bad = [x for x in answer if isinstance(x, Refused)] \
            if isinstance(answer, list) else []
        return str(bad[0]) if bad else True

    def state(self):
        """All keys, but for counters of 0, times to live and deadlines: what
        could not be settled may come back at once."""
        state = {}
        for key, kind, _, value in look_at(
                self.w, sorted(self.w.call("KEYS", "*"))):
            key = key.decode()
            if key.endswith(self.PASSING):
                continue
            if key.endswith(":stat"):
                value = {k: v for k, v in value.items() if v != b"0"}
            if key.endswith(":due"):
                value = sorted(value[::2])
            if value:
                state[key] = (kind, value)
        return state


class Queue:
    """What a case of a queue has, and where."""

    def __init__(self, case):
        self.w, self.base = case.w, case.keys[0][:-len("due")]

    def places(self):
        """Each id that stands somewhere, as often as it does."""
        w, base = self.w, self.base
        entries = w.call("LRANGE", base + "o:dead", 0, -1)
        if w.call("HGET", base + "o:conf", "fifo") != b"1":
            entries += w.call("LRANGE", base + "o:ready", 0, -1)
        for group in w.call("KEYS", base + "o:g:*"):
            entries += w.call("LRANGE", group, 0, -1)
        due = [x.split(b"/") for x in w.call("ZRANGE", base + "due", 0, -1)]
        found = [x.split(b"/")[-1] for x in entries]
        found += [x[-1 if x[0] == b"d" else -2] for x in due
                  if x[1:2] == [b"o"] and len(x) > 3]
        return sorted(found)

    def strays(self):
        """What has a body and no place, or more than one."""
        there = sorted(self.w.call("HKEYS", self.base + "o:body"))
        found = [x for x in self.places() if x in there]
        return [] if found == there else [found, there]


# ---- a run ----------------------------------------------------------------

class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def say(self, ok, name, note=""):
        self.n += 1
        self.bad += not ok
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name}", flush=True)
        if note:
            print(f"# {note}")


@contextlib.contextmanager
def alone(rig):
    """A connection to a server that keeps nothing."""
    start(rig, rig.dir / "s", rig.dir)
    with Wire(rig.dir / "s") as w:
        w.call("CONFIG", "SET", "appendonly", "no")
        yield w


def run(check):
    """check(rig, tap) with what it needs; what the program is to exit with."""
    tap, begin = Tap(), time.monotonic()
    try:
        with Rig() as rig:
            check(rig, tap)
    except KeyboardInterrupt:
        return 130
    print(f"# {time.monotonic() - begin:.1f} s")
    print(f"1..{tap.n}")
    return 1 if tap.bad else 0
