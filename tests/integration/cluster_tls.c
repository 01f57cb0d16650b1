/*
 * cluster_tls.c: a cluster whose nodes speak TLS, to us and to each other.
 *
 * The map names the nodes by their ports for TLS, because it is asked for over
 * TLS; so nobody is ever led to a port without.
 */
#include "support/certs.h"
#include "support/cluster.h"
#include "support/leat.h"
#include "support/wait.h"

#include <leat/topic.h>

enum { KEYS = 60, MESSAGES = 120, WAIT_MS = 60000 };

static char dir[64], url[400];
static cluster *nodes;

static int start(void **state)
{
    char hosts[256];
    (void)state;
    if (!certs_dir(dir, sizeof dir) || !certs_usual(dir))
        return -1;
    nodes = cluster_start(&(cluster_opts){ .tls = dir });
    if (!nodes)
        return -1;
    snprintf(url, sizeof url, "%s?cafile=%s/ca.crt",
             cluster_url_of(nodes, 0, hosts, sizeof hosts), dir);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(nodes);
    certs_remove(dir);
    return 0;
}

static void name_key(char *key, size_t size, int i)
{
    snprintf(key, size, "key:%d", i);
}

/* Set all keys to the number; every node has some of them. */
static void set_all(leat_conn *conn, int number)
{
    char key[32], value[32];
    snprintf(value, sizeof value, "%d", number);
    for (int i = 0; i < KEYS; i++) {
        name_key(key, sizeof key, i);
        must(leat_conn_send(
            conn, LEAT_ARGS(leat_str("SET"), leat_str(key), leat_str(value)),
            NULL, err));
    }
    must(leat_conn_drain(conn, 0, err));
}

/* Nodes by the ports that the client knows. */
static void assert_tls_ports(leat_client *c)
{
    leat_node known[CLUSTER_NODES];
    size_t n = 0;
    must(leat_client_nodes(c, known, CLUSTER_NODES, &n, err));
    assert_int_equal(n, cluster_count(nodes));
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (int k = 0; k < cluster_count(nodes); k++)
            found |= redis_tls_port(cluster_node(nodes, k)) == known[i].port;
        assert_true(found);
    }
}

static void all_nodes_are_found_and_spoken_to_by_tls(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    set_all(conn, 1);
    assert_tls_ports(c);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_moved_slot_is_followed_by_tls(void **state)
{
    char key[32];
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    set_all(conn, 1);
    name_key(key, sizeof key, 7);
    int from = cluster_owner_of(nodes, key);
    assert_true(cluster_move(nodes, cluster_slot(key), (from + 1) % 3));
    set_all(conn, 2);
    assert_int_equal(
        redis_int(cluster_node(nodes, (from + 1) % 3), "GET %s", key), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_topic_has_its_partitions_on_nodes_with_tls(void **state)
{
    leat_error e;
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_topic *t = leat_topic_open(
        c, "orders", &(leat_topic_opts){ .auto_create = true, .partitions = 6 },
        &e);
    assert_non_null(t);
    leat_source *s = leat_topic_source(t, "billing", NULL, &e);
    assert_non_null(s);
    for (uint32_t i = 0; i < MESSAGES; i++)
        must(leat_topic_publish_to(
            t, i % 6, &(leat_msg){ .body = leat_str("x") }, NULL, NULL, err));
    must(leat_topic_flush(t, WAIT_MS, err));
    int64_t until = wait_now_ms() + WAIT_MS;
    for (int got = 0; got < MESSAGES;) {
        leat_delivery *d[16];
        int n = leat_source_receive(s, d, 16, 1000, &e);
        assert_true(n >= 0 && wait_now_ms() < until);
        for (int i = 0; i < n; i++)
            assert_int_equal(leat_delivery_ack(d[i]), LEAT_OK);
        got += n;
    }
    must(leat_source_flush(s, WAIT_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

static void nobody_is_trusted_without_the_right_authority(void **state)
{
    char hosts[256], text[400];
    leat_error e = { 0 };
    (void)state;
    assert_true(certs_make(dir, "other", &(cert_opts){ .authority = true }));
    snprintf(text, sizeof text, "%s?cafile=%s/other.crt",
             cluster_url(nodes, hosts, sizeof hosts), dir);
    assert_null(leat_client_open(text, NULL, &e));
    assert_int_equal(e.code, LEAT_EAUTH);
    print_message("# %s\n", e.msg);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_are_found_and_spoken_to_by_tls),
        cmocka_unit_test(a_topic_has_its_partitions_on_nodes_with_tls),
        cmocka_unit_test(a_moved_slot_is_followed_by_tls),
        cmocka_unit_test(nobody_is_trusted_without_the_right_authority),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
