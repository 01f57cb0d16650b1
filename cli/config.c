/*
 * config.c: which configuration files there are, and the contexts in them.
 *
 *   --config FILE                       alone, if given
 *   $XDG_CONFIG_HOME/leat/config.toml   the user's; ~/.config without it
 *   $XDG_CONFIG_DIRS/leat/config.toml   the system's; /etc/xdg without it
 *
 * A file that is not there is no error; one that cannot be read, or that has a
 * key nobody knows, is: a mistyped `pasword_file` must not pass in silence.
 */
#include "cli.h"

#include <stdlib.h>
#include <unistd.h>

bool context_name_ok(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t n = strlen(name);
    return n > 0 && n <= 64 && strspn(name, good) == n;
}

static const char *context_of(const char *table)
{
    return strncmp(table, "context.", 8) == 0 ? table + 8 : NULL;
}

bool context_exists(const config *f, const char *name)
{
    char *table = format("context.%s", name);
    bool found = false;
    for (size_t i = 0; i < f->count; i++)
        found = found || toml_has_table(&f->files[i], table);
    free(table);
    return found;
}

/* Each context once, as the first file that has it says. */
void context_each(const config *f,
                  void (*fn)(void *arg, const char *name, const toml *file),
                  void *arg)
{
    for (size_t i = 0; i < f->count; i++) {
        const toml *t = &f->files[i];
        for (size_t k = 0; k < t->count; k++) {
            const char *name = context_of(t->items[k].table);
            if (!name || t->items[k].key)
                continue;
            bool seen = false;
            for (size_t b = 0; b < i; b++)
                seen = seen || toml_has_table(&f->files[b], t->items[k].table);
            if (!seen)
                fn(arg, name, t);
        }
    }
}

/* ---- checks ----------------------------------------------------------- */

static size_t setting_keys(const char **keys, char (*room)[64])
{
    size_t n = 0;
    for (const option *o = global_options; o->name; o++) {
        if (!o->setting)
            continue;
        snprintf(room[n], sizeof room[n], "%s", o->name);
        for (char *s = room[n]; *s; s++)
            if (*s == '-')
                *s = '_';
        keys[n] = room[n];
        n++;
    }
    return n;
}

static int unknown_key(const toml *t, const toml_item *x,
                       const char *const *keys, size_t n)
{
    const char *near = nearest(x->key, keys, n);
    char *todo = near ? format("did you mean '%s'?", near)
                      : copy("leat.toml(5) lists the keys");
    int code = fail(EXIT_CONFIG, todo, "%s:%d: unknown key '%s'", t->path,
                    x->line, x->key);
    free(todo);
    return code;
}

static int check_keys(const toml *t)
{
    const char *keys[MAX_VALUES];
    char room[MAX_VALUES][64];
    size_t n = setting_keys(keys, room);
    for (size_t i = 0; i < t->count; i++) {
        const toml_item *x = &t->items[i];
        const char *name = context_of(x->table);
        if (*x->table && !(name && context_name_ok(name)))
            return fail(EXIT_CONFIG, "tables are [context.NAME]",
                        "%s:%d: unknown table [%s]", t->path, x->line,
                        x->table);
        bool known = !x->key;
        for (size_t k = 0; x->key && k < n && !known; k++)
            known = strcmp(keys[k], x->key) == 0;
        if (!known)
            return unknown_key(t, x, keys, n);
        if (x->key && name && strcmp(x->key, "context") == 0)
            return fail(EXIT_CONFIG, NULL,
                        "%s:%d: a context cannot name another", t->path,
                        x->line);
    }
    return 0;
}

/* ---- files ------------------------------------------------------------ */

static bool add_file(config *f, const char *path, bool user, int *code)
{
    if (f->count == MAX_CONFIG_FILES)
        return true;
    toml *t = &f->files[f->count];
    int got = toml_read(t, path, code);
    if (got == 1 && (*code = check_keys(t)) != 0)
        got = -1;
    if (got == 1) {
        f->count++;
        f->has_user_file = f->has_user_file || user;
        return true;
    }
    toml_free(t);
    return got == 0;
}

static bool add_system_files(config *f, int *code)
{
    const char *dirs = getenv("XDG_CONFIG_DIRS");
    if (!dirs || !*dirs)
        dirs = "/etc/xdg";
    bool good = true;
    while (*dirs && good) {
        size_t n = strcspn(dirs, ":");
        char *path = format("%.*s/leat/config.toml", (int)n, dirs);
        good = path[0] != '/' || add_file(f, path, false, code);
        free(path);
        dirs += n + (dirs[n] == ':');
    }
    return good;
}

static bool load_files(cli *c, config *f, int *code)
{
    value *v = value_find(c, "config");
    const char *given = v->text ? v->text : getenv("LEAT_CONFIG");
    if (given && *given) {
        f->user_path = copy(given);
        if (access(given, F_OK) != 0 && c->command->run != run_context_add) {
            *code = fail(EXIT_CONFIG, NULL, "%s: %m", given);
            return false;
        }
        return add_file(f, given, true, code);
    }
    f->user_path = home_path("XDG_CONFIG_HOME", ".config", "leat/config.toml");
    if (f->user_path && !add_file(f, f->user_path, true, code))
        return false;
    return add_system_files(f, code);
}

static void choose_context(cli *c, config *f)
{
    const value *v = value_find(c, "context");
    const char *env = getenv("LEAT_CONTEXT");
    if (v->text) {
        f->context = copy(v->text);
        f->context_origin = v->origin;
        return;
    }
    if (env && *env) {
        f->context = copy(env);
        f->context_origin = FROM_ENV;
        return;
    }
    for (size_t i = 0; i < f->count && !f->context; i++) {
        const toml_item *x = toml_get(&f->files[i], "", "context");
        if (x)
            f->context = copy(x->text);
        f->context_origin = FROM_USER_FILE;
    }
}

bool config_load(cli *c, int *code)
{
    c->config = grab(sizeof *c->config);
    if (!load_files(c, c->config, code))
        return false;
    choose_context(c, c->config);
    return true;
}

void config_free(config *f)
{
    for (size_t i = 0; i < f->count; i++)
        toml_free(&f->files[i]);
    free(f->user_path);
    free(f->context);
}
