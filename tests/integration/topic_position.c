/*
 * topic_position.c: a position is an id and whose log it was.
 *
 * Two servers, one the replica of the other until the test parts them, and a
 * proxy that leads to one or the other.  Entries get their ids from the test,
 * so that every history can be written down.
 */
#include "redis/script.h"
#include "support/clock.h"
#include "support/tcpfault.h"
#include "topic_help.h"

#include <stdatomic.h>

#define LOG    "leat:{orders/0}:log"
#define CURSOR "leat:{orders/0}:cur:g"
#define LEASE  "leat:{orders/0}:lease:g"

enum { SOON_MS = 60000 };

/* ---- two servers ------------------------------------------------------ */

struct told {
    atomic_int lost, trimmed;
    leat_loss last;
};

static void on_loss(void *arg, const leat_loss *loss)
{
    struct told *t = arg;
    t->last = *loss;
    atomic_fetch_add(loss->trimmed ? &t->trimmed : &t->lost, 1);
}

struct pair {
    wall_clock clock; /* of a */
    redis_server *a, *z;
    tcpfault *proxy;
    leat_client *client;
    leat_topic *topic;
    leat_source *source;
    struct told told;
};

static bool linked(redis_server *s)
{
    char info[4096];
    redis_text(s, info, sizeof info, "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

static void open_source(struct pair *p)
{
    p->source = source_of(p->topic, "g",
                          &(leat_topic_source_opts){ .on_loss = on_loss,
                                                     .loss_arg = &p->told,
                                                     .lease_ms = 15000,
                                                     .block_ms = 10000 });
}

/* A topic of a's, by way of the proxy. */
static void open_proxy(struct pair *p)
{
    char through[64];
    leat_error e = { 0 };
    p->proxy = tcpfault_start(redis_socket(p->a), NULL);
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(p->proxy));
    p->client = leat_client_open(through,
                                 &(leat_client_opts){ .max_retry_ms = 50 }, &e);
    assert_non_null(p->client);
    p->topic = topic_of(p->client, "orders", 1);
}

/* a is the master, with a topic; z follows it. */
static void open_pair(struct pair *p)
{
    *p = (struct pair){ .clock = clock_new() };
    p->a = redis_start(
        &(redis_opts){ .tcp = true, .clock_file = p->clock.path });
    p->z = redis_start(&(redis_opts){ .tcp = true });
    assert_true(p->a && p->z);
    redis_do(p->z, "REPLICAOF 127.0.0.1 %d", redis_port(p->a));
    wait_until(linked(p->z), SOON_MS);
    open_proxy(p);
}

static void close_proxy(struct pair *p)
{
    leat_source_close(p->source);
    leat_topic_close(p->topic);
    leat_client_close(p->client);
    tcpfault_stop(p->proxy);
}

static void close_pair(struct pair *p)
{
    close_proxy(p);
    redis_stop(p->a);
    redis_stop(p->z);
    clock_free(&p->clock);
}

static bool same_there(struct pair *p, const char *key, const char *field)
{
    char a[200], z[200];
    redis_text(p->a, a, sizeof a, "HGET %s %s", key, field);
    redis_text(p->z, z, sizeof z, "HGET %s %s", key, field);
    return strcmp(a, z) == 0;
}

/* z has all that a has, and no more of what comes. */
static void part_them(struct pair *p)
{
    wait_until(redis_int(p->a, "XLEN " LOG) == redis_int(p->z, "XLEN " LOG) &&
                   same_there(p, CURSOR, "c") && same_there(p, CURSOR, "q"),
               SOON_MS);
    redis_do(p->z, "REPLICAOF NO ONE");
}

/* From now on there is z, and nobody reaches it yet. */
static void close_the_door(struct pair *p)
{
    tcpfault_set_door(p->proxy, TCPFAULT_REFUSE);
    assert_true(tcpfault_target(p->proxy, redis_socket(p->z)));
    tcpfault_drop(p->proxy, 0, true);
}

static void put(redis_server *s, const char *id, const char *body)
{
    leat_error e = { 0 };
    leat_fields *f = leat_fields_new(&e);
    leat_msg m = { .id = leat_str(body), .time_ms = 1, .body = leat_str(body) };
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    const leat_bytes *b = leat_fields_pairs(f);
    assert_int_equal(leat_fields_count(f), 2);
    redis_do(s, "XADD " LOG " %s %b %b %b %b", id, b[0].p, b[0].n, b[1].p,
             b[1].n, b[2].p, b[2].n, b[3].p, b[3].n);
    leat_fields_free(f);
}

/* Receive and acknowledge until it has come; that it does not is told by the
 * test program that is red. */
static void read_up_to(leat_source *s, const char *last)
{
    int64_t end = wait_now_ms() + SOON_MS;
    for (bool found = false; !found;) {
        leat_delivery *d = NULL;
        if (wait_now_ms() > end)
            fail_msg("'%s' did not come", last);
        if (leat_source_receive(s, &d, 1, 500, NULL) <= 0)
            continue;
        leat_bytes b = leat_delivery_msg(d)->body;
        if (leat_bytes_eq(b, leat_str("never")))
            fail_msg("what is in no log was handed out");
        found = leat_bytes_eq(b, leat_str(last));
        ack(d);
    }
    (void)leat_source_flush(s, 1000, NULL);
}

/* ---- another history -------------------------------------------------- */

/* All but the read that waits. */
static void kill_the_others(redis_server *s)
{
    redisReply *r = redis_raw(s, "CLIENT LIST TYPE normal");
    char *rest = NULL;
    for (char *line = strtok_r(r->str, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        if (!strstr(line, " flags=b") && !strstr(line, "cmd=client"))
            redis_do(s, "CLIENT KILL ID %lld", atoll(line + strlen("id=")));
    freeReplyObject(r);
}

static bool reads(redis_server *s)
{
    char list[8192];
    redis_text(s, list, sizeof list, "CLIENT LIST TYPE normal");
    return strstr(list, " flags=b") != NULL;
}

/* Somebody beats there. */
static bool commands_come(redis_server *s)
{
    char list[8192];
    redis_text(s, list, sizeof list, "CLIENT LIST TYPE normal");
    return strstr(list, "cmd=eval") != NULL || reads(s);
}

/* The commands go to the new master and a read still waits at the old one,
 * which wakes up and answers it with an entry of its own. */
static void a_read_that_waited_at_the_old_master_counts_no_more(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    read_up_to(p.source, "one");
    wait_until(reads(p.a), SOON_MS);
    part_them(&p);
    assert_true(tcpfault_target(p.proxy, redis_socket(p.z)));
    kill_the_others(p.a);
    wait_until((nothing_of(p.source, 1), commands_come(p.z)), SOON_MS);
    put(p.a, "1020000-0", "never");
    put(p.z, "1010000-0", "two");
    read_up_to(p.source, "two");
    put(p.z, "1030000-0", "three");
    read_up_to(p.source, "three");
    assert_int_equal(p.told.trimmed, 0);
    close_pair(&p);
}

/* The end is lost, the new master's clock is 4 s behind, and by the time we
 * come it has passed our position. */
static void entries_that_a_slower_clock_put_before_us_are_read(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    read_up_to(p.source, "one");
    part_them(&p);
    put(p.a, "1010000-0", "two");
    read_up_to(p.source, "two");
    close_the_door(&p);
    put(p.z, "1006000-0", "three");
    put(p.z, "1006001-0", "four");
    put(p.z, "1012000-0", "five");
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    read_up_to(p.source, "three");
    read_up_to(p.source, "four");
    read_up_to(p.source, "five");
    assert_int_equal(p.told.lost, 1);
    assert_int_equal(p.told.last.from.ms, 1000000);
    assert_int_equal(p.told.last.to.ms, 1010000);
    assert_int_equal(p.told.trimmed, 0);
    close_pair(&p);
}

/* Another entry has even the same id. */
static void another_entry_with_our_id_is_read(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    read_up_to(p.source, "one");
    part_them(&p);
    put(p.a, "1010000-0", "two");
    read_up_to(p.source, "two");
    close_the_door(&p);
    put(p.z, "1010000-0", "other");
    put(p.z, "1012000-0", "three");
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    read_up_to(p.source, "other");
    read_up_to(p.source, "three");
    assert_int_equal(p.told.lost, 1);
    close_pair(&p);
}

/* Nothing was settled at the new master before it is known to be the same log:
 * what was acknowledged there and not here comes again. */
static void an_acknowledgement_of_another_history_moves_nothing(void **state)
{
    struct pair p;
    char cursor[64];
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    read_up_to(p.source, "one");
    part_them(&p);
    put(p.a, "1010000-0", "two");
    leat_delivery *d = next_of(p.source);
    close_the_door(&p);
    put(p.z, "1006000-0", "three");
    put(p.z, "1012000-0", "four");
    ack(d);
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    d = next_of(p.source);
    assert_body(d, "three");
    redis_text(p.z, cursor, sizeof cursor, "HGET " CURSOR " c");
    assert_string_equal(cursor, "1000000-0");
    ack(d);
    read_up_to(p.source, "four");
    close_pair(&p);
}

/* ---- the same history ------------------------------------------------- */

static uint64_t epoch_at(redis_server *s)
{
    char text[64];
    redis_text(s, text, sizeof text, "HGET " LEASE " e");
    return strtoull(text, NULL, 10);
}

/* A new connection to a log that is the same changes nothing: what is out stays
 * ours, also where the entry at our position was trimmed meanwhile. */
static void the_same_log_is_gone_on_with(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    put(p.a, "1000001-0", "two");
    leat_delivery *one = next_of(p.source), *two = next_of(p.source);
    wait_until(same_there(&p, CURSOR, "m"), SOON_MS);
    uint64_t epoch = epoch_at(p.a);
    part_them(&p);
    close_the_door(&p);
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    ack(one);
    must(leat_source_flush(p.source, SOON_MS, err));
    assert_int_equal(epoch_at(p.z), epoch);

    redis_do(p.z, "XTRIM " LOG " MAXLEN 0");
    tcpfault_drop(p.proxy, 0, true);
    ack(two);
    must(leat_source_flush(p.source, SOON_MS, err));
    put(p.z, "1000002-0", "three");
    read_up_to(p.source, "three");
    assert_int_equal(epoch_at(p.z), epoch);
    assert_int_equal(p.told.lost, 0);
    close_pair(&p);
}

/* One that nothing was read of has nothing to compare, and is ours. */
static void a_partition_without_entries_is_gone_on_with(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    nothing_of(p.source, 1);
    wait_until(redis_int(p.z, "EXISTS " LEASE) == 1, SOON_MS);
    uint64_t epoch = epoch_at(p.a);
    part_them(&p);
    close_the_door(&p);
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    put(p.z, "1000000-0", "one");
    read_up_to(p.source, "one");
    assert_int_equal(epoch_at(p.z), epoch);
    assert_int_equal(p.told.lost, 0);
    close_pair(&p);
}

/* Nothing is there, and it never got as far as we have read: not trimmed. */
static void an_empty_log_that_never_got_so_far_is_another(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    nothing_of(p.source, 1);
    wait_until(redis_int(p.z, "EXISTS " LEASE) == 1, SOON_MS);
    part_them(&p);
    put(p.a, "1000000-0", "one");
    leat_delivery *one = next_of(p.source);
    put(p.z, "900000-0", "never");
    redis_do(p.z, "XTRIM " LOG " MAXLEN 0");
    close_the_door(&p);
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    put(p.z, "900001-0", "two");
    read_up_to(p.source, "two");
    assert_true(p.told.lost > 0);
    ack(one);
    close_pair(&p);
}

/* An entry at our position that somebody deleted is no loss. */
static void a_deleted_entry_is_no_loss(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    open_source(&p);
    put(p.a, "1000000-0", "one");
    put(p.a, "1000001-0", "two");
    read_up_to(p.source, "two");
    redis_do(p.a, "XDEL " LOG " 1000001-0");
    tcpfault_drop(p.proxy, 0, true);
    put(p.a, "1000002-0", "three");
    read_up_to(p.source, "three");
    assert_int_equal(p.told.lost, 0);
    close_pair(&p);
}

/* ---- fences ----------------------------------------------------------- */

/* The new master knows nothing of our lease, and its clock is behind. */
static void a_fence_rises_at_a_server_that_lost_the_lease(void **state)
{
    struct pair p;
    (void)state;
    open_pair(&p);
    clock_set(&p.clock, 3600);
    redis_do(p.z, "REPLICAOF NO ONE");
    open_source(&p);
    put(p.a, "1000000-0", "one");
    leat_delivery *d = next_of(p.source);
    uint64_t before = leat_delivery_fence(d);
    close_the_door(&p);
    put(p.z, "1000000-0", "one");
    tcpfault_set_door(p.proxy, TCPFAULT_OPEN);
    leat_delivery *again = next_of(p.source);
    assert_true(leat_delivery_fence(again) > before);
    ack(d);
    ack(again);
    close_pair(&p);
}

/* The machine sleeps; others count that time, and nothing is handed out before
 * a heartbeat is answered. */
static _Atomic int64_t slept_ns;

static int64_t boottime(void *arg)
{
    return leat_system_default()->monotonic_ns(arg) + atomic_load(&slept_ns);
}

static void after_a_sleep_nothing_is_handed_out_unasked(void **state)
{
    struct pair p;
    leat_delivery *d = NULL;
    (void)state;
    static leat_system sys; /* a failed test leaves it in use */
    sys = *leat_system_default();
    sys.boottime_ns = boottime;
    atomic_store(&slept_ns, 0);
    leat_system_set(&sys);
    open_pair(&p);
    put(p.a, "1000000-0", "one");
    put(p.a, "1000001-0", "two");
    open_source(&p);
    ack(next_of(p.source));
    must(leat_source_flush(p.source, SOON_MS, err));
    assert_true(tcpfault_rule_add(
                    p.proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_FRAME,
                                               .action = TCPFAULT_HOLD }) > 0);
    atomic_store(&slept_ns, INT64_C(20000000000));
    assert_int_equal(leat_source_receive(p.source, &d, 1, 200, NULL), 0);
    tcpfault_clear(p.proxy);
    tcpfault_release(p.proxy);
    d = next_of(p.source);
    assert_body(d, "two");
    ack(d);
    close_pair(&p);
    leat_system_set(NULL);
}

/* ---- gaps ------------------------------------------------------------- */

/* A count that is wrong is no gap while all entries are there. */
static void what_is_there_is_not_told_as_taken_away(void **state)
{
    struct told told = { 0 };
    leat_topic_source_opts o = { .on_loss = on_loss,
                                 .loss_arg = &told,
                                 .lease_ms = 600 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 5);
    leat_source *s = source_of(t, "g", &o);
    for (int i = 0; i < 3; i++)
        ack(next_of(s));
    must(leat_source_flush(s, SOON_MS, err));
    leat_source_close(s);
    redis_do(server, "HSET " CURSOR " n 1");
    s = source_of(t, "g", &o);
    for (int i = 0; i < 2; i++)
        ack(next_of(s));
    must(leat_source_flush(s, SOON_MS, err));

    /* A beat sets the count right; saves then say so. */
    for (int i = 0; i < 600 && redis_int(server, "HGET " CURSOR " n") !=
                                   redis_int(server, "XLEN " LOG);
         i++) {
        add("orders", 0, "more");
        ack(next_of(s));
        must(leat_source_flush(s, SOON_MS, err));
        nothing_of(s, 50);
    }
    assert_int_equal(redis_int(server, "HGET " CURSOR " n"),
                     redis_int(server, "XLEN " LOG));
    assert_int_equal(told.trimmed, 0);

    /* And what is gone is told. */
    leat_source_close(s);
    redis_do(server, "XADD " LOG " 99999999999998-0 a b");
    redis_do(server, "XADD " LOG " 99999999999999-0 a b");
    redis_do(server, "XTRIM " LOG " MAXLEN 1");
    s = source_of(t, "g", &o);
    wait_until(atomic_load(&told.trimmed) == 1, SOON_MS);
    assert_int_equal(told.last.count, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Looks at the log so far. */
static int64_t looks(redis_server *s)
{
    char info[16384];
    redis_text(s, info, sizeof info, "INFO commandstats");
    const char *at = strstr(info, "cmdstat_xinfo|stream:calls=");
    return at ? strtoll(strchr(at, '=') + 1, NULL, 10) : 0;
}

static void let_look(struct pair *p)
{
    int64_t before = looks(p->a);
    wait_until((nothing_of(p->source, 1), looks(p->a)) >= before + 3, SOON_MS);
}

/* The connection on which the rule fired last. */
static int fired_on(tcpfault *f, int rule)
{
    enum { MOST = 512 };
    tcpfault_event e[MOST];
    int conn = 0;
    size_t n = tcpfault_events(f, 0, e, MOST);
    for (size_t i = 0; i < n; i++)
        if (e[i].rule == rule)
            conn = e[i].conn;
    return conn;
}

/* The answer of the read that waits is under way when its entries are taken
 * from the log: they will be here, and are not gone. */
static void what_a_read_under_way_brings_is_not_told_as_gone(void **state)
{
    struct pair p = { .a = server };
    (void)state;
    open_proxy(&p);
    int reading = tcpfault_rule_add(
        p.proxy, &(tcpfault_rule){ .when = TCPFAULT_COMMAND,
                                   .command = "XREAD",
                                   .action = TCPFAULT_DELAY });
    p.source = source_of(p.topic, "g",
                         &(leat_topic_source_opts){ .on_loss = on_loss,
                                                    .loss_arg = &p.told,
                                                    .lease_ms = 600,
                                                    .block_ms = 30000 });
    put(p.a, "1000000-0", "one");
    read_up_to(p.source, "one");
    wait_until((nothing_of(p.source, 1), reads(p.a)), SOON_MS);
    int held = tcpfault_rule_add(
        p.proxy, &(tcpfault_rule){ .conn = fired_on(p.proxy, reading),
                                   .dir = TCPFAULT_DOWN,
                                   .when = TCPFAULT_FRAME,
                                   .action = TCPFAULT_HOLD,
                                   .times = 1 });
    put(p.a, "1010000-0", "two");
    wait_until(tcpfault_fired(p.proxy, held) == 1, SOON_MS);
    redis_do(p.a, "XTRIM " LOG " MAXLEN 0");
    let_look(&p);
    assert_int_equal(p.told.trimmed, 0);
    tcpfault_release(p.proxy);
    read_up_to(p.source, "two");
    let_look(&p);
    assert_int_equal(p.told.trimmed, 0);
    close_proxy(&p);
}

/* ---- steps ------------------------------------------------------------ */

/* So many fail at once that one save cannot carry all.  Those whose step it
 * does not carry are not settled by it: if we die then, somebody has to find
 * them. */
static void nothing_is_settled_before_a_save_carries_its_step(bool dead)
{
    enum { N = 150, CARRIED = 100 };
    struct pair p;
    leat_delivery *d[N];
    char id[32], cursor[64], hundredth[32];
    const char *count = dead ? "XLEN leat:{orders/0}:dlq"
                             : "ZCARD leat:{orders/0}:due:g";
    open_pair(&p);
    for (int i = 1; i <= N; i++) {
        snprintf(id, sizeof id, "%d-0", i);
        put(p.a, id, "x");
    }
    p.source = source_of(p.topic, "g",
                         &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE,
                                                    .batch = N,
                                                    .lease_ms = 60000 });
    take_n(p.source, d, N);
    snprintf(id, sizeof id, "%d-0", N);
    wait_until(redis_text(p.a, cursor, sizeof cursor, "HGET " CURSOR " m") &&
                   strcmp(cursor, id) == 0,
               SOON_MS);
    must(leat_source_flush(p.source, SOON_MS, err));
    assert_true(tcpfault_rule_add(
                    p.proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                               .when = TCPFAULT_FRAME,
                                               .action = TCPFAULT_HOLD }) > 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(dead ? leat_delivery_reject(d[i], "bad")
                              : leat_delivery_nack(d[i], 3600 * 1000),
                         LEAT_OK);
    wait_until(redis_int(p.a, count) == CARRIED, SOON_MS);
    snprintf(hundredth, sizeof hundredth, "%d-0", CARRIED);
    redis_text(p.a, cursor, sizeof cursor, "HGET " CURSOR " c");
    assert_string_equal(cursor, hundredth);
    redis_text(p.a, cursor, sizeof cursor, "HGET " CURSOR " s");
    assert_string_equal(cursor, "");
    tcpfault_clear(p.proxy);
    tcpfault_release(p.proxy);
    wait_until(redis_int(p.a, count) == N, SOON_MS);
    close_pair(&p);
}

static void a_failed_one_is_settled_with_its_step(void **state)
{
    (void)state;
    nothing_is_settled_before_a_save_carries_its_step(false);
}

static void a_dead_one_is_settled_with_its_step(void **state)
{
    (void)state;
    nothing_is_settled_before_a_save_carries_its_step(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_read_that_waited_at_the_old_master_counts_no_more),
        topic_test(entries_that_a_slower_clock_put_before_us_are_read),
        topic_test(another_entry_with_our_id_is_read),
        topic_test(an_acknowledgement_of_another_history_moves_nothing),
        topic_test(the_same_log_is_gone_on_with),
        topic_test(a_partition_without_entries_is_gone_on_with),
        topic_test(an_empty_log_that_never_got_so_far_is_another),
        topic_test(a_deleted_entry_is_no_loss),
        topic_test(a_fence_rises_at_a_server_that_lost_the_lease),
        topic_test(after_a_sleep_nothing_is_handed_out_unasked),
        topic_test(what_is_there_is_not_told_as_taken_away),
        topic_test(what_a_read_under_way_brings_is_not_told_as_gone),
        topic_test(a_failed_one_is_settled_with_its_step),
        topic_test(a_dead_one_is_settled_with_its_step),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
