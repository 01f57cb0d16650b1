#!/usr/bin/env python3
"""run_selftest.py: the test runner counts what it should.

Silence must never pass: a program that crashes, hangs, breaks its plan or
leaves processes behind is a failure.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import run  # noqa: E402
from tap import Tap, planted  # noqa: E402


def counts(r):
    return r.passed, len(r.failures), r.skipped


def parsing(t):
    def parsed(name, text, expected):
        r = run.judge("x", "tap", 0, text, "", 0.0)
        t.case(name, counts(r) == expected, [repr(r)])

    parsed("every ok line is a case", "1..2\nok 1 - a\nok 2 - b\n", (2, 0, 0))
    parsed("a plan may come last", "ok 1 - a\n1..1\n", (1, 0, 0))
    parsed("a not ok line is a failed case",
           "1..2\nok 1 - a\nnot ok 2 - b\n# why\n", (1, 1, 0))
    parsed("cmocka's skip is a skip though it says not ok",
           "1..2\nok 1 - a\nnot ok 2 # SKIP b\n", (1, 0, 1))
    parsed("the plans of several groups add up",
           "1..1\nok 1 - a\n1..2\nok 1 - b\nok 2 - c\n", (3, 0, 0))
    parsed("a failed group setup is a failed case",
           "1..0\nnot ok 0 - g [  FAILED  ] GROUP SETUP\n", (0, 1, 0))
    parsed("cmocka's closing remark is no case",
           "1..1\nok 1 - a\n# ok - group\n", (1, 0, 0))
    parsed("too few cases for the plan are a failure",
           "1..3\nok 1 - a\nok 2 - b\n", (2, 1, 0))
    parsed("too many cases for the plan are a failure",
           "1..1\nok 1 - a\nok 2 - b\n", (2, 1, 0))
    parsed("no plan is a failure", "ok 1 - a\n", (1, 1, 0))
    parsed("no output is a failure", "", (0, 1, 0))
    parsed("bailing out is a failure", "1..1\nok 1 - a\nBail out! no\n",
           (1, 1, 0))
    r = run.judge("x", "tap", 1, "1..1\nok 1 - a\n", "", 0.0)
    t.case("a bad exit code is a failure though all cases passed",
           counts(r) == (1, 1, 0), [repr(r)])
    r = run.judge("x", "exitcode", 77, "", "", 0.0)
    t.case("exit code 77 skips a program that does not speak TAP",
           counts(r) == (0, 0, 1), [repr(r)])
    r = run.judge("x", "tap", 77, "1..1\nok 1 - a\n", "", 0.0)
    t.case("exit code 77 excuses nobody who speaks TAP",
           counts(r) == (1, 1, 0), [repr(r)])


def running(t):
    runner = run.Runner()

    def ran(name, script, expected, word, timeout=20.0):
        r = runner.run(run.Job("x", ["/bin/sh", "-c", script],
                               timeout=timeout))
        said = not word or any(word in f for f in r.failures)
        t.case(name, counts(r) == expected and said, [repr(r)])

    ran("a good program passes", "echo 1..1; echo ok 1", (1, 0, 0), "")
    ran("a crash is a failure", "echo 1..2; echo ok 1; kill -SEGV $$",
        (1, 1, 0), "SIGSEGV")
    ran("a crash after all cases is a failure",
        "echo 1..1; echo ok 1; kill -ABRT $$", (1, 1, 0), "SIGABRT")
    ran("a timeout is a failure", "echo 1..1; echo ok 1; sleep 60",
        (1, 1, 0), "timed out", timeout=0.3)
    ran("an early exit is a failure that tells its code",
        "echo 1..2; echo ok 1; exit 66", (1, 1, 0), "exit code 66")
    ran("a program that cannot start is a failure", "exec /nonexistent/x",
        (0, 1, 0), "")
    grace, run.LEAVE_SECONDS = run.LEAVE_SECONDS, 0.2
    ran("processes left behind are a failure",
        "sleep 60 & echo 1..1; echo ok 1", (1, 1, 0), "sleep")
    run.LEAVE_SECONDS = grace
    ran("a child that is just leaving is not",
        "sleep 0.2 & echo 1..1; echo ok 1", (1, 0, 0), "")

    with planted({}) as root:
        pid_file = root / "pid"
        ran("a timeout takes the children with it",
            f"sleep 60 & echo $! >{pid_file}; wait", (0, 1, 0), "timed out",
            timeout=0.5)
        child = Path("/proc") / pid_file.read_text().strip() / "stat"
        t.case("none of them lives on", gone(child), [str(child)])

    os.environ["LEAT_URL"] = "redis://elsewhere"
    ran("the user's LEAT_ variables do not reach a test",
        'echo 1..1; [ -z "$LEAT_URL" ] && echo ok 1', (1, 0, 0), "")
    ran("a test's temporary directory is its own",
        'echo 1..1; [ -z "$(ls "$TMPDIR")" ] && echo ok 1', (1, 0, 0), "")
    runner.close()
    t.case("nothing of them stays", not runner.scratch.exists())


def gone(stat):
    """A killed process takes a moment to die."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if stat.read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.005)
    return False


def telling(t):
    lines = [str(i) for i in range(1000)]
    short = run.bounded(lines)
    t.case("long output keeps its beginning and its end",
           len(short) == run.OUTPUT_LINES + 1 and short[0] == "0"
           and short[-1] == "999")
    rs = [run.Result("a", passed=3, skipped=1),
          run.Result("b", passed=1, failures=["x", "y"])]
    t.case("the summary adds up", run.summary(rs) == (4, 2, 1))


def choosing(t):
    """Which builds and checks a run has."""
    def asked(*words):
        argv, sys.argv = sys.argv, ["./dev test", *words]
        try:
            o = run.options()
        finally:
            sys.argv = argv
        return [b.kind for b in run.builds(o)], \
            {j.label for j in run.checks(o)}, run.builds(o)[0].env

    kinds, labels, env = asked()
    t.case("the ordinary run has one build and the checks that take seconds",
           kinds == ["gcc"] and "check/style" in labels and not env and
           not labels & {"check/tidy", "check/cppcheck"}, [kinds, labels])
    kinds, labels, env = asked("--full")
    t.case("the full run has sanitizers, fuzzers, analysers and long cases",
           kinds == ["gcc", "asan", "tsan", "fuzz"] and
           labels > {"check/tidy", "check/cppcheck"} and
           env == {"LEAT_LONG": "1"}, [kinds, labels, env])
    t.case("a label brings its build along",
           asked("asan/integration-conn")[0] == ["gcc", "asan"])
    t.case("and an analyser comes by its own",
           "check/tidy" in asked("check/tidy")[1])
    t.case("a full run without sanitizers keeps the long cases",
           asked("--full", "--no-sanitizers")[0::2] ==
           (["gcc"], {"LEAT_LONG": "1"}))


def beginning(t):
    """The order of a first run, and of the next."""
    seen = []

    class Silent:
        def status(self, text):
            pass

        def result(self, r, *_):
            seen.append(r.label)

    jobs = [run.Job(n, ["/bin/sh", "-c", "echo 1..1; echo ok 1"], priority=p)
            for n, p in (("a", 0), ("b", 2), ("c", 1))]
    run.run_all(list(jobs), 1, Silent(), {}, [])
    t.case("what was never run begins by its priority",
           seen == ["b", "c", "a"], seen)
    seen.clear()
    run.run_all(list(jobs), 1, Silent(), {"a": 3, "b": 1, "c": 2}, [])
    t.case("and what was run by its time", seen == ["a", "c", "b"], seen)


tap = Tap()
parsing(tap)
choosing(tap)
beginning(tap)
running(tap)
telling(tap)
tap.done()
