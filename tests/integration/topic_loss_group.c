/*
 * topic_loss_group.c: a group whose log, cursor or everything is taken away
 * reads on, skips nothing new, and tells that something was lost.
 */
#include "support/clock.h"
#include "support/tcpfault.h"
#include "topic_help.h"

#include <stdatomic.h>

enum { SOON_MS = 60000 };

struct told {
    atomic_int losses;
    leat_loss last;
};

static void on_loss(void *arg, const leat_loss *loss)
{
    struct told *t = arg;
    t->last = *loss;
    atomic_fetch_add(&t->losses, 1);
}

/* Receive and acknowledge until `last` has come. */
static void read_up_to(leat_source *s, const char *last)
{
    int64_t end = wait_now_ms() + SOON_MS;
    for (bool found = false; !found;) {
        leat_delivery *d = NULL;
        if (wait_now_ms() > end)
            fail_msg("'%s' did not come", last);
        if (leat_source_receive(s, &d, 1, 500, NULL) <= 0)
            continue;
        leat_bytes b = leat_delivery_msg(d)->body;
        found = leat_bytes_eq(b, leat_str(last));
        ack(d);
    }
    (void)leat_source_flush(s, 1000, NULL);
}

static void publish(leat_topic *t, const char *body)
{
    must(leat_topic_publish_to(t, 0, &(leat_msg){ .body = leat_str(body) },
                               NULL, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
}

static leat_topic_source_opts quick(struct told *told, const char *start)
{
    return (leat_topic_source_opts){ .on_loss = on_loss,
                                     .loss_arg = told,
                                     .start = start,
                                     .lease_ms = 2000,
                                     .block_ms = 100 };
}

/* ---- all at once ------------------------------------------------------ */

/* Even a group that began at the end misses nothing that comes after. */
static void after_everything_was_deleted_new_messages_are_read(void **state)
{
    struct told told = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_topic_source_opts o = quick(&told, "end");
    leat_source *s = source_of(t, "g", &o);
    wait_until(redis_int(server, "EXISTS leat:{orders/0}:cur:g") == 1, SOON_MS);
    publish(t, "before");
    read_up_to(s, "before");
    assert_true(redis_flush(server));
    publish(t, "one");
    publish(t, "two");
    read_up_to(s, "one");
    read_up_to(s, "two");
    publish(t, "three");
    read_up_to(s, "three");
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_deleted_log_is_read_from_its_new_beginning(void **state)
{
    struct told told = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_topic_source_opts o = quick(&told, NULL);
    leat_source *s = source_of(t, "g", &o);
    publish(t, "before");
    read_up_to(s, "before");
    redis_do(server, "DEL leat:{orders/0}:log");
    publish(t, "after");
    read_up_to(s, "after");
    leat_source_close(s);

    /* Who comes later finds the log empty and the cursor ahead of it. */
    redis_do(server, "DEL leat:{orders/0}:log");
    s = source_of(t, "g", &o);
    wait_until(atomic_load(&told.losses) == 1, SOON_MS);
    assert_string_equal(told.last.group, "g");
    assert_int_equal(told.last.from.ms, 0);
    assert_true(told.last.to.ms > 0);
    /* By a clock that is far behind: */
    add("other", 0, "old");
    redisReply *r = redis_raw(server, "XRANGE leat:{other/0}:log - +");
    redisReply **f = r->element[0]->element[1]->element;
    assert_int_equal(r->element[0]->element[1]->elements, 4);
    redis_do(server, "XADD leat:{orders/0}:log 5-1 %b %b %b %b", f[0]->str,
             f[0]->len, f[1]->str, f[1]->len, f[2]->str, f[2]->len, f[3]->str,
             f[3]->len);
    freeReplyObject(r);
    read_up_to(s, "old");
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_destroyed_mirror_is_made_again(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    publish(t, "one");
    read_up_to(s, "one");
    redis_do(server, "XGROUP DESTROY leat:{orders/0}:log g");
    publish(t, "two");
    read_up_to(s, "two");
    wait_until(redis_int(server, "XINFO GROUPS leat:{orders/0}:log") == 1,
               SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_deleted_cursor_is_made_again_where_we_were(void **state)
{
    struct told told = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_topic_source_opts o = quick(&told, "end");
    leat_source *s = source_of(t, "g", &o);
    wait_until(redis_int(server, "EXISTS leat:{orders/0}:cur:g") == 1, SOON_MS);
    publish(t, "one");
    read_up_to(s, "one");
    redis_do(server, "DEL leat:{orders/0}:cur:g leat:{orders/0}:lease:g");
    publish(t, "two");
    read_up_to(s, "two");
    assert_int_equal(told.losses, 0);
    leat_source_close(s);
    leat_topic_close(t);
}

/* A group that was told to begin in the future has lost nothing. */
static void a_start_ahead_of_the_log_is_no_loss(void **state)
{
    struct told told = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    publish(t, "one");
    leat_topic_source_opts o = quick(&told, "99999999999999-0");
    for (int i = 0; i < 3; i++) {
        leat_source *s = source_of(t, "g", &o);
        wait_until(redis_int(server, "EXISTS leat:{orders/0}:lease:g") == 1,
                   SOON_MS);
        nothing_of(s, 50);
        leat_source_close(s);
    }
    assert_int_equal(told.losses, 0);
    leat_topic_close(t);
}

/* ---- a failover ------------------------------------------------------- */

static bool linked(redis_server *s)
{
    char info[4096];
    redis_text(s, info, sizeof info, "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

/* The new master lacks what the group has read, and its clock is behind: what
 * it takes in gets ids that the member has passed. */
static void a_member_goes_back_with_its_log(void **state)
{
    struct told told = { 0 };
    char through[64];
    leat_error e = { 0 };
    (void)state;
    wall_clock behind = clock_new();
    clock_set(&behind, -3600);
    redis_server *a = redis_start(&(redis_opts){ .tcp = true });
    redis_server *z = redis_start(
        &(redis_opts){ .tcp = true, .clock_file = behind.path });
    assert_true(a && z);
    redis_do(z, "REPLICAOF 127.0.0.1 %d", redis_port(a));
    wait_until(linked(z), SOON_MS);
    tcpfault *proxy = tcpfault_start(redis_socket(a), NULL);
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = leat_client_open(
        through, &(leat_client_opts){ .max_retry_ms = 50 }, &e);
    assert_non_null(c);
    leat_topic *t = topic_of(c, "orders", 1);
    leat_topic_source_opts o = quick(&told, NULL);
    o.lease_ms = 15000; /* it is the owner all the time */
    leat_source *s = source_of(t, "g", &o);
    publish(t, "one");
    read_up_to(s, "one");
    wait_until(redis_int(z, "XLEN leat:{orders/0}:log") == 1, SOON_MS);
    redis_do(z, "REPLICAOF NO ONE");
    publish(t, "two");
    read_up_to(s, "two");

    assert_true(tcpfault_target(proxy, redis_socket(z)));
    tcpfault_drop(proxy, 0, true);
    redis_kill(a);
    publish(t, "three");
    char id[64];
    redisReply *r = redis_raw(z, "XREVRANGE leat:{orders/0}:log + - COUNT 1");
    snprintf(id, sizeof id, "%s", r->element[0]->element[0]->str);
    freeReplyObject(r);
    read_up_to(s, "three");
    assert_true(atomic_load(&told.losses) > 0);
    assert_true(strtoull(id, NULL, 10) <= told.last.to.ms);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    tcpfault_stop(proxy);
    redis_stop(a);
    redis_stop(z);
    clock_free(&behind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(after_everything_was_deleted_new_messages_are_read),
        topic_test(a_deleted_log_is_read_from_its_new_beginning),
        topic_test(a_destroyed_mirror_is_made_again),
        topic_test(a_deleted_cursor_is_made_again_where_we_were),
        topic_test(a_start_ahead_of_the_log_is_no_loss),
        topic_test(a_member_goes_back_with_its_log),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
