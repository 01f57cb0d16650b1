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

#endif
