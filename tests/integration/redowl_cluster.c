/*
 * redowl_cluster.c: queues of redowl on a cluster, where only a hash tag keeps
 * the keys of a queue together; those without one, a pool, and events.
 */
#include "redowl_help.h"
#include "support/rig.h"
#include <leat/pool.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- keys in different slots ------------------------------------------ */

static int64_t ask_int(const char *verb, const char *key)
{
    leat_error e = { 0 };
    leat_reply *r = NULL;
    if (leat_client_call(client, LEAT_ARGS(leat_str(verb), leat_str(key)), NULL,
                         &r, &e) != LEAT_OK)
        fail_msg("%s %s: %s", verb, key, e.msg);
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

static void an_untagged_queue_is_received_and_acknowledged(void **state)
{
    (void)state;
    const char *const names[] = { "orders", "{}orders", "orders}", "{orders" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        leat_queue *q = owl(names[i], (leat_queue_opts){ 0 });
        leat_header h = { leat_str("a"), leat_str("<1>") };
        leat_msg m = { .body = leat_str("0"),
                       .headers = &h,
                       .header_count = 1 };
        must(leat_queue_send(q, &m, NULL, NULL, err));
        send_many(q, 1, 4);
        assert_int_equal(stats(q).visible, 5);
        leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 10 });
        assert_int_equal(leat_queue_batch_count(b), 5);
        assert_int_equal(stats(q).in_flight, 5);
        for (int k = 0; k < 5; k++) {
            const leat_queue_item *it = leat_queue_batch_at(b, (size_t)k);
            assert_int_equal(number(it), k);
            assert_int_equal(it->receives, 1);
            assert_true(is_hex(it->receipt) && it->deadline_ms > 0);
        }
        assert_true(leat_bytes_eq(leat_msg_header(&item(b)->msg, "a"),
                                  leat_str("<1>")));
        ack(q, b);
        assert_code(leat_queue_ack(q, item(b)->receipt, NULL), LEAT_ESTALE);
        leat_queue_batch_free(b);
        nothing(q);
        leat_queue_close(q);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(redis_int(cluster_node(rig, i), "DBSIZE"), 0);
}

static void what_expired_of_an_untagged_queue_comes_back_in_order(void **state)
{
    (void)state;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_many(q, 0, 4);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 3 });
    for (size_t i = 0; i < 3; i++)
        must(leat_queue_change_visibility(q, leat_queue_batch_at(b, i)->receipt,
                                          (int64_t)i - 100, err));
    leat_queue_batch *again = take(q, &(leat_receive_opts){ .max = 4 });
    for (size_t i = 0; i < 4; i++) {
        const leat_queue_item *it = leat_queue_batch_at(again, i);
        assert_int_equal(number(it), (int)i);
        assert_int_equal(it->receives, i < 3 ? 2 : 1);
    }
    assert_code(leat_queue_ack(q, item(b)->receipt, NULL), LEAT_ESTALE);
    must(leat_queue_change_visibility(q, item(again)->receipt, 0, err));
    assert_int_equal(ask_int("LLEN", "redowl:orders:ready"), 1);
    leat_queue_batch_free(b);
    leat_queue_batch_free(again);
    leat_queue_close(q);
}

/* A crash between its steps leaves a message in the list and in flight. */
static void a_receive_of_an_untagged_queue_cut_off_loses_nothing(void **state)
{
    (void)state;
    leat_reply *r = NULL;
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    leat_queue_sent sent;
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("1") }, NULL, &sent,
                         err));
    must(leat_client_call(client,
                          LEAT_ARGS(leat_str("HSET"),
                                    leat_str("redowl:orders:receipt"),
                                    leat_str("r"), leat_str(sent.id)),
                          NULL, &r, err));
    leat_reply_free(r);
    must(leat_client_call(client,
                          LEAT_ARGS(leat_str("ZADD"),
                                    leat_str("redowl:orders:inflight"),
                                    leat_str("1"), leat_str("r")),
                          NULL, &r, err));
    leat_reply_free(r);
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "1");
    ack(q, b);
    leat_queue_batch_free(b);
    nothing(q); /* its id once more, without message */
    for (int i = 0; i < 3; i++)
        assert_int_equal(redis_int(cluster_node(rig, i), "DBSIZE"), 0);
    leat_queue_close(q);
}

enum { RACE = 150, RACERS = 3 };
static atomic_int raced[RACE], races;

static void *race(void *arg)
{
    while (races < RACE) {
        leat_queue_batch *b = leat_queue_receive(
            arg, &(leat_receive_opts){ .max = 2, .wait_ms = 50 }, NULL);
        for (size_t i = 0; b && i < leat_queue_batch_count(b); i++) {
            const leat_queue_item *it = leat_queue_batch_at(b, i);
            if (leat_queue_ack(arg, it->receipt, NULL) == LEAT_OK) {
                raced[number(it)]++;
                races++;
            }
        }
        leat_queue_batch_free(b);
    }
    return NULL;
}

static void consumers_of_an_untagged_queue_share_it(void **state)
{
    (void)state;
    pthread_t t[RACERS];
    leat_queue *q = owl("orders", (leat_queue_opts){ .no_events = true });
    send_many(q, 0, RACE);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&t[i], NULL, race, q);
    for (int i = 0; i < RACERS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < RACE; i++)
        assert_int_equal(raced[i], 1);
    leat_queue_close(q);
}

static void refused_and_why(leat_code rc, const leat_error *e)
{
    assert_code(rc, LEAT_ENOTSUP);
    assert_non_null(strstr(e->msg, "different slots"));
    assert_non_null(strstr(e->msg, "hash tag"));
}

static void dead_letters_of_an_untagged_queue_are_refused(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL, .max_receives = 2 };
    assert_null(leat_queue_open(client, "orders", &o, &e));
    refused_and_why(e.code, &e);
    leat_queue *q = owl("orders", (leat_queue_opts){ 0 });
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    refused_and_why(leat_queue_reject(q, item(b)->receipt, NULL, &e), &e);
    refused_and_why(leat_queue_redrive(q, NULL, NULL, &e), &e);
    refused_and_why(leat_queue_purge(q, true, NULL, &e), &e);
    refused_and_why(leat_queue_alter(q, &o, &e), &e);
    assert_null(
        leat_queue_receive(q, &(leat_receive_opts){ .dead = true }, &e));
    refused_and_why(e.code, &e);
    leat_queue_send_opts late = { .delay_ms = 5 };
    refused_and_why(leat_queue_send(q, &(leat_msg){ 0 }, &late, NULL, &e), &e);
    ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    o.max_receives = 0;
    assert_code(leat_queue_remove(client, "orders", &o, &e), LEAT_EINVAL);
}

/* ---- a hash tag ------------------------------------------------------- */

/* On every node, so that a step that is told elsewhere is one that fails. */
static void every_step_works_with_a_tag(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        char name[32];
        snprintf(name, sizeof name, "{orders%d}", i);
        leat_queue *q = owl(name, (leat_queue_opts){ .max_receives = 1 });
        send_many(q, 1, 2);
        leat_queue_batch *b = take_one(q);
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
        b = take_one(q);
        assert_item(item(b), "2");
        ack(q, b);
        leat_queue_batch_free(b);
        int64_t moved;
        must(leat_queue_redrive(q, NULL, &moved, err));
        assert_int_equal(moved, 1);
        leat_queue_batch_free(
            take(q, &(leat_receive_opts){ .visibility_ms = 20 }));
        wait_until(stats(q).visible == 1, LONG_MS);
        leat_queue_close(q);
        leat_queue_opts o = { .profile = LEAT_QUEUE_REDOWL };
        must(leat_queue_remove(client, name, &o, err));
    }
}

static void *receive_one(void *arg)
{
    return take_one(arg);
}

static void a_wait_ends_whichever_node_it_is_told_by(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        char name[32];
        pthread_t t;
        void *b;
        snprintf(name, sizeof name, "a{%d}", i);
        leat_queue *q = owl(name, (leat_queue_opts){ 0 });
        pthread_create(&t, NULL, receive_one, q);
        send_text(q, "x");
        pthread_join(t, &b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

/* ---- a pool ----------------------------------------------------------- */

static atomic_int handled;

static leat_verdict count_it(leat_ctx *x, void *arg)
{
    (void)x;
    (void)arg;
    handled++;
    return LEAT_ACK;
}

static void a_pool_finds_the_queues_of_all_nodes(void **state)
{
    (void)state;
    leat_error e = { 0 };
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "{room%d}", i);
        leat_queue *q = owl(name, (leat_queue_opts){ .no_events = true });
        send_many(q, 0, 3);
        leat_queue_close(q);
    }
    leat_queue *other = owl("untagged", (leat_queue_opts){ 0 });
    send_text(other, "x");
    leat_pool_opts o = { .profile = LEAT_QUEUE_REDOWL };
    leat_pool *p = leat_pool_start(client, count_it, NULL, &o, &e);
    assert_non_null(p);
    wait_until(handled == 36, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    assert_int_equal(handled, 36);
    leat_queue_batch *b = take_one(other);
    leat_queue_batch_free(b);
    leat_queue_close(other);
}

/* ---- events ----------------------------------------------------------- */

enum { EVENTS = 300, SPREAD = 9, HELD = 4 /* connections, by turns */ };

typedef struct ears {
    pthread_mutex_t lock;
    char ids[EVENTS][64];
    int n;
} ears;

static void listen_in(void *arg, const leat_queue_event *e, bool missed)
{
    ears *x = arg;
    (void)missed;
    pthread_mutex_lock(&x->lock);
    if (x->n < EVENTS && strcmp(e->type, "sent") == 0)
        snprintf(x->ids[x->n++], sizeof x->ids[0], "%.*s", (int)e->message_id.n,
                 (const char *)e->message_id.p);
    pthread_mutex_unlock(&x->lock);
}

static int count_heard(ears *x)
{
    pthread_mutex_lock(&x->lock);
    int n = x->n;
    pthread_mutex_unlock(&x->lock);
    return n;
}

/* How many of the events of queues on all nodes were heard out of order. */
static int overtaken(leat_queue_profile whose, leat_client *teller)
{
    leat_error e = { 0 };
    static ears x;
    static char sent[EVENTS][64];
    leat_queue *q[SPREAD];
    leat_queue_opts o = { .profile = whose, .event_client = teller };
    memset(&x, 0, sizeof x);
    pthread_mutex_init(&x.lock, NULL);
    for (int i = 0; i < SPREAD; i++) {
        char name[32];
        snprintf(name, sizeof name, whose ? "{q%d}" : "q%d", i);
        q[i] = queue_of(name, &o);
    }
    leat_queue_watch *w = leat_queue_watch_open(
        client, NULL, &(leat_queue_opts){ .profile = whose }, false, listen_in,
        &x, &e);
    assert_non_null(w);
    for (int i = 0; i < EVENTS; i++) {
        leat_queue_sent s;
        leat_conn *held[HELD] = { 0 };
        for (int k = 0; teller && k < i % HELD; k++)
            held[k] = leat_client_lend(teller, LONG_MS, NULL);
        must(leat_queue_send(q[i % SPREAD], &(leat_msg){ 0 }, NULL, &s, err));
        snprintf(sent[i], sizeof sent[0], "%s", s.id);
        for (int k = 0; teller && k < i % HELD; k++)
            leat_client_return(teller, held[k]);
    }
    wait_until(count_heard(&x) == EVENTS, LONG_MS);
    leat_queue_watch_close(w);
    int n = 0;
    for (int i = 0; i < EVENTS; i++)
        n += strcmp(sent[i], x.ids[i]) != 0;
    for (int i = 0; i < SPREAD; i++)
        leat_queue_close(q[i]);
    return n;
}

/* A client whose connections each reached another node first. */
static leat_client *scattered(void)
{
    leat_error e = { 0 };
    leat_conn *conn[HELD];
    leat_client *c = open_client(url, NULL);
    for (int i = 0; i < HELD; i++) {
        char key[16];
        for (int k = 0; k < 100; k++) {
            snprintf(key, sizeof key, "k%d", k);
            if (cluster_owner(rig, cluster_slot(key), -1) == i % 3)
                break;
        }
        conn[i] = leat_client_lend(c, LONG_MS, &e);
        assert_non_null(conn[i]);
        must(leat_conn_call(conn[i], LEAT_ARGS(leat_str("GET"), leat_str(key)),
                            NULL, NULL, err));
    }
    for (int i = 0; i < HELD; i++)
        leat_client_return(c, conn[i]);
    return c;
}

/* Told by the node that has the channel, whichever queue they are of and
 * whichever connection they go over. */
static void events_of_one_client_keep_their_order(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        leat_queue_profile p = i ? LEAT_QUEUE_REDOWL : LEAT_QUEUE_NATIVE;
        print_message("# without an event client %d of %d stand elsewhere\n",
                      overtaken(p, NULL), EVENTS);
        leat_client *teller = scattered();
        assert_int_equal(overtaken(p, teller), 0);
        leat_client_close(teller);
    }
}

/* ---- a slot that moves key by key while it is used --------------------- */

enum { MANY = 2000 };

typedef struct traffic {
    leat_queue *q;
    atomic_int sent, done;
    atomic_bool stop, quiet;
    atomic_char times[MANY];
} traffic;

static void *send_on(void *arg)
{
    traffic *t = arg;
    char text[16];
    for (int i = 0; i < MANY && !t->quiet;) {
        snprintf(text, sizeof text, "%d", i);
        leat_code rc = leat_queue_send(
            t->q, &(leat_msg){ .body = leat_str(text) }, NULL, NULL, NULL);
        if (rc == LEAT_OK)
            t->sent = ++i;
        wait_nap(1);
    }
    return NULL;
}

/* Each third is left to expire once. */
static void *receive_on(void *arg)
{
    traffic *t = arg;
    while (!t->stop) {
        leat_queue_batch *b = leat_queue_receive(
            t->q,
            &(leat_receive_opts){
                .max = 5, .wait_ms = 20, .visibility_ms = 200 },
            NULL);
        for (size_t i = 0; b && i < leat_queue_batch_count(b); i++) {
            const leat_queue_item *it = leat_queue_batch_at(b, i);
            if ((number(it) % 3 == 0 && it->receives == 1) ||
                leat_queue_ack(t->q, it->receipt, NULL) != LEAT_OK)
                continue;
            t->times[number(it)]++;
            t->done++;
        }
        leat_queue_batch_free(b);
    }
    return NULL;
}

static void a_queue_moves_with_its_slot_and_loses_nothing(void **state)
{
    (void)state;
    static traffic t;
    pthread_t sender, receiver;
    t.q = owl("{moving}", (leat_queue_opts){ 0 });
    unsigned slot = cluster_slot("{moving}");
    pthread_create(&sender, NULL, send_on, &t);
    wait_until(t.sent >= 60, LONG_MS);
    pthread_create(&receiver, NULL, receive_on, &t);
    for (int i = 0; i < 3; i++) {
        int before = t.done;
        int from = cluster_owner(rig, slot, -1), to = (from + 1) % 3;
        assert_true(cluster_move_begin(rig, slot, from, to));
        for (int k = 0; k < 200; k++)
            if (cluster_move_keys(rig, slot, from, to, 1) <= 0)
                break;
        assert_true(cluster_move_keys(rig, slot, from, to, 100000) >= 0);
        assert_true(cluster_move_end(rig, slot, from, to));
        wait_until(t.done > before || t.done == MANY, LONG_MS);
    }
    t.quiet = true;
    pthread_join(sender, NULL);
    wait_until(t.done >= t.sent, LONG_MS);
    t.stop = true;
    pthread_join(receiver, NULL);
    for (int i = 0; i < t.sent; i++)
        assert_int_equal(t.times[i], 1);
    leat_queue_stats s = stats(t.q);
    assert_int_equal(s.visible + s.in_flight, 0);
    print_message("# %d sent and done\n", t.sent);
    leat_queue_close(t.q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(an_untagged_queue_is_received_and_acknowledged),
        rig_test(what_expired_of_an_untagged_queue_comes_back_in_order),
        rig_test(a_receive_of_an_untagged_queue_cut_off_loses_nothing),
        rig_test(consumers_of_an_untagged_queue_share_it),
        rig_test(dead_letters_of_an_untagged_queue_are_refused),
        rig_test(every_step_works_with_a_tag),
        rig_test(a_wait_ends_whichever_node_it_is_told_by),
        rig_test(a_pool_finds_the_queues_of_all_nodes),
        rig_test(events_of_one_client_keep_their_order),
        rig_test(a_queue_moves_with_its_slot_and_loses_nothing),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
