#!/usr/bin/env python3
"""install.py: what is installed can be used by a stranger.

Installs into a temporary DESTDIR and builds a small program against it by
pkg-config alone, with the shared and with the static library; in C++ only the
headers are compiled, if there is a C++ compiler.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tap import BUILD, Tap

CONSUMER = r"""
#include <leat/leat.h>
#include <stdio.h>

int main(void)
{
    return printf("%s\n", leat_version()) < 0;
}
"""


def run(argv, **more):
    p = subprocess.run(argv, capture_output=True, text=True, check=False,
                       **more)
    return p.returncode == 0, p.stdout, (p.stdout + p.stderr).splitlines()


class Installed:
    def __init__(self, tap, folder):
        self.tap = tap
        self.folder = folder
        self.dest = folder / "dest"
        self.source = folder / "consumer.c"
        self.source.write_text(CONSUMER)

    def install(self):
        ok, _, said = run(["meson", "install", "-C", str(BUILD),
                           "--no-rebuild", "--destdir", str(self.dest)])
        self.tap.case("it installs", ok, said)
        found = list(self.dest.rglob("leat.pc"))
        self.tap.case("leat.pc is installed", len(found) == 1, found)
        if not found:
            return False
        self.libraries = found[0].parent.parent
        prefix = next(line.split("=", 1)[1]
                      for line in found[0].read_text().splitlines()
                      if line.startswith("prefix="))
        self.prefix = f"{self.dest}{prefix}"
        self.env = os.environ | {"PKG_CONFIG_PATH": str(found[0].parent)}
        return True

    def pkg_config(self, *options):
        ok, out, said = run(["pkg-config", *options,
                             f"--define-variable=prefix={self.prefix}",
                             "leat"], env=self.env)
        self.tap.case("pkg-config " + " ".join(options) + " answers", ok, said)
        return shlex.split(out)

    def consumer(self, name, flags, env):
        program = self.folder / name
        ok, _, said = run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror",
                           str(self.source), "-o", str(program), *flags])
        self.tap.case(f"a {name} consumer builds", ok, said)
        ok, out, said = run([str(program)], env=env) if ok else \
            (False, "", [])
        self.tap.case(f"a {name} consumer runs", ok and out.strip() != "",
                      said)

    def shared(self):
        flags = self.pkg_config("--cflags", "--libs")
        self.consumer("shared", flags, os.environ | {
            "LD_LIBRARY_PATH": str(self.libraries)})

    def static(self):
        """The linker prefers a shared library, so it sees only the other."""
        flags = self.pkg_config("--static", "--cflags", "--libs")
        only = self.folder / "archives"
        only.mkdir()
        archive = self.libraries / "libleat.a"
        self.tap.case("libleat.a is installed", archive.exists())
        if archive.exists():
            shutil.copy(archive, only)
        self.consumer("static", [f"-L{only}", *flags], os.environ)

    def headers(self):
        folder = self.dest.rglob("leat.h")
        include = [f"-I{p.parent.parent}" for p in folder]
        self.tap.case("leat.h is installed", len(include) == 1, include)
        for header in sorted(Path(include[0][2:], "leat").glob("*.h")):
            line = f"#include <leat/{header.name}>\n"
            ok, _, said = run(["cc", "-std=c11", "-Wall", "-Wextra",
                               "-Wpedantic", "-Werror", "-fsyntax-only",
                               *include, "-xc", "-"], input=line)
            self.tap.case(f"<leat/{header.name}> compiles alone", ok, said)
        if shutil.which("clang++-14"):
            ok, _, said = run(["clang++-14", "-Wall", "-Werror", "-fsyntax-only",
                               *include, "-xc++", "-"],
                              input="#include <leat/leat.h>\n")
            self.tap.case("<leat/leat.h> is C++ too", ok, said)


t = Tap()
with tempfile.TemporaryDirectory(prefix="leat-install-") as scratch:
    it = Installed(t, Path(scratch))
    if it.install():
        it.shared()
        it.static()
        it.headers()
t.done()
