/*
 * bundle.h: a connection that leads to every node of a cluster.
 *
 * What leat_client_lend gives on a cluster: a leat_conn without a socket of its
 * own, whose `bundle` has a child connection for each master.  The functions of
 * leat_conn come here by that field.  A command goes to the node that has its
 * keys; one without keys goes to any.
 *
 * Callbacks come in the order of sending for each slot, not over all of them.
 * Redirects are followed, because they say that nothing was done.  A child that
 * breaks tells its own commands and nobody else's, and is connected anew in the
 * background; the bundle as a whole stays usable.
 */
#ifndef LEAT_REDIS_BUNDLE_H
#define LEAT_REDIS_BUNDLE_H

#include "redis/client.h"
#include "redis/script.h"

/* Connect to all masters at once; once one is there the others are given only
 * a moment, for a node that hangs is no reason to wait.  NULL when none can be
 * had. */
leat_conn *leat__bundle_open(leat_client *c, int64_t deadline_ns,
                             leat_error *err);
void leat__bundle_free(leat_conn *c);

/* Never wait for a node: what needs one that is not connected is refused at
 * once with a retriable LEAT_ECONN.  A plain connection is not changed. */
void leat__conn_impatient(leat_conn *c);

/* Is it usable here?  And, with room: reads answers when the window is full. */
leat_code leat__bundle_own(const leat_conn *c, leat_error *err);
leat_code leat__bundle_ready(leat_conn *c, leat_error *err);

leat_code leat__bundle_send(leat_conn *c, const leat_bytes *argv, size_t n,
                            const leat_send_opts *opts, leat_error *err);
leat_code leat__bundle_script(leat_conn *c, const leat__script *s,
                              const leat_bytes *keys, size_t nkeys,
                              const leat_bytes *args, size_t nargs,
                              const leat_send_opts *opts, leat_error *err);

/* A command without keys, to the node that has this one; not in a
 * transaction. */
leat_code leat__bundle_send_to(leat_conn *c, leat_bytes key,
                               const leat_bytes *argv, size_t n,
                               const leat_send_opts *opts, leat_error *err);

/* A proof (proof.h): to the node that has this key, over the connection that
 * the slot's commands were answered on.  Where they came over several, or over
 * one that is gone, fn is told with LEAT_EUNKNOWN and without a reply. */
leat_code leat__bundle_prove(leat_conn *c, leat_bytes key,
                             const leat_bytes *argv, size_t n,
                             const leat_send_opts *opts, leat_error *err);

/* Which connection this slot's commands go over now: never the same number for
 * two connections of a bundle.  0: none, or the slot is moving; a node that is
 * not connected is connected to, for the next time.  Of a plain connection it
 * is always the same. */
uint64_t leat__conn_route(leat_conn *c, int slot);

/* What is sent from now on goes over this route or is refused with a retriable
 * LEAT_ECONN; also later, where it would be redirected, unless the keys are
 * being moved one by one.  0: wherever its slot is.  A plain connection is not
 * changed. */
void leat__conn_confine(leat_conn *c, uint64_t route);

/* Does this connection lead to the server that the slot's commands go to, and
 * is it no older than theirs? */
bool leat__conn_leads(leat_conn *c, int slot, const leat_conn *other);

/* Forget the reply that was kept for the caller. */
leat_code leat__bundle_begin(leat_conn *c, leat_error *err);

/* Wait until this very call is answered. */
void leat__bundle_finish(leat_conn *c, const leat__call *call);

leat_code leat__bundle_flush(leat_conn *c, leat_error *err);
leat_code leat__bundle_take(leat_conn *c, leat_error *err);
leat_code leat__bundle_await(leat_conn *c, size_t in_flight, leat_error *err);
void leat__bundle_write_early(leat_conn *c);
int64_t leat__bundle_deadline(const leat_conn *c);
leat_code leat__bundle_expire(leat_conn *c, leat_error *err);
int leat__bundle_fd(const leat_conn *c);
leat_code leat__bundle_break(leat_conn *c, const leat_error *cause);

/* May it be lent again?  Sound also lets go of children that died idle. */
bool leat__bundle_clean(const leat_conn *c);
bool leat__bundle_sound(leat_conn *c);

/* Transactions and subscriptions belong to one child. */
leat_code leat__bundle_watch(leat_conn *c, const leat_bytes *keys, size_t n,
                             leat_error *err);
leat_code leat__bundle_multi(leat_conn *c, leat_error *err);
leat_code leat__bundle_exec(leat_conn *c, leat_error *err);
leat_code leat__bundle_discard(leat_conn *c, leat_error *err);
leat_code leat__bundle_subscribe(leat_conn *c, bool pattern, bool on,
                                 const leat_bytes *names, size_t n,
                                 leat_error *err);
leat_code leat__bundle_listen(leat_conn *c, int64_t wait_ms, leat_error *err);

#endif
