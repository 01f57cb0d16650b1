/*
 * ce.c: the rules of CloudEvents 1.0 that its two codecs share.
 *
 *   envelope       attribute
 *   id             id                required
 *   source         source            required, "/leat" when not given
 *   type           type              required, "leat.message" when not given
 *   subject        subject
 *   time_ms        time              RFC 3339 in UTC, to the millisecond
 *   key            partitionkey
 *   content_type   datacontenttype
 *   a header       an extension attribute, where its name and value allow
 *
 * Attributes are text: UTF-8, without control characters.  A time of exactly
 * 1970-01-01T00:00:00Z reads as "not given", because 0 means that.
 */
#include "message/ce.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <strings.h>

/* ---- text and names --------------------------------------------------- */

/* What the specification allows in a string. */
static bool allowed(uint32_t cp)
{
    bool control = cp < 0x20 || (cp >= 0x7f && cp <= 0x9f);
    bool noncharacter = (cp & 0xfffe) == 0xfffe ||
                        (cp >= 0xfdd0 && cp <= 0xfdef);
    return !control && !noncharacter;
}

static bool is_text(leat_bytes b)
{
    while (b.n > 0) {
        bool ok = true;
        uint32_t cp = leat__utf8_next(&b, &ok);
        if (!ok || !allowed(cp))
            return false;
    }
    return true;
}

enum attribute {
    SPECVERSION,
    ID,
    SOURCE,
    TYPE,
    REQUIRED, /* how many of them are */
    SUBJECT = REQUIRED,
    TIME,
    PARTITIONKEY,
    DATACONTENTTYPE,
    ATTRIBUTES
};

static const char *const names[ATTRIBUTES] = {
    [SPECVERSION] = "specversion",
    [ID] = "id",
    [SOURCE] = "source",
    [TYPE] = "type",
    [SUBJECT] = "subject",
    [TIME] = "time",
    [PARTITIONKEY] = "partitionkey",
    [DATACONTENTTYPE] = "datacontenttype",
};

static bool is(leat_bytes b, const char *s)
{
    return leat_bytes_eq(b, leat_str(s));
}

static enum attribute find_attribute(leat_bytes name)
{
    int i = 0;
    while (i < ATTRIBUTES && !is(name, names[i]))
        i++;
    return (enum attribute)i;
}

static bool is_extension_name(leat_bytes name)
{
    const char *s = name.p;
    for (size_t i = 0; i < name.n; i++)
        if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9')))
            return false;
    return name.n > 0 && find_attribute(name) == ATTRIBUTES &&
           !is(name, "data") && !is(name, LEAT__CE_HEADERS);
}

/* The bound keeps the search for an earlier one from growing by the square. */
bool leat__ce_is_extension(const leat_msg *m, size_t i)
{
    enum { EXTENSIONS_MAX = 64 };
    const leat_header *h = &m->headers[i];

    if (i >= EXTENSIONS_MAX || h->value.n == 0 || !is_text(h->value) ||
        !is_extension_name(h->name))
        return false;
    for (size_t k = 0; k < i; k++)
        if (leat_bytes_eq(m->headers[k].name, h->name))
            return false;
    return true;
}

/* ---- media types ------------------------------------------------------ */

static bool starts_with(leat_bytes b, const char *prefix)
{
    size_t n = strlen(prefix);
    return b.n >= n && strncasecmp(b.p, prefix, n) == 0;
}

static bool ends_with(leat_bytes b, const char *suffix)
{
    size_t n = strlen(suffix);
    return b.n >= n && strncasecmp((const char *)b.p + b.n - n, suffix, n) == 0;
}

/* Without parameters and the spaces before them. */
static leat_bytes media_type(leat_bytes content_type)
{
    const char *s = content_type.p;
    size_t n = 0;
    while (n < content_type.n && s[n] != ';')
        n++;
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
        n--;
    return leat_mem(s, n);
}

enum leat__ce_mode leat__ce_mode(leat_bytes content_type)
{
    leat_bytes type = media_type(content_type);
    if (!starts_with(type, "application/cloudevents"))
        return LEAT__CE_BINARY;
    bool json = ends_with(type, "+json");
    if (json && type.n == strlen("application/cloudevents+json"))
        return LEAT__CE_JSON;
    if (json && type.n == strlen("application/cloudevents-batch+json") &&
        starts_with(type, "application/cloudevents-batch"))
        return LEAT__CE_JSON_BATCH;
    return LEAT__CE_OTHER;
}

bool leat__ce_is_json(leat_bytes content_type)
{
    leat_bytes type = media_type(content_type);
    return content_type.n == 0 || ends_with(type, "/json") ||
           ends_with(type, "+json");
}

bool leat__ce_is_text(leat_bytes content_type)
{
    return starts_with(content_type, "text/");
}

/* ---- time ------------------------------------------------------------- */

#define YEAR_0     (-INT64_C(62167219200000)) /* 0000-01-01T00:00:00.000Z */
#define YEAR_10000 INT64_C(253402300800000)
enum { DAY_MS = 86400000 };

/* The calendar repeats after 400 years of 146097 days.  Counted from the first
 * of March the leap day is the last of its year, and the months have the
 * lengths 31 30 31 30 31 twice, then 31 and the rest: (153 * m + 2) / 5. */
static int64_t days_of_date(int64_t y, int64_t month, int64_t day)
{
    y += 400;
    if (month <= 2)
        y--;
    int64_t m = (month + 9) % 12;
    int64_t in_year = (153 * m + 2) / 5 + day - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 + in_year - 719468 - 146097;
}

static void date_of_days(int64_t days, int *y, int *month, int *day)
{
    int64_t d = days + 719468 + 146097;
    int64_t era = d / 146097, e = d % 146097;
    int64_t year = (e - e / 1460 + e / 36524 - e / 146096) / 365;
    int64_t in_year = e - (365 * year + year / 4 - year / 100);
    int64_t m = (5 * in_year + 2) / 153;

    *day = (int)(in_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *y = (int)(year + era * 400 - 400 + (*month <= 2));
}

void leat__ce_time_format(char out[LEAT__CE_TIME], int64_t ms)
{
    int64_t since = ms - YEAR_0;
    int in_day = (int)(since % DAY_MS), y, month, day;
    char text[64];

    date_of_days((ms - in_day) / DAY_MS, &y, &month, &day);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", y, month,
             day, in_day / 3600000, in_day / 60000 % 60, in_day / 1000 % 60,
             in_day % 1000);
    memcpy(out, text, LEAT__CE_TIME);
}

typedef struct scan {
    const char *p, *end;
    bool ok;
} scan;

static int scan_number(scan *s, int digits, int min, int max)
{
    int v = 0;
    for (; digits > 0; digits--) {
        if (s->p == s->end || *s->p < '0' || *s->p > '9') {
            s->ok = false;
            return min;
        }
        v = v * 10 + (*s->p++ - '0');
    }
    s->ok = s->ok && v >= min && v <= max;
    return v;
}

static char scan_one_of(scan *s, const char *set)
{
    char c = s->p < s->end ? *s->p++ : '\0';
    s->ok = s->ok && c != '\0' && strchr(set, c);
    return c;
}

static int scan_fraction(scan *s)
{
    int ms = 0, weight = 100;
    if (s->p == s->end || *s->p != '.')
        return 0;
    s->p++;
    s->ok = s->ok && s->p < s->end && *s->p >= '0' && *s->p <= '9';
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++) {
        ms += weight * (*s->p - '0');
        weight /= 10;
    }
    return ms;
}

static int64_t scan_offset_ms(scan *s)
{
    char sign = scan_one_of(s, "Zz+-");
    if (sign != '+' && sign != '-')
        return 0;
    int64_t h = scan_number(s, 2, 0, 23);
    scan_one_of(s, ":");
    int64_t ms = (h * 60 + scan_number(s, 2, 0, 59)) * 60000;
    return sign == '+' ? ms : -ms;
}

static int days_in_month(int y, int month)
{
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    if (month == 2)
        return leap ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

bool leat__ce_time_parse(leat_bytes text, int64_t *ms)
{
    scan s = { .p = text.p, .ok = text.n > 0 };
    s.end = s.ok ? s.p + text.n : s.p;
    int y = scan_number(&s, 4, 0, 9999);
    scan_one_of(&s, "-");
    int month = scan_number(&s, 2, 1, 12);
    scan_one_of(&s, "-");
    int day = scan_number(&s, 2, 1, days_in_month(y, month));
    scan_one_of(&s, "Tt");
    int64_t in_day = scan_number(&s, 2, 0, 23) * INT64_C(3600000);
    scan_one_of(&s, ":");
    in_day += scan_number(&s, 2, 0, 59) * 60000;
    scan_one_of(&s, ":");
    in_day += scan_number(&s, 2, 0, 60) * 1000; /* 60: a leap second */
    in_day += scan_fraction(&s);
    in_day -= scan_offset_ms(&s);
    if (!s.ok || s.p != s.end)
        return false;
    *ms = days_of_date(y, month, day) * DAY_MS + in_day;
    return *ms >= YEAR_0 && *ms < YEAR_10000;
}

/* ---- writing ---------------------------------------------------------- */

leat_code leat__ce_check(const leat_codec *c, const leat_msg *m,
                         leat_error *err)
{
    const struct {
        const char *name;
        leat_bytes value;
    } text[] = {
        { "id", m->id },     { "source", m->source },
        { "type", m->type }, { "subject", m->subject },
        { "key", m->key },   { "content type", m->content_type },
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++)
        if (!is_text(text[i].value))
            return leat__fail(err, LEAT_EINVAL,
                              "codec %s: the %s is not text (UTF-8 without "
                              "control characters): use the native codec",
                              c->name, text[i].name);
    if (m->id.n == 0)
        return leat__fail(err, LEAT_EINVAL, "codec %s: the message has no id",
                          c->name);
    if (m->time_ms < YEAR_0 || m->time_ms >= YEAR_10000)
        return leat__fail(err, LEAT_EINVAL,
                          "codec %s: time %lld is outside the years 0 to 9999",
                          c->name, (long long)m->time_ms);
    return LEAT_OK;
}

/* ---- reading ---------------------------------------------------------- */

/* Version 1 in any of its minor versions. */
static leat_code check_specversion(leat_bytes v, leat_error *err)
{
    const char *s = v.p;
    if (v.n == 0 || s[0] != '1' || (v.n > 1 && s[1] != '.')) {
        char quoted[40];
        leat__escape(quoted, sizeof quoted, s, v.n);
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: specversion '%s', this leat reads 1.x",
                          quoted);
    }
    return LEAT_OK;
}

static leat_code set_known(leat_msg *m, enum attribute a, leat_bytes value,
                           leat_error *err)
{
    leat_bytes *const slots[ATTRIBUTES] = {
        [ID] = &m->id,
        [SOURCE] = &m->source,
        [TYPE] = &m->type,
        [SUBJECT] = &m->subject,
        [PARTITIONKEY] = &m->key,
        [DATACONTENTTYPE] = &m->content_type,
    };
    if (a == SPECVERSION)
        return check_specversion(value, err);
    if (a == TIME && !leat__ce_time_parse(value, &m->time_ms))
        return leat__fail(err, LEAT_EDECODE,
                          "cloudevent: time is not a date of RFC 3339");
    if (slots[a])
        *slots[a] = value;
    return LEAT_OK;
}

bool leat__ce_is_attribute(leat_bytes name)
{
    return find_attribute(name) != ATTRIBUTES;
}

leat_code leat__ce_set(leat__ce_event *e, leat_bytes name, leat_bytes value,
                       leat_error *err)
{
    enum attribute a = find_attribute(name);
    assert(a != ATTRIBUTES);
    if (value.n == 0)
        return LEAT_OK;
    if (e->seen & 1u << a)
        return leat__fail(err, LEAT_EDECODE, "cloudevent: two values of %s",
                          names[a]);
    if (!is_text(value))
        return leat__fail(err, LEAT_EDECODE, "cloudevent: %s is not text",
                          names[a]);
    e->seen |= 1u << a;
    return set_known(e->m, a, value, err);
}

leat_code leat__ce_check_required(const leat__ce_event *e, leat_error *err)
{
    for (int a = 0; a < REQUIRED; a++)
        if (!(e->seen & 1u << a))
            return leat__fail(err, LEAT_EDECODE,
                              "cloudevent: %s is missing or empty", names[a]);
    return LEAT_OK;
}
