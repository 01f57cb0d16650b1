#!/usr/bin/env python3
"""hardening.py: the binaries carry the protections they were built with."""

import re
import subprocess

from tap import BUILD, Tap, planted


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, str(path)],
                          capture_output=True, text=True, check=True).stdout


def weaknesses(path, program):
    """What a binary lacks: read-only relocations bound at start, a stack that
    cannot be executed, no writable code, and for a program a random place."""
    if not path.exists():
        return [f"{path} is missing"]
    segments = readelf("-l", path)
    dynamic = readelf("-d", path)
    stack = re.search(r"GNU_STACK.*", segments)
    found = []
    if "GNU_RELRO" not in segments:
        found.append("no RELRO")
    if not re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic):
        found.append("not bound at start")
    if not stack or re.search(r"\bRWE\b", stack[0]):
        found.append("executable stack")
    if re.search(r"LOAD.*\bRWE\b", segments):
        found.append("writable code")
    if program and "DYN (" not in readelf("-h", path):
        found.append("not position independent")
    if "(RPATH)" in dynamic:
        found.append("an RPATH")
    return found


t = Tap()
with planted({"a.c": "int main(void) { return 0; }\n"}) as tree:
    subprocess.run(["cc", "-no-pie", "-Wl,-z,norelro,-z,lazy,-z,execstack",
                    "-o", str(tree / "a"), str(tree / "a.c")], check=True)
    t.caught("self-test: a program without any of it is caught",
             weaknesses(tree / "a", True), "no RELRO", "not bound",
             "executable stack", "not position independent")
t.clean("the command is hardened", weaknesses(BUILD / "leat", True))
t.clean("the library is hardened", weaknesses(BUILD / "libleat.so", False))
t.done()
