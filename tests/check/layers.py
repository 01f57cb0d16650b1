#!/usr/bin/env python3
"""layers.py: the tree is the dependency graph.

A folder of src/ includes only itself and the folders above it in
src/meson.build.  The public headers, the command, the console and the Python
module know only <leat/...>.  Lua includes follow the same order as C.
"""

import re
from pathlib import Path, PurePosixPath

from tap import ROOT, Tap, planted, sources

SUBDIR = re.compile(r"^\s*subdir\('(\w+)'\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
LUA_INCLUDE = re.compile(r'^\s*--#include\s+"([^"]+)"', re.MULTILINE)
OUTSIDE = ("cli", "console", "python")


def order(root):
    return SUBDIR.findall((root / "src/meson.build").read_text())


def folder_of(root, path, name):
    """The folder of src/ that `name`, included by `path`, lives in."""
    if "/" not in name:
        return path.relative_to(root / "src").parts[0]
    if name.startswith("."):
        whole = Path(path.parent, name).resolve()
        if not whole.is_relative_to((root / "src").resolve()):
            return name
        return whole.relative_to((root / "src").resolve()).parts[0]
    return PurePosixPath(name).parts[0]


def above(root, path, name, layers):
    """What is wrong with this include, or None."""
    here = path.relative_to(root / "src").parts[0]
    there = folder_of(root, path, name)
    where = f'{path.relative_to(root)} includes "{name}"'
    if there not in layers:
        return f"{where}, which is in no folder of src/meson.build"
    if layers.index(there) > layers.index(here):
        return f"{where}, but {there} stands below {here}"
    return None


def is_private(root, name):
    return (root / "src" / name).exists()


def library(root):
    """src/: only upwards, in C and in Lua."""
    layers = order(root)
    problems = [f"src/{d.name} is missing from src/meson.build"
                for d in sorted((root / "src").iterdir())
                if d.is_dir() and d.name not in layers]
    for path in sources(root, "src", suffixes=(".c", ".h", ".lua")):
        if path.relative_to(root / "src").parts[0] not in layers:
            continue
        text = path.read_text()
        if path.suffix == ".lua":
            names = LUA_INCLUDE.findall(text)
        else:
            # A private header in angle brackets is still an include.
            names = [n for mark, n in INCLUDE.findall(text)
                     if mark == '"' or is_private(root, n)]
        problems += filter(None, (above(root, path, n, layers)
                                  for n in names))
    return problems


def users(root):
    """cli/, console/, python/: <leat/...>, their own files, the system's."""
    problems = []
    for path in sources(root, *OUTSIDE):
        own = root / path.relative_to(root).parts[0]
        for mark, name in INCLUDE.findall(path.read_text()):
            mine = any((d / name).exists() or
                       (own / name).with_suffix(".h.in").exists()
                       for d in (path.parent, own))
            if (mark == '"' and not mine) or is_private(root, name):
                problems.append(f"{path.relative_to(root)} includes {name}:"
                                " only <leat/...> and its own files")
    return problems


def public(root):
    """include/leat: <leat/...> and the system's."""
    problems = []
    for path in sources(root, "include"):
        for mark, name in INCLUDE.findall(path.read_text()):
            known = not name.startswith("leat/") or \
                (root / "include" / name).exists()
            if mark == '"' or is_private(root, name) or not known:
                problems.append(f"{path.relative_to(root)} includes {name}:"
                                " only <leat/...> and system headers")
    return problems


def complete(root):
    """leat.h includes every other public header."""
    text = (root / "include/leat/leat.h").read_text()
    return [f"leat.h does not include <leat/{p.name}>"
            for p in sources(root, "include/leat")
            if p.name != "leat.h" and f"<leat/{p.name}>" not in text]


def self_test(tap):
    tree = {"src/meson.build": "subdir('base')\nsubdir('redis')\n",
            "src/base/good.c": '#include "base/a.h"\n#include <leat/x.h>\n',
            "src/redis/good.c": '#include "base/a.h"\n#include "own.h"\n',
            "src/redis/conn.h": "", "include/leat/x.h": "",
            "include/leat/leat.h": "#include <leat/x.h>\n",
            "cli/main.c": '#include "own.h"\n#include <leat/x.h>\n',
            "cli/own.h": "", "cli/sub/a.c": '#include "own.h"\n'}
    with planted(tree) as root:
        found = library(root) + users(root) + public(root) + complete(root)
        tap.clean("self-test: a good tree has no complaint", found)
    bad = tree | {
        "src/base/c.c": '#include "redis/conn.h"\n',
        "src/base/angle.c": "#include <redis/conn.h>\n",
        "src/base/rel.h": '#include "../redis/conn.h"\n',
        "src/base/lua/a.lua": '--#include "redis/lua/b.lua"\n',
        "src/stray/a.c": "",
        "src/redis/gone.c": '#include "cli/own.h"\n',
        "cli/cmd_x.c": '#include "redis/conn.h"\n',
        "cli/cmd_y.c": "#include <redis/conn.h>\n",
        "include/leat/y.h": '#include "x.h"\n#include <redis/conn.h>\n'}
    with planted(bad) as root:
        tap.caught("self-test: an include downwards is caught", library(root),
                   "src/base/c.c", "src/base/angle.c", "src/base/rel.h",
                   "a.lua", "src/stray", "src/redis/gone.c")
        tap.caught("self-test: a private header in the command is caught",
                   users(root), "cli/cmd_x.c", "cli/cmd_y.c")
        tap.caught("self-test: a private header in a public one is caught",
                   public(root), "includes x.h", "includes redis/conn.h")
        tap.caught("self-test: a header that leat.h forgot is caught",
                   complete(root), "<leat/y.h>")


t = Tap()
self_test(t)
t.clean("src/ includes only upwards", library(ROOT))
t.clean("the command and the bindings include only <leat/...>", users(ROOT))
t.clean("public headers stand alone", public(ROOT))
t.clean("leat.h includes every public header", complete(ROOT))
t.done()
