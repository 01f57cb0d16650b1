"""The faults of docs/internals/scenarios.md that strike a queue.

Real processes (tests/chaos/queue_worker.c), a real server, faults done exactly;
each check is a function whose name is the promise, TAP on stdout.

Usage: queue_scenarios.py LETTERS|cluster [PATTERN]

Each has a server of its own; `cluster` runs those of ON_CLUSTER on three masters
with a replica each.

The judge of queue_bench.py looks at each of them in the end: nothing is lost,
stuck, handed out twice under one receipt or received after it was acknowledged;
in all that the server wrote no message is there twice, none is deleted but by
its own receipt, and of a fifo group one at most is in flight.

Waits are generous and end at their condition; where a promise is about time,
the visibility is so long that it cannot be what helped.
"""

import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import Clock, wait_for  # noqa: E402
from queue_bench import AT_ONCE, ClusterBench, QueueBench  # noqa: E402
from queues import key_of, shard_key  # noqa: E402
from scenarios import LONG, ends, main  # noqa: E402
from topics import (ACK, ATTEMPT, DELIVERY, EFFECT, FAIL, OK,  # noqa: E402
                    SETTLED, STALE, UNKNOWN)

NEVER = 600000      # a visibility that is not waited for
IN_HAND = 20        # messages that a runner or a pool has at most


# ---- A: our processes die or stop ----------------------------------------

def a1_a_consumer_killed_30_times(b):
    b.server(visibility=500)
    p = b.produce(0, rate=50)
    for n in range(30):
        w = b.consume("v", api=("direct", "run", "pool")[n % 3], work=2,
                      wait=False)
        time.sleep(b.random.uniform(0.02, 0.1))
        b.drop(w)
    b.consume("v")
    b.flowing()
    b.end(p, twice=30 * IN_HAND)


STEPS = ("received", "before_effect", "after_effect", "after_settle")


def killed_at_each_step(b):
    b.send(200, batch=10, key=100, role="first")
    p = b.produce(0, rate=50)
    kills = [(step, n, {"ack": ack}) for step in STEPS
             for n, ack in ((1, "each"), (3, "batch"), (6, "each"))] + \
        [(step, n, {"api": api}) for step in STEPS[1:3]
         for n, api in ((2, "run"), (2, "pool"))]
    for step, n, how in kills:
        w = b.consume("v", env={"LEAT_FAILPOINT": f"{step}:kill@{n}"}, **how)
        b.workers.remove(w)
        ends(w, -signal.SIGKILL)
    b.consume("v")
    b.flowing()
    b.end(p, twice=len(kills) * IN_HAND)


def a2_a_kill_at_each_step_between_receive_and_ack(b):
    b.server(visibility=500)
    killed_at_each_step(b)


def a2_of_a_fifo_queue_too_and_the_order_holds(b):
    b.server(visibility=500, fifo=1)
    killed_at_each_step(b)


def outcomes(b, who):
    """Of acknowledgements."""
    return [r.detail & 0xffff for r in b.ledgers.read().of(SETTLED, who)]


def a4_a_stopped_receiver_deletes_nothing_when_it_wakes(b):
    """It stands inside its handler, with receipts in hand; another one has got
    all of them since, and stands inside the handler of the last."""
    b.server(visibility=500)
    b.send(AT_ONCE, batch=AT_ONCE)
    zombie = b.consume("zombie", env={
        "LEAT_FAILPOINT": "before_effect:stop@1"})
    zombie.await_stop()
    heir = b.consume("heir", hide=NEVER, wait=20000, env={
        "LEAT_FAILPOINT": f"before_effect:stop@{AT_ONCE}"})
    heir.await_stop()
    zombie.go_on()
    wait_for(lambda: len(outcomes(b, "zombie")) == AT_ONCE, LONG,
             "the zombie has tried")
    assert set(outcomes(b, "zombie")) == {STALE}
    heir.go_on()
    b.end(twice=AT_ONCE, doubled=0)
    assert set(outcomes(b, "heir")) == {OK}


def a4_a_stopped_receiver_gives_back_nothing_of_anothers(b):
    """All fail the first time.  It wakes to give back what somebody else has by
    now, whose receipts stay good."""
    b.with_fates(flaky=1000, most=2)
    b.server(visibility=500)
    b.send(AT_ONCE, batch=AT_ONCE)
    zombie = b.consume("zombie", env={
        "LEAT_FAILPOINT": "before_effect:stop@1"})
    zombie.await_stop()
    heir = b.consume("heir", hide=NEVER, wait=20000, env={
        "LEAT_FAILPOINT": "before_effect:stop@1"})
    heir.await_stop()
    before = sorted(b.state().flying)
    zombie.go_on()
    b.wait(lambda l: len(l.of(DELIVERY, "zombie")) == AT_ONCE,
           "the zombie has looked at all")
    b.leave(zombie)
    assert len(before) == AT_ONCE and sorted(b.state().flying) == before
    heir.go_on()
    b.end(twice=0, doubled=0)
    assert outcomes(b, "heir") == [OK] * AT_ONCE


def woken_without_claim(b, done=lambda l: l.of(EFFECT, "zombie"), **zombie):
    """It stands inside its handler and wakes when another has all it had."""
    b.server(visibility=500)
    b.send(AT_ONCE, batch=AT_ONCE)
    zombie = b.consume("zombie", env={
        "LEAT_FAILPOINT": "before_effect:stop@1"}, **zombie)
    zombie.await_stop()
    heir = b.consume("heir", hide=NEVER, wait=20000, env={
        "LEAT_FAILPOINT": f"before_effect:stop@{AT_ONCE}"})
    heir.await_stop()
    before = b.state()
    zombie.go_on()
    b.wait(done, "the zombie is up")
    b.leave(zombie)
    after = b.state()
    assert len(before.flying) == 1 and after.flying == before.flying, after
    assert after.dead == before.dead
    heir.go_on()
    b.end(twice=AT_ONCE, doubled=0)
    assert outcomes(b, "heir") == [OK] * AT_ONCE


def a4_a_stopped_runner_changes_nothing_when_it_wakes(b):
    """Nor does its heartbeat extend what is another's."""
    woken_without_claim(b, api="run", in_flight=AT_ONCE, threads=1)


def a4_a_stopped_pool_changes_nothing_when_it_wakes(b):
    woken_without_claim(b, api="pool", threads=1)


def a4_a_hold_that_was_stopped_extends_nothing_of_anothers(b):
    woken_without_claim(b, hold=1)


def a4_a_stopped_receiver_buries_nothing_of_anothers(b):
    """It rejects all; whoever has them by now does not."""
    woken_without_claim(
        b, lambda l: len(l.of(DELIVERY, "zombie")) == AT_ONCE, reject=1000)


def a5_a_stop_shorter_than_the_visibility_changes_nothing(b):
    b.server(visibility=20000)
    some = [b.consume(api, api=api, work=1) for api in
            ("direct", "run", "pool")]
    p = b.produce(0, rate=200)
    for n in range(5):
        b.flowing(25)
        some[n % 3].stop()
        time.sleep(0.15)
        some[n % 3].go_on()
    b.flowing()
    verdict = b.end(p, twice=0, doubled=0)
    assert verdict["stale"] == 0, verdict


def kept_while_busy(b, **options):
    b.server(visibility=1200)
    slow = 3 << 32 | 2
    b.consume("x", slow=slow, slow_ms=2500, busy=1, **options)
    b.send(64, batch=8)
    b.wait(lambda l: [r for r in l.of(DELIVERY) if r.id == slow], "it is had")
    b.consume("y")
    b.wait(lambda l: [r for r in l.of(EFFECT) if r.id == slow], "it is done")
    b.end(twice=0)
    tries = [r for r in b.ledgers.of(DELIVERY) if r.id == slow]
    assert len(tries) == 1, tries


def a7_a_busy_handler_keeps_its_message_beyond_the_visibility(b):
    """The runner extends it while the handler burns time."""
    kept_while_busy(b, api="run", threads=1, in_flight=4)


def a7_a_hold_keeps_a_message_beyond_the_visibility(b):
    kept_while_busy(b, hold=1, batch=1)


def a8_a_delay_longer_than_the_visibility(b):
    b.server(visibility=700)
    b.consume("x")
    b.consume("y", api="run")
    b.send(100, batch=10, later=2000)
    b.end(twice=0, doubled=0)
    sent = {r.id: r.ns for r in b.ledgers.of(ATTEMPT)}
    first = {}
    for r in b.ledgers.of(EFFECT):
        first.setdefault(r.id, r.ns)
    luck = {i: (i * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> 33 for i in sent}
    early = [i for i in sent
             if first[i] - sent[i] < (luck[i] % 2000 - 1) * 1e6]
    assert not early, early[:3]


def a9_what_a_consumer_had_that_died_for_ever_comes_to_another(b):
    """Also where the dead one was to give back what expires."""
    b.server(visibility=500)
    p = b.produce(0, rate=100)
    for n in range(5):
        w = b.consume(f"x{n}", api=("run", "pool", "direct")[n % 3], work=5)
        b.wait(lambda l: l.of(DELIVERY, f"x{n}"), "it has some")
        b.drop(w)
    b.consume("heir")
    b.flowing()
    b.end(p, twice=5 * IN_HAND)


def a11_a_consumer_asked_to_end_gives_back_at_once(b):
    """The visibility is ten minutes: only giving back can be what helped."""
    b.server(visibility=NEVER)
    p = b.produce(0, rate=100)
    for n in range(20):
        w = b.consume(f"x{n}", api=("direct", "run", "pool")[n % 3], work=5)
        b.wait(lambda l: l.of(DELIVERY, f"x{n}"), "it has some")
        b.leave(w)
    b.consume("heir")
    b.flowing()
    b.end(p, twice=0, doubled=0)


# ---- B: Redis dies --------------------------------------------------------

def kill_the_server(b):
    for n in range(3):
        b.consume(f"c{n}", api=("direct", "run", "pool")[n])
    p = b.produce(0, rate=200, batch=2)
    for _ in range(b.kills):
        b.flowing()
        b.redis.kill()
        time.sleep(b.random.uniform(0, 0.2))
        b.redis.start()
    b.flowing()
    b.end(p, twice=b.kills * 3 * IN_HAND)


def b1_a_killed_server_that_kept_everything(b):
    b.server(visibility=3000)
    kill_the_server(b)


def b1_of_a_fifo_queue_too_and_the_order_holds(b):
    b.server(visibility=3000, fifo=1)
    kill_the_server(b)


def b7_a_server_that_stands_still_repeats_no_message(b):
    """What had left when the answer did not come is asked for again, and each
    message is there once."""
    b.server(visibility=5000)
    for n in range(2):
        b.consume(f"c{n}", api=("direct", "run")[n], answer=500)
    p = b.produce(0, rate=200, answer=500)
    for _ in range(2):
        b.flowing()
        b.rig.pause(b.redis.process, 0.9)
    b.flowing()
    verdict = b.end(p, twice=0)
    assert verdict["unknown"] == 0, verdict


def b9_scripts_flushed_clients_killed_and_paused_again_and_again(b):
    b.server(visibility=5000)
    for n in range(2):
        b.consume(f"c{n}", api=("direct", "run")[n])
    p = b.produce(0, rate=200)
    end, n = time.monotonic() + 2, 0
    while time.monotonic() < end:
        n += 1
        b.ask("", "SCRIPT", "FLUSH")
        if n % 2:
            b.ask("", "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        if n % 10 == 0:
            b.ask("", "CLIENT", "PAUSE", 100, "ALL")
        time.sleep(0.05)
    b.flowing()
    b.end(p, twice=0)


# ---- C: the network -------------------------------------------------------

def c1_producer_and_consumers_cut_off_at_any_byte(b):
    b.server(visibility=5000)
    proxy = b.proxy()
    b.consume("c", url=proxy.url, answer=400)
    b.consume("d", url=proxy.url, answer=400, api="run")
    p = b.produce(0, rate=300, url=proxy.url, answer=400)
    b.flowing()
    fired = 0
    for n in range(24):
        way = ("up", "down")[n % 2]
        what = ("cut", "reset", "half-open", "blackhole")[n // 2 % 4]
        offset = b.random.randrange(*((300, 3000), (300, 6000))[n % 2])
        before = proxy.fired()
        proxy.order(f"rule dir={way} offset={offset} do={what} times=1")
        proxy.order("reset 0")
        b.flowing(15)
        proxy.order("clear")
        fired += proxy.fired() - before
    proxy.heal()
    assert fired > 8, fired
    b.end(p, twice=2 * 24 * IN_HAND)


def c3_requests_whose_answers_never_come_are_done_once(b):
    b.server(visibility=5000)
    proxy = b.proxy()
    b.consume("c", url=proxy.url, answer=300)
    p = b.produce(0, rate=300, url=proxy.url, answer=300)
    b.flowing()
    fired = 0
    for n in range(6):
        before = proxy.fired()
        proxy.order(f"rule dir=up command=EVALSHA:{1 + n} after do=half-open"
                    " times=1")
        b.flowing(15)
        proxy.order("clear")
        fired += proxy.fired() - before
    proxy.heal()
    assert fired > 0
    verdict = b.end(p, twice=0)
    assert verdict["unknown"] == 0, verdict


def c5_the_answer_to_a_receive_is_lost(b):
    """The visibility is ten minutes: asking again is what helps."""
    b.server(visibility=NEVER)
    fired = 0
    for n in range(1, 8):
        proxy = b.proxy(f"control{n}")
        b.send(20, role=f"p{n}", batch=10, key=1 + 50 * n)
        before = proxy.fired()
        proxy.order(f"rule dir=up command=EVALSHA:{n} after do=cut times=1")
        c = b.consume(f"c{n}", url=proxy.url, batch=3,
                      api=("direct", "run")[n % 2])
        b.drained(30)
        b.leave(c)
        proxy.order("clear")
        fired += proxy.fired() - before
    assert fired > 4, fired
    verdict = b.end(twice=0, doubled=0)
    assert verdict["stale"] == 0, verdict


# ---- E: time --------------------------------------------------------------

def e1_jumps_of_the_servers_clock_stall_nothing(b):
    """What a consumer had that was killed comes back within seconds, also when
    the clock was put back by an hour meanwhile."""
    clock = b.clock()
    b.server(clock=clock, visibility=600)
    b.consume("x", work=1, ack="batch")
    p = b.produce(0, rate=100)
    for n, jump in enumerate((120, -3600, 0, 3000, 0)):
        w = b.consume(f"v{n}", work=20)
        b.wait(lambda l: l.of(DELIVERY, f"v{n}"), "it has some")
        b.drop(w)
        clock.set(jump)
        b.flowing(30)
        had = b.ledgers.read().of(DELIVERY, f"v{n}")
        b.wait(lambda l: all(l.had_effect(r.key, r.seq) for r in had),
               "what it had is done by another")
    for _ in range(60):
        clock.set(b.random.uniform(-0.05, 0.05))
        time.sleep(0.01)
    clock.set(0)
    b.flowing()
    b.end(p, twice=5 * AT_ONCE)


def e1_a_delay_begun_before_the_clock_went_back_is_not_put_off(b):
    clock = Clock(b.rig)
    b.server(clock=clock, visibility=2000)
    b.consume("x")
    b.send(20, batch=10, later=1500)
    clock.set(-3600)
    b.send(20, batch=10, later=1500, key=100, role="second")
    b.drained(30)
    clock.set(0)
    b.end(twice=0)


def asked_again_a_day_later(b, **settings):
    clock = Clock(b.rig)
    b.server(clock=clock, visibility=5000, **settings)
    proxy = b.proxy()
    proxy.order("rule dir=up command=EVALSHA:8 after do=half-open times=1")
    p = b.produce(20, url=proxy.url, answer=500)
    wait_for(lambda: proxy.fired() == 1, LONG, "an answer is lost")
    clock.set(86400)
    ends(p, 0)
    b.consume("x")
    b.end(twice=0)


def e1_a_clock_that_goes_a_day_ahead_repeats_no_message_that_is_there(b):
    """What the server remembers of calls is gone when it is asked again."""
    asked_again_a_day_later(b)


def e1_of_a_fifo_queue_neither(b):
    asked_again_a_day_later(b, fifo=1)


# ---- G: memory ------------------------------------------------------------

def g1_at_maxmemory_sending_is_refused_and_all_else_goes_on(b):
    b.with_fates(poison=50, most=2)
    b.server("--maxmemory-policy", "noeviction", visibility=5000)
    b.send(50, batch=10, role="first")
    used = int(dict(x.split(b":") for x in b.ask("", "INFO", "memory").split()
                    if x.count(b":") == 1)[b"used_memory"])
    b.ask("", "CONFIG", "SET", "maxmemory", used + (3 << 20))
    p = b.produce(0, key=100, batch=5, size=8000)
    b.wait(lambda l: l.counts[FAIL] > 20, "sending is refused")
    before = b.ledgers.counts[ACK]
    b.consume("c")
    b.consume("d", api="run")
    b.wait(lambda l: l.counts[ACK] > before + 100, "it recovers by itself")
    assert b.ledgers.counts[UNKNOWN] == 0
    b.end(p, twice=0, doubled=0)
    b.ask("", "CONFIG", "SET", "maxmemory", 0)


# ---- J: poison, dead letters, care ----------------------------------------

def until_done(b, **options):
    """One consumer that is started again whenever it dies of what it handles;
    how often it died."""
    deaths, end = 0, time.monotonic() + LONG
    w = b.consume("c", wait=False, **options)
    while b.ledgers.read().missing or not b.state().idle():
        if not w.alive():
            b.workers.remove(w)
            ends(w, -signal.SIGKILL)
            deaths += 1
            w = b.consume("c", wait=False, **options)
        assert time.monotonic() < end, (b.ledgers.missing, deaths)
        time.sleep(0.005)
    return deaths


def killers(b, **options):
    b.with_fates(crash=20, most=3)
    b.server(visibility=400, **options)
    b.send(120, batch=10)
    deaths = until_done(b, batch=1)
    dead = set(b.state().buried())
    assert dead and deaths == 3 * len(dead), (deaths, dead)
    b.end(twice=0, doubled=0)


def j1_messages_that_kill_become_dead_letters_and_their_neighbours_do_not(b):
    killers(b)


def j1_the_order_of_a_fifo_group_holds_around_messages_that_kill(b):
    killers(b, fifo=1)


def j2_handlers_that_fail_fewer_times_than_allowed(b):
    """No dead letter, and the receives are counted exactly."""
    b.with_fates(flaky=1000, most=4)
    b.server(visibility=20000)
    b.consume("c")
    b.consume("d", api="run", delay=50)
    b.send(150, batch=10)
    b.end(twice=0, doubled=0)
    assert not b.state().dead
    tries = {}
    for r in b.ledgers.of(DELIVERY):
        tries.setdefault(r.id, []).append(r.detail & 0xffff)
    for i, seen in tries.items():
        assert seen == list(range(1, b.fates.times(i) + 2)), (i, seen)


def j3_dead_letters_redriven_by_one_who_is_killed_and_by_two_at_once(b):
    """While others consume: each has its effect once, and its receives are
    counted anew."""
    b.with_fates(poison=200, most=2)
    b.server(visibility=20000)
    w = b.consume("c")
    b.send(200, batch=10)
    b.drained()
    b.leave(w)
    dead = sorted(b.state().buried())
    b.judge(twice=0, doubled=0)
    before = len(b.ledgers.of(DELIVERY))
    b.fates.over()
    b.fates.options = {}
    b.consume("x", led=1)
    killed = b.worker("redrive", "killed", rate=max(len(dead) // 2, 1))
    b.flowing(2)
    killed.kill()
    pair = [b.worker("redrive", f"r{n}", rate=200) for n in (1, 2)]
    for r in pair:
        ends(r, 0)
    b.wait(lambda l: not b.state().bodies, "all are done")
    again = b.ledgers.read().of(DELIVERY)[before:]
    assert sorted(r.id for r in again) == dead, (len(again), len(dead))
    assert {r.detail & 0xffff for r in again} == {1}
    for w in list(b.workers):
        b.leave(w)


def counters(b):
    flat = b.ask("", "HGETALL", key_of(b.queue, "stat"))
    return {k.decode(): int(v) for k, v in zip(flat[::2], flat[1::2])}


def purged_in_use(b):
    b.consume("c", work=5)
    b.consume("d", api="run", work=5)
    p = b.produce(0, batch=5, rate=1000)
    for n in range(3):
        b.flowing()
        ends(b.worker("purge", f"purge{n}"), 0)
    p.terminate()
    ends(p, 0)
    b.wait(lambda l: b.state().idle(), "all is done or purged")
    for w in list(b.workers):
        b.leave(w)
    c, state = counters(b), b.state()
    assert c["purged"] > 0 and not state.bodies and not state.torn(), c
    assert c["sent"] == c["acked"] + c["purged"], c
    assert c["recv"] == c["acked"] + c.get("back", 0), c
    assert c.get("lost", 0) == 0, c
    done = {r.id for r in b.ledgers.of(SETTLED) if r.detail & 0xffff == OK}
    assert len(done) <= c["acked"], (len(done), c)


def j6_a_queue_purged_in_use_adds_up(b):
    b.server(visibility=2000)
    purged_in_use(b)


def j6_a_fifo_queue_purged_in_use_adds_up(b):
    b.server(visibility=2000, fifo=1)
    purged_in_use(b)


def j6_a_queue_removed_in_use_is_gone_and_can_be_made_anew(b):
    b.server(visibility=2000)
    c = b.consume("c")
    p = b.produce(0, batch=5, rate=1000)
    b.flowing()
    ends(b.worker("remove", "remove"), 0)
    b.wait(lambda l: l.counts[FAIL] > 20, "sending to it is refused")
    p.terminate()
    ends(p, 0)
    b.leave(c)
    mine = f":{b.queue}:".encode()
    left = [k for k in b.ask("", "KEYS", "*") if mine in k]
    assert not left, left
    assert not b.ask("", "ZCARD", shard_key(b.queue, "due"))
    b.consume("later")
    before = b.ledgers.read().counts[EFFECT]
    b.send(100, key=500, batch=10, role="later")
    b.wait(lambda l: l.counts[EFFECT] == before + 100, "it works anew")
    for w in list(b.workers):
        b.leave(w)


# One of each.  The clocks jump last: nodes judge each other by them, and may
# fail over.
ON_CLUSTER = (
    a1_a_consumer_killed_30_times,
    a2_a_kill_at_each_step_between_receive_and_ack,
    a4_a_stopped_receiver_deletes_nothing_when_it_wakes,
    a4_a_stopped_pool_changes_nothing_when_it_wakes,
    a5_a_stop_shorter_than_the_visibility_changes_nothing,
    a7_a_busy_handler_keeps_its_message_beyond_the_visibility,
    a7_a_hold_keeps_a_message_beyond_the_visibility,
    a9_what_a_consumer_had_that_died_for_ever_comes_to_another,
    a8_a_delay_longer_than_the_visibility,
    a11_a_consumer_asked_to_end_gives_back_at_once,
    b1_of_a_fifo_queue_too_and_the_order_holds,
    b7_a_server_that_stands_still_repeats_no_message,
    b9_scripts_flushed_clients_killed_and_paused_again_and_again,
    c1_producer_and_consumers_cut_off_at_any_byte,
    c3_requests_whose_answers_never_come_are_done_once,
    c5_the_answer_to_a_receive_is_lost,
    g1_at_maxmemory_sending_is_refused_and_all_else_goes_on,
    j1_the_order_of_a_fifo_group_holds_around_messages_that_kill,
    j2_handlers_that_fail_fewer_times_than_allowed,
    j3_dead_letters_redriven_by_one_who_is_killed_and_by_two_at_once,
    j6_a_queue_purged_in_use_adds_up,
    j6_a_queue_removed_in_use_is_gone_and_can_be_made_anew,
    e1_jumps_of_the_servers_clock_stall_nothing,
)


def on_cluster():
    sys.argv[1] = "abcegj"
    ClusterBench.start()
    try:
        return main({f.__name__: f for f in ON_CLUSTER}, ClusterBench)
    finally:
        ClusterBench.stop()


if __name__ == "__main__":
    try:
        sys.exit(on_cluster() if sys.argv[1] == "cluster" else
                 main(globals(), QueueBench))
    except KeyboardInterrupt:
        sys.exit(130)
