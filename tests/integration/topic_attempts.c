/*
 * topic_attempts.c: attempts are exact over deaths.
 *
 * Members are processes (topic_member.c) that are killed by SIGKILL, each at
 * another step, and the next one tells what it gets.  There is one member at a
 * time, so nobody but the dead can lose a lease, however slow the machine is.
 */
#include "redis/script.h"
#include "support/proc.h"
#include "topic_help.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static const char *const orders[] = { "0", "1", "2", "3" };

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

/* On a server that knows no script. */
static void make_topic(int messages)
{
    redis_do(server, "SCRIPT FLUSH");
    leat_topic_close(topic_of(client, "orders", 1));
    add_many("orders", 0, 0, messages);
}

/* Receive for the first time, and wait until the server knows of so many saves
 * of this life: nobody waits for that in receive. */
static void take_first(proc *p, const char *answer, int saves)
{
    tell(p, "take", answer);
    wait_until(redis_int(server, "HGET leat:{orders/0}:cur:g q") >= saves,
               LONG_MS);
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

/* A hand-out is told by one try, for which a second may come too late. */
static void the_script_that_tells_is_known_before_it_is_needed(void **state)
{
    (void)state;
    make_topic(1);
    proc *p = led_member();
    tell(p, "own", "ok");
    redisReply *r = redis_raw(server, "SCRIPT EXISTS %s",
                              leat__script_topic_save.sha);
    assert_int_equal(r->element[0]->integer, 1);
    freeReplyObject(r);
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
        take_first(p, want, 1);
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
        take_first(p, i == 0 ? "0 1" : "0 2", 1);
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
    take_first(p, "0 1", 1);
    take_first(p, "1 1", 2);
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
    take_first(p, "0 1", 1);
    kill_member(p);
    p = led_member();
    tell(p, "take", "0 2");
    tell(p, "take", "1 1");
    kill_member(p);
}

/* ---- the message that kills ------------------------------------------- */

enum { DEATHS = 6, LIVES = 4 * DEATHS };

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

/* A life that the poison ends; returns which attempt that was.  Its first may
 * be lost with the process, no other is.  From the third on it is alone: what
 * stands before it is settled by then, and nothing behind it is begun. */
static int live_until_killed(proc *p, int last)
{
    struct handling h = { 0, 0 };
    int status = 0, handled = 0, poison = 0;
    while (next_handling(p, &h)) {
        handled++;
        if (h.which == POISON)
            poison = h.attempt;
        assert_true(h.which == POISON || h.attempt <= 3);
        assert_true(h.which <= POISON || last < 2);
    }
    assert_true(poison == last + 1 || (poison == 1 && last == 1));
    assert_true(poison <= 3 || handled == 1);
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return poison;
}

static bool all_is_settled(void)
{
    redisReply *last = redis_raw(server,
                                 "XREVRANGE leat:{orders/0}:log + - COUNT 1");
    redisReply *cursor = redis_raw(server, "HGET leat:{orders/0}:cur:g c");
    bool same = strcmp(last->element[0]->element[0]->str, cursor->str) == 0;
    freeReplyObject(last);
    freeReplyObject(cursor);
    return same;
}

/* With the cure all that is left is handled; the neighbours were in the hands
 * of two dead, no more. */
static void live_cured(proc *p)
{
    struct handling h = { 0, 0 };
    int status = -1;
    bool met = false;
    wait_until(all_is_settled(), 2 * LONG_MS);
    proc_close_stdin(p);
    while (next_handling(p, &h)) {
        assert_true(h.which >= POISON);
        assert_true(h.which == POISON ? h.attempt == DEATHS + 1
                                      : h.attempt <= 3);
        met = met || h.which == POISON;
    }
    assert_true(met);
    assert_true(proc_wait(p, LONG_MS, &status));
    assert_int_equal(status, 0);
}

static void blame(leat_order order, const char *name)
{
    make_topic(0);
    for (int i = 0; i < BODIES; i++)
        add_keyed("orders", 0, bodies[i], bodies[i]);
    int attempt = 0;
    for (int life = 0; life < LIVES && attempt < DEATHS; life++) {
        proc *p = member(order, name, "handle");
        attempt = live_until_killed(p, attempt);
        proc_free(p);
    }
    assert_int_equal(attempt, DEATHS);
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
        topic_test(the_script_that_tells_is_known_before_it_is_needed),
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
