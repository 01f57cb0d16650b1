/* fields.c: the fields of an entry, and the memory they keep. */
#include "codec_support.h"
#include "support/allocfail.h"

static void fields_stand_in_the_order_they_were_added(void **state)
{
    leat_fields *f = new_fields();
    (void)state;
    for (int i = 0; i < 100; i++)
        add_field(f, i % 2 ? "odd" : "even", i < 2 ? "first" : "later");

    assert_int_equal(leat_fields_count(f), 100);
    const leat_bytes *pairs = leat_fields_pairs(f);
    assert_bytes(pairs[198], leat_str("odd"));
    assert_bytes(pairs[199], leat_str("later"));
    assert_field(f, "odd", "first");
    leat_fields_free(f);
    leat_fields_free(NULL);
}

static void a_field_that_is_empty_is_not_one_that_is_missing(void **state)
{
    leat_fields *f = new_fields();
    (void)state;
    leat_bytes none = { NULL, 0 };
    assert_int_equal(leat_fields_add(f, leat_str("here"), none, NULL), LEAT_OK);
    assert_non_null(leat_fields_get(f, "here").p);
    assert_null(leat_fields_get(f, "there").p);
    leat_fields_clear(f);
    assert_null(leat_fields_get(f, "here").p);
    leat_fields_free(f);
}

static void fill(leat_fields *f)
{
    leat_fields_clear(f);
    for (int i = 0; i < 50; i++) {
        char *p = leat_fields_alloc(f, 300, NULL);
        assert_non_null(p);
        memset(p, i, 300);
        add_field(f, "name", "value");
    }
}

static void used_again_fields_allocate_nothing(void **state)
{
    leat_fields *f = new_fields();
    (void)state;
    for (int i = 0; i < 3; i++)
        fill(f);
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    for (int i = 0; i < 100; i++)
        fill(f);
    assert_int_equal(alloc_fail_calls(), 0);
    alloc_fail_remove();
    leat_fields_free(f);
}

static void work(void *arg)
{
    leat_fields *f = leat_fields_new(NULL);
    (void)arg;
    for (int i = 0; f && i < 40; i++) {
        (void)leat_fields_add(f, leat_str("a"), leat_str("b"), NULL);
        (void)leat_fields_alloc(f, 1000, NULL);
    }
    leat_fields_free(f);
}

static void fields_survive_a_lack_of_memory(void **state)
{
    (void)state;
    alloc_fail_sweep(work, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_stand_in_the_order_they_were_added),
        cmocka_unit_test(a_field_that_is_empty_is_not_one_that_is_missing),
        cmocka_unit_test(used_again_fields_allocate_nothing),
        cmocka_unit_test(fields_survive_a_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
