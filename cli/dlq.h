/*
 * dlq.h: what the commands on dead letters share.
 */
#ifndef LEAT_CLI_DLQ_H
#define LEAT_CLI_DLQ_H

#include "cli.h"

/* The client and the dead letters of the topic that is the first argument. */
typedef struct letters {
    leat_client *client;
    leat_dlq *dlq;
} letters;

/* False with *code, and said. */
bool letters_open(cli *c, letters *l, int *code);
void letters_close(cli *c, letters *l);

/* Say why there is no such letter; an exit code. */
int letter_fail(const leat_error *err);

/* What the options choose; false with *code, and said. */
bool filter_get(cli *c, letters *l, leat_dead_filter *out, int *code);

/* Was an option given that chooses? */
bool filter_given(cli *c);

/* Nothing was found: is the group one that there is? 0, or said. */
int nothing_found(cli *c, letters *l, const leat_dead_filter *f);

#endif
