#!/usr/bin/env python3
"""redis60.py: scripts send nothing that Redis 6.0 does not know.

redis60.txt is the table, a line for each command (CONTAINER|SUBCOMMAND) that
6.0 has:

  NAME +TOKEN...   options that 6.0 knows
       -TOKEN...   options that came later: -(* any word that starts with it,
                   -*x any that ends with it
       <=N         no more than N words, the name's own included

It is made from what a newer server says of itself (COMMAND DOCS has the
version of every command and token) and of what only its history tells in
prose, which stands in HAND below.  `redis60.py --write` makes it anew with a
private server of 7.0 or later.

Checked here are the literals in src/*/lua; tests/integration/redis60.c checks
what is really sent.  A script for newer servers says `--#needs redis X.Y` in
its head; one that sends commands it was given says `--#sends what it is given`;
one that uses a newer function only where there is one says `--#asks for redis.f`.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tap import ROOT, Tap, planted

TABLE = Path(__file__).with_suffix(".txt")
FLOOR = (6, 0)

# Newer forms without a token of their own.
HAND = {
    "LPOP": ["<=2"], "RPOP": ["<=2"],                   # count: 6.2
    "CLIENT|PAUSE": ["<=3"], "SCRIPT|FLUSH": ["<=2"],   # mode: 6.2
    "XRANGE": ["-(*"], "XREVRANGE": ["-(*"],            # exclusive: 6.2
    "XPENDING": ["-(*"],
    "XADD": ["-*-*"],                                   # <ms>-*: 7.0
    "XSETID": ["<=3"], "XGROUP|SETID": ["-ENTRIESREAD", "<=5"],     # 7.0
    "XGROUP|CREATE": ["-ENTRIESREAD"],                  # 7.0
    "CONFIG|GET": ["<=3"], "CONFIG|SET": ["<=4"],       # several: 7.0
    "INFO": ["<=2"],
    "BITCOUNT": ["<=4"], "BITPOS": ["<=5"],             # BYTE, BIT: 7.0
    "FLUSHALL": ["-SYNC"], "FLUSHDB": ["-SYNC"],        # 6.2
    "CLIENT|LIST": ["-ID"],                             # 6.2
    "GEORADIUSBYMEMBER": ["-ANY"], "GEORADIUSBYMEMBER_RO": ["-ANY"],
}

# What a script may ask of `redis` besides call and pcall.
LUA_KNOWN = set("call pcall error_reply status_reply sha1hex log setresp"
                " replicate_commands set_repl breakpoint debug LOG_DEBUG"
                " LOG_VERBOSE LOG_NOTICE LOG_WARNING REPL_ALL REPL_AOF"
                " REPL_SLAVE REPL_REPLICA REPL_NONE".split())


# ---- making the table -----------------------------------------------------

def is_newer(version):
    return tuple(int(n) for n in version.split(".")[:2]) > FLOOR


def tokens(arguments, newer=False):
    """Yields each token and whether it came later; what stands inside a newer
    argument is newer, too."""
    for a in arguments:
        late = newer or is_newer(a.get("since", "1.0"))
        if a.get("token"):
            yield a["token"], late
        yield from tokens(a.get("arguments", ()), late)


def rows(docs):
    for name, doc in docs.items():
        if is_newer(doc["since"]):
            continue
        subs = doc.get("subcommands", {})
        if subs:
            yield from rows(subs)
        if subs and name not in ("command",):   # COMMAND alone is one as well
            continue
        known, late = set(), set()
        for token, newer in tokens(doc.get("arguments", ())):
            (late if newer else known).add(token.upper())
        name = name.upper()
        known -= {m[1:] for m in HAND.get(name, ())}    # lacks its version
        marks = ["+" + t for t in sorted(known) if '"' not in t]
        marks += ["-" + t for t in sorted(late - known)]
        hand = [m for m in HAND.get(name, ()) if m not in marks]
        yield name, " ".join([name, *marks, *hand])


def server_program():
    for name in (os.environ.get("LEAT_REDIS_SERVER"), "redis-server",
                 "valkey-server", "redis-check-rdb"):
        found = name and shutil.which(name)
        if found:
            return found
    sys.exit("no redis-server; set LEAT_REDIS_SERVER")


def ask(words):
    """Start a server, run one redis-cli, end the server."""
    with tempfile.TemporaryDirectory(prefix="leat-60-") as d:
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", d + "/s",
             "--save", "", "--dir", d], executable=server_program(),
            stdout=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 10
            while not os.path.exists(d + "/s") and time.monotonic() < end:
                time.sleep(0.01)
            return subprocess.run(["redis-cli", "-s", d + "/s", "--json",
                                   *words], capture_output=True, check=True,
                                  timeout=30, text=True).stdout
        finally:
            server.kill()
            server.wait()


def make_table():
    lines = dict(rows(json.loads(ask(["COMMAND", "DOCS"]))))
    return "".join(lines[n] + "\n" for n in sorted(lines))


# ---- reading it -----------------------------------------------------------

class Table:
    def __init__(self, text):
        self.rows = {r[0]: r[1:] for r in map(str.split, text.splitlines())}
        self.containers = {n.split("|")[0] for n in self.rows if "|" in n}

    def judge(self, words):
        """What 6.0 does not know of this command, or None.  None among the
        words: something that is not a literal."""
        upper = [w and w.upper() for w in words]
        name = upper[0]
        if name in self.containers and len(upper) > 1:
            if upper[1] is None:
                return f"{name} with a computed subcommand"
            name += "|" + upper[1]
        if name not in self.rows:
            return f"{name} is not in 6.0"
        for mark in self.rows[name]:
            if mark.startswith("<=") and len(upper) > int(mark[2:]):
                return f"{name} with {len(upper)} words is not in 6.0"
            late = [w for w in upper[1:] if mark[0] == "-" and w is not None
                    and matches(mark[1:], w)]
            if late:
                return f"{name} {late[0]} is not in 6.0"
        return None


def matches(token, word):
    if len(token) > 1 and token.startswith("*"):
        return word.endswith(token[1:])
    if len(token) > 1 and token.endswith("*"):
        return word.startswith(token[:-1])
    return word == token


# ---- reading Lua ----------------------------------------------------------

LUA_NOISE = re.compile(r"--\[\[.*?\]\]|--[^\n]*", re.DOTALL)
# Scripts may call by a local name: local call, try = redis.call, redis.pcall.
CALL = re.compile(r"\b(?:redis\.p?call|call|try)\s*\(")
LITERAL = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
MEMBER = re.compile(r"\bredis\.(\w+)")
ASKED_FOR = re.compile(r"^--#asks for redis\.(\w+)$", re.MULTILINE)


def without_comments(text):
    """Literals may hold `--`, so they are passed over whole."""
    both = re.compile(LITERAL.pattern + "|(" + LUA_NOISE.pattern + ")",
                      re.DOTALL)
    return both.sub(lambda m: " " if m[3] else m[0], text)


def arguments(text, start):
    """The arguments of the call whose parenthesis opens before `start`: for
    each the literals in it, calls inside left out, and whether it is one."""
    depth, at, args, here, plain = 0, start, [], [], True
    while at < len(text):
        inner = CALL.match(text, at)
        literal = LITERAL.match(text, at)
        if inner:
            at = arguments(text, inner.end())[1]
            plain = False
            continue
        if literal:
            here.append(literal[1] if literal[1] is not None else literal[2])
            at = literal.end()
            continue
        c = text[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth < 0 or (c == "," and depth == 0):
            args.append((here, plain and len(here) == 1))
            here, plain = [], True
            if depth < 0:
                return args, at + 1
        elif not c.isspace():
            plain = False
        at += 1
    return args, at


def words_of(args):
    """The words as far as they are literals; None for each computed one."""
    words = []
    for literals, plain in args:
        words += literals if plain else [None, *literals]
    return words


def script(path, root, table):
    text = path.read_text()
    where = path.relative_to(root)
    if re.search(r"^--#needs redis \d+\.\d+", text, re.MULTILINE):
        return []
    given = "--#sends what it is given" in text
    problems = [f"{where}: a shebang is not in 6.0"] \
        if text.startswith("#!") else []
    code = without_comments(text)
    problems += [f"{where}: redis.{m} is not in 6.0"
                 for m in sorted(set(MEMBER.findall(code)) - LUA_KNOWN -
                                 set(ASKED_FOR.findall(text)))]
    for call in CALL.finditer(code):
        words = words_of(arguments(code, call.end())[0])
        if not words or words[0] is None:
            if not given:
                problems.append(f"{where}: a computed command; say"
                                " `--#sends what it is given`")
            continue
        # A computed word may be several, so that words are no longer counted.
        why = table.judge(words)
        if why and not (None in words and "words" in why):
            problems.append(f"{where}: {why}")
    return problems


def scripts(root, table):
    return [p for path in sorted(root.glob("src/*/lua/*.lua"))
            for p in script(path, root, table)]


# ---- the cases ------------------------------------------------------------

def facts(table):
    """What is known of 6.0 from elsewhere."""
    there = ("EVAL EVALSHA XADD XCLAIM XINFO|STREAM XGROUP|CREATE OBJECT|FREQ"
             " CLIENT|SETNAME CLIENT|ID HELLO LPOS MULTI EXEC WATCH TIME"
             " COMMAND|INFO COMMAND XSETID SCRIPT|LOAD CONFIG|GET")
    absent = ("XAUTOCLAIM XGROUP|CREATECONSUMER GETEX GETDEL LMPOP LMOVE"
              " EVAL_RO FCALL WAITAOF COPY ZRANGESTORE COMMAND|DOCS"
              " CLIENT|INFO CLIENT|NO-EVICT SMISMEMBER EXPIRETIME RESET")
    good = ("XADD s MAXLEN ~ 5 * a b|SET k v PX 5 NX KEEPTTL|ZADD z CH NX 1 m|"
            "XPENDING s g - + 10 c|XREADGROUP GROUP g c NOACK BLOCK 1 STREAMS"
            " s >|XCLAIM s g c 0 1-1 JUSTID FORCE IDLE 0|HELLO 3 AUTH u p"
            " SETNAME n|XINFO STREAM s FULL COUNT 1|ZRANGE z 0 -1 WITHSCORES|"
            "XGROUP CREATE s g $ MKSTREAM|LPOP l|INFO server|XADD s * a b")
    bad = ("XADD s MINID 1 * a b|XADD s NOMKSTREAM * a b|XADD s 5-* a b|"
           "XTRIM s MINID 5|XPENDING s g IDLE 5 - + 10|SET k v GET|"
           "SET k v EXAT 1|ZADD z GT 1 m|ZRANGE z 0 1 REV|LPOP l 2|"
           "EXPIRE k 5 NX|XRANGE s (1-1 +|XAUTOCLAIM s g c 0 0|"
           "XGROUP CREATE s g $ ENTRIESREAD 1|SCRIPT FLUSH ASYNC|"
           "CONFIG GET a b|INFO a b|XGROUP CREATECONSUMER s g c")
    problems = [f"{n} is missing" for n in there.split()
                if n not in table.rows]
    problems += [f"{n} came later" for n in absent.split()
                 if n in table.rows]
    problems += [f"refused: {c}: {table.judge(c.split())}"
                 for c in good.split("|") if table.judge(c.split())]
    problems += [f"let through: {c}" for c in bad.split("|")
                 if not table.judge(c.split())]
    return problems


def self_test(tap, table):
    good = {"src/q/lua/a.lua": "-- redis.call('XAUTOCLAIM')\n"
            "local s = 'not -- a comment'\n"
            "return redis.call('SET', KEYS[1], redis.call('GET', 'GET'))\n",
            "src/q/lua/b.lua": "--#needs redis 6.2\n"
            "redis.call('XAUTOCLAIM', KEYS[1])\n",
            "src/q/lua/c.lua": "--#sends what it is given\n"
            "redis.pcall(unpack(ARGV))\n",
            "src/q/lua/d.lua": "--#asks for redis.acl_check_cmd\n"
            "return redis.acl_check_cmd and 1\n"}
    bad = {"src/q/lua/claim.lua": "return redis.call('xautoclaim', KEYS[1])\n",
           "src/q/lua/idle.lua": "return redis.pcall(\"XPENDING\", KEYS[1],\n"
           "    ARGV[1], 'idle', 5, '-', '+', 10)\n",
           "src/q/lua/nested.lua": "f(redis.call('GET', redis.call('GETEX',"
           " KEYS[1])))\n",
           "src/q/lua/trim.lua": "redis.call('XTRIM', k, unpack({'MINID'}))\n",
           "src/q/lua/free.lua": "redis.call(ARGV[1])\n",
           "src/q/lua/pop.lua": "redis.call('LPOP', 'l', '2')\n",
           "src/q/lua/acl.lua": "redis.acl_check_cmd('GET')\n",
           "src/q/lua/bang.lua": "#!lua flags=no-writes\nreturn 1\n"}
    with planted(good) as root:
        tap.clean("self-test: good scripts have no complaint",
                  scripts(root, table))
    with planted(bad) as root:
        tap.caught("self-test: newer commands and options are caught",
                   scripts(root, table), "XAUTOCLAIM", "XPENDING IDLE",
                   "GETEX", "XTRIM MINID", "free.lua", "LPOP with 3",
                   "acl_check_cmd", "bang.lua")


def main():
    if sys.argv[1:] == ["--write"]:
        TABLE.write_text(make_table())
        return
    tap = Tap()
    table = Table(TABLE.read_text())
    tap.clean("the table agrees with what is known of 6.0", facts(table))
    tap.clean("the corrections by hand are in the table",
              [f"{n} {m}" for n, marks in HAND.items() for m in marks
               if m not in table.rows.get(n, ())])
    self_test(tap, table)
    tap.clean("scripts send nothing that 6.0 does not know",
              scripts(ROOT, table))
    tap.done()


main()
