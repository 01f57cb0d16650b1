/*
 * cmd_demo_sweep.c: what a demo that was killed left behind.
 *
 *   <tmp>/leat-demo-XXXXXX/leader   locked by the process that leads, while it
 *                                   lives; holds the pid of its server
 *
 * After kill -9 the kernel ends the workers and the server ends by itself, but
 * the directory stays.  The next demo finds a leader that is not locked, waits
 * for the server or ends it, and removes the directory.  Who has the lock
 * removes: two that sweep at once do not get in each other's way.
 */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "leat-demo-"

enum {
    STOP_MS = 15000, /* for the server to end                        */
    YOUNG_S = 60,    /* without a leader it may be about to get one  */
    PATH = 4096
};

static int open_leader(const char *dir, int flags)
{
    char *path = format("%s/leader", dir);
    int fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(path);
    return fd;
}

/* Unlike flock, it does not pass to the workers that are forked. */
static bool lock(int fd)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    return fcntl(fd, F_SETLK, &l) == 0;
}

int demo_lead(const char *dir)
{
    int fd = open_leader(dir, O_CREAT | O_EXCL);
    if (fd >= 0 && lock(fd))
        return fd;
    (void)fail(EXIT_IO, NULL, "%s/leader: %m", dir);
    if (fd >= 0)
        close(fd);
    return -1;
}

void demo_lead_server(int fd, long pid)
{
    (void)!dprintf(fd, "%ld\n", pid);
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

/* The server ends after its last user: wait, or it writes into what is being
 * removed. */
void demo_clean_up(const char *dir, long server)
{
    if (server > 0 && !wait_gone(server, STOP_MS))
        hint("process %ld still runs in %s", server, dir);
    for (int i = 0; i < 100 && access(dir, F_OK) == 0; i++) {
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        struct timespec t = { .tv_nsec = 10000000 };
        if (access(dir, F_OK) == 0)
            nanosleep(&t, NULL);
    }
    if (access(dir, F_OK) == 0)
        hint("could not remove %s", dir);
}

/* A pid may be another's by now: is this one at work in the directory? */
static bool works_in(long pid, const char *dir)
{
    char *name = format("/proc/%ld/cmdline", pid), text[PATH];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    free(name);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    for (ssize_t i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, dir) != NULL;
}

static long read_server(int fd, const char *dir)
{
    char text[32] = "";
    (void)!pread(fd, text, sizeof text - 1, 0);
    long pid = strtol(text, NULL, 10);
    return pid > 1 && works_in(pid, dir) ? pid : 0;
}

/* It would have ended by itself by now. */
static void end_server(long pid, const char *dir)
{
    if (pid > 0 && !wait_gone(pid, STOP_MS) && works_in(pid, dir))
        (void)kill((pid_t)pid, SIGTERM);
}

static void sweep_one(const char *dir)
{
    struct stat st;
    if (lstat(dir, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return;
    int fd = open_leader(dir, 0);
    bool dead = fd >= 0 ? lock(fd)
                        : errno == ENOENT && st.st_mtime + YOUNG_S < time(NULL);
    if (dead) {
        long server = fd >= 0 ? read_server(fd, dir) : 0;
        end_server(server, dir);
        demo_clean_up(dir, server);
        hint("removed %s, left by a demo that was killed", dir);
    }
    if (fd >= 0)
        close(fd);
}

void demo_sweep(const char *base)
{
    DIR *all = opendir(base);
    if (!all)
        return;
    for (struct dirent *e; (e = readdir(all));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        char *dir = format("%s/%s", base, e->d_name);
        sweep_one(dir);
        free(dir);
    }
    closedir(all);
}
