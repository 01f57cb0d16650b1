/*
 * commands_queue.c: the commands on queues.
 */
#include "commands.h"

#define NAMESPACE                                                              \
    {                                                                          \
        "namespace", 'N', VALUE_TEXT, "NAME", NULL, NULL, false, false,        \
            "The prefix of the queues' keys; without it, that of the "         \
            "profile: leat."                                                   \
    }

#define DEAD(help)                                                             \
    {                                                                          \
        "dead", 0, VALUE_NONE, NULL, NULL, NULL, false, false, help            \
    }

#define SWITCH(name, help)                                                     \
    {                                                                          \
        name, 0, VALUE_NONE, NULL, NULL, NULL, false, false, help              \
    }

#define TIME(name, initial, help)                                              \
    {                                                                          \
        name, 0, VALUE_DURATION, "TIME", initial, NULL, false, false, help     \
    }

/* Of all that work on one queue. */
#define WHOSE                                                                  \
    NAMESPACE,                                                                 \
    {                                                                          \
        "profile", 0, VALUE_CHOICE, "NAME", "native", "native redowl", false,  \
            false,                                                             \
            "Whose keys: leat's own, or those of redowl, for queues that are " \
            "shared with Go programs; these keep no settings, and need not "   \
            "be made."                                                         \
    }

/* What is kept with a queue; `none` says what 0 means. */
#define SETTINGS(none)                                                         \
    TIME("visibility", NULL,                                                   \
         "How long a received message is hidden from others, at most 12h; "    \
         "where nothing is said, 30s."),                                       \
        { "max-receives",                                                      \
          'r',                                                                 \
          VALUE_NUMBER,                                                        \
          "N",                                                                 \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "A message that was received so often is a dead letter; 0: never; "  \
          "where nothing is said, 10." },                                      \
        TIME("delay", NULL,                                                    \
             "Messages are hidden so long after they were sent; each may say " \
             "its own." none),                                                 \
        TIME("ttl", NULL,                                                      \
             "Older messages are dropped, and counted; 0, the default: "       \
             "never."),                                                        \
        { "max-size",                                                          \
          0,                                                                   \
          VALUE_NUMBER,                                                        \
          "BYTES",                                                             \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Larger messages are refused, headers counted; where nothing is "    \
          "said, 1048576." },                                                  \
        SWITCH("content-dedup",                                                \
               "A message with the body of one sent before is that one."),     \
        TIME("dedup-window", NULL,                                             \
             "How long dedup ids are remembered; where nothing is said, 5m."), \
        { "dead-queue",                                                        \
          0,                                                                   \
          VALUE_QUEUE,                                                         \
          "QUEUE",                                                             \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "Move dead letters to this queue, instead of keeping them." },       \
        { "backoff",                                                           \
          0,                                                                   \
          VALUE_TEXT,                                                          \
          "HOW",                                                               \
          NULL,                                                                \
          NULL,                                                                \
          false,                                                               \
          false,                                                               \
          "How long a message waits that failed, where nobody says: "          \
          "fixed:TIME, or exponential:TIME[..MAX], and ,nojitter behind it; "  \
          "none: not at all; where nothing is said, exponential:1s..60s." },   \
        SWITCH("durable-events",                                               \
               "Keep the last 10,000 events, for watch --durable.")

/* How programs are run, of receive and pool. */
#define PROGRAM                                                                \
    EXEC_OPTION,                                                               \
        TIME("retry-delay", NULL,                                              \
             "A message whose program failed is received again after so "      \
             "long; without it, when its queue's backoff says."),              \
        TIME("max-time", NULL, "Kill a program that runs longer."),            \
        TIME("drain", "30s", "How long programs may go on after a signal.")

#define PRINTING                                                               \
    { "format",                                                                \
      0,                                                                       \
      VALUE_TEXT,                                                              \
      "FORMAT",                                                                \
      NULL,                                                                    \
      NULL,                                                                    \
      false,                                                                   \
      false,                                                                   \
      "Print each message like this: %r receipt, %I id, %c receives, %s when " \
      "it was sent, %e reason of a dead letter, %q queue, %g message group, "  \
      "%k key, %y type, %d time, %h headers, %n size of the body, %v "         \
      "body, %% a percent sign; \\n \\t \\r \\0 \\\\ as in C." },              \
        SWITCH("raw", "Print bytes as they are and whole also on a terminal; " \
                      "without --format only the bodies, a line each.")

static const option queue_create_options[] = {
    NAMESPACE,
    SETTINGS(""),
    SWITCH("fifo", "First in, first out, strictly, in each message group.  It "
                   "cannot be changed afterwards."),
    { 0 },
};

static const option queue_alter_options[] = {
    NAMESPACE,
    SETTINGS("  0: not at all."),
    SWITCH("no-dead-queue", "Keep dead letters in the queue itself."),
    { 0 },
};

static const option queue_ls_options[] = { WHOSE, WATCH_OPTIONS, { 0 } };
static const option queue_pause_options[] = { NAMESPACE, { 0 } };

static const option queue_stats_options[] = {
    WHOSE,
    WATCH_OPTIONS,
    { 0 },
};

static const option queue_send_options[] = {
    WHOSE,
    TIME("delay", NULL,
         "Hide every message so long before it can be received; 0: not at "
         "all, whatever the queue says."),
    { "group", 'g', VALUE_TEXT, "GROUP", NULL, NULL, false, false,
      "The message group, of a FIFO queue: its messages are received one "
      "after another." },
    { "group-delimiter", 'G', VALUE_TEXT, "TEXT", NULL, NULL, false, false,
      "Each line is its message group, this text, and its body." },
    { "dedup", 'd', VALUE_TEXT, "ID", NULL, NULL, false, false,
      "A message with the dedup id of one sent before, within the queue's "
      "window, is not sent again." },
    { "key", 'k', VALUE_TEXT, "KEY", NULL, NULL, false, false,
      "The key of every message." },
    HEADER_OPTION("Give every message this header"),
    { "type", 't', VALUE_TEXT, "TYPE", NULL, NULL, false, false,
      "The type of every message." },
    { "content-type", 0, VALUE_TEXT, "TYPE", NULL, NULL, false, false,
      "The media type of every body." },
    { "null", '0', VALUE_NONE, NULL, NULL, NULL, false, false,
      "Messages end with a zero byte instead of a newline." },
    { "file", 'f', VALUE_FILE, "FILE", NULL, NULL, false, false,
      "Send the whole of this file as one message; - is stdin." },
    { "batch", 'n', VALUE_COUNT, "N", "100", NULL, false, false,
      "Send up to this many lines at once, at most 1000; lines that have not "
      "come yet are not waited for." },
    SWITCH("auto-create", "Make the queue if there is none."),
    { 0 },
};

static const option queue_receive_options[] = {
    WHOSE,
    COUNT_OPTION(
        NULL,
        "Receive at most this many, up to 1000.  Without it, one; with --exec "
        "without a limit."),
    { "wait", 'w', VALUE_DURATION, "TIME", NULL, NULL, false, false,
      "Wait up to this long for a message.  Without it, not at all; with "
      "--exec until a signal." },
    TIME("visibility", NULL,
         "Hide what is received so long, instead of as long as the queue "
         "says."),
    { "max-receives", 'r', VALUE_COUNT, "N", NULL, NULL, false, false,
      "Of a queue of redowl, which keeps no such setting: what was received so "
      "often is a dead letter." },
    DEAD("Receive dead letters; they are hidden as others are."),
    SWITCH("ack", "Acknowledge at once what was printed."),
    PROGRAM,
    { "concurrency", 'c', VALUE_COUNT, "N", "1", NULL, false, false,
      "How many programs run at once." },
    PRINTING,
    { 0 },
};

static const option queue_ack_options[] = { WHOSE, { 0 } };
static const option queue_change_options[] = { WHOSE, { 0 } };

static const option queue_reject_options[] = {
    WHOSE,
    { "reason", 0, VALUE_TEXT, "TEXT", NULL, NULL, false, false,
      "Why; kept with the dead letter." },
    { 0 },
};

static const option queue_peek_options[] = {
    WHOSE,
    COUNT_OPTION("10", "Show at most this many, up to 1000."),
    DEAD("Look at the dead letters."),
    PRINTING,
    { 0 },
};

static const option queue_redrive_options[] = {
    WHOSE,
    COUNT_OPTION(NULL,
                 "At most this many; without it, all that are there now."),
    { "rate", 0, VALUE_COUNT, "N", NULL, NULL, false, false,
      "At most this many a second." },
    SWITCH("dry-run", "Only tell how many it would be."),
    { 0 },
};

static const option queue_purge_options[] = {
    WHOSE,
    DEAD("Drop the dead letters, and nothing else."),
    SWITCH("dry-run", "Only tell how many it would be."),
    { 0 },
};

static const option queue_rm_options[] = {
    WHOSE,
    SWITCH("dry-run", "Only tell what would go."),
    { 0 },
};

static const option queue_expire_options[] = {
    WHOSE,
    COUNT_OPTION("1000", "At most this many."),
    { 0 },
};

static const option queue_watch_options[] = {
    WHOSE,
    SWITCH("durable",
           "Read the events that the queue keeps, and miss none of them."),
    COUNT_OPTION(NULL, "End after this many events."),
    { 0 },
};

static const option queue_pool_options[] = {
    WHOSE,
    PROGRAM,
    { "workers", 'c', VALUE_COUNT, "N", "10", NULL, false, false,
      "How many programs run at once." },
    { "min-workers", 0, VALUE_NUMBER, "N", "0", NULL, false, false,
      "Threads that stay when there is nothing to do." },
    { "queue-workers", 0, VALUE_COUNT, "N", "1", NULL, false, false,
      "How many of them work on one queue at once, in all pools together.  "
      "With more than one its messages are not handled in order." },
    TIME("visibility", NULL,
         "Hide what is received so long, instead of as long as its queue "
         "says."),
    { "max-receives", 'r', VALUE_NUMBER, "N", NULL, NULL, false, false,
      "With --profile redowl: a message that was received so often is a dead "
      "letter; 0, the default: never.  Other queues have their own." },
    SWITCH("go-on", "A queue does not wait for a message whose program failed: "
                    "those behind it overtake it."),
    COUNT_OPTION(NULL, "End after this many messages."),
    TIME("until-idle", NULL,
         "End when nothing came for so long; what is delayed longer stays."),
    { 0 },
};

static const example queue_create_examples[] = {
    { "leat queue create jobs -r 5", "five receives, then a dead letter" },
    { "leat queue create moves --fifo --content-dedup --ttl 1d",
      "in order, each once, and not for ever" },
    { 0 },
};

static const example queue_alter_examples[] = {
    { "leat queue alter jobs --visibility 5m", "slow workers" },
    { "leat queue alter jobs --max-receives 0", "never give one up" },
    { 0 },
};

static const example queue_pause_examples[] = {
    { "leat queue pause jobs", "while its database is away" },
    { 0 },
};

static const example queue_resume_examples[] = {
    { "leat queue resume jobs", "whoever waits is woken" },
    { 0 },
};

static const example queue_ls_examples[] = {
    { "leat queue ls --columns name,visible,dead", "what there is to do" },
    { "leat queue ls -N game", "those of another namespace" },
    { 0 },
};

static const example queue_stats_examples[] = {
    { "leat queue stats jobs --watch", "figures that follow" },
    { "leat queue stats jobs -o json", "for a program" },
    { 0 },
};

static const example queue_send_examples[] = {
    { "leat queue send jobs 'resize 17.jpg' -H user:ann", "one message" },
    { "seq 100000 | leat queue send jobs -n 1000", "a message a line" },
    { "leat queue send mails --delay 10m --dedup welcome-17 -f mail.eml",
      "a file, in ten minutes, once" },
    { "leat queue send moves -G : <moves.txt",
      "lines such as room1:e2e4, in order in each room" },
    { 0 },
};

static const example queue_receive_examples[] = {
    { "leat queue receive jobs -w 20s", "one, waiting up to 20 seconds" },
    { "leat queue receive jobs --exec ./resize",
      "run './resize' for each message: exit 0 acknowledges it" },
    { "leat queue receive jobs --exec ./resize -c 4 -- --width 80",
      "four at once, each './resize --width 80'" },
    { "leat queue receive jobs -n 10 | tee got | leat queue ack jobs",
      "print ten, and acknowledge them" },
    { "leat queue receive jobs --dead -n 100 -o ndjson",
      "dead letters, for a program" },
    { 0 },
};

static const example queue_ack_examples[] = {
    { "leat queue ack jobs v/jobs/1/1700000000000/ID/NONCE", "one" },
    { "cut -f1 got | leat queue ack jobs", "those of a file" },
    { 0 },
};

static const example queue_change_examples[] = {
    { "leat queue change jobs RECEIPT 10m", "it takes longer" },
    { "leat queue change jobs RECEIPT 0", "somebody else may try, now" },
    { "leat queue change jobs 10m <got", "those of a file" },
    { 0 },
};

static const example queue_reject_examples[] = {
    { "leat queue reject jobs RECEIPT --reason 'no such file'",
      "nobody will ever manage it" },
    { 0 },
};

static const example queue_peek_examples[] = {
    { "leat queue peek jobs", "the next ten" },
    { "leat queue peek jobs --dead --format '%I %h\\n'",
      "dead letters and their headers" },
    { 0 },
};

static const example queue_redrive_examples[] = {
    { "leat queue redrive jobs --dry-run", "how many would it be?" },
    { "leat queue redrive jobs --rate 50", "gently" },
    { 0 },
};

static const example queue_purge_examples[] = {
    { "leat queue purge jobs --dry-run", "how many would go?" },
    { "leat queue purge jobs --dead --yes", "forget what failed" },
    { 0 },
};

static const example queue_rm_examples[] = {
    { "leat queue rm jobs --yes", "without a question" },
    { 0 },
};

static const example queue_expire_examples[] = {
    { "leat queue expire jobs", "now, and not when somebody looks" },
    { 0 },
};

static const example queue_watch_examples[] = {
    { "leat queue watch jobs", "what happens in one queue" },
    { "leat queue watch -o ndjson", "in all of them, for a program" },
    { 0 },
};

static const example queue_pool_examples[] = {
    { "leat queue pool --exec ./work",
      "every queue there is, ten programs at once" },
    { "leat queue pool game --exec ./move --workers 50 --until-idle 5s",
      "those of the namespace game, until there is nothing to do" },
    { "leat queue pool game --workers 50 -- ./move --fast",
      "all words behind -- are the program and its arguments" },
    { 0 },
};

const command queue_commands[] = {
    { .noun = "queue",
      .verb = "create",
      .aliases = "add new",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .summary = "make a queue",
      .text = "Names are made of letters, digits, '.', '_' and '-', at most "
              "200.  Exits with 1 if there is a queue of that name.",
      .options = queue_create_options,
      .examples = queue_create_examples,
      .run = run_queue_create },
    { .noun = "queue",
      .verb = "alter",
      .aliases = "set",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "change the settings of a queue",
      .text = "Only what is given changes; 0 takes a bound away.  Messages "
              "that are there keep the delay and the deadline they have.  A "
              "queue stays FIFO or not, and a switch that is on stays on.",
      .options = queue_alter_options,
      .examples = queue_alter_examples,
      .run = run_queue_alter },
    { .noun = "queue",
      .verb = "ls",
      .aliases = "list",
      .args = "",
      .summary = "list the queues",
      .text = "With what is visible (ready to be received), delayed, in "
              "flight (received and not settled) and dead, and the age of the "
              "oldest visible message.  With --profile redowl all keys of the "
              "server are gone through, and a queue is listed while it holds "
              "something.",
      .options = queue_ls_options,
      .examples = queue_ls_examples,
      .run = run_queue_ls,
      .stops = true,
      .looks = true },
    { .noun = "queue",
      .verb = "stats",
      .aliases = "info show attributes",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "show what a queue holds, did, and is set to",
      .text = "Sent is always the sum of visible, delayed, in_flight, dead, "
              "acked, expired (too old), purged and lost (its body was gone, "
              "and not by leat).  Received, requeued (given back), to_dead "
              "and redriven count how often that happened.",
      .options = queue_stats_options,
      .examples = queue_stats_examples,
      .run = run_queue_stats,
      .looks = true },
    { .noun = "queue",
      .verb = "pause",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "hand out nothing of a queue, until it is resumed",
      .text = "Whoever receives waits, and pools pass it over.  Sending goes "
              "on, what is in flight can be settled, and dead letters are "
              "handed out as ever.  It stays paused, whoever comes or goes; "
              "'leat queue stats' shows since when.",
      .options = queue_pause_options,
      .examples = queue_pause_examples,
      .run = run_queue_pause },
    { .noun = "queue",
      .verb = "resume",
      .aliases = "unpause",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "let a paused queue go on",
      .text = "One that is not paused stays as it is.",
      .options = queue_pause_options,
      .examples = queue_resume_examples,
      .run = run_queue_resume },
    { .noun = "queue",
      .verb = "send",
      .aliases = "publish produce",
      .args = "NAME [MESSAGE]",
      .min_args = 1,
      .max_args = 2,
      .arg_words = "@queue",
      .summary = "send a message, or one a line of stdin",
      .text = "Without MESSAGE it reads lines and sends each, without its "
              "newline and otherwise byte for byte.  Memory is bounded, "
              "whatever comes in.  A line that the queue refuses, because it "
              "is too large for example, is told with its number and passed "
              "over; a failure of the server ends the sending.\n\n"
              "At the end it says how many were sent, how many had been sent "
              "before (by their dedup id), failed, and are unknown; with "
              "--output as a record on stdout, with the id where it was one "
              "message.  Exits with 0 when all were sent, 76 when of some it "
              "is not known, and otherwise by the first failure.",
      .options = queue_send_options,
      .examples = queue_send_examples,
      .run = run_queue_send,
      .stops = true },
    { .noun = "queue",
      .verb = "receive",
      .aliases = "get",
      .args = "NAME [--exec CMD] [-- ARGS...]",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "receive messages, and print them or run a program",
      .text =
          "What is printed is hidden until its visibility runs out, and "
          "then comes again: acknowledge it by its receipt, or at once by "
          "--ack.  In a pipe the first column is the receipt.  Exits with "
          "1 when there was nothing.  In JSON the body is data where it "
          "is text and data_base64 otherwise.\n\n"
          "With --exec, it runs the program once for each message, its "
          "body on stdin, until a signal, --count or --wait.  Exit code 0 "
          "acknowledges the message, 65 makes it a dead letter at once, "
          "and after any other, or a signal, it is received again after "
          "--retry-delay, or when the queue's backoff says.  While the program "
          "runs the message is kept "
          "hidden, however long that takes; when it is lost all the same "
          "the program is ended.  No more is received than programs run.\n\n"
          "The environment has LEAT_QUEUE, LEAT_ID, LEAT_KEY, LEAT_TYPE, "
          "LEAT_ATTEMPT (the receives, from 1) and LEAT_HEADER_NAME for "
          "each header, in capitals with _ for what is neither letter "
          "nor digit.  What is empty, holds a zero byte or is over 32 KiB "
          "is left out.  LEAT_PASSWORD, REDISCLI_AUTH and a LEAT_URL with a "
          "password are not passed on.\n\n"
          "SIGINT and SIGTERM stop receiving; programs that run may end "
          "within --drain, then they are killed and their messages given "
          "back.  A second signal ends at once.",
      .options = queue_receive_options,
      .examples = queue_receive_examples,
      .run = run_queue_receive,
      .stops = true,
      .rest = true },
    { .noun = "queue",
      .verb = "ack",
      .aliases = "acknowledge delete",
      .args = "NAME [RECEIPT...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "acknowledge messages by their receipts",
      .text = "Without receipts it reads them from stdin, the first column of "
              "each line, so that what 'leat queue receive' prints may be "
              "given as it is.  Exits with 1 when some are stale: not "
              "acknowledged in time, or settled before; with 64, or 65 for "
              "lines, when some are no receipts or another queue's.  The "
              "others are acknowledged.",
      .options = queue_ack_options,
      .examples = queue_ack_examples,
      .run = run_queue_ack },
    { .noun = "queue",
      .verb = "change",
      .aliases = "extend hide",
      .args = "NAME [RECEIPT...] TIME",
      .min_args = 2,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "hide messages for longer or shorter, or give them back",
      .text =
          "They are hidden for TIME from now, at most 12h; 0 gives them "
          "back at once.  A bare number is in seconds.  Receipts are given, "
          "and it exits, as with ack.",
      .options = queue_change_options,
      .examples = queue_change_examples,
      .run = run_queue_change },
    { .noun = "queue",
      .verb = "reject",
      .aliases = "bury",
      .args = "NAME [RECEIPT...]",
      .min_args = 1,
      .max_args = 4096,
      .arg_words = "@queue",
      .summary = "make messages dead letters, by their receipts",
      .text = "Whatever max-receives says: nobody would manage them.  "
              "Receipts are given, and it exits, as with ack.",
      .options = queue_reject_options,
      .examples = queue_reject_examples,
      .run = run_queue_reject },
    { .noun = "queue",
      .verb = "peek",
      .aliases = "browse",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "look at messages without receiving them",
      .text = "The next ones to be received; of a FIFO queue those of the "
              "message groups that may be received now.  Nothing changes.",
      .options = queue_peek_options,
      .examples = queue_peek_examples,
      .run = run_queue_peek,
      .looks = true },
    { .noun = "queue",
      .verb = "redrive",
      .aliases = "retry replay",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "send dead letters back into the queue",
      .text = "The oldest first, with their receives counted anew.  Each is "
              "moved in one step: when this is killed, run it again.",
      .options = queue_redrive_options,
      .examples = queue_redrive_examples,
      .run = run_queue_redrive,
      .stops = true },
    { .noun = "queue",
      .verb = "purge",
      .aliases = "clear",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "drop all messages of a queue",
      .text = "Visible, delayed and in flight, but not the dead letters.  "
              "Asks first on a terminal; elsewhere it needs --yes.",
      .options = queue_purge_options,
      .examples = queue_purge_examples,
      .run = run_queue_purge },
    { .noun = "queue",
      .verb = "rm",
      .aliases = "remove",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "remove a queue with all its messages",
      .text = "Asks first on a terminal; elsewhere it needs --yes.  Who has "
              "it open gets errors from then on.  When it was cut short, run "
              "it again.",
      .options = queue_rm_options,
      .examples = queue_rm_examples,
      .run = run_queue_rm },
    { .noun = "queue",
      .verb = "expire",
      .aliases = "requeue",
      .args = "NAME",
      .min_args = 1,
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "give back now what nobody acknowledged in time",
      .text = "Whoever has a queue open does this by itself; it is for queues "
              "that nobody has open, and for tests.  Says how many messages "
              "moved, of the queues that share the shard: those given back, "
              "and those whose delay is over.",
      .options = queue_expire_options,
      .examples = queue_expire_examples,
      .run = run_queue_expire },
    { .noun = "queue",
      .verb = "watch",
      .aliases = "events tail",
      .args = "[NAME]",
      .max_args = 1,
      .arg_words = "@queue",
      .summary = "show what happens in a queue, or in all",
      .text = "Events are sent, received, requeued, to_dlq, dlq_received, "
              "dlq_redriven and acked.  They are told while they happen, and "
              "what happens while the connection is lost is missed, which is "
              "marked; --durable reads those that the queue keeps.",
      .options = queue_watch_options,
      .examples = queue_watch_examples,
      .run = run_queue_watch,
      .stops = true,
      .looks = true },
    { .noun = "queue",
      .verb = "pool",
      .aliases = "work",
      .args = "[NAMESPACE] --exec CMD [-- ARGS...]",
      .max_args = 1,
      .summary = "run a program for the messages of all queues",
      .text = "Of a namespace, or without one of leat: queues that are there, "
              "and those that are made later.  The messages of a queue are "
              "handled in order, one at a time; queues beside each other, "
              "each in its turn.  Any number of pools share the work.  The "
              "program is run, and its exit code means, as with 'leat queue "
              "receive --exec'.  With --profile redowl they are those of "
              "redowl: a pool hears of them by their events, and goes through "
              "the keys of the server when it starts and again 5s after each "
              "time.",
      .options = queue_pool_options,
      .examples = queue_pool_examples,
      .run = run_queue_pool,
      .stops = true,
      .rest = true },
    { 0 },
};
