/* sentinel_tls.c: a service whose sentinel and server speak TLS only to us. */
#include "support/certs.h"
#include "support/leat.h"

static char dir[64], url[300];
static redis_server *server, *sentinel;

static int start(void **state)
{
    char monitor[64];
    const char *const config[] = { monitor, NULL };
    (void)state;
    if (!certs_dir(dir, sizeof dir) || !certs_usual(dir))
        return -1;
    server = redis_start(&(redis_opts){ .tls = dir });
    if (!server)
        return -1;
    snprintf(monitor, sizeof monitor, "sentinel monitor shop 127.0.0.1 %d 1",
             redis_tls_port(server));
    sentinel = redis_start(&(redis_opts){
        .tls = dir, .tcp = true, .sentinel = true, .config = config });
    if (!sentinel)
        return -1;
    snprintf(url, sizeof url,
             "rediss+sentinel://127.0.0.1:%d/shop?cafile=%s/ca.crt",
             redis_tls_port(sentinel), dir);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(sentinel);
    redis_stop(server);
    certs_remove(dir);
    return 0;
}

static void sentinels_and_servers_are_spoken_to_by_tls(void **state)
{
    leat_node node;
    size_t n = 0;
    const leat_reply *r;
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
    assert_text(r, "PONG");
    leat_client_return(c, conn);
    must(leat_client_nodes(c, &node, 1, &n, err));
    assert_int_equal(n, 1);
    assert_int_equal(node.port, redis_tls_port(server));
    leat_client_close(c);
}

static leat_error refused(const char *text)
{
    leat_error e = { 0 };
    assert_null(leat_client_open(text, NULL, &e));
    return e;
}

static void a_sentinel_without_tls_is_not_told_anything(void **state)
{
    char text[300];
    (void)state;
    snprintf(text, sizeof text,
             "rediss+sentinel://127.0.0.1:%d/shop?cafile=%s/ca.crt",
             redis_port(sentinel), dir);
    assert_non_null(strstr(refused(text).msg, "sentinel 127.0.0.1:"));
}

static void a_plain_client_does_not_reach_a_server_with_tls(void **state)
{
    char text[300];
    (void)state;
    snprintf(text, sizeof text, "redis+sentinel://127.0.0.1:%d/shop",
             redis_port(sentinel));
    leat_error e = refused(text);
    assert_non_null(strstr(e.msg, "master of 'shop'"));
}

static void a_certificate_of_another_authority_is_refused(void **state)
{
    char text[300];
    (void)state;
    assert_true(certs_make(dir, "other", &(cert_opts){ .authority = true }));
    snprintf(text, sizeof text,
             "rediss+sentinel://127.0.0.1:%d/shop?cafile=%s/other.crt",
             redis_tls_port(sentinel), dir);
    assert_non_null(strstr(refused(text).msg, "certificate"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentinels_and_servers_are_spoken_to_by_tls),
        cmocka_unit_test(a_sentinel_without_tls_is_not_told_anything),
        cmocka_unit_test(a_plain_client_does_not_reach_a_server_with_tls),
        cmocka_unit_test(a_certificate_of_another_authority_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
