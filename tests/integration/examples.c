/* examples.c: what the examples show is true. */
#include "support/proc.h"
#include "support/server.h"

#include <sys/wait.h>

static proc *example(const char *name, const char *where)
{
    char path[512];
    snprintf(path, sizeof path, "%s/example-%s", EXAMPLES, name);
    const char *argv[] = { path, where, NULL };
    proc *p = proc_start(argv, &(proc_opts){ .with_stderr = true });
    assert_non_null(p);
    return p;
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
    assert_int_equal(redis_int(server, "XLEN orders"), 1000);
    assert_int_equal(redis_int(server, "XPENDING orders billing - + 1000"), 0);
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
        sum += redis_int(server, "XLEN leat:{orders/%d}:log", i);
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
        assert_int_equal(redis_int(server, "XLEN leat:{orders/%d}:dlq", i), 0);
        assert_int_equal(
            redis_int(server, "HLEN leat:{orders/%d}:kept:billing", i), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ping_example_answers),
        cmocka_unit_test(the_produce_example_publishes_ten_thousand),
        cmocka_unit_test(the_retry_example_replays_what_was_given_up),
        cmocka_unit_test(the_stream_example_adds_and_works_off),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
