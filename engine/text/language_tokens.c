/* Happy path: candidates are codes and ids, from one of three places: lang_to_id, the added tokens
 * that look like languages, the family's list behind the last piece. Each is checked, gets its name
 * and goes into the vocabulary. A file may name more ids than the model has, or one twice: errors,
 * as it would translate into another language. */
#include "text/language_tokens.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { MAX_LANGUAGES = 4096 };

/* In the order of their ids. */
static const char m2m100[] =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
    "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
    "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th "
    "tl tn tr uk ur uz vi wo xh yi yo zh zu";
static const char wmt21[] = "en ha is ja cs ru zh de";
static const char nllb[] =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi "
    "apc_Arab arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn "
    "azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva "
    "bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
    "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt "
    "ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn "
    "fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn "
    "guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
    "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn "
    "kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
    "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
    "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
    "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn "
    "mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr "
    "nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn "
    "ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
    "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh "
    "slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn "
    "srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl "
    "tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn "
    "urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
    "yue_Hant zho_Hans zho_Hant zul_Latn";
static const char mbart50[] =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "
    "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN "
    "fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE "
    "sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

void language_tokens_fini(struct language_tokens *tokens)
{
    mem_free(tokens->items);
    *tokens = (struct language_tokens){.items = NULL};
}

/* ---- Codes ----------------------------------------------------------------------------------- */

static bool is_like(const char *text, const char *form)
{
    for (; *form && *text; form++, text++)
        if (*form == 'a'   ? !islower((unsigned char)*text)
            : *form == 'A' ? !isupper((unsigned char)*text)
                           : *text != *form)
            return false;
    return !*form && !*text;
}

/* Codes are shown in lists, pages and logs. */
static bool is_code(const char *code, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)code[i]) && code[i] != '_' && code[i] != '-')
            return false;
    return n > 0;
}

/* Whether the token is a language's; then its code is code[n_bytes] of it. */
static bool is_language(enum language_family family, const char *token, size_t *first,
                        size_t *n_bytes)
{
    size_t n = strlen(token);
    *first = family == LANGUAGES_M2M ? 2 : 0;
    if (n < 2 * *first + 1 || n >= sizeof((struct language_token){.id = 0}.code))
        return false;
    *n_bytes = n - 2 * *first;
    switch (family) {
    case LANGUAGES_M2M:
        return !memcmp(token, "__", 2) && !strcmp(token + n - 2, "__") &&
               is_code(token + *first, *n_bytes);
    case LANGUAGES_NLLB:
        return is_like(token, "aaa_Aaaa");
    default:
        return is_like(token, "aa_AA") || is_like(token, "aaa_AA");
    }
}

/* ---- Adding ---------------------------------------------------------------------------------- */

struct reading {
    struct language_tokens *tokens;
    size_t capacity;
    enum language_family family;
    struct vocab *vocab;
    const char *source; /* what is blamed: "tokenizer_config.json: lang_to_id" */
};

static int refuse(const struct reading *reading, const char *expected, const char *code,
                  struct acre_err *err)
{
    return err_set(err, ACRE_EMODEL, "%s: expected %s, found \"%.40s\"", reading->source, expected,
                   code);
}

static int add(struct reading *reading, const char *code, size_t bytes, json_int_t id,
               struct acre_err *err)
{
    struct language_tokens *tokens = reading->tokens;
    struct vocab *vocab = reading->vocab;
    if (!is_code(code, bytes) || bytes >= sizeof(tokens->items->code) || tokens->n == MAX_LANGUAGES)
        return refuse(reading, "at most 4096 language codes of 1 to 15 letters, digits, - and _",
                      code, err);
    if (mem_reserve(&tokens->items, &reading->capacity, tokens->n + 1, sizeof(*tokens->items)))
        return err_set(err, ACRE_ENOMEM, "%s: out of memory", reading->source);
    struct language_token *token = &tokens->items[tokens->n];
    *token = (struct language_token){.id = (int32_t)id};
    memcpy(token->code, code, bytes);
    snprintf(token->name, sizeof(token->name), reading->family == LANGUAGES_M2M ? "__%s__" : "%s",
             token->code);
    if (id <= 0 || id >= vocab->size)
        return err_set(err, ACRE_EMODEL, "%s: expected ids from 1 to %d, found %s with %lld",
                       reading->source, vocab->size - 1, token->code, (long long)id);
    const char *piece = vocab->pieces[id];
    if (piece && strcmp(piece, token->name) != 0)
        return err_set(err, ACRE_EMODEL, "%s: expected %s with an id of its own, found %d of %.40s",
                       reading->source, token->code, (int)id, piece);
    tokens->n++;
    return 0;
}

static int read_map(struct reading *reading, const struct json_object *map, struct acre_err *err)
{
    const char *code;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)map->value, code, id)
    {
        size_t first, n;
        bool is_token = is_language(LANGUAGES_M2M, code, &first, &n);
        if (!json_is_integer(id))
            return json_fail(map, code, "a token id", id, err);
        int status = add(reading, is_token ? code + first : code, is_token ? n : strlen(code),
                         json_integer_value(id), err);
        if (status)
            return status;
    }
    return 0;
}

/* {"256047": {"content": "eng_Latn"}}; tokens of other kinds are among them. */
static int read_added(struct reading *reading, const struct json_object *added,
                      struct acre_err *err)
{
    const char *number;
    json_t *token;
    json_object_foreach((json_t *)(uintptr_t)added->value, number, token)
    {
        size_t first, n;
        char *end;
        const char *content = json_string_value(json_object_get(token, "content"));
        long long id = strtoll(number, &end, 10);
        if (!content || *end)
            return json_fail(added, number, "an id with a token and its content", token, err);
        int status = is_language(reading->family, content, &first, &n)
                         ? add(reading, content + first, n, id, err)
                         : 0;
        if (status)
            return status;
    }
    return 0;
}

/* Those that are pieces already. */
static int read_pieces(struct reading *reading, struct acre_err *err)
{
    for (int id = 0; id < reading->vocab->size; id++) {
        const char *piece = reading->vocab->pieces[id];
        size_t first, n;
        int status = piece && is_language(reading->family, piece, &first, &n)
                         ? add(reading, piece + first, n, id, err)
                         : 0;
        if (status)
            return status;
    }
    return 0;
}

static int read_list(struct reading *reading, const char *list, int id, struct acre_err *err)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        int status = add(reading, list, n, id++, err);
        if (status)
            return status;
        list += n + (list[n] == ' ');
    }
    return 0;
}

static int read_default(struct reading *reading, const struct json_object *config,
                        struct acre_err *err)
{
    const json_t *codes = config->value ? json_find(config, "language_codes") : NULL;
    const char *name = codes ? json_string_value(codes) : "m2m100";
    const char *list = reading->family == LANGUAGES_NLLB ? nllb : mbart50;
    if (reading->family == LANGUAGES_M2M) {
        list = name && !strcmp(name, "m2m100")  ? m2m100
               : name && !strcmp(name, "wmt21") ? wmt21
                                                : NULL;
        if (!list)
            return json_fail(config, "language_codes", "m2m100 or wmt21", codes, err);
    }
    reading->source = "config.json: vocab_size: language tokens";
    return read_list(reading, list, vocab_end(reading->vocab), err);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int by_id(const void *left, const void *right)
{
    const struct language_token *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static int by_code(const void *left, const void *right)
{
    const struct language_token *a = left, *b = right;
    return strcmp(a->code, b->code);
}

/* Sorted by code they are unique; sorted by id they stay. */
static int check(const struct reading *reading, struct acre_err *err)
{
    struct language_token *items = reading->tokens->items;
    size_t n = reading->tokens->n;
    if (n == 0)
        return err_set(err, ACRE_EMODEL, "%s: expected language tokens, found none",
                       reading->source);
    qsort(items, n, sizeof(*items), by_code);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(items[i - 1].code, items[i].code))
            return refuse(reading, "each language once", items[i].code, err);
    qsort(items, n, sizeof(*items), by_id);
    for (size_t i = 1; i < n; i++)
        if (items[i - 1].id == items[i].id)
            return refuse(reading, "an id of its own for each language", items[i].code, err);
    return 0;
}

static int read_one(struct reading *reading, const struct json_object *config, struct acre_err *err)
{
    struct json_object map = {.value = NULL}, added = {.value = NULL};
    int status = 0;
    if (config->value)
        status = json_opt_object(config, "lang_to_id", &map, err);
    if (!status && config->value)
        status = json_opt_object(config, "added_tokens_decoder", &added, err);
    if (status)
        return status;
    if (map.value) {
        reading->source = "tokenizer_config.json: lang_to_id";
        return read_map(reading, &map, err);
    }
    reading->source = "tokenizer_config.json: added_tokens_decoder";
    if (added.value)
        status = read_added(reading, &added, err);
    if (status || reading->tokens->n > 0)
        return status;
    reading->source = "tokenizer.json";
    status = read_pieces(reading, err);
    return status || reading->tokens->n > 0 ? status : read_default(reading, config, err);
}

int language_tokens_read(struct language_tokens *tokens, enum language_family family,
                         const struct json_object *config, struct vocab *vocab,
                         struct acre_err *err)
{
    struct reading reading = {.tokens = tokens, .family = family, .vocab = vocab};
    int status = read_one(&reading, config, err);
    if (!status)
        status = check(&reading, err);
    for (size_t i = 0; i < tokens->n && !status; i++) {
        const struct language_token *token = &tokens->items[i];
        vocab->pieces[token->id] = token->name;
        vocab->is_special[token->id] = true;
    }
    return status;
}
