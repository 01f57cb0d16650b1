/*
 * sentinel.c: finding the master of a service.
 *
 *   round     the sentinels in the order in which they are asked, and what each
 *             of them said
 *   known     the master that was verified last, shared by all threads
 *
 * A dial asks one sentinel after another until most agree (see
 * leat__sentinel_choose), dials the server and has it say that it is a master.
 * Where that fails, or they do not agree, the dial fails: whoever waits for a
 * connection asks again.  The first time, when nothing is known, all are asked:
 * one that was cut off may name a master that still believes in itself.
 *
 * Who answered well is asked first the next time, who did not last.  Each has
 * only its share of the time, so that a dead one does not use up the others'.
 *
 * Whoever finds another master than the known one, a dial or the watch, makes
 * it known first and cuts then.  A dial that was under way to the old one sees
 * afterwards that it was overtaken: so no connection slips through.
 */
#include "redis/sentinel.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/facts.h"

#include <stdio.h>
#include <string.h>

enum {
    WINDOW = 16,
    REPLY_MAX = 1024 * 1024, /* what a sentinel says is short            */
    OTHERS_MS = 500          /* for the others, once one has answered    */
};

struct leat__sentinel {
    leat_client *client;
    char *user, *password;
    leat__login login;
    leat_counter *failovers;

    pthread_mutex_t lock;
    leat__sentinel_known known;
    size_t first; /* who answered last */
    bool failed[LEAT__URL_HOSTS];
};

struct round {
    leat__sentinel_known known; /* when it began */
    size_t n, asked;
    size_t order[LEAT__URL_HOSTS];
    leat__sentinel_answer said[LEAT__URL_HOSTS];
    size_t nobody, refused; /* who do not know the service, or us */
    leat_error why;         /* why the last sentinel was silent   */
    leat_error tried;       /* what came of the last server       */
};

/* ---- making ----------------------------------------------------------- */

static leat_code copy_text(char **out, const char *own, const char *url,
                           leat_error *err)
{
    const char *s = own ? own : url;
    *out = s ? leat__strdup(s, err) : NULL;
    return s && !*out ? LEAT_ENOMEM : LEAT_OK;
}

leat__sentinel *leat__sentinel_new(leat_client *c, const char *user,
                                   const char *password, leat_error *err)
{
    const leat__url *u = &c->url;
    leat__sentinel *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->client = c;
    if (copy_text(&s->user, user, u->sentinel_user, err) != LEAT_OK ||
        copy_text(&s->password, password, u->sentinel_password, err) !=
            LEAT_OK) {
        leat__sentinel_free(s);
        return NULL;
    }
    s->login = (leat__login){ .user = s->user,
                              .password = s->password,
                              .name = c->name,
                              .resp2 = c->opts.resp2 };
    s->failovers = leat_metrics_counter(
        c->opts.metrics, "leat_redis_failovers_total",
        "Changes of the master that were followed.", NULL, 0, NULL);
    return s;
}

void leat__sentinel_free(leat__sentinel *s)
{
    if (!s)
        return;
    leat__free(s->user);
    leat__free_secret(s->password);
    pthread_mutex_destroy(&s->lock);
    leat__free(s);
}

static const char *service(const leat__sentinel *s)
{
    return s->client->url.service;
}

static char *show_sentinel(const leat__sentinel *s, size_t i, char *buf,
                           size_t size)
{
    const leat__url_host *h = &s->client->url.hosts[i];
    leat__address a;
    leat__address_set(&a, h->name, h->port);
    return leat__address_text(&a, buf, size);
}

/* ---- one sentinel ----------------------------------------------------- */

static void until(leat_conn *conn, int64_t deadline_ns)
{
    int64_t left = leat__left_ms(deadline_ns);
    conn->timeout_ms = left > 0 ? left : 1;
}

/* Say who it was.  A login that was refused is not the servers' login; one
 * that was not even talked to has shown a bad certificate. */
static leat_code blame(const leat__sentinel *s, size_t i, bool talked,
                       leat_error *e)
{
    char who[LEAT__ADDRESS_TEXT];
    leat_error was = *e;
    show_sentinel(s, i, who, sizeof who);
    if (was.code == LEAT_EAUTH && talked)
        return leat__fail(e, LEAT_EAUTH,
                          "sentinel %s refused the login, check sentinel_user "
                          "and sentinel_password",
                          who);
    bool told = was.code == LEAT_ENOMEM || was.code == LEAT_EIO ||
                was.code == LEAT_ETIMEOUT || was.code == LEAT_EAUTH;
    return leat__fail_retriable(e, told ? was.code : LEAT_ECONN,
                                was.code != LEAT_EAUTH, "sentinel %s: %s", who,
                                was.msg);
}

leat_conn *leat__sentinel_connect(leat__sentinel *s, size_t i,
                                  leat__lines *list, int64_t deadline_ns,
                                  leat_error *err)
{
    const leat__url_host *at = &s->client->url.hosts[i];
    leat__conn_opts o = { .window = WINDOW, .limits = { .reply = REPLY_MAX } };
    leat__transport *t = leat__client_transport(s->client, at, deadline_ns,
                                                err);
    leat_conn *conn = t ? leat__conn_new(t, &o, err) : NULL;
    if (t && !conn)
        t->ops->close(t);
    if (conn) {
        leat__address a;
        leat__address_set(&a, at->name, at->port);
        if (list)
            leat__line_enter(list, conn, &a);
        until(conn, deadline_ns);
        if (leat__handshake(conn, &s->login, err) == LEAT_OK)
            return conn;
        leat__conn_free(conn);
    }
    (void)blame(s, i, t != NULL, err);
    return NULL;
}

struct asking {
    leat__sentinel_answer *out;
    leat_error err;
};

/* An ACL may refuse it: then the epoch is not known. */
static void on_master(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *q = arg;
    q->out->epoch = e ? 0 : leat__sentinel_read_epoch(r);
}

static void on_address(void *arg, const leat_reply *r, const leat_error *e)
{
    struct asking *q = arg;
    if (e)
        q->err = *e;
    else if (!leat__sentinel_read_address(r, q->out))
        leat__fail(&q->err, LEAT_EPROTO, "its answer is no address");
}

/* The epoch first: a failover between the two answers then shows the new master
 * with the old epoch, which is found out later, and not the old master with the
 * new one. */
static leat_code ask_both(leat_conn *conn, leat_bytes name, struct asking *q)
{
    leat_error *err = &q->err;
    leat_code rc = leat_conn_send(
        conn, LEAT_ARGS(leat_str("SENTINEL"), leat_str("MASTER"), name),
        &(leat_send_opts){ on_master, q, 0 }, err);
    if (rc == LEAT_OK)
        rc = leat_conn_send(conn,
                            LEAT_ARGS(leat_str("SENTINEL"),
                                      leat_str("GET-MASTER-ADDR-BY-NAME"),
                                      name),
                            &(leat_send_opts){ on_address, q, 0 }, err);
    if (rc == LEAT_OK)
        (void)leat_conn_drain(conn, 0, NULL); /* q has the outcome */
    else
        (void)leat__conn_break(conn, err); /* nothing comes back to q */
    return q->err.code;
}

leat_code leat__sentinel_ask(leat__sentinel *s, size_t i, leat_conn *conn,
                             int64_t deadline_ns, leat__sentinel_answer *out,
                             leat_error *err)
{
    struct asking q = { .out = out };
    *out = (leat__sentinel_answer){ 0 };
    until(conn, deadline_ns);
    if (ask_both(conn, leat_str(service(s)), &q) == LEAT_OK)
        return LEAT_OK;
    *out = (leat__sentinel_answer){ 0 };
    *err = q.err;
    return blame(s, i, true, err);
}

/* ---- a server --------------------------------------------------------- */

static leat_code role_by_info(leat_conn *conn, leat__sentinel_role *role,
                              leat_error *err)
{
    const leat_reply *r;
    leat_server seen = { 0 };
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("INFO"), leat_str("replication")), NULL, &r,
        err);
    if (rc == LEAT_OK)
        leat__facts_info(leat_reply_bytes(r), &seen);
    else if (!conn->t)
        return rc;
    if (!seen.role[0])
        return leat__fail(err, LEAT_EAUTH,
                          "the server shows its role neither by ROLE nor by "
                          "INFO, allow +role");
    *role = strcmp(seen.role, "master") == 0 ? LEAT__ROLE_MASTER
                                             : LEAT__ROLE_REPLICA;
    return LEAT_OK;
}

leat_code leat__sentinel_verify(leat_conn *conn, leat_error *err)
{
    const leat_reply *r;
    leat__sentinel_role role = LEAT__ROLE_OTHER;
    leat_code rc = leat_conn_call(conn, LEAT_ARGS(leat_str("ROLE")), NULL, &r,
                                  err);
    if (rc == LEAT_OK)
        role = leat__sentinel_read_role(r);
    else if (!conn->t || rc == LEAT_EBUSY)
        return rc;
    else
        rc = role_by_info(conn, &role, err);
    if (rc != LEAT_OK || role == LEAT__ROLE_MASTER)
        return rc;
    return leat__fail(err, LEAT_ECONN, "it is %s",
                      role == LEAT__ROLE_REPLICA ? "a replica" : "no master");
}

leat__sentinel_known leat__sentinel_now(leat__sentinel *s)
{
    pthread_mutex_lock(&s->lock);
    leat__sentinel_known k = s->known;
    pthread_mutex_unlock(&s->lock);
    return k;
}

static bool leads_to(const leat__address *at, void *arg)
{
    return leat__address_same(at, arg);
}

/* The newest is asked for again: another thread may have gone on since. */
static void tell_change(leat__sentinel *s, const leat__address *at)
{
    char text[LEAT__ADDRESS_TEXT];
    leat__log(&s->client->opts.log, LEAT_LOG_WARN, "master of '%s' is now %s",
              service(s), leat__address_text(at, text, sizeof text));
    leat_counter_add(s->failovers, 1);
    leat__sentinel_known now = leat__sentinel_now(s);
    (void)leat__client_cut(s->client, leads_to, &now.at);
}

void leat__sentinel_confirm(leat__sentinel *s, const leat__sentinel_answer *a)
{
    pthread_mutex_lock(&s->lock);
    if (s->known.is && leat__address_same(&s->known.at, &a->at) &&
        a->epoch > s->known.epoch)
        s->known.epoch = a->epoch;
    pthread_mutex_unlock(&s->lock);
}

/* The server has said that it is a master.  False: meanwhile a newer one was
 * found, and nothing says that this is newer still. */
static bool adopt(leat__sentinel *s, const leat__sentinel_known *then,
                  const leat__sentinel_answer *a)
{
    leat__sentinel_known *k = &s->known;
    pthread_mutex_lock(&s->lock);
    bool had = k->is, same = had && leat__address_same(&k->at, &a->at);
    bool ok = !had || same || a->epoch > k->epoch || k->change == then->change;
    if (ok && !same)
        *k = (leat__sentinel_known){ true, a->at, a->epoch, k->change + 1 };
    else if (same && a->epoch > k->epoch)
        k->epoch = a->epoch;
    pthread_mutex_unlock(&s->lock);
    if (ok && had && !same)
        tell_change(s, &a->at);
    return ok;
}

leat_conn *leat__sentinel_follow(leat__sentinel *s,
                                 const leat__sentinel_known *known,
                                 const leat__sentinel_answer *a, size_t i,
                                 int64_t deadline_ns, leat_error *err)
{
    char who[LEAT__ADDRESS_TEXT], whom[LEAT__ADDRESS_TEXT];
    leat__address at = a->at;
    leat_error e = { 0 };
    leat_conn *conn = leat__client_dial_at(
        s->client, &(leat__url_host){ at.host, at.port }, deadline_ns, &e);
    if (conn && adopt(s, known, a))
        return conn;
    if (conn)
        leat__fail(&e, LEAT_ECONN, "it was replaced meanwhile");
    leat__conn_free(conn);
    leat__fail_retriable(
        err, e.code, e.retriable, "sentinel %s names %s master of '%s': %s",
        show_sentinel(s, i, who, sizeof who),
        leat__address_text(&at, whom, sizeof whom), service(s), e.msg);
    return NULL;
}

/* ---- a round ---------------------------------------------------------- */

/* Who answered last, then who did not fail, then the others. */
static void begin(leat__sentinel *s, struct round *r)
{
    size_t n = s->client->url.host_count;
    pthread_mutex_lock(&s->lock);
    r->known = s->known;
    r->order[r->n++] = s->first;
    for (int failed = 0; failed < 2; failed++)
        for (size_t i = 0; i < n; i++)
            if (i != s->first && s->failed[i] == failed)
                r->order[r->n++] = i;
    pthread_mutex_unlock(&s->lock);
}

static void remember(leat__sentinel *s, size_t i, bool failed, bool good)
{
    pthread_mutex_lock(&s->lock);
    s->failed[i] = failed;
    if (good)
        s->first = i;
    pthread_mutex_unlock(&s->lock);
}

static int64_t sooner(int64_t deadline_ns, int64_t ms)
{
    int64_t t = leat__deadline_ns(ms);
    return t < deadline_ns ? t : deadline_ns;
}

static bool somebody_named(const struct round *r)
{
    for (size_t i = 0; i < r->asked; i++)
        if (r->said[i].said == LEAT__SENTINEL_NAMED)
            return true;
    return false;
}

static void ask_next(leat__sentinel *s, struct round *r, int64_t deadline_ns)
{
    size_t left = r->n - r->asked, i = r->order[r->asked];
    int64_t share = leat__left_ms(deadline_ns) / (int64_t)(left + 1);
    if (share > OTHERS_MS && somebody_named(r))
        share = OTHERS_MS;
    int64_t end = sooner(deadline_ns, share);
    leat__sentinel_answer *a = &r->said[r->asked++];

    leat_conn *conn = leat__sentinel_connect(s, i, NULL, end, &r->why);
    bool ok = conn &&
              leat__sentinel_ask(s, i, conn, end, a, &r->why) == LEAT_OK;
    leat__conn_free(conn);
    remember(s, i, !ok, false);
    r->nobody += ok && a->said == LEAT__SENTINEL_NOBODY;
    r->refused += !ok && r->why.code == LEAT_EAUTH;
}

/* The place of the next answer to follow, or r->n. */
static size_t next_choice(leat__sentinel *s, struct round *r,
                          int64_t deadline_ns)
{
    for (;;) {
        bool all = r->asked == r->n;
        size_t k = r->asked;
        if (r->known.is || all)
            k = leat__sentinel_choose(&r->known, r->said, r->asked, r->n);
        if (k < r->asked)
            return k;
        if (all)
            return r->n;
        ask_next(s, r, deadline_ns);
    }
}

static void mark_tried(struct round *r, const leat__address *at)
{
    for (size_t i = 0; i < r->n; i++)
        if (leat__address_same(&r->said[i].at, at))
            r->said[i].tried = true;
}

static leat_conn *follow(leat__sentinel *s, struct round *r, size_t k,
                         int64_t deadline_ns)
{
    /* While others can still be asked, half of the time is theirs. */
    int64_t end = deadline_ns;
    if (r->asked < r->n)
        end = sooner(end, leat__left_ms(end) / 2 + 1);
    leat_conn *conn = leat__sentinel_follow(s, &r->known, &r->said[k],
                                            r->order[k], end, &r->tried);
    if (conn)
        remember(s, r->order[k], false, true);
    return conn;
}

/* Answers came, and most of them did not agree. */
static leat_code explain_split(const leat__sentinel *s, const struct round *r,
                               leat_error *err)
{
    size_t named = 0;
    for (size_t i = 0; i < r->asked; i++)
        named += r->said[i].said == LEAT__SENTINEL_NAMED;
    return leat__fail(err, LEAT_ECONN,
                      "the %zu sentinels that answer do not agree on the "
                      "master of '%s', wait for them",
                      named, service(s));
}

static bool differ(const struct round *r)
{
    const leat__sentinel_answer *first = NULL;
    for (size_t i = 0; i < r->asked; i++) {
        const leat__sentinel_answer *a = &r->said[i];
        if (a->said != LEAT__SENTINEL_NAMED)
            continue;
        if (first && !leat__address_same(&first->at, &a->at))
            return true;
        first = a;
    }
    return false;
}

/* Answers came, and none of them could be followed. */
static leat_code explain_old(const leat__sentinel *s, const struct round *r,
                             leat_error *err)
{
    char who[LEAT__ADDRESS_TEXT], old[LEAT__ADDRESS_TEXT],
        now[LEAT__ADDRESS_TEXT];
    size_t i = 0;
    while (r->said[i].said != LEAT__SENTINEL_NAMED)
        i++;
    return leat__fail(err, LEAT_ECONN,
                      "sentinel %s names %s master of '%s', but it is behind: "
                      "%s was made master later, wait for the other sentinels",
                      show_sentinel(s, r->order[i], who, sizeof who),
                      leat__address_text(&r->said[i].at, old, sizeof old),
                      service(s),
                      leat__address_text(&r->known.at, now, sizeof now));
}

static leat_code explain(const leat__sentinel *s, const struct round *r,
                         leat_error *err)
{
    if (r->tried.code != LEAT_OK) {
        *err = r->tried;
        return err->code;
    }
    if (somebody_named(r))
        return differ(r) ? explain_split(s, r, err) : explain_old(s, r, err);
    if (r->nobody == r->n)
        return leat__fail(err, LEAT_ENOENT,
                          "no sentinel knows the service '%s', check the name "
                          "in the URL",
                          service(s));
    if (r->nobody > 0)
        return leat__fail(err, LEAT_ECONN,
                          "%zu of %zu sentinels do not know the service '%s', "
                          "and no other answers: %s",
                          r->nobody, r->n, service(s), r->why.msg);
    *err = r->why;
    if (r->refused > 0 && r->refused < r->n && err->code == LEAT_EAUTH) {
        err->code = LEAT_ECONN; /* another may take us when it is back */
        err->retriable = true;
    }
    return err->code;
}

leat_conn *leat__sentinel_dial(leat__sentinel *s, int64_t deadline_ns,
                               leat_error *err)
{
    leat_error e;
    leat_conn *conn = NULL;
    struct round *r = leat__zalloc(sizeof *r, &e);
    if (r) {
        begin(s, r);
        int64_t end = sooner(deadline_ns, s->client->opts.connect_timeout_ms);
        size_t k = 0;
        while (!conn && (k = next_choice(s, r, end)) < r->n) {
            conn = follow(s, r, k, end);
            mark_tried(r, &r->said[k].at);
        }
        if (!conn)
            (void)explain(s, r, &e);
        leat__free(r);
    }
    if (!conn && err)
        *err = e;
    return conn;
}

/* ---- the servers of the service --------------------------------------- */

/* SLAVES is what old sentinels say for REPLICAS. */
static leat_code ask_replicas(leat__sentinel *s, leat_conn *conn,
                              leat_node *out, size_t room, size_t *n,
                              leat_error *err)
{
    static const char *const words[] = { "REPLICAS", "SLAVES" };
    leat_code rc = LEAT_OK;
    for (int i = 0; i < 2; i++) {
        const leat_reply *r;
        rc = leat_conn_call(conn,
                            LEAT_ARGS(leat_str("SENTINEL"), leat_str(words[i]),
                                      leat_str(service(s))),
                            NULL, &r, err);
        if (rc == LEAT_OK)
            *n = leat__sentinel_read_replicas(r, out, room);
        if (rc == LEAT_OK || !conn->t)
            break;
    }
    return rc;
}

static leat_code read_nodes(leat__sentinel *s, size_t i,
                            const leat__address *master, int64_t deadline_ns,
                            leat_node *out, size_t room, size_t *n,
                            leat_error *err)
{
    size_t replicas = 0;
    leat_conn *conn = leat__sentinel_connect(s, i, NULL, deadline_ns, err);
    if (!conn)
        return err->code;
    until(conn, deadline_ns);
    leat_code rc = ask_replicas(s, conn, room ? out + 1 : NULL,
                                room ? room - 1 : 0, &replicas, err);
    leat__conn_free(conn);
    if (rc != LEAT_OK)
        return blame(s, i, true, err);
    *n = replicas + 1;
    if (room == 0)
        return LEAT_OK;
    *out = (leat_node){ .port = master->port, .master = true, .primary = -1 };
    memcpy(out->host, master->host, sizeof out->host);
    return LEAT_OK;
}

leat_code leat__sentinel_nodes(leat__sentinel *s, leat_node *out, size_t room,
                               size_t *n, leat_error *err)
{
    leat_error e = { 0 };
    struct round *r = leat__zalloc(sizeof *r, err);
    if (!r)
        return LEAT_ENOMEM;
    begin(s, r);
    int64_t end = leat__deadline_ns(s->client->opts.connect_timeout_ms);
    size_t k = next_choice(s, r, end);
    leat_code rc = k < r->n ? read_nodes(s, r->order[k], &r->said[k].at, end,
                                         out, room, n, &e)
                            : explain(s, r, &e);
    leat__free(r);
    if (rc != LEAT_OK && err)
        *err = e;
    return rc;
}
