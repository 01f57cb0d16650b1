#!/usr/bin/env python3
"""dev_selftest.py: the front door, tried with a machine made of stubs.

A copy of ./dev runs with a PATH of its own, where apt-get, sudo, id, meson and
ninja are stubs that write down how they were called.  Nothing is installed.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tap import ROOT, Tap

REAL = "sh dash env dirname grep tr rm mkdir touch find cat true".split()

APT = r"""#!/bin/sh
echo "apt-get $*" >>"$LOG"
echo "frontend=$DEBIAN_FRONTEND" >>"$LOG"
case " $* " in *" install "*)
    [ ! -e "$STATE/fail-once" ] || { rm "$STATE/fail-once"; exit 100; }
    [ ! -e "$STATE/fail" ] || exit 100
    [ -e "$STATE/lie" ] || touch "$STATE/installed" ;;
esac
"""
SUDO = r"""#!/bin/sh
[ -e "$STATE/sudo" ] || exit 1
echo "sudo $1" >>"$LOG"
shift; exec "$@"
"""
MESON = r"""#!/bin/sh
echo "meson $*" >>"$LOG"
[ "$1" = setup ] || exit 0
mkdir -p "$3/meson-private" "$3/meson-info"
touch "$3/build.ninja" "$3/meson-private/coredata.dat"
echo "\"source\": \"$PWD\"" >"$3/meson-info/meson-info.json"
"""
NINJA = r"""#!/bin/sh
echo "ninja $*" >>"$LOG"
case " $* " in *' -n '*)
    [ ! -e "$STATE/idle" ] || echo 'ninja: no work to do.'
    exit 0 ;;
esac
[ -z "${NINJA_STATUS:-}" ] || printf '%s\n' '1/2 Compiling a.c' '2/2 Linking a'
[ ! -e "$STATE/broken" ] || { rm "$STATE/broken"
    echo "ninja: error: loading 'build.ninja': no"; exit 1; }
[ ! -e "$STATE/ninja-fails" ] || { echo "a.c:1: error: no"; exit 1; }
"""


class Machine:
    """A tree with ./dev, a table, and a system that has little."""

    def __init__(self, table="", root=True, apt=True, lists=True, tools=()):
        self.folder = Path(tempfile.mkdtemp(prefix="leat-dev-"))
        self.tree = self.folder / "tree"
        self.bin = self.folder / "bin"
        self.state = self.folder / "state"
        for d in (self.tree, self.bin, self.state, self.folder / "lists"):
            d.mkdir()
        shutil.copy(ROOT / "dev", self.tree / "dev")
        (self.tree / "deps.txt").write_text(
            table.replace("@", str(self.state)))
        if lists:
            (self.folder / "lists/x_main_Packages").touch()
        for name in REAL:
            if found := shutil.which(name):
                (self.bin / name).symlink_to(found)
        self.stub("id", f"#!/bin/sh\necho {0 if root else 1000}\n")
        self.stub("sudo", SUDO)
        if apt:
            self.stub("apt-get", APT)
        for name in tools:
            self.stub(name, {"meson": MESON, "ninja": NINJA}.get(
                name, "#!/bin/sh\nexit 0\n"))

    def stub(self, name, text, folder=None):
        path = (folder or self.bin) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def dev(self, *args, **env):
        log = self.folder / "log"
        log.write_text("")
        p = subprocess.run(
            [str(self.bin / "sh"), str(self.tree / "dev"), *args], cwd="/",
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=60,
            env={"PATH": str(self.bin), "LOG": str(log),
                 "STATE": str(self.state),
                 "LEAT_APT_LISTS": str(self.folder / "lists"), **env})
        self.code, self.out, self.err = p.returncode, p.stdout, p.stderr
        self.log = log.read_text().splitlines()
        self.apt = [line.split("Timeout=300 ")[-1] for line in self.log
                    if line.startswith("apt-get")]
        return self

    def dev_on_terminal(self, *args):
        """Only what it says to the terminal, and the exit code."""
        ours, its = os.openpty()
        p = subprocess.run(
            [str(self.bin / "sh"), str(self.tree / "dev"), *args], cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its,
            text=True, check=False, timeout=60,
            env={"PATH": str(self.bin), "LOG": str(self.folder / "log"),
                 "STATE": str(self.state)})
        os.close(its)
        self.code, self.out, self.err = p.returncode, p.stdout, ""
        try:
            while more := os.read(ours, 4096):
                self.err += more.decode()
        except OSError:  # all was read
            pass
        os.close(ours)
        return self

    def story(self):
        return [f"exit code {self.code}", *self.log,
                *self.out.splitlines(), *self.err.splitlines()]

    def close(self):
        shutil.rmtree(self.folder)


TABLE = "build | x | file:@/installed | pkg-a\n" \
        "test  | y | file:@/installed | pkg-b\n" \
        "build | z | cmd:sh | pkg-there\n# remark | a | b | c\n"
INSTALL = "install -y --no-install-recommends "


def dependencies(t):
    def tried(name, machine, test, *sets, **env):
        machine.dev("deps", *sets, **env)
        t.case(name, test(machine), machine.story())
        machine.close()

    def with_state(machine, *names):
        for n in names:
            (machine.state / n).touch()
        return machine

    tried("when nothing is missing nobody calls apt",
          with_state(Machine(TABLE), "installed"),
          lambda m: m.code == 0 and not m.log, "build", "test")
    tried("without root the exact line is printed and the exit code is 69",
          Machine(TABLE, root=False),
          lambda m: m.code == 69 and not m.log and
          f"apt-get {INSTALL}pkg-a pkg-b" in m.err.splitlines(),
          "build", "test")
    tried("root installs only what is missing, without an update",
          Machine(TABLE),
          lambda m: m.code == 0 and m.apt == [INSTALL + "pkg-a"] and
          "frontend=noninteractive" in m.log and
          "DPkg::Lock::Timeout=300" in m.log[0], "build")
    tried("sudo is used where it asks no password",
          with_state(Machine(TABLE, root=False), "sudo"),
          lambda m: m.code == 0 and "sudo -n" in m.log and
          m.apt == [INSTALL + "pkg-a"], "build")
    tried("empty lists are fetched first",
          Machine(TABLE, lists=False),
          lambda m: m.code == 0 and m.apt == ["update", INSTALL + "pkg-a"],
          "build")
    tried("a failed install is tried again with fresh lists",
          with_state(Machine(TABLE), "fail-once"),
          lambda m: m.code == 0 and
          m.apt == [INSTALL + "pkg-a", "update", INSTALL + "pkg-a"], "build")
    tried("an install that keeps failing tells what to do by hand",
          with_state(Machine(TABLE), "fail"),
          lambda m: m.code == 69 and
          f"apt-get {INSTALL}pkg-a" in m.err.splitlines(), "build")
    tried("where the lists are empty the line begins with an update",
          Machine(TABLE, root=False, lists=False),
          lambda m: m.code == 69 and
          f"apt-get update && apt-get {INSTALL}pkg-a" in m.err.splitlines(),
          "build")
    tried("what is still missing after an install is named",
          with_state(Machine(TABLE), "lie"),
          lambda m: m.code == 69 and "not found" in m.err and
          "pkg-a" in m.err, "build")
    tried("a system without apt is told the names",
          Machine(TABLE, apt=False),
          lambda m: m.code == 69 and "pkg-a" in m.err and not m.log, "build")
    tried("a library is missing as long as pkg-config is",
          Machine("build | x | pkg:zlib | pkg-z\n", root=False),
          lambda m: m.code == 69 and "pkg-z" in m.err, "build")
    tried("one of several probes is enough",
          Machine("build | x | cmd:no-such,cmd:sh | pkg-z\n"),
          lambda m: m.code == 0 and not m.log, "build")
    tried("a header that is there is found, another is not",
          Machine("build | x | hdr:stdio.h | pkg-c\n"
                  "build | x | hdr:no/such.h | pkg-z\n", root=False),
          lambda m: m.code == 69 and "pkg-z" in m.err and
          "pkg-c" not in m.err, "build")
    tried("a file may be a pattern",
          with_state(Machine("build | x | file:@/lib-*.a | pkg-z\n"),
                     "lib-1.a"),
          lambda m: m.code == 0 and not m.log, "build")


def building(t):
    m = Machine(tools=("meson", "ninja"))
    build = m.tree / "build"

    def setups():
        return [line for line in m.log if line.startswith("meson setup")]

    m.dev("build")
    t.case("a first build is set up without downloads", m.code == 0 and
           setups() == ["meson setup --wrap-mode=nodownload build"
                        " -Dtests=false"], m.story())
    m.dev("build")
    t.case("a second build is not set up again, and silent",
           m.code == 0 and not setups() and not m.out + m.err, m.story())
    (build / ".tree").write_text("/elsewhere\n")
    info = build / "meson-info/meson-info.json"
    info.write_text('"source": "/elsewhere"\n')
    m.dev("build")
    t.case("a build directory of another tree is made anew",
           m.code == 0 and len(setups()) == 1, m.story())
    (build / "build.ninja").unlink()
    m.dev("build")
    t.case("a half-made build directory is made anew",
           m.code == 0 and len(setups()) == 1, m.story())
    (m.state / "broken").touch()
    m.dev("build")
    t.case("a broken build directory is made anew",
           m.code == 0 and len(setups()) == 1, m.story())
    (m.state / "ninja-fails").touch()
    m.dev("build")
    t.case("a compile error is shown and the directory kept",
           m.code == 1 and not setups() and "a.c:1: error" in m.err,
           m.story())
    (m.state / "ninja-fails").unlink()
    m.stub("leat", '#!/bin/sh\necho "leat $*"\nexit 7\n', build)
    m.dev("demo", "a b", "--c")
    t.case("demo hands its arguments and the exit code through",
           m.code == 7 and m.out == "leat demo a b --c\n", m.story())
    t.case("before and after a build that is waited for there is a line",
           re.fullmatch(r"\./dev: building in build, .*\n\./dev: built\n",
                        m.err), m.story())
    m.dev_on_terminal("demo")
    t.case("on a terminal a live line counts, and is gone at the end",
           m.code == 7 and "\r./dev: building 1/2" in m.err and
           "\r./dev: building 2/2" in m.err and m.err.endswith("\r\x1b[K"),
           m.story())
    (m.state / "ninja-fails").touch()
    m.dev_on_terminal("demo")
    t.case("a compile error is shown there, too", m.code == 1 and
           "a.c:1: error" in m.err and not m.out, m.story())
    (m.state / "idle").touch()
    m.dev("demo")
    t.case("nothing to build is nothing to say",
           m.code == 7 and not m.err, m.story())
    m.close()


def running(t):
    m = Machine(tools=("meson", "ninja", "clang-14"))
    m.dev("bench", "x")
    bench = m.tree / "build-bench/bench"
    m.stub("bench-good", '#!/bin/sh\necho "{\\"bench\\":\\"good $*\\"}"\n',
           bench)
    m.stub("bench-poor", "#!/bin/sh\necho '{\"ok\":false}'\nexit 1\n", bench)
    (bench / "bench-data.p").mkdir()
    m.dev("bench", "nonesuch")
    t.case("an unknown bench lists the known ones", m.code == 64 and
           "good\npoor\n" in m.err and "data" not in m.err, m.story())
    m.dev("bench", "good", "1", "2")
    t.case("a bench prints only its own lines on stdout", m.code == 0 and
           m.out == '{"bench":"good 1 2"}\n', m.story())
    m.dev("bench")
    t.case("all benches run, and a missed target is exit code 1",
           m.code == 1 and len(m.out.splitlines()) == 2, m.story())

    chaos = m.tree / "tests/chaos"
    m.stub("storm.py", "import os, sys\nprint(sys.argv[1:],"
           " os.environ['LEAT_BUILD'])\nsys.exit(3)\n", chaos)
    m.dev("chaos", "calm")
    t.case("an unknown chaos run lists the known ones",
           m.code == 64 and "storm" in m.err, m.story())
    m.dev("chaos", "storm", "--seconds", "1", "--seed", "2")
    t.case("chaos hands its arguments and the exit code through",
           m.code == 3 and "['--seconds', '1', '--seed', '2']" in m.out and
           str(m.tree / "build") in m.out, m.story())

    m.dev("fuzz", "x")
    fuzz = m.tree / "build-fuzz/tests/fuzz"
    m.stub("fuzz-resp", '#!/bin/sh\necho "args $*" >&2\n'
           'echo "stat::number_of_executed_units: 4711" >&2\n', fuzz)
    m.stub("fuzz-url", "#!/bin/sh\nfor a; do case $a in -artifact_prefix=*)"
           " touch ${a#*=}crash-1;; esac; done; exit 77\n", fuzz)
    (m.tree / "tests/fuzz/corpus/resp").mkdir(parents=True)
    m.dev("fuzz", "resp", "--seconds", "5")
    log = m.tree / "build-fuzz/log/resp"
    t.case("a fuzz target writes to the build, reads the corpus",
           m.code == 0 and "-max_total_time=5" in log.read_text() and
           "build-fuzz/corpus/resp tests/fuzz/corpus/resp" in log.read_text(),
           m.story())
    t.case("at the end it is told how often each was run",
           m.out.split()[-3:] == ["resp", "4711", "-"], m.story())
    m.dev("fuzz")
    t.case("every target runs, and a crash shows its input",
           m.code == 1 and "fuzzing resp for 60 s" in m.err and
           "build-fuzz/artifacts/url/crash-1" in m.err, m.story())
    m.dev("fuzz", "nonesuch")
    t.case("an unknown fuzz target lists the known ones",
           m.code == 64 and "resp\nurl\n" in m.err, m.story())
    m.dev("fuzz", "--seconds", "ten")
    t.case("a time that is no number is refused", m.code == 64, m.story())
    m.close()


def talking(t):
    m = Machine()
    m.dev("bulid")
    t.case("a mistyped verb is answered with its likeness",
           m.code == 64 and "build" in m.err and not m.out, m.story())
    m.dev("zzz")
    t.case("a verb like no other is answered with all", m.code == 64 and
           "deps build demo" in m.err, m.story())
    verbs = re.search(r"VERBS='([^']*)'", (ROOT / "dev").read_text())[1]
    m.dev("help")
    t.case("help tells every verb", m.code == 0 and
           all(f"\n  {v} " in m.out for v in verbs.split()), m.story())
    for name in ("build", "build-asan", "builder"):
        (m.tree / name).mkdir()
    (m.tree / "build-notes").touch()
    m.dev("clean")
    left = sorted(p.name for p in m.tree.iterdir())
    t.case("clean removes the build directories and nothing else",
           left == ["build-notes", "builder", "deps.txt", "dev"], left)
    m.close()


def table(t):
    bad = []
    for line in (ROOT / "deps.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        cells = [c.strip() for c in line.split("|")]
        probes = cells[2].split(",") if len(cells) == 4 else [""]
        if cells[0] not in ("build", "test", "bench") or not all(
                re.fullmatch(r"(cmd|pkg|hdr|file):\S+", p) for p in probes):
            bad.append(line)
        if "redis-server" == cells[-1]:
            bad.append("redis-server may start a service: use redis-tools")
    t.clean("deps.txt is well formed", bad)


tap = Tap()
dependencies(tap)
building(tap)
running(tap)
talking(tap)
table(tap)
tap.done()
