"""Scripts at the most that they take, and one beyond.

Lua passes on some 8,000 values at once, and what a script wrote before it is
refused stays.  So each script has a bound on what it is given and finds: at it
everything is done and whatever has a body stands in one place; beyond it the
script fails and has changed nothing, or does what its limit says.

Usage: script_limits.py [name...]
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import script_most  # noqa: E402
import script_most_queue  # noqa: E402
from script_rig import LUA, Case, alone, run, scripts  # noqa: E402

LIMITS = script_most.LIMITS + script_most_queue.LIMITS

# What makes the work of a script depend on what it is given or finds.
DEPENDS = re.compile(r"\b(?:for|while|repeat)\b|\bunpack\(|"
                     r"'(?:HGETALL|HKEYS|HVALS|SMEMBERS)'")


def depends(text):
    """Comments say nothing, and may.lua goes over names in its own text."""
    text = text.replace(LUA["redis/may"], "")
    return DEPENDS.search(re.sub(r"--.*", "", text))


def refused(case):
    before = case.state()
    bad = ["not refused"] if case.run() is True else []
    return bad + (["something changed"] if case.state() != before else [])


def wrong_at(limit, case):
    before, how = case.state(), case.run()
    if how is not True:
        return [how]
    bad = limit.at(case) if limit.at else []
    if case.state() == before and not limit.same:
        bad = [*bad, "nothing was done"]
    return bad


def wrong_beyond(limit, case):
    if not limit.beyond:
        return refused(case)
    how = case.run()
    return limit.beyond(case) if how is True else [how]


def wrong_with(w, limit, text):
    for n, wrong in ((limit.most, wrong_at), (limit.most + 1, wrong_beyond)):
        yield from (f"{n}: {x}" for x in wrong(
            limit, Case(w, limit.name, text, limit.make(n))))


def main(rig, tap):
    texts, wanted = scripts(), sys.argv[1:]
    left = {x for x in texts if depends(texts[x])} - {x.name for x in LIMITS}
    tap.say(not left, "every script whose work depends on anything has a limit",
            f"without: {sorted(left)}" if left else "")
    with alone(rig) as w:
        for limit in LIMITS:
            if wanted and limit.name not in wanted:
                continue
            bad = list(wrong_with(w, limit, texts[limit.name]))
            tap.say(not bad, f"{limit.name} takes {limit.most}, and no more: "
                    f"{limit.make.__name__}", "; ".join(bad))


if __name__ == "__main__":
    sys.exit(run(main))
