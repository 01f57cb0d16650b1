/*
 * sentinel.c: sentinels that lie, lag, mumble or are not there, and what a
 * client makes of it.
 *
 * The servers are real: a master, its replica, and a stranger that is a master
 * too.  The sentinels are scripted, so that they can say what no real one says;
 * real ones are in sentinel_failover.c.
 */
#include "redis/client.h"
#include "support/badredis.h"
#include "support/leat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 60000, MOST = 4 };

static redis_server *master, *replica, *stranger;

static bool linked(void *arg)
{
    char text[4096];
    (void)arg;
    return strstr(redis_text(replica, text, sizeof text, "INFO replication"),
                  "master_link_status:up") != NULL;
}

static int start(void **state)
{
    static const char *const users[] = { "blind on >b ~* &* +@all -role",
                                         "deaf on >d ~* &* +@all -role -info",
                                         NULL };
    char line[64];
    static const char *const soon[] = { "repl-diskless-sync-delay 0", NULL };
    const char *const config[] = { line, NULL };
    (void)state;
    master = redis_start(
        &(redis_opts){ .tcp = true, .users = users, .config = soon });
    stranger = redis_start(&(redis_opts){ .tcp = true });
    if (!master || !stranger)
        return -1;
    snprintf(line, sizeof line, "replicaof 127.0.0.1 %d", redis_port(master));
    replica = redis_start(&(redis_opts){ .tcp = true, .config = config });
    return replica && wait_for(linked, NULL, LONG_MS) ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(replica);
    redis_stop(stranger);
    redis_stop(master);
    return 0;
}

/* ---- scripted sentinels ----------------------------------------------- */

struct fake {
    badredis *b;
    char epoch[160], address[320];
    badredis_step steps[2];
};

static struct fake fakes[MOST];
static int count;

static const badredis_reply subscribed[] = {
    { "SUBSCRIBE", ">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n" },
    { NULL, NULL }
};

/* SENTINEL MASTER is asked first, then the address. */
static badredis *start_fake(struct fake *f, badredis_then then)
{
    f->steps[0] = (badredis_step){ .command = "SENTINEL", .send = f->epoch };
    f->steps[1] = (badredis_step){ .command = "SENTINEL",
                                   .send = f->address,
                                   .then = then };
    f->b = badredis_start(&(badredis_opts){ .handshake = true,
                                            .replies = subscribed,
                                            .steps = f->steps,
                                            .nsteps = 2 });
    assert_non_null(f->b);
    return f->b;
}

static struct fake *new_fake(int epoch)
{
    assert_true(count < MOST);
    struct fake *f = &fakes[count++];
    char text[16];
    int n = snprintf(text, sizeof text, "%d", epoch);
    snprintf(f->epoch, sizeof f->epoch,
             "%%2\r\n$4\r\nname\r\n$4\r\nshop\r\n$12\r\nconfig-epoch\r\n$%d\r\n"
             "%s\r\n",
             n, text);
    return f;
}

/* One more sentinel, which names this address. */
static struct fake *names_at(const char *host, int port, int epoch)
{
    char text[16];
    struct fake *f = new_fake(epoch);
    int n = snprintf(text, sizeof text, "%d", port);
    snprintf(f->address, sizeof f->address, "*2\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n",
             strlen(host), host, n, text);
    start_fake(f, BADREDIS_LOOP);
    return f;
}

static struct fake *names(const redis_server *s, int epoch)
{
    return names_at("127.0.0.1", redis_port(s), epoch);
}

/* One that answers so, to SENTINEL GET-MASTER-ADDR-BY-NAME. */
static struct fake *says(const char *answer, badredis_then then)
{
    struct fake *f = new_fake(1);
    snprintf(f->address, sizeof f->address, "%s", answer);
    start_fake(f, then);
    return f;
}

static struct fake *knows_nobody(void)
{
    struct fake *f = new_fake(0);
    snprintf(f->epoch, sizeof f->epoch,
             "-ERR No such master with that name\r\n");
    snprintf(f->address, sizeof f->address, "*-1\r\n");
    start_fake(f, BADREDIS_LOOP);
    return f;
}

static int stop_fakes(void **state)
{
    (void)state;
    for (int i = 0; i < count; i++)
        badredis_stop(fakes[i].b);
    memset(fakes, 0, sizeof fakes);
    count = 0;
    return 0;
}

/* ---- the client ------------------------------------------------------- */

static atomic_int changes;

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (strstr(line, "master of 'shop' is now"))
        atomic_fetch_add(&changes, 1);
}

static const leat_client_opts usual = { .connect_timeout_ms = 10000,
                                        .log = { .fn = on_log } };

/* The sentinels in the order in which they were started. */
static char *shop_url(const char *who, const char *more, char *buf, size_t size)
{
    size_t at = (size_t)snprintf(buf, size, "redis+sentinel://%s", who);
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(buf + at, size - at, "%s127.0.0.1:%d",
                               i ? "," : "", badredis_port(fakes[i].b));
    snprintf(buf + at, size - at, "/shop%s", more);
    return buf;
}

static leat_client *open_shop(void)
{
    char url[400];
    atomic_store(&changes, 0);
    return open_client(shop_url("", "", url, sizeof url), &usual);
}

static leat_error not_opened(const char *who, const char *more)
{
    char url[400];
    leat_error e = { 0 };
    assert_null(
        leat_client_open(shop_url(who, more, url, sizeof url), &usual, &e));
    return e;
}

static int port_of(leat_conn *conn)
{
    const leat_reply *r = NULL;
    must(leat_conn_call(
        conn, LEAT_ARGS(leat_str("CONFIG"), leat_str("GET"), leat_str("port")),
        NULL, &r, err));
    return (int)leat_reply_int(leat_reply_at(r, 1));
}

#define assert_leads_to(c, s)                                                  \
    do {                                                                       \
        leat_conn *conn_ = lend(c);                                            \
        assert_int_equal(port_of(conn_), redis_port(s));                       \
        leat_client_return(c, conn_);                                          \
    } while (0)

/* The watch has asked this one so often. */
static void await_rounds(const struct fake *f, size_t n)
{
    size_t before = badredis_count(f->b, "SENTINEL");
    wait_until(badredis_count(f->b, "SENTINEL") >= before + 2 * n, LONG_MS);
}

#define assert_says(e, words)                                                  \
    do {                                                                       \
        if (!strstr((e).msg, words))                                           \
            fail_msg("'%s' lacks '%s'", (e).msg, words);                       \
    } while (0)

static void assert_passing(leat_error e)
{
    assert_code(e.code, LEAT_ECONN);
    assert_true(e.retriable);
}

/* ---- lies ------------------------------------------------------------- */

static void a_replica_is_not_taken_for_the_master(void **state)
{
    (void)state;
    struct fake *liar = names(replica, 9);
    names(master, 1);
    names(master, 1);
    leat_client *c = open_shop();
    leat_conn *held = lend(c);
    assert_int_equal(port_of(held), redis_port(master));
    await_rounds(liar, 3);
    assert_int_equal(port_of(held), redis_port(master)); /* not cut */
    assert_int_equal(atomic_load(&changes), 0);
    leat_client_return(c, held);
    leat_client_close(c);
}

static void the_error_says_who_named_whom(void **state)
{
    (void)state;
    char who[64], whom[64];
    struct fake *liar = names(replica, 9);
    snprintf(who, sizeof who, "sentinel 127.0.0.1:%d", badredis_port(liar->b));
    snprintf(whom, sizeof whom, "127.0.0.1:%d", redis_port(replica));
    leat_error e = not_opened("", "");
    assert_passing(e);
    assert_says(e, who);
    assert_says(e, whom);
    assert_says(e, "'shop'");
    assert_says(e, "replica");
}

static void an_address_where_nobody_is_is_passed_over(void **state)
{
    (void)state;
    names_at("127.0.0.1", 1, 9);
    names(master, 1);
    names(master, 1);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    leat_client_close(c);
}

/* The stranger holds itself to be a master, too. */
static void one_liar_is_not_believed_whatever_its_epoch(void **state)
{
    (void)state;
    names(stranger, 99);
    names(master, 5);
    names(master, 5);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    await_rounds(&fakes[0], 2);
    redis_do(master, "CLIENT KILL TYPE normal SKIPME yes");
    assert_leads_to(c, master);
    assert_int_equal(atomic_load(&changes), 0);
    leat_client_close(c);
}

static void sentinels_that_do_not_agree_are_asked_again_later(void **state)
{
    (void)state;
    names(stranger, 3);
    names(master, 5);
    leat_error e = not_opened("", "");
    assert_passing(e);
    assert_says(e, "do not agree");
}

/* One that contradicts the others with the same right: who was believed stays,
 * and connections are not cut to and fro. */
static void equal_configurations_do_not_make_it_flap(void **state)
{
    (void)state;
    names(master, 4);
    names(master, 4);
    struct fake *other = names(stranger, 4);
    leat_client *c = open_shop();
    leat_conn *held = lend(c);
    await_rounds(other, 3);
    assert_int_equal(port_of(held), redis_port(master));
    for (int i = 0; i < 5; i++) {
        assert_leads_to(c, master);
        redis_do(master, "CLIENT KILL TYPE normal SKIPME yes");
    }
    assert_int_equal(atomic_load(&changes), 0);
    leat_client_return(c, held);
    leat_client_close(c);
}

static void a_sentinel_that_is_behind_is_not_followed(void **state)
{
    (void)state;
    leat_error e = { 0 };
    struct fake *newest[] = { names(master, 5), names(master, 5) };
    names(stranger, 3);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    for (int i = 0; i < 2; i++) {
        badredis_stop(newest[i]->b);
        newest[i]->b = NULL;
    }
    redis_do(master, "CLIENT KILL TYPE normal SKIPME yes");
    assert_null(leat_client_lend(c, 0, &e));
    assert_passing(e);
    assert_says(e, "behind");
    assert_int_equal(atomic_load(&changes), 0);
    leat_client_close(c);
}

/* ---- not knowing ------------------------------------------------------ */

static void a_service_that_nobody_knows_is_a_mistake(void **state)
{
    (void)state;
    knows_nobody();
    knows_nobody();
    leat_error e = not_opened("", "");
    assert_code(e.code, LEAT_ENOENT);
    assert_false(e.retriable);
    assert_says(e, "no sentinel knows the service 'shop'");
}

static void while_some_are_silent_it_may_still_be_known(void **state)
{
    (void)state;
    knows_nobody();
    says("", BADREDIS_CLOSE);
    leat_error e = not_opened("", "");
    assert_passing(e);
    assert_says(e, "1 of 2 sentinels do not know the service 'shop'");
}

static void one_that_knows_is_enough(void **state)
{
    (void)state;
    knows_nobody();
    names(master, 1);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    leat_client_close(c);
}

/* ---- nonsense --------------------------------------------------------- */

static const char *const nonsense[] = {
    "+OK\r\n",
    ":1\r\n",
    "*0\r\n",
    "*1\r\n$9\r\n127.0.0.1\r\n",
    "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n",
    "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n",
    "*2\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n",
    "*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
    "*2\r\n$3\r\na b\r\n$4\r\n6379\r\n",
    "*2\r\n$1\r\n\n\r\n$4\r\n6379\r\n",
    "*2\r\n:1\r\n:2\r\n",
    "*3\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n$1\r\n1\r\n",
    "*2\r\n*1\r\n:1\r\n*1\r\n:2\r\n",
    "-ERR unknown command 'SENTINEL'\r\n",
    "hello\r\n",
    "$1073741824\r\n",
    "*1000000000\r\n",
};

static void nonsense_is_no_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        says(nonsense[i], BADREDIS_HOLD);
        assert_passing(not_opened("", ""));
        names(master, 1);
        leat_client *c = open_shop();
        assert_leads_to(c, master);
        leat_client_close(c);
        stop_fakes(NULL);
    }
}

static void one_that_never_ends_is_left(void **state)
{
    (void)state;
    says("$1000000\r\n", BADREDIS_REPEAT);
    names(master, 1);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    leat_client_close(c);
}

/* It costs its share of the time once; from then on another is asked first. */
static void a_silent_sentinel_is_asked_last_the_next_time(void **state)
{
    (void)state;
    says("", BADREDIS_HOLD);
    names(master, 1);
    leat_client *c = open_shop();
    int64_t before = wait_now_ms();
    for (int i = 0; i < 20; i++) {
        assert_leads_to(c, master);
        redis_do(master, "CLIENT KILL TYPE normal SKIPME yes");
    }
    int64_t took = wait_now_ms() - before;
    print_message("# 20 connections beside a silent sentinel: %d ms\n",
                  (int)took);
    assert_true(took < 20 * 3000);
    leat_client_close(c);
}

static void a_server_is_no_sentinel(void **state)
{
    (void)state;
    char url[128];
    leat_error e = { 0 };
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/shop",
             redis_port(master));
    assert_null(leat_client_open(url, &usual, &e));
    assert_passing(e);
    assert_says(e, "sentinel 127.0.0.1:");
}

/* ---- logins ----------------------------------------------------------- */

static void a_refused_login_is_the_sentinels(void **state)
{
    static const badredis_reply refuses[] = {
        { "HELLO", "-WRONGPASS invalid username-password pair\r\n" },
        { NULL, NULL }
    };
    (void)state;
    fakes[count++].b = badredis_start(
        &(badredis_opts){ .handshake = true, .replies = refuses });
    leat_error e = not_opened("", "?sentinel_password=c4n4ry");
    assert_code(e.code, LEAT_EAUTH);
    assert_false(e.retriable);
    assert_says(e, "sentinel_password");
    assert_null(strstr(e.msg, "c4n4ry"));

    says("", BADREDIS_CLOSE); /* another may take us when it is back */
    e = not_opened("", "?sentinel_password=c4n4ry");
    assert_passing(e);
    assert_null(strstr(e.msg, "c4n4ry"));
}

static void the_sentinels_get_their_own_login(void **state)
{
    (void)state;
    char url[400], seen[BADREDIS_TEXT];
    names(master, 1);
    leat_client *c = open_client(
        shop_url("", "?sentinel_user=eve&sentinel_password=s3cret", url,
                 sizeof url),
        &usual);
    assert_true(badredis_seen(fakes[0].b, 0, seen, sizeof seen, NULL));
    assert_string_equal(seen, "HELLO 3 AUTH eve s3cret SETNAME leat");
    assert_null(strstr(leat_client_url(c), "s3cret"));
    leat_client_close(c);

    leat_client_opts own = usual;
    own.sentinel_user = "bob";
    own.sentinel_password = "other";
    stop_fakes(NULL);
    names(master, 1);
    c = open_client(shop_url("", "?sentinel_password=s3cret", url, sizeof url),
                    &own);
    assert_true(badredis_seen(fakes[0].b, 0, seen, sizeof seen, NULL));
    assert_string_equal(seen, "HELLO 3 AUTH bob other SETNAME leat");
    leat_client_close(c);
}

static void without_ROLE_the_role_is_read_from_INFO(void **state)
{
    (void)state;
    char url[400];
    names(master, 1);
    leat_client *c = open_client(shop_url("blind:b@", "", url, sizeof url),
                                 &usual);
    assert_leads_to(c, master);
    leat_client_close(c);

    leat_error e = not_opened("deaf:d@", "");
    assert_code(e.code, LEAT_EAUTH);
    assert_says(e, "+role");
}

/* ---- names ------------------------------------------------------------ */

static void a_host_name_is_looked_up(void **state)
{
    (void)state;
    names_at("localhost", redis_port(master), 1);
    leat_client *c = open_shop();
    assert_leads_to(c, master);
    leat_client_close(c);
    stop_fakes(NULL);

    names_at("no-such-host.invalid", 6379, 1);
    leat_error e = not_opened("", "");
    assert_passing(e);
    assert_says(e, "no-such-host.invalid");
}

static void with_RESP2_it_is_asked_without_a_subscription(void **state)
{
    (void)state;
    char url[400];
    struct fake *f = names(master, 1);
    snprintf(f->epoch, sizeof f->epoch,
             "*4\r\n$4\r\nname\r\n$4\r\nshop\r\n$12\r\nconfig-epoch\r\n$1\r\n1"
             "\r\n");
    leat_client *c = open_client(shop_url("", "?protocol=2", url, sizeof url),
                                 &usual);
    assert_leads_to(c, master);
    await_rounds(f, 2);
    assert_int_equal(badredis_count(f->b, "SUBSCRIBE"), 0);
    leat_client_close(c);
}

/* ---- cutting ---------------------------------------------------------- */

struct reader {
    leat_client *client;
    leat_code code;
};

static void *read_for_an_hour(void *arg)
{
    struct reader *q = arg;
    leat_conn *conn = lend(q->client);
    q->code = leat_conn_call(
        conn, LEAT_ARGS(leat_str("BLPOP"), leat_str("empty"), leat_str("3600")),
        &(leat_send_opts){ .block_ms = 3600000 }, NULL, NULL);
    leat_client_return(q->client, conn);
    return NULL;
}

static bool keeps(const leat__address *at, void *arg)
{
    return at->port == *(int *)arg;
}

static int64_t blocked_clients(redis_server *s)
{
    char text[4096];
    const char *at = strstr(redis_text(s, text, sizeof text, "INFO clients"),
                            "blocked_clients:");
    return at ? strtoll(at + strlen("blocked_clients:"), NULL, 10) : -1;
}

static void a_cut_ends_a_read_that_waits_and_spares_what_is_kept(void **state)
{
    (void)state;
    char url[128];
    int port = redis_port(master), other = 1;
    pthread_t thread;
    leat_client *c = open_client(redis_url(master, url, sizeof url), NULL);
    struct reader q = { .client = c };
    assert_int_equal(pthread_create(&thread, NULL, read_for_an_hour, &q), 0);
    wait_until(blocked_clients(master) == 1, LONG_MS);
    leat_conn *mine = lend(c);
    assert_int_equal(leat__client_cut(c, keeps, &port), 0);
    assert_int_equal(port_of(mine), port);

    assert_int_equal(leat__client_cut(c, keeps, &other), 2);
    pthread_join(thread, NULL);
    assert_code(q.code, LEAT_EUNKNOWN);
    leat_error e = { 0 };
    assert_int_not_equal(
        leat_conn_call(mine, LEAT_ARGS(leat_str("PING")), NULL, NULL, &e),
        LEAT_OK);
    leat_client_return(c, mine);

    leat_client_return(c, lend(c)); /* an idle one is found unsound */
    assert_int_equal(leat__client_cut(c, keeps, &other), 1);
    assert_leads_to(c, master);
    leat_client_close(c);
}

static void a_forked_child_leaves_the_watch_alone(void **state)
{
    (void)state;
    int status = -1;
    struct fake *f = names(master, 1);
    leat_client *c = open_shop();
    leat_conn *held = lend(c);
    pid_t pid = fork();
    if (pid == 0) {
        leat_error e = { 0 };
        bool ok = !leat_client_lend(c, 0, &e) && e.code == LEAT_EFORK;
        leat_client_return(c, held);
        leat_client_close(c);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(port_of(held), redis_port(master));
    await_rounds(f, 2);
    leat_client_return(c, held);
    leat_client_close(c);
}

#define with_fakes(test) cmocka_unit_test_teardown(test, stop_fakes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fakes(a_replica_is_not_taken_for_the_master),
        with_fakes(the_error_says_who_named_whom),
        with_fakes(an_address_where_nobody_is_is_passed_over),
        with_fakes(one_liar_is_not_believed_whatever_its_epoch),
        with_fakes(sentinels_that_do_not_agree_are_asked_again_later),
        with_fakes(equal_configurations_do_not_make_it_flap),
        with_fakes(a_sentinel_that_is_behind_is_not_followed),
        with_fakes(a_service_that_nobody_knows_is_a_mistake),
        with_fakes(while_some_are_silent_it_may_still_be_known),
        with_fakes(one_that_knows_is_enough),
        with_fakes(nonsense_is_no_address),
        with_fakes(one_that_never_ends_is_left),
        with_fakes(a_silent_sentinel_is_asked_last_the_next_time),
        with_fakes(a_server_is_no_sentinel),
        with_fakes(a_refused_login_is_the_sentinels),
        with_fakes(the_sentinels_get_their_own_login),
        with_fakes(without_ROLE_the_role_is_read_from_INFO),
        with_fakes(a_host_name_is_looked_up),
        with_fakes(with_RESP2_it_is_asked_without_a_subscription),
        with_fakes(a_cut_ends_a_read_that_waits_and_spares_what_is_kept),
        with_fakes(a_forked_child_leaves_the_watch_alone),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
