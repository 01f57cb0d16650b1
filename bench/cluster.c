/*
 * cluster.c: a topic of twelve partitions on three nodes against one node.
 *
 *   bench-cluster                  everything
 *   bench-cluster cluster.produce  what begins by that
 *
 * Both are clusters, of three masters and of one, so that the client does the
 * same; they run in turn.  Nodes and client share the machine: with few cores
 * the figures show what more nodes cost, with more what they bring.
 */
#include "support/cluster.h"
#include "bench.h"

#include <leat/leat.h>
#include <stdio.h>
#include <string.h>

enum { PARTS = 12, COUNT = 60000, BODY = 100, BATCH = 256, WAIT_MS = 60000 };

static char body[BODY];

typedef struct side {
    cluster *c;
    char url[1024];
    int round; /* numbers the groups */
} side;

typedef struct sides {
    side one, three;
} sides;

static double complain(const leat_error *e)
{
    fprintf(stderr, "%s\n", e->msg);
    return -1;
}

static bool empty(const side *s)
{
    bool ok = true;
    for (int i = 0; i < cluster_count(s->c); i++)
        ok &= redis_flush(cluster_node(s->c, i));
    return ok;
}

static leat_topic *open_topic(leat_client *c, leat_error *err)
{
    return leat_topic_open(
        c, "bench",
        &(leat_topic_opts){ .auto_create = true, .partitions = PARTS }, err);
}

/* To all partitions in turn. */
static leat_code publish(leat_topic *t, int n, leat_error *err)
{
    leat_msg m = { .body = leat_mem(body, sizeof body) };
    leat_code rc = LEAT_OK;
    for (int i = 0; rc == LEAT_OK && i < n; i++)
        rc = leat_topic_publish(t, &m, NULL, NULL, err);
    return rc == LEAT_OK ? leat_topic_flush(t, WAIT_MS, err) : rc;
}

/* The clock starts once every partition has its connection. */
static double produce(side *s)
{
    leat_error e;
    leat_client *c = leat_client_open(s->url, NULL, &e);
    leat_topic *t = c ? open_topic(c, &e) : NULL;
    leat_code rc = t ? publish(t, 10 * PARTS, &e) : e.code;
    int64_t start = bench_now_ns();
    if (rc == LEAT_OK)
        rc = publish(t, COUNT, &e);
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_topic_close(t);
    leat_client_close(c);
    return rc == LEAT_OK && empty(s) ? COUNT / took : complain(&e);
}

static leat_code receive(leat_source *s, int n, leat_error *err)
{
    leat_delivery *d[BATCH];
    for (int have = 0; have < n;) {
        int got = leat_source_receive(s, d, BATCH, WAIT_MS, err);
        if (got <= 0)
            return got < 0 ? err->code : LEAT_ETIMEOUT;
        for (int i = 0; i < got; i++)
            (void)leat_delivery_ack(d[i]);
        have += got;
    }
    return leat_source_flush(s, WAIT_MS, err);
}

/* By a group of its own, from joining it on. */
static double consume(side *s)
{
    leat_error e = { 0 };
    char group[32];
    leat_client *c = leat_client_open(s->url, NULL, &e);
    leat_topic *t = c ? open_topic(c, &e) : NULL;
    snprintf(group, sizeof group, "g%d", s->round++);
    int64_t start = bench_now_ns();
    leat_source *r = t ? leat_topic_source(
                             t, group,
                             &(leat_topic_source_opts){ .max_in_flight = 8000 },
                             &e)
                       : NULL;
    leat_code rc = r ? receive(r, COUNT, &e) : e.code;
    double took = (double)(bench_now_ns() - start) / 1e9;
    leat_source_close(r);
    leat_topic_close(t);
    leat_client_close(c);
    return rc == LEAT_OK ? COUNT / took : complain(&e);
}

static bool fill(side *s)
{
    leat_error e;
    leat_client *c = leat_client_open(s->url, NULL, &e);
    leat_topic *t = c ? open_topic(c, &e) : NULL;
    leat_code rc = t ? publish(t, COUNT, &e) : e.code;
    leat_topic_close(t);
    leat_client_close(c);
    return rc == LEAT_OK || complain(&e) > 0;
}

static double produce_three(void *arg)
{
    return produce(&((sides *)arg)->three);
}

static double produce_one(void *arg)
{
    return produce(&((sides *)arg)->one);
}

static double consume_three(void *arg)
{
    return consume(&((sides *)arg)->three);
}

static double consume_one(void *arg)
{
    return consume(&((sides *)arg)->one);
}

static void show_spread(const side *s)
{
    int at[CLUSTER_NODES] = { 0 };
    char key[64], name[32];
    for (int p = 0; p < PARTS; p++) {
        snprintf(key, sizeof key, "leat:{bench/%d}:log", p);
        int node = cluster_owner_of(s->c, key);
        if (node >= 0)
            at[node]++;
    }
    for (int i = 0; i < cluster_count(s->c); i++) {
        snprintf(name, sizeof name, "cluster.spread.node%d", i);
        bench_figure(name, 0, "partitions of 12", at[i]);
    }
}

static bool start(side *s, int masters)
{
    s->c = cluster_start(&(cluster_opts){ .masters = masters, .replicas = -1 });
    if (s->c)
        cluster_url(s->c, s->url, sizeof s->url);
    return s->c != NULL;
}

static bool run(sides *x)
{
    bool ok = true;
    if (bench_wants("cluster.spread"))
        show_spread(&x->three);
    if (bench_wants("cluster.produce"))
        ok &= bench_run(&(bench_pair){ .name = "cluster.produce",
                                       .unit = "msg/s",
                                       .payload = BODY,
                                       .ours = produce_three,
                                       .raw = produce_one,
                                       .arg = x });
    if (bench_wants("cluster.consume"))
        ok &= fill(&x->one) && fill(&x->three) &&
              bench_run(&(bench_pair){ .name = "cluster.consume",
                                       .unit = "msg/s",
                                       .payload = BODY,
                                       .ours = consume_three,
                                       .raw = consume_one,
                                       .arg = x });
    return ok;
}

int main(int argc, char **argv)
{
    sides x = { 0 };
    memset(body, 'x', sizeof body);
    bench_only(argc > 1 ? argv[1] : NULL);
    bool ok = start(&x.one, 1) && start(&x.three, 3);
    int status = ok ? !run(&x) : 69;
    cluster_stop(x.one.c);
    cluster_stop(x.three.c);
    return status;
}
