/*
 * cmd_topic_send.c: leat topic send.
 */
#include "send.h"

#include <stdlib.h>

typedef struct place {
    leat_topic *topic;
    int64_t delay_ms;  /* -1: none                */
    int64_t partition; /* -1: which the key means */
} place;

static leat_code publish(sending *s, const leat_msg *m, leat_error *err)
{
    const place *p = s->handle;
    if (p->delay_ms >= 0)
        return leat_topic_publish_later(p->topic, m, p->delay_ms, on_published,
                                        s, err);
    if (p->partition >= 0)
        return leat_topic_publish_to(p->topic, (uint32_t)p->partition, m,
                                     on_published, s, err);
    return leat_topic_publish(p->topic, m, on_published, s, err);
}

static int open_topic(sending *s)
{
    cli *c = s->c;
    leat_error err = { 0 };
    int64_t timeout = value_ms(c, "timeout");
    leat_topic_opts o = { .auto_create = value_on(c, "auto-create"),
                          .partitions = (int)value_count(c, "partitions"),
                          .codec = leat_codec_find(value_text(c, "codec")),
                          .max_message = s->in.max_size * 2 + AROUND,
                          .timeout_ms = timeout ? timeout : 1,
                          .max_wait_ms = ROOM_MS,
                          .log = report_logger() };
    place *p = s->handle = grab(sizeof *p);
    p->delay_ms = value_text(c, "delay") ? value_ms(c, "delay") : -1;
    p->partition = value_text(c, "partition") ? value_count(c, "partition")
                                              : -1;
    p->topic = leat_topic_open(s->client, c->args[0], &o, &err);
    if (!p->topic)
        return topic_fail(s->client, c->args[0], &err);
    uint32_t partitions = leat_topic_partitions(p->topic);
    if (p->partition >= partitions)
        return fail(EXIT_USAGE, NULL,
                    "topic %s has no partition %lld: they are 0 to %u",
                    c->args[0], (long long)p->partition, partitions - 1);
    return 0;
}

/* What has no outcome after a while gets one by the close. */
static void close_topic(sending *s)
{
    leat_error err = { 0 };
    place *p = s->handle;
    if (p && p->topic)
        (void)leat_topic_flush(p->topic, 2 * value_ms(s->c, "timeout") + 1000,
                               &err);
    if (p)
        leat_topic_close(p->topic);
    free(p);
    s->handle = NULL;
}

static int check_words(cli *c)
{
    if (value_text(c, "delay") && value_text(c, "partition"))
        return fail(EXIT_USAGE, NULL,
                    "--delay and --partition do not go together");
    if (value_text(c, "partitions") && !value_on(c, "auto-create"))
        return fail(EXIT_USAGE, "leat topic create makes a topic",
                    "--partitions is for --auto-create");
    if (value_count(c, "partitions") > LEAT_PARTITIONS_MAX)
        return fail(EXIT_USAGE, NULL, "--partitions is at most %d",
                    LEAT_PARTITIONS_MAX);
    return 0;
}

int run_topic_send(cli *c)
{
    static const target topic = { "topic", open_topic, publish, close_topic };
    int code = check_words(c);
    return code ? code : send_messages(c, &topic);
}
