/*
 * A healthy cluster of three masters and three replicas: commands find their
 * nodes, whatever they are sent with.
 */
#include "support/cluster.h"
#include "base/crc16.h"
#include "redis/client.h"
#include "support/leat.h"

static cluster *rig;
static char url[1024];

static int start_rig(void **state)
{
    (void)state;
    rig = cluster_start(NULL);
    if (!rig)
        return -1;
    cluster_url(rig, url, sizeof url);
    return 0;
}

static int stop_rig(void **state)
{
    (void)state;
    cluster_stop(rig);
    return 0;
}

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
    for (int i = 0; i < 20; i++) {
        char key[32];
        snprintf(key, sizeof key, "plain%d", i);
        leat_error e;
        leat_conn *conn = leat__client_dial_key(c, leat_str(key), INT64_MAX,
                                                &e);
        assert_non_null(conn);
        must(leat_conn_call(
            conn, LEAT_ARGS(leat_str("SET"), leat_str(key), leat_str("x")),
            NULL, NULL, err));
        leat__conn_free(conn);
    }
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_spread_over_the_nodes),
        cmocka_unit_test(a_connection_for_a_key_leads_to_its_node),
    };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
