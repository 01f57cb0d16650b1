/*
 * commands.c: the table that parser, help, manual pages and completion read.
 *
 * A new command is an entry in the file of its family, here where it has none,
 * and its function.
 */
#include "commands.h"

#include <ctype.h>

const option global_options[] = {
    { "url", 'u', VALUE_TEXT, "URL", "embedded:", NULL, true, false,
      "The server: redis://host:6379/0, unix:///path/to/socket or "
      "embedded:///dir, a private server in a directory." },
    { "context", 0, VALUE_CONTEXT, "NAME", NULL, NULL, true, false,
      "Use the settings of this context; see leat-context(1)." },
    { "user", 0, VALUE_TEXT, "NAME", NULL, NULL, true, false,
      "Log in as this user, instead of the URL's." },
    { "password-file", 0, VALUE_FILE, "FILE", NULL, NULL, true, false,
      "Read the password from the first line of a file that only you can "
      "read." },
    { "password", 0, VALUE_TEXT, "PASSWORD", NULL, NULL, true, true,
      "The password itself; never an option, since everybody can see the "
      "arguments of a program." },
    { "durability", 0, VALUE_CHOICE, "CLASS", NULL,
      "executed logged synced replicated outbox", true, false,
      "What an acknowledgement must mean, see leat-urls(7): executed, logged, "
      "synced, replicated or outbox.  A server that gives less is refused." },
    { "allow-eviction", 0, VALUE_NONE, NULL, NULL, NULL, true, false,
      "Write also to a server that may evict messages when its memory is full "
      "(maxmemory-policy other than noeviction).  Without it such a server is "
      "refused by all commands that write." },
    { "cafile", 0, VALUE_FILE, "FILE", NULL, NULL, true, false,
      "With rediss://, trust the authorities in this file instead of the "
      "system's." },
    { "cadir", 0, VALUE_DIR, "DIR", NULL, NULL, true, false,
      "The same, a directory as 'openssl rehash' makes it." },
    { "cert", 0, VALUE_FILE, "FILE", NULL, NULL, true, false,
      "With rediss://, show this certificate to the server." },
    { "cert-key", 0, VALUE_FILE, "FILE", NULL, NULL, true, false,
      "The key of --cert, in a file that only you can read; without it the "
      "key is in the same file." },
    { "insecure", 0, VALUE_NONE, NULL, NULL, NULL, true, false,
      "With rediss://, believe any server.  Anybody on the way can then read "
      "and change everything." },
    { "config", 0, VALUE_FILE, "FILE", NULL, NULL, false, false,
      "Read this configuration file and no other." },
    { "output", 'o', VALUE_CHOICE, "FORMAT", NULL, "table json ndjson csv tsv",
      true, false,
      "How to print: table, json, ndjson, csv or tsv.  The default is table "
      "on a terminal and tsv elsewhere." },
    { "columns", 0, VALUE_TEXT, "NAMES", NULL, NULL, false, false,
      "Print these columns, split by commas, in this order." },
    { "no-headers", 0, VALUE_NONE, NULL, NULL, NULL, true, false,
      "Print no headings in table, csv and tsv." },
    { "utc", 0, VALUE_NONE, NULL, NULL, NULL, true, false,
      "Print times in UTC." },
    { "color", 0, VALUE_CHOICE, "WHEN", "auto", "auto always never", true,
      false,
      "When to use colours.  auto: on a terminal, unless NO_COLOR is set." },
    { "timeout", 0, VALUE_DURATION, "TIME", "5s", NULL, true, false,
      "How long to wait for the server: 500ms, 5s, 2m." },
    { "quiet", 'q', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Say nothing but results and errors." },
    { "verbose", 'v', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Say more; twice: everything." },
    { "yes", 'y', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Do not ask before something is removed." },
    { "help", 'h', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Explain the command." },
    { 0 },
};

static const option up_options[] = {
    { "dir", 0, VALUE_DIR, "DIR", NULL, NULL, false, false,
      "Keep the server and its data in this directory." },
    { "foreground", 'f', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Stay here until SIGINT or SIGTERM." },
    { 0 },
};

static const option down_options[] = {
    { "dir", 0, VALUE_DIR, "DIR", NULL, NULL, false, false,
      "The directory that 'leat up' was given." },
    { 0 },
};

static const option status_options[] = { WATCH_OPTIONS, { 0 } };

static const option ping_options[] = {
    { "count", 'c', VALUE_COUNT, "N", "5", NULL, false, false,
      "Send this many." },
    { "interval", 'i', VALUE_DURATION, "TIME", "200ms", NULL, false, false,
      "Wait this long between two." },
    { 0 },
};

static const option acl_options[] = {
    { "prefix", 0, VALUE_TEXT, "NAME", "leat", NULL, false, false,
      "The prefix of the keys." },
    { "topic", 0, VALUE_LIST, "NAME", NULL, NULL, false, false,
      "Allow this topic alone; may be repeated, and * stands for any "
      "letters." },
    { "queue", 0, VALUE_LIST, "NAME", NULL, NULL, false, false,
      "The same for a queue." },
    { "stream", 0, VALUE_LIST, "NAME", NULL, NULL, false, false,
      "The same for a plain stream.  Without any of the three, all topics and "
      "queues, and no plain stream." },
    { "aclfile", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Print lines of an ACL file." },
    { "no-channels", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Leave out the rule for channels, which Redis 6.0 does not know." },
    { 0 },
};

static const option demo_options[] = {
    { "count", 'n', VALUE_COUNT, "N", "20000", NULL, false, false,
      "Publish this many messages." },
    { "keys", 0, VALUE_COUNT, "N", "100", NULL, false, false,
      "Spread them over this many keys." },
    { "no-kill", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Let all consumers live." },
    { 0 },
};

static const option add_options[] = {
    { "use", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Use it from now on." },
    { "replace", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Replace a context of that name." },
    { 0 },
};

static const option show_options[] = {
    { "origin", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Say where each value came from." },
    { 0 },
};

static const example up_examples[] = {
    { "leat up", "start the default server; 'leat status' then finds it" },
    { "leat up --dir ./data --foreground", "as a service, data in ./data" },
    { 0 },
};

static const example down_examples[] = {
    { "leat down --dir ./data", "stop the server of ./data; its data stays" },
    { 0 },
};

static const example status_examples[] = {
    { "leat status", "what the server is and how safely it keeps data" },
    { "leat -u redis://db:6379 status -o json", "the same for a program" },
    { "leat status --durability synced", "does it sync before it says yes?" },
    { 0 },
};

static const example ping_examples[] = {
    { "leat ping -c 100 -i 10ms", "a hundred round trips" },
    { 0 },
};

static const example acl_examples[] = {
    { "leat acl producer --topic orders", "for who publishes orders" },
    { "leat acl --aclfile >>/etc/redis/users.acl", "all three roles" },
    { 0 },
};

static const example demo_examples[] = {
    { "leat demo", "20,000 messages, three consumers, one of them killed" },
    { "leat demo -n 5000 -u redis://localhost", "through your own server" },
    { 0 },
};

static const example context_examples[] = {
    { "leat context add prod redis://db:6379 --password-file ~/.prod --use",
      "name a server and use it from now on" },
    { "leat context add shop rediss://db:6380 --cafile ~/ca.pem",
      "with TLS and an authority of one's own" },
    { "leat context add prod - <url.txt",
      "the URL from stdin, where nobody sees it" },
    { 0 },
};

static const example completion_examples[] = {
    { "source <(leat completion bash)", "for this shell" },
    { "leat completion fish >~/.config/fish/completions/leat.fish",
      "for every fish" },
    { 0 },
};

static const example config_examples[] = {
    { "leat config show --origin", "which file, variable or flag decided" },
    { 0 },
};

const group groups[] = {
    { "context", "ctx", "name servers and switch between them",
      "A context is a named set of settings, first of all a URL, kept in "
      "leat.toml(5).  One of them is in force: the one --context or "
      "LEAT_CONTEXT names, else the one chosen by 'leat context use'." },
    { "config", "cfg", "look at the settings in force",
      "Settings come from flags, the environment, the context in force, "
      "configuration files and defaults, in this order." },
    { "topic", "t topics", "make topics, send messages, look at them",
      "A topic is a number of partitions, each a stream of the server.  "
      "Messages of one key go to one partition and keep their order.  Groups "
      "read a topic, each the whole of it: leat-consume(1), leat-group(1)." },
    { "group", "g groups",
      "look at the groups that read a topic, and set them right",
      "The members of a group share the partitions of a topic between them, "
      "each partition with one owner at a time.  The lag of a group is how "
      "many messages it has not settled." },
    { "dlq", "dead dead-letters", "look at dead letters and replay them",
      "A message that a group gave up, because it was rejected or failed too "
      "often, is a dead letter of that group.  They are kept with the topic "
      "until they are replayed or removed, and named PARTITION:MS-SEQ." },
    { "queue", "q queues", "make queues, send, receive, acknowledge",
      "A queue hands each message to one receiver at a time.  What was "
      "received is hidden, and comes again unless it is acknowledged before "
      "its visibility runs out, so that each message is handled at least once. "
      " Each receive gives a receipt, by which that message is acknowledged, "
      "hidden longer or given back; a receipt that is too late is stale, and "
      "refused.  Other than a topic, a queue forgets what was acknowledged, "
      "and any number of receivers may share it." },
    { "stream", "s streams", "add to plain streams, read them, look at them",
      "A plain stream is one key of the server, and its groups are the "
      "server's own: any program can write and read it, and nothing is hidden. "
      " Entries stay when they are acknowledged.  There are no partitions, no "
      "order between messages that are worked on at once, and no dead letters: "
      "for those see leat-topic(1)." },
    { 0 },
};

static const command server_commands[] = {
    { .noun = "up",
      .aliases = "start",
      .args = "",
      .summary = "start a private Redis server and keep it running",
      .text = "Starts a Redis server of your own in a directory, reachable "
              "only by you through a Unix socket, with appendonly on and "
              "eviction off.  A small background process holds it, so that it "
              "stays until 'leat down'.  Prints the URL.  Where it runs "
              "already, this says so and succeeds.",
      .options = up_options,
      .examples = up_examples,
      .run = run_up,
      .stops = true },
    { .noun = "down",
      .aliases = "stop",
      .args = "",
      .summary = "stop the server that 'up' keeps running",
      .text = "Ends the background process of 'leat up'.  The server stops "
              "when its last user is gone; the data stays in its directory.  "
              "Where nothing runs, this says so and succeeds.",
      .options = down_options,
      .examples = down_examples,
      .run = run_down,
      .stops = true },
    { .noun = "status",
      .aliases = "info",
      .args = "",
      .summary = "show what the server is and how safely it keeps data",
      .text = "Connects and prints the servers behind the URL and their "
              "roles, version, eviction policy, memory, the latency of a "
              "ping, and the durability: what an acknowledgement of this "
              "server means now, what could be asked for, and what to set "
              "for more.  'failover' tells whether the server took over from "
              "another master: 'none', a sentence, or nothing where INFO is "
              "refused and for a cluster; 'failover_offset' is where the "
              "history before ended.  Where the server keeps less than a "
              "messaging system "
              "needs, warnings say what to change.  Exits with 78 when a "
              "durability is set, by --durability or in the URL, that the "
              "server does not give.",
      .options = status_options,
      .examples = status_examples,
      .run = run_status,
      .looks = true },
    { .noun = "ping",
      .args = "",
      .summary = "measure the round trip to the server",
      .text = "Sends PING and prints the least, mean, median and greatest "
              "time in milliseconds.  Exits with 1 when some were not "
              "answered.",
      .options = ping_options,
      .examples = ping_examples,
      .run = run_ping,
      .stops = true,
      .looks = true },
    { .noun = "acl",
      .args = "[ROLE]",
      .max_args = 1,
      .arg_words = "producer consumer operator",
      .summary = "print the ACL rules that a user of the server needs",
      .text = "ROLE is producer, consumer or operator; without one, all three. "
              " A producer publishes to topics and sends to queues; a consumer "
              "reads topics as a member of groups and receives from queues, "
              "retries and dead letters too; an operator does all that leat "
              "can.  None may read other keys, empty the server or change its "
              "settings.  The server is not asked.\n\n"
              "Paste a line into redis-cli, or with --aclfile into the file of "
              "the server's setting aclfile, with a password of your own in "
              "place of PASSWORD.  docs/security.md explains them.",
      .options = acl_options,
      .examples = acl_examples,
      .run = run_acl },
    { .noun = "demo",
      .args = "",
      .summary = "kill a consumer and see that nothing is lost",
      .text = "Starts a private server in a temporary directory with a topic "
              "of four partitions, a producer, and three consumer processes "
              "of one group.  In the middle one of them is killed with -9; "
              "the others take over its partitions when its lease of two "
              "seconds has run out.  One order cannot be handled: it is "
              "tried three times, is a dead letter, and is replayed in the "
              "end, when the bug is fixed.  Each process writes down what it "
              "did, and from that is counted what was sent, handled, handled "
              "again, retried, replayed, lost, and whether the messages of "
              "each key came in order.  Exits with 1 if one is lost or out of "
              "order, or that order did not come to this end.  Leaves nothing "
              "behind.\n\n"
              "Only --url or --context on the command line make it use "
              "another server, so that no demo runs on a server that merely "
              "is configured; there its keys start with leat-demo- and are "
              "removed.",
      .options = demo_options,
      .examples = demo_examples,
      .run = run_demo,
      .stops = true },
    { .noun = "context",
      .verb = "ls",
      .aliases = "list",
      .args = "",
      .summary = "list the contexts",
      .text = "Passwords in URLs are shown as ***.",
      .run = run_context_ls },
    { .noun = "context",
      .verb = "add",
      .aliases = "create new",
      .args = "NAME URL",
      .min_args = 2,
      .max_args = 2,
      .summary = "add a context",
      .text = "Writes [context.NAME] to the configuration file, with the URL "
              "and with --user, --password-file and the options of TLS where "
              "they are given.  "
              "The URL - is read from stdin.  The rest of the file, comments "
              "too, stays as it is; its mode becomes 0600.",
      .options = add_options,
      .examples = context_examples,
      .run = run_context_add },
    { .noun = "context",
      .verb = "use",
      .aliases = "select",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@context",
      .summary = "use a context from now on",
      .text = "Sets context = \"NAME\" in the configuration file.",
      .run = run_context_use },
    { .noun = "context",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@context",
      .summary = "remove a context",
      .text = "Asks first on a terminal; elsewhere it needs --yes.",
      .run = run_context_rm },
    { .noun = "context",
      .verb = "show",
      .aliases = "info",
      .args = "[NAME]",
      .max_args = 1,
      .arg_words = "@context",
      .summary = "show a context",
      .text = "Without a name, the one in force.  Passwords are shown as "
              "***.",
      .run = run_context_show },
    { .noun = "config",
      .verb = "show",
      .aliases = "ls",
      .args = "",
      .summary = "show the settings in force",
      .text = "Passwords are shown as ***.",
      .options = show_options,
      .examples = config_examples,
      .run = run_config_show },
    { 0 },
};

static const command help_commands[] = {
    { .noun = "completion",
      .args = "SHELL",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "bash zsh fish",
      .summary = "print the completion script of a shell",
      .text = "SHELL is bash, zsh or fish.  The script asks leat itself, so "
              "that names of contexts complete too.",
      .examples = completion_examples,
      .run = run_completion },
    { .noun = "version",
      .args = "",
      .summary = "print the version and what is built in",
      .text = "Also: leat --version.",
      .run = run_version },
    { .noun = "help",
      .args = "[COMMAND...]",
      .max_args = 2,
      .arg_words = "@command",
      .summary = "explain a command",
      .text = "The same as --help after the command.",
      .run = run_help },
    { .noun = "__complete",
      .args = "WORD...",
      .max_args = 4096,
      .summary = "",
      .text = "",
      .run = run_complete,
      .looks = true,
      .hidden = true },
    { .noun = "__man",
      .args = "[PAGE]",
      .max_args = 1,
      .summary = "",
      .text = "",
      .run = run_man,
      .hidden = true },
    { 0 },
};

/* In the order of help. */
static const command *const families[] = {
    server_commands, topic_commands,  group_commands, dlq_commands,
    queue_commands,  stream_commands, help_commands,
};

const group *group_find(const char *noun)
{
    for (const group *g = groups; g->noun; g++)
        if (strcmp(g->noun, noun) == 0)
            return g;
    return NULL;
}

const command *command_next(const char *noun, const command *after)
{
    bool on = !after;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const command *k = families[i]; k->noun; k++) {
            if (on && (!noun || strcmp(k->noun, noun) == 0))
                return k;
            on |= k == after;
        }
    }
    return NULL;
}

const char *option_env(const option *o, char *out, size_t room)
{
    /* 'leat consume' describes a message to its program in these; a leat that
     * the program runs must not take them for its own options. */
    if (in_words("id key type topic partition position attempt fence "
                 "original-id replayed-from queue stream",
                 o->name))
        return NULL;
    snprintf(out, room, "LEAT_%s", o->name);
    for (char *s = out; *s; s++)
        *s = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    return out;
}
