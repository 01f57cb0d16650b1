/*
 * A cluster of three masters and three replicas that is well: commands find
 * their nodes, whatever they are sent with.
 */
#include "cluster_help.h"

#include "base/crc16.h"
#include "redis/proof.h"
#include "redis/script.h"

#include <sys/wait.h>
#include <unistd.h>

enum { KEYS = 300 };

static void keys_are_spread_over_the_nodes(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key%d", i);
        must(leat_conn_send(
            conn, LEAT_ARGS(leat_str("SET"), leat_str(key), leat_str(key)),
            NULL, err));
    }
    must(leat_conn_drain(conn, 0, err));
    for (int i = 0; i < KEYS; i++) {
        const leat_reply *r;
        snprintf(key, sizeof key, "key%d", i);
        must(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str(key)),
                            NULL, &r, err));
        assert_text(r, key);
    }
    leat_client_return(c, conn);
    leat_client_close(c);
    int64_t all = 0;
    for (int i = 0; i < 3; i++) {
        int64_t here = redis_int(cluster_node(rig, i), "DBSIZE");
        assert_true(here > KEYS / 10);
        all += here;
    }
    assert_int_equal(all, KEYS);
}

static void a_connection_for_a_key_leads_to_its_node(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    for (int i = 0; i < 3; i++) {
        char key[32];
        leat_error e;
        key_on(i, "plain", key, sizeof key);
        leat_conn *conn = leat__client_dial_key(c, leat_str(key), INT64_MAX,
                                                &e);
        assert_non_null(conn);
        assert_null(conn->bundle);
        must(say(conn, "SET", key, "7", err));
        assert_false(conn->stale);
        leat__conn_free(conn);
        assert_int_equal(value_at(i, key), 7);
    }
    leat_client_close(c);
}

static void keys_of_two_slots_are_refused_before_they_are_sent(void **state)
{
    (void)state;
    leat_error e;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    assert_code(leat_conn_call(
                    conn,
                    LEAT_ARGS(leat_str("MGET"), leat_str("a"), leat_str("b")),
                    NULL, NULL, &e),
                LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "'a'"));
    assert_non_null(strstr(e.msg, "'b'"));
    assert_non_null(strstr(e.msg, "15495"));
    assert_non_null(strstr(e.msg, "3300"));
    assert_false(e.retriable);
    leat_bytes keys[] = { leat_str("a"), leat_str("b") };
    assert_code(leat__script_call(conn, &leat__script_redis_probe, keys, 2,
                                  NULL, 0, NULL, &e),
                LEAT_EINVAL);
    must(leat_conn_call(conn,
                        LEAT_ARGS(leat_str("MSET"), leat_str("{t}a"),
                                  leat_str("1"), leat_str("{t}b"),
                                  leat_str("2")),
                        NULL, NULL, err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* A replica is told once its master has heard how far it is. */
static leat_client *open_with_nodes(bool old, size_t count)
{
    size_t n = 0;
    int64_t end = wait_now_ms() + LONG_MS;
    for (;;) {
        leat_client *c = open_client(
            url, &(leat_client_opts){ .as_redis_6_0 = old });
        must(leat_client_nodes(c, NULL, 0, &n, err));
        if (n == count || wait_now_ms() > end)
            return c;
        leat_client_close(c);
        wait_nap(50);
    }
}

static void the_nodes_are_told_with_their_slots_and_primaries(void **state)
{
    (void)state;
    leat_node nodes[16];
    size_t n;
    for (int old = 0; old < 2; old++) {
        leat_client *c = open_with_nodes(old == 1, 6);
        assert_int_equal(leat_client_topology(c), LEAT_CLUSTER);
        must(leat_client_nodes(c, nodes, 16, &n, err));
        assert_int_equal(n, 6);
        int slots = 0, masters = 0;
        for (size_t i = 0; i < n; i++) {
            slots += nodes[i].slots;
            masters += nodes[i].master;
            assert_string_equal(nodes[i].host, "127.0.0.1");
            if (nodes[i].master)
                assert_int_equal(nodes[i].primary, -1);
            else
                assert_true(nodes[nodes[i].primary].master);
        }
        assert_int_equal(slots, LEAT__SLOTS);
        assert_int_equal(masters, 3);
        must(leat_client_nodes(c, nodes, 1, &n, err));
        assert_int_equal(n, 6);
        leat_client_close(c);
    }
}

/* One seed is enough, also a replica; a dead one is passed over. */
static void any_node_leads_to_all(void **state)
{
    (void)state;
    char one[256];
    leat_client *c = open_client(cluster_url_of(rig, 5, one, sizeof one), NULL);
    for (int i = 0; i < 3; i++) {
        char key[32];
        say_until_done(c, "SET", key_on(i, "any", key, sizeof key), "1");
    }
    leat_client_close(c);
    snprintf(one, sizeof one, "redis+cluster://127.0.0.1:1,127.0.0.1:%d",
             redis_port(cluster_node(rig, 0)));
    c = open_client(one, NULL);
    say_until_done(c, "SET", "any", "1");
    leat_client_close(c);
}

static void a_script_is_taught_to_each_node(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < 3; i++)
        redis_do(cluster_node(rig, i), "SCRIPT FLUSH");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3; i++) {
            char key[32];
            const leat_reply *r;
            leat_bytes k = leat_str(key_on(i, "s", key, sizeof key));
            must(leat__script_call(conn, &leat__script_redis_probe, &k, 1, NULL,
                                   0, &r, err));
            assert_true(leat_reply_int(r) > 0);
        }
    }
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_transaction_stays_on_the_node_of_its_key(void **state)
{
    (void)state;
    char a[32], b[32];
    leat_error e;
    key_on(1, "tx", a, sizeof a);
    key_on(2, "tx", b, sizeof b);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    leat_bytes watched = leat_str(a);
    must(leat_conn_watch(conn, &watched, 1, err));
    must(leat_conn_begin(conn, err));
    assert_code(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(b)),
                               NULL, &e),
                LEAT_EINVAL);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(a)), NULL,
                        err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(a)), NULL,
                        err));
    must(leat_conn_exec(conn, err));
    assert_int_equal(value_at(1, a), 2);

    /* And the next may be elsewhere, begun without a watch. */
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(b)), NULL,
                        err));
    must(leat_conn_discard(conn, err));
    must(leat_conn_watch(conn, &watched, 1, err));
    redis_do(cluster_node(rig, 1), "SET %s 5", a);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(a)), NULL,
                        err));
    assert_code(leat_conn_exec(conn, &e), LEAT_ECONFLICT);
    assert_int_equal(value_at(1, a), 5);
    assert_int_equal(value_at(2, b), -1);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void count_push(void *arg, leat_bytes channel, leat_bytes payload)
{
    (void)channel;
    (void)payload;
    (*(int *)arg)++;
}

static void what_is_published_anywhere_is_heard(void **state)
{
    (void)state;
    int heard = 0;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    leat_bytes name = leat_str("news");
    leat_conn_on_push(conn, count_push, &heard);
    must(leat_conn_subscribe(conn, false, &name, 1, err));
    for (int i = 0; i < 3; i++)
        redis_do(cluster_node(rig, i), "PUBLISH news x");
    for (int64_t end = wait_now_ms() + LONG_MS;
         heard < 3 && wait_now_ms() < end;)
        must(leat_conn_listen(conn, 100, err));
    assert_int_equal(heard, 3);
    must(leat_conn_unsubscribe(conn, false, &name, 1, err));
    must(say(conn, "SET", "after", "1", err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct order {
    int next[3];
    int wrong;
};

struct one {
    struct order *o;
    int node, n;
};

static void on_counted(void *arg, const leat_reply *r, const leat_error *e)
{
    struct one *x = arg;
    if (e || leat_reply_int(r) != x->n || x->o->next[x->node]++ != x->n - 1)
        x->o->wrong++;
}

/* The window is small, so that sending has to read in between. */
static void answers_come_in_order_for_each_slot(void **state)
{
    (void)state;
    enum { EACH = 500 };
    static struct one calls[3][EACH];
    struct order o = { 0 };
    char key[3][32];
    leat_client *c = open_client(url, &(leat_client_opts){ .window = 32 });
    leat_conn *conn = lend(c);
    for (int i = 0; i < 3; i++)
        key_on(i, "count", key[i], sizeof key[i]);
    for (int n = 0; n < EACH; n++)
        for (int i = 0; i < 3; i++) {
            calls[i][n] = (struct one){ &o, i, n + 1 };
            must(leat_conn_send(
                conn, LEAT_ARGS(leat_str("INCR"), leat_str(key[i])),
                &(leat_send_opts){ .fn = on_counted, .arg = &calls[i][n] },
                err));
        }
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(o.wrong, 0);
    assert_int_equal(o.next[0] + o.next[1] + o.next[2], 3 * EACH);
    assert_int_equal(leat_conn_in_flight(conn), 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* As an event loop would: poll one descriptor, take. */
static void one_descriptor_stands_for_all_nodes(void **state)
{
    (void)state;
    int64_t end = wait_now_ms() + LONG_MS;
    char key[32];
    leat_error e;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < 3; i++)
        must(leat_conn_send(
            conn,
            LEAT_ARGS(leat_str("INCR"),
                      leat_str(key_on(i, "fd", key, sizeof key))),
            NULL, err));
    must(leat_conn_flush(conn, err));
    while (leat_conn_in_flight(conn) > 0 && wait_now_ms() < end) {
        struct pollfd p = { .fd = leat_conn_fd(conn), .events = POLLIN };
        assert_true(poll(&p, 1, 1000) >= 0);
        must(leat_conn_take(conn, err));
    }
    assert_int_equal(leat_conn_in_flight(conn), 0);
    assert_code(leat_conn_drain(conn, 0, &e), LEAT_OK);
    leat_client_return(c, conn);
    leat_client_close(c);
}

struct proved {
    int64_t n;
    leat_code code;
    int told;
};

static void on_proof(void *arg, const leat_reply *r, const leat_error *e)
{
    struct proved *p = arg;
    p->n = r ? leat_reply_int(r) : -1;
    p->code = e ? e->code : LEAT_OK;
    p->told++;
}

static void a_proof_goes_to_the_node_that_was_written(void **state)
{
    (void)state;
    char key[32], other[32];
    leat__proof one = { .replicas = 1, .ms = 20000 };
    struct proved p = { 0 };
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    key_on(2, "proof", key, sizeof key);
    key_on(0, "proof", other, sizeof other);
    must(say(conn, "SET", key, "1", err));
    must(leat__conn_wait_for(conn, leat_str(key), &one,
                             &(leat_send_opts){ .fn = on_proof, .arg = &p },
                             err));
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(p.n, 1);

    /* A slot that nothing was written to over this has nothing to prove. */
    must(leat__conn_wait_for(conn, leat_str(other), &one,
                             &(leat_send_opts){ .fn = on_proof, .arg = &p },
                             err));
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(p.told, 2);
    assert_code(p.code, LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(say(conn, "SET", "forked", "1", err));
    pid_t pid = fork();
    if (pid == 0) {
        leat_error e;
        bool ok = say(conn, "SET", "forked", "2", &e) == LEAT_EFORK &&
                  leat_conn_take(conn, &e) == LEAT_EFORK;
        leat_client_return(c, conn);
        leat_client_close(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    must(say(conn, "SET", "forked", "3", err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The calls of all commands but those by which a cluster and this test speak
 * to a replica themselves. */
static int64_t commands_on(redis_server *s)
{
    static char text[65536];
    int64_t n = 0;
    redis_text(s, text, sizeof text, "INFO commandstats");
    for (char *p = strstr(text, "cmdstat_"); p; p = strstr(p + 1, "cmdstat_")) {
        long long calls;
        char name[64];
        if (sscanf(p, "cmdstat_%63[^:]:calls=%lld", name, &calls) == 2 &&
            (!strcmp(name, "get") || !strcmp(name, "readonly") ||
             !strcmp(name, "xrange") || !strcmp(name, "mget")))
            n += calls;
    }
    return n;
}

static void replicas_are_never_read(void **state)
{
    (void)state;
    int64_t before = 0, after = 0;
    for (int i = 3; i < 6; i++)
        before += commands_on(cluster_node(rig, i));
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "key%d", i);
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("GET"), leat_str(key)),
                            NULL, err));
    }
    must(leat_conn_drain(conn, 0, err));
    leat_client_return(c, conn);
    leat_client_close(c);
    for (int i = 3; i < 6; i++)
        after += commands_on(cluster_node(rig, i));
    assert_int_equal(after, before);
}

static void nothing_stays_open_behind_a_client(void **state)
{
    (void)state;
    int before = open_fds();
    for (int i = 0; i < 3; i++) {
        leat_client *c = open_client(url, NULL);
        leat_conn *a = lend(c), *b = lend(c);
        must(say(a, "SET", "x", "1", err));
        leat_client_return(c, a);
        leat_client_close(c);
        must(say(b, "SET", "x", "1", err));
        leat_client_return(c, b);
    }
    wait_until(open_fds() == before, LONG_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_spread_over_the_nodes),
        cmocka_unit_test(a_connection_for_a_key_leads_to_its_node),
        cmocka_unit_test(keys_of_two_slots_are_refused_before_they_are_sent),
        cmocka_unit_test(the_nodes_are_told_with_their_slots_and_primaries),
        cmocka_unit_test(any_node_leads_to_all),
        cmocka_unit_test(a_script_is_taught_to_each_node),
        cmocka_unit_test(a_transaction_stays_on_the_node_of_its_key),
        cmocka_unit_test(what_is_published_anywhere_is_heard),
        cmocka_unit_test(answers_come_in_order_for_each_slot),
        cmocka_unit_test(one_descriptor_stands_for_all_nodes),
        cmocka_unit_test(a_proof_goes_to_the_node_that_was_written),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(replicas_are_never_read),
        cmocka_unit_test(nothing_stays_open_behind_a_client),
    };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
