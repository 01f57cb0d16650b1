#!/usr/bin/env python3
# run: full
"""cppcheck.py: cppcheck finds nothing in what we ship."""

import subprocess

from tap import ROOT, Tap, planted

FOLDERS = ("src", "cli", "bench", "examples")


def findings(root, folders):
    p = subprocess.run(
        ["cppcheck", "--quiet", "--enable=warning,performance,portability",
         "--inline-suppr", "--error-exitcode=1", "--std=c11", "-j2",
         "--suppress=missingIncludeSystem", "-D__GNUC__=12", "-D_GNU_SOURCE",
         "-DLEAT_FEATURES=\"\"",
         f"-I{root / 'include'}", f"-I{root / 'src'}",
         "--template={file}:{line}: {id}: {message}",
         *[str(root / f) for f in folders if (root / f).is_dir()]],
        capture_output=True, text=True, check=False)
    if p.returncode == 0:
        return []
    return (p.stdout + p.stderr).splitlines() or ["cppcheck failed"]


t = Tap()
with planted({"src/a.c": "int f(void)\n{\n    int a[2];\n    a[0] = 1;\n"
              "    return a[2];\n}\n"}) as tree:
    t.caught("self-test: a read past the end is caught",
             findings(tree, ["src"]), "arrayIndexOutOfBounds")
t.clean("cppcheck finds nothing", findings(ROOT, FOLDERS))
t.done()
