/* Whether the suites before this one have left out every barrier that stands in the text of a
 * kernel: what is new there has to be among their cases. */
#include "suites.h"

#include <dirent.h>
#include <fstream>

#include "support.h"

static const char *const FOLDER = "engine/device/cuda/";

/* FILE:LINE of every barrier of a file. */
static void read_barriers(const std::string &path, std::set<std::string> *barriers)
{
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); number++)
        if (line.find("__syncthreads();") != std::string::npos ||
            line.find("__syncwarp();") != std::string::npos)
            barriers->insert(path + ":" + std::to_string(number));
}

static std::set<std::string> all_barriers()
{
    std::set<std::string> barriers;
    DIR *folder = opendir(FOLDER);
    if (!folder)
        fail_msg("%s: expected the folder of the kernels, found none", FOLDER);
    while (const struct dirent *entry = readdir(folder))
        read_barriers(std::string(FOLDER) + entry->d_name, &barriers);
    closedir(folder);
    return barriers;
}

static void test_all_are_left_out(void **)
{
    if (!emulate::sees_accesses || barriers_reported().empty())
        skip(); /* nothing is left out there; or this is the only suite that runs */
    std::set<std::string> all = all_barriers();
    for (const std::string &barrier : all)
        if (barriers_reported().count(barrier) == 0)
            fail_msg("no test leaves out the barrier at %s", barrier.c_str());
    assert_int_equal(all.size(), barriers_reported().size());
}

int barriers_suite()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_left_out),
    };
    return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
