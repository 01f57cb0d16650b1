/*
 * commands_topic.c: the commands on topics, and consume.
 */
#include "commands.h"

#define PARTITIONERS "murmur2 java ring round-robin random"

/* What is kept of a topic. */
#define RETENTION_OPTIONS(forget, abandoned)                                   \
    { "max-age",                                                               \
      0,                                                                       \
      VALUE_DURATION,                                                          \
      "TIME",                                                                  \
      NULL,                                                                    \
      NULL,                                                                    \
      false,                                                                   \
      false,                                                                   \
      "Older messages may go, once every group has settled them; 0: of any "   \
      "age they stay." },                                                      \
        { "max-entries",                                                       \
          0,                                                                   \
          VALUE_NUMBER,                                                        \
          "N",                                                                 \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "What a partition has more may go, the oldest first, once every "    \
          "group has settled it; 0: any number stays." },                      \
        { "cap",                                                               \
          0,                                                                   \
          VALUE_NUMBER,                                                        \
          "N",                                                                 \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "With so many in a partition, sending to it is refused for now; 0: " \
          "never." },                                                          \
        { "lossy-maxlen",                                                      \
          0,                                                                   \
          VALUE_NUMBER,                                                        \
          "N",                                                                 \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "With more in a partition the oldest go, settled or not; 0: "        \
          "never." },                                                          \
        { "forget",                                                            \
          0,                                                                   \
          VALUE_CHOICE,                                                        \
          "WHEN",                                                              \
          forget,                                                              \
          "never all first",                                                   \
          false,                                                               \
          false,                                                               \
          "When a message goes, beside its age and number: as soon as all "    \
          "groups have settled it, the first one has, or never." },            \
        { "abandoned",                                                         \
          0,                                                                   \
          VALUE_CHOICE,                                                        \
          "HOW",                                                               \
          abandoned,                                                           \
          "pin alarm detach",                                                  \
          false,                                                               \
          false,                                                               \
          "What of a group without members for long: pin keeps its messages, " \
          "alarm also logs it, detach lets them go." },                        \
        { "abandoned-after",                                                   \
          0,                                                                   \
          VALUE_DURATION,                                                      \
          "TIME",                                                              \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "How long that is; 0: seven days." },                                \
    {                                                                          \
        "large-body", 0, VALUE_TEXT, "BYTES", NULL, NULL, false, false,        \
            "Longer bodies are kept beside the log; 0: 65536; none: all are "  \
            "in it."                                                           \
    }

static const option topic_create_options[] = {
    { "partitions", 'n', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many partitions it has, at most 16384." },
    { "partitioner", 0, VALUE_CHOICE, "NAME", "murmur2", PARTITIONERS, false,
      false,
      "How a key chooses its partition: murmur2 as Kafka's clients do, java "
      "as redis-streaming, ring by consistent hashing, round-robin, random." },
    RETENTION_OPTIONS("never", "pin"),
    { 0 },
};

static const option topic_alter_options[] = {
    RETENTION_OPTIONS(NULL, NULL),
    { 0 },
};

static const option topic_ls_options[] = { WATCH_OPTIONS, { 0 } };

static const option topic_info_options[] = {
    { "by-partition", 'p', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Print a row for each partition." },
    WATCH_OPTIONS,
    { 0 },
};

static const option topic_send_options[] = {
    MESSAGE_OPTIONS("The key of every message: messages of one key stay in "
                    "order."),
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Send to this partition, whatever the key." },
    { "delay", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "To be in the topic so much later, by the server's clock; until then "
      "they "
      "wait beside it." },
    { "auto-create", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Make the topic if there is none." },
    { "partitions", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "How many partitions --auto-create makes; without it, one." },
    CODEC_OPTION("native ce ce-json", "native",
                 "How a message is written: leat's own form, or a CloudEvent "
                 "as fields or as JSON."),
    { 0 },
};

static const option topic_tail_options[] = {
    { "follow", 'f', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Go on with what comes, until a signal." },
    { "from", 0, VALUE_TEXT, "WHERE", NULL, NULL, false, false,
      "Where to begin: start, end, a time ago such as 10m, or an id MS-SEQ.  "
      "Without it, the last ten messages." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Look at this partition only." },
    COUNT_OPTION(
        NULL,
        "The last N messages, after which --follow goes on.  With --from, end "
        "after this many."),
    PRINTER_OPTIONS("%t topic, %p partition, %i position"),
    CODEC_OPTION("auto native ce ce-json", "auto",
                 "How messages were written; auto tries leat's own form, then "
                 "CloudEvents."),
    { 0 },
};

static const option topic_rm_options[] = {
    { "id", 0, VALUE_TEXT, "ID", NULL, NULL, false, false,
      "Only the topic with this id, as 'leat topic info' shows it; another of "
      "that name stays.  For a removal that is tried again." },
    FORCE_OPTION("Also while members of its groups live."),
    DRY_RUN_OPTION,
    { 0 },
};

static const option topic_trim_options[] = {
    { "max-entries", 0, VALUE_NUMBER, "N", NULL, NULL, false, false,
      "So many stay in each partition." },
    { "older-than", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "What is older goes." },
    FORCE_OPTION("Also what groups have not settled: they lose it."),
    DRY_RUN_OPTION,
    { 0 },
};

static const option consume_options[] = {
    { "group", 'g', VALUE_GROUP, "GROUP", NULL, NULL, false, false,
      "The group to join; its members share the partitions." },
    EXEC_OPTION,
    { "concurrency", 'c', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many messages are worked on at once." },
    { "order", 0, VALUE_CHOICE, "WHAT", NULL, "partition key none", false,
      false,
      "What must not overtake what, also while one waits to be tried again: "
      "messages of a partition, of a key, or none.  As the group has it; of a "
      "new one partition." },
    { "from", 0, VALUE_TEXT, "WHERE", "start", NULL, false, false,
      "Where a new group begins: start, end, a time ago such as 10m, or an id "
      "MS-SEQ.  An old group goes on where it was." },
    { "name", 0, VALUE_TEXT, "NAME", NULL, NULL, false, false,
      "The member's name: whoever comes with the same takes the place of the "
      "one before at once." },
    { "max-attempts", 0, VALUE_NUMBER, "N", NULL, NULL, false, false,
      "How often a message is tried; then it is a dead letter.  0: without a "
      "limit.  A header maxRetries of a message goes before it.  As the group "
      "has it; of a new one 5." },
    { "backoff", 0, VALUE_TEXT, "HOW", NULL, NULL, false, false,
      "How long a message waits that is to be tried again: fixed:TIME, or "
      "exponential:TIME[..MAX], doubled with every failure.  It is any time up "
      "to that, or just that with ,nojitter behind it.  As the group has it; "
      "of a new one exponential:1s..60s." },
    { "on-failure", 0, VALUE_CHOICE, "WHAT", "retry", "retry dead", false,
      false,
      "What a program that fails means: try again, or a dead letter at once." },
    { "max-time", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "A program that runs longer is killed, with all its process group, and "
      "has failed." },
    { "until-idle", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "End when nothing came for so long." },
    COUNT_OPTION(
        NULL,
        "End when this many messages were printed or acknowledged, or became "
        "dead letters: just as many, the others stay for the next."),
    { "drain", 0, VALUE_DURATION, "TIME", "30s", NULL, false, false,
      "How long programs may go on after a signal." },
    PRINTER_OPTIONS("%t topic, %p partition, %i position"),
    CODEC_OPTION("native ce ce-json", "native", "How messages were written."),
    { 0 },
};

static const example topic_create_examples[] = {
    { "leat topic create orders --partitions 4",
      "four partitions, keys placed as Kafka's clients place them" },
    { "leat topic create events --max-age 7d --abandoned detach",
      "a week is kept, longer what a group that lives has not read" },
    { 0 },
};

static const example topic_alter_examples[] = {
    { "leat topic alter orders --max-age 7d", "a week is enough" },
    { "leat topic alter orders --cap 1000000 --max-age 0",
      "senders wait instead" },
    { 0 },
};

static const example topic_trim_examples[] = {
    { "leat topic trim orders --older-than 1d --dry-run",
      "how much would go, and who holds back the rest?" },
    { "leat topic trim orders --max-entries 0 --force --yes",
      "empty it, whoever reads it" },
    { 0 },
};

static const example topic_ls_examples[] = {
    { "leat topic ls --columns name,messages", "names and how much they hold" },
    { 0 },
};

static const example topic_info_examples[] = {
    { "leat topic info orders", "the topic as a whole" },
    { "leat topic info orders -p", "a row for each partition" },
    { 0 },
};

static const example topic_send_examples[] = {
    { "leat topic send orders hello -k ann -H source:web", "one message" },
    { "seq 1000 | leat topic send orders", "a message a line" },
    { "leat topic send orders -K , <orders.csv",
      "a message a line, the key before the first comma" },
    { "echo wake up | leat topic send alarms --delay 90s",
      "for whoever reads it in a minute and a half" },
    { "leat topic send photos --key cat --file cat.jpg -t image",
      "a whole file as one message" },
    { "find . -print0 | leat topic send files -0 --auto-create -n 4",
      "messages that may hold newlines, into a new topic" },
    { 0 },
};

static const example topic_tail_examples[] = {
    { "leat topic tail orders -f", "the last ten, and what comes" },
    { "leat topic tail orders -fn 1", "the last one, and what comes" },
    { "leat topic tail orders -f --from end -n 1", "wait for the next" },
    { "leat topic tail orders --from 10m --format '%p %i %k %v\\n'",
      "what came in the last ten minutes" },
    { "leat topic tail orders --from start -o ndjson",
      "everything, for a program" },
    { 0 },
};

static const example topic_rm_examples[] = {
    { "leat topic rm orders --yes", "without a question" },
    { "leat topic rm orders --dry-run", "would it be refused?" },
    { 0 },
};

static const example consume_examples[] = {
    { "leat consume orders -g billing --exec ./bill",
      "run './bill' for each message, its body on stdin" },
    { "leat consume orders -g billing --exec ./bill --count 5 -- --dry",
      "five messages: --count is leat's, './bill --dry' is run" },
    { "leat consume orders -g billing -c 8 --order key -- python3 bill.py",
      "eight at once, messages of one key one after another" },
    { "leat consume orders -g mail --max-attempts 3 --backoff fixed:10s "
      "--order none -e ./mail",
      "three tries ten seconds apart at most, others go on meanwhile" },
    { "leat consume orders -g peek --until-idle 2s",
      "print and acknowledge what there is" },
    { 0 },
};

const command topic_commands[] = {
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
      .options = topic_ls_options,
      .examples = topic_ls_examples,
      .run = run_topic_ls,
      .looks = true },
    { .noun = "topic",
      .verb = "info",
      .aliases = "show describe",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@topic",
      .summary = "show what a topic is and holds",
      .text = "A stream of that very name, made by another program, is shown "
              "as a topic of one partition (legacy).  Its id tells it from "
              "another topic of that name, before or after it; removing says "
              "that a removal is under way, or was cut off.",
      .options = topic_info_options,
      .examples = topic_info_examples,
      .run = run_topic_info,
      .looks = true },
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
              "known: stop them first.  When it was cut off, run it again: "
              "until then nobody makes a topic of that name.",
      .options = topic_rm_options,
      .examples = topic_rm_examples,
      .run = run_topic_rm },
    { .noun = "topic",
      .verb = "send",
      .aliases = "publish produce",
      .args = "NAME [MESSAGE]",
      .min_args = 1,
      .max_args = 2,
      .arg_words = "@topic",
      .summary = "send a message, or one a line of stdin",
      .text =
          "Without MESSAGE it reads lines and sends each, without its newline "
          "and otherwise byte for byte.  Memory is bounded, whatever comes "
          "in.  A message that is too large, or has no key where one is "
          "expected, ends the sending; the error names its line, and what "
          "came before it is sent.\n\n"
          "At the end it says how many messages are persisted, failed and "
          "unknown; with --output as a record on stdout.  Exits with 0 "
          "when all are persisted, 76 when of some it is not known, and "
          "otherwise by the first failure.",
      .options = topic_send_options,
      .examples = topic_send_examples,
      .run = run_topic_send,
      .stops = true },
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
      .run = run_topic_tail,
      .stops = true,
      .looks = true },
    { .noun = "consume",
      .aliases = "work",
      .args = "TOPIC -g GROUP [--exec CMD] [-- ARGS...]",
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
          "What is empty, holds a zero byte or is over 32 KiB is left out.  "
          "LEAT_PASSWORD, REDISCLI_AUTH and a LEAT_URL with a password are not "
          "passed on.\n\n"
          "Without a program, messages are printed as 'leat topic tail' does "
          "and acknowledged.  Entries that are no messages are counted, and "
          "dead letters at once.\n\n"
          "SIGINT and SIGTERM stop receiving; programs that run may end within "
          "--drain, then they are killed and their messages go to others.  A "
          "second signal ends at once.",
      .options = consume_options,
      .examples = consume_examples,
      .run = run_consume,
      .stops = true,
      .rest = true },
    { 0 },
};
