/*
 * topic_poison.c: handlers that kill their process.
 *
 * Members are processes (topic_member.c) that die of every message "poison" and
 * are started again, with several threads and partitions.  In the end exactly
 * the poison ones are dead letters, each once, and all others were handled.
 */
#include "support/proc.h"
#include "topic_help.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { PARTITIONS = 4, EACH = 25, POISON = 3, LIVES = 60, TEAM = 2 };

static const char *const orders[] = { "0", "1", "2", "3" };
static const char *const names[TEAM] = { "one", "two" };

/* Which were handled. */
static bool handled[PARTITIONS * EACH];

static proc *member(leat_order order, int which)
{
    const char *const argv[] = { TOPIC_MEMBER,  url,          "orders", "g",
                                 orders[order], names[which], "handle", "2",
                                 "3",           NULL };
    proc *p = proc_start(argv, NULL);
    assert_non_null(p);
    return p;
}

/* One poison each in some of the partitions, among others. */
static void fill(void)
{
    char body[32];
    memset(handled, 0, sizeof handled);
    leat_topic_close(topic_of(client, "orders", PARTITIONS));
    for (int p = 0; p < PARTITIONS; p++)
        for (int i = 0; i < EACH; i++) {
            snprintf(body, sizeof body, "%d", p * EACH + i);
            add_keyed("orders", p, body, body);
            if (p < POISON && i == 5 + 7 * p)
                add_keyed("orders", p, "p", "poison");
        }
}

/* All that it wrote; a message may be handled again by the next life. */
static void read_all(proc *p)
{
    char line[64];
    while (proc_line(p, line, sizeof line, LONG_MS))
        if (strncmp(line, "poison", 6) != 0)
            handled[strtol(line, NULL, 10)] = true;
}

static int64_t count_all(const char *what, const char *key)
{
    int64_t n = 0;
    for (int i = 0; i < PARTITIONS; i++)
        n += redis_int(server, "%s leat:{orders/%d}:%s", what, i, key);
    return n;
}

static bool partition_is_settled(int i)
{
    redisReply *last = redis_raw(
        server, "XREVRANGE leat:{orders/%d}:log + - COUNT 1", i);
    redisReply *cursor = redis_raw(server, "HGET leat:{orders/%d}:cur:g c", i);
    bool same = cursor->str &&
                strcmp(last->element[0]->element[0]->str, cursor->str) == 0;
    freeReplyObject(last);
    freeReplyObject(cursor);
    return same;
}

static bool all_is_settled(void)
{
    for (int i = 0; i < PARTITIONS; i++)
        if (!partition_is_settled(i))
            return false;
    return count_all("HLEN", "kept:g") == 0;
}

/* Lives that end by the poison, until all is settled. */
static int live(leat_order order, int team)
{
    proc *p[TEAM] = { NULL };
    int lives = 0, status;
    int64_t end = wait_now_ms() + 3 * LONG_MS;
    while (!all_is_settled() && lives < LIVES && wait_now_ms() < end)
        for (int i = 0; i < team; i++) {
            if (!p[i]) {
                p[i] = member(order, i);
                lives++;
            } else if (proc_wait(p[i], 5, &status)) {
                assert_true(WIFSIGNALED(status));
                read_all(p[i]);
                proc_free(p[i]);
                p[i] = NULL;
            }
        }
    for (int i = 0; i < team; i++) {
        if (!p[i])
            continue;
        proc_close_stdin(p[i]);
        read_all(p[i]);
        assert_true(proc_wait(p[i], LONG_MS, &status));
        proc_free(p[i]);
    }
    return lives;
}

static void check_letters(void)
{
    for (int i = 0; i < POISON; i++) {
        redisReply *r = redis_raw(server, "XRANGE leat:{orders/%d}:dlq - +", i);
        assert_int_equal(r->elements, 1);
        const redisReply *pairs = r->element[0]->element[1];
        bool poison = false, died = false;
        for (size_t k = 0; k + 1 < pairs->elements; k += 2) {
            const char *name = pairs->element[k]->str;
            const char *value = pairs->element[k + 1]->str;
            poison |= strcmp(value, "poison") == 0;
            died |= strcmp(name, "le") == 0 &&
                    strcmp(value, "its handler died 3 times") == 0;
        }
        assert_true(poison && died);
        freeReplyObject(r);
    }
}

static void survive(leat_order order, int team)
{
    fill();
    int lives = live(order, team);
    print_message("# %d lives\n", lives);
    assert_true(all_is_settled());
    assert_int_equal(count_all("XLEN", "dlq"), POISON);
    check_letters();
    for (int i = 0; i < PARTITIONS * EACH; i++)
        assert_true(handled[i]);
}

static void poison_alone_dies_in_partition_order(void **state)
{
    (void)state;
    survive(LEAT_ORDER_PARTITION, 1);
}

static void poison_alone_dies_in_key_order(void **state)
{
    (void)state;
    survive(LEAT_ORDER_KEY, 1);
}

static void poison_alone_dies_without_order(void **state)
{
    (void)state;
    survive(LEAT_ORDER_NONE, 1);
}

static void poison_alone_dies_of_two_members(void **state)
{
    (void)state;
    survive(LEAT_ORDER_NONE, TEAM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(poison_alone_dies_in_partition_order),
        topic_test(poison_alone_dies_in_key_order),
        topic_test(poison_alone_dies_without_order),
        topic_test(poison_alone_dies_of_two_members),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
