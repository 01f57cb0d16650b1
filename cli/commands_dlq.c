/*
 * commands_dlq.c: the commands on dead letters.
 */
#include "commands.h"

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

static const option dlq_ls_options[] = {
    FILTER_OPTIONS,
    WATCH_OPTIONS,
    COUNT_OPTION(
        NULL,
        "So many at most.  Without it, 100 on a terminal and all elsewhere."),
    { "after", 0, VALUE_TEXT, "ID", NULL, NULL, false, false,
      "Go on behind this one." },
    { "newest", 'r', VALUE_NONE, NULL, NULL, NULL, false, false,
      "The newest first." },
    CODEC,
    { 0 },
};

static const option dlq_show_options[] = {
    { "raw", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Print only the body of the message, byte for byte." },
    CODEC,
    { 0 },
};

static const option dlq_errors_options[] = {
    FILTER_OPTIONS,
    WATCH_OPTIONS,
    { "by-group", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "Count groups instead of errors." },
    CODEC,
    { 0 },
};

static const option dlq_replay_options[] = {
    ALL("All of them, or all that the options choose; asks first."),
    FILTER_OPTIONS,
    COUNT_OPTION(NULL, "So many at most, the oldest."),
    { "rate", 0, VALUE_COUNT, "N", NULL, NULL, false, false,
      "So many a second at most." },
    DRY_RUN,
    { "republish", 0, VALUE_NONE, NULL, NULL, NULL, false, false,
      "As new messages at the end of the log, for all groups, with the header "
      "replayedFrom." },
    CODEC,
    { 0 },
};

static const option dlq_rm_options[] = {
    ALL("All of them, or all that the options choose."),
    FILTER_OPTIONS,
    COUNT_OPTION(NULL, "So many at most, the oldest."),
    DRY_RUN,
    CODEC,
    { 0 },
};

static const option dlq_edit_options[] = {
    { "body", 0, VALUE_FILE, "FILE", NULL, NULL, false, false,
      "The new body is that of this file; - is stdin." },
    { "editor", 'E', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Edit the body with $VISUAL or $EDITOR; the default on a terminal." },
    { "key", 'k', VALUE_TEXT, "KEY", NULL, NULL, false, false,
      "The new key; the partition stays." },
    HEADER_OPTION("The new headers, in the place of all"),
    { "max-size", 0, VALUE_COUNT, "BYTES", "1048576", NULL, false, false,
      "Refuse a message that is larger." },
    CODEC,
    { 0 },
};

static const example dlq_ls_examples[] = {
    { "leat dlq ls orders -g billing --since 1h",
      "what died in the last hour" },
    { "leat dlq ls orders -n 20 --after 2:1700000000000-0", "the next twenty" },
    { "leat dlq ls orders -o ndjson --columns id,error", "for a program" },
    { 0 },
};

static const example dlq_show_examples[] = {
    { "leat dlq show orders 2:1700000000000-0", "all that is known of it" },
    { "leat dlq show orders 2:1700000000000-0 --raw >body",
      "only what was sent" },
    { 0 },
};

static const example dlq_errors_examples[] = {
    { "leat dlq errors orders", "what went wrong, and how often" },
    { "leat dlq errors orders --by-group", "and for whom" },
    { 0 },
};

static const example dlq_replay_examples[] = {
    { "leat dlq replay orders 2:1700000000000-0", "one" },
    { "leat dlq replay orders --all -g billing -e timeout --dry-run",
      "how many would it be?" },
    { "leat dlq replay orders --all -g billing --rate 100 --yes",
      "gently, and without a question" },
    { 0 },
};

static const example dlq_rm_examples[] = {
    { "leat dlq rm orders --all --until 7d --yes",
      "what died more than a week ago" },
    { 0 },
};

static const example dlq_edit_examples[] = {
    { "leat dlq edit orders 2:1700000000000-0", "in your editor" },
    { "jq .total=5 <old | leat dlq edit orders 2:1700000000000-0 --body -",
      "by a program" },
    { 0 },
};

const command dlq_commands[] = {
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
      .run = run_dlq_ls,
      .stops = true,
      .looks = true },
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
      .run = run_dlq_show,
      .looks = true },
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
      .run = run_dlq_errors,
      .looks = true },
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
              "Exits with 1 when some are missing or refused and with 76 when "
              "of some it is not known.",
      .options = dlq_replay_options,
      .examples = dlq_replay_examples,
      .run = run_dlq_replay,
      .stops = true },
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
      .run = run_dlq_rm,
      .stops = true },
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
      .run = run_dlq_edit,
      .stops = true },
    { 0 },
};
