/*
 * report.c: what is said to people on stderr, and what must never be said.
 *
 *   leat: what: why
 *   hint: what to do
 *
 * Every text passes two filters: registered secrets become ***, and what a
 * terminal could take for a command is escaped.
 */
#include "cli.h"

#include <stdlib.h>
#include <wchar.h>

static struct {
    bool color, quiet;
    int verbose;
} style;

#define MAX_SECRETS 64
static struct {
    char *p;
    size_t n;
} secrets[MAX_SECRETS];
static size_t secret_count;

void report_style(bool color, bool quiet, int verbose)
{
    style.color = color;
    style.quiet = quiet;
    style.verbose = verbose;
}

bool report_verbose(void)
{
    return style.verbose > 0;
}

bool report_quiet(void)
{
    return style.quiet;
}

/* One or two letters would blank out half of every sentence, and are no
 * secret. */
void secret_add(const char *text, size_t n)
{
    if (n < 3 || secret_count == MAX_SECRETS)
        return;
    secrets[secret_count].p = copy_n(text, n);
    secrets[secret_count++].n = n;
}

static size_t secret_at(const char *s)
{
    size_t longest = 0;
    for (size_t i = 0; i < secret_count; i++)
        if (secrets[i].n > longest &&
            strncmp(s, secrets[i].p, secrets[i].n) == 0)
            longest = secrets[i].n;
    return longest;
}

static char *without_secrets(const char *s)
{
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    if (!f)
        return copy("");
    while (*s) {
        size_t skip = secret_at(s);
        if (skip)
            fputs("***", f);
        else
            fputc(*s, f);
        s += skip ? skip : 1;
    }
    fclose(f);
    return out;
}

/* ---- printable text --------------------------------------------------- */

/* The length of the UTF-8 sequence at s, its character in *ch; 0: not UTF-8,
 * overlong or a surrogate. */
static size_t utf8(const unsigned char *s, size_t n, uint32_t *ch)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t len = s[0] < 0x80             ? 1
                 : (s[0] & 0xe0) == 0xc0 ? 2
                 : (s[0] & 0xf0) == 0xe0 ? 3
                 : (s[0] & 0xf8) == 0xf0 ? 4
                                         : 0;
    if (len == 0 || len > n)
        return 0;
    *ch = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *ch = *ch << 6 | (s[i] & 0x3f);
    }
    bool surrogate = *ch >= 0xd800 && *ch < 0xe000;
    return *ch < least[len] || *ch > 0x10ffff || surrogate ? 0 : len;
}

bool is_utf8(leat_bytes b)
{
    const unsigned char *s = b.p;
    uint32_t ch = 0;
    for (size_t i = 0; i < b.n;) {
        size_t len = utf8(s + i, b.n - i, &ch);
        if (len == 0)
            return false;
        i += len;
    }
    return true;
}

/* Marks that reorder or hide what stands beside them. */
static bool misleading(uint32_t ch)
{
    return ch < 0x20 || (ch >= 0x7f && ch < 0xa0) || ch == 0x61c ||
           (ch >= 0x200b && ch <= 0x200f) || (ch >= 0x2028 && ch <= 0x202e) ||
           (ch >= 0x2060 && ch <= 0x206f) || ch == 0xfeff ||
           (ch >= 0xfff9 && ch <= 0xfffb) || (ch >= 0xe0000 && ch <= 0xe007f);
}

char *printable(const char *s, size_t n)
{
    char *out = grab(n * 4 + 1);
    size_t o = 0;
    for (size_t i = 0; i < n;) {
        uint32_t ch = 0;
        size_t len = utf8((const unsigned char *)s + i, n - i, &ch);
        bool keep = len && !misleading(ch);
        if (len == 0)
            len = 1;
        for (size_t k = 0; k < len; k++, i++) {
            if (keep)
                out[o++] = s[i];
            else
                o += (size_t)snprintf(out + o, 5, "\\x%02x",
                                      (unsigned char)s[i]);
        }
    }
    out[o] = '\0';
    return out;
}

char *shown_text(const char *s, size_t n)
{
    if (n <= SHOWN_MAX)
        return printable(s, n);
    size_t most = SHOWN_MAX;
    while (most > 0 && ((unsigned char)s[most] & 0xc0) == 0x80)
        most--;
    most = most ? most : SHOWN_MAX; /* it is no text at all */
    char *begin = printable(s, most);
    char *rest = humane_bytes((int64_t)(n - most));
    char *text = format("%s... (%s more; whole in a pipe)", begin, rest);
    free(rest);
    free(begin);
    return text;
}

int columns_of(const char *s)
{
    int columns = 0;
    size_t n = strlen(s);
    for (size_t i = 0; i < n;) {
        uint32_t ch = 0;
        size_t len = utf8((const unsigned char *)s + i, n - i, &ch);
        int w = len > 1 ? wcwidth((wchar_t)ch) : 1;
        columns += w < 0 ? 1 : w;
        i += len ? len : 1;
    }
    return columns;
}

/* ---- lines ------------------------------------------------------------ */

static void say(const char *label, const char *color, const char *text)
{
    char *clean = without_secrets(text);
    char *shown = printable(clean, strlen(clean));
    fprintf(stderr, "%s%s:%s %s\n", style.color ? color : "", label,
            style.color ? "\033[0m" : "", shown);
    free(shown);
    free(clean);
}

LEAT_PRINTF(1, 0) static char *vformat(const char *fmt, va_list ap)
{
    char *p = NULL;
    if (vasprintf(&p, fmt, ap) < 0)
        p = copy("out of memory");
    return p;
}

int fail(int code, const char *what_to_do, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = vformat(fmt, ap);
    va_end(ap);
    screen_leave();
    say("leat", "\033[1;31m", text);
    if (what_to_do)
        say("hint", "\033[36m", what_to_do);
    free(text);
    return code;
}

void note(const char *fmt, ...)
{
    if (style.quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    char *text = vformat(fmt, ap);
    va_end(ap);
    say("leat", "\033[1m", text);
    free(text);
}

void hint(const char *fmt, ...)
{
    if (style.quiet)
        return;
    va_list ap;
    va_start(ap, fmt);
    char *text = vformat(fmt, ap);
    va_end(ap);
    say("hint", "\033[36m", text);
    free(text);
}

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    say(leat_level_name(level), "\033[2m", line);
}

leat_logger report_logger(void)
{
    leat_level level = style.verbose > 1   ? LEAT_LOG_DEBUG
                       : style.verbose > 0 ? LEAT_LOG_INFO
                                           : LEAT_LOG_WARN;
    return (leat_logger){ .fn = style.quiet ? NULL : on_log, .level = level };
}

/* ---- library errors --------------------------------------------------- */

/* The one place where a library code becomes an exit code. */
static const struct {
    int exit;
    const char *hint;
} answers[LEAT_CODES_] = {
    [LEAT_OK] = { EXIT_DONE, NULL },
    [LEAT_EUNKNOWN] = { EXIT_UNKNOWN, "the answer was lost: look before "
                                      "you repeat, it may have happened" },
    [LEAT_EINVAL] = { EXIT_USAGE, NULL },
    [LEAT_ENOMEM] = { EXIT_TRY_AGAIN, NULL },
    [LEAT_ENOENT] = { EXIT_NO, NULL },
    [LEAT_EEXIST] = { EXIT_NO, NULL },
    [LEAT_ECONN] = { EXIT_UNAVAILABLE,
                     "is the server running? 'leat up' starts a private "
                     "one, --url or LEAT_URL names another" },
    [LEAT_ETIMEOUT] = { EXIT_TRY_AGAIN,
                        "the server did not answer in time; --timeout 30s "
                        "waits longer" },
    [LEAT_EFULL] = { EXIT_TRY_AGAIN, NULL },
    [LEAT_EBUSY] = { EXIT_TRY_AGAIN, NULL },
    [LEAT_EREADONLY] = { EXIT_TRY_AGAIN, "name the master in the URL" },
    [LEAT_EAUTH] = { EXIT_DENIED,
                     "set LEAT_PASSWORD or LEAT_PASSWORD_FILE, and --user "
                     "for an ACL user" },
    [LEAT_ECONFLICT] = { EXIT_TRY_AGAIN, NULL },
    [LEAT_ESERVER] = { EXIT_UNAVAILABLE, NULL },
    [LEAT_EPROTO] = { EXIT_UNAVAILABLE, "is that a Redis server?" },
    [LEAT_EDECODE] = { EXIT_DATA, NULL },
    [LEAT_ESTALE] = { EXIT_TRY_AGAIN, NULL },
    [LEAT_ETOOBIG] = { EXIT_DATA, NULL },
    [LEAT_EUNSAFE] = { EXIT_CONFIG, NULL },
    [LEAT_ENOTSUP] = { EXIT_CONFIG, "leat version lists what is built in" },
    [LEAT_EFORK] = { EXIT_BUG, NULL },
    [LEAT_ECLOSED] = { EXIT_BUG, NULL },
    [LEAT_EIO] = { EXIT_IO, NULL },
};

int exit_code(leat_code code)
{
    return (unsigned)code < LEAT_CODES_ ? answers[code].exit : EXIT_BUG;
}

/* The library ends such an error with the right to add. */
static bool acl_refused(const leat_error *err)
{
    return err->code == LEAT_EAUTH && strstr(err->msg, ": allow ");
}

/* Why a server takes no writes, by the first word of its error. */
static const char *full_hint(const leat_error *err)
{
    static const struct {
        const char *word, *hint;
    } reasons[] = {
        { "OOM", "nothing was written: the server's memory is full; let it be "
                 "read and acknowledged, or raise maxmemory, and try again" },
        { "MISCONF", "nothing was written: the server cannot write to its "
                     "disk; is that full, or read-only? its log tells" },
        { "NOREPLICAS", "nothing was written: fewer replicas follow than "
                        "min-replicas-to-write; 'leat status' counts them" },
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (err->code == LEAT_EFULL && strstr(err->msg, reasons[i].word))
            return reasons[i].hint;
    return NULL;
}

int fail_with(const char *what, const leat_error *err, const char *what_to_do)
{
    if (!what_to_do && acl_refused(err))
        what_to_do = "a right is missing, not a password: 'leat acl' prints "
                     "what a producer, a consumer and an operator need";
    if (!what_to_do)
        what_to_do = full_hint(err);
    if (!what_to_do && (unsigned)err->code < LEAT_CODES_)
        what_to_do = answers[err->code].hint;
    return fail(exit_code(err->code), what_to_do, "%s: %s", what,
                err->msg[0] ? err->msg : leat_code_text(err->code));
}
