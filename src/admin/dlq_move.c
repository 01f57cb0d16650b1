/*
 * dlq_move.c: many dead letters through a script, in batches.
 *
 * They come one by one, by name or from a walk, and wait in batches, one for
 * each partition and, where the script wants that, group.  A batch is sent when
 * it is full, all are when too many wait.  Each script moves its dead letters
 * wholly, and says of each what it did; between two scripts nothing is on its
 * way, so that whoever stops here leaves every dead letter in one place.
 *
 * A script whose answer was lost is sent again.  Then what is gone was moved by
 * the first or taken by somebody else, and nobody can tell: LEAT_EUNKNOWN.
 */
#include "admin/dlq.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/system.h"

#include <stdio.h>

enum {
    PENDING = 4096,          /* waiting in all batches */
    PENDING_BYTES = 8 << 20, /* likewise               */
    HINT_MS = 200            /* between two to one group */
};

/* Members of a group look for retries now and then, and when they are told. */
typedef struct hint {
    int64_t next_ns; /* not before           */
    bool owed;       /* something moved since */
} hint;

typedef struct job {
    leat_dlq *dlq;
    const leat__move *how;
    leat_dlq_move_opts opts;
    leat_dlq_sum sum;
    leat_error first; /* failure of one of them */
    bool stop;
    uint64_t taken; /* from those that were asked for */
    uint64_t sent;  /* to scripts                     */
    int64_t begun_ns;
    leat__map open;  /* batches by partition and group */
    leat__map hints; /* by group */
    size_t pending, pending_bytes;
} job;

/* ---- telling ---------------------------------------------------------- */

static void add_up(leat_dlq_sum *sum, leat_code code)
{
    if (code == LEAT_OK)
        sum->done++;
    else if (code == LEAT_ENOENT)
        sum->missing++;
    else if (code == LEAT_EUNKNOWN)
        sum->unknown++;
    else
        sum->refused++;
}

static void tell(job *j, const char *id, const leat_error *e)
{
    bool bad = e->code != LEAT_OK;
    add_up(&j->sum, e->code);
    if (bad && j->first.code == LEAT_OK)
        j->first = *e;
    leat_dlq_step s = { .id = id,
                        .code = e->code,
                        .error = bad ? e->msg : NULL };
    if (j->opts.fn && !j->opts.fn(j->opts.arg, &s))
        j->stop = true;
}

/* What the script's answer means. */
static void judge(const leat__batch *b, const char *id, char answer, bool again,
                  leat_error *e)
{
    *e = (leat_error){ 0 };
    if (answer == '0' && again)
        leat__fail(e, LEAT_EUNKNOWN,
                   "dead letter %s is gone: by this call, whose answer was "
                   "lost, or by another",
                   id);
    else if (answer == '0')
        leat__fail(e, LEAT_ENOENT,
                   "there is no dead letter %s: it was replayed or removed, or "
                   "never was",
                   id);
    else if (answer == '2')
        leat__fail(e, LEAT_EBUSY,
                   "the message of dead letter %s waits for a retry already: "
                   "replay it when that is done",
                   id);
    else if (answer == '3')
        leat__fail(e, LEAT_EINVAL,
                   "the group '%.80s' of dead letter %s is gone: republish it "
                   "or remove it",
                   b->group, id);
    else if (answer == '4')
        leat__fail(e, LEAT_EINVAL,
                   "there is no message in dead letter %s: remove it", id);
    else if (answer == '5')
        leat__fail(e, LEAT_EFULL,
                   "the log of partition %u is full: dead letter %s stays",
                   b->partition, id);
    else if (answer == '6')
        leat__fail(e, LEAT_EBUSY,
                   "the server adds nothing to the log of partition %u: is it "
                   "out of memory? dead letter %s stays",
                   b->partition, id);
    else if (answer != '1')
        leat__fail(e, LEAT_EUNKNOWN, "the server answered EVAL strangely");
}

static void tell_batch(job *j, const leat__batch *b, const leat_reply *r,
                       bool again)
{
    char id[LEAT_DEAD_ID];
    leat_error e;
    leat_reply_iter it = leat_reply_each(r);
    for (size_t i = 0; i < b->count; i++) {
        leat_bytes answer = leat_reply_bytes(leat_reply_step(&it));
        leat__dead_at_format((leat__dead_at){ b->partition, b->at[i] }, id);
        judge(b, id, (char)(answer.n == 1 ? *(const char *)answer.p : 0), again,
              &e);
        j->stop = j->stop || answer.n != 1 || *(const char *)answer.p >= '5';
        tell(j, id, &e);
    }
}

/* ---- waking whom it is for -------------------------------------------- */

/* Only a hint: nobody minds if it is lost or refused. */
static void give_hint(job *j, const char *group, hint *h)
{
    leat__key members;
    leat__key_members(&members, j->dlq->prefix, j->dlq->name, group);
    (void)leat_client_call(
        j->dlq->at.client,
        LEAT_ARGS(leat_str("PUBLISH"), leat__key_bytes(&members), leat_str("")),
        NULL, NULL, NULL);
    h->owed = false;
    h->next_ns = leat__deadline_ns(HINT_MS);
}

static void owe_hint(job *j, const char *group)
{
    hint *h = leat__map_get(&j->hints, leat_str(group));
    if (!h) {
        h = leat__zalloc(sizeof *h, NULL);
        if (!h || leat__map_put(&j->hints, leat_str(group), h, NULL, NULL) !=
                      LEAT_OK) {
            leat__free(h);
            return;
        }
    }
    h->owed = true;
    if (leat__now_ns() >= h->next_ns)
        give_hint(j, group, h);
}

static void end_hints(job *j)
{
    size_t at = 0;
    leat_bytes name;
    for (hint *h; (h = leat__map_next(&j->hints, &at, &name));) {
        char group[LEAT_NAME_MAX + 1];
        snprintf(group, sizeof group, "%.*s", (int)name.n,
                 (const char *)name.p);
        if (h->owed)
            give_hint(j, group, h);
        leat__free(h);
    }
    leat__map_release(&j->hints);
}

/* ---- batches ---------------------------------------------------------- */

static void batch_free(leat__batch *b)
{
    if (!b)
        return;
    leat__arena_release(&b->arena);
    leat__free(b->args);
    leat__free(b);
}

/* The script's first arguments are put before when it is sent. */
static leat_code room_for_arg(leat__batch *b, leat_error *err)
{
    size_t room = b->room ? 2 * b->room : 256;
    leat_bytes *args = leat__realloc(b->args, room * sizeof *args, err);
    if (!args)
        return LEAT_ENOMEM;
    b->args = args;
    b->room = room;
    return LEAT_OK;
}

leat_code leat__batch_arg(leat__batch *b, leat_bytes arg, leat_error *err)
{
    if (b->nargs == b->room && room_for_arg(b, err) != LEAT_OK)
        return LEAT_ENOMEM;
    char *copy = leat__arena_text(&b->arena, arg, err);
    if (!copy)
        return LEAT_ENOMEM;
    b->args[b->nargs++] = leat_mem(copy, arg.n);
    b->bytes += arg.n;
    return LEAT_OK;
}

static size_t batch_key(uint32_t partition, const char *group, char *out,
                        size_t room)
{
    return (size_t)snprintf(out, room, "%u/%.*s", partition, LEAT_NAME_MAX,
                            group);
}

static leat__batch *batch_new(job *j, uint32_t partition, const char *group,
                              leat_bytes key, leat_error *err)
{
    leat__batch *b = leat__zalloc(sizeof *b, err);
    if (!b)
        return NULL;
    b->partition = partition;
    b->group = leat__arena_text(&b->arena, leat_str(group), err);
    if (!b->group || leat__map_put(&j->open, key, b, NULL, err) != LEAT_OK) {
        batch_free(b);
        return NULL;
    }
    b->nargs = LEAT__MOVE_ARGS;
    if (room_for_arg(b, err) == LEAT_OK)
        return b;
    leat__map_remove(&j->open, key);
    batch_free(b);
    return NULL;
}

/* So many have been sent too early if it is before this time. */
static void keep_pace(const job *j)
{
    if (j->opts.rate == 0)
        return;
    int64_t due = j->begun_ns + (int64_t)((double)j->sent * 1e9 / j->opts.rate);
    int64_t left = leat__left_ms(due);
    if (left > 0)
        leat__sleep_ms(left);
}

static leat_code run_batch(job *j, leat__batch *b, leat_reply **r, bool *again,
                           leat_error *err)
{
    leat__key keys[LEAT__MOVE_KEYS];
    leat_bytes first[LEAT__MOVE_ARGS];
    char text[LEAT__MOVE_ARGS][LEAT__NUMBER];
    size_t nkeys = j->how->keys(j->dlq, b, keys);
    size_t nfirst = 1 + j->how->args(j->dlq, b, first + 1, text);
    first[0] = leat_str(j->opts.dry_run ? "1" : "");
    leat_bytes *args = b->args + LEAT__MOVE_ARGS - nfirst;
    memcpy(args, first, nfirst * sizeof *args);
    leat_code code = leat__dlq_run(
        j->dlq, b->partition, j->how->script, keys, nkeys, args,
        b->nargs - LEAT__MOVE_ARGS + nfirst, again, r, err);
    if (code == LEAT_OK && leat_reply_len(*r) != b->count)
        code = leat__fail(err, LEAT_EUNKNOWN,
                          "the server answered EVAL strangely");
    return code;
}

/* Nobody knows what became of them. */
static void tell_unknown(job *j, const leat__batch *b, const leat_error *why)
{
    char id[LEAT_DEAD_ID];
    for (size_t i = 0; i < b->count; i++) {
        leat__dead_at_format((leat__dead_at){ b->partition, b->at[i] }, id);
        tell(j, id, why);
    }
}

/* Send it; it is no more. */
static leat_code flush(job *j, leat__batch *b, leat_error *err)
{
    leat_reply *r = NULL;
    leat_error e = { 0 };
    bool again = false;
    keep_pace(j);
    leat_code code = run_batch(j, b, &r, &again, &e);
    j->sent += b->count;
    j->pending -= b->count;
    j->pending_bytes -= b->bytes;
    uint64_t done = j->sum.done;
    if (code == LEAT_OK)
        tell_batch(j, b, r, again);
    if (j->how->by_group && !j->opts.dry_run && j->sum.done + again > done)
        owe_hint(j, b->group);
    if (code == LEAT_EUNKNOWN)
        tell_unknown(j, b, &e);
    if (code != LEAT_OK && err)
        *err = e;
    leat_reply_free(r);
    batch_free(b);
    return code;
}

static leat_code flush_all(job *j, leat_error *err)
{
    leat_code code = LEAT_OK;
    size_t at = 0;
    for (leat__batch *b; (b = leat__map_next(&j->open, &at, NULL));) {
        if (code == LEAT_OK && !j->stop)
            code = flush(j, b, err);
        else
            batch_free(b);
    }
    leat__map_clear(&j->open);
    j->pending = j->pending_bytes = 0;
    return code;
}

/* ---- one more --------------------------------------------------------- */

static leat_code flush_one(job *j, leat__batch *b, leat_bytes key,
                           leat_error *err)
{
    leat__map_remove(&j->open, key);
    return flush(j, b, err);
}

static size_t most_pending(const job *j)
{
    if (j->opts.rate == 0)
        return PENDING;
    return j->opts.rate < 20 ? 1 : j->opts.rate / 20;
}

static leat_code add_args(job *j, leat__batch *b, leat__dead_at at,
                          const leat__letter *x, leat_error *err)
{
    char text[LEAT__ID_TEXT];
    size_t nargs = b->nargs, bytes = b->bytes;
    leat_code code = leat__batch_arg(b, leat__position_format(at.at, text),
                                     err);
    if (code == LEAT_OK && j->how->add)
        code = j->how->add(j->dlq, b, x, err);
    if (code != LEAT_OK) {
        b->nargs = nargs;
        b->bytes = bytes;
    }
    return code;
}

/* One that cannot go on is told, and is no failure of the whole. */
static leat_code refuse(job *j, leat__dead_at at, const leat_error *e,
                        leat_error *err)
{
    char id[LEAT_DEAD_ID];
    if (e->code == LEAT_ENOMEM) {
        if (err)
            *err = *e;
        return LEAT_ENOMEM;
    }
    leat__dead_at_format(at, id);
    tell(j, id, e);
    return LEAT_OK;
}

/* Somebody else may have put anything there; what is no name makes no key. */
static leat_code refuse_group(job *j, leat__dead_at at, leat_error *err)
{
    char id[LEAT_DEAD_ID];
    leat_error e = { 0 };
    leat__dead_at_format(at, id);
    leat__fail(&e, LEAT_EINVAL,
               "the group of dead letter %s has a name that none can have: "
               "republish it or remove it",
               id);
    return refuse(j, at, &e, err);
}

static leat_code take(job *j, leat__dead_at at, const leat__letter *x,
                      leat_error *err)
{
    char name[LEAT_NAME_MAX + 16];
    leat_error e = { 0 };
    const char *group = x && j->how->by_group ? x->pub.group : "";
    leat_bytes key = leat_mem(
        name, batch_key(at.partition, group, name, sizeof name));
    leat__batch *b = leat__map_get(&j->open, key);
    j->taken++;
    if (*group && leat__name_check("group", group, NULL) != LEAT_OK)
        return refuse_group(j, at, err);
    if (!b && !(b = batch_new(j, at.partition, group, key, err)))
        return LEAT_ENOMEM;
    size_t before = b->bytes;
    if (add_args(j, b, at, x, &e) != LEAT_OK)
        return refuse(j, at, &e, err);
    b->at[b->count++] = at.at;
    b->bytes += x && !j->how->add ? x->pub.size : 0; /* what it moves */
    j->pending++;
    j->pending_bytes += b->bytes - before;
    if (b->count == LEAT__DLQ_PAGE || b->bytes >= LEAT__DLQ_BYTES)
        return flush_one(j, b, key, err);
    if (j->pending >= most_pending(j) || j->pending_bytes >= PENDING_BYTES)
        return flush_all(j, err);
    return LEAT_OK;
}

/* ---- all of them ------------------------------------------------------ */

static bool more(const job *j)
{
    return !j->stop && (j->opts.limit == 0 || j->taken < j->opts.limit);
}

static leat_code take_matching(job *j, const leat_dead_filter *f,
                               leat_error *err)
{
    leat_dead ignored;
    leat_code code = LEAT_OK;
    leat_error e = { 0 };
    int got = 0;
    leat_dlq_walk *w = leat_dlq_walk_open(
        j->dlq, &(leat_dlq_walk_opts){ .filter = *f }, &e);
    while (w && code == LEAT_OK && more(j) &&
           (got = leat_dlq_walk_next(w, &ignored, &e)) == 1) {
        const leat__letter *x = leat__dlq_walk_letter(w);
        leat__dead_at at;
        code = leat__dead_at_parse(x->pub.id, &at, &e);
        if (code == LEAT_OK)
            code = take(j, at, x, &e);
    }
    leat_dlq_walk_close(w);
    if (!w || got < 0)
        code = e.code;
    if (code != LEAT_OK && err)
        *err = e;
    return code;
}

/* One by its name, which was looked at before. */
static leat_code take_named(job *j, const char *id, leat__letter *x,
                            leat_error *err)
{
    leat__dead_at at;
    leat_error e = { 0 };
    leat_code code = leat__dead_at_parse(id, &at, &e);
    if (code == LEAT_OK && j->how->look)
        code = leat__letter_fetch(x, j->dlq, at, &e);
    else if (code == LEAT_OK && at.partition >= j->dlq->at.meta.partitions)
        code = leat__fail(&e, LEAT_ENOENT, "topic '%.100s' has no partition %u",
                          j->dlq->name, at.partition);
    if (code == LEAT_ENOENT) {
        j->taken++;
        return refuse(j, at, &e, err);
    }
    if (code == LEAT_OK)
        return take(j, at, j->how->look ? x : NULL, err);
    if (err)
        *err = e;
    return code;
}

static leat_code take_all_named(job *j, const char *const *ids, size_t n,
                                leat_error *err)
{
    leat__letter x = { .opened.codec = j->dlq->opts.codec };
    leat__dead_at ignored;
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < n && code == LEAT_OK; i++)
        code = leat__dead_at_parse(ids[i], &ignored, err);
    for (size_t i = 0; i < n && code == LEAT_OK && more(j); i++)
        code = take_named(j, ids[i], &x, err);
    leat__letter_release(&x);
    return code;
}

static void drop_all(job *j)
{
    size_t at = 0;
    for (leat__batch *b; (b = leat__map_next(&j->open, &at, NULL));)
        batch_free(b);
    leat__map_release(&j->open);
}

leat_code leat__dlq_move(leat_dlq *d, const leat__move *how,
                         const char *const *ids, size_t n,
                         const leat_dead_filter *filter,
                         const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                         leat_error *err)
{
    job j = { .dlq = d, .how = how, .begun_ns = leat__now_ns() };
    if (opts)
        j.opts = *opts;
    leat_code code = ids ? take_all_named(&j, ids, n, err)
                         : take_matching(&j, filter, err);
    if (code == LEAT_OK)
        code = flush_all(&j, err);
    drop_all(&j);
    end_hints(&j);
    if (sum)
        *sum = j.sum;
    if (code == LEAT_OK && j.first.code != LEAT_OK) {
        if (err)
            *err = j.first;
        code = j.first.code;
    }
    return code;
}
