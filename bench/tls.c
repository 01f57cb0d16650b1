/*
 * tls.c: TLS against plain TCP, the same client and the same server.
 *
 * Most of what TLS costs is encrypting on both sides; on one machine both sides
 * share it.  There is no target, only the ratio.
 */
#include "bench.h"
#include "support/certs.h"
#include "support/redis.h"

#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

struct work {
    char plain[64], tls[256];
    int window, count;
    size_t size; /* of the body */
    bool get;
};

static char body[64 * 1024];

static leat_code one(leat_conn *conn, const struct work *w)
{
    leat_bytes key = leat_str("bench");
    if (w->get)
        return leat_conn_send(conn, LEAT_ARGS(leat_str("GET"), key), NULL,
                              NULL);
    return leat_conn_send(
        conn, LEAT_ARGS(leat_str("SET"), key, leat_mem(body, w->size)), NULL,
        NULL);
}

static double run(const struct work *w, const char *url)
{
    leat_error e = { 0 };
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .window = w->window }, &e);
    leat_conn *conn = c ? leat_client_lend(c, 5000, &e) : NULL;
    leat_code rc = conn ? LEAT_OK : e.code;
    int64_t start = bench_now_ns();
    for (int i = 0; rc == LEAT_OK && i < w->count; i++)
        rc = one(conn, w);
    if (rc == LEAT_OK)
        rc = leat_conn_drain(conn, 0, &e);
    double took = (double)(bench_now_ns() - start) / 1e9;
    if (conn)
        leat_client_return(c, conn);
    leat_client_close(c);
    if (rc != LEAT_OK)
        fprintf(stderr, "%s: %s\n", url, e.msg);
    return rc == LEAT_OK ? w->count / took : -1;
}

static double over_tls(void *arg)
{
    const struct work *w = arg;
    return run(w, w->tls);
}

static double over_tcp(void *arg)
{
    const struct work *w = arg;
    return run(w, w->plain);
}

static bool measure(struct work *w)
{
    static const size_t sizes[] = { 100, sizeof body };
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        w->size = sizes[i];
        w->count = i ? 3000 : 100 * 1000;
        w->window = i ? 64 : 1024;
        for (int get = 0; get < 2; get++) {
            w->get = get;
            ok &= bench_run(&(bench_pair){ get ? "tls.get" : "tls.set", "cmd/s",
                                           (int)w->size, w->window, over_tls,
                                           over_tcp, w, 0, 9, false });
        }
    }
    return ok;
}

int main(int argc, char **argv)
{
    char dir[64];
    struct work w = { 0 };
    bench_only(argc > 1 ? argv[1] : NULL);
    if (!certs_dir(dir, sizeof dir))
        return 69;
    redis_server *s = certs_usual(dir) ? redis_start(&(redis_opts){
                                             .tcp = true, .tls = dir })
                                       : NULL;
    bool ok = false;
    if (s) {
        redis_url(s, w.plain, sizeof w.plain);
        redis_url_tls(s, w.tls, sizeof w.tls);
        bench_pin(redis_pid(s));
        ok = measure(&w);
    }
    redis_stop(s);
    certs_remove(dir);
    return ok ? 0 : 1;
}
