/* uuid.c: ids ascend, do not repeat, and survive being written down. */
#include "base/uuid.h"
#include "base/fork.h"
#include "base/system.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A world with a clock in the test's hand and countable randomness. */
static struct {
    leat_system sys;
    int64_t now_ns;
    int draws;
    bool dry;
} world;

static int64_t world_clock(void *arg)
{
    (void)arg;
    return world.now_ns;
}

static int world_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    world.draws++;
    return world.dry ? -1 : leat_system_default()->random(NULL, buf, n);
}

static int enter_world(void **state)
{
    (void)state;
    world.sys = *leat_system_default();
    world.sys.realtime_ns = world_clock;
    world.sys.random = world_random;
    world.now_ns = 1700000000123 * INT64_C(1000000);
    world.draws = 0;
    world.dry = false;
    leat_system_set(&world.sys);
    return 0;
}

static int leave_world(void **state)
{
    (void)state;
    leat_system_set(NULL);
    return 0;
}

static leat__uuid next(leat__uuid7_gen *g)
{
    leat__uuid id;
    leat_error e;
    assert_int_equal(leat__uuid7_next(g, &id, &e), LEAT_OK);
    return id;
}

static void an_id_carries_version_variant_and_time(void **state)
{
    leat__uuid7_gen g;
    (void)state;
    leat__uuid7_init(&g);
    for (int i = 0; i < 1000; i++) {
        leat__uuid id = next(&g);
        assert_int_equal(id.b[6] >> 4, 7);
        assert_int_equal(id.b[8] >> 6, 2);
        assert_true(leat__uuid7_ms(&id) == 1700000000123);
    }
    leat__uuid7_release(&g);
}

static void ids_ascend_while_the_clock_stands_or_goes_back(void **state)
{
    leat__uuid7_gen g;
    (void)state;
    leat__uuid7_init(&g);
    leat__uuid last = next(&g);
    for (int i = 0; i < 30000; i++) {
        world.now_ns += i % 3 == 0 ? -5000000 : i % 7 == 0 ? 30000000 : 0;
        leat__uuid id = next(&g);
        assert_true(memcmp(&last, &id, sizeof id) < 0);
        last = id;
    }
    leat__uuid7_release(&g);
}

static void a_full_millisecond_runs_over_into_the_next(void **state)
{
    leat__uuid7_gen g;
    (void)state;
    leat__uuid7_init(&g);
    leat__uuid a = next(&g);
    g.counter = (1u << 26) - 1;
    leat__uuid b = next(&g);
    assert_true(memcmp(&a, &b, sizeof a) < 0);
    assert_true(leat__uuid7_ms(&b) == leat__uuid7_ms(&a) + 1);
    leat__uuid7_release(&g);
}

static void randomness_is_fetched_for_many_ids_at_once(void **state)
{
    leat__uuid7_gen g;
    (void)state;
    leat__uuid7_init(&g);
    for (int i = 0; i < 1000; i++)
        next(&g);
    assert_in_range(world.draws, 1, 10);
    leat__uuid7_release(&g);
}

static void without_randomness_there_is_an_error_and_no_id(void **state)
{
    leat__uuid7_gen g;
    leat__uuid id;
    leat_error e;
    (void)state;
    leat__uuid7_init(&g);
    world.dry = true;
    assert_int_equal(leat__uuid7_next(&g, &id, &e), LEAT_EIO);
    world.dry = false;
    next(&g);
    leat__uuid7_release(&g);
}

static void a_forked_child_makes_other_ids(void **state)
{
    leat__uuid7_gen g;
    leat__uuid mine, theirs;
    int fd[2], status;
    (void)state;
    leat__uuid7_init(&g);
    next(&g);
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = leat__uuid7_next(&g, &theirs, NULL) == LEAT_OK;
        ok = ok && write(fd[1], &theirs, sizeof theirs) == sizeof theirs;
        _exit(ok && leat__fork_count() == 1 ? 0 : 1);
    }
    mine = next(&g);
    assert_int_equal(read(fd[0], &theirs, sizeof theirs), sizeof theirs);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_memory_not_equal(mine.b + 10, theirs.b + 10, 6);
    close(fd[0]);
    close(fd[1]);
    leat__uuid7_release(&g);
}

enum { THREADS = 4, EACH = 5000 };
static leat__uuid made[THREADS][EACH];
static leat__uuid7_gen shared;

static void *make(void *arg)
{
    leat__uuid *mine = arg;
    for (int i = 0; i < EACH; i++)
        if (leat__uuid7_next(&shared, &mine[i], NULL) != LEAT_OK)
            return arg;
    return NULL;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(leat__uuid));
}

static void threads_share_a_generator_without_repeating(void **state)
{
    pthread_t t[THREADS];
    (void)state;
    leat__uuid7_init(&shared);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, make, made[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
        for (int k = 1; k < EACH; k++)
            assert_true(by_bytes(&made[i][k - 1], &made[i][k]) < 0);
    }
    leat__uuid *all = &made[0][0];
    qsort(all, THREADS * EACH, sizeof *all, by_bytes);
    for (int i = 1; i < THREADS * EACH; i++)
        assert_true(by_bytes(&all[i - 1], &all[i]) < 0);
    leat__uuid7_release(&shared);
}

static void text_comes_back_as_the_same_id(void **state)
{
    /* RFC 9562, A.6 */
    const char *text = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";
    leat__uuid id;
    char out[LEAT__UUID_TEXT + 1];
    (void)state;
    assert_true(leat__uuid_parse(leat_str(text), &id));
    assert_true(leat__uuid7_ms(&id) == 0x017f22e279b0);
    leat__uuid_format(&id, out);
    assert_string_equal(out, text);
    assert_true(leat__uuid_parse(
        leat_str("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), &id));
    leat__uuid_format(&id, out);
    assert_string_equal(out, text);
}

static void every_digit_is_written_rightly(void **state)
{
    (void)state;
    for (int i = 0; i < 256; i++) {
        leat__uuid id, back;
        char out[LEAT__UUID_TEXT + 1], two[3];
        for (int k = 0; k < 16; k++)
            id.b[k] = (uint8_t)(i + 17 * k);
        leat__uuid_format(&id, out);
        snprintf(two, sizeof two, "%02x", i);
        assert_memory_equal(out, two, 2);
        assert_true(leat__uuid_parse(leat_str(out), &back));
        assert_memory_equal(&id, &back, sizeof id);
    }
}

static void what_is_no_uuid_is_refused(void **state)
{
    const char *bad[] = {
        "",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
        "017f22e2x79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e279b0-7cc3-98c4--dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398\x19",
        "{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
    };
    leat__uuid id;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat__uuid_parse(leat_str(bad[i]), &id));
}

#define in_world(t) cmocka_unit_test_setup_teardown(t, enter_world, leave_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_world(an_id_carries_version_variant_and_time),
        in_world(ids_ascend_while_the_clock_stands_or_goes_back),
        in_world(a_full_millisecond_runs_over_into_the_next),
        in_world(randomness_is_fetched_for_many_ids_at_once),
        in_world(without_randomness_there_is_an_error_and_no_id),
        in_world(a_forked_child_makes_other_ids),
        cmocka_unit_test(threads_share_a_generator_without_repeating),
        cmocka_unit_test(text_comes_back_as_the_same_id),
        cmocka_unit_test(every_digit_is_written_rightly),
        cmocka_unit_test(what_is_no_uuid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
