/*
 * queue_model.c: random operations against a real server and a model.
 *
 * The model knows what may be: which messages are done, which are out under
 * which receipt, and whether a receipt may have run out (hidden for 1 ms) or
 * cannot have (hidden for an hour).  After every few operations all that was
 * sent must be somewhere; at the end everything is received and nothing is left
 * on the server.  A failure prints the seed.
 */
#include "queue_help.h"

#include <stdlib.h>

enum { MOST = 4000, OUT = 64, OPS = 300, SEEDS = 8, GROUPS = 5, RECEIVES = 4 };

typedef enum where { AROUND, DONE, PURGED } where;

typedef struct message {
    where at;
    int group, next; /* in the order of its group; -1: the last */
    bool firm;       /* out under a receipt that cannot have run out */
    int buried;      /* it was seen among the dead letters */
} message;

typedef struct receipt {
    size_t n;
    int number;
    bool firm, dead;
    char text[LEAT_RECEIPT_MAX];
} receipt;

typedef struct world {
    leat_queue *q;
    bool fifo;
    unsigned seed;
    message m[MOST];
    int sent, acked, purged;
    receipt out[OUT]; /* not yet settled by us */
    int outs;
} world;

static int roll(world *w, int n)
{
    return (int)(rand_r(&w->seed) % (unsigned)n);
}

/* ---- the operations --------------------------------------------------- */

static void op_send(world *w)
{
    leat_msg m[6] = { 0 };
    leat_queue_send_opts o[6] = { 0 };
    char text[6][16], id[6][16], group[6][4];
    int n = 1 + roll(w, 6);
    if (w->sent + n > MOST)
        return;
    bool own = roll(w, 3) == 0;
    for (int i = 0; i < n; i++) {
        int number = w->sent + i, g = roll(w, GROUPS);
        snprintf(text[i], sizeof text[i], "%d", number);
        snprintf(id[i], sizeof id[i], "id/%d", number);
        snprintf(group[i], sizeof group[i], "g%d", g);
        m[i].body = leat_str(text[i]);
        if (own)
            m[i].id = leat_str(id[i]);
        o[i].group = leat_str(group[i]);
        if (!w->fifo && roll(w, 4) == 0)
            o[i].delay_ms = 1;
        w->m[number] = (message){ .group = g };
    }
    leat_queue_sent sent[6];
    must(leat_queue_send_batch(w->q, m, (size_t)n, o, sent, err));
    if (own) { /* once more is not once more */
        must(leat_queue_send_batch(w->q, m, (size_t)n, o, sent, err));
        for (int i = 0; i < n; i++)
            assert_true(sent[i].duplicate);
    }
    w->sent += n;
}

/* No earlier message of the group may still be alive, unless it is dead. */
static void check_order(world *w, int number)
{
    for (int i = 0; i < number; i++)
        if (w->m[i].group == w->m[number].group && w->m[i].at == AROUND &&
            !w->m[i].buried)
            fail_msg("%d of group %d overtook %d", number, w->m[i].group, i);
}

static void op_receive(world *w, bool dead)
{
    bool firm = roll(w, 2);
    int max = 1 + roll(w, 8);
    if (w->outs + max > OUT)
        return;
    leat_queue_batch *b = take(
        w->q, &(leat_receive_opts){ .max = max,
                                    .dead = dead,
                                    .visibility_ms = firm ? 3600000 : 1 });
    for (size_t i = 0; i < leat_queue_batch_count(b); i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        int k = number(it);
        assert_in_range(k, 0, w->sent - 1);
        if (w->m[k].at != AROUND)
            fail_msg("message %d came back from the %s", k,
                     w->m[k].at == DONE ? "done" : "purged");
        if (w->m[k].firm)
            fail_msg("message %d was given to two", k);
        if (dead)
            w->m[k].buried = 1;
        else if (w->fifo)
            check_order(w, k);
        w->m[k].firm = firm;
        receipt *r = &w->out[w->outs++];
        *r = (receipt){
            .n = it->receipt.n, .number = k, .firm = firm, .dead = dead
        };
        memcpy(r->text, it->receipt.p, r->n);
    }
    leat_queue_batch_free(b);
}

static receipt draw(world *w)
{
    int i = roll(w, w->outs);
    receipt r = w->out[i];
    w->out[i] = w->out[--w->outs];
    return r;
}

static void op_ack(world *w)
{
    leat_error e = { 0 };
    if (w->outs == 0)
        return;
    receipt r = draw(w);
    leat_code rc = leat_queue_ack(w->q, leat_mem(r.text, r.n), &e);
    if (rc == LEAT_OK) {
        assert_int_equal(w->m[r.number].at, AROUND);
        w->m[r.number].at = DONE;
        w->m[r.number].firm = false;
        w->acked++;
        assert_code(leat_queue_ack(w->q, leat_mem(r.text, r.n), &e),
                    LEAT_ESTALE);
    } else if (rc != LEAT_ESTALE || r.firm) {
        fail_msg("ack of %d: %s", r.number, e.msg);
    }
}

static void op_change(world *w)
{
    leat_error e = { 0 };
    if (w->outs == 0)
        return;
    receipt r = draw(w);
    int ms = roll(w, 3) == 0 ? 3600000 : roll(w, 2);
    leat_code rc = leat_queue_change_visibility(w->q, leat_mem(r.text, r.n), ms,
                                                &e);
    if (rc == LEAT_ESTALE && !r.firm)
        return;
    assert_code(rc, LEAT_OK);
    w->m[r.number].firm = ms > 1;
    r.firm = ms > 1;
    if (ms > 0)
        w->out[w->outs++] = r;
    else if (!r.dead && w->fifo) /* it may have become a dead letter */
        w->m[r.number].buried |= 0;
}

static void op_expire(world *w)
{
    int64_t n;
    must(leat_queue_requeue_expired_once(w->q, roll(w, 20), &n, err));
}

/* Dead letters go back behind their groups: from then on they may come late. */
static void op_redrive(world *w)
{
    int64_t n;
    must(leat_queue_redrive(w->q, &(leat_redrive_opts){ .max = roll(w, 5) }, &n,
                            err));
}

static bool all_ran_out(world *w)
{
    int64_t dead = 0;
    op_expire(w);
    for (int i = 0; i < w->outs; i++)
        dead += w->out[i].dead;
    leat_queue_stats s = stats(w->q);
    int64_t lying = redis_int(server, "LLEN leat:{q/41}:orders:dead");
    return s.delayed == 0 && s.in_flight == w->outs - dead &&
           s.dead - lying == dead;
}

/* Until no receipt is out but those that cannot have run out. */
static void let_run_out(world *w)
{
    for (int i = 0; i < w->outs; i++)
        if (!w->out[i].firm)
            w->out[i--] = w->out[--w->outs];
    wait_until(all_ran_out(w), LONG_MS);
}

static void find_dead(world *w, char *dead)
{
    leat_queue_batch *b = leat_queue_peek(w->q, LEAT_QUEUE_BATCH, true, NULL);
    for (size_t i = 0; i < leat_queue_batch_count(b); i++)
        dead[number(leat_queue_batch_at(b, i))] = 1;
    leat_queue_batch_free(b);
    for (int i = 0; i < w->outs; i++)
        if (w->out[i].dead)
            dead[w->out[i].number] = 1;
}

static void op_purge(world *w)
{
    int64_t n;
    char dead[MOST] = { 0 };
    bool which = roll(w, 2);
    let_run_out(w);
    find_dead(w, dead);
    must(leat_queue_purge(w->q, which, &n, err));
    w->purged += (int)n;
    for (int i = 0; i < w->sent; i++) {
        if (w->m[i].at != AROUND || dead[i] != which)
            continue;
        w->m[i].at = PURGED;
        w->m[i].firm = false;
        n--;
    }
    assert_int_equal(n, 0);
    for (int i = 0; i < w->outs; i++)
        w->out[i].firm &= w->out[i].dead != which;
}

/* In a fifo queue a redriven message stands behind younger ones.  The model
 * takes every message that could be dead for one that may come late. */
static void forgive(world *w)
{
    leat_queue_batch *b = leat_queue_peek(w->q, LEAT_QUEUE_BATCH, true, NULL);
    for (size_t i = 0; i < leat_queue_batch_count(b); i++)
        w->m[number(leat_queue_batch_at(b, i))].buried = 1;
    leat_queue_batch_free(b);
}

static void step(world *w)
{
    int what = roll(w, 100);
    if (w->fifo)
        forgive(w);
    if (what < 25)
        op_send(w);
    else if (what < 50)
        op_receive(w, false);
    else if (what < 57)
        op_receive(w, true);
    else if (what < 77)
        op_ack(w);
    else if (what < 90)
        op_change(w);
    else if (what < 95)
        op_expire(w);
    else if (what < 98)
        op_redrive(w);
    else
        op_purge(w);
}

/* ---- the end ---------------------------------------------------------- */

/* Settle what is out, then receive until nothing is left. */
static void finish(world *w)
{
    while (w->outs > 0) {
        receipt r = draw(w);
        leat_code rc = leat_queue_ack(w->q, leat_mem(r.text, r.n), NULL);
        if (rc == LEAT_OK) {
            w->m[r.number].at = DONE;
            w->acked++;
        }
        w->m[r.number].firm = false;
    }
    int64_t end = wait_now_ms() + LONG_MS;
    for (;;) {
        leat_queue_stats s = stats(w->q);
        if (s.visible + s.delayed + s.in_flight + s.dead == 0)
            return;
        if (wait_now_ms() > end)
            fail_msg("visible %d delayed %d in flight %d dead %d stay",
                     (int)s.visible, (int)s.delayed, (int)s.in_flight,
                     (int)s.dead);
        op_expire(w);
        for (int dead = 0; dead < 2; dead++) {
            if (w->fifo)
                forgive(w);
            op_receive(w, dead);
            while (w->outs > 0)
                op_ack(w);
        }
    }
}

/* I7: neither bodies nor groups nor deadlines are left. */
static void nothing_left(void)
{
    static const char *const none[] = { "*:body", "*:ready", "*:dead", "*:busy",
                                        "*:g:*",  "*:due",   "*:work" };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (redis_int(server, "KEYS %s", none[i]) != 0)
            fail_msg("there is still a key like %s", none[i]);
}

static void run_seed(unsigned seed, bool fifo)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.seed = seed;
    w.fifo = fifo;
    redis_flush(server);
    print_message("# seed %u%s\n", seed, fifo ? ", fifo" : "");
    w.q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true,
                                                 .fifo = fifo,
                                                 .max_receives = RECEIVES });
    for (int i = 0; i < OPS; i++) {
        step(&w);
        if (i % 10 == 0) {
            conserved(w.q);
            leat_queue_stats s = stats(w.q);
            assert_int_equal(s.sent, w.sent);
            assert_int_equal(s.acked, w.acked);
            assert_int_equal(s.purged, w.purged);
        }
    }
    finish(&w);
    conserved(w.q);
    int done = 0;
    for (int i = 0; i < w.sent; i++)
        done += w.m[i].at == DONE;
    assert_int_equal(done, w.acked);
    assert_int_equal(stats(w.q).lost, 0);
    assert_int_equal(w.acked + w.purged, w.sent);
    nothing(w.q); /* whoever finds nothing takes it off the list of work */
    nothing_left();
    leat_queue_close(w.q);
}

/* $SEED repeats one run. */
static void run_all(bool fifo)
{
    const char *one = getenv("SEED");
    if (one) {
        run_seed((unsigned)strtoul(one, NULL, 10), fifo);
        return;
    }
    unsigned from = (unsigned)wait_now_ns();
    for (unsigned i = 0; i < SEEDS; i++)
        run_seed(from + i, fifo);
}

static void nothing_is_lost_and_nothing_is_done_twice(void **state)
{
    (void)state;
    run_all(false);
}

static void groups_keep_their_order(void **state)
{
    (void)state;
    run_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(nothing_is_lost_and_nothing_is_done_twice),
        queue_test(groups_keep_their_order),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
