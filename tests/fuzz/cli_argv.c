/*
 * cli_argv.c (fuzz): any words, with zeros between them, as a command line.
 */
#include "../../cli/cli.h"

#include <stdint.h>
#include <stdlib.h>

enum { WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *word(const uint8_t *p, size_t n)
{
    char *w = malloc(n + 1);
    if (!w)
        abort();
    memcpy(w, p, n);
    w[n] = '\0';
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *nowhere;
    FILE *said = stderr;
    cli c = { 0 };
    int argc = 1;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    c.words = calloc(WORDS + 2, sizeof *c.words);
    if (!c.words || !nowhere)
        abort();
    c.words[0] = word((const uint8_t *)"leat", 4);
    while (size > 0 && argc < WORDS) {
        const uint8_t *zero = memchr(data, 0, size);
        size_t n = zero ? (size_t)(zero - data) : size;
        c.words[argc++] = word(data, n);
        data += zero ? n + 1 : n;
        size -= zero ? n + 1 : n;
    }
    stderr = nowhere;
    (void)parse_words(&c, argc, c.words);
    stderr = said;
    settings_free(&c);
    return 0;
}
