/*
 * outcomes.c: counting the settlements whose outcome is not known yet.
 */
#include "message/outcomes.h"

leat_code leat__outcomes_init(leat__outcomes *o, leat_error *err)
{
    *o = (leat__outcomes){ 0 };
    return leat__cond_init(&o->none, err);
}

void leat__outcomes_release(leat__outcomes *o)
{
    pthread_cond_destroy(&o->none);
}

void leat__outcomes_came(leat__outcomes *o, size_t n, const leat_error *bad)
{
    if (n == 0)
        return;
    o->due -= n;
    leat__error_keep(&o->bad, bad);
    if (o->due == 0)
        pthread_cond_broadcast(&o->none);
}

leat_code leat__outcomes_flush(leat__outcomes *o, pthread_mutex_t *lock,
                               int64_t deadline_ns, const char *kind,
                               const char *name, leat_error *err)
{
    bool in_time = true;
    while (o->due > 0 && in_time)
        in_time = leat__cond_wait(&o->none, lock, deadline_ns);
    if (o->due > 0)
        return leat__fail(err, LEAT_ETIMEOUT,
                          "%s '%s': %zu settlements have no outcome yet", kind,
                          name, o->due);
    return leat__error_take(&o->bad, err);
}
