/*
 * crew.c: how many workers there are.
 *
 * A runner has a place for each worker it may ever have.  The receiver fills
 * places when more lanes stand in line than workers wait; a worker that had
 * nothing to do for long enough leaves its place, unless it is one of the last.
 * Its thread is joined when the place is filled again, or by the stop.
 */
#include "base/log.h"
#include "base/thread.h"
#include "run/run.h"

leat_code leat__crew_add_locked(leat_run *r, run_worker *w, leat_error *err)
{
    if (w->started)
        pthread_join(w->thread, NULL); /* it has let go of the lock for good */
    w->started = false;
    leat_code rc = leat__thread_start(&w->thread, "leat-work", leat__run_work,
                                      w, err);
    if (rc != LEAT_OK)
        return rc;
    w->started = w->live = true;
    r->workers_live++;
    return LEAT_OK;
}

/* Without threads the next receive tries again: until then others do it. */
leat_code leat__crew_grow_locked(leat_run *r, leat_error *err)
{
    size_t waiting = (size_t)r->idle;
    for (int i = 0; i < r->opts.threads && waiting < r->line_count; i++) {
        if (r->workers[i].live)
            continue;
        leat_code rc = leat__crew_add_locked(r, &r->workers[i], err);
        if (rc != LEAT_OK)
            return rc;
        waiting++;
    }
    return LEAT_OK;
}

int leat__run_threads(leat_run *r)
{
    pthread_mutex_lock(&r->lock);
    int n = r->workers_live;
    pthread_mutex_unlock(&r->lock);
    return n;
}
