#!/usr/bin/env python3
"""docs_run.py: every shell block of README.md and docs/*.md works as written.

A block is indented by four blanks or fenced.  What it is, its form says: C, a
URL, what a program printed, a setting, ... (FORMS), or lines for a shell.  Of
those each line is run, on a private server and in a directory of the page's own,
and must end well; a page is one story, told in order.  A block of no form is a
failure.  One that cannot run here says why, in the text before it:

    <!-- not run: it needs a server with TLS -->

Questions are answered with yes.  A line that would run for ever (tail -f, a worker) is stopped by SIGINT once it
printed something or ran its program.  A block that begins with `$ ` is a
capture: its commands are run on a terminal, and print the columns that the page
shows.

docs_run.py --captures PAGE...   print the captures of these pages, made anew
docs_run.py PAGE...              only these pages
"""

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tap import BUILD, ROOT, Tap, planted

SECONDS = 30    # for what must come about, however busy the machine
AT_ONCE = 4     # pages
NOT_RUN = re.compile(r"<!-- not run: (.*?) *-->")

# What a block is that is no shell, by its first line.
FORMS = [
    ("C", re.compile(r"leat_\w+[ (]")),
    ("a URL", re.compile(r"[a-z+]+://")),
    ("what a program says", re.compile(r"\w+: |[a-z]+ '[^']+' ")),
    ("commands of Redis", re.compile(r"[A-Z]+ [A-Z]+ ")),
    ("rules of an ACL", re.compile(r"[-+~&]@?\w")),
    ("settings of Redis", re.compile(r"[a-z]+(-[a-z]+)+ +\S+$")),
    ("a tree", re.compile(r"[\w/]+/ {2,}\w")),
    ("a program", re.compile(r"#!/")),
]
FENCES = {"c": "C", "sh": "shell"}

# Programs that the pages assume.
PROGRAMS = ["bill", "count", "mail", "move", "resize", "work"]
PROGRAM = '#!/bin/sh\ncat >/dev/null\necho x >>"$DOCS_RAN"\n'

# What is there when a page begins, besides what it makes itself.
ORDERS = """
leat topic create orders --partitions 4
seq 20 | sed 's/.*/customer-&,order &/' | leat topic send orders -K ,
leat consume orders -g billing -n 4 --order key --max-attempts 8 \\
    --backoff exponential:500ms..5m -- sh -c 'echo timeout >&2; exit 65'
"""
MAILS = """
leat queue create mails --max-receives 3
seq 40 | leat queue send mails
seq 5 | leat queue send mails --delay 1h
leat queue receive mails -n 1 -- sh -c 'echo no such address >&2; exit 65'
leat queue receive mails -n 7 --ack
leat queue receive mails -n 2
"""
WORLDS = {"docs/dead-letters.md": ORDERS, "docs/operate.md": ORDERS,
          "docs/queues.md": MAILS, "docs/retries.md": ORDERS}

# Of values that only a server knows the pages have examples: a dead letter, and
# the id of a group.
LETTER = re.compile(r"\b\d+:\d{4,}-\d+\b")
IDENTITY = re.compile(r"(?<=--id )[0-9a-f]{16}\b")

# Lines that end only by a signal.
FOREVER = [re.compile(x) for x in (
    r"leat (topic|stream) tail .*(-f|--follow)\b", r"--watch\b",
    r"leat (stream )?consume (?!.*(-n|--count|--until-idle)\b)",
    r"leat queue (receive (?=.*--exec)|pool )(?!.*(-n|-w|--max|--wait|--until-idle)\b)",
)]


# ---- blocks ---------------------------------------------------------------

class Block:
    def __init__(self, page, line, lines, fence, reason):
        self.page, self.line, self.lines = page, line, lines
        self.fence, self.reason = fence, reason

    def where(self):
        return f"{self.page}:{self.line}"

    def form(self):
        """Its form; None: it has none."""
        first = self.lines[0]
        if self.fence:
            return FENCES.get(self.fence)
        if first.startswith("$ "):
            return "capture"
        for name, pattern in FORMS:
            if pattern.match(first):
                return name
        word = first.split()[0]
        known = word == "leat" or word.startswith("./") or shutil.which(word)
        return "shell" if known else None

    def commands(self):
        """Its lines, with those that end with a backslash joined."""
        text = "\n".join(self.lines).replace("\\\n", " ")
        return [x for x in text.split("\n") if x.strip()
                and not x.lstrip().startswith("#")]

    def captures(self):
        """The commands behind `$ `, each with the lines that follow it."""
        found = []
        for x in self.lines:
            if x.startswith("$ "):
                found.append((x[2:], []))
            else:
                found[-1][1].append(x)
        return found


def blocks(page, text):
    """The blocks of a page, in order."""
    lines, found, reason, i = text.split("\n"), [], None, 0
    while i < len(lines):
        start = i
        fence = re.match(r"```(\w*)$", lines[i])
        inside = []
        if fence:
            i += 1
            while i < len(lines) and lines[i] != "```":
                inside.append(lines[i])
                i += 1
            i += 1
        else:
            while i < len(lines) and (lines[i].startswith("    ") or (
                    inside and lines[i] == "" and i + 1 < len(lines)
                    and lines[i + 1].startswith("    "))):
                inside.append(lines[i][4:])
                i += 1
        if inside:
            found.append(Block(page, start + 1, inside,
                               fence and fence[1], reason))
        said = None if inside else NOT_RUN.match(lines[i])
        if inside or lines[i] != "":
            reason = said and said[1]
        if not inside:
            i += 1
    return found


# ---- a place to run -------------------------------------------------------

class Place:
    """A directory with programs, and a private server."""

    def __init__(self):
        self.url = ""
        self.dir = Path(tempfile.mkdtemp(prefix="leat-docs-"))
        self.socket = self.dir / "s"
        binary = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        assert binary, "install redis-tools"
        self.server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(self.socket),
             "--dir", str(self.dir), "--save", "", "--appendonly", "yes"],
            executable=binary, stdout=subprocess.DEVNULL)
        (self.dir / "bin").mkdir()
        (self.dir / "bin/leat").symlink_to(BUILD / "leat")
        self.ran = self.dir / "ran"
        self.wait(self.answers, "the server")

    def answers(self):
        try:
            return self.call("PING") != b""
        except OSError:
            return False

    def call(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.socket))
            s.sendall(command.encode() + b"\r\n")
            return s.recv(64)

    def wait(self, condition, what):
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.02)

    def begin(self, page):
        """An empty server and a directory of the page's own."""
        self.call("FLUSHALL")
        sync = "always" if page == "docs/durability.md" else "everysec"
        self.call(f"CONFIG SET appendfsync {sync}")
        self.url = f"unix://{self.socket}"
        self.cwd = self.dir / page.replace("/", "-")
        self.cwd.mkdir()
        for name in PROGRAMS:
            (self.cwd / name).write_text(PROGRAM)
            (self.cwd / name).chmod(0o700)

    def env(self):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LEAT_", "XDG_", "CLICOLOR", "NO_COLOR"))
               or k == "LEAT_REDIS_SERVER"}
        home = str(self.dir)
        if self.url:
            env["LEAT_URL"] = self.url
        return env | {"HOME": home, "XDG_CONFIG_HOME": home + "/config",
                      "XDG_STATE_HOME": home + "/state", "TMPDIR": home,
                      "PATH": home + "/bin:" + env["PATH"], "TERM": "xterm",
                      "TZ": "UTC", "LC_ALL": "C.UTF-8", "LEAT_YES": "true",
                      "DOCS_RAN": str(self.ran)}

    def real(self, line):
        """The line, with values of this server for the page's examples."""
        def ask(*words):
            p = subprocess.run([BUILD / "leat", *words], env=self.env(),
                               capture_output=True, text=True, timeout=SECONDS)
            return p.stdout.strip()
        if LETTER.search(line):
            letters = ask("dlq", "ls", "orders", "--columns", "id",
                          "--no-headers").split()
            line = LETTER.sub(letters[0] if letters else "none", line)
        if IDENTITY.search(line):
            line = IDENTITY.sub(ask("group", "info", "orders", "billing",
                                    "--columns", "id", "--no-headers"), line)
        return line

    def run(self, line):
        """Why the line did not work; None: it did."""
        forever = any(x.search(line.split("  #")[0]) for x in FOREVER)
        if line.startswith("leat up"):
            self.url = None    # from here on its own
        self.ran.unlink(missing_ok=True)
        out = self.dir / "out"
        with open(out, "wb") as f:
            p = subprocess.Popen(["sh", "-c", "exec 2>&1\n" + self.real(line)],
                                 stdin=subprocess.DEVNULL, stdout=f,
                                 stderr=subprocess.STDOUT, env=self.env(),
                                 cwd=self.cwd, start_new_session=True)
        try:
            if forever:
                self.wait(lambda: p.poll() is not None or self.ran.exists()
                          or out.stat().st_size > 0, line)
                if p.poll() is None:
                    os.killpg(p.pid, signal.SIGINT)
            code = p.wait(SECONDS)
        except (AssertionError, subprocess.TimeoutExpired):
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            return "it does not end"
        if code == 0 or (forever and code in (130, -signal.SIGINT)):
            return None
        said = out.read_text(errors="replace").strip().split("\n")[-2:]
        return f"exit {code}: {' '.join(said)}"

    def show(self, line):
        """What it shows on a terminal of 100 columns."""
        pid, fd = pty.fork()
        if pid == 0:
            os.chdir(self.cwd)
            os.execvpe("sh", ["sh", "-c", "stty cols 100 rows 30; exec "
                              + self.real(line)],
                       self.env() | {"NO_COLOR": "1"})
        watched = any(x.search(line) for x in FOREVER)
        text, end = "", time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([fd], [], [], 0.2)[0]:
                try:
                    text += os.read(fd, 65536).decode("utf-8", "replace")
                except OSError:
                    break
            elif watched and text.count("\n") > 2:
                os.kill(pid, signal.SIGINT)
                watched = False
        os.close(fd)
        os.waitpid(pid, 0)
        frames = text.replace("\r", "").split("\x1b[H\x1b[J")
        frame = frames[1] if len(frames) > 1 else frames[0]
        return [x.rstrip() for x in re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "",
                                           frame).strip("\n").split("\n")]

    def end(self):
        """No server of `leat up` is left."""
        if self.url is None:
            subprocess.run([BUILD / "leat", "down"], env=self.env(),
                           check=False, capture_output=True, timeout=SECONDS)
            shutil.rmtree(self.dir / "state", ignore_errors=True)

    def close(self):
        self.end()
        self.server.terminate()
        self.server.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


# ---- pages ----------------------------------------------------------------

def heading(lines):
    """The words of a table's heading, or of a record's first column."""
    rows = [x.split() for x in lines if x.strip()]
    table = [r for r in rows if len(r) > 2 and all(
        re.fullmatch(r"[A-Z_]+|[a-z_]+", w) for w in r)]
    return table[0] if table else [r[0] for r in rows]


def run_capture(place, block):
    problems = []
    for line, shown in block.captures():
        want, got = heading(shown), heading(place.show(line))
        if want != got:
            problems += [f"{block.where()}: {line}", f"shows {' '.join(got)}",
                         f"and the page has {' '.join(want)}"]
    return problems


def run_block(place, block):
    form = block.form()
    if form is None:
        return [f"{block.where()}: of no form: {block.lines[0]}"]
    mixed = [x for x in block.lines[1:] if x.startswith("leat ")]
    if form not in ("shell", "capture") and mixed:
        return [f"{block.where()}: {form}, and a command: {mixed[0]}"]
    if block.reason:
        return []
    if form == "capture":
        return run_capture(place, block)
    if form == "a program":
        p = subprocess.run(["sh", "-n"], input="\n".join(block.lines),
                           capture_output=True, text=True, check=False)
        return [f"{block.where()}: {p.stderr}"] if p.returncode else []
    problems = []
    for line in block.commands() if form == "shell" else []:
        why = place.run(line)
        if why:
            problems.append(f"{block.where()}: {line}: {why}")
    return problems


def prepare(place, page, world):
    place.begin(page)
    return [f"{page}: its world: {line}: {why}"
            for line in world.strip().replace("\\\n", "").split("\n") if line
            for why in [place.run(line)] if why]


def run_page(place, root, page):
    problems = prepare(place, page, WORLDS.get(page, ""))
    for block in blocks(page, (root / page).read_text()):
        problems += run_block(place, block)
    place.end()
    return problems


def run_alone(page):
    """The page on a server of its own: pages mostly wait."""
    with contextlib.closing(Place()) as place:
        return run_page(place, ROOT, page)


def pages(root):
    return [str(p.relative_to(root)) for p in
            [root / "README.md", *sorted(root.glob("docs/*.md"))]]


def unused_reasons(root):
    """A reason that stands before no block would hide the next one."""
    return [f"{page}: {said}" for page in pages(root)
            for said in NOT_RUN.findall((root / page).read_text())
            if said not in [b.reason for b in blocks(
                page, (root / page).read_text())] or not said]


def self_test(tap, place):
    def problems(text):
        with planted({"README.md": text, "docs/x.md": ""}) as root:
            shutil.rmtree(place.dir / "README.md", ignore_errors=True)
            return run_page(place, root, "README.md") + unused_reasons(root)
    tap.clean("self-test: what works passes, and what is marked is not run",
              problems("text\n\n    leat topic create a   # a topic\n"
                       "    seq 3 | leat topic send \\\n        a\n"
                       "    leat topic tail a -f\n"
                       "    leat consume a -g g --exec ./work\n\n"
                       "<!-- not run: there is no b -->\n\n    leat topic info b\n\n"
                       "```c\nint x;\n```\n\n    redis://a\n"))
    tap.caught("self-test: a command that fails is caught",
               problems("    leat topic create a\n    leat topic info b\n"),
               "leat topic info b: exit 1: leat: no topic 'b'")
    tap.caught("self-test: in a fenced block, too",
               problems("```sh\nleat topics mend a\n```\n"), "mend")
    tap.caught("self-test: a block of no form is caught",
               problems("a\n\n    frobnicate the topic\n"), "of no form")
    tap.caught("self-test: a command among other things is caught",
               problems("    redis://a\n    leat topic ls\n"),
               "a URL, and a command")
    tap.caught("self-test: a fence of no form is caught",
               problems("```perl\ndie\n```\n"), "of no form")
    tap.caught("self-test: a reason without a block is caught",
               problems("<!-- not run: it is dangerous -->\n\ntext\n"),
               "dangerous")
    tap.caught("self-test: a capture of other columns is caught",
               problems("    $ leat topic ls\n    name  size  groups\n"),
               "the page has name size groups")


def print_captures(place, root, names):
    for page in names:
        prepare(place, page, WORLDS.get(page, ""))
        for block in blocks(page, (root / page).read_text()):
            if block.form() != "capture" or block.reason:
                run_block(place, block)
                continue
            for line, _ in block.captures():
                print("\n".join(f"    {x}".rstrip() for x in
                                ["$ " + line, *place.show(line)]) + "\n")


def main():
    names = [x for x in sys.argv[1:] if not x.startswith("-")]
    if "--captures" in sys.argv:
        with contextlib.closing(Place()) as place:
            print_captures(place, ROOT, names)
        return
    tap = Tap()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        asked = {page: threads.submit(run_alone, page)
                 for page in names or pages(ROOT)}
        if not names:
            with contextlib.closing(Place()) as place:
                self_test(tap, place)
            tap.clean("every reason stands before a block",
                      unused_reasons(ROOT))
        for page, problems in asked.items():
            tap.clean(f"every shell block of {page} works", problems.result())
    tap.done()


main()
