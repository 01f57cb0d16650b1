/*
 * queue_games.c: fourteen games, each with its moves in order, all at once.
 *
 *   cc queue_games.c $(pkg-config --cflags --libs leat) -o queue_games
 *   ./queue_games redis://localhost        or: ./queue_games embedded:
 *
 * Each game is a queue: Game1 gets A1 to A5, Game2 gets B1 to B5.  One thread
 * plays each game, and takes the next move when the last one is done; the games
 * do not wait for each other.
 */
#include <leat/leat.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GAMES = 14, MOVES = 5, MOVE_MS = 30, WAIT_MS = 5000 };

static atomic_int playing, most; /* moves being made, ever at once */

struct game {
    leat_client *client;
    int number;
    char name[16];
    char moves[8 * MOVES]; /* as they were made */
    leat_error err;
};

static leat_code send_moves(leat_queue *q, const struct game *g,
                            leat_error *err)
{
    leat_code rc = LEAT_OK;
    for (int i = 1; rc == LEAT_OK && i <= MOVES; i++) {
        char move[16];
        snprintf(move, sizeof move, "%c%d", 'A' + g->number, i);
        rc = leat_queue_send(q, &(leat_msg){ .body = leat_str(move) }, NULL,
                             NULL, err);
    }
    return rc;
}

static void make(struct game *g, leat_bytes move)
{
    int now = ++playing, seen = most;
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        continue;
    nanosleep(&(struct timespec){ .tv_nsec = MOVE_MS * 1000000 }, NULL);
    size_t n = strlen(g->moves);
    snprintf(g->moves + n, sizeof g->moves - n, " %.*s", (int)move.n,
             (const char *)move.p);
    playing--;
}

static leat_code play(leat_queue *q, struct game *g, leat_error *err)
{
    leat_receive_opts o = { .wait_ms = WAIT_MS };
    leat_code rc = LEAT_OK;
    for (int made = 0; rc == LEAT_OK && made < MOVES;) {
        leat_queue_batch *b = leat_queue_receive(q, &o, err);
        if (!b)
            return err->code;
        const leat_queue_item *it = leat_queue_batch_at(b, 0);
        if (it) {
            make(g, it->msg.body);
            rc = leat_queue_ack(q, it->receipt, err);
            made++;
        }
        leat_queue_batch_free(b);
    }
    return rc;
}

static void *run(void *arg)
{
    struct game *g = arg;
    leat_queue_opts o = { .prefix = "example-games" };
    leat_queue *q = leat_queue_open(g->client, g->name, &o, &g->err);
    if (q && send_moves(q, g, &g->err) == LEAT_OK)
        (void)play(q, g, &g->err);
    leat_queue_close(q);
    return NULL;
}

static int play_all(leat_client *c)
{
    static struct game games[GAMES];
    pthread_t threads[GAMES];
    int bad = 0;
    for (int i = 0; i < GAMES; i++) {
        games[i] = (struct game){ .client = c, .number = i };
        snprintf(games[i].name, sizeof games[i].name, "Game%d", i + 1);
        if (pthread_create(&threads[i], NULL, run, &games[i]) != 0)
            return 1;
    }
    for (int i = 0; i < GAMES; i++) {
        pthread_join(threads[i], NULL);
        printf("%s:%s%s\n", games[i].name, games[i].moves, games[i].err.msg);
        bad += games[i].err.code != LEAT_OK;
    }
    printf("%d games, up to %d moves at once\n", GAMES, most);
    return bad > 0;
}

int main(int argc, char **argv)
{
    leat_error err = { 0 };
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    int bad = c ? play_all(c) : 1;
    leat_client_close(c);
    if (err.code != LEAT_OK)
        fprintf(stderr, "queue_games: %s\n", err.msg);
    return bad;
}
