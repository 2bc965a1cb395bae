/* The translator's list of news, with what is a translate's own played here: whoever has some is
 * told, also while a worker brings more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "serve/translate_internal.h"

enum { N_TRANSLATES = 3 };

static struct translate *translates[N_TRANSLATES];
static size_t n_told[N_TRANSLATES], n_all;

static void bring_news(size_t i)
{
    translator_on_next(&translates[i]->nothing);
}

/* While the first is told, a worker has another sentence of the second. */
void translate_tell_news(const struct translate *translate)
{
    for (size_t i = 0; i < N_TRANSLATES; i++)
        n_told[i] += translates[i] == translate;
    if (n_all++ == 0)
        bring_news(1);
}

void translate_settle(struct translate *translate)
{
    (void)translate;
}

static void make(size_t i, struct translator *translator)
{
    translates[i] = calloc(1, sizeof(*translates[i]));
    assert_non_null(translates[i]);
    translates[i]->translator = translator;
    translates[i]->nothing.translate = translates[i];
}

static void test_news_while_others_are_told_hide_nobody(void **state)
{
    struct translator *translator;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(translator_open(&loop, NULL, &translator, NULL), 0);
    for (size_t i = 0; i < N_TRANSLATES; i++) {
        make(i, translator);
        bring_news(i);
    }
    while (n_told[1] == 0)
        uv_run(&loop, UV_RUN_ONCE);
    for (size_t i = 0; i < N_TRANSLATES; i++)
        assert_in_range(n_told[i], 1, 2);

    bring_news(2); /* and who was told may have news again */
    while (n_told[2] == 1)
        uv_run(&loop, UV_RUN_ONCE);

    translator_settle(translator);
    translator_close(translator);
    uv_run(&loop, UV_RUN_DEFAULT);
    translator_free(translator);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (size_t i = 0; i < N_TRANSLATES; i++)
        free(translates[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_news_while_others_are_told_hide_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
