#include "suites.h"

#include <cstdlib>
#include <cstring>

#include "launches.h"

struct suite {
    const char *name;
    int (*run)();
};

static const suite suites[] = {
    {"emulator", emulator_suite}, {"linear", linear_suite}, {"norm", norm_suite},
    {"attend", attend_suite},     {"areas", areas_suite},   {"lstm", lstm_suite},
    {"search", search_suite},     {"graphs", graphs_suite}, {"replays", replays_suite},
    {"barriers", barriers_suite}, {"device", device_suite},
};

/* All suites, or the one that is named; `launches BYTES` is for gate.py. */
int main(int argc, char **argv)
{
    int failed = 0;
    if (argc == 3 && strcmp(argv[1], "launches") == 0) {
        launches_print(strtoul(argv[2], NULL, 10));
        return EXIT_SUCCESS;
    }
    for (const suite &each : suites)
        if (each.run && (argc < 2 || strcmp(argv[1], each.name) == 0))
            failed += each.run();
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
