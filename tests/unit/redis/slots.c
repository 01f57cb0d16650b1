/* The map of a cluster, from what its nodes say. */
#include "redis/slots.h"
#include "redis/resp.h"
#include "support/leat.h"

static const leat__address asked = { .host = "asked", .port = 7000 };

static leat__resp decoder;
static leat__slots map;

static int setup(void **state)
{
    (void)state;
    leat__resp_init(&decoder, &(leat__resp_limits){ 0 });
    leat__slots_init(&map);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    leat__resp_release(&decoder);
    leat__slots_release(&map);
    return 0;
}

/* A reply from its wire form, in which a blank stands for CR LF. */
static const leat_reply *wire(const char *text)
{
    static char bytes[4096];
    size_t n = 0, used;
    leat_error e;
    for (; *text; text++) {
        if (*text == ' ') {
            bytes[n++] = '\r';
            bytes[n++] = '\n';
        } else {
            bytes[n++] = *text;
        }
    }
    leat__resp_reset(&decoder);
    assert_int_equal(leat__resp_decode(&decoder, bytes, n, &used, &e),
                     LEAT__RESP_DONE);
    return decoder.nodes;
}

static leat_code read_slots(const char *text, leat_error *err)
{
    leat__slots_release(&map);
    return leat__slots_read(&map, wire(text), &asked, err);
}

static leat_code read_shards(const char *text, bool tls, leat_error *err)
{
    leat__slots_release(&map);
    return leat__slots_read_shards(&map, wire(text), &asked, tls, err);
}

static const leat__slots_node *owner(unsigned slot)
{
    const leat__slots_node *node = leat__slots_owner(&map, slot);
    assert_non_null(node);
    return node;
}

static void slots_tell_masters_and_replicas(void **state)
{
    (void)state;
    must(read_slots("*2 *4 :0 :99 *3 $1 a :1 $2 id *3 $1 b :2 $2 id "
                    "*3 :100 :16383 *3 $1 c :3 $2 id ",
                    err));
    assert_int_equal(map.count, 3);
    assert_string_equal(owner(0)->at.host, "a");
    assert_int_equal(owner(99)->at.port, 1);
    assert_string_equal(owner(100)->at.host, "c");
    assert_int_equal(owner(0)->slots, 100);
    assert_int_equal(owner(16383)->slots, 16284);
    assert_false(map.nodes[1].master);
    assert_int_equal(map.nodes[1].primary, 0);
    assert_null(leat__slots_owner(&map, 16384));
}

static void a_node_without_a_name_is_the_one_that_was_asked(void **state)
{
    (void)state;
    must(read_slots("*1 *3 :0 :1 *3 $0  :1 $2 id ", err));
    assert_string_equal(owner(0)->at.host, "asked");
    must(read_slots("*1 *3 :0 :1 *3 $-1 :1 $2 id ", err));
    assert_string_equal(owner(0)->at.host, "asked");
}

static void a_node_that_lacks_a_name_has_an_ip(void **state)
{
    (void)state;
    must(read_slots("*1 *3 :0 :1 *4 $1 ? :1 $2 id *2 $2 ip $3 ::1 ", err));
    assert_string_equal(owner(0)->at.host, "::1");
}

#define SHARD_NODE(role, port, health)                                         \
    "*14 $2 id $1 x $4 port :" port " $8 tls-port :9" port                     \
    " $2 ip $1 i $8 endpoint $1 h $4 role " role " $6 health " health " "

static void shards_tell_who_is_sound(void **state)
{
    (void)state;
    const char *text = "*1 *4 $5 slots *4 :0 :5 :9 :9 $5 nodes *3 " SHARD_NODE(
        "$6 master", "1", "$4 fail") SHARD_NODE("$6 master", "2", "$6 online")
        SHARD_NODE("$7 replica", "3", "$6 online");
    must(read_shards(text, false, err));
    assert_int_equal(owner(0)->at.port, 2);
    assert_int_equal(owner(9)->at.port, 2);
    assert_int_equal(owner(9)->slots, 7);
    assert_null(leat__slots_owner(&map, 6));
    assert_int_equal(map.count, 3);
    must(read_shards(text, true, err));
    assert_int_equal(owner(0)->at.port, 92);
}

static void a_map_may_come_as_resp3(void **state)
{
    (void)state;
    must(read_shards("*1 %2 $5 slots *2 :0 :5 $5 nodes *1 %3 $4 role $6 master "
                     "$4 port :1 $8 endpoint $1 h ",
                     false, err));
    assert_string_equal(owner(5)->at.host, "h");
}

static void what_makes_no_sense_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "+OK ",
        "*1 :1 ",
        "*1 *2 :0 :1 ",
        "*1 *3 :0 :16384 *2 $1 a :1 ",
        "*1 *3 :-1 :1 *2 $1 a :1 ",
        "*1 *3 :2 :1 *2 $1 a :1 ",
        "*1 *3 :0 :1 *2 $1 a :0 ",
        "*1 *3 :0 :1 *2 $1 a :65536 ",
        "*1 *3 :0 :1 *1 $1 a ",
        "*1 *3 :0 :1 $1 a ",
        "*1 *4 :0 :1 *2 $1 a :1 :5 ",
        "*2 *3 :0 :1 *2 $1 a :1 *3 :1 :2 *2 $1 b :1 ",
    };
    static const char *const bad_shards[] = {
        "+OK ",
        "*1 :1 ",
        "*1 *2 $5 slots *0 ",
        "*1 *4 $5 slots *1 :1 $5 nodes *0 ",
        "*1 *4 $5 slots *0 $5 nodes *1 :1 ",
        "*1 *4 $5 slots *0 $5 nodes *1 *2 $4 port :70000 ",
        ("*1 *4 $5 slots *2 :1 :99999 $5 nodes *1 *6 $4 role $6 master $4 port "
         ":1 $2 ip $1 a "),
    };
    leat_error e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (read_slots(bad[i], &e) != LEAT_EPROTO)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(map.count, 0);
        assert_null(leat__slots_owner(&map, 0));
    }
    for (size_t i = 0; i < sizeof bad_shards / sizeof *bad_shards; i++)
        if (read_shards(bad_shards[i], false, &e) != LEAT_EPROTO)
            fail_msg("taken: %s", bad_shards[i]);
}

static void a_slot_moves_to_a_node_that_may_be_new(void **state)
{
    (void)state;
    leat__address to = { .host = "new", .port = 9 };
    must(read_slots("*1 *3 :0 :9 *3 $1 a :1 $2 id ", err));
    must(leat__slots_move(&map, 5, &to, err));
    assert_string_equal(owner(5)->at.host, "new");
    assert_int_equal(owner(4)->slots, 9);
    assert_int_equal(owner(5)->slots, 1);
    must(leat__slots_move(&map, 5, &owner(0)->at, err));
    assert_int_equal(owner(5)->slots, 10);
    assert_int_equal(leat__slots_find(&map, &to), 1);
}

static void a_redirect_names_slot_and_node(void **state)
{
    (void)state;
    leat__redirect r;
    assert_true(
        leat__redirect_read(&r, leat_str("MOVED 3999 10.0.0.1:6381"), &asked));
    assert_false(r.ask);
    assert_int_equal(r.slot, 3999);
    assert_string_equal(r.to.host, "10.0.0.1");
    assert_int_equal(r.to.port, 6381);
    assert_true(leat__redirect_read(&r, leat_str("ASK 1 ::1:5"), &asked));
    assert_true(r.ask);
    assert_string_equal(r.to.host, "::1");
    assert_true(leat__redirect_read(&r, leat_str("ASK 1 :5"), &asked));
    assert_string_equal(r.to.host, "asked");
    static const char *const bad[] = { "",
                                       "MOVED",
                                       "MOVED ",
                                       "MOVED 1",
                                       "MOVED 1 ",
                                       "MOVED 1 h",
                                       "MOVED 1 h:",
                                       "MOVED 1 h:0",
                                       "MOVED 1 h:65536",
                                       "MOVED 16384 h:1",
                                       "MOVED x h:1",
                                       "MOVED -1 h:1",
                                       "MOVED 1 h:1x",
                                       "ERR MOVED 1 h:1",
                                       "ASKED 1 h:1" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (leat__redirect_read(&r, leat_str(bad[i]), &asked))
            fail_msg("taken: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_tell_masters_and_replicas),
        cmocka_unit_test(a_node_without_a_name_is_the_one_that_was_asked),
        cmocka_unit_test(a_node_that_lacks_a_name_has_an_ip),
        cmocka_unit_test(shards_tell_who_is_sound),
        cmocka_unit_test(a_map_may_come_as_resp3),
        cmocka_unit_test(what_makes_no_sense_is_refused_and_leaves_nothing),
        cmocka_unit_test(a_slot_moves_to_a_node_that_may_be_new),
        cmocka_unit_test(a_redirect_names_slot_and_node),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
