"""Handlers that fail: the faults of docs/internals/scenarios.md.

Real processes, a real server.  What a message's handler does follows from the
message's number (Fates); the dead letters are read from the server.

With LEAT_LONG=1 in the environment the numbers are those of the scenarios;
otherwise they are smaller, and the faults the same.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from chaos import BUILD, Clock, Proxy, wait_for  # noqa: E402
from scenarios import (IN_FLIGHT, LONG, PARTITIONS, ends,  # noqa: E402
                       main)
from topic_policies import (CRASHER, FLAKY, POISON, REJECTED,  # noqa: E402
                            Fates, dead_letters, left_in, why_wrong)
from topics import ACK, DELIVERY, EFFECT, LOST  # noqa: E402
from wire import Wire, ask  # noqa: E402

GROUP = "billing"
WHOLE = os.environ.get("LEAT_LONG") == "1"
MANY = 100000 if WHOLE else 5000        # that wait at once
BACKLOG = 1000000 if WHOLE else 200000
PARKED = 20000 if WHOLE else 1000       # in one lane


# However slow the machine is, nobody is missed and no answer given up.
PATIENT = {"lease": 20000, "answer": 30000}


class Server:
    """What topic_policies.py asks of a run."""

    def __init__(self, b):
        self.path = b.redis.path

    def ask(self, _key, *words):
        return ask(self.path, *words)


def with_fates(b, **shares):
    """From now on messages have these fates, and their consumers options."""
    b.fates = Fates(**{"poison": 0, "flaky": 0, "reject": 0, "crash": 0,
                       **shares})
    b.ledgers.doomed = b.fates.doomed
    return {**b.fates.options, "delay": 20, "most_delay": 100}


def consume(b, role, options=None, **more):
    return b.consume(role, **{**PATIENT, **(options or {}), **more})


def through(b, groups=(GROUP,), seconds=LONG):
    """All is settled: nothing is behind a cursor, kept, due or in a lane."""
    server = Server(b)
    b.drained(seconds)
    wait_for(lambda: not any(left_in(server, PARTITIONS, g) for g in groups),
             seconds, "nothing is left")


def send_all(b, count, **options):
    """Many at once, and each is acknowledged however slow the machine is."""
    before = len(sent(b))
    b.send(count, window=1024, answer=60000, **options)
    assert len(sent(b)) == before + count, (len(sent(b)), before)


def letters(b, group=GROUP):
    return list(dead_letters(Server(b), PARTITIONS, group))


def sent(b):
    return {r.id for r in b.ledgers.read().of(ACK)}


def exactly_the_doomed(b):
    """The dead letters are those that must be, each once and rightly named."""
    found = letters(b)
    numbers = sorted(x.number for x in found)
    doomed = sorted(n for n in sent(b) if b.fates.doomed(n))
    assert numbers == doomed, (set(numbers) ^ set(doomed), len(numbers),
                               len(doomed))
    wrong = [(why_wrong(x, b.fates, False), x.head) for x in found
             if why_wrong(x, b.fates, False)]
    assert not wrong, wrong[:3]
    for x in found:
        key = f"leat:{{orders/{x.partition}}}:log"
        log = ask(b.redis.path, "XRANGE", key, x.i, x.i)
        assert log and log[0][1] == x.fields, (x.head, log)
    return found


def tries(b, number=None):
    """The attempts of each message, in order of time."""
    found = {}
    for r in b.ledgers.read().of(DELIVERY):
        if number is None or r.id == number:
            found.setdefault(r.id, []).append(r.detail)
    return found


def in_order(b):
    """First effects of each key come in its order."""
    last, seen = {}, set()
    for r in b.ledgers.read().of(EFFECT):
        if r.id in seen:
            continue
        seen.add(r.id)
        assert r.seq > last.get(r.key, 0), (r, last[r.key])
        last[r.key] = r.seq


def effects(b, keys=None):
    return sum(r.key in keys if keys else True
               for r in b.ledgers.read().of(EFFECT))


# ---- J: poison ------------------------------------------------------------

def keep_alive(b, seconds=LONG, **options):
    """A consumer that is started again under its name whenever it dies of what
    it handles, until all is settled.  Returns the last, and how often."""
    server, deaths = Server(b), 0
    end = time.monotonic() + seconds
    w = consume(b, "c", options, name="c", lease=60000)
    while b.ledgers.read().missing or left_in(server, PARTITIONS, GROUP):
        if w.process.poll() is not None:
            b.workers.remove(w)
            ends(w, -signal.SIGKILL)
            deaths += 1
            w = consume(b, "c", options, name="c", lease=60000,
                        wait=False)
        assert time.monotonic() < end, (b.ledgers.missing, deaths,
                                        left_in(server, PARTITIONS, GROUP))
        time.sleep(0.002)
    return w, deaths


def j1_messages_that_kill_become_dead_letters_and_their_neighbours_do_not(b):
    b.server()
    options = with_fates(b, crash=10, most=3)
    send_all(b, 400)
    w, deaths = keep_alive(b, order="none", **options)
    found = exactly_the_doomed(b)
    assert found and 3 <= deaths <= 3 * len(found), (deaths, len(found))
    assert all(int(x.n) == 3 and int(x.f) == 0 for x in found)
    b.leave(w)


def j1_a_message_that_kills_once_is_handled_in_the_end(b):
    """By its order alone: the process is killed inside the handler."""
    b.server()
    options = with_fates(b, most=2)
    send_all(b, 40)
    for _ in range(2):
        w = consume(b, "c", options, name="c", lease=60000, threads=0, batch=8,
                    env={"LEAT_FAILPOINT": "before_effect:kill@1"})
        b.workers.remove(w)
        ends(w, -signal.SIGKILL)
    consume(b, "c", options, name="c", lease=60000)
    through(b)
    assert not letters(b), [x.head for x in letters(b)]
    b.end(twice=2 * IN_FLIGHT)


def around_killers(b, order):
    b.server()
    options = with_fates(b, poison=20, crash=10, flaky=50, reject=20, most=3)
    send_all(b, 300)
    w, _ = keep_alive(b, order=order, **options)
    found = exactly_the_doomed(b)
    assert {b.fates.of(x.number) for x in found} == {POISON, REJECTED,
                                                     CRASHER}
    in_order(b)
    b.leave(w)


def j1_the_order_of_keys_holds_around_messages_that_kill(b):
    around_killers(b, "key")


def j1_the_order_of_a_partition_holds_around_messages_that_kill(b):
    around_killers(b, "partition")


def j2_handlers_that_fail_fewer_times_than_allowed(b):
    """No dead letter, and attempts are exact."""
    b.server()
    options = with_fates(b, flaky=1000)
    consume(b, "c", options, order="none")
    send_all(b, 200)
    through(b)
    assert not letters(b)
    for number, seen in tries(b).items():
        want = 1 + b.fates.times(number)
        assert seen == list(range(1, want + 1)), (number, seen, want)
    last = {r.id: r.ns for r in b.ledgers.of(DELIVERY)}
    done = b.ledgers.of(EFFECT)
    assert all(r.ns >= last[r.id] for r in done)
    assert b.ledgers.twice == 0 and len(done) == 200


def j2_another_group_sees_each_message_once(b):
    """While the first retries and buries."""
    b.server()
    options = with_fates(b, poison=100, flaky=300, reject=100)
    there = b.rig.dir / "other"
    there.mkdir()
    other = b.second_group(there, "other")
    consume(b, "c", options, order="none")
    send_all(b, 300)
    through(b, (GROUP, "other"))
    exactly_the_doomed(b)
    assert not letters(b, "other")
    seen = sorted(r.id for r in b.others.read().of(EFFECT))
    assert seen == sorted(sent(b)), len(seen)
    assert all(r.detail == 1 for r in b.others.of(DELIVERY))
    other.terminate()
    ends(other, 0)


def j4_what_cannot_be_decoded_is_a_dead_letter_with_its_reason(b):
    """Foreign fields, an unknown version, a broken checksum: each is handed
    out, no more than once, and the rest flows."""
    b.server()
    c = consume(b, "c", with_fates(b))
    send_all(b, 40)
    through(b)
    key = "leat:{orders/1}:log"
    with Wire(b.redis.path) as w:
        good = w.call("XRANGE", key, "-", "+", "COUNT", 1)[0][1]
        at = good.index(b"a") + 1
        old, torn = list(good), list(good)
        old[at] = bytes([good[at][0] ^ 0x7f]) + good[at][1:]
        torn[good.index(b"b") + 1] = b"0" + torn[good.index(b"b") + 1][1:]
        bad = [[b"some", b"thing"], old, torn]
        ids = [w.call("XADD", key, "*", *fields).decode() for fields in bad]
    send_all(b, 40, role="later", key=100)
    through(b)
    found = {x.i: x for x in letters(b)}
    assert sorted(found) == sorted(ids), (sorted(found), ids)
    for at, fields in zip(ids, bad):
        x = found[at]
        assert x.le and x.partition == 1 and x.fields == fields, x.head
        assert int(x.n) == 1, x.head
    assert c.alive() and c.stats()["dead"] == len(bad)
    assert len({x.le for x in found.values()}) > 1, "one reason for all"


def denied_key(b, **more):
    """Key 3 fails for as long as the file is there."""
    path = b.rig.dir / "deny"
    path.touch()
    options = with_fates(b, most=1000)
    return path, {**options, "order": "key", "fail_key": 3,
                  "fail_file": str(path), **more}


def j7_only_the_key_that_fails_waits(b):
    """More than fits in flight of it is sent; all other keys flow, those of
    its own partition too; then it comes in order."""
    b.server()
    path, options = denied_key(b)
    consume(b, "c", options)
    send_all(b, 6 * IN_FLIGHT, key=3, keys=1, role="hot")
    send_all(b, 400, key=100, keys=40, role="others")
    others = range(100, 140)
    b.wait(lambda l: sum(r.key in others for r in l.of(EFFECT)) == 400,
           "all others flow")
    assert effects(b, {3}) == 0
    path.unlink()
    freed = time.monotonic()
    through(b)
    print(f"# {6 * IN_FLIGHT} of the key were through "
          f"{1000 * (time.monotonic() - freed):.0f} ms after it was well, "
          "at most 100 ms of which are the delay of its retry")
    in_order(b)
    assert not letters(b)
    b.end(twice=0)


def j7_a_key_keeps_its_order_when_its_owner_is_killed(b):
    """Again and again, while it fails."""
    b.server()
    path, options = denied_key(b)
    p = b.produce(0, rate=300, key=1, keys=16)
    for _ in range(4):
        w = consume(b, "c", options, name="c", lease=60000)
        b.flowing(60)
        b.drop(w)
    consume(b, "c", options, name="c", lease=60000)
    b.flowing(60)
    assert effects(b, {3}) == 0
    path.unlink()
    p.terminate()
    ends(p, 0)
    through(b)
    in_order(b)
    assert not letters(b)
    b.end(twice=4 * IN_FLIGHT)


def j7_a_key_keeps_its_order_when_partitions_change_hands(b):
    b.server()
    path, options = denied_key(b, lease=5000)
    p = b.produce(0, rate=300, key=1, keys=16)
    crowd = [consume(b, "first", options)]
    for n in range(3):
        crowd.append(consume(b, f"c{n}", options))
        b.flowing(50)
        b.leave(crowd.pop(0))
        b.flowing(50)
    assert effects(b, {3}) == 0
    path.unlink()
    p.terminate()
    ends(p, 0)
    through(b)
    in_order(b)
    b.end(twice=0)


# ---- A, C, E with handlers that fail --------------------------------------

def a8_a_retry_that_waits_for_longer_than_the_lease_has_one_effect(b):
    b.server()
    options = with_fates(b, flaky=1000, most=2)
    c = consume(b, "c", options, order="none", lease=3000, delay=4000,
                most_delay=4000, jitter=0)
    send_all(b, 100)
    b.wait(lambda l: len(l.of(DELIVERY)) >= 100, "all have failed")
    assert effects(b) == 0
    through(b)
    assert all(seen == [1, 2] for seen in tries(b).values())
    first = {r.id: r.ns for r in b.ledgers.of(DELIVERY) if r.detail == 1}
    early = [r for r in b.ledgers.of(EFFECT) if r.ns - first[r.id] < 3.9e9]
    assert not early, early[:3]
    assert b.ledgers.twice == 0 and b.owners(LOST) == 0 and c.alive()


def killed(b, *words):
    """The command, killed after a moment; then again, to its end."""
    argv = [str(BUILD / "leat"), *words, "--url", b.url, "--yes", "--quiet"]
    for n in range(6):
        p = b.rig.start(argv, stdout=subprocess.DEVNULL)
        time.sleep(0.004 * n)
        b.rig.end(p)
    code = b.rig.start(argv, stdout=subprocess.DEVNULL).wait(LONG)
    assert code == 0, (words, code)


def a14_a_trim_that_was_killed_is_run_again(b):
    """What the slower group has not settled stays, and nothing else."""
    b.server()
    b.leave(consume(b, "away", group="away"))
    send_all(b, 800, role="first")
    c = consume(b, "away", group="away")
    b.drained()
    b.leave(c)
    send_all(b, 400, role="second", key=100)
    lengths = [ask(b.redis.path, "XLEN", f"leat:{{orders/{i}}}:log")
               for i in range(PARTITIONS)]
    killed(b, "topic", "trim", "orders", "--max-entries", "1", "--yes")
    after = [ask(b.redis.path, "XLEN", f"leat:{{orders/{i}}}:log")
             for i in range(PARTITIONS)]
    assert sum(lengths) == 1200 and sum(after) == 400, (lengths, after)
    consume(b, "away", group="away")
    b.drained()
    assert b.ledgers.twice == 0, b.ledgers.twice


def a14_a_seek_that_was_killed_is_run_again(b):
    """All comes once more, not twice more."""
    b.server()
    send_all(b, 400)
    c = consume(b, "c")
    through(b)
    b.leave(c)
    killed(b, "group", "seek", "orders", GROUP, "--to", "start")
    consume(b, "c")
    b.wait(lambda l: l.twice >= 400, "all comes again")
    through(b)
    assert b.ledgers.read().twice == 400, b.ledgers.twice


def c3_answers_to_moves_that_never_come(b):
    """Each is asked for again, and done once."""
    b.server()
    proxy = b.proxy()
    options = with_fates(b, poison=150, flaky=300, reject=100, most=3)
    consume(b, "c", options, url=proxy.url, answer=400, order="key")
    send_all(b, 32, key=500)
    through(b)
    fired = 0
    for n in range(9):
        before = proxy.fired()
        what = ("half-open", "cut", "blackhole")[n % 3]
        proxy.order(f"rule dir=up command=EVALSHA:{1 + n} after do={what}"
                    " times=1")
        send_all(b, 64, role=f"p{n}", key=1 + 20 * n)
        through(b)
        proxy.order("clear")
        proxy.order("reset 0")
        fired += proxy.fired() - before
    assert fired > 4, fired
    exactly_the_doomed(b)
    in_order(b)


def c5_a_lease_whose_answer_was_lost_finds_what_is_kept(b):
    """Lanes are loaded before anything is read."""
    b.server()
    path, options = denied_key(b)
    first = consume(b, "first", options, lease=60000)
    send_all(b, 200, keys=8)
    b.wait(lambda l: l.missing == 25, "all other keys are through")
    b.leave(first)
    for n in range(1, 8):
        proxy = Proxy(b.rig, b.redis.path, f"control{n}")
        proxy.order(f"rule dir=up command=EVALSHA:{n} after do=cut times=1")
        c = consume(b, f"c{n}", options, lease=60000, answer=1000,
                    url=f"redis://127.0.0.1:{proxy.port}")
        send_all(b, 40, role=f"p{n}", key=1 + 50 * n, keys=16)
        b.wait(lambda l: l.missing == 25, "the new ones are through")
        b.leave(c)
    path.unlink()
    consume(b, "last", options, lease=60000)
    through(b)
    in_order(b)
    assert not letters(b)


def e6_retries_come_once_each_across_jumps_of_the_clock(b):
    """They are due in an hour.  The clock goes back by half of that, and
    nothing comes; then ahead by two hours, and everything does."""
    clock = Clock(b.rig)
    b.server(clock=clock)
    options = with_fates(b, flaky=1000, most=2)
    c = consume(b, "c", options, order="none", in_flight=1000, batch=256,
                delay=3600000, most_delay=3600000, jitter=0)
    send_all(b, MANY)
    wait_for(lambda: kept(b) == MANY, LONG, "all have failed once")
    clock.set(-1800)
    send_all(b, 64, role="aside", key=900, keys=64)
    wait_for(lambda: kept(b) == MANY + 64, LONG, "the new ones have failed")
    assert effects(b) == 0
    clock.set(7200)
    through(b)
    assert all(seen == [1, 2] for seen in tries(b).values())
    assert effects(b) == MANY + 64 and b.ledgers.twice == 0
    assert c.alive() and b.owners(LOST) == 0


def e6_what_failed_while_the_clock_was_ahead_does_not_wait_for_it(b):
    """By a day; the delay is a second."""
    clock = Clock(b.rig)
    b.server(clock=clock)
    options = with_fates(b, flaky=500, most=2)
    consume(b, "c", options, order="key", delay=1000, most_delay=1000)
    send_all(b, 200)
    through(b)
    clock.set(86400)
    send_all(b, 200, role="ahead", key=100)
    b.wait(lambda l: len({r.id for r in l.of(DELIVERY) if r.key >= 100 and
                          b.fates.of(r.id) == FLAKY}) >= 16, "some failed")
    clock.set(0)
    through(b)
    in_order(b)
    assert not letters(b)


def kept(b):
    return sum(ask(b.redis.path, "ZCARD", f"leat:{{orders/{i}}}:due:{GROUP}")
               for i in range(PARTITIONS))


# ---- G: memory ------------------------------------------------------------

def g1_at_maxmemory_failing_and_burying_go_on(b):
    """Publishing is refused; all that is there is settled, retried and buried;
    with room again everything goes on by itself."""
    b.server("--maxmemory-policy", "noeviction")
    options = with_fates(b, poison=100, flaky=300, reject=100, most=3)
    b.leave(consume(b, "before", options, order="none"))
    send_all(b, 400, key=1)
    b.redis.ask("CONFIG SET maxmemory 1")
    p = b.produce(0, role="refused", key=100, rate=100, answer=60000)
    assert ask_refused(b), "the server has room"
    consume(b, "c", options, order="none")
    through(b)
    exactly_the_doomed(b)
    assert not [r for r in b.ledgers.of(ACK) if r.key >= 100]
    b.redis.ask("CONFIG SET maxmemory 0")
    b.wait(lambda l: len([r for r in l.of(ACK) if r.key >= 100]) > 50,
           "it is published again")
    p.terminate()
    ends(p, 0)
    through(b)
    exactly_the_doomed(b)


def ask_refused(b):
    return b.redis.ask("SET x y").startswith("-OOM")


def g10_a_message_that_is_deleted_while_it_is_handled_and_fails(b):
    """There is nothing to hand out again: a dead letter says so."""
    b.server()
    send_all(b, 1, key=3, keys=1)
    c = consume(b, "c", with_fates(b, flaky=1000, most=2), order="none",
                lease=60000, threads=0,
                env={"LEAT_FAILPOINT": "before_effect:stop@1"})
    c.await_stop()
    gone = 0
    for i in range(PARTITIONS):
        key = f"leat:{{orders/{i}}}:log"
        for at, _ in ask(b.redis.path, "XRANGE", key, "-", "+"):
            gone += ask(b.redis.path, "XDEL", key, at)
    assert gone == 1
    c.go_on()
    wait_for(lambda: letters(b), LONG, "there is a dead letter")
    found = letters(b)
    assert len(found) == 1 and "deleted" in found[0].le, found[0].head
    assert found[0].n == "1" and not found[0].fields, found[0].head


def peak(w):
    """The most memory it ever had, in bytes."""
    with open(f"/proc/{w.pid}/status", encoding="ascii") as f:
        return next(int(x.split()[1]) for x in f
                    if x.startswith("VmHWM")) << 10


COPY = ("local e = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1] "
        "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', "
        "unpack(e[2])) end return redis.call('XLEN', KEYS[1])")


def g7_a_slow_consumer_before_a_long_backlog_stays_small(b):
    """A few megabytes, whatever there is to read."""
    b.server()
    send_all(b, PARTITIONS * 10)
    c = consume(b, "c", work=1)
    through(b)
    before = peak(c)
    with Wire(b.redis.path, 60) as w:
        for _ in range(BACKLOG // 50000):
            many = w.call("EVAL", COPY, 1, "leat:{orders/1}:log", 50000)
    want = b.ledgers.read().counts[EFFECT] + 500
    b.wait(lambda l: l.counts[EFFECT] >= want, "it works")
    grown = peak(c) - before
    assert grown < 8 << 20, f"{grown} bytes"
    print(f"# {grown >> 10} KiB more for a backlog of {many}")


def g7_a_key_with_a_long_lane_takes_no_memory_of_its_owner(b):
    b.server()
    path, options = denied_key(b)
    c = consume(b, "c", options)
    send_all(b, 200, keys=8)
    b.wait(lambda l: l.missing == 25, "all other keys are through")
    before, parked = peak(c), PARKED
    send_all(b, parked, key=3, keys=1)
    wait_for(lambda: waiting(b) >= parked, LONG, "they wait in their lane")
    grown = peak(c) - before
    print(f"# {grown >> 10} KiB more for a lane of {parked}")
    assert grown < 8 << 20, f"{grown} bytes"
    path.unlink()
    through(b, seconds=300)
    in_order(b)


def waiting(b):
    return sum(ask(b.redis.path, "ZCARD", f"leat:{{orders/{i}}}:lane:{GROUP}")
               for i in range(PARTITIONS))


if __name__ == "__main__":
    try:
        sys.exit(main(globals()))
    except KeyboardInterrupt:
        sys.exit(130)
