/*
 * told.c: what was said about a server once is not said with every command.
 *
 *   $XDG_STATE_HOME/leat/told   a line each: a hash of the server's URL,
 *                               without secrets, and of what was said
 *
 * With MAX_TOLD lines it starts anew, and then things are said once more, as
 * they are where the file cannot be written.
 */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TOLD = 256, LINE = 17 };

/* FNV-1a. */
static uint64_t mix(uint64_t h, const char *s)
{
    do
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    while (*s++); /* the zero too, so that two texts are not one */
    return h;
}

static int open_told(void)
{
    char *dir = home_path("XDG_STATE_HOME", ".local/state", "leat");
    if (!dir)
        return -1;
    char *path = format("%s/told", dir);
    make_dirs(dir);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    free(path);
    free(dir);
    return fd;
}

bool told_before(const char *server, const char *what)
{
    char line[LINE + 1];
    size_t n = 0;
    int fd = open_told();
    if (fd < 0)
        return false;
    snprintf(line, sizeof line, "%016llx\n",
             (unsigned long long)mix(mix(14695981039346656037u, server), what));
    char *all = slurp(fd, MAX_TOLD * LINE, &n);
    bool before = all && strstr(all, line);
    if (!all || n > (MAX_TOLD - 1) * LINE)
        (void)!ftruncate(fd, 0);
    if (!before)
        (void)!write(fd, line, LINE);
    free(all);
    close(fd);
    return before;
}
