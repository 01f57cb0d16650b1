/*
 * ledger_check.c: ledger-check [options] DIR, the verdict over a chaos run.
 *
 * Prints, last on stdout, one JSON object; exits 0 if all is well, 1 if a
 * promise was broken, 2 if there was nothing to judge or no way to.
 *
 *   --once         a duplicate breaks a promise
 *   --bounded      one that nothing explains does (ledger.h: repeated)
 *   --expiring     consumers have a message for a time
 *   --unordered    another order breaks none
 *   --kills N --pauses N --cuts N --seed N     told by the run, printed
 */
#include "support/ledger.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct flags {
    int once, bounded, expiring, unordered;
    uint64_t kills, pauses, cuts, seed;
} flags;

static int usage(void)
{
    fprintf(
        stderr,
        "usage: ledger-check [--once] [--bounded] [--unordered] "
        "[--expiring] [--kills N] [--pauses N] [--cuts N] [--seed N] DIR\n");
    return 2;
}

/* False for an unknown option. */
static int parse(int argc, char **argv, flags *f)
{
    const struct option options[] = {
        { "once", no_argument, &f->once, 1 },
        { "bounded", no_argument, &f->bounded, 1 },
        { "expiring", no_argument, &f->expiring, 1 },
        { "unordered", no_argument, &f->unordered, 1 },
        { "kills", required_argument, NULL, 'k' },
        { "pauses", required_argument, NULL, 'p' },
        { "cuts", required_argument, NULL, 'c' },
        { "seed", required_argument, NULL, 's' },
        { 0 },
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        uint64_t n = optarg ? strtoull(optarg, NULL, 10) : 0;
        switch (c) {
        case 'k':
            f->kills = n;
            break;
        case 'p':
            f->pauses = n;
            break;
        case 'c':
            f->cuts = n;
            break;
        case 's':
            f->seed = n;
            break;
        case 0:
            break;
        default:
            return 0;
        }
    }
    return optind == argc - 1;
}

static void print(const ledger_verdict *v, const flags *f)
{
    const struct {
        const char *name;
        uint64_t n;
    } rows[] = {
        { "attempted", v->attempted },
        { "acked", v->acked },
        { "unknown", v->unknown },
        { "delivered", v->delivered },
        { "lost", v->lost },
        { "duplicated", v->duplicated },
        { "reordered", v->reordered },
        { "stuck", v->stuck },
        { "kills", f->kills },
        { "pauses", f->pauses },
        { "cuts", f->cuts },
        { "seed", f->seed },
        { "unexpected", v->unexpected },
        { "dishonest", v->dishonest },
        { "fenced", v->fenced },
        { "shared", v->shared },
        { "bound", v->bound },
        { "repeated", v->repeated },
    };
    printf("%" PRIu64 " records in %" PRIu64 " ledgers, %" PRIu64
           " torn by a kill\n{",
           v->records, v->files, v->torn);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%s\"%s\": %" PRIu64, i ? ", " : "", rows[i].name, rows[i].n);
    printf("}\n");
}

int main(int argc, char **argv)
{
    flags f = { 0 };
    ledger_verdict v;
    if (!parse(argc, argv, &f))
        return usage();
    if (!ledger_judge(argv[optind], f.expiring, &v))
        return 2;
    print(&v, &f);
    if (v.lost || v.stuck || v.unexpected || v.dishonest || v.shared ||
        (f.once && v.duplicated) || (f.bounded && v.repeated) ||
        (!f.unordered && v.reordered))
        return 1;
    if (v.attempted == 0) {
        fprintf(stderr, "ledger-check: %s holds no attempt\n", argv[optind]);
        return 2;
    }
    return 0;
}
