/*
 * badredis.h: a server that says what no real one would.
 *
 *   static const badredis_step half[] = {
 *       { .command = "XADD", .send = "$20\r\n17000", .then = BADREDIS_CLOSE },
 *   };
 *   badredis *b = badredis_start(&(badredis_opts){
 *       .handshake = true, .steps = half, .nsteps = 1 });
 *   ...
 *   assert_int_equal(badredis_count(b, "XADD"), 1);      never sent twice
 *
 * Each connection runs the script from its first step: wait for what the step
 * expects, sleep, send, and then what `then` says.  After the last step the
 * connection stays open and is read; commands of the handshake are answered
 * there too if asked for, others by `rest`, or never.
 *
 * Threads: shared.
 */
#ifndef SUPPORT_BADREDIS_H
#define SUPPORT_BADREDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum badredis_then {
    BADREDIS_NEXT,   /* the next step                                     */
    BADREDIS_CLOSE,  /* FIN                                               */
    BADREDIS_RESET,  /* RST; on a Unix socket a plain close               */
    BADREDIS_HOLD,   /* stay, read, never say a word                      */
    BADREDIS_STALL,  /* stay, not even read                               */
    BADREDIS_REPEAT, /* send the same again, for ever, until it is closed */
    BADREDIS_LOOP,   /* from the first step                               */
} badredis_then;

/* What is expected counts from the end of the step before; of several the
 * first that is not zero holds; nothing: go on at once. */
typedef struct badredis_step {
    const char *command; /* wait for one of this name, pass over others    */
    size_t commands;     /* wait for so many, whatever they are            */
    size_t bytes;        /* wait for so many                               */
    int sleep_ms;        /* then, before sending                           */
    const void *send;
    size_t len;  /* 0: send is a string        */
    int slow_ms; /* between single bytes; 0: at once */
    badredis_then then;
} badredis_step;

typedef struct badredis_reply {
    const char *command;
    const char *reply; /* whole RESP, a string */
} badredis_reply;

typedef struct badredis_opts {
    const char *path; /* Unix socket; NULL: a random port of 127.0.0.1 */
    bool handshake;   /* answer HELLO AUTH CLIENT SELECT INFO COMMAND PING
                         ROLE CONFIG by itself until another command comes */
    const char *info; /* the text of INFO; NULL: a 7.0.15 master           */
    const badredis_reply *replies; /* go before the built-in handshake,
                                      whatever the command; ends with NULL  */
    const badredis_step *steps;    /* copied; the strings of all of these
                                      are borrowed until badredis_stop     */
    size_t nsteps;
    int conn;         /* only this connection, from 1, runs the script; the
                         others begin after its end; 0: all                 */
    const char *rest; /* reply to each command after the script; NULL: none */
} badredis_opts;

typedef struct badredis badredis;

enum { BADREDIS_CONNS = 256, /* open at a time */ BADREDIS_TEXT = 1024 };

badredis *badredis_start(const badredis_opts *opts); /* NULL on failure */
void badredis_stop(badredis *b);                     /* NULL is fine    */

int badredis_port(const badredis *b); /* 0 on a Unix socket */

/* "redis://127.0.0.1:port" or "unix://path". */
char *badredis_url(const badredis *b, char *buf, size_t size);

/* How many connections came; commands of this name (any case), NULL: all. */
int badredis_connections(badredis *b);
size_t badredis_count(badredis *b, const char *command);

/* The i-th command received, from 0, in the order they were complete: its
 * words with spaces between them, bytes outside ASCII as \xNN, cut to
 * BADREDIS_TEXT.  False if there is none.  conn, if given: whose. */
bool badredis_seen(badredis *b, size_t i, char *buf, size_t size, int *conn);

/* True when the script has been run to its last step by any connection. */
bool badredis_done(badredis *b);

#endif
