/*
 * topic_member.c: a member of a group as a process, to be killed by a test.
 *
 *   topic_member URL TOPIC GROUP ORDER NAME MODE [ATTEMPTS THREADS]
 *
 * ORDER is a number of leat_order; NAME "-" is none; ATTEMPTS is how often a
 * message is handed out before it is a dead letter, else no limit.  MODE:
 *
 *   handle   run a handler that writes "BODY ATTEMPT" and acknowledges; at the
 *            body "poison" it writes that and dies by SIGKILL
 *   cured    the same, but nothing kills it
 *   led      do what stdin says, and answer each with a line:
 *
 *     own        "ok" once the partition is ours
 *     take       the next delivery, "BODY ATTEMPT"
 *     ack N      "ok"; N counts the deliveries taken, from 0
 *     nack N     "ok"; without delay
 *     flush      "ok", once the server has taken what was settled
 *
 * It ends with its input.
 */
#include "support/wait.h"

#include <leat/leat.h>
#include <leat/topic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEASE_MS = 1000, LONG_MS = 60000, MOST = 64 };

static leat_source *source;
static leat_delivery *taken[MOST];
static int taken_n;

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

/* In one write, so that it is out before a kill. */
static void say_delivery(const leat_delivery *d)
{
    char line[128];
    leat_bytes body = leat_delivery_msg(d)->body;
    snprintf(line, sizeof line, "%.*s %u", (int)body.n, (const char *)body.p,
             leat_delivery_attempt(d));
    say(line);
}

/* ---- handlers --------------------------------------------------------- */

static leat_verdict handle(leat_ctx *x, void *deadly)
{
    leat_bytes body = leat_ctx_msg(x)->body;
    say_delivery(leat_ctx_delivery(x));
    if (deadly && leat_bytes_eq(body, leat_str("poison")))
        kill(getpid(), SIGKILL);
    return LEAT_ACK;
}

static int run(bool deadly, int threads)
{
    leat_error err = { 0 };
    static bool yes = true;
    leat_run *r = leat_run_start(source, handle, deadly ? &yes : NULL,
                                 &(leat_run_opts){ .threads = threads }, &err);
    if (!r) {
        fprintf(stderr, "cannot run: %s\n", err.msg);
        return 1;
    }
    while (getchar() != EOF)
        continue;
    return leat_run_stop(r, 0, &err) == LEAT_OK ? 0 : 1;
}

/* ---- led by stdin ----------------------------------------------------- */

static bool owns(void *arg)
{
    leat_topic_source_stats st;
    (void)arg;
    leat_topic_source_stats_get(source, &st);
    return st.partitions == 1;
}

static void take(void)
{
    int64_t end = wait_now_ms() + LONG_MS;
    while (taken_n < MOST && wait_now_ms() < end) {
        leat_error err = { 0 };
        if (leat_source_receive(source, &taken[taken_n], 1, 1000, &err) == 1) {
            say_delivery(taken[taken_n++]);
            return;
        }
    }
    say("nothing");
}

static void obey(const char *line)
{
    leat_error err = { 0 };
    leat_code rc = LEAT_EINVAL;
    int n = -1;
    if (strcmp(line, "take") == 0) {
        take();
        return;
    }
    if (strcmp(line, "own") == 0)
        rc = wait_for(owns, NULL, LONG_MS) ? LEAT_OK : LEAT_ETIMEOUT;
    else if (strcmp(line, "flush") == 0)
        rc = leat_source_flush(source, LONG_MS, &err);
    else if (sscanf(line, "ack %d", &n) == 1 && n >= 0 && n < taken_n)
        rc = leat_delivery_ack(taken[n]);
    else if (sscanf(line, "nack %d", &n) == 1 && n >= 0 && n < taken_n)
        rc = leat_delivery_nack(taken[n], 0);
    say(rc == LEAT_OK ? "ok" : leat_code_name(rc));
}

static int be_led(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    leat_source_close(source);
    return 0;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    if (argc != 7 && argc != 9)
        return 2;
    leat_client *c = leat_client_open(argv[1], NULL, &err);
    leat_topic *t = c ? leat_topic_open(c, argv[2], NULL, &err) : NULL;
    leat_topic_source_opts o = {
        .name = strcmp(argv[5], "-") == 0 ? NULL : argv[5],
        .order = (leat_order)strtol(argv[4], NULL, 10),
        .lease_ms = LEASE_MS,
        .block_ms = 200,
        .retry.max_attempts = argc > 7 ? (int)strtol(argv[7], NULL, 10) : -1,
    };
    int threads = argc > 8 ? (int)strtol(argv[8], NULL, 10) : 0;
    source = t ? leat_topic_source(t, argv[3], &o, &err) : NULL;
    if (!source) {
        fprintf(stderr, "cannot join: %s\n", err.msg);
        return 1;
    }
    int rc = strcmp(argv[6], "led") == 0
                 ? be_led()
                 : run(strcmp(argv[6], "handle") == 0, threads);
    leat_topic_close(t);
    leat_client_close(c);
    return rc;
}
