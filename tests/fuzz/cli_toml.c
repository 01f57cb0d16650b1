/*
 * cli_toml.c (fuzz): any text as a configuration file, read and edited.
 */
#include "../../cli/cli.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static toml of(const char *text, size_t n)
{
    toml t = { .source = malloc(n + 1) };
    if (!t.source)
        abort();
    memcpy(t.source, text, n);
    t.source[n] = '\0';
    return t;
}

static bool parses(toml *t)
{
    char why[160];
    int line = 0;
    return toml_parse(t, why, sizeof why, &line);
}

/* An edit of a file that can be read makes one that can. */
static void must_parse(char *text)
{
    toml t = of(text, strlen(text));
    if (!parses(&t))
        abort();
    toml_free(&t);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    toml t = of((const char *)data, size);
    if (parses(&t)) {
        must_parse(toml_set(&t, "context.a", "url", "x\"\\\n"));
        must_parse(toml_remove_key(&t, "", "context"));
        must_parse(toml_remove_table(&t, "context.a"));
    }
    toml_free(&t);
    return 0;
}
