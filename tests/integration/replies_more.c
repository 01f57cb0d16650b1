/*
 * replies_more.c: as replies.c, of a cluster, whose map is a reply too, and of
 * sentinels, who say where the master is.
 */
#include "replies_run.h"
#include "support/cluster.h"
#include "support/sentinels.h"

enum { EACH_MS = 6000 };

static cluster *nodes;
static sentinels *group;

static int start_all(void **state)
{
    (void)state;
    nodes = cluster_start(NULL);
    group = nodes ? sentinels_start(NULL) : NULL;
    if (!group || !share_harm())
        return -1;
    cluster_url(nodes, urls[CLUSTER], sizeof urls[CLUSTER]);
    sentinels_url(group, urls[SENTINEL], sizeof urls[SENTINEL]);
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    sentinels_stop(group);
    cluster_stop(nodes);
    return 0;
}

static void a_strange_reply_of_a_cluster_ends_as_an_error_or_not(void **state)
{
    (void)state;
    lie_at(CLUSTER, EACH_MS);
}

static void a_strange_reply_of_sentinels_ends_as_an_error_or_not(void **state)
{
    (void)state;
    lie_at(SENTINEL, EACH_MS);
}

/* It is found when the connection is lent again. */
static void a_reply_too_many_of_a_node_does_not_stop_the_client(void **state)
{
    (void)state;
    leat_error err = { 0 };
    mutate lie = { .of = "INCR", .with = ":1\r\n:1\r\n", .times = 1 };
    mutate_install(&lie);
    leat_client *x = open_client(urls[CLUSTER], NULL);
    alarm(60); /* for whoever waits for itself */
    for (int i = 0; i < 2; i++) {
        leat_reply *r = NULL;
        leat_code rc = leat_client_call(
            x, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL, &r, &err);
        assert_code(rc, LEAT_OK);
        leat_reply_free(r);
    }
    alarm(0);
    leat_client_close(x);
    mutate_install(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_too_many_of_a_node_does_not_stop_the_client),
        cmocka_unit_test(a_strange_reply_of_a_cluster_ends_as_an_error_or_not),
        cmocka_unit_test(a_strange_reply_of_sentinels_ends_as_an_error_or_not),
    };
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
