/*
 * topic_recreated.c: a topic is removed and made again under its name, and what
 * was meant for the one is done late, or is still at work.
 */
#include "redis/script.h"
#include "topic/join.h"
#include "topic/trim.h"
#include "topic_help.h"
#include <leat/admin.h>
#include <leat/dlq.h>
#include <stdatomic.h>

enum { FEW = 5 };

static const leat_topic_source_opts quick = { .lease_ms = 1500,
                                              .block_ms = 100 };

static void make(int partitions)
{
    must(leat_topic_create(
        client, "orders", &(leat_topic_spec){ .partitions = partitions }, err));
}

static void id_of(char out[64])
{
    leat_error e = { 0 };
    leat_topic_info *t = leat_topic_describe(client, "orders", NULL, &e);
    assert_non_null(t);
    snprintf(out, 64, "%s", t->id);
    leat_topic_info_free(t);
}

static leat_code remove_by(const char *id)
{
    return leat_topic_remove_with(client, "orders",
                                  &(leat_remove_opts){ .id = id }, NULL);
}

static int64_t length(int partition)
{
    return redis_int(server, "XLEN leat:{orders/%d}:log", partition);
}

static void recreate(int partitions)
{
    must(leat_topic_remove(client, "orders", NULL, err));
    make(partitions);
}

/* What is logged, as far as it speaks of a topic that is another or gone. */
typedef struct ear {
    atomic_int anew, gone, shape;
} ear;

static void hear(void *arg, leat_level level, const char *line)
{
    ear *e = arg;
    (void)level;
    if (strstr(line, "made again:"))
        atomic_fetch_add(&e->anew, 1);
    if (strstr(line, "is gone:") || strstr(line, "is being removed"))
        atomic_fetch_add(&e->gone, 1);
    if (strstr(line, "other partitions"))
        atomic_fetch_add(&e->shape, 1);
}

static leat_topic *open_with(ear *e)
{
    leat_error err = { 0 };
    leat_topic *t = leat_topic_open(
        client, "orders", &(leat_topic_opts){ .log = { .fn = hear, .arg = e } },
        &err);
    if (!t)
        fail_msg("%s", err.msg);
    return t;
}

static leat_code send_one(leat_topic *t)
{
    leat_error e = { 0 };
    leat_code rc = leat_topic_publish(t, &(leat_msg){ .body = leat_str("x") },
                                      NULL, NULL, &e);
    return rc == LEAT_OK ? leat_topic_flush(t, LONG_MS, &e) : rc;
}

/* ---- removing --------------------------------------------------------- */

/* The answer was lost, somebody made a topic of that name and sent to it, and
 * the removal is asked for again. */
static void a_removal_tried_again_spares_the_namesake(void **state)
{
    char first[64], second[64];
    (void)state;
    make(2);
    add_many("orders", 0, 0, FEW);
    id_of(first);
    assert_int_equal(strlen(first), 16);
    assert_int_equal(remove_by(first), LEAT_OK);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
    assert_int_equal(remove_by(first), LEAT_ENOENT);
    make(2);
    add_many("orders", 1, 0, FEW);
    id_of(second);
    assert_string_not_equal(first, second);
    assert_int_equal(remove_by(first), LEAT_ESTALE);
    assert_int_equal(length(1), FEW);
    assert_int_equal(redis_int(server, "SISMEMBER leat:topics orders"), 1);
    assert_int_equal(remove_by(second), LEAT_OK);
}

static void nobody_makes_or_opens_a_topic_that_is_being_removed(void **state)
{
    char id[64];
    leat_error e = { 0 };
    (void)state;
    make(1);
    id_of(id);
    redis_do(server, "HSET leat:topic:orders gone 1");
    assert_int_equal(leat_topic_create(client, "orders", NULL, &e), LEAT_EBUSY);
    assert_non_null(strstr(e.msg, "remove it again"));
    assert_null(leat_topic_open(client, "orders",
                                &(leat_topic_opts){ .auto_create = true }, &e));
    assert_int_equal(e.code, LEAT_EBUSY);
    assert_int_equal(leat_topic_alter(client, "orders", NULL,
                                      &(leat_retention){ .cap = 9 }, &e),
                     LEAT_EBUSY);
    assert_int_equal(remove_by("0123456789abcdef"), LEAT_ESTALE);
    assert_int_equal(remove_by(id), LEAT_OK);
    make(1);
}

/* A producer that was not stopped has brought a log back. */
static void a_removal_that_is_carried_on_takes_what_came_back(void **state)
{
    char id[64];
    (void)state;
    make(2);
    id_of(id);
    redis_do(server, "HSET leat:topic:orders gone 1");
    redis_do(server, "DEL leat:{orders/0}:id");
    add_many("orders", 0, 0, FEW);
    assert_int_equal(remove_by(id), LEAT_OK);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
}

/* ---- what comes late -------------------------------------------------- */

/* A script on partition 0 with the id of a topic that is no more. */
static void is_refused(const leat__script *s, const char *const *words,
                       size_t nkeys, const leat_bytes *args, size_t nargs)
{
    leat__key key[10];
    leat_bytes keys[10];
    leat_error e = { 0 };
    const leat_reply *r;
    leat_conn *conn = leat_client_lend(client, LONG_MS, &e);
    for (size_t i = 0; i < nkeys; i++) {
        leat__key_put(&key[i], "leat:{orders/0}:%s", words[i]);
        keys[i] = leat__key_bytes(&key[i]);
    }
    if (leat__script_call(conn, s, keys, nkeys, args, nargs, &r, &e) !=
        LEAT_ESTALE)
        fail_msg("%s: %s", s->name, e.msg);
    leat_client_return(client, conn);
}

#define S(x) leat_str(x)

static void a_late_step_changes_nothing_of_a_namesake(void **state)
{
    char old[64];
    (void)state;
    make(1);
    id_of(old);
    recreate(1);
    add_many("orders", 0, 0, FEW);
    int64_t keys = redis_int(server, "DBSIZE");
    is_refused(&leat__script_admin_seek,
               (const char *const[]){ "lease:g", "cur:g", "log", "kept:g",
                                      "due:g", "lane:g", "joined", "id" },
               8,
               (const leat_bytes[]){ S("end"), S(""), S("g"), S("*"), S("1000"),
                                     S("c"), S(""), S(""), S(old) },
               9);
    is_refused(&leat__script_topic_take,
               (const char *const[]){ "lease:g", "cur:g", "log", "joined",
                                      "kept:g", "due:g", "lane:g", "id" },
               8,
               (const leat_bytes[]){ S("a"), S(""), S("start"), S("g"),
                                     S("1000"), S(""), S("dead"), S(""), S("0"),
                                     S("key"), S(old) },
               11);
    is_refused(&leat__script_topic_joined,
               (const char *const[]){ "joined", "id" }, 2,
               (const leat_bytes[]){ S("g"), S("u"), S(old) }, 3);
    is_refused(&leat__script_admin_unlog, (const char *const[]){ "log", "id" },
               2, (const leat_bytes[]){ S(old) }, 1);
    assert_int_equal(redis_int(server, "DBSIZE"), keys);
    assert_int_equal(length(0), FEW);
}

/* Steps on the hash answer that it is another. */
static void a_late_step_on_the_hash_changes_nothing(void **state)
{
    static const leat__script *const scripts[] = {
        &leat__script_topic_mark_topic, &leat__script_admin_unmake,
        &leat__script_topic_alter
    };
    char old[64];
    leat_error e = { 0 };
    (void)state;
    make(1);
    id_of(old);
    recreate(1);
    leat_conn *conn = leat_client_lend(client, LONG_MS, &e);
    const leat_bytes key = S("leat:topic:orders");
    const leat_bytes args[] = { S(old), S("gone"), S("1") };
    for (size_t i = 0; i < 3; i++) {
        const leat_reply *r;
        must(leat__script_call(conn, scripts[i], &key, 1, args, i == 2 ? 3 : 2,
                               &r, err));
        assert_int_equal(leat_reply_int(r), 0);
    }
    leat_client_return(client, conn);
    assert_int_equal(redis_int(server, "HEXISTS leat:topic:orders gone"), 0);
}

static leat_code trimmed;

static void on_trimmed(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    trimmed = e ? e->code : LEAT_OK;
}

static void a_late_trim_takes_nothing_of_a_namesake(void **state)
{
    leat__topic_at at;
    leat__trim_names none = { 0 };
    leat_error e = { 0 };
    const leat__trim_how how = { .max_age_ms = -1,
                                 .max_entries = 1,
                                 .most = LEAT__TRIM_PIECE };
    (void)state;
    make(1);
    must(leat__topic_at_init(&at, client, "orders", NULL, err));
    recreate(1);
    add_many("orders", 0, 0, FEW);
    leat_conn *conn = leat_client_lend(client, LONG_MS, &e);
    must(leat__trim_send(conn, &at, 0, &none, &how,
                         &(leat_send_opts){ .fn = on_trimmed }, err));
    must(leat_conn_drain(conn, 0, err));
    leat_client_return(client, conn);
    assert_int_equal(trimmed, LEAT_ESTALE);
    assert_int_equal(length(0), FEW);
}

/* As a member does whose last look at the topic was before its removal. */
static leat_code join(leat_topic *t, const char *group)
{
    leat__group_facts facts;
    leat_group_settings set = { 0 };
    leat__settings_fill(&set);
    return leat__group_join(t, group, &set, &facts, NULL);
}

static void a_late_join_leaves_no_group_in_a_namesake(void **state)
{
    (void)state;
    make(1);
    leat_topic *t = topic_of(client, "orders", 1);
    must(leat_topic_remove(client, "orders", NULL, err));
    assert_int_equal(join(t, "late"), LEAT_ESTALE);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
    make(1);
    add_many("orders", 0, 0, FEW);
    assert_int_equal(join(t, "late"), LEAT_ESTALE);
    assert_int_equal(redis_int(server, "SCARD leat:{orders}:groups"), 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders}:group:late"), 0);
    must(leat_topic_trim(client, "orders",
                         &(leat_trim_opts){ .max_entries = -1 }, NULL, err));
    assert_int_equal(length(0), 0);
    leat_topic_close(t);
}

/* Its groups are gone already, its hash is not. */
static void nobody_joins_a_topic_that_is_being_removed(void **state)
{
    char id[64];
    (void)state;
    make(1);
    id_of(id);
    leat_topic *t = topic_of(client, "orders", 1);
    redis_do(server, "HSET leat:topic:orders gone 1");
    redis_do(server, "DEL leat:{orders}:topic");
    assert_int_equal(join(t, "late"), LEAT_ESTALE);
    assert_int_equal(redis_int(server, "SCARD leat:{orders}:groups"), 0);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders}:topic"), 0);
    assert_int_equal(remove_by(id), LEAT_OK);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
    leat_topic_close(t);
}

/* A handle that was opened before. */
static void late_moves_leave_the_dead_letters_of_a_namesake(void **state)
{
    leat_error e = { 0 };
    (void)state;
    make(1);
    leat_dlq *d = leat_dlq_open(client, "orders", NULL, &e);
    assert_non_null(d);
    recreate(1);
    redis_do(server, "XADD leat:{orders/0}:dlq 5-0 g g i 1-0 n 1 f 1 c 1 b x");
    redis_do(server, "HSET leat:{orders/0}:cur:g c 1-0");
    const char *ids[] = { "0:5-0" };
    const leat_dlq_move_opts again = { .republish = true };
    assert_int_equal(leat_dlq_remove(d, ids, 1, NULL, NULL, &e), LEAT_ESTALE);
    assert_int_equal(leat_dlq_clear(d, NULL, NULL, NULL, &e), LEAT_ESTALE);
    assert_int_equal(leat_dlq_replay(d, ids, 1, NULL, NULL, &e), LEAT_ESTALE);
    assert_int_equal(leat_dlq_replay(d, ids, 1, &again, NULL, &e), LEAT_ESTALE);
    assert_int_equal(
        leat_dlq_edit(d, ids[0], &(leat_dead_edit){ .body = S("y") }, NULL, &e),
        LEAT_ESTALE);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:dlq"), 1);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders/0}:log"), 0);
    leat_dlq_close(d);
}

/* ---- those who have it open ------------------------------------------- */

static void a_producer_notices_a_new_topic_and_goes_on(void **state)
{
    ear e = { 0 };
    (void)state;
    make(2);
    leat_topic *t = open_with(&e);
    assert_int_equal(send_one(t), LEAT_OK);
    recreate(2);
    wait_until(atomic_load(&e.anew) == 1, LONG_MS);
    assert_int_equal(send_one(t), LEAT_OK);
    assert_int_equal(length(0) + length(1), 1);
    leat_topic_close(t);
}

static void a_producer_refuses_a_topic_that_it_does_not_fit(void **state)
{
    ear e = { 0 };
    (void)state;
    make(2);
    leat_topic *t = open_with(&e);
    assert_int_equal(send_one(t), LEAT_OK);
    recreate(3);
    wait_until(atomic_load(&e.shape) == 1, LONG_MS);
    assert_int_equal(send_one(t), LEAT_ESTALE);
    leat_topic_close(t);
}

static void a_producer_refuses_a_topic_that_is_gone_until_it_is_back(void **s)
{
    ear e = { 0 };
    (void)s;
    make(1);
    leat_topic *t = open_with(&e);
    assert_int_equal(send_one(t), LEAT_OK);
    must(leat_topic_remove(client, "orders", NULL, err));
    wait_until(atomic_load(&e.gone) > 0, LONG_MS);
    assert_int_equal(send_one(t), LEAT_ENOENT);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
    make(1);
    wait_until(atomic_load(&e.anew) == 1, LONG_MS);
    assert_int_equal(send_one(t), LEAT_OK);
    leat_topic_close(t);
}

/* As when the server has lost everything. */
static void with_auto_create_a_lost_topic_is_made_again(void **state)
{
    char first[64], second[64];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 3);
    id_of(first);
    assert_int_equal(send_one(t), LEAT_OK);
    assert_true(redis_flush(server));
    wait_until(redis_int(server, "EXISTS leat:topic:orders") == 1, LONG_MS);
    id_of(second);
    assert_string_equal(first, second);
    leat_source *s = source_of(t, "g", &quick);
    add_many("orders", 2, 0, 1);
    ack(next_of(s));
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_member_notices_a_new_topic_and_begins_anew(void **state)
{
    ear e = { 0 };
    (void)state;
    make(1);
    leat_topic *t = open_with(&e);
    leat_source *s = source_of(t, "g", &quick);
    add_many("orders", 0, 0, FEW);
    for (int i = 0; i < FEW; i++)
        ack(next_of(s));
    must(leat_source_flush(s, LONG_MS, err));
    must(leat_topic_remove_with(client, "orders",
                                &(leat_remove_opts){ .force = true }, err));
    make(1);
    /* Ids that the group of before has passed. */
    redis_do(server, "XADD leat:{orders/0}:log 1-1 a b");
    wait_until(atomic_load(&e.anew) >= 1, LONG_MS);
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_position(d).ms, 1);
    ack(d);
    must(leat_source_flush(s, LONG_MS, err));
    wait_until(redis_int(server, "SISMEMBER leat:{orders}:groups g") == 1,
               LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- ids that are missing --------------------------------------------- */

/* Its maker died, a server lost them, or a late write put another. */
static void ids_that_are_wrong_are_set_right(void **state)
{
    char id[64], here[64];
    (void)state;
    make(2);
    id_of(id);
    redis_do(server, "HDEL leat:topic:orders marked");
    redis_do(server, "DEL leat:{orders/0}:id leat:{orders/1}:id");
    leat_topic *t = topic_of(client, "orders", 2);
    redis_text(server, here, sizeof here, "GET leat:{orders/1}:id");
    assert_string_equal(here, id);
    redis_do(server, "DEL leat:{orders/0}:id");
    redis_do(server, "SET leat:{orders/1}:id 0123456789abcdef");
    add_many("orders", 0, 0, FEW);
    must(leat_topic_trim(client, "orders",
                         &(leat_trim_opts){ .max_entries = 1, .force = true },
                         NULL, err));
    assert_int_equal(length(0), 1);
    redis_do(server, "SET leat:{orders/1}:id 0123456789abcdef");
    leat_source *s = source_of(t, "g", &quick);
    redis_do(server, "SET leat:{orders/0}:id 0123456789abcdef");
    add("orders", 1, "x");
    ack(next_of(s));
    ack(next_of(s));
    leat_source_close(s);
    leat_topic_close(t);
}

static bool groups_know_the_topic(const char *id)
{
    char here[64];
    redis_text(server, here, sizeof here, "GET leat:{orders}:topic");
    return strcmp(here, id) == 0;
}

/* The version before this one marked the topic without it, or a server lost
 * it, or a late write put another. */
static void a_join_sets_right_which_topic_its_groups_are_of(void **state)
{
    char id[64];
    (void)state;
    make(1);
    id_of(id);
    assert_true(groups_know_the_topic(id));
    leat_topic *t = topic_of(client, "orders", 1);
    redis_do(server, "DEL leat:{orders}:topic");
    assert_int_equal(join(t, "a"), LEAT_OK);
    assert_true(groups_know_the_topic(id));
    redis_do(server, "SET leat:{orders}:topic 0123456789abcdef");
    assert_int_equal(join(t, "b"), LEAT_OK);
    assert_true(groups_know_the_topic(id));
    assert_int_equal(redis_int(server, "SCARD leat:{orders}:groups"), 2);
    leat_topic_close(t);
}

/* Its group is lost with it, and made again. */
static void a_member_sets_right_which_topic_its_group_is_of(void **state)
{
    char id[64];
    (void)state;
    make(1);
    id_of(id);
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", &quick);
    redis_do(server, "SET leat:{orders}:topic 0123456789abcdef");
    redis_do(server, "DEL leat:{orders}:groups leat:{orders}:group:g");
    wait_until(redis_int(server, "SISMEMBER leat:{orders}:groups g"), LONG_MS);
    assert_true(groups_know_the_topic(id));
    leat_source_close(s);
    leat_topic_close(t);
}

/* What a removed topic left behind, by an earlier version or a late write. */
static void a_plain_stream_is_joined_whatever_had_its_name(void **state)
{
    (void)state;
    redis_do(server, "XADD orders 1-0 b x");
    redis_do(server, "SET leat:{orders}:topic 0123456789abcdef");
    leat_topic *t = topic_of(client, "orders", 0);
    assert_true(leat_topic_legacy(t));
    assert_int_equal(join(t, "g"), LEAT_OK);
    assert_int_equal(redis_int(server, "EXISTS leat:{orders}:topic"), 0);
    redis_do(server, "DEL orders");
    make(1);
    assert_int_equal(join(t, "late"), LEAT_ESTALE);
    assert_int_equal(redis_int(server, "SCARD leat:{orders}:groups"), 1);
    leat_topic_close(t);
}

/* A removal of the one before takes the name off the list late. */
static void a_name_that_was_taken_off_the_list_late_is_back(void **state)
{
    ear heard = { 0 };
    (void)state;
    make(1);
    recreate(1);
    redis_do(server, "SREM leat:topics orders");
    leat_topic_close(open_with(&heard));
    assert_int_equal(redis_int(server, "SISMEMBER leat:topics orders"), 1);
}

/* ---- what an earlier version made ------------------------------------- */

static void a_topic_without_an_id_works_through_every_verb(void **state)
{
    leat_error e = { 0 };
    char id[64];
    (void)state;
    make(1);
    redis_do(server, "HDEL leat:topic:orders u marked");
    redis_do(server, "DEL leat:{orders/0}:id leat:{orders}:topic");
    id_of(id);
    assert_string_equal(id, "");
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", &quick);
    assert_int_equal(send_one(t), LEAT_OK);
    assert_int_equal(leat_delivery_reject(next_of(s), "bad"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_dlq *d = leat_dlq_open(client, "orders", NULL, &e);
    must(leat_dlq_replay_all(d, NULL, NULL, NULL, err));
    assert_int_equal(leat_delivery_reject(next_of(s), "bad"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    must(leat_dlq_clear(d, NULL, NULL, NULL, err));
    leat_dlq_close(d);
    must(leat_group_seek(client, "orders", "g", "end", NULL, NULL, err));
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .max_entries = 9 }, err));
    must(leat_topic_trim(client, "orders",
                         &(leat_trim_opts){ .max_entries = -1 }, NULL, err));
    assert_int_equal(length(0), 0);
    leat_topic_close(t);
    assert_int_equal(remove_by(""), LEAT_OK);
    assert_int_equal(redis_int(server, "DBSIZE"), 0);
}

static void on_loss(void *arg, const leat_loss *loss)
{
    (void)loss;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* What was removed is not lost, and not sent again to who has the name. */
static void nothing_of_a_removed_topic_is_sent_again(void **state)
{
    atomic_int lost = 0;
    leat_error e = { 0 };
    (void)state;
    make(1);
    leat_topic *t = leat_topic_open(
        client, "orders",
        &(leat_topic_opts){
            .republish_bytes = 1 << 20, .on_loss = on_loss, .loss_arg = &lost },
        &e);
    assert_non_null(t);
    for (int i = 0; i < FEW; i++)
        assert_int_equal(send_one(t), LEAT_OK);
    recreate(1);
    /* The check of a new connection comes before the first message on it. */
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(send_one(t) == LEAT_OK, LONG_MS);
    assert_int_equal(length(0), 1);
    assert_int_equal(atomic_load(&lost), 0);

    /* One that the server loses is told, and sent again. */
    redis_do(server, "DEL leat:{orders/0}:log");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(send_one(t) == LEAT_OK, LONG_MS);
    assert_int_equal(length(0), 2);
    assert_int_equal(atomic_load(&lost), 1);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_removal_tried_again_spares_the_namesake),
        topic_test(nobody_makes_or_opens_a_topic_that_is_being_removed),
        topic_test(a_removal_that_is_carried_on_takes_what_came_back),
        topic_test(a_late_step_changes_nothing_of_a_namesake),
        topic_test(a_late_step_on_the_hash_changes_nothing),
        topic_test(a_late_trim_takes_nothing_of_a_namesake),
        topic_test(a_late_join_leaves_no_group_in_a_namesake),
        topic_test(nobody_joins_a_topic_that_is_being_removed),
        topic_test(late_moves_leave_the_dead_letters_of_a_namesake),
        topic_test(a_producer_notices_a_new_topic_and_goes_on),
        topic_test(a_producer_refuses_a_topic_that_it_does_not_fit),
        topic_test(a_producer_refuses_a_topic_that_is_gone_until_it_is_back),
        topic_test(with_auto_create_a_lost_topic_is_made_again),
        topic_test(a_member_notices_a_new_topic_and_begins_anew),
        topic_test(ids_that_are_wrong_are_set_right),
        topic_test(a_join_sets_right_which_topic_its_groups_are_of),
        topic_test(a_member_sets_right_which_topic_its_group_is_of),
        topic_test(a_plain_stream_is_joined_whatever_had_its_name),
        topic_test(a_name_that_was_taken_off_the_list_late_is_back),
        topic_test(a_topic_without_an_id_works_through_every_verb),
        topic_test(nothing_of_a_removed_topic_is_sent_again),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
