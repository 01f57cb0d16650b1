/*
 * commands.h: what the files of the table share.
 */
#ifndef LEAT_CLI_COMMANDS_H
#define LEAT_CLI_COMMANDS_H

#include "cli.h"

/* A family each; noun NULL ends it. */
extern const command topic_commands[], group_commands[], dlq_commands[],
    queue_commands[];

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

#endif
