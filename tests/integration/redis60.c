/*
 * redis60.c: told to do with Redis 6.0, the library sends nothing newer.
 *
 * Everything it can do with Redis is done once.  What it sends is seen twice:
 * the bytes that leave, through the system table, because MONITOR hides HELLO
 * and CONFIG; and MONITOR, for what scripts call.
 */
#include "support/redis60.h"
#include "redis/script.h"
#include "redis/waker.h"
#include "support/leat.h"

#include <pthread.h>
#include <stdlib.h>

enum { FDS = 1024, WORDS = 64, MAX_SEEN = 4096 };

static redis_server *server;
static redis60 *table;
static char url[256];

/* ---- what was seen ---------------------------------------------------- */

struct seen {
    size_t argc;
    char *argv[WORDS];
};

static struct seen seen[MAX_SEEN];
static size_t count;

static struct seen *next_seen(void)
{
    assert_true(count < MAX_SEEN);
    return &seen[count++];
}

static void add_word(struct seen *s, const char *p, size_t n)
{
    assert_true(s->argc < WORDS);
    s->argv[s->argc++] = strndup(p, n);
}

static void forget(void)
{
    while (count > 0) {
        struct seen *s = &seen[--count];
        while (s->argc > 0)
            free(s->argv[--s->argc]);
    }
}

static bool was_seen(const char *name, const char *word)
{
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(seen[i].argv[0], name) != 0)
            continue;
        for (size_t k = 1; word && k < seen[i].argc; k++)
            if (strcasecmp(seen[i].argv[k], word) == 0)
                return true;
        if (!word)
            return true;
    }
    return false;
}

/* How many of them 6.0 does not know; why is the last complaint. */
static int newer(char *why, size_t room)
{
    int n = 0;
    for (size_t i = 0; i < count; i++)
        n += !redis60_knows(table, seen[i].argc,
                            (const char *const *)seen[i].argv, why, room);
    return n;
}

/* ---- the bytes that leave --------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    leat_system sys;
    struct {
        char *p;
        size_t n;
    } out[FDS]; /* of all connections that had this descriptor, in turn */
} tap = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ssize_t tap_sendv(void *arg, int fd, const struct iovec *v, int n)
{
    const leat_system *os = leat_system_default();
    ssize_t sent = os->sendv(arg, fd, v, n);
    pthread_mutex_lock(&tap.lock);
    size_t left = sent > 0 && fd < FDS ? (size_t)sent : 0;
    for (int i = 0; i < n && left > 0; i++) {
        size_t part = v[i].iov_len < left ? v[i].iov_len : left;
        tap.out[fd].p = realloc(tap.out[fd].p, tap.out[fd].n + part + 1);
        memcpy(tap.out[fd].p + tap.out[fd].n, v[i].iov_base, part);
        tap.out[fd].n += part;
        tap.out[fd].p[tap.out[fd].n] = '\0';
        left -= part;
    }
    pthread_mutex_unlock(&tap.lock);
    return sent;
}

static void tap_on(void)
{
    tap.sys = *leat_system_default();
    tap.sys.sendv = tap_sendv;
    leat_system_set(&tap.sys);
}

/* A number behind its mark, "*3\r\n"; the place behind it. */
static const char *header(const char *p, char mark, size_t *n)
{
    char *end;
    assert_int_equal(*p, mark);
    *n = strtoul(p + 1, &end, 10);
    assert_memory_equal(end, "\r\n", 2);
    return end + 2;
}

static void tap_off(void)
{
    leat_system_set(NULL);
    for (int fd = 0; fd < FDS; fd++) {
        const char *p = tap.out[fd].p, *stop = p + tap.out[fd].n;
        while (p && p < stop) {
            size_t words, size;
            struct seen *s = next_seen();
            for (p = header(p, '*', &words); words > 0; words--) {
                p = header(p, '$', &size);
                add_word(s, p, size);
                p += size + 2;
            }
        }
        free(tap.out[fd].p);
        tap.out[fd].p = NULL;
        tap.out[fd].n = 0;
    }
}

/* ---- MONITOR ---------------------------------------------------------- */

static redisContext *monitor_on(void)
{
    redisContext *m = redisConnectUnix(redis_socket(server));
    assert_non_null(m);
    freeReplyObject(redisCommand(m, "MONITOR"));
    return m;
}

/* One line: `1700000000.1 [0 lua] "TIME"`; escapes do not matter here, save
 * for the quote. */
static void take_line(const char *line)
{
    struct seen *s = NULL;
    const char *p = strstr(line, "] \"");
    assert_non_null(p);
    for (p += 2; *p == '"'; p += *p == ' ') {
        const char *start = ++p;
        while (*p && *p != '"')
            p += *p == '\\' && p[1] ? 2 : 1;
        s = s ? s : next_seen();
        add_word(s, start, (size_t)(p - start));
        p += *p == '"';
    }
}

/* Everything up to an ECHO of our own. */
static void monitor_off(redisContext *m)
{
    bool end = false;
    freeReplyObject(redis_raw(server, "ECHO end-of-monitor"));
    while (!end) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(m, (void **)&r), REDIS_OK);
        end = strstr(r->str, "end-of-monitor") != NULL;
        if (!end)
            take_line(r->str);
        freeReplyObject(r);
    }
    redisFree(m);
}

/* ---- the whole surface ------------------------------------------------ */

static void ignore_push(void *arg, leat_bytes channel, leat_bytes payload)
{
    (void)arg, (void)channel, (void)payload;
}

static void pipeline(leat_conn *conn)
{
    for (int i = 0; i < 20; i++)
        must(leat_conn_send(conn,
                            LEAT_ARGS(leat_str("XADD"), leat_str("log"),
                                      leat_str("*"), leat_str("a"),
                                      leat_str("b")),
                            NULL, err));
    must(leat_conn_drain(conn, 0, err));
}

static void transaction(leat_conn *conn)
{
    leat_bytes key = leat_str("watched");
    must(leat_conn_watch(conn, &key, 1, err));
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), key), NULL, err));
    must(leat_conn_exec(conn, err));
    must(leat_conn_begin(conn, err));
    must(leat_conn_discard(conn, err));
}

/* Each compiled script with no keys: whatever it answers, it has run. */
static void scripts(leat_conn *conn)
{
    freeReplyObject(redis_raw(server, "SCRIPT FLUSH"));
    for (const leat__script *const *s = leat__scripts; *s; s++)
        (void)leat__script_call(conn, *s, NULL, 0, NULL, 0, NULL, NULL);
}

static void pubsub(leat_conn *conn)
{
    leat_bytes name = leat_str("news"), all = leat_str("new*");
    leat_conn_on_push(conn, ignore_push, NULL);
    must(leat_conn_subscribe(conn, false, &name, 1, err));
    must(leat_conn_subscribe(conn, true, &all, 1, err));
    assert_int_equal(redis_int(server, "PUBLISH news x"), 2);
    must(leat_conn_listen(conn, 5000, err));
    must(leat_conn_unsubscribe(conn, true, &all, 1, err));
    must(leat_conn_unsubscribe(conn, false, &name, 1, err));
}

static void waker(leat_client *c)
{
    leat_error e;
    leat__waker *w = leat__client_waker(c, &e);
    leat__waiter *q = w ? leat__waiter_open(w, leat_str("bell"), &e) : NULL;
    assert_non_null(q);
    assert_true(leat__waiter_wait(q, 5000));
    leat__waiter_close(q);
}

static void everything(const leat_client_opts *opts)
{
    leat_client *c = open_client(url, opts);
    leat_conn *conn = lend(c);
    leat_reply *r = NULL;
    pipeline(conn);
    transaction(conn);
    scripts(conn);
    pubsub(conn);
    leat_client_return(c, conn);
    must(leat_client_call(c, LEAT_ARGS(leat_str("XLEN"), leat_str("log")),
                          &(leat_call_opts){ .idempotent = true }, &r, err));
    leat_reply_free(r);
    waker(c);
    leat_client_close(c);
}

static void record(const leat_client_opts *opts)
{
    redisContext *m = monitor_on();
    tap_on();
    everything(opts);
    tap_off();
    monitor_off(m);
}

/* ---- the promises ----------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    static const char *const users[] = { "billing on >secret ~* &* +@all",
                                         NULL };
    server = redis_start(&(redis_opts){ .users = users });
    table = redis60_open(REDIS60_TABLE);
    if (!server || !table)
        return -1;
    redis_url(server, url, sizeof url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis60_close(table);
    redis_stop(server);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    forget();
    return redis_flush(server) ? 0 : -1;
}

static void nothing_newer_is_sent_to_a_redis_6_0(void **state)
{
    static const leat_client_opts opts[] = {
        { .as_redis_6_0 = true },
        { .as_redis_6_0 = true, .resp2 = true },
        { .as_redis_6_0 = true, .user = "billing", .password = "secret" },
        { .as_redis_6_0 = true,
          .resp2 = true,
          .user = "billing",
          .password = "secret" },
    };
    char why[256] = "";
    (void)state;
    for (size_t i = 0; i < sizeof opts / sizeof opts[0]; i++)
        record(&opts[i]);
    print_message("# %d commands\n", (int)count);
    if (newer(why, sizeof why) != 0)
        fail_msg("%s", why);
}

static void the_recording_misses_nothing(void **state)
{
    static const char *const words[][2] = {
        { "HELLO", "3" },         { "CONFIG", "GET" },
        { "EVALSHA", NULL },      { "EVAL", NULL },
        { "TIME", NULL },         { "MULTI", NULL },
        { "EXEC", NULL },         { "WATCH", "watched" },
        { "XADD", "log" },        { "SUBSCRIBE", NULL },
        { "PSUBSCRIBE", "new*" }, { "XLEN", "log" },
        { "INFO", NULL },         { "DISCARD", NULL },
        { "SUBSCRIBE", "bell" },
    };
    (void)state;
    record(&(leat_client_opts){ .as_redis_6_0 = true });
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!was_seen(words[i][0], words[i][1]))
            fail_msg("%s %s was not seen", words[i][0],
                     words[i][1] ? words[i][1] : "");
}

static void what_is_newer_is_caught(void **state)
{
    char why[256] = "";
    (void)state;
    record(NULL);
    assert_true(newer(why, sizeof why) > 0);
    assert_true(was_seen("XAUTOCLAIM", NULL));
    assert_string_equal(why, "XAUTOCLAIM is not in 6.0");
}

/* From a script and from C, through both recordings. */
static void planted_commands_are_caught(void **state)
{
    static const leat__script claim = {
        "tests/claim", "ca1cf84a0a85516a49b1b563d0cd2315e658bca8",
        "return redis.pcall('xpending', 's', 'g', 'idle', 1, '-', '+', 1)", 64
    };
    char why[256] = "";
    (void)state;
    redisContext *m = monitor_on();
    tap_on();
    leat_client *c = open_client(url,
                                 &(leat_client_opts){ .as_redis_6_0 = true });
    leat_conn *conn = lend(c);
    freeReplyObject(redis_raw(server, "XGROUP CREATE s g $ MKSTREAM"));
    (void)leat__script_call(conn, &claim, NULL, 0, NULL, 0, NULL, NULL);
    leat_client_return(c, conn);
    leat_client_close(c);
    tap_off();
    monitor_off(m);
    assert_int_equal(newer(why, sizeof why), 1);
    assert_string_equal(why, "xpending idle is not in 6.0");
}

static void the_table_is_read_as_it_is_written(void **state)
{
    static const char *const bad[][6] = {
        { "XAUTOCLAIM", "s" },         { "lpop", "l", "2" },
        { "xadd", "s", "5-*" },        { "XRANGE", "s", "(1", "+" },
        { "config", "get", "a", "b" }, { "XGROUP", "CREATECONSUMER", "s" },
        { "SET", "k", "v", "get" },    { "COMMAND", "DOCS" },
    };
    static const char *const good[][6] = {
        { "LPOP", "l" },
        { "xadd", "s", "*", "a", "b" },
        { "COMMAND" },
        { "command", "info", "x" },
        { "SET", "k", "v", "PX", "5" },
    };
    char why[256];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t n = 0;
        while (n < 6 && bad[i][n])
            n++;
        if (redis60_knows(table, n, bad[i], why, sizeof why))
            fail_msg("%s was let through", bad[i][0]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t n = 0;
        while (n < 6 && good[i][n])
            n++;
        if (!redis60_knows(table, n, good[i], why, sizeof why))
            fail_msg("%s", why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_table_is_read_as_it_is_written, empty),
        cmocka_unit_test_setup(nothing_newer_is_sent_to_a_redis_6_0, empty),
        cmocka_unit_test_setup(the_recording_misses_nothing, empty),
        cmocka_unit_test_setup(what_is_newer_is_caught, empty),
        cmocka_unit_test_setup(planted_commands_are_caught, empty),
    };
    int failed = cmocka_run_group_tests(tests, start, stop);
    forget();
    return failed;
}
