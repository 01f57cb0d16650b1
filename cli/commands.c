/*
 * commands.c: the table that parser, help, manual pages and completion read.
 *
 * A new command is an entry here and its function.
 */
#include "cli.h"

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

static const option ping_options[] = {
    { "count", 'c', VALUE_COUNT, "N", "5", NULL, false, false,
      "Send this many." },
    { "interval", 'i', VALUE_DURATION, "TIME", "200ms", NULL, false, false,
      "Wait this long between two." },
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
    { 0 },
};

const command commands[] = {
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
      .run = run_up },
    { .noun = "down",
      .aliases = "stop",
      .args = "",
      .summary = "stop the server that 'up' keeps running",
      .text = "Ends the background process of 'leat up'.  The server stops "
              "when its last user is gone; the data stays in its directory.  "
              "Where nothing runs, this says so and succeeds.",
      .options = down_options,
      .examples = down_examples,
      .run = run_down },
    { .noun = "status",
      .aliases = "info",
      .args = "",
      .summary = "show what the server is and how safely it keeps data",
      .text = "Connects and prints the servers behind the URL and their "
              "roles, version, eviction policy, memory, the latency of a "
              "ping, and the durability: what an acknowledgement of this "
              "server means now, what could be asked for, and what to set "
              "for more.  Where the server keeps less than a messaging system "
              "needs, warnings say what to change.  Exits with 78 when a "
              "durability is set, by --durability or in the URL, that the "
              "server does not give.",
      .examples = status_examples,
      .run = run_status },
    { .noun = "ping",
      .args = "",
      .summary = "measure the round trip to the server",
      .text = "Sends PING and prints the least, mean, median and greatest "
              "time in milliseconds.  Exits with 1 when some were not "
              "answered.",
      .options = ping_options,
      .examples = ping_examples,
      .run = run_ping },
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
      .run = run_demo },
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
    { .noun = "topic",
      .verb = "create",
      .aliases = "add new",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .summary = "make a topic",
      .text = "Names are made of letters, digits, '.', '_' and '-', at most "
              "200.  The number of partitions cannot be changed afterwards.  "
              "Exits with 1 if there is a topic of that name.",
      .options = topic_create_options,
      .examples = topic_create_examples,
      .run = run_topic_create },
    { .noun = "topic",
      .verb = "alter",
      .aliases = "set",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "change what is kept of a topic",
      .text = "Only what is given changes.  Members and senders learn of it "
              "within seconds.  Nothing that some group has not settled is "
              "taken away, but with --lossy-maxlen, --forget first, and from "
              "a group that is detached: it is told when it comes back.",
      .options = topic_alter_options,
      .examples = topic_alter_examples,
      .run = run_topic_alter },
    { .noun = "topic",
      .verb = "trim",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "take the oldest messages from a topic",
      .text = "The members of groups do this by themselves, by what leat topic "
              "alter says; without --max-entries and --older-than, so does "
              "this.  Asks first on a terminal, elsewhere it needs --yes.  "
              "Says how many went, how many are held back only because groups "
              "have not settled them, and the group that holds back most.  "
              "With --force these go, too.",
      .options = topic_trim_options,
      .examples = topic_trim_examples,
      .run = run_topic_trim },
    { .noun = "topic",
      .verb = "ls",
      .aliases = "list",
      .args = "",
      .summary = "list the topics",
      .text = "With partitions, messages in the log, and groups.",
      .examples = topic_ls_examples,
      .run = run_topic_ls },
    { .noun = "topic",
      .verb = "info",
      .aliases = "show describe",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "show what a topic is and holds",
      .text = "A stream of that very name, made by another program, is shown "
              "as a topic of one partition (legacy).",
      .options = topic_info_options,
      .examples = topic_info_examples,
      .run = run_topic_info },
    { .noun = "topic",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "remove a topic, its messages and its groups",
      .text = "Says how many messages and groups go, and asks first on a "
              "terminal; elsewhere it needs --yes.  Refused while members of "
              "its groups live, unless --force.  Who sends to it is not "
              "known: stop them first.",
      .options = topic_rm_options,
      .examples = topic_rm_examples,
      .run = run_topic_rm },
    { .noun = "topic",
      .verb = "send",
      .aliases = "publish produce",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "send messages, one a line of stdin",
      .text = "Reads lines and sends each as one message, without its newline "
              "and otherwise byte for byte.  Memory is bounded, whatever comes "
              "in.  A message that is too large, or has no key where one is "
              "expected, ends the sending; the error names its line, and what "
              "came before it is sent.\n\n"
              "At the end it says how many messages are persisted, failed and "
              "unknown; with --output as a record on stdout.  Exits with 0 "
              "when all are persisted, 75 when of some it is not known, and "
              "otherwise by the first failure.",
      .options = topic_send_options,
      .examples = topic_send_examples,
      .run = run_topic_send },
    { .noun = "topic",
      .verb = "tail",
      .aliases = "cat read",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "show messages, without a group",
      .text = "Nothing is taken from anybody.  Partitions are merged by time.  "
              "Without --follow it ends where the topic ended when it "
              "began.\n\n"
              "On a terminal a line is partition, position, key and body, with "
              "what a terminal could take for a command escaped.  In JSON the "
              "body is data where it is text and data_base64 otherwise.  An "
              "entry that is no message is shown with its fields and the "
              "reason.",
      .options = topic_tail_options,
      .examples = topic_tail_examples,
      .run = run_topic_tail },
    { .noun = "group",
      .verb = "ls",
      .aliases = "list",
      .args = "TOPIC",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "list the groups of a topic",
      .text = "With their members and lag.",
      .run = run_group_ls },
    { .noun = "group",
      .verb = "info",
      .aliases = "show describe",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "show a group as a whole",
      .text = "Partitions, how many of them have an owner, members and how "
              "many of them live, lag; since when it is paused; messages that "
              "are in flight, put by for a retry, due now, and parked in lanes "
              "behind one that is; and of how many partitions messages are not "
              "kept for it any more (detached).",
      .run = run_group_info },
    { .noun = "group",
      .verb = "lag",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "show how far a group is, partition by partition",
      .text = "Lag is an exact count of messages that are not settled, without "
              "those put by for a retry or parked behind one; where there are "
              "too many to count it is empty, or - in a table, never a "
              "guess.  Everything up to the cursor is settled; everything up "
              "to the mark was handed out at least once.  --columns shows "
              "more: due, lanes, beat_s (since the owner's last heartbeat), "
              "reason and changed (why and when the owner last changed).",
      .options = group_lag_options,
      .examples = group_lag_examples,
      .run = run_group_lag },
    { .noun = "group",
      .verb = "members",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "list the members of a group",
      .text = "A member that died is listed until the others notice.  It is "
              "alive if its last heartbeat is younger than its lease, by the "
              "server's clock.",
      .run = run_group_members },
    { .noun = "group",
      .verb = "pending",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "list what is handed out and not settled, or put by",
      .text = "A message is out (handed out, or was to somebody who died), "
              "waits for a retry until it is due, or is parked behind one of "
              "its key that does.  All partitions are merged.",
      .options = group_pending_options,
      .examples = group_pending_examples,
      .run = run_group_pending },
    { .noun = "group",
      .verb = "seek",
      .args = "TOPIC GROUP --to WHERE",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "set where a group reads on",
      .text = "Tells how many messages are skipped or come again, and asks "
              "first on a terminal; elsewhere it needs --yes.  Refused while "
              "members live, unless --force.  Partitions are set one after "
              "another; what was cut short is run again.",
      .options = group_seek_options,
      .examples = group_seek_examples,
      .run = run_group_seek },
    { .noun = "group",
      .verb = "pause",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "hand out nothing to the members of a group",
      .text = "What they have in hand is finished.  It stays paused, whoever "
              "comes and goes, until 'leat group resume'.",
      .run = run_group_pause },
    { .noun = "group",
      .verb = "resume",
      .aliases = "unpause",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "let a paused group go on",
      .text = "One that is not paused stays as it is.",
      .run = run_group_resume },
    { .noun = "group",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "TOPIC GROUP",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @group",
      .summary = "remove a group and all that is known of it",
      .text = "Its place, what is put by for it and its members' records go; "
              "its dead letters stay unless --dead-letters.  Asks first on a "
              "terminal; elsewhere it needs --yes.  Refused while members "
              "live, unless --force.",
      .options = group_rm_options,
      .examples = group_rm_examples,
      .run = run_group_rm },
    { .noun = "dlq",
      .verb = "ls",
      .aliases = "list",
      .args = "TOPIC",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "list the dead letters of a topic",
      .text = "In the order in which they died, partitions merged.  More is "
              "known of each than is shown: see --columns and 'leat dlq "
              "show'.  A table shows the beginning of a long error.",
      .options = dlq_ls_options,
      .examples = dlq_ls_examples,
      .run = run_dlq_ls },
    { .noun = "dlq",
      .verb = "show",
      .aliases = "info cat",
      .args = "TOPIC ID",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @dead",
      .summary = "show all that is known of a dead letter",
      .text = "Its message, who gave it up and why.  What a terminal could "
              "take for a command is escaped.  A body that is not text is "
              "whole with --raw, as the column body_base64, and in JSON, where "
              "it is that.  Of what could not be decoded the fields are shown "
              "as headers, and the reason as damaged.",
      .options = dlq_show_options,
      .examples = dlq_show_examples,
      .run = run_dlq_show },
    { .noun = "dlq",
      .verb = "errors",
      .aliases = "count",
      .args = "TOPIC",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "count dead letters by their errors",
      .text = "Errors that differ only in numbers, ids and quoted parts are "
              "one: these are shown as <n>, <hex>, <uuid> and <text>.  The "
              "most frequent is the first, and newest names one to look at.",
      .options = dlq_errors_options,
      .examples = dlq_errors_examples,
      .run = run_dlq_errors },
    { .noun = "dlq",
      .verb = "replay",
      .aliases = "retry redrive",
      .args = "TOPIC [ID...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@topic @dead",
      .summary = "hand dead letters to their groups once more",
      .text = "Each becomes a retry of the group that gave it up, which is due "
              "at once, with its attempts forgotten; no other group sees it.  "
              "With --republish it becomes a new message of the log instead, "
              "for all groups.  A dead letter is moved in one step: when this "
              "is killed, run it again, and each is replayed once.\n\n"
              "Instead of ids, --all takes all that the options choose and "
              "that are there when it begins; it asks first on a terminal, and "
              "elsewhere needs --yes.\n\n"
              "At the end it says how many were replayed; with --output as a "
              "record on stdout.  Missing are those that are not there (any "
              "more), refused those that cannot be replayed, with the reason; "
              "unknown are those that are gone after an answer was lost.  "
              "Exits with 1 when some are missing or refused and with 75 when "
              "of some it is not known.",
      .options = dlq_replay_options,
      .examples = dlq_replay_examples,
      .run = run_dlq_replay },
    { .noun = "dlq",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "TOPIC [ID...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@topic @dead",
      .summary = "remove dead letters",
      .text = "By their ids, or with --all what the options choose.  Asks "
              "first on a terminal; elsewhere it needs --yes.  Exits as 'leat "
              "dlq replay' does.",
      .options = dlq_rm_options,
      .examples = dlq_rm_examples,
      .run = run_dlq_rm },
    { .noun = "dlq",
      .verb = "edit",
      .aliases = "change",
      .args = "TOPIC ID",
      .min_args = 2,
      .max_args = 2,
      .arg_words = "@topic @dead",
      .summary = "change the message of a dead letter",
      .text = "Before it is replayed.  It stays a dead letter of its group, "
              "with all that is known of it, marked as edited, and gets a new "
              "id, which is told.  What the message was is gone.  One that "
              "could not be decoded becomes a new message.",
      .options = dlq_edit_options,
      .examples = dlq_edit_examples,
      .run = run_dlq_edit },
    { .noun = "queue",
      .verb = "create",
      .aliases = "add new",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .summary = "make a queue",
      .text = "Names are made of letters, digits, '.', '_' and '-', at most "
              "200.  Exits with 1 if there is a queue of that name.",
      .options = queue_create_options,
      .examples = queue_create_examples,
      .run = run_queue_create },
    { .noun = "queue",
      .verb = "alter",
      .aliases = "set",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "change the settings of a queue",
      .text = "Only what is given changes; 0 takes a bound away.  Messages "
              "that are there keep the delay and the deadline they have.  A "
              "queue stays FIFO or not, and a switch that is on stays on.",
      .options = queue_alter_options,
      .examples = queue_alter_examples,
      .run = run_queue_alter },
    { .noun = "queue",
      .verb = "ls",
      .aliases = "list",
      .args = "",
      .summary = "list the queues",
      .text = "With what is visible (ready to be received), delayed, in "
              "flight (received and not settled) and dead, and the age of the "
              "oldest visible message.",
      .options = queue_ls_options,
      .examples = queue_ls_examples,
      .run = run_queue_ls },
    { .noun = "queue",
      .verb = "stats",
      .aliases = "info show attributes",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "show what a queue holds, did, and is set to",
      .text = "Sent is always the sum of visible, delayed, in_flight, dead, "
              "acked, expired (too old), purged and lost (its body was gone, "
              "and not by leat).  Received, requeued (given back), to_dead "
              "and redriven count how often that happened.",
      .options = queue_stats_options,
      .examples = queue_stats_examples,
      .run = run_queue_stats },
    { .noun = "queue",
      .verb = "send",
      .aliases = "publish produce",
      .args = "NAME [MESSAGE]",
      .min_args = 1,
      .max_args = 2,
      .arg_words = "@queue",
      .summary = "send a message, or one a line of stdin",
      .text = "Without MESSAGE it reads lines and sends each, without its "
              "newline and otherwise byte for byte.  Memory is bounded, "
              "whatever comes in.  A line that the queue refuses, because it "
              "is too large for example, is told with its number and passed "
              "over; a failure of the server ends the sending.\n\n"
              "At the end it says how many were sent, how many had been sent "
              "before (by their dedup id), failed, and are unknown; with "
              "--output as a record on stdout, with the id where it was one "
              "message.  Exits with 0 when all were sent, 75 when of some it "
              "is not known, and otherwise by the first failure.",
      .options = queue_send_options,
      .examples = queue_send_examples,
      .run = run_queue_send },
    { .noun = "queue",
      .verb = "receive",
      .aliases = "get",
      .args = "NAME [--exec CMD [ARGS...]]",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "receive messages, and print them or run a program",
      .text =
          "What is printed is hidden until its visibility runs out, and "
          "then comes again: acknowledge it by its receipt, or at once by "
          "--ack.  In a pipe the first column is the receipt.  Exits with "
          "1 when there was nothing.  In JSON the body is data where it "
          "is text and data_base64 otherwise.\n\n"
          "With --exec, it runs the program once for each message, its "
          "body on stdin, until a signal, --max or --wait.  Exit code 0 "
          "acknowledges the message, 65 makes it a dead letter at once, "
          "and after any other, or a signal, it is received again after "
          "--retry-delay.  While the program runs the message is kept "
          "hidden, however long that takes; when it is lost all the same "
          "the program is ended.  No more is received than programs run.\n\n"
          "The environment has LEAT_QUEUE, LEAT_ID, LEAT_KEY, LEAT_TYPE, "
          "LEAT_ATTEMPT (the receives, from 1) and LEAT_HEADER_NAME for "
          "each attribute, in capitals with _ for what is neither letter "
          "nor digit.  What is empty, holds a zero byte or is over 32 KiB "
          "is left out.\n\n"
          "SIGINT and SIGTERM stop receiving; programs that run may end "
          "within --drain, then they are killed and their messages given "
          "back.  A second signal ends at once.",
      .options = queue_receive_options,
      .examples = queue_receive_examples,
      .run = run_queue_receive,
      .rest = true },
    { .noun = "queue",
      .verb = "ack",
      .aliases = "acknowledge delete",
      .args = "NAME [RECEIPT...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "acknowledge messages by their receipts",
      .text = "Without receipts it reads them from stdin, the first column of "
              "each line, so that what 'leat queue receive' prints may be "
              "given as it is.  Exits with 1 when some are stale: not "
              "acknowledged in time, or settled before; with 64, or 65 for "
              "lines, when some are no receipts or another queue's.  The "
              "others are acknowledged.",
      .options = queue_ack_options,
      .examples = queue_ack_examples,
      .run = run_queue_ack },
    { .noun = "queue",
      .verb = "change",
      .aliases = "extend hide",
      .args = "NAME RECEIPT... TIME",
      .min_args = 3,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "hide messages for longer or shorter, or give them back",
      .text = "They are hidden for TIME from now, at most 12h; 0 gives them "
              "back at once.  A bare number is in seconds.  Exits as ack does.",
      .options = queue_change_options,
      .examples = queue_change_examples,
      .run = run_queue_change },
    { .noun = "queue",
      .verb = "reject",
      .aliases = "bury",
      .args = "NAME [RECEIPT...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "make messages dead letters, by their receipts",
      .text = "Whatever max-receives says: nobody would manage them.  "
              "Receipts are given, and it exits, as with ack.",
      .options = queue_reject_options,
      .examples = queue_reject_examples,
      .run = run_queue_reject },
    { .noun = "queue",
      .verb = "peek",
      .aliases = "browse",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "look at messages without receiving them",
      .text = "The next ones to be received; of a FIFO queue those of the "
              "message groups that may be received now.  Nothing changes.",
      .options = queue_peek_options,
      .examples = queue_peek_examples,
      .run = run_queue_peek },
    { .noun = "queue",
      .verb = "redrive",
      .aliases = "retry replay",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "send dead letters back into the queue",
      .text = "The oldest first, with their receives counted anew.  Each is "
              "moved in one step: when this is killed, run it again.",
      .options = queue_redrive_options,
      .examples = queue_redrive_examples,
      .run = run_queue_redrive },
    { .noun = "queue",
      .verb = "purge",
      .aliases = "clear",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "drop all messages of a queue",
      .text = "Visible, delayed and in flight, but not the dead letters.  "
              "Asks first on a terminal; elsewhere it needs --yes.",
      .options = queue_purge_options,
      .examples = queue_purge_examples,
      .run = run_queue_purge },
    { .noun = "queue",
      .verb = "rm",
      .aliases = "remove",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "remove a queue with all its messages",
      .text = "Asks first on a terminal; elsewhere it needs --yes.  Who has "
              "it open gets errors from then on.  When it was cut short, run "
              "it again.",
      .options = queue_rm_options,
      .examples = queue_rm_examples,
      .run = run_queue_rm },
    { .noun = "queue",
      .verb = "expire",
      .aliases = "requeue",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "give back now what nobody acknowledged in time",
      .text = "Whoever has a queue open does this by itself; it is for queues "
              "that nobody has open, and for tests.  Says how many messages "
              "moved, of the queues that share the shard: those given back, "
              "and those whose delay is over.",
      .options = queue_expire_options,
      .examples = queue_expire_examples,
      .run = run_queue_expire },
    { .noun = "queue",
      .verb = "watch",
      .aliases = "events tail",
      .args = "[NAME]",
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "show what happens in a queue, or in all",
      .text = "Events are sent, received, requeued, to_dlq, dlq_received, "
              "dlq_redriven and acked.  They are told while they happen, and "
              "what happens while the connection is lost is missed, which is "
              "marked; --durable reads those that the queue keeps.",
      .options = queue_watch_options,
      .examples = queue_watch_examples,
      .run = run_queue_watch },
    { .noun = "queue",
      .verb = "pool",
      .aliases = "work",
      .args = "[NAMESPACE] --exec CMD [ARGS...]",
      .max_args = 1,
      .summary = "run a program for the messages of all queues",
      .text = "Of a namespace, or without one of leat: queues that are there, "
              "and those that are made later.  The messages of a queue are "
              "handled in order, one at a time; queues beside each other, "
              "each in its turn.  Any number of pools share the work.  The "
              "program is run, and its exit code means, as with 'leat queue "
              "receive --exec'.",
      .options = queue_pool_options,
      .examples = queue_pool_examples,
      .run = run_queue_pool,
      .rest = true },
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
    { .noun = "consume",
      .aliases = "work",
      .args = "TOPIC -g GROUP [--exec CMD [ARGS...]]",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "read a topic as a member of a group, by a program of yours",
      .text =
          "Runs the program once for each message, its body on stdin.  What "
          "the program does with it is told by its exit code: 0 acknowledges "
          "the message, 65 makes it a dead letter at once, and any other is a "
          "failure, as is being killed by a signal: the message is tried again "
          "as --backoff says, and is a dead letter after --max-attempts.  With "
          "--on-failure dead only 75 lets it be tried again.  The last line "
          "that the program wrote to stderr is kept as the reason.  Dead "
          "letters are shown and replayed by 'leat dlq'.\n\n"
          "The environment has LEAT_TOPIC, LEAT_PARTITION, LEAT_POSITION, "
          "LEAT_ID, LEAT_KEY, LEAT_TYPE, LEAT_ATTEMPT (from 1), LEAT_FENCE "
          "(grows with each change of owner), LEAT_ORIGINAL_ID of a retry that "
          "is a message of its own, LEAT_REPLAYED_FROM of one that was a dead "
          "letter, and LEAT_HEADER_NAME for each header, in capitals with _ "
          "for what is neither letter nor digit.  "
          "What is empty, holds a zero byte or is over 32 KiB is left out.\n\n"
          "Without a program, messages are printed as 'leat topic tail' does "
          "and acknowledged.  Entries that are no messages are counted, and "
          "dead letters at once.\n\n"
          "SIGINT and SIGTERM stop receiving; programs that run may end within "
          "--drain, then they are killed and their messages go to others.  A "
          "second signal ends at once.",
      .options = consume_options,
      .examples = consume_examples,
      .run = run_consume,
      .rest = true },
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

const group *group_find(const char *noun)
{
    for (const group *g = groups; g->noun; g++)
        if (strcmp(g->noun, noun) == 0)
            return g;
    return NULL;
}

const command *command_next(const char *noun, const command *after)
{
    for (const command *k = after ? after + 1 : commands; k->noun; k++)
        if (strcmp(k->noun, noun) == 0)
            return k;
    return NULL;
}

const char *option_env(const option *o, char *out, size_t room)
{
    /* 'leat consume' describes a message to its program in these; a leat that
     * the program runs must not take them for its own options. */
    if (in_words("id key type topic partition position attempt fence "
                 "original-id replayed-from queue",
                 o->name))
        return NULL;
    snprintf(out, room, "LEAT_%s", o->name);
    for (char *s = out; *s; s++)
        *s = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    return out;
}
