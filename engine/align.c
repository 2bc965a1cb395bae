#include "align.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

/* Tokens joined with spaces. */
static void place_tokens(const struct tokenizer *tokenizer,
                         const struct sentence_hypothesis *hypothesis, struct acre_range *ranges)
{
    size_t at = 0;
    for (size_t i = 0; i < hypothesis->n_tokens; i++) {
        size_t bytes = strlen(tokenizer_token(tokenizer, hypothesis->tokens[i]));
        ranges[i] = (struct acre_range){at, bytes};
        at += bytes + 1;
    }
}

static int place_target(const struct tokenizer *tokenizer, const struct aligned_sentence *sentence,
                        struct acre_range *ranges, struct acre_err *err)
{
    const struct sentence_hypothesis *hypothesis = sentence->hypothesis;
    if (!sentence->is_tokens)
        return tokenizer_target_ranges(tokenizer, hypothesis->tokens, hypothesis->n_tokens,
                                       sentence->target + sentence->in_target.first,
                                       sentence->in_target.n_bytes, ranges, err);
    place_tokens(tokenizer, hypothesis, ranges);
    return 0;
}

int align_ranges(const struct tokenizer *tokenizer, const struct aligned_sentence *sentence,
                 struct acre_range *source, struct acre_range *target, struct acre_err *err)
{
    size_t first = sentence->first_item;
    int status = tokenizer_source_ranges(tokenizer, sentence->source + sentence->in_source.first,
                                         sentence->in_source.n_bytes, sentence->is_tokens,
                                         sentence->n_source - first, source + first, err);
    for (size_t i = 0; i < first; i++)
        source[i] = (struct acre_range){0, 0};
    if (status == 0)
        status = place_target(tokenizer, sentence, target, err);
    for (size_t i = 0; i < sentence->n_source && status == 0; i++)
        source[i].first += sentence->in_source.first;
    for (size_t i = 0; i < sentence->hypothesis->n_tokens && status == 0; i++)
        target[i].first += sentence->in_target.first;
    return status;
}

int align_sentence(const struct tokenizer *tokenizer, const struct aligned_sentence *sentence,
                   struct acre_alignment *alignments, struct acre_err *err)
{
    const struct sentence_hypothesis *hypothesis = sentence->hypothesis;
    size_t n = hypothesis->n_tokens, n_source = sentence->n_source;
    struct acre_range *source = mem_alloc((n_source + n) * sizeof(*source));
    if (!source)
        return err_set(err, ACRE_ENOMEM, "no memory for the alignment of a sentence");
    struct acre_range *target = source + n_source;
    int status = align_ranges(tokenizer, sentence, source, target, err);
    for (size_t i = 0; i < n && status == 0; i++) {
        size_t at = (size_t)hypothesis->alignment[i]; /* of an empty source it is the end token */
        alignments[i] = (struct acre_alignment){
            .source =
                at < n_source ? source[at] : (struct acre_range){sentence->in_source.first, 0},
            .target = target[i]};
    }
    mem_free(source);
    return status;
}
