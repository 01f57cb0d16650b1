/*
 * stream.c: the handle, from which sources and sinks are opened.
 *
 *   <name>   stream   the messages; its groups are the server's own
 *
 * Leat keeps no other key for a plain stream: any program can read and write
 * it, and a crash leaves nothing behind but pending entries and, at worst, the
 * name of a consumer, which the others remove once nothing is pending there.
 */
#include "stream/stream.h"
#include "base/mem.h"

enum { NAME_MAX_BYTES = 512 };

leat_stream *leat_stream_open(leat_client *c, const char *name,
                              const leat_stream_opts *opts, leat_error *err)
{
    if (!name || !name[0] || strlen(name) > NAME_MAX_BYTES) {
        leat__fail(err, LEAT_EINVAL,
                   "a stream needs a name, of at most %d bytes",
                   NAME_MAX_BYTES);
        return NULL;
    }
    leat_stream *s = leat__zalloc(sizeof *s, err);
    if (!s)
        return NULL;
    s->client = c;
    s->codec = opts && opts->codec ? opts->codec : &leat_codec_native;
    s->log = opts ? opts->log : (leat_logger){ 0 };
    s->metrics = opts ? opts->metrics : NULL;
    atomic_store(&s->refs, 1);
    s->name = leat__strdup(name, err);
    if (!s->name) {
        leat__free(s);
        return NULL;
    }
    return s;
}

void leat__stream_keep(leat_stream *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void leat__stream_drop(leat_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    leat__free(s->name);
    leat__free(s);
}

void leat_stream_close(leat_stream *s)
{
    if (s)
        leat__stream_drop(s);
}

const char *leat_stream_name(const leat_stream *s)
{
    return s->name;
}
