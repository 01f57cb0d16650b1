/*
 * seek.c: where a group reads on.
 *
 * First a look at all partitions: it tells what there is to skip or to come
 * again, and whether the place makes sense.  Then seek.lua sets one partition
 * after another.  It takes the lease away, so that the owner's next step is
 * refused and nothing it still knows moves the cursor back; whoever takes the
 * lease next reads on from the new place.  A run that was cut short has set
 * some partitions and not the others; run again it sets all.
 *
 * The lease of a member that was judged dead is taken away, too.  One that came
 * meanwhile is in the way, and is not overrun unless it is forced.
 */
#include "admin/group.h"
#include "base/mem.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/identity.h"
#include "topic/tally.h"

#define LEASE_KEEP "604800000" /* as in consumer.h */

typedef enum place_kind {
    PLACE_START,
    PLACE_END,
    PLACE_TIME,
    PLACE_ID
} place_kind;

typedef struct place {
    place_kind kind;
    leat_position at; /* that message, or the first after it */
} place;

typedef struct seek {
    leat_seek pub;
    leat_seek_partition *list;
    leat__look *looks;
    leat__arena arena;
} seek;

/* Of one call. */
typedef struct seeking {
    leat__admin admin;
    leat_seek_opts opts;
    place to;
    seek *x;
    leat__tallies tallies;
} seeking;

/* ---- the place -------------------------------------------------------- */

static leat_code not_a_place(const char *to, leat_error *err)
{
    char shown[64];
    leat__escape(shown, sizeof shown, to, strlen(to));
    return leat__fail(err, LEAT_EINVAL,
                      "'%s' is no place to seek to: it is start, end, @MS "
                      "since 1970 or an id MS-SEQ",
                      shown);
}

static leat_code read_place(const char *to, place *out, leat_error *err)
{
    *out = (place){ 0 };
    if (to && strcmp(to, "start") == 0)
        return LEAT_OK;
    out->kind = PLACE_END;
    if (to && strcmp(to, "end") == 0)
        return LEAT_OK;
    out->kind = to && to[0] == '@' ? PLACE_TIME : PLACE_ID;
    const char *text = out->kind == PLACE_TIME ? to + 1 : to;
    bool dash = text && strchr(text, '-');
    if (!text || dash == (out->kind == PLACE_TIME) ||
        !leat__position_parse(leat_str(text), &out->at))
        return not_a_place(to ? to : "", err);
    return LEAT_OK;
}

static bool wanted(const seeking *s, uint32_t i)
{
    return !s->opts.one || s->opts.partition == i;
}

static leat_code check_time(const seeking *s, leat_error *err)
{
    int64_t now = s->x->looks[0].now_ms;
    if (s->to.at.ms <= (uint64_t)now)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "@%llu has not come yet, by the server's clock it is "
                      "@%lld: seek to end",
                      (unsigned long long)s->to.at.ms, (long long)now);
}

/* It is inside one of the logs at least, also if it was deleted there. */
static leat_code check_id(const seeking *s, leat_error *err)
{
    bool before = false;
    for (uint32_t i = 0; i < s->admin.topic.meta.partitions; i++) {
        const leat__look *l = &s->x->looks[i];
        if (!wanted(s, i) || l->log.entries == 0)
            continue;
        bool first = leat__position_cmp(s->to.at, l->log.first) < 0;
        if (!first && leat__position_cmp(s->to.at, l->end) <= 0)
            return LEAT_OK;
        before |= first;
    }
    return leat__fail(
        err, LEAT_EINVAL, "%llu-%llu is %s of '%s': seek to %s",
        (unsigned long long)s->to.at.ms, (unsigned long long)s->to.at.seq,
        before ? "before the first message" : "behind the last message",
        s->admin.topic.name, before ? "start" : "end");
}

static leat_code check_place(const seeking *s, leat_error *err)
{
    if (s->to.kind == PLACE_TIME)
        return check_time(s, err);
    return s->to.kind == PLACE_ID ? check_id(s, err) : LEAT_OK;
}

/* ---- what it comes to ------------------------------------------------- */

static leat_position cursor_for(const seeking *s, const leat__look *l)
{
    leat_position at = leat__position_before(s->to.at);
    if (s->to.kind == PLACE_START)
        return (leat_position){ 0 };
    return s->to.kind == PLACE_END || leat__position_cmp(at, l->end) > 0
               ? l->end
               : at;
}

/* Entries after `after` up to `to`, by what is known or else by counting. */
static leat_code between(seeking *s, uint32_t i, leat_position after,
                         leat_position to, leat__tally *out, leat_error *err)
{
    const leat__look *l = &s->x->looks[i];
    int64_t behind = leat__tally_behind(l);
    bool first = leat__position_cmp(after, l->log.first) < 0;
    bool last = leat__position_cmp(to, l->log.last) >= 0;
    *out = (leat__tally){ .known = true };
    if (l->log.entries == 0)
        return LEAT_OK;
    if (first && last)
        out->all = l->log.entries;
    else if (last && behind >= 0 && leat__position_cmp(after, l->cursor) == 0)
        out->all = behind;
    else if (first && behind >= 0 && leat__position_cmp(to, l->cursor) == 0)
        out->all = l->log.entries - behind;
    else
        return leat__tally_count(&s->tallies, i, NULL, after, to, out, err);
    return LEAT_OK;
}

/* What is settled behind the cursor, in two parts: up to there, and after. */
static leat_code settled_parts(seeking *s, uint32_t i, leat_position at,
                               int64_t *before, int64_t *after, leat_error *err)
{
    const char *text = s->x->looks[i].settled;
    const leat_position zero = { 0 };
    int64_t all;
    leat_code code = leat__tally_settled(&s->tallies, i, text, zero, &all, err);
    if (code == LEAT_OK)
        code = leat__tally_settled(&s->tallies, i, text, at, after, err);
    *before = all < 0 || *after < 0 ? -1 : all - *after;
    return code;
}

static leat_code plan(seeking *s, uint32_t i, leat_seek_partition *p,
                      leat_error *err)
{
    const leat__look *l = &s->x->looks[i];
    leat_position to = cursor_for(s, l);
    bool on = leat__position_cmp(to, l->cursor) > 0;
    int64_t before = 0, after = 0;
    leat__tally y;
    *p = (leat_seek_partition){
        .partition = i, .from = l->cursor, .to = to, .kept = l->kept
    };
    leat_code code = between(s, i, on ? l->cursor : to, on ? to : l->cursor, &y,
                             err);
    if (code == LEAT_OK)
        code = settled_parts(s, i, on ? to : l->cursor, &before, &after, err);
    bool known = y.known && before >= 0 && after >= 0;
    if (on)
        p->skipped = known ? y.all - before : -1;
    p->again = known ? (on ? after : y.all + before + after) : -1;
    return code;
}

static void add_up(int64_t *sum, int64_t n)
{
    *sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

static leat_code plan_all(seeking *s, leat_error *err)
{
    leat_seek *sum = &s->x->pub;
    leat_code code = LEAT_OK;
    for (uint32_t i = 0; i < s->admin.topic.meta.partitions && code == LEAT_OK;
         i++) {
        if (!wanted(s, i))
            continue;
        leat_seek_partition *p = &s->x->list[sum->partitions++];
        code = plan(s, i, p, err);
        add_up(&sum->skipped, p->skipped);
        add_up(&sum->again, p->again);
        add_up(&sum->kept, p->kept);
    }
    return code;
}

/* ---- doing it --------------------------------------------------------- */

/* Entries ever added up to the new cursor, as it was when we looked: what comes
 * since is behind it.  Empty where that is not known. */
static leat_bytes count_at(seeking *s, const leat_seek_partition *p, char *text)
{
    const leat__look *l = &s->x->looks[p->partition];
    leat__tally y;
    if (l->log.added < 0 || leat__position_cmp(p->to, l->log.last) > 0 ||
        between(s, p->partition, p->to, l->log.last, &y, NULL) != LEAT_OK ||
        !y.known)
        return leat_mem("", 0);
    return leat__arg_int(text, l->log.added - y.all);
}

/* Whose lease may be taken away: that of one who was seen dead. */
static leat_bytes yielding(const seeking *s, uint32_t i)
{
    const char *nonce = s->x->looks[i].nonce;
    if (s->opts.force)
        return leat_str("*");
    const leat_group_member *m = leat__members_find(&s->admin.members, nonce);
    return nonce && (!m || !m->alive) ? leat_str(nonce) : leat_mem("", 0);
}

static leat_bytes target(const seeking *s, const leat_seek_partition *p,
                         char text[LEAT__ID_TEXT])
{
    if (s->to.kind == PLACE_START)
        return leat_str("start");
    if (s->to.kind == PLACE_END)
        return leat_str("end");
    (void)p;
    return leat__position_format(leat__position_before(s->to.at), text);
}

static leat_code refused(const seeking *s, uint32_t i, leat_error *err)
{
    return leat__fail(err, LEAT_EBUSY,
                      "partition %u of '%s' was taken by a member of group "
                      "'%s' just now: stop it, or force it",
                      i, s->admin.topic.name, s->admin.group);
}

static leat_code set_once(seeking *s, leat_seek_partition *p, leat_error *err)
{
    static const char *const words[] = { "lease", "cur",  NULL,     "kept",
                                         "due",   "lane", "joined", "id" };
    enum { KEYS = sizeof words / sizeof *words, OF_GROUP = 6 };
    const leat__topic_at *t = &s->admin.topic;
    leat__key key[KEYS], members;
    leat_bytes keys[KEYS];
    char id[LEAT__ID_TEXT], count[LEAT__NUMBER];
    for (size_t k = 0; k < KEYS; k++) {
        if (words[k])
            leat__key_part(&key[k], t->prefix, t->name, t->meta.legacy,
                           p->partition, words[k],
                           k < OF_GROUP ? s->admin.group : NULL);
        else
            leat__key_log(&key[k], t->prefix, t->name, t->meta.legacy,
                          p->partition);
        keys[k] = leat__key_bytes(&key[k]);
    }
    leat__key_members(&members, t->prefix, t->name, s->admin.group);
    const leat_bytes args[] = { target(s, p, id),
                                count_at(s, p, count),
                                leat_str(s->admin.group),
                                yielding(s, p->partition),
                                leat_str(LEASE_KEEP),
                                leat__key_bytes(&members),
                                leat_str(s->opts.drop ? "1" : ""),
                                leat_str(s->admin.u),
                                leat_str(t->meta.u) };
    const leat_reply *r = NULL;
    leat_code code = leat__script_call(s->admin.conn, &leat__script_admin_seek,
                                       keys, KEYS, args, 9, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "[i(t)]", LEAT_EUNKNOWN, "a seek", err);
    if (code != LEAT_OK)
        return code;
    if (leat_reply_int(leat_reply_at(r, 0)) == 2)
        return leat__admin_another(&s->admin, err);
    if (leat_reply_int(leat_reply_at(r, 0)) != 1)
        return refused(s, p->partition, err);
    p->done = true;
    (void)leat__position_parse(leat_reply_bytes(leat_reply_at(r, 1)), &p->to);
    s->x->pub.done++;
    return LEAT_OK;
}

static leat_code set_one(seeking *s, leat_seek_partition *p, leat_error *err)
{
    leat__key id;
    const leat__topic_at *t = &s->admin.topic;
    leat_code code = set_once(s, p, err);
    if (code != LEAT_ESTALE)
        return code;
    leat__key_id(&id, t, p->partition);
    code = leat__topic_same(t, s->admin.conn, &id, err);
    return code == LEAT_OK ? set_once(s, p, err) : code;
}

static leat_code set_all(seeking *s, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (uint32_t i = 0; i < s->x->pub.partitions && code == LEAT_OK; i++)
        code = set_one(s, &s->x->list[i], err);
    return code;
}

/* ---- the whole -------------------------------------------------------- */

void leat_seek_free(leat_seek *s)
{
    seek *x = (seek *)s;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x->looks);
    leat__free(x);
}

static seek *new_seek(const leat__admin *a, leat_error *err)
{
    size_t n = a->topic.meta.partitions;
    seek *x = leat__zalloc(sizeof *x, err);
    if (!x)
        return NULL;
    x->list = leat__calloc(n, sizeof *x->list, err);
    x->looks = x->list ? leat__calloc(n, sizeof *x->looks, err) : NULL;
    x->pub.partition = x->list;
    if (x->looks)
        x->pub.topic = leat__arena_text(&x->arena, leat_str(a->topic.name),
                                        err);
    if (x->pub.topic)
        x->pub.group = leat__arena_text(&x->arena, leat_str(a->group), err);
    if (x->pub.group)
        return x;
    leat_seek_free(&x->pub);
    return NULL;
}

static leat_code check_partition(const seeking *s, leat_error *err)
{
    uint32_t n = s->admin.topic.meta.partitions;
    if (!s->opts.one || s->opts.partition < n)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL, "'%s' has no partition %u, only %u",
                      s->admin.topic.name, s->opts.partition, n);
}

static leat_code seek_all(seeking *s, leat_error *err)
{
    seek *x = s->x = new_seek(&s->admin, err);
    if (!x)
        return LEAT_ENOMEM;
    s->tallies = (leat__tallies){ .topic = &s->admin.topic,
                                  .conn = s->admin.conn };
    leat_code code = leat__look_all(&s->admin.topic, s->admin.conn,
                                    s->admin.group, &x->arena, x->looks, err);
    if (code == LEAT_OK)
        code = check_place(s, err);
    if (code == LEAT_OK)
        code = plan_all(s, err);
    if (code == LEAT_OK && !s->opts.dry_run)
        code = set_all(s, err);
    return code;
}

leat_code leat_group_seek(leat_client *c, const char *topic, const char *group,
                          const char *to, const leat_seek_opts *opts,
                          leat_seek **out, leat_error *err)
{
    seeking s = { .opts = opts ? *opts : (leat_seek_opts){ 0 } };
    leat_code code = leat__admin_open(&s.admin, c, topic, group, s.opts.prefix,
                                      err);
    if (code == LEAT_OK)
        code = read_place(to, &s.to, err);
    if (code == LEAT_OK)
        code = check_partition(&s, err);
    if (code == LEAT_OK)
        code = leat__admin_idle(&s.admin, s.opts.force || s.opts.dry_run, err);
    if (code == LEAT_OK)
        code = seek_all(&s, err);
    leat__admin_close(&s.admin);
    bool begun = s.x && (code == LEAT_OK || s.x->pub.done > 0);
    if (out)
        *out = begun ? &s.x->pub : NULL;
    if (!out || !begun)
        leat_seek_free(s.x ? &s.x->pub : NULL);
    return code;
}
