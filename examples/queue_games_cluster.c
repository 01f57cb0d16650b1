/*
 * queue_games_cluster.c: games on a cluster, found when they begin.
 *
 *   cc queue_games_cluster.c $(pkg-config --cflags --libs leat) \
 *       -o queue_games_cluster
 *   ./queue_games_cluster redis+cluster://127.0.0.1:7000,127.0.0.1:7001
 *
 * Nobody tells the consumer how many games there are: it hears the events of
 * all queues under a prefix, and starts a thread for each game that it has not
 * seen.  Game1 gets A1 to A5, Game2 gets B1 to B5; each is played in order, all
 * at once, whichever node of the cluster has it.
 */
#include <leat/leat.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GAMES = 14, MOVES = 5, MOVE_MS = 30, WAIT_MS = 5000, GIVE_UP_S = 50 };

static const leat_queue_opts games = { .prefix = "example-cluster" };

struct game {
    leat_client *client;
    pthread_t thread;
    char name[32];
    char moves[8 * MOVES];
    leat_error err;
};

struct table {
    leat_client *client;
    pthread_mutex_t lock;
    int count;
    struct game *at[GAMES];
};

/* ---- the consumer ----------------------------------------------------- */

static void make(struct game *g, leat_bytes move)
{
    size_t n = strlen(g->moves);
    nanosleep(&(struct timespec){ .tv_nsec = MOVE_MS * 1000000 }, NULL);
    snprintf(g->moves + n, sizeof g->moves - n, " %.*s", (int)move.n,
             (const char *)move.p);
}

static void *play(void *arg)
{
    struct game *g = arg;
    leat_receive_opts o = { .wait_ms = WAIT_MS };
    leat_queue *q = leat_queue_open(g->client, g->name, &games, &g->err);
    for (int made = 0; q && made < MOVES && g->err.code == LEAT_OK;) {
        leat_queue_batch *b = leat_queue_receive(q, &o, &g->err);
        const leat_queue_item *it = b ? leat_queue_batch_at(b, 0) : NULL;
        if (it) {
            make(g, it->msg.body);
            (void)leat_queue_ack(q, it->receipt, &g->err);
            made++;
        }
        leat_queue_batch_free(b);
    }
    leat_queue_close(q);
    return NULL;
}

/* A game that is new begins. */
static void found(void *arg, const char *name)
{
    static struct game all[GAMES];
    struct table *t = arg;
    pthread_mutex_lock(&t->lock);
    bool known = t->count == GAMES;
    for (int i = 0; i < t->count; i++)
        known = known || strcmp(t->at[i]->name, name) == 0;
    if (!known) {
        struct game *g = &all[t->count];
        g->client = t->client;
        snprintf(g->name, sizeof g->name, "%s", name);
        if (pthread_create(&g->thread, NULL, play, g) == 0)
            t->at[t->count++] = g;
    }
    pthread_mutex_unlock(&t->lock);
}

/* Runs on the watch's thread.  Where some events may have been missed, the list
 * of queues tells what they would have. */
static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    struct table *t = arg;
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)e->queue.n,
             (const char *)e->queue.p);
    found(t, name);
    if (missed)
        (void)!leat_queue_list(t->client, games.prefix, found, t, NULL);
}

/* ---- the producer ----------------------------------------------------- */

static leat_code begin(leat_client *c, int i, leat_error *err)
{
    char name[16], move[16];
    snprintf(name, sizeof name, "Game%d", i + 1);
    leat_queue *q = leat_queue_open(c, name, &games, err);
    leat_code rc = q ? LEAT_OK : err->code;
    for (int k = 1; rc == LEAT_OK && k <= MOVES; k++) {
        snprintf(move, sizeof move, "%c%d", 'A' + i, k);
        rc = leat_queue_send(q, &(leat_msg){ .body = leat_str(move) }, NULL,
                             NULL, err);
    }
    leat_queue_close(q);
    return rc;
}

static int seen(struct table *t)
{
    pthread_mutex_lock(&t->lock);
    int n = t->count;
    pthread_mutex_unlock(&t->lock);
    return n;
}

static int show(struct table *t)
{
    int bad = t->count != GAMES;
    for (int i = 0; i < t->count; i++) {
        struct game *g = t->at[i];
        pthread_join(g->thread, NULL);
        printf("%s:%s%s\n", g->name, g->moves, g->err.msg);
        bad += g->err.code != LEAT_OK;
    }
    printf("%d games found\n", t->count);
    return bad > 0;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    struct table t = { .lock = PTHREAD_MUTEX_INITIALIZER };
    t.client = leat_client_open(
        argc > 1 ? argv[1] : "redis+cluster://127.0.0.1:7000", NULL, &err);
    leat_queue_watch *w = NULL;
    if (t.client)
        w = leat_queue_watch_open(t.client, NULL, &games, false, on_event, &t,
                                  &err);
    leat_code rc = w ? LEAT_OK : err.code;
    for (int i = 0; rc == LEAT_OK && i < GAMES; i++)
        rc = begin(t.client, i, &err);
    time_t end = time(NULL) + GIVE_UP_S;
    while (rc == LEAT_OK && seen(&t) < GAMES && time(NULL) < end)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    leat_queue_watch_close(w);
    int bad = show(&t);
    leat_client_close(t.client);
    if (rc != LEAT_OK)
        fprintf(stderr, "queue_games_cluster: %s\n", err.msg);
    return bad || rc != LEAT_OK;
}
