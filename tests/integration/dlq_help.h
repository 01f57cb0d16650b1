/*
 * dlq_help.h: dead letters in a test's words.
 *
 * They are made as a consumer makes them: a message is put into the log, and
 * move.lua, called by the owner of a lease, makes it a dead letter.  The lease
 * is given up afterwards, so that a real consumer may go on.
 */
#ifndef DLQ_HELP_H
#define DLQ_HELP_H

#include "redis/script.h"
#include "topic_help.h"

enum { BURY_AT_ONCE = 100, STEP_ARGS = 8, SAVE_ARGS = 13, IDS = 64 };

#define NONCE "0a000000000000000000000000000000"

typedef struct grave { /* what dies, and how */
    int partition;
    const char *group, *key, *body, *error;
    const char *extra; /* packed */
    int attempts, failures;
} grave;

static inline void part_key(char *out, size_t room, int partition,
                            const char *word, const char *group)
{
    snprintf(out, room, "leat:{t/%d}:%s%s%s", partition, word, group ? ":" : "",
             group ? group : "");
}

static inline leat_reply *ask(const leat_bytes *argv, size_t n)
{
    leat_reply *r = NULL;
    must(leat_client_call(client, argv, n, NULL, &r, err));
    return r;
}

#define ASK(...) ask(LEAT_ARGS(__VA_ARGS__))

static inline int64_t ask_int(const char *command, const char *key)
{
    leat_reply *r = ASK(leat_str(command), leat_str(key));
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

static inline int64_t length_of(int partition, const char *word)
{
    char key[128];
    part_key(key, sizeof key, partition, word, NULL);
    return ask_int("XLEN", key);
}

/* The encoded message as the tail of an XADD; its id is its body. */
static inline size_t encode(leat_fields *f, const grave *g, leat_bytes *out)
{
    leat_msg m = { .id = leat_str(g->body),
                   .key = leat_str(g->key),
                   .time_ms = 1,
                   .body = leat_str(g->body) };
    leat_fields_clear(f);
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    size_t n = 2 * leat_fields_count(f);
    memcpy(out, leat_fields_pairs(f), n * sizeof *out);
    return n;
}

/* Into the log; the id to out. */
static inline void log_message(const grave *g, char out[IDS])
{
    char key[128];
    leat_bytes argv[16] = { leat_str("XADD") };
    leat_fields *f = leat_fields_new(NULL);
    part_key(key, sizeof key, g->partition, "log", NULL);
    argv[1] = leat_str(key);
    argv[2] = leat_str("*");
    size_t n = encode(f, g, argv + 3);
    leat_reply *r = ask(argv, 3 + n);
    leat_bytes id = leat_reply_bytes(r);
    assert_true(id.n < IDS);
    memcpy(out, id.p, id.n);
    out[id.n] = '\0';
    leat_reply_free(r);
    leat_fields_free(f);
}

static inline int64_t cursor_field(const char *key, const char *field)
{
    leat_reply *r = ASK(leat_str("HGET"), leat_str(key), leat_str(field));
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

/* n of them, already in the log under these ids, die at once. */
static inline void bury_logged(const grave *g, char (*ids)[IDS], int n)
{
    enum { KEYS = 11 };
    static const char *const words[KEYS] = { "lease",  "cur",    "log",
                                             "kept",   "due",    "lane",
                                             "dlq",    "bodies", "later",
                                             "laters", "since" };
    char keys[KEYS][128], text[BURY_AT_ONCE][3][24], q[24];
    leat_bytes key[KEYS], args[SAVE_ARGS + STEP_ARGS * BURY_AT_ONCE];
    for (int i = 0; i < KEYS; i++) {
        bool whole = i == 2 || i >= 6;
        part_key(keys[i], sizeof keys[i], g->partition, words[i],
                 whole ? NULL : g->group);
        key[i] = leat_str(keys[i]);
    }
    leat_reply_free(ASK(leat_str("HSET"), key[0], leat_str("o"),
                        leat_str(NONCE), leat_str("e"), leat_str("17")));
    int64_t step = cursor_field(keys[1], "k");
    snprintf(q, sizeof q, "%lld", (long long)cursor_field(keys[1], "q") + 1);
    const char *const save[SAVE_ARGS] = { NONCE,      "17",     q,   ids[n - 1],
                                          ids[n - 1], "",       "",  "",
                                          g->group,   "600000", "0", "255",
                                          "" };
    for (int i = 0; i < SAVE_ARGS; i++)
        args[i] = leat_str(save[i]);
    for (int i = 0; i < n; i++) {
        leat_bytes *a = args + SAVE_ARGS + STEP_ARGS * i;
        snprintf(text[i][0], 24, "%lld", (long long)step + 1 + i);
        snprintf(text[i][1], 24, "%d", g->attempts ? g->attempts : 5);
        snprintf(text[i][2], 24, "%d", g->attempts ? g->failures : 5);
        a[0] = leat_str(text[i][0]);
        a[1] = leat_str("dead");
        a[2] = leat_str(ids[i]);
        a[3] = leat_str(text[i][1]);
        a[4] = leat_str(text[i][2]);
        a[5] = leat_str("0");
        a[6] = leat_str(g->error ? g->error : "");
        a[7] = leat_str(g->extra ? g->extra : "");
    }
    const leat_reply *r = NULL;
    leat_conn *conn = lend(client);
    must(leat__script_call(conn, &leat__script_topic_move, key, KEYS, args,
                           (size_t)(SAVE_ARGS + STEP_ARGS * n), &r, err));
    assert_true(
        leat_bytes_eq(leat_reply_bytes(leat_reply_at(r, 0)), leat_str("1")));
    leat_client_return(client, conn);
    leat_reply_free(ASK(leat_str("DEL"), key[0]));
}

/* The newest dead letter of the partition. */
static inline void newest_dead(int partition, char out[LEAT_DEAD_ID])
{
    char key[128];
    part_key(key, sizeof key, partition, "dlq", NULL);
    leat_reply *r = ASK(leat_str("XREVRANGE"), leat_str(key), leat_str("+"),
                        leat_str("-"), leat_str("COUNT"), leat_str("1"));
    leat_bytes id = leat_reply_bytes(leat_reply_at(leat_reply_at(r, 0), 0));
    snprintf(out, LEAT_DEAD_ID, "%d:%.*s", partition, (int)id.n,
             (const char *)id.p);
    leat_reply_free(r);
}

/* One dies; its name to out, unless NULL. */
static inline void bury(grave g, char out[LEAT_DEAD_ID])
{
    char ids[1][IDS];
    g.group = g.group ? g.group : "g";
    log_message(&g, ids[0]);
    bury_logged(&g, ids, 1);
    if (out)
        newest_dead(g.partition, out);
}

/* n die whose bodies are "0", "1", ... */
static inline void bury_many(grave g, int from, int n)
{
    char ids[BURY_AT_ONCE][IDS], body[16];
    g.group = g.group ? g.group : "g";
    for (int i = 0; i < n;) {
        int k = 0;
        for (; k < BURY_AT_ONCE && i < n; k++, i++) {
            snprintf(body, sizeof body, "%d", from + i);
            g.body = body;
            log_message(&g, ids[k]);
        }
        bury_logged(&g, ids, k);
    }
}

static inline leat_dlq *dlq_of(const leat_dlq_opts *o)
{
    leat_error e = { 0 };
    leat_dlq *d = leat_dlq_open(client, "t", o, &e);
    if (!d)
        fail_msg("cannot open the dead letters: %s", e.msg);
    return d;
}

/* Those of a test, of a topic "t" that is made for it. */
static __attribute__((unused)) leat_dlq *dlq;

/* The topic was made anew, and the handle is of the one before. */
static inline __attribute__((unused)) void reopen_dlq(void)
{
    leat_dlq_close(dlq);
    dlq = dlq_of(NULL);
}

static inline void make_dlq(int partitions)
{
    must(leat_topic_create(
        client, "t", &(leat_topic_spec){ .partitions = partitions }, err));
    dlq = dlq_of(NULL);
}

static inline int close_dlq(void **state)
{
    leat_dlq_close(dlq);
    return close_one(state);
}

static inline leat_dead *dead_of(leat_dlq *d, const char *id)
{
    leat_error e = { 0 };
    leat_dead *x = leat_dlq_get(d, id, &e);
    if (!x)
        fail_msg("no dead letter %s: %s", id, e.msg);
    return x;
}

#define assert_bytes(b, text)                                                  \
    do {                                                                       \
        leat_bytes text_ = (b);                                                \
        assert_int_equal(text_.n, strlen(text));                               \
        assert_memory_equal(text_.p, text, text_.n);                           \
    } while (0)

#endif
