"""topic_many.py: a topic on more than one server, under fire.

The servers are those of topologies.py, a master with replicas and sentinels or
a cluster.  Masters are killed, stopped until another has their place and let go
on, parted from their replicas, asked to step back; of a cluster slots are moved
key by key while they are in use.  Meanwhile the producers and consumers of
topic_run.py work, and are killed and stopped themselves.

One server fails at a time: the next is harmed when all are sound again.  Two in
a row, with the replica not yet in step, would be more than any class promises.

Their clocks are up to five seconds apart.  The operator's cards are dealt in every
class; what one of them altered is set right after a failover that may have lost
it.

Class 3 loses nothing.  The others may, and then every message that is gone was
told as lost by the producer that had it acknowledged (losses.py), unless that
one was killed: so with them producers are left alone.
"""

import contextlib
import time

from chaos import FAULTS, Rig, finish, say, wait_for
from harm import ManyServers
from losses import Losses
from operator_cards import TopicOperator, cards_of
from topic_policies import BAD
from topic_run import DRAIN_SECONDS, PARTITIONS, WRONG, Run, deals
from topics import EFFECT, GONE, LATE, OWNER
from topologies import TOPOLOGIES

REPUBLISH = 16 << 20
LAG = 1.0           # seconds that a replica may be behind on a busy machine


def log_of(partition):
    return f"leat:{{orders/{partition}}}:log"


class Many(TopicOperator, ManyServers, Run):
    lease = 2.0

    def __init__(self, rig, o, policies=None):
        self.policies = policies
        self.place = TOPOLOGIES[o.topology](rig, o.durability, o.replicas)
        self.producer_url = self.consumer_url = self.place.url
        self.durability = o.durability
        self.replicas = self.place.replicas if o.durability == 3 else 0
        self.republish = REPUBLISH if o.republish else 0
        self.lossless = o.durability == 3
        if self.lossless:
            self.rate = 150     # each waits for replicas and disks
        self.gone = []
        self.losing = None      # since when what is saved may be lost, and
        self.kept = None        # until when
        self.resumed = []       # seconds until messages flowed after harm
        super().__init__(rig)
        self.losses = Losses(self.ledgers)

    @contextlib.contextmanager
    def struck(self, r=None):
        """Harm to servers: what it leaves is mended, and messages flow."""
        begin = time.monotonic()
        self.cut_off()
        # What was saved and not passed on goes with the server.
        self.losing, self.kept = begin - LAG, None
        self.strike_unasked(self.losses.begin(self.place.failovers()))
        yield r
        self.place.heal()
        self.kept_from_now()
        if self.losses.over(self.place.failovers()) and not self.lossless:
            self.notes.strike(0, self.losing, self.kept, lossy=True)
        if not self.lossless:
            self.set_right()
        self.flows(120)
        self.back()
        self.resumed.append(time.monotonic() - begin)

    def kept_from_now(self):
        self.kept = self.kept or time.monotonic() + LAG

    def strike_unasked(self, window):
        """A failover that nobody asked for took what it took."""
        if window:
            for lossy in (False,) if self.lossless else (False, True):
                self.notes.strike(0, *window, lossy)

    def change_hands(self):
        """Whatever was dealt, partitions are given up in order while messages
        flow: every consumer leaves, and for each another joins."""
        self.step("change_hands")
        for _ in list(self.consumers):
            self.consumers.append(self.consumer())
            self.flows(acks=PARTITIONS, effects=PARTITIONS)
            w = self.consumers[0]
            self.forget(w)
            w.terminate()
            self.leaving.append(w)

    def hot_keys(self):
        return [log_of(i) for i in range(PARTITIONS)]

    def producers_ended(self):
        if self.policies:
            self.wait_ripe()
        self.strike_unasked(self.losses.unasked(self.place.failovers()))
        self.losses.read(self, PARTITIONS)
        self.gone = self.losses.gone()

    def wait_ripe(self):
        """What is delayed is in no log, and not gone."""
        def look():
            for w in list(self.consumers):
                self.policies.revive(self, w)
            return self.policies.ripe(self)
        wait_for(look, DRAIN_SECONDS, "nothing is delayed")

    def gone_unseen(self):
        """Of what is gone, what had no effect either."""
        return sum(not self.ledgers.marked(self.ledgers.effected, r) and
                   not self.ledgers.doomed(r.id) for r in self.gone)

    def drained(self):
        return self.ledgers.read().missing == self.gone_unseen()

    def judge(self, seed):
        self.losses.read(self, PARTITIONS)
        self.excuse()
        verdict = super().judge(seed)
        if self.policies:
            self.policies.judge(self, verdict)
        self.show(self.losses.judge(verdict))
        verdict["moves"] = self.rig.moves
        verdict["slowest"] = round(max(self.resumed, default=0), 1)
        return verdict

    def excuse(self):
        """What is in no log: where it stood nobody knows, and nobody can have
        it any more.  Of class 3 that is no excuse for what was acknowledged;
        what was not may have been handed out by a master that was replaced."""
        for r in self.losses.gone():
            self.notes.of(LATE, r.id)
            if not self.lossless:
                self.notes.of(GONE, r.id)
        there = self.losses.bodies
        for key, seen in self.ledgers.delivered.items():
            for seq in range(len(seen)):
                number = key << 32 | seq
                if seen[seq] and not self.ledgers.was_acked(key, seq) and \
                        str(number) not in there:
                    self.notes.of(LATE, number)
                    self.notes.of(GONE, number)

    def show(self, wrong):
        for what, records in wrong.items():
            for r in records[:5]:
                say(f"{what}: {r.who} acknowledged {r.key}/{r.seq} at "
                    f"{r.ns / 1e9 - self.started:.2f}, partition "
                    f"{(r.detail & 0xffff) - 1}, {r.fence}-{r.detail >> 16}")


PROCESSES = (
    Many.kill_consumer, Many.kill_consumer_for_ever, Many.kill_half,
    Many.pause_consumer, Many.pause_consumer_long, Many.come_and_go,
    Many.flush_scripts, Many.kill_clients, Many.cut_command, Many.fill_memory,
    Many.part_clocks)
SERVERS = {
    "sentinel": (Many.kill_master, Many.kill_master, Many.stop_master,
                 Many.pause_master, Many.ask_failover, Many.kill_sentinel,
                 Many.part_master, Many.part_and_kill),
    "cluster": (Many.kill_master, Many.kill_master, Many.stop_master,
                Many.pause_master, Many.ask_failover, Many.part_and_kill,
                Many.move_slots, Many.move_slots, Many.everything),
}


def many_options(p):
    p.add_argument("--topology", default="single",
                   choices=["single", "sentinel", "cluster"])
    p.add_argument("--durability", type=int, default=3, choices=range(4),
                   help="the class that producers ask for, on more than one "
                        "server")
    p.add_argument("--replicas", type=int,
                   help="that class 3 waits for; all by default")
    p.add_argument("--republish", action="store_true",
                   help="what is lost is published again")
    p.add_argument("--policies", action="store_true",
                   help="some messages fail, for a time or for ever, and "
                        "some kill")
    p.add_argument("--only", help="one fault, again and again")


def decks(o):
    """Below class 3 no producer is killed: what it had acknowledged could be
    lost, and nobody would be left to tell."""
    mine = PROCESSES + cards_of(Many, o.policies) + \
        ((Many.kill_producer,) if o.durability == 3 else ())
    found = SERVERS[o.topology], mine
    if o.only:
        found = (tuple(f for f in found[0] + mine if f.__name__ == o.only),)
    return found


def on_many(o, policies=None):
    """Harm to servers and to processes in turn, as long as there is time."""
    with Rig() as rig:
        rig.moves = 0
        run = Many(rig, o, policies)
        run.started = time.monotonic()
        with rig.kept_if_bad():
            run.works()
            for calm, fault, long, numbers in deals(o.seed, *decks(o)):
                if time.monotonic() - run.started > o.seconds:
                    break
                run.rest(calm)
                run.do(fault, long, numbers)
            run.change_hands()
            again = run.end()
            verdict = run.judge(o.seed)
            verdict["unsettled"] = again
            if policies:
                policies.replay(run, verdict)
            bad = faults_of(o, policies)
            rig.bad = any(verdict[k] for k in bad)
    finish(verdict, o.tap, [
        ("hundreds of messages were acknowledged", verdict["acked"] > 300),
        ("messages had effects", run.ledgers.counts[EFFECT] > 300),
        ("partitions had owners", run.ledgers.counts[OWNER] >= PARTITIONS)] +
        (policies.felt(verdict) if policies else []), bad)


def faults_of(o, policies=None):
    bad = [k for k in FAULTS if k != "duplicated"] + [
        "shared", "repeated", "unsettled", "undetected", "imagined",
        "misdated", "miscounted", *WRONG]
    if o.durability == 3:
        bad.append("gone")
    if o.republish:     # what comes again comes late
        bad.remove("reordered")
    else:
        bad += ["misplaced", "written_twice"]
    if policies:
        bad += BAD
        if policies.order == "none" and "reordered" in bad:
            bad.remove("reordered")
    return tuple(bad)
