/*
 * printer.c: messages on stdout, of topics and of queues.
 *
 *   lines     by --format; on a terminal, and with --format, --raw or -o table
 *   rows      tsv (the default in a pipe) and csv, through output.c
 *   objects   json and ndjson: data is the body where it is text, data_base64
 *             otherwise; an entry that is no message has error and fields
 *
 * Each message is flushed before the next, since it may be acknowledged once it
 * is printed.
 */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum shape { LINES, ROWS, OBJECTS } shape;

enum { MAX_COLUMNS = 16 };

struct printer {
    shape shape;
    print_kind what;
    const char *format;
    bool plain;  /* the format is ours: more may be said on a line */
    bool escape; /* what a terminal could take for a command       */
    bool utc, array;
    bool headed, color; /* lines get a heading */
    output *rows;
    leat_json *json;
    uint64_t count;
    column columns[MAX_COLUMNS];
};

static const column topic_columns[] = {
    { "partition", COLUMN_ID, false }, { "position", COLUMN_TEXT, false },
    { "key", COLUMN_TEXT, false },     { "body", COLUMN_TEXT, false },
    { "error", COLUMN_TEXT, false },   { "topic", COLUMN_TEXT, true },
    { "time", COLUMN_TIME, true },     { "id", COLUMN_TEXT, true },
    { "type", COLUMN_TEXT, true },     { "headers", COLUMN_TEXT, true },
};

static const column stream_columns[] = {
    { "position", COLUMN_TEXT, false }, { "key", COLUMN_TEXT, false },
    { "body", COLUMN_TEXT, false },     { "error", COLUMN_TEXT, false },
    { "stream", COLUMN_TEXT, true },    { "time", COLUMN_TIME, true },
    { "id", COLUMN_TEXT, true },        { "type", COLUMN_TEXT, true },
    { "headers", COLUMN_TEXT, true },
};

static const column received_columns[] = {
    { "receipt", COLUMN_TEXT, false }, { "receives", COLUMN_COUNT, false },
    { "sent", COLUMN_TIME, false },    { "body", COLUMN_TEXT, false },
    { "error", COLUMN_TEXT, false },   { "id", COLUMN_TEXT, true },
    { "queue", COLUMN_TEXT, true },    { "group", COLUMN_TEXT, true },
    { "key", COLUMN_TEXT, true },      { "type", COLUMN_TEXT, true },
    { "time", COLUMN_TIME, true },     { "reason", COLUMN_TEXT, true },
    { "headers", COLUMN_TEXT, true },
};

/* The same without a receipt. */
static const column seen_columns[] = {
    { "id", COLUMN_TEXT, false },    { "receives", COLUMN_COUNT, false },
    { "sent", COLUMN_TIME, false },  { "body", COLUMN_TEXT, false },
    { "error", COLUMN_TEXT, false }, { "queue", COLUMN_TEXT, true },
    { "group", COLUMN_TEXT, true },  { "key", COLUMN_TEXT, true },
    { "type", COLUMN_TEXT, true },   { "time", COLUMN_TIME, true },
    { "reason", COLUMN_TEXT, true }, { "headers", COLUMN_TEXT, true },
};

static const struct {
    const column *columns;
    size_t count;
    const char *line;    /* the format on a terminal */
    const char *heading; /* of that                  */
    const char *items;   /* of a format              */
} kinds[] = {
    [PRINT_TOPIC] = { topic_columns,
                      sizeof topic_columns / sizeof *topic_columns,
                      "%p %i %k %v\\n", "partition position key body",
                      "tpiIkydhnv%" },
    [PRINT_STREAM] = { stream_columns,
                       sizeof stream_columns / sizeof *stream_columns,
                       "%i %k %v\\n", "position key body", "tiIkydhnv%" },
    [PRINT_RECEIVED] = { received_columns,
                         sizeof received_columns / sizeof *received_columns,
                         "%r\\n  %v\\n", "receipt\n  body", "qrcgseIkydhnv%" },
    [PRINT_SEEN] = { seen_columns, sizeof seen_columns / sizeof *seen_columns,
                     "%I %c %v\\n", "id receives body", "qcgseIkydhnv%" },
};

/* ---- lines ------------------------------------------------------------ */

static void put_bytes(const printer *p, leat_bytes b)
{
    if (b.n == 0)
        return;
    if (!p->escape) {
        fwrite(b.p, 1, b.n, stdout);
        return;
    }
    char *s = shown_text(b.p, b.n);
    fputs(s, stdout);
    free(s);
}

/* "name:value name:value". */
static void put_headers(const printer *p, const leat_msg *m, char between)
{
    for (size_t i = 0; i < m->header_count; i++) {
        if (i)
            putchar(' ');
        put_bytes(p, m->headers[i].name);
        putchar(between);
        put_bytes(p, m->headers[i].value);
    }
}

static void put_time(const printer *p, int64_t ms)
{
    char *time = ms ? time_text(ms, p->utc) : copy("");
    fputs(time, stdout);
    free(time);
}

static void put_item(const printer *p, char item, const sighting *m)
{
    char text[POSITION_TEXT], *receipt;
    switch (item) {
    case 'q':
        put_bytes(p, m->queue);
        break;
    case 'r':
        receipt = receipt_text(m->receipt);
        fputs(receipt, stdout);
        free(receipt);
        break;
    case 'c':
        printf("%u", m->receives);
        break;
    case 'g':
        put_bytes(p, m->group);
        break;
    case 'e':
        put_bytes(p, m->reason);
        break;
    case 's':
        put_time(p, m->sent_ms);
        break;
    case 't':
        put_bytes(p, leat_str(m->topic));
        break;
    case 'p':
        printf("%lld", (long long)m->partition);
        break;
    case 'i':
        fputs(position_text(m->position, text), stdout);
        break;
    case 'I':
        put_bytes(p, m->msg->id);
        break;
    case 'k':
        put_bytes(p, m->msg->key);
        break;
    case 'y':
        put_bytes(p, m->msg->type);
        break;
    case 'd':
        put_time(p, m->msg->time_ms);
        break;
    case 'h':
        put_headers(p, m->msg, ':');
        break;
    case 'n':
        printf("%zu", m->msg->body.n);
        break;
    case 'v':
        put_bytes(p, m->msg->body);
        break;
    default:
        putchar(item);
    }
}

static char escaped(char c)
{
    static const char from[] = "ntr0\\", to[] = "\n\t\r\0\\";
    const char *at = c ? strchr(from, c) : NULL;
    return at ? to[at - from] : c;
}

static void put_line(const printer *p, const sighting *m)
{
    for (const char *s = p->format; *s; s++) {
        if (*s == '%' && s[1])
            put_item(p, *++s, m);
        else if (*s == '\\' && s[1])
            putchar(escaped(*++s));
        else
            putchar(*s);
    }
    if (p->plain && m->reason.n) {
        fputs("  reason: ", stdout);
        put_bytes(p, m->reason);
        putchar('\n');
    }
}

/* Malloced. */
static char *where_text(const printer *p, const sighting *m)
{
    char text[POSITION_TEXT];
    if (p->what == PRINT_RECEIVED)
        return receipt_text(m->receipt);
    if (p->what == PRINT_SEEN)
        return printable(m->msg->id.p ? m->msg->id.p : "", m->msg->id.n);
    position_text(m->position, text);
    if (p->what == PRINT_STREAM)
        return copy(text);
    return format(p->plain ? "%lld %s" : "partition %lld: %s",
                  (long long)m->partition, text);
}

/* A line of our own shows it; a form that somebody asked for is not broken. */
static void put_bad_line(const printer *p, const sighting *m)
{
    char *where = where_text(p, m);
    if (!p->plain) {
        note("%s is no message: %s", where, m->error->msg);
        free(where);
        return;
    }
    printf("%s (no message: ", where);
    free(where);
    put_bytes(p, leat_str(m->error->msg));
    fputs(") ", stdout);
    put_headers(p, m->msg, '=');
    putchar('\n');
}

static bool format_ok(const char *format, const char *items)
{
    for (const char *s = format; *s; s++)
        if (*s == '%' && (!s[1] || !strchr(items, *++s)))
            return false;
    return true;
}

/* "%t %p ..."; malloced. */
static char *items_text(const char *items)
{
    char *text = grab(strlen(items) * 3 + 1);
    for (size_t i = 0; items[i]; i++)
        snprintf(text + strlen(text), 4, "%s%%%c", i ? " " : "", items[i]);
    return text;
}

static int bad_format(const char *form, const char *items)
{
    char *list = items_text(items);
    int code = fail(EXIT_USAGE, list,
                    "--format: '%s' has an item that is none of these", form);
    free(list);
    return code;
}

/* ---- rows ------------------------------------------------------------- */

static char *headers_text(const leat_msg *m, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f)
        return NULL;
    for (size_t i = 0; i < m->header_count; i++) {
        const leat_header *h = &m->headers[i];
        if (i)
            fputc('\n', f);
        if (h->name.n)
            fwrite(h->name.p, 1, h->name.n, f);
        fputc(':', f);
        if (h->value.n)
            fwrite(h->value.p, 1, h->value.n, f);
    }
    fclose(f);
    return text;
}

static void bytes_or_null(output *o, leat_bytes b)
{
    if (b.n)
        output_bytes(o, b);
    else
        output_null(o);
}

static void put_received(printer *p, const sighting *m)
{
    if (p->what == PRINT_RECEIVED) {
        char *receipt = receipt_text(m->receipt);
        output_text(p->rows, receipt);
        free(receipt);
    } else {
        bytes_or_null(p->rows, m->msg->id);
    }
    output_number(p->rows, m->receives);
    output_number(p->rows, m->sent_ms);
    bytes_or_null(p->rows, m->msg->body);
    output_text(p->rows, m->error ? m->error->msg : NULL);
    if (p->what == PRINT_RECEIVED)
        bytes_or_null(p->rows, m->msg->id);
    bytes_or_null(p->rows, m->queue);
    bytes_or_null(p->rows, m->group);
    bytes_or_null(p->rows, m->msg->key);
    bytes_or_null(p->rows, m->msg->type);
    output_count(p->rows, m->msg->time_ms ? m->msg->time_ms : -1);
    bytes_or_null(p->rows, m->reason);
}

static void put_read(printer *p, const sighting *m)
{
    if (p->what == PRINT_TOPIC)
        output_count(p->rows, m->partition);
    output_position(p->rows, m->position);
    bytes_or_null(p->rows, m->msg->key);
    bytes_or_null(p->rows, m->msg->body);
    output_text(p->rows, m->error ? m->error->msg : NULL);
    output_text(p->rows, m->topic);
    output_count(p->rows, m->msg->time_ms ? m->msg->time_ms : -1);
    bytes_or_null(p->rows, m->msg->id);
    bytes_or_null(p->rows, m->msg->type);
}

/* Of a topic or a stream: it has a position. */
static bool is_read(const printer *p)
{
    return p->what == PRINT_TOPIC || p->what == PRINT_STREAM;
}

static int put_row(printer *p, const sighting *m)
{
    size_t n = 0;
    char *headers = headers_text(m->msg, &n);
    (is_read(p) ? put_read : put_received)(p, m);
    bytes_or_null(p->rows, leat_mem(headers, n));
    free(headers);
    return output_flush(p->rows);
}

/* ---- objects ---------------------------------------------------------- */

/* name: text, or name_base64 where it is not text; null where it is empty. */
static void json_bytes(leat_json *j, const char *name, leat_bytes b)
{
    char *other = format("%s_base64", name);
    if (b.n == 0)
        leat_json_null(j, name);
    else if (is_utf8(b))
        leat_json_text(j, name, b);
    else
        leat_json_base64(j, other, b);
    free(other);
}

static void json_some(leat_json *j, const char *name, leat_bytes b)
{
    if (b.n)
        json_bytes(j, name, b);
}

/* Names may repeat and their order is kept, so it is a list. */
static void json_pairs(leat_json *j, const char *name, const leat_msg *m)
{
    leat_json_array(j, name);
    for (size_t i = 0; i < m->header_count; i++) {
        leat_json_object(j, NULL);
        json_bytes(j, "name", m->headers[i].name);
        json_bytes(j, "value", m->headers[i].value);
        leat_json_end(j);
    }
    leat_json_end(j);
}

static void json_message(printer *p, const leat_msg *m)
{
    leat_json *j = p->json;
    json_bytes(j, "id", m->id);
    json_bytes(j, "key", m->key);
    json_bytes(j, "type", m->type);
    json_some(j, "source", m->source);
    json_some(j, "subject", m->subject);
    json_some(j, "content_type", m->content_type);
    char *time = m->time_ms ? time_text(m->time_ms, p->utc) : NULL;
    if (time)
        leat_json_str(j, "time", time);
    else
        leat_json_null(j, "time");
    free(time);
    json_pairs(j, "headers", m);
    if (m->body.n == 0)
        leat_json_str(j, "data", "");
    else
        json_bytes(j, "data", m->body);
}

static void json_place(const printer *p, const sighting *m)
{
    char text[POSITION_TEXT];
    leat_json *j = p->json;
    json_bytes(j, p->what == PRINT_STREAM ? "stream" : "topic",
               leat_str(m->topic));
    if (m->partition >= 0)
        leat_json_int(j, "partition", m->partition);
    leat_json_str(j, "position", position_text(m->position, text));
}

static void json_receive(const printer *p, const sighting *m)
{
    leat_json *j = p->json;
    char *time = time_text(m->sent_ms, p->utc);
    leat_json_text(j, "queue", m->queue);
    if (p->what == PRINT_RECEIVED) {
        char *receipt = receipt_text(m->receipt);
        leat_json_str(j, "receipt", receipt);
        free(receipt);
    }
    leat_json_int(j, "receives", m->receives);
    leat_json_str(j, "sent", time);
    json_some(j, "group", m->group);
    json_some(j, "reason", m->reason);
    free(time);
}

static int put_object(printer *p, const sighting *m)
{
    leat_error err = { 0 };
    leat_json *j = p->json;
    leat_json_clear(j);
    leat_json_object(j, NULL);
    if (is_read(p))
        json_place(p, m);
    else
        json_receive(p, m);
    if (m->error) {
        leat_json_str(j, "error", m->error->msg);
        json_pairs(j, "fields", m->msg);
    } else {
        json_message(p, m->msg);
    }
    leat_json_end(j);
    size_t n = 0;
    const char *line = leat_json_done(j, &n, &err);
    if (!line)
        return fail_with("json", &err, NULL);
    if (p->array)
        fputs(p->count ? ",\n" : "[", stdout);
    fwrite(line, 1, n, stdout);
    if (!p->array)
        putchar('\n');
    return 0;
}

/* ---- the whole -------------------------------------------------------- */

static shape shape_of(const char *form, bool lines)
{
    if (form && strstr(form, "json"))
        return OBJECTS;
    return lines || (form && strcmp(form, "table") == 0) ? LINES : ROWS;
}

/* Of dead letters the reason is always shown. */
static const column *shown_columns(cli *c, printer *p)
{
    bool dead = value_find(c, "dead") && value_on(c, "dead");
    for (size_t i = 0; i < kinds[p->what].count; i++) {
        p->columns[i] = kinds[p->what].columns[i];
        if (dead && strcmp(p->columns[i].name, "reason") == 0)
            p->columns[i].extra = false;
    }
    return p->columns;
}

printer *printer_open(cli *c, print_kind what, int *code)
{
    const char *form = value_text(c, "output");
    const char *format = value_text(c, "format");
    bool raw = value_on(c, "raw"), tty = isatty(STDOUT_FILENO) == 1;
    *code = 0;
    if (format && !format_ok(format, kinds[what].items)) {
        *code = bad_format(format, kinds[what].items);
        return NULL;
    }
    if (format && form && strcmp(form, "table") != 0) {
        *code = fail(EXIT_USAGE, NULL,
                     "--format and --output %s do not go "
                     "together",
                     form);
        return NULL;
    }
    printer *p = grab(sizeof *p);
    p->what = what;
    p->shape = shape_of(form, format || raw || (tty && !form));
    p->format = format ? format : raw ? "%v\\n" : kinds[what].line;
    p->plain = !format && !raw;
    p->escape = !raw && tty;
    p->headed = p->plain && p->shape == LINES && !value_on(c, "no-headers");
    p->color = c->color_out;
    p->utc = value_on(c, "utc");
    p->array = form && strcmp(form, "json") == 0;
    leat_error err = { 0 };
    if (p->shape == ROWS)
        p->rows = output_open(c, shown_columns(c, p), kinds[what].count, false,
                              code);
    else if (p->shape == OBJECTS && !(p->json = leat_json_new(&err)))
        *code = fail_with("json", &err, NULL);
    if (*code == 0)
        return p;
    free(p);
    return NULL;
}

/* Say nothing of a reader that went away: main knows that exit code. */
static int arrived(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return errno == EPIPE ? EXIT_SIGNAL + SIGPIPE : EXIT_IO;
}

static void put_heading(const printer *p)
{
    printf("%s%s%s\n", p->color ? "\033[1m" : "", kinds[p->what].heading,
           p->color ? "\033[0m" : "");
}

int printer_put(printer *p, const sighting *m)
{
    int code = 0;
    if (p->headed && p->count == 0)
        put_heading(p);
    if (p->shape == OBJECTS)
        code = put_object(p, m);
    else if (p->shape == ROWS)
        code = put_row(p, m);
    else if (m->error)
        put_bad_line(p, m);
    else
        put_line(p, m);
    p->count++;
    return code ? code : arrived();
}

int printer_close(printer *p, bool good)
{
    int code = 0;
    if (p->array && (good || p->count))
        puts(p->count ? "]" : "[]");
    if (p->rows && p->count == 0 && good)
        code = output_flush(p->rows); /* the heading */
    if (p->rows)
        output_drop(p->rows);
    leat_json_free(p->json);
    free(p);
    return code;
}
