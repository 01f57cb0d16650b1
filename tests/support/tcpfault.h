/*
 * tcpfault.h: a proxy that breaks connections at an exact byte.
 *
 *   tcpfault *f = tcpfault_start(redis_socket(s), NULL);
 *   int cut = tcpfault_rule_add(f, &(tcpfault_rule){
 *       .dir = TCPFAULT_DOWN, .when = TCPFAULT_OFFSET, .n = 17,
 *       .action = TCPFAULT_RESET, .times = 1 });
 *   ... connect to 127.0.0.1:tcpfault_port(f) and talk ...
 *   wait_until(tcpfault_fired(f, cut) == 1, 1000);
 *
 * "At offset k" means: exactly k bytes of that direction of that connection
 * were passed on before.  It fires as soon as they were.  A frame or command
 * rule fires when the first byte of that frame (its name, for a command) has
 * come, before any of it is passed on, unless plus or after say otherwise.
 *
 * One thread, buffers of 64 KiB per direction, a mutex: what a call here
 * changes holds when it returns.  The same rules for the same bytes do the
 * same, whatever the pieces they came in.
 *
 * RST: on TCP a true one (SO_LINGER 0).  A Unix socket has none: the peer of a
 * close sees the end of the stream, or ECONNRESET if it had sent bytes that
 * were never read.  Use a TCP listener where the difference matters.
 *
 * Threads: shared.
 */
#ifndef SUPPORT_TCPFAULT_H
#define SUPPORT_TCPFAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tcpfault tcpfault;

typedef enum tcpfault_dir {
    TCPFAULT_UP,   /* client to server */
    TCPFAULT_DOWN, /* server to client */
} tcpfault_dir;

typedef enum tcpfault_when {
    TCPFAULT_OFFSET,  /* n bytes were passed on                          */
    TCPFAULT_FRAME,   /* the n-th RESP frame, from 1; 0: every           */
    TCPFAULT_COMMAND, /* the n-th command of that name since the rule was
                         added, per connection; 0: every; only UP        */
} tcpfault_when;

typedef enum tcpfault_action {
    TCPFAULT_DELAY,     /* this direction waits ms                           */
    TCPFAULT_HOLD,      /* it waits for tcpfault_release; what is held is
                           delivered then, even if its sender is gone        */
    TCPFAULT_SPLIT,     /* from here on one byte per write, ms between them  */
    TCPFAULT_CUT,       /* FIN to both; no byte more                         */
    TCPFAULT_RESET,     /* RST to both                                       */
    TCPFAULT_BLACKHOLE, /* swallow the rest of this direction, FIN included  */
    TCPFAULT_HALF_OPEN, /* nothing passes any more, either way, for ever     */
    TCPFAULT_FLIP,      /* change bit (0-7) of the byte here                 */
    TCPFAULT_INJECT,    /* send bytes to the client now, between the others  */
    TCPFAULT_ANSWER,    /* frame or command, UP: the server never gets it;
                           the client gets bytes, in the place among the
                           replies where its own would be                    */
    TCPFAULT_ACTIONS_,
} tcpfault_action;

typedef struct tcpfault_rule {
    int conn; /* connections count from 1; 0: each */
    tcpfault_dir dir;
    tcpfault_when when;
    uint64_t n;
    const char *command; /* any case                                       */
    uint64_t plus;       /* so many bytes into the frame, at most its end  */
    bool after;          /* at the end of the frame                        */
    tcpfault_action action;
    int ms;
    int bit;
    const void *bytes; /* copied */
    size_t len;
    int times; /* fire so often in all, then rest; 0: without limit */
} tcpfault_rule;

typedef enum tcpfault_door {
    TCPFAULT_OPEN,
    TCPFAULT_REFUSE,    /* connect: ECONNREFUSED; the port stays ours   */
    TCPFAULT_RESET_NEW, /* accepted, then RST                           */
    TCPFAULT_HANG_NEW,  /* accepted, then nothing                       */
} tcpfault_door;

typedef struct tcpfault_counts {
    uint64_t connections; /* accepted                       */
    uint64_t open;        /* of these still known           */
    uint64_t up;          /* bytes passed on to the server  */
    uint64_t down;        /* bytes passed on to the client  */
    uint64_t fired;       /* rules, each time               */
} tcpfault_counts;

typedef struct tcpfault_event {
    int64_t at_ms; /* monotonic                                  */
    int conn;
    tcpfault_dir dir;
    const char *what; /* "open", "close", or the action's name; static */
    uint64_t offset;  /* bytes of the direction before it            */
    int rule;         /* 0: none                                     */
} tcpfault_event;

enum { TCPFAULT_RULES = 64, TCPFAULT_EVENTS = 65536 };

/* Proxy to target, "/a/unix/path" or "127.0.0.1:6379", listening on a random
 * port of 127.0.0.1 or, if given, on that Unix path.  NULL on failure. */
tcpfault *tcpfault_start(const char *target, const char *listen_path);
void tcpfault_stop(tcpfault *f); /* NULL is fine */

int tcpfault_port(const tcpfault *f); /* 0 on a Unix socket */

/* New connections go there from now on.  False if it is no address. */
bool tcpfault_target(tcpfault *f, const char *target);

/* The rule's number, from 1; 0 when the table is full (clear it) or the rule
 * makes no sense.  Rules are tried in the order they were added. */
int tcpfault_rule_add(tcpfault *f, const tcpfault_rule *rule);

/* Remove all rules.  What they did to connections stays. */
void tcpfault_clear(tcpfault *f);

/* Let go what is held. */
void tcpfault_release(tcpfault *f);

/* Cut (orderly or by RST) a connection, or with 0 all, now. */
void tcpfault_drop(tcpfault *f, int conn, bool reset);

void tcpfault_set_door(tcpfault *f, tcpfault_door door);

/* Clients of this IPv4 address are cut off, those that are there and those that
 * come: half open, while all others go on.  NULL: nobody; who was is reset.
 * Servers get an address of their own by bind-source-addr.  False if it is no
 * address. */
bool tcpfault_bar(tcpfault *f, const char *from);

tcpfault_counts tcpfault_count(tcpfault *f);

/* How often a rule fired; 0 for numbers from before the last clear. */
uint64_t tcpfault_fired(tcpfault *f, int rule);

/* Copy at most max events, from number `from` (0: the first).  Returns how
 * many.  The first TCPFAULT_EVENTS are kept. */
size_t tcpfault_events(tcpfault *f, size_t from, tcpfault_event *out,
                       size_t max);

/* "cut", "reset", ... and back; ACTIONS_ if it is no action. */
const char *tcpfault_action_name(tcpfault_action a);
tcpfault_action tcpfault_action_named(const char *name);

#endif
