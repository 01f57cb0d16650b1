"""What the tests of the command work with: a user, a server, and a way to run.

A test is a function whose name is the promise; TAP on stdout.
Usage of the programs: NAME.py PATH_TO_LEAT [PATTERN]
"""

import contextlib
import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from wire import command  # noqa: E402

LEAT = os.path.abspath(sys.argv[1])
PATTERN = sys.argv[2] if len(sys.argv) > 2 else ""
SECONDS = 30    # for what must come about, however busy the machine


class Home:
    """A user of their own: home, configuration, state, temporary files."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="leat-cli-")
        self.config = os.path.join(self.dir, "config/leat/config.toml")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LEAT_", "XDG_", "CLICOLOR", "NO_COLOR"))
               or k == "LEAT_REDIS_SERVER"}
        env.update(HOME=self.dir, TERM="xterm", TZ="UTC", LC_ALL="C.UTF-8",
                   TMPDIR=self.tmp,
                   XDG_CONFIG_HOME=os.path.join(self.dir, "config"),
                   XDG_CONFIG_DIRS=os.path.join(self.dir, "etc"),
                   XDG_STATE_HOME=os.path.join(self.dir, "state"))
        env.update(more)
        return env

    def run(self, *args, stdin=None, env=None, timeout=60, **kw):
        p = subprocess.run([LEAT, *args], input=stdin, capture_output=True,
                           env=self.env(**(env or {})), timeout=timeout, **kw)
        p.out = p.stdout.decode("utf-8", "surrogateescape")
        p.err = p.stderr.decode("utf-8", "surrogateescape")
        return p

    def write_config(self, text, mode=0o600):
        os.makedirs(os.path.dirname(self.config), exist_ok=True)
        with open(self.config, "w") as f:
            f.write(text)
        os.chmod(self.config, mode)

    def close(self):
        self.run("down")
        shutil.rmtree(self.dir, ignore_errors=True)


class Server:
    """A private redis-server on a Unix socket."""

    def __init__(self, home, *options):
        binary = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        assert binary, "install redis-tools"
        self.dir = tempfile.mkdtemp(prefix="leat-srv-")
        self.socket = os.path.join(self.dir, "s")
        self.url = "unix://" + self.socket
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket,
             "--dir", self.dir, "--save", "", *options],
            executable=binary, stdout=subprocess.DEVNULL)
        wait_for(self.answers)

    def answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.socket)
                s.sendall(b"PING\r\n")
                return s.recv(64) != b""
        except OSError:
            return False

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


class Redis(Server):
    """The server, and commands from the side."""

    def call(self, *words):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(SECONDS)
            s.connect(self.socket)
            s.sendall(command(words))
            return self.reply(s.makefile("rb"))

    def reply(self, f):
        line = f.readline()
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-":
            return line[:-2].decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else f.read(int(rest) + 2)[:-2]
        return [self.reply(f) for _ in range(int(rest))]


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def on_terminal(home, *args, env=None, seconds=60):
    """Run with stdout and stderr on a terminal; what it showed, and the
    exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(LEAT, [LEAT, *args], home.env(**(env or {})))
    text, end = b"", time.monotonic() + seconds
    while time.monotonic() < end:
        ready, _, _ = select.select([fd], [], [], 0.1)
        if not ready:
            continue
        try:
            got = os.read(fd, 65536)
        except OSError:
            break
        if not got:
            break
        text += got
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    return text.decode("utf-8", "replace"), os.waitstatus_to_exitcode(status)


def equal(a, b):
    assert a == b, f"{a!r} is not {b!r}"


def exits(p, code):
    assert p.returncode == code, \
        f"exit {p.returncode}, not {code}: {p.args[1:]}: {p.out} {p.err}"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- running ------------------------------------------------------------

def told(e, path):
    """Where in this file it went wrong, and how."""
    lines = [str(x.lineno) for x in traceback.extract_tb(e.__traceback__)
             if x.filename == path]
    text = str(e).replace("\n", "\n# ")
    return f"# line {', '.join(lines)}: {type(e).__name__}: {text}"


def tests(module, words):
    """Its functions of just these parameters."""
    def is_test(f):
        code = getattr(f, "__code__", None)
        return code and f.__module__ == module.__name__ and \
            code.co_varnames[:code.co_argcount] == words
    return [f for name, f in vars(module).items()
            if is_test(f) and PATTERN in name]


def run(name, words, begin, *more):
    """Call each test of a module with what begin() makes, which is closed
    after it, and more; the exit code."""
    module, bad = sys.modules[name], 0
    found = tests(module, words)
    # A job of a script starts with SIGINT ignored, and so would leat.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"1..{len(found)}")
    for i, test in enumerate(found, 1):
        try:
            with contextlib.closing(begin()) as made:
                test(made, *more)
            print(f"ok {i} {test.__name__}")
        except Exception as e:  # each test reports its own failure
            bad += 1
            print(f"not ok {i} {test.__name__}\n{told(e, module.__file__)}")
        sys.stdout.flush()
    return 1 if bad else 0
