/* failpoint.c: see failpoint.h. */
#include "support/failpoint.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POINTS = 8 };

typedef struct point {
    char name[48];
    char what; /* k s e */
    unsigned at;
    atomic_uint passes;
} point;

static point points[POINTS];
static int npoints;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void bad(const char *text)
{
    fprintf(stderr, "LEAT_FAILPOINT: '%s' is not name:kill|stop|exit@N\n",
            text);
    abort();
}

/* One "name:what@N".  A misspelt one must not pass as a test without faults. */
static void parse(char *text)
{
    point *p = &points[npoints];
    char *what = strchr(text, ':');
    if (!what || npoints == POINTS || (size_t)(what - text) >= sizeof p->name) {
        bad(text);
        return;
    }
    *what++ = '\0';
    char *at = strchr(what, '@');
    if (at)
        *at++ = '\0';
    if (strcmp(what, "kill") != 0 && strcmp(what, "stop") != 0 &&
        strcmp(what, "exit") != 0)
        bad(text);
    snprintf(p->name, sizeof p->name, "%s", text);
    p->what = what[0];
    p->at = at ? (unsigned)strtoul(at, NULL, 10) : 1;
    npoints++;
}

static void load(void)
{
    static char all[1024];
    const char *env = getenv("LEAT_FAILPOINT");
    if (!env || !*env)
        return;
    snprintf(all, sizeof all, "%s", env);
    char *rest = all;
    for (char *one; (one = strsep(&rest, ",")) != NULL;)
        parse(one);
}

void failpoint(const char *name)
{
    pthread_once(&once, load);
    for (int i = 0; i < npoints; i++) {
        point *p = &points[i];
        if (strcmp(p->name, name) != 0 ||
            atomic_fetch_add(&p->passes, 1) + 1 != p->at)
            continue;
        if (p->what == 'e')
            _exit(FAILPOINT_EXIT);
        /* To this thread, which does not go on then: a signal to the process
         * may stop another one first. */
        (void)raise(p->what == 'k' ? SIGKILL : SIGSTOP);
    }
}
