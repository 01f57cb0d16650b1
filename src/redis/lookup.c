/*
 * lookup.c: name lookup that keeps a deadline.
 *
 * getaddrinfo takes as long as the resolver's configuration says, half a minute
 * and more, and cannot be interrupted.  So a thread calls it, and who asked
 * waits until the deadline and then leaves.  A request lives in one of a fixed
 * number of slots, not in memory of the caller's: the thread may outlast every
 * handle.
 *
 *   FREE -> ASKED -> ANSWERED -> FREE   the asker takes the answer
 *              \---> LEFT -----> FREE   nobody waits; the thread cleans up
 *
 * A numeric address needs no thread.  A forked child has none of the threads,
 * and starts with free slots.
 */
#include "redis/lookup.h"
#include "base/system.h"
#include "base/thread.h"

#include <stdio.h>
#include <string.h>

enum slot_state { FREE, ASKED, ANSWERED, LEFT };

typedef struct slot {
    enum slot_state state;
    int rc;
    struct addrinfo *found;
    char host[LEAT__HOST_MAX + 1], service[8];
} slot;

static slot slots[LEAT__LOOKUPS_MAX];
static pthread_mutex_t lock;
static pthread_cond_t changed; /* a slot was answered, or is free again */

static void reset(void)
{
    pthread_mutex_init(&lock, NULL);
    (void)leat__cond_init(&changed, NULL);
    memset(slots, 0, sizeof slots);
}

__attribute__((constructor)) static void prepare(void)
{
    reset();
    pthread_atfork(NULL, NULL, reset);
}

static int resolve(const char *host, const char *service, int flags,
                   struct addrinfo **out)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = flags | AI_NUMERICSERV };
    *out = NULL;
    return getaddrinfo(host, service, &hints, out);
}

static void *answer(void *arg)
{
    slot *s = arg;
    struct addrinfo *found;
    int rc = resolve(s->host, s->service, 0, &found);

    pthread_mutex_lock(&lock);
    bool left = s->state == LEFT;
    if (!left) {
        s->rc = rc;
        s->found = found;
    }
    s->state = left ? FREE : ANSWERED;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);

    if (left && rc == 0)
        freeaddrinfo(found);
    return NULL;
}

static slot *free_slot_locked(void)
{
    for (size_t i = 0; i < LEAT__LOOKUPS_MAX; i++)
        if (slots[i].state == FREE)
            return &slots[i];
    return NULL;
}

/* Take a slot and start its thread; NULL: none was free in time, or the
 * system has no thread. */
static slot *ask_locked(const char *host, const char *service,
                        int64_t deadline_ns, leat_error *err)
{
    pthread_t thread;
    slot *s;
    while (!(s = free_slot_locked()))
        if (!leat__cond_wait(&changed, &lock, deadline_ns)) {
            leat__fail(err, LEAT_ETIMEOUT,
                       "cannot look up host '%s': %d lookups are under way, "
                       "and none ended in time",
                       host, LEAT__LOOKUPS_MAX);
            return NULL;
        }
    memcpy(s->host, host, strlen(host) + 1);
    memcpy(s->service, service, strlen(service) + 1);
    if (leat__thread_start(&thread, "leat-lookup", answer, s, err) != LEAT_OK)
        return NULL;
    pthread_detach(thread);
    s->state = ASKED;
    return s;
}

/* Wait for the answer, and free the slot or leave it to its thread. */
static leat_code await_locked(slot *s, int64_t deadline_ns, int *rc,
                              struct addrinfo **out, leat_error *err)
{
    while (s->state == ASKED)
        if (!leat__cond_wait(&changed, &lock, deadline_ns))
            break;
    if (s->state == ASKED) {
        s->state = LEFT;
        return leat__fail(err, LEAT_ETIMEOUT,
                          "cannot look up host '%s': no answer in time",
                          s->host);
    }
    *rc = s->rc;
    *out = s->found;
    s->state = FREE;
    pthread_cond_broadcast(&changed);
    return LEAT_OK;
}

static leat_code ask(const char *host, const char *service, int64_t deadline_ns,
                     int *rc, struct addrinfo **out, leat_error *err)
{
    leat_error why = { .code = LEAT_OK };
    pthread_mutex_lock(&lock);
    slot *s = ask_locked(host, service, deadline_ns, &why);
    if (s)
        (void)await_locked(s, deadline_ns, rc, out, &why);
    pthread_mutex_unlock(&lock);
    return leat__error_take(&why, err);
}

leat_code leat__lookup(const char *host, int port, int64_t deadline_ns,
                       struct addrinfo **out, leat_error *err)
{
    char service[8];
    *out = NULL;
    if (strlen(host) > LEAT__HOST_MAX)
        return leat__fail(err, LEAT_ECONN,
                          "cannot look up host '%.32s...': its name is over "
                          "%d bytes",
                          host, LEAT__HOST_MAX);
    snprintf(service, sizeof service, "%d", port);
    int rc = resolve(host, service, AI_NUMERICHOST, out);
    if (rc == EAI_NONAME) {
        leat_code code = ask(host, service, deadline_ns, &rc, out, err);
        if (code != LEAT_OK)
            return code;
    }
    if (rc != 0)
        return leat__fail(err, LEAT_ECONN, "cannot look up host '%s': %s", host,
                          gai_strerror(rc));
    return LEAT_OK;
}
