/*
 * headers.c: how many headers a message may have, in every sink; and what
 * comes of one with more, which another program made.
 */
#include "dlq_help.h"

enum { MORE = LEAT_HEADERS_MAX + 1, FOREIGN = 3 * LEAT_HEADERS_MAX };

static leat_header all[FOREIGN];

static leat_msg with(size_t n)
{
    for (size_t i = 0; i < FOREIGN; i++)
        all[i] = (leat_header){ leat_str("name"), leat_str("value") };
    return (
        leat_msg){ .body = leat_str("x"), .headers = all, .header_count = n };
}

static void refused(leat_code rc, const leat_error *e)
{
    assert_code(rc, LEAT_ETOOBIG);
    assert_false(e->retriable);
    assert_non_null(strstr(e->msg, "1001 headers, the limit is 1000"));
}

static void bounded_sink(leat_sink *k)
{
    leat_error e = { 0 };
    leat_msg most = with(LEAT_HEADERS_MAX), more = with(MORE);
    assert_non_null(k);
    must(leat_sink_publish(k, &most, 1, NULL, NULL, err));
    refused(leat_sink_publish(k, &more, 1, NULL, NULL, &e), &e);
    leat_msg both[] = { most, more };
    refused(leat_sink_publish(k, both, 2, NULL, NULL, &e), &e);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
}

static void a_stream_takes_a_thousand_headers(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_stream *s = leat_stream_open(client, "s", NULL, &e);
    assert_non_null(s);
    bounded_sink(leat_stream_sink(s, NULL, &e));
    assert_int_equal(ask_int("XLEN", "s"), 1);
    leat_stream_close(s);
}

static void a_topic_takes_a_thousand_headers(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_msg more = with(MORE);
    leat_topic *t = leat_topic_open(
        client, "t",
        &(leat_topic_opts){
            .auto_create = true, .partitions = 1, .partition_header = true },
        &e);
    assert_non_null(t);
    refused(leat_topic_publish_later(t, &more, 1, NULL, NULL, &e), &e);
    bounded_sink(leat_topic_sink(t, &e));
    assert_int_equal(length_of(0, "log"), 1);

    /* And leat's own on top. */
    leat_source *g = source_of(t, "g", NULL);
    leat_delivery *d = next_of(g);
    assert_int_equal(leat_delivery_msg(d)->header_count, MORE);
    ack(d);
    leat_source_close(g);
    leat_topic_close(t);
}

static void a_queue_takes_a_thousand_headers(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_msg more = with(MORE);
    leat_queue *q = leat_queue_open(client, "q", NULL, &e);
    assert_non_null(q);
    refused(leat_queue_send(q, &more, NULL, NULL, &e), &e);
    bounded_sink(leat_queue_sink(q, &e));
    leat_queue_close(q);
}

/* The mover says where it is from, in headers of its own. */
static void a_dead_letter_of_a_thousand_headers_is_moved(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_msg most = with(LEAT_HEADERS_MAX);
    leat_queue *graves = leat_queue_open(client, "graves", NULL, &e);
    leat_queue *q = leat_queue_open(
        client, "q", &(leat_queue_opts){ .dead_queue = "graves" }, &e);
    leat_receive_opts wait = { .wait_ms = LONG_MS };
    assert_true(graves && q);
    must(leat_queue_send(q, &most, NULL, NULL, err));
    leat_queue_batch *b = leat_queue_receive(q, &wait, &e);
    assert_int_equal(leat_queue_batch_count(b), 1);
    must(leat_queue_reject(q, leat_queue_batch_at(b, 0)->receipt, NULL, err));
    leat_queue_batch_free(b);
    b = leat_queue_receive(graves, &wait, &e);
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_true(leat_queue_batch_at(b, 0)->msg.header_count > MORE);
    must(leat_queue_ack(graves, leat_queue_batch_at(b, 0)->receipt, err));
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_queue_close(graves);
}

/* What another program put into the log; its id to out. */
static void log_foreign(char out[IDS])
{
    leat_error e = { 0 };
    leat_bytes argv[16] = { leat_str("XADD"), leat_str("leat:{t/0}:log"),
                            leat_str("*") };
    leat_fields *f = leat_fields_new(&e);
    leat_msg m = with(FOREIGN);
    must(leat_codec_native.encode(&leat_codec_native, &m, 1, f, err));
    size_t n = 2 * leat_fields_count(f);
    memcpy(argv + 3, leat_fields_pairs(f), n * sizeof *argv);
    leat_reply *r = ask(argv, 3 + n);
    leat_bytes id = leat_reply_bytes(r);
    snprintf(out, IDS, "%.*s", (int)id.n, (const char *)id.p);
    leat_reply_free(r);
    leat_fields_free(f);
}

static void what_others_made_with_more_is_received_and_replayed(void **state)
{
    char ids[1][IDS], dead[LEAT_DEAD_ID];
    const char *one[] = { dead };
    leat_error e = { 0 };
    (void)state;
    make_dlq(1);
    log_foreign(ids[0]);
    bury_logged(&(grave){ .group = "g" }, ids, 1);
    newest_dead(0, dead);
    refused(
        leat_dlq_edit(dlq, dead,
                      &(leat_dead_edit){ .headers = all, .header_count = MORE },
                      NULL, &e),
        &e);
    must(leat_dlq_replay(
        dlq, one, 1, &(leat_dlq_move_opts){ .republish = true }, NULL, err));
    leat_topic *t = topic_of(client, "t", 1);
    leat_source *g = source_of(t, "others", NULL);
    for (size_t i = 0; i < 2; i++) { /* the first, and the replayed one */
        leat_delivery *d = next_of(g);
        assert_null(leat_delivery_error(d));
        assert_int_equal(leat_delivery_msg(d)->header_count, FOREIGN + i);
        ack(d);
    }
    leat_source_close(g);
    leat_topic_close(t);
    leat_dlq_close(dlq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_stream_takes_a_thousand_headers),
        topic_test(a_topic_takes_a_thousand_headers),
        topic_test(a_queue_takes_a_thousand_headers),
        topic_test(a_dead_letter_of_a_thousand_headers_is_moved),
        topic_test(what_others_made_with_more_is_received_and_replayed),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
