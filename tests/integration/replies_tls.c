/* replies_tls.c: as replies.c, over TLS. */
#include "replies_run.h"
#include "support/certs.h"
#include "support/redis.h"

static char dir[64];
static redis_server *server;

static int start_one(void **state)
{
    (void)state;
    if (!certs_dir(dir, sizeof dir) || !certs_usual(dir))
        return -1;
    server = redis_start(&(redis_opts){ .tls = dir });
    if (!server || !share_harm())
        return -1;
    redis_url_tls(server, urls[TLS], sizeof urls[TLS]);
    return 0;
}

static int stop_one(void **state)
{
    (void)state;
    redis_stop(server);
    certs_remove(dir);
    return 0;
}

static void a_strange_reply_over_tls_ends_as_an_error_or_not(void **state)
{
    (void)state;
    lie_at(TLS, 6000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strange_reply_over_tls_ends_as_an_error_or_not),
    };
    return cmocka_run_group_tests(tests, start_one, stop_one);
}
