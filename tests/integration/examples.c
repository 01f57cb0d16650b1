/* examples.c: what the examples show is true. */
#include "support/proc.h"
#include "support/server.h"

#include <sys/wait.h>

static proc *example_of(const char *name, const char *where, const char *more)
{
    char path[512];
    snprintf(path, sizeof path, "%s/example-%s", EXAMPLES, name);
    const char *argv[] = { path, where, more, NULL };
    proc *p = proc_start(argv, &(proc_opts){ .with_stderr = true });
    assert_non_null(p);
    return p;
}

static proc *example(const char *name, const char *where)
{
    return example_of(name, where, NULL);
}

/* Its next line is this. */
static void says(proc *p, const char *want)
{
    char line[512];
    if (!proc_line(p, line, sizeof line, 60000))
        fail_msg("it does not say: %s", want);
    assert_string_equal(line, want);
}

static void ends_with(proc *p, int code)
{
    int status = -1;
    assert_true(proc_wait(p, 10000, &status));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
    proc_free(p);
}

static void the_ping_example_answers(void **state)
{
    char line[512];
    (void)state;
    proc *p = example("ping", url);
    assert_true(proc_line(p, line, sizeof line, 10000));
    assert_non_null(strstr(line, "answers PONG"));
    ends_with(p, 0);

    p = example("ping", "redis://127.0.0.1:1");
    assert_true(proc_line(p, line, sizeof line, 10000));
    assert_non_null(strstr(line, "cannot connect to 127.0.0.1:1"));
    ends_with(p, 1);
}

static void the_stream_example_adds_and_works_off(void **state)
{
    char line[512];
    (void)state;
    proc *p = example("stream", url);
    assert_true(proc_line(p, line, sizeof line, 20000));
    assert_string_equal(line, "1000 added, 0 failed, 0 unknown");
    assert_true(proc_line(p, line, sizeof line, 30000));
    assert_non_null(strstr(line, "1000 handled"));
    ends_with(p, 0);
    assert_int_equal(redis_int(server, "XLEN example-stream"), 1000);
    assert_int_equal(
        redis_int(server, "XPENDING example-stream billing - + 1000"), 0);
}

static void the_produce_example_publishes_ten_thousand(void **state)
{
    char line[512];
    int64_t sum = 0;
    (void)state;
    proc *p = example("produce", url);
    assert_true(proc_line(p, line, sizeof line, 30000));
    assert_string_equal(line, "10000 persisted, 0 failed, 0 unknown");
    ends_with(p, 0);
    for (int i = 0; i < 4; i++)
        sum += redis_int(server, "XLEN leat:{example-produce/%d}:log", i);
    assert_int_equal(sum, 10000);
}

/* In which order the two become dead letters is chance. */
static void the_retry_example_replays_what_was_given_up(void **state)
{
    char line[512], other[512];
    const char *refused = "order 4, attempt 1: no such item";
    const char *failed = "order 7, attempt 3: the address cannot be read";
    (void)state;
    assert_true(redis_flush(server));
    proc *p = example("retry", url);
    assert_true(proc_line(p, line, sizeof line, 60000));
    assert_string_equal(line, "13 handled, 4 retries, 2 dead letters");
    assert_true(proc_line(p, line, sizeof line, 30000));
    assert_true(proc_line(p, other, sizeof other, 30000));
    bool first = strcmp(line, refused) == 0;
    assert_string_equal(first ? line : other, refused);
    assert_string_equal(first ? other : line, failed);
    assert_true(proc_line(p, line, sizeof line, 30000));
    assert_string_equal(line, "2 replayed");
    assert_true(proc_line(p, line, sizeof line, 60000));
    assert_string_equal(line, "15 handled, 4 retries, 2 dead letters");
    ends_with(p, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            redis_int(server, "XLEN leat:{example-retry/%d}:dlq", i), 0);
        assert_int_equal(
            redis_int(server, "HLEN leat:{example-retry/%d}:kept:billing", i),
            0);
    }
}

/* ---- queues ----------------------------------------------------------- */

/* Events come on another thread: each in its order, the receive between. */
static void the_minimal_example_hears_of_each_step(void **state)
{
    (void)state;
    const char *const types[] = { "sent", "received", "acked" };
    char line[512], id[64] = "";
    int events = 0, received = 0;
    assert_true(redis_flush(server));
    proc *p = example("queue_minimal", url);
    for (int i = 0; i < 4; i++) {
        char type[16] = "", of[64] = "";
        assert_true(proc_line(p, line, sizeof line, 60000));
        if (sscanf(line, "event: %15s %63s", type, of) == 2) {
            assert_string_equal(type, types[events++]);
            assert_true(events == 1 || strcmp(of, id) == 0);
            snprintf(id, sizeof id, "%s", of);
        } else {
            assert_string_equal(line,
                                "received: hello, receive 1, trace_id t-1");
            received++;
        }
    }
    assert_int_equal(events, 3);
    assert_int_equal(received, 1);
    ends_with(p, 0);
}

static void
a_consumer_in_another_process_gets_what_the_producer_sent(void **state)
{
    (void)state;
    char want[64];
    assert_true(redis_flush(server));
    proc *consumer = example_of("queue_consumer", url, "10");
    proc *producer = example("queue_producer", url);
    says(producer, "10 sent");
    ends_with(producer, 0);
    for (int i = 0; i < 10; i++) {
        snprintf(want, sizeof want, "got: hello %d, receive 1", i);
        says(consumer, want);
    }
    ends_with(consumer, 0);
}

static void games_are_in_order_each_and_at_once_all(void **state)
{
    (void)state;
    char line[512], want[64];
    int games = 0, most = 0;
    assert_true(redis_flush(server));
    proc *p = example("queue_games", url);
    for (int i = 0; i < 14; i++) {
        char c = (char)('A' + i);
        snprintf(want, sizeof want, "Game%d: %c1 %c2 %c3 %c4 %c5", i + 1, c, c,
                 c, c, c);
        says(p, want);
    }
    assert_true(proc_line(p, line, sizeof line, 60000));
    assert_int_equal(
        sscanf(line, "%d games, up to %d moves at once", &games, &most), 2);
    assert_int_equal(games, 14);
    assert_true(most > 1);
    ends_with(p, 0);
}

static void a_dead_letter_gets_a_second_chance(void **state)
{
    (void)state;
    assert_true(redis_flush(server));
    proc *p = example("queue_dlq", url);
    says(p, "payment 1, receive 1: done");
    says(p, "payment 2, receive 1: done");
    says(p, "payment 3, receive 1: fails");
    says(p, "payment 3, receive 2: fails");
    says(p, "payment 4, receive 1: done");
    says(p, "payment 5, receive 1: done");
    says(p, "dead letter: payment 3");
    says(p, "1 redriven");
    says(p, "payment 3, receive 1: done");
    ends_with(p, 0);
}

static void ten_workers_serve_a_thousand_queues(void **state)
{
    (void)state;
    assert_true(redis_flush(server));
    proc *p = example("queue_pool", url);
    says(p, "1000 messages of 1000 queues by at most 10 workers");
    ends_with(p, 0);
}

static void rooms_are_counted_and_in_order(void **state)
{
    (void)state;
    assert_true(redis_flush(server));
    proc *p = example("queue_rooms", url);
    says(p, "room_7: 3 received, 3 acknowledged");
    says(p, "300 messages of 100 rooms, 0 out of order");
    ends_with(p, 0);
}

/* ---- all of them ------------------------------------------------------ */

static void last_line_is(proc *p, const char *name, const char *want)
{
    char line[512], last[512] = "";
    while (proc_line(p, line, sizeof line, 120000))
        snprintf(last, sizeof last, "%s", line);
    if (!strstr(last, want))
        fail_msg("%s: its last line is '%s', not '%s'", name, last, want);
    ends_with(p, 0);
}

/* Twice, as a user does who tries them one after the other. */
static void examples_do_not_disturb_each_other(void **state)
{
    static const struct {
        const char *name, *more, *last;
    } all[] = {
        { "ping", NULL, "answers PONG" },
        { "produce", NULL, "10000 persisted, 0 failed, 0 unknown" },
        { "queue_consumer", "10", "got: hello 9, receive 1" },
        { "queue_dlq", NULL, "payment 3, receive 1: done" },
        { "queue_games", NULL, "14 games, up to" },
        { "queue_minimal", NULL, "event: acked" },
        { "queue_pool", NULL, "1000 messages of 1000 queues by at most 10" },
        { "queue_producer", NULL, "10 sent" },
        { "queue_rooms", NULL, "300 messages of 100 rooms, 0 out of order" },
        { "retry", NULL, "15 handled, 4 retries, 2 dead letters" },
        { "stream", NULL, "1000 handled" },
    };
    enum { N = sizeof all / sizeof *all };
    (void)state;
    assert_true(redis_flush(server));
    for (int round = 0; round < 2; round++) {
        proc *p[N];
        for (size_t i = 0; i < N; i++)
            p[i] = example_of(all[i].name, url, all[i].more);
        for (size_t i = 0; i < N; i++)
            last_line_is(p[i], all[i].name, all[i].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ping_example_answers),
        cmocka_unit_test(the_produce_example_publishes_ten_thousand),
        cmocka_unit_test(the_retry_example_replays_what_was_given_up),
        cmocka_unit_test(the_stream_example_adds_and_works_off),
        cmocka_unit_test(the_minimal_example_hears_of_each_step),
        cmocka_unit_test(
            a_consumer_in_another_process_gets_what_the_producer_sent),
        cmocka_unit_test(games_are_in_order_each_and_at_once_all),
        cmocka_unit_test(a_dead_letter_gets_a_second_chance),
        cmocka_unit_test(ten_workers_serve_a_thousand_queues),
        cmocka_unit_test(rooms_are_counted_and_in_order),
        cmocka_unit_test(examples_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
