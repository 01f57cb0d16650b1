/* tls.c: everything that works on a plain connection, over TLS. */
#include "redis/waker.h"
#include "support/crosstalk.h"
#include "tls_help.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int reset(void **state)
{
    (void)state;
    return redis_flush(server) ? 0 : -1;
}

static void ping(leat_conn *conn)
{
    const leat_reply *r;
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, &r, err));
    assert_text(r, "PONG");
}

/* ---- sessions --------------------------------------------------------- */

static void a_connection_speaks_the_newest_tls(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    assert_string_equal(SSL_get_version(ssl_of(conn)), "TLSv1.3");
    assert_int_equal(SSL_get_verify_result(ssl_of(conn)), X509_V_OK);
    assert_string_equal(
        SSL_get_servername(ssl_of(conn), TLSEXT_NAMETYPE_host_name),
        "localhost");
    ping(conn);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void an_address_is_verified_and_not_named_to_the_server(void **state)
{
    char at[128], ca[80];
    (void)state;
    snprintf(at, sizeof at, "rediss://127.0.0.1:%d", redis_tls_port(server));
    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    leat_client *c = open_client(
        at, &(leat_client_opts){ .tls = { .ca_file = ca } });
    leat_conn *conn = lend(c);
    assert_null(SSL_get_servername(ssl_of(conn), TLSEXT_NAMETYPE_host_name));
    ping(conn);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The first connection of a client proves everything, the next ones resume. */
static void resume_with(const char *protocol)
{
    leat_client *c = open_client(url, NULL);
    leat_conn *a = lend(c);
    assert_string_equal(SSL_get_version(ssl_of(a)), protocol);
    assert_false(SSL_session_reused(ssl_of(a)));
    for (int i = 0; i < 5; i++) {
        leat_conn *b = lend(c);
        assert_true(SSL_session_reused(ssl_of(b)));
        ping(b);
        b->stale = true; /* so that the next one is new */
        leat_client_return(c, b);
    }
    ping(a);
    leat_client_return(c, a);
    leat_client_close(c);

    c = open_client(url, NULL);
    a = lend(c);
    assert_false(SSL_session_reused(ssl_of(a)));
    leat_client_return(c, a);
    leat_client_close(c);
}

static void a_new_connection_resumes_the_session_of_tls_1_3(void **state)
{
    (void)state;
    resume_with("TLSv1.3");
}

static void a_new_connection_resumes_the_session_of_tls_1_2(void **state)
{
    (void)state;
    redis_do(server, "CONFIG SET tls-protocols TLSv1.2");
    resume_with("TLSv1.2");
    redis_do(server, "CONFIG SET tls-protocols %s", "");
}

/* A server with new keys, here after a new configuration, cannot read the
 * tickets it gave out before. */
static void a_forgotten_session_costs_only_a_whole_handshake(void **state)
{
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *a = lend(c), *b = lend(c);
    assert_true(SSL_session_reused(ssl_of(b)));
    redis_do(server, "CONFIG SET tls-cert-file %s/server.crt", dir);
    leat_conn *d = lend(c);
    assert_false(SSL_session_reused(ssl_of(d)));
    leat_conn *e = lend(c);
    assert_true(SSL_session_reused(ssl_of(e)));
    leat_conn *all[] = { a, b, d, e };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        ping(all[i]);
        leat_client_return(c, all[i]);
    }
    leat_client_close(c);
}

/* ---- many and large --------------------------------------------------- */

enum { MANY = 10000, LARGE = 8 * 1024 * 1024 };

struct order {
    int next, bad;
};

static void on_count(void *arg, const leat_reply *r, const leat_error *e)
{
    struct order *o = arg;
    o->next++;
    o->bad += e || leat_reply_int(r) != o->next;
}

static void ten_thousand_commands_are_answered_in_order(void **state)
{
    static const int windows[] = { 64, 1024, 20000 };
    (void)state;
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
        struct order o = { 0, 0 };
        leat_send_opts s = { on_count, &o, 0 };
        leat_client *c = open_client(
            url,
            &(leat_client_opts){ .window = windows[w], .timeout_ms = LONG_MS });
        leat_conn *conn = lend(c);
        redis_do(server, "DEL n");
        for (int i = 0; i < MANY; i++)
            must(leat_conn_send(
                conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), &s, err));
        must(leat_conn_drain(conn, 0, err));
        assert_int_equal(o.next, MANY);
        assert_int_equal(o.bad, 0);
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

static char *pattern(size_t n, unsigned seed)
{
    char *p = malloc(n);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (char)((i + seed) * 2654435761u >> 13);
    return p;
}

static void on_large(void *arg, const leat_reply *r, const leat_error *e)
{
    int *good = arg;
    char *want = pattern(LARGE, 7);
    *good += !e && leat_bytes_eq(leat_reply_bytes(r), leat_mem(want, LARGE));
    free(want);
}

/* Both ways at once: neither side reads all before it writes. */
static void commands_and_replies_of_megabytes_arrive_whole(void **state)
{
    enum { TIMES = 4 };
    int good = 0;
    leat_send_opts s = { on_large, &good, 0 };
    char *body = pattern(LARGE, 7);
    (void)state;
    leat_client *c = open_client(url,
                                 &(leat_client_opts){ .timeout_ms = LONG_MS });
    leat_conn *conn = lend(c);
    for (int i = 0; i < TIMES; i++)
        must(leat_conn_send(
            conn, LEAT_ARGS(leat_str("ECHO"), leat_mem(body, LARGE)), &s, err));
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(good, TIMES);
    leat_client_return(c, conn);
    leat_client_close(c);
    free(body);
}

/* Sizes around those of records and buffers, so that the ends of what was
 * decrypted and of the room for it fall on each other. */
static void replies_of_every_size_near_a_record_arrive(void **state)
{
    static const size_t bases[] = { 16384, 32768, 65536 };
    char *body = pattern(70000, 1);
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++) {
        for (size_t n = bases[b] - 30; n < bases[b] + 10; n++) {
            const leat_reply *r;
            must(leat_conn_call(conn,
                                LEAT_ARGS(leat_str("ECHO"), leat_mem(body, n)),
                                NULL, &r, err));
            assert_true(leat_bytes_eq(leat_reply_bytes(r), leat_mem(body, n)));
        }
    }
    leat_client_return(c, conn);
    leat_client_close(c);
    free(body);
}

/* ---- what poll cannot see --------------------------------------------- */

struct pushes {
    int n, bad;
    size_t size;
};

static void on_push(void *arg, leat_bytes channel, leat_bytes payload)
{
    struct pushes *p = arg;
    (void)channel;
    p->n++;
    p->bad += payload.n != p->size;
}

/* Publish, and wait until all of it lies in the socket. */
static void publish_all(const leat_conn *conn, int n, size_t size)
{
    static char text[20000];
    int there = 0;
    memset(text, 'x', size);
    for (int i = 0; i < n; i++)
        assert_int_equal(redis_int(server, "PUBLISH ch %b", text, size), 1);
    wait_until(ioctl(leat_conn_fd(conn), FIONREAD, &there) == 0 &&
                   there > n * (int)size,
               LONG_MS);
}

/* All that OpenSSL reads ahead, and more than the connection has room for: what
 * does not fit may not stay inside while the socket is silent. */
static void nothing_decrypted_is_left_unseen(void **state)
{
    enum { MESSAGES = 5 };
    leat_bytes name = leat_str("ch");
    (void)state;
    for (size_t size = 12900; size < 13500; size += 50) {
        struct pushes p = { .size = size };
        leat_client *c = open_client(url, NULL);
        leat_conn *conn = lend(c);
        leat_conn_on_push(conn, on_push, &p);
        must(leat_conn_subscribe(conn, false, &name, 1, err));
        publish_all(conn, MESSAGES, size);
        int64_t end = wait_now_ms() + LONG_MS;
        while (p.n < MESSAGES && wait_now_ms() < end)
            must(leat_conn_listen(conn, LONG_MS, err));
        assert_int_equal(p.n, MESSAGES);
        assert_int_equal(p.bad, 0);
        leat_client_return(c, conn);
        leat_client_close(c);
    }
}

/* ---- what counts as sent ---------------------------------------------- */

/* How many bytes the socket takes from now on, and how often it was asked. */
static struct {
    leat_system sys;
    size_t room;
    int asked;
} narrow;

static ssize_t narrow_sendv(void *arg, int fd, const struct iovec *v, int n)
{
    struct iovec some = v[0];
    (void)n;
    narrow.asked++;
    if (some.iov_len > narrow.room)
        some.iov_len = narrow.room;
    if (some.iov_len == 0) {
        errno = EAGAIN;
        return -1;
    }
    ssize_t sent = leat_system_default()->sendv(arg, fd, &some, 1);
    narrow.room -= sent > 0 ? (size_t)sent : 0;
    return sent;
}

static leat_conn *lend_narrow(leat_client *c)
{
    leat_conn *conn = lend(c);
    narrow.sys = *leat_system_default();
    narrow.sys.sendv = narrow_sendv;
    narrow.room = 0;
    leat_system_set(&narrow.sys);
    return conn;
}

static void a_record_counts_when_its_last_byte_has_left(void **state)
{
    static char text[40000];
    struct iovec v[3] = { { "*1\r\n$4\r\nPING\r\n", 14 },
                          { "*2\r\n$4\r\nECHO\r\n$40000\r\n", 22 },
                          { text, sizeof text } };
    (void)state;
    memset(text, 'x', sizeof text);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend_narrow(c);
    assert_int_equal(conn->t->ops->sendv(conn->t, v, 3), -1);
    assert_int_equal(errno, EAGAIN);
    /* A record of 16 KiB and its 22 bytes of TLS 1.3. */
    narrow.room = 16384 + 21;
    assert_int_equal(conn->t->ops->sendv(conn->t, v, 3), -1);
    narrow.room = 1;
    assert_int_equal(conn->t->ops->sendv(conn->t, v, 3), 16384);
    leat_system_set(NULL);
    conn->stale = true;
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* What left inside a recv would be called "not sent" by whoever comes next. */
static void receiving_sends_no_record(void **state)
{
    char room[100];
    struct iovec v = { "*1\r\n$4\r\nPING\r\n", 14 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend_narrow(c);
    assert_int_equal(conn->t->ops->sendv(conn->t, &v, 1), -1);
    narrow.room = 1000;
    narrow.asked = 0;
    assert_int_equal(conn->t->ops->recv(conn->t, room, sizeof room, false), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(narrow.asked, 0);
    assert_int_equal(conn->t->ops->sendv(conn->t, &v, 1), 14);
    leat_system_set(NULL);
    conn->stale = true; /* its answer belongs to nobody */
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* A held reply stays while the rest of its record waits behind it. */
static void a_reply_that_is_held_hides_no_other(void **state)
{
    struct order o = { 0, 0 };
    leat_send_opts s = { on_count, &o, 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int round = 0; round < 200; round++) {
        const leat_reply *r;
        for (int i = 0; i < 20; i++)
            must(leat_conn_send(
                conn, LEAT_ARGS(leat_str("INCR"), leat_str("n")), &s, err));
        must(leat_conn_call(conn, LEAT_ARGS(leat_str("ECHO"), leat_str("x")),
                            NULL, &r, err));
        assert_text(r, "x");
    }
    assert_int_equal(o.next, 4000);
    assert_int_equal(o.bad, 0);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_waiter_is_woken(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat__waker *w = leat__client_waker(c, &e);
    leat__waiter *q = w ? leat__waiter_open(w, leat_str("hint"), &e) : NULL;
    assert_non_null(q);
    assert_true(leat__waiter_wait(q, LONG_MS)); /* it is listened to */
    for (int i = 0; i < 100; i++) {
        assert_int_equal(redis_int(server, "PUBLISH hint x"), 1);
        assert_true(leat__waiter_wait(q, LONG_MS));
    }
    leat__waiter_close(q);
    leat_client_close(c);
}

/* ---- threads and processes -------------------------------------------- */

/* So that sessions are used and replaced. */
static void grow_stale(leat_conn *conn, int i)
{
    if (i == 100)
        conn->stale = true;
}

static void many_threads_share_few_connections(void **state)
{
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .pool_size = 4 });
    assert_no_crosstalk(&(crosstalk){
        .client = c, .threads = 8, .times = 200, .after = grow_stale });
    leat_client_close(c);
}

/* The child closes its copy of a connection that is in use, and nothing of
 * that is heard by the server. */
static void a_forked_child_does_not_disturb_the_parent(void **state)
{
    const leat_reply *r;
    int status;
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    for (int i = 0; i < 5; i++) {
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")), NULL, err));
        must(leat_conn_flush(conn, err));
        pid_t pid = fork();
        if (pid == 0) {
            leat_error e = { 0 };
            leat_code rc = leat_conn_call(conn, LEAT_ARGS(leat_str("PING")),
                                          NULL, NULL, &e);
            leat_client_return(c, conn);
            leat_client_close(c);
            _exit(rc == LEAT_EFORK ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        must(leat_conn_call(conn,
                            LEAT_ARGS(leat_str("ECHO"), leat_str("parent")),
                            NULL, &r, err));
        assert_text(r, "parent");
    }
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* ---- a topic ---------------------------------------------------------- */

static int number_in(leat_delivery *d)
{
    char text[16] = "";
    leat_bytes b = leat_delivery_msg(d)->body;
    memcpy(text, b.p, b.n < 15 ? b.n : 15);
    return (int)strtol(text, NULL, 10);
}

static void consume_all(leat_source *s, int n, bool *seen)
{
    int64_t end = wait_now_ms() + LONG_MS;
    for (int have = 0; have < n;) {
        leat_delivery *d[64];
        leat_error e = { 0 };
        int got = leat_source_receive(s, d, 64, 500, &e);
        for (int i = 0; i < got; i++) {
            int number = number_in(d[i]);
            assert_in_range(number, 0, n - 1);
            have += !seen[number];
            seen[number] = true;
            assert_int_equal(leat_delivery_ack(d[i]), LEAT_OK);
        }
        if (have < n && wait_now_ms() > end)
            fail_msg("only %d of %d came: %s", have, n, e.msg);
    }
}

static void a_topic_carries_every_message(void **state)
{
    enum { MESSAGES = 2000 };
    static bool seen[MESSAGES];
    leat_error e = { 0 };
    char body[16];
    (void)state;
    leat_client *c = open_client(url, NULL);
    leat_topic *t = leat_topic_open(
        c, "orders", &(leat_topic_opts){ .auto_create = true, .partitions = 4 },
        &e);
    leat_source *s = t ? leat_topic_source(t, "billing", NULL, &e) : NULL;
    if (!s)
        fail_msg("%s", e.msg);
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(body, sizeof body, "%d", i);
        must(leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                                NULL, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
    consume_all(s, MESSAGES, seen);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_connection_speaks_the_newest_tls, reset),
        cmocka_unit_test(an_address_is_verified_and_not_named_to_the_server),
        cmocka_unit_test(a_new_connection_resumes_the_session_of_tls_1_3),
        cmocka_unit_test(a_new_connection_resumes_the_session_of_tls_1_2),
        cmocka_unit_test(a_forgotten_session_costs_only_a_whole_handshake),
        cmocka_unit_test_setup(ten_thousand_commands_are_answered_in_order,
                               reset),
        cmocka_unit_test(commands_and_replies_of_megabytes_arrive_whole),
        cmocka_unit_test(replies_of_every_size_near_a_record_arrive),
        cmocka_unit_test(nothing_decrypted_is_left_unseen),
        cmocka_unit_test(a_record_counts_when_its_last_byte_has_left),
        cmocka_unit_test(receiving_sends_no_record),
        cmocka_unit_test_setup(a_reply_that_is_held_hides_no_other, reset),
        cmocka_unit_test(a_waiter_is_woken),
        cmocka_unit_test(many_threads_share_few_connections),
        cmocka_unit_test(a_forked_child_does_not_disturb_the_parent),
        cmocka_unit_test_setup(a_topic_carries_every_message, reset),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
