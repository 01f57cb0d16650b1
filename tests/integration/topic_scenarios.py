"""The faults of docs/internals/scenarios.md that strike a topic's consumers.

Real processes (tests/chaos/topic_worker.c), a real server, faults done exactly;
each check is a function whose name is the promise, TAP on stdout.

Usage: topic_scenarios.py LETTER [PATTERN]

Order holds and epochs belong to one owner in each of them: the judge of
ledger.h sees to that at the end, and that nothing is lost, stuck or unexpected.
Waits are generous and end at their condition; where a promise is about time,
the lease is so long that it cannot be what helped.
"""

import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import Clock, Proxy, wait_for  # noqa: E402
from scenarios import IN_FLIGHT, LONG, PARTITIONS, ends, main  # noqa: E402
from topics import (ASSIGNED, DELIVERY, EFFECT, LOST, OWNER,  # noqa: E402
                    SETTLED, STALE, UNKNOWN)


# ---- A: our processes die or stop ----------------------------------------

def a1_a_consumer_killed_30_times_comes_back_under_its_name(b):
    """The lease is a minute: its name gets the partitions back."""
    b.server()
    p = b.produce(0, rate=250)
    for _ in range(30):
        w = b.consume("v", name="v", lease=60000, work=2, wait=False)
        time.sleep(b.random.uniform(0.02, 0.4))
        b.drop(w)
    b.consume("v", name="v", lease=60000)
    b.flowing()
    b.end(p, twice=30 * IN_FLIGHT)


STEPS = ("received", "before_effect", "after_effect", "after_settle",
         "after_flush")


def a2_a_kill_at_each_step_between_read_and_settle(b):
    b.server()
    p = b.produce(0, rate=400)
    for step in STEPS:
        for n in (1, 2, 5):
            w = b.consume("v", name="v", lease=60000, threads=0, batch=8,
                          env={"LEAT_FAILPOINT": f"{step}:kill@{n}"})
            b.workers.remove(w)
            ends(w, -signal.SIGKILL)
    b.consume("v", name="v", lease=60000)
    b.flowing()
    b.end(p, twice=len(STEPS) * 3 * IN_FLIGHT)


def a4_a_stopped_owner_settles_nothing_when_it_wakes(b):
    """Inside its handler, in a loop of its own, where outcomes are seen."""
    b.server()
    b.send(400)
    zombie = b.consume("zombie", lease=1000, threads=0,
                       env={"LEAT_FAILPOINT": "before_effect:stop@20"})
    zombie.await_stop()
    b.consume("heir", lease=1000)
    b.drained()
    woken = time.monotonic_ns()
    zombie.go_on()
    def late(ledgers):
        """What it did when it woke, and how that was settled; an answer that
        was there before it stopped is no such one."""
        old = {r.fence for r in ledgers.of(DELIVERY, "zombie")
               if r.ns < woken}
        done = {(r.key, r.seq) for r in ledgers.of(EFFECT, "zombie")
                if r.ns > woken and r.fence in old}
        return done, [r.detail for r in ledgers.of(SETTLED, "zombie")
                      if r.ns > woken and (r.key, r.seq) in done]
    b.wait(lambda l: late(l)[0] and len(late(l)[1]) >= len(late(l)[0]),
           "what the zombie did is settled")
    assert set(late(b.ledgers)[1]) == {STALE}, late(b.ledgers)
    assert zombie.stats()["stale"] > 0
    b.send(200, role="later", key=100)
    b.end(twice=2 * IN_FLIGHT)


def a4_a_runner_that_stood_still_is_fenced(b):
    b.server()
    b.send(400)
    zombie = b.consume("zombie", lease=1000,
                       env={"LEAT_FAILPOINT": "before_effect:stop@20"})
    zombie.await_stop()
    b.consume("heir", lease=1000)
    b.drained()
    zombie.go_on()
    wait_for(lambda: zombie.stats()["stale"] > 0, LONG, "it is refused")
    b.send(200, role="later", key=100)
    b.end(twice=2 * IN_FLIGHT)


def a4_a_read_that_waited_for_a_stopped_owner_takes_nothing(b):
    """The server answers a waiting read while its reader stands."""
    b.server()
    b.send(100)
    zombie = b.consume("zombie", lease=1000, block=60000)
    b.drained()
    b.at_rest()
    zombie.stop()
    heir = b.consume("heir", lease=1000)
    wait_for(lambda: heir.stats()["partitions"] == PARTITIONS, LONG,
             "the heir owns all")
    b.send(100, role="second", key=100)
    b.drained()
    old = {r.fence for r in b.ledgers.of(DELIVERY, "zombie")}
    woken = time.monotonic_ns()
    zombie.go_on()
    b.send(100, role="third", key=200)
    b.drained()
    b.shared_out(zombie, heir)
    late = [r for r in b.ledgers.read().of(DELIVERY, "zombie")
            if r.ns > woken and r.fence in old]
    assert not late, late[:3]
    verdict = b.end(twice=0)
    assert verdict["fenced"] == 0, verdict


def a5_a_stop_shorter_than_the_lease_changes_nothing(b):
    b.server()
    x = b.consume("x", lease=8000)
    y = b.consume("y", lease=8000)
    p = b.produce(0, rate=300)
    b.shared_out(x, y)
    before = b.at_rest()
    for _ in range(3):
        x.stop()
        time.sleep(1)
        x.go_on()
        b.flowing()
    assert b.owners() == before, "the partitions moved"
    b.end(p, twice=0)


def a6_a_stuck_handler_is_given_up_while_its_member_lives(b):
    b.server()
    stuck = 3 << 32 | 5
    x = b.consume("x", slow=f"{stuck}:3000", limit=300)
    p = b.produce(0, rate=200)
    wait_for(lambda: [r for r in b.ledgers.read().of(DELIVERY)
                      if r.id == stuck and r.detail == 2], LONG,
             "it is handed out again")
    tries = [r for r in b.ledgers.of(DELIVERY) if r.id == stuck]
    others = [r for r in b.ledgers.of(EFFECT) if r.place != tries[0].place
              and tries[0].ns < r.ns < tries[1].ns]
    assert others, "nothing else went on"
    assert b.owners(LOST) == 0 and x.alive()
    b.end(p)


def a9_what_a_consumer_left_that_died_for_ever_is_adopted(b):
    b.server()
    dead = b.consume("dead", lease=1000, work=5)
    heir = b.consume("heir", lease=1000, work=1)
    p = b.produce(0, rate=400)
    b.shared_out(dead, heir)
    b.flowing()
    b.drop(dead)
    wait_for(lambda: heir.stats()["partitions"] == PARTITIONS, LONG,
             "the heir owns all")
    wait_for(lambda: heir.stats()["members"] == 1, LONG, "it knows of nobody")
    b.end(p, twice=IN_FLIGHT)


def a10_eight_consumers_that_come_and_go_never_share_an_epoch(b):
    b.server()
    p = b.produce(0, rate=400)
    leaving, crowd = [], []
    end = time.monotonic() + 10
    for n in range(1000):
        if time.monotonic() > end:
            break
        if len(crowd) == 8 or (crowd and b.random.random() < 0.4):
            w = crowd.pop(b.random.randrange(len(crowd)))
            w.terminate()
            b.workers.remove(w)
            leaving.append(w)
        else:
            crowd.append(b.consume(f"c{n}", lease=5000, work=2, wait=False,
                                   led=0))
        time.sleep(0.2)
    for w in leaving:   # the signal itself ends only who had not begun yet
        ends(w, 0, -signal.SIGTERM)
    verdict = b.end(p, twice=0)
    assert verdict["fenced"] <= b.owners(LOST) * IN_FLIGHT, verdict


def a11_a_consumer_asked_to_end_hands_over_at_once(b):
    """The lease is a minute: only the hand-over can be what helped."""
    b.server()
    heir = b.consume("heir", lease=60000)
    p = b.produce(0, rate=300)
    for n in range(3):
        x = b.consume(f"x{n}", lease=60000, work=5)
        b.shared_out(x, heir)
        b.flowing()
        x.terminate()
        b.workers.remove(x)
        wait_for(lambda: heir.stats()["partitions"] == PARTITIONS, 20,
                 "the heir owns all")
        ends(x, 0)
        b.flowing()
    b.end(p, twice=0)


# ---- B: Redis dies --------------------------------------------------------

def b1_a_killed_server_that_kept_everything(b):
    b.server()
    for n in range(3):
        b.consume(f"c{n}")
    p = b.produce(0, rate=400)
    for _ in range(5):
        b.flowing()
        b.redis.kill()
        time.sleep(b.random.uniform(0, 0.3))
        b.redis.start()
    b.flowing()
    b.end(p, twice=5 * 3 * IN_FLIGHT)


def b6_a_server_that_loads_is_waited_for(b):
    """Loading 3,000 keys takes seconds; a busy loop would connect thousands
    of times meanwhile."""
    b.server("--key-load-delay", "1000")
    proxy = b.proxy()
    b.redis.ask("EVAL \"for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end"
                "\" 0")
    c = b.consume("c", url=proxy.url)
    p = b.produce(0, rate=300, url=proxy.url)
    b.flowing()
    b.redis.kill()
    before = int(proxy.order("counts")[0].split()[1])
    b.redis.start()
    b.flowing()
    connects = int(proxy.order("counts")[0].split()[1]) - before
    assert connects < 1000, connects
    assert c.alive()
    b.end(p, twice=IN_FLIGHT)


def b7_a_server_that_stands_still_repeats_no_message(b):
    """What had left when the answer did not come is unknown, and is not sent
    again by a producer: each message is in the log at most once."""
    b.server()
    for n in range(2):
        b.consume(f"c{n}", answer=500, lease=3000)
    p = b.produce(0, rate=400, answer=500)
    for _ in range(4):
        b.flowing()
        b.rig.pause(b.redis.process, 1.2)
    b.flowing()
    verdict = b.end(p, twice=4 * 2 * IN_FLIGHT)
    logs = sum(int(b.redis.ask(f"XLEN leat:{{orders/{i}}}:log")[1:])
               for i in range(PARTITIONS))
    assert logs == verdict["delivered"], (logs, verdict)
    assert verdict["unknown"] <= b.ledgers.counts[UNKNOWN], verdict


def b9_scripts_flushed_clients_killed_and_paused_again_and_again(b):
    b.server()
    for n in range(2):
        b.consume(f"c{n}", lease=4000)
    p = b.produce(0, rate=300)
    end, n = time.monotonic() + 5, 0
    while time.monotonic() < end:
        n += 1
        b.redis.ask("SCRIPT FLUSH")
        if n % 2:
            b.redis.ask("CLIENT KILL TYPE normal SKIPME yes")
        if n % 10 == 0:
            b.redis.ask("CLIENT PAUSE 100 ALL")
        time.sleep(0.05)
    b.flowing()
    b.end(p, twice=n * 2 * IN_FLIGHT)


# ---- C: the network -------------------------------------------------------

def reset_with(b, proxy, rule):
    """New connections under this rule, until it fired or work is done
    without."""
    before = proxy.fired()
    proxy.order("rule " + rule)
    proxy.order("reset 0")
    b.flowing(20)
    end = time.monotonic() + 0.3
    while proxy.fired() == before and time.monotonic() < end:
        time.sleep(0.005)
    proxy.order("clear")
    return proxy.fired() - before


def c1_a_consumer_cut_off_at_any_byte(b):
    b.server()
    proxy = b.proxy()
    b.consume("c", url=proxy.url, answer=500, lease=5000)
    p = b.produce(0, rate=500)
    b.flowing()
    fired = 0
    for n in range(30):
        way = ("up", "down")[n % 2]
        what = ("cut", "reset", "half-open", "blackhole")[n // 2 % 4]
        offset = b.random.randrange(*((300, 3000), (6000, 14000))[n % 2])
        fired += reset_with(b, proxy, f"dir={way} offset={offset} do={what}"
                                      " times=1")
    assert fired > 10, fired
    b.end(p, twice=31 * IN_FLIGHT)


def c2_bytes_that_come_one_by_one(b):
    b.server()
    proxy = b.proxy()
    proxy.order("rule dir=up offset=0 do=split")
    proxy.order("rule dir=down offset=0 do=split")
    b.consume("c", url=proxy.url, lease=20000, answer=10000)
    b.send(300, url=proxy.url, answer=10000)
    b.end(twice=0)


def c3_requests_whose_answers_never_come(b):
    b.server()
    proxy = b.proxy()
    b.consume("c", url=proxy.url, answer=400, lease=5000)
    p = b.produce(0, rate=400, url=proxy.url, answer=400)
    b.flowing()
    fired = 0
    for n, name in enumerate(("EVALSHA", "XREAD", "XADD") * 3):
        before = proxy.fired()
        proxy.order(f"rule dir=up command={name}:{1 + n} after do=half-open"
                    " times=1")
        b.flowing(20)
        proxy.order("clear")
        fired += proxy.fired() - before
    assert fired > 0
    verdict = b.end(p, twice=9 * IN_FLIGHT)
    logs = sum(int(b.redis.ask(f"XLEN leat:{{orders/{i}}}:log")[1:])
               for i in range(PARTITIONS))
    assert logs == verdict["delivered"], (logs, verdict)


def c3_a_settlement_that_was_lost_is_sent_again(b):
    """With a lease of a minute there is hardly another script: the first tells
    of the hand-out, the second of the settlement."""
    b.server()
    proxy = b.proxy()
    b.consume("c", url=proxy.url, answer=400, lease=60000)
    b.send(40, key=500)
    b.drained()
    b.settled()
    fired = 0
    for n in range(12):
        before = proxy.fired()
        proxy.order(f"rule dir=up command=EVALSHA:{1 + n % 3} "
                    f"{('', 'after ')[n // 3 % 2]}do=cut times=1")
        b.send(1, role=f"p{n}", key=1 + n)
        b.drained()
        b.settled()
        proxy.order("clear")
        fired += proxy.fired() - before
    assert fired > 0
    b.end(twice=fired)


def cursors(b):
    return [b.redis.ask_all(f"HGETALL leat:{{orders/{i}}}:cur:billing")
            for i in range(PARTITIONS)]


def c4_a_settlement_held_up_on_an_old_connection_does_nothing(b):
    """It arrives when all is settled and its sender has long moved on."""
    b.server()
    proxy = b.proxy()
    c = b.consume("c", url=proxy.url, answer=300, lease=60000)
    held = 0
    for n in range(6):
        b.send(40, role=f"p{n}", key=1 + n * 100)
        b.drained()
        before = proxy.fired()
        proxy.order(f"rule dir=up command=EVALSHA:{n + 1} do=hold times=1")
        b.send(200, role=f"q{n}", key=51 + n * 100)
        b.drained()
        wait_for(lambda: c.stats()["in_flight"] == 0, LONG, "all is settled")
        held += proxy.fired() - before
        was = cursors(b)
        proxy.order("clear")
        proxy.order("release")
        b.send(1, role=f"r{n}", key=91 + n * 100)   # it is through by now
        b.drained()
        wait_for(lambda: c.stats()["in_flight"] == 0, LONG, "all is settled")
        for then, now in zip(was, cursors(b)):
            assert cursor_id(then) <= cursor_id(now), (then, now)
    assert held > 0
    b.end(twice=6 * IN_FLIGHT)


def c4_a_read_ahead_of_a_partition_that_is_lost_takes_nothing(b):
    """Of a full answer with large bodies not all is taken, and more has been
    asked for; the lease is found to be another's before that comes."""
    b.server()
    proxy = b.proxy()
    b.send(400, large=2)
    proxy.order("rule dir=up command=XREAD:1 do=hold times=1")
    c = b.consume("c", url=proxy.url, answer=60000, lease=1500, batch=8)
    wait_for(lambda: proxy.fired() > 0, LONG, "it reads")
    for i in range(PARTITIONS):
        b.redis.ask(f"HSET {LEASE.format(i)} o {'f' * 32}")
    time.sleep(1)       # two beats: the leases are asked for behind the read
    proxy.order("rule dir=up command=XREAD do=delay ms=100")
    proxy.order("release")
    b.wait(lambda l: {r.place for r in l.of(OWNER, "c") if r.detail == LOST} ==
           set(range(1, PARTITIONS + 1)), "it has lost all")
    for i in range(PARTITIONS):
        b.redis.ask("DEL " + LEASE.format(i))
    proxy.order("clear")
    b.wait(lambda l: l.missing == 0 or not c.alive(), "drained")
    assert c.alive()
    b.end(twice=0)


def cursor_id(fields):
    """The cursor of a hash's names and values, as two numbers."""
    at = dict(zip(fields[::2], fields[1::2])).get("c", "0-0")
    return tuple(int(x) for x in at.split("-"))


def c5_the_answer_to_taking_a_lease_is_lost(b):
    """The lease is a minute: asking again is what helps."""
    b.server()
    b.send(20, role="first", key=500)
    for n in range(1, 8):
        proxy = Proxy(b.rig, b.redis.path, f"control{n}")
        proxy.order(f"rule dir=up command=EVALSHA:{n} after do=cut times=1")
        c = b.consume(f"c{n}", url=f"redis://127.0.0.1:{proxy.port}",
                      lease=60000, answer=1000)
        b.send(40, role=f"p{n}", key=1 + 50 * n, keys=16)
        b.drained(30)
        b.leave(c)
    b.end(twice=7 * IN_FLIGHT)


def c7_a_slow_and_shaky_network_moves_messages_in_order(b):
    """Of every connection some answers in a hundred come late by 50 to 350 ms,
    with all behind them, and one is a reset; producer and consumers alike.
    Throughput is what is left of it: more than none."""
    b.server()
    proxy = b.proxy()
    for n in (1, 2):
        b.consume(f"c{n}", url=proxy.url, answer=5000, lease=10000)
    p = b.produce(0, url=proxy.url, rate=500)
    b.flowing()
    for _ in range(4):
        late = b.random.sample(range(1, 400), 24)
        for frame in late:
            proxy.order(f"rule dir=down frame={frame} do=delay ms="
                        f"{b.random.randint(50, 350)}")
        proxy.order(f"rule dir=down frame={b.random.randint(100, 200)} "
                    "do=reset")
        proxy.order("reset 0")
        b.flowing(150)
        proxy.order("clear")
    b.end(p, twice=20 * IN_FLIGHT)


def c9_a_consumer_cut_off_alone_is_fenced(b):
    b.server()
    proxy = b.proxy()
    far = b.consume("far", url=proxy.url, answer=500, lease=1500)
    near = b.consume("near", lease=1500)
    p = b.produce(0, rate=300)
    for _ in range(2):
        b.shared_out(far, near)
        b.flowing()
        proxy.order("door hang")
        proxy.order("rule dir=up offset=0 do=half-open")
        proxy.order("rule dir=down frame=0 do=half-open")
        wait_for(lambda: near.stats()["partitions"] == PARTITIONS, LONG,
                 "the other owns all")
        b.flowing()
        proxy.heal()
    b.shared_out(far, near)
    b.end(p, twice=2 * IN_FLIGHT)


# ---- P: error replies -----------------------------------------------------

def every_reply(b, replies):
    """Each of these, to each command by which messages move; whoever gets it
    goes on, and nothing is lost, repeated or told wrongly.  A proxy answers
    in the server's place, so the command certainly did not run."""
    b.server()
    proxy = b.proxy()
    b.consume("c", url=proxy.url, lease=20000)
    p = b.produce(0, url=proxy.url, rate=1000)
    b.flowing()
    for reply in replies:
        for name in ("EVALSHA", "XREAD", "XADD"):
            rule = int(proxy.order(
                f"rule dir=up command={name} do=answer times=3 "
                f"bytes=-{reply}\\r\\n")[0].split()[1])
            wait_for(lambda: proxy.order(f"fired {rule}")[0] == "fired 3",
                     LONG, f"{reply} was told to {name}")
            b.flowing(20)
            proxy.order("clear")
    b.end(p, twice=0)


def p5_replies_of_a_cluster_in_motion_are_weather(b):
    every_reply(b, ("TRYAGAIN Multiple keys request during rehashing of slot",
                    "CLUSTERDOWN The cluster is down",
                    "MOVED 3999 127.0.0.1:1", "ASK 3999 127.0.0.1:1"))


def p9_replies_that_pass_are_waited_for(b):
    every_reply(b, ("LOADING Redis is loading the dataset in memory",
                    "BUSY Redis is busy running a script",
                    "MASTERDOWN Link with MASTER is down",
                    "READONLY You can't write against a read only replica.",
                    "UNBLOCKED force unblock from blocking operation",
                    "ERR max number of clients reached"))


# ---- E: leases and time ---------------------------------------------------

def e1_jumps_of_the_servers_clock_move_no_partition(b):
    clock = Clock(b.rig)
    b.server(clock=clock)
    x, y = b.consume("x", lease=5000), b.consume("y", lease=5000)
    p = b.produce(0, rate=300)
    b.shared_out(x, y)
    before = b.at_rest()
    for jump in (120, -3600, 0, 86400, 0):
        clock.set(jump)
        b.flowing(100)
    for _ in range(100):
        clock.set(b.random.uniform(-0.05, 0.05))
        time.sleep(0.01)
    clock.set(0)
    b.flowing()
    assert b.owners() == before, "the partitions moved"
    b.end(p, twice=0)


def e2_jumps_of_one_clients_clock_move_no_partition(b):
    b.server()
    clock = Clock(b.rig)
    x = b.consume("x", lease=5000, env={
        k: clock.env[k] for k in ("LD_PRELOAD", "SHIM_CLOCK_FILE")})
    y = b.consume("y", lease=5000)
    p = b.produce(0, rate=300)
    b.shared_out(x, y)
    before = b.at_rest()
    for jump in (86400, -86400, 0):
        clock.set(jump)
        b.flowing(100)
    assert b.owners() == before, "the partitions moved"
    b.end(p, twice=0)


LEASE = "leat:{{orders/{}}}:lease:billing"


def e3_a_lease_that_is_gone_or_anothers_fences_its_owner(b):
    b.server()
    b.consume("c", lease=2000)
    p = b.produce(0, rate=300)
    b.flowing()
    b.redis.ask("DEL " + LEASE.format(0))
    b.wait(lambda l: [r for r in l.of(OWNER) if r.place == 1 and
                      r.detail == LOST], "the owner of 0 notices")
    b.redis.ask(f"HSET {LEASE.format(1)} o {'f' * 32}")
    b.wait(lambda l: [r for r in l.of(OWNER) if r.place == 2 and
                      r.detail == LOST], "the owner of 1 notices")
    b.redis.ask("DEL " + LEASE.format(1))   # nobody is there to give it up
    for place in (1, 2):
        b.wait(lambda l: len({r.fence for r in l.of(OWNER) if r.place == place
                              and r.detail == ASSIGNED}) > 1,
               "it is taken anew")
    b.flowing()
    b.end(p, twice=4 * IN_FLIGHT)


def e4_a_beat_that_arrives_after_the_takeover_takes_nothing_back(b):
    b.server()
    proxy = b.proxy()
    far = b.consume("far", url=proxy.url, answer=300, lease=1500)
    b.send(100)
    b.drained()
    near = b.consume("near", lease=1500)
    b.shared_out(far, near)
    proxy.order("door hang")
    proxy.order("rule dir=up command=EVALSHA do=hold")
    proxy.order("rule dir=up command=XREAD do=hold")
    wait_for(lambda: near.stats()["partitions"] == PARTITIONS, LONG,
             "the other owns all")
    leases = [b.redis.ask_all("HMGET " + LEASE.format(i) + " o e")
              for i in range(PARTITIONS)]
    proxy.order("release")      # the door is still shut: only what was held
    b.send(100, role="second", key=100)
    b.drained()
    assert leases == [b.redis.ask_all("HMGET " + LEASE.format(i) + " o e")
                      for i in range(PARTITIONS)], "a lease changed"
    assert not [r for r in b.ledgers.of(OWNER, "near") if r.detail == LOST]
    proxy.heal()
    b.shared_out(far, near)
    b.end(twice=IN_FLIGHT)


def e5_epochs_that_a_failover_forgot_are_never_anothers(b):
    """The leases and cursors are put back to before the takeover, and taken
    anew: what the old owner still does then has no effect."""
    b.server()
    b.send(200)
    old = b.consume("old", lease=1000, threads=0,
                    env={"LEAT_FAILPOINT": "before_effect:stop@40"})
    old.await_stop()
    keys = [f"leat:{{orders/{i}}}:{what}:billing" for i in range(PARTITIONS)
            for what in ("lease", "cur")]
    was = {k: b.redis.ask_all(f"HGETALL {k}") for k in keys}
    new = b.consume("new", lease=1000)
    b.drained()
    for k in keys:
        b.redis.ask(f"DEL {k}")
        if was[k]:
            quoted = " ".join(f'"{x}"' for x in was[k])
            b.redis.ask(f"HSET {k} {quoted}")
    b.send(200, role="second", key=100)
    wait_for(lambda: all(b.redis.ask_all(f"HGETALL {k}") != was[k]
                         for k in keys if ":lease:" in k), LONG,
             "the leases are taken anew")
    old.go_on()
    b.send(200, role="third", key=200)
    b.drained()
    b.shared_out(old, new)
    b.end(forgot=True)


def e7_a_server_that_stood_for_two_leases_has_single_owners(b):
    b.server()
    crowd = [b.consume(f"c{n}", lease=1000) for n in range(3)]
    p = b.produce(0, rate=300)
    for _ in range(2):
        b.shared_out(*crowd)
        b.flowing()
        b.rig.pause(b.redis.process, 2)
    b.shared_out(*crowd)
    b.flowing()
    b.end(p, twice=2 * 3 * IN_FLIGHT)


if __name__ == "__main__":
    try:
        sys.exit(main(globals()))
    except KeyboardInterrupt:
        sys.exit(130)
