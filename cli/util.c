/*
 * util.c: memory, time, files and signals of the command.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t stop_signal;
volatile sig_atomic_t signals_ask;
void (*volatile last_words)(void);

static void *grabbed(void *p)
{
    if (!p) {
        fputs("leat: out of memory\n", stderr);
        _exit(EXIT_TRY_AGAIN);
    }
    return p;
}

void *grab(size_t n)
{
    return grabbed(calloc(1, n ? n : 1));
}

void *regrab(void *p, size_t n)
{
    return grabbed(realloc(p, n ? n : 1));
}

char *copy_n(const char *s, size_t n)
{
    char *p = grab(n + 1);
    if (n)
        memcpy(p, s, n);
    return p;
}

char *copy(const char *s)
{
    return copy_n(s, strlen(s));
}

char *format(const char *fmt, ...)
{
    char *p = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&p, fmt, ap) < 0)
        p = NULL;
    va_end(ap);
    return grabbed(p);
}

const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void sleep_ms(int64_t ms)
{
    struct timespec t = { .tv_sec = (time_t)(ms / 1000),
                          .tv_nsec = (long)(ms % 1000) * 1000000 };
    if (!stop_signal)
        nanosleep(&t, NULL);
}

/* Make the directory and those above it, private; a failure shows when it is
 * used. */
void make_dirs(const char *path)
{
    char *p = copy(path);
    for (char *s = p + 1; *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        (void)mkdir(p, 0700);
        *s = '/';
    }
    (void)mkdir(p, 0700);
    free(p);
}

/* $variable/rest, or $HOME/below_home/rest; NULL where neither is set.  A
 * relative $XDG_... is to be ignored, says their specification. */
char *home_path(const char *variable, const char *below_home, const char *rest)
{
    const char *base = getenv(variable);
    if (base && base[0] == '/')
        return format("%s/%s", base, rest);
    const char *home = getenv("HOME");
    if (!home || home[0] != '/')
        return NULL;
    return format("%s/%s/%s", home, below_home, rest);
}

char *slurp(int fd, size_t limit, size_t *n)
{
    size_t room = 4096, len = 0;
    char *p = grab(room);
    for (;;) {
        ssize_t got = read(fd, p + len, room - len - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            goto fail;
        if (got == 0)
            break;
        len += (size_t)got;
        if (len > limit) {
            errno = EFBIG;
            goto fail;
        }
        if (room - len < 2)
            p = regrab(p, room *= 2);
    }
    p[len] = '\0';
    *n = len;
    return p;

fail:
    free(p);
    return NULL;
}

/* Take ".789" off the front; what is beyond milliseconds is ignored. */
static int64_t fraction(const char **s)
{
    int64_t ms = 0;
    int digits = 0;
    if (**s != '.')
        return 0;
    for (++*s; **s >= '0' && **s <= '9'; ++*s, digits++)
        ms = digits < 3 ? ms * 10 + (**s - '0') : ms;
    for (; digits > 0 && digits < 3; digits++)
        ms *= 10;
    return ms;
}

/* "Z" or "+01:00" in seconds. */
static bool zone(const char *s, int64_t *out)
{
    char *end = NULL;
    *out = 0;
    if (strcmp(s, "Z") == 0)
        return true;
    if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':')
        return false;
    long hours = strtol(s + 1, &end, 10);
    if (end != s + 3)
        return false;
    long minutes = strtol(s + 4, &end, 10);
    *out = (hours * 60 + minutes) * (*s == '-' ? -60 : 60);
    return *end == '\0' && hours >= 0 && minutes >= 0;
}

/* What stands behind the seconds; without a zone it is the local time. */
static bool rest_of_time(const char *s, struct tm *tm, int64_t *ms)
{
    int64_t part = fraction(&s), off = 0;
    tm->tm_isdst = -1;
    if (*s != '\0' && !zone(s, &off))
        return false;
    time_t at = *s != '\0' ? timegm(tm) : mktime(tm);
    *ms = ((int64_t)at - off) * 1000 + part;
    return at > 0;
}

bool time_parse(const char *text, int64_t *ms)
{
    static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S",
                                         "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                                         "%Y-%m-%d" };
    char *end = NULL;
    if (text[0] == '@') {
        *ms = strtoll(text + 1, &end, 10);
        return end > text + 1 && *end == '\0' && *ms > 0;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct tm tm = { 0 };
        end = strptime(text, forms[i], &tm);
        if (end && (i < 3 || *end == '\0'))
            return rest_of_time(end, &tm, ms);
    }
    return false;
}

/* The first signal asks, the second ends at once. */
static void on_signal(int number)
{
    if (stop_signal || !signals_ask) {
        if (last_words)
            last_words();
        _exit(EXIT_SIGNAL + number);
    }
    stop_signal = number;
}

/* What was ignored when we were started (nohup, a job of a script) stays so. */
static void catch_signal(int number, const struct sigaction *a)
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, a, NULL);
}

void catch_signals(void)
{
    struct sigaction a = { .sa_handler = on_signal };
    sigemptyset(&a.sa_mask);
    catch_signal(SIGINT, &a);
    catch_signal(SIGTERM, &a);
    catch_signal(SIGHUP, &a);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
}

/* Started without stdout, the first socket would get its number, and results
 * would be sent to the server.  Opened the wrong way round, each fails as a
 * closed one does. */
void occupy_standard_files(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == 1 ? O_RDONLY : O_WRONLY);
}
