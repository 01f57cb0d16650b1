/*
 * admin_help.h: a topic "t" of three partitions and its group "g", in any
 * state.
 *
 * The messages of partition i stand at 1000-0, 2000-0, ...: places that a test
 * can name.
 */
#ifndef ADMIN_HELP_H
#define ADMIN_HELP_H

#include "redis/script.h"
#include "topic_help.h"

#define A      "0a000000000000000000000000000000"
#define CURSOR "leat:{t/%d}:cur:g"
#define LEASE  "leat:{t/%d}:lease:g"
#define LOG    "leat:{t/%d}:log"

static leat_topic *topic;

static inline int open_topic(void **state)
{
    int rc = open_one(state);
    if (rc == 0)
        topic = topic_of(client, "t", 3);
    return rc;
}

static inline int close_topic(void **state)
{
    leat_topic_close(topic);
    return close_one(state);
}

#define admin_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_topic, close_topic)

/* Message `number` of a partition, at number * 1000. */
static inline void put(int partition, int number)
{
    leat_fields *f = leat_fields_new(NULL);
    char log[64], id[32], body[16];
    leat_bytes argv[19] = { leat_str("XADD"), leat_str(log), leat_str(id) };
    snprintf(log, sizeof log, LOG, partition);
    snprintf(id, sizeof id, "%d-0", number * 1000);
    snprintf(body, sizeof body, "%d", number);
    argv[1] = leat_str(log);
    argv[2] = leat_str(id);
    leat_msg m = { .id = leat_str(body), .time_ms = 1, .body = leat_str(body) };
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    size_t n = 2 * leat_fields_count(f);
    assert_true(n <= 16);
    memcpy(argv + 3, leat_fields_pairs(f), n * sizeof *argv);
    must(leat_client_call(client, argv, 3 + n, NULL, NULL, err));
    leat_fields_free(f);
}

static inline void fill(int partition, int n)
{
    for (int i = 1; i <= n; i++)
        put(partition, i);
}

static inline leat_source *join(const leat_topic_source_opts *o)
{
    return source_of(topic, "g", o);
}

/* A group that is there and whose members are gone. */
static inline void make_group(void)
{
    redis_do(server, "SADD leat:{t}:groups g");
}

#define must_seek(to, ...)                                                     \
    must(leat_group_seek(client, "t", "g", to,                                 \
                         &(leat_seek_opts){ __VA_ARGS__ }, NULL, err))

static inline leat_group_info *described(void)
{
    leat_error e = { 0 };
    leat_group_info *g = leat_group_describe(client, "t", "g", NULL, &e);
    if (!g)
        fail_msg("%s", e.msg);
    return g;
}

/* Run one step of move.lua on partition 1 with a lease of our own. */
static inline void move(int number, const char *what, const char *id, int n,
                        int f, int delay, const char *error, const char *lane)
{
    char num[12], tries[12], fails[12], wait[12];
    const leat_reply *r = NULL;
    leat_conn *c = lend(client);
    snprintf(num, sizeof num, "%d", number);
    snprintf(tries, sizeof tries, "%d", n);
    snprintf(fails, sizeof fails, "%d", f);
    snprintf(wait, sizeof wait, "%d", delay);
    const leat_bytes keys[] = {
        leat_str("leat:{t/1}:lease:g"), leat_str("leat:{t/1}:cur:g"),
        leat_str("leat:{t/1}:log"),     leat_str("leat:{t/1}:kept:g"),
        leat_str("leat:{t/1}:due:g"),   leat_str("leat:{t/1}:lane:g"),
        leat_str("leat:{t/1}:dlq"),     leat_str("leat:{t/1}:bodies"),
        leat_str("leat:{t/1}:later"),   leat_str("leat:{t/1}:laters"),
        leat_str("leat:{t/1}:since")
    };
    const leat_bytes args[] = {
        leat_str(A),        leat_str("9"),      leat_str(num),
        leat_str("6000-0"), leat_str("6000-0"), leat_str("6"),
        leat_str(""),       leat_str(""),       leat_str("g"),
        leat_str("100000"), leat_str("0"),      leat_str("100"),
        leat_str(""),       leat_str(num),      leat_str(what),
        leat_str(id),       leat_str(tries),    leat_str(fails),
        leat_str(wait),     leat_str(error),    leat_str(lane)
    };
    must(leat__script_call(c, &leat__script_topic_move, keys, 11, args,
                           sizeof args / sizeof *args, &r, err));
    assert_text(leat_reply_at(r, 0), "1");
    leat_client_return(client, c);
}

/* On partition 1: two that wait for a retry, one of them with two behind it. */
static inline void put_some_by(void)
{
    fill(1, 6);
    redis_do(server, "HSET " LEASE " o %s e 9", 1, A);
    redis_do(server, "HSET " CURSOR " e 9 q 0 c 0-0 m 0-0 n 0 s %s t %s b 0-0",
             1, "", "");
    move(1, "keep", "2000-0", 3, 3, 3600000, "no luck", "");
    move(2, "keep", "3000-0", 7, 6, 0, "worse", "00000000000000ab");
    move(3, "keep", "4000-0", 0, 0, 0, "", "00000000000000ab");
    move(4, "keep", "5000-0", 0, 0, 0, "", "00000000000000ab");
}

#endif
