#!/usr/bin/env python3
"""style.py: what the formatter cannot see.

Banned calls, line and function length, opening comments, names of tests,
left-over marks and paths of somebody's machine.
"""

import re

from tap import ROOT, Tap, planted, sources

C_FOLDERS = ("src", "include", "cli", "console", "python", "tests", "bench",
             "examples")
BANNED = ("strcpy strcat sprintf vsprintf gets atoi atol strtok alloca system"
          " popen tmpnam")
COLUMNS = 80
FUNCTION_LINES = 100
TEST_CASE = re.compile(r"^static void (\w+)\(void \*\*\w*\)", re.MULTILINE)
TEST_WORDS = 3
# Written so that this file does not find itself.
MARK = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
MACHINE = re.compile(r"(?<![\w.])/(wo" r"rk|ro" r"ot)/")
TEXT = (".c", ".h", ".lua", ".py", ".md", ".scd", ".sh", ".build", ".txt")


def code_only(text):
    """Blank out comments and literals, keeping every line in its place."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m[0])
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"'
                  r"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.DOTALL)


def numbered(root, path, text, pattern, say):
    return [f"{path.relative_to(root)}:{i}: {say} {m[1]}"
            for i, line in enumerate(text.splitlines(), 1)
            for m in pattern.finditer(line)]


def calls_of(names):
    return re.compile(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\(")


def banned_calls(root):
    """A test may want rand's repeatable sequence, the library never does."""
    everywhere, shipped = calls_of(BANNED), calls_of(BANNED + " rand")
    return [p for path in sources(root, *C_FOLDERS)
            for p in numbered(root, path, code_only(path.read_text()),
                              everywhere if path.is_relative_to(
                                  root / "tests") else shipped, "calls")]


def lines(root):
    problems = []
    for path in sources(root, *C_FOLDERS):
        for i, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{path.relative_to(root)}:{i}:"
            if "\t" in line:
                problems.append(f"{where} a tab")
            if len(line) > COLUMNS:
                problems.append(f"{where} {len(line)} columns")
    return problems


def openings(root):
    return [f"{path.relative_to(root)} does not say what it is"
            for path in sources(root, *C_FOLDERS)
            if not path.read_text().startswith("/*")]


def functions(text):
    """Yields name, first line, length and leading comment of each function.
    The formatter puts a body's braces, and no others, at the line start."""
    rows = text.splitlines()
    start = None
    for i, row in enumerate(rows):
        if row == "{":
            start = i
        elif row == "}" and start is not None:
            head = start
            while head > 0 and rows[head - 1].strip() and \
                    not rows[head - 1].startswith(("}", "#")):
                head -= 1
            above = "\n".join(rows[head:start])
            comment = " ".join(re.findall(r"/\*.*?\*/", above, re.DOTALL))
            bare = re.sub(r"/\*.*?\*/", "", above, flags=re.DOTALL)
            name = re.search(r"(\w+)\s*\(", bare)
            yield name[1] if name else "?", start + 1, i - start + 1, comment
            start = None


def long_functions(root):
    return [f"{path.relative_to(root)}:{line}: {name} has {n} lines and is"
            " no parser or state machine"
            for path in sources(root, *C_FOLDERS)
            for name, line, n, comment in functions(path.read_text())
            if n > FUNCTION_LINES
            and not re.search(r"parser|state\s+machine", comment)]


def test_names(root):
    return [f"{path.relative_to(root)}: '{name}' is no sentence"
            for path in sources(root, "tests", suffixes=(".c",))
            for name in TEST_CASE.findall(code_only(path.read_text()))
            if len([w for w in name.split("_") if w]) < TEST_WORDS]


def texts(root):
    skip = {".git", "corpus"}
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if parts[0].startswith("build") or skip & set(parts):
            continue
        if path.is_file() and (path.suffix in TEXT or path.name == "dev"):
            yield path, path.read_text(errors="replace")


def marks(root):
    return [p for path, text in texts(root)
            for p in numbered(root, path, text, MARK, "left over:")]


def machine_paths(root):
    return [p for path, text in texts(root)
            for p in numbered(root, path, text, MACHINE,
                              "a path of somebody's machine:")]


CHECKS = (
    ("no banned function is called", banned_calls),
    ("no tabs, no line over 80 columns", lines),
    ("every C file opens with a comment", openings),
    ("no function is over 100 lines unless it must be", long_functions),
    ("tests are named as sentences", test_names),
    ("nothing is marked as unfinished", marks),
    ("no path of somebody's machine", machine_paths),
)


def body(n):
    return "{\n" + "    x();\n" * (n - 2) + "}\n"


def self_test(tap):
    good = {"src/base/a.c": "/* a.c: strcpy(3) is not called. */\n"
            'char *s = "sprintf(x)";\nvoid f(void)\n{\n    sys->rand(1);\n'
            "    leat__system();\n    my_atoi(2);\n}\n\n"
            "/* A parser. */\nint g(int a,\n      int b)\n" + body(150),
            "tests/a.c": "/* a.c */\nstatic void it_keeps_its_word"
            "(void **state)\n{\n    rand();\n}\n"
            'mkstemp("/tmp/aXX' 'XXXX");\n'}
    with planted(good) as root:
        tap.clean("self-test: a good tree has no complaint",
                  [p for _, check in CHECKS for p in check(root)])
    bad = {"src/base/a.c": "int a;\n\tint b;\n" + "x" * 81 + "\n"
           "void f(void)\n{\n    strcpy(a, b);\n    rand();\n    return atoi (c);\n}\n\n"
           "/* Not short. */\nint long_one(void)\n" + body(101),
           "tests/a.c": "/* a.c */\nstatic void test_1(void **state)\n",
           "src/base/lua/a.lua": "-- TO" "DO\n",
           "tests/b.py": "open('/wo" "rk/x')\n"}
    with planted(bad) as root:
        tap.caught("self-test: a banned call is caught", banned_calls(root),
                   "calls strcpy", "calls atoi", "calls rand")
        tap.caught("self-test: a tab and a long line are caught", lines(root),
                   "a.c:2: a tab", "a.c:3: 81 columns")
        tap.caught("self-test: a missing opening is caught", openings(root),
                   "src/base/a.c")
        tap.caught("self-test: a long function is caught",
                   long_functions(root), "long_one has 101")
        tap.caught("self-test: a test without a sentence is caught",
                   test_names(root), "test_1")
        tap.caught("self-test: an unfinished mark is caught", marks(root),
                   "a.lua:1")
        tap.caught("self-test: a machine's path is caught",
                   machine_paths(root), "tests/b.py:1")


t = Tap()
self_test(t)
for title, check_ in CHECKS:
    t.clean(title, check_(ROOT))
t.done()
