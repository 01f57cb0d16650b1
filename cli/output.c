/*
 * output.c: what commands print on stdout: rows of typed columns.
 *
 *   table    aligned, humane units, for people; the default on a terminal
 *   tsv      a heading and a line per row, tabs between; the default in a
 *            pipe.  \t \n \r \\ and \xNN stand for bytes that would break it
 *   csv      RFC 4180
 *   json     one array of objects; a record is one object
 *   ndjson   an object per line
 *
 * A cell is kept as a typed value and written in the form's own way, so that a
 * number is a number in JSON and 1.5 MiB in a table.
 */
#include "cli.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct cell {
    bool null;
    char *text;
    size_t n; /* of text */
    int64_t number;
    double real;
} cell;

struct output {
    const column *columns;
    size_t count;
    size_t *shown; /* indexes of the columns wanted, in their order */
    size_t shown_count;
    bool record, headers, color, tty, utc;
    bool headed;         /* the heading was written by a flush */
    const char *prelude; /* before the first line; NULL: none */
    char form[8];
    cell *cells; /* row after row, count each */
    size_t cell_count, room;
};

/* ---- which columns ---------------------------------------------------- */

static bool is_time(const column *c)
{
    return c->kind == COLUMN_MS || c->kind == COLUMN_SECONDS;
}

static int find_column(const output *o, const char *name, size_t n)
{
    for (size_t i = 0; i < o->count; i++)
        if (strlen(o->columns[i].name) == n &&
            strncasecmp(o->columns[i].name, name, n) == 0)
            return (int)i;
    return -1;
}

/* By its heading, which has no unit. */
static int find_time(const output *o, const char *name, size_t n)
{
    for (size_t i = 0; i < o->count; i++)
        if (is_time(&o->columns[i]) &&
            strncasecmp(o->columns[i].name, name, n) == 0 &&
            o->columns[i].name[n] == '_')
            return (int)i;
    return -1;
}

static int bad_column(const output *o, const char *name, size_t n)
{
    char *list = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&list, &len);
    if (!f)
        return EXIT_TRY_AGAIN;
    fputs("columns are", f);
    for (size_t i = 0; i < o->count; i++)
        fprintf(f, "%s %s", i ? "," : "", o->columns[i].name);
    fclose(f);
    int code = fail(EXIT_USAGE, list, "no column '%.*s'", (int)n, name);
    free(list);
    return code;
}

static int choose_columns(output *o, const char *list)
{
    o->shown = grab((o->count + (list ? strlen(list) : 0)) * sizeof *o->shown);
    if (!list) {
        for (size_t i = 0; i < o->count; i++)
            if (!o->columns[i].extra)
                o->shown[o->shown_count++] = i;
        return 0;
    }
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ",");
        int i = find_column(o, s, n);
        if (i < 0)
            i = find_time(o, s, n);
        if (i < 0)
            return bad_column(o, s, n);
        o->shown[o->shown_count++] = (size_t)i;
        s += n + (s[n] == ',');
    }
    return o->shown_count ? 0 : bad_column(o, "", 0);
}

void output_drop(output *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->cell_count; i++)
        free(o->cells[i].text);
    free(o->cells);
    free(o->shown);
    free(o);
}

int output_end(output *o, int code)
{
    if (o && code == 0)
        return output_close(o);
    output_drop(o);
    return code;
}

bool wants_record(cli *c)
{
    return value_find(c, "output")->origin == FROM_FLAG;
}

output *output_open(cli *c, const column *columns, size_t n, bool record,
                    int *code)
{
    output *o = grab(sizeof *o);
    o->columns = columns;
    o->count = n;
    o->record = record && (!c->watching || c->prelude);
    o->prelude = c->prelude;
    o->headed = c->headed;
    o->headers = !value_on(c, "no-headers");
    o->color = c->color_out;
    o->tty = isatty(STDOUT_FILENO) == 1;
    o->utc = value_on(c, "utc");
    const char *form = value_text(c, "output");
    snprintf(o->form, sizeof o->form, "%s",
             form     ? form
             : o->tty ? "table"
                      : "tsv");
    *code = choose_columns(o, value_text(c, "columns"));
    if (*code == 0)
        return o;
    output_drop(o);
    return NULL;
}

/* ---- cells ------------------------------------------------------------ */

static cell *add(output *o)
{
    if (o->cell_count == o->room) {
        o->room = o->room ? o->room * 2 : 32;
        o->cells = regrab(o->cells, o->room * sizeof *o->cells);
    }
    cell *x = &o->cells[o->cell_count++];
    memset(x, 0, sizeof *x);
    return x;
}

void output_bytes(output *o, leat_bytes b)
{
    cell *x = add(o);
    x->null = !b.p;
    x->text = b.p ? copy_n(b.p, b.n) : NULL;
    x->n = b.n;
}

void output_text(output *o, const char *s)
{
    output_bytes(o, leat_str(s));
}

void output_number(output *o, int64_t v)
{
    add(o)->number = v;
}

void output_real(output *o, double v)
{
    add(o)->real = v;
}

void output_bool(output *o, bool v)
{
    add(o)->number = v;
}

void output_null(output *o)
{
    add(o)->null = true;
}

/* ---- a cell as text --------------------------------------------------- */

/* 2026-01-31T12:34:56.789+01:00, or with Z. */
char *time_text(int64_t ms, bool utc)
{
    time_t t = (time_t)(ms / 1000);
    struct tm tm;
    if (utc ? !gmtime_r(&t, &tm) : !localtime_r(&t, &tm))
        return format("%lld", (long long)ms);
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (utc || tm.tm_gmtoff == 0)
        return format("%s.%03dZ", text, (int)(ms % 1000));
    long off = tm.tm_gmtoff / 60, abs = off < 0 ? -off : off;
    return format("%s.%03d%c%02ld:%02ld", text, (int)(ms % 1000),
                  off < 0 ? '-' : '+', abs / 60, abs % 60);
}

static char *thousands(int64_t v)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", (long long)v);
    char *out = grab((size_t)n * 2 + 1);
    size_t o = 0;
    for (int i = 0; i < n; i++) {
        out[o++] = digits[i];
        if (i < n - 1 && (n - 1 - i) % 3 == 0 && digits[i] != '-')
            out[o++] = ',';
    }
    return out;
}

char *humane_bytes(int64_t v)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    double x = (double)v;
    int u = -1;
    while (x >= 1024 && u < 3) {
        x /= 1024;
        u++;
    }
    return u < 0 ? format("%lld B", (long long)v)
                 : format("%.1f %s", x, units[u]);
}

/* "250ms", "4.5s", "13m 20s", "7d": two units at most. */
char *humane_time(int64_t ms)
{
    static const struct {
        int64_t ms;
        char unit;
    } units[] = {
        { 86400000, 'd' }, { 3600000, 'h' }, { 60000, 'm' }, { 1000, 's' }
    };
    const char *sign = ms < 0 ? "-" : "";
    int64_t v = ms < 0 ? -ms : ms;
    if (v < 1000)
        return format("%s%lldms", sign, (long long)v);
    if (v < 60000 && v % 1000 >= 100)
        return format("%s%lld.%llds", sign, (long long)(v / 1000),
                      (long long)(v % 1000 / 100));
    size_t i = 0;
    while (v < units[i].ms)
        i++;
    int64_t next = i < 3 ? v % units[i].ms / units[i + 1].ms : 0;
    return next ? format("%s%lld%c %lld%c", sign, (long long)(v / units[i].ms),
                         units[i].unit, (long long)next, units[i + 1].unit)
                : format("%s%lld%c", sign, (long long)(v / units[i].ms),
                         units[i].unit);
}

static char *list_text(const char *s)
{
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    if (!f)
        return copy("");
    for (; *s; s++)
        fputs(*s == '\n' ? "; " : (char[]){ *s, '\0' }, f);
    fclose(f);
    return out;
}

static char *cell_text(const output *o, const column *c, const cell *x,
                       bool humane)
{
    if (x->null)
        return copy(humane ? "-" : "");
    switch (c->kind) {
    case COLUMN_TEXT:
    case COLUMN_SENTENCE:
        return copy_n(x->text, x->n);
    case COLUMN_LIST:
    case COLUMN_LINES:
        return list_text(x->text);
    case COLUMN_COUNT:
        return humane ? thousands(x->number)
                      : format("%lld", (long long)x->number);
    case COLUMN_ID:
        return format("%lld", (long long)x->number);
    case COLUMN_BYTES:
        return humane ? humane_bytes(x->number)
                      : format("%lld", (long long)x->number);
    case COLUMN_MS:
        return humane ? humane_time(x->number)
                      : format("%lld", (long long)x->number);
    case COLUMN_SECONDS:
        if (humane)
            return humane_time((int64_t)(x->real * 1000));
        return format("%.3f", x->real);
    case COLUMN_REAL:
        return format("%.3f", x->real);
    case COLUMN_BOOL:
        if (humane)
            return copy(x->number ? "yes" : "no");
        return copy(x->number ? "true" : "false");
    case COLUMN_TIME:
        return time_text(x->number, o->utc);
    }
    return copy("");
}

static const cell *cell_at(const output *o, size_t row, size_t i)
{
    return &o->cells[row * o->count + o->shown[i]];
}

static const column *column_at(const output *o, size_t i)
{
    return &o->columns[o->shown[i]];
}

static size_t rows(const output *o)
{
    return o->cell_count / o->count;
}

/* ---- tsv and csv ------------------------------------------------------ */

static void put_tsv(const char *s, size_t n)
{
    for (const char *end = s + n; s < end; s++) {
        unsigned char b = (unsigned char)*s;
        if (b == '\t')
            fputs("\\t", stdout);
        else if (b == '\n')
            fputs("\\n", stdout);
        else if (b == '\r')
            fputs("\\r", stdout);
        else if (b == '\\')
            fputs("\\\\", stdout);
        else if (b < 0x20 || b == 0x7f)
            printf("\\x%02x", b);
        else
            putchar(b);
    }
}

static void put_csv(const char *s, size_t n)
{
    if (!s[strcspn(s, ",\"\r\n")] && strlen(s) == n) {
        fputs(s, stdout);
        return;
    }
    putchar('"');
    for (const char *end = s + n; s < end; s++) {
        if (*s == '"')
            putchar('"');
        putchar(*s);
    }
    putchar('"');
}

static void write_value(const output *o, size_t row, size_t i,
                        void (*put)(const char *, size_t))
{
    const column *c = column_at(o, i);
    const cell *x = cell_at(o, row, i);
    char *s = cell_text(o, c, x, false);
    size_t n = c->kind == COLUMN_TEXT && !x->null ? x->n : strlen(s);
    char *safe = o->tty ? printable(s, n) : NULL;
    put(safe ? safe : s, safe ? strlen(safe) : n);
    free(safe);
    free(s);
}

static void write_separated(output *o, char between,
                            void (*put)(const char *, size_t), const char *end)
{
    bool heading = o->headers && !o->headed;
    o->headed = true;
    for (size_t i = 0; heading && i < o->shown_count; i++) {
        if (i)
            putchar(between);
        put(column_at(o, i)->name, strlen(column_at(o, i)->name));
    }
    if (heading)
        fputs(end, stdout);
    for (size_t r = 0; r < rows(o); r++) {
        for (size_t i = 0; i < o->shown_count; i++) {
            if (i)
                putchar(between);
            write_value(o, r, i, put);
        }
        fputs(end, stdout);
    }
}

/* ---- json ------------------------------------------------------------- */

static void json_list(leat_json *j, const char *key, const char *s)
{
    leat_json_array(j, key);
    while (*s) {
        size_t n = strcspn(s, "\n");
        leat_json_text(j, NULL, leat_mem(s, n));
        s += n + (s[n] == '\n');
    }
    leat_json_end(j);
}

static bool is_shown(const output *o, const char *name)
{
    for (size_t i = 0; i < o->shown_count; i++)
        if (strcmp(column_at(o, i)->name, name) == 0)
            return true;
    return false;
}

/* What is not text is <name>_base64, as in what prints messages. */
static void json_bytes(const output *o, leat_json *j, const char *name,
                       leat_bytes b)
{
    char *other = format("%s_base64", name);
    if (is_utf8(b))
        leat_json_text(j, name, b);
    else if (!is_shown(o, other))
        leat_json_base64(j, other, b);
    free(other);
}

static void json_cell(const output *o, leat_json *j, const column *c,
                      const cell *x)
{
    char *time = NULL;
    if (x->null) {
        leat_json_null(j, c->name);
        return;
    }
    switch (c->kind) {
    case COLUMN_TEXT:
    case COLUMN_SENTENCE:
        json_bytes(o, j, c->name, leat_mem(x->text, x->n));
        break;
    case COLUMN_LIST:
    case COLUMN_LINES:
        json_list(j, c->name, x->text);
        break;
    case COLUMN_COUNT:
    case COLUMN_ID:
    case COLUMN_BYTES:
    case COLUMN_MS:
        leat_json_int(j, c->name, x->number);
        break;
    case COLUMN_SECONDS:
    case COLUMN_REAL: {
        char number[40];
        int n = snprintf(number, sizeof number, "%.3f", x->real);
        leat_json_raw(j, c->name, leat_mem(number, (size_t)n));
        break;
    }
    case COLUMN_BOOL:
        leat_json_bool(j, c->name, x->number != 0);
        break;
    case COLUMN_TIME:
        time = time_text(x->number, o->utc);
        leat_json_str(j, c->name, time);
        break;
    }
    free(time);
}

static int write_json(const output *o, bool lines)
{
    leat_error err = { 0 };
    leat_json *j = leat_json_new(&err);
    if (!j)
        return fail_with("json", &err, NULL);
    bool array = !lines && !o->record;
    if (array)
        leat_json_array(j, NULL);
    for (size_t r = 0; r < rows(o); r++) {
        leat_json_object(j, NULL);
        for (size_t i = 0; i < o->shown_count; i++)
            json_cell(o, j, column_at(o, i), cell_at(o, r, i));
        leat_json_end(j);
    }
    if (array)
        leat_json_end(j);
    size_t n = 0;
    const char *text = leat_json_done(j, &n, &err);
    int code = text ? 0 : fail_with("json", &err, NULL);
    if (text && n) {
        fwrite(text, 1, n, stdout);
        if (text[n - 1] != '\n')
            putchar('\n');
    }
    leat_json_free(j);
    return code;
}

/* ---- table ------------------------------------------------------------ */

static char *table_cell(const output *o, size_t row, size_t i)
{
    const cell *x = cell_at(o, row, i);
    char *s = cell_text(o, column_at(o, i), x, true);
    bool text = column_at(o, i)->kind == COLUMN_TEXT && !x->null;
    size_t n = text ? x->n : strlen(s);
    char *safe = (o->tty ? shown_text : printable)(s, n);
    free(s);
    return safe;
}

static bool is_number(const column *c)
{
    return c->kind == COLUMN_COUNT || c->kind == COLUMN_ID ||
           c->kind == COLUMN_BYTES || c->kind == COLUMN_REAL || is_time(c);
}

/* A time that has its unit behind it has none in its heading, unless another
 * column is called so; written to out. */
static const char *heading(const output *o, size_t i, char out[64])
{
    const column *c = column_at(o, i);
    snprintf(out, 64, "%s", c->name);
    char *unit = strrchr(out, '_');
    if (is_time(c) && unit) {
        *unit = '\0';
        if (find_column(o, out, strlen(out)) >= 0)
            *unit = '_';
    }
    return out;
}

static void pad(int n)
{
    for (int i = 0; i < n; i++)
        putchar(' ');
}

static const char *bold(const output *o)
{
    return o->color ? "\033[1m" : "";
}

static const char *plain(const output *o)
{
    return o->color ? "\033[0m" : "";
}

/* Behind what takes `indent` columns already. */
static void write_wrapped(const output *o, const char *s, int indent)
{
    char *text = NULL;
    size_t len = 0;
    FILE *m = o->tty && indent + columns_of(s) > term_width()
                  ? open_memstream(&text, &len)
                  : NULL;
    if (!m) {
        puts(s);
        return;
    }
    wrap(m, s, indent, term_width());
    fclose(m);
    fputs(text + indent, stdout);
    free(text);
}

/* The texts of a list stand below the record, a line each. */
static void write_list(const output *o, const char *s)
{
    while (*s) {
        size_t n = strcspn(s, "\n");
        char *line = printable(s, n);
        printf("%s!%s ", o->color ? "\033[33m" : "", plain(o));
        write_wrapped(o, line, 2);
        free(line);
        s += n + (s[n] == '\n');
    }
}

static void write_lines(const char *s, int indent)
{
    for (bool first = true; *s; first = false) {
        size_t n = strcspn(s, "\n");
        char *line = printable(s, n);
        pad(first ? 0 : indent);
        puts(line);
        free(line);
        s += n + (s[n] == '\n');
    }
}

/* A cell of a record, behind its heading. */
static void write_field(const output *o, size_t i, int indent)
{
    const cell *x = cell_at(o, 0, i);
    column_kind kind = column_at(o, i)->kind;
    char *s = table_cell(o, 0, i);
    if (kind == COLUMN_LINES && !x->null && *x->text)
        write_lines(x->text, indent);
    else if (kind == COLUMN_SENTENCE)
        write_wrapped(o, s, indent);
    else
        puts(s);
    free(s);
}

/* One line per column: "version  7.0.15". */
static void write_record(const output *o)
{
    int width = 0;
    char room[64];
    for (size_t i = 0; i < o->shown_count; i++)
        if (columns_of(heading(o, i, room)) > width)
            width = columns_of(room);
    for (size_t i = 0; rows(o) && i < o->shown_count; i++) {
        const char *name = heading(o, i, room);
        const cell *x = cell_at(o, 0, i);
        if (column_at(o, i)->kind == COLUMN_LIST) {
            write_list(o, x->null ? "" : x->text);
            continue;
        }
        if (o->headers) {
            printf("%s%s%s", bold(o), name, plain(o));
            pad(width - columns_of(name) + 2);
        }
        write_field(o, i, o->headers ? width + 2 : 0);
    }
}

static void put_cell(const output *o, size_t i, const char *s, int width,
                     bool heading)
{
    int room = width - columns_of(s);
    bool right = is_number(column_at(o, i));
    if (i)
        pad(2);
    if (right)
        pad(room);
    printf("%s%s%s", heading ? bold(o) : "", s, heading ? plain(o) : "");
    if (!right && i + 1 < o->shown_count)
        pad(room);
}

/* A screen that is redrawn does not scroll: below the title and the heading,
 * above the line that counts the rest. */
static size_t rows_that_fit(const output *o)
{
    int room = term_height() - 5;
    size_t fit = room > 1 ? (size_t)room : 1;
    return o->prelude && rows(o) > fit ? fit : rows(o);
}

static void write_table(const output *o)
{
    char room[64];
    int *width = grab(o->shown_count * sizeof *width);
    char **text = grab((rows(o) * o->shown_count + 1) * sizeof *text);
    for (size_t i = 0; i < o->shown_count; i++) {
        width[i] = o->headers ? columns_of(heading(o, i, room)) : 0;
        for (size_t r = 0; r < rows(o); r++) {
            char *s = text[r * o->shown_count + i] = table_cell(o, r, i);
            if (columns_of(s) > width[i])
                width[i] = columns_of(s);
        }
    }
    for (size_t i = 0; o->headers && i < o->shown_count; i++)
        put_cell(o, i, heading(o, i, room), width[i], true);
    if (o->headers)
        putchar('\n');
    size_t fit = rows_that_fit(o);
    for (size_t r = 0; r < rows(o); r++) {
        for (size_t i = 0; i < o->shown_count; i++) {
            if (r < fit)
                put_cell(o, i, text[r * o->shown_count + i], width[i], false);
            free(text[r * o->shown_count + i]);
        }
        if (r < fit)
            putchar('\n');
    }
    if (rows(o) == 0 && o->tty)
        puts("(none)");
    if (fit < rows(o))
        printf("... and %zu more\n", rows(o) - fit);
    free(text);
    free(width);
}

static int write_all(output *o)
{
    int code = 0;
    if (o->prelude)
        fputs(o->prelude, stdout);
    if (strcmp(o->form, "json") == 0)
        code = write_json(o, false);
    else if (strcmp(o->form, "ndjson") == 0)
        code = write_json(o, true);
    else if (strcmp(o->form, "csv") == 0)
        write_separated(o, ',', put_csv, "\r\n");
    else if (strcmp(o->form, "tsv") == 0)
        write_separated(o, '\t', put_tsv, "\n");
    else if (o->record)
        write_record(o);
    else
        write_table(o);
    return code;
}

int output_flush(output *o)
{
    int code = write_all(o);
    for (size_t i = 0; i < o->cell_count; i++)
        free(o->cells[i].text);
    o->cell_count = 0;
    return code;
}

int output_close(output *o)
{
    int code = write_all(o);
    output_drop(o);
    return code;
}
