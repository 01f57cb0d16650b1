/*
 * settings.c: where each value comes from.
 *
 *   flag  >  context named by --context  >  environment  >  context in force
 *         >  the user's file  >  the system's files  >  default
 *
 * A context is chosen by --context, LEAT_CONTEXT or `context = "..."` in a
 * file.  One named on the command line beats LEAT_URL: a flag is a flag.
 *
 * Credentials and options of TLS from a file are used only with a URL from a
 * file: what is kept for one server must not travel to another that --url
 * named.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading values --------------------------------------------------- */

bool bool_parse(const char *text, bool *on)
{
    static const char yes[] = "1 true yes on", no[] = "0 false no off";
    if (in_words(yes, text))
        return *on = true;
    *on = false;
    return *text == '\0' || in_words(no, text);
}

bool duration_parse(const char *text, int64_t *ms)
{
    static const struct {
        const char *unit;
        double ms;
    } units[] = { { "", 1000 },  { "ms", 1 },     { "s", 1000 },
                  { "m", 60e3 }, { "h", 3600e3 }, { "d", 86400e3 } };
    if (*text < '0' || *text > '9')
        return false;
    char *end = NULL;
    double v = strtod(text, &end);
    if (strspn(text, "0123456789.") != (size_t)(end - text))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        if (v * units[i].ms > 3650 * 86400e3)
            return false;
        *ms = (int64_t)(v * units[i].ms + 0.5);
        return true;
    }
    return false;
}

static bool number_parse(const char *text, int64_t least, int64_t *v)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *v = strtoll(text, &end, 10);
    return !*end && !errno && *v >= least && *v <= 1000000000;
}

bool value_check(const option *o, const char *text, char *why, size_t room)
{
    int64_t number;
    bool on;
    switch (o->kind) {
    case VALUE_NONE:
        snprintf(why, room, "is on or off: yes or no");
        return bool_parse(text, &on);
    case VALUE_COUNT:
        snprintf(why, room, "is not a number from 1 to 1000000000");
        return number_parse(text, 1, &number);
    case VALUE_NUMBER:
        snprintf(why, room, "is not a number from 0 to 1000000000");
        return number_parse(text, 0, &number);
    case VALUE_DURATION:
        snprintf(why, room, "is not a duration such as 500ms, 5s or 2m");
        return duration_parse(text, &number);
    case VALUE_CHOICE:
        snprintf(why, room, "is none of: %s", o->choices);
        return in_words(o->choices, text);
    default:
        snprintf(why, room, "is empty");
        return *text != '\0';
    }
}

value *value_find(cli *c, const char *name)
{
    for (int i = 0; i < c->value_count; i++)
        if (strcmp(c->values[i].option->name, name) == 0)
            return &c->values[i];
    return NULL;
}

static value *must_find(cli *c, const char *name)
{
    value *v = value_find(c, name);
    if (!v) {
        fail(EXIT_BUG, "please report this", "no option '%s' in the table",
             name);
        _exit(EXIT_BUG);
    }
    return v;
}

const char *value_text(cli *c, const char *name)
{
    return must_find(c, name)->text;
}

bool value_on(cli *c, const char *name)
{
    bool on = false;
    const char *s = value_text(c, name);
    return s && bool_parse(s, &on) && on;
}

int64_t value_count(cli *c, const char *name)
{
    int64_t v = 0;
    const char *s = value_text(c, name);
    return s && number_parse(s, 0, &v) ? v : 0;
}

int64_t value_ms(cli *c, const char *name)
{
    int64_t v = 0;
    const char *s = value_text(c, name);
    return s && duration_parse(s, &v) ? v : 0;
}

/* ---- filling in ------------------------------------------------------- */

static void fill(value *v, const char *text, origin from, const char *where)
{
    free(v->text);
    v->text = copy(text);
    v->times = 1;
    v->origin = from;
    snprintf(v->where, sizeof v->where, "%s", where);
}

static int from_env(value *v)
{
    char name[64], why[128];
    const char *text = option_env(v->option, name, sizeof name) ? getenv(name)
                                                                : NULL;
    if (!text || !*text)
        return 0;
    if (v->text && v->origin > FROM_ENV)
        return 0;
    if (!value_check(v->option, text, why, sizeof why))
        return fail(EXIT_CONFIG, NULL, "%s: '%s' %s", name,
                    v->option->no_flag ? "***" : text, why);
    fill(v, text, FROM_ENV, name);
    return 0;
}

/* Settings are written with _ in files and - on the command line. */
static void file_key(const option *o, char *out, size_t room)
{
    snprintf(out, room, "%s", o->name);
    for (char *s = out; *s; s++)
        if (*s == '-')
            *s = '_';
}

static int from_table(cli *c, const toml *file, const char *table, origin from)
{
    for (int i = 0; i < c->value_count; i++) {
        value *v = &c->values[i];
        char key[64], why[128], where[160];
        file_key(v->option, key, sizeof key);
        const toml_item *x = toml_get(file, table, key);
        if (!x || !v->option->setting || (v->text && v->origin >= from))
            continue;
        snprintf(where, sizeof where, "%s:%d", file->path, x->line);
        if (!value_check(v->option, x->text, why, sizeof why))
            return fail(EXIT_CONFIG, NULL, "%s: %s: '%s' %s", where, key,
                        v->option->no_flag ? "***" : x->text, why);
        fill(v, x->text, from, where);
    }
    return 0;
}

static int from_context(cli *c)
{
    const config *f = c->config;
    char *table = format("context.%s", f->context);
    origin from = f->context_origin == FROM_FLAG ? FROM_CHOSEN_CONTEXT
                                                 : FROM_CONTEXT;
    int code = EXIT_NO;
    for (size_t i = 0; i < f->count && code == EXIT_NO; i++)
        if (toml_has_table(&f->files[i], table))
            code = from_table(c, &f->files[i], table, from);
    free(table);
    return code;
}

static int unknown_context(const config *f)
{
    return fail(f->context_origin == FROM_FLAG ? EXIT_USAGE : EXIT_CONFIG,
                "leat context ls lists them", "no context '%s'", f->context);
}

/* Commands that repair the contexts must run while one is wrong. */
static bool mends_contexts(const cli *c)
{
    return c->command && strcmp(c->command->noun, "context") == 0;
}

static int fill_all(cli *c)
{
    int code = 0;
    for (int i = 0; i < c->value_count && code == 0; i++)
        code = from_env(&c->values[i]);
    const config *f = c->config;
    if (code == 0 && f->context) {
        code = from_context(c);
        if (code == EXIT_NO)
            code = mends_contexts(c) ? 0 : unknown_context(f);
    }
    for (size_t i = 0; i < f->count && code == 0; i++)
        code = from_table(c, &f->files[i], "",
                          i == 0 && f->has_user_file ? FROM_USER_FILE
                                                     : FROM_SYSTEM_FILE);
    for (int i = 0; i < c->value_count && code == 0; i++) {
        value *v = &c->values[i];
        if (!v->text && v->option->initial)
            fill(v, v->option->initial, FROM_DEFAULT, "default");
    }
    return code;
}

/* Hide every password that is known before anything can quote it. */
static void hide_passwords(cli *c)
{
    if (value_text(c, "url"))
        secret_add_url(value_text(c, "url"));
    const char *password = value_text(c, "password");
    if (password)
        secret_add(password, strlen(password));
}

bool settings_load(cli *c, int *code)
{
    const char *password = getenv("LEAT_PASSWORD");
    if (password)
        secret_add(password, strlen(password));
    if (getenv("LEAT_URL"))
        secret_add_url(getenv("LEAT_URL"));

    if (!config_load(c, code))
        return false;
    *code = fill_all(c);
    if (*code == 0)
        hide_passwords(c);
    return *code == 0;
}

void settings_free(cli *c)
{
    for (int i = 0; i < c->value_count; i++) {
        if (c->values[i].text)
            explicit_bzero(c->values[i].text, strlen(c->values[i].text));
        free(c->values[i].text);
    }
    for (char **w = c->words; w && *w; w++) {
        explicit_bzero(*w, strlen(*w));
        free(*w);
    }
    free(c->words);
    free(c->args);
    free(c->rest ? c->rest - 1 : NULL);
    if (c->config)
        config_free(c->config);
    free(c->config);
}

/* ---- credentials ------------------------------------------------------ */

static char *read_secret(const char *path, bool ours, int *code)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        *code = fail(EXIT_CONFIG, NULL, "%s: %m", path);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    size_t n = 0;
    char *text = NULL;
    if (!ours && (st.st_mode & 077)) {
        char *todo = format("chmod 600 %s", path);
        *code = fail(EXIT_CONFIG, todo, "%s: a password that others can read",
                     path);
        free(todo);
    } else if (!(text = slurp(fd, 4096, &n))) {
        *code = fail(EXIT_CONFIG, NULL, "%s: %m", path);
    }
    close(fd);
    if (!text)
        return NULL;
    text[strcspn(text, "\r\n")] = '\0';
    secret_add(text, strlen(text));
    return text;
}

static bool usable(const value *secret, const value *url)
{
    return secret->text &&
           (secret->origin >= FROM_ENV || url->origin < FROM_ENV ||
            secret->origin == url->origin);
}

/* systemd hands secrets to a service as files of this directory. */
static char *from_systemd(int *code)
{
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir || dir[0] != '/')
        return NULL;
    char *path = format("%s/leat.password", dir);
    char *text = access(path, R_OK) == 0 ? read_secret(path, true, code) : NULL;
    free(path);
    return text;
}

bool login_get(cli *c, login *out, int *code)
{
    value *url = must_find(c, "url"), *user = must_find(c, "user");
    value *password = must_find(c, "password");
    value *file = must_find(c, "password-file");
    *out = (login){ .user = usable(user, url) ? user->text : NULL };
    *code = 0;

    bool by_file = usable(file, url), by_text = usable(password, url);
    if (by_file && by_text)
        by_file = file->origin > password->origin;
    const value *best = by_file ? file : password;
    bool own = url_has_login(url->text); /* the URL brings its own */
    if ((by_file || by_text) && own && url->origin >= best->origin)
        return true;
    if (by_file)
        out->password = read_secret(file->text, false, code);
    else if (by_text)
        out->password = copy(password->text);
    else if (!own)
        out->password = from_systemd(code);
    return *code == 0;
}

void login_free(login *l)
{
    if (l->password)
        explicit_bzero(l->password, strlen(l->password));
    free(l->password);
}

static const char *tls_text(cli *c, const char *name)
{
    value *v = must_find(c, name);
    return usable(v, must_find(c, "url")) ? v->text : NULL;
}

leat_tls_opts tls_get(cli *c)
{
    if (!url_is_tls(value_text(c, "url")))
        return (leat_tls_opts){ 0 };
    return (leat_tls_opts){ .ca_file = tls_text(c, "cafile"),
                            .ca_dir = tls_text(c, "cadir"),
                            .cert = tls_text(c, "cert"),
                            .key = tls_text(c, "cert-key"),
                            .insecure = tls_text(c, "insecure") &&
                                        value_on(c, "insecure") };
}

/* ---- config show ------------------------------------------------------ */

static const char *const origin_names[] = {
    [FROM_DEFAULT] = "default",     [FROM_SYSTEM_FILE] = "system file",
    [FROM_USER_FILE] = "user file", [FROM_CONTEXT] = "context",
    [FROM_ENV] = "environment",     [FROM_CHOSEN_CONTEXT] = "context",
    [FROM_FLAG] = "flag",
};

static void show_value(output *out, const value *v)
{
    char key[64];
    file_key(v->option, key, sizeof key);
    output_text(out, key);
    bool url = strcmp(v->option->name, "url") == 0;
    char *masked = v->text && url ? url_mask(v->text) : NULL;
    output_text(out, masked                          ? masked
                     : v->text && v->option->no_flag ? "***"
                                                     : v->text);
    output_text(out, v->text ? origin_names[v->origin] : NULL);
    output_text(out, v->text ? v->where : NULL);
    free(masked);
}

int settings_show(cli *c, bool origins)
{
    const column columns[] = { { "key", COLUMN_TEXT, false },
                               { "value", COLUMN_TEXT, false },
                               { "origin", COLUMN_TEXT, !origins },
                               { "where", COLUMN_TEXT, !origins } };
    int code;
    output *out = output_open(c, columns, 4, false, &code);
    if (!out)
        return code;
    for (int i = 0; i < c->value_count; i++)
        if (c->values[i].option->setting)
            show_value(out, &c->values[i]);
    return output_close(out);
}
