/*
 * client.h: the client of a test, of its own, at `url`.
 *
 * Which url that is, and that what is there is empty, is the matter of the
 * fixtures that include this: server.h, proxy.h and rig.h.
 */
#ifndef SUPPORT_CLIENT_H
#define SUPPORT_CLIENT_H

#include "support/leat.h"

/* For an answer; 0: as long as the library gives it. */
#ifndef CLIENT_TIMEOUT_MS
#define CLIENT_TIMEOUT_MS 0
#endif

static char url[256];
static __attribute__((unused)) leat_client *client;

static inline int open_at_url(void)
{
    client = open_client(
        url, &(leat_client_opts){ .timeout_ms = CLIENT_TIMEOUT_MS });
    return 0;
}

static inline int close_one(void **state)
{
    (void)state;
    leat_client_close(client);
    client = NULL;
    return 0;
}

#endif
