/* topic_registry.c: making, finding and removing topics. */
#include "support/server.h"
#include "support/tcpfault.h"
#include "topic/topic.h"

#include <pthread.h>

static leat_topic *open_topic(const char *name, const leat_topic_opts *opts)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(client, name, opts, &e);
    if (!t)
        fail_msg("cannot open: %s: %s", leat_code_name(e.code), e.msg);
    return t;
}

static bool listed(const char *name)
{
    return redis_int(server, "SISMEMBER leat:topics %s", name) == 1;
}

static void a_made_topic_is_kept_as_it_was_made(void **state)
{
    char text[64];
    leat__topic_meta m;
    (void)state;
    must(leat_topic_create(
        client, "orders",
        &(leat_topic_spec){ .partitions = 7,
                            .partitioner = LEAT_PARTITION_RING },
        err));
    assert_string_equal(redis_text(server, text, sizeof text, "HGET %s %s",
                                   "leat:topic:orders", "partitions"),
                        "7");
    assert_string_equal(redis_text(server, text, sizeof text, "HGET %s %s",
                                   "leat:topic:orders", "partitioner"),
                        "ring");
    assert_true(listed("orders"));
    must(leat__topic_lookup(client, NULL, "orders", &m, err));
    assert_int_equal(m.partitions, 7);
    assert_int_equal(m.partitioner, LEAT_PARTITION_RING);
    assert_false(m.legacy);
    assert_true(m.created_ms > INT64_C(1500000000000));
    assert_int_equal(m.updated_ms, m.created_ms);

    leat_topic *t = open_topic("orders", NULL);
    assert_string_equal(leat_topic_name(t), "orders");
    assert_int_equal(leat_topic_partitions(t), 7);
    assert_false(leat_topic_legacy(t));
    leat_topic_close(t);
    /* Partitions come with their first message; but their ids are there, and
     * the one of the groups. */
    assert_int_equal(redis_int(server, "DBSIZE"), 2 + 7 + 1);
}

static void what_is_there_is_not_made_again(void **state)
{
    leat_error e = { 0 };
    (void)state;
    must(leat_topic_create(client, "orders", NULL, err));
    assert_code(leat_topic_create(client, "orders",
                                  &(leat_topic_spec){ .partitions = 3 }, &e),
                LEAT_EEXIST);
    assert_non_null(strstr(e.msg, "'orders' with 1 partitions"));
    redis_do(server, "XADD plain * a b");
    assert_code(leat_topic_create(client, "plain", NULL, &e), LEAT_EEXIST);
    assert_non_null(strstr(e.msg, "stream 'plain'"));
}

static void a_prefix_is_a_world_of_its_own(void **state)
{
    leat_error e = { 0 };
    (void)state;
    must(leat_topic_create(client, "t", &(leat_topic_spec){ .prefix = "app" },
                           err));
    assert_int_equal(redis_int(server, "EXISTS app:topic:t"), 1);
    assert_null(leat_topic_open(client, "t", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    leat_topic_close(open_topic("t", &(leat_topic_opts){ .prefix = "app" }));
    must(leat_topic_remove(client, "t", "app", err));
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
}

static void an_unknown_topic_is_not_opened_but_explained(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "SET text x");
    assert_null(leat_topic_open(client, "nowhere", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_non_null(strstr(e.msg, "'nowhere'"));
    assert_non_null(strstr(e.msg, "auto_create"));
    assert_null(leat_topic_open(client, "text", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_false(listed("nowhere"));
}

static void names_that_cannot_be_are_refused_everywhere(void **state)
{
    const char *bad[] = { "", "..", "a b", "a:b", "{a}", "a\r\nFLUSHALL" };
    leat_error e = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_code(leat_topic_create(client, bad[i], NULL, &e), LEAT_EINVAL);
        assert_null(leat_topic_open(client, bad[i], NULL, &e));
        assert_code(e.code, LEAT_EINVAL);
        assert_code(leat_topic_remove(client, bad[i], NULL, &e), LEAT_EINVAL);
    }
    assert_non_null(strstr(e.msg, "a\\x0d\\x0aFLUSHALL"));
    assert_null(leat_topic_open(client, "t",
                                &(leat_topic_opts){ .prefix = "a:b" }, &e));
    assert_code(e.code, LEAT_EINVAL);
}

static void options_that_cannot_be_are_refused(void **state)
{
    const leat_topic_opts bad[] = {
        { .partitions = -1 },
        { .partitions = LEAT_PARTITIONS_MAX + 1 },
        { .partitioner = (leat_partitioner)6 },
        { .window = -1 },
        { .linger_ms = -1 },
        { .timeout_ms = -1 },
    };
    leat_error e = { 0 };
    (void)state;
    must(leat_topic_create(client, "t", NULL, err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_topic_open(client, "t", &bad[i], &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    assert_code(leat_topic_create(
                    client, "u", &(leat_topic_spec){ .partitions = 16385 }, &e),
                LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "16385 partitions"));
}

/* ---- making at the same time ------------------------------------------ */

enum { MAKERS = 8 };

struct maker {
    pthread_barrier_t *start;
    char name[32];
    int wanted;
    uint32_t got;
    leat_code code;
};

static void *make(void *arg)
{
    struct maker *k = arg;
    leat_error e = { 0 };
    pthread_barrier_wait(k->start);
    leat_topic *t = leat_topic_open(
        client, k->name,
        &(leat_topic_opts){ .auto_create = true, .partitions = k->wanted }, &e);
    k->code = t ? LEAT_OK : e.code;
    k->got = t ? leat_topic_partitions(t) : 0;
    leat_topic_close(t);
    return NULL;
}

static void makers_of_one_topic_agree(void **state)
{
    pthread_barrier_t start;
    (void)state;
    pthread_barrier_init(&start, NULL, MAKERS);
    for (int round = 0; round < 10; round++) {
        struct maker k[MAKERS];
        pthread_t t[MAKERS];
        for (int i = 0; i < MAKERS; i++) {
            k[i] = (struct maker){ .start = &start, .wanted = i + 1 };
            snprintf(k[i].name, sizeof k[i].name, "race-%d", round);
            assert_int_equal(pthread_create(&t[i], NULL, make, &k[i]), 0);
        }
        for (int i = 0; i < MAKERS; i++)
            pthread_join(t[i], NULL);
        for (int i = 0; i < MAKERS; i++) {
            assert_code(k[i].code, LEAT_OK);
            assert_int_equal(k[i].got, k[0].got);
        }
        assert_in_range(k[0].got, 1, MAKERS);
        assert_true(listed(k[0].name));
    }
    pthread_barrier_destroy(&start);
}

/* A maker that died between the two steps left the hash alone. */
static void a_topic_that_is_not_listed_is_mended_by_an_open(void **state)
{
    (void)state;
    redis_do(server, "HSET leat:topic:half partitions 3 partitioner java "
                     "created 1 updated 1");
    assert_false(listed("half"));
    leat_topic *t = open_topic("half", NULL);
    assert_int_equal(leat_topic_partitions(t), 3);
    leat_topic_close(t);
    assert_true(listed("half"));

    redis_do(server, "SREM leat:topics half");
    assert_code(leat_topic_create(client, "half", NULL, NULL), LEAT_EEXIST);
    assert_true(listed("half"));
}

static void a_hash_of_another_version_is_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "HSET leat:topic:t partitions 3 partitioner future");
    assert_null(leat_topic_open(client, "t", NULL, &e));
    assert_code(e.code, LEAT_EDECODE);
    assert_non_null(strstr(e.msg, "'future'"));
    redis_do(server, "HSET leat:topic:t partitions 99999 partitioner java");
    assert_null(leat_topic_open(client, "t", NULL, &e));
    assert_code(e.code, LEAT_EDECODE);
    assert_non_null(strstr(e.msg, "'99999'"));
    redis_do(server, "SET leat:topic:s x");
    assert_null(leat_topic_open(client, "s", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
}

struct heard {
    int warnings;
    char last[256];
};

static void hear(void *arg, leat_level level, const char *line)
{
    struct heard *h = arg;
    h->warnings += level == LEAT_LOG_WARN;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static void what_was_made_holds_and_a_difference_is_told(void **state)
{
    struct heard h = { 0 };
    (void)state;
    must(leat_topic_create(client, "t", &(leat_topic_spec){ .partitions = 4 },
                           err));
    leat_topic_opts o = { .auto_create = true,
                          .partitions = 8,
                          .log = { .fn = hear, .arg = &h } };
    leat_topic *t = open_topic("t", &o);
    assert_int_equal(leat_topic_partitions(t), 4);
    leat_topic_close(t);
    assert_int_equal(h.warnings, 1);
    assert_string_equal(h.last,
                        "topic 't' has 4 partitions, not the 8 asked for");
    o.partitions = 4;
    leat_topic_close(open_topic("t", &o));
    assert_int_equal(h.warnings, 1);
    o.partitioner = LEAT_PARTITION_JAVA;
    leat_topic_close(open_topic("t", &o));
    assert_int_equal(h.warnings, 2);
    assert_non_null(strstr(h.last, "murmur2, not the java"));
}

static void a_stream_is_a_topic_of_one_partition(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "XADD legacy * a b");
    leat_topic *t = open_topic("legacy", NULL);
    assert_true(leat_topic_legacy(t));
    assert_int_equal(leat_topic_partitions(t), 1);
    leat_topic_close(t);
    assert_false(listed("legacy"));

    assert_code(leat_topic_remove(client, "legacy", NULL, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "leat_stream_remove"));
    assert_int_equal(redis_int(server, "XLEN legacy"), 1);
}

/* The hash wins over a stream of the same name. */
static void a_topic_comes_before_a_stream_of_its_name(void **state)
{
    (void)state;
    must(leat_topic_create(client, "t", &(leat_topic_spec){ .partitions = 2 },
                           err));
    redis_do(server, "XADD t * a b");
    leat_topic *t = open_topic("t", NULL);
    assert_false(leat_topic_legacy(t));
    leat_topic_close(t);
    must(leat_topic_remove(client, "t", NULL, err));
    assert_int_equal(redis_int(server, "XLEN t"), 1);
    assert_int_equal(redis_int(server, "DBSIZE"), 1);
}

/* A user that may only read opens what is there. */
static void a_reader_without_the_right_to_list_opens_all_the_same(void **state)
{
    struct heard h = { 0 };
    leat_error e = { 0 };
    (void)state;
    must(leat_topic_create(client, "t", NULL, err));
    redis_do(server, "ACL SETUSER reader on nopass ~* +@all -sadd");
    leat_client *c = open_client(
        url, &(leat_client_opts){ .user = "reader", .password = "x" });
    leat_topic *t = leat_topic_open(
        c, "t", &(leat_topic_opts){ .log = { .fn = hear, .arg = &h } }, &e);
    assert_non_null(t);
    assert_int_equal(h.warnings, 1);
    assert_non_null(strstr(h.last, "may not be listed"));
    leat_topic_close(t);
    leat_client_close(c);
    redis_do(server, "ACL DELUSER reader");
}

/* ---- removing --------------------------------------------------------- */

static void fill_topic(void)
{
    must(leat_topic_create(client, "t", &(leat_topic_spec){ .partitions = 3 },
                           err));
    must(leat_topic_create(client, "t2", NULL, err));
    redis_do(server, "SADD leat:{t2}:groups g");
    redis_do(server, "SADD leat:{t}:groups g1 g2 %b", "bad\0name", (size_t)8);
    for (int i = 0; i < 3; i++) {
        redis_do(server, "XADD leat:{t/%d}:log * a b", i);
        for (int g = 1; g <= 2; g++) {
            redis_do(server, "HSET leat:{t/%d}:cur:g%d a b", i, g);
            redis_do(server, "HSET leat:{t/%d}:lease:g%d a b", i, g);
        }
    }
    redis_do(server, "HSET leat:{t}:members:g1 a b");
    redis_do(server, "HSET leat:{t}:members:g2 a b");
}

/* t2's hash, both ids and group, and the registry. */
static void assert_gone(void)
{
    assert_int_equal(redis_int(server, "DBSIZE"), 5);
    assert_false(listed("t"));
    assert_true(listed("t2"));
}

static void a_removed_topic_leaves_nothing(void **state)
{
    leat_error e = { 0 };
    (void)state;
    fill_topic();
    must(leat_topic_remove(client, "t", NULL, err));
    assert_gone();
    assert_code(leat_topic_remove(client, "t", NULL, &e), LEAT_ENOENT);
}

/* Die after each command in turn; the next run goes on to the end. */
static void a_removal_that_was_cut_is_finished_by_the_next(void **state)
{
    int cuts = 0;
    (void)state;
    tcpfault *proxy = tcpfault_start(redis_socket(server), NULL);
    assert_non_null(proxy);
    for (uint64_t n = 1; n < 200; n++) {
        char through[64];
        assert_true(redis_flush(server));
        fill_topic();
        snprintf(through, sizeof through, "redis://127.0.0.1:%d",
                 tcpfault_port(proxy));
        leat_client *c = open_client(through, NULL);
        int rule = tcpfault_rule_add(proxy,
                                     &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                                       .when = TCPFAULT_COMMAND,
                                                       .command = "EVALSHA",
                                                       .n = n,
                                                       .action = TCPFAULT_CUT,
                                                       .times = 1 });
        leat_code rc = leat_topic_remove(c, "t", NULL, NULL);
        uint64_t fired = tcpfault_fired(proxy, rule);
        tcpfault_clear(proxy);
        leat_client_close(c);
        assert_true(fired > 0 ? rc != LEAT_OK : rc == LEAT_OK);
        if (fired > 0)
            must(leat_topic_remove(client, "t", NULL, err));
        assert_gone();
        if (fired == 0)
            break;
        cuts++;
    }
    /* 2 groups of 3 partitions, first marked, then forgotten; the topic marked,
     * the id of its groups removed, its partitions identified and removed, and
     * it is no more. */
    assert_in_range(cuts, 2 * (1 + 3 + 1) + 1 + 1 + 3 + 3 + 1, 21);
    tcpfault_stop(proxy);
}

static void a_name_without_a_topic_is_taken_off_the_list(void **state)
{
    (void)state;
    redis_do(server, "SADD leat:topics ghost");
    must(leat_topic_remove(client, "ghost", NULL, err));
    assert_false(listed("ghost"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_one, close_one)
    const struct CMUnitTest tests[] = {
        TEST(a_made_topic_is_kept_as_it_was_made),
        TEST(what_is_there_is_not_made_again),
        TEST(a_prefix_is_a_world_of_its_own),
        TEST(an_unknown_topic_is_not_opened_but_explained),
        TEST(names_that_cannot_be_are_refused_everywhere),
        TEST(options_that_cannot_be_are_refused),
        TEST(makers_of_one_topic_agree),
        TEST(a_topic_that_is_not_listed_is_mended_by_an_open),
        TEST(a_hash_of_another_version_is_refused),
        TEST(what_was_made_holds_and_a_difference_is_told),
        TEST(a_stream_is_a_topic_of_one_partition),
        TEST(a_topic_comes_before_a_stream_of_its_name),
        TEST(a_reader_without_the_right_to_list_opens_all_the_same),
        TEST(a_removed_topic_leaves_nothing),
        TEST(a_removal_that_was_cut_is_finished_by_the_next),
        TEST(a_name_without_a_topic_is_taken_off_the_list),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
