/*
 * completion.c: what can be typed next.
 *
 * The scripts of the shells are thin: they hand the words to `leat __complete`
 * and get candidates, one a line, a tab and a description behind each:
 *
 *   leat __complete context us     ->  use<TAB>use a context from now on
 *
 * The last word is the one being typed.  A line ":files" or ":dirs" asks the
 * shell for names of files.
 *
 * Names of topics, groups and queues are the server's, if it tells them within
 * BUDGET_MS; it is the one that the words, the environment and the
 * configuration name.  A private server is not started for that.
 */
#include "cli.h"

#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { BUDGET_MS = 200, MAX_ARGS = 2, SOME = 20 };

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
    bool rest; /* a program's words */
    const char *args[MAX_ARGS];
    size_t arg_count;
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

/* ---- names that the server knows -------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
    _exit(EXIT_DONE);
}

/* Nothing is printed before all is known, so the end may come anywhere. */
static void set_alarm(void)
{
    struct sigaction a = { .sa_handler = on_alarm };
    struct itimerval t = { .it_value = { .tv_usec = BUDGET_MS * 1000 } };
    sigemptyset(&a.sa_mask);
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &t, NULL);
}

static bool sleeping(const char *url)
{
    if (!url_is_embedded(url))
        return false;
    char *dir = embedded_dir(url);
    long holder = dir ? holder_pid(dir) : 0;
    free(dir);
    return holder == 0;
}

/* Errors go to stderr, which the shells' scripts throw away. */
static leat_client *connect_quickly(cli *c)
{
    int code;
    set_alarm();
    if (!settings_load(c, &code) || sleeping(value_text(c, "url")))
        return NULL;
    return client_open(c, value_text(c, "url"), "leat-complete", &code);
}

/* Others made these names, and a line of ours is one candidate. */
static bool shell_can_take(const char *name)
{
    for (const char *s = name; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            return false;
    return true;
}

static void offer_live(typing *t, const char *topic, const char *what)
{
    leat_client *client = connect_quickly(t->c);
    leat_names *n = !client ? NULL
                    : topic ? leat_group_names(client, topic, NULL, NULL)
                            : leat_topic_names(client, NULL, NULL);
    for (size_t i = 0; n && i < n->count; i++)
        offer(t, n->name[i], strlen(n->name[i]), what);
    leat_names_free(n);
    leat_client_close(client);
}

static void offer_streams(typing *t)
{
    leat_client *client = connect_quickly(t->c);
    leat_names *n = client ? leat_stream_names(client, NULL, NULL) : NULL;
    for (size_t i = 0; n && i < n->count; i++)
        if (shell_can_take(n->name[i]))
            offer(t, n->name[i], strlen(n->name[i]), "stream");
    leat_names_free(n);
    leat_client_close(client);
}

/* The server's groups of the stream that was named. */
static void offer_stream_groups(typing *t)
{
    leat_client *client = connect_quickly(t->c);
    leat_stream_info *s = client
                              ? leat_stream_describe(client, t->args[0], NULL)
                              : NULL;
    for (size_t i = 0; s && i < s->groups; i++)
        if (shell_can_take(s->group[i].name.p))
            offer(t, s->group[i].name.p, s->group[i].name.n, "group");
    leat_stream_info_free(s);
    leat_client_close(client);
}

static void offer_queue(void *arg, const char *name)
{
    offer(arg, name, strlen(name), "queue");
}

static void offer_queues(typing *t)
{
    leat_client *client = connect_quickly(t->c);
    value *v = value_find(t->c, "namespace");
    if (client)
        (void)leat_queue_list(client, v ? v->text : NULL, offer_queue, t, NULL);
    leat_client_close(client);
}

/* The newest dead letters of the topic, and why they are. */
static void offer_dead(typing *t)
{
    leat_client *client = connect_quickly(t->c);
    leat_dlq *d = client ? leat_dlq_open(client, t->args[0], NULL, NULL) : NULL;
    leat_dlq_walk_opts o = { .newest_first = true };
    leat_dlq_walk *w = d ? leat_dlq_walk_open(d, &o, NULL) : NULL;
    leat_dead x;
    for (int i = 0; w && i < SOME && leat_dlq_walk_next(w, &x, NULL) == 1;
         i++) {
        char *error = printable(x.error.p ? x.error.p : "", x.error.n);
        offer(t, x.id, strlen(x.id), error);
        free(error);
    }
    leat_dlq_walk_close(w);
    leat_dlq_close(d);
    leat_client_close(client);
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
    case VALUE_GROUP:
        if (t->arg_count && in_words("stream", t->command->noun))
            offer_stream_groups(t);
        else if (t->arg_count)
            offer_live(t, t->args[0], "group");
        break;
    case VALUE_QUEUE:
        offer_queues(t);
        break;
    case VALUE_FILE:
    case VALUE_PROGRAM:
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
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k))
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

/* "@topic @group": one for each argument. */
static void offer_arg(typing *t, const char *words)
{
    for (size_t i = 0; i < t->arg_count && *words; i++) {
        words += strcspn(words, " ");
        words += strspn(words, " ");
    }
    if (strncmp(words, "@topic", 6) == 0)
        offer_live(t, NULL, "topic");
    else if (strncmp(words, "@group", 6) == 0)
        offer_live(t, t->args[0], "group");
    else if (strncmp(words, "@dead", 5) == 0)
        offer_dead(t);
}

static void offer_args(typing *t)
{
    const char *words = t->command->arg_words;
    if (!words)
        return;
    if (strncmp(words, "@topic", 6) == 0)
        offer_arg(t, words);
    else if (strcmp(words, "@queue") == 0 && t->arg_count == 0)
        offer_queues(t);
    else if (strcmp(words, "@stream") == 0 && t->arg_count == 0)
        offer_streams(t);
    else if (strcmp(words, "@context") == 0)
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
    if (t->command) {
        if (t->arg_count < MAX_ARGS)
            t->args[t->arg_count++] = word;
        return;
    }
    if (!t->group && (t->group = group_find(word)))
        return;
    for (const command *k = command_next(NULL, NULL); k;
         k = command_next(NULL, k)) {
        bool mine = t->group ? k->verb && strcmp(k->noun, t->group->noun) == 0
                             : !k->verb;
        const char *name = k->verb ? k->verb : k->noun;
        if (mine && (strcmp(name, word) == 0 ||
                     (k->aliases && in_words(k->aliases, word))))
            t->command = k;
    }
    if (t->command)
        add_values(t->c, t->command->options); /* see keep */
    for (const group *g = groups; !t->command && !t->group && g->noun; g++)
        if (in_words(g->aliases, word))
            t->group = g;
}

/* Which server to ask is said by options before. */
static void keep(typing *t, const option *o, const char *text)
{
    value *v = value_find(t->c, o->name);
    t->pending = NULL;
    if (!v || v->option != o)
        return;
    free(v->text);
    v->text = copy(text);
    v->origin = FROM_FLAG;
}

static void pass_option(typing *t, const char *word)
{
    const char *equal = word[1] == '-' ? strchr(word, '=') : NULL;
    const option *o = equal ? find_long(t, word + 2, (size_t)(equal - word) - 2)
                            : find_option(t, word);
    if (o && equal)
        keep(t, o, equal + 1);
    else
        t->pending = o && o->kind != VALUE_NONE ? o : NULL;
}

static void pass(typing *t, const char *word)
{
    if (t->rest)
        return;
    if (t->pending) {
        /* bash splits --output=json in three. */
        if (strcmp(word, "=") != 0)
            keep(t, t->pending, word);
    } else if (!t->options_over && strcmp(word, "--") == 0) {
        t->options_over = true;
        t->rest = t->command && t->command->rest;
    } else if (!t->options_over && word[0] == '-' && word[1]) {
        pass_option(t, word);
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
    if (t.rest)
        puts(":files");
    else if (t.pending)
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
