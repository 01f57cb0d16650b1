/*
 * ping.c: open a client, ask for one thing, say what happened.
 *
 *   cc ping.c $(pkg-config --cflags --libs leat) -o ping
 *   ./ping redis://localhost        or: ./ping embedded:
 */
#include <leat/leat.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    leat_error err;
    leat_reply *reply;
    leat_client *c = leat_client_open(argc > 1 ? argv[1] : "embedded:", NULL,
                                      &err);
    if (!c) {
        fprintf(stderr, "ping: %s\n", err.msg);
        return 1;
    }
    leat_call_opts again = { .idempotent = true, .timeout_ms = 10000 };
    leat_code rc = leat_client_call(c, LEAT_ARGS(leat_str("PING")), &again,
                                    &reply, &err);
    if (rc == LEAT_OK) {
        leat_bytes text = leat_reply_bytes(reply);
        printf("%s answers %.*s\n", leat_client_url(c), (int)text.n,
               (const char *)text.p);
        leat_reply_free(reply);
    } else {
        fprintf(stderr, "ping: %s\n", err.msg);
    }
    leat_client_close(c);
    return rc == LEAT_OK ? 0 : 1;
}
