/*
 * admin_pending.c: what a group has pending is shown, page by page, and dropped
 * when it is told so.
 */
#include "admin_help.h"

static leat_pending_page *pending(const leat_pending_opts *o)
{
    leat_error e = { 0 };
    leat_pending_page *p = leat_pending_list(client, "t", "g", o, &e);
    if (!p)
        fail_msg("%s", e.msg);
    return p;
}

/* "0/4 1/2 ": partition and thousands, over as many pages as it takes. */
static char *walk(leat_pending_sort sort, int limit, char *out, size_t room)
{
    char after[96] = "";
    size_t n = 0;
    out[0] = '\0';
    for (int pages = 0; pages < 20; pages++) {
        leat_pending_page *p = pending(&(leat_pending_opts){
            .sort = sort, .limit = limit, .after = *after ? after : NULL });
        assert_int_equal(p->total, 7);
        assert_true(p->whole);
        assert_in_range(p->count, 0, limit);
        for (size_t i = 0; i < p->count; i++)
            n += (size_t)snprintf(
                out + n, room - n, "%u/%llu ", p->item[i].partition,
                (unsigned long long)p->item[i].position.ms / 1000);
        bool more = p->next != NULL;
        snprintf(after, sizeof after, "%s", more ? p->next : "");
        leat_pending_free(p);
        if (!more)
            return out;
    }
    fail_msg("pages without end: %s", out);
    return out;
}

/* A real member has three of partition 0 in hand, the second of five is
 * settled; partition 1 has some put by. */
static void what_is_pending_is_shown_in_its_three_states(void **state)
{
    leat_delivery *d[4];
    char text[200];
    (void)state;
    put_some_by();
    fill(0, 5);
    leat_source *s = join(&(leat_topic_source_opts){ .order = LEAT_ORDER_NONE,
                                                     .max_partitions = 1 });
    take_n(s, d, 4);
    ack(d[1]);
    must(leat_source_flush(s, LONG_MS, err));

    leat_pending_page *p = pending(
        &(leat_pending_opts){ .sort = LEAT_PENDING_BY_POSITION });
    assert_int_equal(p->count, 7);
    assert_null(p->next);
    const leat_pending *x = p->item;
    assert_int_equal(x[0].state, LEAT_PENDING_OUT);
    assert_int_equal(x[0].attempts, 1);
    assert_true(x[0].age_ms > 1000000 && x[0].due_ms == 0);
    assert_null(x[0].error);
    assert_int_equal(x[3].state, LEAT_PENDING_RETRY);
    assert_true(x[3].due_ms > x[4].due_ms + 3000000);
    assert_int_equal(x[3].attempts, 3);
    assert_int_equal(x[3].failures, 3);
    assert_string_equal(x[3].error, "no luck");
    assert_null(x[3].lane);
    assert_int_equal(x[4].state, LEAT_PENDING_RETRY);
    assert_string_equal(x[4].lane, "00000000000000ab");
    assert_int_equal(x[5].state, LEAT_PENDING_PARKED);
    assert_int_equal(x[5].attempts, 0);
    assert_int_equal(x[6].state, LEAT_PENDING_PARKED);
    leat_pending_free(p);

    static const char *const orders[] = {
        "0/1 1/2 0/3 1/3 0/4 1/4 1/5 ", /* by age      */
        "1/3 1/2 0/1 0/3 0/4 1/4 1/5 ", /* by attempts */
        "0/1 0/3 0/4 1/2 1/3 1/4 1/5 ", /* by position */
    };
    for (int sort = 0; sort < 3; sort++)
        for (int limit = 1; limit <= 8; limit += 1 + (limit > 2))
            assert_string_equal(
                walk((leat_pending_sort)sort, limit, text, sizeof text),
                orders[sort]);

    leat_group_info *g = described();
    assert_int_equal(g->in_flight, 3);
    assert_int_equal(g->retries, 2);
    assert_int_equal(g->due, 1);
    assert_int_equal(g->lanes, 1);
    assert_int_equal(g->parked, 2);
    assert_int_equal(g->partition[0].in_flight, 3);
    assert_int_equal(g->partition[1].parked, 2);
    leat_group_info_free(g);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            ack(d[i]);
    leat_source_close(s);
}

/* The same, by a consumer whose message fails: the next of its key is parked
 * behind it, another key flows; and what is dropped is out of the way. */
static void what_a_consumer_put_by_is_shown_and_dropped(void **state)
{
    (void)state;
    add_keyed("t", 0, "a", "1");
    add_keyed("t", 0, "a", "2");
    add_keyed("t", 0, "b", "3");
    leat_source *s = join(
        &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY,
                                   .retry = { .backoff = LEAT_BACKOFF_FIXED,
                                              .delay_ms = 3600000,
                                              .max_delay_ms = 3600000,
                                              .jitter = LEAT_NO } });
    leat_delivery *d = next_of(s);
    assert_body(d, "1");
    assert_int_equal(leat_delivery_fail(d, "no luck"), LEAT_OK);
    d = next_of(s);
    assert_body(d, "3");
    wait_until(redis_int(server, "ZCARD leat:{t/0}:lane:g") == 2, LONG_MS);

    leat_pending_page *p = pending(NULL);
    assert_int_equal(p->count, 3);
    assert_int_equal(p->item[0].state, LEAT_PENDING_RETRY);
    assert_int_equal(p->item[0].attempts, 1);
    assert_int_equal(p->item[0].failures, 1);
    assert_string_equal(p->item[0].error, "no luck");
    assert_int_equal(p->item[1].state, LEAT_PENDING_PARKED);
    assert_string_equal(p->item[1].lane, p->item[0].lane);
    assert_int_equal(p->item[2].state, LEAT_PENDING_OUT);
    assert_int_equal(p->item[2].attempts, 1);
    leat_pending_free(p);
    ack(d);
    must(leat_source_flush(s, LONG_MS, err));
    leat_group_info *g = described();
    assert_int_equal(g->retries, 1);
    assert_int_equal(g->due, 0);
    assert_int_equal(g->lanes, 1);
    assert_int_equal(g->parked, 1);
    leat_group_info_free(g);

    must_seek("end", .force = true, .drop = true);
    add_keyed("t", 0, "a", "4");
    d = next_of(s); /* the lane is gone with what stood in it */
    assert_body(d, "4");
    ack(d);
    leat_source_close(s);
}

static void what_was_put_by_stays_over_a_seek_unless_dropped(void **state)
{
    leat_seek *s = NULL;
    (void)state;
    make_group();
    put_some_by();
    must(leat_group_seek(client, "t", "g", "start",
                         &(leat_seek_opts){ .one = true, .partition = 1 }, &s,
                         err));
    assert_int_equal(s->kept, 4);
    leat_seek_free(s);
    assert_int_equal(redis_int(server, "HLEN leat:{t/1}:kept:g"), 8);
    must_seek("end", .drop = true);
    assert_int_equal(redis_int(server, "EXISTS leat:{t/1}:kept:g "
                                       "leat:{t/1}:due:g leat:{t/1}:lane:g"),
                     0);
}

static void attempts_that_the_cursor_tells_are_shown(void **state)
{
    (void)state;
    make_group();
    fill(0, 8);
    redis_do(server, "HSET " CURSOR " e 1 c 1000-0 m 7000-0 n 1 s %s t %s", 0,
             "3000-0:4000-0", "2000-0=4,5000-0=0,6000-0=2");
    redis_do(server, "HSET " LEASE " o %s e 1", 0, A);
    leat_pending_page *p = pending(
        &(leat_pending_opts){ .sort = LEAT_PENDING_BY_ATTEMPTS });
    assert_int_equal(p->count, 3);
    assert_int_equal(p->item[0].attempts, 4);
    assert_true(p->item[0].position.ms == 2000);
    assert_int_equal(p->item[1].attempts, 2);
    assert_true(p->item[2].position.ms == 7000);
    leat_pending_free(p);
}

static void what_a_member_gave_back_is_nobodys(void **state)
{
    leat_delivery *d[3];
    (void)state;
    make_group();
    fill(0, 3);
    leat_topic *t = topic_of(client, "t", 3);
    leat_source *s = source_of(t, "g", NULL);
    take_n(s, d, 3);
    assert_int_equal(leat_delivery_nack(d[0], 1), LEAT_OK);
    leat_source_close(s);
    leat_topic_close(t);
    leat_group_info *g = described();
    assert_int_equal(g->in_flight, 0);
    assert_int_equal(g->lag + g->retries + g->parked, 3);
    leat_pending_page *p = pending(NULL);
    for (size_t i = 0; i < p->count; i++)
        assert_int_not_equal(p->item[i].state, LEAT_PENDING_OUT);
    leat_pending_free(p);
    leat_group_info_free(g);
}

static void a_page_that_cannot_be_is_refused(void **state)
{
    static const char *const after[] = { "", "x", "1:2", "1:2:3", "1:2:3-4x" };
    leat_error e = { 0 };
    (void)state;
    make_group();
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        assert_null(leat_pending_list(
            client, "t", "g", &(leat_pending_opts){ .after = after[i] }, &e));
        assert_code(e.code, LEAT_EINVAL);
    }
    assert_null(leat_pending_list(client, "t", "g",
                                  &(leat_pending_opts){ .limit = 10001 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_pending_list(
        client, "t", "g", &(leat_pending_opts){ .one = true, .partition = 3 },
        &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_pending_list(client, "t", "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    leat_pending_page *p = pending(NULL);
    assert_int_equal(p->count, 0);
    assert_int_equal(p->total, 0);
    assert_null(p->next);
    leat_pending_free(p);
    leat_pending_free(NULL);
    leat_seek_free(NULL);
}

static void long_lists_are_read_page_by_page(void **state)
{
    enum { MANY = 450 };
    int n = 0;
    char after[96] = "";
    (void)state;
    make_group();
    fill(0, MANY);
    redis_do(server, "HSET " CURSOR " e 1 c 0-0 m 999999-0 n 0 s %s t %s", 0,
             "", "");
    redis_do(server, "HSET " LEASE " o %s e 1", 0, A);
    do {
        leat_pending_page *p = pending(&(leat_pending_opts){
            .limit = 64, .after = *after ? after : NULL });
        for (size_t i = 0; i < p->count; i++)
            assert_true(p->item[i].position.ms == (uint64_t)++n * 1000);
        snprintf(after, sizeof after, "%s", p->next ? p->next : "");
        leat_pending_free(p);
    } while (*after && n < MANY);
    assert_int_equal(n, MANY);
}

/* One of a lane is due at a time, the first. */
static void assert_due(const char *id)
{
    char score[64];
    assert_int_equal(redis_int(server, "ZCARD leat:{t/1}:due:g"), 1);
    redis_text(server, score, sizeof score, "ZSCORE leat:{t/1}:due:g %s", id);
    assert_string_not_equal(score, "");
}

static void what_comes_before_the_first_of_its_lane_is_due(void **state)
{
    (void)state;
    put_some_by();
    move(5, "done", "2000-0", 3, 3, 0, "", "");
    assert_due("3000-0");
    move(6, "keep", "1000-0", 1, 1, 0, "late", "00000000000000ab");
    assert_due("1000-0");
    move(7, "done", "1000-0", 1, 1, 0, "", "");
    assert_due("3000-0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        admin_test(what_is_pending_is_shown_in_its_three_states),
        admin_test(what_a_consumer_put_by_is_shown_and_dropped),
        admin_test(what_was_put_by_stays_over_a_seek_unless_dropped),
        admin_test(attempts_that_the_cursor_tells_are_shown),
        admin_test(what_a_member_gave_back_is_nobodys),
        admin_test(a_page_that_cannot_be_is_refused),
        admin_test(long_lists_are_read_page_by_page),
        admin_test(what_comes_before_the_first_of_its_lane_is_due),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
