/*
 * cli.h: what the parts of the command share.
 *
 * A run goes through three steps: parse.c turns words into a command and its
 * options (commands*.c are the table), settings.c fills what the words did not
 * say from environment, context and configuration, and the command's function
 * runs and returns the exit code.  Everything a command prints to stdout goes
 * through output.c; everything for people to stderr goes through report.c.
 *
 * Threads: none here; the library may have its own.
 */
#ifndef LEAT_CLI_H
#define LEAT_CLI_H

#include <leat/leat.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

/* Exit codes, after sysexits.h. */
enum {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* a negative answer, or something is missing */
    EXIT_USAGE = 64,       /* the words given make no sense              */
    EXIT_DATA = 65,        /* bytes that are not what they should be     */
    EXIT_UNAVAILABLE = 69, /* the server cannot be reached or refuses    */
    EXIT_BUG = 70,         /* our mistake                                */
    EXIT_IO = 74,          /* the operating system failed a call         */
    EXIT_TRY_AGAIN = 75,   /* not done, and it may succeed later         */
    EXIT_UNKNOWN = 76,     /* perhaps done: the answer was lost          */
    EXIT_DENIED = 77,      /* credentials or rights                      */
    EXIT_CONFIG = 78,      /* a configuration file, variable or server   */
    EXIT_SIGNAL = 128      /* plus the number of the signal              */
};

/* ---- the table (commands*.c) ------------------------------------------ */

typedef enum value_kind {
    VALUE_NONE = 0, /* a switch                                   */
    VALUE_TEXT,
    VALUE_COUNT,    /* a whole number from 1                      */
    VALUE_NUMBER,   /* a whole number from 0                      */
    VALUE_DURATION, /* 500ms, 5s, 2m, 1h; a bare number: seconds  */
    VALUE_CHOICE,   /* one word of choices                        */
    VALUE_FILE,
    VALUE_DIR,
    VALUE_CONTEXT, /* the name of a context                      */
    VALUE_GROUP,   /* the name of a group of the topic           */
    VALUE_QUEUE,   /* the name of a queue                        */
    VALUE_LIST,    /* may be given again: texts split by newlines */
    VALUE_PROGRAM  /* its arguments are the words behind --       */
} value_kind;

typedef struct option {
    const char *name; /* without dashes; NULL ends a list          */
    char letter;      /* 0: none                                   */
    value_kind kind;
    const char *value;   /* what the value is called in help          */
    const char *initial; /* the default as text; NULL: none           */
    const char *choices; /* of a VALUE_CHOICE, split by spaces        */
    bool setting;        /* may stand in a configuration file         */
    bool no_flag;        /* a setting without an option: secrets      */
    const char *help;    /* one sentence, or a few                    */
} option;

typedef struct example {
    const char *line; /* NULL ends a list */
    const char *what;
} example;

struct cli;

typedef struct command {
    const char *noun;    /* the first word                            */
    const char *verb;    /* the second; NULL: there is none           */
    const char *aliases; /* of its last word, split by spaces         */
    const char *args;    /* as shown: "NAME [URL]"; "" for none       */
    int min_args, max_args;
    const char *arg_words; /* completion: words, or "@context" ...    */
    const char *summary;
    const char *text; /* paragraphs, split by an empty line        */
    const option *options;
    const example *examples;
    int (*run)(struct cli *c);
    bool hidden; /* our own use: not shown                     */
    bool stops;  /* ends by itself at a signal                 */
    bool looks;  /* changes nothing: also where the server evicts */
    bool rest;   /* the words after -- are a program's         */
} command;

typedef struct group { /* a noun that has verbs */
    const char *noun;
    const char *aliases;
    const char *summary;
    const char *text;
} group;

extern const group groups[];
extern const option global_options[];

const group *group_find(const char *noun);
/* The first command after `after` of that noun, NULL: of any; NULL starts, and
 * ends. */
const command *command_next(const char *noun, const command *after);

/* The variable of an option, LEAT_NO_HEADERS, written to out; NULL for one that
 * has none. */
const char *option_env(const option *o, char *out, size_t room);

/* ---- values and their origin (settings.c) ----------------------------- */

/* Later beats earlier. */
typedef enum origin {
    FROM_DEFAULT = 0,
    FROM_SYSTEM_FILE,
    FROM_USER_FILE,
    FROM_CONTEXT,
    FROM_ENV,
    FROM_CHOSEN_CONTEXT, /* the context was named by --context */
    FROM_FLAG
} origin;

typedef struct value {
    const option *option;
    char *text; /* NULL: not given */
    int times;  /* how often a switch was given */
    origin origin;
    char where[160]; /* "LEAT_URL", "~/.config/...:3", "--url" */
} value;

#define MAX_VALUES 48

typedef struct cli {
    const command *command; /* NULL: none was named */
    const group *group;     /* a group without its verb */
    char **args;
    int arg_count;
    char **rest; /* the words behind --, NULL after the last; [-1] is free */
    int rest_count;
    bool dashes; /* there was a -- */
    value values[MAX_VALUES];
    int value_count;
    bool help;
    char **words;          /* copies of our arguments */
    struct config *config; /* loaded by settings_load */
    bool color_out, color_err;

    /* With --watch. */
    bool watching, headed; /* the heading was written in a round before */
    char *prelude;         /* clears the screen; NULL: there is none    */
    leat_client *kept;     /* from round to round                       */
} cli;

bool settings_load(cli *c, int *code);
void settings_free(cli *c);

value *value_find(cli *c, const char *name);
const char *value_text(cli *c, const char *name); /* NULL: not given */
bool value_on(cli *c, const char *name);
int64_t value_count(cli *c, const char *name); /* also of a number; 0 */
int64_t value_ms(cli *c, const char *name);

/* Check a text against the option; false with the reason in why. */
bool value_check(const option *o, const char *text, char *why, size_t room);
bool bool_parse(const char *text, bool *on);
bool duration_parse(const char *text, int64_t *ms);

/* Since 1970: a date, with a time and a zone as leat prints it or without, or @
 * and the milliseconds. */
bool time_parse(const char *text, int64_t *ms);

/* Credentials that may be used with the URL in force; NULL: none. */
typedef struct login {
    const char *user;
    char *password; /* freed by login_free */
} login;
bool login_get(cli *c, login *out, int *code);
void login_free(login *l);

/* The same for TLS; empty where the URL has none.  Borrowed from c. */
leat_tls_opts tls_get(cli *c);

int settings_show(cli *c, bool origins);

/* ---- the configuration file (toml.c, contexts.c) ---------------------- */

typedef struct toml_item {
    char *table; /* "" or "context.NAME" */
    char *key;   /* NULL: the table's header itself */
    char *text;  /* the value; booleans are "true" or "false" */
    bool is_text;
    int line; /* from 1 */
} toml_item;

typedef struct toml {
    char *path;
    char *source;
    toml_item *items;
    size_t count;
} toml;

/* Read a file.  1: read; 0: there is none; -1: refused, *code set and said. */
int toml_read(toml *t, const char *path, int *code);
bool toml_parse(toml *t, char *why, size_t room, int *line);
void toml_free(toml *t);
const toml_item *toml_get(const toml *t, const char *table, const char *key);
bool toml_has_table(const toml *t, const char *table);

/* Edits of the text; comments and order stay.  The result is malloced. */
char *toml_set(const toml *t, const char *table, const char *key,
               const char *text);
char *toml_remove_table(const toml *t, const char *table);
char *toml_remove_key(const toml *t, const char *table, const char *key);

/* Replace the file by this text: temporary file, fsync, rename; mode 0600. */
bool toml_write(const char *path, const char *text, int *code);

#define MAX_CONFIG_FILES 8

typedef struct config {
    toml files[MAX_CONFIG_FILES]; /* the user's first */
    size_t count;
    bool has_user_file;
    char *user_path;
    char *context; /* the one in force; NULL: none */
    origin context_origin;
} config;

bool config_load(cli *c, int *code);
void config_free(config *f);
bool context_exists(const config *f, const char *name);
bool context_name_ok(const char *name);
void context_each(const config *f,
                  void (*fn)(void *arg, const char *name, const toml *file),
                  void *arg);

/* ---- parsing and help ------------------------------------------------- */

/* Read the words; on failure says why and returns the exit code, else 0. */
int parse_words(cli *c, int argc, char **argv);

/* Let these options have values. */
void add_values(cli *c, const option *list);

/* The word of the list nearest to this one, or NULL when none is near. */
const char *nearest(const char *word, const char *const *list, size_t n);
/* Is word one of the words in list, which is split by spaces? */
bool in_words(const char *list, const char *word);

void help_short(FILE *f);
int help_show(cli *c, FILE *f);
void help_command(cli *c, const command *cmd, FILE *f);
void wrap(FILE *f, const char *text, int indent, int width);

/* ---- reporting (report.c) --------------------------------------------- */

/* Print "leat: ..." and, unless NULL, "hint: ..."; returns code. */
int fail(int code, const char *hint, const char *fmt, ...) LEAT_PRINTF(3, 4);

/* The same for a library error, its exit code chosen by the error's. */
int fail_with(const char *what, const leat_error *err, const char *hint);
int exit_code(leat_code code);

/* A remark for people; silent with -q. */
void note(const char *fmt, ...) LEAT_PRINTF(1, 2);
void hint(const char *fmt, ...) LEAT_PRINTF(1, 2);

void report_style(bool color, bool quiet, int verbose);
bool report_quiet(void);
bool report_verbose(void);
leat_logger report_logger(void);

/* Was this said about that server, in a run before?  If not, it is now
 * (told.c). */
bool told_before(const char *server, const char *what);

/* Never print this text again: it becomes *** in every report. */
void secret_add(const char *text, size_t n);

/* ---- URLs (url.c) ----------------------------------------------------- */

bool url_is_embedded(const char *url);
bool url_is_tls(const char *url);
bool url_has_secret(const char *url); /* of any kind                    */
bool url_has_login(const char *url);  /* a password for the server itself */
/* Never print its secrets again. */
void secret_add_url(const char *url);
/* Without its secrets, escaped; malloced. */
char *url_mask(const char *url);
/* Overwrite the secrets where they stand; the URL as it was, malloced. */
char *url_hide(char *url);

/* NAME=VALUE of the environment is none of the business of the programs that
 * we run; and remove all such. */
bool variable_is_secret(const char *variable);
void environment_hide(void);

/* Printable: controls, bidi marks and what is not UTF-8 become \xNN. */
char *printable(const char *s, size_t n);
/* The same for a terminal: of what is longer than SHOWN_MAX bytes the
 * beginning, and how much is left out.  Malloced. */
enum { SHOWN_MAX = 2048 };
char *shown_text(const char *s, size_t n);
bool is_utf8(leat_bytes b);
/* The columns that printable text takes. */
int columns_of(const char *s);

/* ---- output (output.c) ------------------------------------------------ */

typedef enum column_kind {
    COLUMN_TEXT = 0,
    COLUMN_COUNT,
    COLUMN_ID, /* a number that is a name: a process, a protocol */
    COLUMN_BYTES,
    COLUMN_REAL,    /* three decimals */
    COLUMN_MS,      /* how long, as a number of milliseconds ...       */
    COLUMN_SECONDS, /* ... or of seconds; the name ends with the unit */
    COLUMN_BOOL,
    COLUMN_TIME,    /* milliseconds since 1970 */
    COLUMN_LIST,    /* texts split by newlines: warnings, below a record */
    COLUMN_LINES,   /* the same, in its place */
    COLUMN_SENTENCE /* a text that is wrapped on a terminal */
} column_kind;

typedef struct column {
    const char *name; /* the JSON key and the heading */
    column_kind kind;
    bool extra; /* shown only where --columns asks for it */
} column;

typedef struct output output;

/* Start a table of these columns; NULL with *code when the options are wrong.
 * A record is one row: an object in JSON, one line per column in a table. */
output *output_open(cli *c, const column *columns, size_t n, bool record,
                    int *code);
/* Where words are the usual answer: was a record asked for on the command line?
 */
bool wants_record(cli *c);
void output_text(output *o, const char *s);
void output_bytes(output *o, leat_bytes b); /* may hold zeros */
void output_number(output *o, int64_t v);
void output_real(output *o, double v);
void output_bool(output *o, bool v);
void output_null(output *o);
/* Write the rows so far and forget them; of tsv, csv and ndjson only, whose
 * rows need not know each other. */
int output_flush(output *o);
/* Write everything and free; 0 or an exit code.  drop writes nothing; end does
 * what fits the code, and both take NULL. */
int output_close(output *o);
void output_drop(output *o);
int output_end(output *o, int code);

/* "1.5 MiB", "13m 20s"; malloced. */
char *humane_bytes(int64_t v);
char *humane_time(int64_t ms);

/* 2026-01-31T12:34:56.789Z; malloced. */
char *time_text(int64_t ms, bool utc);

/* ---- terminal (term.c) ------------------------------------------------ */

bool term_color(FILE *f, const char *when);
int term_width(void);
int term_height(void);
bool term_utf8(void);

typedef struct progress {
    const char *what;
    int64_t total, done;
    int64_t start_ns, drawn_ns;
    bool tty;
} progress;

void progress_start(progress *p, const char *what, int64_t total);
void progress_set(progress *p, int64_t done);
void progress_end(progress *p);

/* ---- again and again (watch.c) ---------------------------------------- */

int watch_command(cli *c);
/* Before something is said that must stay. */
void screen_leave(void);

/* ---- small things (util.c) -------------------------------------------- */

/* Memory; the command ends with 75 when there is none. */
void *grab(size_t n);
void *regrab(void *p, size_t n);
char *copy(const char *s);
char *copy_n(const char *s, size_t n);
char *format(const char *fmt, ...) LEAT_PRINTF(1, 2);
const char *plural(int64_t n); /* "" or "s" */

int64_t now_ns(void);
void sleep_ms(int64_t ms); /* ends early at a signal */
void make_dirs(const char *path);
char *home_path(const char *variable, const char *below_home, const char *rest);

/* Read a small file whole, a zero after its end; NULL with errno. */
char *slurp(int fd, size_t limit, size_t *n);

/* The signal that asked us to stop, or 0.  The second one ends us at once, and
 * the first where nobody looks for it: signals_ask is false.  last_words,
 * unless NULL, runs before, inside the signal's handler. */
extern volatile sig_atomic_t stop_signal;
extern volatile sig_atomic_t signals_ask;
extern void (*volatile last_words)(void);
void catch_signals(void);
void occupy_standard_files(void);

/* ---- commands --------------------------------------------------------- */

leat_client *client_open(cli *c, const char *url, const char *what, int *code);
/* The same though the server lacks the durability that is set. */
leat_client *client_open_weak(cli *c, const char *url, const char *what,
                              int *code);
/* Close it, unless --watch needs it again. */
void client_close(cli *c, leat_client *client);
/* One PING; its time in milliseconds, or the error. */
leat_code ping_once(leat_client *client, double *ms, leat_error *err);
/* A section of INFO as text, "" where it is refused; a number of it, 0: none.
 * Malloced. */
char *server_info(leat_client *client, const char *section);
int64_t info_number(const char *info, const char *name);

/* Ask on a terminal; elsewhere --yes must have been given.  False with *code,
 * and said. */
bool confirmed(cli *c, const char *what, int *code);

int run_up(cli *c);
int run_down(cli *c);
int run_status(cli *c);
int run_ping(cli *c);
int run_acl(cli *c);
int run_demo(cli *c);
int run_version(cli *c);
int run_help(cli *c);
int run_completion(cli *c);
int run_complete(cli *c);
int run_man(cli *c);
int run_context_ls(cli *c);
int run_context_add(cli *c);
int run_context_use(cli *c);
int run_context_rm(cli *c);
int run_context_show(cli *c);
int run_config_show(cli *c);
int run_topic_create(cli *c);
int run_topic_ls(cli *c);
int run_topic_info(cli *c);
int run_topic_rm(cli *c);
int run_topic_alter(cli *c);
int run_topic_trim(cli *c);
int run_topic_send(cli *c);
int run_topic_tail(cli *c);
int run_group_ls(cli *c);
int run_group_info(cli *c);
int run_group_lag(cli *c);
int run_group_members(cli *c);
int run_group_seek(cli *c);
/* What --order, and --max-attempts and --backoff, say; what is not given stays
 * as it is. */
leat_order order_of(const char *word);
const char *order_word(leat_order order);
int retry_parse(cli *c, leat_retry *out);
int backoff_of(const char *text, leat_retry *out);

int run_group_alter(cli *c);
int run_group_pause(cli *c);
int run_group_resume(cli *c);
int run_group_rm(cli *c);
int run_group_pending(cli *c);
int run_consume(cli *c);
int run_dlq_ls(cli *c);
int run_dlq_show(cli *c);
int run_dlq_errors(cli *c);
int run_dlq_replay(cli *c);
int run_dlq_rm(cli *c);
int run_dlq_edit(cli *c);
int run_queue_create(cli *c);
int run_queue_alter(cli *c);
int run_queue_ls(cli *c);
int run_queue_stats(cli *c);
int run_queue_send(cli *c);
int run_queue_receive(cli *c);
int run_queue_ack(cli *c);
int run_queue_change(cli *c);
int run_queue_reject(cli *c);
int run_queue_pause(cli *c);
int run_queue_resume(cli *c);
int run_queue_peek(cli *c);
int run_queue_redrive(cli *c);
int run_queue_purge(cli *c);
int run_queue_rm(cli *c);
int run_queue_expire(cli *c);
int run_queue_watch(cli *c);
int run_queue_pool(cli *c);
int run_stream_ls(cli *c);
int run_stream_info(cli *c);
int run_stream_groups(cli *c);
int run_stream_rm(cli *c);
int run_stream_add(cli *c);
int run_stream_tail(cli *c);
int run_stream_consume(cli *c);

/* ---- of topics (cmd_topic.c) ------------------------------------------ */

/* What is kept of a topic, as far as options say it; 0, or an exit code. */
int retention_options(cli *c, leat_retention *r);

/* Say what was done to the topic, or to the group, that the words name: the
 * remark, or a record where --output was given. */
int say_done(cli *c, const char *done, bool dry, const char *remark);

/* The nearest of these names as a hint, or otherwise this; malloced.  Takes n,
 * which may be NULL. */
char *near_name(leat_names *n, const char *name, const char *otherwise);

/* Say why a call on this topic failed; one that is not there gets a hint of
 * those that are. */
int topic_fail(leat_client *client, const char *topic, const leat_error *err);

/* One of a listing could not be shown: may it go on?  One that was removed
 * meanwhile is not listed, and one that is damaged is told and hides no other;
 * then *code is set. */
bool listing_goes_on(const char *name, const leat_error *err, int *code);

/* topic_fail of a group, in cmd_group.c. */
int group_fail(leat_client *client, const char *topic, const char *name,
               const leat_error *err);

/* "1700000000000-0", and "-3" behind it for a message inside a packed entry;
 * written to out. */
enum { POSITION_TEXT = 64 };
const char *position_text(leat_position at, char out[POSITION_TEXT]);

/* The same as a cell, null for zero; a count, null where it is -1; and a time
 * or a bound, null where there is none. */
void output_position(output *out, leat_position at);
void output_count(output *out, int64_t n);
void output_given(output *out, int64_t n);

/* --from: start, end, 10m (ago) or an id, as the library wants it; NULL with
 * *code, and said.  Malloced. */
char *from_text(leat_client *client, const char *text, int *code);

/* ---- messages on stdout (printer.c) ----------------------------------- */

typedef struct printer printer;

/* Of a topic or a stream, or where `queue` is given of a queue. */
typedef struct sighting {
    const char *topic; /* its name, or the stream's */
    bool stream;
    int64_t partition; /* -1: none */
    leat_position position;
    leat_bytes queue, receipt, group, reason;
    uint32_t receives;
    int64_t sent_ms;
    const leat_msg *msg;
    const leat_error *error; /* it is no message */
} sighting;

typedef enum print_kind {
    PRINT_TOPIC,
    PRINT_STREAM,
    PRINT_RECEIVED, /* of a queue, with receipts */
    PRINT_SEEN      /* of a queue, without       */
} print_kind;

/* A receipt as it is printed; malloced (cmd_queue.c). */
char *receipt_text(leat_bytes receipt);

/* How messages are printed, by --format, --raw and --output.  NULL with *code,
 * and said. */
printer *printer_open(cli *c, print_kind what, int *code);
/* Print one and see that it arrived; 0 or an exit code. */
int printer_put(printer *p, const sighting *m);
/* An empty result is printed as such only if all went well. */
int printer_close(printer *p, bool good);

/* ---- messages from stdin (lines.c) ------------------------------------ */

typedef struct line_reader {
    int fd;
    char end;        /* of a message: a newline, or zero     */
    size_t max_size; /* one that is longer is not read whole */
    int64_t count;   /* that were read                       */
    char *buffer;
    size_t room, have, used;
    bool over; /* the input has ended             */
    bool cut;  /* the last one was not read whole */
} line_reader;

/* stdin, or a file, "-" being stdin; what a line is, for people. */
int lines_open(line_reader *l, const char *file, const char *what);
void lines_close(line_reader *l);
/* The next one, which is valid until the one after it; of one that is too long
 * more than max_size.  False when there is none, at a signal, or with *code. */
bool lines_next(line_reader *l, const char **p, size_t *n, int *code);
/* The next one is there already: nobody would wait for it. */
bool lines_ready(const line_reader *l);
/* Pass over the rest of one that is too long. */
void lines_skip(line_reader *l, int *code);
/* All that comes as one; the same. */
bool lines_all(line_reader *l, const char **p, size_t *n, int *code);

enum { MAX_HEADERS = 256 };

typedef struct header_list {
    leat_header list[MAX_HEADERS];
    size_t count;
    char *text; /* what they point to: to be freed */
} header_list;

/* Those of --header, which may be repeated: NAME:VALUE.  0, or an exit code. */
int header_list_get(cli *c, header_list *h);

/* The pid file's holder of an embedded directory; 0: none. */
char *embedded_dir(const char *url);
long holder_pid(const char *dir);
/* The number after "process_id:" of INFO; 0: unknown. */
long server_pid(leat_client *client);
/* Wait until that process is gone; false: it still runs. */
bool wait_gone(long pid, int64_t timeout_ms);

#endif
