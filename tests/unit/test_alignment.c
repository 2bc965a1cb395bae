/* Alignments and ranges of results. What a token is aligned with is the source token that the
 * attention, asked for afterwards in another pass, weighs most; ranges are parts of the texts, in
 * order, of whole characters. Run from the root of the tree. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/engines.h"
#include "../support/random.h"
#include "../support/temp.h"
#include "../support/vocabulary.h"

enum { N_LINES = 20, MAX_TOKENS = 24 };

static struct acre_job *translate(struct acre_model *model, const char *text, bool is_tokens,
                                  int beam)
{
    struct acre_job *job;
    struct acre_err err;
    struct acre_request request = request_of(model, text, is_tokens);
    request.is_aligned = true;
    request.decoding.beam_size = request.decoding.num_hypotheses = beam;
    request.decoding.max_length = 30;
    if (acre_translate(&request, &job, &err) != 0)
        fail_msg("%s", err.text);
    assert_int_equal(acre_job_result(job)->status, 0);
    return job;
}

/* ---- Against attention ----------------------------------------------------------------------- */

/* How much of the weights each source token has, of a target token: by all areas that it is in. */
static void item_weights(const struct acre_attention *a, size_t layer, size_t t, double *items)
{
    for (size_t i = 0; i < a->n_source; i++)
        items[i] = 0;
    for (size_t head = 0; head < a->n_heads; head++) {
        size_t place = (layer * a->n_heads + head) * a->n_target + t;
        for (size_t area = a->first[place]; area < a->first[place + 1]; area++)
            for (int w = 0; w < a->areas[area].width; w++)
                items[a->areas[area].first + w] += (double)a->areas[area].weight;
    }
}

/* Which token of a line of tokens begins there. */
static size_t token_at(const char *line, size_t first)
{
    size_t n = 0;
    for (size_t i = 0; i < first; i++)
        n += line[i] == ' ';
    return n;
}

static void check_line(struct acre_model *model, const char *line)
{
    struct acre_job *job = translate(model, line, true, (int)random_pick(1, 4));
    const struct acre_hypothesis *best = &acre_job_result(job)->hypotheses[0];
    struct acre_attention *attention;
    assert_int_equal(acre_attention_open(job, 0, 0, &attention, NULL), 0);
    double *items = malloc(attention->n_source * sizeof(*items));
    size_t layer = attention->n_layers - (attention->n_layers > 2 ? 2 : 1);
    for (size_t i = 0; i + 1 < attention->n_source; i++) {
        const struct acre_range *range = &attention->source_ranges[i];
        assert_int_equal(token_at(line, range->first), i);
        assert_int_equal(range->n_bytes, strcspn(line + range->first, " "));
    }
    assert_int_equal(attention->source_ranges[attention->n_source - 1].n_bytes, 0);
    for (size_t t = 0; t < best->n_tokens; t++) {
        const struct acre_alignment *at = &best->alignments[t];
        assert_memory_equal(&attention->target_ranges[t], &at->target, sizeof(at->target));
        size_t aligned = token_at(line, at->source.first);
        item_weights(attention, layer, t, items);
        for (size_t i = 0; i + 1 < attention->n_source; i++)
            if (!(items[i] <= items[aligned] + 1e-4))
                fail_msg("token %zu: %zu has %g, but %zu has %g", t, aligned, items[aligned], i,
                         items[i]);
        assert_int_equal(at->target.n_bytes, strlen(best->tokens[t]));
        assert_memory_equal(best->text + at->target.first, best->tokens[t], at->target.n_bytes);
    }
    free(items);
    acre_attention_close(attention);
    acre_job_close(job);
}

static void tokens_are_aligned_with_what_they_look_at(void **state)
{
    (void)state;
    static const char *const models[] = {
        "tests/golden/models/tiny-area",       "tests/golden/models/tiny-token",
        "tests/golden/models/area-max",        "tests/golden/models/area-concat",
        "tests/golden/models/tiny-lstm-heads", "tests/golden/models/lstm-concat"};
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        struct acre_engine *engine = open_engine(1, 4);
        struct acre_model *model = open_model(engine, models[m]);
        struct vocabulary vocabulary;
        vocabulary_init(&vocabulary, models[m]);
        for (size_t i = 0; i < N_LINES; i++) {
            char *line = vocabulary_line(&vocabulary, random_pick(1, MAX_TOKENS));
            check_line(model, line);
            free(line);
        }
        vocabulary_fini(&vocabulary);
        acre_engine_close(engine);
    }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

static bool is_character(const char *text, struct acre_range range)
{
    return (text[range.first] & 0xC0) != 0x80 && (text[range.first + range.n_bytes] & 0xC0) != 0x80;
}

static bool is_within(struct acre_range part, struct acre_range whole)
{
    return part.first >= whole.first && part.first + part.n_bytes <= whole.first + whole.n_bytes;
}

/* Target ranges are in order, and all that is no blank is in one of them. */
static void check_hypothesis(const char *text, const struct acre_result *result,
                             const struct acre_hypothesis *h)
{
    size_t done = 0, s = 0;
    for (size_t i = 0; i < h->n_tokens; i++) {
        struct acre_range source = h->alignments[i].source, target = h->alignments[i].target;
        assert_true(is_character(text, source) && is_character(h->text, target));
        assert_true(target.first + target.n_bytes >= done);
        while (!is_within(target, h->sentences[s]) || !is_within(source, result->sentences[s]))
            assert_true(++s < result->n_sentences);
        for (; done < target.first; done++)
            assert_non_null(strchr(" \n", h->text[done]));
        done = target.first + target.n_bytes;
    }
    for (; h->text[done]; done++)
        assert_non_null(strchr(" \n", h->text[done]));
}

static void tell_nothing(void *user)
{
    (void)user;
}

/* Taken one by one, sentences have the scores and alignments that the whole has. */
static void check_one_by_one(const struct acre_request *request, const struct acre_job *whole)
{
    const struct acre_result *result = acre_job_result(whole);
    const struct acre_hypothesis *best = &result->hypotheses[0];
    const struct acre_alignment *expected = best->alignments;
    struct acre_request by_sentence = *request;
    struct acre_sentence sentence;
    struct acre_job *job;
    by_sentence.next = tell_nothing;
    assert_int_equal(acre_submit(&by_sentence, &job, NULL), 0);
    acre_job_wait(job, -1);
    for (size_t s = 0; s < result->n_sentences; s++) {
        struct acre_range in_whole = best->sentences[s];
        assert_int_equal(acre_job_next(job, &sentence, NULL), 0);
        assert_int_equal(strlen(sentence.text), in_whole.n_bytes);
        assert_memory_equal(sentence.text, best->text + in_whole.first, in_whole.n_bytes);
        assert_int_equal(sentence.part.n_tokens, best->parts[s].n_tokens);
        assert_true(sentence.part.normalized_score == best->parts[s].normalized_score);
        assert_int_equal(sentence.part.is_apart, best->parts[s].is_apart);
        for (size_t t = 0; t < sentence.part.n_tokens; t++, expected++) {
            struct acre_alignment found = sentence.alignments[t];
            found.target.first += in_whole.first;
            assert_memory_equal(&found, expected, sizeof(found));
        }
    }
    assert_int_equal(expected - best->alignments, best->n_tokens);
    acre_job_close(job);
}

static void ranges_are_parts_of_the_texts(void **state)
{
    (void)state;
    static const char text[] =
        "  The cat is old. We go home!\n\nA caf\xC3\xA9 is \xE2\x82\xAC 5.\n";
    static const char *const sentences[] = {"The cat is old.", "We go home!",
                                            "A caf\xC3\xA9 is \xE2\x82\xAC 5."};
    for (size_t m = 0; m < N_MODELS; m++) {
        struct acre_engine *engine = open_engine(1, 4);
        struct acre_model *model = open_model(engine, model_directories[m]);
        struct acre_job *job = translate(model, text, false, 3);
        const struct acre_result *result = acre_job_result(job);
        assert_int_equal(result->n_sentences, 3);
        for (size_t s = 0; s < 3; s++) {
            assert_int_equal(result->sentences[s].n_bytes, strlen(sentences[s]));
            assert_memory_equal(text + result->sentences[s].first, sentences[s],
                                strlen(sentences[s]));
        }
        for (size_t i = 0; i < result->n_hypotheses; i++)
            check_hypothesis(text, result, &result->hypotheses[i]);
        struct acre_request request = request_of(model, text, false);
        request.is_aligned = true;
        request.decoding.beam_size = request.decoding.num_hypotheses = 3;
        request.decoding.max_length = 30;
        check_one_by_one(&request, job);
        acre_job_close(job);
        acre_engine_close(engine);
    }
}

/* Chinese has nothing between sentences; what became of them has a space there, and all ranges and
 * parts know of it. */
static void sentences_are_set_apart(void **state)
{
    (void)state;
    static const char text[] = "今天很冷。我在家。\n我在家。";
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_model *model = open_model(engine, "tests/golden/models/tiny-char");
    struct acre_job *job = translate(model, text, false, 3);
    const struct acre_result *result = acre_job_result(job);
    assert_int_equal(result->n_sentences, 3);
    for (size_t i = 0; i < result->n_hypotheses; i++) {
        const struct acre_hypothesis *h = &result->hypotheses[i];
        const struct acre_range *places = h->sentences;
        assert_false(h->parts[0].is_apart || h->parts[2].is_apart);
        assert_true(h->parts[1].is_apart);
        assert_int_equal(places[1].first, places[0].n_bytes + 1);
        assert_int_equal(h->text[places[0].n_bytes], ' ');
        assert_int_equal(h->text[places[2].first - 1], '\n');
        check_hypothesis(text, result, h);
    }
    struct acre_request request = request_of(model, text, false);
    request.is_aligned = true;
    request.decoding.beam_size = request.decoding.num_hypotheses = 3;
    request.decoding.max_length = 30;
    check_one_by_one(&request, job);
    acre_job_close(job);
    acre_engine_close(engine);
}

/* Where pieces stand in what SentencePiece was given, blanks before them left out. */
static void source_tokens_are_found(void **state)
{
    (void)state;
    static const char text[] = "The cat  is old.";
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_model *model = open_model(engine, "tests/golden/models/tiny-token");
    struct acre_job *job = translate(model, text, false, 1);
    const struct acre_hypothesis *best = &acre_job_result(job)->hypotheses[0];
    size_t n_bytes = 0;
    for (size_t i = 0; i < best->n_tokens; i++) {
        struct acre_range source = best->alignments[i].source; /* empty: of a blank alone */
        assert_true(source.n_bytes == 0 || text[source.first] != ' ');
        assert_null(memchr(text + source.first, ' ', source.n_bytes));
        n_bytes += source.n_bytes;
    }
    assert_true(n_bytes > 0);
    acre_job_close(job);
    struct acre_request request = request_of(model, text, false);
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    assert_null(acre_job_result(job)->hypotheses[0].alignments); /* not asked for */
    assert_non_null(acre_job_result(job)->hypotheses[0].sentences);
    acre_job_close(job);
    acre_engine_close(engine);
}

#define NLLB "tests/golden/multilingual/nllb-many/"

/* Sources of old NLLB models end with two tokens that are no text: the end token, the language. */
static void tokens_behind_the_text_are_not_told(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors", "sentencepiece.bpe.model"};
    static const char text[] = "Hello";
    char directory[sizeof(TEMP_TEMPLATE)], path[256];
    temp_make(directory);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), NLLB "%s", files[i]);
        temp_copy(directory, files[i], path);
    }
    temp_write_text(directory, "tokenizer_config.json",
                    "{\"tokenizer_class\": \"NllbTokenizer\", \"src_lang\": \"eng_Latn\", "
                    "\"tgt_lang\": \"deu_Latn\", \"legacy_behaviour\": true}");
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_job *job = translate(open_model(engine, directory), text, false, 4);
    const struct acre_result *result = acre_job_result(job);
    for (size_t i = 0; i < result->n_hypotheses; i++) {
        const struct acre_hypothesis *h = &result->hypotheses[i];
        for (size_t t = 0; t < h->n_tokens; t++)
            assert_in_range(h->alignments[t].source.first, 0, strlen(text) - 1);
    }
    acre_job_close(job);
    acre_engine_close(engine);
    temp_remove(directory);
}

/* Of nothing: the end token has no place in the text. */
static void empty_source_has_no_range(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_request request = request_of(open_model(engine, model_directories[0]), "", false);
    struct acre_job *job;
    request.translation = "Das Haus.";
    request.translation_bytes = strlen(request.translation);
    request.is_aligned = true;
    assert_int_equal(acre_translate(&request, &job, NULL), 0);
    const struct acre_hypothesis *h = &acre_job_result(job)->hypotheses[0];
    assert_true(h->n_tokens > 0);
    for (size_t t = 0; t < h->n_tokens; t++)
        assert_int_equal(h->alignments[t].source.first + h->alignments[t].source.n_bytes, 0);
    acre_job_close(job);
    acre_engine_close(engine);
}

/* A line of tokens, taken as the sentence that it is, comes as tokens too. */
static void tokens_are_taken_as_tokens(void **state)
{
    (void)state;
    struct acre_engine *engine = open_engine(1, 4);
    struct acre_model *model = open_model(engine, model_directories[0]);
    struct vocabulary vocabulary;
    vocabulary_init(&vocabulary, model_directories[0]);
    char *line = vocabulary_line(&vocabulary, 12);
    struct acre_job *job = translate(model, line, true, 2);
    struct acre_request request = request_of(model, line, true);
    request.is_aligned = true;
    request.decoding.beam_size = request.decoding.num_hypotheses = 2;
    request.decoding.max_length = 30;
    assert_int_equal(acre_job_result(job)->n_sentences, 1);
    check_one_by_one(&request, job);
    acre_job_close(job);
    free(line);
    vocabulary_fini(&vocabulary);
    acre_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_aligned_with_what_they_look_at),
        cmocka_unit_test(ranges_are_parts_of_the_texts),
        cmocka_unit_test(sentences_are_set_apart),
        cmocka_unit_test(source_tokens_are_found),
        cmocka_unit_test(tokens_behind_the_text_are_not_told),
        cmocka_unit_test(empty_source_has_no_range),
        cmocka_unit_test(tokens_are_taken_as_tokens),
    };
    random_seed(8);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
