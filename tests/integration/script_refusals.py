"""Scripts that the server refuses to carry on with.

Every script that changes something is run on its cases: at maxmemory, where
commands that need memory are refused until something was written; with one of
its keys after the other holding something of another type, as if somebody else
had written there; and by a user who may not use one after the other of its
commands.  A script that fails has changed nothing: all keys of the server are
compared.  One that goes on has lost and doubled no message of a queue: whatever
has a body stands in one place, once.

Usage: script_refusals.py [name...]
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from script_rig import CASES, Case, Queue, alone, run, scripts  # noqa: E402
from wire import Wire  # noqa: E402

# Commands by name: call('GET', ...), redis.pcall('XGROUP', ...), lists of them.
COMMAND = re.compile(r"""(?:call|try)\(\s*'([A-Z]+)'""")


def is_queue(name):
    return name.startswith(("queue/", "pool/")) and "/owl_" not in name


def judge(case, before, how):
    after = case.state()
    if how is not True and after != before:
        return [f"failed, and changed {k}: {before.get(k)} to {after.get(k)}"
                for k in sorted(set(before) | set(after))
                if before.get(k) != after.get(k)] + [how]
    # repair is given some, and may leave them.
    strays = Queue(case).strays() if is_queue(case.name) and \
        case.name != "queue/repair" else []
    return [f"strays: {strays}"] if strays else []


def at_maxmemory(case):
    before = case.state()
    case.w.call("CONFIG", "SET", "maxmemory", 1)
    how = case.run()
    case.w.call("CONFIG", "SET", "maxmemory", 0)
    return judge(case, before, how)


def put_wrong(w, key):
    """Another type under a key; what was there goes aside."""
    kind = w.call("TYPE", key)
    if kind != "none":
        w.call("RENAME", key, key + "-aside")
    # What the scripts keep as strings they would read as such.
    w.call(*(["RPUSH", key, "wrong"] if kind == "string"
             else ["SET", key, "wrong"]))
    return kind != "none"


def with_wrong(case, key):
    before = case.state()
    aside = put_wrong(case.w, key)
    how = case.run()
    case.w.call("DEL", key)
    if aside:
        case.w.call("RENAME", key + "-aside", key)
    return judge(case, before, how)


def denied(case, user, command):
    """The same by somebody who may do all but one command."""
    before = case.state()
    case.w.call("ACL", "SETUSER", "some", "reset", "on", "nopass", "~*", "&*",
                "+@all", "-" + command.lower())
    return judge(case, before, case.run(user))


def unheard(case, user):
    """By somebody who may not use a channel."""
    before = case.state()
    case.w.call("ACL", "SETUSER", "some", "reset", "on", "nopass", "~*",
                "resetchannels", "+@all")
    how = case.run(user)
    return judge(case, before, how) + ([] if how is True else [how])


def all_cases(w, name, text):
    """The cases, made anew."""
    for case in CASES[name](name):
        yield Case(w, name, text, case)


def each_case(w, name, text, *values):
    """Each case with each value, alone on the server."""
    for value in values:
        for case in all_cases(w, name, text):
            yield case, value


class Runs:
    """A script's runs of one kind; what was wrong with them."""

    def __init__(self):
        self.n, self.bad = 0, []

    def note(self, case, what, wrong):
        self.n += 1
        self.bad += [f"{what} {list(case.args)}: {x}" for x in wrong]


def check(tap, w, user, name, text):
    full, types, rights = Runs(), Runs(), Runs()
    for case in all_cases(w, name, text):
        full.note(case, "maxmemory", at_maxmemory(case))
    tap.say(not full.bad, f"{name} at maxmemory does all or nothing",
            "\n# ".join(full.bad))
    most = max(len(case.all) for case in all_cases(w, name, text))
    for case, i in each_case(w, name, text, *range(most)):
        if i < len(case.all):
            types.note(case, case.all[i], with_wrong(case, case.all[i]))
    tap.say(not types.bad, f"{name} changes nothing where a key is wrong",
            "\n# ".join(types.bad))
    for case, command in each_case(w, name, text,
                                   *sorted(set(COMMAND.findall(text)))):
        rights.note(case, "-" + command, denied(case, user, command))
    for case in all_cases(w, name, text):
        rights.note(case, "no channel", unheard(case, user))
    tap.say(not rights.bad, f"{name} changes nothing where a right is missing",
            "\n# ".join(rights.bad))
    return full.n + types.n + rights.n


def main(rig, tap):
    runs, texts = 0, scripts()
    with alone(rig) as w, Wire(rig.dir / "s") as user:
        w.call("ACL", "SETUSER", "some", "reset", "on", "nopass", "+@all")
        user.call("AUTH", "some", "any")
        for name in sys.argv[1:] or CASES:
            runs += check(tap, w, user, name, texts[name])
    print(f"# {runs} runs")


if __name__ == "__main__":
    sys.exit(run(main))
