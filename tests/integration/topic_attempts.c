/*
 * topic_attempts.c: attempts are exact over deaths.
 *
 * Members are processes (topic_member.c) that are killed by SIGKILL, each at
 * another step, and the next one tells what it gets.  There is one member at a
 * time, so nobody but the dead can lose a lease, however slow the machine is.
 */
#include "support/proc.h"
#include "topic_help.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *const orders[] = { "0", "1", "2" };

static proc *member(leat_order order, const char *name, const char *mode)
{
    const char *const argv[] = { TOPIC_MEMBER,  url,  "orders", "g",
                                 orders[order], name, mode,     NULL };
    proc *p = proc_start(argv, NULL);
    assert_non_null(p);
    return p;
}

/* With a name of its own it follows its earlier life without waiting. */
static proc *led_member(void)
{
    return member(LEAT_ORDER_PARTITION, "one", "led");
}

static void tell(proc *p, const char *command, const char *answer)
{
    char line[128] = "";
    assert_true(proc_write(p, command) && proc_write(p, "\n"));
    if (!proc_line(p, line, sizeof line, LONG_MS * 2))
        fail_msg("'%s' is not answered", command);
    if (strcmp(line, answer) != 0)
        fail_msg("'%s' is answered by '%s' instead of '%s'", command, line,
                 answer);
}

static void kill_member(proc *p)
{
    int status = 0;
    proc_signal(p, SIGKILL);
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    proc_free(p);
}

/* The server knows no script: what a member tells at its first hand-out must
 * not need a second try, for which it may not live. */
static void make_topic(int messages)
{
    redis_do(server, "SCRIPT FLUSH");
    leat_topic_close(topic_of(client, "orders", 1));
    add_many("orders", 0, 0, messages);
}

/* ---- killed at each step ---------------------------------------------- */

static void a_death_before_the_first_receive_does_not_count(void **state)
{
    (void)state;
    make_topic(1);
    for (int i = 0; i < 3; i++) {
        proc *p = led_member();
        tell(p, "own", "ok");
        kill_member(p);
    }
    proc *p = led_member();
    tell(p, "take", "0 1");
    kill_member(p);
}

static void a_death_with_a_message_in_hand_counts_once(void **state)
{
    char want[16];
    (void)state;
    make_topic(1);
    for (int i = 1; i <= 6; i++) {
        proc *p = led_member();
        snprintf(want, sizeof want, "0 %d", i);
        tell(p, "take", want);
        kill_member(p);
    }
}

static void
what_was_not_received_is_not_counted_with_its_neighbour(void **state)
{
    (void)state;
    make_topic(3);
    for (int i = 0; i < 2; i++) {
        proc *p = led_member();
        tell(p, "take", i == 0 ? "0 1" : "0 2");
        kill_member(p);
    }
    proc *p = led_member();
    tell(p, "take", "0 3");
    tell(p, "ack 0", "ok");
    tell(p, "take", "1 1");
    tell(p, "take", "2 1");
    kill_member(p);
}

static void what_was_settled_and_told_never_comes_again(void **state)
{
    (void)state;
    make_topic(3);
    proc *p = led_member();
    tell(p, "take", "0 1");
    tell(p, "take", "1 1");
    tell(p, "take", "2 1");
    tell(p, "ack 0", "ok");
    tell(p, "ack 2", "ok");
    tell(p, "flush", "ok");
    kill_member(p);

    add("orders", 0, "last");
    p = led_member();
    tell(p, "take", "1 2");
    tell(p, "take", "last 1");
    kill_member(p);
}

/* Nobody waited for the answer: told or not, but nothing in between. */
static void an_acknowledgement_at_death_is_there_or_not(void **state)
{
    char line[64];
    (void)state;
    make_topic(2);
    proc *p = led_member();
    tell(p, "take", "0 1");
    tell(p, "take", "1 1");
    tell(p, "ack 0", "ok");
    kill_member(p);

    p = led_member();
    assert_true(proc_write(p, "take\n"));
    assert_true(proc_line(p, line, sizeof line, 2 * LONG_MS));
    if (strcmp(line, "0 2") == 0)
        tell(p, "take", "1 2");
    else
        assert_string_equal(line, "1 2");
    kill_member(p);
}

static void what_was_handed_back_counts_each_time(void **state)
{
    (void)state;
    make_topic(1);
    proc *p = led_member();
    tell(p, "take", "0 1");
    tell(p, "nack 0", "ok");
    tell(p, "take", "0 2");
    tell(p, "nack 1", "ok");
    tell(p, "flush", "ok");
    kill_member(p);
    p = led_member();
    tell(p, "take", "0 3");
    kill_member(p);
}

static void what_was_released_is_not_counted(void **state)
{
    (void)state;
    make_topic(2);
    proc *p = led_member();
    tell(p, "take", "0 1");
    tell(p, "take", "1 1");
    proc_close_stdin(p); /* it closes its source */
    assert_true(proc_wait(p, LONG_MS, NULL));
    proc_free(p);
    p = led_member();
    tell(p, "take", "0 1");
    kill_member(p);
    p = led_member();
    tell(p, "take", "0 2");
    tell(p, "take", "1 1");
    kill_member(p);
}

/* ---- the message that kills ------------------------------------------- */

enum { LIVES = 6 };

static const char *const bodies[] = { "a", "b", "poison", "c", "d" };
enum { POISON = 2, BODIES = 5 };

/* One handling, as a member wrote it. */
struct handling {
    int which;
    int attempt;
};

static bool next_handling(proc *p, struct handling *h)
{
    char line[64], body[64];
    if (!proc_line(p, line, sizeof line, LONG_MS))
        return false;
    assert_int_equal(sscanf(line, "%63s %d", body, &h->attempt), 2);
    for (h->which = 0; h->which < BODIES; h->which++)
        if (strcmp(bodies[h->which], body) == 0)
            return true;
    fail_msg("'%s' is not of this test", body);
    return false;
}

/* A life that the poison ends.  From the third on it is alone: what stands
 * before it is settled by then, and nothing behind it is begun. */
static void live_until_killed(proc *p, int life)
{
    struct handling h = { 0, 0 };
    int status = 0;
    int handled = 0;
    bool met = false;
    while (next_handling(p, &h)) {
        handled++;
        if (h.which == POISON)
            assert_int_equal(h.attempt, life);
        else
            assert_true(h.attempt <= 3);
        met = met || h.which == POISON;
        if (life >= 3)
            assert_true(h.which <= POISON);
    }
    assert_true(met);
    if (life > 3)
        assert_int_equal(handled, 1);
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* With the cure all that is left is handled; the neighbours were in the hands
 * of two dead, no more. */
static void live_cured(proc *p)
{
    struct handling h = { 0, 0 };
    for (bool last = false; !last; last = h.which == BODIES - 1) {
        assert_true(next_handling(p, &h));
        assert_true(h.which >= POISON);
        if (h.which == POISON)
            assert_int_equal(h.attempt, LIVES + 1);
        else
            assert_true(h.attempt <= 3);
    }
    proc_close_stdin(p);
    int status = -1;
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_int_equal(status, 0);
}

static void blame(leat_order order, const char *name)
{
    make_topic(0);
    for (int i = 0; i < BODIES; i++)
        add_keyed("orders", 0, bodies[i], bodies[i]);
    for (int life = 1; life <= LIVES; life++) {
        proc *p = member(order, name, "handle");
        live_until_killed(p, life);
        proc_free(p);
    }
    proc *p = member(order, name, "cured");
    live_cured(p);
    proc_free(p);
}

static void poison_is_blamed_alone_in_partition_order(void **state)
{
    (void)state;
    blame(LEAT_ORDER_PARTITION, "one");
}

static void poison_is_blamed_alone_in_key_order(void **state)
{
    (void)state;
    blame(LEAT_ORDER_KEY, "one");
}

static void poison_is_blamed_alone_without_order(void **state)
{
    (void)state;
    blame(LEAT_ORDER_NONE, "one");
}

/* Without a name each follows the dead when its lease is over. */
static void poison_is_blamed_alone_when_leases_run_out(void **state)
{
    (void)state;
    blame(LEAT_ORDER_PARTITION, "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_death_before_the_first_receive_does_not_count),
        topic_test(a_death_with_a_message_in_hand_counts_once),
        topic_test(what_was_not_received_is_not_counted_with_its_neighbour),
        topic_test(what_was_settled_and_told_never_comes_again),
        topic_test(an_acknowledgement_at_death_is_there_or_not),
        topic_test(what_was_handed_back_counts_each_time),
        topic_test(what_was_released_is_not_counted),
        topic_test(poison_is_blamed_alone_in_partition_order),
        topic_test(poison_is_blamed_alone_in_key_order),
        topic_test(poison_is_blamed_alone_without_order),
        topic_test(poison_is_blamed_alone_when_leases_run_out),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
