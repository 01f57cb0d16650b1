/*
 * sentinel_auth.c: servers and sentinels that each want a login of their own,
 * and a failover with both.
 */
#include "support/leat.h"
#include "support/sentinels.h"

enum { LONG_MS = 60000 };

static sentinels *group;
static char url[400];

static int start(void **state)
{
    (void)state;
    group = sentinels_start(
        &(sentinels_opts){ .password = "geheim",
                           .down_after_ms = 2000,
                           .sentinel_user = "watch",
                           .sentinel_password = "vertraulich" });
    if (!group)
        return -1;
    sentinels_url(group, url, sizeof url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sentinels_stop(group);
    return 0;
}

/* The URL with something else in the place of a part of it. */
static char *altered(const char *part, const char *other, char *buf,
                     size_t size)
{
    const char *at = strstr(url, part);
    assert_non_null(at);
    snprintf(buf, size, "%.*s%s%s", (int)(at - url), url, other,
             at + strlen(part));
    return buf;
}

static leat_error refused(const char *part, const char *other)
{
    char text[400];
    leat_error e = { 0 };
    assert_null(
        leat_client_open(altered(part, other, text, sizeof text), NULL, &e));
    assert_null(strstr(e.msg, "geheim"));
    assert_null(strstr(e.msg, "vertraulich"));
    assert_null(strstr(e.msg, "falsch"));
    return e;
}

static void a_wrong_login_says_whose_it_is(void **state)
{
    (void)state;
    leat_error e = refused("vertraulich", "falsch");
    assert_code(e.code, LEAT_EAUTH);
    assert_non_null(strstr(e.msg, "sentinel_password"));
    e = refused("?sentinel_user=watch&sentinel_password=vertraulich", "");
    assert_code(e.code, LEAT_EAUTH);
    assert_non_null(strstr(e.msg, "sentinel_password"));
    e = refused("geheim", "falsch");
    assert_code(e.code, LEAT_EAUTH);
    assert_null(strstr(e.msg, "sentinel_password"));
    e = refused("/shop", "/shoe");
    assert_code(e.code, LEAT_ENOENT);
    assert_non_null(strstr(e.msg, "'shoe'"));
}

static void the_login_may_stand_in_the_options(void **state)
{
    (void)state;
    char text[400];
    leat_client *c = open_client(
        altered("?sentinel_user=watch&sentinel_password=vertraulich", "", text,
                sizeof text),
        &(leat_client_opts){ .sentinel_user = "watch",
                             .sentinel_password = "vertraulich" });
    leat_client_close(c);
}

static bool writes_to(leat_client *c, redis_server *s)
{
    leat_error e;
    return leat_client_call(
               c, LEAT_ARGS(leat_str("SET"), leat_str("k"), leat_str("v")),
               &(leat_call_opts){ .idempotent = true }, NULL, &e) == LEAT_OK &&
           redis_int(s, "DEL k") == 1;
}

static bool is_replaced(const redis_server *old)
{
    int i = sentinels_master(group);
    return i >= 0 && sentinels_server(group, i) != old;
}

static void a_failover_is_followed_with_both_logins(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    assert_null(strstr(leat_client_url(c), "geheim"));
    assert_null(strstr(leat_client_url(c), "vertraulich"));
    wait_until(sentinels_settled(group, 2), LONG_MS);
    redis_server *old = sentinels_server(group, sentinels_master(group));
    assert_true(writes_to(c, old));
    redis_kill(old);
    wait_until(is_replaced(old), LONG_MS);
    wait_until(
        sentinels_master(group) >= 0 &&
            writes_to(c, sentinels_server(group, sentinels_master(group))),
        LONG_MS);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_login_says_whose_it_is),
        cmocka_unit_test(the_login_may_stand_in_the_options),
        cmocka_unit_test(a_failover_is_followed_with_both_logins),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
