/*
 * send.h: lines of stdin as messages, to a topic or a stream.
 */
#ifndef LEAT_CLI_SEND_H
#define LEAT_CLI_SEND_H

#include "cli.h"

#include <pthread.h>
#include <stdatomic.h>

/* What surrounds a body: --max-size speaks of the body. */
#define AROUND  65536
#define ROOM_MS (10 * 60 * 1000) /* messages time out long before */

typedef struct sending sending;

/* Where messages go. */
typedef struct target {
    const char *noun; /* "topic": the name of a column, too */
    /* 0, or an exit code, and said. */
    int (*open)(sending *s);
    /* The outcome comes to on_published. */
    leat_code (*publish)(sending *s, const leat_msg *m, leat_error *err);
    /* All that was accepted gets its outcome. */
    void (*close)(sending *s);
} target;

struct sending {
    cli *c;
    const target *to;
    leat_client *client;
    void *handle;   /* the target's own        */
    leat_msg model; /* what all messages share */
    header_list headers;
    const char *delimiter;
    line_reader in;

    int64_t sent; /* accepted by the library */
    bool show;    /* progress */
    progress bar;

    atomic_llong persisted, failed, unknown; /* by the library's thread */
    pthread_mutex_t lock;
    leat_error first; /* failure, under the lock */
};

leat_published_fn on_published;

/* Send what the words, the file or the lines are; the exit code.  A second
 * argument is the one message. */
int send_messages(cli *c, const target *to);

#endif
