/*
 * bundle.h: a connection that leads to every node of a cluster.
 *
 * What leat_client_lend gives on a cluster: a leat_conn without a socket of its
 * own, whose `bundle` has a child connection for each master, and whose table
 * of functions leads here.  A command goes to the node that has its
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

/* Never wait for a node: what needs one that is not connected is refused at
 * once with a retriable LEAT_ECONN.  A plain connection is not changed. */
void leat__conn_impatient(leat_conn *c);

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

#endif
