"""chaos.py: what every chaos run needs.

A run is one Python process that starts private processes (a Redis, the proxy,
workers), does them harm by a schedule that follows from its seed alone, heals
everything, and lets ledger-check count.  Whatever happens, its processes end:
each is killed when the run ends or, by the kernel, when it dies.
"""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LEAT_BUILD", ROOT / "build")).resolve()
PR_SET_PDEATHSIG = 1
FAULTS = ("lost", "duplicated", "reordered", "stuck", "unexpected",
          "dishonest")
libc = ctypes.CDLL(None)


def program(path):
    found = BUILD / "tests" / path
    if not found.exists():
        sys.exit(f"{found} is not built")
    return str(found)


def redis_program():
    for name in (os.environ.get("LEAT_REDIS_SERVER"), "redis-server",
                 "valkey-server", "redis-check-rdb"):
        found = name and shutil.which(name)
        if found:
            return found
    sys.exit("no redis-server; set LEAT_REDIS_SERVER")


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(look, seconds, what):
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what}")
        time.sleep(0.002)


class Rig:
    """The processes and the directory of a run."""

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="leat-chaos-", dir="/tmp"))
        self.children = []
        self.bad = False    # then the directory stays, to be looked at
        self.counts = {"kills": 0, "pauses": 0, "cuts": 0}

    def __enter__(self):
        def end(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGTERM, end)
        return self

    def __exit__(self, *_):
        for p in self.children:
            if p.poll() is None:
                p.kill()
        for p in self.children:
            p.wait()
        if self.bad:
            say(f"the ledgers are in {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    @contextlib.contextmanager
    def kept_if_bad(self):
        """What goes wrong here leaves the directory."""
        try:
            yield
        except Exception:
            self.bad = True
            raise

    def start(self, argv, **options):
        p = subprocess.Popen(argv, **{
            "stdin": subprocess.DEVNULL, "preexec_fn": die_with_parent,
            **options})
        self.children.append(p)
        return p

    def end(self, p):
        p.kill()
        p.wait()
        self.children.remove(p)

    def kill(self, p):
        self.end(p)
        self.counts["kills"] += 1

    def pause(self, p, seconds):
        """SIGSTOP for a time."""
        p.send_signal(signal.SIGSTOP)
        self.counts["pauses"] += 1
        time.sleep(seconds)
        p.send_signal(signal.SIGCONT)


class Clock:
    """A wall clock for processes started with its environment: shim_clock."""

    def __init__(self, rig, name="clock"):
        self.path = rig.dir / name
        self.set(0)
        self.env = {**os.environ, "SHIM_CLOCK_FILE": str(self.path),
                    "LD_PRELOAD": program("support/libshim_clock.so")}

    def set(self, seconds):
        """Away from the true time; written in place, since it is mapped."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, int(seconds * 1e9).to_bytes(8, sys.byteorder,
                                                 signed=True))
        os.close(fd)


def history_in(directory):
    """Every write that the server of this directory ever did, in order, as
    lists of bytes: what its append-only file holds.  A script's effects are
    there as commands."""
    for path in sorted(directory.glob("appendonlydir/*.incr.aof"),
                       key=lambda p: int(p.name.split(".")[-3])):
        with open(path, "rb") as f:
            while (head := f.readline()):
                if head[:1] == b"*":
                    yield [f.read(int(f.readline()[1:]) + 2)[:-2]
                           for _ in range(int(head[1:]))]


class Redis:
    """A server that keeps what it acknowledged: appendfsync always."""

    def __init__(self, rig, *config, clock=None):
        self.rig = rig
        self.env = clock.env if clock else None
        self.path = str(rig.dir / "s")
        self.argv = ["redis-server", "--port", "0", "--unixsocket", self.path,
                     "--dir", str(rig.dir), "--save", "", "--appendonly",
                     "yes", "--appendfsync", "always",
                     "--auto-aof-rewrite-percentage", "0", *config]
        self.process = None
        self.start()

    def start(self):
        self.process = self.rig.start(self.argv, executable=redis_program(),
                                      stdout=subprocess.DEVNULL, env=self.env)
        wait_for(lambda: self.ask("PING") == "+PONG", 30, "redis answers")

    def kill(self):
        self.rig.kill(self.process)

    def history(self):
        return history_in(self.rig.dir)

    def ask_all(self, line):
        """An answer that is a list of texts; None stands for nil."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.path)
            s.sendall(line.encode() + b"\r\n")
            f = s.makefile("rb")
            head = f.readline().strip()
            if head[:1] != b"*":
                raise RuntimeError(f"{line}: {head}")
            lengths = (int(f.readline()[1:]) for _ in range(int(head[1:])))
            return [None if n < 0 else f.read(n + 2)[:-2].decode()
                    for n in lengths]

    def ask(self, line):
        """The first line of the answer; "" if there is none."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(5)
                s.connect(self.path)
                s.sendall(line.encode() + b"\r\n")
                return s.makefile().readline().strip()
        except OSError:
            return ""


class Proxy:
    """tests/support/tcpfault, led through its control socket."""

    def __init__(self, rig, target, name="control"):
        control = str(rig.dir / name)
        self.rig = rig
        self.process = rig.start([program("support/tcpfault"), target,
                                  control], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(control)
        self.lines = self.socket.makefile()

    def order(self, line):
        """Returns the lines before "ok"."""
        self.socket.sendall(line.encode() + b"\n")
        answer = []
        while (said := self.lines.readline().strip()) != "ok":
            if not said or said.startswith("error"):
                raise RuntimeError(f"tcpfault: {line}: {said}")
            answer.append(said)
        return answer

    def fired(self):
        return int(self.order("counts")[0].split()[-1])

    def heal(self):
        self.order("door open")
        self.order("clear")
        self.order("release")
        self.order("reset 0")   # those that are half open


def options(description, more=lambda p: None):
    p = argparse.ArgumentParser(description=description)
    more(p)
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--seed", type=int,
                   default=int.from_bytes(os.urandom(4), "little"))
    p.add_argument("--tap", action="store_true",
                   help="say it as a test does")
    return p.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def judge(rig, ledgers, seed, stuck, *flags):
    """The verdict as a dictionary; stuck adds to what the ledgers show."""
    c = rig.counts
    p = subprocess.run(
        [program("support/ledger-check"), *flags, "--kills", str(c["kills"]),
         "--pauses", str(c["pauses"]), "--cuts", str(c["cuts"]), "--seed",
         str(seed), str(ledgers)], stdout=subprocess.PIPE, text=True,
        check=False)
    if p.returncode > 1:
        sys.exit("ledger-check could not judge")
    verdict = json.loads(p.stdout.splitlines()[-1])
    verdict["stuck"] += stuck
    return verdict


def finish(verdict, tap, felt, faults=FAULTS):
    """Tell it and end.  felt: name and whether, of what must have been seen
    for the run to mean anything."""
    bad = [k for k in faults if verdict[k]]
    text = json.dumps(verdict)
    if bad:
        say(f"{', '.join(bad)}: run again with --seed {verdict['seed']}")
    if not tap:
        print(text)
        sys.exit(1 if bad else 0)
    print(f"# {text}")
    cases = [(f"no message is {k}", not verdict[k]) for k in faults] + felt
    for i, (name, ok) in enumerate(cases, 1):
        print(f"{'ok' if ok else 'not ok'} {i} - {name}")
    print(f"1..{len(cases)}")
    sys.exit(0 if all(ok for _, ok in cases) else 1)
