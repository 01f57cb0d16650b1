#!/usr/bin/env python3
# run: full
# timeout: 900
"""prefix.py: leat works from a prefix of its own, as a user without root has.

Builds and installs under a temporary prefix; the command there finds its
library by itself.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from tap import ROOT, Tap, gone


def run(*argv):
    env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True,
                       check=False, env=env)
    return p.returncode == 0, (p.stdout + p.stderr).splitlines()


t = Tap()
with tempfile.TemporaryDirectory(prefix="leat-prefix-") as scratch:
    build, prefix = Path(scratch, "build"), Path(scratch, "its own")
    ok, said = run("meson", "setup", "--wrap-mode=nodownload", build, ROOT,
                   f"--prefix={prefix}", "-Dtests=false", "-Doptimization=0")
    t.case("a private prefix can be set up", ok, said)
    ok, said = run("meson", "install", "-C", build) if ok else (False, [])
    t.case("it installs there", ok, said[-20:])
    ok, said = run(prefix / "bin/leat", "--version")
    t.case("the command finds its library", ok and "leat" in said[0], said)
    ok, said = run(prefix / "bin/leat", "--url", f"embedded://{scratch}/redis",
                   "topic", "create", "orders")
    t.case("and works", ok, said)
    t.case("its server has ended", gone(f"{scratch}/redis"))
t.done()
