/*
 * commands_topic.c: options and examples of topics, groups and consume.  The
 * commands themselves stand in commands.c.
 */
#include "cli.h"

#define PARTITIONERS "murmur2 java ring round-robin random"

/* How messages are printed: of tail, and of consume without a program. */
#define PRINTER_OPTIONS                                                        \
    { "format",                                                                \
      0,                                                                       \
      VALUE_TEXT,                                                              \
      "FORMAT",                                                                \
      NULL,                                                                    \
      NULL,                                                                    \
      false,                                                                   \
      false,                                                                   \
      "Print each message like this: %t topic, %p partition, %i position, %I " \
      "id, %k key, %y type, %d time, %h headers, %n size of the body, %v "     \
      "body, %% a percent sign; \\n \\t \\r \\0 \\\\ as in C." },              \
    {                                                                          \
        "raw", 0, VALUE_NONE, NULL, NULL, NULL, false, false,                  \
            "Print bytes as they are also on a terminal; without --format "    \
            "only "                                                            \
            "the bodies, a line each."                                         \
    }

#define CODEC_OPTION(words, initial, help)                                     \
    {                                                                          \
        "codec", 0, VALUE_CHOICE, "CODEC", initial, words, false, false, help  \
    }

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

const option topic_create_options[] = {
    { "partitions", 'n', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many partitions it has, at most 16384." },
    { "partitioner", 0, VALUE_CHOICE, "NAME", "murmur2", PARTITIONERS, false,
      false,
      "How a key chooses its partition: murmur2 as Kafka's clients do, java "
      "as redis-streaming, ring by consistent hashing, round-robin, random." },
    RETENTION_OPTIONS("never", "pin"),
    { 0 },
};

const option topic_alter_options[] = {
    RETENTION_OPTIONS(NULL, NULL),
    { 0 },
};

const option topic_info_options[] = {
    { "by-partition", 'p', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Print a row for each partition." },
    { 0 },
};

const option topic_send_options[] = {
    { "key", 'k', VALUE_TEXT, "KEY", NULL, NULL, false, false,
      "The key of every message: messages of one key stay in order." },
    { "key-delimiter", 'K', VALUE_TEXT, "TEXT", NULL, NULL, false, false,
      "Each message is its key, this text, and its body." },
    { "null", '0', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Messages end with a zero byte instead of a newline." },
    { "file", 'f', VALUE_FILE, "FILE", NULL, NULL, false, false,
      "Send the whole of this file as one message; - is stdin." },
    { "header", 'H', VALUE_LIST, "NAME:VALUE", NULL, NULL, false, false,
      "Give every message this header; may be repeated." },
    { "type", 't', VALUE_TEXT, "TYPE", NULL, NULL, false, false,
      "The type of every message." },
    { "content-type", 0, VALUE_TEXT, "TYPE", NULL, NULL, false, false,
      "The media type of every body." },
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
    { "max-size", 0, VALUE_COUNT, "BYTES", "1048576", NULL, false, false,
      "Refuse a message that is larger." },
    CODEC_OPTION("native ce ce-json", "native",
                 "How a message is written: leat's own form, or a CloudEvent "
                 "as fields or as JSON."),
    { 0 },
};

const option topic_tail_options[] = {
    { "follow", 'f', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Go on with what comes, until a signal." },
    { "from", 0, VALUE_TEXT, "WHERE", NULL, NULL, false, false,
      "Where to begin: start, end, a time ago such as 10m, or an id MS-SEQ.  "
      "Without it, the last ten messages." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Look at this partition only." },
    { "count", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "End after this many messages.  Without --from, the last N." },
    PRINTER_OPTIONS,
    CODEC_OPTION("auto native ce ce-json", "auto",
                 "How messages were written; auto tries leat's own form, then "
                 "CloudEvents."),
    { 0 },
};

const option group_lag_options[] = {
    { "watch", 'w', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Look again and again, until a signal." },
    { "interval", 'i', VALUE_DURATION, "TIME", "2s", NULL, false, false,
      "How often --watch looks." },
    { 0 },
};

#define FORCE_OPTION(help)                                                     \
    {                                                                          \
        "force", 0, VALUE_NONE, NULL, NULL, NULL, false, false, help           \
    }

#define DRY_RUN_OPTION                                                         \
    {                                                                          \
        "dry-run", 0, VALUE_NONE, NULL, NULL, NULL, false, false,              \
            "Tell what would be done, and change nothing."                     \
    }

const option topic_rm_options[] = {
    FORCE_OPTION("Also while members of its groups live."),
    DRY_RUN_OPTION,
    { 0 },
};

const option topic_trim_options[] = {
    { "max-entries", 0, VALUE_NUMBER, "N", NULL, NULL, false, false,
      "So many stay in each partition." },
    { "older-than", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "What is older goes." },
    FORCE_OPTION("Also what groups have not settled: they lose it."),
    DRY_RUN_OPTION,
    { 0 },
};

const option group_seek_options[] = {
    { "to", 0, VALUE_TEXT, "WHERE", NULL, NULL, false, false,
      "Where to read on: start, end, a time ago such as 10m, a time such as "
      "2026-01-31T12:00:00Z, which is local without a zone, or @MS since 1970, "
      "or an id MS-SEQ: that message comes next, or the first after it." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Only this partition." },
    { "drop", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Forget what is put by for a retry or parked behind it; without, it "
      "comes as well." },
    FORCE_OPTION("Also while members live: what they have in hand is stale, "
                 "and they go on from there."),
    DRY_RUN_OPTION,
    { 0 },
};

const option group_rm_options[] = {
    { "dead-letters", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Remove its dead letters, too." },
    FORCE_OPTION("Also while members live; those that go on make the group "
                 "anew."),
    DRY_RUN_OPTION,
    { 0 },
};

const option group_pending_options[] = {
    { "sort", 0, VALUE_CHOICE, "ORDER", "age", "age attempts position", false,
      false,
      "The oldest first, the most attempts first, or by partition and "
      "position." },
    { "limit", 'n', VALUE_COUNT, "N", "100", NULL, false, false,
      "How many to show, at most 10000." },
    { "after", 0, VALUE_TEXT, "TEXT", NULL, NULL, false, false,
      "Go on after a page, as the page before it says." },
    { "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "Only this partition." },
    { 0 },
};

const option consume_options[] = {
    { "group", 'g', VALUE_GROUP, "GROUP", NULL, NULL, false, false,
      "The group to join; its members share the partitions." },
    { "exec", 'e', VALUE_REST, "CMD", NULL, NULL, false, false,
      "Run this program for each message; all words behind it are its "
      "arguments.  No shell is involved." },
    { "concurrency", 'c', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many messages are worked on at once." },
    { "order", 0, VALUE_CHOICE, "WHAT", "partition", "partition key none",
      false, false,
      "What must not overtake what, also while one waits to be tried again: "
      "messages of a partition, of a key, or none." },
    { "from", 0, VALUE_TEXT, "WHERE", "start", NULL, false, false,
      "Where a new group begins: start, end, a time ago such as 10m, or an id "
      "MS-SEQ.  An old group goes on where it was." },
    { "name", 0, VALUE_TEXT, "NAME", NULL, NULL, false, false,
      "The member's name: whoever comes with the same takes the place of the "
      "one before at once." },
    { "max-attempts", 0, VALUE_NUMBER, "N", "5", NULL, false, false,
      "How often a message is tried; then it is a dead letter.  0: without a "
      "limit.  A header maxRetries of a message goes before it." },
    { "backoff", 0, VALUE_TEXT, "HOW", "exponential:1s..60s", NULL, false,
      false,
      "How long a message waits that is to be tried again: fixed:TIME, or "
      "exponential:TIME[..MAX], doubled with every failure.  It is any time up "
      "to that, or just that with ,nojitter behind it." },
    { "on-failure", 0, VALUE_CHOICE, "WHAT", "retry", "retry dead", false,
      false,
      "What a program that fails means: try again, or a dead letter at once." },
    { "max-time", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "A program that runs longer is killed, with all its process group, and "
      "has failed." },
    { "until-idle", 0, VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "End when nothing came for so long." },
    { "count", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "End after this many messages were printed or acknowledged, or became "
      "dead letters." },
    { "drain", 0, VALUE_DURATION, "TIME", "30s", NULL, false, false,
      "How long programs may go on after a signal." },
    PRINTER_OPTIONS,
    CODEC_OPTION("native ce ce-json", "native", "How messages were written."),
    { 0 },
};

const example topic_create_examples[] = {
    { "leat topic create orders --partitions 4",
      "four partitions, keys placed as Kafka's clients place them" },
    { "leat topic create events --max-age 7d --abandoned detach",
      "a week is kept, longer what a group that lives has not read" },
    { 0 },
};

const example topic_alter_examples[] = {
    { "leat topic alter orders --max-age 7d", "a week is enough" },
    { "leat topic alter orders --cap 1000000 --max-age 0",
      "senders wait instead" },
    { 0 },
};

const example topic_trim_examples[] = {
    { "leat topic trim orders --older-than 1d --dry-run",
      "how much would go, and who holds back the rest?" },
    { "leat topic trim orders --max-entries 0 --force --yes",
      "empty it, whoever reads it" },
    { 0 },
};

const example topic_ls_examples[] = {
    { "leat topic ls --columns name,messages", "names and how much they hold" },
    { 0 },
};

const example topic_info_examples[] = {
    { "leat topic info orders", "the topic as a whole" },
    { "leat topic info orders -p", "a row for each partition" },
    { 0 },
};

const example topic_send_examples[] = {
    { "echo hello | leat topic send orders", "one message" },
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

const example topic_tail_examples[] = {
    { "leat topic tail orders -f", "the last ten, and what comes" },
    { "leat topic tail orders --from 10m --format '%p %i %k %v\\n'",
      "what came in the last ten minutes" },
    { "leat topic tail orders --from start -o ndjson",
      "everything, for a program" },
    { 0 },
};

const example topic_rm_examples[] = {
    { "leat topic rm orders --yes", "without a question" },
    { "leat topic rm orders --dry-run", "would it be refused?" },
    { 0 },
};

const example group_lag_examples[] = {
    { "leat group lag orders billing --watch", "a table that follows" },
    { "leat group lag orders billing -o json", "for a program" },
    { 0 },
};

const example group_seek_examples[] = {
    { "leat group seek orders billing --to 2h --dry-run",
      "how many would come again?" },
    { "leat group seek orders billing --to end --yes", "skip all there is" },
    { 0 },
};

const example group_rm_examples[] = {
    { "leat group rm orders billing --yes", "without a question" },
    { 0 },
};

const example group_pending_examples[] = {
    { "leat group pending orders billing --sort attempts -n 10",
      "those that fail most often" },
    { "leat group pending orders billing -o ndjson", "for a program" },
    { 0 },
};

const example consume_examples[] = {
    { "leat consume orders -g billing --exec ./bill --quiet",
      "run './bill --quiet' for each message, its body on stdin" },
    { "leat consume orders -g billing -c 8 --order key -- python3 bill.py",
      "eight at once, messages of one key one after another" },
    { "leat consume orders -g mail --max-attempts 3 --backoff fixed:10s "
      "--order none -e ./mail",
      "three tries ten seconds apart at most, others go on meanwhile" },
    { "leat consume orders -g peek --until-idle 2s",
      "print and acknowledge what there is" },
    { 0 },
};
