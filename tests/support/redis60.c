/*
 * redis60.c: see redis60.h.  The table is searched line by line: it is small,
 * and a test asks it some hundred times.
 */
#include "support/redis60.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME = 64, MARK = 64 };

struct redis60 {
    size_t n;
    char text[]; /* lines with their newlines, then '\0' */
};

redis60 *redis60_open(const char *path)
{
    enum { MOST = 256 * 1024 };
    redis60 *t = NULL;
    FILE *f = fopen(path, "r");
    if (f)
        t = calloc(1, sizeof *t + MOST + 1);
    if (t)
        t->n = fread(t->text, 1, MOST, f);
    if (!t || t->n == 0) {
        fprintf(stderr, "redis60_open: %s: %s\n", path, strerror(errno));
        free(t);
        t = NULL;
    }
    if (f)
        (void)fclose(f);
    return t;
}

void redis60_close(redis60 *t)
{
    free(t);
}

/* The marks of a command's line, or NULL.  With prefix: of the first line that
 * begins so. */
static const char *find(const redis60 *t, const char *name, bool prefix)
{
    size_t n = strlen(name);
    for (const char *at = t->text; *at;) {
        if (strncasecmp(at, name, n) == 0 &&
            (prefix || at[n] == ' ' || at[n] == '\n'))
            return at + n;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return NULL;
}

static bool is_container(const redis60 *t, const char *name)
{
    char open[NAME];
    snprintf(open, sizeof open, "%s|", name);
    return find(t, open, true) != NULL;
}

static bool matches(const char *token, const char *word)
{
    size_t n = strlen(token), w = strlen(word);
    if (n > 1 && token[0] == '*')
        return w >= n - 1 && strcasecmp(word + w - (n - 1), token + 1) == 0;
    if (n > 1 && token[n - 1] == '*')
        return strncasecmp(word, token, n - 1) == 0;
    return strcasecmp(token, word) == 0;
}

/* Does this mark of the table forbid one of the words? */
static bool forbids(const char *mark, size_t argc, const char *const *argv,
                    const char **word)
{
    *word = "with so many words";
    if (strncmp(mark, "<=", 2) == 0)
        return argc > strtoul(mark + 2, NULL, 10);
    for (size_t i = 1; mark[0] == '-' && i < argc; i++) {
        *word = argv[i];
        if (matches(mark + 1, argv[i]))
            return true;
    }
    return false;
}

bool redis60_knows(const redis60 *t, size_t argc, const char *const *argv,
                   char *why, size_t room)
{
    char name[2 * NAME], mark[MARK];
    const char *word;
    snprintf(name, sizeof name, "%.60s", argv[0]);
    if (argc > 1 && is_container(t, argv[0]))
        snprintf(name, sizeof name, "%.60s|%.60s", argv[0], argv[1]);

    const char *at = find(t, name, false);
    if (!at) {
        snprintf(why, room, "%s is not in 6.0", name);
        return false;
    }
    while (*at == ' ') {
        size_t n = strcspn(++at, " \n");
        snprintf(mark, sizeof mark, "%.*s", (int)n, at);
        at += n;
        if (forbids(mark, argc, argv, &word)) {
            snprintf(why, room, "%s %s is not in 6.0", name, word);
            return false;
        }
    }
    return true;
}
