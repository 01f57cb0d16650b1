"""topic.py: does a topic lose, repeat or reorder anything, under fire?

Two producers publish numbered messages of 32 keys to a topic of eight
partitions; three to eight consumers of one group, with leases of a second,
write down what they do.  Meanwhile consumers are killed and come back under the
same name or another, are stopped for less and for more than their lease, join
and leave every 200 ms; producers are killed; the server is killed, stopped,
paused, its clock is moved, its scripts are flushed; connections are cut at any
byte, held, refused and killed.  An operator pauses, seeks, trims, alters; groups
join under retention, a group and a topic are removed and made again, members ask
for other settings (operator_cards.py); one message in a hundred is large.

A command that was on its way when its sender gave up may land behind the
sender's next: its outcome was unknown, and so is its place.  The logs are looked
at for such, which are not the consumers' fault; an acknowledged message among
them would be the producer's, as would be one that was written twice.

At the end all is healed.  What was acknowledged must have had its effect, first
effects of a key in its producer's order, nothing that was not sent, no epoch of
a partition with two owners.  In all that the server ever wrote, no cursor goes
back and every epoch is above the one before.  The effects are kept as a store
would that refuses a lower fence (ledger.h): a consumer that was stopped inside
its handler wakes up and does what it was about to, and nothing but a fence can
tell.

With --policies some messages fail for a time or for ever, some kill the process
that handles them, and a second group reads along: topic_policies.py.

Duplicates come from what was in flight when a fault struck, and are bounded by
that: the run writes down whom it struck and when, and the judge knows which
messages each consumer had not settled then (ledger.h).  Those alone may come
again, and what one had that lost its partition while it lived, which on a machine
under load may happen without any fault of ours.  Afterwards a new member finds
nothing of all that unsettled.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import FAULTS, Rig, finish, options, say  # noqa: E402
from harm import OneServer  # noqa: E402
from operator_cards import TopicOperator, cards_of  # noqa: E402
from topic_many import many_options, on_many  # noqa: E402
from topic_run import (GROUP, PARTITIONS, WRONG, Run,  # noqa: E402
                       deals)
from topic_policies import BAD, Policies  # noqa: E402
from topics import OWNER, unfenced  # noqa: E402


class One(TopicOperator, OneServer, Run):
    """On one server that keeps what it acknowledged."""

    def __init__(self, rig, policies=None):
        self.policies = policies
        self.start_server(rig)
        super().__init__(rig)

    def drop_leases(self, _seconds, r):
        """By hand: the owners are fenced."""
        self.cut_off()
        for i in r.sample(range(PARTITIONS), 3):
            self.redis.ask(f"DEL leat:{{orders/{i}}}:lease:billing")


# Come and go twice: it is what groups are made for.
DECK = (
    One.kill_consumer, One.kill_consumer_for_ever, One.kill_half,
    One.pause_consumer, One.pause_consumer_long, One.pause_consumer_long,
    One.kill_producer, One.come_and_go, One.come_and_go, One.kill_redis,
    One.pause_redis, One.pause_redis_long, One.pause_clients, One.move_clock,
    One.shake_clock, One.cut, One.cut, One.cut_command, One.cut_command,
    One.hold, One.hold_requests, One.delay, One.split, One.shut_door,
    One.flush_scripts, One.kill_clients, One.drop_leases, One.kill_with_redis,
    One.fill_memory)


LEAST_SECONDS = 12


def schedule(seed, seconds, deck):
    """Follows from its arguments alone."""
    spent = 0.0
    for calm, fault, long, numbers in deals(seed, deck):
        spent += calm + long
        if spent >= seconds:
            return
        yield calm, fault, long, numbers


def harm(run, seconds, faults):
    """As many of these as there is time for: some cards wait for much.  A
    short run is as long as it takes."""
    run.started = time.monotonic()
    run.works()
    for calm, fault, long, numbers in faults:
        if time.monotonic() - run.started > max(seconds, LEAST_SECONDS):
            break
        run.rest(calm)
        run.do(fault, long, numbers)
    return run.end()


def policies_of(o):
    return Policies(o.seed, GROUP, PARTITIONS, o.seconds < 10) \
        if o.policies else None


def deck_of(o):
    deck = DECK + cards_of(One, o.policies)
    deck = tuple(f for f in deck if o.only in (None, f.__name__))
    return deck or sys.exit(f"no fault {o.only}")


def faults_of(run):
    bad = tuple(k for k in FAULTS if k != "duplicated") + (
        "shared", "repeated", "unsettled", "misplaced", "written_twice",
        "back", "fell") + WRONG + (BAD if run.policies else ())
    if run.policies and run.policies.order == "none":
        bad = tuple(k for k in bad if k != "reordered")
    return bad


def on_one(o):
    with Rig() as rig:
        run = One(rig, policies_of(o))
        again = harm(run, o.seconds,
                     schedule(o.seed, o.seconds, deck_of(o)))
        verdict = run.judge(o.seed)
        if run.policies:
            run.policies.judge(run, verdict)
            run.policies.replay(run, verdict)
        verdict["back"], verdict["fell"] = unfenced(run.redis, run.sought)
        verdict["unsettled"] = again
        bad = faults_of(run)
        rig.bad = any(verdict[k] for k in bad)
    finish(verdict, o.tap, [
        ("hundreds of messages were acknowledged", verdict["acked"] > 500),
        ("consumers were killed and stopped",
         verdict["kills"] > 0 and verdict["pauses"] > 0),
        ("partitions changed hands",
         run.ledgers.counts[OWNER] > 2 * PARTITIONS)] +
        (run.policies.felt(verdict) if o.policies else []), bad)


def main():
    o = options("a topic and its consumers, under fire", many_options)
    say(f"seed {o.seed}, {o.seconds:g} s")
    if o.topology == "single":
        on_one(o)
    else:
        on_many(o, policies_of(o))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
