/* What languages are called: by models, by tags, and by whoever asks for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/language_names.h"

static void assert_tags(const char *const *codes, const char *const *tags, size_t n, bool are_tags)
{
    struct language_names names;
    assert_int_equal(language_names_init(&names, codes, n, are_tags), 0);
    assert_int_equal(names.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(names.list[i].code, codes[i]);
        assert_string_equal(names.list[i].tag, tags[i]);
        assert_ptr_equal(language_names_find(&names, codes[i]), &names.list[i]);
        assert_ptr_equal(language_names_find(&names, tags[i]), &names.list[i]);
    }
    language_names_fini(&names);
}

static void tags_are_short_and_different(void **state)
{
    (void)state;
    static const char *const nllb[] = {"deu_Latn", "zho_Hans", "zho_Hant", "arb_Arab",
                                       "ace_Arab", "ace_Latn", "kor_Hang", "taq_Latn",
                                       "taq_Tfng", "nob_Latn", "yue_Hant", "acm_Arab"};
    static const char *const nllb_tags[] = {"de", "zh",  "zh-Hant",  "ar", "ace-Arab", "ace",
                                            "ko", "taq", "taq-Tfng", "no", "yue",      "acm"};
    static const char *const m2m[] = {"de", "ns", "ceb", "zh"};
    static const char *const m2m_tags[] = {"de", "nso", "ceb", "zh"};
    static const char *const mbart[] = {"en_XX", "zh_CN", "pt_XX"};
    static const char *const mbart_tags[] = {"en", "zh", "pt"};
    static const char *const odd[] = {"deu_Latn", "de", "a_b_c_d", "de_DE"};
    static const char *const odd_tags[] = {"deu_Latn", "de", "a_b_c_d", "de_DE"};
    assert_tags(nllb, nllb_tags, 12, false);
    assert_tags(m2m, m2m_tags, 4, false);
    assert_tags(mbart, mbart_tags, 3, false);
    assert_tags(odd, odd_tags, 4, false);
    assert_tags(odd, odd, 4, true);
}

static void names_of_one_language_are_many(void **state)
{
    (void)state;
    static const char *const codes[] = {"zho_Hans", "zho_Hant", "deu_Latn",
                                        "heb_Hebr", "nob_Latn", "srp_Cyrl"};
    static const struct {
        const char *name, *code;
    } cases[] = {{"zh", "zho_Hans"},    {"ZH-cn", "zho_Hans"},
                 {"zh_TW", "zho_Hant"}, {"zh-HK", "zho_Hant"},
                 {"zho", "zho_Hans"},   {"zh-Hans-TW", "zho_Hans"},
                 {"DEU", "deu_Latn"},   {"de-Latn", "deu_Latn"},
                 {"iw", "heb_Hebr"},    {"nb", "nob_Latn"},
                 {"no", "nob_Latn"},    {"sr", "srp_Cyrl"},
                 {"sr-Latn", NULL},     {"de-DE", NULL},
                 {"en", NULL},          {"", NULL},
                 {"-", NULL},           {"de-", "deu_Latn"},
                 {"zh-CN-x-y-z", NULL}, {"dededededede", NULL}};
    struct language_names names;
    assert_int_equal(language_names_init(&names, codes, 6, false), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct acre_language *found = language_names_find(&names, cases[i].name);
        if (!found != !cases[i].code || (found && strcmp(found->code, cases[i].code) != 0))
            fail_msg("%s: %s", cases[i].name, found ? found->code : "none");
    }
    language_names_fini(&names);
}

static void there_may_be_none(void **state)
{
    (void)state;
    static const char *const codes[] = {""};
    struct language_names names;
    assert_int_equal(language_names_init(&names, codes, 1, true), 0);
    assert_int_equal(names.n, 0);
    assert_null(language_names_find(&names, "de"));
    language_names_fini(&names);
    for (long n = 0; n < 2; n++) {
        mem_fail_after(n);
        assert_int_equal(language_names_init(&names, codes, 1, true), ACRE_ENOMEM);
        language_names_fini(&names);
    }
    mem_fail_after(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_are_short_and_different),
        cmocka_unit_test(names_of_one_language_are_many),
        cmocka_unit_test(there_may_be_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
