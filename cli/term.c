/*
 * term.c: the terminal: colours, width and the progress bar.
 *
 *   publishing  [#########-----------]  45%  45,000/100,000  151,203/s  ETA 1s
 *
 * The bar is drawn on stderr, at most ten times a second, only when that is a
 * terminal; elsewhere a plain line a second says the same.
 */
#include "cli.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool given(const char *name)
{
    const char *s = getenv(name);
    return s && *s;
}

/* no-color.org and bixense.com/clicolors; an explicit --color wins. */
bool term_color(FILE *f, const char *when)
{
    if (when && strcmp(when, "always") == 0)
        return true;
    if (when && strcmp(when, "never") == 0)
        return false;
    if (given("NO_COLOR"))
        return false;
    const char *force = getenv("CLICOLOR_FORCE");
    if (force && *force && strcmp(force, "0") != 0)
        return true;
    const char *term = getenv("TERM");
    if (!term || strcmp(term, "dumb") == 0)
        return false;
    return isatty(fileno(f)) == 1;
}

int term_width(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40)
        return w.ws_col > 100 ? 100 : w.ws_col;
    return 80;
}

int term_height(void)
{
    struct winsize w;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 ? w.ws_row
                                                                     : 24;
}

bool term_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < 3; i++) {
        const char *s = getenv(names[i]);
        if (s && *s)
            return strcasestr(s, "utf-8") || strcasestr(s, "utf8");
    }
    return false;
}

/* ---- progress --------------------------------------------------------- */

#define BAR_CELLS 24

static bool dumb(void)
{
    const char *term = getenv("TERM");
    return !term || strcmp(term, "dumb") == 0;
}

static void draw_bar(int percent)
{
    bool utf = term_utf8();
    int full = percent * BAR_CELLS / 100;
    fputs(utf ? "" : "[", stderr);
    for (int i = 0; i < BAR_CELLS; i++)
        fputs(i < full ? (utf ? "━" : "#") : (utf ? "┄" : "-"), stderr);
    fputs(utf ? "" : "]", stderr);
}

static void draw(const progress *p, int64_t now, bool last)
{
    double seconds = (double)(now - p->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)p->done / seconds : 0;
    int percent = p->total ? (int)(p->done * 100 / p->total) : 100;
    double left = rate > 0 ? (double)(p->total - p->done) / rate : 0;

    if (p->total == 0) { /* nobody knows how many */
        fprintf(stderr,
                p->tty ? "\r%-11s %lld  %.0f/s\033[K%s"
                       : "leat: %s %lld, %.0f/s%s",
                p->what, (long long)p->done, rate, last || !p->tty ? "\n" : "");
        fflush(stderr);
        return;
    }
    if (!p->tty) {
        fprintf(stderr, "leat: %s %lld/%lld (%d%%), %.0f/s\n", p->what,
                (long long)p->done, (long long)p->total, percent, rate);
        return;
    }
    fprintf(stderr, "\r%-11s ", p->what);
    draw_bar(percent);
    fprintf(stderr, " %3d%%  %lld/%lld  %.0f/s  ", percent, (long long)p->done,
            (long long)p->total, rate);
    fprintf(stderr, last ? "in %.1fs\033[K\n" : "ETA %.0fs\033[K",
            last ? seconds : left);
    fflush(stderr);
}

void progress_start(progress *p, const char *what, int64_t total)
{
    int64_t now = now_ns();
    *p = (progress){ .what = what,
                     .total = total,
                     .start_ns = now,
                     .drawn_ns = now,
                     .tty = isatty(STDERR_FILENO) == 1 && !dumb() };
    if (p->tty && !report_quiet())
        draw(p, now, false);
}

void progress_set(progress *p, int64_t done)
{
    p->done = done;
    if (report_quiet())
        return;
    int64_t now = now_ns();
    if (now - p->drawn_ns < (p->tty ? 100 : 1000) * (int64_t)1000000)
        return;
    p->drawn_ns = now;
    draw(p, now, false);
}

/* The bar's last state stays, as a line of its own. */
void progress_end(progress *p)
{
    if (!report_quiet())
        draw(p, now_ns(), true);
}
