#!/usr/bin/env python3
"""run.py: builds everything, runs every test and check, counts the cases.

The ordinary run has one build, `build` (gcc), all its test programs, and the
checks that take seconds.  The full one adds `build-asan` (clang, address and
undefined behaviour), `build-tsan` (clang, threads; only tests of the suite
`threads`), `build-fuzz` (clang's fuzzer; only the suite `fuzz`, which replays
the corpora), the checks that say `# run: full`, and LEAT_LONG=1 for the tests
of gcc's build: what is thorough there takes its time.

The test programs are those that meson knows; the checks are the executable
scripts in tests/check.  Both speak TAP, and each `ok` and `not ok` line is a
case.  A program that crashes, hangs, breaks its plan or leaves processes behind
is a failed case of its own, so silence never counts as success.

The last line of standard output is `N passed, N failed, N skipped`.  The exit
code is 1 when something failed or nothing passed.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTPUT_LINES = 200          # shown of a failed program
OUTPUT_BYTES = 64 << 20     # read of any program
CHECK_TIMEOUT = 900
LEAVE_SECONDS = 3           # for child processes to go after their parent


# ---- what a program said --------------------------------------------------

@dataclass
class Result:
    label: str
    seconds: float = 0.0
    passed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)    # one text for each case
    output: str = ""

    @property
    def cases(self):
        return self.passed + self.skipped + len(self.failures)


TAP_LINE = re.compile(r"(not )?ok\b(?: (\d+))?(.*)")
TAP_PLAN = re.compile(r"1\.\.(\d+)\s*(#.*)?")


def parse_tap(text):
    """Count TAP lines.  Returns passed, failed names, skipped and, where the
    plan does not hold, what is wrong with it (or None).

    Several plans add up: cmocka prints one for each group.  Number 0 is
    cmocka's failed group setup or teardown, outside every plan.
    """
    passed, failed, skipped, outside = 0, [], 0, 0
    plans = []
    for line in text.splitlines():
        plan = TAP_PLAN.fullmatch(line)
        if plan:
            plans.append(int(plan[1]))
            continue
        case = TAP_LINE.fullmatch(line)
        if not case:
            continue
        # cmocka says "not ok 2 # SKIP name", so the mark decides.
        if re.search(r"#\s*SKIP\b", case[3], re.IGNORECASE):
            skipped += 1
        elif case[1]:
            failed.append(case[3].removeprefix(" - ").strip() or "a case")
            outside += case[2] == "0"
        else:
            passed += 1
    seen = passed + len(failed) + skipped - outside
    if text.startswith("Bail out!") or "\nBail out!" in text:
        return passed, failed, skipped, "bailed out"
    if not plans:
        return passed, failed, skipped, "printed no plan"
    if sum(plans) != seen:
        return passed, failed, skipped, \
            f"planned {sum(plans)} cases but reported {seen}"
    return passed, failed, skipped, None


def judge(label, protocol, code, stdout, stderr, seconds, trouble=()):
    """Turn what a program did into a Result.  trouble: what the runner itself
    saw go wrong, such as a timeout."""
    r = Result(label, seconds, failures=list(trouble))
    if code < 0 and not trouble:
        r.failures.append(how_it_ended(code))
    if protocol == "tap":
        r.passed, failed, r.skipped, broken = parse_tap(stdout)
        if broken and not r.failures:   # a crash breaks the plan as well
            failed.append(broken + (f", {how_it_ended(code)}" if code else ""))
        r.failures += failed
    elif code == 77 and not trouble:
        r.skipped = 1
    elif code == 0 and not trouble:
        r.passed = 1
    accounted = r.failures or (protocol != "tap" and r.skipped)
    if code != 0 and not accounted:
        r.failures.append(how_it_ended(code))
    r.output = stdout + ("\n--- stderr\n" + stderr if stderr else "")
    return r


def how_it_ended(code):
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


# ---- running a program ----------------------------------------------------

@dataclass
class Job:
    label: str
    argv: list
    cwd: Path = ROOT
    env: dict = field(default_factory=dict)
    timeout: float = 120
    protocol: str = "tap"
    alone: bool = False
    priority: int = 0       # of a first run: the highest begins


class Runner:
    """Runs jobs, each in a process group and a temporary directory of its own.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.groups = set()
        self.scratch = Path(tempfile.mkdtemp(prefix="leat-"))
        self.number = 0

    def close(self):
        with self.lock:
            groups, self.groups = self.groups, set()
        for group in groups:
            kill_group(group)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def environment(self, job, home):
        """The user's own settings must not change what a test sees."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LEAT_", "CMOCKA_", "ASAN_", "UBSAN_",
                                    "TSAN_", "LSAN_"))}
        env.update(CMOCKA_MESSAGE_OUTPUT="TAP", TMPDIR=str(home),
                   XDG_STATE_HOME=str(home), XDG_CONFIG_HOME=str(home),
                   XDG_RUNTIME_DIR=str(home), XDG_CACHE_HOME=str(home),
                   LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
        env.update(job.env)
        return env

    def run(self, job):
        with self.lock:
            self.number += 1
            home = self.scratch / str(self.number)
        home.mkdir(mode=0o700)
        start = time.monotonic()
        with open(home / ".out", "w+b") as out, \
                open(home / ".err", "w+b") as err:
            code, trouble = self.wait(job, home, out, err)
            texts = [read_text(f) for f in (out, err)]
        shutil.rmtree(home, ignore_errors=True)
        return judge(job.label, job.protocol, code, *texts,
                     time.monotonic() - start, trouble)

    def wait(self, job, home, out, err):
        """Returns the exit code and what went wrong around the program."""
        try:
            p = subprocess.Popen(job.argv, cwd=job.cwd, stdout=out, stderr=err,
                                 stdin=subprocess.DEVNULL,
                                 env=self.environment(job, home),
                                 start_new_session=True)
        except OSError as e:
            return 127, [f"could not be started: {e}"]
        with self.lock:
            self.groups.add(p.pid)
        trouble = []
        try:
            p.wait(job.timeout)
        except subprocess.TimeoutExpired:
            trouble.append(f"timed out after {job.timeout:.0f} s")
            kill_group(p.pid)
            p.wait()
        left = [] if trouble else left_behind(p.pid)
        if left:
            trouble.append("left processes behind: " + ", ".join(left))
            kill_group(p.pid)
        with self.lock:
            self.groups.discard(p.pid)
        return p.returncode, trouble


def read_text(f):
    f.seek(0)
    return f.read(OUTPUT_BYTES).decode("utf-8", "backslashreplace")


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def members(group):
    """Names of the living processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        state, _parent, pgrp = rest.split()[:3]
        if int(pgrp) == group and state not in "ZX":
            found.append(name)
    return found


def left_behind(group):
    """Who is still there after a moment's grace."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while found := group_exists(group) and members(group):
        if time.monotonic() > deadline:
            return found
        time.sleep(0.05)
    return []


def group_exists(group):
    try:
        os.killpg(group, 0)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        return True


# ---- builds ---------------------------------------------------------------

@dataclass
class Build:
    kind: str               # as the labels say it
    folder: str
    compiler: str
    options: dict
    suite: str = ""         # only tests of this suite
    slowness: int = 1       # stretches the timeouts
    env: dict = field(default_factory=dict)

    @property
    def path(self):
        return ROOT / self.folder


def clang():
    return shutil.which("clang-14") or "clang"


def symbolizer():
    return shutil.which("llvm-symbolizer-14") or shutil.which("llvm-symbolizer")


def builds(opts):
    """Those of the run; and one whose name a filter begins with, as `asan/`."""
    if opts.no_sanitizers:
        return all_builds(opts.full)[:1]
    return [b for b in all_builds(opts.full)
            if b.kind == "gcc" or opts.full or
            any(f.startswith(b.kind) for f in opts.filter)]


def all_builds(full):
    plain = Build("gcc", "build", "gcc", {"b_sanitize": "none"},
                  slowness=4 if full else 1,
                  env={"LEAT_LONG": "1"} if full else {})
    tool = symbolizer()
    found = f":external_symbolizer_path={tool}" if tool else ""
    static = {"b_lundef": False, "default_library": "static"}
    asan = Build(
        "asan", "build-asan", clang(),
        {"b_sanitize": "address,undefined"} | static, slowness=2, env={
            "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:"
            "detect_stack_use_after_return=1:abort_on_error=0" + found,
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1" + found})
    tsan = Build(
        "tsan", "build-tsan", clang(), {"b_sanitize": "thread"} | static,
        suite="threads", slowness=3, env={
            "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:"
            f"suppressions={ROOT / 'tests/threads.supp'}" + found})
    fuzz = Build("fuzz", "build-fuzz", clang(), {"fuzz": True} | static,
                 suite="fuzz", slowness=2, env=asan.env)
    return [plain, asan, tsan, fuzz]


def fits(build):
    """Is the directory of this tree, this compiler and these options?"""
    try:
        info = json.loads((build.path / "meson-info/meson-info.json").read_text())
        options = json.loads(
            (build.path / "meson-info/intro-buildoptions.json").read_text())
        commands = json.loads(
            (build.path / "compile_commands.json").read_text())
    except (OSError, ValueError):
        return False
    have = {o["name"]: o["value"] for o in options}
    want = {"werror": True, "tests": True, "fuzz": False,
            "buildtype": "debugoptimized"} | build.options
    words = commands[0]["command"].split() if commands else [""]
    compiler = os.path.basename(words[1 if "ccache" in words[0] else 0])
    is_clang = "clang" in compiler
    return (info["directories"]["source"] == str(ROOT)
            and (build.path / "build.ninja").exists()
            and is_clang == ("clang" in build.compiler)
            and all(have.get(k) == v for k, v in want.items()))


def quiet(argv, env=None):
    """Run to the end; returns the exit code and all output."""
    p = subprocess.run(argv, cwd=ROOT, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=env, check=False)
    return p.returncode, p.stdout.decode("utf-8", "backslashreplace")


def set_up(build):
    """Make or mend the directory.  Returns what failed, or None."""
    if fits(build):
        code, out = quiet(["ninja", "--quiet", "-C", build.folder,
                           "build.ninja"])
        if code == 0 and fits(build):
            return None
    if build.path.exists():
        shutil.rmtree(build.path)
    options = [f"-D{k}={str(v).lower() if isinstance(v, bool) else v}"
               for k, v in ({"tests": True} | build.options).items()]
    code, out = quiet(["meson", "setup", "--wrap-mode=nodownload",
                       build.folder, *options],
                      env=os.environ | {"CC": build.compiler})
    return out if code != 0 else None


def introspect(build, what):
    path = build.path / "meson-info" / f"intro-{what}.json"
    return json.loads(path.read_text())


def suites(test):
    return {s.rsplit(":", 1)[-1] for s in test["suite"]}


def tests_of(build):
    """The build's tests as jobs, each with the ninja targets it needs."""
    files = {t["id"]: t["filename"] for t in introspect(build, "targets")}
    tests = [t for t in introspect(build, "tests")
             if not build.suite or build.suite in suites(t)]
    names = [program_name(build, t) for t in tests]
    found = []
    for t, name in zip(tests, names):
        label = f"{build.kind}/{name}"
        if names.count(name) > 1:
            label += f"/{t['name']}"
        targets = [os.path.relpath(f, build.path)
                   for i in t["depends"] for f in files.get(i, [])]
        if Path(t["cmd"][0]).is_relative_to(build.path):
            targets.append(os.path.relpath(t["cmd"][0], build.path))
        timeout = t["timeout"] if t["timeout"] > 0 else 120
        job = Job(label, calm_addresses(build) + t["cmd"],
                  cwd=Path(t["workdir"] or build.path),
                  env=build.env | t["env"],
                  timeout=timeout * build.slowness,
                  protocol="tap" if t["protocol"] == "tap" else "exitcode",
                  alone="serial" in suites(t) or not t["is_parallel"],
                  priority=t["priority"])
        found.append((job, sorted(set(targets))))
    return found


def program_name(build, test):
    """Its own program's, or the test's where that is an interpreter."""
    program = Path(test["cmd"][0])
    return program.name if program.is_relative_to(build.path) else test["name"]


def calm_addresses(build):
    """clang 14's sanitizers cannot live with more than 28 random bits."""
    if build.kind == "gcc":
        return []
    try:
        bits = int(Path("/proc/sys/vm/mmap_rnd_bits").read_text())
    except (OSError, ValueError):
        return []
    if bits <= 28 or quiet(["setarch", "-R", "true"])[0] != 0:
        return []
    return ["setarch", "-R"]


# ---- checks ---------------------------------------------------------------

def checks(opts):
    """The executable scripts of tests/check.  A comment `# run: alone` keeps
    one apart from all else, `# run: full` is for the full run or who asks for
    it by its label, and `# timeout: N` gives it N seconds."""
    jobs = []
    for path in sorted((ROOT / "tests/check").glob("*.py")):
        if not os.access(path, os.X_OK):
            continue
        head = path.read_text()[:2000]
        label = f"check/{path.stem}"
        if "# run: full" in head and not opts.full and \
                label not in opts.filter:
            continue
        limit = re.search(r"^# timeout: (\d+)$", head, re.MULTILINE)
        jobs.append(Job(label, [sys.executable, str(path)],
                        env={"LEAT_BUILD": str(ROOT / "build"),
                             "LEAT_JOBS": str(opts.j)},
                        timeout=float(limit[1]) if limit else CHECK_TIMEOUT,
                        alone="# run: alone" in head))
    return jobs


# ---- telling --------------------------------------------------------------

class Screen:
    """One live line on a terminal, one line for each program elsewhere."""

    def __init__(self):
        self.live = sys.stdout.isatty()
        self.start = time.monotonic()
        self.lock = threading.Lock()
        self.text = ""
        if self.live:
            threading.Thread(target=self.tick, daemon=True).start()

    def tick(self):
        """A line that stands still for minutes looks like a hang."""
        while True:
            time.sleep(1)
            with self.lock:
                self.draw()

    def draw(self):
        if self.live and self.text:
            width = shutil.get_terminal_size().columns - 1
            spent = time.monotonic() - self.start
            print("\r\x1b[K" + f"[{spent:4.0f} s] {self.text}"[:width],
                  end="", flush=True)

    def status(self, text):
        with self.lock:
            self.text = text
            self.draw()

    def line(self, text):
        with self.lock:
            print(("\r\x1b[K" if self.live else "") + text, flush=True)
            self.draw()

    def stage(self, text):
        if self.live:
            self.status(text)
        else:
            self.line(text)

    def result(self, r, done, total, failed):
        if r.failures:
            self.line(f"FAIL {r.label} ({r.seconds:.1f} s)")
            for text in r.failures:
                self.line(f"     {text}")
        elif not self.live:
            skipped = f", {r.skipped} skipped" if r.skipped else ""
            self.line(f"ok   {r.label} ({r.seconds:.1f} s, "
                      f"{r.cases} cases{skipped})")
        self.status(f"{done}/{total} programs, {failed} failed cases"
                    f" - {r.label}")

    def output(self, r):
        lines = bounded(r.output.rstrip().splitlines())
        self.line(f"\n===== {r.label}: " + "; ".join(r.failures[:5]))
        for text in lines:
            self.line(text)


def bounded(lines):
    """The beginning and the end, where the cause usually stands."""
    if len(lines) <= OUTPUT_LINES:
        return lines
    head, tail = OUTPUT_LINES // 2, OUTPUT_LINES - OUTPUT_LINES // 2
    cut = len(lines) - head - tail
    return lines[:head] + [f"... {cut} lines left out ..."] + lines[-tail:]


def load_times():
    try:
        return json.loads((ROOT / "build/test-times.json").read_text())
    except (OSError, ValueError):
        return {}


def save_times(times):
    if (ROOT / "build").is_dir():
        text = json.dumps(times, indent=1, sort_keys=True)
        (ROOT / "build/test-times.json").write_text(text)


# ---- the run --------------------------------------------------------------

def options():
    p = argparse.ArgumentParser(
        prog="./dev test", description="Build everything, run every test.")
    p.add_argument("filter", nargs="*",
                   help="only programs whose label contains one of these")
    p.add_argument("--full", action="store_true",
                   help="also with sanitizers, analysers, the fuzzers' corpora "
                        "and the long cases")
    p.add_argument("--build-only", action="store_true",
                   help="build, run nothing")
    p.add_argument("--no-sanitizers", action="store_true",
                   help="only the gcc build, of a full run too")
    p.add_argument("--list", action="store_true", help="list the labels")
    # Most programs wait for servers and clocks most of their time.
    p.add_argument("-j", type=int, default=4 * (os.cpu_count() or 2),
                   metavar="N",
                   help="programs at once (default: four times the cores)")
    return p.parse_args()


def wanted(label, filters):
    return not filters or any(f in label for f in filters)


def compile_build(build, tests, everything):
    """Returns the Result of building all, or what the chosen tests need."""
    start = time.monotonic()
    targets = []
    if not everything:
        targets = sorted({t for _, ts in tests for t in ts})
        if not targets:
            return None
    code, out = quiet(["ninja", "--quiet", "-C", build.folder, "-k", "20",
                       *targets])
    return judge(f"build/{build.kind}", "exitcode", code, out, "",
                 time.monotonic() - start,
                 ["does not build"] if code else [])


def prepare(opts, screen):
    """Set up and compile.  Returns the builds' results and the jobs."""
    results, jobs = [], []
    scripts = [job for job in checks(opts) if wanted(job.label, opts.filter)]
    for build in builds(opts):
        screen.stage(f"setting up {build.folder}")
        broken = set_up(build)
        if broken is not None:
            results.append(judge(f"build/{build.kind}", "exitcode", 1, broken,
                                 "", 0.0, ["cannot be set up"]))
            continue
        tests = [(job, targets) for job, targets in tests_of(build)
                 if wanted(job.label, opts.filter)]
        if not opts.list:
            screen.stage(f"building {build.folder}")
            # The checks look at the library and the command of gcc's build.
            everything = not build.suite and not opts.filter or \
                bool(build.kind == "gcc" and scripts)
            r = compile_build(build, tests, everything)
            if r:
                results.append(r)
            if r and r.failures:
                continue
        jobs += [job for job, _ in tests]
    # The checks first: among them is the longest of all.
    return results, scripts + jobs


def run_all(jobs, workers, screen, times, results):
    """Parallel ones first, the longest of them first; then the lonely.  What
    was never run counts as long, by the priority that meson.build gives it."""
    jobs.sort(key=lambda job: -times.get(job.label, 1e6 + job.priority))
    crowd = [job for job in jobs if not job.alone]
    lonely = [job for job in jobs if job.alone]
    runner = Runner()
    pool = concurrent.futures.ThreadPoolExecutor(max(1, workers))
    done = 0

    def finished(r):
        nonlocal done
        done += 1
        times[r.label] = round(r.seconds, 2)
        results.append(r)
        screen.result(r, done, len(jobs),
                      sum(len(x.failures) for x in results))

    try:
        futures = [pool.submit(runner.run, job) for job in crowd]
        for future in concurrent.futures.as_completed(futures):
            finished(future.result())
        for job in lonely:
            screen.status(job.label)
            finished(runner.run(job))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        runner.close()


def summary(results):
    passed = sum(r.passed for r in results)
    failed = sum(len(r.failures) for r in results)
    skipped = sum(r.skipped for r in results)
    return passed, failed, skipped


def interrupted(_signal, _frame):
    raise KeyboardInterrupt


def main():
    opts = options()
    signal.signal(signal.SIGTERM, interrupted)
    screen = Screen()
    results, jobs = prepare(opts, screen)
    if opts.list:
        screen.status("")
        for job in jobs:
            screen.line(job.label)
        for r in results:
            screen.output(r)
        return 1 if results else 0
    for r in results:
        screen.result(r, 0, len(jobs), 0)

    times = load_times()
    cut = False
    try:
        if not opts.build_only:
            run_all(jobs, opts.j, screen, times, results)
    except KeyboardInterrupt:
        cut = True
    save_times(times)
    screen.status("")

    for r in results:
        if r.failures:
            screen.output(r)
    passed, failed, skipped = summary(results)
    if cut:
        screen.line("interrupted: not everything was run")
    screen.line(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 130 if cut else 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
