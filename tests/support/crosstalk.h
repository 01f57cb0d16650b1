/*
 * crosstalk.h: many threads share the connections of one client, and every
 * reply is the answer to its own question.
 */
#ifndef SUPPORT_CROSSTALK_H
#define SUPPORT_CROSSTALK_H

#include "support/leat.h"

#include <pthread.h>

enum { CROSSTALK_MOST = 16 };

typedef struct crosstalk {
    leat_client *client;
    int threads; /* up to CROSSTALK_MOST */
    int times;   /* that each of them asks */
    /* Before it gives back what it asked by, for the i-th time; or NULL. */
    void (*after)(leat_conn *conn, int i);
} crosstalk;

struct crosstalk_user {
    const crosstalk *of;
    int id, bad;
    pthread_t thread;
};

static inline void *crosstalk_ask(void *arg)
{
    struct crosstalk_user *u = arg;
    for (int i = 0; i < u->of->times; i++) {
        char text[32];
        const leat_reply *r;
        leat_conn *conn = leat_client_lend(u->of->client, 60000, NULL);
        snprintf(text, sizeof text, "%d:%d", u->id, i);
        leat_code rc = conn ? leat_conn_call(
                                  conn,
                                  LEAT_ARGS(leat_str("ECHO"), leat_str(text)),
                                  NULL, &r, NULL)
                            : LEAT_ECONN;
        u->bad += rc != LEAT_OK ||
                  !leat_bytes_eq(leat_reply_bytes(r), leat_str(text));
        if (conn && u->of->after)
            u->of->after(conn, i);
        leat_client_return(u->of->client, conn);
    }
    return NULL;
}

static inline void assert_no_crosstalk(const crosstalk *of)
{
    struct crosstalk_user u[CROSSTALK_MOST];
    assert_in_range(of->threads, 1, CROSSTALK_MOST);
    for (int i = 0; i < of->threads; i++) {
        u[i] = (struct crosstalk_user){ .of = of, .id = i };
        assert_int_equal(
            pthread_create(&u[i].thread, NULL, crosstalk_ask, &u[i]), 0);
    }
    int bad = 0;
    for (int i = 0; i < of->threads; i++) {
        pthread_join(u[i].thread, NULL);
        bad += u[i].bad;
    }
    assert_int_equal(bad, 0);
}

#endif
