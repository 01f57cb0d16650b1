#!/usr/bin/env python3
"""symbols.py: growing the API is a visible act.

What libleat.so exports, what the public headers declare with LEAT_API and
what symbols.txt lists are the same names.  `symbols.py --write` puts what is
exported now into the list.
"""

import re
import subprocess
import sys

from tap import BUILD, ROOT, Tap, planted, sources

LIST = ROOT / "tests/check/symbols.txt"


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)],
                         capture_output=True, text=True, check=True).stdout
    # "0001139 T leat_version@@LEAT_0"; A is the version node itself.
    rows = [line.split() for line in out.splitlines()]
    return {row[2].split("@")[0] for row in rows if row[1] != "A"}


def declared(root):
    """The names that LEAT_API marks in the public headers."""
    names = set()
    for path in sources(root, "include/leat"):
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
        text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", "", text,
                      flags=re.MULTILINE)
        for found in re.findall(r"\bLEAT_API\b([^;{]*)[;{]", text):
            name = re.search(r"\b(leat_\w+)\s*\(", found) or \
                re.search(r"\b(leat_\w+)\s*(?:\[[^]]*\])*\s*$", found)
            names.add(name[1] if name else found.strip())
    return names


def listed(path):
    return {line for line in path.read_text().splitlines()
            if line and not line.startswith("#")}


def compare(have, want, text):
    return [f"{name} {text}" for name in sorted(have - want)]


def misnamed(names):
    return [f"{n} is exported, but public names are leat_<noun>_<verb>"
            for n in sorted(names)
            if not n.startswith("leat_") or n.startswith("leat__")]


def write():
    names = sorted(exported(BUILD / "libleat.so"))
    LIST.write_text("# What libleat.so exports; see symbols.py.\n"
                    + "".join(f"{n}\n" for n in names))


def self_test(tap):
    header = """
        /* LEAT_API int leat_comment(void); */
        #define LEAT_API __attribute__((visibility("default")))
        LEAT_API const char *leat_version(void);
        LEAT_API LEAT_PRINTF(2, 3) leat_code leat_x_log(leat_x *x,
            const char *fmt, ...);
        LEAT_API extern const leat_codec leat_codec_native;
        typedef void leat_fn(void *arg);
        int leat_unmarked(void);
    """
    with planted({"include/leat/x.h": header}) as root:
        found = declared(root)
        tap.case("self-test: declarations are found, and only they",
                 found == {"leat_version", "leat_x_log", "leat_codec_native"},
                 sorted(found))
    with planted({"x.c": "int leat_seen(void){return 1;}\n"
                  "__attribute__((visibility(\"hidden\"))) int leat_hid;\n"
                  "int leat__inside; int stray;\n"}) as root:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(root / "x.so"),
                        str(root / "x.c")], check=True)
        found = exported(root / "x.so")
    tap.case("self-test: exports are found", "leat_seen" in found and
             "leat_hid" not in found, sorted(found))
    tap.caught("self-test: a private and a foreign name are caught",
               misnamed(found), "leat__inside", "stray")
    tap.caught("self-test: a name outside the list is caught",
               compare(found, {"leat_seen"}, "is new"), "stray is new")


if "--write" in sys.argv[1:]:
    write()
    sys.exit(0)

t = Tap()
self_test(t)
out = exported(BUILD / "libleat.so")
api = declared(ROOT)
known = listed(LIST)
t.clean("every exported name is public", misnamed(out))
t.clean("every exported name is declared with LEAT_API",
        compare(out, api, "is exported, but no public header declares it"))
t.clean("every LEAT_API declaration is exported",
        compare(api, out, "is declared, but libleat.so lacks it"))
t.clean("symbols.txt lists every exported name",
        compare(out, known, "is new: run tests/check/symbols.py --write"))
t.clean("symbols.txt lists nothing else",
        compare(known, out, "is listed, but libleat.so lacks it"))
t.done()
