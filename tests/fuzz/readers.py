#!/usr/bin/env python3
"""readers.py: which functions that read a reply has no input run?

    readers.py SOURCE TARGET:CORPUS[:CORPUS]...

A function of src/ that has a reply among its parameters, or takes one apart, is
one that reads it.  libFuzzer tells which were run (-print_coverage); the
fuzzers' build inlines nothing.  Some need a failure, a rarer server or a later
moment, and which thread comes first differs: this is a report, no test.
"""
import pathlib
import re
import subprocess
import sys

DEFINITION = re.compile(
    r"^(?!static inline)[a-z][^;{}=#]*?\b(?!__attribute__)(\w+)"
    r"\(([^;{}]*?)\)\n\{\n(.*?)^\}", re.M | re.S)
PARAMETER = re.compile(r"\bleat_reply \*\w|\bleat_reply_iter \w")
TAKES_APART = re.compile(r"\bleat_reply_(kind|int|double|bytes|len|at|each|step)"
                         r"\(|\bleat__reply_(fits|want|odd)\(")


def readers(src):
    """Yield (function, file) of all that have a reply or a cursor."""
    for path in sorted(src.glob("*/*.c")):
        for m in DEFINITION.finditer(path.read_text()):
            reads = PARAMETER.search(m[2]) or TAKES_APART.search(m[3])
            if reads and "always_inline" not in m[0]:
                yield m[1], path.relative_to(src).as_posix()


def covered(target, *corpora):
    """The (function, file) that were run."""
    r = subprocess.run([target, "-runs=0", "-print_coverage=1", *corpora],
                       capture_output=True, text=True, timeout=600)
    if r.returncode != 0:
        sys.exit("%s failed\n%s" % (target, r.stderr[-3000:]))
    return {(m[1], "/".join(m[2].split("/")[-2:])) for m in re.finditer(
        r"^COVERED_FUNC: .*?(\w+) (\S+?):\d+", r.stderr, re.M)}


def main():
    every, run = list(readers(pathlib.Path(sys.argv[1]))), set()
    for words in sys.argv[2:]:
        run |= covered(*words.split(":"))
    missed = sorted(f"{where}: {f}" for f, where in every
                    if (f, where) not in run)
    print(f"{len(every) - len(missed)} of {len(every)} functions that read "
          "replies were run; not these:")
    for line in missed:
        print("   ", line)


main()
