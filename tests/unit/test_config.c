/* Model configurations: what is read from good ones, and the message for each mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../support/temp.h"
#include "base/mem.h"
#include "model/config.h"
#include "nn/network.h" /* network_kinds */

static struct config config;
static struct acre_err err;

/* The good configuration, with some keys replaced: `changes` is "key:value;key:value", in JSON
 * without the quotes around keys; an empty value takes the key out. */
static void write_config(char *out, size_t bytes, const char *changes)
{
    static const char *const good[][2] = {
        {"model_type", "\"marian\""},
        {"d_model", "64"},
        {"encoder_layers", "2"},
        {"decoder_layers", "3"},
        {"encoder_attention_heads", "4"},
        {"decoder_attention_heads", "8"},
        {"encoder_ffn_dim", "128"},
        {"decoder_ffn_dim", "256"},
        {"activation_function", "\"swish\""},
        {"vocab_size", "100"},
        {"max_position_embeddings", "512"},
        {"scale_embedding", "true"},
        {"pad_token_id", "99"},
        {"eos_token_id", "0"},
        {"decoder_start_token_id", "99"},
        {"forced_eos_token_id", "0"},
        {"bad_words_ids", "[[99]]"},
        {"num_beams", "4"},
        {"max_length", "512"},
    };
    size_t used = (size_t)snprintf(out, bytes, "{\"transformers_version\":\"4\"");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char key[64];
        snprintf(key, sizeof(key), ";%s:", good[i][0]);
        if (!strstr(changes, key))
            used +=
                (size_t)snprintf(out + used, bytes - used, ",\"%s\":%s", good[i][0], good[i][1]);
    }
    while (*changes == ';') {
        size_t key = strcspn(++changes, ":"), value = strcspn(changes + key + 1, ";");
        if (value > 0)
            used += (size_t)snprintf(out + used, bytes - used, ",\"%.*s\":%.*s", (int)key, changes,
                                     (int)value, changes + key + 1);
        changes += key + 1 + value;
    }
    snprintf(out + used, bytes - used, "}");
}

static struct text text_of(const char *bytes)
{
    return (struct text){(char *)(uintptr_t)bytes, bytes ? strlen(bytes) : 0};
}

static int parse(const char *changes, const char *generation, const char *tokenizer,
                 const char *name)
{
    char text[4096];
    write_config(text, sizeof(text), changes);
    struct config_texts texts = {name, text_of(text), text_of(generation), text_of(tokenizer)};
    err = (struct acre_err){0};
    return config_parse(&texts, network_kinds, &config, &err);
}

static void parse_good(const char *changes, const char *generation)
{
    if (parse(changes, generation, NULL, "d"))
        fail_msg("%s %s: %s", changes, generation ? generation : "", err.text);
}

static void test_good(void **state)
{
    (void)state;
    parse_good("", NULL);
    assert_string_equal(config.kind->model_type, "marian");
    assert_int_equal(config.d_model, 64);
    assert_int_equal(config.encoder_layers, 2);
    assert_int_equal(config.decoder_layers, 3);
    assert_int_equal(config.encoder_heads, 4);
    assert_int_equal(config.decoder_heads, 8);
    assert_int_equal(config.encoder_ffn, 128);
    assert_int_equal(config.decoder_ffn, 256);
    assert_int_equal(config.activation, ACTIVATION_SWISH);
    assert_int_equal(config.vocab_size, 100);
    assert_int_equal(config.decoder_vocab_size, 100);
    assert_int_equal(config.max_positions, 512);
    assert_true(config.scale_embedding && config.share_embeddings);
    assert_int_equal(config.pad_token, 99);
    assert_int_equal(config.end_token, 0);
    assert_int_equal(config.start_token, 99);
    assert_int_equal(config.n_forbidden, 1);
    assert_int_equal(config.forbidden[0], 99);
    assert_int_equal(config.decoding.beam_size, 4);
    assert_int_equal(config.decoding.num_hypotheses, 1);
    assert_int_equal(config.decoding.min_length, 0);
    assert_int_equal(config.decoding.max_length, 510);
    assert_true(config.decoding.length_penalty == 1);
    assert_int_equal(config_max_area_width(&config), 1);
    assert_string_equal(config.source, "");
    config_fini(&config);
}

/* What only Transformers have may be missing; its one attention has areas. */
static void test_lstm(void **state)
{
    (void)state;
    parse_good(";model_type:\"acre-lstm\";decoder_layers:2;encoder_ffn_dim:;decoder_ffn_dim:;"
               "encoder_attention_heads:;activation_function:;d_model:70;"
               "area:{\"decoder_cross\":{\"width\":[2]}}",
               NULL);
    assert_string_equal(config.kind->model_type, "acre-lstm");
    assert_int_equal(config.encoder_self.n_layers, 0);
    assert_int_equal(config.decoder_cross.n_layers, 1);
    assert_int_equal(config.d_model, 70);
    assert_int_equal(config.decoder_cross.width[0], 2);
    assert_int_equal(config_max_area_width(&config), 2);
    config_fini(&config);
    parse_good(";model_type:\"acre-lstm\";decoder_layers:2;d_model:70;"
               "area:{\"key\":\"sum\",\"temperature\":0.5,\"decoder_cross\":{\"width\":[2]}}",
               NULL);
    assert_int_equal(config.decoder_cross.key, AREA_KEY_SUM);
    assert_true(config.decoder_cross.temperature == 0.5f);
    config_fini(&config);
}

/* Pre-norm; positions count from behind the pad token, which may be emitted. */
static void test_m2m(void **state)
{
    (void)state;
    parse_good(";model_type:\"m2m_100\";pad_token_id:1;eos_token_id:2;decoder_start_token_id:2;"
               "forced_eos_token_id:2;scale_embedding:;bad_words_ids:",
               NULL);
    assert_true(config.normalize_before && config.scale_embedding);
    assert_int_equal(config.first_position, 2);
    assert_true(config.position_steps == 31.0);
    assert_true(config.norm_epsilon == 1e-5f);
    assert_int_equal(config.start_token, 2);
    assert_int_equal(config.n_forbidden, 0);
    assert_int_equal(config.encoder_self.n_layers, 2);
    assert_int_equal(config.decoder_cross.n_layers, 3);
    config_fini(&config);
    parse_good(";model_type:\"m2m_100\";scale_embedding:false;d_model:8;encoder_layers:1;"
               "area:{\"encoder_self\":{\"width\":[3]}}",
               NULL);
    assert_false(config.scale_embedding);
    assert_int_equal(config.first_position, 100);
    assert_int_equal(config.encoder_self.width[0], 3);
    config_fini(&config);
    parse_good(";position_steps:31;layer_norm_epsilon:1e-9", NULL);
    assert_true(config.position_steps == 31.0 && config.norm_epsilon == 1e-9f);
    config_fini(&config);
    parse_good("", NULL);
    assert_false(config.normalize_before);
    assert_int_equal(config.first_position, 0);
    assert_true(config.position_steps == 32.0);
    config_fini(&config);
}

/* Normed before and behind the layers, too; learned positions, of which two rows are not used. */
static void test_mbart(void **state)
{
    (void)state;
    parse_good(";model_type:\"mbart\";activation_function:\"gelu\";scale_embedding:", NULL);
    assert_true(config.normalize_before && config.normalize_embedding);
    assert_true(config.has_learned_positions && !config.scale_embedding);
    assert_int_equal(config.first_position, 2);
    assert_int_equal(config.activation, ACTIVATION_GELU);
    assert_string_equal(config.tokenizer_class, "MBartTokenizer");
    config_fini(&config);
    parse_good(";model_type:\"mbart\";tokenizer_class:\"MBart50Tokenizer\""
               ";share_encoder_decoder_embeddings:false",
               NULL);
    assert_true(config.share_embeddings); /* whatever the file says, as in transformers */
    assert_string_equal(config.tokenizer_class, "MBart50Tokenizer");
    config_fini(&config);
    parse_good("", NULL);
    assert_false(config.has_learned_positions || config.normalize_embedding);
    assert_string_equal(config.tokenizer_class, "");
    config_fini(&config);
}

static void test_decoding(void **state)
{
    (void)state;
    static const struct {
        const char *changes, *generation;
        struct acre_decoding expected; /* beam, hypotheses, min, max, penalty, threshold */
    } table[] = {
        {";num_beams:;max_length:", NULL, {1, 1, 0, 510, 1, 0}},
        {"",
         "{\"num_beams\":6,\"max_length\":20,\"min_length\":3,\"length_penalty\":0.6,"
         "\"beam_threshold\":1.5}",
         {6, 1, 2, 18, 0.6F, 1.5F}},
        {";length_penalty:2", "{}", {1, 1, 0, 510, 1, 0}},
        {";beam_threshold:3", NULL, {4, 1, 0, 510, 1, 3}},
        {";min_length:1", NULL, {4, 1, 0, 510, 1, 0}},
        {"", "{\"max_new_tokens\":30}", {1, 1, 0, 29, 1, 0}},
        {";min_length:9", "{\"max_new_tokens\":30,\"min_new_tokens\":5}", {1, 1, 5, 29, 1, 0}},
        {";max_length:3", NULL, {4, 1, 0, 1, 1, 0}},
        {"", "{\"num_beams\":null,\"max_length\":3}", {1, 1, 0, 1, 1, 0}},
        {";max_length:4098", NULL, {4, 1, 0, 4096, 1, 0}},
        {"", "{\"max_length\":12,\"min_length\":11}", {1, 1, 10, 10, 1, 0}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        parse_good(table[i].changes, table[i].generation);
        const struct acre_decoding *found = &config.decoding, *expected = &table[i].expected;
        assert_int_equal(found->beam_size, expected->beam_size);
        assert_int_equal(found->num_hypotheses, expected->num_hypotheses);
        assert_int_equal(found->min_length, expected->min_length);
        assert_int_equal(found->max_length, expected->max_length);
        assert_true(found->length_penalty == expected->length_penalty);
        assert_true(found->beam_threshold == expected->beam_threshold);
        config_fini(&config);
    }
}

static void test_tokens(void **state)
{
    (void)state;
    /* the ids in generation_config.json only, as newer directories have them */
    parse_good(";pad_token_id:;eos_token_id:;decoder_start_token_id:;forced_eos_token_id:"
               ";bad_words_ids:",
               "{\"pad_token_id\":5,\"eos_token_id\":[7],\"decoder_start_token_id\":6,"
               "\"bad_words_ids\":[[1],[2]]}");
    assert_int_equal(config.pad_token, 5);
    assert_int_equal(config.end_token, 7);
    assert_int_equal(config.start_token, 6);
    assert_int_equal(config.n_forbidden, 3);
    assert_int_equal(config.forbidden[0], 1);
    assert_int_equal(config.forbidden[1], 2);
    assert_int_equal(config.forbidden[2], 5); /* pad, always */
    config_fini(&config);
    parse_good(";bad_words_ids:[[3],[4],[99]]", "{\"bad_words_ids\":[[8]]}");
    assert_int_equal(config.n_forbidden, 2);
    assert_int_equal(config.forbidden[0], 8);
    assert_int_equal(config.forbidden[1], 99);
    config_fini(&config);
    /* the end may always come, wherever its id stands */
    parse_good(";bad_words_ids:[[3],[0],[4]]", NULL);
    assert_int_equal(config.n_forbidden, 3);
    assert_int_equal(config.forbidden[0], 3);
    assert_int_equal(config.forbidden[1], 4);
    assert_int_equal(config.forbidden[2], 99);
    config_fini(&config);
    parse_good(";eos_token_id:;forced_eos_token_id:",
               "{\"bad_words_ids\":[[7]],\"eos_token_id\":7}");
    assert_int_equal(config.n_forbidden, 1);
    assert_int_equal(config.forbidden[0], 99);
    config_fini(&config);
    /* what generation_config.json does not say is as if nothing had said it, ids apart */
    parse_good(";bad_words_ids:[[3],[4]];renormalize_logits:true;forced_bos_token_id:5", "{}");
    assert_int_equal(config.n_forbidden, 1);
    assert_int_equal(config.forbidden[0], 99);
    assert_false(config.renormalize);
    assert_int_equal(config.first_token, 5);
    config_fini(&config);
    parse_good(";bad_words_ids:null", NULL);
    assert_int_equal(config.n_forbidden, 1);
    assert_int_equal(config.forbidden[0], 99);
    config_fini(&config);
}

static void test_keys_that_are_not_applied(void **state)
{
    (void)state;
    parse_good(";repetition_penalty:1.0;no_repeat_ngram_size:0;do_sample:false;suppress_tokens:[];"
               "sequence_bias:null;num_beam_groups:1;guidance_scale:1;early_stopping:false",
               NULL);
    assert_string_equal(config.ignored, "");
    config_fini(&config);
    parse_good(";no_repeat_ngram_size:2", NULL);
    assert_string_equal(config.ignored, "config.json: not applied: no_repeat_ngram_size");
    config_fini(&config);
    parse_good(";early_stopping:true", NULL);
    assert_string_equal(config.ignored, "config.json: not applied: early_stopping");
    config_fini(&config);
    parse_good("", "{\"early_stopping\":\"never\",\"constraints\":\"\"}");
    assert_string_equal(config.ignored, "generation_config.json: not applied: early_stopping");
    config_fini(&config);
    parse_good(";no_repeat_ngram_size:2",
               "{\"repetition_penalty\":1.2,\"do_sample\":true,\"suppress_tokens\":[3]}");
    assert_string_equal(config.ignored, "generation_config.json: not applied: do_sample, "
                                        "repetition_penalty, suppress_tokens");
    config_fini(&config);
}

static void test_architecture(void **state)
{
    (void)state;
    static const struct {
        const char *changes;
        enum activation activation;
    } names[] = {{";activation_function:\"relu\"", ACTIVATION_RELU},
                 {";activation_function:\"silu\"", ACTIVATION_SWISH},
                 {";activation_function:\"gelu\"", ACTIVATION_GELU}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        parse_good(names[i].changes, NULL);
        assert_int_equal(config.activation, names[i].activation);
        config_fini(&config);
    }
    parse_good(";share_encoder_decoder_embeddings:false;decoder_vocab_size:200;d_model:72"
               ";encoder_attention_heads:24;scale_embedding:false",
               NULL);
    assert_false(config.share_embeddings || config.scale_embedding);
    assert_int_equal(config.decoder_vocab_size, 200);
    assert_int_equal(config.encoder_heads, 24);
    config_fini(&config);
}

static void test_area(void **state)
{
    (void)state;
    parse_good(";area:{\"key\":\"mean\",\"value\":\"mean\",\"top_k\":3,\"temperature\":2.5,"
               "\"encoder_self\":{\"width\":[5,1],\"height\":[1,1]},"
               "\"decoder_cross\":{\"width\":[1,16,2],\"value\":\"sum\",\"memory_height\":1}}",
               NULL);
    assert_int_equal(config.encoder_self.width[0], 5);
    assert_int_equal(config.encoder_self.width[1], 1);
    assert_int_equal(config.encoder_self.value, AREA_VALUE_MEAN);
    assert_int_equal(config.decoder_cross.top_k, 3);
    assert_true(config.decoder_self.temperature == 2.5f);
    assert_int_equal(config.decoder_self.width[2], 1);
    assert_int_equal(config.decoder_cross.width[1], 16);
    assert_int_equal(config.decoder_cross.value, AREA_VALUE_SUM);
    assert_int_equal(config_max_area_width(&config), 16);
    config_fini(&config);
    parse_good(";area:null", NULL);
    assert_int_equal(config_max_area_width(&config), 1);
    config_fini(&config);
}

/* What stands inside of one of the three goes before what stands outside. */
static void test_area_modes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum area_key_mode mode;
    } keys[] = {{"mean", AREA_KEY_MEAN},
                {"max", AREA_KEY_MAX},
                {"sample", AREA_KEY_MEAN},
                {"concat", AREA_KEY_CONCAT},
                {"max_concat", AREA_KEY_MAX_CONCAT},
                {"sum", AREA_KEY_SUM},
                {"sample_concat", AREA_KEY_SAMPLE_CONCAT},
                {"sample_sum", AREA_KEY_SAMPLE_SUM}};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char changes[256];
        snprintf(changes, sizeof(changes),
                 ";area:{\"key\":\"max\",\"value\":\"max\",\"weights\":\"sigmoid\","
                 "\"decoder_self\":{\"key\":\"%s\",\"value\":\"sum\",\"weights\":\"softmax\"}}",
                 keys[i].name);
        parse_good(changes, NULL);
        assert_int_equal(config.decoder_self.key, keys[i].mode);
        assert_int_equal(config.decoder_self.value, AREA_VALUE_SUM);
        assert_false(config.decoder_self.sigmoid);
        assert_int_equal(config.encoder_self.key, AREA_KEY_MAX);
        assert_int_equal(config.decoder_cross.value, AREA_VALUE_MAX);
        assert_true(config.encoder_self.sigmoid && config.decoder_cross.sigmoid);
        config_fini(&config);
    }
}

static void test_area_grids(void **state)
{
    (void)state;
    parse_good(";area:{\"encoder_self\":{\"height\":[1,8],\"memory_height\":512},"
               "\"decoder_cross\":{\"width\":[2,2,2],\"height\":[3,1,2],\"memory_height\":4},"
               "\"decoder_self\":{\"height\":[1,1,1],\"memory_height\":1}}",
               NULL);
    assert_int_equal(config.encoder_self.height[0], 1);
    assert_int_equal(config.encoder_self.height[1], 8);
    assert_int_equal(config.encoder_self.memory_height, 512);
    assert_int_equal(config.decoder_cross.height[0], 3);
    assert_int_equal(config.decoder_cross.height[2], 2);
    assert_int_equal(config.decoder_cross.memory_height, 4);
    assert_int_equal(config.decoder_self.memory_height, 1);
    assert_false(config.encoder_self.sigmoid);
    config_fini(&config);
    parse_good(";area:{}", NULL);
    assert_int_equal(config.encoder_self.memory_height, 1);
    assert_int_equal(config.decoder_cross.height[2], 1);
    assert_int_equal(config.decoder_self.key, AREA_KEY_MEAN);
    config_fini(&config);
}

static void test_languages(void **state)
{
    (void)state;
    static const struct {
        const char *name, *tokenizer, *source, *target;
    } table[] = {
        {"m", "{\"source_lang\":\"en\",\"target_lang\":\"de\"}", "en", "de"},
        {"m", "{\"source_lang\":\"eng\",\"target_lang\":\"deu\"}", "en", "de"},
        {"m", "{\"source_lang\":\"en\",\"target_lang\":\"roa\"}", "en", "roa"},
        {"m", "{\"source_lang\":\"en\",\"target_lang\":\"pt-BR\"}", "en", "pt-BR"},
        {"m", "{\"source_lang\":\"fi_nb_no_nn_ru_sv_en\",\"target_lang\":\"se\"}", "", "se"},
        {"opus-mt-fi_nb_no_nn_ru_sv_en-SAMI", "{\"source_lang\":\"fi_nb_no_nn_ru_sv_en\"}", "", ""},
        {"en-fr-char", NULL, "en", "fr"},
        {"en-fr-char", "{}", "en", "fr"},
        {"en-fr", "{\"source_lang\":\"sv\"}", "sv", "fr"},
        {"en-fr", "{\"target_lang\":\"sv\"}", "en", "sv"},
        {"opus-mt-de-en", NULL, "de", "en"},
        {"opus-mt-tc-big-fr-itc", NULL, "fr", "itc"},
        {"opus-mt-en-ROMANCE", NULL, "", ""},
        {"model", NULL, "", ""},
        {"my-model", NULL, "", ""},
        {"en/de", NULL, "", ""},
        {"", NULL, "", ""},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (parse("", NULL, table[i].tokenizer, table[i].name))
            fail_msg("%s: %s", table[i].name, err.text);
        assert_string_equal(config.source, table[i].source);
        assert_string_equal(config.target, table[i].target);
        config_fini(&config);
    }
}

static void test_longest_source(void **state)
{
    (void)state;
    static const struct {
        const char *tokenizer;
        int longest;
    } table[] = {
        {NULL, 512},
        {"{}", 512},
        {"{\"model_max_length\":null}", 512},
        {"{\"model_max_length\":100}", 100},
        {"{\"model_max_length\":4096}", 512},
        {"{\"model_max_length\":1e30}", 512},
        {"{\"model_max_length\":1000000000000000019884624838656}", 512},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (parse("", NULL, table[i].tokenizer, "d"))
            fail_msg("%s: %s", table[i].tokenizer, err.text);
        assert_int_equal(config.max_source, table[i].longest);
        assert_int_equal(config.max_positions, 512);
        config_fini(&config);
    }
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static const struct {
    const char *changes, *message;
} mistakes[] = {
    {";model_type:", "config.json: model_type: expected a string of 1 to 31 bytes, found nothing"},
    {";model_type:\"bart\"",
     "config.json: model_type: expected \"marian\", \"m2m_100\", \"mbart\" or "
     "\"acre-lstm\", found \"bart\""},
    {";position_steps:0", "config.json: position_steps: expected an integer from 1 to 64, found 0"},
    {";position_steps:65",
     "config.json: position_steps: expected an integer from 1 to 64, found 65"},
    {";layer_norm_epsilon:0",
     "config.json: layer_norm_epsilon: expected a number from 1e-12 to 0.1, found 0"},
    {";layer_norm_epsilon:\"1e-5\"",
     "config.json: layer_norm_epsilon: expected a number from 1e-12 to 0.1, found \"1e-5\""},
    {";model_type:\"m2m_100\";d_model:65;encoder_attention_heads:5;decoder_attention_heads:5",
     "config.json: d_model: expected an even number from 4 on, found 65"},
    {";model_type:\"m2m_100\";d_model:2;encoder_attention_heads:1;decoder_attention_heads:1",
     "config.json: d_model: expected an even number from 4 on, found 2"},
    {";model_type:\"m2m_100\";tie_word_embeddings:false",
     "config.json: tie_word_embeddings: expected true, found false, which is not supported"},
    {";model_type:\"m2m_100\";is_encoder_decoder:false",
     "config.json: is_encoder_decoder: expected true, found false, which is not supported"},
    {";model_type:\"mbart\";normalize_embedding:false",
     "config.json: normalize_embedding: expected true, found false, which is not supported"},
    {";model_type:\"mbart\";static_position_embeddings:true",
     "config.json: static_position_embeddings: expected false, found true, which is not supported"},
    {";tokenizer_class:\"\"",
     "config.json: tokenizer_class: expected a string of 1 to 31 bytes, found \"\""},
    {";forced_eos_token_id:5",
     "config.json: forced_eos_token_id: expected eos_token_id, which is 0, found 5"},
    {";model_type:\"m2m_100\";pad_token_id:",
     "config.json: pad_token_id: expected an integer from 0 to 99, found nothing"},
    {";model_type:\"acre-lstm\"",
     "config.json: decoder_layers: expected encoder_layers, which is 2, found 3"},
    {";model_type:\"acre-lstm\";decoder_layers:2;area:{\"decoder_cross\":{\"width\":[2,2]}}",
     "config.json: area.decoder_cross.width: expected 1 integer from 1 to 16, one per layer, "
     "found [2,2]"},
    {";model_type:\"acre-lstm\";decoder_layers:2;area:{\"encoder_self\":{\"width\":[0]}}",
     "config.json: area.encoder_self: expected one of key, value, weights, top_k, temperature, "
     "decoder_cross, found this key"},
    {";model_type:\"acre-lstm\";decoder_layers:2;area:{\"decoder_self\":{}}",
     "config.json: area.decoder_self: expected one of key, value, weights, top_k, temperature, "
     "decoder_cross, found this key"},
    {";model_type:\"acre-lstm\";decoder_layers:2;d_model:25;"
     "area:{\"decoder_cross\":{\"width\":[2],\"key\":\"sample_sum\"}}",
     "config.json: area.decoder_cross: expected an even width of keys that are sums, found 25"},
    {";d_model:72;area:{\"key\":\"sum\",\"decoder_self\":{\"width\":[1,1,2]}}",
     "config.json: area.decoder_self: expected an even width of keys that are sums, found 9"},
    {";d_model:", "config.json: d_model: expected an integer from 2 to 65536, found nothing"},
    {";d_model:\"abc\"",
     "config.json: d_model: expected an integer from 2 to 65536, found \"abc\""},
    {";d_model:0", "config.json: d_model: expected an integer from 2 to 65536, found 0"},
    {";d_model:64.0", "config.json: d_model: expected an integer from 2 to 65536, found 64.0"},
    {";d_model:66", "config.json: encoder_attention_heads: expected a divisor of d_model, which is "
                    "66, found 4"},
    {";decoder_attention_heads:5", "config.json: decoder_attention_heads: expected a divisor of "
                                   "d_model, which is 64, found 5"},
    {";encoder_layers:65",
     "config.json: encoder_layers: expected an integer from 1 to 64, found 65"},
    {";decoder_layers:-1",
     "config.json: decoder_layers: expected an integer from 1 to 64, found -1"},
    {";vocab_size:1", "config.json: vocab_size: expected an integer from 2 to 16777216, found 1"},
    {";decoder_vocab_size:200", "config.json: decoder_vocab_size: expected vocab_size, as the "
                                "embeddings are shared, found 200"},
    {";activation_function:\"tanh\"", "config.json: activation_function: expected relu, swish, "
                                      "silu or gelu, found \"tanh\""},
    {";activation_function:", "config.json: activation_function: expected relu, swish, silu or "
                              "gelu, found nothing"},
    {";scale_embedding:1", "config.json: scale_embedding: expected true or false, found 1"},
    {";static_position_embeddings:false", "config.json: static_position_embeddings: expected true, "
                                          "found false, which is not supported"},
    {";normalize_before:true", "config.json: normalize_before: expected false, found true, which "
                               "is not supported"},
    {";normalize_embedding:true", "config.json: normalize_embedding: expected false, found true, "
                                  "which is not supported"},
    {";add_final_layer_norm:true", "config.json: add_final_layer_norm: expected false, found "
                                   "true, which is not supported"},
    {";tie_word_embeddings:false", "config.json: tie_word_embeddings: expected true, found false, "
                                   "which is not supported"},
    {";pad_token_id:", "config.json: pad_token_id: expected a token id, found nothing"},
    {";share_encoder_decoder_embeddings:false;decoder_vocab_size:200;eos_token_id:150",
     "config.json: eos_token_id: expected an integer from 0 to 99, found 150"},
    {";eos_token_id:", "config.json: eos_token_id: expected a token id, found nothing"},
    {";decoder_start_token_id:",
     "config.json: decoder_start_token_id: expected a token id, found nothing"},
    {";pad_token_id:100", "config.json: pad_token_id: expected an integer from 0 to 99, found 100"},
    {";eos_token_id:[1,2]",
     "config.json: eos_token_id: expected an integer from 0 to 99, found [1,2]"},
    {";eos_token_id:\"0\"",
     "config.json: eos_token_id: expected an integer from 0 to 99, found \"0\""},
    {";forced_eos_token_id:-1",
     "config.json: forced_eos_token_id: expected an integer from 0 to 99, found -1"},
    {";bad_words_ids:3", "config.json: bad_words_ids: expected a list of lists of token ids, "
                         "found 3"},
    {";bad_words_ids:[[3],[1,2]]", "config.json: bad_words_ids: expected lists of one id; longer "
                                   "ones are not supported, found [1,2]"},
    {";bad_words_ids:[3]", "config.json: bad_words_ids: expected lists of token ids below the "
                           "vocabulary size, found 3"},
    {";bad_words_ids:[[100]]", "config.json: bad_words_ids: expected lists of token ids below the "
                               "vocabulary size, found [100]"},
    {";bad_words_ids:[[]]", "config.json: bad_words_ids: expected lists of token ids below the "
                            "vocabulary size, found []"},
    {";num_beams:0", "config.json: num_beams: expected an integer from 1 to 64, found 0"},
    {";max_length:2", "config.json: max_length: expected an integer from 3 to 4098, found 2"},
    {";max_length:4099", "config.json: max_length: expected an integer from 3 to 4098, found 4099"},
    {";min_length:512", "config.json: min_length: expected at most the 510 target tokens that "
                        "max_length allows, found 511"},
    {";length_penalty:\"x\"",
     "config.json: length_penalty: expected a number from -10 to 10, found \"x\""},
    {";beam_threshold:-1",
     "config.json: beam_threshold: expected a number from 0 to 1000, found -1"},
    {";area:3", "config.json: area: expected an object, found 3"},
    {";area:{\"widht\":1}",
     "config.json: area.widht: expected one of key, value, weights, top_k, "
     "temperature, encoder_self, decoder_self, decoder_cross, found this key"},
    {";area:{\"encoder_self\":{\"widht\":[1,1]}}",
     "config.json: area.encoder_self.widht: expected "
     "one of width, height, memory_height, key, value, weights, found this key"},
    {";area:{\"decoder_self\":{\"top_k\":1}}",
     "config.json: area.decoder_self.top_k: expected "
     "one of width, height, memory_height, key, value, weights, found this key"},
    {";area:{\"encoder_self\":[2,2]}",
     "config.json: area.encoder_self: expected an object, found [2,2]"},
    {";area:{\"encoder_self\":{\"width\":[1]}}", "config.json: area.encoder_self.width: expected 2 "
                                                 "integers from 1 to 16, one per layer, found [1]"},
    {";area:{\"encoder_self\":{\"width\":[0,2]}}",
     "config.json: area.encoder_self.width: "
     "expected 2 integers from 1 to 16, one per layer, found [0,2]"},
    {";area:{\"decoder_self\":{\"width\":[1,2,17]}}",
     "config.json: area.decoder_self.width: "
     "expected 3 integers from 1 to 16, one per layer, found [1,2,17]"},
    {";area:{\"decoder_cross\":{\"width\":5}}", "config.json: area.decoder_cross.width: expected 3 "
                                                "integers from 1 to 16, one per layer, found 5"},
    {";area:{\"encoder_self\":{\"height\":[1,9]}}",
     "config.json: area.encoder_self.height: "
     "expected 2 integers from 1 to 8, one per layer, found [1,9]"},
    {";area:{\"decoder_cross\":{\"height\":[1,2]}}",
     "config.json: area.decoder_cross.height: "
     "expected 3 integers from 1 to 8, one per layer, found [1,2]"},
    {";area:{\"decoder_self\":{\"height\":[1,2,1]}}",
     "config.json: area.decoder_self.height: "
     "expected 1 in each layer, as the memory is a line (memory_height is 1), found [1,2,1]"},
    {";area:{\"encoder_self\":{\"height\":[2,1]}}",
     "config.json: area.encoder_self.height: "
     "expected 1 in each layer, as the memory is a line (memory_height is 1), found [2,1]"},
    {";area:{\"decoder_cross\":{\"height\":[1,1,3],\"memory_height\":1}}",
     "config.json: area.decoder_cross.height: "
     "expected 1 in each layer, as the memory is a line (memory_height is 1), found [1,1,3]"},
    {";area:{\"decoder_self\":{\"memory_height\":2}}",
     "config.json: area.decoder_self.memory_height: expected 1, as this memory cannot be a grid, "
     "found 2"},
    {";model_type:\"acre-lstm\";decoder_layers:2;area:{\"decoder_cross\":{\"memory_height\":2}}",
     "config.json: area.decoder_cross.memory_height: expected 1, as this memory cannot be a grid, "
     "found 2"},
    {";area:{\"encoder_self\":{\"memory_height\":0}}",
     "config.json: area.encoder_self.memory_height: "
     "expected an integer from 1 to max_position_embeddings, which is 512, found 0"},
    {";area:{\"decoder_cross\":{\"memory_height\":[4]}}",
     "config.json: area.decoder_cross.memory_height: "
     "expected an integer from 1 to max_position_embeddings, which is 512, found [4]"},
    {";area:{\"decoder_cross\":{\"memory_height\":513}}",
     "config.json: area.decoder_cross.memory_height: "
     "expected an integer from 1 to max_position_embeddings, which is 512, found 513"},
    {";max_position_embeddings:9;area:{\"encoder_self\":{\"memory_height\":10}}",
     "config.json: area.encoder_self.memory_height: "
     "expected an integer from 1 to max_position_embeddings, which is 9, found 10"},
    {";area:{\"top_k\":-1}",
     "config.json: area.top_k: expected an integer from 0 to 65536, found -1"},
    {";area:{\"temperature\":0}",
     "config.json: area.temperature: expected a number from 0.01 to 100, found 0"},
    {";area:{\"key\":\"median\"}",
     "config.json: area.key: expected mean, max, sample, concat, "
     "max_concat, sum, sample_concat or sample_sum, found \"median\""},
    {";area:{\"decoder_cross\":{\"key\":3}}",
     "config.json: area.decoder_cross.key: expected mean, max, sample, concat, "
     "max_concat, sum, sample_concat or sample_sum, found 3"},
    {";area:{\"value\":0}", "config.json: area.value: expected sum, mean or max, found 0"},
    {";area:{\"decoder_self\":{\"value\":\"min\"}}",
     "config.json: area.decoder_self.value: expected sum, mean or max, found \"min\""},
    {";area:{\"weights\":\"relu\"}",
     "config.json: area.weights: expected softmax or sigmoid, found \"relu\""},
    {";area:{\"encoder_self\":{\"weights\":true}}",
     "config.json: area.encoder_self.weights: expected softmax or sigmoid, found true"},
};

static void test_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        if (!parse(mistakes[i].changes, NULL, NULL, "d"))
            fail_msg("%s: expected an error", mistakes[i].changes);
        assert_string_equal(err.text, mistakes[i].message);
        bool is_unsupported =
            strstr(err.text, "which is not supported") || strstr(err.text, "found \"bart\"");
        assert_int_equal(err.code, is_unsupported ? ACRE_EUNSUPPORTED : ACRE_EMODEL);
        assert_null(config.forbidden);
    }
    assert_int_equal(parse("", "{\"num_beams\":65}", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text, "generation_config.json: num_beams: expected an integer from 1 "
                                  "to 64, found 65");
    assert_int_equal(parse("", "{\"eos_token_id\":3}", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text,
                        "config.json or generation_config.json: forced_eos_token_id: expected "
                        "eos_token_id, which is 3, found 0");
    assert_int_equal(parse("", "{\"min_length\":512}", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text, "config.json or generation_config.json: min_length: expected at "
                                  "most the 510 target tokens that max_length allows, found 511");
    assert_int_equal(parse("", "{\"eos_token_id\":[0,3]}", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text,
                        "generation_config.json: eos_token_id: expected an integer from 0 "
                        "to 99, found [0,3]");
    assert_int_equal(parse("", "{\"forced_bos_token_id\":100}", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text,
                        "generation_config.json: forced_bos_token_id: expected an integer "
                        "from 0 to 99, found 100");
    assert_int_equal(parse("", "[]", NULL, "d"), ACRE_EMODEL);
    assert_string_equal(err.text,
                        "generation_config.json: expected a JSON object, found another value");
    assert_int_equal(parse("", NULL, "{\"source_lang\":3}", "d"), ACRE_EMODEL);
    assert_string_equal(err.text, "tokenizer_config.json: source_lang: expected a string of 1 to "
                                  "1023 bytes, found 3");
    assert_int_equal(parse("", NULL, "{\"model_max_length\":1}", "d"), ACRE_EMODEL);
    assert_string_equal(err.text, "tokenizer_config.json: model_max_length: expected a number of "
                                  "at least 2, found 1");
    assert_int_equal(parse(";d_model:64;d_model:64", NULL, NULL, "d"), ACRE_EMODEL);
    assert_non_null(strstr(err.text, "config.json: line 1: expected JSON, found: duplicate"));
}

static void test_directory(void **state)
{
    (void)state;
    char directory[sizeof(TEMP_TEMPLATE)], text[4096];
    temp_make(directory);
    assert_int_equal(config_load(directory, "d", network_kinds, &config, &err), ACRE_EIO);
    assert_string_equal(err.text, "config.json: cannot be opened: No such file or directory");
    write_config(text, sizeof(text), "");
    temp_write_text(directory, "config.json", text);
    assert_int_equal(config_load(directory, "d", network_kinds, &config, &err), 0);
    config_fini(&config);
    temp_write_text(directory, "generation_config.json", "{\"num_beams\":2}");
    temp_write_text(directory, "tokenizer_config.json", "{\"source_lang\":\"sv\"}");
    int code = ACRE_ENOMEM;
    long n = 0;
    for (; code == ACRE_ENOMEM && n < 100; n++) {
        mem_fail_after(n);
        code = config_load(directory, "d", network_kinds, &config, &err);
        mem_fail_after(-1);
    }
    assert_int_equal(code, 0);
    assert_true(n > 6);
    assert_int_equal(config.decoding.beam_size, 2);
    assert_string_equal(config.source, "sv");
    assert_string_equal(config.target, "");
    config_fini(&config);
    temp_write_text(directory, "generation_config.json", "{");
    assert_int_equal(config_load(directory, "d", network_kinds, &config, &err), ACRE_EMODEL);
    assert_string_equal(err.text, "generation_config.json: line 1: expected JSON, found: string "
                                  "or '}' expected near end of file");
    temp_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_lstm),
        cmocka_unit_test(test_m2m),
        cmocka_unit_test(test_mbart),
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_keys_that_are_not_applied),
        cmocka_unit_test(test_architecture),
        cmocka_unit_test(test_area),
        cmocka_unit_test(test_area_modes),
        cmocka_unit_test(test_area_grids),
        cmocka_unit_test(test_languages),
        cmocka_unit_test(test_longest_source),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
