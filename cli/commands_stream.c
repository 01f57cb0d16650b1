/*
 * commands_stream.c: the commands on plain streams.
 */
#include "commands.h"

#define PLACE "%t stream, %i position"

static const option ls_options[] = {
    { "all", 'a', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Also those that leat keeps for its topics, named leat:..." },
    WATCH_OPTIONS,
    { 0 },
};

static const option look_options[] = { WATCH_OPTIONS, { 0 } };

static const option add_options[] = {
    MESSAGE_OPTIONS("The key of every message."),
    { "lossy-maxlen", 0, VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Keep about so many entries: the oldest go, read or not; 0: all stay." },
    CODEC_OPTION("native ce ce-json fields", "native",
                 "How a message is written: leat's own form, a CloudEvent as "
                 "fields or as JSON, or fields: each header a field, and the "
                 "body one called body, for programs that know nothing of "
                 "leat."),
    { 0 },
};

static const option tail_options[] = {
    { "follow", 'f', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Go on with what comes, until a signal." },
    { "from", 0, VALUE_TEXT, "WHERE", NULL, NULL, false, false,
      "Where to begin: start, end, a time ago such as 10m, or an id MS-SEQ.  "
      "Without it, the last ten entries." },
    COUNT_OPTION(NULL, "The messages of the last N entries, after which "
                       "--follow goes on.  With --from, end after this many "
                       "messages."),
    PRINTER_OPTIONS(PLACE),
    CODEC_OPTION("auto native ce ce-json fields", "auto",
                 "How messages were written; auto tries leat's own form, then "
                 "CloudEvents; fields takes any entry."),
    { 0 },
};

static const option consume_options[] = {
    { "group", 'g', VALUE_GROUP, "GROUP", NULL, NULL, false, false,
      "The group of the server to read by, which is made where there is "
      "none." },
    EXEC_OPTION,
    { "concurrency", 'c', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many messages are worked on at once." },
    { "from", 0, VALUE_TEXT, "WHERE", "start", NULL, false, false,
      "Where a new group begins: start, end, a time ago such as 10m, or an id "
      "MS-SEQ.  An old group goes on where it was." },
    { "name", 0, VALUE_TEXT, "NAME", NULL, NULL, false, false,
      "The consumer's name: what it left pending before comes to it first.  "
      "Without it, one that is made up, whose messages others take over." },
    { "idle", 0, VALUE_DURATION, "TIME", "60s", NULL, false, false,
      "What is pending for so long, and not kept by a consumer that lives, is "
      "taken over by another; the same for the whole group." },
    { "max-attempts", 0, VALUE_NUMBER, "N", "0", NULL, false, false,
      "How often a message is tried; then it is given up.  0: without a "
      "limit." },
    { "backoff", 0, VALUE_TEXT, "HOW", "exponential:1s..60s", NULL, false,
      false,
      "How long a message waits that is to be tried again: fixed:TIME, or "
      "exponential:TIME[..MAX], doubled with every attempt.  It is any time up "
      "to that, or just that with ,nojitter behind it." },
    { "max-time", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "A program that runs longer is killed, with all its process group, and "
      "has failed." },
    { "until-idle", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "End when nothing came for so long." },
    COUNT_OPTION(NULL, "End when this many messages were printed, "
                       "acknowledged or given up."),
    { "drain", 0, VALUE_DURATION, "TIME", "30s", NULL, false, false,
      "How long programs may go on after a signal." },
    PRINTER_OPTIONS(PLACE),
    CODEC_OPTION("native ce ce-json fields", "native",
                 "How messages were written; fields takes any entry: its "
                 "fields are headers, and the one called body is the body."),
    { 0 },
};

static const option rm_options[] = { DRY_RUN_OPTION, { 0 } };

static const example ls_examples[] = {
    { "leat stream ls 'shop:*'", "those whose names begin so" },
    { "leat stream ls --columns name,messages,bytes",
      "and how large they are" },
    { 0 },
};

static const example add_examples[] = {
    { "leat stream add events 'it rains'", "one message" },
    { "seq 1000 | leat stream add events", "a message a line" },
    { "leat stream add events --codec fields -H user:7 -H page:/",
      "as XADD events '*' user 7 page / would" },
    { "leat stream add events --lossy-maxlen 100000 <events.ndjson",
      "keep about the newest hundred thousand" },
    { 0 },
};

static const example tail_examples[] = {
    { "leat stream tail events -f", "the last ten, and what comes" },
    { "leat stream tail events --from 10m -o ndjson",
      "what came in the last ten minutes, for a program" },
    { 0 },
};

static const example consume_examples[] = {
    { "leat stream consume events -g billing --exec ./bill",
      "run './bill' for each message, its body on stdin" },
    { "leat stream consume events -g web --codec fields --exec ./count",
      "entries of any program: LEAT_HEADER_USER is the field user" },
    { "leat stream consume events -g peek --until-idle 2s",
      "print and acknowledge what there is" },
    { 0 },
};

static const example groups_examples[] = {
    { "leat stream groups events", "what is pending, and how far behind" },
    { "leat stream groups events --watch", "the same, every two seconds" },
    { 0 },
};

static const example rm_examples[] = {
    { "leat stream rm events --yes", "without a question" },
    { "leat stream rm events --dry-run", "what would go?" },
    { 0 },
};

const command stream_commands[] = {
    { .noun = "stream",
      .verb = "ls",
      .aliases = "list",
      .args = "[PATTERN]",
      .max_args = 1,
      .summary = "list the plain streams",
      .text = "With their entries, groups and newest entry.  PATTERN is one "
              "of the server's, as KEYS has it.  The server walks its keys: "
              "with many millions of them that takes a while.  Of a stream "
              "that this user may not read, only the name is shown.",
      .options = ls_options,
      .examples = ls_examples,
      .run = run_stream_ls,
      .looks = true },
    { .noun = "stream",
      .verb = "info",
      .aliases = "show describe",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@stream",
      .summary = "show what a stream holds",
      .text = "'added' is how many entries there ever were, as far as the "
              "server knows it.",
      .options = look_options,
      .run = run_stream_info,
      .looks = true },
    { .noun = "stream",
      .verb = "add",
      .aliases = "send publish produce",
      .args = "NAME [BODY]",
      .min_args = 1,
      .max_args = 2,
      .arg_words = "@stream",
      .summary = "add messages: BODY, or one a line of stdin",
      .text = "The first message makes the stream.  Lines are added without "
              "their newline and otherwise byte for byte.  Memory is bounded, "
              "whatever comes in.  A message that is too large, or has no key "
              "where one is expected, ends the adding; the error names its "
              "line, and what came before it is added.\n\n"
              "At the end it says how many messages are persisted, failed and "
              "unknown; with --output as a record on stdout.  Exits with 0 "
              "when all are persisted, 76 when of some it is not known, and "
              "otherwise by the first failure.",
      .options = add_options,
      .examples = add_examples,
      .run = run_stream_add,
      .stops = true },
    { .noun = "stream",
      .verb = "tail",
      .aliases = "cat read",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@stream",
      .summary = "show messages, without a group",
      .text = "Nothing is taken from anybody.  Without --follow it ends where "
              "the stream ended when it began.\n\n"
              "On a terminal a line is position, key and body, with what a "
              "terminal could take for a command escaped.  In JSON the body is "
              "data where it is text and data_base64 otherwise.  An entry that "
              "is no message is shown with its fields and the reason.",
      .options = tail_options,
      .examples = tail_examples,
      .run = run_stream_tail,
      .looks = true,
      .stops = true },
    { .noun = "stream",
      .verb = "consume",
      .aliases = "work",
      .args = "NAME -g GROUP [--exec CMD] [-- ARGS...]",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@stream",
      .summary = "read a stream as a consumer of a group, by a program of "
                 "yours",
      .text =
          "Runs the program once for each message, its body on stdin.  What "
          "the program does with it is told by its exit code: 0 acknowledges "
          "the message, 65 gives it up, and any other is a failure, as is "
          "being killed by a signal: the message stays pending and is tried "
          "again as --backoff says, until --max-attempts.  A stream has no "
          "dead letters: what is given up is acknowledged, told with the last "
          "line that the program wrote to stderr, and stays in the "
          "stream.\n\n"
          "The environment has LEAT_STREAM, LEAT_POSITION, LEAT_ID, LEAT_KEY, "
          "LEAT_TYPE, LEAT_ATTEMPT (from 1), and LEAT_HEADER_NAME for each "
          "header, as leat-consume(1) tells.\n\n"
          "Without a program, messages are printed as 'leat stream tail' does "
          "and acknowledged.  Entries that the codec cannot read are passed "
          "over, and counted: they are acknowledged, and stay in the "
          "stream.\n\n"
          "SIGINT and SIGTERM stop reading; programs that run may end within "
          "--drain, then they are killed and their messages go to others.  A "
          "second signal ends at once.",
      .options = consume_options,
      .examples = consume_examples,
      .run = run_stream_consume,
      .stops = true,
      .rest = true },
    { .noun = "stream",
      .verb = "groups",
      .aliases = "lag",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@stream",
      .summary = "show the groups of a stream",
      .text = "'pending' is what was handed out and not acknowledged, 'lag' "
              "what was not handed out yet; the server knows it from Redis 7 "
              "on, and not after entries in between were deleted.  'consumers' "
              "counts names, of the living and the dead.",
      .options = look_options,
      .examples = groups_examples,
      .run = run_stream_groups,
      .looks = true },
    { .noun = "stream",
      .verb = "rm",
      .aliases = "remove delete",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@stream",
      .summary = "remove a stream, its messages and its groups",
      .text = "Says how much goes, and asks first on a terminal; elsewhere it "
              "needs --yes.  Who writes and reads it is not known: stop them "
              "first.  A key that is no stream stays.",
      .options = rm_options,
      .examples = rm_examples,
      .run = run_stream_rm },
    { 0 },
};
