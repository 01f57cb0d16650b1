/*
 * queue_incarnation.c: a name is no identity.
 *
 * A step is sent, its request or its answer is lost, and before it is asked
 * again the queue is removed and another one made of the same name, with a
 * message and a dead letter that were acknowledged.  Those stay as they are.
 */
#include "queue_help.h"
#include "support/tcpfault.h"

#include <pthread.h>

static tcpfault *proxy;

static int open_proxy(void **state)
{
    if (open_one(state) != 0)
        return -1;
    proxy = tcpfault_start(redis_socket(server), NULL);
    return proxy ? 0 : -1;
}

static int close_proxy(void **state)
{
    tcpfault_stop(proxy);
    return close_one(state);
}

#define proxy_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_proxy, close_proxy)

/* ---- the queue and its namesake --------------------------------------- */

static const leat_queue_opts quiet = { .no_reaper = true, .no_events = true };

static void bury(leat_queue *q, const char *text)
{
    send_text(q, text);
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, NULL, err));
    leat_queue_batch_free(b);
}

static void fill(const char *dead, const char *ready)
{
    leat_queue *q = queue_of("orders", &quiet);
    bury(q, dead);
    send_text(q, ready);
    leat_queue_close(q);
}

static void replace(void)
{
    if (redis_int(server, "EXISTS leat:{q/41}:orders:conf"))
        must(leat_queue_remove(client, "orders", NULL, err));
    fill("its dead letter", "its message");
}

static void the_namesake_is_whole(void)
{
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .must_exist = true, .no_reaper = true });
    leat_queue_stats s = stats(q);
    assert_int_equal(s.visible, 1);
    assert_int_equal(s.dead, 1);
    assert_int_equal(s.settings.visibility_ms, 30000);
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "its message");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- one call, interrupted -------------------------------------------- */

typedef struct call call;
typedef leat_code call_fn(call *c, leat_error *err);

struct call {
    leat_client *client;
    leat_queue *q;
    call_fn *fn;
    int64_t n;
    leat_code rc;
    pthread_t thread;
};

static leat_code do_remove(call *c, leat_error *e)
{
    return leat_queue_remove(c->client, "orders", NULL, e);
}

static leat_code do_purge(call *c, leat_error *e)
{
    return leat_queue_purge(c->q, false, &c->n, e);
}

static leat_code do_purge_dead(call *c, leat_error *e)
{
    return leat_queue_purge(c->q, true, &c->n, e);
}

static leat_code do_redrive(call *c, leat_error *e)
{
    return leat_queue_redrive(c->q, NULL, &c->n, e);
}

static leat_code do_alter(call *c, leat_error *e)
{
    return leat_queue_alter(c->q, &(leat_queue_opts){ .visibility_ms = 77 }, e);
}

static leat_code do_send(call *c, leat_error *e)
{
    return leat_queue_send(c->q, &(leat_msg){ .body = leat_str("late") }, NULL,
                           NULL, e);
}

static leat_code do_send_id(call *c, leat_error *e)
{
    return leat_queue_send(
        c->q, &(leat_msg){ .id = leat_str("mine"), .body = leat_str("late") },
        NULL, NULL, e);
}

static void *run(void *arg)
{
    call *c = arg;
    leat_error e = { 0 };
    c->rc = c->fn(c, &e);
    return NULL;
}

/* Is the n-th script of it lost, with its answer or alone, and the queue
 * another one when it is asked again? */
static leat_code interrupted(call_fn *fn, uint64_t n, bool answer)
{
    char u[64];
    redis_flush(server);
    fill("dead", "ready");
    snprintf(u, sizeof u, "redis://127.0.0.1:%d", tcpfault_port(proxy));
    call c = { .client = open_client(
                   u, &(leat_client_opts){ .timeout_ms = CLIENT_TIMEOUT_MS,
                                           .max_retry_ms = 20 }),
               .fn = fn };
    c.q = leat_queue_open(c.client, "orders", &quiet, NULL);
    assert_non_null(c.q);
    tcpfault_clear(proxy);
    int rule = tcpfault_rule_add(proxy,
                                 &(tcpfault_rule){ .when = TCPFAULT_COMMAND,
                                                   .command = "EVALSHA",
                                                   .n = n,
                                                   .after = answer,
                                                   .action = TCPFAULT_HALF_OPEN,
                                                   .times = 1 });
    assert_int_equal(pthread_create(&c.thread, NULL, run, &c), 0);
    wait_until(tcpfault_fired(proxy, rule) == 1, LONG_MS);
    replace();
    tcpfault_drop(proxy, 0, true);
    pthread_join(c.thread, NULL);
    leat_queue_close(c.q);
    leat_client_close(c.client);
    return c.rc;
}

/* It looks which queue that is, marks it, empties it in three steps or more and
 * removes the rest.  What it found at first is gone, and that is the truth. */
static void a_removal_that_is_asked_again_removes_no_namesake(void **state)
{
    enum { STEPS = 6 };
    (void)state;
    for (uint64_t n = 2; n <= STEPS; n++)
        for (int answer = 0; answer < 2; answer++) {
            assert_code(interrupted(do_remove, n, answer), LEAT_OK);
            the_namesake_is_whole();
        }
}

static void what_else_is_asked_again_leaves_a_namesake_alone(void **state)
{
    static call_fn *const all[] = { do_purge, do_purge_dead, do_redrive,
                                    do_alter };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (uint64_t n = 1; n <= (all[i] == do_alter ? 1 : 2); n++) {
            assert_code(interrupted(all[i], n, false), LEAT_ENOENT);
            the_namesake_is_whole();
        }
}

/* It was not sent, or is gone with the queue: nobody knows. */
static void a_send_that_is_asked_again_goes_to_no_namesake(void **state)
{
    (void)state;
    assert_code(interrupted(do_send, 1, false), LEAT_EUNKNOWN);
    the_namesake_is_whole();
    assert_code(interrupted(do_send_id, 1, false), LEAT_EUNKNOWN);
    the_namesake_is_whole();
}

/* ---- without a fault -------------------------------------------------- */

static void a_handle_looks_after_the_queue_that_it_opened(void **state)
{
    (void)state;
    leat_error e = { 0 };
    call c = { .client = client, .q = queue_of("orders", &quiet) };
    replace();
    assert_code(do_purge(&c, &e), LEAT_ENOENT);
    assert_code(do_purge_dead(&c, &e), LEAT_ENOENT);
    assert_code(do_redrive(&c, &e), LEAT_ENOENT);
    assert_code(do_alter(&c, &e), LEAT_ENOENT);
    assert_non_null(strstr(e.msg, "made anew"));
    the_namesake_is_whole();
    leat_queue_close(c.q);
}

/* A queue of an earlier version has no `u`. */
static void an_old_queue_is_known_by_when_it_was_made(void **state)
{
    (void)state;
    leat_error e = { 0 };
    fill("dead", "ready");
    redis_do(server, "HDEL leat:{q/41}:orders:conf u");
    call c = { .client = client, .q = queue_of("orders", &quiet) };
    must(do_alter(&c, err));
    must(do_redrive(&c, err));
    assert_int_equal(c.n, 1);
    must(do_purge(&c, err));
    assert_int_equal(c.n, 2);
    redis_do(server, "HINCRBY leat:{q/41}:orders:conf created 1");
    assert_code(do_purge(&c, &e), LEAT_ENOENT);
    assert_code(do_alter(&c, &e), LEAT_ENOENT);
    leat_queue_close(c.q);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_int_equal(redis_int(server, "EXISTS leat:{q/41}:orders:conf"), 0);
}

/* Looked at before a question, removed after it, and again after that. */
static void a_removal_by_id_spares_the_namesake(void **state)
{
    char id[LEAT_QUEUE_ID], now[LEAT_QUEUE_ID];
    (void)state;
    fill("a dead letter", "a message");
    must(leat_queue_id(client, "orders", NULL, id, err));
    const leat_queue_opts o = { .id = id };
    must(leat_queue_remove(client, "orders", &o, err));
    assert_int_equal(leat_queue_remove(client, "orders", &o, NULL),
                     LEAT_ENOENT);
    replace();
    must(leat_queue_id(client, "orders", NULL, now, err));
    assert_string_not_equal(id, now);
    assert_int_equal(leat_queue_remove(client, "orders", &o, NULL),
                     LEAT_ESTALE);
    the_namesake_is_whole();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        proxy_test(a_removal_by_id_spares_the_namesake),
        proxy_test(a_removal_that_is_asked_again_removes_no_namesake),
        proxy_test(what_else_is_asked_again_leaves_a_namesake_alone),
        proxy_test(a_send_that_is_asked_again_goes_to_no_namesake),
        queue_test(a_handle_looks_after_the_queue_that_it_opened),
        queue_test(an_old_queue_is_known_by_when_it_was_made),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
