/*
 * commands.h: what the files of the table share.
 */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

#include "cli.h"

/* A family each; noun NULL ends it. */
extern const command topic_commands[], group_commands[], dlq_commands[],
    queue_commands[], stream_commands[];

#define FORCE_OPTION(help)                                                     \
    {                                                                          \
        "force", 0, VALUE_NONE, NULL, NULL, NULL, false, false, help           \
    }

#define DRY_RUN_OPTION                                                         \
    {                                                                          \
        "dry-run", 0, VALUE_NONE, NULL, NULL, NULL, false, false,              \
            "Tell what would be done, and change nothing."                     \
    }

/* Of commands that make messages. */
#define HEADER_OPTION(help)                                                    \
    {                                                                          \
        "header", 'H', VALUE_LIST, "NAME:VALUE", NULL, NULL, false, false,     \
            help "; may be repeated."                                          \
    }

/* So many messages; its letter is always the same. */
#define COUNT_OPTION(initial, help)                                            \
    {                                                                          \
        "count", 'n', VALUE_COUNT, "N", initial, NULL, false, false, help      \
    }

/* Of commands that look: watch.c. */
#define WATCH_OPTIONS                                                          \
    { "watch", 'w',   VALUE_NONE,                                              \
      NULL,    NULL,  NULL,                                                    \
      false,   false, "Look again and again, until a signal." },               \
    {                                                                          \
        "interval", 'i', VALUE_DURATION, "TIME", "2s", NULL, false, false,     \
            "How often --watch looks."                                         \
    }

/* Of commands that run a program for each message. */
#define EXEC_OPTION                                                            \
    {                                                                          \
        "exec", 'e', VALUE_PROGRAM, "CMD", NULL, NULL, false, false,           \
            "Run this program for each message.  Its arguments stand behind "  \
            "--, and all words before that are leat's; without --exec the "    \
            "program itself stands behind --.  No shell is involved."          \
    }

/* How messages are printed: of tail, and of consume without a program. */
#define PRINTER_OPTIONS(place)                                                 \
    { "format",                                                                \
      0,                                                                       \
      VALUE_TEXT,                                                              \
      "FORMAT",                                                                \
      NULL,                                                                    \
      NULL,                                                                    \
      false,                                                                   \
      false,                                                                   \
      "Print each message like this: " place ", %I id, %k key, %y type, %d "   \
      "time, %h headers, %n size of the body, %v body, %% a percent sign; "    \
      "\\n \\t \\r \\0 \\\\ as in C." },                                       \
    {                                                                          \
        "raw", 0, VALUE_NONE, NULL, NULL, NULL, false, false,                  \
            "Print bytes as they are and whole also on a terminal; without "   \
            "--format only the bodies, a line each."                           \
    }

/* What is sent, by topic send and stream add. */
#define MESSAGE_OPTIONS(key)                                                   \
    { "key", 'k', VALUE_TEXT, "KEY", NULL, NULL, false, false, key },          \
        { "key-delimiter",                                                     \
          'K',                                                                 \
          VALUE_TEXT,                                                          \
          "TEXT",                                                              \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Each message is its key, this text, and its body." },               \
        { "null", '0',   VALUE_NONE,                                           \
          NULL,   NULL,  NULL,                                                 \
          false,  false, "Messages end with a zero byte, not a newline." },    \
        { "file",                                                              \
          'f',                                                                 \
          VALUE_FILE,                                                          \
          "FILE",                                                              \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Send the whole of this file as one message; - is stdin." },         \
        HEADER_OPTION("Give every message this header"),                       \
        { "type", 't',   VALUE_TEXT,                                           \
          "TYPE", NULL,  NULL,                                                 \
          false,  false, "The type of every message." },                       \
        { "content-type", 0,     VALUE_TEXT,                                   \
          "TYPE",         NULL,  NULL,                                         \
          false,          false, "The media type of every body." },            \
    {                                                                          \
        "max-size", 0, VALUE_COUNT, "BYTES", "1048576", NULL, false, false,    \
            "Refuse a message that is larger."                                 \
    }

#define CODEC_OPTION(words, initial, help)                                     \
    {                                                                          \
        "codec", 0, VALUE_CHOICE, "CODEC", initial, words, false, false, help  \
    }

#endif
