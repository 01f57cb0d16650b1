/*
 * dlq_replay.c: dead letters are replayed, republished and removed, each once,
 * whatever happens meanwhile.
 */
#include "dlq_help.h"
#include "support/tcpfault.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PARTS = 3, MANY = 10000 };

static int begin(void **state)
{
    redis_do(server, "CONFIG SET maxmemory 0");
    if (open_one(state) != 0)
        return -1;
    make_dlq(PARTS);
    return 0;
}

#define dlq_test(name) cmocka_unit_test_setup_teardown(name, begin, close_dlq)

/* ---- what is where ---------------------------------------------------- */

static int64_t dead_count(void)
{
    int64_t n = 0;
    for (int p = 0; p < PARTS; p++)
        n += redis_int(server, "XLEN leat:{t/%d}:dlq", p);
    return n;
}

static int64_t logged(void)
{
    int64_t n = 0;
    for (int p = 0; p < PARTS; p++)
        n += redis_int(server, "XLEN leat:{t/%d}:log", p);
    return n;
}

/* Messages that wait for a retry of the group; each is in the index, too. */
static int64_t kept_count(const char *group)
{
    int64_t n = 0;
    for (int p = 0; p < PARTS; p++) {
        int64_t due = redis_int(server, "ZCARD leat:{t/%d}:due:%s", p, group);
        int64_t kept = redis_int(server, "HLEN leat:{t/%d}:kept:%s", p, group);
        assert_int_equal(kept, 2 * due);
        n += due;
    }
    return n;
}

static void bury_in_all(int each)
{
    for (int p = 0; p < PARTS; p++)
        bury_many((grave){ .partition = p, .key = "k", .error = "e" }, p * each,
                  each);
}

/* ---- one -------------------------------------------------------------- */

/* What a consumer would get: {id, fields, n, f, lane, replayed}. */
static leat_reply *due(int partition, const char *group)
{
    enum { KEYS = 6 };
    char keys[KEYS][128];
    static const char *const words[KEYS] = { "lease", "kept", "due",
                                             "lane",  "dlq",  "cur" };
    leat_bytes argv[3 + KEYS + 5] = {
        leat_str("EVAL"),
        leat_mem(leat__script_topic_due.body, leat__script_topic_due.body_size),
        leat_str("6")
    };
    for (int i = 0; i < KEYS; i++) {
        part_key(keys[i], sizeof keys[i], partition, words[i], group);
        argv[3 + i] = leat_str(keys[i]);
    }
    redis_do(server, "HSET %s o n e 1", keys[0]);
    argv[9] = leat_str("n");
    argv[10] = leat_str("1");
    argv[11] = leat_str("64");
    argv[12] = leat_str("1000000");
    argv[13] = leat_str(group);
    leat_reply *r = ask(argv, 14);
    redis_do(server, "DEL %s", keys[0]);
    return r;
}

static void a_replayed_one_is_due_for_its_group_alone(void **state)
{
    char id[LEAT_DEAD_ID];
    const char *ids[] = { id };
    leat_dlq_sum sum;
    (void)state;
    bury((grave){ .partition = 1,
                  .group = "billing",
                  .key = "k",
                  .body = "hello",
                  .error = "no" },
         id);
    leat_dead *x = dead_of(dlq, id);
    char position[IDS];
    snprintf(position, sizeof position, "%lu-%lu", x->position.ms,
             x->position.seq);
    leat_dead_free(x);
    must(leat_dlq_replay(dlq, ids, 1, NULL, &sum, err));
    assert_int_equal(sum.done, 1);
    assert_int_equal(dead_count(), 0);
    assert_int_equal(kept_count("billing"), 1);
    leat_reply *r = due(1, "billing");
    assert_int_equal(leat_reply_len(r), 4);
    const leat_reply *entry = leat_reply_at(r, 3);
    assert_text(leat_reply_at(entry, 0), position);
    assert_text(leat_reply_at(entry, 2), "0");
    assert_text(leat_reply_at(entry, 3), "0");
    assert_text(leat_reply_at(entry, 4), "");
    assert_text(leat_reply_at(entry, 5), id);
    leat_reply_free(r);
    assert_int_equal(logged(), 1);
}

/* The payload is what it was, byte for byte. */
static void the_fields_are_those_of_the_log(void **state)
{
    leat_reply *log, *r;
    (void)state;
    bury((grave){ .key = "k", .body = "hello", .error = "no" }, NULL);
    must(leat_dlq_replay_all(dlq, NULL, NULL, NULL, err));
    log = ASK(leat_str("XRANGE"), leat_str("leat:{t/0}:log"), leat_str("-"),
              leat_str("+"));
    r = due(0, "g");
    const leat_reply *a = leat_reply_at(leat_reply_at(log, 0), 1);
    const leat_reply *b = leat_reply_at(leat_reply_at(r, 3), 1);
    assert_int_equal(leat_reply_len(a), leat_reply_len(b));
    for (size_t i = 0; i < leat_reply_len(a); i++)
        assert_true(leat_bytes_eq(leat_reply_bytes(leat_reply_at(a, i)),
                                  leat_reply_bytes(leat_reply_at(b, i))));
    leat_reply_free(log);
    leat_reply_free(r);
}

typedef struct told {
    int calls, stop_at;
    leat_code code[16];
    char id[16][LEAT_DEAD_ID];
    char error[16][240];
} told;

static bool note(void *arg, const leat_dlq_step *s)
{
    told *t = arg;
    int i = t->calls++;
    if (i < 16) {
        t->code[i] = s->code;
        snprintf(t->id[i], LEAT_DEAD_ID, "%s", s->id);
        snprintf(t->error[i], 240, "%s", s->error ? s->error : "");
        assert_int_equal(s->error == NULL, s->code == LEAT_OK);
    }
    return t->stop_at == 0 || t->calls < t->stop_at;
}

static void what_is_not_there_is_named_and_the_rest_is_done(void **state)
{
    char id[LEAT_DEAD_ID];
    const char *ids[] = { "0:5-5", id, "2:7-7", "9:1-1" };
    told t = { 0 };
    leat_dlq_sum sum;
    leat_error e = { 0 };
    leat_dlq_move_opts o = { .fn = note, .arg = &t };
    (void)state;
    bury((grave){ .partition = 1, .key = "k", .body = "x", .error = "e" }, id);
    assert_code(leat_dlq_replay(dlq, ids, 4, &o, &sum, &e), LEAT_ENOENT);
    assert_int_equal(sum.done, 1);
    assert_int_equal(sum.missing, 3);
    assert_int_equal(t.calls, 4);
    for (int i = 0; i < 4; i++) {
        bool good = strcmp(t.id[i], id) == 0;
        assert_code(t.code[i], good ? LEAT_OK : LEAT_ENOENT);
        assert_int_equal(strstr(t.error[i], t.id[i]) != NULL, !good);
    }
    t = (told){ 0 };
    assert_code(leat_dlq_remove(dlq, ids, 4, &o, &sum, &e), LEAT_ENOENT);
    assert_int_equal(sum.missing, 4);
    assert_int_equal(t.calls, 4);
    must(leat_dlq_replay(dlq, NULL, 0, &o, &sum, err));
}

static void what_cannot_be_replayed_is_refused_with_its_reason(void **state)
{
    char id[LEAT_DEAD_ID];
    told t = { 0 };
    leat_dlq_sum sum;
    leat_error e = { 0 };
    leat_dlq_move_opts o = { .fn = note, .arg = &t };
    (void)state;
    bury((grave){ .key = "k", .body = "x", .error = "e" }, id);
    /* The same message died twice, after a seek; its first is replayed. */
    redis_do(server, "XADD leat:{t/0}:dlq * g g i 1-1 c 1 a b");
    redis_do(server, "XADD leat:{t/0}:dlq * g g i 1-1 c 1 a b");
    redis_do(server, "XADD leat:{t/0}:dlq * g gone i 2-2 c 1 a b");
    redis_do(server, "XADD leat:{t/0}:dlq * g g i 3-3 c 0");
    redis_do(server, "XADD leat:{t/0}:dlq * a b");
    leat_code rc = leat_dlq_replay_all(dlq, NULL, &o, &sum, &e);
    assert_true(rc == LEAT_EBUSY || rc == LEAT_EINVAL); /* the first of them */
    assert_int_equal(sum.done, 2);
    assert_int_equal(sum.refused, 4);
    assert_int_equal(dead_count(), 4);
    assert_int_equal(kept_count("g"), 2);
    assert_int_equal(kept_count("gone"), 0);
    int gone = 0, none = 0;
    for (int i = 0; i < t.calls; i++) {
        gone += strstr(t.error[i], "group 'gone'") != NULL;
        none += strstr(t.error[i], "no message in") != NULL;
    }
    assert_int_equal(gone, 1);
    assert_int_equal(none, 2);
}

/* Somebody else's entry may look like ours. */
static void a_group_that_cannot_be_is_refused(void **state)
{
    char name[1001];
    leat_dlq_sum sum;
    leat_error e = { 0 };
    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    redis_do(server, "XADD leat:{t/0}:dlq 5-0 g %s i 1-1 c 1 a b", name);
    redis_do(server, "XADD leat:{t/0}:dlq 6-0 g %s i 1-1 c 1 a b", "a}/{b");
    assert_code(leat_dlq_replay_all(dlq, NULL, NULL, &sum, &e), LEAT_EINVAL);
    assert_int_equal(sum.refused, 2);
    assert_non_null(strstr(e.msg, "0:5-0"));
    const char *ids[] = { "0:6-0" };
    assert_code(leat_dlq_replay(dlq, ids, 1, NULL, &sum, &e), LEAT_EINVAL);
    assert_int_equal(dead_count(), 2);
    must(leat_dlq_clear(dlq, NULL, NULL, &sum, err));
    assert_int_equal(sum.done, 2);
}

static int64_t kept_fields(const char *id)
{
    return redis_int(server, "EVAL %s 1 leat:{t/0}:kept:g %s",
                     "return #cmsgpack.unpack(redis.call('HGET', KEYS[1], "
                     "ARGV[1]))",
                     id);
}

/* An entry of somebody else's, with more fields than Lua can hand on. */
static void one_of_thousands_of_fields_dies_and_is_replayed(void **state)
{
    enum { FIELDS = 5000 };
    char ids[2][IDS], id[LEAT_DEAD_ID];
    grave g = { .group = "g", .key = "k", .body = "x", .error = "e" };
    leat_bytes *argv = calloc(3 + 2 * FIELDS, sizeof *argv);
    (void)state;
    argv[0] = leat_str("XADD");
    argv[1] = leat_str("leat:{t/0}:log");
    argv[2] = leat_str("*");
    for (int i = 0; i < 2 * FIELDS; i++)
        argv[3 + i] = leat_str("f");
    log_message(&g, ids[0]);
    leat_reply *r = ask(argv, 3 + 2 * FIELDS);
    snprintf(ids[1], IDS, "%.*s", (int)leat_reply_bytes(r).n,
             (const char *)leat_reply_bytes(r).p);
    leat_reply_free(r);
    free(argv);
    bury_logged(&g, ids, 2);
    assert_int_equal(dead_count(), 2);
    newest_dead(0, id);
    leat_dead *x = dead_of(dlq, id);
    assert_non_null(x->damaged);
    leat_dead_free(x);
    must(leat_dlq_replay_all(dlq, NULL, NULL, NULL, err));
    assert_int_equal(kept_count("g"), 2);
    assert_int_equal(kept_fields(ids[1]), 2 * FIELDS);
}

/* Whoever fetches what is due unpacks it. */
static void a_field_that_looks_packed_and_is_not_is_a_field(void **state)
{
    (void)state;
    bury((grave){ .key = "k", .body = "x", .error = "e" }, NULL);
    redis_do(server, "XADD leat:{t/0}:dlq * g g i 9-9 c 1 @packed %s", "\xc1");
    must(leat_dlq_replay_all(dlq, NULL, NULL, NULL, err));
    assert_int_equal(kept_count("g"), 2);
    assert_int_equal(kept_fields("9-9"), 2);
}

static void keys_of_another_type_lose_nothing(void **state)
{
    static const char *const keys[] = { "kept:g", "due:g", "log", "bodies",
                                        "large" };
    leat_error e = { 0 };
    (void)state;
    for (int i = 0; i < 5; i++) {
        char id[LEAT_DEAD_ID];
        const char *ids[] = { id };
        assert_true(redis_flush(server));
        must(leat_topic_create(client, "t",
                               &(leat_topic_spec){ .partitions = PARTS }, err));
        reopen_dlq();
        bury((grave){ .key = "k", .body = "x", .error = "e" }, id);
        redis_do(server, "SET leat:{t/0}:%s x", keys[i]);
        leat_dlq_move_opts o = { .republish = i >= 2 };
        assert_code(leat_dlq_replay(dlq, ids, 1, &o, NULL, &e), LEAT_EINVAL);
        assert_int_equal(dead_count(), 1);
        redis_do(server, "DEL leat:{t/0}:%s", keys[i]);
        must(leat_dlq_replay(dlq, ids, 1, &o, NULL, err));
        assert_int_equal(dead_count(), 0);
    }
}

/* ---- many ------------------------------------------------------------- */

static void a_dry_run_tells_and_does_nothing(void **state)
{
    told t = { 0 };
    leat_dlq_sum sum;
    leat_error e = { 0 };
    leat_dlq_move_opts o = { .dry_run = true, .fn = note, .arg = &t };
    (void)state;
    bury_in_all(150);
    redis_do(server, "XADD leat:{t/0}:dlq * g gone i 2-2 c 1 a b");
    for (int i = 0; i < 2; i++) {
        o.republish = i == 1;
        if (i == 0)
            assert_code(leat_dlq_replay_all(dlq, NULL, &o, &sum, &e),
                        LEAT_EINVAL);
        else
            must(leat_dlq_replay_all(dlq, NULL, &o, &sum, err));
        assert_int_equal(sum.done, i ? 451 : 450);
        assert_int_equal(sum.refused, i ? 0 : 1);
    }
    must(leat_dlq_clear(dlq, NULL, &o, &sum, err));
    assert_int_equal(sum.done, 451);
    assert_int_equal(t.calls, 3 * 451);
    assert_int_equal(dead_count(), 451);
    assert_int_equal(kept_count("g"), 0);
    assert_int_equal(logged(), 450);
}

static void a_filter_chooses_and_a_limit_ends(void **state)
{
    leat_dlq_sum sum;
    (void)state;
    for (int i = 0; i < 30; i++)
        bury((grave){ .partition = i % PARTS,
                      .group = i % 2 ? "g" : "h",
                      .key = "k",
                      .body = "x",
                      .error = i % 3 ? "late" : "wrong" },
             NULL);
    must(leat_dlq_replay_all(
        dlq, &(leat_dead_filter){ .group = "g", .error = "late" },
        &(leat_dlq_move_opts){ .limit = 4 }, &sum, err));
    assert_int_equal(sum.done, 4);
    assert_int_equal(kept_count("g"), 4);
    must(leat_dlq_replay_all(dlq, &(leat_dead_filter){ .group = "g" }, NULL,
                             &sum, err));
    assert_int_equal(sum.done, 11);
    must(leat_dlq_clear(dlq, &(leat_dead_filter){ .error = "wrong" }, NULL,
                        &sum, err));
    assert_int_equal(sum.done, 5);
    assert_int_equal(dead_count(), 10);
    assert_int_equal(kept_count("h"), 0);
}

static void who_is_told_may_stop_it(void **state)
{
    told t = { .stop_at = 150 };
    leat_dlq_sum sum;
    (void)state;
    bury_in_all(500);
    must(leat_dlq_replay_all(
        dlq, NULL, &(leat_dlq_move_opts){ .fn = note, .arg = &t }, &sum, err));
    assert_in_range(sum.done, 150, 300);
    assert_int_equal(t.calls, sum.done);
    assert_int_equal(dead_count() + kept_count("g"), 1500);
}

static void a_rate_is_kept(void **state)
{
    leat_dlq_sum sum;
    (void)state;
    bury_in_all(20);
    int64_t from = wait_now_ms();
    must(leat_dlq_replay_all(dlq, NULL, &(leat_dlq_move_opts){ .rate = 100 },
                             &sum, err));
    assert_int_equal(sum.done, 60);
    assert_true(wait_now_ms() - from >= 500);
    assert_int_equal(kept_count("g"), 60);
}

/* ---- republish -------------------------------------------------------- */

static void a_republished_one_is_a_new_message_for_all(void **state)
{
    char id[LEAT_DEAD_ID];
    leat_seen s;
    (void)state;
    bury((grave){ .partition = 2, .key = "k", .body = "hello", .error = "no" },
         id);
    must(leat_dlq_replay_all(
        dlq, NULL, &(leat_dlq_move_opts){ .republish = true }, NULL, err));
    assert_int_equal(dead_count(), 0);
    assert_int_equal(kept_count("g"), 0);
    assert_int_equal(redis_int(server, "XLEN leat:{t/2}:log"), 2);
    leat_browse *b = leat_browse_open(client, "t",
                                      &(leat_browse_opts){ .last = 1 }, NULL);
    assert_int_equal(leat_browse_next(b, &s, 0, NULL), 1);
    assert_null(s.error);
    assert_bytes(s.msg->body, "hello");
    assert_bytes(s.msg->id, "hello");
    assert_bytes(s.msg->key, "k");
    assert_int_equal(s.msg->header_count, 1);
    assert_bytes(leat_msg_header(s.msg, "replayedFrom"), id);
    leat_browse_close(b);
}

static void what_nobody_can_decode_is_republished_as_it_is(void **state)
{
    char text[64];
    (void)state;
    redis_do(server, "XADD leat:{t/0}:dlq 7-0 g g i 1-1 c 2 a b c d");
    must(leat_dlq_replay_all(
        dlq, NULL, &(leat_dlq_move_opts){ .republish = true }, NULL, err));
    redisReply *r = redis_raw(server, "XRANGE leat:{t/0}:log - +");
    redisReply *f = r->element[0]->element[1];
    assert_int_equal(f->elements, 6);
    snprintf(text, sizeof text, "%s %s %s %s", f->element[1]->str,
             f->element[3]->str, f->element[4]->str, f->element[5]->str);
    assert_string_equal(text, "b d replayedFrom 0:7-0");
    freeReplyObject(r);
}

static void a_large_body_is_beside_the_log_again(void **state)
{
    char id[LEAT_DEAD_ID];
    static char big[70000];
    const char *ids[] = { id };
    (void)state;
    bury((grave){ .key = "k", .body = "x", .error = "e" }, id);
    memset(big, 'b', sizeof big);
    must(leat_dlq_edit(dlq, id,
                       &(leat_dead_edit){ .body = leat_mem(big, sizeof big) },
                       id, err));
    must(leat_dlq_replay(
        dlq, ids, 1, &(leat_dlq_move_opts){ .republish = true }, NULL, err));
    assert_int_equal(redis_int(server, "HLEN leat:{t/0}:bodies"), 1);
    assert_int_equal(redis_int(server, "ZCARD leat:{t/0}:large"), 1);
    redisReply *r = redis_raw(server, "XREVRANGE leat:{t/0}:log + - COUNT 1");
    redisReply *f = r->element[0]->element[1];
    assert_string_equal(f->element[f->elements - 2]->str, "@large");
    assert_true(redis_int(server, "HSTRLEN leat:{t/0}:bodies %s",
                          r->element[0]->element[0]->str) >= 70000);
    freeReplyObject(r);
}

/* ---- twice, killed, cut ----------------------------------------------- */

/* Another process replays all until it is killed. */
static pid_t fork_replayer(void)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    leat_client *c = leat_client_open(url, NULL, NULL);
    leat_dlq *d = c ? leat_dlq_open(c, "t", NULL, NULL) : NULL;
    if (!d)
        _exit(1);
    (void)leat_dlq_replay_all(d, NULL, NULL, NULL, NULL);
    _exit(0);
}

static int connections(void)
{
    char list[16384];
    int n = 0;
    redis_text(server, list, sizeof list, "CLIENT LIST");
    for (const char *p = list; (p = strchr(p, '\n')); p++)
        n++;
    return n;
}

static void killed_midway_and_run_again_each_is_replayed_once(void **state)
{
    leat_dlq_sum sum;
    int midway = 0;
    (void)state;
    for (int round = 0; round < 40 && midway < 3; round++) {
        assert_true(redis_flush(server));
        must(leat_topic_create(client, "t",
                               &(leat_topic_spec){ .partitions = PARTS }, err));
        reopen_dlq();
        bury_in_all(1000);
        int before = connections();
        pid_t pid = fork_replayer();
        assert_true(pid > 0);
        wait_until(dead_count() < 3000 - round * 60 % 2500, 30000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        wait_until(connections() == before, 30000); /* its last words came */
        int64_t left = dead_count();
        midway += left > 0 && left < 3000;
        assert_int_equal(left + kept_count("g"), 3000);
        must(leat_dlq_replay_all(dlq, NULL, NULL, &sum, err));
        assert_int_equal(sum.done, left);
        assert_int_equal(dead_count(), 0);
        assert_int_equal(kept_count("g"), 3000);
    }
    assert_int_equal(midway, 3);
}

static void two_at_once_replay_each_once(void **state)
{
    leat_dlq_sum sum;
    leat_error e = { 0 };
    (void)state;
    bury_in_all(1000);
    pid_t pid[2] = { fork_replayer(), fork_replayer() };
    leat_code rc = leat_dlq_replay_all(dlq, NULL, NULL, &sum, &e);
    assert_true(rc == LEAT_OK || rc == LEAT_ENOENT);
    assert_int_equal(sum.refused + sum.unknown, 0);
    for (int i = 0; i < 2; i++) {
        int status = -1;
        waitpid(pid[i], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(dead_count(), 0);
    assert_int_equal(kept_count("g"), 3000);
}

enum { LETTERS = 4 };

/* Four in one partition, and nothing else. */
static void four_letters(void)
{
    redis_do(server, "DEL leat:{t/1}:kept:g leat:{t/1}:due:g");
    for (int i = 0; i < LETTERS; i++)
        redis_do(server, "XADD leat:{t/1}:dlq * g g i %d-1 c 1 a b", i + 1);
    assert_int_equal(dead_count(), LETTERS);
}

/* The bytes of one replay, without opening. */
typedef struct passed {
    uint64_t up, down, cuts;
} passed;

/* Replay by a client of its own whose connection is cut when so many bytes more
 * have passed in this direction; UINT64_MAX: it is not. */
static passed replay_cut_at(tcpfault *f, tcpfault_dir dir, uint64_t at,
                            leat_dlq_sum *sum)
{
    char by[256];
    leat_error e = { 0 };
    snprintf(by, sizeof by, "unix://%s/proxy", redis_dir(server));
    tcpfault_counts before = tcpfault_count(f);
    leat_client *c = open_client(by, &(leat_client_opts){ .max_retry_ms = 5 });
    leat_dlq *d = leat_dlq_open(c, "t", NULL, NULL);
    assert_non_null(d);
    tcpfault_counts open = tcpfault_count(f);
    assert_int_equal(open.connections, before.connections + 1);
    uint64_t there = dir == TCPFAULT_UP ? open.up - before.up
                                        : open.down - before.down;
    int rule = 0;
    if (at != UINT64_MAX)
        assert_true(rule = tcpfault_rule_add(
                        f, &(tcpfault_rule){ .conn = (int)open.connections,
                                             .dir = dir,
                                             .when = TCPFAULT_OFFSET,
                                             .n = there + at,
                                             .action = TCPFAULT_RESET,
                                             .times = 1 }));
    leat_code rc = leat_dlq_replay_all(d, NULL, NULL, sum, &e);
    if (rc != LEAT_OK && rc != LEAT_EUNKNOWN)
        fail_msg("%s: %s", leat_code_name(rc), e.msg);
    tcpfault_counts end_of = tcpfault_count(f);
    leat_dlq_close(d);
    leat_client_close(c);
    return (passed){ end_of.up - open.up, end_of.down - open.down,
                     tcpfault_fired(f, rule) };
}

/* Every byte of answers; of commands, which have no effect until they are
 * whole, some, and all of the last one's end. */
static uint64_t next_cut(tcpfault_dir dir, uint64_t at, uint64_t end_of)
{
    if (dir == TCPFAULT_DOWN || at + 40 >= end_of)
        return at + 1;
    uint64_t next = at < 300 ? at + 7 : at + 101;
    return next + 40 > end_of ? end_of - 40 : next;
}

static void cut_at_any_byte_each_is_replayed_once(void **state)
{
    leat_dlq_sum sum;
    uint64_t unknown = 0, cuts = 0;
    (void)state;
    bury((grave){ .partition = 1, .body = "x", .error = "e" }, NULL);
    redis_do(server, "DEL leat:{t/1}:dlq");
    char path[256];
    snprintf(path, sizeof path, "%s/proxy", redis_dir(server));
    tcpfault *f = tcpfault_start(redis_socket(server), path);
    assert_non_null(f);
    four_letters();
    passed all = replay_cut_at(f, TCPFAULT_UP, UINT64_MAX, &sum);
    assert_int_equal(sum.done, LETTERS);
    for (int i = 0; i < 2; i++) {
        tcpfault_dir dir = i ? TCPFAULT_DOWN : TCPFAULT_UP;
        uint64_t end_of = i ? all.down : all.up;
        for (uint64_t at = 0; at < end_of; at = next_cut(dir, at, end_of)) {
            four_letters();
            tcpfault_clear(f);
            passed cut = replay_cut_at(f, dir, at, &sum);
            assert_int_equal(cut.cuts, 1);
            assert_int_equal(sum.done + sum.unknown, LETTERS);
            assert_int_equal(sum.missing + sum.refused, 0);
            assert_int_equal(dead_count(), 0);
            assert_int_equal(kept_count("g"), LETTERS);
            unknown += sum.unknown;
            cuts++;
        }
    }
    print_message("# %lu cuts of %lu and %lu bytes, %lu unknown\n", cuts,
                  all.up, all.down, unknown);
    assert_true(unknown > 0);
    tcpfault_stop(f);
}

/* ---- full, and many --------------------------------------------------- */

static void a_full_server_still_replays(void **state)
{
    leat_dlq_sum sum;
    (void)state;
    bury_in_all(50);
    redis_do(server, "CONFIG SET maxmemory 1");
    must(leat_dlq_replay_all(dlq, NULL, NULL, &sum, err));
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(sum.done, 150);
    assert_int_equal(kept_count("g"), 150);
}

static void a_full_server_republishes_later(void **state)
{
    leat_error e = { 0 };
    leat_dlq_sum sum;
    leat_dlq_move_opts o = { .republish = true };
    (void)state;
    bury_in_all(50);
    redis_do(server, "CONFIG SET maxmemory 1");
    assert_code(leat_dlq_replay_all(dlq, NULL, &o, &sum, &e), LEAT_EFULL);
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_int_equal(sum.done, 0);
    assert_int_equal(dead_count(), 150);
    must(leat_dlq_replay_all(dlq, NULL, &o, &sum, err));
    assert_int_equal(sum.done, 150);
    assert_int_equal(logged(), 300);
}

static void a_log_that_is_full_by_its_cap_takes_no_more(void **state)
{
    told t = { 0 };
    leat_error e = { 0 };
    leat_dlq_sum sum;
    (void)state;
    must(leat_topic_remove(client, "t", NULL, err));
    must(leat_topic_create(
        client, "t",
        &(leat_topic_spec){ .partitions = PARTS, .retention = { .cap = 7 } },
        err));
    leat_dlq *d = dlq_of(NULL);
    bury_many((grave){ .partition = 1, .key = "k", .error = "e" }, 0, 5);
    leat_dlq_move_opts o = { .republish = true, .fn = note, .arg = &t };
    assert_code(leat_dlq_replay_all(d, NULL, &o, &sum, &e), LEAT_EFULL);
    assert_int_equal(sum.done, 2);
    assert_int_equal(sum.refused, 3);
    assert_int_equal(t.calls, 5);
    assert_non_null(strstr(t.error[4], "full"));
    assert_int_equal(dead_count(), 3);
    assert_int_equal(logged(), 7);
    must(leat_dlq_replay_all(d, NULL, NULL, &sum, err)); /* to its group */
    assert_int_equal(kept_count("g"), 3);
    leat_dlq_close(d);
}

static long memory_kib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* 10,000 of 2 KiB: the whole is 20 MB, and the client has a fraction. */
static void ten_thousand_are_walked_counted_and_replayed_in_bounds(void **state)
{
    static const char make[] =
        "local b = string.rep('x', 2048) for i = 1, ARGV[1] do "
        "redis.call('XADD', KEYS[1], '*', 'g', 'g', 'i', i .. '-1', 'n', 5, "
        "'f', 5, 'le', 'error ' .. i, 'c', 1, 'b', b) end";
    leat_dlq_sum sum;
    (void)state;
    for (int p = 0; p < PARTS; p++) {
        bury((grave){ .partition = p, .body = "x", .error = "e" }, NULL);
        redis_do(server, "DEL leat:{t/%d}:dlq", p);
        redis_do(server, "EVAL %s 1 leat:{t/%d}:dlq %d", make, p,
                 MANY / PARTS + (p < MANY % PARTS));
    }
    long before = memory_kib();
    int64_t from = wait_now_ms();
    leat_dead_counts *n = leat_dlq_count(dlq, NULL, NULL);
    assert_int_equal(n->total, MANY);
    assert_int_equal(n->errors, 1);
    leat_dead_counts_free(n);
    int64_t counted = wait_now_ms();
    must(leat_dlq_replay_all(dlq, NULL, NULL, &sum, err));
    print_message("# counted in %lld ms, replayed in %lld ms, %ld KiB more\n",
                  (long long)(counted - from),
                  (long long)(wait_now_ms() - counted), memory_kib() - before);
    assert_int_equal(sum.done, MANY);
    assert_int_equal(kept_count("g"), MANY);
    if (!SANITIZED)
        assert_in_range(memory_kib() - before, 0, 16 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dlq_test(a_replayed_one_is_due_for_its_group_alone),
        dlq_test(the_fields_are_those_of_the_log),
        dlq_test(what_is_not_there_is_named_and_the_rest_is_done),
        dlq_test(what_cannot_be_replayed_is_refused_with_its_reason),
        dlq_test(a_group_that_cannot_be_is_refused),
        dlq_test(one_of_thousands_of_fields_dies_and_is_replayed),
        dlq_test(a_field_that_looks_packed_and_is_not_is_a_field),
        dlq_test(keys_of_another_type_lose_nothing),
        dlq_test(a_dry_run_tells_and_does_nothing),
        dlq_test(a_filter_chooses_and_a_limit_ends),
        dlq_test(who_is_told_may_stop_it),
        dlq_test(a_rate_is_kept),
        dlq_test(a_republished_one_is_a_new_message_for_all),
        dlq_test(what_nobody_can_decode_is_republished_as_it_is),
        dlq_test(a_large_body_is_beside_the_log_again),
        dlq_test(killed_midway_and_run_again_each_is_replayed_once),
        dlq_test(two_at_once_replay_each_once),
        dlq_test(cut_at_any_byte_each_is_replayed_once),
        dlq_test(a_full_server_still_replays),
        dlq_test(a_full_server_republishes_later),
        dlq_test(a_log_that_is_full_by_its_cap_takes_no_more),
        dlq_test(ten_thousand_are_walked_counted_and_replayed_in_bounds),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
