/*
 * cmd_demo_poison.c: the order of leat demo that nobody can handle.
 *
 * Its handler fails as long as there is a bug, which is a file that is not
 * there.  So it is tried, put by, tried again, and in the end a dead letter,
 * while the orders of other customers flow.  Then the bug is fixed and the dead
 * letter replayed.  What is shown on the way is what 'leat dlq' shows.
 */
#include "demo.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char *path_of(const char *dir)
{
    return format("%s/fixed", dir);
}

bool demo_is_fixed(const char *dir)
{
    char *path = path_of(dir);
    bool is = access(path, F_OK) == 0;
    free(path);
    return is;
}

static leat_dlq *open_dlq(const demo_poisoned *p)
{
    leat_error err = { 0 };
    leat_dlq *d = leat_dlq_open(p->client, DEMO_TOPIC,
                                &(leat_dlq_opts){ .prefix = p->prefix }, &err);
    if (!d)
        fail_with("the dead letters of " DEMO_TOPIC, &err, NULL);
    return d;
}

/* ---- looking ---------------------------------------------------------- */

static void show(const leat_dead *x)
{
    char *id = printable(x->msg->id.p, x->msg->id.n);
    char *key = printable(x->msg->key.p, x->msg->key.n);
    char *why = printable(x->error.p, x->error.n);
    note("  %s  %s  %s of %s  %u attempts: %s", x->id, x->group, id, key,
         x->attempts, why);
    free(id);
    free(key);
    free(why);
}

/* How many there are; -1: failed, and said. */
static int64_t list(const demo_poisoned *p, bool shown)
{
    leat_error err = { 0 };
    leat_dead x;
    int64_t n = 0;
    int more = -1;
    leat_dlq *d = open_dlq(p);
    leat_dlq_walk *w = d ? leat_dlq_walk_open(d, NULL, &err) : NULL;
    while (w && (more = leat_dlq_walk_next(w, &x, &err)) == 1) {
        n++;
        if (shown && x.msg_count > 0)
            show(&x);
    }
    if (d && more < 0)
        fail_with("the dead letters of " DEMO_TOPIC, &err, NULL);
    leat_dlq_walk_close(w);
    leat_dlq_close(d);
    return more < 0 ? -1 : n;
}

bool demo_poison_dead(demo_poisoned *p, const demo_ledger *l)
{
    if (p->dead > 0)
        return true;
    if (l->tried < DEMO_TRIES)
        return false;
    int64_t n = list(p, false);
    if (n <= 0)
        return false;
    p->dead = n;
    note("order %lld failed %d times and is a dead letter; leat dlq "
         "ls " DEMO_TOPIC ":",
         (long long)p->number, DEMO_TRIES);
    (void)list(p, true);
    return true;
}

/* ---- mending ---------------------------------------------------------- */

static int fix(const demo_poisoned *p)
{
    char *path = path_of(p->dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int code = fd < 0 ? fail(EXIT_IO, NULL, "%s: %m", path) : 0;
    if (fd >= 0)
        close(fd);
    free(path);
    return code;
}

int demo_poison_fix(demo_poisoned *p)
{
    leat_error err = { 0 };
    leat_dlq_sum sum = { 0 };
    int code = fix(p);
    if (code)
        return code;
    p->fixed = true;
    leat_dlq *d = open_dlq(p);
    if (!d)
        return EXIT_NO;
    if (leat_dlq_replay_all(d, &(leat_dead_filter){ .group = DEMO_GROUP }, NULL,
                            &sum, &err) != LEAT_OK)
        code = fail_with("replay", &err, NULL);
    else
        note("the bug is fixed; leat dlq replay " DEMO_TOPIC
             " --all: %llu replayed",
             (unsigned long long)sum.done);
    leat_dlq_close(d);
    return code;
}

int demo_poison_end(demo_poisoned *p)
{
    p->left = list(p, false);
    return p->left < 0 ? EXIT_NO : 0;
}
