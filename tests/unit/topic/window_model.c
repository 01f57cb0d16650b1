/*
 * window_model.c: the window beside a model without any cleverness.
 *
 * A log grows, loses entries by hand, is read in short pieces, handed out,
 * settled and handed back by chance.  State is saved at some moments, and at
 * some the owner changes: all that was not saved is lost.  The model holds a
 * plain array and searches it from the start for every question; after each
 * step both must agree.  Each seed is a life of several owners, and ends when
 * one of them has settled all there is.
 */
#include "support/allocfail.h"
#include "topic/window.h"

#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 10000,
    STEPS = 250,
    LOG = 48,
    LANES = 12,   /* at most; each life has its own number */
    DRAIN = 20000 /* steps after which a life that does not end is stuck */
};

enum where { UNREAD, WAITING, OUT, DONE, GONE };

/* One entry of the log, and what the owner of the moment knows of it. */
struct item {
    leat__id id;
    uint64_t lane;
    bool deleted; /* not in the log any more; it may be in the ring */
    enum where where;
    bool returned; /* handed back in this life, and not out again   */
    bool alone;
    uint32_t attempts;
    leat__entry *e;
};

/* What a save keeps. */
struct kept {
    leat__id cursor;
    uint64_t count;
    bool settled[LOG];
    uint32_t attempts[LOG];
};

struct model {
    uint64_t seed, random;
    int step;
    leat_order order;
    uint64_t lanes;
    uint32_t cap; /* of the largest window */
    leat__window *w;
    leat__buf text;
    struct item log[LOG];
    int n;                                     /* of the log */
    bool still[LANES + 1], touched[LANES + 1]; /* now; ever in this life */
    leat__id cursor;
    uint64_t count;
    bool handed; /* something was handed out since the last save */
    struct kept kept;
    leat__window_saved saved; /* the texts are copies */
    char settled[4096], attempts[4096];
};

static void check_at(const struct model *m, bool promise, const char *what,
                     int line)
{
    if (!promise)
        fail_msg("line %d: seed %llu, step %d: not so: %s", line,
                 (unsigned long long)m->seed, m->step, what);
}
#define check(m, promise) check_at(m, promise, #promise, __LINE__)

static uint64_t chance(struct model *m, uint64_t n)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return (m->random >> 11) % n;
}

/* ---- the model's answers ---------------------------------------------- */

static int lane_of(const struct model *m, int i)
{
    if (m->order == LEAT_ORDER_PARTITION)
        return LANES;
    return m->order == LEAT_ORDER_KEY ? (int)m->log[i].lane : 0;
}

static bool in_ring(const struct item *x)
{
    return x->where == WAITING || x->where == OUT || x->where == DONE;
}

static int out(const struct model *m, int lane)
{
    int n = 0;
    for (int i = 0; i < m->n; i++)
        n += m->log[i].where == OUT && (lane < 0 || lane_of(m, i) == lane);
    return n;
}

static bool alone_is_out(const struct model *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->log[i].where == OUT && m->log[i].alone)
            return true;
    return false;
}

/* By the rules of its lane it could go, were nobody alone. */
static bool is_first(const struct model *m, int i)
{
    int lane = lane_of(m, i);
    if (m->log[i].where != WAITING)
        return false;
    if (lane == 0)
        return true;
    if (m->still[lane] && out(m, lane) > 0)
        return false;
    for (int j = 0; j < i; j++)
        if (lane_of(m, j) == lane && m->log[j].where == WAITING)
            return false;
    return true;
}

static bool may_go(const struct model *m, int i)
{
    return is_first(m, i) && !alone_is_out(m) &&
           !(m->log[i].alone && out(m, -1) > 0);
}

static bool any_may_go(const struct model *m)
{
    for (int i = 0; i < m->n; i++)
        if (may_go(m, i))
            return true;
    return false;
}

/* It keeps others back until nothing is out, so that it is not starved. */
static bool waits_to_be_alone(const struct model *m)
{
    for (int i = 0; i < m->n; i++)
        if (is_first(m, i) && m->log[i].alone)
            return out(m, -1) > 0;
    return false;
}

/* ---- steps ------------------------------------------------------------ */

static void grow(struct model *m)
{
    if (m->n == LOG)
        return;
    struct item *x = &m->log[m->n];
    leat__id id = m->n > 0 ? x[-1].id : (leat__id){ 0, 0 };
    switch (chance(m, 4)) {
    case 0:
        id.seq++;
        break;
    case 1:
        id.seq += 1 + chance(m, 1000000);
        break;
    default:
        id = (leat__id){ id.ms + 1 + chance(m, 1000), chance(m, 3) };
    }
    *x = (struct item){ .id = id, .lane = chance(m, m->lanes) };
    m->n++;
}

static void delete_one(struct model *m)
{
    if (m->n > 0)
        m->log[chance(m, (uint64_t)m->n)].deleted = true;
}

static void read_one(struct model *m)
{
    leat__id from = leat__window_read_from(m->w);
    int i = 0;
    while (i < m->n && (m->log[i].deleted || m->log[i].where != UNREAD ||
                        leat__id_cmp(m->log[i].id, from) <= 0))
        i++;
    if (i == m->n || leat__window_room(m->w) == 0)
        return;
    struct item *x = &m->log[i];
    x->e = leat__window_push(m->w, x->id, x->lane, x);
    check(m, (x->e == NULL) == m->kept.settled[i]);
    x->where = x->e ? WAITING : DONE;
    if (!x->e)
        return;
    x->attempts = m->kept.attempts[i];
    x->alone = x->attempts >= 2;
    check(m, x->e->attempts == x->attempts && x->e->alone == x->alone);
    check(m, x->e->state == LEAT__ENTRY_WAITING && x->e->user == x);
    check(m, leat__id_cmp(x->e->id, x->id) == 0 && x->e->lane == x->lane);
}

/* What came back comes in its order; what was never out in its order, too, and
 * after what came back, unless its own lane was held up. */
static void check_choice(const struct model *m, int i)
{
    const struct item *x = &m->log[i];
    for (int j = 0; j < m->n; j++) {
        const struct item *y = &m->log[j];
        if (j == i || !may_go(m, j))
            continue;
        if (x->returned && y->returned)
            check(m, i < j);
        else if (y->returned)
            check(m, m->touched[lane_of(m, i)]);
        else if (!x->returned)
            check(m, j > i);
    }
}

static bool take(struct model *m)
{
    bool ready = leat__window_ready(m->w);
    leat__entry *e = leat__window_take(m->w);
    check(m, ready == (e != NULL));
    if (!e) {
        check(m, !any_may_go(m) || waits_to_be_alone(m));
        return false;
    }
    struct item *x = e->user;
    int i = (int)(x - m->log);
    check(m, x->e == e && may_go(m, i));
    check_choice(m, i);
    x->where = OUT;
    x->returned = false;
    x->attempts++;
    m->still[lane_of(m, i)] = false;
    m->handed = true;
    check(m, e->state == LEAT__ENTRY_OUT && e->attempts == x->attempts);
    return true;
}

static struct item *some_out(struct model *m)
{
    int n = out(m, -1);
    if (n == 0)
        return NULL;
    int which = (int)chance(m, (uint64_t)n);
    for (int i = 0;; i++)
        if (m->log[i].where == OUT && which-- == 0)
            return &m->log[i];
}

static void done(struct model *m)
{
    struct item *x = some_out(m);
    if (!x)
        return;
    leat__window_done(m->w, x->e);
    x->where = DONE;
}

static void back(struct model *m)
{
    struct item *x = some_out(m);
    if (!x)
        return;
    bool uncount = chance(m, 2) == 0;
    leat__window_back(m->w, x->e, uncount);
    x->where = WAITING;
    x->returned = true;
    x->attempts -= uncount;
    int lane = lane_of(m, (int)(x - m->log));
    m->still[lane] = m->touched[lane] = lane != 0;
}

static void pop(struct model *m)
{
    void *user;
    for (int i = 0; i < m->n; i++) {
        struct item *x = &m->log[i];
        if (x->where == WAITING || x->where == OUT)
            break;
        if (x->where != DONE)
            continue;
        check(m, leat__window_pop(m->w, &user));
        check(m, user == (x->e ? x : NULL));
        x->where = GONE;
        m->cursor = x->id;
        m->count++;
        check(m, leat__id_cmp(leat__window_cursor(m->w), m->cursor) == 0);
    }
    check(m, !leat__window_pop(m->w, &user));
}

/* ---- saving, and the next owner --------------------------------------- */

static leat_bytes copy(const struct model *m, char *to, leat_bytes from)
{
    check(m, from.n < 4096);
    if (from.n > 0)
        memcpy(to, from.p, from.n);
    return leat_mem(to, from.n);
}

/* What is written, read and written again is the same. */
static void check_text(const struct model *m, const leat__window_saved *s)
{
    leat__window *w = leat__window_new(1, m->order, NULL);
    leat__buf text = { 0 };
    leat__window_saved again;
    check(m, leat__window_load(w, s, NULL) == LEAT_OK);
    check(m, !leat__window_dirty(w) && !leat__window_unmarked(w));
    check(m, leat__window_save(w, &text, &again, NULL) == LEAT_OK);
    check(m, leat_bytes_eq(s->settled, again.settled));
    check(m, leat_bytes_eq(s->attempts, again.attempts));
    check(m, leat__id_cmp(s->cursor, again.cursor) == 0);
    check(m, leat__id_cmp(s->mark, again.mark) == 0);
    check(m, s->count == again.count && s->count_known == again.count_known);
    leat__buf_release(&text);
    leat__window_free(w);
}

static bool is_settled(const struct model *m, int i)
{
    return m->log[i].where == DONE || m->log[i].where == GONE;
}

/* Of what is not read again by this owner that before it still holds. */
static void keep(struct model *m)
{
    m->kept.cursor = m->cursor;
    m->kept.count = m->count;
    for (int i = 0; i < m->n; i++) {
        if (m->log[i].where == UNREAD)
            continue;
        m->kept.settled[i] = is_settled(m, i);
        m->kept.attempts[i] = m->log[i].attempts;
    }
}

static void save(struct model *m)
{
    leat__window_saved s;
    check(m, leat__window_save(m->w, &m->text, &s, NULL) == LEAT_OK);
    check(m, leat__id_cmp(s.cursor, m->cursor) == 0 && s.count == m->count);
    check_text(m, &s);
    if (chance(m, 8) == 0) {
        leat__window_unsaved(m->w);
        check(m, leat__window_dirty(m->w) && leat__window_unmarked(m->w));
        m->handed = true;
        return;
    }
    check(m, !leat__window_dirty(m->w) && !leat__window_unmarked(m->w));
    s.settled = copy(m, m->settled, s.settled);
    s.attempts = copy(m, m->attempts, s.attempts);
    m->saved = s;
    m->handed = false;
    keep(m);
}

static void open_window(struct model *m)
{
    m->w = leat__window_new(1 + (uint32_t)chance(m, m->cap), m->order, NULL);
    check(m, m->w && leat__window_load(m->w, &m->saved, NULL) == LEAT_OK);
}

static void close_window(struct model *m)
{
    void *user;
    for (int i = 0; i < m->n; i++) {
        struct item *x = &m->log[i];
        if (!in_ring(x))
            continue;
        check(m, leat__window_clear(m->w, &user));
        check(m, user == (x->e ? x : NULL));
    }
    check(m, !leat__window_clear(m->w, &user));
    check(m, leat__window_count(m->w) == 0 && leat__window_out(m->w) == 0);
}

/* Half of the time the same window serves again. */
static void change_owner(struct model *m)
{
    close_window(m);
    if (chance(m, 2) == 0) {
        check(m, leat__window_load(m->w, &m->saved, NULL) == LEAT_OK);
    } else {
        leat__window_free(m->w);
        open_window(m);
    }
    for (int i = 0; i < m->n; i++) {
        struct item *x = &m->log[i];
        bool passed = leat__id_cmp(x->id, m->kept.cursor) <= 0;
        *x = (struct item){ .id = x->id,
                            .lane = x->lane,
                            .deleted = x->deleted,
                            .where = passed ? GONE : UNREAD };
    }
    memset(m->still, 0, sizeof m->still);
    memset(m->touched, 0, sizeof m->touched);
    m->cursor = m->kept.cursor;
    m->count = m->kept.count;
    m->handed = false;
}

/* ---- after each step -------------------------------------------------- */

static bool untold(const struct model *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->log[i].where == OUT && m->log[i].attempts > m->kept.attempts[i])
            return true;
    return false;
}

static bool changed(const struct model *m)
{
    if (leat__id_cmp(m->cursor, m->kept.cursor) != 0)
        return true;
    for (int i = 0; i < m->n; i++)
        if (in_ring(&m->log[i]) &&
            (is_settled(m, i) != m->kept.settled[i] ||
             (!is_settled(m, i) && m->log[i].attempts != m->kept.attempts[i])))
            return true;
    return false;
}

static void compare(const struct model *m)
{
    uint32_t n = 0;
    for (int i = 0; i < m->n; i++) {
        const struct item *x = &m->log[i];
        n += in_ring(x);
        if (x->e && in_ring(x))
            check(m, x->e->attempts == x->attempts && x->e->user == x);
        if (!x->deleted && leat__id_cmp(x->id, m->cursor) <= 0)
            check(m, x->where == GONE);
    }
    check(m, leat__window_count(m->w) == n);
    check(m, leat__window_out(m->w) == (uint32_t)out(m, -1));
    check(m, leat__window_dirty(m->w) || !changed(m));
    check(m, leat__window_unmarked(m->w) || !untold(m));
    check(m, !leat__window_unmarked(m->w) || m->handed);
}

static void step(struct model *m)
{
    static void (*const rare[])(struct model *) = { delete_one, change_owner,
                                                    save };
    uint64_t what = chance(m, 100);
    if (what < 15)
        grow(m);
    else if (what < 40)
        read_one(m);
    else if (what < 60)
        take(m);
    else if (what < 75)
        done(m);
    else if (what < 85)
        back(m);
    else if (what < 90)
        pop(m);
    else if (what < 96)
        save(m);
    else
        rare[chance(m, 3)](m);
    compare(m);
}

/* ---- a life ----------------------------------------------------------- */

/* Take what comes, and settle it all. */
static void drain(struct model *m)
{
    for (m->step = STEPS; m->step < STEPS + DRAIN; m->step++) {
        uint64_t before = m->count;
        leat__id from = leat__window_read_from(m->w);
        read_one(m);
        bool some = take(m);
        if (chance(m, 2) == 0 || !some)
            done(m);
        pop(m);
        compare(m);
        if (some || m->count > before || out(m, -1) > 0 ||
            leat__id_cmp(from, leat__window_read_from(m->w)) != 0)
            continue;
        if (!leat__window_ready(m->w))
            return;
    }
    fail_msg("seed %llu does not end", (unsigned long long)m->seed);
}

static void live(uint64_t seed)
{
    static struct model room;
    struct model *m = &room;
    memset(m, 0, sizeof *m);
    m->seed = seed;
    m->random = seed * 0x9e3779b97f4a7c15U + 1;
    for (int i = 0; i < 8; i++)
        chance(m, 2);
    m->order = (leat_order)(1 + chance(m, 3));
    m->lanes = 1 + chance(m, LANES);
    m->cap = chance(m, 4) == 0 ? LOG : 14;
    m->saved.count_known = chance(m, 2) == 0;
    open_window(m);
    for (m->step = 0; m->step < STEPS; m->step++)
        step(m);
    drain(m);
    for (int i = 0; i < m->n; i++)
        check(m, m->log[i].deleted || m->log[i].where == GONE);
    check(m, leat__window_count(m->w) == 0);
    leat__window_free(m->w);
    leat__buf_release(&m->text);
}

static void the_window_and_its_model_agree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        live(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_window_and_its_model_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
