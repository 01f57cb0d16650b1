/*
 * topic.h: what the parts of the topic bench share.
 *
 * Each part is one line of the table in topic.c, measures one thing and
 * returns whether every target was met.
 */
#ifndef BENCH_TOPIC_H
#define BENCH_TOPIC_H

#include "bench.h"
#include "raw.h"
#include "server.h"
#include "support/redis.h"
#include <leat/leat.h>

enum { WINDOW = 1024, BODY_MOST = 1024, BATCH = RAW_BATCH };

typedef struct work {
    redis_server *server;
    const char *socket;
    char url[256];
    const char *argv0;
    int payload;
    int count;
    int round; /* numbers the groups */
} work;

extern char bench_body[BODY_MOST];

bool topic_produce(work *w);
bool topic_consume(work *w);
bool topic_cycle(work *w);
bool topic_latency(work *w);
bool topic_members(work *w);
bool topic_aof(work *w);
bool topic_growth(work *w);
bool topic_memory(work *w);
bool topic_instructions(work *w);
bool topic_policies(work *w);
bool topic_waiting(work *w);
bool topic_trim(work *w);

/* ---- produce: topic_produce.c ----------------------------------------- */

/* Publish n messages to the topic and wait for all outcomes. */
bool produce(leat_topic *t, const work *w, int n);

/* The same as bare XADDs to this key. */
bool produce_raw(raw *r, const char *key, const work *w);

/* Both, from connecting on, to the topic "bench"; messages a second. */
double produce_rate(void *work);
double produce_raw_rate(void *work);

/* ---- consume: topic_consume.c ----------------------------------------- */

#define BACKLOG_MS UINT64_C(1700000000000)
#define LOG_KEY    "leat:{bench/0}:log"

/* Make the topic and fill each of its partitions with count entries of
 * w->payload bytes, copies of one message.  Entry i has the id
 * BACKLOG_MS + i / 100, i % 100. */
bool backlog(const work *w, const char *name, int partitions, int count);

/* Receive and acknowledge count messages, and wait for the outcomes.  *start_ns
 * becomes when the first came. */
bool consume(leat_source *s, int count, int64_t *start_ns);

/* The backlog of "bench", w->count messages, by a group of its own. */
double consume_rate(void *work);
double consume_raw_rate(void *work);

/* ---- what callgrind runs: topic_instructions.c ------------------------ */

int topic_work_main(const char *what, int n);

/* Some work for n messages on a new server, and how many instructions of it a
 * message takes; negative: failed. */
typedef bool topic_fn(work *w, int n);
double topic_server_cost(topic_fn *once);

/* What is done by those of topic_policies.c and topic_waiting.c. */
bool policies_work(leat_topic *t, const char *group, const char *what, int n);
bool waiting_fill(const work *w, const char *group);

/* What topic_memory.c runs to see what it needs. */
int topic_memory_main(const char *socket, const char *name, bool empty);

/* ---- common: topic.c -------------------------------------------------- */

/* Print and be false. */
bool complain(const leat_error *e);

leat_topic *open_topic(leat_client *c, const char *name, int partitions);
leat_client *open_client(const work *w);

#endif
