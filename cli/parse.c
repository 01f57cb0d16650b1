/*
 * parse.c: words into a command, its options and arguments.
 *
 *   leat [OPTIONS] NOUN [VERB] [OPTIONS] [ARGS]
 *
 * Options may stand anywhere; those of a command after its name.  Nouns, verbs
 * and long options may be shortened as long as one thing is meant.  Errors are
 * kept until the end, so that --help beside a mistake still helps.
 *
 * Of a command that runs a program all words up to -- are ours, wherever they
 * stand, and all words behind it are the program's:
 *
 *   leat consume TOPIC -g GROUP --exec CMD --count 5 -- ARGS...
 *   leat consume TOPIC -g GROUP --count 5 -- CMD ARGS...
 *
 * A word behind --exec CMD that is no option could be meant for either, and is
 * refused.
 */
#include "cli.h"

#include <stdlib.h>

bool in_words(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = list; s && *s;) {
        size_t len = strcspn(s, " ");
        if (len == n && n && strncmp(s, word, n) == 0)
            return true;
        s += len + strspn(s + len, " ");
    }
    return false;
}

/* ---- nearness --------------------------------------------------------- */

#define LONGEST_WORD 32

/* Insertions, deletions, replacements and swaps of neighbours. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int d[LONGEST_WORD + 1][LONGEST_WORD + 1];
    if (n > LONGEST_WORD || m > LONGEST_WORD)
        return LONGEST_WORD;
    for (size_t i = 0; i <= n; i++)
        d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
                a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *nearest(const char *word, const char *const *list, size_t n)
{
    const char *best = NULL;
    int least = strlen(word) < 4 ? 2 : strlen(word) < 8 ? 3 : 4;
    for (size_t i = 0; i < n; i++) {
        int d = distance(word, list[i]);
        if (d < least && d < (int)strlen(list[i])) {
            least = d;
            best = list[i];
        }
    }
    return best;
}

/* ---- the state -------------------------------------------------------- */

typedef struct parser {
    cli *c;
    char **argv;
    int argc, at;
    bool options_over;
    char *error, *hint; /* the first mistake */
} parser;

static bool mistake(parser *p, char *hint_text, char *text)
{
    if (p->error) {
        free(text);
        free(hint_text);
        return false;
    }
    p->error = text;
    p->hint = hint_text;
    return false;
}

/* ---- nouns and verbs -------------------------------------------------- */

#define MAX_WORDS 64

typedef struct choice {
    const char *name;
    const command *command; /* NULL for a group */
    const group *group;
} choice;

static const char *last_word(const command *k)
{
    return k->verb ? k->verb : k->noun;
}

/* What can stand here: nouns at the top, the verbs of a group inside it. */
static size_t choices(const group *g, choice *out)
{
    size_t n = 0;
    for (const group *x = groups; !g && x->noun; x++)
        out[n++] = (choice){ x->noun, NULL, x };
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
        if (g ? k->verb && strcmp(k->noun, g->noun) == 0 : !k->verb)
            out[n++] = (choice){ last_word(k), k, NULL };
    return n;
}

static bool named(const choice *x, const char *word)
{
    const char *aliases = x->command ? x->command->aliases : x->group->aliases;
    return strcmp(x->name, word) == 0 || (aliases && in_words(aliases, word));
}

static const choice *pick(parser *p, const choice *list, size_t n,
                          const char *word, const char *kind)
{
    const choice *prefix = NULL;
    char *matches = copy("");
    size_t found = 0, len = strlen(word);
    const char *names[MAX_WORDS];
    size_t name_count = 0;

    for (size_t i = 0; i < n; i++) {
        bool hidden = list[i].command && list[i].command->hidden;
        if (named(&list[i], word)) {
            free(matches);
            return &list[i];
        }
        if (hidden)
            continue;
        names[name_count++] = list[i].name;
        if (len == 0 || strncmp(list[i].name, word, len) != 0)
            continue;
        char *more = format("%s%s%s", matches, found ? ", " : "", list[i].name);
        free(matches);
        matches = more;
        prefix = &list[i];
        found++;
    }
    if (found == 1) {
        free(matches);
        return prefix;
    }
    const char *near = found ? NULL : nearest(word, names, name_count);
    mistake(p,
            found  ? format("it could be %s", matches)
            : near ? format("did you mean '%s'?", near)
                   : copy("leat help lists what there is"),
            format("%s %s '%s'", found ? "ambiguous" : "unknown", kind, word));
    free(matches);
    return NULL;
}

void add_values(cli *c, const option *list)
{
    for (const option *o = list; o && o->name; o++)
        c->values[c->value_count++] = (value){ .option = o };
}

/* The program that --exec has named so far; NULL: none. */
static const char *program_named(const cli *c)
{
    for (int i = 0; i < c->value_count; i++)
        if (c->values[i].option->kind == VALUE_PROGRAM)
            return c->values[i].text;
    return NULL;
}

/* What to do about a word that stands behind --exec; malloced. */
static char *behind_dashes(const cli *c, const char *word)
{
    return format("what is the program's stands behind --: --exec %s -- %s",
                  program_named(c), word);
}

static bool take_word(parser *p, char *word)
{
    cli *c = p->c;
    if (c->command && !p->options_over && program_named(c))
        return mistake(p, behind_dashes(c, word),
                       format("'%s' stands behind --exec: is it the program's, "
                              "or leat's, which stands before it?",
                              word));
    if (c->command) {
        c->args[c->arg_count++] = word;
        return true;
    }
    choice list[MAX_WORDS];
    size_t n = choices(c->group, list);
    const choice *x = pick(p, list, n, word, c->group ? "verb" : "command");
    if (!x)
        return false;
    if (x->group) {
        c->group = x->group;
        return true;
    }
    c->command = x->command;
    add_values(c, c->command->options);
    return true;
}

/* ---- options ---------------------------------------------------------- */

static bool set_value(parser *p, value *v, const char *shown, char *text)
{
    char why[128];
    if (!value_check(v->option, text, why, sizeof why)) {
        bool url = strcmp(v->option->name, "url") == 0;
        char *masked = url ? url_mask(text) : copy(text);
        mistake(p, program_named(p->c) ? behind_dashes(p->c, shown) : NULL,
                format("%s: '%s' %s", shown, masked, why));
        free(masked);
        return false;
    }
    char *before = v->text;
    bool more = v->option->kind == VALUE_LIST && v->times > 0;
    v->text = more ? format("%s\n%s", before, text) : copy(text);
    free(before);
    v->times++;
    v->origin = FROM_FLAG;
    snprintf(v->where, sizeof v->where, "--%s", v->option->name);
    return true;
}

/* The words from here on are a program's. */
static void take_rest(parser *p)
{
    cli *c = p->c;
    c->rest = grab((size_t)(p->argc - p->at + 2) * sizeof *c->rest);
    c->rest++; /* room for the program of --exec */
    while (p->at < p->argc)
        c->rest[c->rest_count++] = p->argv[p->at++];
}

static bool needs_value(parser *p, value *v, const char *shown,
                        char *inline_text)
{
    if (!inline_text && p->at >= p->argc)
        return mistake(p, NULL,
                       format("%s needs a %s", shown, v->option->value));
    char *text = inline_text ? inline_text : p->argv[p->at++];
    return set_value(p, v, shown, text);
}

static bool apply(parser *p, value *v, const char *shown, char *inline_text)
{
    if (v->option->kind != VALUE_NONE)
        return needs_value(p, v, shown, inline_text);
    char yes[] = "yes";
    if (strcmp(v->option->name, "help") == 0)
        p->c->help = true;
    return set_value(p, v, shown, inline_text ? inline_text : yes);
}

static bool elsewhere(const char *name, const command **where)
{
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
        for (const option *o = k->options; o && o->name && !k->hidden; o++)
            if (strcmp(o->name, name) == 0) {
                *where = k;
                return true;
            }
    return false;
}

static bool unknown_option(parser *p, const char *name)
{
    const char *names[MAX_VALUES];
    size_t n = 0;
    const command *other = NULL;
    for (int i = 0; i < p->c->value_count; i++)
        if (!p->c->values[i].option->no_flag)
            names[n++] = p->c->values[i].option->name;
    const char *near = nearest(name, names, n);
    char *todo;
    if (strncmp(name, "password", 8) == 0)
        todo = copy("arguments can be seen by everybody: use LEAT_PASSWORD, "
                    "LEAT_PASSWORD_FILE or --password-file");
    else if (program_named(p->c)) {
        char *word = format("--%s", name);
        todo = behind_dashes(p->c, word);
        free(word);
    } else if (near)
        todo = format("did you mean --%s?", near);
    else if (elsewhere(name, &other))
        todo = format("--%s belongs to 'leat %s%s%s', after the command's "
                      "name",
                      name, other->noun, other->verb ? " " : "",
                      other->verb ? other->verb : "");
    else
        todo = copy("--help lists the options");
    return mistake(p, todo, format("unknown option '--%s'", name));
}

static bool take_long(parser *p, char *word)
{
    char *text = strchr(word, '=');
    size_t n = text ? (size_t)(text - word) : strlen(word);
    value *found = NULL;
    int matches = 0;
    for (int i = 0; i < p->c->value_count; i++) {
        value *v = &p->c->values[i];
        if (v->option->no_flag || strncmp(v->option->name, word, n) != 0 ||
            n == 0)
            continue;
        bool exact = strlen(v->option->name) == n;
        found = v;
        matches = exact ? 1 : matches + 1;
        if (exact)
            break;
    }
    char *name = copy_n(word, n), *shown = format("--%s", name);
    bool good = matches == 1 && strcmp(name, "password") != 0
                    ? apply(p, found, shown, text ? text + 1 : NULL)
                : matches > 1 ? mistake(p, copy("--help lists the options"),
                                        format("ambiguous option '--%s'", name))
                              : unknown_option(p, name);
    free(shown);
    free(name);
    return good;
}

/* -qv, -ojson, -o json. */
static bool take_short(parser *p, char *letters)
{
    for (char *s = letters; *s; s++) {
        value *v = NULL;
        for (int i = 0; i < p->c->value_count && !v; i++)
            if (p->c->values[i].option->letter == *s)
                v = &p->c->values[i];
        if (!v && *s >= '0' && *s <= '9')
            return mistake(p,
                           copy("what begins with - and is no option stands "
                                "behind --"),
                           format("unknown option '-%s'", s));
        if (!v && program_named(p->c))
            return mistake(p, behind_dashes(p->c, letters - 1),
                           format("unknown option '-%.1s'", s));
        if (!v)
            return mistake(p, copy("--help lists the options"),
                           format("unknown option '-%.1s'", s));
        char shown[] = { '-', *s, '\0' };
        if (v->option->kind != VALUE_NONE)
            return apply(p, v, shown, s[1] ? s + 1 : NULL);
        if (!apply(p, v, shown, NULL))
            return false;
    }
    return true;
}

static bool take(parser *p)
{
    char *word = p->argv[p->at++];
    if (p->options_over || word[0] != '-' || word[1] == '\0')
        return take_word(p, word);
    if (strcmp(word, "--") == 0) {
        p->c->dashes = true;
        if (p->c->command && p->c->command->rest)
            take_rest(p);
        return p->options_over = true;
    }
    return word[1] == '-' ? take_long(p, word + 2) : take_short(p, word + 1);
}

/* ---- the whole -------------------------------------------------------- */

static bool check_args(parser *p)
{
    const command *k = p->c->command;
    int n = p->c->arg_count;
    if (!k || (n >= k->min_args && n <= k->max_args))
        return true;
    char *usage = format("leat %s%s%s %s", k->noun, k->verb ? " " : "",
                         k->verb ? k->verb : "", k->args);
    if (n < k->min_args)
        mistake(p, format("usage: %s", usage), copy("an argument is missing"));
    else
        mistake(p, format("usage: %s", usage),
                format("unexpected argument '%s'", p->c->args[k->max_args]));
    free(usage);
    return false;
}

/* Who wrote -- meant to name a program. */
static bool check_program(parser *p)
{
    const cli *c = p->c;
    if (!c->command || !c->command->rest || !c->dashes || c->rest_count ||
        program_named(c))
        return true;
    return mistake(p, copy("write the program and its arguments behind --"),
                   copy("there is no program behind --"));
}

int parse_words(cli *c, int argc, char **argv)
{
    parser p = { .c = c, .argv = argv, .argc = argc, .at = 1 };
    c->args = grab((size_t)argc * sizeof *c->args + sizeof *c->args);
    add_values(c, global_options);
    while (p.at < argc) {
        bool words_only = c->command && c->command->hidden;
        if (words_only) /* our own verbs take every word as it is */
            c->args[c->arg_count++] = argv[p.at++];
        else
            take(&p);
    }
    (void)check_args(&p);
    (void)check_program(&p);
    int code = 0;
    if (p.error && !c->help)
        code = fail(EXIT_USAGE, p.hint, "%s", p.error);
    free(p.error);
    free(p.hint);
    return code;
}
