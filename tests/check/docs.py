#!/usr/bin/env python3
"""docs.py: what the documents point at exists, what they show compiles."""

import re
import subprocess

from tap import ROOT, Tap, planted

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEST = re.compile(r"`(tests/[\w./-]+)`")
C_BLOCK = re.compile(r"^```c\n(.*?)^```", re.DOTALL | re.MULTILINE)
METRIC = re.compile(r'"((?:leat|messaging)_\w+_(?:total|seconds|messages|bytes|'
                    r'owned|flight|groups))"')
# The faults that must each have a row, by letter: how many.
SCENARIOS = {"A": 14, "B": 11, "C": 12, "P": 10, "E": 7, "S": 10, "G": 11,
             "H": 14, "J": 7}


def pages(root):
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def broken_links(root):
    return [f"{page.relative_to(root)}: {target}"
            for page in pages(root)
            for target in LINK.findall(page.read_text())
            if "://" not in target and not (page.parent / target).exists()]


def missing_tests(root):
    return [f"{page.relative_to(root)}: {name}"
            for page in pages(root)
            for name in sorted(set(TEST.findall(page.read_text())))
            if not (root / name).exists()]


def missing_scenarios(text):
    want = [f"{c}{i}" for c, n in SCENARIOS.items()
            for i in range(1, n + 1)] + ["K", "L"]
    rows = re.findall(r"^\| ([A-Z]\d*) \|", text, re.MULTILINE)
    return [f"{s} has {rows.count(s)} rows" for s in want
            if rows.count(s) != 1]


def unlisted_metrics(root):
    listed = (root / "docs/metrics.md").read_text()
    names = {n for page in root.glob("src/**/*.c")
             for n in METRIC.findall(page.read_text())}
    return [f"{n} is not in docs/metrics.md" for n in sorted(names)
            if f"`{n}`" not in listed]


def unlisted(root):
    """Guides without a link in README.md, folders of src/ not in its tree."""
    text = (root / "README.md").read_text()
    guides = [str(p.relative_to(root)) for p in root.glob("docs/*.md")]
    folders = [p.parent.name for p in root.glob("src/*/meson.build")]
    return ([f"{g} is not linked" for g in sorted(guides)
             if f"]({g})" not in text] +
            [f"src/{f} is not in the tree" for f in sorted(folders)
             if not re.search(rf"^      {f}/ ", text, re.MULTILINE)])


def untested_rows(root):
    """Rows of docs/redowl.md that name no test, or one that is not there."""
    code = "".join(p.read_text() for p in sorted(
        [*root.glob("tests/integration/*redowl*"),
         *root.glob("tests/integration/queue*.c")]))
    there = set(re.findall(r"^(?:static void|def) (\w+)\(", code,
                           re.MULTILINE))
    problems = []
    for row in re.findall(r"^\|(.*)\|$", (root / "docs/redowl.md").read_text(),
                          re.MULTILINE):
        last = row.split("|")[-1].strip()
        if last == "test" or set(row) <= set("-|"):
            continue
        names = re.findall(r"`(\w+)`", last)
        if not names:
            problems.append(f"no test: {row.strip()}")
        problems += [f"{n} is no test" for n in names if n not in there]
    return problems


def uncompilable(root):
    problems = []
    for page in pages(root):
        for block in C_BLOCK.findall(page.read_text()):
            p = subprocess.run(
                ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror",
                 f"-I{ROOT / 'include'}", "-fsyntax-only", "-xc", "-"],
                input=block, capture_output=True, text=True, check=False)
            if p.returncode != 0:
                problems += [f"{page.relative_to(root)}:",
                             *p.stderr.splitlines()]
    return problems


def self_test(tap):
    with planted({"README.md": "[a](docs/no.md) [b](README.md#x)\n"
                  "`tests/none.c`\n```c\nint f(void) { return x; }\n```\n"
                  }) as root:
        found = broken_links(root)
        tap.case("self-test: a broken link is caught, and only it",
                 found == ["README.md: docs/no.md"], found)
        tap.caught("self-test: a test that is not there is caught",
                   missing_tests(root), "tests/none.c")
        tap.caught("self-test: an example that does not compile is caught",
                   uncompilable(root), "undeclared")
    with planted({"README.md": "[a](docs/a.md)\n      base/  x\n",
                  "docs/a.md": "", "docs/b.md": "", "src/base/meson.build": "",
                  "src/pool/meson.build": ""}) as root:
        found = unlisted(root)
        tap.case("self-test: what README.md does not list is caught",
                 found == ["docs/b.md is not linked",
                           "src/pool is not in the tree"], found)
    with planted({"docs/metrics.md": "`leat_a_total`\n",
                  "src/x/m.c": '"leat_a_total" "leat_b_seconds"'}) as root:
        tap.caught("self-test: a metric that is not in the list is caught",
                   unlisted_metrics(root), "leat_b_seconds")
    with planted({"docs/redowl.md": "| a | b | test |\n|---|---|---|\n"
                  "| c | d | `good` |\n| e | f | `bad` |\n| g | h | |\n",
                  "tests/integration/redowl.c": "static void good(void **s)\n"
                  }) as root:
        found = untested_rows(root)
        tap.case("self-test: a row without its test is caught, and only it",
                 found == ["bad is no test", "no test: g | h |"], found)
    tap.caught("self-test: a forgotten scenario is caught",
               missing_scenarios("| A1 | x |\n| A2 | x |\n| A2 | x |\n"),
               "A2 has 2", "A3 has 0")


t = Tap()
self_test(t)
t.clean("every link leads somewhere", broken_links(ROOT))
t.clean("every test that is named exists", missing_tests(ROOT))
t.clean("README.md lists every guide and every folder of src", unlisted(ROOT))
t.clean("every scenario has one row", missing_scenarios(
    (ROOT / "docs/internals/scenarios.md").read_text()))
t.clean("every row of docs/redowl.md has its test", untested_rows(ROOT))
t.clean("every metric is in docs/metrics.md", unlisted_metrics(ROOT))
t.clean("every example in C compiles", uncompilable(ROOT))
t.done()
