#include "common/percent.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int percent_byte(const char *text, size_t bytes)
{
    int high, low;

    if (bytes < 3 || text[0] != '%')
        return -1;
    high = hex_digit(text[1]);
    low = hex_digit(text[2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}
