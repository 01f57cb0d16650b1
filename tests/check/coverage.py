#!/usr/bin/env python3
"""coverage.py: every branch of the listed sources is run by their own tests.

Each row of TABLE is built apart from the rest, with gcc --coverage and without
optimisation, in a temporary directory; its tests are run, and gcov is asked
for every line and branch.  Lines with an assert() are left out: their other
branch is a mistake of ours and cannot be reached by a test.

Prints TAP; a failure names file:line of each line or branch that was not run.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BASE = ["src/base/buf.c", "src/base/error.c", "src/base/mem.c",
        "src/base/system.c"]

# name, the sources that must be covered, the test programs that do it, other
# sources they need, libraries.
TABLE = [
    ("the codec",
     ["src/redis/resp.c", "src/redis/encode.c", "src/redis/reply.c"],
     ["tests/unit/redis/resp.c", "tests/unit/redis/resp_reply.c"],
     BASE, ["cmocka"]),
]

CFLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O0", "-g", "-fno-inline", "-pthread",
          '-DLEAT_FEATURES=""',
          "-I" + ROOT + "/src", "-I" + ROOT + "/include", "-I" + ROOT]


def run(argv, **kw):
    r = subprocess.run(argv, capture_output=True, text=True, timeout=300, **kw)
    if r.returncode != 0:
        sys.stderr.write(r.stdout + r.stderr)
        raise SystemExit("not ok - failed: " + " ".join(argv))
    return r.stdout


def pkg(what, libs):
    return run(["pkg-config", what] + libs).split()


def compile_all(work, sources, flags):
    objects = []
    for s in sources:
        o = os.path.join(work, s.replace("/", "_")[:-2] + ".o")
        run(["gcc", *CFLAGS, *flags, "-c", os.path.join(ROOT, s), "-o", o],
            cwd=work)
        objects.append(o)
    return objects


def missed_in(data, source):
    """Yield "file:line what" for all of source that was not run."""
    with open(os.path.join(ROOT, source)) as f:
        text = f.read().split("\n")
    for file in data["files"]:
        if os.path.realpath(os.path.join(ROOT, file["file"])) != \
           os.path.realpath(os.path.join(ROOT, source)):
            continue
        for line in file["lines"]:
            no = line["line_number"]
            if "assert(" in text[no - 1]:
                continue
            if line["count"] == 0:
                yield "%s:%d: line not run" % (source, no)
            for i, b in enumerate(line["branches"]):
                if b["count"] == 0 and line["count"] > 0:
                    yield "%s:%d: branch %d of %d not run: %s" % (
                        source, no, i, len(line["branches"]),
                        text[no - 1].strip())


def check(row):
    """Return (branches seen, list of what was missed)."""
    name, sources, tests, others, libs = row
    branches, missed = 0, []
    with tempfile.TemporaryDirectory() as work:
        watched = compile_all(work, sources, ["--coverage"])
        rest = compile_all(work, others, [])
        for t in tests:
            main = compile_all(work, [t], pkg("--cflags", libs))
            exe = main[0][:-2]
            run(["gcc", "--coverage", "-pthread", *main, *watched, *rest,
                 "-o", exe, *pkg("--libs", libs), "-lm"], cwd=work)
            run([exe], cwd=work, env={**os.environ,
                                      "CMOCKA_MESSAGE_OUTPUT": "TAP"})
        for source, o in zip(sources, watched):
            out = run(["gcov", "--json-format", "--branch-probabilities",
                       "--stdout", o], cwd=work)
            data = json.loads(out)
            missed += missed_in(data, source)
            branches += sum(len(l["branches"]) for f in data["files"]
                            for l in f["lines"])
    if branches == 0:
        missed.append("gcov saw no branch at all")
    return branches, missed


def main():
    failed = False
    print("1..%d" % len(TABLE))
    for i, row in enumerate(TABLE, 1):
        branches, missed = check(row)
        failed = failed or bool(missed)
        print("%s %d - every branch of %s is run # %d branches" % (
            "not ok" if missed else "ok", i, row[0], branches))
        for m in missed:
            print("# " + m)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
