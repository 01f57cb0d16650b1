/* durability.c: which servers are refused, and what is said of them. */
#include "support/server.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG_MS = 60000 };

static int start(void **state)
{
    static const char *const users[] = { "noconfig on >pw ~* &* +@all -config",
                                         "noinfo on >pw ~* &* +@all -info",
                                         "nowait on >pw ~* &* +@all -wait",
                                         NULL };
    server_opts = (redis_opts){ .aof = REDIS_AOF_EVERYSEC, .users = users };
    return start_server(state);
}

/* From the side, and certainly done. */
static void set(const char *name, const char *value)
{
    char text[128];
    redis_text(server, text, sizeof text, "CONFIG SET %s %s", name, value);
    assert_string_equal(text, "OK");
}

static void append(const char *policy)
{
    set("appendonly", policy ? "yes" : "no");
    if (policy)
        set("appendfsync", policy);
}

static void refused_as(const char *user, leat_durability d, const char *words)
{
    leat_error e = { 0 };
    leat_client_opts o = { .durability = d, .user = user };
    o.password = user ? "pw" : NULL;
    leat_client *c = leat_client_open(url, &o, &e);
    if (c)
        fail_msg("'%s' is given", leat_durability_name(d));
    assert_code(e.code, LEAT_EUNSAFE);
    if (!strstr(e.msg, words) || !strstr(e.msg, leat_durability_name(d)))
        fail_msg("'%s' lacks '%s'", e.msg, words);
    assert_false(e.retriable);
}

static void refused(leat_durability d, const char *words)
{
    refused_as(NULL, d, words);
}

static void given(leat_durability d)
{
    leat_durability_report r;
    leat_client *c = open_client(url, &(leat_client_opts){ .durability = d });
    must(leat_client_durability(c, &r, err));
    assert_int_equal(r.asked, d);
    assert_true(r.given >= d);
    leat_client_close(c);
}

static void each_policy_gives_its_class_and_no_more(void **state)
{
    (void)state;
    append(NULL);
    given(LEAT_EXECUTED);
    given(LEAT_OUTBOX);
    refused(LEAT_LOGGED, "set appendonly yes");
    refused(LEAT_SYNCED, "set appendonly yes");

    append("no");
    given(LEAT_EXECUTED);
    refused(LEAT_LOGGED, "set appendfsync everysec or always");

    append("everysec");
    given(LEAT_LOGGED);
    refused(LEAT_SYNCED, "appendfsync is everysec, set appendfsync always");
    refused(LEAT_REPLICATED, "set appendfsync always");

    append("always");
    given(LEAT_LOGGED);
    given(LEAT_SYNCED);
    refused(LEAT_REPLICATED, "set min-replicas-to-write 1");
    set("no-appendfsync-on-rewrite", "yes");
    given(LEAT_LOGGED);
    refused(LEAT_SYNCED, "set no-appendfsync-on-rewrite no");
    set("no-appendfsync-on-rewrite", "no");
    append("everysec");
}

/* Replicas that are not there now may come. */
static void missing_replicas_are_worth_another_try(void **state)
{
    leat_error e = { 0 };
    (void)state;
    append("always");
    set("min-replicas-to-write", "2");
    set("min-replicas-max-lag", "0");
    refused(LEAT_REPLICATED, "min-replicas-max-lag");
    set("min-replicas-max-lag", "10");
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .durability = LEAT_REPLICATED }, &e));
    assert_code(e.code, LEAT_EUNSAFE);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "0 of 1 replicas"));
    set("min-replicas-to-write", "0");
    append("everysec");
}

static void what_the_acl_hides_is_no_yes(void **state)
{
    leat_client_opts o = { .user = "noconfig", .password = "pw" };
    (void)state;
    append("always");
    refused_as("noconfig", LEAT_LOGGED, "allow +config|get");
    refused_as("noconfig", LEAT_SYNCED, "allow +config|get");
    refused_as("noinfo", LEAT_LOGGED, "allow +info");
    set("min-replicas-to-write", "1");
    refused_as("nowait", LEAT_REPLICATED, "allow +wait");
    set("min-replicas-to-write", "0");
    leat_client *c = open_client(url, &o);
    leat_durability_report r;
    must(leat_client_durability(c, &r, err));
    assert_int_equal(r.best, LEAT_EXECUTED);
    leat_client_close(c);
    append("everysec");
}

/* G2 */
static void eviction_is_refused_whatever_the_class(void **state)
{
    leat_error e = { 0 };
    (void)state;
    append("always");
    set("maxmemory-policy", "allkeys-lru");
    for (leat_durability d = LEAT_EXECUTED; d <= LEAT_OUTBOX; d++) {
        assert_null(
            leat_client_open(url, &(leat_client_opts){ .durability = d }, &e));
        assert_code(e.code, LEAT_EUNSAFE);
        assert_non_null(strstr(e.msg, "noeviction"));
    }
    leat_client *c = open_client(
        url, &(leat_client_opts){ .allow_eviction = true,
                                  .durability = LEAT_SYNCED });
    leat_client_close(c);
    set("maxmemory-policy", "noeviction");
    append("everysec");
}

static void the_url_asks_too(void **state)
{
    char with[300];
    leat_error e = { 0 };
    leat_durability_report r;
    (void)state;
    snprintf(with, sizeof with, "%s?durability=synced", url);
    assert_null(leat_client_open(with, NULL, &e));
    assert_code(e.code, LEAT_EUNSAFE);
    leat_client *c = open_client(with,
                                 &(leat_client_opts){ .allow_weak = true });
    must(leat_client_durability(c, &r, err));
    assert_int_equal(r.asked, LEAT_SYNCED);
    assert_int_equal(r.given, LEAT_LOGGED);
    assert_int_equal(r.forgets_ms, 2000);
    assert_non_null(strstr(r.lacks, "set appendfsync always"));
    leat_client_close(c);
    snprintf(with, sizeof with, "%s?replicas=2", url);
    assert_null(leat_client_open(with, NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "'replicated'"));
}

static void an_impossible_class_is_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .durability = (leat_durability)5 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_client_open(
        url,
        &(leat_client_opts){ .durability = LEAT_REPLICATED, .replicas = -1 },
        &e));
    assert_code(e.code, LEAT_EINVAL);
}

/* ---- servers that change ---------------------------------------------- */

struct lines {
    atomic_int warnings, infos;
};

static void collect(void *arg, leat_level level, const char *line)
{
    struct lines *l = arg;
    if (level == LEAT_LOG_WARN && strstr(line, "is not given"))
        atomic_fetch_add(&l->warnings, 1);
    if (level == LEAT_LOG_INFO && strstr(line, "keeps what was asked for"))
        atomic_fetch_add(&l->infos, 1);
}

static leat_code ping(leat_client *c, int64_t timeout_ms, leat_error *err)
{
    return leat_client_call(
        c, LEAT_ARGS(leat_str("PING")),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = timeout_ms }, NULL,
        err);
}

/* It is never let through; on a slow machine a try may fail otherwise. */
static void refused_later(leat_client *c, leat_error *e)
{
    int64_t end = wait_now_ms() + LONG_MS;
    leat_code rc = ping(c, 500, e);
    while (rc != LEAT_EUNSAFE && rc != LEAT_OK && wait_now_ms() < end)
        rc = ping(c, 500, e);
    assert_code(rc, LEAT_EUNSAFE);
    assert_true(e->retriable);
}

/* An open client goes on when the server is good again, and says so. */
static void a_server_that_became_weaker_is_refused_until_set_right(void **state)
{
    struct lines l = { 0 };
    leat_error e = { 0 };
    (void)state;
    append("always");
    leat_client *c = open_client(
        url, &(leat_client_opts){ .durability = LEAT_SYNCED,
                                  .log = { collect, &l, LEAT_LOG_INFO } });
    must(ping(c, LONG_MS, err));
    append("everysec");
    redis_do(server, "CLIENT KILL TYPE normal");
    refused_later(c, &e);
    assert_non_null(strstr(e.msg, "set appendfsync always"));
    refused_later(c, &e);
    assert_int_equal(l.warnings, 1);
    append("always");
    must(ping(c, LONG_MS, err));
    assert_int_equal(l.warnings, 1);
    assert_int_equal(l.infos, 1);
    leat_client_close(c);
    append("everysec");
}

static void write_settings(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* B10 */
static void
a_restart_without_the_log_or_with_snapshots_only_is_refused(void **state)
{
    char dir[] = "/tmp/leat-durability-XXXXXX", path[64], line[96], at[256];
    static const char *const weak[] = { "appendonly no\n",
                                        "appendonly no\nsave 3600 1\n" };
    const char *config[] = { line, NULL };
    leat_error e = { 0 };
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/more.conf", dir);
    snprintf(line, sizeof line, "include %s", path);
    write_settings(path, "appendonly yes\nappendfsync everysec\n");
    redis_server *s = redis_start(&(redis_opts){ .config = config });
    assert_non_null(s);
    leat_client_opts o = { .durability = LEAT_LOGGED };
    leat_client *c = open_client(redis_url(s, at, sizeof at), &o);
    for (size_t i = 0; i < 2; i++) {
        write_settings(path, weak[i]);
        assert_true(redis_restart(s));
        refused_later(c, &e);
        assert_null(leat_client_open(at, &o, &e));
        assert_code(e.code, LEAT_EUNSAFE);
        assert_non_null(strstr(e.msg, "set appendonly yes"));
        leat_client *other = open_client(at, NULL); /* who does not ask */
        leat_durability_report r;
        must(leat_client_durability(other, &r, err));
        assert_non_null(
            strstr(r.means, i == 0 ? "everything" : "last snapshot"));
        leat_client_close(other);
    }
    write_settings(path, "appendonly yes\nappendfsync everysec\n");
    assert_true(redis_restart(s));
    must(ping(c, LONG_MS, err));
    leat_client_close(c);
    redis_stop(s);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy_gives_its_class_and_no_more),
        cmocka_unit_test(missing_replicas_are_worth_another_try),
        cmocka_unit_test(what_the_acl_hides_is_no_yes),
        cmocka_unit_test(eviction_is_refused_whatever_the_class),
        cmocka_unit_test(the_url_asks_too),
        cmocka_unit_test(an_impossible_class_is_refused),
        cmocka_unit_test(
            a_server_that_became_weaker_is_refused_until_set_right),
        cmocka_unit_test(
            a_restart_without_the_log_or_with_snapshots_only_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop_server);
}
