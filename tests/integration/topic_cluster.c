/*
 * topic_cluster.c: topics on a cluster of three masters, where nobody dies:
 * partitions are spread, move, and keep their order.
 */
#include "support/proc.h"
#include "topic/topic.h"
#include "topic_cluster_help.h"

/* ---- spread ----------------------------------------------------------- */

static void partitions_are_spread_and_read_by_one_group(void **state)
{
    int at[CLUSTER_NODES] = { 0 }, nodes = 0;
    (void)state;
    for (int p = 0; p < PARTS; p++)
        at[node_of(p)]++;
    for (int i = 0; i < cluster_count(rig); i++) {
        print_message("node %d has %d of %d partitions\n", i, at[i], PARTS);
        nodes += at[i] > 0;
    }
    assert_in_range(nodes, 2, 3);

    told *l = told_new(1200);
    reader r;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    for (int i = 0; i < l->count; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % KEYS);
        must(told_publish(l, t, i, key, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
    assert_int_equal(l->ok, 1200);
    reader_sees_all(&r, l);
    assert_int_equal(atomic_load(&r.disorder), 0);
    must(leat_source_flush(r.source, LONG_MS, err));
    reader_stop(&r);
    leat_topic_close(t);
    told_audit_cluster(l, PARTS);
    told_free(l);
}

/* ---- a batch ---------------------------------------------------------- */

static void a_batch_over_the_nodes_is_accepted_whole_or_not_at_all(void **state)
{
    leat_msg m[40];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_topic(
        client, &(leat_topic_opts){ .max_queued = 40, .no_wait = true });
    for (int i = 0; i < 40; i++)
        m[i] = (leat_msg){ .body = leat_str("x") }; /* to all in turn */
    for (int i = 0; i < 3; i++)
        redis_pause(cluster_node(rig, i));
    must(leat_topic_publish_batch(t, m, 30, NULL, NULL, err));
    assert_code(leat_topic_publish_batch(t, m, 11, NULL, NULL, &e), LEAT_EFULL);
    assert_code(leat_topic_publish_batch(t, m, 41, NULL, NULL, &e),
                LEAT_ETOOBIG);
    must(leat_topic_publish_batch(t, m, 10, NULL, NULL, err));
    for (int i = 0; i < 3; i++)
        redis_resume(cluster_node(rig, i));
    must(leat_topic_flush(t, LONG_MS, err));
    int64_t sum = 0;
    for (int p = 0; p < PARTS; p++) {
        char key[64];
        log_key(key, sizeof key, p);
        int64_t n = redis_int(cluster_node(rig, node_of(p)), "XLEN %s", key);
        sum += n > 0 ? n : 0;
    }
    assert_int_equal(sum, 40);
    leat_topic_close(t);
}

/* ---- moving slots ----------------------------------------------------- */

/* Key by key, and let messages flow at every step. */
static void move_partition(writer *w, int partition, int to)
{
    char key[64];
    log_key(key, sizeof key, partition);
    unsigned slot = cluster_slot(key);
    int from = cluster_owner(rig, slot, -1);
    if (from == to)
        return;
    assert_true(cluster_move_begin(rig, slot, from, to));
    writer_confirms(w, KEYS);
    for (int moved = 1; moved > 0;) {
        moved = cluster_move_keys(rig, slot, from, to, 1);
        assert_true(moved >= 0);
        writer_confirms(w, KEYS);
    }
    assert_true(cluster_move_end(rig, slot, from, to));
    writer_confirms(w, KEYS);
}

static void order_is_kept_while_partitions_move_key_by_key(void **state)
{
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 200);
    for (int p = 0; p < 3; p++)
        move_partition(&w, p, (node_of(p) + 1) % 3);
    move_partition(&w, 0, (node_of(0) + 1) % 3); /* the same once more */
    int n = writer_stop(&w);
    print_message("%d published, %d confirmed, %d failed, %d unknown\n", n,
                  w.l->ok, w.l->failed, w.l->unknown);
    assert_int_equal(atomic_load(&w.l->ok), n);
    reader_sees_all(&r, w.l);
    assert_int_equal(atomic_load(&r.disorder), 0);
    reader_stop(&r);
    leat_topic_close(t);
    told_audit_cluster(w.l, PARTS);
    told_free(w.l);
}

/* ---- failures --------------------------------------------------------- */

enum { FAILING = 360 };

/* Every message fails at first, every tenth is rejected at last. */
static int handle_failing(leat_source *s, int *seen)
{
    leat_delivery *d[32];
    int done = 0, n = leat_source_receive(s, d, 32, 50, NULL);
    for (int i = 0; i < n; i++) {
        char text[16] = "";
        leat_bytes b = leat_delivery_msg(d[i])->body;
        memcpy(text, b.p, b.n < 15 ? b.n : 15);
        long k = strtol(text, NULL, 10);
        seen[k]++;
        if (leat_delivery_attempt(d[i]) == 1) {
            (void)leat_delivery_fail(d[i], "at first");
        } else if (k % 10 == 0) {
            (void)leat_delivery_reject(d[i], "at last");
            done++;
        } else {
            (void)leat_delivery_ack(d[i]);
            done++;
        }
    }
    return done;
}

static int64_t on_all(const char *command, const char *key)
{
    int64_t sum = 0;
    for (int p = 0; p < PARTS; p++)
        sum += redis_int(cluster_node(rig, node_of(p)), "%s leat:{t/%d}:%s",
                         command, p, key);
    return sum;
}

static void what_fails_is_tried_again_while_partitions_move(void **state)
{
    int seen[FAILING] = { 0 }, done = 0, moves = 0;
    (void)state;
    told *l = told_new(FAILING);
    leat_topic *t = open_topic(client, NULL);
    for (int i = 0; i < FAILING; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % KEYS);
        must(told_publish(l, t, i, key, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
    leat_topic_source_opts o = {
        .order = LEAT_ORDER_KEY, .retry = { .delay_ms = 20, .jitter = LEAT_NO }
    };
    leat_error e = { 0 };
    leat_source *s = leat_topic_source(t, "g", &o, &e);
    assert_non_null(s);
    int64_t end = wait_now_ms() + LONG_MS;
    while (done < FAILING && wait_now_ms() < end) {
        done += handle_failing(s, seen);
        if (done > 100 * moves && moves < 3) {
            char key[64];
            log_key(key, sizeof key, moves);
            assert_true(
                cluster_move(rig, cluster_slot(key), (node_of(moves) + 1) % 3));
            moves++;
        }
    }
    assert_int_equal(done, FAILING);
    (void)leat_source_flush(s, LONG_MS, NULL);
    for (int i = 0; i < FAILING; i++)
        assert_true(seen[i] >= 2);
    wait_until(on_all("HLEN", "kept:g") == 0, LONG_MS);
    assert_int_equal(on_all("ZCARD", "lane:g"), 0);
    assert_int_equal(on_all("XLEN", "dlq"), FAILING / 10);
    leat_source_close(s);
    leat_topic_close(t);
    told_free(l);
}

/* What the group needs to live moves as well: members, registry. */
static void a_group_goes_on_while_its_own_keys_move(void **state)
{
    static const char *const keys[] = { "leat:{t}:members:g", "leat:topic:t" };
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", &(leat_topic_source_opts){ .lease_ms = 3000 });
    writer_start(&w, t);
    writer_confirms(&w, 200);
    for (int i = 0; i < 2; i++) {
        int from = cluster_owner_of(rig, keys[i]);
        assert_true(cluster_move(rig, cluster_slot(keys[i]), (from + 1) % 3));
        int seen = atomic_load(&r.count);
        wait_until(atomic_load(&r.count) > seen + 200, LONG_MS);
    }
    writer_stop(&w);
    reader_sees_all(&r, w.l);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(r.source, &st);
    assert_int_equal(st.partitions, PARTS);
    assert_int_equal(st.rebalances, PARTS); /* none was lost on the way */
    reader_stop(&r);
    leat_topic_close(t);
    told_free(w.l);
}

static void move_all(int from, int to)
{
    for (int p = 0; p < PARTS; p++) {
        char key[64];
        log_key(key, sizeof key, p);
        if (node_of(p) == from)
            assert_true(cluster_move(rig, cluster_slot(key), to));
    }
}

static void a_node_comes_gets_partitions_and_goes(void **state)
{
    writer w;
    reader r;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 200);
    int fresh = cluster_add(rig);
    assert_true(fresh > 0);
    move_all(2, fresh);
    writer_confirms(&w, 500);
    int seen = atomic_load(&r.count);
    wait_until(atomic_load(&r.count) > seen + 500, LONG_MS);
    move_all(fresh, 0);
    assert_true(cluster_remove(rig, fresh));
    writer_confirms(&w, 500);
    seen = atomic_load(&r.count);
    wait_until(atomic_load(&r.count) > seen + 500, LONG_MS);
    writer_stop(&w);
    reader_sees_all(&r, w.l);
    assert_int_equal(atomic_load(&r.disorder), 0);
    reader_stop(&r);
    leat_topic_close(t);
    told_audit_cluster(w.l, PARTS);
    told_free(w.l);
}

/* ---- a node that does not answer -------------------------------------- */

static void a_silent_node_delays_only_its_own_partitions(void **state)
{
    writer w;
    reader r;
    int there[PARTS];
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    int silent = cluster_owner_of(rig, "leat:{t}:members:g");
    silent = (silent + 1) % 3; /* not the one that the group lives on */
    for (int p = 0; p < PARTS; p++)
        there[p] = node_of(p);
    reader_start(&r, t, "g", NULL);
    writer_start(&w, t);
    writer_confirms(&w, 500);
    redis_pause(cluster_node(rig, silent));
    int from[PARTS];
    for (int p = 0; p < PARTS; p++)
        from[p] = atomic_load(&r.by_part[p]);
    for (int p = 0; p < PARTS; p++)
        if (there[p] != silent && from[p] > 0)
            wait_until(atomic_load(&r.by_part[p]) > from[p] + 20, LONG_MS);
    redis_resume(cluster_node(rig, silent));
    assert_true(cluster_wait(rig, LONG_MS));
    writer_stop(&w);
    reader_sees_all(&r, w.l);
    assert_int_equal(atomic_load(&r.disorder), 0);
    reader_stop(&r);
    leat_topic_close(t);
    told_audit_cluster(w.l, PARTS);
    told_free(w.l);
}

/* ---- what goes by scripts --------------------------------------------- */

/* Message i of 240: in turn as it is, with a large body, and delayed. */
static void publish_by_script(leat_topic *t, told *l, int i)
{
    char key[16], body[300];
    struct told_arg *a = malloc(sizeof *a);
    *a = (struct told_arg){ l, i };
    memset(body, ' ', sizeof body);
    int n = snprintf(body, sizeof body, "%d", i);
    body[n] = ' ';
    snprintf(key, sizeof key, "k%d", i % KEYS);
    leat_msg m = { .key = leat_str(key),
                   .body = leat_mem(body, i % 3 == 1 ? sizeof body : 10) };
    atomic_store(&l->m[i].accepted, true);
    if (i % 3 == 2)
        must(leat_topic_publish_later(t, &m, 200, told_on, a, err));
    else
        must(leat_topic_publish(t, &m, told_on, a, err));
}

static void caps_large_bodies_and_delays_are_at_home_on_any_node(void **state)
{
    reader r;
    told *l = told_new(240);
    (void)state;
    leat_topic *t = open_topic(
        client,
        &(leat_topic_opts){ .retention = { .cap = 100, .large_body = 100 } });
    reader_start(&r, t, "g", NULL);
    for (int i = 0; i < l->count; i++)
        publish_by_script(t, l, i);
    must(leat_topic_flush(t, LONG_MS, err));
    assert_int_equal(l->ok, l->count);
    reader_sees_all(&r, l);
    reader_stop(&r);
    int64_t bodies = 0, left = 0;
    for (int p = 0; p < PARTS; p++) {
        redis_server *s = cluster_node(rig, node_of(p));
        bodies += redis_int(s, "HLEN leat:{t/%d}:bodies", p);
        left += redis_int(s, "ZCARD leat:{t/%d}:later", p);
    }
    assert_int_equal(bodies, l->count / 3);
    assert_int_equal(left, 0);
    leat_topic_close(t);
    told_free(l);
}

/* ---- members ---------------------------------------------------------- */

static void lease_of(int partition, char *owner, size_t size)
{
    redis_text(cluster_node(rig, node_of(partition)), owner, size,
               "HGET leat:{t/%d}:lease:g o", partition);
}

static uint32_t owned_by(const reader *r)
{
    leat_topic_source_stats st;
    leat_topic_source_stats_get(r->source, &st);
    return st.partitions;
}

/* After a failover the server may know of an older lease than its owner. */
static void
a_lease_that_went_back_to_an_earlier_owner_is_sorted_out(void **state)
{
    reader a, b;
    char first[64], now[64];
    int part = -1;
    leat_topic_source_opts o = { .lease_ms = 600 };
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    reader_start(&a, t, "g", &o);
    wait_until(owned_by(&a) == PARTS, LONG_MS);
    lease_of(0, first, sizeof first);
    reader_start(&b, t, "g", &o);
    wait_until(owned_by(&a) == 6 && owned_by(&b) == 6, LONG_MS);
    for (int p = 0; p < PARTS; p++) {
        lease_of(p, now, sizeof now);
        if (strcmp(now, first) != 0)
            part = p;
    }
    assert_in_range(part, 0, PARTS - 1);
    redis_server *s = cluster_node(rig, node_of(part));
    int64_t epoch = redis_int(s, "HGET leat:{t/%d}:lease:g e", part);
    redis_do(s, "HSET leat:{t/%d}:lease:g o %s e 1000", part, first);
    for (int i = 0; i < 50; i++)
        must(leat_topic_publish_to(t, (uint32_t)part,
                                   &(leat_msg){ .body = leat_str("7") }, NULL,
                                   NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    wait_until(redis_int(s, "HGET leat:{t/%d}:cur:g n", part) == 50, LONG_MS);
    assert_true(redis_int(s, "HGET leat:{t/%d}:lease:g e", part) > epoch);
    reader_stop(&a);
    reader_stop(&b);
    leat_topic_close(t);
}

/* ---- looking ---------------------------------------------------------- */

static void a_topic_is_described_browsed_and_removed(void **state)
{
    leat_error e = { 0 };
    leat_seen seen;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    leat_source *s = leat_topic_source(t, "g", NULL, &e);
    assert_non_null(s);
    for (int i = 0; i < 120; i++)
        must(leat_topic_publish_to(t, (uint32_t)i % PARTS,
                                   &(leat_msg){ .body = leat_str("x") }, NULL,
                                   NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    leat_topic_info *info = leat_topic_describe(client, "t", NULL, &e);
    assert_non_null(info);
    assert_int_equal(info->entries, 120);
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(info->partition[p].entries, 10);
    leat_topic_info_free(info);

    leat_browse *b = leat_browse_open(client, "t", NULL, &e);
    assert_non_null(b);
    int n = 0;
    while (leat_browse_next(b, &seen, 0, &e) == 1)
        n++;
    assert_int_equal(n, 120);
    leat_browse_close(b);

    for (int i = 0; i < 120;) {
        leat_delivery *d[32];
        int got = leat_source_receive(s, d, 32, 1000, &e);
        for (int k = 0; k < got; k++, i++)
            (void)leat_delivery_ack(d[k]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_group_info *g = leat_group_describe(client, "t", "g", NULL, &e);
    assert_non_null(g);
    assert_int_equal(g->lag, 0);
    for (int p = 0; p < PARTS; p++)
        assert_int_equal(g->partition[p].partition, p);
    leat_group_info_free(g);
    leat_source_close(s);
    leat_topic_close(t);
    must(leat_topic_remove(client, "t", NULL, err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(redis_int(cluster_node(rig, i), "DBSIZE"), 0);
}

/* What the admin verbs do to partitions on several nodes. */
static void a_group_is_set_right_on_all_nodes(void **state)
{
    leat_error e = { 0 };
    leat_seek *seek = NULL;
    leat_delivery *d[PARTS];
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    for (uint32_t p = 0; p < PARTS; p++)
        must(leat_topic_publish_to(t, p, &(leat_msg){ .body = leat_str("x") },
                                   NULL, NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    leat_source *s = leat_topic_source(t, "g", NULL, &e);
    assert_non_null(s);
    for (int n = 0; n < PARTS;) {
        int got = leat_source_receive(s, d + n, PARTS - n, 1000, &e);
        n += got > 0 ? got : 0;
    }
    leat_pending_page *page = leat_pending_list(client, "t", "g", NULL, &e);
    assert_non_null(page);
    assert_int_equal(page->total, PARTS);
    leat_pending_free(page);
    assert_code(leat_group_seek(client, "t", "g", "start", NULL, NULL, &e),
                LEAT_EBUSY);
    for (int i = 0; i < PARTS; i++)
        (void)leat_delivery_ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    must(leat_group_seek(client, "t", "g", "start",
                         &(leat_seek_opts){ .force = true }, &seek, err));
    assert_int_equal(seek->done, PARTS);
    assert_int_equal(seek->again, PARTS);
    leat_seek_free(seek);
    for (int n = 0; n < PARTS;) { /* each once more, from all nodes */
        int got = leat_source_receive(s, d, PARTS, 1000, &e);
        for (int i = 0; i < got; i++, n++)
            (void)leat_delivery_ack(d[i]);
    }
    must(leat_source_flush(s, LONG_MS, err));
    must(leat_group_pause(client, "t", "g", NULL, err));
    leat_group_info *g = leat_group_describe(client, "t", "g", NULL, &e);
    assert_non_null(g);
    assert_int_equal(g->lag, 0);
    assert_int_equal(g->alive, 1);
    assert_true(g->paused_ms > 0);
    leat_group_info_free(g);
    must(leat_group_resume(client, "t", "g", NULL, err));
    assert_code(leat_group_remove(client, "t", "g", NULL, &e), LEAT_EBUSY);
    leat_source_close(s);
    must(leat_group_remove(client, "t", "g", NULL, err));
    leat_topic_close(t);
    must(leat_topic_remove(client, "t", NULL, err));
    for (int i = 0; i < 3; i++)
        assert_int_equal(redis_int(cluster_node(rig, i), "DBSIZE"), 0);
}

static void following_a_topic_shows_what_comes_to_any_node(void **state)
{
    leat_error e = { 0 };
    leat_seen seen;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    leat_browse *b = leat_browse_open(
        client, "t", &(leat_browse_opts){ .follow = true }, &e);
    assert_non_null(b);
    for (uint32_t p = 0; p < PARTS; p++) {
        must(leat_topic_publish_to(t, p, &(leat_msg){ .body = leat_str("x") },
                                   NULL, NULL, err));
        assert_int_equal(leat_browse_next(b, &seen, LONG_MS, &e), 1);
        assert_int_equal(seen.partition, p);
    }
    leat_browse_close(b);
    leat_topic_close(t);
}

static void a_bare_stream_is_a_topic_of_one_partition(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d;
    (void)state;
    redis_server *s = cluster_node(rig, cluster_owner_of(rig, "plain"));
    redis_do(s, "XADD plain * field value");
    leat_topic *t = leat_topic_open(client, "plain", NULL, &e);
    assert_non_null(t);
    assert_true(leat_topic_legacy(t));
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                            err));
    must(leat_topic_flush(t, LONG_MS, err));
    leat_source *r = leat_topic_source(t, "g", NULL, &e);
    assert_non_null(r);
    for (int i = 0; i < 2; i++) {
        wait_until(leat_source_receive(r, &d, 1, 1000, &e) == 1, LONG_MS);
        (void)leat_delivery_ack(d);
    }
    must(leat_source_flush(r, LONG_MS, err));
    leat_source_close(r);
    leat_topic_close(t);
}

/* ---- what is kept ----------------------------------------------------- */

static int64_t all_lengths(void)
{
    int64_t sum = 0;
    for (int p = 0; p < PARTS; p++) {
        char key[64];
        log_key(key, sizeof key, p);
        int64_t n = redis_int(cluster_node(rig, node_of(p)), "XLEN %s", key);
        sum += n > 0 ? n : 0;
    }
    return sum;
}

/* The names of the groups, the policy and the logs are on different nodes. */
static void owners_trim_the_partitions_of_all_nodes(void **state)
{
    enum { N = 600 };
    leat_error e = { 0 };
    leat_retention seen = { 0 };
    leat_delivery *d;
    leat_trimmed got;
    (void)state;
    leat_topic *t = open_topic(client, NULL);
    leat_topic_source_opts o = { .lease_ms = 3000, .block_ms = 100 };
    leat_source *s = leat_topic_source(t, "g", &o, &e);
    assert_non_null(s);
    for (int i = 0; i < N; i++)
        must(leat_topic_publish_to(t, (uint32_t)(i % PARTS),
                                   &(leat_msg){ .body = leat_str("x") }, NULL,
                                   NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    must(leat_topic_alter(client, "t", NULL,
                          &(leat_retention){ .max_entries = 10 }, err));
    must(leat_topic_trim(client, "t", NULL, &got, err));
    assert_int_equal(got.removed, 0);
    assert_int_equal(got.held, N - 10 * PARTS);
    assert_string_equal(got.holder, "g");
    for (int i = 0; i < N; i++) {
        wait_until(leat_source_receive(s, &d, 1, 1000, &e) == 1, LONG_MS);
        (void)leat_delivery_ack(d);
    }
    wait_until(all_lengths() == 10 * PARTS, LONG_MS);
    leat_source_close(s);
    /* A producer that nobody reads beside learns of a change, too. */
    must(leat_topic_alter(client, "t", NULL, &(leat_retention){ .cap = 77 },
                          err));
    wait_until((leat__topic_retention(t, &seen), seen.cap == 77), LONG_MS);
    leat_topic_close(t);
}

/* ---- what an earlier version made ------------------------------------- */

static int64_t ask_key(const char *command, const char *key, const char *field)
{
    leat_reply *r = NULL;
    must(leat_client_call(
        client,
        field ? (const leat_bytes[]){ leat_str(command), leat_str(key),
                                      leat_str(field) }
              : (const leat_bytes[]){ leat_str(command), leat_str(key) },
        field ? 3 : 2, NULL, &r, err));
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

static void forget_the_ids(void)
{
    assert_int_equal(ask_key("HDEL", "leat:topic:t", "u"), 1);
    assert_int_equal(ask_key("HDEL", "leat:topic:t", "marked"), 1);
    for (int p = 0; p < PARTS; p++) {
        char key[64];
        snprintf(key, sizeof key, "leat:{t/%d}:id", p);
        assert_int_equal(ask_key("DEL", key, NULL), 1);
    }
}

/* It has neither an id nor copies of it, on whichever node they would be. */
static void a_topic_without_an_id_is_used_to_its_end(void **state)
{
    leat_error e = { 0 };
    leat_delivery *d;
    leat_trimmed got;
    (void)state;
    must(leat_topic_create(client, "t",
                           &(leat_topic_spec){ .partitions = PARTS }, err));
    forget_the_ids();
    leat_topic *t = leat_topic_open(client, "t", NULL, &e);
    assert_non_null(t);
    leat_source *s = leat_topic_source(
        t, "g", &(leat_topic_source_opts){ .lease_ms = 3000, .block_ms = 100 },
        &e);
    assert_non_null(s);
    for (uint32_t p = 0; p < PARTS; p++)
        must(leat_topic_publish_to(t, p, &(leat_msg){ .body = leat_str("x") },
                                   NULL, NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    for (int i = 0; i < PARTS; i++) {
        wait_until(leat_source_receive(s, &d, 1, 1000, &e) == 1, LONG_MS);
        assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    }
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
    must(leat_topic_trim(client, "t", &(leat_trim_opts){ .max_entries = -1 },
                         &got, err));
    assert_int_equal(got.removed, PARTS);
    assert_int_equal(ask_key("HEXISTS", "leat:topic:t", "u"), 0);
    must(leat_topic_remove(client, "t", NULL, err));
    assert_int_equal(ask_key("EXISTS", "leat:topic:t", NULL), 0);
    assert_int_equal(ask_key("EXISTS", "leat:{t}:groups", NULL), 0);
    assert_int_equal(all_lengths(), 0);
}

/* ---- the command ------------------------------------------------------ */

/* Run it with these words and this input; the first line it prints. */
static void leat_says(char *line, size_t size, const char *input,
                      const char *const *words)
{
    const char *argv[16] = { LEAT_PROGRAM, "--url", url };
    int status = -1;
    for (int i = 0; words[i]; i++)
        argv[3 + i] = words[i];
    proc *p = proc_start(argv, NULL);
    assert_non_null(p);
    if (input)
        assert_true(proc_write(p, input));
    proc_close_stdin(p);
    line[0] = '\0';
    (void)proc_line(p, line, size, LONG_MS);
    assert_true(proc_wait(p, LONG_MS, &status));
    proc_free(p);
    if (status != 0)
        fail_msg("leat %s %s: status %d", words[0], words[1], status);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void the_command_sends_looks_and_consumes(void **state)
{
    char line[256];
    (void)state;
    leat_says(line, sizeof line, NULL,
              WORDS("topic", "create", "c", "--partitions", "6"));
    leat_says(line, sizeof line, "hello\n",
              WORDS("topic", "send", "c", "--key", "k"));
    leat_says(
        line, sizeof line, NULL,
        WORDS("topic", "ls", "--columns", "name,messages", "--no-headers"));
    assert_non_null(strstr(line, "1"));
    leat_says(
        line, sizeof line, NULL,
        WORDS("consume", "c", "-g", "g", "--count", "1", "--output", "json"));
    if (!strstr(line, "hello"))
        fail_msg("consume printed: %s", line);
    leat_says(line, sizeof line, NULL, WORDS("group", "ls", "c"));
    leat_says(line, sizeof line, NULL, WORDS("topic", "info", "c", "-p"));
    leat_says(line, sizeof line, NULL, WORDS("topic", "rm", "c", "--yes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(partitions_are_spread_and_read_by_one_group),
        rig_test(a_batch_over_the_nodes_is_accepted_whole_or_not_at_all),
        rig_test(order_is_kept_while_partitions_move_key_by_key),
        rig_test(a_group_goes_on_while_its_own_keys_move),
        rig_test(what_fails_is_tried_again_while_partitions_move),
        rig_test(a_silent_node_delays_only_its_own_partitions),
        rig_test(caps_large_bodies_and_delays_are_at_home_on_any_node),
        rig_test(a_lease_that_went_back_to_an_earlier_owner_is_sorted_out),
        rig_test(a_topic_is_described_browsed_and_removed),
        rig_test(a_group_is_set_right_on_all_nodes),
        rig_test(following_a_topic_shows_what_comes_to_any_node),
        rig_test(a_bare_stream_is_a_topic_of_one_partition),
        rig_test(owners_trim_the_partitions_of_all_nodes),
        rig_test(a_topic_without_an_id_is_used_to_its_end),
        rig_test(the_command_sends_looks_and_consumes),
        rig_test(a_node_comes_gets_partitions_and_goes),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}
