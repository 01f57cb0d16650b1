/* replies.c: a server's answers of the wrong shape: see replies_run.h. */
#include "replies_run.h"
#include "support/redis.h"

static redis_server *server;

static int start_one(void **state)
{
    (void)state;
    server = redis_start(NULL);
    if (!server || !share_harm())
        return -1;
    redis_url(server, urls[PLAIN], sizeof urls[PLAIN]);
    return 0;
}

static int stop_one(void **state)
{
    (void)state;
    redis_stop(server);
    return 0;
}

static void a_reply_of_another_shape_ends_as_an_error_or_not(void **state)
{
    (void)state;
    lie_at(PLAIN, 18000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_of_another_shape_ends_as_an_error_or_not),
    };
    return cmocka_run_group_tests(tests, start_one, stop_one);
}
