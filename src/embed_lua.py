#!/usr/bin/env python3
"""Compile src/*/lua/*.lua into one C file and its header.

usage: embed_lua.py SRC_DIR OUT.c OUT.h FILE.lua...

A line `--#include "part/name.lua"` is replaced by that file, wherever it stands:
a block that is seldom entered may include what only it needs.
The name of a script is its part and file: redis/lua/probe.lua is
leat__script_redis_probe.  The SHA-1 is that of the text as the server gets it.
"""
import hashlib
import pathlib
import re
import sys

INCLUDE = re.compile(r'^--#include "([a-z_]+)/([a-z0-9_]+)\.lua"\s*$')


def expand(src, path, seen):
    if path in seen:
        sys.exit(f'{path}: includes itself')
    out = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        m = INCLUDE.match(line)
        if not m:
            out.append(line + '\n')
            continue
        other = src / m[1] / 'lua' / (m[2] + '.lua')
        if not other.exists():
            sys.exit(f'{path}:{number}: no such file: {m[1]}/lua/{m[2]}.lua')
        out.append(expand(src, other, seen | {path}))
    return ''.join(out)


def literal(text):
    lines = []
    for line in text.splitlines(keepends=True):
        escaped = line.replace('\\', '\\\\').replace('"', '\\"')
        lines.append('    "' + escaped.replace('\n', '\\n') + '"')
    return '\n'.join(lines)


def main():
    src, out_c, out_h = map(pathlib.Path, sys.argv[1:4])
    c = ['/* Made by embed_lua.py. */\n#include "redis/script.h"\n']
    h = ['/* Made by embed_lua.py. */\n']
    names = []
    for file in map(pathlib.Path, sys.argv[4:]):
        part, name = file.parent.parent.name, file.stem
        text = expand(src, file, set())
        sha = hashlib.sha1(text.encode()).hexdigest()
        symbol = f'leat__script_{part}_{name}'
        names.append(symbol)
        h.append(f'extern const leat__script {symbol};')
        c.append(f'const leat__script {symbol} = {{\n    "{part}/{name}",\n'
                 f'    "{sha}",\n{literal(text)},\n    {len(text.encode())}\n}};\n')
    h.append('\n/* Every script, ended by NULL. */\n'
             'extern const leat__script *const leat__scripts[];')
    c.append('const leat__script *const leat__scripts[] = {\n    '
             + ',\n    '.join('&' + n for n in names) + ',\n    NULL\n};')
    out_c.write_text('\n'.join(c) + '\n')
    out_h.write_text('\n'.join(h) + '\n')


main()
