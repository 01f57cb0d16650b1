/* url.c: what a URL means, what is refused and how, and that no message ever
 * shows a password. */
#include "redis/url.h"
#include "base/mem.h"
#include <leat/system.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static leat__url parse(const char *text)
{
    leat__url u;
    leat_error err = { 0 };
    if (leat__url_parse(&u, leat_str(text), &err) != LEAT_OK)
        fail_msg("'%s' is refused: %s", text, err.msg);
    return u;
}

/* The text is refused, and the message says so in these words. */
static void refused(const char *text, const char *words)
{
    leat__url u;
    leat_error err = { 0 };
    if (leat__url_parse(&u, leat_str(text), &err) != LEAT_EINVAL)
        fail_msg("'%s' is accepted", text);
    assert_int_equal(err.code, LEAT_EINVAL);
    assert_false(err.retriable);
    if (!strstr(err.msg, words))
        fail_msg("'%s': '%s' lacks '%s'", text, err.msg, words);
}

static void prints(const char *text, const char *expected)
{
    leat__url u = parse(text);
    leat__buf b = { 0 };
    assert_int_equal(leat__url_print(&u, &b, NULL), LEAT_OK);
    assert_int_equal(leat__buf_add(&b, "", 1, NULL), LEAT_OK);
    assert_string_equal(b.p, expected);
    leat__buf_release(&b);
    leat__url_release(&u);
}

static void a_plain_url_names_one_host(void **state)
{
    (void)state;
    leat__url u = parse("redis://example.org");
    assert_int_equal(u.kind, LEAT__URL_TCP);
    assert_false(u.tls);
    assert_int_equal(u.host_count, 1);
    assert_string_equal(u.hosts[0].name, "example.org");
    assert_int_equal(u.hosts[0].port, 6379);
    assert_int_equal(u.db, 0);
    assert_false(u.has_db);
    assert_null(u.user);
    assert_null(u.password);
    leat__url_release(&u);
}

static void every_part_is_read_and_decoded(void **state)
{
    (void)state;
    leat__url u = parse(
        "rediss://us%40er:p%2Fa:s%20s@h-1.x:7000/15?client_name="
        "a-b&timeout=5s&connect_timeout=500ms&protocol=3&"
        "pool_size=4&cafile=/etc/ca.pem&cadir=/etc/ca&cert=c&"
        "key=k&insecure=true");
    assert_true(u.tls);
    assert_string_equal(u.user, "us@er");
    assert_string_equal(u.password, "p/a:s s");
    assert_string_equal(u.hosts[0].name, "h-1.x");
    assert_int_equal(u.hosts[0].port, 7000);
    assert_int_equal(u.db, 15);
    assert_string_equal(u.client_name, "a-b");
    assert_int_equal(u.timeout_ms, 5000);
    assert_int_equal(u.connect_timeout_ms, 500);
    assert_int_equal(u.protocol, 3);
    assert_int_equal(u.pool_size, 4);
    assert_string_equal(u.cafile, "/etc/ca.pem");
    assert_string_equal(u.cadir, "/etc/ca");
    assert_string_equal(u.cert, "c");
    assert_string_equal(u.key, "k");
    assert_true(u.insecure);
    leat__url_release(&u);
}

static void a_password_needs_no_user_and_may_be_a_parameter(void **state)
{
    (void)state;
    leat__url u = parse("REDIS://:pw@h/");
    assert_null(u.user);
    assert_string_equal(u.password, "pw");
    leat__url_release(&u);
    u = parse("unix:///run/redis.sock?db=2&user=me&password=p%26w");
    assert_string_equal(u.user, "me");
    assert_string_equal(u.password, "p&w");
    leat__url_release(&u);
    u = parse("redis://me@h:1?timeout=250");
    assert_string_equal(u.user, "me");
    assert_null(u.password);
    assert_int_equal(u.timeout_ms, 250);
    leat__url_release(&u);
}

static void a_socket_has_a_path_and_no_host(void **state)
{
    static const char *const aliases[] = { "unix", "redis+unix",
                                           "redis+socket" };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s:///run/my%%20redis.sock?db=3",
                 aliases[i]);
        leat__url u = parse(text);
        assert_int_equal(u.kind, LEAT__URL_UNIX);
        assert_string_equal(u.path, "/run/my redis.sock");
        assert_int_equal(u.db, 3);
        assert_int_equal(u.host_count, 0);
        leat__url_release(&u);
    }
}

static void sentinels_and_clusters_name_several_hosts(void **state)
{
    (void)state;
    leat__url u = parse("redis+sentinel://u:p@h1,h2:1234,[::1]/mymaster/2");
    assert_int_equal(u.kind, LEAT__URL_SENTINEL);
    assert_int_equal(u.host_count, 3);
    assert_int_equal(u.hosts[0].port, 26379);
    assert_int_equal(u.hosts[1].port, 1234);
    assert_string_equal(u.hosts[2].name, "::1");
    assert_string_equal(u.service, "mymaster");
    assert_int_equal(u.db, 2);
    leat__url_release(&u);

    u = parse("rediss+cluster://h1,h2:7001/0");
    assert_int_equal(u.kind, LEAT__URL_CLUSTER);
    assert_true(u.tls);
    assert_int_equal(u.hosts[0].port, 6379);
    assert_int_equal(u.hosts[1].port, 7001);
    leat__url_release(&u);
}

static void an_embedded_server_has_a_directory_or_the_usual_one(void **state)
{
    (void)state;
    leat__url u = parse("embedded:");
    assert_int_equal(u.kind, LEAT__URL_EMBEDDED);
    assert_null(u.path);
    leat__url_release(&u);
    u = parse("embedded:?db=1");
    assert_null(u.path);
    assert_int_equal(u.db, 1);
    leat__url_release(&u);
    u = parse("embedded:///var/lib/x");
    assert_string_equal(u.path, "/var/lib/x");
    leat__url_release(&u);
}

static void the_normal_form_is_stable_and_hides_the_password(void **state)
{
    (void)state;
    prints("redis://h", "redis://h:6379");
    prints("Redis://u:geheim@h:1/4?timeout=2s",
           "redis://u:***@h:1/4?timeout=2000ms");
    prints("redis://h/0?password=geheim", "redis://:***@h:6379");
    prints("redis+unix:///a%20b?db=7", "unix:///a%20b?db=7");
    prints("unix://u:geheim@/a", "unix://u:***@/a");
    prints("redis://[fe80::1%25eth0]:1", "redis://[fe80::1%25eth0]:1");
    prints("redis+sentinel://a/m?sentinel_password=x&sentinel_user=e%26v",
           "redis+sentinel://a:26379/m?sentinel_user=e%26v&"
           "sentinel_password=***");
    prints("redis://h/?allow_eviction=1", "redis://h:6379?allow_eviction=true");
    prints("redis://h/?allow_eviction=false", "redis://h:6379");
    prints("rediss+sentinel://a,b:1/m%2Fx/3?insecure=1",
           "rediss+sentinel://a:26379,b:1/m%2Fx/3?insecure=true");
    prints("redis+cluster://a,b", "redis+cluster://a:6379,b:6379");
    prints("embedded:", "embedded:");
    prints("embedded:?db=3&protocol=2", "embedded:?db=3&protocol=2");
    prints("embedded:///d", "embedded:///d");
    prints("redis://h?replicas=2&durability=3",
           "redis://h:6379?durability=replicated&replicas=2");
    prints("redis://h?durability=executed", "redis://h:6379");
}

static void what_is_wrong_is_said_part_by_part(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "", "empty" },
        { "localhost:6379", "no known scheme" },
        { "localhost", "no known scheme" },
        { "rediz://h", "did you mean redis://" },
        { "http://h", "no known scheme" },
        { "redis:/h", "'//' is expected behind redis:" },
        { "redis:h", "'//' is expected behind redis:" },
        { "redis:6379", "'//' is expected behind redis:" },
        { "unix:/run/x", "unix:///path" },
        { "unix://run/x", "three slashes" },
        { "unix:///", "path of the socket is missing" },
        { "unix://", "path of the socket is missing" },
        { "embedded:dir", "embedded:///directory" },
        { "embedded://dir", "three slashes" },
        { "embedded:///", "no directory" },
        { "embedded://u:p@/d", "no user" },
        { "embedded:?password=p", "no user" },
        { "redis://", "host 1 is empty" },
        { "redis:///0", "host 1 is empty" },
        { "redis://:6379", "host 1 is empty" },
        { "redis://u:p@", "host 1 is empty" },
        { "redis://h:0", "1 to 65535" },
        { "redis://h:65536", "1 to 65535" },
        { "redis://h:", "1 to 65535" },
        { "redis://h:+1", "1 to 65535" },
        { "redis://h:99999999999999999999", "1 to 65535" },
        { "redis://::1", "brackets" },
        { "redis://[::1", "[::1]" },
        { "redis://[::g]", "[::1]" },
        { "redis://[::1]6379", "behind ']'" },
        { "redis://[::1]:0", "1 to 65535" },
        { "redis://[]", "[::1]" },
        { "redis://h%41", "letters, digits" },
        { "redis://h;x", "letters, digits" },
        { "redis://a,b", "redis+cluster://" },
        { "redis+cluster://a,,b", "host 2 is empty" },
        { "redis+cluster://a/1", "only database 0" },
        { "redis+sentinel://a", "service name is missing" },
        { "redis+sentinel://a//1", "service name is missing" },
        { "redis+sentinel://a/m/x", "0 to 16383" },
        { "redis://h?sentinel_user=u", "belongs to redis+sentinel://" },
        { "redis+cluster://h?sentinel_password=p", "belongs to redis+sent" },
        { "redis+sentinel://a/m?sentinel_password=", "is empty" },
        { "redis+sentinel://a/m?sentinel_user=u&sentinel_user=v", "twice" },
        { "redis://h/16384", "0 to 16383" },
        { "redis://h/-1", "0 to 16383" },
        { "redis://h/x", "0 to 16383" },
        { "redis://h/1/2", "0 to 16383" },
        { "redis://h/1?db=1", "given twice" },
        { "redis://h?db=", "0 to 16383" },
        { "redis://h h", "byte 10 is a space; write %20" },
        { "redis://h\n", "byte 10 is a control character" },
        { "redis://h\x7f", "control character" },
        { "redis://h#x", "%23" },
        { "redis://u:%@h", "two hexadecimal digits" },
        { "redis://u:%4@h", "two hexadecimal digits" },
        { "redis://u:%zz@h", "two hexadecimal digits" },
        { "redis://u:%00@h", "%00" },
        { "unix:///a%00b", "%00" },
        { "unix:///a%0Ab", "control character" },
        { "redis://a@b@c", "%40" },
        { "redis://u:a/b@h", "%2F" },
        { "redis://u:a?b@h", "%3F" },
        { "redis://@h", "before '@'" },
        { "redis://u:@h", "password is empty" },
        { "redis://u:p@h?password=q", "password is given twice" },
        { "redis://u@h?user=v", "user is given twice" },
        { "redis://h?timeout=1&timeout=1", "'timeout' is given twice" },
        { "redis://h?timeout=0", "500ms" },
        { "redis://h?timeout=5m", "500ms" },
        { "redis://h?timeout=s", "500ms" },
        { "redis://h?connect_timeout=86401s", "24 hours" },
        { "redis://h?timeuot=1", "'timeuot' is unknown; did you mean timeout" },
        { "redis://h?colour=1", "'colour' is unknown" },
        { "redis://h?timeout", "parameter 1 is not name=value" },
        { "redis://h?=1", "parameter 1 is not name=value" },
        { "redis://h?durability=safe", "executed, logged, synced" },
        { "redis://h?durability=", "executed, logged, synced" },
        { "redis://h?durability=5", "executed, logged, synced" },
        { "redis://h?replicas=0", "1 to 1000" },
        { "redis://h?replicas=x", "1 to 1000" },
        { "redis://h?protocol=1", "2 or 3" },
        { "redis://h?protocol=4", "2 or 3" },
        { "redis://h?pool_size=0", "1 to 10000" },
        { "redis://h?client_name=", "client_name is empty" },
        { "redis://h?client_name=a%20b", "printable" },
        { "redis://h?cafile=/x", "needs TLS" },
        { "rediss://h?insecure=maybe", "true or false" },
        { "redis://h?allow_eviction=maybe", "allow_eviction must be true" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, cases[i].words);
}

static void zeros_and_endless_text_are_refused(void **state)
{
    static char text[LEAT__URL_MAX + 2];
    leat__url u;
    leat_error err;
    (void)state;
    assert_int_equal(leat__url_parse(&u, leat_mem("redis://h\0x", 11), &err),
                     LEAT_EINVAL);
    assert_non_null(strstr(err.msg, "control character"));
    memset(text, 'a', sizeof text);
    memcpy(text, "unix:///", 8);
    assert_int_equal(leat__url_parse(&u, leat_mem(text, LEAT__URL_MAX), &err),
                     LEAT_OK);
    leat__url_release(&u);
    assert_int_equal(
        leat__url_parse(&u, leat_mem(text, LEAT__URL_MAX + 1), &err),
        LEAT_EINVAL);
    assert_non_null(strstr(err.msg, "4096"));
    assert_int_equal(leat__url_parse(&u, leat_mem(NULL, 0), NULL), LEAT_EINVAL);
}

/* Parse n bytes; if they are refused, the message shows neither half of the
 * password. */
static unsigned try_damaged(const char *text, size_t n)
{
    leat__url u;
    leat_error err = { 0 };
    leat_code rc = leat__url_parse(&u, leat_mem(text, n), &err);
    if (strstr(err.msg, "s3cr3t") || strstr(err.msg, "canary"))
        fail_msg("'%.*s' gives '%s'", (int)n, text, err.msg);
    if (rc == LEAT_OK)
        leat__url_release(&u);
    return rc != LEAT_OK;
}

/* Every byte deleted, every byte replaced by and every gap filled with each
 * byte that means something. */
static unsigned damage(const char *whole)
{
    static const char meant[] = "/?#@:&=%,[] \n\x80.;+-_\"'\\~a0";
    size_t n = strlen(whole);
    char text[256];
    unsigned bad = 0;
    for (size_t i = 0; i <= n; i++) {
        for (size_t m = 0; m < sizeof meant; m++) { /* the zero too */
            memcpy(text, whole, n);
            text[i] = meant[m];
            bad += try_damaged(text, i < n ? n : n + 1);
            memcpy(text + i + 1, whole + i, n - i);
            bad += try_damaged(text, n + 1);
        }
        memcpy(text, whole, i);
        memcpy(text + i, whole + i + (i < n), n - i - (i < n));
        bad += try_damaged(text, n - (i < n));
        bad += try_damaged(whole + i, n - i);
        bad += try_damaged(whole, i);
    }
    return bad;
}

static void no_message_shows_the_password_however_damaged(void **state)
{
    static const char *const urls[] = {
        "redis://user:s3cr3t-canary@host:6379/0?timeout=5s",
        "rediss://:s3cr3t-canary@[::1]/3",
        "redis://host/1?user=u&password=s3cr3t-canary&timeout=5s",
        "unix:///run/redis.sock?password=s3cr3t-canary&db=1",
        "unix://u:s3cr3t-canary@/run/redis.sock",
        "redis+sentinel://u:s3cr3t-canary@a,b:1/service/2",
        "redis+sentinel://a,b:1/service?sentinel_password=s3cr3t-canary&db=2",
        "redis+sentinel://a/s?sentinel_password=s3cr3t&canary=x",
        "redis+cluster://u:s3cr3t-canary@a,b",
        "embedded:///d?password=s3cr3t-canary",
        "redis://u:s3cr3t&canary=x@h",
        "redis://h?password=s3cr3t&canary=x",
        "redis://u:s3cr3t/canary@h",
        "redis://u:s3cr3t?canary=1@h",
        "redis://u:s3cr3t@canary@h",
        "redis://u:s3cr3t#canary@h",
        "redis://u:s3cr3t%canary@h",
        "user:s3cr3t-canary@host",
        "s3cr3t-canary",
        "s3cr3t-canary://h",
    };
    unsigned bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        bad += damage(urls[i]);
    assert_true(bad > 10000);
}

static int allocations_left;

static void *failing_alloc(void *arg, void *old, size_t size)
{
    const leat_system *os = leat_system_default();
    (void)arg;
    if (size > 0 && allocations_left-- == 0)
        return NULL;
    return os->alloc(os->arg, old, size);
}

static void any_allocation_may_fail(void **state)
{
    leat_system sys = *leat_system_default();
    leat_code rc = LEAT_ENOMEM;
    (void)state;
    sys.alloc = failing_alloc;
    leat_system_set(&sys);
    for (int n = 0; rc == LEAT_ENOMEM; n++) {
        leat__url u;
        leat__buf b = { 0 };
        allocations_left = n;
        rc = leat__url_parse(&u,
                             leat_str("rediss+sentinel://u:p@a,b/s?client_name"
                                      "=x&cafile=a&cadir=b&cert=c&key=d&"
                                      "sentinel_user=e&sentinel_password=f"),
                             NULL);
        if (rc == LEAT_OK)
            rc = leat__url_print(&u, &b, NULL);
        leat__url_release(&u);
        leat__buf_release(&b);
        assert_in_range(n, 0, 40);
    }
    leat_system_set(NULL);
    assert_int_equal(rc, LEAT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_url_names_one_host),
        cmocka_unit_test(every_part_is_read_and_decoded),
        cmocka_unit_test(a_password_needs_no_user_and_may_be_a_parameter),
        cmocka_unit_test(a_socket_has_a_path_and_no_host),
        cmocka_unit_test(sentinels_and_clusters_name_several_hosts),
        cmocka_unit_test(an_embedded_server_has_a_directory_or_the_usual_one),
        cmocka_unit_test(the_normal_form_is_stable_and_hides_the_password),
        cmocka_unit_test(what_is_wrong_is_said_part_by_part),
        cmocka_unit_test(zeros_and_endless_text_are_refused),
        cmocka_unit_test(no_message_shows_the_password_however_damaged),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
