/*
 * tls_memory.c: what a command allocates, and OpenSSL's own memory, any of
 * which may be missing.
 */
#include "support/allocfail.h"
#include "tls_help.h"

#include <openssl/crypto.h>
#include <stdlib.h>

/* Allocations of OpenSSL by any thread, and the one to fail; 0: none. */
static atomic_long calls, fail_at, fails;

static bool refused(void)
{
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (n != atomic_load(&fail_at))
        return false;
    atomic_fetch_add(&fails, 1);
    return true;
}

static void *on_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return refused() ? NULL : malloc(n);
}

static void *on_realloc(void *old, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return refused() ? NULL : realloc(old, n);
}

static void on_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    free(p);
}

static void pings(leat_conn *conn, int n)
{
    for (int i = 0; i < n; i++)
        must(
            leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    for (int i = 0; i < n; i++)
        must(leat_conn_send(conn, LEAT_ARGS(leat_str("PING")), NULL, err));
    must(leat_conn_drain(conn, 0, err));
}

/* OpenSSL 3.0 itself has some of 40 bytes for each record. */
static void a_command_allocates_nothing_of_ours(void **state)
{
    (void)state;
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    leat_client *c = open_client(url, NULL);
    leat_conn *conn = lend(c);
    pings(conn, 5000); /* the buffers are there */
    long before = atomic_load(&calls), ours = alloc_fail_calls();
    pings(conn, 5000);
    assert_int_equal(alloc_fail_calls() - ours, 0);
    print_message("# 10000 commands: %ld small allocations of OpenSSL\n",
                  atomic_load(&calls) - before);
    assert_in_range(atomic_load(&calls) - before, 0, 50000);
    leat_client_return(c, conn);
    leat_client_close(c);
    alloc_fail_remove();
}

/* One client from first to last; how many allocations were refused. */
static long live_with(long n)
{
    leat_error e = { 0 };
    atomic_store(&fails, 0);
    atomic_store(&calls, 0);
    atomic_store(&fail_at, n);
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = 5000 }, &e);
    if (c && leat_client_call(c, LEAT_ARGS(leat_str("ECHO"), leat_str("hello")),
                              NULL, NULL, &e) != LEAT_OK)
        assert_true(e.code != LEAT_OK);
    if (!c)
        assert_true(e.code != LEAT_OK && e.msg[0]);
    leat_client_close(c);
    atomic_store(&fail_at, 0);
    return atomic_load(&fails);
}

/* What OpenSSL makes of it is its own affair, as long as nothing breaks here:
 * the client fails with an error, or works, and the next one works. */
static void any_one_allocation_of_openssl_may_fail(void **state)
{
    enum { STEP = SANITIZED ? 101 : 31 };
    long n = 1, failed = 0;
    (void)state;
    int fds = open_fds();
    live_with(0);
    while (live_with(n) > 0) {
        failed++;
        n += STEP;
    }
    leat_client_close(open_client(url, NULL));
    assert_int_equal(open_fds(), fds);
    print_message("# %ld of %ld allocations failed\n", failed, n);
    assert_true(failed > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_allocates_nothing_of_ours),
        cmocka_unit_test(any_one_allocation_of_openssl_may_fail),
    };
    if (CRYPTO_set_mem_functions(on_malloc, on_realloc, on_free) != 1)
        return 1;
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
