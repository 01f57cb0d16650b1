/*
 * cli_numbers.c (fuzz): any text as a duration, a time, a switch, and as the
 * value of every option: numbers and sizes among them.
 */
#include "../../cli/cli.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const option *list, const char *text)
{
    char why[160];
    for (const option *o = list; o && o->name; o++)
        (void)value_check(o, text, why, sizeof why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t ms = 0;
    bool on;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    if (duration_parse(text, &ms) && ms < 0)
        abort();
    (void)time_parse(text, &ms);
    (void)bool_parse(text, &on);
    check(global_options, text);
    for (const command *k = NULL; (k = command_next(NULL, k));)
        check(k->options, text);
    free(text);
    return 0;
}
