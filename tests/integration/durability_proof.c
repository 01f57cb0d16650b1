/* durability_proof.c: what counts only when replicas or the disk have it. */
#include "support/badredis.h"
#include "topic_help.h"
#include "topic_told.h"

static redis_server *replica;

/* A lag that no slow machine reaches: whether the replica is counted by the
 * server itself is not what is tested here. */
static int start_pair(void **state)
{
    static const char *const config[] = { "repl-diskless-sync-delay 0",
                                          "min-replicas-to-write 1",
                                          "min-replicas-max-lag 3600",
                                          "repl-timeout 3600", NULL };
    (void)state;
    server = redis_start(&(redis_opts){
        .tcp = true, .aof = REDIS_AOF_ALWAYS, .config = config });
    replica = redis_start(NULL);
    if (!server || !replica)
        return -1;
    redis_url_unix(server, url, sizeof url);
    redis_do(replica, "REPLICAOF 127.0.0.1 %d", redis_port(server));
    wait_until(redis_int(server, "WAIT 1 100") == 1, LONG_MS);
    return 0;
}

static int stop_pair(void **state)
{
    (void)state;
    redis_stop(replica);
    redis_stop(server);
    return 0;
}

/* Two clients: what must be proven gets all the time of the world from
 * `client`, what cannot be is given up soon by `hasty`. */
static leat_client *hasty;

static int begin(void **state)
{
    leat_client_opts o = { .durability = LEAT_REPLICATED,
                           .replicas_ms = LONG_MS };
    (void)state;
    assert_true(redis_flush(server));
    client = open_client(url, &o);
    o.replicas_ms = 200;
    hasty = open_client(url, &o);
    return 0;
}

static int finish(void **state)
{
    redis_resume(replica);
    wait_until(redis_int(server, "WAIT 1 100") == 1, LONG_MS);
    leat_client_close(hasty);
    return close_one(state);
}

/* ---- queues ----------------------------------------------------------- */

static leat_code send_to(leat_queue *q)
{
    return leat_queue_send(q, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                           NULL);
}

/* A server that has forgotten the script is asked for the proof first. */
static void a_script_that_was_forgotten_is_proven_for_itself(void **state)
{
    const leat_queue_opts o = { .no_reaper = true, .no_events = true };
    leat_error e = { 0 };
    (void)state;
    leat_client *soon = open_client(
        url, &(leat_client_opts){ .durability = LEAT_REPLICATED,
                                  .replicas_ms = 200,
                                  .timeout_ms = 500 });
    leat_queue *patient = leat_queue_open(client, "q", &o, &e);
    leat_queue *q = leat_queue_open(soon, "q", &o, &e);
    assert_true(patient && q);
    assert_code(send_to(patient), LEAT_OK);
    wait_until(replica_has_all(server), LONG_MS);
    redis_pause(replica);
    redis_do(server, "SCRIPT FLUSH");
    assert_code(send_to(q), LEAT_EUNKNOWN);
    redis_resume(replica);
    redis_do(server, "SCRIPT FLUSH");
    assert_code(send_to(patient), LEAT_OK);
    leat_queue_close(q);
    leat_queue_close(patient);
    leat_client_close(soon);
}

/* ---- publishing ------------------------------------------------------- */

static void publish(told *l, leat_topic *t, int from, int until)
{
    for (int i = from; i < until; i++)
        must(told_publish(l, t, i, NULL, err));
    (void)leat_topic_flush(t, LONG_MS, NULL);
}

static void a_topic_waits_for_the_replica_of_its_client(void **state)
{
    told *l = told_new(300);
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    publish(l, t, 0, 300);
    assert_int_equal(l->ok, 300);
    assert_int_equal(redis_int(replica, "XLEN leat:{t/0}:log"), 300);
    leat_topic_close(t);
    told_audit(l, server, 1);
    told_free(l);
}

static void without_the_replica_a_publish_is_unknown(void **state)
{
    told *l = told_new(60);
    (void)state;
    leat_topic *patient = topic_of(client, "t", 1);
    leat_topic *t = topic_of(hasty, "t", 1);
    publish(l, patient, 0, 20);
    assert_int_equal(l->ok, 20);
    redis_pause(replica);
    publish(l, t, 20, 40);
    assert_int_equal(l->unknown, 20);
    assert_non_null(strstr(l->last, "0 of 1 replicas"));
    redis_resume(replica);
    publish(l, patient, 40, 60);
    assert_int_equal(l->ok, 40);
    leat_topic_close(t);
    leat_topic_close(patient);
    told_audit(l, server, 1);
    told_free(l);
}

static void a_topic_may_ask_for_more_replicas_but_not_for_fewer(void **state)
{
    told *l = told_new(5);
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = leat_topic_open(
        hasty, "t", &(leat_topic_opts){ .auto_create = true, .replicas = 2 },
        &e);
    publish(l, t, 0, 5);
    assert_int_equal(l->unknown, 5);
    assert_non_null(strstr(l->last, "of 2 replicas after 1000 ms"));
    leat_topic_close(t);
    told_free(l);
}

struct counts {
    atomic_int ok, unknown, other;
};

static void count(void *arg, const leat_position *at, const leat_error *err)
{
    struct counts *n = arg;
    if (!err)
        assert_non_null(at);
    atomic_fetch_add(!err                         ? &n->ok
                     : err->code == LEAT_EUNKNOWN ? &n->unknown
                                                  : &n->other,
                     1);
}

static leat_sink *sink_of(leat_client *c)
{
    leat_error e = { 0 };
    leat_stream *s = leat_stream_open(c, "s", NULL, &e);
    leat_sink *k = s ? leat_stream_sink(s, NULL, &e) : NULL;
    if (!k)
        fail_msg("no sink: %s", e.msg);
    leat_stream_close(s);
    return k;
}

static void put(leat_sink *k, struct counts *n, int messages)
{
    for (int i = 0; i < messages; i++)
        must(leat_sink_publish(k, &(leat_msg){ .body = leat_str("x") }, 1,
                               count, n, err));
    must(leat_sink_flush(k, LONG_MS, err));
}

static void a_stream_waits_for_the_replica_too(void **state)
{
    struct counts n = { 0 };
    (void)state;
    leat_sink *patient = sink_of(client), *k = sink_of(hasty);
    put(patient, &n, 100);
    assert_int_equal(n.ok, 100);
    assert_int_equal(redis_int(replica, "XLEN s"), 100);
    redis_pause(replica);
    put(k, &n, 10);
    assert_int_equal(n.unknown, 10);
    redis_resume(replica);
    put(patient, &n, 10);
    assert_int_equal(n.ok, 110);
    assert_int_equal(n.other, 0);
    leat_sink_close(k);
    leat_sink_close(patient);
}

/* ---- consuming -------------------------------------------------------- */

/* R25: the lease may be gone after a failover, so it is not acted upon. */
static void
a_partition_is_read_only_when_its_lease_is_on_the_replica(void **state)
{
    (void)state;
    leat_topic *t = topic_of(hasty, "t", 1);
    add("t", 0, "x");
    wait_until(redis_int(replica, "XLEN leat:{t/0}:log") == 1, LONG_MS);
    redis_pause(replica);
    leat_source *s = source_of(t, "g", NULL);
    int64_t end = wait_now_ms() + LONG_MS;
    while (redis_int(server, "EXISTS leat:{t/0}:lease:g") != 1) {
        assert_true(wait_now_ms() < end);
        nothing_of(s, 20);
    }
    nothing_of(s, 300);
    assert_int_equal(stats_of(s).partitions, 0);
    redis_resume(replica);
    leat_delivery *d = next_of(s);
    assert_body(d, "x");
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_settlement_is_ok_only_when_it_is_on_the_replica(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d[20];
    leat_code rc = LEAT_EUNKNOWN;
    (void)state;
    leat_topic *t = topic_of(hasty, "t", 1);
    add_many("t", 0, 0, 20);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 20);
    redis_pause(replica);
    ack(d[0]);
    assert_code(leat_source_flush(s, LONG_MS, &e), LEAT_EUNKNOWN);
    assert_non_null(strstr(e.msg, "0 of 1 replicas"));
    assert_int_equal(stats_of(s).settled, 0);
    redis_resume(replica);
    for (int i = 1; i < 20 && rc == LEAT_EUNKNOWN; i++) {
        ack(d[i]);
        rc = leat_source_flush(s, LONG_MS, NULL);
    }
    assert_code(rc, LEAT_OK);
    assert_int_equal(stats_of(s).settled, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* What leaves the log leaves it on the replica, too, or nobody hears that it is
 * settled. */
static void a_dead_letter_is_ok_only_when_it_is_on_the_replica(void **state)
{
    leat_delivery *d[20];
    leat_code rc = LEAT_EUNKNOWN;
    (void)state;
    leat_topic *t = topic_of(hasty, "t", 1);
    add_many("t", 0, 0, 20);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE });
    take_n(s, d, 20);
    redis_pause(replica);
    assert_int_equal(leat_delivery_reject(d[0], "no"), LEAT_OK);
    assert_int_equal(leat_delivery_nack(d[1], 3600 * 1000), LEAT_OK);
    assert_code(leat_source_flush(s, LONG_MS, NULL), LEAT_EUNKNOWN);
    assert_int_equal(stats_of(s).settled, 0);
    redis_resume(replica);
    for (int i = 2; i < 20 && rc == LEAT_EUNKNOWN; i++) {
        ack(d[i]);
        rc = leat_source_flush(s, LONG_MS, NULL);
    }
    assert_code(rc, LEAT_OK);
    assert_int_equal(redis_int(replica, "XLEN leat:{t/0}:dlq"), 1);
    assert_int_equal(redis_int(replica, "HLEN leat:{t/0}:kept:g"), 2);
    leat_source_close(s);
    leat_topic_close(t);
}

static bool a_client_waits(void)
{
    static char text[1 << 16];
    redis_text(server, text, sizeof text, "CLIENT LIST TYPE normal");
    return strstr(text, "cmd=wait ") != NULL;
}

/* By its manual WAIT speaks of its own connection alone. */
static void a_proof_that_was_lost_is_not_taken_for_given(void **state)
{
    leat_delivery *d[2];
    (void)state;
    leat_topic *t = topic_of(client, "t", 1);
    add_many("t", 0, 0, 2);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .lease_ms = 4 * LONG_MS });
    take_n(s, d, 2);
    redis_pause(replica);
    ack(d[0]);
    wait_until(a_client_waits(), LONG_MS);
    redis_do(server, "CLIENT KILL TYPE normal");
    wait_until(a_client_waits(), LONG_MS);
    assert_int_equal(stats_of(s).settled, 0);
    redis_resume(replica);
    ack(d[1]);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, 2);
    leat_source_close(s);
    leat_topic_close(t);
}

static void many_partitions_share_their_proofs(void **state)
{
    enum { PARTITIONS = 12, EACH = 20 };
    leat_delivery *d[PARTITIONS * EACH];
    (void)state;
    leat_topic *t = topic_of(client, "t", PARTITIONS);
    for (int p = 0; p < PARTITIONS; p++)
        add_many("t", p, 0, EACH);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, PARTITIONS * EACH);
    for (int i = 0; i < PARTITIONS * EACH; i++)
        ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(stats_of(s).settled, PARTITIONS * EACH);
    leat_source_close(s);
    for (int p = 0; p < PARTITIONS; p++) {
        char key[64], here[64], there[64];
        snprintf(key, sizeof key, "leat:{t/%d}:cur:g", p);
        redis_text(server, here, sizeof here, "HGET %s c", key);
        assert_true(strlen(here) > 0);
        wait_until(
            strcmp(redis_text(replica, there, sizeof there, "HGET %s c", key),
                   here) == 0,
            LONG_MS);
    }
    leat_topic_close(t);
}

/* ---- WAITAOF, on a server of our own making --------------------------- */

#define EVERYSEC                                                               \
    {                                                                          \
        "CONFIG", "*2\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n"             \
    }
#define NILS4 "$-1\r\n$-1\r\n$-1\r\n$-1\r\n"
#define NILS3 "$-1\r\n$-1\r\n$-1\r\n"
#define SMALL_TALK                                                             \
    { "EVALSHA", "$16\r\n1763200000000000\r\n" },                              \
        { "XAUTOCLAIM", "-NOGROUP none\r\n" },                                 \
        { "HMGET", "*15\r\n" NILS4 NILS4 NILS4 NILS3 },                        \
        { "TYPE", "+stream\r\n" },                                             \
    {                                                                          \
        "XADD", "$5\r\n100-7\r\n"                                              \
    }

static const badredis_reply synced[] = {
    EVERYSEC, SMALL_TALK, { "WAITAOF", "*2\r\n:1\r\n:0\r\n" }, { NULL, NULL }
};
static const badredis_reply unsynced[] = {
    EVERYSEC, SMALL_TALK, { "WAITAOF", "*2\r\n:0\r\n:0\r\n" }, { NULL, NULL }
};
static const badredis_reply forbidden[] = {
    EVERYSEC, SMALL_TALK, { "WAITAOF", "-NOPERM no\r\n" }, { NULL, NULL }
};
static const badredis_reply always[] = {
    { "CONFIG", "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n" },
    SMALL_TALK,
    { "WAITAOF", "*2\r\n:0\r\n:0\r\n" },
    { NULL, NULL }
};

static badredis *newer(const badredis_reply *replies, char *at, size_t room)
{
    badredis *b = badredis_start(
        &(badredis_opts){ .handshake = true, .replies = replies });
    assert_non_null(b);
    badredis_url(b, at, room);
    return b;
}

static bool saw(badredis *b, const char *line)
{
    char text[BADREDIS_TEXT];
    for (size_t i = 0; badredis_seen(b, i, text, sizeof text, NULL); i++)
        if (strcmp(text, line) == 0)
            return true;
    return false;
}

/* How a topic's and a stream's message end on such a server. */
static void ends_as(const badredis_reply *replies, bool ok, const char *line)
{
    char at[64];
    struct counts n = { 0 };
    told *l = told_new(1);
    leat_error e = { 0 };
    badredis *b = newer(replies, at, sizeof at);
    leat_client *c = open_client(
        at,
        &(leat_client_opts){ .durability = LEAT_SYNCED, .replicas_ms = 1234 });
    leat_topic *t = leat_topic_open(c, "t", NULL, &e);
    assert_non_null(t);
    publish(l, t, 0, 1);
    assert_int_equal(ok ? l->ok : l->unknown, 1);
    leat_topic_close(t);
    leat_sink *k = sink_of(c);
    put(k, &n, 1);
    assert_int_equal(ok ? n.ok : n.unknown, 1);
    leat_sink_close(k);
    assert_int_equal(saw(b, line), line[0] == 'W');
    leat_client_close(c);
    badredis_stop(b);
    told_free(l);
}

static void a_newer_server_is_asked_whether_it_is_on_disk(void **state)
{
    (void)state;
    ends_as(synced, true, "WAITAOF 1 0 1234");
}

static void what_is_not_on_disk_in_time_is_unknown(void **state)
{
    (void)state;
    ends_as(unsynced, false, "WAITAOF 1 0 1234");
}

static void a_server_that_always_syncs_is_not_asked(void **state)
{
    (void)state;
    ends_as(always, true, "");
}

static void a_server_that_may_not_be_asked_gives_nothing(void **state)
{
    char at[64];
    leat_error e = { 0 };
    (void)state;
    badredis *b = newer(forbidden, at, sizeof at);
    assert_null(leat_client_open(
        at, &(leat_client_opts){ .durability = LEAT_SYNCED }, &e));
    assert_code(e.code, LEAT_EUNSAFE);
    assert_non_null(strstr(e.msg, "set appendfsync always"));
    badredis_stop(b);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_script_that_was_forgotten_is_proven_for_itself),
        WITH(a_topic_waits_for_the_replica_of_its_client),
        WITH(without_the_replica_a_publish_is_unknown),
        WITH(a_topic_may_ask_for_more_replicas_but_not_for_fewer),
        WITH(a_stream_waits_for_the_replica_too),
        WITH(a_partition_is_read_only_when_its_lease_is_on_the_replica),
        WITH(a_settlement_is_ok_only_when_it_is_on_the_replica),
        WITH(a_dead_letter_is_ok_only_when_it_is_on_the_replica),
        WITH(a_proof_that_was_lost_is_not_taken_for_given),
        WITH(many_partitions_share_their_proofs),
        cmocka_unit_test(a_newer_server_is_asked_whether_it_is_on_disk),
        cmocka_unit_test(what_is_not_on_disk_in_time_is_unknown),
        cmocka_unit_test(a_server_that_always_syncs_is_not_asked),
        cmocka_unit_test(a_server_that_may_not_be_asked_gives_nothing),
    };
    return cmocka_run_group_tests(tests, start_pair, stop_pair);
}
