/* rigs_ledger.c: the judge must be able to say no.  Each promise is broken once
 * by hand, and the verdict has to show it, and it alone. */
#include "support/ledger.h"
#include "support/proc.h"
#include "support/wait.h"

#include <fcntl.h>
#include <ftw.h>
#include <leat/topic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct bench {
    char dir[32];
    ledger *producer, *consumer;
} bench;

static int setup(void **state)
{
    bench *b = calloc(1, sizeof *b);
    snprintf(b->dir, sizeof b->dir, "/tmp/leat-lXXXXXX");
    if (!mkdtemp(b->dir))
        return -1;
    b->producer = ledger_open(b->dir, "producer");
    b->consumer = ledger_open(b->dir, "consumer");
    *state = b;
    return b->producer && b->consumer ? 0 : -1;
}

static int unlink_one(const char *path, const struct stat *st, int type,
                      struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static int teardown(void **state)
{
    bench *b = *state;
    ledger_close(b->producer);
    ledger_close(b->consumer);
    nftw(b->dir, unlink_one, 8, FTW_DEPTH | FTW_PHYS);
    free(b);
    return 0;
}

static void produce(bench *b, uint64_t id, ledger_kind outcome)
{
    uint64_t key = 1 + id % 3;
    assert_true(ledger_add(b->producer, LEDGER_ATTEMPT, key, id, id));
    if (outcome)
        assert_true(ledger_add(b->producer, outcome, key, id, id));
}

static void consume(bench *b, uint64_t id)
{
    uint64_t key = 1 + id % 3;
    assert_true(ledger_add(b->consumer, LEDGER_DELIVERY, key, id, id));
    assert_true(ledger_add(b->consumer, LEDGER_EFFECT, key, id, id));
}

/* Thirty good messages, around which one fault is planted. */
static void good_run(bench *b)
{
    for (uint64_t id = 1; id <= 30; id++) {
        produce(b, id, LEDGER_ACK);
        consume(b, id);
    }
}

/* Run the program; its exit code, and the last line it printed. */
static int check(bench *b, const char *flag, char *last, size_t size)
{
    const char *argv[] = { LEDGER_CHECK, "--kills", "5",  "--pauses",
                           "4",          "--cuts",  "3",  "--seed",
                           "42",         b->dir,    flag, NULL };
    char line[1024];
    int status = 0;
    proc *p = proc_start(argv, NULL);
    assert_non_null(p);
    while (proc_line(p, line, sizeof line, 20000))
        snprintf(last, size, "%s", line);
    assert_true(proc_wait(p, 20000, &status));
    proc_free(p);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_check(bench *b, const char *flag, int code, const char *json)
{
    char last[1024] = "";
    int got = check(b, flag, last, sizeof last);
    if (!strstr(last, json))
        print_error("%s is not in %s\n", json, last);
    assert_non_null(strstr(last, json));
    assert_int_equal(got, code);
}

static void a_good_run_is_good_and_the_keys_are_exact(void **state)
{
    bench *b = *state;
    char json[1024] = "";
    good_run(b);
    assert_int_equal(check(b, "--once", json, sizeof json), 0);
    assert_string_equal(
        json, "{\"attempted\": 30, \"acked\": 30, \"unknown\": 0, "
              "\"delivered\": 30, \"lost\": 0, \"duplicated\": 0, "
              "\"reordered\": 0, \"stuck\": 0, \"kills\": 5, \"pauses\": 4, "
              "\"cuts\": 3, \"seed\": 42, \"unexpected\": 0, "
              "\"dishonest\": 0, \"fenced\": 0, \"shared\": 0, \"bound\": 0, "
              "\"repeated\": 0}");
}

static void a_lost_message_is_caught(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_ACK);
    assert_check(b, NULL, 1, "\"lost\": 1,");
}

static void a_duplicate_is_counted_and_fatal_with_once(void **state)
{
    bench *b = *state;
    good_run(b);
    consume(b, 7);
    consume(b, 7);
    assert_check(b, NULL, 0, "\"duplicated\": 2, \"reordered\": 0,");
    assert_check(b, "--once", 1, "\"duplicated\": 2,");
}

static void a_second_delivery_with_one_effect_is_no_duplicate(void **state)
{
    bench *b = *state;
    good_run(b);
    ledger_add(b->consumer, LEDGER_DELIVERY, 1, 30, 30);
    assert_check(b, "--once", 0, "\"duplicated\": 0,");
}

static void another_order_is_caught(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_ACK);
    produce(b, 34, LEDGER_ACK); /* the same key */
    consume(b, 34);
    consume(b, 31);
    assert_check(b, NULL, 1, "\"reordered\": 1,");
    assert_check(b, "--unordered", 0, "\"reordered\": 1,");
}

static void order_holds_across_processes(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_ACK);
    produce(b, 34, LEDGER_ACK);
    ledger *other = ledger_open(b->dir, "another");
    ledger_add(other, LEDGER_EFFECT, 1 + 34 % 3, 34, 34);
    ledger_close(other);
    ledger_add(b->consumer, LEDGER_EFFECT, 1 + 31 % 3, 31, 31);
    assert_check(b, NULL, 1, "\"reordered\": 1,");
}

static void a_stuck_message_is_caught(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_ACK);
    ledger_add(b->consumer, LEDGER_DELIVERY, 1 + 31 % 3, 31, 31);
    assert_check(b, NULL, 1,
                 "\"lost\": 0, \"duplicated\": 0, "
                 "\"reordered\": 0, \"stuck\": 1,");
}

static void a_message_from_nowhere_is_caught(void **state)
{
    bench *b = *state;
    good_run(b);
    consume(b, 99);
    assert_check(b, NULL, 1, "\"unexpected\": 1,");
}

static void a_failure_that_was_delivered_is_dishonest(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_FAIL);
    consume(b, 31);
    assert_check(b, NULL, 1, "\"dishonest\": 1,");
}

/* An effect at place 1 under this fence. */
static void effect_at(ledger *l, uint64_t id, uint64_t fence)
{
    ledger_record r = {
        .key = 1 + id % 3, .seq = id, .id = id, .place = 1, .fence = fence
    };
    assert_true(ledger_write(l, LEDGER_EFFECT, r));
}

static void an_effect_below_the_fence_is_refused(void **state)
{
    bench *b = *state;
    good_run(b);
    for (uint64_t id = 31; id <= 34; id += 3)
        produce(b, id, LEDGER_ACK);
    ledger *other = ledger_open(b->dir, "another");
    effect_at(b->consumer, 31, 10);
    effect_at(other, 31, 11); /* the successor has it again */
    effect_at(b->consumer, 34, 10);
    assert_check(b, NULL, 1, "\"stuck\": 1,");
    effect_at(other, 34, 11);
    assert_check(b, NULL, 0, "\"fenced\": 1, \"shared\": 0,");
    assert_check(b, NULL, 0, "\"duplicated\": 1, \"reordered\": 0,");
    ledger_close(other);
}

static void one_fence_under_two_processes_is_caught(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_ACK);
    produce(b, 34, LEDGER_ACK);
    ledger *other = ledger_open(b->dir, "another");
    effect_at(b->consumer, 31, 10);
    effect_at(other, 34, 10);
    assert_check(b, NULL, 1, "\"shared\": 1,");
    ledger_close(other);
}

/* ---- what may come again ---------------------------------------------- */

static void at_place(ledger *l, ledger_kind kind, uint64_t id, uint64_t fence,
                     uint64_t detail)
{
    ledger_record r = { .key = id ? 1 : 0,
                        .seq = id,
                        .id = id,
                        .place = 1,
                        .fence = fence,
                        .detail = detail };
    assert_true(ledger_write(l, kind, r));
}

static void handle(ledger *l, uint64_t id, uint64_t fence)
{
    at_place(l, LEDGER_DELIVERY, id, fence, 0);
    at_place(l, LEDGER_EFFECT, id, fence, 0);
}

/* This process, or all, from now on until `to`. */
static void strike(bench *b, uint64_t process, int64_t to)
{
    ledger_record r = { .id = process,
                        .fence = (uint64_t)wait_now_ns(),
                        .detail = (uint64_t)to };
    assert_true(ledger_write(b->producer, LEDGER_STRIKE, r));
}

/* Ten messages at place 1 under fence 1, of which the last five are not saved;
 * and what the next owner does of them again. */
static ledger *half_saved(bench *b)
{
    for (uint64_t id = 1; id <= 10; id++) {
        produce(b, id, LEDGER_ACK);
        handle(b->consumer, id, 1);
        if (id <= 5)
            at_place(b->consumer, LEDGER_SETTLED, id, 1, 0);
    }
    return ledger_open(b->dir, "another");
}

static void what_was_in_flight_at_a_blow_may_come_again(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    strike(b, (uint64_t)getpid(), wait_now_ns());
    wait_nap(1);
    for (uint64_t id = 6; id <= 10; id++)
        handle(other, id, 2);
    assert_check(b, "--bounded", 0, "\"bound\": 5, \"repeated\": 0}");
    handle(other, 5, 2); /* whose settlement was saved */
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

/* Of a server that was replaced: what was saved just before went with it. */
static void
only_what_was_saved_meanwhile_may_be_lost_with_a_server(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    wait_nap(2);
    ledger_record r = { .seq = 1, .fence = (uint64_t)wait_now_ns() };
    at_place(b->consumer, LEDGER_SETTLED, 10, 1, 0);
    r.detail = (uint64_t)wait_now_ns();
    assert_true(ledger_write(b->producer, LEDGER_STRIKE, r));
    wait_nap(2);
    at_place(b->consumer, LEDGER_SETTLED, 9, 1, 0);
    handle(other, 10, 2);
    assert_check(b, "--bounded", 0, "\"repeated\": 0}");
    handle(other, 9, 2); /* it was saved afterwards */
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    handle(other, 5, 2); /* and this one before */
    assert_check(b, "--bounded", 1, "\"repeated\": 2}");
    ledger_close(other);
}

/* Place 1 is taken under this fence, with all from one number to another
 * settled. */
static void take(ledger *l, uint64_t fence, uint64_t first, uint64_t last)
{
    ledger_record r = { .key = first, .seq = last, .place = 1, .fence = fence };
    assert_true(ledger_write(l, LEDGER_TAKEN, r));
}

/* As handle, of an entry whose position is its number. */
static void handle_there(ledger *l, uint64_t id, uint64_t fence)
{
    at_place(l, LEDGER_DELIVERY, id, fence, 0);
    at_place(l, LEDGER_EFFECT, id, fence, id);
}

/* Ten messages under fence 1, all saved; then the server is replaced by one
 * that may have lost any of it.  The next owner's ledger. */
static ledger *saved_and_lost(bench *b)
{
    ledger_record r = { .seq = 1, .fence = (uint64_t)wait_now_ns() };
    take(b->consumer, 1, 0, 0);
    for (uint64_t id = 1; id <= 10; id++) {
        produce(b, id, LEDGER_ACK);
        handle_there(b->consumer, id, 1);
        at_place(b->consumer, LEDGER_SETTLED, id, 1, 0);
    }
    r.detail = (uint64_t)wait_now_ns();
    assert_true(ledger_write(b->producer, LEDGER_STRIKE, r));
    return ledger_open(b->dir, "another");
}

static void only_what_a_take_does_not_know_may_come_again(void **state)
{
    bench *b = *state;
    ledger *other = saved_and_lost(b);
    assert_check(b, "--bounded", 0, "\"bound\": 0, \"repeated\": 0}");
    take(other, 2, 0, 4);
    take(other, 2, 6, 7); /* these were settled ahead of the others */
    handle_there(other, 5, 2);
    for (uint64_t id = 8; id <= 10; id++)
        handle_there(other, id, 2);
    assert_check(b, "--bounded", 0, "\"bound\": 4, \"repeated\": 0}");
    handle_there(other, 4, 2); /* below the position that was taken */
    assert_check(b, "--bounded", 1, "\"bound\": 4, \"repeated\": 1}");
    handle_there(other, 6, 2);
    assert_check(b, "--bounded", 1, "\"bound\": 4, \"repeated\": 2}");
    ledger_close(other);
}

static void a_take_that_came_later_excuses_nothing(void **state)
{
    bench *b = *state;
    ledger *other = saved_and_lost(b);
    take(other, 2, 0, 10);
    handle_there(other, 9, 2);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    take(other, 3, 0, 4);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

static void a_take_of_another_place_excuses_nothing(void **state)
{
    bench *b = *state;
    ledger *other = saved_and_lost(b);
    ledger_record elsewhere = { .place = 2, .fence = 2 };
    assert_true(ledger_write(other, LEDGER_TAKEN, elsewhere));
    take(other, 2, 0, 10);
    handle_there(other, 9, 2);
    assert_check(b, "--bounded", 1, "\"bound\": 0, \"repeated\": 1}");
    ledger_close(other);
}

static void who_has_a_place_does_not_repeat_itself(void **state)
{
    bench *b = *state;
    ledger_close(saved_and_lost(b));
    handle_there(b->consumer, 10, 1);
    assert_check(b, "--bounded", 1, "\"bound\": 0, \"repeated\": 1}");
}

static void what_is_in_no_log_will_not_come(void **state)
{
    bench *b = *state;
    ledger *other = saved_and_lost(b);
    take(other, 2, 0, 8);
    assert_check(b, "--bounded", 0, "\"bound\": 2, \"repeated\": 0}");
    ledger_add(b->producer, LEDGER_GONE, 1, 10, 10);
    assert_check(b, "--bounded", 0, "\"bound\": 1, \"repeated\": 0}");
    handle_there(other, 10, 2); /* it came before it went */
    assert_check(b, "--bounded", 0, "\"bound\": 2, \"repeated\": 0}");
    ledger_close(other);
}

/* Beside the log, or at another place in it, a take says nothing of it. */
static void what_is_not_where_it_was_needs_a_blow_only(void **state)
{
    bench *b = *state;
    ledger *other = saved_and_lost(b);
    take(other, 2, 0, 10);
    at_place(other, LEDGER_EFFECT, 9, 2, 0);
    at_place(other, LEDGER_EFFECT, 10, 2, 11);
    assert_check(b, "--bounded", 0, "\"bound\": 2, \"repeated\": 0}");
    at_place(other, LEDGER_EFFECT, 10, 2, 11);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

static void positions_keep_their_order_as_numbers(void **state)
{
    (void)state;
    const uint64_t now = UINT64_C(1800000000000), rest = UINT64_MAX;
    const uint64_t ascending[] = { ledger_at(0, 0),      ledger_at(0, 1),
                                   ledger_at(now, 0),    ledger_at(now, 65536),
                                   ledger_at(now, rest), ledger_at(now + 1, 0),
                                   ledger_at(rest, rest) };
    for (size_t i = 1; i < sizeof ascending / sizeof *ascending; i++)
        assert_true(ascending[i - 1] < ascending[i]);
}

static void a_blow_after_the_outcome_is_told_excuses_nothing(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    for (uint64_t id = 6; id <= 10; id++)
        at_place(b->consumer, LEDGER_SETTLED, id, 1, LEAT_EUNKNOWN);
    wait_nap(2);
    strike(b, 0, 0);
    handle(other, 10, 2);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

static void what_comes_again_twice_needs_two_blows(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    strike(b, (uint64_t)getpid(), wait_now_ns());
    wait_nap(1);
    handle(other, 10, 2);
    at_place(other, LEDGER_SETTLED, 10, 2, 0);
    assert_check(b, "--bounded", 0, "\"repeated\": 0}");
    handle(b->consumer, 10, 3);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

static void a_drain_that_saves_nothing_is_caught(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    strike(b, 0, 0);
    at_place(b->consumer, LEDGER_OWNER, 0, 1, LEAT_REVOKED);
    ledger_add(b->consumer, LEDGER_END, 0, 0, 0);
    for (uint64_t id = 6; id <= 10; id++)
        handle(other, id, 2);
    assert_check(b, "--bounded", 1, "\"repeated\": 5}");
    ledger_close(other);
}

/* Saved on a server that its replicas could not follow. */
static void
what_is_unknown_may_come_again_though_its_place_was_given_up(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    at_place(b->consumer, LEDGER_SETTLED, 9, 1, LEAT_EUNKNOWN);
    wait_nap(2);
    strike(b, 0, 0);
    at_place(b->consumer, LEDGER_SETTLED, 10, 1, LEAT_EUNKNOWN);
    at_place(b->consumer, LEDGER_OWNER, 0, 1, LEAT_REVOKED);
    handle(other, 10, 2);
    assert_check(b, "--bounded", 0, "\"repeated\": 0}");
    handle(b->consumer, 9, 3); /* of this it was known before the blow */
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    ledger_close(other);
}

static void who_lost_its_place_was_struck(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    at_place(b->consumer, LEDGER_OWNER, 0, 1, LEAT_LOST);
    for (uint64_t id = 5; id <= 10; id++)
        handle(other, id, 2);
    assert_check(b, "--bounded", 1, "\"bound\": 5, \"repeated\": 1}");
    ledger_close(other);
}

static void a_blow_to_another_excuses_nothing(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    strike(b, (uint64_t)getpid() + 1, 0);
    handle(other, 10, 2);
    assert_check(b, "--bounded", 1, "\"bound\": 0, \"repeated\": 1}");
    ledger_close(other);
}

static void who_has_it_for_too_long_was_struck(void **state)
{
    bench *b = *state;
    produce(b, 1, LEDGER_ACK);
    consume(b, 1);
    wait_nap(20);
    ledger_record stale = {
        .key = 2, .seq = 1, .id = 1, .detail = LEAT_ESTALE
    };
    ledger_write(b->consumer, LEDGER_SETTLED, stale);
    consume(b, 1);
    ledger_add(b->consumer, LEDGER_SETTLED, 1, 1, 1);
    assert_check(b, "--bounded", 1, "\"repeated\": 1}");
    assert_check(b, "--expiring", 0, "\"repeated\": 0}");
}

static void every_hand_out_is_in_order(void **state)
{
    bench *b = *state;
    ledger *other = half_saved(b);
    strike(b, 0, 0);
    handle(other, 9, 2);
    handle(other, 9, 2);
    assert_check(b, NULL, 0, "\"reordered\": 0,");
    handle(other, 8, 2); /* all have had their effect before */
    assert_check(b, NULL, 1, "\"reordered\": 1,");
    ledger_add(b->producer, LEDGER_LATE, 1, 8, 8);
    assert_check(b, NULL, 0, "\"reordered\": 0,");
    ledger_close(other);
}

static void an_operator_may_send_it_again_or_take_it_away(void **state)
{
    bench *b = *state;
    (void)ledger_close(half_saved(b));
    for (uint64_t id = 6; id <= 10; id++)
        at_place(b->consumer, LEDGER_SETTLED, id, 1, 0);
    ledger_add(b->producer, LEDGER_AGAIN, 1, 3, 3);
    handle(b->consumer, 3, 1);
    assert_check(b, "--bounded", 0, "\"bound\": 1, \"repeated\": 0}");
    handle(b->consumer, 3, 1);
    assert_check(b, "--bounded", 1, "\"bound\": 1, \"repeated\": 1}");
    produce(b, 11, LEDGER_ACK);
    assert_check(b, NULL, 1, "\"lost\": 1,");
    ledger_add(b->producer, LEDGER_GONE, 1, 11, 11);
    assert_check(b, NULL, 0, "\"lost\": 0,");
}

static void an_unknown_outcome_may_go_either_way(void **state)
{
    bench *b = *state;
    good_run(b);
    produce(b, 31, LEDGER_UNKNOWN); /* delivered */
    consume(b, 31);
    produce(b, 32, LEDGER_UNKNOWN); /* not */
    produce(b, 33, 0);              /* its producer was killed */
    produce(b, 34, LEDGER_UNKNOWN); /* then refused, but the first came */
    produce(b, 34, LEDGER_FAIL);
    consume(b, 34);
    produce(b, 35, LEDGER_UNKNOWN); /* then promised */
    produce(b, 35, LEDGER_ACK);
    consume(b, 35);
    produce(b, 36, LEDGER_FAIL); /* honest */
    assert_check(b, "--once", 0,
                 "\"attempted\": 36, \"acked\": 31, \"unknown\": 4, "
                 "\"delivered\": 33, \"lost\": 0,");
}

static void without_effects_deliveries_are_counted(void **state)
{
    bench *b = *state;
    produce(b, 1, LEDGER_ACK);
    ledger_add(b->consumer, LEDGER_DELIVERY, 2, 1, 1);
    assert_check(b, "--once", 0, "\"stuck\": 0,");
    ledger_add(b->consumer, LEDGER_DELIVERY, 2, 1, 1);
    assert_check(b, "--once", 1, "\"duplicated\": 1,");
}

static void no_records_are_no_success(void **state)
{
    assert_check(*state, NULL, 2, "\"attempted\": 0,");
    char nowhere[64];
    snprintf(nowhere, sizeof nowhere, "/tmp/leat-none%d", (int)getpid());
    ledger_verdict v;
    int saved = dup(2), null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    assert_false(ledger_judge(nowhere, false, &v));
    dup2(saved, 2);
    close(saved);
    close(null);
}

/* A killed writer leaves part of a record: at the end of its file, or, where
 * processes share a file, between others. */
static void torn_records_are_passed_over(void **state)
{
    bench *b = *state;
    char path[128], part[sizeof(ledger_record)] = "";
    ledger_verdict v;
    good_run(b);
    snprintf(path, sizeof path, "%s/producer.%d.ledger", b->dir, (int)getpid());
    int fd = open(path, O_RDWR | O_APPEND);
    assert_true(pread(fd, part, sizeof part, 0) == sizeof part);
    assert_int_equal(write(fd, part, 17), 17);
    assert_true(ledger_judge(b->dir, false, &v));
    assert_int_equal(v.torn, 1);
    assert_int_equal(v.acked, 30);
    produce(b, 31, LEDGER_ACK);
    consume(b, 31);
    assert_int_equal(write(fd, part, 47), 47);
    assert_true(ledger_judge(b->dir, false, &v));
    assert_int_equal(v.torn, 2);
    assert_int_equal(v.acked, 31);
    assert_int_equal(v.lost, 0);
    close(fd);
}

static void writers_killed_at_random_lose_nothing_written(void **state)
{
    bench *b = *state;
    ledger_verdict v;
    for (int i = 0; i < 4; i++) {
        char role[16], line[64];
        snprintf(role, sizeof role, "%d", i);
        const char *argv[] = { "/proc/self/exe", "write", b->dir, role, NULL };
        proc *p = proc_start(argv, NULL);
        assert_non_null(p);
        assert_true(proc_line(p, line, sizeof line, 5000));
        wait_nap(2 + i);
        proc_free(p);
    }
    assert_true(ledger_judge(b->dir, false, &v));
    assert_true(v.attempted >= 400);
    assert_int_equal(v.lost + v.unexpected + v.dishonest, 0);
    /* A write that crosses a page may be cut by the kill. */
    assert_true(v.torn <= 4);
    assert_true(v.unknown <= 4);
}

static void millions_of_records_are_judged_in_time(void **state)
{
    enum { N = 500 * 1000 };
    bench *b = *state;
    ledger_verdict v;
    for (uint64_t id = 1; id <= N; id++) {
        ledger_add(b->producer, LEDGER_ATTEMPT, 1 + id % 100, id, id * 7919);
        ledger_add(b->producer, LEDGER_ACK, 1 + id % 100, id, id * 7919);
        ledger_add(b->consumer, LEDGER_EFFECT, 1 + id % 100, id, id * 7919);
    }
    clock_t start = clock(); /* its own time, as others may be busy */
    assert_true(ledger_judge(b->dir, false, &v));
    clock_t took = clock() - start;
    assert_int_equal(v.records, 3 * N);
    assert_int_equal(v.acked, N);
    assert_int_equal(v.lost + v.duplicated + v.reordered, 0);
    assert_true(took < 30 * CLOCKS_PER_SEC);
}

static int role_write(const char *dir, const char *role)
{
    uint64_t base = (strtoull(role, NULL, 10) + 1) << 32;
    ledger *l = ledger_open(dir, role);
    for (uint64_t i = 1; l && i < 1000 * 1000; i++) {
        ledger_add(l, LEDGER_ATTEMPT, base, i, base + i);
        ledger_add(l, LEDGER_DELIVERY, base, i, base + i);
        ledger_add(l, LEDGER_ACK, base, i, base + i);
        if (i == 100) {
            puts("going");
            fflush(stdout);
        }
    }
    return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        T(a_good_run_is_good_and_the_keys_are_exact),
        T(a_lost_message_is_caught),
        T(a_duplicate_is_counted_and_fatal_with_once),
        T(a_second_delivery_with_one_effect_is_no_duplicate),
        T(another_order_is_caught),
        T(order_holds_across_processes),
        T(a_stuck_message_is_caught),
        T(a_message_from_nowhere_is_caught),
        T(a_failure_that_was_delivered_is_dishonest),
        T(an_effect_below_the_fence_is_refused),
        T(one_fence_under_two_processes_is_caught),
        T(what_was_in_flight_at_a_blow_may_come_again),
        T(only_what_was_saved_meanwhile_may_be_lost_with_a_server),
        T(only_what_a_take_does_not_know_may_come_again),
        T(a_take_that_came_later_excuses_nothing),
        T(a_take_of_another_place_excuses_nothing),
        T(who_has_a_place_does_not_repeat_itself),
        T(what_is_in_no_log_will_not_come),
        T(what_is_not_where_it_was_needs_a_blow_only),
        T(positions_keep_their_order_as_numbers),
        T(a_blow_after_the_outcome_is_told_excuses_nothing),
        T(what_comes_again_twice_needs_two_blows),
        T(a_drain_that_saves_nothing_is_caught),
        T(what_is_unknown_may_come_again_though_its_place_was_given_up),
        T(who_lost_its_place_was_struck),
        T(a_blow_to_another_excuses_nothing),
        T(who_has_it_for_too_long_was_struck),
        T(every_hand_out_is_in_order),
        T(an_operator_may_send_it_again_or_take_it_away),
        T(an_unknown_outcome_may_go_either_way),
        T(without_effects_deliveries_are_counted),
        T(no_records_are_no_success),
        T(torn_records_are_passed_over),
        T(writers_killed_at_random_lose_nothing_written),
        T(millions_of_records_are_judged_in_time),
    };
    if (argc == 4 && strcmp(argv[1], "write") == 0)
        return role_write(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
