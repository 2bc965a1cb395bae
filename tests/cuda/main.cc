#include "suites.h"

int main()
{
    return emulator_suite() > 0;
}
