/* server.c: see server.h. */
#include "server.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A server program that is the real one under callgrind. */
static bool write_wrapper(const char *path, const char *out)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    fprintf(f,
            "#!/bin/sh\n"
            "for p in \"$REAL_SERVER\" redis-server valkey-server "
            "redis-check-rdb; do\n"
            "    p=$(command -v \"${p:-none}\") && break\n"
            "done\n"
            "d=$(dirname \"$0\")\n"
            "ln -sf \"$p\" \"$d/redis-server\"\n"
            "exec valgrind -q --tool=callgrind --callgrind-out-file=%s "
            "\"$d/redis-server\" \"$@\"\n",
            out);
    return fclose(f) == 0 && chmod(path, 0700) == 0;
}

bool server_count_anew(redis_server *s)
{
    char pid[16];
    int status = 0;
    snprintf(pid, sizeof pid, "%d", redis_pid(s));
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(2, 1); /* stdout is the bench's */
        execlp("callgrind_control", "callgrind_control", "-z", pid,
               (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* The server's instructions from its start to its end; negative: failed. */
static double run_once(server_fn *once, void *arg, int n, const char *out)
{
    /* What the server does by the clock is no message's. */
    static const char *const config[] = { "hz 1", NULL };
    redis_server *s = redis_start(
        &(redis_opts){ .start_ms = 60000, .config = config });
    if (!s)
        return -1;
    bool ok = once(s, arg, n);
    redis_shutdown(s);
    redis_stop(s);
    double total = ok ? bench_callgrind_total(out) : -1;
    if (getenv("BENCH_KEEP"))
        fprintf(stderr, "%s\n", out);
    else
        unlink(out);
    return total;
}

static double cost(server_fn *once, void *arg, int n, const char *out)
{
    double one = run_once(once, arg, n, out);
    double three = run_once(once, arg, 3 * n, out);
    return one < 0 || three < 0 ? -1 : (three - one) / (2.0 * n);
}

double server_instructions(server_fn *once, void *arg, int n)
{
    char dir[] = "/tmp/leat-bench-XXXXXX", path[64], out[64], link[64];
    char real[4096];
    const char *given = getenv("LEAT_REDIS_SERVER");
    double each = -1;
    snprintf(real, sizeof real, "%s", given ? given : "");
    setenv("REAL_SERVER", real, 1);
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/run", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(link, sizeof link, "%s/redis-server", dir);
    if (write_wrapper(path, out)) {
        setenv("LEAT_REDIS_SERVER", path, 1);
        each = cost(once, arg, n, out);
    }
    setenv("LEAT_REDIS_SERVER", real, 1);
    unlink(path);
    unlink(link);
    (void)rmdir(dir); /* unless something is kept */
    return each;
}
