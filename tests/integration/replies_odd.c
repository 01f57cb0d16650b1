/*
 * replies_odd.c: an answer that makes no sense is never "nothing there", and
 * never "done": a question fails with LEAT_EPROTO, what may have been done with
 * LEAT_EUNKNOWN.
 */
#define CLIENT_TIMEOUT_MS 300

#include "support/mutate_wire.h"
#include "support/server.h"
#include "support/wait.h"

static mutate lie;

/* Answers to that command, or script, are `with`; so many. */
static void lie_of(const char *command, const char *with, int times)
{
    lie.of = command;
    lie.with = with;
    atomic_store(&lie.asked, 0);
    atomic_store(&lie.times, times);
}

enum { ALWAYS = 1000000 };

static int open_lied(void **state)
{
    lie = (mutate){ 0 };
    mutate_install(&lie);
    return open_one(state);
}

static int close_lied(void **state)
{
    atomic_store(&lie.times, 0);
    int rc = close_one(state);
    mutate_install(NULL);
    return rc;
}

static const char *const wrong[] = {
    "*1\r\n*1\r\n*0\r\n",
    "$-1\r\n",
    "*3\r\n$1\r\na\r\n*0\r\n:1\r\n",
    "%1\r\n$1\r\na\r\n*1\r\n:1\r\n",
};

/* All of these are no answer to it. */
#define assert_odd(command, want, call)                                        \
    do {                                                                       \
        for (size_t odd_ = 0; odd_ < sizeof wrong / sizeof *wrong; odd_++) {   \
            leat_error e = { 0 };                                              \
            lie_of(command, wrong[odd_], ALWAYS);                              \
            (void)(call);                                                      \
            bool asked_ = atomic_load(&lie.asked) > 0;                         \
            lie_of("none", "", 0);                                             \
            if (e.code != (want) || !asked_)                                   \
                fail_msg("%s answered %s: %s (%s)", command, wrong[odd_],      \
                         asked_ ? leat_code_name(e.code) : "not asked",        \
                         e.msg);                                               \
        }                                                                      \
    } while (0)

/* ---- topics ----------------------------------------------------------- */

static leat_msg text(const char *s)
{
    return (leat_msg){ .body = leat_str(s), .key = leat_str(s) };
}

/* One message, which group g has in flight. */
static leat_source *used_topic(leat_topic **t, leat_delivery **d)
{
    leat_error e = { 0 };
    const leat_topic_spec spec = { .partitions = 1 };
    assert_code(leat_topic_create(client, "t", &spec, &e), LEAT_OK);
    *t = leat_topic_open(client, "t", NULL, &e);
    assert_non_null(*t);
    leat_msg m = text("one");
    assert_code(leat_topic_publish(*t, &m, NULL, NULL, &e), LEAT_OK);
    assert_code(leat_topic_flush(*t, 5000, &e), LEAT_OK);
    leat_source *s = leat_topic_source(
        *t, "g", &(leat_topic_source_opts){ .lease_ms = 2000, .block_ms = 20 },
        &e);
    assert_non_null(s);
    int n = 0;
    for (int i = 0; i < 200 && n == 0; i++)
        n = leat_source_receive(s, d, 1, 100, &e);
    assert_int_equal(n, 1);
    return s;
}

static void a_look_at_a_topic_that_was_answered_strangely_fails(void **state)
{
    (void)state;
    leat_topic *t;
    leat_delivery *d;
    leat_source *s = used_topic(&t, &d);
    assert_odd("XINFO", LEAT_EPROTO,
               leat_topic_describe(client, "t", NULL, &e));
    assert_odd("TIME", LEAT_EPROTO, leat_topic_describe(client, "t", NULL, &e));
    assert_odd("XLEN", LEAT_EPROTO, leat_topic_describe(client, "t", NULL, &e));
    assert_odd("ZCARD", LEAT_EPROTO,
               leat_topic_describe(client, "t", NULL, &e));
    assert_odd("SCARD", LEAT_EPROTO,
               leat_topic_describe(client, "t", NULL, &e));
    assert_odd("XREVRANGE", LEAT_EPROTO,
               leat_topic_describe(client, "t", NULL, &e));
    assert_odd("SSCAN", LEAT_EPROTO, leat_topic_names(client, NULL, &e));
    assert_odd("HMGET", LEAT_EPROTO,
               leat_group_describe(client, "t", "g", NULL, &e));
    assert_odd("SISMEMBER", LEAT_EPROTO,
               leat_group_describe(client, "t", "g", NULL, &e));
    assert_odd("HSCAN", LEAT_EPROTO,
               leat_group_describe(client, "t", "g", NULL, &e));
    assert_odd("topic/alive", LEAT_EPROTO,
               leat_group_describe(client, "t", "g", NULL, &e));
    assert_odd("ZCOUNT", LEAT_EPROTO,
               leat_group_describe(client, "t", "g", NULL, &e));
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
}

static void
a_trim_that_was_answered_strangely_took_nothing_for_sure(void **state)
{
    (void)state;
    leat_topic *t;
    leat_delivery *d;
    leat_trimmed out;
    leat_source *s = used_topic(&t, &d);
    const leat_trim_opts o = { .max_entries = 1 };
    assert_odd("SMEMBERS", LEAT_EPROTO,
               leat_topic_trim(client, "t", &o, &out, &e));
    assert_odd("topic/trim", LEAT_EPROTO,
               leat_topic_trim(client, "t", &o, &out, &e));
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
}

static void
a_change_of_a_group_that_was_answered_strangely_is_unknown(void **state)
{
    (void)state;
    leat_topic *t;
    leat_delivery *d;
    leat_source *s = used_topic(&t, &d);
    assert_odd("admin/pause", LEAT_EUNKNOWN,
               leat_group_pause(client, "t", "g", NULL, &e));
    assert_odd("topic/alter", LEAT_EUNKNOWN,
               leat_topic_alter(client, "t", NULL,
                                &(leat_retention){ .max_entries = 9 }, &e));
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_settlement_that_was_answered_strangely_is_sent_again(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_topic *t;
    leat_delivery *d;
    leat_source *s = used_topic(&t, &d);
    lie_of("topic/save", "*1\r\n*0\r\n", 1);
    assert_code(leat_delivery_ack(d), LEAT_OK);
    assert_code(leat_source_flush(s, 10000, &e), LEAT_OK);
    assert_true(atomic_load(&lie.asked) > 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* An integer is the answer of a script, where a log has a cap. */
static void a_message_that_was_answered_by_no_id_is_unknown(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_topic *t;
    leat_delivery *d;
    leat_source *s = used_topic(&t, &d);
    leat_msg m = text("two");
    lie_of("XADD", ":7\r\n", 1);
    assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_OK);
    assert_code(leat_topic_flush(t, 5000, &e), LEAT_EUNKNOWN);
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
}

static void count_loss(void *arg, const leat_loss *x)
{
    (void)x;
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void cut_all(void)
{
    leat_error e = { 0 };
    leat_client *other = leat_client_open(url, NULL, &e);
    leat_reply *r = NULL;
    assert_non_null(other);
    assert_code(leat_client_call(other,
                                 LEAT_ARGS(leat_str("CLIENT"), leat_str("KILL"),
                                           leat_str("TYPE"), leat_str("normal"),
                                           leat_str("SKIPME"), leat_str("yes")),
                                 NULL, &r, &e),
                LEAT_OK);
    leat_reply_free(r);
    leat_client_close(other);
}

static void an_answer_that_makes_no_sense_is_no_loss(void **state)
{
    (void)state;
    leat_error e = { 0 };
    atomic_int losses = 0;
    const leat_topic_spec spec = { .partitions = 1 };
    assert_code(leat_topic_create(client, "t", &spec, &e), LEAT_OK);
    leat_topic *t = leat_topic_open(
        client, "t",
        &(leat_topic_opts){ .on_loss = count_loss, .loss_arg = &losses }, &e);
    assert_non_null(t);
    leat_msg m = text("one");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_OK);
        assert_code(leat_topic_flush(t, 5000, &e), LEAT_OK);
        lie_of("topic/there", wrong[i], 2);
        cut_all();
        assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_OK);
        (void)leat_topic_flush(t, 5000, &e);
        assert_true(atomic_load(&lie.asked) > 0);
        lie_of("none", "", 0);
    }
    assert_int_equal(atomic_load(&losses), 0);
    leat_topic_close(t);
}

/* ---- what is asked in the background ---------------------------------- */

/* A line of the log that is to come, and one that must not. */
typedef struct ear {
    const char *wanted, *never;
    atomic_int heard, wrong;
} ear;

static void hear(void *arg, leat_level level, const char *line)
{
    ear *e = arg;
    (void)level;
    if (strstr(line, e->wanted))
        atomic_fetch_add(&e->heard, 1);
    if (e->never && strstr(line, e->never))
        atomic_fetch_add(&e->wrong, 1);
}

/* A member with one message in flight. */
static leat_source *member(leat_topic **t, const leat_topic_source_opts *o,
                           ear *heard, leat_delivery **d)
{
    leat_error e = { 0 };
    const leat_topic_spec spec = { .partitions = 1 };
    assert_code(leat_topic_create(client, "t", &spec, &e), LEAT_OK);
    *t = leat_topic_open(
        client, "t", &(leat_topic_opts){ .log = { .fn = hear, .arg = heard } },
        &e);
    assert_non_null(*t);
    leat_msg m = text("one");
    assert_code(leat_topic_publish(*t, &m, NULL, NULL, &e), LEAT_OK);
    assert_code(leat_topic_flush(*t, 5000, &e), LEAT_OK);
    leat_source *s = leat_topic_source(*t, "g", o, &e);
    assert_non_null(s);
    int n = 0;
    for (int i = 0; i < 300 && n == 0; i++)
        n = leat_source_receive(s, d, 1, 100, &e);
    assert_int_equal(n, 1);
    return s;
}

static void receive_none(leat_source *s)
{
    leat_error e = { 0 };
    leat_delivery *d[1];
    assert_int_equal(leat_source_receive(s, d, 1, 10, &e), 0);
}

/* What would be 999 entries that went unread, had it been a log's. */
static void a_look_for_gaps_answered_strangely_tells_none(void **state)
{
    (void)state;
    atomic_int losses = 0;
    char odd[200], id[64];
    ear heard = { .wanted = "looking for gaps fails" };
    leat_topic *t;
    leat_delivery *d;
    leat_source *s = member(&t,
                            &(leat_topic_source_opts){ .lease_ms = 600,
                                                       .block_ms = 20,
                                                       .on_loss = count_loss,
                                                       .loss_arg = &losses },
                            &heard, &d);
    leat_position at = leat_delivery_position(d);
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)at.ms,
             (unsigned long long)at.seq);
    snprintf(odd, sizeof odd,
             "*5\r\n*0\r\n$%zu\r\n%s\r\n$0\r\n\r\n:1000\r\n*0\r\n", strlen(id),
             id);
    lie_of("topic/there", odd, ALWAYS);
    wait_until((receive_none(s), atomic_load(&lie.asked) >= 3), 30000);
    lie_of("none", "", 0);
    assert_int_equal(atomic_load(&losses), 0);
    assert_true(atomic_load(&heard.heard) > 0);
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_sample_answered_strangely_changes_no_gauge(void **state)
{
    (void)state;
    leat_error e = { 0 };
    ear heard = { .wanted = "measuring a partition fails" };
    leat_topic *t;
    leat_delivery *d;
    leat_metrics *m = leat_metrics_new(&e);
    leat_source *s = member(&t,
                            &(leat_topic_source_opts){
                                .lease_ms = 600, .block_ms = 20, .metrics = m },
                            &heard, &d);
    leat_gauge *messages = leat_metrics_gauge(
        m, "leat_topic_messages", "",
        (const leat_label[]){ { "messaging_system", "leat" },
                              { "messaging_destination_name", "t" },
                              { "messaging_consumer_group_name", "g" } },
        3, &e);
    assert_non_null(messages);
    wait_until((receive_none(s), leat_gauge_get(messages) == 1), 30000);
    lie_of("topic/sample", "*6\r\n*0\r\n:5\r\n:5\r\n:5\r\n:5\r\n:5\r\n",
           ALWAYS);
    wait_until((receive_none(s),
                atomic_load(&heard.heard) > 0 || atomic_load(&lie.asked) >= 2),
               30000);
    assert_int_equal(leat_gauge_get(messages), 1);
    assert_true(atomic_load(&heard.heard) > 0);
    lie_of("none", "", 0);
    assert_code(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

/* What was answered is told as it is, not as messages that were moved. */
static void the_reaper_hears(const char *script, const char *answer,
                             const char *wanted, const char *never)
{
    leat_error e = { 0 };
    ear heard = { .wanted = wanted, .never = never };
    leat_client *c = leat_client_open(
        url,
        &(leat_client_opts){
            .log = { .fn = hear, .arg = &heard, .level = LEAT_LOG_INFO } },
        &e);
    assert_non_null(c);
    leat_queue *q = leat_queue_open(c, "q", NULL, &e);
    assert_non_null(q);
    lie_of(script, answer, ALWAYS);
    wait_until(atomic_load(&heard.heard) > 0 || atomic_load(&heard.wrong) > 0,
               30000);
    lie_of("none", "", 0);
    leat_queue_close(q);
    leat_client_close(c);
    assert_int_equal(atomic_load(&heard.wrong), 0);
}

static void a_reaper_answered_strangely_gave_nothing_back(void **state)
{
    (void)state;
    the_reaper_hears("queue/expire", "*4\r\n:0\r\n*0\r\n:1\r\n:7\r\n",
                     "what expired", "cannot be given back");
}

static void a_repair_answered_strangely_put_nothing_back(void **state)
{
    (void)state;
    the_reaper_hears("queue/repair", "*2\r\n:7\r\n*0\r\n", "a repair",
                     "stood nowhere");
}

/* ---- queues ----------------------------------------------------------- */

static leat_queue *used_queue(leat_bytes *receipt, leat_queue_batch **b)
{
    leat_error e = { 0 };
    leat_queue *q = leat_queue_open(
        client, "q", &(leat_queue_opts){ .no_reaper = true }, &e);
    assert_non_null(q);
    for (int i = 0; i < 3; i++) {
        leat_msg m = text("one");
        assert_code(leat_queue_send(q, &m, NULL, NULL, &e), LEAT_OK);
    }
    *b = leat_queue_receive(q, &(leat_receive_opts){ .max = 2 }, &e);
    assert_non_null(*b);
    assert_int_equal(leat_queue_batch_count(*b), 2);
    *receipt = leat_queue_batch_at(*b, 0)->receipt;
    return q;
}

static void a_settlement_of_a_queue_answered_strangely_is_unknown(void **state)
{
    (void)state;
    leat_bytes receipt;
    leat_queue_batch *b;
    leat_msg m = text("more");
    int64_t n;
    leat_queue *q = used_queue(&receipt, &b);
    assert_odd("queue/change", LEAT_EUNKNOWN,
               leat_queue_change_visibility(q, receipt, 60000, &e));
    assert_odd("queue/ack", LEAT_EUNKNOWN, leat_queue_ack(q, receipt, &e));
    assert_odd("queue/send", LEAT_EUNKNOWN,
               leat_queue_send(q, &m, NULL, NULL, &e));
    assert_odd("queue/take", LEAT_EUNKNOWN, leat_queue_receive(q, NULL, &e));
    assert_odd("queue/drop", LEAT_EUNKNOWN, leat_queue_purge(q, false, &n, &e));
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_look_at_a_queue_that_was_answered_strangely_fails(void **state)
{
    (void)state;
    leat_bytes receipt;
    leat_queue_batch *b;
    leat_queue_stats stats;
    leat_queue *q = used_queue(&receipt, &b);
    assert_odd("queue/stats", LEAT_EPROTO, leat_queue_stats_get(q, &stats, &e));
    assert_odd("queue/peek", LEAT_EPROTO, leat_queue_peek(q, 4, false, &e));
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* Once: it is asked again, and what was done then is told. */
static void a_settlement_is_asked_again_until_it_is_understood(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_bytes receipt;
    leat_queue_batch *b;
    leat_queue *q = used_queue(&receipt, &b);
    assert_code(leat_queue_ack(q, leat_queue_batch_at(b, 1)->receipt, &e),
                LEAT_OK); /* from now on the server knows the script */
    lie_of("queue/ack", "*1\r\n$1\r\nx\r\n", 1);
    assert_code(leat_queue_ack(q, receipt, &e), LEAT_OK);
    assert_int_equal(atomic_load(&lie.asked), 2);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static leat_verdict done(leat_ctx *x, void *arg)
{
    (void)x;
    atomic_fetch_add((atomic_int *)arg, 1);
    return LEAT_ACK;
}

static bool asked_again(void *arg)
{
    (void)arg;
    return atomic_load(&lie.asked) > 1;
}

static void a_pool_asks_again_where_it_does_not_understand(void **state)
{
    (void)state;
    leat_error e = { 0 };
    atomic_int handled = 0;
    leat_queue *q = leat_queue_open(client, "q", NULL, &e);
    leat_msg m = text("one");
    assert_non_null(q);
    assert_code(leat_queue_send(q, &m, NULL, NULL, &e), LEAT_OK);
    lie_of("pool/done", "*2\r\n:0\r\n$1\r\nx\r\n", 1);
    leat_pool *p = leat_pool_start(client, done, &handled,
                                   &(leat_pool_opts){ .workers = 1 }, &e);
    assert_non_null(p);
    assert_true(wait_for(asked_again, NULL, 10000));
    assert_code(leat_pool_stop(p, 5000, &e), LEAT_OK);
    assert_int_equal(atomic_load(&handled), 1);
    leat_queue_close(q);
}

/* ---- servers ---------------------------------------------------------- */

static leat_code look_at_server(leat_error *e)
{
    leat_server facts;
    leat_client *c = leat_client_open(
        url,
        &(leat_client_opts){ .timeout_ms = 300, .connect_timeout_ms = 300 }, e);
    leat_code rc = c ? leat_client_server(c, &facts, e) : e->code;
    leat_client_close(c);
    return rc;
}

/* Before a connection carries anything it is asked for these. */
static void a_server_that_answers_strangely_is_none(void **state)
{
    (void)state;
    assert_odd("INFO", LEAT_ECONN, look_at_server(&e));
    assert_odd("CONFIG", LEAT_ECONN, look_at_server(&e));
    assert_odd("redis/probe", LEAT_ECONN, look_at_server(&e));
}

#define LIED(test) cmocka_unit_test_setup_teardown(test, open_lied, close_lied)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIED(a_look_at_a_topic_that_was_answered_strangely_fails),
        LIED(a_trim_that_was_answered_strangely_took_nothing_for_sure),
        LIED(a_change_of_a_group_that_was_answered_strangely_is_unknown),
        LIED(a_settlement_that_was_answered_strangely_is_sent_again),
        LIED(a_message_that_was_answered_by_no_id_is_unknown),
        LIED(an_answer_that_makes_no_sense_is_no_loss),
        LIED(a_look_for_gaps_answered_strangely_tells_none),
        LIED(a_sample_answered_strangely_changes_no_gauge),
        LIED(a_reaper_answered_strangely_gave_nothing_back),
        LIED(a_repair_answered_strangely_put_nothing_back),
        LIED(a_settlement_of_a_queue_answered_strangely_is_unknown),
        LIED(a_look_at_a_queue_that_was_answered_strangely_fails),
        LIED(a_settlement_is_asked_again_until_it_is_understood),
        LIED(a_pool_asks_again_where_it_does_not_understand),
        LIED(a_server_that_answers_strangely_is_none),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
