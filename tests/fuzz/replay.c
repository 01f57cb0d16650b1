/*
 * replay.c: run a fuzz target over the files of a directory, without libFuzzer.
 *
 *   replay-NAME corpus/NAME
 *
 * One line of TAP.  A directory that is missing or empty is a failure: a test
 * that looked at nothing proves nothing.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A block exactly as long as the input, so that a read past it is seen by the
 * sanitizers; false: the file cannot be read. */
static bool replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    bool ok = fseek(f, 0, SEEK_END) == 0;
    long size = ok ? ftell(f) : -1;
    uint8_t *data = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
    rewind(f);
    ok = data && fread(data, 1, (size_t)size, f) == (size_t)size;
    fclose(f);
    if (ok)
        LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return ok;
}

/* How many inputs were run; -1 when one or the directory cannot be read. */
static long replay_all(const char *dir)
{
    char path[4096];
    long n = 0;
    struct dirent *e;
    DIR *d = opendir(dir);
    if (!d)
        return -1;
    while (n >= 0 && (e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.')
            continue;
        int len = snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        bool ok = len > 0 && (size_t)len < sizeof path && replay(path);
        n = ok ? n + 1 : -1;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    const char *dir = argc == 2 ? argv[1] : "";
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    puts("1..1");
    fflush(stdout);
    long n = replay_all(dir);
    printf("%s 1 - %s: %ld inputs\n", n > 0 ? "ok" : "not ok", name, n);
    if (n <= 0)
        printf("# no readable inputs in '%s'\n", dir);
    return n > 0 ? 0 : 1;
}
