/*
 * sim_world.c: members that run, pause, die and come back.
 *
 * What is checked, at every step:
 *
 *   A live member loses a lease to another's judgement only if, when that other
 *   last looked, none of its beats had arrived for a lease, not counting
 *   outages of the server of more than half a lease; or if a later life of its
 *   stable name was there.
 *
 *   A member that hands out (it runs, and two thirds of the lease have not
 *   passed since the sending of its last answered beat) has the lease of
 *   whatever it believes to own, with that epoch.  The exception is the race
 *   that no lease can exclude: it was silent for a lease, was judged, and came
 *   back while the TAKE was on its way; then it is fenced at its next step.
 *
 *   Epochs of a partition rise.  Only its owner gives a lease up.
 *
 * And after a quiet time: every partition has one owner that lives and knows
 * it, shares are level as far as caps allow, and nothing moves any more.
 */
#include "sim_world.h"

#include "topic/record.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { BEATS_KEPT = 32, RENEWED = 64 };

sim_counts sim_total;

typedef struct owned {
    uint32_t p;
    bool draining; /* nothing of it is handed out */
    uint64_t epoch;
} owned;

typedef struct request {
    leat__group_do what;
    int who, refs, dead;
    uint32_t p;
    uint64_t epoch;
    int64_t sent_local; /* BEAT */
    int64_t look_up;    /* TAKE: when its sender last looked, server's uptime */
    bool answered, late, no_reply;
    sim_text *text;
    int buried;
    /* The answer. */
    bool done;
    int owner;
    sim_snapshot *snap;
    int64_t ran_up;
    size_t renew_n;
    owned renew[];
} request;

typedef enum event_type { WAKE, ARRIVE, REPLY, FAIL, DRAINED, HINT } event_type;

typedef struct event {
    int64_t at;
    uint64_t seq;
    event_type type;
    int who;
    uint32_t p;
    request *r;
} event;

typedef struct actor {
    leat__group *g;
    char name[24];
    bool stable, running, going;
    uint32_t cap;
    double rate;
    int64_t offset, paused_until, cut_until, fifo_ns, reply_ns;
    uint64_t wake_seq;
    int64_t wake_at;
    bool hint_pending;
    int64_t look_up;             /* server's uptime of its last look     */
    int64_t beat_up[BEATS_KEPT]; /* and when its last beats arrived      */
    unsigned beats;
    uint64_t born_hint;
    owned *own; /* what its consumer believes */
    size_t own_n, own_cap;
    uint32_t *place; /* index in own + 1 */
    size_t renew_turn;
} actor;

struct sim_world {
    sim_opts o;
    uint64_t rng;
    int64_t now;
    sim_server s;
    actor *a;
    int n, cap;
    event *heap;
    size_t heap_n, heap_cap;
    uint64_t seq;
    sim_faults faults;
    int64_t down_until, down_total, down_from, late_until;
    bool refuse;
    unsigned taken;   /* leases taken in all                            */
    uint64_t changes; /* of leases, in all                              */
    bool quiet, verbose;
    uint64_t *top_epoch; /* highest ever, by partition                     */
};

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

static void say(const sim_world *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const sim_world *w, const char *fmt, ...)
{
    va_list ap;
    if (!w->verbose)
        return;
    printf("# %10.3f ", (double)w->now / 1e6);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

#define sim_fail(w, ...)                                                       \
    do {                                                                       \
        print_error("seed %" PRIu64 " at %.3f ms: ", (w)->o.seed,              \
                    (double)(w)->now / 1e6);                                   \
        print_error(__VA_ARGS__);                                              \
        print_error("\n");                                                     \
        fail();                                                                \
    } while (0)

uint64_t sim_random(sim_world *w, uint64_t below)
{
    uint64_t z = (w->rng += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

static bool chance(sim_world *w, int of_thousand)
{
    return of_thousand > 0 && sim_random(w, 1000) < (uint64_t)of_thousand;
}

/* ---- events ----------------------------------------------------------- */

static bool before(const event *a, const event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void push(sim_world *w, event e)
{
    if (w->heap_n == w->heap_cap) {
        w->heap_cap = w->heap_cap * 2 + 64;
        w->heap = need(realloc(w->heap, w->heap_cap * sizeof e));
    }
    e.seq = ++w->seq;
    if (e.r)
        e.r->refs++;
    size_t i = w->heap_n++;
    for (; i > 0 && before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static event pop(sim_world *w)
{
    event top = w->heap[0], last = w->heap[--w->heap_n];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < w->heap_n; i = c) {
        if (c + 1 < w->heap_n && before(&w->heap[c + 1], &w->heap[c]))
            c++;
        if (!before(&w->heap[c], &last))
            break;
        w->heap[i] = w->heap[c];
    }
    w->heap[i] = last;
    return top;
}

static void drop(request *r)
{
    if (!r || --r->refs > 0)
        return;
    sim_text_drop(r->text);
    sim_snapshot_free(r->snap);
    free(r);
}

/* ---- time ------------------------------------------------------------- */

static int64_t local(const sim_world *w, const actor *a)
{
    return a->offset + (int64_t)((double)w->now * a->rate);
}

/* The instant at which the member's clock shows t, or a little later. */
static int64_t global(const actor *a, int64_t t)
{
    return t > INT64_MAX / 2 ? INT64_MAX
                             : (int64_t)((double)(t - a->offset) / a->rate) + 1;
}

/* Nanoseconds that the server has been up, or away for less than half a lease;
 * asked when it is up. */
static int64_t uptime(const sim_world *w)
{
    return w->now - w->down_total;
}

static void wake(sim_world *w, int who, int64_t at)
{
    actor *a = &w->a[who];
    if (at == INT64_MAX || (a->wake_at <= at && a->wake_at > w->now))
        return;
    if (at < w->now)
        at = w->now;
    a->wake_at = at;
    push(w, (event){ .at = at, .type = WAKE, .who = who });
    a->wake_seq = w->seq;
}

/* ---- what a consumer believes ----------------------------------------- */

static void believe(actor *a, uint32_t p, uint64_t epoch)
{
    if (a->place[p]) {
        a->own[a->place[p] - 1] = (owned){ .p = p, .epoch = epoch };
        return;
    }
    if (a->own_n == a->own_cap) {
        a->own_cap = a->own_cap * 2 + 8;
        a->own = need(realloc(a->own, a->own_cap * sizeof *a->own));
    }
    a->own[a->own_n++] = (owned){ .p = p, .epoch = epoch };
    a->place[p] = (uint32_t)a->own_n;
}

static void disbelieve(actor *a, uint32_t p)
{
    if (!a->place[p])
        return;
    owned last = a->own[--a->own_n];
    a->own[a->place[p] - 1] = last;
    a->place[last.p] = a->place[p];
    a->place[p] = 0;
}

static bool hands_out(const sim_world *w, const actor *a)
{
    return a->running && a->paused_until <= w->now &&
           local(w, a) < leat__group_safe_until(a->g) - w->o.lease_ns / 3;
}

static void check_belief(sim_world *w, int who)
{
    actor *a = &w->a[who];
    if (!hands_out(w, a))
        return;
    for (size_t i = 0; i < a->own_n; i++) {
        owned o = a->own[i];
        const sim_lease *l = &w->s.lease[o.p];
        if (o.draining || o.epoch <= l->raced ||
            sim_renew(&w->s, o.p, who, o.epoch))
            continue;
        sim_fail(w, "member %d hands out %u, which is %d's", who, o.p,
                 l->owner);
    }
}

/* ---- requests --------------------------------------------------------- */

static request *request_new(const leat__group_action *act, int who, size_t more)
{
    request *r = need(calloc(1, sizeof *r + more * sizeof(owned)));
    r->what = act->what;
    r->who = who;
    r->p = act->partition;
    r->epoch = act->epoch;
    r->dead = act->from_dead ? sim_who(&act->from) : NOBODY;
    if (act->what == LEAT__GROUP_BEAT || act->what == LEAT__GROUP_BURY)
        r->text = sim_text_new(act->record.p, act->record.n);
    if (act->what == LEAT__GROUP_BURY)
        r->buried = sim_who(&act->other);
    return r;
}

/* As member.c: every beat asks for a number of leases whether they are ours. */
static void add_renewals(actor *a, request *r)
{
    for (; r->renew_n < RENEWED && r->renew_n < a->own_n; r->renew_n++)
        r->renew[r->renew_n] = a->own[a->renew_turn++ % a->own_n];
}

static int64_t delay(sim_world *w)
{
    return 50000 +
           (int64_t)sim_random(w, chance(w, 20) ? 30 * 1000000 : 900000);
}

static void send(sim_world *w, request *r)
{
    actor *a = &w->a[r->who];
    int64_t lease = w->o.lease_ns;
    bool cut = w->now < a->cut_until;
    bool lost = chance(w, w->faults.lost_request);
    r->late = chance(w, cut ? 300 : w->faults.late);
    r->no_reply = chance(w, w->faults.lost_reply) || r->late;
    int64_t fails = w->now + 1 + (int64_t)sim_random(w, (uint64_t)lease / 4);
    int64_t at = w->now + delay(w);
    if (r->late) {
        at += (int64_t)sim_random(w, 3 * (uint64_t)lease);
        w->late_until = at > w->late_until ? at : w->late_until;
        sim_total.late++;
    } else { /* one connection, in order */
        at = at > a->fifo_ns ? at : a->fifo_ns;
        a->fifo_ns = at;
    }
    if (!lost && (!cut || r->late))
        push(w, (event){ .at = at, .type = ARRIVE, .who = r->who, .r = r });
    if (!lost && !cut && !r->no_reply)
        fails = w->now + lease / 3;
    push(w, (event){ .at = fails, .type = FAIL, .who = r->who, .r = r });
}

/* ---- the server's side ------------------------------------------------ */

static void tell_all(sim_world *w)
{
    for (int i = 0; i < w->n; i++) {
        actor *a = &w->a[i];
        if (!a->running || a->hint_pending || chance(w, w->quiet ? 10 : 100))
            continue;
        a->hint_pending = true;
        push(w, (event){ .at = w->now + delay(w), .type = HINT, .who = i });
    }
}

/* Its last beat that had arrived when the judge looked. */
static int64_t silence_at(const actor *a, int64_t look_up)
{
    for (unsigned k = 1; k <= a->beats && k <= BEATS_KEPT; k++) {
        int64_t up = a->beat_up[(a->beats - k) % BEATS_KEPT];
        if (up <= look_up)
            return look_up - up;
    }
    return a->beats > BEATS_KEPT ? 0 : INT64_MAX;
}

static uint64_t born_of(const sim_world *w, int who)
{
    leat__record r;
    for (size_t i = 0; i < w->s.n; i++)
        if (w->s.records[i].who == who &&
            leat__record_parse(
                leat_mem(w->s.records[i].text->p, w->s.records[i].text->n), &r))
            return r.born;
    return 0;
}

static bool outlived(const sim_world *w, int who)
{
    if (!w->a[who].stable)
        return false;
    for (int i = 0; i < w->n; i++)
        if (w->a[i].stable && w->a[i].born_hint > w->a[who].born_hint &&
            strcmp(w->a[i].name, w->a[who].name) == 0)
            return true;
    return false;
}

/* The lease goes from one that did not give it up. */
static void check_robbery(sim_world *w, const request *r, int victim,
                          uint64_t epoch)
{
    actor *v = &w->a[victim];
    sim_lease *l = &w->s.lease[r->p];
    int64_t last = v->beats ? v->beat_up[(v->beats - 1) % BEATS_KEPT] : 0;
    if (!v->running)
        return;
    sim_total.robbed++;
    say(w, "member %d takes %u from %d", r->who, r->p, victim);
    if (outlived(w, victim) || r->late) {
        l->raced = epoch;
        sim_total.raced += r->late;
        return;
    }
    if (!v->place[r->p] && !leat__group_owns(v->g, r->p))
        return; /* it does not know of it, and said so */
    if (silence_at(v, r->look_up) < w->o.lease_ns)
        sim_fail(w,
                 "member %d took %u from %d, which had beaten %.3f ms before"
                 " it was judged",
                 r->who, r->p, victim, (double)silence_at(v, r->look_up) / 1e6);
    if (last > r->look_up) {
        l->raced = epoch;
        sim_total.raced++;
        return;
    }
    if (hands_out(w, v) && v->place[r->p])
        sim_fail(w, "member %d took %u from %d while that handed out", r->who,
                 r->p, victim);
}

static void run_take(sim_world *w, request *r)
{
    int was = w->s.lease[r->p].owner;
    uint64_t epoch = w->s.lease[r->p].epoch;
    r->done = sim_take(&w->s, r->p, r->who, r->dead, &r->epoch, &r->owner);
    if (!r->done) {
        sim_total.refused++;
        return;
    }
    w->taken++;
    w->changes++;
    sim_total.takes++;
    if (r->epoch <= w->top_epoch[r->p])
        sim_fail(w, "epoch of %u did not rise", r->p);
    w->top_epoch[r->p] = r->epoch;
    if (was != NOBODY && was != r->who)
        check_robbery(w, r, was, epoch);
    else if (was == r->who && r->late) /* its own older epoch is over */
        w->s.lease[r->p].raced = epoch;
    say(w, "member %d has %u, epoch %" PRIu64 "%s", r->who, r->p, r->epoch,
        r->late ? ", late" : "");
}

static void run_hand(sim_world *w, request *r)
{
    int was = w->s.lease[r->p].owner;
    uint64_t epoch = w->s.lease[r->p].epoch;
    r->done = sim_hand(&w->s, r->p, r->who, r->epoch);
    if (r->done) {
        w->changes++;
        sim_total.hands++;
        if (was != r->who || epoch != r->epoch)
            sim_fail(w, "member %d gave up %u, which was %d's", r->who, r->p,
                     was);
        say(w, "member %d gives up %u", r->who, r->p);
        tell_all(w);
    }
}

static void run_beat(sim_world *w, request *r)
{
    actor *a = &w->a[r->who];
    bool told, counted;
    size_t lost = 0;
    r->snap = sim_beat(&w->s, r->who, r->text, &told, &counted);
    r->ran_up = uptime(w);
    sim_total.beats++;
    if (counted) {
        a->beat_up[a->beats++ % BEATS_KEPT] = r->ran_up;
        if (a->stable)
            a->born_hint = born_of(w, r->who);
    }
    for (size_t i = 0; i < r->renew_n; i++)
        if (!sim_renew(&w->s, r->renew[i].p, r->who, r->renew[i].epoch))
            r->renew[lost++] = r->renew[i];
    r->renew_n = lost;
    if (told)
        tell_all(w);
}

static void arrive(sim_world *w, request *r)
{
    if (w->now < w->down_until) {
        if (!w->refuse)
            push(w, (event){ .at = w->down_until + delay(w),
                             .type = ARRIVE,
                             .who = r->who,
                             .r = r });
        return;
    }
    r->late |= r->answered; /* given up by its sender */
    switch (r->what) {
    case LEAT__GROUP_BEAT:
        run_beat(w, r);
        break;
    case LEAT__GROUP_TAKE:
        run_take(w, r);
        break;
    case LEAT__GROUP_HAND:
        run_hand(w, r);
        break;
    case LEAT__GROUP_BURY:
        sim_bury(&w->s, r->buried, r->text);
        break;
    default:
        sim_leave(&w->s, r->who);
        tell_all(w);
    }
    if (r->no_reply)
        return;
    actor *a = &w->a[r->who];
    int64_t at = w->now + delay(w);
    a->reply_ns = at > a->reply_ns ? at : a->reply_ns;
    push(w, (event){ .at = a->reply_ns, .type = REPLY, .who = r->who, .r = r });
}

/* ---- the member's side ------------------------------------------------ */

static void answered_beat(sim_world *w, actor *a, request *r)
{
    static leat__group_record *room;
    static size_t cap;
    if (r->snap->n > cap) {
        cap = r->snap->n * 2;
        room = need(realloc(room, cap * sizeof *room));
    }
    for (size_t i = 0; i < r->snap->n; i++) {
        const sim_record *s = &r->snap->r[i];
        room[i].nonce = sim_nonce(w->o.seed, s->who);
        room[i].text = leat_mem(s->text->p, s->text->n);
    }
    a->look_up = r->ran_up;
    for (size_t i = 0; i < r->renew_n; i++) {
        owned o = r->renew[i];
        if (!a->place[o.p] || a->own[a->place[o.p] - 1].epoch != o.epoch)
            continue;
        sim_total.fenced++;
        disbelieve(a, o.p);
        leat__group_fenced(a->g, o.p, o.epoch, local(w, a));
    }
    if (leat__group_beat_done(a->g, r->sent_local, local(w, a), room,
                              r->snap->n, NULL) != LEAT_OK)
        abort();
    sim_snapshot_free(r->snap);
    r->snap = NULL;
}

static void answered(sim_world *w, actor *a, request *r)
{
    int64_t now = local(w, a);
    if (r->what == LEAT__GROUP_BEAT) {
        answered_beat(w, a, r);
    } else if (r->what == LEAT__GROUP_TAKE && r->done) {
        believe(a, r->p, r->epoch);
        leat__group_taken(a->g, r->p, r->epoch, now);
    } else if (r->what == LEAT__GROUP_TAKE) {
        leat__nonce owner = sim_nonce(w->o.seed, r->owner);
        leat__group_take_refused(a->g, r->p, &owner, now);
    } else if (r->what == LEAT__GROUP_HAND) {
        disbelieve(a, r->p);
        leat__group_hand_done(a->g, r->p, now);
    }
}

static void failed(sim_world *w, actor *a, const request *r)
{
    int64_t now = local(w, a);
    if (r->what == LEAT__GROUP_BEAT)
        leat__group_beat_failed(a->g, now);
    else if (r->what == LEAT__GROUP_TAKE)
        leat__group_take_failed(a->g, r->p, now);
    else if (r->what == LEAT__GROUP_HAND)
        leat__group_hand_failed(a->g, r->p, now);
}

static void carry_out(sim_world *w, int who, const leat__group_action *act)
{
    actor *a = &w->a[who];
    size_t more = act->what == LEAT__GROUP_BEAT ? RENEWED : 0;
    int64_t drain = (int64_t)sim_random(w, (uint64_t)w->o.drain_ns * 5 / 4 + 1);
    switch (act->what) {
    case LEAT__GROUP_DRAIN:
        a->own[a->place[act->partition] - 1].draining = true;
        push(w, (event){ .at = w->now + drain,
                         .type = DRAINED,
                         .who = who,
                         .p = act->partition });
        return;
    case LEAT__GROUP_KEEP:
        a->own[a->place[act->partition] - 1].draining = false;
        return;
    case LEAT__GROUP_DROP:
        disbelieve(a, act->partition);
        return;
    case LEAT__GROUP_LEAVE:
        a->running = false;
        say(w, "member %d is gone", who);
        break;
    default:
        break;
    }
    if (act->what == LEAT__GROUP_HAND && a->place[act->partition])
        a->own[a->place[act->partition] - 1].draining = true;
    request *r = request_new(act, who, more);
    r->sent_local = local(w, a);
    r->look_up = a->look_up;
    if (more)
        add_renewals(a, r);
    send(w, r);
}

static void step(sim_world *w, int who)
{
    actor *a = &w->a[who];
    for (;;) {
        leat__group_action act = leat__group_next(a->g, local(w, a));
        if (act.what == LEAT__GROUP_NOTHING)
            break;
        carry_out(w, who, &act);
    }
    check_belief(w, who);
    if (a->running)
        wake(w, who, global(a, leat__group_due(a->g)));
}

static void to_member(sim_world *w, event *e)
{
    actor *a = &w->a[e->who];
    if (e->type == WAKE && e->seq != a->wake_seq)
        return;
    if (!a->running)
        return;
    if (a->paused_until > w->now) {
        e->at = a->paused_until;
        push(w, *e);
        if (e->type == WAKE)
            a->wake_seq = w->seq;
        return;
    }
    if (e->type == HINT) {
        a->hint_pending = false;
        leat__group_hint(a->g, local(w, a));
    } else if (e->type == DRAINED) {
        leat__group_drained(a->g, e->p, local(w, a));
    } else if (e->r) {
        if (e->r->answered)
            return;
        e->r->answered = true;
        if (e->type == REPLY)
            answered(w, a, e->r);
        else
            failed(w, a, e->r);
    }
    if (e->type == WAKE)
        a->wake_at = 0;
    step(w, e->who);
}

void sim_run(sim_world *w, int64_t ns)
{
    int64_t end = w->now + ns;
    while (w->heap_n > 0 && w->heap[0].at <= end) {
        event e = pop(w);
        w->s.clock_us += (uint64_t)(e.at - w->now) / 1000;
        w->now = e.at;
        sim_total.events++;
        if (w->down_until && w->now >= w->down_until) {
            int64_t down = w->down_until - w->down_from;
            if (down > w->o.lease_ns / 100 * 51)
                w->down_total += down;
            w->down_until = 0;
        }
        if (e.type == ARRIVE)
            arrive(w, e.r);
        else
            to_member(w, &e);
        drop(e.r);
    }
    w->now = end;
}

/* ---- life and death --------------------------------------------------- */

sim_world *sim_new(const sim_opts *o)
{
    sim_world *w = need(calloc(1, sizeof *w));
    w->o = *o;
    w->rng = o->seed;
    w->quiet = true;
    w->verbose = getenv("SIM_VERBOSE") != NULL;
    w->top_epoch = need(calloc(o->partitions, sizeof *w->top_epoch));
    sim_server_init(&w->s, o->partitions);
    return w;
}

static void actor_end(actor *a)
{
    leat__group_free(a->g);
    free(a->own);
    free(a->place);
    a->g = NULL;
    a->own = NULL;
    a->place = NULL;
}

void sim_free(sim_world *w)
{
    while (w->heap_n > 0)
        drop(pop(w).r);
    for (int i = 0; i < w->n; i++)
        actor_end(&w->a[i]);
    sim_server_release(&w->s);
    free(w->a);
    free(w->heap);
    free(w->top_epoch);
    free(w);
}

void sim_faults_set(sim_world *w, sim_faults f)
{
    w->faults = f;
    w->quiet = false;
}

int sim_join(sim_world *w, const char *name, uint32_t cap)
{
    if (w->n == w->cap) {
        w->cap = w->cap * 2 + 16;
        w->a = need(realloc(w->a, (size_t)w->cap * sizeof *w->a));
    }
    int who = w->n++;
    actor *a = &w->a[who];
    double tilt = ((double)sim_random(w, 2001) - 1000) / 1000;
    *a = (actor){ .running = true,
                  .stable = name != NULL,
                  .cap = cap,
                  .rate = 1 + tilt * w->o.rates,
                  .offset = (int64_t)sim_random(w, 1000000000) };
    snprintf(a->name, sizeof a->name, "%s", name ? name : "m");
    a->place = need(calloc(w->o.partitions, sizeof *a->place));
    a->g = need(
        leat__group_new(&(leat__group_opts){ .self = sim_nonce(w->o.seed, who),
                                             .name = a->name,
                                             .stable = a->stable,
                                             .partitions = w->o.partitions,
                                             .cap = cap,
                                             .lease_ns = w->o.lease_ns,
                                             .drain_ns = w->o.drain_ns },
                        NULL));
    say(w, "member %d joins as %s, cap %u", who, a->name, cap);
    wake(w, who, w->now + delay(w));
    return who;
}

void sim_go(sim_world *w, int who)
{
    say(w, "member %d leaves", who);
    w->a[who].going = true;
    leat__group_leave(w->a[who].g, local(w, &w->a[who]));
    wake(w, who, w->now);
}

void sim_crash(sim_world *w, int who)
{
    say(w, "member %d crashes", who);
    w->a[who].running = false;
    actor_end(&w->a[who]);
}

void sim_pause(sim_world *w, int who, int64_t ns)
{
    say(w, "member %d pauses for %.3f ms", who, (double)ns / 1e6);
    if (w->now + ns > w->a[who].paused_until)
        w->a[who].paused_until = w->now + ns;
}

void sim_cut(sim_world *w, int who, int64_t ns)
{
    say(w, "member %d is cut off for %.3f ms", who, (double)ns / 1e6);
    w->a[who].cut_until = w->now + ns;
}

void sim_stall(sim_world *w, int64_t ns, bool refuse)
{
    if (w->down_until)
        return;
    say(w, "the server is away for %.3f ms", (double)ns / 1e6);
    w->down_from = w->now;
    w->down_until = w->now + ns;
    w->refuse = refuse;
}

void sim_clock_jump(sim_world *w, int64_t us)
{
    if (us > 0 || w->s.clock_us > (uint64_t)-us)
        w->s.clock_us += (uint64_t)us;
}

int sim_living(const sim_world *w)
{
    int n = 0;
    for (int i = 0; i < w->n; i++)
        n += w->a[i].running && !w->a[i].going;
    return n;
}

int sim_anyone(sim_world *w)
{
    int n = sim_living(w);
    if (n == 0)
        return NOBODY;
    int k = (int)sim_random(w, (uint64_t)n);
    for (int i = 0; i < w->n; i++)
        if (w->a[i].running && !w->a[i].going && k-- == 0)
            return i;
    return NOBODY;
}

const char *sim_name(const sim_world *w, int who)
{
    return w->a[who].name;
}

/* ---- is all as it should be? ------------------------------------------ */

static bool sharing(const sim_world *w, int i)
{
    return w->a[i].running && !w->a[i].going;
}

static uint32_t room_at(const sim_world *w, int i, uint32_t level)
{
    uint32_t cap = w->a[i].cap;
    return cap && cap < level ? cap : level;
}

static uint64_t filled(const sim_world *w, uint32_t level)
{
    uint64_t sum = 0;
    for (int i = 0; i < w->n; i++)
        if (sharing(w, i))
            sum += room_at(w, i, level);
    return sum;
}

/* Step by step on purpose: unlike the code that is checked. */
static uint32_t level_of(const sim_world *w)
{
    uint32_t level = 0;
    while (level < w->o.partitions && filled(w, level + 1) <= w->o.partitions)
        level++;
    return level;
}

/* Its owner runs, shares, and knows the epoch.  A lease may stay with one that
 * does not know of it when nobody has room for the partition. */
static bool well_owned(const sim_world *w, uint32_t p)
{
    const sim_lease *l = &w->s.lease[p];
    if (l->owner == NOBODY || !sharing(w, l->owner))
        return false;
    const actor *a = &w->a[l->owner];
    return a->place[p] && a->own[a->place[p] - 1].epoch == l->epoch;
}

static uint32_t *counts(const sim_world *w)
{
    uint32_t *have = need(calloc((size_t)w->n + 1, sizeof *have));
    for (uint32_t p = 0; p < w->o.partitions; p++)
        if (well_owned(w, p))
            have[w->s.lease[p].owner]++;
    return have;
}

unsigned sim_fewest_moves(const sim_world *w)
{
    uint32_t *have = counts(w), level = level_of(w);
    uint64_t odd = w->o.partitions - filled(w, level), moves = 0, kept = 0;
    uint64_t places = filled(w, w->o.partitions), live = 0;
    for (int i = 0; i < w->n; i++) {
        if (!sharing(w, i))
            continue;
        uint32_t room = room_at(w, i, level);
        live += have[i];
        if (have[i] > room) {
            moves += have[i] - room;
            if (room_at(w, i, level + 1) > level && kept < odd)
                kept++;
        }
    }
    uint64_t orphans = w->o.partitions - live;
    uint64_t all = places < w->o.partitions ? places : w->o.partitions;
    uint64_t given = moves - kept;
    /* What is given up and what is nobody's, as far as there is room. */
    uint64_t taken = all - (live - given);
    free(have);
    return (unsigned)(taken < given + orphans ? taken : given + orphans);
}

/* NULL: fine; otherwise what is not. */
static const char *amiss(sim_world *w, char *room, size_t size)
{
    uint32_t *have = counts(w), level = level_of(w);
    uint64_t owned_n = 0;
    const char *wrong = NULL;
    for (int i = 0; i < w->n; i++) {
        owned_n += have[i];
        if (w->a[i].running && w->a[i].going)
            wrong = "one is still leaving";
    }
    uint64_t places = filled(w, w->o.partitions);
    uint64_t want = places < w->o.partitions ? places : w->o.partitions;
    if (!wrong && owned_n != want) {
        snprintf(room, size, "%" PRIu64 " of %" PRIu64 " are owned", owned_n,
                 want);
        wrong = room;
    }
    for (int i = 0; i < w->n && !wrong; i++) {
        if (!sharing(w, i))
            continue;
        uint32_t least = room_at(w, i, level), most = room_at(w, i, level + 1);
        if (have[i] < least || have[i] > most || w->a[i].own_n != have[i]) {
            snprintf(room, size, "member %d has %u of %u and believes in %zu",
                     i, have[i], least, w->a[i].own_n);
            wrong = room;
        }
    }
    free(have);
    return wrong;
}

/* The last pause, the server's, or what the last late request did: a beat of a
 * dead member makes it look alive once more. */
static int64_t trouble_ends(const sim_world *w)
{
    int64_t late = w->late_until ? w->late_until + w->o.lease_ns : 0;
    int64_t end = late > w->down_until ? late : w->down_until;
    for (int i = 0; i < w->n; i++) {
        const actor *a = &w->a[i];
        if (a->running && a->paused_until > end)
            end = a->paused_until;
        if (a->running && a->cut_until > end)
            end = a->cut_until;
    }
    return end + (end ? w->o.lease_ns : 0);
}

unsigned sim_settle(sim_world *w, int leases)
{
    char room[128];
    const char *wrong = NULL;
    unsigned taken = w->taken;
    w->faults = (sim_faults){ 0 };
    w->quiet = true;
    while (w->now < trouble_ends(w))
        sim_run(w, w->o.lease_ns / 8);
    uint64_t changes = w->changes;
    for (int i = 0, well = 0; i < 8 * leases && well < 8; i++) {
        sim_run(w, w->o.lease_ns / 8);
        wrong = amiss(w, room, sizeof room);
        well = wrong || changes != w->changes ? 0 : well + 1;
        changes = w->changes;
    }
    if (wrong)
        sim_fail(w, "not settled: %s", wrong);
    sim_run(w, 2 * w->o.lease_ns);
    wrong = amiss(w, room, sizeof room);
    if (wrong)
        sim_fail(w, "not settled any more: %s", wrong);
    if (changes != w->changes)
        sim_fail(w, "leases move though all was well");
    return w->taken - taken;
}
