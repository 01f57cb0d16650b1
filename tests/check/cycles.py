#!/usr/bin/env python3
"""cycles.py: files that call each other in circles are read all at once.

A file points at another of its folder where it calls a function or uses a
variable of it.  The largest circle of each folder is printed; redis and queue
have a limit.  The object files of gcc's build say who uses what.
"""

import subprocess

from tap import BUILD, Tap

LIMITS = {"redis": 6, "queue": 6}


def symbols():
    """(folder, file) -> what it defines, what it uses."""
    found = {}
    for path in sorted(BUILD.glob("libleat.so*.p/src_*.c.o")):
        folder, name = path.name[len("src_"):-len(".o")].split("_", 1)
        out = subprocess.run(["nm", "-P", str(path)], check=True,
                             stdout=subprocess.PIPE).stdout.decode()
        rows = [line.split()[:2] for line in out.splitlines()]
        found[folder, name] = ({n for n, kind in rows if kind in "TDBRVW"},
                               {n for n, kind in rows if kind == "U"})
    return found


def graph(found):
    """Each file with those of its folder that it uses."""
    home = {n: file for file, (mine, _) in found.items() for n in mine}
    return {file: {home[n] for n in used
                   if n in home and home[n][0] == file[0]} - {file}
            for file, (_, used) in found.items()}


def reach(edges, start):
    seen, todo = set(), [start]
    while todo:
        for there in edges[todo.pop()] - seen:
            seen.add(there)
            todo.append(there)
    return seen


def largest(edges, folder):
    """The largest set of files that all lead to each other."""
    far = {a: reach(edges, a) for a in edges if a[0] == folder}
    circles = [{b for b in far[a] if a in far[b]} for a in far]
    return sorted(name for _, name in max(circles, key=len, default=()))


def too_large(edges, limits):
    problems = []
    for folder, limit in limits.items():
        circle = largest(edges, folder)
        if len(circle) > limit:
            problems.append(f"{folder}: {len(circle)} files call each other "
                            f"in circles, at most {limit} may: "
                            + " ".join(circle))
    return problems


def self_test(tap):
    a, b, c, d = (("redis", x) for x in "abcd")
    edges = {a: {b}, b: {c}, c: {a}, d: {a}}
    tap.caught("self-test: a circle is caught, and who only uses it is not in",
               too_large(edges, {"redis": 2}), "redis: 3 files", "a b c")
    tap.clean("self-test: a circle within its limit is none",
              too_large(edges, {"redis": 3}))


t = Tap()
self_test(t)
files = graph(symbols())
t.case("every folder with a limit was built",
       set(LIMITS) <= {folder for folder, _ in files})
for where in sorted({folder for folder, _ in files}):
    print(f"# {where}: {len(largest(files, where))}")
t.clean("files call each other in small circles", too_large(files, LIMITS))
t.done()
