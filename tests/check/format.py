#!/usr/bin/env python3
"""format.py: the C sources are as the formatter would write them."""

import subprocess

from tap import ROOT, Tap, planted, sources

FOLDERS = ("src", "include", "cli", "console", "python", "tests", "bench",
           "examples")


def unformatted(root):
    """Files that clang-format would change; tests/check uses the one version
    whose opinion counts."""
    files = [str(p) for p in sources(root, *FOLDERS)]
    if not files:
        return ["no sources found"]
    p = subprocess.run(["clang-format-14", "--dry-run", "-Werror",
                        f"--style=file:{ROOT / '.clang-format'}", *files],
                       capture_output=True, text=True, check=False)
    if p.returncode == 0:
        return []
    first = [line for line in p.stderr.splitlines() if " error: " in line]
    names = sorted({line.split(":")[0] for line in first})
    return [f"{n}: run ./dev fmt" for n in names] or p.stderr.splitlines()


t = Tap()
with planted({"src/a.c": "int  a ;\n", "src/b.c": "int b;\n"}) as tree:
    found = unformatted(tree)
    t.case("self-test: an unformatted file is caught, and only it",
           len(found) == 1 and "a.c" in found[0], found)
t.clean("every C file is formatted", unformatted(ROOT))
t.done()
