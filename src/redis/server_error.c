/*
 * server_error.c: what an error reply means to the caller.
 *
 * An error reply says that the command was not carried out, so each maps to a
 * code of the "certainly not" kind; the table says which of them may pass when
 * tried again later.
 */
#include "redis/server_error.h"

#include <string.h>

static const struct {
    const char *word; /* the reply's first word, or with a blank its start */
    leat_code code;
    bool retriable;
} table[] = {
    { "LOADING", LEAT_EBUSY, true },
    { "BUSY", LEAT_EBUSY, true },
    { "MASTERDOWN", LEAT_EBUSY, true },
    { "TRYAGAIN", LEAT_EBUSY, true },
    { "CLUSTERDOWN", LEAT_EBUSY, true },
    { "UNBLOCKED", LEAT_EBUSY, true },
    { "ERR max number of clients", LEAT_EBUSY, true },
    { "READONLY", LEAT_EREADONLY, true },
    { "MOVED", LEAT_EREADONLY, true },
    { "ASK", LEAT_EREADONLY, true },
    { "OOM", LEAT_EFULL, true },
    { "MISCONF", LEAT_EFULL, true },
    { "NOREPLICAS", LEAT_EFULL, true },
    { "NOAUTH", LEAT_EAUTH, false },
    { "WRONGPASS", LEAT_EAUTH, false },
    { "NOPERM", LEAT_EAUTH, false },
    { "ERR invalid password", LEAT_EAUTH, false },
    { "ERR Client sent AUTH", LEAT_EAUTH, false },
    { "NOGROUP", LEAT_ENOENT, false },
    { "BUSYGROUP", LEAT_EEXIST, false },
    { "WRONGTYPE", LEAT_EINVAL, false },
    { "CROSSSLOT", LEAT_EINVAL, false },
};

bool leat__server_error_is(leat_bytes text, const char *word)
{
    size_t n = strlen(word);
    if (text.n < n || memcmp(text.p, word, n) != 0)
        return false;
    return text.n == n || ((const char *)text.p)[n] == ' ';
}

leat_code leat__server_error(leat_error *err, leat_bytes text)
{
    leat_code code = LEAT_ESERVER;
    bool retriable = false;
    char quoted[200];

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (leat__server_error_is(text, table[i].word)) {
            code = table[i].code;
            retriable = table[i].retriable;
            break;
        }
    }
    leat__escape(quoted, sizeof quoted, text.p, text.n);
    return leat__fail_retriable(err, code, retriable, "server: %s",
                                text.n ? quoted : "(empty error)");
}
