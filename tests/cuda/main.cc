#include "suites.h"

#include <cstdlib>
#include <cstring>

struct suite {
    const char *name;
    int (*run)();
};

static const suite suites[] = {
    {"emulator", emulator_suite},
    {"linear", linear_suite},
    {"norm", norm_suite},
    {"attend", attend_suite},
};

/* All suites, or the one that is named. */
int main(int argc, char **argv)
{
    int failed = 0;
    for (const suite &each : suites)
        if (argc < 2 || strcmp(argv[1], each.name) == 0)
            failed += each.run();
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
