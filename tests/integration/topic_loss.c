/*
 * topic_loss.c: a producer tells what it lost, and nothing else.
 */
#include "support/proxy.h"
#include "topic_lossbook.h"

enum { SOON_MS = 60000, PARTITIONS = 3 };

/* What `server` has is gone after a crash; this one keeps everything. */
static redis_server *careful;

static int start(void **state)
{
    careful = redis_start(&(redis_opts){ .aof = REDIS_AOF_ALWAYS });
    return careful ? start_proxy(state) : -1;
}

static int stop(void **state)
{
    redis_stop(careful);
    return stop_proxy(state);
}

static book *open_on(redis_server *s, const leat_topic_opts *opts)
{
    assert_true(redis_flush(s));
    assert_true(tcpfault_target(proxy, redis_socket(s)));
    return book_open(url, PARTITIONS, opts);
}

/* The proxy lets nobody through until it is opened again. */
static void shut(void)
{
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    tcpfault_drop(proxy, 0, true);
}

static void open_again(void)
{
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
}

static void crash(redis_server *s)
{
    redis_kill(s);
    assert_true(redis_restart(s));
}

/* ---- what is told ----------------------------------------------------- */

static void a_crash_that_loses_all_is_told_without_another_message(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    book_publish(b, 900);
    crash(server);
    wait_until(atomic_load(&b->told_lost) == 900, SOON_MS);
    assert_int_equal(book_audit(b, server), 900);
    assert_int_equal(b->lost, PARTITIONS);
    for (int i = 0; i < b->lost; i++)
        assert_true(b->losses[i].exact && b->losses[i].republished == 0);
    book_free(b);
}

static void a_loss_is_told_once(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    book_publish(b, 300);
    crash(server);
    book_settle(b);
    for (int i = 0; i < 3; i++) {
        tcpfault_drop(proxy, 0, true);
        book_settle(b);
    }
    assert_int_equal(book_audit(b, server), 300);
    book_free(b);
}

static void every_crash_under_load_is_told(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 3; i++) {
        book_wait_acked(b, 500);
        crash(server);
    }
    book_wait_acked(b, 100);
    book_load_stop(&load);
    int missing = book_audit(b, server);
    assert_true(missing >= 1500);
    print_message("# %d lost in 3 crashes, all told\n", missing);
    book_free(b);
}

static void what_was_forgotten_makes_it_at_least(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .remember = 64 });
    book_publish(b, 900);
    crash(server);
    book_settle(b);
    assert_in_range(b->told_lost, 3 * 64, 3 * 64 + 3);
    for (int i = 0; i < b->lost; i++)
        assert_false(b->losses[i].exact);
    assert_int_equal(book_audit(b, server), 900);
    book_free(b);
}

static void nothing_is_told_where_nothing_is_remembered(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .remember = -1 });
    book_publish(b, 30);
    crash(server);
    book_settle(b);
    assert_int_equal(b->lost, 0);
    book_free(b);
}

/* The log goes on with others' entries, and one has the id of the newest. */
static void strangers_with_the_same_ids_hide_nothing(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    book_publish(b, 90);
    shut();
    crash(server);
    for (int i = 60; i < 90; i++)
        redis_do(server, "XADD %s %llu-%llu i stranger",
                 book_key(b->m[i].partition), (unsigned long long)b->m[i].at.ms,
                 (unsigned long long)b->m[i].at.seq);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        redis_do(server, "XADD %s * i stranger", book_key(p));
    open_again();
    book_settle(b);
    assert_int_equal(b->told_lost, 90);
    assert_int_equal(book_audit(b, server), 90);
    book_free(b);
}

static void copy_of(redis_server *from, redis_server *to)
{
    redis_do(to, "REPLICAOF 127.0.0.1 %d", redis_port(from));
}

static bool linked(redis_server *s)
{
    char info[4096];
    redis_text(s, info, sizeof info, "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

/* What the old master had and the new one had not. */
static void a_replica_that_lacked_the_end_is_told_to_the_message(void **state)
{
    (void)state;
    redis_server *a = redis_start(&(redis_opts){ .tcp = true });
    redis_server *z = redis_start(&(redis_opts){ .tcp = true });
    assert_true(a && z);
    copy_of(a, z);
    wait_until(linked(z), SOON_MS);
    book *b = open_on(a, NULL);
    book_publish(b, 300);
    wait_until(redis_int(z, "XLEN %s", book_key(0)) == 100 &&
                   redis_int(z, "XLEN %s", book_key(1)) == 100 &&
                   redis_int(z, "XLEN %s", book_key(2)) == 100,
               SOON_MS);
    redis_do(z, "REPLICAOF NO ONE");
    book_publish(b, 150);
    shut();
    redis_kill(a);
    /* Another producer is faster, in one of them. */
    redis_do(z, "XADD %s * i stranger", book_key(1));
    assert_true(tcpfault_target(proxy, redis_socket(z)));
    open_again();
    book_settle(b);
    assert_int_equal(book_audit(b, z), 150);
    assert_int_equal(b->told_lost, 150);
    assert_int_equal(b->lost, PARTITIONS);
    for (int i = 0; i < b->lost; i++)
        assert_true(b->losses[i].exact && b->losses[i].count == 50);
    book_free(b);
    redis_stop(a);
    redis_stop(z);
}

/* ---- without a new connection ----------------------------------------- */

static void told_after(book *b, int least)
{
    struct book_load load;
    book_load_start(&load, b);
    wait_until(atomic_load(&b->told_lost) >= least, SOON_MS);
    book_load_stop(&load);
}

static void a_flush_under_load_is_told(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    struct book_load load;
    book_load_start(&load, b);
    book_wait_acked(b, 500);
    assert_true(redis_flush(server));
    wait_until(atomic_load(&b->told_lost) >= 500, SOON_MS);
    book_load_stop(&load);
    int missing = book_audit(b, server);
    print_message("# FLUSHALL under load: %d lost, all told\n", missing);
    book_free(b);
}

static void a_deleted_partition_is_told(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    book_publish(b, 90);
    redis_do(server, "DEL %s", book_key(1));
    told_after(b, 30);
    assert_true(book_audit(b, server) >= 30);
    for (int i = 0; i < b->lost; i++)
        assert_int_equal(b->losses[i].partition, 1);
    book_free(b);
}

/* Nobody publishes, no connection breaks. */
static void an_idle_producer_finds_it(void **state)
{
    (void)state;
    book *b = open_on(server, NULL);
    book_publish(b, 30);
    redis_do(server, "DEL %s", book_key(0));
    wait_until(atomic_load(&b->told_lost) == 10, SOON_MS);
    assert_int_equal(book_audit(b, server), 10);
    book_free(b);
}

/* ---- what is not ------------------------------------------------------ */

static void broken_connections_lose_nothing(void **state)
{
    (void)state;
    book *b = open_on(careful, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 8; i++) {
        book_wait_acked(b, 50);
        tcpfault_drop(proxy, 0, i % 2);
    }
    book_wait_acked(b, 50);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, careful), 0);
    book_free(b);
}

static void a_server_that_keeps_everything_loses_nothing(void **state)
{
    (void)state;
    book *b = open_on(careful, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 3; i++) {
        book_wait_acked(b, 100);
        crash(careful);
        book_wait_acked(b, 50);
        redis_pause(careful);
        wait_nap(20);
        redis_resume(careful);
    }
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, careful), 0);
    book_free(b);
}

static void remove_and_reconnect(book *b, redis_server *s)
{
    book_removed(b, s);
    tcpfault_drop(proxy, 0, true);
    book_settle(b);
    crash(s);
    book_settle(b);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, s), 0);
}

static void what_was_trimmed_is_not_lost(void **state)
{
    (void)state;
    book *b = open_on(careful, NULL);
    book_publish(b, 300);
    redis_do(careful, "XTRIM %s MAXLEN 0", book_key(0));
    redis_do(careful, "XTRIM %s MAXLEN 7", book_key(1));
    redis_do(careful, "XADD %s MAXLEN = 2 * i stranger", book_key(2));
    redis_do(careful, "XADD %s MAXLEN = 1 * i stranger", book_key(2));
    remove_and_reconnect(b, careful);
    book_free(b);
}

static void what_was_deleted_singly_is_not_lost(void **state)
{
    (void)state;
    book *b = open_on(careful, NULL);
    book_publish(b, 90);
    for (int i = 60; i < 90; i++)
        redis_do(careful, "XDEL %s %llu-%llu", book_key(b->m[i].partition),
                 (unsigned long long)b->m[i].at.ms,
                 (unsigned long long)b->m[i].at.seq);
    remove_and_reconnect(b, careful);
    book_free(b);
}

/* Trimming all the time, so that what is looked for is always gone. */
static void a_log_that_is_kept_short_raises_no_alarm(void **state)
{
    (void)state;
    book *b = open_on(careful, NULL);
    struct book_load load;
    int64_t end = wait_now_ms() + 2500;
    book_load_start(&load, b);
    while (wait_now_ms() < end)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            redis_do(careful, "XADD %s MAXLEN = 3 * i stranger", book_key(p));
            wait_nap(1);
        }
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    book_free(b);
}

static void a_producer_that_may_not_look_still_publishes(void **state)
{
    static const char *const users[] = {
        "writer on nopass ~* +@connection +@write +@fast +info +xadd "
        "-eval -evalsha",
        NULL
    };
    char to[128];
    (void)state;
    redis_server *s = redis_start(&(redis_opts){ .users = users, .tcp = true });
    assert_non_null(s);
    redis_do(s, "HSET leat:topic:t partitions 3 partitioner murmur2");
    book *first = book_open(redis_url(s, to, sizeof to), PARTITIONS, NULL);
    book_free(first);
    snprintf(to, sizeof to, "redis://writer:x@127.0.0.1:%d", redis_port(s));
    book *b = book_open(to, PARTITIONS, NULL);
    book_publish(b, 30);
    redis_do(s, "CLIENT KILL TYPE normal SKIPME yes");
    book_publish(b, 30);
    assert_int_equal(b->lost, 0);
    assert_true(b->acked + b->unknown == 60);
    book_free(b);
    redis_stop(s);
}

/* ---- republishing ----------------------------------------------------- */

static void what_is_held_is_published_again_in_order(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .republish_bytes = 1 << 20 });
    book_publish(b, 900);
    char before[1024], id[64];
    redisReply *r = redis_raw(server, "XRANGE %s - + COUNT 1", book_key(0));
    snprintf(before, sizeof before, "%s",
             r->element[0]->element[1]->element[1]->str);
    freeReplyObject(r);
    crash(server);
    wait_until(atomic_load(&b->told_lost) == 900, SOON_MS);
    book_publish(b, 3);
    assert_int_equal(b->told_lost, 900);
    assert_int_equal(b->republished, 900);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        int last = -1;
        r = redis_raw(server, "XRANGE %s - +", book_key(p));
        assert_int_equal(r->elements, 301);
        for (size_t k = 0; k < r->elements; k++) {
            assert_true(book_body(r->element[k]) > last);
            last = book_body(r->element[k]);
        }
        freeReplyObject(r);
    }
    r = redis_raw(server, "XRANGE %s - + COUNT 1", book_key(0));
    snprintf(id, sizeof id, "%s", r->element[0]->element[1]->element[1]->str);
    assert_string_equal(id, before); /* the message's own id */
    freeReplyObject(r);
    book_free(b);
}

static void crashes_under_load_end_with_everything_there(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .republish_bytes = 8 << 20 });
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 4; i++) {
        book_wait_acked(b, 300);
        if (i < 3)
            crash(server);
    }
    int told = atomic_load(&b->told_lost);
    assert_true(redis_flush(server));
    wait_until(atomic_load(&b->told_lost) > told, SOON_MS);
    book_load_stop(&load);
    book_complete(b, server);
    print_message("# %d lost, %llu published again, nothing missing\n",
                  (int)b->told_lost, (unsigned long long)b->republished);
    assert_int_equal((uint64_t)b->told_lost, b->republished);
    book_free(b);
}

/* The connection breaks in the middle of it, again and again. */
static void republishing_that_is_cut_goes_on(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .republish_bytes = 8 << 20 });
    book_publish(b, 900);
    shut();
    crash(server);
    for (int i = 0; i < 5; i++)
        tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                                   .when = TCPFAULT_COMMAND,
                                                   .command = "XADD",
                                                   .n = 40u + 30u * (unsigned)i,
                                                   .action = TCPFAULT_RESET,
                                                   .times = 1 });
    open_again();
    book_publish(b, 3);
    assert_true(tcpfault_count(proxy).fired > 0);
    tcpfault_clear(proxy);
    book_complete(b, server);
    assert_int_equal(b->told_lost, 900);
    assert_int_equal(b->republished, 900);
    book_free(b);
}

static void what_no_longer_fits_is_told_as_gone(void **state)
{
    (void)state;
    book *b = open_on(server, &(leat_topic_opts){ .republish_bytes = 4000 });
    book_publish(b, 300);
    crash(server);
    book_settle(b);
    assert_int_equal(b->told_lost, 300);
    assert_true(b->republished > 3 && b->republished < 100);
    book_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_crash_that_loses_all_is_told_without_another_message),
        cmocka_unit_test(a_loss_is_told_once),
        cmocka_unit_test(every_crash_under_load_is_told),
        cmocka_unit_test(what_was_forgotten_makes_it_at_least),
        cmocka_unit_test(nothing_is_told_where_nothing_is_remembered),
        cmocka_unit_test(strangers_with_the_same_ids_hide_nothing),
        cmocka_unit_test(a_replica_that_lacked_the_end_is_told_to_the_message),
        cmocka_unit_test(a_flush_under_load_is_told),
        cmocka_unit_test(a_deleted_partition_is_told),
        cmocka_unit_test(an_idle_producer_finds_it),
        cmocka_unit_test(broken_connections_lose_nothing),
        cmocka_unit_test(a_server_that_keeps_everything_loses_nothing),
        cmocka_unit_test(what_was_trimmed_is_not_lost),
        cmocka_unit_test(what_was_deleted_singly_is_not_lost),
        cmocka_unit_test(a_log_that_is_kept_short_raises_no_alarm),
        cmocka_unit_test(a_producer_that_may_not_look_still_publishes),
        cmocka_unit_test(what_is_held_is_published_again_in_order),
        cmocka_unit_test(crashes_under_load_end_with_everything_there),
        cmocka_unit_test(republishing_that_is_cut_goes_on),
        cmocka_unit_test(what_no_longer_fits_is_told_as_gone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
