/* msg.c: copies of messages, and their headers. */
#include "codec_support.h"
#include "support/allocfail.h"

/* No byte of the copy is one of the original's. */
static void assert_apart(leat_bytes copy, leat_bytes original)
{
    if (original.n > 0)
        assert_ptr_not_equal(copy.p, original.p);
}

static void assert_all_apart(const leat_msg *copy, const leat_msg *m)
{
    assert_apart(copy->id, m->id);
    assert_apart(copy->key, m->key);
    assert_apart(copy->type, m->type);
    assert_apart(copy->source, m->source);
    assert_apart(copy->subject, m->subject);
    assert_apart(copy->content_type, m->content_type);
    assert_apart(copy->body, m->body);
    for (size_t i = 0; i < m->header_count; i++) {
        assert_apart(copy->headers[i].name, m->headers[i].name);
        assert_apart(copy->headers[i].value, m->headers[i].value);
    }
}

static void a_copy_stands_alone(void **state)
{
    leat_fields *mem = new_fields();
    rng r = { 1 };
    (void)state;

    for (int i = 0; i < 500; i++) {
        leat_fields_clear(mem);
        leat_msg m = some_msg(&r, mem, ANYTHING);
        leat_msg *a = leat_msg_copy(&m, NULL);
        assert_same(a, &m);
        assert_all_apart(a, &m);
        leat_msg *b = leat_msg_copy(a, NULL);
        leat_msg_free(a);
        assert_same(b, &m);
        leat_msg_free(b);
    }
    leat_fields_free(mem);
}

static void an_empty_message_can_be_copied(void **state)
{
    leat_msg *m = leat_msg_copy(&(leat_msg){ 0 }, NULL);
    (void)state;
    assert_same(m, &(leat_msg){ 0 });
    assert_null(m->body.p);
    leat_msg_free(m);
    leat_msg_free(NULL);
}

static void a_copy_is_one_allocation(void **state)
{
    leat_header h = { leat_str("a"), leat_str("b") };
    leat_msg m = { .id = leat_str("1"), .headers = &h, .header_count = 1 };
    leat_error err;
    (void)state;

    alloc_fail_install(2, true);
    leat_msg *copy = leat_msg_copy(&m, NULL);
    assert_non_null(copy);
    leat_msg_free(copy);
    alloc_fail_remove();

    alloc_fail_install(1, true);
    assert_null(leat_msg_copy(&m, &err));
    alloc_fail_remove();
    assert_int_equal(err.code, LEAT_ENOMEM);
}

static void a_message_too_large_for_memory_is_refused(void **state)
{
    leat_error err;
    leat_msg m = { .body = { "x", SIZE_MAX - 8 } };
    (void)state;
    assert_null(leat_msg_copy(&m, &err));
    assert_int_equal(err.code, LEAT_ENOMEM);
    m = (leat_msg){ .header_count = SIZE_MAX / 8 };
    assert_null(leat_msg_copy(&m, &err));
    assert_int_equal(err.code, LEAT_ENOMEM);
}

static void the_first_header_of_a_name_is_found(void **state)
{
    leat_header h[] = { { leat_str("a"), leat_str("1") },
                        { leat_str("A"), leat_str("2") },
                        { leat_str("a"), leat_str("3") },
                        { leat_str("none"), leat_mem(NULL, 0) } };
    leat_msg m = { .headers = h, .header_count = 4 };
    (void)state;
    assert_bytes(leat_msg_header(&m, "a"), leat_str("1"));
    assert_bytes(leat_msg_header(&m, "A"), leat_str("2"));
    assert_non_null(leat_msg_header(&m, "none").p);
    assert_null(leat_msg_header(&m, "b").p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stands_alone),
        cmocka_unit_test(an_empty_message_can_be_copied),
        cmocka_unit_test(a_copy_is_one_allocation),
        cmocka_unit_test(a_message_too_large_for_memory_is_refused),
        cmocka_unit_test(the_first_header_of_a_name_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
