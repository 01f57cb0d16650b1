"""Programs as workers of queues, by the command.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_queue_work.py PATH_TO_LEAT [PATTERN]
"""

import json
import os
import signal
import sys

from cli_bench import main
from cli_help import SECONDS, Redis, equal, wait_for
from cli_queue import Queues, refused


def a_program_gets_the_message_and_its_exit_code_decides(b):
    program = b.script(
        'echo "$LEAT_QUEUE|$LEAT_ID|$LEAT_ATTEMPT|$LEAT_HEADER_USER_ID|'
        '$LEAT_TYPE|$(cat)|$1" >>$T/log')
    p = b.ok("send", "jobs", "hello", "-H", "user-id:ann", "-t", "note", "-o",
             "json")
    p = b.ok("receive", "jobs", "-n", "1", "--exec", program, "--",
             "word",
             env={"LEAT_QUEUE": "old", "LEAT_ID": json.loads(p.out)["id"]})
    assert "1 handled: 1 acknowledged" in p.err, p.err
    log = b.lines("log")[0].split("|")
    equal(log[:1] + log[2:], ["jobs", "1", "ann", "note", "hello", "word"])
    equal(b.counts(), [0, 0, 0, 0])
    equal(b.stats()["acked"], 1)


def what_fails_is_received_again_after_the_delay(b):
    b.put("good", "bad", "ugly")
    program = b.script(
        'read x; echo $x $LEAT_ATTEMPT >>$T/log; echo why >&2\n'
        'case $x in good) exit 0;; bad) exit 3;; ugly) exit 65;; esac')
    p = b.ok("receive", "jobs", "--retry-delay", "10ms", "-n", "5", "-o",
             "json", "--exec", program)
    equal(json.loads(p.out), {"handled": 5, "acked": 1, "given_back": 3,
                              "rejected": 1})
    equal(sorted(b.lines("log")), ["bad 1", "bad 2", "bad 3", "good 1",
                                   "ugly 1"])
    assert "receive 2: exit status 3: why" in p.err, p.err
    wait_for(lambda: b.ok("expire", "jobs") and b.counts()[3] == 2, SECONDS)
    dead = json.loads(b.ok("peek", "jobs", "--dead", "-o", "json").out)
    equal({x["data"]: x.get("reason", "") for x in dead}["ugly"],
          "exit status 65: why")
    b.ok("redrive", "jobs", "-q")
    b.ok("receive", "jobs", "-n", "2", "--retry-delay", "1h", "-q", "--exec",
         "false")
    equal(b.counts(), [0, 0, 2, 0])    # until then nobody gets them


def a_dead_letter_by_its_receives_tells_the_last_reason(b):
    """In every form, though the program only failed."""
    b.ok("create", "fragile", "-r", "2", "--backoff", "none", "-q")
    b.put("x", queue="fragile")
    b.ok("receive", "fragile", "-n", "2", "-q", "--exec",
         b.script("echo it burns >&2; exit 3"))
    why = "exit status 3: it burns"
    for verb in (["peek", "fragile", "--dead"],
                 ["receive", "fragile", "--dead", "--visibility", "1ms", "-w",
                  "30s"]):
        for form in ("table", "csv", "tsv", "json", "ndjson"):
            got = b.ok(*verb, "-o", form).out
            assert why in got, (verb, form, got)


def a_program_that_fails_waits_as_its_queue_says(b):
    b.ok("create", "patient", "--backoff", "fixed:1h,nojitter", "-q")
    s = b.stats("patient")
    equal([s[k] for k in ("backoff", "retry_delay_ms", "jitter")],
          ["fixed", 3600000, False])
    b.put("x", queue="patient")
    b.ok("receive", "patient", "-n", "1", "-q", "--exec", "false")
    equal(b.counts("patient"), [0, 0, 1, 0])
    b.ok("alter", "patient", "--backoff", "exponential:2s..1m", "-q")
    s = b.stats("patient")
    equal([s[k] for k in ("backoff", "retry_delay_ms", "retry_max_delay_ms",
                          "jitter")], ["exponential", 2000, 60000, True])
    refused(b.q("alter", "patient", "--backoff", "soon"), 64, "no backoff")
    refused(b.q("create", "z", "--backoff", "fixed:13h"), 64, "over 12 hours")


def a_message_is_kept_while_its_program_runs(b):
    b.put("slow")
    program = b.script('echo $LEAT_ATTEMPT >>$T/log\n'
                       'while ! [ -e $T/end ]; do sleep 0.05; done')
    p = b.start("queue", "receive", "jobs", "--visibility", "5s", "-n", "1",
                "--exec", program)
    wait_for(lambda: b.lines("log"), SECONDS)
    due = b.call("KEYS", "leat:{q/*}:due")[0].decode()

    def deadline():
        return int(b.call("ZRANGE", due, 0, 0, "WITHSCORES")[1])

    first = deadline()
    wait_for(lambda: deadline() > first, SECONDS)    # it was extended
    open(b.path("end"), "w").close()
    p.communicate(timeout=SECONDS)
    equal((p.returncode, b.lines("log"), b.stats()["acked"]), (0, ["1"], 1))


def programs_run_until_there_is_nothing_to_do(b):
    b.put(*(f"m{i}" for i in range(30)))
    b.ok("receive", "jobs", "-c", "4", "--wait", "300ms", "-q", "--exec",
         b.script('read x; echo $x >>$T/log'))
    equal(sorted(b.lines("log")),
          sorted(f"m{i}" for i in range(30)))
    equal(b.counts(), [0, 0, 0, 0])


def a_signal_lets_programs_end_and_gives_back_what_they_leave(b):
    b.put("a", "b")
    quick = b.script('echo $$ >>$T/pid; sleep 1; echo end >>$T/log', "quick")
    p = b.start("queue", "receive", "jobs", "--exec", quick)
    wait_for(lambda: b.lines("pid"), SECONDS)
    p.terminate()
    p.communicate(timeout=SECONDS)
    equal((p.returncode, b.lines("log")), (0, ["end"]))
    equal(b.counts(), [1, 0, 0, 0])
    slow = b.script('echo $$ >>$T/slow; sleep 600', "slowly")
    p = b.start("queue", "receive", "jobs", "--drain", "100ms", "--exec", slow)
    wait_for(lambda: b.lines("slow"), SECONDS)
    p.terminate()
    err = p.communicate(timeout=SECONDS)[1].decode()
    equal(p.returncode, 75)
    assert "did not end within 100ms" in err, err
    equal(b.counts(), [1, 0, 0, 0])
    equal(b.take()[0]["data"], "b")


def what_a_killed_worker_had_comes_again(b):
    b.put("a")
    program = b.script('echo $$ >>$T/pid; exec sleep 600')
    p = b.start("queue", "receive", "jobs", "--visibility", "500ms", "--exec",
                program)
    wait_for(lambda: b.lines("pid"), SECONDS)
    p.kill()
    os.kill(int(b.lines("pid")[0]), signal.SIGKILL)    # it has our pipe
    p.communicate(timeout=SECONDS)
    p = b.ok("receive", "jobs", "-w", "30s", "-o", "json")
    got = json.loads(p.out)[0]
    equal((got["data"], got["receives"]), ("a", 2))


def words_for_programs_are_checked(b):
    b.put("a")
    refused(b.q("receive", "jobs", "--exec", "/no/such"), 64, "no program")
    refused(b.q("receive", "jobs", "--ack", "--exec", "cat"), 64,
            "without --exec")
    refused(b.q("receive", "jobs", "-c", "1000", "--exec", "cat"), 64, "256")
    equal(b.counts(), [1, 0, 0, 0])
    bad = b.script("")
    with open(bad, "w") as f:
        f.write("#!/no/such/interpreter\n")
    p = b.start("queue", "receive", "jobs", "--exec", bad)
    line = p.stderr.readline().decode()
    assert "given back" in line, line
    p.terminate()
    p.communicate(timeout=SECONDS)
    equal(b.counts(), [1, 0, 0, 0])
    equal(b.take()[0]["receives"], 1)


def a_pool_works_on_all_queues_of_a_namespace(b):
    rooms = [f"room{i}" for i in range(10)]
    for r in rooms:
        b.ok("send", r, "-N", "game", "--auto-create", "-q",
             stdin=b"1\n2\n3\n4\n5\n")
    b.put("not of it")
    program = b.script('read x; echo $x >>$T/$LEAT_QUEUE')
    p = b.ok("pool", "game", "--until-idle", "1s", "-o", "json", "--exec",
             program)
    equal(json.loads(p.out), {"handled": 50, "acked": 50, "given_back": 0,
                              "rejected": 0})
    for r in rooms:
        equal(b.lines(r), list("12345"))
    equal(b.counts(), [1, 0, 0, 0])
    p = b.ok("pool", "-n", "1", "--workers", "2", "--exec", program)
    assert "1 handled: 1 acknowledged" in p.err, p.err
    equal(b.lines("jobs"), ["not of it"])


def a_pool_says_what_is_wrong_with_its_words(b):
    refused(b.q("pool", "--exec", "cat", "--workers"), 64, "needs a N")
    refused(b.q("pool", "game", "-N", "other", "--exec", "cat"), 64,
            "two namespaces")
    refused(b.q("receive", "jobs", "--exec", "cat >x"), 64, "no shell")


def a_pool_tries_again_in_order_and_makes_dead_letters(b):
    b.put("1", "2", "3")
    program = b.script(
        'read x; echo $x $LEAT_ATTEMPT >>$T/log\n'
        'case $x$LEAT_ATTEMPT in 11) exit 1;; 2*) exit 65;; esac')
    b.ok("pool", "-q", "-n", "4", "--retry-delay", "10ms", "--exec", program)
    equal(b.lines("log"), ["1 1", "1 2", "2 1", "3 1"])
    equal(b.counts(), [0, 0, 0, 1])


def a_pool_finds_what_comes_later_and_ends_by_a_signal(b):
    program = b.script('read x; echo $x >>$T/log')
    p = b.start("queue", "pool", "--exec", program)
    b.put("here")
    b.ok("send", "new", "x", "--auto-create", "-q")
    wait_for(lambda: len(b.lines("log")) == 2, SECONDS)
    p.terminate()
    p.communicate(timeout=SECONDS)
    equal(p.returncode, 0)
    equal((b.counts(), b.counts("new")), ([0, 0, 0, 0], [0, 0, 0, 0]))


def a_server_that_is_away_is_no_lack_of_work(b):
    own = Redis(None)
    b.ok("create", "jobs", "-q", env={"LEAT_URL": own.url})
    words = ["-u", own.url, "--timeout", "500ms", "--exec", "cat"]
    started = [b.start("queue", "pool", "game", *words, "--until-idle", "5s"),
               b.start("queue", "receive", "jobs", *words, "--wait", "5s")]

    def both():
        return own.call("CLIENT", "LIST").decode().count("cmd=subscribe") == 2

    wait_for(both, SECONDS)
    own.close()
    for p in started:
        err = p.communicate(timeout=SECONDS)[1].decode()
        equal(p.returncode, 69)
        assert "hint:" in err, err


def a_pool_that_cannot_go_on_says_why(b):
    b.put("x")
    work = b.call("KEYS", "leat:{q/*}:work")[0].decode()
    b.call("RENAME", work, "saved")
    b.call("SET", work, "junk")
    refused(b.q("pool", "--exec", "cat"), 65, "holds something else")
    b.call("RENAME", "saved", work)
    equal(b.ok("pool", "-qn", "1", "--exec", "cat").out, "x")
    refused(b.q("pool", "--exec", "cat", env={
        "LEAT_URL": "unix:///nowhere/at/all", "LEAT_TIMEOUT": "300ms"}), 69)
    refused(b.q("pool", "game"), 64, "--exec is missing")
    refused(b.q("pool", "a b", "--exec", "cat"), 64, "prefix")
    refused(b.q("pool", "--workers", "257", "--exec", "cat"), 64, "256")
    refused(b.q("pool", "--exec", "/no/such"), 64, "no program")


if __name__ == "__main__":
    sys.exit(main(__name__, Queues))
