/* The files of a tokenizer. Happy path: tokenizer_config.json or config.json names the class; its
 * SentencePiece models and tables are read, checked and bound.
 *
 * What fails says which file and field, and what was expected and found. */
#include "text/tokenizer_files.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/fast_file.h"
#include "text/spm_file.h"

#define CONFIG_FILE "tokenizer_config.json"
#define SPM_FILE "sentencepiece.bpe.model"
#define FAST_FILE "tokenizer.json"

enum {
    MAX_CONFIG_BYTES = 4 << 20,
    MAX_SPM_BYTES = 64 << 20,
    MAX_FAST_BYTES = 128 << 20,
    MAX_TARGET_VOCAB = 1 << 20, /* a separate one; ids that the model lacks do no harm there */
};

/* ---- Which kind ------------------------------------------------------------------------------ */

#define CLASSES "MarianTokenizer, ByteTokenizer, M2M100Tokenizer, NllbTokenizer or MBart50Tokenizer"

static bool find_kind(const char *name, enum tokenizer_kind *kind)
{
    static const struct {
        const char *class;
        enum tokenizer_kind kind;
    } classes[] = {{"MarianTokenizer", KIND_MARIAN},    {"ByteTokenizer", KIND_BYTES},
                   {"M2M100Tokenizer", KIND_M2M},       {"NllbTokenizer", KIND_NLLB},
                   {"NllbTokenizerFast", KIND_NLLB},    {"MBart50Tokenizer", KIND_MBART},
                   {"MBart50TokenizerFast", KIND_MBART}};
    for (size_t i = 0; name && i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (strcmp(name, classes[i].class) == 0) {
            *kind = classes[i].kind;
            return true;
        }
    }
    return false;
}

/* Where no class is named, the files tell. */
static enum tokenizer_kind kind_of_files(const char *directory)
{
    bool is_one = file_exists(directory, SPM_FILE) || file_exists(directory, FAST_FILE);
    if (!is_one || file_exists(directory, "source.spm"))
        return KIND_MARIAN;
    return file_exists(directory, "vocab.json") ? KIND_M2M : KIND_NLLB;
}

static int choose_kind(struct tokenizer *tokenizer, const char *directory,
                       const struct json_object *config, const char *class_of_config,
                       struct acre_err *err)
{
    const json_t *class = config->value ? json_find(config, "tokenizer_class") : NULL;
    const char *name = class ? json_string_value(class) : class_of_config;
    if (!class && !*class_of_config)
        tokenizer->kind = kind_of_files(directory);
    else if (find_kind(name, &tokenizer->kind))
        return 0;
    else if (class)
        return json_fail(config, "tokenizer_class", CLASSES, class, err);
    else
        return err_set(err, ACRE_EMODEL,
                       "config.json: tokenizer_class: expected " CLASSES ", found \"%s\"", name);
    return 0;
}

/* ---- Of one pair ----------------------------------------------------------------------------- */

static int open_bytes(struct tokenizer *tokenizer, int vocab_size, struct acre_err *err)
{
    if (vocab_size < BYTES_VOCAB)
        return err_set(err, ACRE_EMODEL,
                       "config.json: vocab_size: expected at least %d for a "
                       "ByteTokenizer, found %d",
                       BYTES_VOCAB, vocab_size);
    bytes_name(&tokenizer->byte_names);
    return 0;
}

static int open_spm(const char *name, const struct text *text, struct spm **spm,
                    struct acre_err *err)
{
    int status = spm_file_check(name, text->bytes, text->n, err);
    if (status)
        return status;
    status = spm_open(text->bytes, text->n, spm);
    if (status == ACRE_ENOMEM)
        return err_set(err, status, "%s: out of memory", name);
    return status ? err_set(err, status, "%s: expected a SentencePiece model, found something else",
                            name)
                  : 0;
}

static int open_both_spm(struct tokenizer *tokenizer, const char *directory, struct acre_err *err)
{
    struct text source, target = {0};
    int status = file_read(directory, "source.spm", MAX_SPM_BYTES, &source, err);
    if (!status)
        status = file_read(directory, "target.spm", MAX_SPM_BYTES, &target, err);
    if (!status)
        status = open_spm("source.spm", &source, &tokenizer->source_spm, err);
    if (!status && source.n == target.n && !memcmp(source.bytes, target.bytes, source.n))
        tokenizer->target_spm = tokenizer->source_spm;
    else if (!status)
        status = open_spm("target.spm", &target, &tokenizer->target_spm, err);
    text_fini(&source);
    text_fini(&target);
    return status;
}

static int open_marian(struct tokenizer *tokenizer, const char *directory, int vocab_size,
                       const struct json_object *config, struct acre_err *err)
{
    bool is_separate = false;
    int status = config->value ? json_opt_bool(config, "separate_vocabs", &is_separate, err) : 0;
    if (!status)
        status = vocab_open_table(&tokenizer->source, directory, "vocab.json", vocab_size, err);
    if (!status && is_separate) {
        tokenizer->target = &tokenizer->separate;
        status = vocab_open_table(&tokenizer->separate, directory, "target_vocab.json",
                                  MAX_TARGET_VOCAB, err);
    }
    return status ? status : open_both_spm(tokenizer, directory, err);
}

/* ---- Of several languages -------------------------------------------------------------------- */

/* Of the SentencePiece model's file, or else of tokenizer.json, which has another one's numbers. */
static int open_one_spm(struct tokenizer *tokenizer, const char *directory, bool *is_fast,
                        struct acre_err *err)
{
    struct text file, json = {0};
    int status = file_read_optional(directory, SPM_FILE, MAX_SPM_BYTES, &file, err);
    *is_fast = !status && !file.bytes && tokenizer->kind != KIND_M2M;
    if (!status && !file.bytes && !(*is_fast && file_exists(directory, FAST_FILE)))
        return err_set(err, ACRE_EIO, SPM_FILE ": expected a file%s, found nothing",
                       *is_fast ? " or " FAST_FILE " instead" : "");
    if (*is_fast)
        status = file_read(directory, FAST_FILE, MAX_FAST_BYTES, &json, err);
    if (!status && *is_fast)
        status = fast_file_read(&json, &file, err);
    text_fini(&json);
    if (!status)
        status = open_spm(*is_fast ? FAST_FILE : SPM_FILE, &file, &tokenizer->source_spm, err);
    text_fini(&file);
    tokenizer->target_spm = tokenizer->source_spm;
    return status;
}

static int open_multilingual(struct tokenizer *tokenizer, const char *directory, int vocab_size,
                             const struct json_object *config, struct acre_err *err)
{
    static const enum language_family families[] = {
        [KIND_M2M] = LANGUAGES_M2M, [KIND_NLLB] = LANGUAGES_NLLB, [KIND_MBART] = LANGUAGES_MBART};
    bool is_fast;
    int status = open_one_spm(tokenizer, directory, &is_fast, err);
    if (!status && tokenizer->kind == KIND_M2M)
        status = vocab_open_table(&tokenizer->source, directory, "vocab.json", vocab_size, err);
    else if (!status)
        status = vocab_open_spm(&tokenizer->source, tokenizer->source_spm, !is_fast, vocab_size,
                                is_fast ? FAST_FILE : SPM_FILE, err);
    if (!status && config->value && tokenizer->kind == KIND_NLLB)
        status = json_opt_bool(config, "legacy_behaviour", &tokenizer->is_language_last, err);
    return status ? status
                  : language_tokens_read(&tokenizer->languages, families[tokenizer->kind], config,
                                         &tokenizer->source, err);
}

/* ---- All kinds ------------------------------------------------------------------------------- */

static int open_kind(struct tokenizer *tokenizer, const char *directory, int vocab_size,
                     const struct json_object *config, struct acre_err *err)
{
    tokenizer->target = &tokenizer->source;
    switch (tokenizer->kind) {
    case KIND_BYTES:
        return open_bytes(tokenizer, vocab_size, err);
    case KIND_MARIAN:
        return open_marian(tokenizer, directory, vocab_size, config, err);
    default:
        return open_multilingual(tokenizer, directory, vocab_size, config, err);
    }
}

int tokenizer_read_files(struct tokenizer *tokenizer, const char *directory, int vocab_size,
                         const char *class_of_config, struct acre_err *err)
{
    struct text text;
    struct json_object config = {.value = NULL};
    json_t *root = NULL;
    int status = file_read_optional(directory, CONFIG_FILE, MAX_CONFIG_BYTES, &text, err);
    if (!status && text.bytes)
        status = json_parse(CONFIG_FILE, text.bytes, text.n, &root, &config, err);
    if (!status)
        status = choose_kind(tokenizer, directory, &config, class_of_config, err);
    if (!status)
        status = open_kind(tokenizer, directory, vocab_size, &config, err);
    json_decref(root);
    text_fini(&text);
    return status;
}
