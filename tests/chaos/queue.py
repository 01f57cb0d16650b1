"""queue.py: does a queue lose, repeat or delete anything it should not, under
fire?

Producers and consumers of queue_run.py; meanwhile consumers are killed, stopped
for less and for more than the visibility, join and leave every 200 ms; producers
are killed; the server is killed, stopped, paused, filled up, its clock is moved,
its scripts are flushed; connections are cut at any byte, held, refused and
killed.  Queues are altered, purged, removed and made again, and dead letters
redriven.  With --topology sentinel or cluster masters are killed, stopped, parted
and asked to step back, slots move, and clocks are seconds apart; always in class
3, since queues do not find out what a lesser one loses.

At the end all is healed.  What was acknowledged to a producer had its effect;
what had it twice was received twice, under another receipt each time.  One
receive of a message is handed out once, and none begins after the message was
acknowledged.  In all that the server ever wrote no message is there twice, none
is deleted but by a receipt that was its own and valid, no two are valid at once,
and of a fifo group one at most is in flight.  The keys of each queue fit to each
other, and a new consumer gets nothing of what was.

    ./dev chaos queue --seconds 60 --fifo --poison --topology cluster
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import Rig, finish, options, say  # noqa: E402
from queue_run import QueueOnMany, QueueOnOne  # noqa: E402
from topic_run import deals  # noqa: E402
from topics import EFFECT  # noqa: E402

One, Many = QueueOnOne, QueueOnMany
ON_ONE = (
    One.kill_consumer, One.kill_consumer_for_ever, One.kill_half,
    One.pause_consumer, One.pause_consumer_long, One.pause_consumer_long,
    One.kill_producer, One.come_and_go, One.kill_redis, One.pause_redis,
    One.pause_redis_long, One.pause_clients, One.move_clock, One.shake_clock,
    One.cut, One.cut, One.cut_command, One.cut_command, One.hold,
    One.hold_requests, One.delay, One.split, One.shut_door, One.flush_scripts,
    One.kill_clients, One.fill_memory, One.steal_reaper, One.kill_with_redis)
PROCESSES = (
    Many.kill_consumer, Many.kill_consumer_for_ever, Many.kill_half,
    Many.pause_consumer, Many.pause_consumer_long, Many.come_and_go,
    Many.kill_producer, Many.flush_scripts, Many.kill_clients,
    Many.cut_command, Many.steal_reaper, Many.fill_memory, Many.part_clocks)
SERVERS = {
    "sentinel": (Many.kill_master, Many.kill_master, Many.stop_master,
                 Many.pause_master, Many.ask_failover, Many.kill_sentinel,
                 Many.part_master, Many.part_and_kill),
    "cluster": (Many.kill_master, Many.kill_master, Many.stop_master,
                Many.pause_master, Many.ask_failover, Many.part_and_kill,
                Many.move_slots, Many.move_slots, Many.everything),
}


def more_options(p):
    p.add_argument("--topology", default="single",
                   choices=["single", "sentinel", "cluster"])
    p.add_argument("--fifo", action="store_true",
                   help="fifo queues; the order of a key is judged")
    p.add_argument("--poison", action="store_true",
                   help="some messages fail, for a time or for ever, and "
                        "some kill")
    p.add_argument("--only", help="one fault, again and again")


LEAST_SECONDS = 12
CARE = ("alter_queue", "stop_producer", "purge_queue", "remove_queue")


def decks(o):
    names = CARE + (("redrive_queue",) if o.poison else ())
    care = tuple(getattr(One if o.topology == "single" else Many, name)
                 for name in names)
    found = (ON_ONE + care,) if o.topology == "single" else \
        (SERVERS[o.topology], PROCESSES + care)
    if o.only:
        found = (tuple(f for d in found for f in d if f.__name__ == o.only),)
        if not found[0]:
            sys.exit(f"no fault {o.only}")
    return found


def harm(run, o):
    """One fault after the other, as long as there is time; of one server they
    follow from the seed alone."""
    spent = 0.0
    for calm, fault, long, numbers in deals(o.seed, *decks(o)):
        spent += calm + long
        passed = time.monotonic() - run.started
        if passed >= (o.seconds if o.topology != "single" else
                      max(o.seconds, LEAST_SECONDS)) or \
                (o.topology == "single" and spent >= o.seconds):
            return
        run.rest(calm)
        run.do(fault, long, numbers)


def main():
    o = options("queues and their consumers, under fire", more_options)
    say(f"seed {o.seed}, {o.seconds:g} s")
    with Rig() as rig, rig.kept_if_bad():
        rig.moves = 0
        run = (One if o.topology == "single" else Many)(rig, o)
        run.started = time.monotonic()
        run.works()
        harm(run, o)
        again = run.end()
        verdict = run.judge(o.seed)
        verdict["unsettled"] = again
        effects = run.ledgers.counts[EFFECT]
        if run.policies:
            run.policies.redrive(run, verdict)
        faults = run.faults()
        rig.bad = any(verdict[k] for k in faults)
    felt = [("hundreds of messages were acknowledged", verdict["acked"] > 300),
            ("messages had effects", effects > 300)]
    if run.policies:
        felt.append(("some became dead letters", verdict["dead"] > 0))
    finish(verdict, o.tap, felt, faults)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
