/* partition.c: which partition a message goes to, the same in all versions. */
#include "topic/partition.h"
#include "support/allocfail.h"

#include <stdio.h>
#include <string.h>

enum { KEYS = 20000 };

static leat__chooser chooser(leat_partitioner how, uint32_t partitions)
{
    leat__chooser c;
    assert_int_equal(leat__chooser_init(&c, how, partitions, NULL, NULL, NULL),
                     LEAT_OK);
    return c;
}

static uint32_t of(leat__chooser *c, const char *key)
{
    uint32_t p = UINT32_MAX;
    leat_msg m = { .key = leat_str(key) };
    assert_int_equal(leat__choose(c, &m, &p, NULL), LEAT_OK);
    assert_true(p < c->partitions);
    return p;
}

typedef struct vector {
    const char *key;
    uint32_t partition;
} vector;

static void assert_vectors(leat_partitioner how, uint32_t partitions,
                           const vector *v, size_t n)
{
    leat__chooser c = chooser(how, partitions);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(of(&c, v[i].key), v[i].partition);
    leat__chooser_release(&c);
}

#define VECTORS(...)                                                           \
    (const vector[]){ __VA_ARGS__ },                                           \
        sizeof((const vector[]){ __VA_ARGS__ }) / sizeof(vector)

/* (murmur2 & 0x7fffffff) % 8, of hashes that Kafka's own tests have. */
static void murmur2_places_keys_as_kafka_does(void **state)
{
    (void)state;
    assert_vectors(LEAT_PARTITION_MURMUR2, 8,
                   VECTORS({ "21", 4 }, { "foobar", 6 },
                           { "a-little-bit-long-string", 0 }, { "abc", 3 }));
}

static void java_places_keys_as_redis_streaming_does(void **state)
{
    (void)state;
    assert_vectors(LEAT_PARTITION_JAVA, 8,
                   VECTORS({ "a", 1 }, { "order-1", 2 }, { "user:42", 5 },
                           { "\xc3\xa9", 1 }, { "\xf0\x9f\x98\x80", 3 },
                           { "polygenelubricants", 0 },
                           { "customer-1234567890", 2 }));
}

/* Computed by a second implementation, from the words of ring.h alone. */
static void the_ring_places_keys_as_it_always_did(void **state)
{
    (void)state;
    assert_vectors(LEAT_PARTITION_RING, 3,
                   VECTORS({ "a", 1 }, { "order-1", 1 }, { "user:42", 0 },
                           { "\xc3\xa9", 2 }, { "polygenelubricants", 1 },
                           { "customer-1234567890", 1 }));
    assert_vectors(LEAT_PARTITION_RING, 8,
                   VECTORS({ "a", 1 }, { "order-1", 3 }, { "user:42", 3 },
                           { "\xc3\xa9", 2 }, { "polygenelubricants", 1 },
                           { "customer-1234567890", 7 }));
    assert_vectors(LEAT_PARTITION_RING, 64,
                   VECTORS({ "a", 50 }, { "order-1", 22 }, { "user:42", 3 },
                           { "\xc3\xa9", 55 }, { "polygenelubricants", 15 },
                           { "customer-1234567890", 37 }));
}

static void one_partition_takes_all(void **state)
{
    (void)state;
    for (int how = 0; how < LEAT_PARTITION_OWN; how++) {
        leat__chooser c = chooser((leat_partitioner)how, 1);
        assert_int_equal(of(&c, "some key"), 0);
        assert_int_equal(of(&c, ""), 0);
        leat__chooser_release(&c);
    }
}

/* The new one gets its share, and no key moves otherwise. */
static void a_partition_more_moves_only_its_share(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 16; n *= 2) {
        leat__chooser few = chooser(LEAT_PARTITION_RING, n);
        leat__chooser more = chooser(LEAT_PARTITION_RING, n + 1);
        double moved = 0, share = (double)KEYS / (n + 1);
        for (int i = 0; i < KEYS; i++) {
            char key[32];
            snprintf(key, sizeof key, "key-%d", i);
            uint32_t now = of(&more, key);
            if (of(&few, key) == now)
                continue;
            assert_int_equal(now, n);
            moved++;
        }
        assert_true(moved > share * 0.7 && moved < share * 1.3);
        leat__chooser_release(&few);
        leat__chooser_release(&more);
    }
}

static void assert_even(leat_partitioner how, double least, double most)
{
    enum { PARTITIONS = 10 };
    leat__chooser c = chooser(how, PARTITIONS);
    int count[PARTITIONS] = { 0 };
    for (int i = 0; i < KEYS; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%d", i);
        count[of(&c, key)]++;
    }
    for (int i = 0; i < PARTITIONS; i++) {
        double share = (double)count[i] * PARTITIONS / KEYS;
        assert_true(share >= least && share <= most);
    }
    leat__chooser_release(&c);
}

static void keys_spread_over_the_partitions(void **state)
{
    (void)state;
    assert_even(LEAT_PARTITION_MURMUR2, 0.9, 1.1);
    assert_even(LEAT_PARTITION_JAVA, 0.8, 1.2);
    assert_even(LEAT_PARTITION_RING, 0.7, 1.3);
    assert_even(LEAT_PARTITION_ROUND_ROBIN, 1, 1);
    assert_even(LEAT_PARTITION_RANDOM, 0.85, 1.15);
}

static void messages_without_a_key_take_turns(void **state)
{
    const leat_partitioner all[] = { LEAT_PARTITION_MURMUR2,
                                     LEAT_PARTITION_JAVA, LEAT_PARTITION_RING,
                                     LEAT_PARTITION_ROUND_ROBIN };
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        leat__chooser c = chooser(all[k], 5);
        uint32_t last = of(&c, "");
        for (int i = 0; i < 20; i++) {
            uint32_t p = of(&c, "");
            assert_int_equal(p, (last + 1) % 5);
            last = p;
        }
        leat__chooser_release(&c);
    }
}

static uint32_t by_body(void *arg, const leat_msg *m, uint32_t partitions)
{
    *(uint32_t *)arg = partitions;
    return m->body.n > 0 ? *(const unsigned char *)m->body.p : 0;
}

static void an_own_function_is_asked_and_checked(void **state)
{
    uint32_t told = 0, p = 0;
    leat__chooser c;
    leat_error e = { 0 };
    (void)state;
    assert_int_equal(
        leat__chooser_init(&c, LEAT_PARTITION_OWN, 4, by_body, &told, NULL),
        LEAT_OK);
    leat_msg m = { .body = leat_mem("\3", 1) };
    assert_int_equal(leat__choose(&c, &m, &p, &e), LEAT_OK);
    assert_int_equal(p, 3);
    assert_int_equal(told, 4);
    m.body = leat_mem("\4", 1);
    assert_int_equal(leat__choose(&c, &m, &p, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "answered 4"));
    assert_non_null(strstr(e.msg, "4 partitions"));
    leat__chooser_release(&c);
}

static void without_the_function_nothing_is_chosen(void **state)
{
    uint32_t p = 0;
    leat_error e = { 0 };
    leat__chooser c = chooser(LEAT_PARTITION_OWN, 4);
    (void)state;
    assert_int_equal(leat__choose(&c, &(leat_msg){ 0 }, &p, &e), LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "partition_fn"));
    leat__chooser_release(&c);
}

static void partitioners_are_found_by_their_names(void **state)
{
    const char *names[] = { "murmur2",     "java",   "ring",
                            "round-robin", "random", "own" };
    leat_partitioner p;
    (void)state;
    for (int i = 0; i <= LEAT_PARTITION_OWN; i++) {
        assert_string_equal(leat__partitioner_name((leat_partitioner)i),
                            names[i]);
        assert_true(leat__partitioner_find(leat_str(names[i]), &p));
        assert_int_equal(p, i);
    }
    assert_null(leat__partitioner_name((leat_partitioner)6));
    assert_false(leat__partitioner_find(leat_str("murmur3"), &p));
    assert_false(leat__partitioner_find(leat_mem(NULL, 0), &p));
}

static void try_ring(void *arg)
{
    leat__chooser c;
    (void)arg;
    if (leat__chooser_init(&c, LEAT_PARTITION_RING, 8, NULL, NULL, NULL) ==
        LEAT_OK)
        leat__chooser_release(&c);
}

static void memory_may_be_lacking(void **state)
{
    (void)state;
    alloc_fail_sweep(try_ring, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(murmur2_places_keys_as_kafka_does),
        cmocka_unit_test(java_places_keys_as_redis_streaming_does),
        cmocka_unit_test(the_ring_places_keys_as_it_always_did),
        cmocka_unit_test(one_partition_takes_all),
        cmocka_unit_test(a_partition_more_moves_only_its_share),
        cmocka_unit_test(keys_spread_over_the_partitions),
        cmocka_unit_test(messages_without_a_key_take_turns),
        cmocka_unit_test(an_own_function_is_asked_and_checked),
        cmocka_unit_test(without_the_function_nothing_is_chosen),
        cmocka_unit_test(partitioners_are_found_by_their_names),
        cmocka_unit_test(memory_may_be_lacking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
