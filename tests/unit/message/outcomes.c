/* outcomes.c: what a flush waits for, and what it returns. */
#include "message/outcomes.h"
#include "base/system.h"
#include "support/wait.h"

#include <stdatomic.h>

enum { LONG_MS = 60000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static leat__outcomes o;

static int begin(void **state)
{
    (void)state;
    return leat__outcomes_init(&o, NULL) == LEAT_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    leat__outcomes_release(&o);
    return 0;
}

/* Who has counted itself holds the lock until it waits. */
static atomic_int entered;

static leat_code flush(int64_t timeout_ms, leat_error *err)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&entered, 1);
    leat_code rc = leat__outcomes_flush(
        &o, &lock, leat__deadline_ns(timeout_ms), "queue", "orders", err);
    pthread_mutex_unlock(&lock);
    return rc;
}

static void due(size_t n)
{
    pthread_mutex_lock(&lock);
    o.due += n;
    pthread_mutex_unlock(&lock);
}

static void came(size_t n, leat_code code, const char *text)
{
    leat_error e = { 0 };
    if (code != LEAT_OK)
        leat__fail(&e, code, "%s", text);
    pthread_mutex_lock(&lock);
    leat__outcomes_came(&o, n, &e);
    pthread_mutex_unlock(&lock);
}

static void with_nothing_due_there_is_no_wait(void **state)
{
    (void)state;
    assert_int_equal(flush(0, NULL), LEAT_OK);
}

static void what_is_still_due_is_counted_and_named(void **state)
{
    (void)state;
    leat_error e = { 0 };
    due(3);
    came(1, LEAT_OK, NULL);
    assert_int_equal(flush(1, &e), LEAT_ETIMEOUT);
    assert_string_equal(e.msg,
                        "queue 'orders': 2 settlements have no outcome yet");
}

static void the_first_bad_one_is_told_once(void **state)
{
    (void)state;
    leat_error e = { 0 };
    due(4);
    came(1, LEAT_OK, NULL);
    came(1, LEAT_ESTALE, "too late");
    came(2, LEAT_EIO, "gone");
    assert_int_equal(flush(0, &e), LEAT_ESTALE);
    assert_string_equal(e.msg, "too late");
    assert_int_equal(flush(0, &e), LEAT_OK);
}

static void a_bad_one_outlives_a_flush_that_gives_up(void **state)
{
    (void)state;
    due(2);
    came(1, LEAT_EIO, "gone");
    assert_int_equal(flush(0, NULL), LEAT_ETIMEOUT);
    came(1, LEAT_OK, NULL);
    assert_int_equal(flush(0, NULL), LEAT_EIO);
}

static void of_no_outcome_none_is_bad(void **state)
{
    (void)state;
    came(0, LEAT_EIO, "gone");
    assert_int_equal(flush(0, NULL), LEAT_OK);
}

struct waiter {
    pthread_t thread;
    leat_code rc;
    atomic_bool over;
};

static void *wait_long(void *arg)
{
    struct waiter *w = arg;
    w->rc = flush(LONG_MS, NULL);
    atomic_store(&w->over, true);
    return NULL;
}

static void all_who_wait_go_on_with_the_last(void **state)
{
    (void)state;
    static struct waiter w[2];
    atomic_store(&entered, 0);
    due(2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, wait_long, &w[i]),
                         0);
    wait_until(atomic_load(&entered) == 2, LONG_MS);
    came(1, LEAT_OK, NULL);
    assert_false(atomic_load(&w[0].over) || atomic_load(&w[1].over));
    came(1, LEAT_OK, NULL);
    wait_until(atomic_load(&w[0].over) && atomic_load(&w[1].over), LONG_MS / 2);
    for (int i = 0; i < 2; i++) {
        pthread_join(w[i].thread, NULL);
        assert_int_equal(w[i].rc, LEAT_OK);
    }
}

#define outcomes_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        outcomes_test(with_nothing_due_there_is_no_wait),
        outcomes_test(what_is_still_due_is_counted_and_named),
        outcomes_test(the_first_bad_one_is_told_once),
        outcomes_test(a_bad_one_outlives_a_flush_that_gives_up),
        outcomes_test(of_no_outcome_none_is_bad),
        outcomes_test(all_who_wait_go_on_with_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
