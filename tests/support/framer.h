/*
 * framer.h: where does a RESP frame end?
 *
 * Just enough RESP2 and RESP3 for the rigs to count frames and to know a
 * command's name; written apart from the library's parser, so that the two
 * cannot share a mistake.  Pure: bytes in, state out.  A command frame is an
 * array of bulks or an inline line.  After bytes that are no RESP the rest of
 * the stream is one frame without an end.
 */
#ifndef SUPPORT_FRAMER_H
#define SUPPORT_FRAMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct framer {
    bool commands; /* set before use: frames are commands, not replies */
    bool over;     /* the frame is complete                           */
    bool named;    /* name is complete                                */
    bool lost;     /* no RESP                                         */
    char type;     /* first byte of the frame                         */
    char name[48]; /* of the command, as sent                         */
    /* inside */
    uint64_t missing; /* elements until the end                       */
    uint64_t skip;    /* bytes of a bulk with its CRLF until its end  */
    size_t name_len;
    size_t name_left;
    size_t line_len;
    char line[32];
} framer;

/* Make ready for the first byte of a frame. */
void framer_begin(framer *f);

/* Look at the next n bytes.  Returns how many belong to this frame: n, or
 * fewer when the frame ended (over is then set). */
size_t framer_scan(framer *f, const char *p, size_t n);

#endif
