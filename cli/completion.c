/*
 * completion.c: what can be typed next.
 *
 * The scripts of the shells are thin: they hand the words to `leat __complete`
 * and get candidates, one a line, a tab and a description behind each:
 *
 *   leat __complete context us     ->  use<TAB>use a context from now on
 *
 * The last word is the one being typed.  A line ":files" or ":dirs" asks the
 * shell for names of files.  It never connects to a server.
 */
#include "cli.h"

#include <stdlib.h>

static const char bash_script[] =
    "# bash completion for leat; source it, or put it into\n"
    "# ~/.local/share/bash-completion/completions/leat\n"
    "_leat()\n"
    "{\n"
    "    local line cur=${COMP_WORDS[COMP_CWORD]}\n"
    "    [[ $cur == '=' ]] && cur=''\n"
    "    COMPREPLY=()\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY \\\n"
    "            < <(compgen -f -- \"$cur\"); compopt -o filenames "
    "2>/dev/null ;;\n"
    "        :dirs) mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY \\\n"
    "            < <(compgen -d -- \"$cur\"); compopt -o filenames "
    "2>/dev/null ;;\n"
    "        *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" __complete "
    "\"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _leat leat\n";

static const char zsh_script[] =
    "#compdef leat\n"
    "# zsh completion for leat; put it as _leat into a directory of $fpath,\n"
    "# or source it after compinit\n"
    "_leat() {\n"
    "    local line\n"
    "    local -a found\n"
    "    while IFS= read -r line; do\n"
    "        case $line in\n"
    "        :files) _files ;;\n"
    "        :dirs) _files -/ ;;\n"
    "        *) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done < <($words[1] __complete \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)\n"
    "    (( $#found )) && _describe leat found\n"
    "}\n"
    "if [[ $funcstack[1] == _leat ]]; then _leat \"$@\"; else compdef _leat "
    "leat; fi\n";

static const char fish_script[] =
    "# fish completion for leat; put it into\n"
    "# ~/.config/fish/completions/leat.fish\n"
    "function __leat_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)\n"
    "        switch $line\n"
    "            case :files\n"
    "                __fish_complete_path (commandline -ct)\n"
    "            case :dirs\n"
    "                __fish_complete_directories (commandline -ct)\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c leat -f -a '(__leat_complete)'\n";

int run_completion(cli *c)
{
    const char *shell = c->args[0];
    const char *script = strcmp(shell, "bash") == 0   ? bash_script
                         : strcmp(shell, "zsh") == 0  ? zsh_script
                         : strcmp(shell, "fish") == 0 ? fish_script
                                                      : NULL;
    if (!script)
        return fail(EXIT_USAGE, "shells are bash, zsh and fish",
                    "no completion for '%s'", shell);
    fputs(script, stdout);
    return 0;
}

/* ---- candidates ------------------------------------------------------- */

typedef struct typing {
    cli *c;
    const group *group;
    const command *command;
    const option *pending; /* its value comes next */
    bool options_over;
    const char *word;
    const char *front; /* printed before a value: "--output=" */
} typing;

static void offer(const typing *t, const char *word, size_t n, const char *what)
{
    if (strlen(t->word) <= n && strncmp(word, t->word, strlen(t->word)) == 0)
        printf("%s%.*s\t%s\n", t->front ? t->front : "", (int)n, word, what);
}

static void offer_words(const typing *t, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        offer(t, list, n, "");
        list += n + strspn(list + n, " ");
    }
}

static void offer_context(void *arg, const char *name, const toml *file)
{
    (void)file;
    offer(arg, name, strlen(name), "context");
}

/* A broken file offers nothing; its error is for the command to tell. */
static void offer_contexts(typing *t)
{
    int code;
    if (t->c->config || config_load(t->c, &code))
        context_each(t->c->config, offer_context, t);
}

static void offer_value(typing *t, const option *o)
{
    switch (o->kind) {
    case VALUE_CHOICE:
        offer_words(t, o->choices);
        break;
    case VALUE_CONTEXT:
        offer_contexts(t);
        break;
    case VALUE_FILE:
        puts(":files");
        break;
    case VALUE_DIR:
        puts(":dirs");
        break;
    case VALUE_TEXT:
        if (strcmp(o->name, "url") == 0)
            offer_words(t, "redis:// unix:/// embedded: embedded:///");
        break;
    default:
        break;
    }
}

static void offer_options(const typing *t, const option *list)
{
    for (const option *o = list; o && o->name; o++) {
        if (o->no_flag)
            continue;
        char *word = format("--%s", o->name);
        offer(t, word, strlen(word), o->help);
        free(word);
    }
}

static void offer_nouns(const typing *t)
{
    for (const command *k = commands; k->noun; k++)
        if (!k->verb && !k->hidden)
            offer(t, k->noun, strlen(k->noun), k->summary);
    for (const group *g = groups; g->noun; g++)
        offer(t, g->noun, strlen(g->noun), g->summary);
}

static void offer_verbs(const typing *t)
{
    for (const command *k = command_next(t->group->noun, NULL); k;
         k = command_next(t->group->noun, k))
        offer(t, k->verb, strlen(k->verb), k->summary);
}

static void offer_args(typing *t)
{
    const char *words = t->command->arg_words;
    if (!words)
        return;
    if (strcmp(words, "@context") == 0)
        offer_contexts(t);
    else if (strcmp(words, "@command") == 0)
        offer_nouns(t);
    else
        offer_words(t, words);
}

/* ---- the words before ------------------------------------------------- */

static const option *find_in(const option *list, const char *name, size_t n)
{
    for (const option *o = list; o && o->name; o++)
        if (!o->no_flag && strlen(o->name) == n &&
            strncmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

static const option *find_long(const typing *t, const char *name, size_t n)
{
    const option *o = find_in(global_options, name, n);
    return o || !t->command ? o : find_in(t->command->options, name, n);
}

static const option *letter_in(const option *list, char letter)
{
    for (const option *o = list; o && o->name; o++)
        if (o->letter && o->letter == letter)
            return o;
    return NULL;
}

static const option *find_option(const typing *t, const char *word)
{
    if (word[1] == '-')
        return find_long(t, word + 2, strlen(word + 2));
    const option *o = letter_in(global_options, word[strlen(word) - 1]);
    if (!o && t->command)
        o = letter_in(t->command->options, word[strlen(word) - 1]);
    return o;
}

static void pass_word(typing *t, const char *word)
{
    if (t->command)
        return;
    if (!t->group && (t->group = group_find(word)))
        return;
    for (const command *k = commands; k->noun; k++) {
        bool mine = t->group ? k->verb && strcmp(k->noun, t->group->noun) == 0
                             : !k->verb;
        const char *name = k->verb ? k->verb : k->noun;
        if (mine && (strcmp(name, word) == 0 ||
                     (k->aliases && in_words(k->aliases, word))))
            t->command = k;
    }
    for (const group *g = groups; !t->command && !t->group && g->noun; g++)
        if (in_words(g->aliases, word))
            t->group = g;
}

static void pass(typing *t, const char *word)
{
    if (t->pending) {
        /* bash splits --output=json in three. */
        if (strcmp(word, "=") != 0)
            t->pending = NULL;
    } else if (!t->options_over && strcmp(word, "--") == 0) {
        t->options_over = true;
    } else if (!t->options_over && word[0] == '-' && word[1]) {
        const option *o = strchr(word, '=') ? NULL : find_option(t, word);
        t->pending = o && o->kind != VALUE_NONE ? o : NULL;
    } else {
        pass_word(t, word);
    }
}

/* --output=js in one word, as zsh and fish give it. */
static bool offer_joined(typing *t)
{
    const char *equal = strchr(t->word, '=');
    if (strncmp(t->word, "--", 2) != 0 || !equal)
        return false;
    const option *o = find_long(t, t->word + 2, (size_t)(equal - t->word) - 2);
    char *front = copy_n(t->word, (size_t)(equal - t->word) + 1);
    t->front = front;
    t->word = equal + 1;
    if (o && o->kind != VALUE_NONE)
        offer_value(t, o);
    free(front);
    return true;
}

int run_complete(cli *c)
{
    typing t = { .c = c, .word = "" };
    for (int i = 0; i + 1 < c->arg_count; i++)
        pass(&t, c->args[i]);
    if (c->arg_count)
        t.word = c->args[c->arg_count - 1];
    if (t.pending && strcmp(t.word, "=") == 0)
        t.word = "";
    if (t.pending)
        offer_value(&t, t.pending);
    else if (!t.options_over && t.word[0] == '-') {
        if (!offer_joined(&t)) {
            offer_options(&t, t.command ? t.command->options : NULL);
            offer_options(&t, global_options);
        }
    } else if (t.command)
        offer_args(&t);
    else if (t.group)
        offer_verbs(&t);
    else
        offer_nouns(&t);
    return 0;
}
