/*
 * dlq_live.c: dead letters of a consumer that runs, replayed by the command
 * while it does.
 *
 * One thread receives all along and counts.  What is poison it rejects, until
 * it is told that the cause is gone; then it acknowledges everything.
 */
#include "dlq_help.h"
#include "support/proc.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { PARTS = 3, COUNT = 900, POISON = 3, SOON_MS = 60000 };

typedef struct reader {
    leat_source *source;
    pthread_t thread;
    atomic_bool cured, stop;
    atomic_int done[COUNT];     /* acknowledged                     */
    atomic_int rejected[COUNT]; /* before it was cured              */
    atomic_int replayed;        /* of all, those that said they are */
    atomic_int first;           /* of these, at their first attempt */
} reader;

static bool is_poison(int i)
{
    return i % POISON == 0;
}

static void handle(reader *r, leat_delivery *d)
{
    int i = body_number(d);
    if (leat_delivery_replayed_from(d).n > 0) {
        atomic_fetch_add(&r->replayed, 1);
        atomic_fetch_add(&r->first, leat_delivery_attempt(d) == 1);
    }
    if (is_poison(i) && !atomic_load(&r->cured)) {
        atomic_fetch_add(&r->rejected[i], 1);
        (void)leat_delivery_reject(d, "poison");
        return;
    }
    atomic_fetch_add(&r->done[i], 1);
    (void)leat_delivery_ack(d);
}

static void *read_all(void *arg)
{
    reader *r = arg;
    leat_delivery *d[64];
    while (!atomic_load(&r->stop)) {
        int n = leat_source_receive(r->source, d, 64, 100, NULL);
        for (int i = 0; i < n; i++)
            handle(r, d[i]);
    }
    return NULL;
}

static int done_count(reader *r)
{
    int n = 0;
    for (int i = 0; i < COUNT; i++)
        n += atomic_load(&r->done[i]) > 0;
    return n;
}

static int64_t sum_of(const char *command, const char *word)
{
    int64_t sum = 0;
    for (int p = 0; p < PARTS; p++) {
        int64_t n = redis_int(server, "%s leat:{t/%d}:%s", command, p, word);
        sum += n > 0 ? n : 0;
    }
    return sum;
}

static int64_t dead_count(void)
{
    return sum_of("XLEN", "dlq");
}

/* The command; what it says is not looked at. */
static proc *replayer(const char *more, const char *value)
{
    const char *argv[] = { LEAT_PROGRAM, "-u", url,  "dlq", "replay", "t",
                           "--all",      "-y", "-q", more,  value,    NULL };
    proc *p = proc_start(argv, &(proc_opts){ .with_stderr = true });
    assert_non_null(p);
    return p;
}

/* Its exit code, or -1 if it was killed. */
static int ended(proc *p)
{
    int status = -1;
    assert_true(proc_wait(p, SOON_MS, &status));
    proc_free(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static reader *reader_start(leat_topic *t)
{
    reader *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->source = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE });
    assert_int_equal(pthread_create(&r->thread, NULL, read_all, r), 0);
    return r;
}

static void reader_stop(reader *r)
{
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    must(leat_source_flush(r->source, SOON_MS, err));
    leat_source_close(r->source);
}

/* Messages of which every third is a dead letter now, and all others done. */
static reader *begin_with_dead(leat_topic *t)
{
    char body[16];
    for (int i = 0; i < COUNT; i++) {
        snprintf(body, sizeof body, "%d", i);
        add_keyed("t", i % PARTS, body, body);
    }
    reader *r = reader_start(t);
    wait_until(dead_count() == COUNT / POISON, SOON_MS);
    wait_until(done_count(r) == COUNT - COUNT / POISON, SOON_MS);
    return r;
}

static void assert_each_once(reader *r)
{
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(atomic_load(&r->done[i]), 1);
        assert_int_equal(atomic_load(&r->rejected[i]) > 0, is_poison(i));
    }
    assert_int_equal(dead_count(), 0);
    assert_int_equal(sum_of("HLEN", "kept:g"), 0);
    assert_int_equal(sum_of("ZCARD", "due:g"), 0);
}

/* Killed in the middle, run again by two at once, and the consumer goes on all
 * the while. */
static void
replayed_while_consuming_and_killed_midway_each_is_done_once(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "t", PARTS);
    reader *r = begin_with_dead(t);
    atomic_store(&r->cured, true);
    proc *p = replayer("--rate", "300");
    wait_until(dead_count() < COUNT / POISON - 20, SOON_MS);
    proc_signal(p, SIGKILL);
    assert_int_equal(ended(p), -1);
    assert_true(dead_count() > 0);
    proc *two[] = { replayer(NULL, NULL), replayer(NULL, NULL) };
    for (int i = 0; i < 2; i++)
        assert_in_range(ended(two[i]), 0, 1); /* 1: the other was quicker */
    assert_int_equal(dead_count(), 0);
    wait_until(done_count(r) == COUNT, SOON_MS);
    assert_int_equal(ended(replayer(NULL, NULL)), 0);
    reader_stop(r);
    assert_each_once(r);
    assert_int_equal(atomic_load(&r->replayed), COUNT / POISON);
    assert_int_equal(atomic_load(&r->first), COUNT / POISON);
    free(r);
    leat_topic_close(t);
}

/* Nothing is cured: each run makes the same dead letters again, which remember
 * where they were; a run ends though they come back. */
static void what_fails_again_is_a_dead_letter_again(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_dead x;
    leat_topic *t = topic_of(client, "t", PARTS);
    reader *r = begin_with_dead(t);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ended(replayer(NULL, NULL)), 0);
        wait_until(dead_count() == COUNT / POISON, SOON_MS);
    }
    leat_dlq *d = dlq_of(NULL);
    leat_dlq_walk *w = leat_dlq_walk_open(d, NULL, &e);
    int n = 0;
    for (; leat_dlq_walk_next(w, &x, &e) == 1; n++) {
        assert_string_equal(x.group, "g");
        assert_int_equal(x.attempts, 1);
        assert_bytes(x.error, "poison");
        assert_true(strlen(x.replayed_from) > 0);
        assert_string_not_equal(x.replayed_from, x.id);
        char text[16] = "";
        memcpy(text, x.msg->body.p, x.msg->body.n < 15 ? x.msg->body.n : 15);
        assert_true(is_poison((int)strtol(text, NULL, 10)));
    }
    assert_int_equal(n, COUNT / POISON);
    leat_dlq_walk_close(w);
    leat_dlq_close(d);
    reader_stop(r);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(atomic_load(&r->done[i]), !is_poison(i));
        assert_int_equal(atomic_load(&r->rejected[i]), is_poison(i) ? 3 : 0);
    }
    free(r);
    leat_topic_close(t);
}

/* An edited one is what the handler gets; others of the topic never see it. */
static void an_edited_one_is_handled_as_it_is_now(void **state)
{
    (void)state;
    char id[LEAT_DEAD_ID];
    const char *ids[] = { id };
    leat_topic *t = topic_of(client, "t", 1);
    add_keyed("t", 0, "k", "bad");
    leat_source *g = source_of(t, "g", NULL), *h = source_of(t, "h", NULL);
    leat_delivery *d = next_of(g);
    assert_body(d, "bad");
    assert_int_equal(leat_delivery_reject(d, "bad is bad"), LEAT_OK);
    ack(next_of(h));
    must(leat_source_flush(g, LONG_MS, err));
    must(leat_source_flush(h, LONG_MS, err));
    dlq = dlq_of(NULL);
    newest_dead(0, id);
    must(leat_dlq_edit(dlq, id, &(leat_dead_edit){ .body = leat_str("good") },
                       id, err));
    must(leat_dlq_replay(dlq, ids, 1, NULL, NULL, err));
    d = next_of(g);
    assert_body(d, "good");
    assert_int_equal(leat_delivery_attempt(d), 1);
    assert_bytes(leat_delivery_replayed_from(d), id);
    ack(d);
    must(leat_source_flush(g, LONG_MS, err));
    nothing_of(h, 50);
    leat_dlq_close(dlq);
    leat_source_close(g);
    leat_source_close(h);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(
            replayed_while_consuming_and_killed_midway_each_is_done_once),
        topic_test(what_fails_again_is_a_dead_letter_again),
        topic_test(an_edited_one_is_handled_as_it_is_now),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
