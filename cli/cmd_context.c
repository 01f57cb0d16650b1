/*
 * cmd_context.c: leat context: named servers in the configuration file.
 *
 * Only the user's own file is written, by editing its lines (toml.c).  Two that
 * edit at once do not mix; the later one wins.
 */
#include "cli.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- ls and show ------------------------------------------------------ */

static const char *get(const toml *file, const char *name, const char *key)
{
    char *table = format("context.%s", name);
    const toml_item *x = toml_get(file, table, key);
    free(table);
    return x ? x->text : NULL;
}

/* In the file and, with - for _, on the command line. */
static const char *const tls_keys[] = { "cafile", "cadir", "cert", "cert_key",
                                        "insecure" };
enum { TLS_KEYS = sizeof tls_keys / sizeof tls_keys[0] };

typedef struct listing {
    cli *c;
    output *out;
    const char *only; /* NULL: all */
} listing;

static void list_one(void *arg, const char *name, const toml *file)
{
    listing *l = arg;
    const char *now = l->c->config->context, *url = get(file, name, "url");
    if (l->only && strcmp(l->only, name) != 0)
        return;
    char *shown = url ? url_mask(url) : NULL;
    output_text(l->out, name);
    output_bool(l->out, now && strcmp(now, name) == 0);
    output_text(l->out, shown);
    output_text(l->out, get(file, name, "user"));
    output_text(l->out, get(file, name, "password") ? "***" : NULL);
    output_text(l->out, get(file, name, "password_file"));
    for (size_t i = 0; i < TLS_KEYS; i++)
        output_text(l->out, get(file, name, tls_keys[i]));
    output_text(l->out, file->path);
    free(shown);
}

static int list(cli *c, const char *only)
{
    const column columns[] = {
        { "name", COLUMN_TEXT, false },
        { "current", COLUMN_BOOL, false },
        { "url", COLUMN_TEXT, false },
        { "user", COLUMN_TEXT, !only },
        { "password", COLUMN_TEXT, !only },
        { "password_file", COLUMN_TEXT, !only },
        { "cafile", COLUMN_TEXT, !only },
        { "cadir", COLUMN_TEXT, !only },
        { "cert", COLUMN_TEXT, !only },
        { "cert_key", COLUMN_TEXT, !only },
        { "insecure", COLUMN_TEXT, !only },
        { "file", COLUMN_TEXT, !only },
    };
    int code;
    listing l = { .c = c, .only = only };
    l.out = output_open(c, columns, sizeof columns / sizeof *columns,
                        only != NULL, &code);
    if (!l.out)
        return code;
    context_each(c->config, list_one, &l);
    return output_close(l.out);
}

int run_context_ls(cli *c)
{
    return list(c, NULL);
}

/* ---- writing ---------------------------------------------------------- */

static int no_such(cli *c, const char *name)
{
    (void)c;
    return fail(EXIT_NO, "leat context ls lists them", "no context '%s'", name);
}

int run_context_show(cli *c)
{
    const char *name = c->arg_count ? c->args[0] : c->config->context;
    if (!name)
        return fail(EXIT_NO, "leat context use NAME chooses one",
                    "no context is in force");
    return context_exists(c->config, name) ? list(c, name) : no_such(c, name);
}

/* The user's file as it is now; an empty one where there is none. */
static const toml *user_file(cli *c, int *code)
{
    static const toml none = { 0 };
    *code = 0;
    if (!c->config->user_path) {
        *code = fail(EXIT_CONFIG, "set HOME or give --config",
                     "no home directory for a configuration file");
        return NULL;
    }
    return c->config->has_user_file ? &c->config->files[0] : &none;
}

/* A file being edited: each step parses what the one before wrote. */
typedef struct edit {
    toml now;
    bool bad;
} edit;

static void edit_begin(edit *e, const toml *from)
{
    *e = (edit){ 0 };
    e->now.source = copy(from->source ? from->source : "");
    char why[128];
    int line;
    e->bad = !toml_parse(&e->now, why, sizeof why, &line);
}

static void edit_take(edit *e, char *text)
{
    toml next = { .source = text };
    char why[128];
    int line;
    e->bad = e->bad || !toml_parse(&next, why, sizeof why, &line);
    toml_free(&e->now);
    e->now = next;
}

static void edit_set(edit *e, const char *table, const char *key,
                     const char *text)
{
    if (text)
        edit_take(e, toml_set(&e->now, table, key, text));
}

static int edit_end(edit *e, const char *path)
{
    int code = 0;
    if (e->bad)
        code = fail(EXIT_BUG, "please report this; the file was not changed",
                    "%s: the edited file would not be readable", path);
    else
        toml_write(path, e->now.source, &code);
    toml_free(&e->now);
    return code;
}

/* ---- add -------------------------------------------------------------- */

static char *url_from_stdin(void)
{
    size_t n = 0;
    char *text = slurp(STDIN_FILENO, 8192, &n);
    if (!text)
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    secret_add_url(text);
    return text;
}

static char *url_given(cli *c)
{
    const char *arg = c->args[1];
    if (strcmp(arg, "-") == 0)
        return url_from_stdin();
    if (url_has_secret(arg))
        hint("others can see a password among the arguments; '-' reads the "
             "URL from stdin");
    return copy(arg);
}

static int check_url(const char *url)
{
    static const char *const schemes[] = {
        "redis://",         "rediss://",          "unix://",
        "redis+unix://",    "redis+socket://",    "redis+sentinel://",
        "redis+cluster://", "rediss+sentinel://", "rediss+cluster://",
        "embedded:",
    };
    for (size_t i = 0; url && i < sizeof schemes / sizeof *schemes; i++)
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return 0;
    char *shown = url ? url_mask(url) : copy("");
    int code = fail(EXIT_USAGE,
                    "redis://host:6379, unix:///path or "
                    "embedded:///dir; see leat-urls(7)",
                    "'%s' is not a URL that leat knows", shown);
    free(shown);
    return code;
}

static const char *from_flag(cli *c, const char *name)
{
    const value *v = value_find(c, name);
    return v->origin == FROM_FLAG ? v->text : NULL;
}

static int write_context(cli *c, const toml *file, const char *name,
                         const char *url)
{
    edit e;
    char *table = format("context.%s", name);
    edit_begin(&e, file);
    if (toml_has_table(file, table))
        edit_take(&e, toml_remove_table(&e.now, table));
    edit_set(&e, table, "url", url);
    edit_set(&e, table, "user", from_flag(c, "user"));
    edit_set(&e, table, "password_file", from_flag(c, "password-file"));
    for (size_t i = 0; i < TLS_KEYS; i++) {
        const char *key = tls_keys[i];
        bool two = strcmp(key, "cert_key") == 0;
        edit_set(&e, table, key, from_flag(c, two ? "cert-key" : key));
    }
    if (value_on(c, "use"))
        edit_set(&e, "", "context", name);
    free(table);
    return edit_end(&e, c->config->user_path);
}

int run_context_add(cli *c)
{
    const char *name = c->args[0];
    int code;
    const toml *file = user_file(c, &code);
    if (!file)
        return code;
    if (!context_name_ok(name))
        return fail(EXIT_USAGE, "letters, digits, - and _, at most 64",
                    "'%s' cannot be the name of a context", name);
    char *table = format("context.%s", name);
    bool there = toml_has_table(file, table);
    free(table);
    if (there && !value_on(c, "replace"))
        return fail(EXIT_NO, "--replace replaces it",
                    "there is a context '%s' already", name);
    char *url = url_given(c);
    code = check_url(url);
    if (code == 0)
        code = write_context(c, file, name, url);
    if (code == 0)
        note("context %s %s", name, there ? "replaced" : "added");
    free(url);
    return code;
}

/* ---- use and rm ------------------------------------------------------- */

int run_context_use(cli *c)
{
    const char *name = c->args[0];
    int code;
    const toml *file = user_file(c, &code);
    if (!file)
        return code;
    if (!context_exists(c->config, name))
        return no_such(c, name);
    edit e;
    edit_begin(&e, file);
    edit_set(&e, "", "context", name);
    code = edit_end(&e, c->config->user_path);
    if (code == 0)
        note("using context %s", name);
    if (code == 0 && getenv("LEAT_CONTEXT"))
        hint("LEAT_CONTEXT is set and comes first");
    return code;
}

bool confirmed(cli *c, const char *what, int *code)
{
    *code = 0;
    if (value_on(c, "yes"))
        return true;
    if (isatty(STDIN_FILENO) != 1) {
        *code = fail(EXIT_USAGE, "--yes does not ask", "%s: not confirmed",
                     what);
        return false;
    }
    /* Nothing has begun: a signal ends us at once, also one that comes just
     * before we wait. */
    sig_atomic_t asks = signals_ask;
    signals_ask = 0;
    char line[16] = "";
    fprintf(stderr, "%s? [y/N] ", what);
    bool yes = !stop_signal && fgets(line, sizeof line, stdin) &&
               (line[0] == 'y' || line[0] == 'Y');
    signals_ask = asks;
    *code = yes ? 0 : stop_signal ? EXIT_SIGNAL + stop_signal : EXIT_NO;
    return yes;
}

int run_context_rm(cli *c)
{
    const char *name = c->args[0];
    int code;
    const toml *file = user_file(c, &code);
    if (!file)
        return code;
    char *table = format("context.%s", name);
    char *what = format("remove context %s", name);
    if (!toml_has_table(file, table)) {
        code = no_such(c, name);
    } else if (confirmed(c, what, &code)) {
        edit e;
        edit_begin(&e, file);
        const toml_item *now = toml_get(file, "", "context");
        edit_take(&e, toml_remove_table(&e.now, table));
        if (now && strcmp(now->text, name) == 0)
            edit_take(&e, toml_remove_key(&e.now, "", "context"));
        code = edit_end(&e, c->config->user_path);
        if (code == 0)
            note("context %s removed", name);
    }
    free(what);
    free(table);
    return code;
}
