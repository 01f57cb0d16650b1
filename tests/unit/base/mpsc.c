/* mpsc.c: many threads push, one pops. */
#include "base/mpsc.h"
#include "base/list.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PRODUCERS = 4, EACH = 20000 };

struct item {
    int producer, n;
    leat__mpsc_link link;
};

struct producer {
    leat__mpsc *q;
    struct item *items;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (int i = 0; i < EACH; i++) {
        leat__mpsc_push(p->q, &p->items[i].link);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static struct item *pop(leat__mpsc *q)
{
    leat__mpsc_link *k = leat__mpsc_pop(q);
    return k ? LEAT__ITEM(k, struct item, link) : NULL;
}

static void start(pthread_t *t, struct producer *p, leat__mpsc *q, int who)
{
    *p = (struct producer){ q, calloc(EACH, sizeof(struct item)) };
    assert_non_null(p->items);
    for (int i = 0; i < EACH; i++) {
        p->items[i].producer = who;
        p->items[i].n = i;
    }
    assert_int_equal(pthread_create(t, NULL, produce, p), 0);
}

static void nothing_is_lost_and_each_producer_keeps_its_order(void **state)
{
    leat__mpsc q;
    pthread_t t[PRODUCERS];
    struct producer p[PRODUCERS];
    int next[PRODUCERS] = { 0 };
    (void)state;
    leat__mpsc_init(&q);
    for (int i = 0; i < PRODUCERS; i++)
        start(&t[i], &p[i], &q, i);
    for (int got = 0; got < PRODUCERS * EACH;) {
        struct item *it = pop(&q);
        if (!it) {
            sched_yield();
            continue;
        }
        assert_int_equal(it->n, next[it->producer]++);
        got++;
    }
    assert_null(pop(&q));
    assert_true(leat__mpsc_empty(&q));
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(t[i], NULL);
        free(p[i].items);
    }
}

static void a_push_into_an_empty_queue_says_so(void **state)
{
    leat__mpsc q;
    struct item a = { .n = 1 }, b = { .n = 2 };
    (void)state;
    leat__mpsc_init(&q);
    assert_true(leat__mpsc_empty(&q));
    for (int round = 0; round < 3; round++) {
        assert_true(leat__mpsc_push(&q, &a.link));
        assert_false(leat__mpsc_empty(&q));
        assert_false(leat__mpsc_push(&q, &b.link));
        assert_int_equal(pop(&q)->n, 1);
        assert_int_equal(pop(&q)->n, 2);
        assert_true(leat__mpsc_empty(&q));
        assert_null(pop(&q));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_into_an_empty_queue_says_so),
        cmocka_unit_test(nothing_is_lost_and_each_producer_keeps_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
