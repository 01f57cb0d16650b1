/* metrics.c: what is counted is shown, once and rightly. */
#include "metrics/metrics.h"
#include "support/allocfail.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static leat_metrics *fresh(void)
{
    leat_metrics *m = leat_metrics_new(NULL);
    assert_non_null(m);
    return m;
}

static leat_counter *counter(leat_metrics *m, const char *name)
{
    leat_error e;
    leat_counter *c = leat_metrics_counter(m, name, "help", NULL, 0, &e);
    assert_non_null(c);
    return c;
}

/* Ends m's life: this is all it shows. */
static void finish(leat_metrics *m, bool openmetrics, const char *want)
{
    leat_error e;
    char *text = leat_metrics_text(m, openmetrics, &e);
    assert_non_null(text);
    assert_string_equal(text, want);
    leat_metrics_text_free(text);
    leat_metrics_free(m);
}

static void assert_shows(leat_metrics *m, const char *part)
{
    char *text = leat_metrics_text(m, false, NULL);
    assert_non_null(text);
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
    leat_metrics_text_free(text);
}

static void counters_and_gauges_are_shown_by_family(void **state)
{
    leat_metrics *m = fresh();
    leat_label a = { "queue", "a" }, b = { "queue", "b" };
    (void)state;
    leat_counter *ca = leat_metrics_counter(m, "sent_total", "Messages sent.",
                                            &a, 1, NULL);
    leat_gauge *g = leat_metrics_gauge(m, "depth", NULL, NULL, 0, NULL);
    leat_counter *cb = leat_metrics_counter(m, "sent_total", "Messages sent.",
                                            &b, 1, NULL);
    leat_counter_add(ca, 2);
    leat_counter_add(ca, 1);
    leat_counter_add(cb, UINT64_MAX);
    leat_gauge_set(g, 5);
    leat_gauge_add(g, -7);
    assert_int_equal(leat_counter_get(ca), 3);
    assert_int_equal(leat_gauge_get(g), -2);
    finish(m, false,
           "# TYPE sent_total counter\n"
           "# HELP sent_total Messages sent.\n"
           "sent_total{queue=\"a\"} 3\n"
           "sent_total{queue=\"b\"} 18446744073709551615\n"
           "# TYPE depth gauge\n"
           "depth -2\n");
}

static void openmetrics_names_a_counter_without_total_and_ends(void **state)
{
    leat_metrics *m = fresh();
    (void)state;
    leat_counter_add(counter(m, "sent_total"), 1);
    finish(m, true,
           "# TYPE sent counter\n"
           "# HELP sent help\n"
           "sent_total 1\n"
           "# EOF\n");
    finish(fresh(), true, "# EOF\n");
    finish(fresh(), false, "");
}

static void a_histogram_shows_exact_buckets_sum_and_count(void **state)
{
    leat_metrics *m = fresh();
    leat_label l = { "op", "x" };
    leat_histogram *h = leat_metrics_histogram(m, "took_seconds", "Time.", &l,
                                               1, NULL);
    (void)state;
    leat_histogram_record(h, 100000);     /* on a bound: belongs to it */
    leat_histogram_record(h, 100001);     /* just past it              */
    leat_histogram_record(h, 750000000);  /* 0.75 s                    */
    leat_histogram_record(h, 1000000001); /* just past 1 s             */
    leat_histogram_record(h, INT64_C(60000000000));
    leat_histogram_record(h, -5);
    finish(m, true,
           "# TYPE took_seconds histogram\n"
           "# UNIT took_seconds seconds\n"
           "# HELP took_seconds Time.\n"
           "took_seconds_bucket{op=\"x\",le=\"0.0001\"} 2\n"
           "took_seconds_bucket{op=\"x\",le=\"0.0005\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.001\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.005\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.01\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.025\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.05\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.075\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.1\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.25\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.5\"} 3\n"
           "took_seconds_bucket{op=\"x\",le=\"0.75\"} 4\n"
           "took_seconds_bucket{op=\"x\",le=\"1.0\"} 4\n"
           "took_seconds_bucket{op=\"x\",le=\"2.5\"} 5\n"
           "took_seconds_bucket{op=\"x\",le=\"5.0\"} 5\n"
           "took_seconds_bucket{op=\"x\",le=\"7.5\"} 5\n"
           "took_seconds_bucket{op=\"x\",le=\"10.0\"} 5\n"
           "took_seconds_bucket{op=\"x\",le=\"+Inf\"} 6\n"
           "took_seconds_sum{op=\"x\"} 61.750200002\n"
           "took_seconds_count{op=\"x\"} 6\n"
           "# EOF\n");
}

static void prometheus_bounds_and_bare_histograms_are_shown(void **state)
{
    leat_metrics *m = fresh();
    leat_histogram *h = leat_metrics_histogram(m, "t_seconds", NULL, NULL, 0,
                                               NULL);
    (void)state;
    leat_histogram_record(h, 1);
    assert_shows(m, "\nt_seconds_bucket{le=\"1\"} 1\n");
    assert_shows(m, "\nt_seconds_bucket{le=\"10\"} 1\n");
    assert_shows(m, "\nt_seconds_sum 0.000000001\n");
    assert_shows(m, "\nt_seconds_count 1\n");
    leat_metrics_free(m);
}

static void labels_and_help_are_escaped(void **state)
{
    leat_metrics *m = fresh();
    leat_label l = { "a", "q\"b\\s\nn\xc3\xa9" };
    (void)state;
    assert_non_null(
        leat_metrics_gauge(m, "g", "say \"x\" \\\nand", &l, 1, NULL));
    finish(m, false,
           "# TYPE g gauge\n"
           "# HELP g say \"x\" \\\\\\nand\n"
           "g{a=\"q\\\"b\\\\s\\nn\xc3\xa9\"} 0\n");
}

static void the_same_name_and_labels_are_the_same_metric(void **state)
{
    leat_metrics *m = fresh();
    leat_label ab[] = { { "a", "1" }, { "b", "2" } };
    leat_label ba[] = { { "b", "2" }, { "a", "1" } };
    leat_label other[] = { { "a", "1" }, { "b", "3" } };
    (void)state;
    leat_gauge *g = leat_metrics_gauge(m, "g", "h", ab, 2, NULL);
    assert_non_null(g);
    assert_ptr_equal(leat_metrics_gauge(m, "g", NULL, ba, 2, NULL), g);
    assert_ptr_not_equal(leat_metrics_gauge(m, "g", "h", other, 2, NULL), g);
    assert_ptr_not_equal(leat_metrics_gauge(m, "g", "h", NULL, 0, NULL), g);
    assert_shows(m, "\ng{a=\"1\",b=\"2\"} 0\n");
    leat_metrics_free(m);
}

static void metrics_stand_on_cache_lines_of_their_own(void **state)
{
    leat_metrics *m = fresh();
    (void)state;
    uintptr_t a = (uintptr_t)counter(m, "a_total");
    uintptr_t b = (uintptr_t)counter(m, "b_total");
    assert_int_equal(a % LEAT__CACHE_LINE, 0);
    assert_int_equal(b % LEAT__CACHE_LINE, 0);
    leat_metrics_free(m);
}

static void bad_names_are_refused(void **state)
{
    leat_metrics *m = fresh();
    const char *bad[] = { NULL,       "",     "9a", "a-b", "a b",
                          "\xc3\xa9", "a\nb", "a{", "a.b" };
    leat_error e;
    char longest[300];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_metrics_gauge(m, bad[i], "h", NULL, 0, &e));
        assert_int_equal(e.code, LEAT_EINVAL);
    }
    memset(longest, 'a', sizeof longest);
    longest[299] = '\0';
    assert_null(leat_metrics_gauge(m, longest, "h", NULL, 0, &e));
    assert_null(leat_metrics_counter(m, "sent", "h", NULL, 0, &e));
    assert_null(leat_metrics_counter(m, "_total", "h", NULL, 0, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_null(leat_metrics_histogram(m, "took_ms", "h", NULL, 0, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_non_null(leat_metrics_gauge(m, "_a:B9", "h", NULL, 0, &e));
    leat_metrics_free(m);
}

static void bad_labels_are_refused(void **state)
{
    leat_metrics *m = fresh();
    const leat_label bad[] = { { NULL, "v" },  { "", "v" },    { "a:b", "v" },
                               { "__x", "v" }, { "le", "v" },  { "1a", "v" },
                               { "a", NULL },  { "a", "\xff" } };
    const leat_label twice[] = { { "a", "1" }, { "b", "1" }, { "a", "2" } };
    leat_label many[17];
    leat_error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_metrics_gauge(m, "g", "h", &bad[i], 1, &e));
        assert_int_equal(e.code, LEAT_EINVAL);
    }
    assert_null(leat_metrics_gauge(m, "g", "h", twice, 3, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    for (size_t i = 0; i < 17; i++)
        many[i] = (leat_label){ "x", "y" };
    assert_null(leat_metrics_gauge(m, "g", "h", many, 17, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    finish(m, false, "");
}

static void names_that_would_show_alike_clash(void **state)
{
    leat_metrics *m = fresh();
    leat_error e;
    (void)state;
    counter(m, "a_total");
    assert_null(leat_metrics_gauge(m, "a_total", "h", NULL, 0, &e));
    assert_int_equal(e.code, LEAT_EEXIST);
    assert_null(leat_metrics_gauge(m, "a", "h", NULL, 0, &e));
    assert_int_equal(e.code, LEAT_EEXIST);
    assert_non_null(leat_metrics_gauge(m, "b_seconds_sum", "h", NULL, 0, &e));
    assert_null(leat_metrics_histogram(m, "b_seconds", "h", NULL, 0, &e));
    assert_int_equal(e.code, LEAT_EEXIST);
    /* and a refused name is free again */
    assert_non_null(leat_metrics_gauge(m, "b_seconds", "h", NULL, 0, &e));
    assert_non_null(leat_metrics_gauge(m, "b_seconds_count", "h", NULL, 0, &e));
    leat_metrics_free(m);
}

static void a_registry_is_bounded(void **state)
{
    leat_metrics *m = fresh();
    leat_error e;
    char value[16];
    leat_label l = { "id", value };
    (void)state;
    for (int i = 0; i < LEAT__METRICS_SERIES; i++) {
        snprintf(value, sizeof value, "%d", i);
        assert_non_null(leat_metrics_gauge(m, "g", "h", &l, 1, &e));
    }
    snprintf(value, sizeof value, "more");
    assert_null(leat_metrics_gauge(m, "g", "h", &l, 1, &e));
    assert_int_equal(e.code, LEAT_EFULL);
    snprintf(value, sizeof value, "7");
    assert_non_null(leat_metrics_gauge(m, "g", "h", &l, 1, &e));
    leat_metrics_free(m);
}

static void null_metrics_do_nothing(void **state)
{
    (void)state;
    assert_null(leat_metrics_counter(NULL, "a_total", "h", NULL, 0, NULL));
    assert_null(leat_metrics_gauge(NULL, "a", "h", NULL, 0, NULL));
    assert_null(leat_metrics_histogram(NULL, "a_seconds", "h", NULL, 0, NULL));
    leat_counter_add(NULL, 1);
    leat_gauge_set(NULL, 1);
    leat_gauge_add(NULL, 1);
    leat_histogram_record(NULL, 1);
    assert_int_equal(leat_counter_get(NULL), 0);
    assert_int_equal(leat_gauge_get(NULL), 0);
    assert_int_equal(leat_histogram_count(NULL), 0);
    assert_int_equal(leat_histogram_quantile(NULL, 0.5), 0);
    leat_metrics_free(NULL);
    leat_metrics_text_free(NULL);
}

/* ---- histograms ------------------------------------------------------- */

/* Times around everything that could be a border. */
static uint64_t edge(int i)
{
    int k = i % 3 - 1;
    uint64_t at = i < 300 ? UINT64_C(1) << (i / 3 % 63)
                          : leat__bounds[i / 3 % LEAT__BOUNDS];
    return at + (uint64_t)k;
}

static void the_walk_and_the_cell_of_a_time_agree(void **state)
{
    leat__cell c = leat__cell_first();
    unsigned cells = 0;
    (void)state;
    do {
        assert_int_equal(c.index, cells++);
        assert_int_equal(leat__cell_of(c.low), c.index);
        assert_int_equal(leat__cell_of(c.high), c.index);
        assert_int_equal(leat__coarse_of(c.high), c.coarse);
        assert_true(c.high >= c.low);
        assert_true(c.low < 16 || c.high - c.low < c.low / 8);
    } while (leat__cell_next(&c));
    assert_int_equal(cells, LEAT__CELLS);
    assert_true(c.low == UINT64_C(1) << 63);
}

static void a_time_is_counted_below_each_bound_it_does_not_pass(void **state)
{
    (void)state;
    for (int i = 0; i < 360; i++) {
        uint64_t v = edge(i);
        unsigned below = 0;
        while (leat__bounds[below] < v)
            below++;
        assert_int_equal(leat__coarse_of(v), below);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_within_a_sixteenth(void **state)
{
    enum { N = 5000 };
    static int64_t v[N];
    leat_metrics *m = fresh();
    leat_histogram *h = leat_metrics_histogram(m, "t_seconds", NULL, NULL, 0,
                                               NULL);
    (void)state;
    srand(5);
    for (int i = 0; i < N; i++) {
        v[i] = (int64_t)rand() << (rand() % 32) >> (rand() % 30);
        leat_histogram_record(h, v[i]);
    }
    qsort(v, N, sizeof *v, by_value);
    for (int i = 0; i <= 1000; i++) {
        int rank = (N * i + 999) / 1000;
        int64_t want = v[rank > 0 ? rank - 1 : 0];
        int64_t got = leat_histogram_quantile(h, i / 1000.0);
        if (llabs(got - want) > want / 16 + 1)
            fail_msg("quantile %d/1000: %lld, not %lld", i, (long long)got,
                     (long long)want);
    }
    assert_int_equal(leat_histogram_count(h), N);
    leat_metrics_free(m);
}

static void quantiles_hold_at_the_ends(void **state)
{
    leat_metrics *m = fresh();
    leat_histogram *h = leat_metrics_histogram(m, "t_seconds", NULL, NULL, 0,
                                               NULL);
    (void)state;
    assert_int_equal(leat_histogram_quantile(h, 0.5), 0);
    leat_histogram_record(h, 3);
    leat_histogram_record(h, INT64_MAX);
    assert_int_equal(leat_histogram_quantile(h, 0), 3);
    assert_int_equal(leat_histogram_quantile(h, 0.5), 3);
    assert_int_equal(leat_histogram_quantile(h, -1), 3);
    assert_true(leat_histogram_quantile(h, 0.51) > INT64_MAX / 16 * 15);
    assert_true(leat_histogram_quantile(h, 7) > INT64_MAX / 16 * 15);
    leat_metrics_free(m);
}

/* ---- threads ---------------------------------------------------------- */

enum { THREADS = 4, EACH = 5000 };

static void *count(void *arg)
{
    leat_metrics *m = arg;
    for (int i = 0; i < EACH; i++) {
        leat_label l = { "n", i % 2 ? "odd" : "even" };
        leat_counter_add(leat_metrics_counter(m, "c_total", "h", &l, 1, NULL),
                         1);
        leat_histogram_record(
            leat_metrics_histogram(m, "h_seconds", "h", NULL, 0, NULL), i);
        if (i % 500 == 0)
            leat_metrics_text_free(leat_metrics_text(m, true, NULL));
    }
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    leat_metrics *m = fresh();
    pthread_t t[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, count, m), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    assert_shows(m, "c_total{n=\"odd\"} 10000\n");
    assert_shows(m, "c_total{n=\"even\"} 10000\n");
    assert_shows(m, "h_seconds_count 20000\n");
    leat_metrics_free(m);
}

/* ---- lack of memory --------------------------------------------------- */

static void use_with_failures(void *arg)
{
    leat_error e = { 0 };
    leat_label l[] = { { "b", "2" }, { "a", "1" } };
    (void)arg;
    leat_metrics *m = leat_metrics_new(&e);
    if (!m) {
        assert_int_equal(e.code, LEAT_ENOMEM);
        return;
    }
    leat_counter *c = leat_metrics_counter(m, "a_total", "h", l, 2, &e);
    assert_true(c || e.code == LEAT_ENOMEM);
    leat_histogram *h = leat_metrics_histogram(m, "a_seconds", "h", l, 2, &e);
    assert_true(h || e.code == LEAT_ENOMEM);
    char *text = leat_metrics_text(m, true, &e);
    assert_true(text || e.code == LEAT_ENOMEM);
    leat_metrics_text_free(text);

    alloc_fail_heal();
    leat_counter *again = leat_metrics_counter(m, "a_total", "h", l, 2, NULL);
    assert_non_null(again);
    assert_true(!c || again == c);
    assert_non_null(leat_metrics_histogram(m, "a_seconds", "h", l, 2, NULL));
    assert_shows(m, "a_total{a=\"1\",b=\"2\"} 0\n");
    assert_shows(m, "a_seconds_count{a=\"1\",b=\"2\"} 0\n");
    leat_metrics_free(m);
}

static void a_registry_survives_every_lack_of_memory(void **state)
{
    (void)state;
    alloc_fail_sweep(use_with_failures, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges_are_shown_by_family),
        cmocka_unit_test(openmetrics_names_a_counter_without_total_and_ends),
        cmocka_unit_test(a_histogram_shows_exact_buckets_sum_and_count),
        cmocka_unit_test(prometheus_bounds_and_bare_histograms_are_shown),
        cmocka_unit_test(labels_and_help_are_escaped),
        cmocka_unit_test(the_same_name_and_labels_are_the_same_metric),
        cmocka_unit_test(metrics_stand_on_cache_lines_of_their_own),
        cmocka_unit_test(bad_names_are_refused),
        cmocka_unit_test(bad_labels_are_refused),
        cmocka_unit_test(names_that_would_show_alike_clash),
        cmocka_unit_test(a_registry_is_bounded),
        cmocka_unit_test(null_metrics_do_nothing),
        cmocka_unit_test(the_walk_and_the_cell_of_a_time_agree),
        cmocka_unit_test(a_time_is_counted_below_each_bound_it_does_not_pass),
        cmocka_unit_test(quantiles_are_within_a_sixteenth),
        cmocka_unit_test(quantiles_hold_at_the_ends),
        cmocka_unit_test(nothing_is_lost_between_threads),
        cmocka_unit_test(a_registry_survives_every_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
