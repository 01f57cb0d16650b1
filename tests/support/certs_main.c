/* certs_main.c: certs DIR, the usual certificates of certs.h for scripts. */
#include "support/certs.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: certs DIR\n");
        return 2;
    }
    return certs_usual(argv[1]) ? 0 : 1;
}
