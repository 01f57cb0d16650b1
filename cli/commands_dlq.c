/*
 * commands_dlq.c: options and examples of dead letters.  The commands
 * themselves stand in commands.c.
 */
#include "cli.h"

/* Which ones. */
#define FILTER_OPTIONS                                                         \
    { "group", 'g',   VALUE_GROUP,           "GROUP", NULL, NULL,              \
      false,   false, "Those of this group." },                                \
        { "error",                                                             \
          'e',                                                                 \
          VALUE_TEXT,                                                          \
          "TEXT",                                                              \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Those in whose error this text is, in big or small letters." },     \
        { "key", 'k',   VALUE_TEXT,                                            \
          "KEY", NULL,  NULL,                                                  \
          false, false, "Those whose message has this key." },                 \
        { "since",                                                             \
          0,                                                                   \
          VALUE_TEXT,                                                          \
          "TIME",                                                              \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Those that died then or later: a time ago such as 10m, a time as "  \
          "leat prints it, or @ and milliseconds since 1970." },               \
        { "until", 0,     VALUE_TEXT,                                          \
          "TIME",  NULL,  NULL,                                                \
          false,   false, "Those that died before then." },                    \
    {                                                                          \
        "partition", 'p', VALUE_NUMBER, "N", NULL, NULL, false, false,         \
            "Those of this partition."                                         \
    }

#define CODEC                                                                  \
    {                                                                          \
        "codec", 0, VALUE_CHOICE, "CODEC", "auto", "auto native ce ce-json",   \
            false, false,                                                      \
            "How messages were written; auto tries leat's own form, then "     \
            "CloudEvents."                                                     \
    }

#define ALL(what)                                                              \
    {                                                                          \
        "all", 'a', VALUE_NONE, NULL, NULL, NULL, false, false, what           \
    }

#define DRY_RUN                                                                \
    {                                                                          \
        "dry-run", 0, VALUE_NONE, NULL, NULL, NULL, false, false,              \
            "Only tell what would be done."                                    \
    }

const option dlq_ls_options[] = {
    FILTER_OPTIONS,
    { "limit", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "So many at most.  Without it, 100 on a terminal and all elsewhere." },
    { "after", 0, VALUE_TEXT, "ID", NULL, NULL, false, false,
      "Go on behind this one." },
    { "newest", 'r', VALUE_NONE, NULL, NULL, NULL, false, false,
      "The newest first." },
    CODEC,
    { 0 },
};

const option dlq_show_options[] = {
    { "raw", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Print only the body of the message, byte for byte." },
    CODEC,
    { 0 },
};

const option dlq_errors_options[] = {
    FILTER_OPTIONS,
    { "by-group", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Count groups instead of errors." },
    CODEC,
    { 0 },
};

const option dlq_replay_options[] = {
    ALL("All of them, or all that the options choose; asks first."),
    FILTER_OPTIONS,
    { "limit", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "So many at most, the oldest." },
    { "rate", 0, VALUE_COUNT, "N", NULL, NULL, false, false,
      "So many a second at most." },
    DRY_RUN,
    { "republish", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "As new messages at the end of the log, for all groups, with the header "
      "replayedFrom." },
    CODEC,
    { 0 },
};

const option dlq_rm_options[] = {
    ALL("All of them, or all that the options choose."),
    FILTER_OPTIONS,
    { "limit", 'n', VALUE_COUNT, "N", NULL, NULL, false, false,
      "So many at most, the oldest." },
    DRY_RUN,
    CODEC,
    { 0 },
};

const option dlq_edit_options[] = {
    { "body", 0, VALUE_FILE, "FILE", NULL, NULL, false, false,
      "The new body is that of this file; - is stdin." },
    { "editor", 'E', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Edit the body with $VISUAL or $EDITOR; the default on a terminal." },
    { "key", 'k', VALUE_TEXT, "KEY", NULL, NULL, false, false,
      "The new key; the partition stays." },
    { "header", 'H', VALUE_LIST, "NAME:VALUE", NULL, NULL, false, false,
      "The new headers, in the place of all; may be repeated." },
    { "max-size", 0, VALUE_COUNT, "BYTES", "1048576", NULL, false, false,
      "Refuse a message that is larger." },
    CODEC,
    { 0 },
};

const example dlq_ls_examples[] = {
    { "leat dlq ls orders -g billing --since 1h",
      "what died in the last hour" },
    { "leat dlq ls orders -n 20 --after 2:1700000000000-0", "the next twenty" },
    { "leat dlq ls orders -o ndjson --columns id,error", "for a program" },
    { 0 },
};

const example dlq_show_examples[] = {
    { "leat dlq show orders 2:1700000000000-0", "all that is known of it" },
    { "leat dlq show orders 2:1700000000000-0 --raw >body",
      "only what was sent" },
    { 0 },
};

const example dlq_errors_examples[] = {
    { "leat dlq errors orders", "what went wrong, and how often" },
    { "leat dlq errors orders --by-group", "and for whom" },
    { 0 },
};

const example dlq_replay_examples[] = {
    { "leat dlq replay orders 2:1700000000000-0", "one" },
    { "leat dlq replay orders --all -g billing -e timeout --dry-run",
      "how many would it be?" },
    { "leat dlq replay orders --all -g billing --rate 100 --yes",
      "gently, and without a question" },
    { 0 },
};

const example dlq_rm_examples[] = {
    { "leat dlq rm orders --all --until 7d --yes",
      "what died more than a week ago" },
    { 0 },
};

const example dlq_edit_examples[] = {
    { "leat dlq edit orders 2:1700000000000-0", "in your editor" },
    { "jq .total=5 <old | leat dlq edit orders 2:1700000000000-0 --body -",
      "by a program" },
    { 0 },
};
