/*
 * server_error.c: what an error reply means to the caller.
 *
 * An error reply says that the command was not carried out, so each maps to a
 * code of the "certainly not" kind; the table says which of them may pass when
 * tried again later.
 */
#include "redis/server_error.h"

#include <stdio.h>
#include <string.h>

/* How an ACL refuses a step of a script: to 7.0, and since. */
#define SCRIPT_6 "ERR The user executing the script"
#define SCRIPT_7 "ERR ACL failure in script:"

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
    { SCRIPT_6, LEAT_EAUTH, false },
    { SCRIPT_7, LEAT_EAUTH, false },
    { "ERR invalid password", LEAT_EAUTH, false },
    { "ERR Client sent AUTH", LEAT_EAUTH, false },
    { "STALE", LEAT_ESTALE, false }, /* of topic/same.lua */
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

/* ---- what an ACL refused ---------------------------------------------- */

bool leat__error_is_noperm(const leat_error *err)
{
    static const char *const words[] = { "NOPERM", SCRIPT_6, SCRIPT_7 };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (err->code == LEAT_EAUTH && strstr(err->msg, words[i]))
            return true;
    return false;
}

/* Keys and channels first: their sentences speak of the command, too. */
static const char *remedy(const char *text, char *room, size_t n)
{
    if (strstr(text, "key"))
        return "allow the key, as ~leat:*";
    if (strstr(text, "channel"))
        return "allow the channel, as &leat:*";
    const char *name = strstr(text, "run the '");
    int len = name ? (int)strcspn(name + 9, "'") : 0;
    if (strstr(text, "may not use")) /* of may.lua */
        return "allow the command on the keys of this call, as ~leat:*";
    if (len == 0)
        return "allow the command; ACL LOG on the server names it";
    snprintf(room, n, "allow +%.*s", len, name + 9);
    return room;
}

static leat_code refused(leat_error *err, const char *text)
{
    char room[64];
    /* The script's hash says nothing to people. */
    const char *end = strstr(text, " script: ");
    size_t n = end ? (size_t)(end - text) : strlen(text);
    return leat__fail(err, LEAT_EAUTH, "server: %.*s: %s", (int)n, text,
                      remedy(text, room, sizeof room));
}

void leat__error_name_key(leat_error *err, leat_bytes key)
{
    size_t n = strlen(err->msg);
    char quoted[64];
    if (!leat__error_is_noperm(err) || !strstr(err->msg, "~leat:*"))
        return;
    leat__escape(quoted, sizeof quoted, key.p, key.n);
    snprintf(err->msg + n, sizeof err->msg - n, " (refused: '%s')", quoted);
}

/* ---- the whole -------------------------------------------------------- */

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
    leat_error e = { .code = code };
    snprintf(e.msg, sizeof e.msg, "%s", quoted);
    if (leat__error_is_noperm(&e))
        return refused(err, quoted);
    return leat__fail_retriable(err, code, retriable, "server: %s",
                                text.n ? quoted : "(empty error)");
}
