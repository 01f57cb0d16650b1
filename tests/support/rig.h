/*
 * rig.h: the fixture of a test program with one cluster:
 *
 *   return cmocka_run_group_tests(tests, start_rig, stop_rig);
 *
 * The tests use `rig` and `url`; `rig_opts` may be set before.  Those between
 * open_on_rig and close_one find all nodes empty, and use `client`.
 */
#ifndef SUPPORT_RIG_H
#define SUPPORT_RIG_H

#include "support/client.h"
#include "support/cluster.h"

static cluster *rig;
static cluster_opts rig_opts;

static inline int start_rig(void **state)
{
    (void)state;
    rig = cluster_start(&rig_opts);
    if (!rig)
        return -1;
    cluster_url(rig, url, sizeof url);
    return 0;
}

static inline int stop_rig(void **state)
{
    (void)state;
    cluster_stop(rig);
    return 0;
}

static inline bool empty_rig(void)
{
    for (int i = 0; i < cluster_count(rig); i++)
        if (redis_alive(cluster_node(rig, i)) && cluster_is_master(rig, i) &&
            !redis_flush(cluster_node(rig, i)))
            return false;
    return true;
}

static inline int open_on_rig(void **state)
{
    (void)state;
    return empty_rig() ? open_at_url() : -1;
}

/* A test with a client of its own, on an empty cluster. */
#define rig_test(name)                                                         \
    cmocka_unit_test_setup_teardown(name, open_on_rig, close_one)

#endif
