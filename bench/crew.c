/*
 * crew.c: consumers in processes of their own.
 */
#include "crew.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_S = 60 };

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

/* ---- inside a process ------------------------------------------------- */

static void sample(crew_page *page, const char *body, size_t n)
{
    char text[21];
    if (!page->timed || n < 20)
        return;
    memcpy(text, body, 20);
    text[20] = 0;
    int64_t sent = strtoll(text, NULL, 10);
    int i = page->samples;
    if (i < CREW_SAMPLES) {
        page->us[i] = (double)(bench_now_ns() - sent) / 1e3;
        page->samples = i + 1;
    }
}

static void count(crew_page *page, int n)
{
    page->last_ns = bench_now_ns();
    page->settled += n;
}

static bool receive(leat_source *s, crew_page *page)
{
    leat_delivery *d[BATCH];
    leat_error e;
    int n = leat_source_receive(s, d, BATCH, 50, &e);
    for (int i = 0; i < n; i++) {
        leat_bytes body = leat_delivery_msg(d[i])->body;
        sample(page, body.p, body.n);
        if (leat_delivery_ack(d[i]) != LEAT_OK)
            return false;
    }
    if (n > 0)
        count(page, n);
    return n >= 0 || complain(&e);
}

static void member(const work *w, const char *topic, int partitions, int share,
                   crew_page *page)
{
    bool ready = false;
    leat_error e;
    leat_topic_source_stats stats;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, topic, partitions);
    leat_source *s = t ? leat_topic_source(t, "crew", NULL, &e) : NULL;
    while (s && !page->stop && receive(s, page)) {
        leat_topic_source_stats_get(s, &stats);
        if (ready || (int)stats.partitions != share)
            continue;
        ready = true;
        page->ready++;
    }
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

static void on_value(void *page, const char *value, size_t n)
{
    sample(page, value, n);
}

static void bare_member(const work *w, const char *key, crew_page *page)
{
    static raw_reader g;
    raw *r = raw_open(w->socket);
    int n = r && raw_reader_start(&g, r, key, "crew", "c", 50) ? 0 : -1;
    page->ready++;
    while (n >= 0 && !page->stop) {
        n = raw_reader_next(&g, true, on_value, page);
        if (n > 0)
            count(page, n);
    }
    raw_close(r);
}

/* ---- from outside ----------------------------------------------------- */

static bool open_page(crew *c)
{
    *c = (crew){ 0 };
    void *p = mmap(NULL, sizeof *c->page, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    c->page = p == MAP_FAILED ? NULL : p;
    return c->page != NULL;
}

/* True in the new process, which ends with its parent. */
static bool enter(crew *c)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return true;
    }
    if (pid > 0)
        c->pid[c->n++] = pid;
    return false;
}

static bool await_ready(const crew *c)
{
    int64_t give_up = bench_now_ns() + WAIT_S * INT64_C(1000000000);
    while (c->page->ready < c->n && bench_now_ns() < give_up)
        nap();
    if (c->page->ready < c->n)
        fprintf(stderr, "%d of %d consumers are ready\n", c->page->ready, c->n);
    return c->n > 0 && c->page->ready == c->n;
}

bool crew_start(crew *c, const work *w, const char *topic, int partitions,
                int n)
{
    if (!open_page(c))
        return false;
    for (int i = 0; i < n; i++)
        if (enter(c)) {
            member(w, topic, partitions, partitions / n, c->page);
            _exit(0);
        }
    return await_ready(c);
}

bool crew_start_raw(crew *c, const work *w, const char *key)
{
    if (!open_page(c))
        return false;
    redis_int(w->server, "XGROUP CREATE %s crew $ MKSTREAM", key);
    if (enter(c)) {
        bare_member(w, key, c->page);
        _exit(0);
    }
    return await_ready(c);
}

int64_t crew_await(const crew *c, int64_t settled)
{
    int64_t give_up = bench_now_ns() + WAIT_S * INT64_C(1000000000);
    while (c->page->settled < settled && bench_now_ns() < give_up)
        nap();
    return c->page->settled >= settled ? c->page->last_ns : -1;
}

void crew_stop(crew *c)
{
    if (!c->page)
        return;
    c->page->stop = true;
    for (int i = 0; i < c->n; i++)
        waitpid(c->pid[i], NULL, 0);
    munmap(c->page, sizeof *c->page);
    *c = (crew){ 0 };
}
