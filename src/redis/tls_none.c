/*
 * tls_none.c: in place of TLS in a build without OpenSSL.  There is no plain
 * way around: what asks for TLS is refused.
 */
#include "redis/tls.h"

leat__tls *leat__tls_new(const leat_tls_opts *opts, leat_error *err)
{
    (void)opts;
    leat__fail(err, LEAT_ENOTSUP,
               "this leat was built without TLS, build it with -Dtls=enabled");
    return NULL;
}

void leat__tls_free(leat__tls *tls)
{
    (void)tls;
}

leat__transport *leat__transport_tls(leat__tls *tls, const char *host, int port,
                                     int64_t deadline_ns, leat_error *err)
{
    (void)tls;
    (void)host;
    (void)port;
    (void)deadline_ns;
    leat__fail(err, LEAT_ENOTSUP, "this leat was built without TLS");
    return NULL;
}
