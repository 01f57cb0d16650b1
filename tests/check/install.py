#!/usr/bin/env python3
"""install.py: what is installed can be used by a stranger.

Installs into a temporary DESTDIR and builds small programs against it by
pkg-config alone: in C with the shared and with the static library, in C++ one
that sends and receives.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tap import BUILD, Tap, gone

CONSUMER = r"""
#include <leat/leat.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    if (strcmp(LEAT_VERSION, leat_version()) != 0 ||
        LEAT_VERSION_NUMBER != leat_version_number())
        return 1;
    return printf("%s\n", leat_version()) < 0;
}
"""

CPP = r"""
#include <leat/leat.h>
#include <cstdio>
#include <string>

static int fail(const char *what, const leat_error &e)
{
    std::printf("%s: %s\n", what, e.msg);
    return 1;
}

int main(int, char **argv)
{
    leat_error e = {};
    leat_client *c = leat_client_open(argv[1], nullptr, &e);
    if (!c)
        return fail("open", e);
    std::string key = "greeting", text = "hello";
    leat_reply *r = nullptr;
    if (leat_client_call(c, LEAT_ARGS(leat_str("SET"), leat_str(key.c_str()),
                                      leat_mem(text.data(), text.size())),
                         nullptr, nullptr, &e) != LEAT_OK ||
        leat_client_call(c, LEAT_ARGS(leat_str("GET"), leat_str(key.c_str())),
                         nullptr, &r, &e) != LEAT_OK)
        return fail("call", e);
    bool same = leat_bytes_eq(leat_reply_bytes(r), leat_str("hello"));
    leat_reply_free(r);

    leat_queue *q = leat_queue_open(c, "orders", nullptr, &e);
    leat_msg m = {};
    m.body = leat_str("hello");
    if (!q || leat_queue_send(q, &m, nullptr, nullptr, &e) != LEAT_OK)
        return fail("send", e);
    leat_receive_opts o = {};
    o.wait_ms = 30000;
    leat_queue_batch *b = leat_queue_receive(q, &o, &e);
    if (!b || leat_queue_batch_count(b) != 1)
        return fail("receive", e);
    const leat_queue_item *it = leat_queue_batch_at(b, 0);
    same = same && leat_bytes_eq(it->msg.body, leat_str("hello"));
    if (leat_queue_ack(q, it->receipt, &e) != LEAT_OK)
        return fail("ack", e);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_client_close(c);
    std::puts(same ? "received" : "another");
    return same ? 0 : 1;
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
        version = self.pkg_config("--modversion")
        self.tap.case(f"a {name} consumer runs, and says pkg-config's version",
                      ok and [out.strip()] == version, said + version)

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
            self.cpp_header(header.name, "g++", include)
        self.cpp_header("leat.h", "clang++-14", include)

    def cpp_header(self, name, compiler, include):
        ok, _, said = run([compiler, "-std=c++17", "-Wall", "-Wextra",
                           "-Wpedantic", "-Werror", "-fsyntax-only",
                           *include, "-xc++", "-"],
                          input=f"#include <leat/{name}>\n")
        self.tap.case(f"<leat/{name}> is C++ to {compiler}", ok, said)

    def cpp(self):
        flags = self.pkg_config("--cflags", "--libs")
        source, program = self.folder / "consumer.cpp", self.folder / "cpp"
        source.write_text(CPP)
        ok, _, said = run(["g++", "-std=c++17", "-O2", "-Wall", "-Wextra",
                           "-Wpedantic", "-Werror", str(source), "-o",
                           str(program), *flags])
        self.tap.case("a C++ consumer builds", ok, said)
        ok, out, said = run([str(program), f"embedded://{self.folder}/redis"],
                            env=os.environ | {
                                "LD_LIBRARY_PATH": str(self.libraries)},
                            ) if ok else (False, "", [])
        self.tap.case("a C++ consumer sends and receives",
                      ok and out.strip() == "received", said)
        self.tap.case("its server has ended", gone(f"{self.folder}/redis"))


t = Tap()
with tempfile.TemporaryDirectory(prefix="leat-install-") as scratch:
    it = Installed(t, Path(scratch))
    if it.install():
        it.shared()
        it.static()
        it.headers()
        it.cpp()
t.done()
