/* worker.c: see worker.h. */
#include "support/worker.h"
#include "support/wait.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Under TSan every exit sleeps a second, and there are many here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

atomic_int worker_stopping;

static void on_term(int sig)
{
    (void)sig;
    worker_stopping = 1;
}

void worker_signals(void)
{
    (void)signal(SIGTERM, on_term);
    (void)signal(SIGPIPE, SIG_IGN);
}

_Noreturn void worker_die(const char *what, const leat_error *e)
{
    fprintf(stderr, "worker %d: %s: %s\n", (int)getpid(), what,
            e ? e->msg : "");
    _exit(1);
}

void worker_again_or_die(const char *what, const leat_error *e, int64_t end_ms)
{
    if (worker_stopping)
        _exit(0);
    /* What may have happened may be asked for again. */
    if ((!e->retriable && e->code != LEAT_EUNKNOWN) || wait_now_ms() > end_ms)
        worker_die(what, e);
    wait_nap(20);
}

void worker_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    fprintf(stderr, "worker %d: %s: %s\n", (int)getpid(),
            leat_level_name(level), line);
}

/* ---- options ---------------------------------------------------------- */

static bool set(const worker_option *options, size_t n, const char *name,
                const char *value)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(options[i].name, name) != 0)
            continue;
        if (options[i].text)
            *options[i].text = value;
        else
            *options[i].number = strtoll(value, NULL, 10);
        return true;
    }
    return false;
}

void worker_parse(const worker_option *options, size_t n, char **words)
{
    for (; *words; words++) {
        char *value = strchr(*words, '=');
        if (!value)
            worker_die(*words, NULL);
        *value++ = '\0';
        if (!set(options, n, *words, value))
            worker_die(*words, NULL);
    }
}

leat_client *worker_dial(const char *url, const worker_link *l)
{
    leat_client_opts opts = { .name = "chaos",
                              .timeout_ms = l->answer,
                              .connect_timeout_ms = l->answer,
                              .max_retry_ms = 100,
                              .durability = (leat_durability)l->durability,
                              .replicas = (int)l->replicas,
                              .log = { worker_log, NULL, (leat_level)l->log } };
    int64_t end = wait_now_ms() + WORKER_OPEN_MS;
    leat_error e = { 0 };
    for (;;) {
        leat_client *c = leat_client_open(url, &opts, &e);
        if (c)
            return c;
        worker_again_or_die("open", &e, end);
    }
}

void worker_say_ready(void)
{
    printf("ready\n");
    (void)fflush(stdout);
}

void worker_write(ledger *book, ledger_kind kind, ledger_record r)
{
    if (!ledger_write(book, kind, r))
        worker_die("the ledger cannot be written", NULL);
}

/* ---- producing -------------------------------------------------------- */

ledger_kind worker_outcome(leat_code rc)
{
    return rc == LEAT_OK         ? LEDGER_ACK
           : rc == LEAT_EUNKNOWN ? LEDGER_UNKNOWN
                                 : LEDGER_FAIL;
}

int64_t worker_delay(uint64_t id, int64_t most)
{
    return (int64_t)(id * UINT64_C(0x9E3779B97F4A7C15) >> 33) % most;
}

static void recall_file(const char *path, uint64_t key, uint64_t keys,
                        uint64_t *last)
{
    ledger_record r;
    FILE *f = fopen(path, "re");
    while (f && fread(&r, sizeof r, 1, f) == 1) {
        uint64_t i = r.key - key;
        if (r.kind == LEDGER_ATTEMPT && r.key >= key && i < keys &&
            r.seq > last[i])
            last[i] = r.seq;
    }
    if (f)
        (void)fclose(f);
}

void worker_recall(const char *dir, const char *role, uint64_t key,
                   uint64_t keys, uint64_t *last)
{
    char path[4096], prefix[80];
    DIR *d = opendir(dir);
    snprintf(prefix, sizeof prefix, "%s.", role);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        recall_file(path, key, keys, last);
    }
    if (d)
        closedir(d);
}

void worker_pace(int64_t start_ns, int64_t rate, int64_t sent)
{
    while (rate && !worker_stopping &&
           (wait_now_ns() - start_ns) * rate / 1000000000 < sent)
        wait_nap(1);
}

/* ---- fates ------------------------------------------------------------ */

worker_fate worker_fate_of(const worker_fates *f, uint64_t id, uint32_t *times)
{
    uint64_t luck = id * UINT64_C(0x9E3779B97F4A7C15);
    int64_t n = (int64_t)((luck >> 40) % 1000);
    *times = (uint32_t)(1 + (luck >> 20 & 0xfffff) %
                                (uint64_t)(f->max > 1 ? f->max - 1 : 1));
    const struct {
        int64_t of;
        worker_fate is;
    } fates[] = { { f->poison, WORKER_POISON },
                  { f->flaky, WORKER_FLAKY },
                  { f->reject, WORKER_REJECTED },
                  { f->crash, WORKER_CRASHER } };
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        if (n < fates[i].of)
            return fates[i].is;
        n -= fates[i].of;
    }
    return WORKER_PLAIN;
}
