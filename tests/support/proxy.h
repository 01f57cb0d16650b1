/*
 * proxy.h: the fixture of a test program with one server behind a proxy:
 *
 *   return cmocka_run_group_tests(tests, start_proxy, stop_proxy);
 *
 * As server.h; `url` is that of `proxy`.
 */
#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

#include "support/server.h"
#include "support/tcpfault.h"

static tcpfault *proxy;

static inline int start_proxy(void **state)
{
    if (start_server(state) != 0)
        return -1;
    proxy = tcpfault_start(redis_socket(server), NULL);
    if (!proxy)
        return -1;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", tcpfault_port(proxy));
    return 0;
}

static inline int stop_proxy(void **state)
{
    tcpfault_stop(proxy);
    return stop_server(state);
}

#endif
