/*
 * queue_again.c: a change that is asked for again after its answer was lost.
 *
 * A handle behind a proxy asks for it; the proxy swallows the question or the
 * answer until another handle has had its turn, and then resets the connection,
 * so that it is asked for once more.  What it says then is what it did.
 */
#include "queue_help.h"
#include "support/tcpfault.h"

#include <pthread.h>

static tcpfault *proxy;
static leat_queue_profile whose;

static int open_proxy(void **state)
{
    if (open_one(state) != 0)
        return -1;
    proxy = tcpfault_start(redis_socket(server), NULL);
    return proxy ? 0 : -1;
}

static int open_proxy_owl(void **state)
{
    whose = LEAT_QUEUE_REDOWL;
    return open_proxy(state);
}

static int close_proxy(void **state)
{
    whose = LEAT_QUEUE_NATIVE;
    tcpfault_stop(proxy);
    return close_one(state);
}

#define proxy_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_proxy, close_proxy)

#define owl_proxy_test(name)                                                   \
    {                                                                          \
#name "_of_redowl", name, open_proxy_owl, close_proxy, NULL            \
    }

static leat_queue *orders(void)
{
    return queue_of("orders", &(leat_queue_opts){ .profile = whose });
}

/* Somebody who gives up a message, on a thread. */
typedef struct slow {
    leat_client *c;
    leat_queue *q;
    leat_bytes receipt;
    bool reject, ack;
    leat_code rc;
    pthread_t thread;
} slow;

static void *give_up(void *arg)
{
    slow *s = arg;
    s->rc = s->ack ? leat_queue_ack(s->q, s->receipt, NULL)
            : s->reject
                ? leat_queue_reject(s->q, s->receipt, "no", NULL)
                : leat_queue_change_visibility(s->q, s->receipt, 0, NULL);
    return NULL;
}

/* It gives up, and what passes the proxy that way is swallowed.  The script is
 * known to the server by then, so that it is one question and one answer. */
static void start(slow *s, leat_queue *side, tcpfault_dir lost)
{
    char url_of[64];
    leat_error e = { 0 };
    send_text(side, "first");
    leat_queue_batch *b = take_one(side);
    must(leat_queue_change_visibility(side, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    b = take_one(side);
    ack(side, b);
    leat_queue_batch_free(b);

    snprintf(url_of, sizeof url_of, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    s->c = open_client(url_of, &(leat_client_opts){ .timeout_ms = LONG_MS });
    s->q = leat_queue_open(s->c, "orders",
                           &(leat_queue_opts){ .profile = whose,
                                               .no_reaper = true,
                                               .no_events = true },
                           &e);
    assert_non_null(s->q);
    stats(s->q);
    int rule = tcpfault_rule_add(proxy,
                                 &(tcpfault_rule){ .dir = lost,
                                                   .when = TCPFAULT_FRAME,
                                                   .action = TCPFAULT_BLACKHOLE,
                                                   .times = 1 });
    assert_int_equal(pthread_create(&s->thread, NULL, give_up, s), 0);
    wait_until(tcpfault_fired(proxy, rule) == 1, LONG_MS);
}

/* What it was told when it asked again. */
static leat_code end(slow *s)
{
    tcpfault_clear(proxy);
    tcpfault_drop(proxy, 0, true);
    pthread_join(s->thread, NULL);
    leat_queue_close(s->q);
    leat_client_close(s->c);
    return s->rc;
}

/* Its time ran out while the question was on its way; another one has it. */
static void stale_if_the_question_was_lost(slow s)
{
    leat_queue *side = orders();
    send_text(side, "x");
    leat_queue_batch *b = take_one(side);
    s.receipt = item(b)->receipt;
    start(&s, side, TCPFAULT_UP);
    must(leat_queue_change_visibility(side, s.receipt, 1, err));
    leat_queue_batch *mine = take_one(side);
    assert_int_equal(item(mine)->receives, 2);
    assert_code(end(&s), LEAT_ESTALE);
    assert_int_equal(stats(side).dead, 0);
    ack(side, mine);
    assert_int_equal(stats(side).visible, 0);
    leat_queue_batch_free(mine);
    leat_queue_batch_free(b);
    leat_queue_close(side);
}

static void a_reject_that_never_came_is_not_said_to_be_done(void **state)
{
    (void)state;
    stale_if_the_question_was_lost((slow){ .reject = true });
}

static void a_give_back_that_never_came_is_not_said_to_be_done(void **state)
{
    (void)state;
    stale_if_the_question_was_lost((slow){ .reject = false });
}

static void an_ack_that_never_came_is_not_said_to_be_done(void **state)
{
    (void)state;
    stale_if_the_question_was_lost((slow){ .ack = true });
}

static void an_ack_that_was_done_is_said_to_be_done(void **state)
{
    (void)state;
    leat_queue *side = orders();
    slow s = { .ack = true };
    send_text(side, "x");
    leat_queue_batch *b = take_one(side);
    s.receipt = item(b)->receipt;
    start(&s, side, TCPFAULT_DOWN);
    wait_until(stats(side).in_flight == 0, LONG_MS);
    assert_code(end(&s), LEAT_OK);
    leat_queue_batch_free(b);
    leat_queue_close(side);
}

static void a_reject_that_was_done_is_said_to_be_done(void **state)
{
    (void)state;
    leat_queue *side = orders();
    slow s = { .reject = true };
    send_text(side, "x");
    leat_queue_batch *b = take_one(side);
    s.receipt = item(b)->receipt;
    start(&s, side, TCPFAULT_DOWN);
    leat_queue_batch *letter = take_dead(side);
    ack(side, letter);
    assert_code(end(&s), LEAT_OK);
    assert_int_equal(stats(side).dead, 0);
    leat_queue_batch_free(letter);
    leat_queue_batch_free(b);
    leat_queue_close(side);
}

/* Also where another one has received it again and is done with it. */
static void a_give_back_that_was_done_is_said_to_be_done(void **state)
{
    (void)state;
    leat_queue *side = orders();
    slow s = { .reject = false };
    send_text(side, "x");
    leat_queue_batch *b = take_one(side);
    s.receipt = item(b)->receipt;
    start(&s, side, TCPFAULT_DOWN);
    leat_queue_batch *mine = take_one(side);
    assert_int_equal(item(mine)->receives, 2);
    ack(side, mine);
    assert_code(end(&s), LEAT_OK);
    leat_queue_batch_free(mine);
    leat_queue_batch_free(b);
    leat_queue_close(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        proxy_test(an_ack_that_never_came_is_not_said_to_be_done),
        owl_proxy_test(an_ack_that_never_came_is_not_said_to_be_done),
        proxy_test(an_ack_that_was_done_is_said_to_be_done),
        owl_proxy_test(an_ack_that_was_done_is_said_to_be_done),
        proxy_test(a_reject_that_never_came_is_not_said_to_be_done),
        owl_proxy_test(a_reject_that_never_came_is_not_said_to_be_done),
        proxy_test(a_give_back_that_never_came_is_not_said_to_be_done),
        owl_proxy_test(a_give_back_that_never_came_is_not_said_to_be_done),
        proxy_test(a_reject_that_was_done_is_said_to_be_done),
        owl_proxy_test(a_reject_that_was_done_is_said_to_be_done),
        proxy_test(a_give_back_that_was_done_is_said_to_be_done),
        owl_proxy_test(a_give_back_that_was_done_is_said_to_be_done),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
