#!/usr/bin/env python3
# run: full
# timeout: 2400
"""tidy.py: clang-tidy finds nothing in src/, cli/ and include/.

It is slow, so a clean file is remembered by the hash of everything that could
change the verdict: the file, the headers it includes, the command that
compiles it, .clang-tidy and the tool.  Only clean files are remembered.
"""

import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
from pathlib import Path

from tap import BUILD, ROOT, Tap, planted

CONFIG = ROOT / ".clang-tidy"
CACHE = BUILD / "tidy-cache"
COMMANDS = ROOT / "build-asan/compile_commands.json"
# One, beside the tests: it takes about as long as all of them together.
JOBS = int(os.environ.get("LEAT_JOBS", 1))
FILE_SECONDS = 900
# A fifth of the analyzer's usual states: it is done in a third of the time.
# LEAT_LONG=1 gives it all of them.
BOUND = () if os.environ.get("LEAT_LONG") == "1" else (
    "-Xclang", "-analyzer-config", "-Xclang", "max-nodes=45000")


def shipped(path):
    return path.is_relative_to(ROOT / "src") or \
        path.is_relative_to(ROOT / "cli")


def entries():
    """One compile command for each shipped file."""
    found = {}
    for e in json.loads(COMMANDS.read_text()):
        path = Path(e["directory"], e["file"]).resolve()
        if shipped(path):
            found.setdefault(path, e)
    return sorted(found.items())


def flags(entry):
    """The command without its compiler, output and dependency file."""
    words = shlex.split(entry["command"])
    words = words[2 if Path(words[0]).name == "ccache" else 1:]
    kept, skip = [], 0
    for w in words:
        if skip:
            skip -= 1
        elif w in ("-o", "-MQ", "-MF", "-c"):
            skip = 1
        elif w != "-MD":
            kept.append(w)
    return kept


def inputs(path, entry):
    """The file and the headers of this tree that it includes."""
    p = subprocess.run(["clang-14", "-MM", *flags(entry), str(path)],
                       cwd=entry["directory"], capture_output=True, text=True,
                       check=False)
    names = p.stdout.replace("\\\n", " ").split()[1:]
    return sorted({Path(entry["directory"], n).resolve() for n in names})


def key(path, entry, version):
    h = hashlib.sha256()
    for part in (version, CONFIG.read_text(),
                 " ".join([*flags(entry), *BOUND])):
        h.update(part.encode() + b"\0")
    for p in inputs(path, entry) or [path]:
        h.update(str(p).encode() + b"\0" + p.read_bytes() + b"\0")
    return h.hexdigest()


def tidy(path, arguments, directory):
    """What clang-tidy says of one file; empty when it is content."""
    try:
        p = subprocess.run(
            ["clang-tidy-14", "--quiet", f"--config-file={CONFIG}", str(path),
             "--", *arguments, *BOUND], cwd=directory, capture_output=True, text=True,
            timeout=FILE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return [f"clang-tidy gave no answer in {FILE_SECONDS} s"]
    if p.returncode == 0:
        return []
    return p.stdout.splitlines() or p.stderr.splitlines() or ["it failed"]


def judge(path, entry, version):
    mark = CACHE / key(path, entry, version)
    if mark.exists():
        mark.touch()
        return []
    found = tidy(path, flags(entry), entry["directory"])
    if not found:
        mark.touch()
    return found


def forget_old(keep=2000):
    """The cache is a set of empty files; drop the longest unused."""
    marks = sorted(CACHE.iterdir(), key=lambda p: -p.stat().st_mtime)
    for mark in marks[keep:]:
        mark.unlink()


t = Tap()
with planted({"a.c": "int f(int *p)\n{\n    if (!p)\n        return *p;\n"
              "    return 0;\n}\n"}) as tree:
    t.caught("self-test: a null pointer that is followed is caught",
             tidy(tree / "a.c", ["-std=c11"], tree), "NullDereference")
CACHE.mkdir(parents=True, exist_ok=True)
tool = subprocess.run(["clang-tidy-14", "--version"], capture_output=True,
                      text=True, check=True).stdout
work = entries() if COMMANDS.exists() else []
t.case("there are sources to look at", bool(work),
       [f"{COMMANDS} is missing: run ./dev test without --no-sanitizers"])
with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
    verdicts = pool.map(lambda w: (w[0], judge(*w, tool)), work)
    for source, problems in verdicts:
        t.clean(f"clang-tidy is content with {source.relative_to(ROOT)}",
                problems)
forget_old()
t.done()
