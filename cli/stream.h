/*
 * stream.h: what the commands on plain streams share.
 */
#ifndef LEAT_CLI_STREAM_H
#define LEAT_CLI_STREAM_H

#include "cli.h"

/* Say why a call on this stream failed; one that is not there gets a hint of
 * those that are. */
int stream_fail(leat_client *client, const char *name, const leat_error *err);

/* A partition of a topic is a stream, and the topic's: 0, or an exit code. */
int stream_refuse_own(cli *c);

/* The codec of that name, of the library's or "fields"; NULL for "auto". */
const leat_codec *codec_get(const char *name);

#endif
