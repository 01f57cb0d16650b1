/*
 * cmd_acl.c: leat acl: what a user of the server needs, as ACL rules.
 *
 *   producer   publishes to topics, sends to queues
 *   consumer   reads topics as a member of groups, receives from queues,
 *              retries and dead letters too
 *   operator   makes, changes, looks at and removes all of it
 *
 * Commands are the same for the first two, since scripts move messages by many
 * of them; what differs is the keys.  Categories stand for commands that came
 * after Redis 6.0: a server refuses rules with a name that it does not know.
 */
#include "cli.h"

#include <stdlib.h>

typedef struct role {
    const char *name;
    const char *const *topic_keys; /* %p: the prefix, %n: the name */
    const char *const *queue_keys;
    const char *const *stream_keys;
    const char *commands;
} role;

#define COMMANDS                                                               \
    "-@all +@read +@write +@stream +@connection +@pubsub -@admin -@dangerous " \
    "+multi +exec +discard +eval +evalsha +script|load +time +wait +command "  \
    "+select +client|setname +client|id +client|unblock +info +role "          \
    "+cluster|shards +cluster|slots"

static const char *const producer_topic[] = { "%p:topics",
                                              "%p:topic:%n",
                                              "%p:{%n/*}:log",
                                              "%p:{%n/*}:later",
                                              "%p:{%n/*}:since",
                                              "%p:{%n/*}:laters",
                                              "%p:{%n/*}:bodies",
                                              "%p:{%n/*}:large",
                                              "%p:{%n/*}:id",
                                              "%p:{%n}:topic",
                                              NULL };
static const char *const consumer_topic[] = { "%p:topics", "%p:topic:%n",
                                              "%p:{%n}:*", "%p:{%n/*}:*",
                                              NULL };
/* Queues of a shard share its indexes. */
static const char *const any_queue[] = { "%p:{q/*}:%n",     "%p:{q/*}:%n:*",
                                         "%p:{q/*}:due",    "%p:{q/*}:work",
                                         "%p:{q/*}:queues", "%p:{q/*}:clock",
                                         "%p:{q/*}:s:*",    "%p:{q/*}:reaper",
                                         "%p:{q/*}:whole",  NULL };
/* A plain stream, and what a group that reads it as a topic keeps. */
static const char *const bare_stream[] = { "%n", "%p:topic:%n", NULL };
static const char *const read_stream[] = { "%n", "%p:topics", "%p:topic:%n",
                                           "%p:{%n}:*", NULL };
static const char *const everything[] = { "%p:*", NULL };

static const role roles[] = {
    { "producer", producer_topic, any_queue, bare_stream, COMMANDS },
    { "consumer", consumer_topic, any_queue, read_stream, COMMANDS },
    { "operator", everything, everything, read_stream,
      COMMANDS " +config|get +client|kill +client|list +acl|whoami" },
};
enum { ROLES = sizeof roles / sizeof *roles };

/* ---- rules ------------------------------------------------------------ */

static void put_pattern(FILE *f, const char *pattern, const char *prefix,
                        const char *name)
{
    fputs(" ~", f);
    for (; *pattern; pattern++) {
        if (*pattern != '%')
            fputc(*pattern, f);
        else
            fputs(*++pattern == 'p' ? prefix : name, f);
    }
}

static void put_keys(FILE *f, const char *const *patterns, const char *prefix,
                     const char *names)
{
    for (const char *s = names; *s;) {
        size_t n = strcspn(s, "\n");
        char *name = copy_n(s, n);
        for (size_t i = 0; patterns[i]; i++)
            put_pattern(f, patterns[i], prefix, name);
        free(name);
        s += n + (s[n] == '\n');
    }
}

static bool is_name(const char *s, size_t n)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*";
    return n > 0 && n <= LEAT_NAME_MAX && strspn(s, good) >= n;
}

static int check_names(const char *what, const char *names)
{
    for (const char *s = names; s && *s;) {
        size_t n = strcspn(s, "\n");
        if (!is_name(s, n))
            return fail(EXIT_USAGE,
                        "letters, digits, '.', '_', '-', and '*' "
                        "for any",
                        "%s '%.*s' cannot be a name", what, (int)n, s);
        s += n + (s[n] == '\n');
    }
    return 0;
}

static char *rules(cli *c, const role *r)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    const char *prefix = value_text(c, "prefix");
    const char *topics = value_text(c, "topic"),
               *queues = value_text(c, "queue");
    const char *streams = value_text(c, "stream");
    bool all = !topics && !queues && !streams;
    if (!f)
        return copy("");
    fputs("reset on >PASSWORD ~leat:probe", f);
    if (r->topic_keys == everything) {
        put_keys(f, everything, prefix, "*");
    } else {
        put_keys(f, r->topic_keys, prefix, topics ? topics : all ? "*" : "");
        put_keys(f, r->queue_keys, prefix, queues ? queues : all ? "*" : "");
    }
    put_keys(f, r->stream_keys, prefix, streams ? streams : "");
    if (!value_on(c, "no-channels"))
        fprintf(f, " resetchannels &%s:*", prefix);
    fprintf(f, " %s", r->commands);
    fclose(f);
    return text;
}

/* ---- the command ------------------------------------------------------ */

static const column columns[] = { { "role", COLUMN_TEXT, false },
                                  { "rules", COLUMN_TEXT, false } };

static int show_records(cli *c, const char *only)
{
    int code;
    output *out = output_open(c, columns, 2, false, &code);
    for (size_t i = 0; out && i < ROLES; i++) {
        if (only && strcmp(only, roles[i].name) != 0)
            continue;
        char *text = rules(c, &roles[i]);
        output_text(out, roles[i].name);
        output_text(out, text);
        free(text);
    }
    return out ? output_close(out) : code;
}

int run_acl(cli *c)
{
    const char *only = c->arg_count ? c->args[0] : NULL;
    const char *prefix = value_text(c, "prefix");
    if (only && !in_words("producer consumer operator", only))
        return fail(EXIT_USAGE, "roles are producer, consumer, operator",
                    "no role '%s'", only);
    int code = is_name(prefix, strlen(prefix)) && !strchr(prefix, '*')
                   ? 0
                   : fail(EXIT_USAGE, NULL, "'%s' cannot be a prefix", prefix);
    if (code == 0)
        code = check_names("topic", value_text(c, "topic"));
    if (code == 0)
        code = check_names("queue", value_text(c, "queue"));
    if (code == 0)
        code = check_names("stream", value_text(c, "stream"));
    if (code || wants_record(c))
        return code ? code : show_records(c, only);
    for (size_t i = 0; i < ROLES; i++) {
        if (only && strcmp(only, roles[i].name) != 0)
            continue;
        char *text = rules(c, &roles[i]);
        printf("%s leat-%s %s\n",
               value_on(c, "aclfile") ? "user" : "ACL SETUSER", roles[i].name,
               text);
        free(text);
    }
    return 0;
}
