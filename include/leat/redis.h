/*
 * redis.h: a client of one Redis, and its connections.
 *
 * A leat_client is opened once from a URL and shared; it owns a bounded pool.
 * A leat_conn is lent from the pool and confined: commands are queued, flushed
 * together and answered in order, each by its callback.  One command at a time
 * is the special case leat_conn_call.
 *
 *   leat_client *c = leat_client_open("redis://localhost", NULL, &err);
 *   leat_conn *conn = leat_client_lend(c, 1000, &err);
 *   for (int i = 0; i < n; i++)
 *       leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), key[i]), NULL, &err);
 *   leat_conn_drain(conn, 0, &err);
 *   leat_client_return(c, conn);
 *
 * On a cluster such a connection leads to every master: commands go where their
 * keys are, and callbacks come in order for the keys of one slot.  A command or
 * transaction whose keys are in two slots is LEAT_EINVAL before it is sent.
 *
 * Outcomes are honest.  A command whose last byte never left this process did
 * certainly not happen (LEAT_ECONN); one that left and was not answered in time
 * is LEAT_EUNKNOWN, and its connection is closed so that a late answer cannot
 * be taken for another's.  Nothing is sent twice unless it is marked
 * idempotent.
 *
 * Threads: leat_client is shared; leat_conn and its replies are confined.
 * After fork the child gets LEAT_EFORK from every handle of the parent.
 */
#ifndef LEAT_REDIS_H
#define LEAT_REDIS_H

#include <leat/bytes.h>
#include <leat/error.h>
#include <leat/log.h>
#include <leat/metrics.h>

#ifdef __cplusplus
#include <initializer_list>
#endif

LEAT_BEGIN

typedef struct leat_client leat_client;
typedef struct leat_conn leat_conn;
typedef struct leat_reply leat_reply;

/* ---- replies ---------------------------------------------------------- */

typedef enum leat_reply_type {
    LEAT_REPLY_NIL = 0,
    LEAT_REPLY_STATUS, /* +OK                                        */
    LEAT_REPLY_ERROR,  /* -ERR ..., also RESP3's bulk errors         */
    LEAT_REPLY_INT,
    LEAT_REPLY_STRING, /* bulk, and RESP3's verbatim without prefix  */
    LEAT_REPLY_DOUBLE,
    LEAT_REPLY_BOOL,   /* leat_reply_int is 0 or 1                   */
    LEAT_REPLY_BIGNUM, /* leat_reply_bytes are its digits            */
    LEAT_REPLY_ARRAY,
    LEAT_REPLY_MAP, /* elements are key, value, key, value, ...   */
    LEAT_REPLY_SET,
    LEAT_REPLY_PUSH
} leat_reply_type;

LEAT_API leat_reply_type leat_reply_kind(const leat_reply *r);

/* The integer or boolean; a string or status that is wholly a decimal number
 * is read as one; anything else is 0. */
LEAT_API int64_t leat_reply_int(const leat_reply *r);
LEAT_API double leat_reply_double(const leat_reply *r);

/* The text of a string, status, error or bignum; else empty. */
LEAT_API leat_bytes leat_reply_bytes(const leat_reply *r);

/* How many elements an array, map (keys and values), set or push has. */
LEAT_API size_t leat_reply_len(const leat_reply *r);

/* The i-th element, found by walking from the first; NULL past the end. */
LEAT_API const leat_reply *leat_reply_at(const leat_reply *r, size_t i);

/*
 * The elements in order, with an end:
 *
 *     leat_reply_iter it = leat_reply_each(r);
 *     while ((e = leat_reply_step(&it)))
 *
 * leat_reply_step is NULL past the last, however often it is called; `left`
 * says how many are to come.  As every call above reads NULL as a null reply,
 * a reply that is too short is read as nulls, never beyond its end.
 */
typedef struct leat_reply_iter {
    const leat_reply *at;
    size_t left;
} leat_reply_iter;

LEAT_API leat_reply_iter leat_reply_each(const leat_reply *r);
LEAT_API const leat_reply *leat_reply_step(leat_reply_iter *it);

/* Free a reply that was given to the caller (leat_client_call). */
LEAT_API void leat_reply_free(leat_reply *r);

/* ---- the client ------------------------------------------------------- */

/* What an acknowledgement means.  A server that does not give the class asked
 * for is refused with LEAT_EUNSAFE and the setting to change. */
typedef enum leat_durability {
    LEAT_EXECUTED = 0, /* class 0: the server has done it                  */
    LEAT_LOGGED,       /* 1: and writes it to disk within some seconds     */
    LEAT_SYNCED,       /* 2: and it is on disk                             */
    LEAT_REPLICATED,   /* 3: and on so many replicas                       */
    LEAT_OUTBOX        /* 4: the truth is elsewhere; a loss here is found, */
                       /* told and published again                         */
} leat_durability;

/* For rediss:// and its kin, before what the URL says.  The certificate and
 * the host name are verified unless `insecure` says loudly not to.  A key that
 * others can read is refused. */
typedef struct leat_tls_opts {
    const char *ca_file; /* trusted certificates; NULL, with ca_dir NULL   */
    const char *ca_dir;  /* too: the system's                              */
    const char *cert;    /* our own, with its chain; NULL: none            */
    const char *key;     /* of cert; NULL: in the same file                */
    const char *host;    /* the name to verify; NULL: the one dialled      */
    bool insecure;       /* believe anybody                                */
} leat_tls_opts;

/* A write, the proof of its durability, and the word that lets a command pass
 * while its slot moves: with less room none of them could leave. */
enum { LEAT_WINDOW_MIN = 3 };

typedef struct leat_client_opts {
    const char *name;           /* CLIENT SETNAME; NULL: "leat"        */
    const char *user;           /* instead of the URL's                */
    const char *password;       /* instead of the URL's                */
    int64_t connect_timeout_ms; /* 0: 5 s                              */
    int64_t timeout_ms;         /* for an answer; 0: 5 s               */
    int pool_size;              /* connections at most; 0: 16; on a    */
                                /* cluster: to each master             */
    int window;                 /* commands in flight; 0: 1024; fewer  */
                                /* than LEAT_WINDOW_MIN is that many   */
    int max_retry_ms;           /* longest pause between connects; 0: 2 s */
    bool resp2;                 /* do not ask for RESP3                */
    bool allow_eviction;        /* run on a server that may evict; also */
                                /* by allow_eviction=true in the URL   */
    bool allow_weak;            /* and on one that lacks the durability */
    bool as_redis_6_0;          /* use nothing newer, for tests        */
    size_t max_reply_bytes;     /* one reply at most; 0: 512 MiB       */
    leat_durability durability; /* the class that is asked for         */
    int replicas;               /* with LEAT_REPLICATED; 0: 1          */
    int64_t replicas_ms;        /* to wait for proof; 0: 1 s, and 5 s  */
                                /* where the server syncs every second */
    leat_tls_opts tls;
    const char *sentinel_user;     /* of the sentinels; NULL: none     */
    const char *sentinel_password; /* instead of the URL's             */
    leat_logger log;               /* and of what is opened from it,      */
    leat_metrics *metrics;         /* which may have its own; borrowed by */
                                   /* all of it; NULL: none               */
    bool only_executed;            /* LEAT_EXECUTED, also where the URL asks */
                                   /* for more                            */
} leat_client_opts;

/* Open a client: parse the URL, connect once, look at the server.  Schemes:
 * redis:// rediss:// unix:// embedded: redis+sentinel:// redis+cluster:// and
 * the latter two with rediss.  NULL on failure. */
LEAT_API leat_client *leat_client_open(const char *url,
                                       const leat_client_opts *opts,
                                       leat_error *err);

/* Close what was opened from it first: topics, queues, streams, pools, watches,
 * browses, dead-letter lists and lent connections.  What is still open is an
 * error in the client's log, which names it; it works on, the client opens
 * nothing more (LEAT_ECLOSED) and ends with the last of them.  NULL is
 * accepted. */
LEAT_API void leat_client_close(leat_client *c);

/* The URL without its password, for people.  Owned by c. */
LEAT_API const char *leat_client_url(const leat_client *c);

/* The next secret in the text of a URL, from byte *at on, which is moved behind
 * it: a password, the sentinels' too, or what could be one where the text is
 * damaged or somebody else's.  A view of the text; n 0: there is no more. */
LEAT_API leat_bytes leat_url_secret(leat_bytes text, size_t *at);

/* What was seen of the server at the last connect. */
typedef struct leat_server {
    char version[32];
    int major, minor, patch;
    char role[16]; /* "master", "slave"                      */
    char maxmemory_policy[32];
    int64_t maxmemory; /* bytes; 0: no limit                     */
    int64_t used_memory;
    bool aof;             /* appendonly yes                         */
    char appendfsync[16]; /* empty where CONFIG is refused          */
    bool loading;
    int replicas;
    int protocol;          /* 2 or 3                                 */
    bool has_scripts;      /* EVAL is allowed                        */
    int64_t clock_skew_ms; /* the server's date minus ours           */
    bool has_xautoclaim;   /* present, and not refused by the ACL    */
    bool has_waitaof;
    bool wait_refused;          /* WAIT is, by the ACL; tried where needed  */
    bool config_seen;           /* CONFIG GET is allowed: what follows is   */
                                /* known, and appendfsync                   */
    bool no_sync_on_rewrite;    /* no-appendfsync-on-rewrite yes            */
    int min_replicas;           /* min-replicas-to-write                    */
    int64_t min_replicas_lag_s; /* min-replicas-max-lag                  */
    int replicas_online;        /* of replicas, those that follow        */
    int64_t replicas_lag_s;     /* the longest silence of these          */
    bool snapshots;    /* RDB files are saved by themselves              */
    bool aof_failed;   /* the last write of the append-only file         */
    bool saves_failed; /* the last snapshot                              */
    bool clustered;    /* one node of a cluster                          */
} leat_server;

LEAT_API leat_code leat_client_server(leat_client *c, leat_server *out,
                                      leat_error *err);

/* What an acknowledgement means on the server that was seen last.  Each new
 * connection is judged anew: behind the same address there may be another
 * server than before. */
typedef struct leat_durability_report {
    leat_durability asked; /* by options or URL                             */
    leat_durability given; /* that acknowledgements have now                */
    leat_durability best;  /* that could be asked for: up to REPLICATED     */
    int replicas;          /* that REPLICATED means here                    */
    int64_t forgets_ms;    /* what a crash of the server may take back: the */
                           /* last so many and some more; 0: nothing; -1:   */
                           /* there is no bound                             */
    const char *means;     /* a sentence for people; static                 */
    char lacks[200];       /* for the class asked for, else for the next:   */
                           /* why not, and what to set; empty: nothing      */
} leat_durability_report;

LEAT_API leat_code leat_client_durability(leat_client *c,
                                          leat_durability_report *out,
                                          leat_error *err);

/* "executed", "logged", "synced", "replicated" or "outbox". */
LEAT_API const char *leat_durability_name(leat_durability d);

/* The servers behind the URL, as they are now known. */
typedef enum leat_topology {
    LEAT_SINGLE = 0,
    LEAT_SENTINEL,
    LEAT_CLUSTER
} leat_topology;

typedef struct leat_node {
    char host[256]; /* or the path of a socket, with port 0 */
    int port;
    bool master;
    int slots;   /* that it serves, of a cluster's 16384     */
    int primary; /* of a replica: the index of its master, or -1 */
} leat_node;

LEAT_API leat_topology leat_client_topology(const leat_client *c);

/* The configuration epoch of the master, by the sentinels that named it: higher
 * after each failover that they led.  0: there was none, or they do not tell;
 * -1: the URL names no sentinels. */
LEAT_API int64_t leat_client_sentinel_epoch(leat_client *c);

/* Fill out up to room nodes; *n is how many there are. */
LEAT_API leat_code leat_client_nodes(leat_client *c, leat_node *out,
                                     size_t room, size_t *n, leat_error *err);

/* One command on a pooled connection, its reply owned by the caller.  With
 * idempotent it is sent again on a new connection, with backoff, until
 * timeout_ms is over; otherwise a lost answer is LEAT_EUNKNOWN at once. */
typedef struct leat_call_opts {
    bool idempotent;
    int64_t timeout_ms; /* 0: the client's                                 */
    int64_t block_ms;   /* the server itself waits this long first         */
} leat_call_opts;

LEAT_API leat_code leat_client_call(leat_client *c, const leat_bytes *argv,
                                    size_t n, const leat_call_opts *opts,
                                    leat_reply **reply, leat_error *err);

/* ---- connections ------------------------------------------------------ */

/* Borrow a connection, waiting up to wait_ms for a free one and, while the
 * server is away, for it to come back. */
LEAT_API leat_conn *leat_client_lend(leat_client *c, int64_t wait_ms,
                                     leat_error *err);

/* Give it back.  What is still in flight is waited for by nobody: such a
 * connection, and a broken one, is closed. */
LEAT_API void leat_client_return(leat_client *c, leat_conn *conn);

/* argv and n, written in place: LEAT_ARGS(leat_str("GET"), key).  Good until
 * the end of the call it is written in. */
#ifdef __cplusplus
LEAT_END
template <class... T> char (&leat_args_count(const T &...))[sizeof...(T)];
LEAT_BEGIN
#define LEAT_ARGS(...)                                                         \
    std::initializer_list<leat_bytes>{ __VA_ARGS__ }.begin(),                  \
        sizeof(leat_args_count(__VA_ARGS__))
#else
#define LEAT_ARGS(...)                                                         \
    (const leat_bytes[]){ __VA_ARGS__ },                                       \
        sizeof((const leat_bytes[]){ __VA_ARGS__ }) / sizeof(leat_bytes)
#endif

/* Called once for each command sent, in order, from inside flush, drain or
 * call.  The reply is owned by the connection and valid during the callback.
 * err is NULL when the server accepted the command; otherwise it says what
 * happened, and reply is the error reply or, where no answer came, NULL.
 * Runs on the thread of that call and holds no lock: it may use the client and
 * other connections; it must not use this connection, nor return it. */
typedef void leat_reply_fn(void *arg, const leat_reply *reply,
                           const leat_error *err);

typedef struct leat_send_opts {
    leat_reply_fn *fn; /* NULL: only errors count, see drain         */
    void *arg;
    int64_t block_ms; /* the server waits this long by itself       */
} leat_send_opts;

/* Queue one command; argv is copied.  Reads answers first when the window is
 * full.  On failure the command was not queued and fn is not called. */
LEAT_API leat_code leat_conn_send(leat_conn *conn, const leat_bytes *argv,
                                  size_t n, const leat_send_opts *opts,
                                  leat_error *err);

/* Write what is queued.  Answers are read only where the socket takes no
 * more otherwise. */
LEAT_API leat_code leat_conn_flush(leat_conn *conn, leat_error *err);

/* Take in the answers that are there, without waiting. */
LEAT_API leat_code leat_conn_take(leat_conn *conn, leat_error *err);

/* Flush and read until at most in_flight commands are unanswered.  LEAT_OK
 * says that the connection is sound; if a command without a callback failed
 * since the last drain, the first such failure is returned. */
LEAT_API leat_code leat_conn_drain(leat_conn *conn, size_t in_flight,
                                   leat_error *err);

/* Send one command and wait for its reply, which is owned by the connection
 * until its next use.  The answers before it go to their callbacks. */
LEAT_API leat_code leat_conn_call(leat_conn *conn, const leat_bytes *argv,
                                  size_t n, const leat_send_opts *opts,
                                  const leat_reply **reply, leat_error *err);

/* A transaction: watch, begin, send..., exec.  Callbacks of the commands sent
 * between run at exec with their real replies.  LEAT_ECONFLICT: a watched key
 * changed and nothing was done.  When exec's answer is lost the whole is
 * LEAT_EUNKNOWN; when it never left, it certainly did not happen. */
LEAT_API leat_code leat_conn_watch(leat_conn *conn, const leat_bytes *keys,
                                   size_t n, leat_error *err);
LEAT_API leat_code leat_conn_begin(leat_conn *conn, leat_error *err);
LEAT_API leat_code leat_conn_exec(leat_conn *conn, leat_error *err);
LEAT_API leat_code leat_conn_discard(leat_conn *conn, leat_error *err);

/* Publish/subscribe.  fn runs for each message, inside whichever call reads
 * it and on its thread, without a lock; a pattern's channel is the one that
 * matched.  Set it before subscribing; it must not use the connection, nor
 * return it. */
typedef void leat_push_fn(void *arg, leat_bytes channel, leat_bytes payload);

LEAT_API void leat_conn_on_push(leat_conn *conn, leat_push_fn *fn, void *arg);
LEAT_API leat_code leat_conn_subscribe(leat_conn *conn, bool pattern,
                                       const leat_bytes *names, size_t n,
                                       leat_error *err);
LEAT_API leat_code leat_conn_unsubscribe(leat_conn *conn, bool pattern,
                                         const leat_bytes *names, size_t n,
                                         leat_error *err);

/* Wait up to wait_ms for pushed messages; returns when at least one came or
 * the time is over: both are LEAT_OK. */
LEAT_API leat_code leat_conn_listen(leat_conn *conn, int64_t wait_ms,
                                    leat_error *err);

/* The socket, to be polled beside others; readable means that
 * leat_conn_take or leat_conn_listen has something to do.  On a cluster it is
 * an epoll descriptor over all nodes. */
LEAT_API int leat_conn_fd(const leat_conn *conn);

/* Commands sent and not yet answered. */
LEAT_API size_t leat_conn_in_flight(const leat_conn *conn);

LEAT_END
#endif
