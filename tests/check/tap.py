"""tap.py: how a check says what it found (Test Anything Protocol).

A check is an executable script beside this file.  It names its cases, each a
promise about the tree, and lists what breaks it; tests/run.py counts them.
"""

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LEAT_BUILD", ROOT / "build"))


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def case(self, name, ok, detail=()):
        """One case; detail is shown when it fails."""
        self.count += 1
        self.failed += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {name}")
        if not ok:
            for line in detail:
                print(f"# {line}")

    def clean(self, name, problems):
        """A case that holds when the list of problems is empty."""
        self.case(name, not problems, problems)

    def caught(self, name, problems, *words):
        """A self-test: the problems must mention each of the words."""
        missing = [w for w in words if not any(w in p for p in problems)]
        self.case(name, bool(problems) and not missing,
                  [f"not caught: {w}" for w in missing] + list(problems))

    def done(self):
        print(f"1..{self.count}")
        sys.exit(1 if self.failed else 0)


def gone(text, seconds=60):
    """Wait until no process names it: a private server ends by itself, after
    its last user, and writes until then.  False: one is still there."""
    def named(pid):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            return text in line or text in os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return False
    end = time.monotonic() + seconds
    while any(named(p) for p in os.listdir("/proc") if p.isdigit()):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def planted(files):
    """A temporary tree with these files: path -> text."""
    with tempfile.TemporaryDirectory(prefix="leat-check-") as name:
        root = Path(name)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        yield root


def sources(root, *folders, suffixes=(".c", ".h")):
    """The C files of these folders, sorted, as paths."""
    return sorted(p for f in folders for p in (root / f).rglob("*")
                  if p.suffix in suffixes)
