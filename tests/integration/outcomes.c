/*
 * outcomes.c: OK, certainly not, or unknown, and never sent twice by itself.
 */
#include "support/badredis.h"
#include "support/leat.h"

#include <stdlib.h>

/* What a server of badredis answers to the questions at connect. */
static const badredis_reply usual[] = {
    { "EVALSHA", "$16\r\n1763200000000000\r\n" },
    { "XAUTOCLAIM", "-NOGROUP No such key\r\n" },
    { NULL, NULL },
};

static badredis *bad_start(const badredis_step *steps, size_t n, char *url,
                           size_t room)
{
    badredis *b = badredis_start(&(badredis_opts){ .handshake = true,
                                                   .replies = usual,
                                                   .steps = steps,
                                                   .nsteps = n,
                                                   .conn = 1,
                                                   .rest = "+OK\r\n" });
    assert_non_null(b);
    badredis_url(b, url, room);
    return b;
}

/* F4: executed though the client gave up.  Sent again it would count twice. */
static void a_stopped_server_makes_the_outcome_unknown_40_of_40(void **state)
{
    char url[256];
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    redis_url(s, url, sizeof url);
    leat_client *c = open_client(url, &(leat_client_opts){ .timeout_ms = 60 });
    int unknown = 0;
    for (int i = 0; i < 40; i++) {
        leat_error e = { 0 };
        leat_conn *conn = lend(c);
        redis_pause(s);
        leat_code rc = leat_conn_call(
            conn, LEAT_ARGS(leat_str("RPUSH"), leat_str("l"), leat_str("x")),
            NULL, NULL, &e);
        leat_client_return(c, conn);
        redis_resume(s);
        unknown += rc == LEAT_EUNKNOWN && e.retriable;
        wait_until(redis_int(s, "LLEN l") == i + 1, 2000);
    }
    assert_int_equal(unknown, 40);
    assert_int_equal(redis_int(s, "LLEN l"), 40);
    leat_client_close(c);
    redis_stop(s);
}

/* It does not fit the sockets' buffers, so it leaves only in part, and the
 * server cannot run it when it wakes up. */
/* A server that was told to wait may take that long; once it has answered, the
 * next command does not inherit the time. */
static void a_wait_that_is_over_makes_nobody_wait(void **state)
{
    char url[256];
    leat_error e = { 0 };
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    leat_client *c = open_client(redis_url(s, url, sizeof url),
                                 &(leat_client_opts){ .timeout_ms = 1000 });
    leat_conn *conn = lend(c);
    for (int i = 0; i < 20; i++)
        must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")),
                            &(leat_send_opts){ .block_ms = 60000 }, NULL, err));
    redis_pause(s);
    int64_t before = wait_now_ms();
    assert_code(
        leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, &e),
        LEAT_EUNKNOWN);
    assert_true(wait_now_ms() - before < 30000);
    redis_resume(s);
    leat_client_return(c, conn);
    leat_client_close(c);
    redis_stop(s);
}

static void a_command_that_left_in_part_is_certainly_not_done(void **state)
{
    enum { SIZE = 64 * 1024 * 1024 };
    char url[256];
    leat_error e = { 0 };
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    leat_client *c = open_client(redis_url(s, url, sizeof url),
                                 &(leat_client_opts){ .timeout_ms = 50 });
    leat_conn *conn = lend(c);
    char *big = calloc(1, SIZE);
    redis_pause(s);
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("SET"), leat_str("k"), leat_mem(big, SIZE)),
        NULL, NULL, &e);
    free(big);
    redis_resume(s);
    assert_code(rc, LEAT_ECONN);
    assert_true(e.retriable);
    leat_client_return(c, conn);
    assert_int_equal(redis_int(s, "EXISTS k"), 0);
    leat_client_close(c);
    redis_stop(s);
}

struct said {
    int n;
    leat_code code[4];
};

static void note(void *arg, const leat_reply *r, const leat_error *e)
{
    struct said *s = arg;
    (void)r;
    s->code[s->n++] = e ? e->code : LEAT_OK;
}

static void of_a_broken_pipeline_each_command_has_its_own_outcome(void **state)
{
    static const badredis_step two[] = {
        { .commands = 3, .send = ":1\r\n-ERR no\r\n", .then = BADREDIS_CLOSE }
    };
    char url[64];
    struct said s = { 0 };
    leat_error e;
    (void)state;
    badredis *b = bad_start(two, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < 3; i++)
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                            &(leat_send_opts){ note, &s, 0 }, err));
    assert_code(leat_conn_drain(conn, 0, &e), LEAT_ECONN);
    assert_int_equal(s.n, 3);
    assert_code(s.code[0], LEAT_OK);
    assert_code(s.code[1], LEAT_ESERVER);
    assert_code(s.code[2], LEAT_EUNKNOWN);
    assert_code(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")), NULL, &e),
                LEAT_ECONN);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

/* MULTI and the commands left, EXEC did not: nothing happened, whether the
 * server had said QUEUED or not. */
static void lose_before_exec(const char *answers)
{
    badredis_step early = { .commands = 2,
                            .send = answers,
                            .then = BADREDIS_CLOSE };
    char url[64];
    struct said s = { 0 };
    leat_error e;
    badredis *b = bad_start(&early, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                        &(leat_send_opts){ note, &s, 0 }, err));
    must(leat_conn_flush(conn, err));
    wait_until(leat_conn_take(conn, &e) != LEAT_OK, 2000);
    assert_int_equal(s.n, 1);
    assert_code(s.code[0], LEAT_ECONN);
    assert_code(leat_conn_exec(conn, &e), LEAT_ECONN);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

static void
a_transaction_lost_before_exec_certainly_did_not_happen(void **state)
{
    (void)state;
    lose_before_exec("+OK\r\n+QUEUED\r\n");
    lose_before_exec("+OK\r\n");
}

static void a_transaction_lost_after_exec_is_unknown(void **state)
{
    static const badredis_step late[] = { { .command = "EXEC",
                                            .send = "+OK\r\n+QUEUED\r\n",
                                            .then = BADREDIS_CLOSE } };
    char url[64];
    struct said s = { 0 };
    leat_error e;
    (void)state;
    badredis *b = bad_start(late, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                        &(leat_send_opts){ note, &s, 0 }, err));
    assert_code(leat_conn_exec(conn, &e), LEAT_EUNKNOWN);
    assert_int_equal(s.n, 1);
    assert_code(s.code[0], LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

/* What breaks behind EXEC's answer is not EXEC's. */
static void a_transaction_answered_before_the_end_happened(void **state)
{
    static const badredis_step more[] = {
        { .commands = 3, .send = "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n:9\r\n" }
    };
    char url[64];
    struct said s = { 0 };
    (void)state;
    badredis *b = bad_start(more, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                        &(leat_send_opts){ note, &s, 0 }, err));
    must(leat_conn_exec(conn, err));
    assert_int_equal(s.n, 1);
    assert_code(s.code[0], LEAT_OK);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

/* Somebody else's certain failure must not stand in for an unknown one. */
static void a_lost_exec_is_unknown_whatever_failed_before_it(void **state)
{
    static const badredis_step lost[] = { { .commands = 4,
                                            .send = "-ERR no\r\n+OK\r\n"
                                                    "+QUEUED\r\n",
                                            .then = BADREDIS_CLOSE } };
    char url[64];
    leat_error e;
    (void)state;
    badredis *b = bad_start(lost, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("WRONG")), NULL, err));
    must(leat_conn_begin(conn, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL,
                        err));
    assert_code(leat_conn_exec(conn, &e), LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

static void a_late_answer_is_never_taken_for_anothers(void **state)
{
    static const badredis_step late[] = {
        { .command = "GET", .sleep_ms = 150, .send = "$5\r\nstale\r\n" }
    };
    char url[64];
    const leat_reply *r;
    leat_error e;
    (void)state;
    badredis *b = bad_start(late, 1, url, sizeof url);
    leat_client *c = open_client(url, &(leat_client_opts){ .timeout_ms = 50 });
    leat_conn *conn = lend(c);
    assert_code(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str("a")),
                               NULL, NULL, &e),
                LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("OTHER")), NULL, &r, err));
    assert_text(r, "OK");
    assert_int_equal(badredis_connections(b), 2);
    assert_int_equal(badredis_count(b, "GET"), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

static void a_reply_too_many_closes_the_connection(void **state)
{
    static const badredis_step extra[] = { { .command = "GET",
                                             .send = "$1\r\na\r\n"
                                                     "$1\r\nb\r\n" } };
    char url[64];
    const leat_reply *r;
    (void)state;
    badredis *b = bad_start(extra, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str("a")), NULL,
                        &r, err));
    assert_text(r, "a");
    leat_client_return(c, conn);
    conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("OTHER")), NULL, &r, err));
    assert_text(r, "OK");
    assert_int_equal(badredis_connections(b), 2);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

static void an_answer_before_the_question_closes_the_connection(void **state)
{
    static const badredis_step early[] = { { .commands = 1,
                                             .send = ":1\r\n:2\r\n" } };
    char url[64];
    leat_error e;
    (void)state;
    badredis *b = bad_start(early, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL,
                        NULL, err));
    assert_code(leat_conn_call(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                               NULL, NULL, &e),
                LEAT_EPROTO);
    assert_int_equal(badredis_count(b, "INCR"), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

/* It is queued and has not left: what comes cannot be its answer. */
static void an_answer_to_an_unsent_command_is_not_its_answer(void **state)
{
    static const badredis_step early[] = { { .commands = 1,
                                             .send = ":1\r\n:2\r\n" } };
    char url[64];
    struct said s = { 0 };
    leat_error e;
    (void)state;
    badredis *b = bad_start(early, 1, url, sizeof url);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), NULL,
                        NULL, err));
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")),
                        &(leat_send_opts){ note, &s, 0 }, err));
    assert_code(leat_conn_drain(conn, 0, &e), LEAT_EPROTO);
    assert_int_equal(s.n, 1);
    assert_code(s.code[0], LEAT_ECONN);
    assert_int_equal(badredis_count(b, "INCR"), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

static void bytes_that_are_not_resp_end_the_connection_at_once(void **state)
{
    static const char *const junk[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$-2\r\n",
        "*2147483648\r\n",
        "$9223372036854775807\r\n",
        "+OK\n",
        ":12a\r\n",
        "\0\0\0\0",
        "*1\r\n$3\r\nabcd\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        badredis_step step = { .commands = 1, .send = junk[i] };
        char url[64];
        leat_error e;
        step.len = strlen(junk[i]) ? strlen(junk[i]) : 4;
        badredis *b = bad_start(&step, 1, url, sizeof url);
        leat_client *c = open_client(url,
                                     &(leat_client_opts){ .timeout_ms = 2000 });
        leat_conn *conn = lend(c);
        int64_t before = wait_now_ms();
        assert_code(
            leat_conn_call(conn, LEAT_ARGS(leat_str("INCR")), NULL, NULL, &e),
            LEAT_EUNKNOWN);
        assert_true(wait_now_ms() - before < 1000);
        leat_client_return(c, conn);
        leat_client_close(c);
        badredis_stop(b);
    }
}

/* An announced length costs nothing; what really comes is bounded. */
static void an_endless_reply_is_refused_at_its_limit(void **state)
{
    static char chunk[65536];
    memset(chunk, 'x', sizeof chunk);
    badredis_step endless[] = {
        { .commands = 1, .send = "*3\r\n$60000000\r\n" },
        { .send = chunk, .len = sizeof chunk, .then = BADREDIS_REPEAT },
    };
    char url[64];
    leat_error e;
    (void)state;
    badredis *b = bad_start(endless, 2, url, sizeof url);
    leat_client *c = open_client(
        url, &(leat_client_opts){ .max_reply_bytes = 8 * 1024 * 1024 });
    leat_conn *conn = lend(c);
    assert_code(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str("a")),
                               NULL, NULL, &e),
                LEAT_EUNKNOWN);
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
}

/* It writes its answer before it reads on: who only writes waits for ever. */
static void a_server_that_must_be_read_is_read_while_writing(void **state)
{
    enum { SIZE = 16 * 1024 * 1024 };
    char url[64];
    (void)state;
    char *big = calloc(1, SIZE + 32);
    int head = snprintf(big, 32, "$%d\r\n", SIZE);
    memcpy(big + head + SIZE, "\r\n", 2);
    badredis_step answer = { .commands = 1,
                             .send = big,
                             .len = (size_t)head + SIZE + 2 };
    badredis *b = bad_start(&answer, 1, url, sizeof url);
    leat_client *c = open_client(url,
                                 &(leat_client_opts){ .timeout_ms = 3000 });
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("BIG")), NULL, err));
    must(leat_conn_flush(conn, err));
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("OP"), leat_mem(big, SIZE)),
                        NULL, NULL, err));
    leat_client_return(c, conn);
    leat_client_close(c);
    badredis_stop(b);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_server_makes_the_outcome_unknown_40_of_40),
        cmocka_unit_test(a_wait_that_is_over_makes_nobody_wait),
        cmocka_unit_test(a_command_that_left_in_part_is_certainly_not_done),
        cmocka_unit_test(of_a_broken_pipeline_each_command_has_its_own_outcome),
        cmocka_unit_test(
            a_transaction_lost_before_exec_certainly_did_not_happen),
        cmocka_unit_test(a_transaction_lost_after_exec_is_unknown),
        cmocka_unit_test(a_transaction_answered_before_the_end_happened),
        cmocka_unit_test(a_lost_exec_is_unknown_whatever_failed_before_it),
        cmocka_unit_test(a_late_answer_is_never_taken_for_anothers),
        cmocka_unit_test(a_reply_too_many_closes_the_connection),
        cmocka_unit_test(an_answer_before_the_question_closes_the_connection),
        cmocka_unit_test(an_answer_to_an_unsent_command_is_not_its_answer),
        cmocka_unit_test(bytes_that_are_not_resp_end_the_connection_at_once),
        cmocka_unit_test(a_server_that_must_be_read_is_read_while_writing),
        cmocka_unit_test(an_endless_reply_is_refused_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
