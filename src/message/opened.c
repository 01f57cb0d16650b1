/* opened.c: entries into messages, by trial. */
#include "message/opened.h"
#include "base/mem.h"
#include "message/fields.h"

#include <string.h>

void leat__opened_release(leat__opened *o)
{
    leat_fields_free(o->made);
    leat__free(o->pairs);
    leat__free(o->headers);
    *o = (leat__opened){ .codec = o->codec };
}

leat_bytes *leat__opened_room(leat__opened *o, size_t count, leat_error *err)
{
    if (count >= o->room) {
        size_t room = count < 8 ? 8 : count + 1;
        leat_bytes *p = leat__calloc(room, 2 * sizeof *p, err);
        if (!p)
            return NULL;
        leat__free(o->pairs);
        o->pairs = p;
        o->room = room;
    }
    o->fields = count;
    return o->pairs;
}

static leat_code decode_by(leat__opened *o, const leat_codec *codec,
                           leat_error *err)
{
    leat_fields_clear(o->made);
    leat_bytes *to = leat__fields_begin(o->made, o->fields, err);
    if (!to)
        return LEAT_ENOMEM;
    memcpy(to, o->pairs, o->fields * 2 * sizeof *to);
    o->by = codec;
    return codec->decode(codec, o->made, &o->msg, &o->count, err);
}

static leat_code show_raw(leat__opened *o, leat_error *err)
{
    if (o->fields >= o->header_room) {
        leat_header *h = leat__calloc(o->fields + 1, sizeof *h, err);
        if (!h)
            return LEAT_ENOMEM;
        leat__free(o->headers);
        o->headers = h;
        o->header_room = o->fields + 1;
    }
    for (size_t i = 0; i < o->fields; i++)
        o->headers[i] = (leat_header){ o->pairs[2 * i], o->pairs[2 * i + 1] };
    o->raw = (leat_msg){ .headers = o->headers, .header_count = o->fields };
    o->msg = &o->raw;
    o->count = 1;
    o->by = NULL;
    return LEAT_OK;
}

leat_code leat__opened_decode(leat__opened *o, leat_error *err)
{
    leat_error ignored = { 0 };
    const leat_codec *first = o->codec ? o->codec : &leat_codec_native;
    if (!o->made)
        o->made = leat_fields_new(err);
    if (!o->made)
        return LEAT_ENOMEM;
    leat_code code = decode_by(o, first, &o->why);
    if (code == LEAT_EDECODE && !o->codec &&
        decode_by(o, &leat_codec_ce_binary, &ignored) == LEAT_OK)
        code = LEAT_OK;
    if (code == LEAT_EDECODE)
        return show_raw(o, err);
    if (code != LEAT_OK && err)
        *err = o->why;
    o->why = (leat_error){ 0 };
    return code;
}

leat_code leat__opened_raw(leat__opened *o, const char *why, leat_error *err)
{
    (void)leat__fail(&o->why, LEAT_EDECODE, "%s", why);
    return show_raw(o, err);
}
