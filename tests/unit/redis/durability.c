/* durability.c: which class a server gives, why not more, and what it means. */
#include "redis/durability.h"
#include "redis/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ROOM 200

/* A server as it should be: everything else is this with something wrong. */
static leat_server good(void)
{
    return (leat_server){ .version = "7.0.15",
                          .role = "master",
                          .maxmemory_policy = "noeviction",
                          .aof = true,
                          .appendfsync = "always",
                          .config_seen = true,
                          .min_replicas = 2,
                          .min_replicas_lag_s = 10,
                          .replicas = 2,
                          .replicas_online = 2 };
}

static void sync_by(leat_server *s, const char *policy)
{
    snprintf(s->appendfsync, sizeof s->appendfsync, "%s", policy);
}

static void gives(const leat_server *s, leat_durability d, int replicas)
{
    char why[ROOM];
    if (leat__durability_lack(s, d, replicas, why, sizeof why))
        fail_msg("'%s' is not given: %s", leat_durability_name(d), why);
    assert_string_equal(why, "");
}

static void lacks_for(const leat_server *s, leat_durability d, int replicas,
                      leat__lack how, const char *words)
{
    char why[ROOM];
    assert_int_equal(leat__durability_lack(s, d, replicas, why, sizeof why),
                     how);
    if (!strstr(why, words))
        fail_msg("'%s' lacks '%s'", why, words);
}

static void a_good_server_gives_every_class(void **state)
{
    leat_server s = good();
    (void)state;
    for (leat_durability d = LEAT_EXECUTED; d <= LEAT_OUTBOX; d++)
        gives(&s, d, 2);
}

static void every_server_gives_the_classes_that_ask_for_nothing(void **state)
{
    leat_server s = { 0 };
    (void)state;
    gives(&s, LEAT_EXECUTED, 1);
    gives(&s, LEAT_OUTBOX, 1);
}

static void without_a_log_nothing_is_logged(void **state)
{
    leat_server s = good();
    (void)state;
    s.aof = false;
    for (leat_durability d = LEAT_LOGGED; d <= LEAT_REPLICATED; d++)
        lacks_for(&s, d, 1, LEAT__LACKS, "set appendonly yes");
    s.has_waitaof = true; /* it waits for a log that is not there */
    lacks_for(&s, LEAT_SYNCED, 1, LEAT__LACKS, "set appendonly yes");
}

static void the_policy_of_syncing_decides(void **state)
{
    leat_server s = good();
    (void)state;
    sync_by(&s, "everysec");
    gives(&s, LEAT_LOGGED, 1);
    lacks_for(&s, LEAT_SYNCED, 1, LEAT__LACKS,
              "appendfsync is everysec, set appendfsync always");
    lacks_for(&s, LEAT_REPLICATED, 1, LEAT__LACKS, "set appendfsync always");
    sync_by(&s, "no");
    lacks_for(&s, LEAT_LOGGED, 1, LEAT__LACKS,
              "appendfsync is no, set appendfsync everysec or always");
}

static void syncing_that_pauses_for_rewrites_is_not_always(void **state)
{
    leat_server s = good();
    (void)state;
    s.no_sync_on_rewrite = true;
    gives(&s, LEAT_LOGGED, 1);
    lacks_for(&s, LEAT_SYNCED, 1, LEAT__LACKS,
              "set no-appendfsync-on-rewrite no");
}

static void a_server_that_can_be_asked_gives_synced(void **state)
{
    leat_server s = good();
    (void)state;
    sync_by(&s, "everysec");
    s.has_waitaof = true;
    gives(&s, LEAT_SYNCED, 1);
    gives(&s, LEAT_REPLICATED, 2);
    s.appendfsync[0] = '\0'; /* it need not be seen: it is proven */
    gives(&s, LEAT_SYNCED, 1);
}

static void what_cannot_be_seen_is_no_yes(void **state)
{
    leat_server s = good();
    (void)state;
    s.appendfsync[0] = '\0';
    s.config_seen = false;
    lacks_for(&s, LEAT_LOGGED, 1, LEAT__LACKS, "allow +config|get");
    lacks_for(&s, LEAT_SYNCED, 1, LEAT__LACKS, "allow +config|get");
    lacks_for(&s, LEAT_REPLICATED, 1, LEAT__LACKS, "allow +config|get");
    s.has_waitaof = true;
    lacks_for(&s, LEAT_REPLICATED, 1, LEAT__LACKS,
              "min-replicas-to-write is not known");
    s = good();
    s.version[0] = '\0';
    lacks_for(&s, LEAT_LOGGED, 1, LEAT__LACKS, "allow +info");
    s = good();
    s.wait_refused = true;
    gives(&s, LEAT_SYNCED, 1);
    lacks_for(&s, LEAT_REPLICATED, 1, LEAT__LACKS, "allow +wait");
}

static void replicas_are_demanded_of_the_server_too(void **state)
{
    leat_server s = good();
    (void)state;
    lacks_for(&s, LEAT_REPLICATED, 3, LEAT__LACKS,
              "min-replicas-to-write is 2, set min-replicas-to-write 3");
    s.min_replicas_lag_s = 0;
    lacks_for(&s, LEAT_REPLICATED, 2, LEAT__LACKS, "min-replicas-max-lag");
    gives(&s, LEAT_SYNCED, 2);
}

static void replicas_may_be_on_their_way(void **state)
{
    leat_server s = good();
    leat_error e;
    leat__demand d = { .asked = LEAT_REPLICATED, .replicas = 2 };
    (void)state;
    s.replicas_online = 1;
    lacks_for(&s, LEAT_REPLICATED, 2, LEAT__LACKS_NOW, "1 of 2 replicas");
    assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_EUNSAFE);
    assert_true(e.retriable);
    s.min_replicas = 0;
    assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_EUNSAFE);
    assert_false(e.retriable);
}

static void the_refusal_names_class_and_setting(void **state)
{
    leat_server s = good();
    leat_error e;
    leat__demand d = { .asked = LEAT_SYNCED };
    (void)state;
    sync_by(&s, "everysec");
    assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_EUNSAFE);
    assert_string_equal(e.msg, "durability 'synced' is not given: appendfsync "
                               "is everysec, set appendfsync always "
                               "(redis.conf or CONFIG SET)");
    d.weak = true;
    assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_OK);
}

static void eviction_is_refused_in_every_class(void **state)
{
    leat_server s = good();
    leat_error e;
    (void)state;
    snprintf(s.maxmemory_policy, sizeof s.maxmemory_policy, "allkeys-lru");
    for (leat_durability a = LEAT_EXECUTED; a <= LEAT_OUTBOX; a++) {
        leat__demand d = { .asked = a, .replicas = 1 };
        assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_EUNSAFE);
        assert_non_null(strstr(e.msg, "noeviction"));
        d.evicting = true;
        assert_int_equal(leat__durability_judge(&s, &d, &e), LEAT_OK);
    }
}

/* ---- proofs ----------------------------------------------------------- */

static leat__proof proof_of(const leat_server *s, leat_durability d,
                            int64_t wait_ms)
{
    leat__demand demand = { .asked = d,
                            .replicas = d == LEAT_REPLICATED ? 2 : 0,
                            .wait_ms = wait_ms };
    return leat__durability_proof(s, &demand);
}

static void only_what_the_server_does_not_do_is_proven(void **state)
{
    leat_server s = good();
    (void)state;
    for (leat_durability d = LEAT_EXECUTED; d <= LEAT_SYNCED; d++) {
        leat__proof p = proof_of(&s, d, 0);
        assert_false(p.synced || p.replicas > 0);
    }
    s.has_waitaof = true; /* always is always */
    assert_false(proof_of(&s, LEAT_SYNCED, 0).synced);
    sync_by(&s, "everysec");
    assert_true(proof_of(&s, LEAT_SYNCED, 0).synced);
    assert_false(proof_of(&s, LEAT_LOGGED, 0).synced);
    assert_false(proof_of(&s, LEAT_OUTBOX, 0).synced);
}

static void replicas_are_proven_by_wait_or_waitaof(void **state)
{
    leat_server s = good();
    (void)state;
    leat__proof p = proof_of(&s, LEAT_REPLICATED, 0);
    assert_int_equal(p.replicas, 2);
    assert_false(p.synced);
    assert_int_equal(p.ms, 1000);
    s.has_waitaof = true;
    p = proof_of(&s, LEAT_REPLICATED, 0);
    assert_true(p.synced);
    assert_int_equal(p.replicas, 2);
}

/* A server that syncs every second needs more than one to say so. */
static void the_wait_is_long_enough_for_the_disk(void **state)
{
    leat_server s = good();
    (void)state;
    s.has_waitaof = true;
    sync_by(&s, "everysec");
    assert_int_equal(proof_of(&s, LEAT_SYNCED, 0).ms, 5000);
    assert_int_equal(proof_of(&s, LEAT_SYNCED, 70).ms, 70);
}

/* ---- reports ---------------------------------------------------------- */

static leat_durability_report report(const leat_server *s, leat_durability d)
{
    leat_durability_report out;
    leat__demand demand = { .asked = d,
                            .replicas = d == LEAT_REPLICATED ? 1 : 0,
                            .weak = true };
    leat__durability_describe(s, &demand, &out);
    assert_non_null(out.means);
    return out;
}

static void acknowledgements_have_what_the_server_does_by_itself(void **state)
{
    leat_server s = good();
    (void)state;
    leat_durability_report r = report(&s, LEAT_EXECUTED);
    assert_int_equal(r.given, LEAT_SYNCED);
    assert_int_equal(r.best, LEAT_REPLICATED);
    assert_int_equal(r.forgets_ms, 0);
    assert_string_equal(r.lacks, "");
    assert_int_equal(report(&s, LEAT_REPLICATED).given, LEAT_REPLICATED);
    assert_int_equal(report(&s, LEAT_OUTBOX).given, LEAT_OUTBOX);
}

static void the_window_of_everysec_is_at_least_two_seconds(void **state)
{
    leat_server s = good();
    (void)state;
    sync_by(&s, "everysec");
    leat_durability_report r = report(&s, LEAT_EXECUTED);
    assert_int_equal(r.given, LEAT_LOGGED);
    assert_int_equal(r.best, LEAT_LOGGED);
    assert_int_equal(r.forgets_ms, 2000);
    assert_non_null(strstr(r.means, "two seconds"));
    assert_non_null(strstr(r.lacks, "set appendfsync always"));
    s.has_waitaof = true;
    assert_int_equal(report(&s, LEAT_LOGGED).given, LEAT_LOGGED);
    assert_int_equal(report(&s, LEAT_SYNCED).given, LEAT_SYNCED);
}

static void memory_alone_has_no_bound(void **state)
{
    leat_server s = good();
    (void)state;
    s.aof = false;
    leat_durability_report r = report(&s, LEAT_EXECUTED);
    assert_int_equal(r.given, LEAT_EXECUTED);
    assert_int_equal(r.forgets_ms, -1);
    assert_non_null(strstr(r.means, "everything"));
    s.snapshots = true;
    r = report(&s, LEAT_EXECUTED);
    assert_non_null(strstr(r.means, "last snapshot"));
}

/* What was asked for and is two classes away is what the words speak of. */
static void the_report_speaks_of_the_class_asked_for(void **state)
{
    leat_server s = good();
    (void)state;
    sync_by(&s, "everysec");
    s.min_replicas = 0;
    leat_durability_report r = report(&s, LEAT_REPLICATED);
    assert_int_equal(r.given, LEAT_LOGGED);
    assert_non_null(strstr(r.lacks, "appendfsync"));
    sync_by(&s, "always");
    r = report(&s, LEAT_REPLICATED);
    assert_int_equal(r.given, LEAT_SYNCED);
    assert_non_null(strstr(r.lacks, "min-replicas-to-write 1"));
}

static void a_weakness_is_warned_of_and_a_window_only_told(void **state)
{
    leat_server s = good();
    leat__demand d = { 0 };
    leat_level level;
    (void)state;
    assert_null(leat__durability_remark(&s, &d, &level));
    sync_by(&s, "everysec");
    assert_non_null(leat__durability_remark(&s, &d, &level));
    assert_int_equal(level, LEAT_LOG_INFO);
    d.asked = LEAT_LOGGED; /* it was asked for */
    assert_null(leat__durability_remark(&s, &d, &level));
    d.asked = LEAT_EXECUTED;
    sync_by(&s, "no");
    assert_non_null(leat__durability_remark(&s, &d, &level));
    assert_int_equal(level, LEAT_LOG_WARN);
    s.aof = false;
    assert_non_null(
        strstr(leat__durability_remark(&s, &d, &level), "appendonly"));
    d.asked = LEAT_OUTBOX;
    assert_null(leat__durability_remark(&s, &d, &level));
    s.version[0] = '\0';
    assert_non_null(leat__durability_remark(&s, &d, &level));
}

/* ---- names and facts -------------------------------------------------- */

static void classes_have_names_and_numbers(void **state)
{
    leat_durability d;
    (void)state;
    for (leat_durability i = LEAT_EXECUTED; i <= LEAT_OUTBOX; i++) {
        char digit[2] = { (char)('0' + i), '\0' };
        assert_true(
            leat__durability_parse(leat_str(leat_durability_name(i)), &d));
        assert_int_equal(d, i);
        assert_true(leat__durability_parse(leat_str(digit), &d));
        assert_int_equal(d, i);
    }
    static const char *const none[] = {
        "", "5", "-1", "SYNCED ", "sync", "00"
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(leat__durability_parse(leat_str(none[i]), &d));
    assert_string_equal(leat_durability_name((leat_durability)77), "?");
}

static void replicas_are_counted_where_they_follow(void **state)
{
    leat_server s = { 0 };
    (void)state;
    leat__facts_info(
        leat_str("connected_slaves:4\r\n"
                 "slave0:ip=::1,port=1,state=online,offset=98,lag=1\r\n"
                 "slave1:ip=::1,port=2,state=wait_bgsave,offset=0,lag=9\r\n"
                 "slave2:ip=::1,port=3,state=online,offset=98,lag=4\r\n"
                 "slave3:\r\nslave_read_only:1\r\nslave4:state\r\n"
                 "slave5:state=,lag\r\ncluster_enabled:1\r\n"
                 "aof_last_write_status:err\r\n"
                 "rdb_last_bgsave_status:ok\r\n"),
        &s);
    assert_int_equal(s.replicas, 4);
    assert_int_equal(s.replicas_online, 2);
    assert_int_equal(s.replicas_lag_s, 4);
    assert_true(s.clustered);
    assert_true(s.aof_failed);
    assert_false(s.saves_failed);
}

static void settings_are_read_by_name(void **state)
{
    static const char *const pairs[][2] = {
        { "appendfsync", "everysec-and-much-more-than-fits" },
        { "no-appendfsync-on-rewrite", "yes" },
        { "min-replicas-to-write", "3" },
        { "min-replicas-max-lag", "12" },
        { "save", "3600 1" },
        { "appendfilename", "x" },
    };
    leat_server s = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        leat__facts_config(leat_str(pairs[i][0]), leat_str(pairs[i][1]), &s);
    assert_true(s.config_seen);
    assert_true(s.no_sync_on_rewrite);
    assert_int_equal(s.min_replicas, 3);
    assert_int_equal(s.min_replicas_lag_s, 12);
    assert_true(s.snapshots);
    assert_int_equal(strlen(s.appendfsync), sizeof s.appendfsync - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_server_gives_every_class),
        cmocka_unit_test(every_server_gives_the_classes_that_ask_for_nothing),
        cmocka_unit_test(without_a_log_nothing_is_logged),
        cmocka_unit_test(the_policy_of_syncing_decides),
        cmocka_unit_test(syncing_that_pauses_for_rewrites_is_not_always),
        cmocka_unit_test(a_server_that_can_be_asked_gives_synced),
        cmocka_unit_test(what_cannot_be_seen_is_no_yes),
        cmocka_unit_test(replicas_are_demanded_of_the_server_too),
        cmocka_unit_test(replicas_may_be_on_their_way),
        cmocka_unit_test(the_refusal_names_class_and_setting),
        cmocka_unit_test(eviction_is_refused_in_every_class),
        cmocka_unit_test(only_what_the_server_does_not_do_is_proven),
        cmocka_unit_test(replicas_are_proven_by_wait_or_waitaof),
        cmocka_unit_test(the_wait_is_long_enough_for_the_disk),
        cmocka_unit_test(acknowledgements_have_what_the_server_does_by_itself),
        cmocka_unit_test(the_window_of_everysec_is_at_least_two_seconds),
        cmocka_unit_test(memory_alone_has_no_bound),
        cmocka_unit_test(the_report_speaks_of_the_class_asked_for),
        cmocka_unit_test(a_weakness_is_warned_of_and_a_window_only_told),
        cmocka_unit_test(classes_have_names_and_numbers),
        cmocka_unit_test(replicas_are_counted_where_they_follow),
        cmocka_unit_test(settings_are_read_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
