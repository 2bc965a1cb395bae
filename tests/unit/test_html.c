/* Documents that end where no byte may be read any more: each stands against a page that nobody
 * may touch, so that one byte too far ends this program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "content/prose.h"

static const char *const documents[] = {
    "<code>abc<",    "<code>abc</",   "<code>abc</code", "<code>abc<!",   "<code>abc<code",
    "<code>abc<!--", "<svg>a<b></b<", "<b>abc<",         "abc<",          "<",
    "<b>abc</b",     "<b a=",         "<b a='",          "<script>a</",   "&",
    "abc&am",        "<title>a<",     "<p title='a'>a<", "<textarea>a</", "<code",
};

struct pages {
    char *first; /* the second one is nobody's */
    size_t bytes;
};

static struct pages map_pages(void)
{
    struct pages pages = {.bytes = (size_t)sysconf(_SC_PAGESIZE)};

    pages.first =
        mmap(NULL, 2 * pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages.first, MAP_FAILED);
    assert_int_equal(mprotect(pages.first + pages.bytes, pages.bytes, PROT_NONE), 0);
    return pages;
}

static void read_at_the_end(const struct pages *pages, const char *text, bool is_xml)
{
    const struct prose_markup markup = {.is_xml = is_xml, .with_attributes = true};
    const size_t bytes = strlen(text);
    char *document = pages->first + pages->bytes - bytes;
    struct prose prose;

    memcpy(document, text, bytes);
    assert_int_equal(prose_read_markup(document, bytes, &markup, &prose, NULL), 0);
    prose_fini(&prose);
}

static void nothing_is_read_behind_the_document(void **state)
{
    const struct pages pages = map_pages();

    (void)state;
    for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
        read_at_the_end(&pages, documents[i], false);
        read_at_the_end(&pages, documents[i], true);
    }
    munmap(pages.first, 2 * pages.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_read_behind_the_document)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
