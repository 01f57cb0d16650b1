/*
 * durable_disk.c: disks that are slow, lose their power, are full or damaged,
 * and what a producer says of it.
 *
 * always     what was acknowledged is there, whatever happens
 * everysec   what is lost is of the last seconds, and told
 */
#include "support/shim_sync.h"
#include "topic_lossbook.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* everysec: a second between syncs, and writes wait two for a slow one. */
enum { SOON_MS = 60000, ROUNDS = 10, WINDOW_MS = 4000 };

static redis_server *server;
static char url[256];

static void use(redis_aof aof, int64_t file_limit)
{
    server = redis_start(&(redis_opts){
        .aof = aof, .sync_shim = true, .file_limit = file_limit });
    assert_non_null(server);
    redis_url(server, url, sizeof url);
}

static int tear_down(void **state)
{
    (void)state;
    redis_stop(server);
    server = NULL;
    return 0;
}

/* No loss reaches back further than the window before the newest that was
 * acknowledged, by the server's own clock, which made the ids. */
static void check_window(const book *b)
{
    for (int i = 0; i < b->lost; i++) {
        int64_t ms = (int64_t)(b->losses[i].to.ms - b->losses[i].from.ms);
        assert_true(ms <= WINDOW_MS);
    }
}

/* ---- kill -9 while syncing is slow ------------------------------------ */

/* A sync is under way and will not end: what is written from now on is kept
 * back by the server. */
static void block_syncs(book *b)
{
    struct shim_sync *sync = redis_sync(server);
    uint64_t calls = sync->calls;
    sync->delay_ms = 600000;
    book_publish(b, 2);
    wait_until(sync->calls > calls, SOON_MS);
}

static void kill_and_restart(void)
{
    redis_kill(server);
    redis_sync(server)->delay_ms = 0;
    assert_true(redis_restart(server));
}

/* Some messages, then the kill, until some were lost: the server may have
 * written them after all where the machine is slow. */
static int lose_some(book *b)
{
    int told = 0;
    for (int i = 0; i < ROUNDS && told == 0; i++) {
        book_publish(b, 200);
        block_syncs(b);
        book_publish(b, 200);
        kill_and_restart();
        book_publish(b, 2);
        told = atomic_load(&b->told_lost);
    }
    return told;
}

static void a_kill_while_syncing_is_slow_is_told(void **state)
{
    (void)state;
    use(REDIS_AOF_EVERYSEC, 0);
    book *b = book_open(url, 2, NULL);
    int told = lose_some(b);
    assert_true(told > 0);
    assert_int_equal(book_audit(b, server), told);
    check_window(b);
    print_message("# %d of %d acknowledged messages lost, all told\n", told,
                  (int)b->acked);
    book_free(b);
}

static void and_with_copies_held_nothing_is_missing(void **state)
{
    (void)state;
    use(REDIS_AOF_EVERYSEC, 0);
    book *b = book_open(url, 2,
                        &(leat_topic_opts){ .republish_bytes = 1 << 20 });
    int told = lose_some(b);
    assert_true(told > 0);
    assert_int_equal(b->republished, (uint64_t)told);
    book_complete(b, server);
    book_free(b);
}

/* ---- power cuts ------------------------------------------------------- */

static void a_power_cut_takes_nothing_that_was_synced(void **state)
{
    (void)state;
    use(REDIS_AOF_ALWAYS, 0);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 4; i++) {
        book_wait_acked(b, 100);
        redis_power_cut(server);
        assert_true(redis_restart(server));
    }
    book_wait_acked(b, 50);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    book_free(b);
}

static void a_power_cut_between_syncs_is_told(void **state)
{
    (void)state;
    use(REDIS_AOF_EVERYSEC, 0);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < ROUNDS && (i < 3 || b->told_lost == 0); i++) {
        book_wait_acked(b, 200);
        redis_power_cut(server);
        assert_true(redis_restart(server));
        book_wait_acked(b, 1);
    }
    book_load_stop(&load);
    assert_true(b->told_lost > 0);
    int missing = book_audit(b, server);
    assert_int_equal(b->told_lost, missing);
    check_window(b);
    print_message("# %d of %d acknowledged messages lost, all told\n", missing,
                  (int)b->acked);
    book_free(b);
}

static void a_sync_that_fails_ends_the_server_and_loses_nothing(void **state)
{
    (void)state;
    use(REDIS_AOF_ALWAYS, 0);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    book_wait_acked(b, 100);
    redis_sync(server)->fail = true;
    wait_until(!redis_alive(server), SOON_MS);
    redis_power_cut(server);
    redis_sync(server)->fail = false;
    assert_true(redis_restart(server));
    book_wait_acked(b, 100);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    book_free(b);
}

/* ---- restarts --------------------------------------------------------- */

static void restarts_and_cut_rewrites_lose_nothing(void **state)
{
    (void)state;
    use(REDIS_AOF_ALWAYS, 0);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    for (int i = 0; i < 4; i++) {
        book_wait_acked(b, 100);
        if (i % 2) {
            redis_do(server, "BGREWRITEAOF");
            redis_kill(server);
        } else {
            redis_shutdown(server);
        }
        assert_true(redis_restart(server));
    }
    book_wait_acked(b, 50);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    book_free(b);
}

/* ---- a full disk ------------------------------------------------------ */

enum { SMALL = 64 * 1024 };

static void enlarge_disk(void)
{
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
    assert_int_equal(prlimit(redis_pid(server), RLIMIT_FSIZE, &all, NULL), 0);
}

static void a_full_disk_ends_a_server_that_always_syncs(void **state)
{
    (void)state;
    use(REDIS_AOF_ALWAYS, SMALL);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    wait_until(!redis_alive(server), SOON_MS);
    redis_set_file_limit(server, 0);
    assert_true(redis_restart(server));
    book_wait_acked(b, 100);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    print_message("# %d acknowledged, all there\n", (int)b->acked);
    book_free(b);
}

/* Refused messages certainly did not happen; it goes on when there is room. */
static void a_full_disk_is_waited_out(void **state)
{
    (void)state;
    use(REDIS_AOF_EVERYSEC, SMALL);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    book_load_start(&load, b);
    char said[256];
    wait_until(strncmp(redis_text(server, said, sizeof said, "SET x y"),
                       "MISCONF", 7) == 0,
               SOON_MS);
    enlarge_disk();
    wait_until(strcmp(redis_text(server, said, sizeof said, "SET x y"), "OK") ==
                   0,
               SOON_MS);
    book_wait_acked(b, 100);
    book_load_stop(&load);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    book_free(b);
}

/* As above, and killed while it is full: the last that was acknowledged before
 * is not on disk.  If so it is told. */
static void what_a_full_disk_swallowed_is_told(void **state)
{
    (void)state;
    use(REDIS_AOF_EVERYSEC, SMALL);
    book *b = book_open(url, 2, NULL);
    struct book_load load;
    char said[256];
    book_load_start(&load, b);
    wait_until(strncmp(redis_text(server, said, sizeof said, "SET x y"),
                       "MISCONF", 7) == 0,
               SOON_MS);
    redis_kill(server);
    redis_set_file_limit(server, 0);
    assert_true(redis_restart(server));
    book_wait_acked(b, 100);
    book_load_stop(&load);
    int missing = book_audit(b, server);
    assert_int_equal(b->told_lost, missing);
    check_window(b);
    print_message("# %d of %d acknowledged messages lost, all told\n", missing,
                  (int)b->acked);
    book_free(b);
}

/* ---- a damaged file --------------------------------------------------- */

/* The first file of the log that ends so. */
static void find_file(const char *end, char *path, size_t size)
{
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/appendonlydir", redis_dir(server));
    DIR *d = opendir(dir);
    assert_non_null(d);
    *path = '\0';
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name), k = strlen(end);
        if (n > k && strcmp(e->d_name + n - k, end) == 0)
            snprintf(path, size, "%.2000s/%.255s", dir, e->d_name);
    }
    closedir(d);
    assert_true(*path);
}

static void flip(const char *path, off_t at)
{
    char byte;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* The server refuses to start, and nothing is touched; once it is mended
 * everything goes on. */
static void a_damaged_file_is_left_for_people(void **state)
{
    char path[4096];
    struct stat st, now;
    (void)state;
    use(REDIS_AOF_ALWAYS, 0);
    book *b = book_open(url, 2, NULL);
    book_publish(b, 300);
    redis_kill(server);
    find_file(".incr.aof", path, sizeof path);
    assert_int_equal(stat(path, &st), 0);
    flip(path, 0); /* the '*' of the first command */
    assert_false(redis_restart(server));
    must(book_publish_one(b, err));
    assert_code(leat_topic_flush(b->topic, 300, NULL), LEAT_ETIMEOUT);
    assert_int_equal(stat(path, &now), 0);
    assert_int_equal(now.st_size, st.st_size);
    flip(path, 0);
    assert_true(redis_restart(server));
    book_flush(b);
    book_publish(b, 10);
    assert_int_equal(b->lost, 0);
    assert_int_equal(book_audit(b, server), 0);
    book_free(b);
}

#define disk_test(f) cmocka_unit_test_teardown(f, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        disk_test(a_kill_while_syncing_is_slow_is_told),
        disk_test(and_with_copies_held_nothing_is_missing),
        disk_test(a_power_cut_takes_nothing_that_was_synced),
        disk_test(a_power_cut_between_syncs_is_told),
        disk_test(a_sync_that_fails_ends_the_server_and_loses_nothing),
        disk_test(restarts_and_cut_rewrites_lose_nothing),
        disk_test(a_full_disk_ends_a_server_that_always_syncs),
        disk_test(a_full_disk_is_waited_out),
        disk_test(what_a_full_disk_swallowed_is_told),
        disk_test(a_damaged_file_is_left_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
