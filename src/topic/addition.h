/*
 * addition.h: messages that a script adds to a log, as commands.
 *
 *   EVALSHA <add.lua>   2 log later               cap maxlen ""    field ...
 *   EVALSHA <add.lua>   4 log later bodies large  cap maxlen body  field ...
 *   EVALSHA <later.lua> 4 later laters since log  token delay cap  field ...
 *
 * A server that may not know the script gets the same with its text.  As with
 * XADD the fields, a name and a value each, are the end of the command, as they
 * will be in the log.
 */
#ifndef LEAT_TOPIC_ADDITION_H
#define LEAT_TOPIC_ADDITION_H

#include "topic/keys.h"

/* What adds a message.  The head of an XADD is longer than these numbers. */
enum leat__by { LEAT__BY_ADD, LEAT__BY_LATER, LEAT__BY_XADD };

enum { LEAT__TOKEN = 16, LEAT__ADDITION_PAIRS = 3000 };

typedef struct leat__addition {
    const char *prefix, *topic;
    bool legacy;
    uint32_t partition;
    const leat_bytes *pairs;
    size_t n;            /* of names and values                             */
    size_t large;        /* the place of the value that goes beside the log;*/
                         /* 0: none does                                    */
    int64_t cap, maxlen; /* 0: none                                         */
    bool later;
    char token[LEAT__TOKEN];
    int64_t delay_ms;
} leat__addition;

/* Write it; to has room for that much and the sum of all values.  The end. */
size_t leat__addition_room(const leat__addition *a);
char *leat__addition_put(const leat__addition *a, char *to);

/* Is it a call, not an XADD? */
bool leat__addition_is(leat_bytes command);

/* How many bytes of a call of add.lua stand between the count of its words and
 * its fields. */
size_t leat__addition_head(leat_bytes command);

/* How long a call of later.lua makes wait. */
int64_t leat__addition_delay(leat_bytes command);

/* The same call with the script's text: the room it takes at most; its size. */
size_t leat__addition_whole_room(leat_bytes command);
size_t leat__addition_whole(char *to, leat_bytes command);

/* From now on no cap refuses this call of add.lua. */
void leat__addition_uncap(char *command);

#endif
