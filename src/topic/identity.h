/*
 * identity.h: which topic of a name it is.  See identity.c.
 */
#ifndef LEAT_TOPIC_IDENTITY_H
#define LEAT_TOPIC_IDENTITY_H

#include "topic/describe.h"

/* 64 random bits in hexadecimal. */
leat_code leat__incarnation_new(char out[LEAT__INCARNATION + 1],
                                leat_error *err);

/* The key that says beside a log whose it is. */
void leat__key_id(leat__key *k, const leat__topic_at *t, uint32_t partition);

/* Write the topic's incarnation beside every log, whatever is there: the meta
 * says that no other lives.  conn leads to all of them. */
leat_code leat__identify_logs(const leat__topic_at *t, leat_conn *conn,
                              leat_error *err);

/* The same, and beside its groups, with a connection of the client's; and note
 * that it was done, unless it was before. */
leat_code leat__topic_mark(const leat__topic_at *t, leat_error *err);

/* Whoever means this topic joins no group any more.  For its removal. */
leat_code leat__identify_none(const leat__topic_at *t, leat_conn *conn,
                              leat_error *err);

/* A script said that what this id is of is another topic's.  LEAT_OK: it is
 * not, the id was lost or is an old one's, and is right now: try again.
 * LEAT_ESTALE: the topic is gone, or another.  conn NULL: the client's own. */
leat_code leat__topic_same(const leat__topic_at *t, leat_conn *conn,
                           const leat__key *id, leat_error *err);

#endif
