/*
 * topic_memory.c: a consumer's memory does not follow the backlog.
 *
 * One process reads a topic with nothing in it, another one with a million
 * messages: it takes as many as it may have in flight, settles none until no
 * more come, and then works on.  The difference of what was resident at most is
 * what the messages cost.
 */
#include "topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BACKLOG = 1000000, IN_FLIGHT = 1000, MORE = 100000 };

/* The bytes of 1000 messages of 100 are 0.2 MB; beside them stand what was
 * decoded of them, receive buffers and the places of the window. */
#define LIMIT_MIB 4.0

/* Take all that may be in flight, and then settle it. */
static bool fill_up(leat_source *s)
{
    leat_delivery *d[2 * IN_FLIGHT];
    leat_error e;
    int n = 0, more;
    do {
        more = leat_source_receive(s, d + n, 2 * IN_FLIGHT - n, 2000, &e);
        n += more > 0 ? more : 0;
    } while (more > 0 && n < 2 * IN_FLIGHT);
    for (int i = 0; i < n; i++)
        if (leat_delivery_ack(d[i]) != LEAT_OK)
            return false;
    return more == 0 && n <= IN_FLIGHT;
}

static bool work_with(const work *w, const char *name, bool empty)
{
    int64_t start;
    leat_error e;
    leat_client *c = open_client(w);
    leat_topic *t = open_topic(c, name, 1);
    leat_topic_source_opts o = { .max_in_flight = IN_FLIGHT };
    leat_source *s = t ? leat_topic_source(t, "g", &o, &e) : NULL;
    bool ok = s && fill_up(s) && (empty || consume(s, MORE, &start));
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    return ok;
}

/* What was resident at most of this process, in MiB. */
static double high_water(void)
{
    char line[128];
    double kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtod(line + 6, NULL);
    if (f)
        fclose(f);
    return kib / 1024;
}

int topic_memory_main(const char *socket, const char *name, bool empty)
{
    work w = { .socket = socket, .payload = 100 };
    snprintf(w.url, sizeof w.url, "unix://%s", socket);
    bool ok = work_with(&w, name, empty);
    printf("%.3f\n", ok ? high_water() : -1);
    return ok ? 0 : 1;
}

/* The same of a new process that does that, which says it by this pipe. */
static pid_t start(const work *w, const char *name, bool empty, int out)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    dup2(out, STDOUT_FILENO);
    execl(w->argv0, w->argv0, "--memory", w->socket, name,
          empty ? "empty" : "full", (char *)NULL);
    _exit(127);
}

static double resident(const work *w, const char *name, bool empty)
{
    char text[64] = "";
    int fd[2], status = 1;
    if (pipe(fd) != 0)
        return -1;
    pid_t pid = start(w, name, empty, fd[1]);
    close(fd[1]);
    ssize_t n = read(fd[0], text, sizeof text - 1);
    close(fd[0]);
    bool ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return ok && n > 0 ? strtod(text, NULL) : -1;
}

bool topic_memory(work *w)
{
    w->payload = 100;
    fprintf(stderr, "topic.memory: a backlog of %d\n", BACKLOG);
    bool ok = backlog(w, "empty", 1, 0) && backlog(w, "full", 1, BACKLOG);
    double none = ok ? resident(w, "empty", true) : -1;
    double full = ok ? resident(w, "full", false) : -1;
    if (none < 0 || full < 0)
        return bench_count("topic.memory", "MiB", -1, NULL, 0, LIMIT_MIB);
    double grown = full > none ? full - none : 0.001;
    return bench_count("topic.memory", "MiB", grown, "empty", none, LIMIT_MIB);
}
