/*
 * redowl_help.h: redowl queues in a test's words, and another program at them.
 */
#ifndef REDOWL_HELP_H
#define REDOWL_HELP_H

#include "queue_help.h"
#include "support/proc.h"

static __attribute__((unused)) proc *peer;
static char said[2048]; /* its last answer */

/* One of it for all tests, beside the server. */
static inline int start_both(void **state)
{
    if (start_server(state) != 0)
        return -1;
    const char *argv[] = { "python3", REDOWL_PEER, redis_socket(server), NULL };
    peer = proc_start(argv, NULL);
    return peer ? 0 : -1;
}

static inline int stop_both(void **state)
{
    proc_free(peer);
    return stop_server(state);
}

/* Tell the other program to do something, without waiting for the answer. */
static inline void LEAT_PRINTF(1, 2) tell_peer(const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    assert_true(n > 0 && (size_t)n < sizeof line - 1);
    memcpy(line + n, "\n", 2);
    assert_true(proc_write(peer, line));
}

static inline const char *peer_says(void)
{
    if (!proc_line(peer, said, sizeof said, LONG_MS))
        fail_msg("the other program says nothing");
    return said;
}

#define ask_peer(...) (tell_peer(__VA_ARGS__), peer_says())

/* Part i of its last answer, "<id> <receipt> <rc> <body> <attrs>". */
static inline const char *part_of(int i, char *buf, size_t size)
{
    const char *p = said;
    for (; i > 0 && *p; i--) {
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    snprintf(buf, size, "%.*s", (int)strcspn(p, " "), p);
    return buf;
}

/* It forgets what the test before told it. */
static inline int open_owl(void **state)
{
    ask_peer("forget");
    return open_one(state);
}

#define owl_test(name)                                                         \
    cmocka_unit_test_setup_teardown(name, open_owl, close_one)

static inline leat_queue *owl(const char *name, leat_queue_opts o)
{
    o.profile = LEAT_QUEUE_REDOWL;
    return queue_of(name, &o);
}

static inline bool is_hex(leat_bytes b)
{
    const char *p = b.p;
    size_t n = 0;
    while (n < b.n && p[n] != '\0' && strchr("0123456789abcdef", p[n]))
        n++;
    return b.n == 32 && n == b.n;
}

#endif
