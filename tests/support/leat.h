/*
 * leat.h: the library in a test's words.  A failure fails the test at the
 * caller's line with the error's text.
 */
#ifndef SUPPORT_LEAT_H
#define SUPPORT_LEAT_H

#include "support/redis.h"
#include "support/wait.h"

#include <dirent.h>
#include <leat/leat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define must(call)                                                             \
    do {                                                                       \
        leat_error must_e_ = { 0 };                                            \
        leat_error *err = &must_e_;                                            \
        leat_code must_rc_ = (call);                                           \
        if (must_rc_ != LEAT_OK)                                               \
            fail_msg("%s: %s: %s", #call, leat_code_name(must_rc_),            \
                     must_e_.msg);                                             \
    } while (0)

/* A command from the side whose reply does not matter. */
#define redis_do(...) freeReplyObject(redis_raw(__VA_ARGS__))

/* A client of this server, with options; the test fails if it cannot. */
#define open_client(url, ...)                                                  \
    open_client_at(__FILE__, __LINE__, url, __VA_ARGS__)

static inline leat_client *open_client_at(const char *file, int line,
                                          const char *url,
                                          const leat_client_opts *opts)
{
    leat_error e = { 0 };
    leat_client *c = leat_client_open(url, opts, &e);
    if (!c) {
        print_error("cannot open a client: %s: %s\n", leat_code_name(e.code),
                    e.msg);
        _fail(file, line);
    }
    return c;
}

static inline leat_conn *lend(leat_client *c)
{
    leat_error e = { 0 };
    leat_conn *conn = leat_client_lend(c, 5000, &e);
    if (!conn)
        fail_msg("cannot lend: %s: %s", leat_code_name(e.code), e.msg);
    return conn;
}

#define assert_text(r, text)                                                   \
    do {                                                                       \
        leat_bytes text_ = leat_reply_bytes(r);                                \
        assert_int_equal(text_.n, strlen(text));                               \
        assert_memory_equal(text_.p, text, text_.n);                           \
    } while (0)

#define assert_code(got, want)                                                 \
    assert_string_equal(leat_code_name(got), leat_code_name(want))

/* The number that a body is; bodies do not end with a zero. */
static inline int body_number(const leat_delivery *d)
{
    leat_bytes body = leat_delivery_msg(d)->body;
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)body.n, (const char *)body.p);
    return (int)strtol(text, NULL, 10);
}

/* How many file descriptors this process has open. */
static inline int open_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

#endif
