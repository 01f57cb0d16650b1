/*
 * Slots that move from node to node while they are used: MOVED, ASK, TRYAGAIN,
 * nodes that come and go.
 */
#include "cluster_help.h"

#include "base/crc16.h"
#include "redis/cluster.h"
#include "redis/proof.h"
#include "redis/script.h"

#include <pthread.h>
#include <stdatomic.h>

/* Where a slot is, and another master. */
struct place {
    unsigned slot;
    int from, to;
};

static struct place place_of(const char *key)
{
    struct place p = { .slot = cluster_slot(key) };
    p.from = cluster_owner_of(rig, key);
    assert_true(p.from >= 0);
    p.to = (p.from + 1) % 3;
    return p;
}

static void a_slot_that_moved_is_found(void **state)
{
    (void)state;
    struct place p = place_of("moved");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "moved", "1", err));
    assert_true(cluster_move(rig, p.slot, p.to));
    must(say(conn, "SET", "moved", "2", err));
    assert_int_equal(value_at(p.to, "moved"), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_plain_connection_learns_where_its_key_went(void **state)
{
    (void)state;
    leat_error e;
    struct place p = place_of("plain");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = leat__client_dial_key(c, leat_str("plain"), INT64_MAX,
                                            &e);
    assert_non_null(conn);
    must(say(conn, "SET", "plain", "1", err));
    assert_true(cluster_move(rig, p.slot, p.to));
    assert_code(say(conn, "SET", "plain", "2", &e), LEAT_EREADONLY);
    assert_true(e.retriable);
    assert_true(conn->stale);
    leat__conn_free(conn);
    conn = leat__client_dial_key(c, leat_str("plain"), INT64_MAX, &e);
    assert_non_null(conn);
    must(say(conn, "SET", "plain", "3", err));
    leat__conn_free(conn);
    leat_client_close(c);
}

static void keys_of_a_moving_slot_are_found_one_by_one(void **state)
{
    (void)state;
    struct place p = place_of("{ask}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{ask}gone", "1", err));
    must(say(conn, "SET", "{ask}here", "2", err));
    assert_true(cluster_move_begin(rig, p.slot, p.from, p.to));
    assert_true(cluster_move_key(rig, "{ask}gone", p.from, p.to));
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("INCR"), leat_str("{ask}gone")),
                        NULL, NULL, err));
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("INCR"), leat_str("{ask}here")),
                        NULL, NULL, err));
    /* What is not there yet is made where the slot goes. */
    must(say(conn, "SET", "{ask}new", "9", err));
    assert_int_equal(value_at(p.from, "{ask}here"), 3);
    assert_int_equal(redis_int(cluster_node(rig, p.to),
                               "CLUSTER COUNTKEYSINSLOT %u", p.slot),
                     2);
    while (cluster_move_keys(rig, p.slot, p.from, p.to, 10) > 0)
        ;
    assert_true(cluster_move_end(rig, p.slot, p.from, p.to));
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("INCR"), leat_str("{ask}gone")),
                        NULL, NULL, err));
    assert_int_equal(value_at(p.to, "{ask}gone"), 3);
    assert_int_equal(value_at(p.to, "{ask}here"), 3);
    assert_int_equal(value_at(p.to, "{ask}new"), 9);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The answer is believed for a moment only: on a slow machine it may have to be
 * asked for again. */
static void a_plain_connection_asks_where_it_was_told_to(void **state)
{
    (void)state;
    leat_error e;
    struct place p = place_of("{asks}");
    leat_client *c = open_client(url, NULL);
    say_until_done(c, "SET", "{asks}key", "1");
    assert_true(cluster_move_begin(rig, p.slot, p.from, p.to));
    assert_true(cluster_move_key(rig, "{asks}key", p.from, p.to));
    int64_t end = wait_now_ms() + LONG_MS;
    bool asked = false;
    while (!asked && wait_now_ms() < end) {
        leat_conn *conn = leat__client_dial_key(c, leat_str("{asks}key"),
                                                INT64_MAX, &e);
        assert_non_null(conn);
        asked = conn->asking;
        leat_code rc = say(conn, "SET", "{asks}key", "2", &e);
        assert_code(rc, asked ? LEAT_OK : LEAT_EREADONLY);
        if (asked) {
            /* Also several in one go, in a script and in a transaction. */
            leat_bytes key = leat_str("{asks}key");
            for (int i = 0; i < 20; i++)
                must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), key),
                                    NULL, err));
            must(leat__script_send(conn, &leat__script_redis_probe, &key, 1,
                                   NULL, 0, NULL, err));
            must(leat_conn_drain(conn, 0, err));
            must(leat_conn_begin(conn, err));
            must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), key), NULL,
                                err));
            must(leat_conn_exec(conn, err));
        }
        leat__conn_free(conn);
    }
    assert_true(asked);
    assert_true(cluster_move_end(rig, p.slot, p.from, p.to));
    assert_int_equal(value_at(p.to, "{asks}key"), 23);
    leat_client_close(c);
}

static void two_keys_of_which_one_has_moved_are_to_be_tried_again(void **state)
{
    (void)state;
    leat_error e;
    struct place p = place_of("{try}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{try}a", "1", err));
    must(say(conn, "SET", "{try}b", "2", err));
    assert_true(cluster_move_begin(rig, p.slot, p.from, p.to));
    assert_true(cluster_move_key(rig, "{try}a", p.from, p.to));
    assert_code(leat_conn_call(conn,
                               LEAT_ARGS(leat_str("MGET"), leat_str("{try}a"),
                                         leat_str("{try}b")),
                               NULL, NULL, &e),
                LEAT_EBUSY);
    assert_true(e.retriable);
    assert_true(cluster_move_key(rig, "{try}b", p.from, p.to));
    must(leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("MGET"), leat_str("{try}a"), leat_str("{try}b")),
        NULL, NULL, err));
    assert_true(cluster_move_end(rig, p.slot, p.from, p.to));
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct line {
    int64_t last;
    int wrong, told;
};

static void on_number(void *arg, const leat_reply *r, const leat_error *e)
{
    struct line *l = arg;
    l->told++;
    if (e || leat_reply_int(r) != ++l->last)
        l->wrong++;
}

static void send_some(leat_conn *conn, struct line *l, const char *key, int n)
{
    for (int i = 0; i < n; i++)
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(key)),
                            &(leat_send_opts){ .fn = on_number, .arg = l },
                            err));
    must(leat_conn_flush(conn, err));
}

/* Commands are under way at every step of the move. */
static void a_pipeline_keeps_its_order_while_its_slot_moves(void **state)
{
    (void)state;
    enum { SOME = 150 };
    struct line l = { 0 }, other = { 0 };
    struct place p = place_of("{line}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    send_some(conn, &l, "{line}n", SOME);
    assert_true(cluster_move_begin(rig, p.slot, p.from, p.to));
    send_some(conn, &l, "{line}n", SOME);
    send_some(conn, &other, "{line}m", SOME);
    while (cluster_move_keys(rig, p.slot, p.from, p.to, 1) > 0)
        ;
    send_some(conn, &l, "{line}n", SOME);
    while (cluster_move_keys(rig, p.slot, p.from, p.to, 10) > 0)
        ;
    assert_true(cluster_move_end(rig, p.slot, p.from, p.to));
    send_some(conn, &l, "{line}n", SOME);
    send_some(conn, &other, "{line}m", SOME);
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(l.wrong + other.wrong, 0);
    assert_int_equal(l.last, 4 * SOME);
    assert_int_equal(other.last, 2 * SOME);
    assert_int_equal(value_at(p.to, "{line}n"), 4 * SOME);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* How often a node has sent INCR elsewhere. */
static long long redirects_by(int node)
{
    char text[16384];
    long long n = 0;
    redis_text(cluster_node(rig, node), text, sizeof text, "INFO commandstats");
    char *p = strstr(text, "cmdstat_incr:");
    char *r = p ? strstr(p, "rejected_calls=") : NULL;
    if (r)
        n = atoll(r + strlen("rejected_calls="));
    return n;
}

/* Also when there is never a moment without commands under way. */
static void a_busy_slot_is_soon_sent_straight_to_its_new_node(void **state)
{
    (void)state;
    struct line l = { 0 };
    struct place p = place_of("{busy}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    send_some(conn, &l, "{busy}n", 20);
    assert_true(cluster_move(rig, p.slot, p.to));
    long long before = 0;
    for (int i = 0; i < 400; i++) {
        send_some(conn, &l, "{busy}n", 10);
        must(leat_conn_drain(conn, 10, err));
        if (i == 100)
            before = redirects_by(p.from);
    }
    must(leat_conn_drain(conn, 0, err));
    assert_true(before > 0);
    assert_int_equal(redirects_by(p.from), before);
    assert_int_equal(l.wrong, 0);
    assert_int_equal(l.last, 4020);
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct writer {
    leat_client *client;
    struct line line;
    atomic_bool stop;
    leat_code rc;
};

static void *write_on(void *arg)
{
    struct writer *w = arg;
    leat_error e;
    leat_conn *conn = leat_client_lend(w->client, LONG_MS, &e);
    w->rc = conn ? LEAT_OK : e.code;
    while (w->rc == LEAT_OK && !atomic_load(&w->stop)) {
        w->rc = leat_conn_send(
            conn, LEAT_ARGS(leat_str("INCR"), leat_str("{hot}n")),
            &(leat_send_opts){ .fn = on_number, .arg = &w->line }, &e);
        if (w->rc == LEAT_OK && leat_conn_in_flight(conn) > 20)
            w->rc = leat_conn_drain(conn, 10, &e);
    }
    if (w->rc == LEAT_OK)
        w->rc = leat_conn_drain(conn, 0, &e);
    leat_client_return(w->client, conn);
    return NULL;
}

static void a_hot_slot_moves_round_and_nothing_is_lost_or_doubled(void **state)
{
    (void)state;
    struct place p = place_of("{hot}");
    struct writer w = { .client = open_client(url, NULL) };
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, write_on, &w), 0);
    int at = p.from;
    bool moved = true;
    for (int i = 0; i < 9 && moved; i++) {
        int to = (at + 1) % 3;
        moved = cluster_move_begin(rig, p.slot, at, to);
        while (moved && cluster_move_keys(rig, p.slot, at, to, 10) > 0)
            ;
        moved = moved && cluster_move_end(rig, p.slot, at, to);
        at = to;
    }
    atomic_store(&w.stop, true);
    pthread_join(t, NULL);
    assert_true(moved);
    assert_code(w.rc, LEAT_OK);
    assert_true(w.line.last > 0);
    assert_int_equal(w.line.wrong, 0);
    assert_int_equal(value_at(at, "{hot}n"), w.line.last);
    leat_client_close(w.client);
}

static void a_script_follows_its_key(void **state)
{
    (void)state;
    const leat_reply *r;
    leat_bytes key = leat_str("{script}");
    struct place p = place_of("{script}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat__script_call(conn, &leat__script_redis_probe, &key, 1, NULL, 0,
                           &r, err));
    assert_true(cluster_move(rig, p.slot, p.to));
    redis_do(cluster_node(rig, p.to), "SCRIPT FLUSH");
    must(leat__script_call(conn, &leat__script_redis_probe, &key, 1, NULL, 0,
                           &r, err));
    assert_true(leat_reply_int(r) > 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_transaction_on_a_slot_that_moved_is_not_done(void **state)
{
    (void)state;
    leat_error e;
    struct place p = place_of("{tx}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{tx}n", "1", err));
    assert_true(cluster_move(rig, p.slot, p.to));
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("{tx}n")),
                        NULL, err));
    assert_code(leat_conn_exec(conn, &e), LEAT_EREADONLY);
    assert_true(e.retriable);
    assert_int_equal(value_at(p.to, "{tx}n"), 1);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("{tx}n")),
                        NULL, err));
    must(leat_conn_exec(conn, err));
    assert_int_equal(value_at(p.to, "{tx}n"), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void on_proof(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    *(leat_code *)arg = e ? e->code : LEAT_OK;
}

static void a_proof_does_not_speak_for_another_node(void **state)
{
    (void)state;
    leat_code code = LEAT_OK;
    leat__proof one = { .replicas = 1, .ms = 20000 };
    struct place p = place_of("{proof}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{proof}n", "1", err));
    assert_true(cluster_move(rig, p.slot, p.to));
    must(say(conn, "SET", "{proof}n", "2", err));
    must(leat__conn_wait_for(conn, leat_str("{proof}n"), &one,
                             &(leat_send_opts){ .fn = on_proof, .arg = &code },
                             err));
    must(leat_conn_drain(conn, 0, err));
    assert_code(code, LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The map may have been read from a node that had not heard of it yet; the
 * next one is read when something speaks against it. */
static size_t node_count(leat_client *c)
{
    size_t n;
    leat__cluster_doubt(c->cluster);
    must(leat_client_nodes(c, NULL, 0, &n, err));
    return n;
}

static void a_node_that_is_new_is_used_and_one_that_left_is_not(void **state)
{
    (void)state;
    struct place p = place_of("{guest}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{guest}n", "1", err));
    int guest = cluster_add(rig);
    assert_true(guest >= 0);
    assert_true(cluster_move(rig, p.slot, guest));
    must(say(conn, "SET", "{guest}n", "2", err));
    assert_int_equal(value_at(guest, "{guest}n"), 2);
    wait_until(node_count(c) == 7, LONG_MS);
    assert_true(cluster_move(rig, p.slot, p.to));
    assert_true(cluster_remove(rig, guest));
    must(leat_client_call(
        c, LEAT_ARGS(leat_str("SET"), leat_str("{guest}n"), leat_str("3")),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = LONG_MS }, NULL,
        err));
    assert_int_equal(value_at(p.to, "{guest}n"), 3);
    must(say(conn, "SET", "{guest}n", "4", err));
    wait_until(node_count(c) == 6, LONG_MS);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* ---- confined to a route ---------------------------------------------- */

/* The route of a key's slot, waited for: a node may have to be connected to. */
static uint64_t route_to(leat_conn *conn, const char *key)
{
    uint64_t route = 0;
    int slot = (int)cluster_slot(key);
    int64_t end = wait_now_ms() + LONG_MS;
    while ((route = leat__conn_route(conn, slot)) == 0 && wait_now_ms() < end)
        must(say(conn, "SET", "{elsewhere}", "0", err));
    assert_true(route != 0);
    return route;
}

static void is_refused(leat_code rc, const leat_error *e)
{
    assert_true(rc == LEAT_ECONN || rc == LEAT_EREADONLY);
    assert_true(e->retriable);
}

static void count_refused(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    if (e)
        is_refused(e->code, e);
    *(int *)arg += e != NULL;
}

static void a_confined_command_does_not_follow_its_slot(void **state)
{
    enum { SENT = 20 };
    (void)state;
    leat_error e = { 0 };
    int refused = 0;
    struct place p = place_of("confined");
    const leat_bytes key = leat_str("confined");
    const leat_bytes incr[] = { leat_str("INCR"), key };
    const leat_send_opts o = { .fn = count_refused, .arg = &refused };
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "confined", "1", err));
    uint64_t route = route_to(conn, "confined");
    leat__conn_confine(conn, route);
    must(say(conn, "SET", "confined", "2", err));
    assert_true(cluster_move(rig, p.slot, p.to));
    for (int i = 0; i < SENT; i++) /* it is not known yet where they belong */
        must(leat_conn_send(conn, incr, 2, &o, err));
    must(leat__script_send(conn, &leat__script_redis_probe, &key, 1, NULL, 0,
                           &o, err));
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(refused, SENT + 1);
    is_refused(say(conn, "SET", "confined", "3", &e), &e); /* now it is */
    assert_int_equal(value_at(p.to, "confined"), 2);

    leat__conn_confine(conn, 0);
    uint64_t other = route_to(conn, "confined");
    assert_true(other != route);
    leat__conn_confine(conn, other);
    must(say(conn, "SET", "confined", "4", err));
    leat__conn_confine(conn, 0);
    must(say(conn, "SET", "confined", "5", err));
    assert_int_equal(value_at(p.to, "confined"), 5);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The same keys, which the other node gets one by one. */
static void a_confined_command_asks_for_keys_that_are_being_moved(void **state)
{
    (void)state;
    struct place p = place_of("{within}");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "{within}a", "1", err));
    leat__conn_confine(conn, route_to(conn, "{within}a"));
    assert_true(cluster_move_begin(rig, p.slot, p.from, p.to));
    assert_true(cluster_move_key(rig, "{within}a", p.from, p.to));
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("INCR"), leat_str("{within}a")),
                        NULL, NULL, err));
    leat__conn_confine(conn, 0);
    assert_true(cluster_move_end(rig, p.slot, p.from, p.to));
    assert_int_equal(value_at(p.to, "{within}a"), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The same node, but who knows what it forgot in between? */
static void a_connection_that_was_made_again_is_another_route(void **state)
{
    (void)state;
    leat_error e = { 0 };
    struct place p = place_of("again");
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "again", "1", err));
    uint64_t route = route_to(conn, "again");
    redis_do(cluster_node(rig, p.from), "CLIENT KILL TYPE normal SKIPME yes");
    leat__conn_confine(conn, route);
    int64_t end = wait_now_ms() + LONG_MS;
    while (leat__conn_route(conn, (int)p.slot) == route && wait_now_ms() < end)
        (void)!leat_conn_call(conn,
                              LEAT_ARGS(leat_str("GET"), leat_str("again")),
                              NULL, NULL, &e);
    assert_true(leat__conn_route(conn, (int)p.slot) != route);
    leat__conn_confine(conn, 0);
    wait_until(say(conn, "SET", "again", "2", &e) == LEAT_OK, LONG_MS);
    leat__conn_confine(conn, route);
    is_refused(say(conn, "SET", "again", "3", &e), &e);
    assert_int_equal(value_at(p.from, "again"), 2);
    leat__conn_confine(conn, 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_plain_connection_has_one_route_and_is_not_confined(void **state)
{
    (void)state;
    leat_error e;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = leat__client_dial_key(c, leat_str("single"), INT64_MAX,
                                            &e);
    assert_non_null(conn);
    assert_int_equal(leat__conn_route(conn, (int)cluster_slot("single")), 1);
    leat__conn_confine(conn, 7);
    must(say(conn, "SET", "single", "1", err));
    leat__conn_free(conn);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_that_moved_is_found),
        cmocka_unit_test(a_plain_connection_learns_where_its_key_went),
        cmocka_unit_test(keys_of_a_moving_slot_are_found_one_by_one),
        cmocka_unit_test(a_plain_connection_asks_where_it_was_told_to),
        cmocka_unit_test(two_keys_of_which_one_has_moved_are_to_be_tried_again),
        cmocka_unit_test(a_pipeline_keeps_its_order_while_its_slot_moves),
        cmocka_unit_test(a_busy_slot_is_soon_sent_straight_to_its_new_node),
        cmocka_unit_test(a_hot_slot_moves_round_and_nothing_is_lost_or_doubled),
        cmocka_unit_test(a_script_follows_its_key),
        cmocka_unit_test(a_transaction_on_a_slot_that_moved_is_not_done),
        cmocka_unit_test(a_proof_does_not_speak_for_another_node),
        cmocka_unit_test(a_confined_command_does_not_follow_its_slot),
        cmocka_unit_test(a_confined_command_asks_for_keys_that_are_being_moved),
        cmocka_unit_test(a_connection_that_was_made_again_is_another_route),
        cmocka_unit_test(a_plain_connection_has_one_route_and_is_not_confined),
        cmocka_unit_test(a_node_that_is_new_is_used_and_one_that_left_is_not),
    };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
