/* How long texts take to be split into sentences and tokens: ordinary ones, and those that would
 * show a time that grows faster than the text. One line per kind: milliseconds of processor time
 * at three sizes, how much longer a byte takes in the largest than in the smallest, and the longest
 * part of 16 KiB, which is what a request holds a thread of the server's pool for. `make
 * bench-split`.
 *
 *   split [MODEL [KIND]]     a model directory, models/en-de-token if none is given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "model/config.h"
#include "nn/network.h"
#include "text/splitter.h"

enum { MAX_TOKENS = 511, PART_BYTES = 16384, N_SIZES = 3, ROUNDS = 3 };

static const size_t sizes[N_SIZES] = {40000, 100000, 1000000};

/* `unit` again and again between the two others. */
static const struct {
    const char *name, *first, *unit, *last;
} kinds[] = {
    {"prose", "", "The weather is nice today, and we go for a walk in the old town. ", ""},
    {"initial, newlines", "J.", "\n", "Yes."},
    {"initial, spaces", "J.", " ", "Yes."},
    {"initial, U+200B", "J.", "\xE2\x80\x8B", "Yes."},
    {"initials", "", "J. ", "Yes."},
    {"initial lines", "", "J.\n", "Yes."},
    {"numbers", "a. ", "1 ", "b"},
    {"end, symbols", "a. ", ", ", "b"},
    {"ends, symbols", "", "a. ,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,", "b"},
    {"newlines", "a", "\n", "b"},
    {"carriage returns", "a", "\r\n", "b"},
    {"spaces", "a", " ", "b"},
    {"no-break spaces", "a", "\xC2\xA0", "b"},
    {"full stops", "a", ".", "b"},
    {"full stops apart", "a", ". ", "b"},
    {"question marks", "a", "?", "b"},
    {"quotes", "a", "\"", "b"},
    {"closed ends", "a", ".\")", "b"},
    {"opening brackets", "a", "(", "b"},
    {"one word", "", "a", ""},
    {"alphabet", "", "abcdefghijklmnopqrstuvwxyz", ""},
    {"words", "", "and then we go ", ""},
    {"capitals", "", "A", ""},
    {"digits", "", "1", ""},
    {"combining marks", "a", "\xCC\x81", "b"},
    {"accents", "", "e\xCC\x81", ""},
    {"joiners", "", "\xF0\x9F\x91\xA9\xE2\x80\x8D", "a"},
    {"flags", "", "\xF0\x9F\x87\xA9", "a"},
    {"Chinese", "", "\xE4\xBB\x8A\xE6\x97\xA5", ""},
    {"Chinese, one word", "a ", "\xE4\xBB\x8A\xE6\x97\xA5", " a"},
    {"Thai", "", "\xE0\xB8\x81\xE0\xB8\xB2", ""},
    {"ligatures", "", "\xEF\xB7\xBA", "a"}, /* eighteen letters each, normalised */
    {"controls", "a", "\x01", "b"},
    {"replacement", "a", "\xEF\xBF\xBD", "b"},
    {"short lines", "", "a\n", ""},
    {"language code", ">>", "a", "<<"},
    {"dense and sparse", "", NULL, ""},
};

/* By turns what has many tokens for its bytes and what has few: a guess from one is bad for the
 * other. */
static char *dense_and_sparse(size_t bytes)
{
    char *text = mem_alloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = i % 17000 < 600 ? (char)('!' + i * 7 % 90) : i % 3 == 0 ? '\xE4' : '\x81';
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\xE4' && (i + 2 >= bytes || text[i + 1] != '\x81' || text[i + 2] != '\x81'))
            text[i] = 'a';
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\x81' && !(i >= 1 && text[i - 1] == '\xE4') &&
            !(i >= 2 && text[i - 2] == '\xE4' && text[i - 1] == '\x81'))
            text[i] = 'a';
    text[bytes] = '\0';
    return text;
}

static char *make_text(size_t kind, size_t bytes)
{
    const char *first = kinds[kind].first, *unit = kinds[kind].unit, *last = kinds[kind].last;
    if (!unit)
        return dense_and_sparse(bytes);
    char *text = mem_alloc(bytes + 256), *end = stpcpy(text, first);
    while ((size_t)(end - text) < bytes)
        end = stpcpy(end, unit);
    stpcpy(end, last);
    return text;
}

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

struct times {
    double all, longest_part;
};

static void stop(const char *what)
{
    fprintf(stderr, "split: %s\n", what);
    exit(1);
}

static struct times split(const struct tokenizer *tokenizer, const char *text)
{
    struct document document;
    struct splitter *splitter;
    struct acre_err err;
    struct times times = {0};
    double start = milliseconds();
    if (splitter_open(&document, text, strlen(text), tokenizer, "en", MAX_TOKENS, ACRE_SPLIT_LINES,
                      &splitter, &err))
        stop(err.text);
    for (bool is_done = false; !is_done;) {
        double before = milliseconds();
        if (splitter_continue(splitter, PART_BYTES, &is_done, &err))
            stop(err.text);
        double part = milliseconds() - before;
        if (part > times.longest_part)
            times.longest_part = part;
    }
    splitter_close(splitter);
    document_fini(&document);
    times.all = milliseconds() - start;
    return times;
}

/* The least of a few rounds: other work only adds. */
static struct times measure(const struct tokenizer *tokenizer, size_t kind, size_t bytes)
{
    char *text = make_text(kind, bytes);
    struct times least = split(tokenizer, text);
    for (int i = 1; i < ROUNDS; i++) {
        struct times times = split(tokenizer, text);
        if (times.all < least.all)
            least.all = times.all;
        if (times.longest_part < least.longest_part)
            least.longest_part = times.longest_part;
    }
    mem_free(text);
    return least;
}

static void print_kind(const struct tokenizer *tokenizer, size_t kind)
{
    struct times times[N_SIZES];
    for (int i = 0; i < N_SIZES; i++)
        times[i] = measure(tokenizer, kind, sizes[i]);
    const struct times *last = &times[N_SIZES - 1];
    double growth = last->all / (double)sizes[N_SIZES - 1] / (times[0].all / (double)sizes[0]);
    printf("%-20s %8.1f %8.1f %8.1f %8.2f %8.1f\n", kinds[kind].name, times[0].all, times[1].all,
           last->all, growth, last->longest_part);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : "models/en-de-token";
    struct tokenizer *tokenizer;
    struct config config;
    struct acre_err err;
    if (config_load(directory, "", network_kinds, &config, &err) ||
        tokenizer_open(directory, config.vocab_size, config.tokenizer_class, &tokenizer, &err))
        stop(err.text);
    printf("%s, ms\n%-20s %8s %8s %8s %8s %8s\n", directory, "text", "40 kB", "100 kB", "1 MB",
           "growth", "part");
    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        if (argc < 3 || !strcmp(argv[2], kinds[kind].name))
            print_kind(tokenizer, kind);
    tokenizer_close(tokenizer);
    config_fini(&config);
    return 0;
}
