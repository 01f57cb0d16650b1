/*
 * ledger_again.h: what of a ledger may come again, and in which order it is
 * handed out.  For ledger.c.
 */
#ifndef SUPPORT_LEDGER_AGAIN_H
#define SUPPORT_LEDGER_AGAIN_H

#include "support/ledger.h"

/* All records of a run, in any order.  magic is the file that each stood in,
 * and process[magic] whose it was. */
typedef struct ledger_all {
    ledger_record *r;
    size_t n;
    const uint64_t *process;
    bool expiring;
} ledger_all;

/* Counts bound and repeated.  Sorts the records anew.  False: no memory. */
bool ledger_judge_again(ledger_all *all, ledger_verdict *v);

/* Counts into reordered what was handed out behind a later one under one fence.
 * Likewise. */
bool ledger_judge_handouts(ledger_all *all, ledger_verdict *v);

/* The ids that LATE names, sorted: what LEDGER_LATE is asked of. */
typedef struct ledger_ids {
    uint64_t *id;
    size_t n;
} ledger_ids;

bool ledger_ids_of(const ledger_all *all, ledger_kind kind, ledger_ids *out);
bool ledger_ids_have(const ledger_ids *ids, uint64_t id);

#endif
