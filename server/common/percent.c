#include "common/percent.h"

#include <stdio.h>
#include <string.h>

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

void percent_encode(const char *text, char *encoded)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";

    for (; *text; text++)
        encoded += sprintf(encoded, strchr(plain, *text) ? "%c" : "%%%02X", (unsigned char)*text);
    *encoded = '\0';
}
