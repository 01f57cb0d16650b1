/* topic_producer.c: publishing to a topic while all is well, and its bounds. */
#include "support/server.h"
#include "support/tcpfault.h"
#include "topic_told.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOON_MS = 30000 };

static leat_topic *open_on(leat_client *c, const leat_topic_opts *opts)
{
    leat_topic_opts o = opts ? *opts : (leat_topic_opts){ 0 };
    leat_error e = { 0 };
    o.auto_create = true;
    leat_topic *t = leat_topic_open(c, "t", &o, &e);
    if (!t)
        fail_msg("cannot open: %s: %s", leat_code_name(e.code), e.msg);
    return t;
}

static leat_topic *open_topic(const leat_topic_opts *opts)
{
    return open_on(client, opts);
}

static leat_code publish_text(leat_topic *t, const char *body, leat_error *err)
{
    return leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                              NULL, err);
}

/* ---- what arrives ----------------------------------------------------- */

struct entry {
    leat_fields *fields;
    const leat_msg *m;
    redisReply *reply;
};

static struct entry read_entry(const char *key, const leat_codec *codec)
{
    struct entry e = { .fields = leat_fields_new(NULL),
                       .reply = redis_raw(server, "XREVRANGE %s + - COUNT 1",
                                          key) };
    size_t n = 0;
    assert_int_equal(e.reply->elements, 1);
    const redisReply *f = e.reply->element[0]->element[1];
    for (size_t i = 0; i < f->elements; i += 2)
        must(leat_fields_add(
            e.fields, leat_mem(f->element[i]->str, f->element[i]->len),
            leat_mem(f->element[i + 1]->str, f->element[i + 1]->len), err));
    must(codec->decode(codec, e.fields, &e.m, &n, err));
    assert_int_equal(n, 1);
    return e;
}

static void drop_entry(struct entry *e)
{
    leat_fields_free(e->fields);
    freeReplyObject(e->reply);
}

static void a_message_arrives_whole_where_it_was_told(void **state)
{
    told *l = told_new(1);
    (void)state;
    leat_topic *t = open_topic(NULL);
    leat_header h = { leat_str("h"), leat_mem("\0v", 2) };
    leat_msg m = { .id = leat_str("my-id"),
                   .key = leat_str("k"),
                   .type = leat_str("type"),
                   .time_ms = 12345,
                   .headers = &h,
                   .header_count = 1,
                   .body = leat_str("0") };
    struct told_arg *a = malloc(sizeof *a);
    *a = (struct told_arg){ l, 0 };
    l->m[0].accepted = true;
    must(leat_topic_publish(t, &m, told_on, a, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, 1);
    told_audit(l, server, 1);
    struct entry e = read_entry("leat:{t/0}:log", &leat_codec_native);
    assert_true(leat_bytes_eq(e.m->id, m.id));
    assert_true(leat_bytes_eq(e.m->key, m.key));
    assert_true(leat_bytes_eq(e.m->type, m.type));
    assert_int_equal(e.m->time_ms, 12345);
    assert_true(leat_bytes_eq(leat_msg_header(e.m, "h"), h.value));
    assert_int_equal(e.m->header_count, 1);
    drop_entry(&e);
    leat_topic_close(t);
    told_free(l);
}

static void a_message_gets_an_id_and_a_time(void **state)
{
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){
        .codec = &leat_codec_ce_binary, .partition_header = true });
    must(publish_text(t, "x", err));
    must(leat_topic_flush(t, SOON_MS, err));
    struct entry e = read_entry("leat:{t/0}:log", &leat_codec_ce_binary);
    assert_int_equal(e.m->id.n, 36);
    assert_int_equal(((const char *)e.m->id.p)[14], '7');
    int64_t now = (int64_t)time(NULL) * 1000;
    assert_in_range(e.m->time_ms, now - 60000, now + 60000);
    assert_true(
        leat_bytes_eq(leat_msg_header(e.m, "partitionId"), leat_str("0")));
    drop_entry(&e);
    leat_topic_close(t);
}

static void messages_go_where_the_topic_says(void **state)
{
    told *l = told_new(500);
    uint32_t p = 9;
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){
        .partitions = 8, .partitioner = LEAT_PARTITION_JAVA });
    for (int i = 0; i < l->count; i++)
        must(told_publish(l, t, i, i % 2 ? "order-1" : "user:42", err));
    must(leat_topic_flush(t, SOON_MS, err));
    told_audit(l, server, 8);
    assert_int_equal(redis_int(server, "XLEN leat:{t/2}:log"), 250);
    assert_int_equal(redis_int(server, "XLEN leat:{t/5}:log"), 250);
    must(leat_topic_partition_of(t, &(leat_msg){ .key = leat_str("a") }, &p,
                                 err));
    assert_int_equal(p, 1);
    leat_topic_close(t);
    told_free(l);
}

static void a_partition_can_be_named(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){ .partitions = 3 });
    leat_msg m = { .key = leat_str("k"), .body = leat_str("x") };
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t n = 0; n <= p; n++)
            must(leat_topic_publish_to(t, p, &m, NULL, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    for (int p = 0; p < 3; p++)
        assert_int_equal(redis_int(server, "XLEN leat:{t/%d}:log", p), p + 1);
    assert_code(leat_topic_publish_to(t, 3, &m, NULL, NULL, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "no partition 3: it has 3"));
    leat_topic_close(t);
}

static uint32_t wrong(void *arg, const leat_msg *m, uint32_t partitions)
{
    (void)arg;
    (void)m;
    return partitions;
}

static void a_wrong_choice_of_ones_own_is_refused(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .partitions = 2,
                            .partitioner = LEAT_PARTITION_OWN,
                            .partition_fn = wrong });
    assert_code(publish_text(t, "x", &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "answered 2"));
    must(leat_topic_flush(t, SOON_MS, err));
    leat_topic_close(t);
}

static void count_ok(void *arg, const leat_position *at, const leat_error *err)
{
    assert_null(err);
    assert_true(at->ms > 0);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void a_batch_is_accepted_whole_or_not_at_all(void **state)
{
    atomic_int ok = 0;
    leat_error e = { 0 };
    leat_msg m[1000];
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .partitions = 4, .max_message = 200 });
    for (int i = 0; i < 1000; i++)
        m[i] = (leat_msg){ .body = leat_str("some body") };
    must(leat_topic_publish_batch(t, m, 1000, count_ok, &ok, err));
    must(leat_topic_publish_batch(t, m, 0, count_ok, &ok, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(ok, 1000);

    char big[300] = { 0 };
    m[999].body = leat_mem(big, sizeof big);
    assert_code(leat_topic_publish_batch(t, m, 1000, count_ok, &ok, &e),
                LEAT_ETOOBIG);
    must(publish_text(t, "after", err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(ok, 1000);
    int64_t sum = 0;
    for (int p = 0; p < 4; p++)
        sum += redis_int(server, "XLEN leat:{t/%d}:log", p);
    assert_int_equal(sum, 1001);
    leat_topic_close(t);
}

static void what_is_too_big_is_refused_with_size_and_limit(void **state)
{
    leat_error e = { 0 };
    static char big[2 << 20];
    (void)state;
    leat_topic *t = open_topic(NULL);
    leat_msg m = { .body = leat_mem(big, sizeof big) };
    assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_ETOOBIG);
    assert_non_null(strstr(e.msg, "2097"));
    assert_non_null(strstr(e.msg, "1048576"));
    assert_false(e.retriable);
    m.body.n = 1000000;
    must(leat_topic_publish(t, &m, NULL, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 1);
    leat_topic_close(t);
}

static void a_legacy_topic_is_written_to_as_it_is(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "XADD t * a b");
    leat_topic *t = leat_topic_open(client, "t", NULL, &e);
    assert_non_null(t);
    must(publish_text(t, "x", err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(redis_int(server, "XLEN t"), 2);
    assert_int_equal(redis_int(server, "DBSIZE"), 1);
    leat_topic_close(t);
}

static void a_topic_is_a_sink(void **state)
{
    atomic_int ok = 0;
    leat_msg m[3] = { { .body = leat_str("a") },
                      { .body = leat_str("b") },
                      { .body = leat_str("c") } };
    (void)state;
    leat_topic *t = open_topic(NULL);
    leat_sink *k = leat_topic_sink(t, NULL);
    assert_non_null(k);
    must(leat_sink_publish(k, m, 3, count_ok, &ok, err));
    must(leat_sink_flush(k, SOON_MS, err));
    assert_int_equal(ok, 3);
    leat_sink_close(k);
    must(publish_text(t, "still open", err));
    leat_topic_close(t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 4);
}

/* ---- many at once ----------------------------------------------------- */

enum { THREADS = 4, EACH = 3000 };

struct writer {
    leat_topic *t;
    told *l;
    int first;
    atomic_int *bad;
};

static void *write_many(void *arg)
{
    struct writer *w = arg;
    char key[16];
    snprintf(key, sizeof key, "key-%d", w->first);
    for (int i = 0; i < EACH; i++)
        if (told_publish(w->l, w->t, w->first + i, key, NULL) != LEAT_OK)
            atomic_fetch_add(w->bad, 1);
    return NULL;
}

/* Each thread has a partition of its own, so that its order can be seen. */
static void threads_publish_beside_each_other(void **state)
{
    told *l = told_new(THREADS * EACH);
    atomic_int bad = 0;
    pthread_t id[THREADS];
    struct writer w[THREADS];
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){
        .partitions = 64, .max_queued = 700, .window = 512 });
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct writer){ t, l, i * EACH, &bad };
        assert_int_equal(pthread_create(&id[i], NULL, write_many, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(bad, 0);
    assert_int_equal(l->ok, THREADS * EACH);
    leat_topic_close(t);
    told_audit(l, server, 64);
    told_free(l);
}

/* If it were refilled only when somebody looks, once a second, this would take
 * minutes. */
static void a_small_window_is_refilled_at_once(void **state)
{
    told *l = told_new(10000);
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){ .window = 16 });
    for (int i = 0; i < l->count; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, l->count);
    leat_topic_close(t);
    told_audit(l, server, 1);
    told_free(l);
}

struct chain {
    leat_topic *t;
    atomic_int left;
    atomic_int bad;
};

static void next_in_chain(void *arg, const leat_position *at,
                          const leat_error *err)
{
    struct chain *c = arg;
    (void)at;
    if (err)
        atomic_fetch_add(&c->bad, 1);
    if (atomic_fetch_sub(&c->left, 1) > 1 &&
        leat_topic_publish(c->t, &(leat_msg){ .body = leat_str("x") },
                           next_in_chain, c, NULL) != LEAT_OK)
        atomic_fetch_add(&c->bad, 1);
}

static void a_callback_may_publish(void **state)
{
    struct chain c = { .t = open_topic(NULL), .left = 200 };
    (void)state;
    must(leat_topic_publish(c.t, &(leat_msg){ .body = leat_str("x") },
                            next_in_chain, &c, err));
    wait_until(atomic_load(&c.left) == 0, SOON_MS);
    must(leat_topic_flush(c.t, SOON_MS, err));
    assert_int_equal(c.bad, 0);
    leat_topic_close(c.t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 200);
}

struct inside {
    leat_topic *t;
    leat_code flush, publish;
    atomic_bool done;
};

static void block_inside(void *arg, const leat_position *at,
                         const leat_error *err)
{
    struct inside *x = arg;
    (void)at;
    (void)err;
    if (atomic_load(&x->done))
        return;
    x->flush = leat_topic_flush(x->t, SOON_MS, NULL);
    /* Its own place is not free yet, and nobody else could free one. */
    x->publish = leat_topic_publish(x->t, &(leat_msg){ .body = leat_str("y") },
                                    NULL, NULL, NULL);
    atomic_store(&x->done, true);
}

static void a_callback_is_never_left_waiting_for_itself(void **state)
{
    struct inside x = { .t = open_topic(
                            &(leat_topic_opts){ .max_queued = 1 }) };
    (void)state;
    must(leat_topic_publish(x.t, &(leat_msg){ .body = leat_str("x") },
                            block_inside, &x, err));
    wait_until(atomic_load(&x.done), SOON_MS);
    assert_code(x.flush, LEAT_EINVAL);
    assert_code(x.publish, LEAT_EFULL);
    leat_topic_close(x.t);
}

/* ---- bounds ----------------------------------------------------------- */

static void a_full_topic_refuses_at_once_when_told_so(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .max_queued = 10, .no_wait = true });
    must(publish_text(t, "connected", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_pause(server);
    for (int i = 0; i < 10; i++)
        must(publish_text(t, "x", err));
    assert_code(publish_text(t, "x", &e), LEAT_EFULL);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "10 messages"));
    leat_msg many[11] = { 0 };
    assert_code(leat_topic_publish_batch(t, many, 11, NULL, NULL, &e),
                LEAT_ETOOBIG);
    redis_resume(server);
    must(leat_topic_flush(t, SOON_MS, err));
    must(publish_text(t, "x", err));
    leat_topic_close(t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 12);
}

static void bytes_are_bounded_too(void **state)
{
    char half[500] = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .max_queued_bytes = 1500, .no_wait = true });
    leat_msg m = { .body = leat_mem(half, sizeof half) };
    must(publish_text(t, "connected", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_pause(server);
    must(leat_topic_publish(t, &m, NULL, NULL, err));
    must(leat_topic_publish(t, &m, NULL, NULL, err));
    assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_EFULL);
    must(publish_text(t, "small", err));
    char whole[2000] = { 0 };
    m.body = leat_mem(whole, sizeof whole);
    assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_ETOOBIG);
    redis_resume(server);
    must(leat_topic_flush(t, SOON_MS, err));
    leat_topic_close(t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 4);
}

static void a_full_topic_makes_the_publisher_wait_and_then_fail(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .max_queued = 2, .max_wait_ms = 60 });
    must(publish_text(t, "connected", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_pause(server);
    must(publish_text(t, "1", err));
    must(publish_text(t, "2", err));
    int64_t before = wait_now_ms();
    assert_code(publish_text(t, "3", &e), LEAT_EFULL);
    assert_true(wait_now_ms() - before >= 59);
    redis_resume(server);
    must(leat_topic_flush(t, SOON_MS, err));
    leat_topic_close(t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 3);
}

struct waiter {
    leat_topic *t;
    atomic_bool begun, over;
    leat_code code;
};

static void *publish_one(void *arg)
{
    struct waiter *w = arg;
    atomic_store(&w->begun, true);
    w->code = publish_text(w->t, "later", NULL);
    atomic_store(&w->over, true);
    return NULL;
}

static void a_waiting_publisher_goes_on_when_there_is_room(void **state)
{
    pthread_t id;
    (void)state;
    struct waiter w = { .t = open_topic(&(leat_topic_opts){
                            .max_queued = 2, .max_wait_ms = 60000 }) };
    must(publish_text(w.t, "connected", err));
    must(leat_topic_flush(w.t, SOON_MS, err));
    redis_pause(server);
    must(publish_text(w.t, "1", err));
    must(publish_text(w.t, "2", err));
    assert_int_equal(pthread_create(&id, NULL, publish_one, &w), 0);
    wait_until(atomic_load(&w.begun), SOON_MS);
    assert_false(atomic_load(&w.over));
    redis_resume(server);
    pthread_join(id, NULL);
    assert_code(w.code, LEAT_OK);
    must(leat_topic_flush(w.t, SOON_MS, err));
    leat_topic_close(w.t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 4);
}

static void a_flush_that_is_over_says_how_many_are_left(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(NULL);
    must(publish_text(t, "connected", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_pause(server);
    must(publish_text(t, "1", err));
    must(publish_text(t, "2", err));
    assert_code(leat_topic_flush(t, 30, &e), LEAT_ETIMEOUT);
    assert_non_null(strstr(e.msg, "2 messages"));
    redis_resume(server);
    must(leat_topic_flush(t, SOON_MS, err));
    leat_topic_close(t);
}

static void messages_linger_until_flushed_or_enough(void **state)
{
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){
        .linger_ms = 20000, .window = 16, .timeout_ms = 60000 });
    must(publish_text(t, "1", err));
    must(leat_topic_flush(t, SOON_MS, err)); /* it hurries */
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 1);
    for (int i = 0; i < 3; i++)
        must(publish_text(t, "few", err));
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 1);
    for (int i = 0; i < 5; i++)
        must(publish_text(t, "half a window", err));
    wait_until(redis_int(server, "XLEN leat:{t/0}:log") == 9, 15000);
    leat_topic_close(t);
}

static void what_lingers_goes_out_when_its_time_is_over(void **state)
{
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){ .linger_ms = 50 });
    must(publish_text(t, "1", err));
    must(publish_text(t, "2", err));
    wait_until(redis_int(server, "XLEN leat:{t/0}:log") == 2, SOON_MS);
    leat_topic_close(t);
}

/* ---- what the server says --------------------------------------------- */

static void a_full_server_fails_messages_and_takes_later_ones(void **state)
{
    told *l = told_new(300);
    (void)state;
    leat_topic *t = open_topic(NULL);
    for (int i = 0; i < 100; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "CONFIG SET maxmemory 1");
    for (int i = 100; i < 200; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err)); /* they had callbacks */
    assert_int_equal(l->failed, 100);
    assert_code(l->m[150].code, LEAT_EFULL);
    assert_true(l->m[150].retriable);
    assert_non_null(strstr(l->last, "OOM"));
    redis_do(server, "CONFIG SET maxmemory 0");
    for (int i = 200; i < 300; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, 200);
    leat_topic_close(t);
    told_audit(l, server, 1);
    told_free(l);
}

static void flush_tells_the_first_failure_nobody_was_told_of(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(NULL);
    must(publish_text(t, "1", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "DEL leat:{t/0}:log");
    redis_do(server, "SET leat:{t/0}:log x");
    must(publish_text(t, "2", err));
    assert_code(leat_topic_flush(t, SOON_MS, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "WRONGTYPE"));
    must(leat_topic_flush(t, SOON_MS, err)); /* told once */
    leat_topic_close(t);
}

static void
what_a_replica_refused_goes_to_the_next_master_in_order(void **state)
{
    told *l = told_new(200);
    (void)state;
    leat_topic *t = open_topic(NULL);
    must(publish_text(t, "connected", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "DEL leat:{t/0}:log");
    int64_t before = redis_accepted(server);
    redis_do(server, "REPLICAOF 127.0.0.1 1");
    for (int i = 0; i < 100; i++)
        must(told_publish(l, t, i, NULL, err));
    /* It dials once all are answered: none is done behind a refused one. */
    wait_until(redis_accepted(server) > before, SOON_MS);
    assert_code(leat_topic_flush(t, 1, NULL), LEAT_ETIMEOUT);
    redis_do(server, "REPLICAOF NO ONE");
    for (int i = 100; i < 200; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, 200);
    leat_topic_close(t);
    told_audit(l, server, 1);
    told_free(l);
}

static void what_is_refused_for_too_long_fails_with_the_reason(void **state)
{
    told *l = told_new(1);
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){ .timeout_ms = 300 });
    wait_until(publish_text(t, "connected", NULL) == LEAT_OK &&
                   leat_topic_flush(t, SOON_MS, NULL) == LEAT_OK,
               SOON_MS);
    redis_do(server, "REPLICAOF 127.0.0.1 1");
    must(told_publish(l, t, 0, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "REPLICAOF NO ONE");
    assert_code(l->m[0].code, LEAT_ETIMEOUT);
    assert_non_null(strstr(l->last, "replica"));
    leat_topic_close(t);
    told_free(l);
}

/* ---- replicas --------------------------------------------------------- */

static void too_few_replicas_is_unknown(void **state)
{
    told *l = told_new(50);
    (void)state;
    leat_topic *t = open_topic(
        &(leat_topic_opts){ .replicas = 1, .replicas_ms = 20 });
    for (int i = 0; i < l->count; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->unknown, l->count);
    assert_non_null(strstr(l->last, "0 of 1 replicas"));
    leat_topic_close(t);
    told_audit(l, server, 1);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), l->count);
    told_free(l);
}

static void messages_on_a_replica_are_persisted(void **state)
{
    told *l = told_new(500);
    char text[64], port[16];
    (void)state;
    redis_server *master = redis_start(&(redis_opts){ .tcp = true });
    redis_server *replica = redis_start(NULL);
    assert_non_null(master);
    assert_non_null(replica);
    snprintf(port, sizeof port, "%d", redis_port(master));
    redis_do(master, "CONFIG SET repl-diskless-sync-delay 0");
    redis_do(replica, "REPLICAOF 127.0.0.1 %s", port);
    wait_until(redis_int(master, "WAIT 1 100") == 1, SOON_MS);
    leat_client *c = open_client(redis_url(master, text, sizeof text), NULL);
    leat_topic *t = open_on(
        c, &(leat_topic_opts){ .replicas = 1, .replicas_ms = SOON_MS });
    for (int i = 0; i < l->count; i++)
        must(told_publish(l, t, i, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, l->count);
    assert_int_equal(redis_int(replica, "XLEN leat:{t/0}:log"), l->count);
    leat_topic_close(t);
    leat_client_close(c);
    told_audit(l, master, 1);
    redis_stop(replica);
    redis_stop(master);
    told_free(l);
}

/* ---- around it -------------------------------------------------------- */

static void outcomes_are_counted(void **state)
{
    (void)state;
    leat_metrics *m = leat_metrics_new(NULL);
    leat_topic *t = open_topic(&(leat_topic_opts){ .metrics = m });
    for (int i = 0; i < 7; i++)
        must(publish_text(t, "x", err));
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "CONFIG SET maxmemory 1");
    must(publish_text(t, "x", err));
    assert_code(leat_topic_flush(t, SOON_MS, NULL), LEAT_EFULL);
    redis_do(server, "CONFIG SET maxmemory 0");
    leat_topic_close(t);
    char *text = leat_metrics_text(m, false, NULL);
    assert_non_null(text);
    const char *name = "messaging_client_sent_messages_total{"
                       "messaging_destination_name=\"t\","
                       "messaging_system=\"leat\",result=";
    char want[256];
    snprintf(want, sizeof want, "%s\"ok\"} 7\n", name);
    assert_non_null(strstr(text, want));
    snprintf(want, sizeof want, "%s\"failed\"} 1\n", name);
    assert_non_null(strstr(text, want));
    snprintf(want, sizeof want, "%s\"unknown\"} 0\n", name);
    assert_non_null(strstr(text, want));
    assert_non_null(strstr(text, "leat_topic_queued_messages{"
                                 "messaging_destination_name=\"t\","
                                 "messaging_system=\"leat\"} 0\n"));
    leat_metrics_text_free(text);
    leat_metrics_free(m);
}

static void a_closed_topic_has_confirmed_everything(void **state)
{
    told *l = told_new(5000);
    (void)state;
    leat_topic *t = open_topic(&(leat_topic_opts){ .partitions = 3 });
    for (int i = 0; i < l->count; i++)
        must(told_publish(l, t, i, NULL, err));
    leat_topic_close(t);
    assert_int_equal(l->ok, l->count);
    told_audit(l, server, 3);
    leat_topic_close(NULL);
    leat_topic_close(open_topic(NULL)); /* nothing was published */
    told_free(l);
}

static void a_child_cannot_use_the_parents_topic(void **state)
{
    int status = -1;
    (void)state;
    leat_topic *t = open_topic(NULL);
    must(publish_text(t, "parent", err));
    must(leat_topic_flush(t, SOON_MS, err));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        leat_error e = { 0 };
        int bad = publish_text(t, "child", &e) != LEAT_EFORK ||
                  !strstr(e.msg, "'t'") ||
                  leat_topic_flush(t, 0, NULL) != LEAT_EFORK;
        leat_topic_close(t);
        _exit(bad);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    must(publish_text(t, "parent", err));
    leat_topic_close(t);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), 2);
}

/* Nobody follows, so it is unproven; but it was sent. */
static void a_proof_finds_room_in_the_smallest_window(void **state)
{
    (void)state;
    for (int window = 1; window <= LEAT_WINDOW_MIN; window++) {
        leat_client *c = open_client(url,
                                     &(leat_client_opts){ .window = window });
        leat_topic *t = open_on(c, &(leat_topic_opts){ .replicas = 1,
                                                       .replicas_ms = 10,
                                                       .timeout_ms = 5000 });
        must(publish_text(t, "x", err));
        (void)leat_topic_flush(t, SOON_MS, NULL);
        leat_topic_close(t);
        leat_client_close(c);
        assert_int_equal(redis_int(server, "XLEN leat:{t/0}:log"), window);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_one, close_one)
    const struct CMUnitTest tests[] = {
        TEST(a_message_arrives_whole_where_it_was_told),
        TEST(a_message_gets_an_id_and_a_time),
        TEST(messages_go_where_the_topic_says),
        TEST(a_partition_can_be_named),
        TEST(a_wrong_choice_of_ones_own_is_refused),
        TEST(a_batch_is_accepted_whole_or_not_at_all),
        TEST(what_is_too_big_is_refused_with_size_and_limit),
        TEST(a_legacy_topic_is_written_to_as_it_is),
        TEST(a_topic_is_a_sink),
        TEST(threads_publish_beside_each_other),
        TEST(a_small_window_is_refilled_at_once),
        TEST(a_proof_finds_room_in_the_smallest_window),
        TEST(a_callback_may_publish),
        TEST(a_callback_is_never_left_waiting_for_itself),
        TEST(a_full_topic_refuses_at_once_when_told_so),
        TEST(bytes_are_bounded_too),
        TEST(a_full_topic_makes_the_publisher_wait_and_then_fail),
        TEST(a_waiting_publisher_goes_on_when_there_is_room),
        TEST(a_flush_that_is_over_says_how_many_are_left),
        TEST(messages_linger_until_flushed_or_enough),
        TEST(what_lingers_goes_out_when_its_time_is_over),
        TEST(a_full_server_fails_messages_and_takes_later_ones),
        TEST(flush_tells_the_first_failure_nobody_was_told_of),
        TEST(what_a_replica_refused_goes_to_the_next_master_in_order),
        TEST(what_is_refused_for_too_long_fails_with_the_reason),
        TEST(too_few_replicas_is_unknown),
        TEST(messages_on_a_replica_are_persisted),
        TEST(outcomes_are_counted),
        TEST(a_closed_topic_has_confirmed_everything),
        TEST(a_child_cannot_use_the_parents_topic),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
