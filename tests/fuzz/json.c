/*
 * json.c: any bytes as text, as raw JSON and as base64.
 *
 * As text they must come out as JSON that another reader takes; as raw JSON
 * they are let in exactly when that reader would take them; as base64 they are
 * the one encoding of what they decode to, or refused.
 */
#include "base/base64.h"
#include "base/jsoncheck.h"
#include "base/utf8.h"

#include <jansson.h>
#include <leat/json.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool promise)
{
    if (!promise)
        abort();
}

static void as_text(leat_bytes b)
{
    leat_json *j = leat_json_new(NULL);
    size_t n;
    leat_json_array(j, NULL);
    leat_json_text(j, NULL, b);
    leat_json_base64(j, NULL, b);
    leat_json_end(j);
    const char *out = leat_json_done(j, &n, NULL);
    check(out && leat__json_valid(leat_mem(out, n), DEPTH));

    json_t *a = json_loadb(out, n, FLAGS, NULL);
    check(a);
    json_t *s = json_array_get(a, 0);
    if (leat__utf8_valid(b))
        check(leat_bytes_eq(
            leat_mem(json_string_value(s), json_string_length(s)), b));
    json_decref(a);
    leat_json_free(j);
}

/* The reader refuses numbers it cannot hold and halves of surrogate pairs;
 * both are JSON. */
static bool readers_own(const json_error_t *e, leat_bytes b)
{
    enum json_error_code code = json_error_code(e);
    return code == json_error_numeric_overflow ||
           (b.n > 0 && memmem(b.p, b.n, "\\u", 2));
}

static void as_raw(leat_bytes b)
{
    json_error_t e;
    json_t *v = json_loadb(b.n ? b.p : "", b.n, FLAGS, &e);
    bool ours = leat__json_valid(b, 2048);
    /* The reader takes a zero byte for the end; it is never JSON. */
    if (b.n > 0 && memchr(b.p, 0, b.n))
        check(!ours);
    else
        check(v ? ours : !ours || readers_own(&e, b));
    json_decref(v);

    leat_json *j = leat_json_new(NULL);
    leat_json_raw(j, NULL, b);
    check(!leat_json_done(j, NULL, NULL) == !leat__json_valid(b, DEPTH));
    leat_json_free(j);
}

static void as_base64(leat_bytes b)
{
    char *plain = malloc(leat__base64_decoded_max(b.n) + 1);
    char *coded = malloc(b.n + 1);
    size_t n;
    check(plain && coded);
    if (leat__base64_decode(plain, &n, b, NULL) == LEAT_OK) {
        check(leat__base64_encoded(n) == b.n);
        leat__base64_encode(coded, leat_mem(plain, n));
        check(leat_bytes_eq(leat_mem(coded, b.n), b));
    }
    free(plain);
    free(coded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    leat_bytes b = leat_mem(data, n);
    as_text(b);
    as_raw(b);
    as_base64(b);
    return 0;
}
