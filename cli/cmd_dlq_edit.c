/*
 * cmd_dlq_edit.c: leat dlq edit: another body, from a file or an editor.
 */
#include "dlq.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct text { /* malloced */
    char *p;
    size_t n;
} text;

/* ---- files ------------------------------------------------------------ */

static int cannot(const char *path)
{
    return errno == EFBIG
               ? fail(EXIT_DATA, "--max-size allows more; nothing is ever cut",
                      "%s: too large", path)
               : fail(EXIT_IO, NULL, "%s: %s", path, strerror(errno));
}

/* One byte more than may be, so that it is refused as such. */
static int read_file(cli *c, const char *path, text *out)
{
    bool in = strcmp(path, "-") == 0;
    int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        out->p = slurp(fd, (size_t)value_count(c, "max-size"), &out->n);
    int code = out->p ? 0 : cannot(in ? "stdin" : path);
    if (!in && fd >= 0)
        close(fd);
    return code;
}

static int write_all(int fd, leat_bytes b)
{
    const char *p = b.p;
    for (size_t done = 0; done < b.n;) {
        ssize_t n = write(fd, p + done, b.n - done);
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* ---- the editor ------------------------------------------------------- */

static const char *editor(void)
{
    static const char *const names[] = { "VISUAL", "EDITOR" };
    for (int i = 0; i < 2; i++) {
        const char *s = getenv(names[i]);
        if (s && *s)
            return s;
    }
    return "vi";
}

/* By a shell, since the variable may hold options; the file is no part of its
 * text. */
static int run_editor(const char *path)
{
    const char *words = editor();
    char *script = format("%s \"$1\"", words);
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        environment_hide();
        execl("/bin/sh", "sh", "-c", script, "leat", path, (char *)NULL);
        _exit(127);
    }
    free(script);
    if (pid < 0)
        return fail(EXIT_IO, NULL, "cannot run %s: %s", words, strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return fail(EXIT_NO, "VISUAL or EDITOR names another editor",
                "%s failed: nothing is changed", words);
}

static int edit_file(cli *c, int fd, const char *path, leat_bytes body,
                     text *out)
{
    if (write_all(fd, body) != 0)
        return cannot(path);
    int code = run_editor(path);
    return code ? code : read_file(c, path, out);
}

/* A message may be a secret: mkstemp lets only us read it. */
static int ask_editor(cli *c, leat_bytes body, text *out)
{
    const char *dir = getenv("TMPDIR");
    char *path = format("%s/leat-XXXXXX", dir && *dir ? dir : "/tmp");
    int fd = mkstemp(path);
    int code = fd < 0 ? cannot(path) : edit_file(c, fd, path, body, out);
    if (fd >= 0) {
        close(fd);
        (void)unlink(path);
    }
    free(path);
    return code;
}

/* ---- the command ------------------------------------------------------ */

static bool wants_editor(cli *c)
{
    if (value_on(c, "editor"))
        return true;
    return !value_text(c, "body") && !value_text(c, "key") &&
           !value_text(c, "header") && isatty(STDIN_FILENO) == 1 &&
           isatty(STDOUT_FILENO) == 1;
}

static int check_words(cli *c)
{
    if (value_on(c, "editor") && value_text(c, "body"))
        return fail(EXIT_USAGE, NULL, "either --editor or --body");
    if (wants_editor(c) || value_text(c, "body") || value_text(c, "key") ||
        value_text(c, "header"))
        return 0;
    return fail(EXIT_USAGE,
                "--body FILE, --key, --header, or on a terminal an editor",
                "what is to be changed?");
}

/* *same: the editor left it as it was. */
static int body_get(cli *c, const leat_dead *x, text *out, bool *same)
{
    const char *path = value_text(c, "body");
    *same = false;
    if (path)
        return read_file(c, path, out);
    if (!wants_editor(c))
        return 0;
    leat_bytes old = x->msg_count && !x->damaged ? x->msg->body
                                                 : leat_mem("", 0);
    int code = ask_editor(c, old, out);
    *same = code == 0 && leat_bytes_eq(old, leat_mem(out->p, out->n));
    return code;
}

static const column columns[] = {
    { "topic", COLUMN_TEXT, false },
    { "id", COLUMN_TEXT, false },
    { "was", COLUMN_TEXT, false },
};

/* As a record where --output was given. */
static int say_id(cli *c, const char *now)
{
    int code;
    if (!wants_record(c)) {
        if (isatty(STDOUT_FILENO) != 1)
            puts(now);
        note("dead letter %s is now %s", c->args[1], now);
        return 0;
    }
    output *out = output_open(c, columns, sizeof columns / sizeof *columns,
                              true, &code);
    if (!out)
        return code;
    output_text(out, c->args[0]);
    output_text(out, now);
    output_text(out, c->args[1]);
    return output_close(out);
}

static int edit(cli *c, letters *l, const leat_dead_edit *e)
{
    char now[LEAT_DEAD_ID];
    leat_error err = { 0 };
    if (leat_dlq_edit(l->dlq, c->args[1], e, now, &err) != LEAT_OK)
        return fail(exit_code(err.code),
                    err.code == LEAT_ETOOBIG
                        ? "--max-size allows more; nothing is ever cut"
                    : err.code == LEAT_ENOENT ? "leat dlq ls lists them"
                                              : NULL,
                    "%s", err.msg);
    return say_id(c, now);
}

static int edit_letter(cli *c, letters *l, const leat_dead *x)
{
    text body = { 0 };
    header_list *headers = grab(sizeof *headers);
    bool same = false;
    int code = header_list_get(c, headers);
    if (code == 0)
        code = body_get(c, x, &body, &same);
    leat_dead_edit e = { .body = leat_mem(same ? NULL : body.p, body.n),
                         .key = leat_str(value_text(c, "key")),
                         .headers = headers->count ? headers->list : NULL,
                         .header_count = headers->count };
    if (code == 0 && same && !e.key.p && headers->count == 0)
        note("nothing is changed");
    else if (code == 0)
        code = edit(c, l, &e);
    free(body.p);
    free(headers->text);
    free(headers);
    return code;
}

int run_dlq_edit(cli *c)
{
    leat_error err = { 0 };
    letters l;
    int code = check_words(c);
    if (code || !letters_open(c, &l, &code))
        return code;
    leat_dead *x = leat_dlq_get(l.dlq, c->args[1], &err);
    code = x ? edit_letter(c, &l, x) : letter_fail(&err);
    leat_dead_free(x);
    letters_close(c, &l);
    return code;
}
