/*
 * replies_run.h: answers of the wrong shape, one in each run of a workout.
 *
 * Each run is a process of its own: it does all a user does to topics, queues,
 * pools, streams and dead letters, and one reply of the server's, which one and
 * how by the seed, is changed on its way.  Every call may fail.  What must not
 * be is a crash, a report of a sanitizer, or a call that does not return.
 */
#ifndef REPLIES_RUN_H
#define REPLIES_RUN_H

#include "support/leat.h"
#include "support/mutate_wire.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
    WORKOUT_MS = 250, /* of an answer: one may have been dropped           */
    RUN_MS = 90000,   /* a run that takes longer hangs, however busy it is */
    RUNS = 1200,
    LANES = 8
};

static mutate *harm; /* in the process of a run */

/* From here on a reply may be changed; what is before prepares. */
static void begin(void)
{
    atomic_store(&harm->on, true);
}

static void prepared(bool ok)
{
    if (harm->at == 0 && !ok)
        exit(2); /* nothing to do proves nothing */
}

static char urls[4][512]; /* of each place */

static const char *work_url(int place)
{
    return urls[place];
}

#include "support/workout.h"

/* LEAT_RECORD=DIRECTORY: the replies of a section as an input of the fuzzer of
 * replies, behind the section's number. */
static void record(const struct section *s)
{
    char path[512], number = (char)(s - sections);
    const char *dir = getenv("LEAT_RECORD");
    if (!dir)
        return;
    snprintf(path, sizeof path, "%s/%s", dir, s->name);
    harm->record_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_int_equal(write(harm->record_fd, &number, 1), 1);
    static leat_system sys;
    sys = *leat_system_default();
    sys.random = mutate_random;
    leat_system_set(&sys);
}

/* ---- several at once, as they mostly wait ----------------------------- */

/* A process, with a database of its own. */
static struct lane {
    pid_t pid;
    int64_t since_ms;
    const struct section *section;
    mutate *harm; /* shared with it */
} lanes[LANES];

static int64_t now_ms(void)
{
    return leat_system_default()->monotonic_ns(NULL) / 1000000;
}

/* A cluster has only one, which all share. */
static void own_database(place at, int number)
{
    char *u = urls[at], *end = u + strlen(u);
    if (at != CLUSTER)
        snprintf(end, sizeof urls[at] - (size_t)(end - u), "%cdb=%d",
                 strchr(u, '?') ? '&' : '?', number);
}

static void start(struct lane *l, const struct section *s, unsigned at,
                  unsigned seed)
{
    *l->harm = (mutate){ .at = at, .seed = seed };
    l->section = s;
    l->since_ms = now_ms();
    fflush(NULL);
    l->pid = fork();
    assert_true(l->pid >= 0);
    if (l->pid > 0)
        return;
    for (int i = 0; i < 5; i++) /* cmocka's would run its tests on */
        signal((int[]){ SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }[i], SIG_DFL);
    harm = l->harm;
    own_database(s->place, (int)(l - lanes));
    mutate_install(harm);
    if (l->harm->at == 0)
        record(s);
    work(s);
    exit(0);
}

/* Has it ended?  The test fails if it crashed, hangs or was reported. */
static bool ended(struct lane *l)
{
    int status = 0;
    const char *how = NULL;
    if (waitpid(l->pid, &status, WNOHANG) == 0) {
        if (now_ms() - l->since_ms < RUN_MS)
            return false;
        how = "it hangs";
        kill(l->pid, SIGKILL);
        (void)waitpid(l->pid, NULL, 0);
    }
    l->pid = 0;
    if (!how && status != 0)
        how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit";
    if (how)
        fail_msg("%s\n  was %s\n  is  %s\n  again: LEAT_REPLIES='%s %u %u'",
                 how, l->harm->was, l->harm->is, l->section->name, l->harm->at,
                 l->harm->seed);
    return true;
}

/* One that is free. */
static struct lane *free_lane(void)
{
    for (;;) {
        for (int i = 0; i < LANES; i++)
            if (lanes[i].pid == 0 || ended(&lanes[i]))
                return &lanes[i];
        usleep(2000);
    }
}

static void wait_all(void)
{
    for (int i = 0; i < LANES; i++)
        while (lanes[i].pid != 0 && !ended(&lanes[i]))
            usleep(2000);
}

static unsigned next_random(unsigned *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

/* LEAT_REPLIES="section reply seed" repeats one run. */
static bool repeated(void)
{
    const char *again = getenv("LEAT_REPLIES");
    char name[16];
    unsigned at, seed;
    if (!again || sscanf(again, "%15s %u %u", name, &at, &seed) != 3)
        return false;
    for (size_t i = 0; i < SECTIONS; i++)
        if (strcmp(sections[i].name, name) == 0)
            start(&lanes[0], &sections[i], at, seed);
    wait_all();
    return true;
}

/* Every reply of the sections of a place may be the one, for so long. */
static void lie_at(place at, int64_t ms)
{
    const char *text = getenv("LEAT_SEED");
    const struct section *here[SECTIONS];
    unsigned replies[SECTIONS],
        random = text ? (unsigned)strtoul(text, NULL, 10) : 20261;
    size_t n = 0;
    int done = 0;
    if (repeated())
        return;
    for (size_t i = 0; i < SECTIONS; i++) {
        if (sections[i].place != at)
            continue;
        start(&lanes[0], &sections[i], 0, 0);
        wait_all();
        here[n] = &sections[i];
        replies[n] = atomic_load(&lanes[0].harm->count);
        print_message("# %s: %u replies\n", sections[i].name, replies[n]);
        assert_true(replies[n++] > 3);
    }
    for (int64_t end = now_ms() + ms; done < RUNS && now_ms() < end; done++) {
        size_t i = (size_t)done % n;
        unsigned which = 1 + next_random(&random) % replies[i];
        start(free_lane(), here[i], which, next_random(&random));
    }
    wait_all();
    print_message("# %d runs\n", done);
}

static bool share_harm(void)
{
    mutate *shared = mmap(NULL, LANES * sizeof *shared, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; shared != MAP_FAILED && i < LANES; i++)
        lanes[i].harm = shared + i;
    return shared != MAP_FAILED;
}

#endif
