/*
 * take.c: asks the shards who waits, and takes.
 *
 * Two round trips: a look at all shards, and a turn for those whose turn it is.
 * A shard that failed rests; one whose answer was lost is asked again by the
 * same number, and tells once more what it gave (queue/call.c).
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "pool/pool.h"
#include "redis/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = LEAT__QUEUE_SHARDS,
    HEADS = 4,        /* what look.lua tells of a shard before its queues */
    NAMED = 64,       /* so few queues are told by name         */
    REST_MS = 1000,   /* a shard that failed                    */
    CLUSTER_MS = 1000 /* for a shard that does not answer       */
};

/* One shard, in one go. */
typedef struct shard_turn {
    pool_source *s;
    unsigned shard;
    size_t queues; /* to be served                         */
    bool due;      /* something of it has expired          */
    bool listed;   /* it has something at all              */
    int64_t moved; /* that had expired                     */
    leat__list lots;
    leat_bytes *args;
    size_t argc;
    char number[LEAT__NUMBER], count[LEAT__NUMBER], room[LEAT__NUMBER];
    char hide[LEAT__NUMBER], limit[LEAT__NUMBER], each[LEAT__NUMBER];
    char bytes[LEAT__NUMBER];
    int64_t asked_ns;
} shard_turn;

enum { HEAD = 9 };

struct pool_taking {
    shard_turn turn[SHARDS];
    queue_call calls[2 * SHARDS];
    queue_answer answers[2 * SHARDS];
    leat_bytes keys[SHARDS];
    pool_waiting waiting[POOL_CANDIDATES];
    size_t n, waits; /* queues, of which it is told by the others */
    leat__buf names;
    int64_t next_ms; /* something of a shard happens then; -1: nothing */
    leat_bytes expire[5];
    leat_bytes args[HEAD * SHARDS + 2 * POOL_CANDIDATES];
    char counts[POOL_CANDIDATES][8];
    pool_lot *got[2 * POOL_QUEUES_MAX + SHARDS];
    size_t gots;
};

pool_taking *leat__pool_taking_new(leat_error *err)
{
    return leat__zalloc(sizeof(pool_taking), err);
}

static void free_lots(leat__list *lots)
{
    if (!lots->head.next)
        return;
    LEAT__LIST_EACH(lots, at)
    leat__pool_lot_free(LEAT__ITEM(at, pool_lot, link));
    leat__list_init(lots);
}

void leat__pool_taking_free(pool_taking *t)
{
    if (!t)
        return;
    for (unsigned i = 0; i < SHARDS; i++)
        free_lots(&t->turn[i].lots);
    leat__buf_release(&t->names);
    leat__free(t);
}

static int64_t patience_ns(const pool_source *s)
{
    int64_t ms = s->client->opts.timeout_ms;
    if (leat__client_clustered(s->client) && ms > CLUSTER_MS)
        ms = CLUSTER_MS;
    return leat__deadline_ns(ms);
}

/* ---- the look --------------------------------------------------------- */

typedef struct looking {
    pool_source *s;
    unsigned first; /* the shard of its first key */
    size_t step;    /* tells of every so manieth  */
    bool named;
    const unsigned *which; /* shards by key, or NULL */
} looking;

static void happens_in(pool_taking *t, int64_t ms)
{
    if (ms > 0 && (t->next_ms < 0 || ms < t->next_ms))
        t->next_ms = ms;
}

static leat_code keep_name(pool_taking *t, pool_waiting *w, const leat_reply *r,
                           leat_error *err)
{
    leat_bytes name = leat_reply_bytes(r);
    w->at = t->names.n; /* the buffer may move */
    w->name.n = name.n;
    return leat__buf_add(&t->names, name.p, name.n, err);
}

static leat_code read_shard(const looking *l, pool_taking *t,
                            const leat_reply *r, leat_error *err)
{
    size_t each = l->named ? 2 : 1, n = leat_reply_len(r);
    leat_reply_iter it = leat_reply_each(r);
    int64_t k = leat_reply_int(leat_reply_step(&it));
    leat_code rc = leat__queue_expect(r, l->named ? "[iiii(it)]" : "[iiii(i)]",
                                      err);
    if (rc == LEAT_OK && (k < 0 || k >= SHARDS))
        rc = leat__queue_expect(NULL, "_", err);
    if (rc != LEAT_OK)
        return rc;
    unsigned shard = l->which[(unsigned)k + l->first];
    shard_turn *turn = &t->turn[shard];
    int64_t due = leat_reply_int(leat_reply_step(&it));
    turn->listed = true;
    turn->due = due == 0;
    happens_in(t, due);
    happens_in(t, leat_reply_int(leat_reply_step(&it)));
    size_t left = (size_t)leat_reply_int(leat_reply_step(&it));
    size_t count = (n - HEADS) / each;
    for (size_t i = 0; i < count && t->n < POOL_CANDIDATES; i++) {
        pool_waiting *w = &t->waiting[t->n++];
        *w = (pool_waiting){ .age_ms = leat_reply_int(leat_reply_step(&it)),
                             .shard = shard,
                             .count = left < l->step ? left : l->step };
        left -= w->count;
        t->waits += w->count;
        if (!l->named)
            continue;
        rc = keep_name(t, w, leat_reply_step(&it), err);
        if (rc != LEAT_OK)
            return rc;
    }
    return LEAT_OK;
}

static leat_code read_look(void *arg, const leat_reply *r, leat_error *err)
{
    const looking *l = arg;
    leat_code rc = leat__queue_expect(r, "[i(_)]", err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(r);
    if (leat_reply_int(leat_reply_step(&it)) == 0)
        atomic_store_explicit(&l->s->deaf_ns,
                              leat__deadline_ns(LEAT__QUEUE_DEAF_MS),
                              memory_order_relaxed);
    for (const leat_reply *e; rc == LEAT_OK && (e = leat_reply_step(&it));)
        rc = read_shard(l, l->s->taking, e, err);
    return rc;
}

static void begin(pool_taking *t, pool_source *s)
{
    /* Without lease, as whoever takes looks anyway: see expire.lua. */
    t->expire[0] = leat_str("1000");
    t->expire[1] = leat_str(leat__pool_events(s));
    t->expire[2] = leat_str("");
    t->expire[3] = t->expire[4] = leat_str("1");
    t->n = 0;
    t->waits = 0;
    t->names.n = 0;
    t->next_ms = -1;
    for (unsigned i = 0; i < SHARDS; i++) {
        shard_turn *turn = &t->turn[i];
        if (!turn->lots.head.next)
            leat__list_init(&turn->lots);
        turn->s = s;
        turn->shard = i;
        turn->queues = 0;
        turn->moved = 0;
        turn->due = turn->listed = false;
    }
}

/* Of one server all shards in one script, else one for each. */
static size_t plan_look(pool_source *s, looking *l, unsigned *which,
                        leat_bytes *args)
{
    pool_taking *t = s->taking;
    size_t keys = 0, calls = 0;
    int64_t now = leat__now_ns();
    bool apart = leat__client_clustered(s->client);
    for (unsigned i = 0; i < SHARDS; i++) {
        if (s->shards[i].rest_ns > now)
            continue;
        t->keys[keys] = leat__key_bytes(&s->shards[i].due);
        which[keys++] = i;
    }
    for (size_t i = 0; i < keys; i += apart ? 1 : keys) {
        l[calls] = (looking){ s, (unsigned)i, l->step, l->named, which };
        t->calls[calls] = (queue_call){ .client = s->client,
                                        .name = s->prefix,
                                        .key = t->keys[i],
                                        .keys = &t->keys[i],
                                        .key_count = apart ? 0 : keys,
                                        .script = &leat__script_pool_look,
                                        .args = args,
                                        .n = 4,
                                        .looks = true,
                                        .read = read_look,
                                        .arg = &l[calls] };
        t->answers[calls] = (queue_answer){ .call = &t->calls[calls] };
        calls++;
    }
    return calls;
}

static void name_them(pool_taking *t)
{
    for (size_t i = 0; i < t->n; i++) {
        pool_waiting *w = &t->waiting[i];
        if (w->name.n > 0)
            w->name.p = t->names.p + w->at;
    }
}

/* The first failure, if all failed; those shards rest. */
static leat_code after_look(pool_source *s, size_t calls, leat_error *err)
{
    pool_taking *t = s->taking;
    size_t bad = 0;
    for (size_t i = 0; i < calls; i++) {
        if (t->answers[i].rc == LEAT_OK)
            continue;
        const looking *l = t->calls[i].arg;
        if (bad++ == 0 && err)
            *err = t->answers[i].err;
        if (calls > 1)
            s->shards[l->which[l->first]].rest_ns = leat__deadline_ns(REST_MS);
    }
    happens_in(t, bad > 0 ? REST_MS : -1);
    return bad > 0 && bad == calls ? t->answers[0].rc : LEAT_OK;
}

static leat_code look(pool_source *s, size_t queues, leat_error *err)
{
    looking l[SHARDS];
    unsigned which[SHARDS];
    char most[LEAT__NUMBER], step[LEAT__NUMBER];
    l[0].named = s->opts.weight || s->told <= NAMED;
    if (l[0].named && queues > NAMED)
        queues = NAMED;
    l[0].step = (queues + SHARDS - 1) / SHARDS;
    leat_bytes args[] = { leat__arg_int(most, (int64_t)queues),
                          leat__arg_int(step, (int64_t)l[0].step),
                          leat_str(l[0].named ? "1" : "0"),
                          leat__key_bytes(&s->heard) };
    begin(s->taking, s);
    size_t calls = plan_look(s, l, which, args);
    leat__queue_calls(s->client, s->taking->answers, calls, patience_ns(s));
    name_them(s->taking);
    s->told = s->taking->waits;
    return after_look(s, calls, err);
}

/* ---- the turn --------------------------------------------------------- */

static void fill(pool_source *s, pool_lot *lot, size_t i)
{
    const leat_queue_item *it = leat_queue_batch_at(lot->batch, i);
    pool_slot *slot = &lot->slots[i];
    pool_queue *q = lot->queue;
    slot->lot = lot;
    slot->receipt = it->receipt;
    leat_delivery *d = &slot->d;
    d->msg = it->msg;
    d->from = leat_str(q->name);
    /* The same message stands where it stood: see lane.c of run/. */
    d->position = (leat_position){ .ms = (uint64_t)it->sent_ms };
    d->lane = leat__pool_serial(s) ? q->lane : 0;
    d->turn = leat__pool_slice(s) == 1 ? (uint32_t)q->weight : 0;
    d->error = it->error;
    d->attempt = it->receives ? it->receives : 1;
    d->redelivered = it->receives > 1;
    leat__delivery_arm(d, &s->base, lot->until_ns);
}

pool_lot *leat__pool_lot_new(pool_source *s, pool_queue *q,
                             leat_queue_batch *batch, int64_t until_ns,
                             leat__list *to, leat_error *err)
{
    size_t n = leat_queue_batch_count(batch);
    pool_lot *lot = leat__zalloc(sizeof *lot + n * sizeof *lot->slots, err);
    if (!lot) {
        leat_queue_batch_free(batch);
        return NULL;
    }
    lot->queue = q;
    lot->batch = batch;
    lot->n = n;
    lot->until_ns = until_ns;
    pthread_mutex_lock(&s->lock);
    q->out += (unsigned)n;
    pthread_mutex_unlock(&s->lock);
    leat__list_push(to, &lot->link);
    return lot;
}

static bool says(leat_bytes what, char letter)
{
    return what.n > 0 && memchr(what.p, letter, what.n);
}

static leat_code read_lot(shard_turn *t, leat_bytes name, leat_bytes what,
                          const leat_reply *r, leat_error *err)
{
    leat_code rc = leat__queue_expect(r, "[ii(tt)]", err);
    pool_queue *q = rc == LEAT_OK ? leat__pool_queue(t->s, name, err) : NULL;
    if (!q)
        return rc == LEAT_OK ? LEAT_ENOMEM : rc;
    int64_t hide = leat_reply_int(leat_reply_at(r, 1));
    leat_queue_batch *b = leat__batch_read(r, says(what, 'f'), err);
    pool_lot *lot = b ? leat__pool_lot_new(t->s, q, b,
                                           t->asked_ns + hide * 1000000,
                                           &t->lots, err)
                      : NULL;
    pthread_mutex_lock(&t->s->lock);
    q->out--;
    pthread_mutex_unlock(&t->s->lock);
    if (!lot)
        return LEAT_ENOMEM;
    lot->fifo = says(what, 'f');
    lot->log = says(what, 'l');
    return LEAT_OK;
}

/* Lots that were read and are not handed out: their queues have less out. */
static void drop_lots(shard_turn *t)
{
    pthread_mutex_lock(&t->s->lock);
    LEAT__LIST_EACH(&t->lots, at)
    {
        pool_lot *lot = LEAT__ITEM(at, pool_lot, link);
        lot->queue->out -= (unsigned)lot->n;
    }
    pthread_mutex_unlock(&t->s->lock);
    free_lots(&t->lots);
}

static leat_code read_turn(void *arg, const leat_reply *r, leat_error *err)
{
    shard_turn *t = arg;
    leat_code rc = leat__queue_expect(r, "[(tti_)" LEAT__QUEUE_TOLD "]", err);
    drop_lots(t); /* of an answer without proof */
    leat_reply_iter it = leat_reply_each(r);
    while (rc == LEAT_OK && it.left >= 4) {
        leat_bytes name = leat_reply_bytes(leat_reply_step(&it));
        leat_bytes what = leat_reply_bytes(leat_reply_step(&it));
        int64_t age = leat_reply_int(leat_reply_step(&it));
        const leat_reply *at = leat_reply_step(&it);
        if (leat_bytes_eq(what, leat_str("e"))) {
            leat_bytes why = leat_reply_bytes(at);
            leat__log(&t->s->opts.log, LEAT_LOG_WARN,
                      "queue '%.*s' cannot be served: %.*s", (int)name.n,
                      (const char *)name.p, (int)why.n, (const char *)why.p);
        } else {
            rc = read_lot(t, name, what, at, err);
            if (rc == LEAT_OK)
                LEAT__ITEM(leat__list_last(&t->lots), pool_lot, link)
                    ->age_ms = age;
        }
    }
    return rc;
}

static leat_code read_expired(void *arg, const leat_reply *r, leat_error *err)
{
    shard_turn *t = arg;
    leat_code rc = leat__queue_expect(r, "[iiii" LEAT__QUEUE_TOLD "]", err);
    if (rc == LEAT_OK)
        t->moved = leat_reply_int(leat_reply_at(r, 0));
    return rc;
}

int leat__pool_count_for(pool_source *s, leat_bytes name, int slice,
                         bool crowded)
{
    int n = slice;
    pool_queue *met = s->opts.weight ? leat__pool_queue(s, name, NULL) : NULL;
    pthread_mutex_lock(&s->lock);
    if (met)
        met->out--;
    pool_queue *q = leat__map_get(&s->queues, name);
    if (q)
        n = n * q->weight < POOL_TURN_MAX ? n * q->weight : POOL_TURN_MAX;
    if (q && !crowded && q->burst > n)
        n = q->burst;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* The numbers of those of this shard that are not as usual. */
static void add_counts(pool_source *s, shard_turn *turn, size_t chosen,
                       bool crowded)
{
    pool_taking *t = s->taking;
    int usual = leat__pool_slice(s);
    for (size_t i = 0; i < chosen; i++) {
        pool_waiting *w = &t->waiting[i];
        if (w->shard != turn->shard || w->name.n == 0)
            continue;
        int n = leat__pool_count_for(s, w->name, usual, crowded);
        if (n == usual)
            continue;
        snprintf(t->counts[i], sizeof t->counts[i], "%d", n);
        turn->args[turn->argc++] = w->name;
        turn->args[turn->argc++] = leat_str(t->counts[i]);
    }
}

static void plan_turn(pool_source *s, shard_turn *turn, size_t room)
{
    pool_shard *sh = &s->shards[turn->shard];
    if (!sh->doubt)
        sh->number++;
    sh->doubt = true;
    turn->asked_ns = leat__now_ns();
    leat_bytes *a = turn->args;
    a[0] = leat__arg_int(turn->count, (int64_t)turn->queues);
    a[1] = leat_str(s->lane);
    a[2] = leat__arg_int(turn->number, (int64_t)sh->number);
    a[3] = leat_str(leat__pool_events(s));
    a[4] = leat__arg_int(turn->hide, s->opts.visibility_ms);
    a[5] = leat__arg_int(turn->limit, s->opts.queue_workers);
    a[6] = leat__arg_int(turn->each, leat__pool_slice(s));
    a[7] = leat__arg_int(turn->room, (int64_t)room);
    a[8] = leat__arg_int(turn->bytes,
                         POOL_TAKE_BYTES / POOL_TAKE_MAX * (int64_t)room);
    turn->argc = HEAD;
}

static void add_call(pool_source *s, size_t *n, const leat__script *script,
                     shard_turn *turn, const leat_bytes *args, size_t argc,
                     queue_read_fn *read)
{
    pool_taking *t = s->taking;
    leat_bytes *key = &t->keys[turn->shard];
    *key = leat__key_bytes(&s->shards[turn->shard].due);
    t->calls[*n] = (queue_call){ .client = s->client,
                                 .name = s->prefix,
                                 .key = *key,
                                 .script = script,
                                 .args = args,
                                 .n = argc,
                                 .read = read,
                                 .arg = turn };
    t->answers[*n] = (queue_answer){ .call = &t->calls[*n] };
    ++*n;
}

/* What expired comes back first, then those whose turn it is. */
static size_t plan_turns(pool_source *s, size_t chosen, size_t queues,
                         bool crowded, int max)
{
    pool_taking *t = s->taking;
    size_t n = 0, used = 0;
    int64_t now = leat__now_ns();
    for (unsigned i = 0; i < SHARDS; i++) {
        shard_turn *turn = &t->turn[i];
        if (turn->due)
            add_call(s, &n, &leat__script_queue_expire, turn, t->expire, 5,
                     read_expired);
        bool ask = turn->queues > 0 ||
                   (s->shards[i].doubt && s->shards[i].rest_ns <= now);
        if (!ask)
            continue;
        turn->queues = turn->queues > 0 ? turn->queues : 1;
        size_t room = queues > 0 ? (size_t)max * turn->queues / queues : 1;
        turn->args = t->args + used;
        plan_turn(s, turn, room > 0 ? room : 1);
        add_counts(s, turn, chosen, crowded);
        used += turn->argc;
        add_call(s, &n, &leat__script_pool_serve, turn, turn->args, turn->argc,
                 read_turn);
    }
    return n;
}

static int by_age(const void *a, const void *b)
{
    const pool_lot *x = *(pool_lot *const *)a, *y = *(pool_lot *const *)b;
    return x->age_ms < y->age_ms ? 1 : x->age_ms > y->age_ms ? -1 : 0;
}

/* Of all shards, in the order in which they waited. */
static void line_up(pool_source *s)
{
    pool_taking *t = s->taking;
    qsort(t->got, t->gots, sizeof *t->got, by_age);
    for (size_t i = 0; i < t->gots; i++)
        leat__list_push(&s->fresh, &t->got[i]->link);
    t->gots = 0;
}

void leat__pool_lots_begin(pool_source *s, leat__list *lots)
{
    int64_t now = leat__now_ns();
    pthread_mutex_lock(&s->lock);
    LEAT__LIST_EACH(lots, at)
    {
        pool_lot *lot = LEAT__ITEM(at, pool_lot, link);
        atomic_store(&lot->refs, (unsigned)lot->n);
        lot->since_ns = now;
        lot->queue->received += lot->n;
        leat__pool_use_locked(s, lot->queue, now);
        for (size_t i = 0; i < lot->n; i++)
            fill(s, lot, i);
        s->busy += leat__pool_serial(s) ? 1 : lot->n;
        s->held += lot->n;
        lot->out = lot->n;
    }
    pthread_mutex_unlock(&s->lock);
}

static void take_lots(pool_source *s, shard_turn *t)
{
    leat__pool_lots_begin(s, &t->lots);
    pool_taking *all = s->taking;
    while (!leat__list_empty(&t->lots)) {
        if (all->gots == sizeof all->got / sizeof *all->got)
            line_up(s);
        all->got[all->gots++] = LEAT__ITEM(leat__list_pop(&t->lots), pool_lot,
                                           link);
    }
}

/* True: somebody got something, or is worth another look. */
static bool after_turns(pool_source *s, size_t calls, leat_error *err,
                        leat_code *rc)
{
    pool_taking *t = s->taking;
    bool some = false;
    for (size_t i = 0; i < calls; i++) {
        const queue_answer *a = &t->answers[i];
        shard_turn *turn = t->calls[i].arg;
        pool_shard *sh = &s->shards[turn->shard];
        if (a->rc != LEAT_OK) {
            *rc = a->rc;
            if (err)
                *err = a->err;
            if (leat__client_clustered(s->client))
                sh->rest_ns = leat__deadline_ns(REST_MS);
            drop_lots(turn);
            continue;
        }
        if (t->calls[i].read == read_expired) {
            some |= turn->moved > 0;
            continue;
        }
        sh->doubt = false;
        some = true;
        take_lots(s, turn);
    }
    line_up(s);
    return some;
}

/* ---- both ------------------------------------------------------------- */

int leat__pool_hand_out(pool_source *s, leat_delivery **out, int max)
{
    int n = 0;
    pthread_mutex_lock(&s->lock);
    while (n < max && !leat__list_empty(&s->fresh)) {
        pool_lot *lot = LEAT__ITEM(leat__list_first(&s->fresh), pool_lot, link);
        while (n < max && lot->given < lot->n) {
            pool_slot *slot = &lot->slots[lot->given++];
            slot->out = true;
            out[n++] = &slot->d;
        }
        if (lot->given < lot->n)
            break;
        leat__link_remove(&lot->link);
        leat__list_push(&s->lots, &lot->link);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* How many lots; *queues, which were asked for: how many they are. */
static size_t choose(pool_source *s, size_t *queues, bool *crowded)
{
    pool_taking *t = s->taking;
    size_t chosen = leat__pool_choose(t->waiting, t->n, *queues, queues);
    *crowded = *queues < t->waits;
    for (size_t i = 0; i < chosen; i++)
        t->turn[t->waiting[i].shard].queues += t->waiting[i].count;
    return chosen;
}

int leat__pool_take(pool_source *s, size_t queues, leat_delivery **out, int max,
                    int64_t *again_ms, leat_error *err)
{
    bool crowded, some = false;
    *again_ms = 0;
    int n = leat__pool_hand_out(s, out, max);
    if (n > 0)
        return n;
    leat_code rc = look(s, queues, err);
    if (rc != LEAT_OK)
        return -1;
    size_t chosen = choose(s, &queues, &crowded);
    int room = max < POOL_TAKE_MAX ? max : POOL_TAKE_MAX;
    size_t calls = plan_turns(s, chosen, queues, crowded, room);
    if (calls > 0) {
        leat__queue_calls(s->client, s->taking->answers, calls, patience_ns(s));
        some = after_turns(s, calls, err, &rc);
        n = leat__pool_hand_out(s, out, max);
    }
    if (n == 0 && rc != LEAT_OK && !some)
        return -1;
    *again_ms = some ? 0 : s->taking->next_ms;
    return n;
}
