/* facts.c: what is seen of a server, and which server is refused. */
#include "redis/facts.h"
#include "support/badredis.h"
#include "support/leat.h"

static void a_server_is_seen_as_it_is(void **state)
{
    char url[256];
    leat_server f;
    (void)state;
    redis_server *s = redis_start(
        &(redis_opts){ .aof = REDIS_AOF_ALWAYS, .maxmemory = 50 << 20 });
    leat_client *c = open_client(redis_url(s, url, sizeof url), NULL);
    must(leat_client_server(c, &f, err));
    char version[64];
    snprintf(version, sizeof version, "%d.%d.%d", f.major, f.minor, f.patch);
    assert_string_equal(version, f.version);
    assert_true(f.major >= 6);
    assert_string_equal(f.role, "master");
    assert_string_equal(f.maxmemory_policy, "noeviction");
    assert_int_equal(f.maxmemory, 50 << 20);
    assert_true(f.used_memory > 0);
    assert_true(f.aof);
    assert_string_equal(f.appendfsync, "always");
    assert_int_equal(f.protocol, 3);
    assert_true(f.has_scripts);
    assert_in_range(f.clock_skew_ms + 1000, 0, 2000);
    leat_client_close(c);
    redis_stop(s);
}

static void an_evicting_server_is_refused_unless_allowed(void **state)
{
    static const char *const lru[] = { "maxmemory-policy allkeys-lru", NULL };
    char url[256];
    leat_error e = { 0 };
    (void)state;
    redis_server *s = redis_start(&(redis_opts){ .config = lru });
    redis_url(s, url, sizeof url);
    assert_null(leat_client_open(url, NULL, &e));
    assert_code(e.code, LEAT_EUNSAFE);
    assert_non_null(strstr(e.msg, "allkeys-lru"));
    assert_non_null(strstr(e.msg, "noeviction"));
    leat_client *c = open_client(url,
                                 &(leat_client_opts){ .allow_eviction = true });
    leat_client_close(c);
    redis_stop(s);
}

/* The server forbids CONFIG; INFO tells all the same. */
static void eviction_is_seen_where_config_is_forbidden(void **state)
{
    static const char *const lru[] = { "maxmemory-policy volatile-lru", NULL };
    static const char *const users[] = { "app on >pw ~* +@all -config", NULL };
    char url[256];
    leat_error e = { 0 };
    (void)state;
    redis_server *s = redis_start(
        &(redis_opts){ .config = lru, .users = users });
    redis_url(s, url, sizeof url);
    assert_null(leat_client_open(
        url, &(leat_client_opts){ .user = "app", .password = "pw" }, &e));
    assert_code(e.code, LEAT_EUNSAFE);
    redis_stop(s);
}

struct lines {
    int count;
    char all[2048];
};

static void collect(void *arg, leat_level level, const char *line)
{
    struct lines *l = arg;
    size_t n = strlen(l->all);
    (void)level;
    l->count++;
    snprintf(l->all + n, sizeof l->all - n, "%s\n", line);
}

static void a_forgetful_server_is_warned_of_once(void **state)
{
    char url[256];
    struct lines l = { 0 };
    (void)state;
    redis_server *s = redis_start(NULL);
    leat_client *c = open_client(
        redis_url(s, url, sizeof url),
        &(leat_client_opts){ .log = { collect, &l, 0 } });
    assert_int_equal(l.count, 1);
    assert_non_null(strstr(l.all, "appendonly"));
    leat_conn *a = lend(c), *b = lend(c);
    assert_int_equal(l.count, 1);
    leat_client_return(c, a);
    leat_client_return(c, b);
    leat_client_close(c);
    redis_stop(s);
}

static void a_command_the_acl_refuses_selects_the_fallback(void **state)
{
    static const char *const users[] = { "full on >pw ~* +@all",
                                         "less on >pw ~* +@all -xautoclaim",
                                         "blind on >pw ~* +@all -command -info",
                                         NULL };
    char url[256];
    leat_server f;
    (void)state;
    redis_server *s = redis_start(&(redis_opts){ .users = users });
    redis_url(s, url, sizeof url);
    leat_client *c = open_client(
        url, &(leat_client_opts){ .user = "full", .password = "pw" });
    must(leat_client_server(c, &f, err));
    assert_true(f.has_xautoclaim);
    leat_client_close(c);

    c = open_client(url,
                    &(leat_client_opts){ .user = "less", .password = "pw" });
    must(leat_client_server(c, &f, err));
    assert_false(f.has_xautoclaim);
    leat_client_close(c);

    c = open_client(url,
                    &(leat_client_opts){ .user = "blind", .password = "pw" });
    must(leat_client_server(c, &f, err));
    assert_false(f.has_xautoclaim);
    assert_string_equal(f.version, "");
    leat_client_close(c);
    redis_stop(s);
}

static void a_server_without_hello_is_spoken_to_in_resp2(void **state)
{
    static const badredis_reply old[] = {
        { "HELLO", "-ERR unknown command `HELLO`, with args beginning with: "
                   "`3`, \r\n" },
        { "EVALSHA", "$16\r\n1763200000000000\r\n" },
        { "XAUTOCLAIM", "-ERR unknown command `XAUTOCLAIM`\r\n" },
        { "COMMAND", "*2\r\n*-1\r\n*-1\r\n" },
        { NULL, NULL },
    };
    char url[64];
    leat_server f;
    (void)state;
    badredis *b = badredis_start(&(badredis_opts){
        .handshake = true, .replies = old, .rest = "+OK\r\n" });
    leat_client *c = open_client(badredis_url(b, url, sizeof url),
                                 &(leat_client_opts){ .password = "pw" });
    must(leat_client_server(c, &f, err));
    assert_int_equal(f.protocol, 2);
    assert_false(f.has_xautoclaim);
    assert_int_equal(badredis_count(b, "AUTH"), 1);
    assert_int_equal(badredis_count(b, "CLIENT"), 1);
    leat_client_close(c);
    badredis_stop(b);
}

/* B6: INFO says loading, for a while. */
static void a_loading_server_is_waited_for(void **state)
{
    char url[256];
    (void)state;
    /* Half a millisecond a command; it answers once in 1024 of them. */
    static const char *const slow[] = { "key-load-delay 500", NULL };
    redis_server *s = redis_start(&(redis_opts){
        .aof = REDIS_AOF_ALWAYS, .config = slow, .loading_is_ready = true });
    redis_url(s, url, sizeof url);
    redis_do(s, "EVAL %s 0", "for i=1,6000 do redis.call('SET','k'..i,i) end");
    redis_kill(s);
    assert_true(redis_restart(s));
    char text[128];
    wait_until(strstr(redis_text(s, text, sizeof text, "PING"), "LOADING"),
               2000);
    leat_client *c = open_client(
        url, &(leat_client_opts){ .connect_timeout_ms = 60000 });
    leat_server f;
    must(leat_client_server(c, &f, err));
    assert_false(f.loading);
    leat_reply *r;
    must(leat_client_call(c, LEAT_ARGS(leat_str("DBSIZE")), NULL, &r, err));
    assert_int_equal(leat_reply_int(r), 6000);
    leat_reply_free(r);
    leat_client_close(c);
    redis_stop(s);
}

static void info_is_read_whatever_it_looks_like(void **state)
{
    static const char *const texts[] = {
        "",
        "\r\n",
        ":",
        "redis_version",
        "redis_version:",
        "a:b:c\r\nrole:x",
        "redis_version:7\r\n",
        "redis_version:7.0.15-rc1.9.9.9.9.9.9.9.9.9.9.9.9",
        "maxmemory:99999999999999999999999999",
        "loading:\n\n\nloading:1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        leat_server f = { 0 };
        leat__facts_info(leat_str(texts[i]), &f);
        assert_false(leat__facts_evicts(&f));
    }
    leat_server f = { 0 };
    leat__facts_info(leat_str("# Server\nredis_version:6.2.1\nrole:slave\n"),
                     &f);
    assert_int_equal(f.minor, 2);
    assert_string_equal(f.role, "slave");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_seen_as_it_is),
        cmocka_unit_test(an_evicting_server_is_refused_unless_allowed),
        cmocka_unit_test(eviction_is_seen_where_config_is_forbidden),
        cmocka_unit_test(a_forgetful_server_is_warned_of_once),
        cmocka_unit_test(a_command_the_acl_refuses_selects_the_fallback),
        cmocka_unit_test(a_server_without_hello_is_spoken_to_in_resp2),
        cmocka_unit_test(a_loading_server_is_waited_for),
        cmocka_unit_test(info_is_read_whatever_it_looks_like),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
