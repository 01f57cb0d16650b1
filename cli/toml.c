/*
 * toml.c: the configuration file, read and edited.
 *
 *   # a comment
 *   context = "prod"             keys before the first table are defaults
 *   timeout = "5s"
 *
 *   [context.prod]
 *   url = "redis://db.example:6379/0"
 *   password_file = "/etc/leat/prod.secret"
 *
 * The subset of TOML 1.0 this needs: comments, [tables] of bare dotted names,
 * basic and literal strings on one line, integers, booleans.  Everything else
 * is refused by file and line, not guessed at.
 *
 * Edits change lines of the text, so comments and order stay.  A file is
 * replaced by rename: a crash leaves the old or the new one, never a part.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE ((size_t)1024 * 1024)

typedef struct reader {
    const char *s;
    int line;
    char *why;
    size_t room;
} reader;

static bool refuse(reader *r, const char *why)
{
    snprintf(r->why, r->room, "%s", why);
    return false;
}

static void skip_blank(reader *r)
{
    while (*r->s == ' ' || *r->s == '\t')
        r->s++;
}

/* What may follow a value or a header: blanks, a comment, the line's end. */
static bool end_of_line(reader *r)
{
    skip_blank(r);
    if (*r->s == '#')
        r->s += strcspn(r->s, "\n");
    if (r->s[0] == '\r' && r->s[1] == '\n')
        r->s++;
    if (*r->s == '\0')
        return true;
    if (*r->s != '\n')
        return refuse(r, "something stands after the value");
    r->s++;
    r->line++;
    return true;
}

static bool bare(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static char *read_name(reader *r, bool dots)
{
    const char *start = r->s;
    while (bare(*r->s) || (dots && *r->s == '.'))
        r->s++;
    return r->s == start ? NULL : copy_n(start, (size_t)(r->s - start));
}

/* ---- values ----------------------------------------------------------- */

static bool put_utf8(FILE *f, unsigned long ch)
{
    if (ch == 0 || ch > 0x10ffff || (ch >= 0xd800 && ch < 0xe000))
        return false;
    if (ch < 0x80) {
        fputc((int)ch, f);
        return true;
    }
    int more = ch < 0x800 ? 1 : ch < 0x10000 ? 2 : 3;
    static const int lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    fputc(lead[more] | (int)(ch >> (6 * more)), f);
    while (more--)
        fputc(0x80 | (int)(ch >> (6 * more) & 0x3f), f);
    return true;
}

static bool read_escape(reader *r, FILE *f)
{
    static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
    char c = *r->s++;
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        fputc(to[at - from], f);
        return true;
    }
    int digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    unsigned long ch = 0;
    for (int i = 0; i < digits; i++, r->s++) {
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        const char *h = *r->s ? strchr(hex, *r->s) : NULL;
        if (!h)
            return refuse(r, "a bad \\u escape");
        ch = ch << 4 | (unsigned long)((h - hex) & 15);
    }
    if (digits == 0 || !put_utf8(f, ch))
        return refuse(r, "an escape that TOML does not know; in a literal "
                         "'string' a backslash is itself");
    return true;
}

static bool read_string(reader *r, char **out)
{
    char quote = *r->s++;
    size_t n = 0;
    if (r->s[0] == quote && r->s[1] == quote)
        return refuse(r, "strings over several lines are not read here");
    FILE *f = open_memstream(out, &n);
    if (!f)
        return refuse(r, "out of memory");
    bool good = true;
    while (good && *r->s != quote) {
        unsigned char c = (unsigned char)*r->s;
        if (c == '\0' || c == '\n')
            good = refuse(r, "a string without its closing quote");
        else if ((c < 0x20 && c != '\t') || c == 0x7f)
            good = refuse(r, "a control character in a string");
        else if (c == '\\' && quote == '"') {
            r->s++;
            good = read_escape(r, f);
        } else {
            fputc(c, f);
            r->s++;
        }
    }
    fclose(f);
    if (!good) {
        free(*out);
        *out = NULL;
        return false;
    }
    r->s++;
    return true;
}

/* An integer without its underscores; TOML refuses leading zeros. */
static bool read_integer(reader *r, const char *word, size_t n, char **out)
{
    char *p = *out = grab(n + 1);
    size_t o = 0;
    for (size_t i = 0; i < n; i++) {
        bool inside = i > 0 && i + 1 < n && word[i - 1] != '_';
        if (word[i] == '_' && inside && word[i - 1] != '-')
            continue;
        bool sign = i == 0 && (word[i] == '-' || word[i] == '+');
        if (!sign && (word[i] < '0' || word[i] > '9'))
            goto bad;
        if (!(sign && word[i] == '+'))
            p[o++] = word[i];
    }
    char *end = NULL;
    errno = 0;
    (void)strtoll(p, &end, 10);
    const char *digits = p + (*p == '-');
    if (o && !*end && !errno && !(digits[0] == '0' && digits[1]))
        return true;
bad:
    free(p);
    *out = NULL;
    return refuse(r, "a value must be a \"string\", an integer, true or false");
}

static bool read_value(reader *r, toml_item *item)
{
    if (*r->s == '"' || *r->s == '\'') {
        item->is_text = true;
        return read_string(r, &item->text);
    }
    const char *word = r->s;
    size_t n = strcspn(word, " \t\r\n#");
    r->s += n;
    if ((n == 4 && strncmp(word, "true", 4) == 0) ||
        (n == 5 && strncmp(word, "false", 5) == 0)) {
        item->text = copy_n(word, n);
        return true;
    }
    return read_integer(r, word, n, &item->text);
}

/* ---- lines ------------------------------------------------------------ */

static toml_item *add_item(toml *t, const char *table, int line)
{
    t->items = regrab(t->items, (t->count + 1) * sizeof *t->items);
    toml_item *i = &t->items[t->count++];
    *i = (toml_item){ .table = copy(table), .line = line };
    return i;
}

static bool read_header(toml *t, reader *r, char **table)
{
    r->s++;
    if (*r->s == '[')
        return refuse(r, "arrays of tables are not read here");
    skip_blank(r);
    char *name = read_name(r, true);
    if (!name)
        return refuse(r, "a table needs a name of letters, digits, - and _");
    free(*table);
    *table = name;
    skip_blank(r);
    if (*r->s++ != ']')
        return refuse(r, "a table's name ends with ]");
    if (toml_has_table(t, name))
        return refuse(r, "that table is there already");
    add_item(t, name, r->line);
    return end_of_line(r);
}

static bool read_pair(toml *t, reader *r, const char *table)
{
    char *key = read_name(r, false);
    if (!key)
        return refuse(r, "expected a key, a [table] or a # comment");
    if (toml_get(t, table, key)) {
        free(key);
        return refuse(r, "that key is there already");
    }
    toml_item *item = add_item(t, table, r->line);
    item->key = key;
    skip_blank(r);
    if (*r->s != '=')
        return refuse(r, "expected = after the key");
    r->s++;
    skip_blank(r);
    return read_value(r, item) && end_of_line(r);
}

bool toml_parse(toml *t, char *why, size_t room, int *line)
{
    reader r = { .s = t->source, .line = 1, .why = why, .room = room };
    char *table = copy("");
    bool good = true;
    if (strncmp(r.s, "\xef\xbb\xbf", 3) == 0)
        r.s += 3;
    while (good && *r.s) {
        skip_blank(&r);
        if (*r.s == '[')
            good = read_header(t, &r, &table);
        else if (*r.s == '#' || *r.s == '\r' || *r.s == '\n')
            good = end_of_line(&r);
        else if (*r.s)
            good = read_pair(t, &r, table);
    }
    free(table);
    *line = r.line;
    return good;
}

const toml_item *toml_get(const toml *t, const char *table, const char *key)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].key && strcmp(t->items[i].table, table) == 0 &&
            strcmp(t->items[i].key, key) == 0)
            return &t->items[i];
    return NULL;
}

bool toml_has_table(const toml *t, const char *table)
{
    for (size_t i = 0; i < t->count; i++)
        if (!t->items[i].key && strcmp(t->items[i].table, table) == 0)
            return true;
    return false;
}

void toml_free(toml *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->items[i].table);
        free(t->items[i].key);
        if (t->items[i].text)
            explicit_bzero(t->items[i].text, strlen(t->items[i].text));
        free(t->items[i].text);
    }
    free(t->items);
    if (t->source)
        explicit_bzero(t->source, strlen(t->source));
    free(t->source);
    free(t->path);
    *t = (toml){ 0 };
}

/* ---- files ------------------------------------------------------------ */

static bool holds_secret(const toml *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const toml_item *x = &t->items[i];
        if (x->key && (strcmp(x->key, "password") == 0 ||
                       (strcmp(x->key, "url") == 0 && url_has_secret(x->text))))
            return true;
    }
    return false;
}

static void hide_secrets(const toml *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const toml_item *x = &t->items[i];
        if (!x->key || !x->text) /* a file may end in a mistake */
            continue;
        if (strcmp(x->key, "password") == 0)
            secret_add(x->text, strlen(x->text));
        if (strcmp(x->key, "url") == 0)
            secret_add_url(x->text);
    }
}

static int check_mode(const toml *t, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return fail(EXIT_IO, NULL, "%s: %m", t->path);
    if ((st.st_mode & 077) == 0 || !holds_secret(t))
        return 0;
    char *todo = format("chmod 600 %s", t->path);
    int code = fail(EXIT_CONFIG, todo,
                    "%s: holds a password and can be read by others", t->path);
    free(todo);
    return code;
}

int toml_read(toml *t, const char *path, int *code)
{
    *t = (toml){ .path = copy(path) };
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    size_t n = 0;
    if (fd >= 0)
        t->source = slurp(fd, MAX_FILE, &n);
    if (!t->source) {
        *code = fail(EXIT_CONFIG, NULL, "%s: %m", path);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    char why[128] = "";
    int line = 0;
    *code = 0;
    if (strlen(t->source) != n)
        *code = fail(EXIT_CONFIG, NULL, "%s: holds a zero byte", path);
    else if (!toml_parse(t, why, sizeof why, &line))
        *code = fail(EXIT_CONFIG, "see leat.toml(5)", "%s:%d: %s", path, line,
                     why);
    hide_secrets(t);
    if (*code == 0)
        *code = check_mode(t, fd);
    close(fd);
    return *code ? -1 : 1;
}

/* The file a link leads to, so that a linked one is edited where it lies. */
static char *behind_links(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : copy(path);
}

static bool write_all(int fd, const char *s, size_t n)
{
    while (n) {
        ssize_t done = write(fd, s, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        s += done;
        n -= (size_t)done;
    }
    return true;
}

static void sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

bool toml_write(const char *path, const char *text, int *code)
{
    char *target = behind_links(path);
    char *slash = strrchr(target, '/');
    char *dir = slash ? copy_n(target, (size_t)(slash - target)) : copy(".");
    make_dirs(dir[0] ? dir : "/");
    char *temp = format("%s.XXXXXX", target);
    int fd = mkostemp(temp, O_CLOEXEC);
    bool good = fd >= 0 && fchmod(fd, 0600) == 0 &&
                write_all(fd, text, strlen(text)) && fsync(fd) == 0;
    if (fd >= 0 && close(fd) < 0)
        good = false;
    good = good && rename(temp, target) == 0;
    *code = good ? 0 : fail(EXIT_IO, NULL, "%s: %m", target);
    if (!good && fd >= 0)
        (void)unlink(temp);
    if (good)
        sync_dir(dir[0] ? dir : "/");
    free(temp);
    free(dir);
    free(target);
    return good;
}

/* ---- edits ------------------------------------------------------------ */

/* One empty text, so that pointers into it can be compared. */
static const char *source_of(const toml *t)
{
    static const char empty[] = "";
    return t->source ? t->source : empty;
}

static const char *line_start(const char *s, int line)
{
    for (int i = 1; i < line && *s; i++) {
        const char *end = strchr(s, '\n');
        s = end ? end + 1 : s + strlen(s);
    }
    return s;
}

static char *quoted(const char *s)
{
    char *out = grab(strlen(s) * 6 + 3), *o = out;
    *o++ = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            *o++ = '\\';
        if (c < 0x20 || c == 0x7f)
            o += snprintf(o, 7, "\\u%04x", c);
        else
            *o++ = (char)c;
    }
    *o++ = '"';
    *o = '\0';
    return out;
}

/* Cut [from, to) out of the source and put text there. */
static char *replace_span(const toml *t, const char *from, const char *to,
                          const char *text)
{
    const char *s = source_of(t);
    bool broken = from > s && from[-1] != '\n';
    return format("%.*s%s%s%s", (int)(from - s), s, broken ? "\n" : "", text,
                  to);
}

/* Where a table's own lines end: before the next header and the comments
 * and blank lines that stand right above it. */
static const char *table_end(const toml *t, const char *table)
{
    int after = 0;
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->items[i].table, table) == 0)
            after = t->items[i].line;
    return line_start(source_of(t), after + 1);
}

char *toml_set(const toml *t, const char *table, const char *key,
               const char *text)
{
    const char *s = source_of(t);
    const toml_item *old = toml_get(t, table, key);
    char *q = quoted(text);
    char *line = format("%s = %s\n", key, q);
    char *out;
    if (old) {
        out = replace_span(t, line_start(s, old->line),
                           line_start(s, old->line + 1), line);
    } else if (*table == '\0' || toml_has_table(t, table)) {
        const char *at = table_end(t, table);
        out = replace_span(t, at, at, line);
    } else {
        char *both = format("%s[%s]\n%s", *s ? "\n" : "", table, line);
        out = replace_span(t, s + strlen(s), s + strlen(s), both);
        free(both);
    }
    explicit_bzero(line, strlen(line));
    explicit_bzero(q, strlen(q));
    free(line);
    free(q);
    return out;
}

char *toml_remove_key(const toml *t, const char *table, const char *key)
{
    const toml_item *old = toml_get(t, table, key);
    if (!old)
        return copy(source_of(t));
    return replace_span(t, line_start(t->source, old->line),
                        line_start(t->source, old->line + 1), "");
}

char *toml_remove_table(const toml *t, const char *table)
{
    for (size_t i = 0; i < t->count; i++)
        if (!t->items[i].key && strcmp(t->items[i].table, table) == 0)
            return replace_span(t, line_start(t->source, t->items[i].line),
                                table_end(t, table), "");
    return copy(source_of(t));
}
