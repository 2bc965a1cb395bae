/* Each kind has a function that says how long an address of it is at a place, 0: it is none. */
#include "content/address.h"

#include <strings.h>
#include <unicode/uchar.h>

#include "common/unicode.h"
#include "content/span.h"
#include "content/word.h"

enum { SCHEME_BYTES = 32, LOCAL_BYTES = 64, DOMAIN_BYTES = 253, PATH_BYTES = 256, TAG_BYTES = 256 };

/* ---- URLs ------------------------------------------------------------------------------------ */

/* Whether it joins words: "Michelson–Morley", "Col·legi", "L’Équipe". */
static bool is_joint(UChar32 c)
{
    static const UChar32 signs[] = {'\'', 0xB7, 0x2010, 0x2011, 0x2013, 0x2019, 0x30FB};
    bool is_one = false;

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        is_one |= c == signs[i];
    return is_one;
}

bool address_url_has(const char *text, size_t bytes, uint32_t character, size_t after)
{
    const UChar32 c = (UChar32)character;

    if (is_joint(c))
        return after < bytes && u_isalnum((UChar32)unicode_next(text, bytes, &after));
    if (c < 0x80)
        return c > ' ' && !is_one_of((char)c, "<>\"`|^");
    return !u_isspace(c) && !u_ispunct(c);
}

/* Whether a host ends before c: "example.comをご覧". A name that is of such a script from its
 * beginning goes on. */
static bool ends_host(char before, uint32_t c)
{
    return isalnum((unsigned char)before) && word_has(c) && !word_is_spaced(c);
}

/* The whole of one whose first n bytes are known. */
static size_t skip_url(struct span s, size_t n, bool is_host)
{
    size_t after, open = 0, open_braces = 0;

    for (after = n; after < s.n; n = after) {
        const uint32_t c = unicode_next(s.at, s.n, &after);

        if (!address_url_has(s.at, s.n, c, after) || (is_host && ends_host(s.at[n - 1], c)))
            break;
        is_host = is_host && !(c < 0x80 && is_one_of((char)c, "/?#"));
        open += c == '(';
        open_braces += c == '{';
    }
    while (n > 0 && is_one_of(s.at[n - 1], ".,;:!?])}*_")) { /* which close the sentence */
        if ((s.at[n - 1] == ')' && open > 0) || (s.at[n - 1] == '}' && open_braces > 0))
            break;
        n--;
    }
    return n;
}

/* What tells a URL: "https://", "git+ssh://", or one of two that have no slashes. */
static size_t scheme_bytes(struct span s)
{
    static const char *const others[] = {"mailto:", "www."};
    size_t n = 0;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (s.n > strlen(others[i]) && strncasecmp(s.at, others[i], strlen(others[i])) == 0)
            return strlen(others[i]);
    while (n < SCHEME_BYTES && (isalnum((unsigned char)peek(s, n)) || is_one_of(peek(s, n), "+-")))
        n++;
    return isalpha((unsigned char)peek(s, 0)) && begins(s, n, "://") ? n + strlen("://") : 0;
}

/* Files of this computer have no host: file:///etc/hosts. */
static size_t of_url(struct span s)
{
    const size_t n = scheme_bytes(s), host = n > 0 && peek(s, n) == '/' ? n + 1 : n;

    return n > 0 && is_word(peek(s, host)) ? skip_url(s, n, true) : 0;
}

/* ---- Mail ------------------------------------------------------------------------------------ */

static size_t of_email(struct span s)
{
    size_t at = 0, end, dot = 0;

    while (at < LOCAL_BYTES &&
           (isalnum((unsigned char)peek(s, at)) || is_one_of(peek(s, at), ".!#$&'*+/=?^_`{|}~-")))
        at++;
    if (at == 0 || peek(s, at) != '@')
        return 0;
    for (end = at + 1; end - at < DOMAIN_BYTES &&
                       (isalnum((unsigned char)peek(s, end)) || is_one_of(peek(s, end), ".-"));
         end++)
        if (s.at[end] == '.' && end > at + 1 && isalnum((unsigned char)peek(s, end + 1)))
            dot = end;
    while (end > at && is_one_of(s.at[end - 1], ".-"))
        end--;
    return dot ? end : 0;
}

/* ---- Hosts and files by their names ---------------------------------------------------------- */

/* Whether names end so: those of hosts, and of files. In capitals or without, as a sentence may
 * begin behind a full stop without a blank: "That's it.Be nice." */
static bool is_one(struct span name, const char *const *names, size_t n)
{
    if (name.n > 1 && isupper((unsigned char)name.at[0]) && islower((unsigned char)name.at[1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == name.n && strncasecmp(names[i], name.at, name.n) == 0)
            return true;
    return false;
}

static bool is_of_host(struct span name)
{
    static const char *const names[] = {"ai",  "app", "be",  "biz", "ca", "ch",  "com",  "de",
                                        "dev", "edu", "es",  "eu",  "fr", "gov", "info", "io",
                                        "net", "nl",  "org", "pl",  "tv", "uk"};

    return is_one(name, names, sizeof(names) / sizeof(names[0]));
}

static bool is_of_file(struct span name)
{
    static const char *const names[] = {
        "avi",  "bat",  "bmp",  "cfg",  "conf", "cpp",  "css", "csv",  "db",   "deb", "dll",
        "doc",  "docx", "epub", "exe",  "gif",  "gz",   "htm", "html", "ini",  "iso", "jar",
        "java", "jpeg", "jpg",  "js",   "json", "lock", "log", "md",   "mkv",  "mov", "mp3",
        "mp4",  "odt",  "pdf",  "php",  "png",  "po",   "ppt", "pptx", "py",   "rar", "rpm",
        "rs",   "sh",   "sql",  "srt",  "svg",  "tar",  "tex", "tif",  "toml", "ts",  "tsv",
        "txt",  "vtt",  "wav",  "webp", "xls",  "xlsx", "xml", "yaml", "yml",  "zip"};

    return is_one(name, names, sizeof(names) / sizeof(names[0]));
}

/* Labels with dots between them, and where the last one begins; 0: there is none. */
static size_t skip_labels(struct span s, size_t *last)
{
    size_t n = 0;

    for (*last = 0; n < DOMAIN_BYTES; n++) {
        if (s.n > n + 1 && n > 0 && s.at[n] == '.' && isalnum((unsigned char)s.at[n + 1]))
            *last = n + 1;
        else if (!isalnum((unsigned char)peek(s, n)) && !is_one_of(peek(s, n), "-_"))
            break;
    }
    return *last > 0 ? n : 0;
}

/* example.com, example.com/help?page=1 */
static size_t of_host(struct span s)
{
    size_t last;
    const size_t n = skip_labels(s, &last);

    if (n == 0 || is_word(peek(s, n)) || !is_of_host((struct span){s.at + last, n - last}))
        return 0;
    return is_one_of(peek(s, n), "/?#:") && is_word(peek(s, n + 1)) ? skip_url(s, n, false) : n;
}

/* setup.exe, src/main/App.java */
static size_t of_file(struct span s)
{
    size_t n = 0, dot = 0;

    while (n < PATH_BYTES && (is_word(peek(s, n)) || is_one_of(peek(s, n), "-./"))) {
        if (s.at[n] == '/')
            dot = 0;
        else if (s.at[n] == '.' && is_word(peek(s, n + 1)))
            dot = n;
        n++;
    }
    while (n > 0 && is_one_of(s.at[n - 1], "-./"))
        n--;
    return dot > 0 && dot < n && is_of_file((struct span){s.at + dot + 1, n - dot - 1}) ? n : 0;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static size_t skip_path(struct span s, size_t i)
{
    while (i < s.n && !is_one_of(s.at[i], " \t\r\n\"<>|*?"))
        i++;
    while (i > 0 && is_one_of(peek(s, i - 1), ".,;:!)\\"))
        i--;
    return i;
}

/* C:\folder\file */
static size_t of_drive(struct span s)
{
    return isalpha((unsigned char)peek(s, 0)) && peek(s, 1) == ':' && peek(s, 2) == '\\' &&
                   is_word(peek(s, 3))
               ? skip_path(s, 3)
               : 0;
}

/* Whether a path goes on with it. Not all that file names may have: prose stands around it. */
static bool is_of_path(uint32_t c)
{
    return c < 0x80 ? isalnum((int)c) || is_one_of((char)c, "/._-+@%~")
                    : word_has(c) && word_is_spaced(c);
}

/* /etc/hosts, /index.html, ~/.profile, ./configure, ../notes; not what parts words or numbers: "his
 * /her", "3 /4/2024". */
static size_t of_path(struct span s)
{
    const size_t first = s.at[0] == '~' ? 1 : skip(s, 0, ".");
    size_t n = first + 1, after;

    if (first > 2 || peek(s, first) != '/' ||
        !(isalnum((unsigned char)peek(s, n)) || is_one_of(peek(s, n), "._-")))
        return 0;
    for (after = n; n < s.n && is_of_path(unicode_next(s.at, s.n, &after));)
        n = after;
    while (s.at[n - 1] == '.')
        n--;
    if (n <= first + 1)
        return 0;
    if (first == 0 && !memchr(s.at + 1, '/', n - 1) && !memchr(s.at + 1, '.', n - 1))
        return 0;
    return skip(s, first, "/.0123456789-") < n ? n : 0;
}

/* Whether the tag that ends before a place is an end tag. */
static bool is_behind_end(const char *text, size_t at)
{
    for (size_t i = at; i > 0 && at - i < TAG_BYTES; i--)
        if (text[i - 1] == '<')
            return text[i] == '/';
    return true;
}

/* Not behind a word, or what ends one, an amount or a quotation: "pre-/postnatal", "€/month". */
static bool begins_path(const char *text, size_t at)
{
    size_t begin = unicode_before(text, at);
    const bool is_first = begin == 0 || is_blank(text[begin - 1]);
    UChar32 c;

    if (at == 0)
        return true;
    c = (UChar32)unicode_next(text, at, &begin);
    if (c < 0x80 && is_one_of((char)c, "\"'`"))
        return is_first;
    if (c == '>')
        return !is_behind_end(text, at);
    return c == '=' || u_isUWhiteSpace(c) || u_charType(c) == U_START_PUNCTUATION ||
           u_charType(c) == U_INITIAL_PUNCTUATION ||
           (word_has((uint32_t)c) && !word_is_spaced((uint32_t)c));
}

/* ---- All of them ----------------------------------------------------------------------------- */

size_t address_path_bytes(const char *text, size_t bytes, size_t at)
{
    const struct span s = {text + at, bytes - at};

    if (s.at[0] == '\\')
        return peek(s, 1) == '\\' && isalnum((unsigned char)peek(s, 2)) ? skip_path(s, 2) : 0;
    return begins_path(text, at) ? of_path(s) : 0;
}

size_t address_bytes(const char *text, size_t bytes, size_t at)
{
    const struct span s = {text + at, bytes - at};
    size_t n = of_url(s);

    n = n ? n : of_drive(s);
    return n ? n : of_email(s);
}

size_t address_name_bytes(const char *text, size_t bytes, size_t at)
{
    const struct span s = {text + at, bytes - at};
    const size_t n = of_host(s);

    return n ? n : of_file(s);
}
