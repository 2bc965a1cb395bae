/* The result of a job: what its sentences became, joined to translations of the whole text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "job.h"

/* The i-th hypothesis of a sentence, or its last where it has fewer. */
static size_t number_of(const struct sentence *sentence, size_t i)
{
    return i < sentence->n_hypotheses ? i : sentence->n_hypotheses - 1;
}

static const struct sentence_hypothesis *pick(const struct sentence *sentence, size_t i)
{
    return &sentence->hypotheses[number_of(sentence, i)];
}

static const struct written *pick_written(const struct acre_job *job, size_t sentence, size_t i)
{
    return &job->written[sentence][number_of(&job->sentences[sentence], i)];
}

/* At max_length no hypothesis goes on: who has so many tokens was ended there. */
struct acre_part result_part(const struct sentence *sentence,
                             const struct sentence_hypothesis *hypothesis)
{
    const struct acre_decoding *decoding = &sentence->decoding;
    return (struct acre_part){.n_tokens = hypothesis->n_tokens,
                              .normalized_score = (double)hypothesis->score /
                                                  pow((double)hypothesis->n_tokens + 1.0,
                                                      (double)decoding->length_penalty),
                              .is_truncated = hypothesis->n_tokens == (size_t)decoding->max_length};
}

static int fill_tokens(const struct acre_job *job, size_t i, struct acre_hypothesis *hypothesis,
                       struct acre_part *parts)
{
    size_t n = 0, n_scored = 0;
    double score = 0.0;
    for (size_t s = 0; s < job->document.n_sentences; s++) {
        const struct sentence_hypothesis *part = pick(&job->sentences[s], i);
        parts[s] = result_part(&job->sentences[s], part);
        hypothesis->is_truncated = hypothesis->is_truncated || parts[s].is_truncated;
        n += part->n_tokens;
        n_scored += part->n_tokens + 1;
        score += (double)part->score;
    }
    const char **tokens = mem_alloc(n * sizeof(*tokens));
    if (!tokens)
        return ACRE_ENOMEM;
    hypothesis->tokens = tokens;
    for (size_t s = 0; s < job->document.n_sentences; s++) {
        const struct sentence_hypothesis *part = pick(&job->sentences[s], i);
        for (size_t t = 0; t < part->n_tokens; t++)
            *tokens++ = tokenizer_token(job->model->tokenizer, part->tokens[t]);
    }
    double penalty = n_scored == 0 ? 0.0 : (double)job->sentences[0].decoding.length_penalty;
    hypothesis->n_tokens = n;
    hypothesis->score = score;
    hypothesis->normalized_score = score / pow((double)n_scored, penalty);
    return 0;
}

/* ---- As text --------------------------------------------------------------------------------- */

/* Vocabulary tokens separated by spaces. */
static char *join_tokens(const struct tokenizer *tokenizer,
                         const struct sentence_hypothesis *hypothesis)
{
    size_t bytes = 0;
    for (size_t i = 0; i < hypothesis->n_tokens; i++)
        bytes += strlen(tokenizer_token(tokenizer, hypothesis->tokens[i])) + 1;
    char *text = mem_alloc(bytes + 1), *end = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < hypothesis->n_tokens; i++)
        end += sprintf(end, "%s%s", i > 0 ? " " : "",
                       tokenizer_token(tokenizer, hypothesis->tokens[i]));
    *end = '\0';
    return text;
}

static int write_text(const struct acre_job *job, const struct sentence_hypothesis *hypothesis,
                      char **text)
{
    const struct tokenizer *tokenizer = job->model->tokenizer;
    if (!job->is_tokens)
        return tokenizer_decode(tokenizer, hypothesis->tokens, hypothesis->n_tokens, text, NULL);
    *text = join_tokens(tokenizer, hypothesis);
    return *text ? 0 : ACRE_ENOMEM;
}

struct aligned_sentence result_aligned(const struct acre_job *job, size_t number, size_t i,
                                       const char *target, struct acre_range in_target)
{
    return (struct aligned_sentence){
        .source = job->document.text,
        .target = target,
        .in_source = job->ranges[number],
        .in_target = in_target,
        .is_tokens = job->is_tokens,
        .n_source = job->sentences[number].n_source,
        .first_item = job->sentences[number].first_item,
        .hypothesis = pick(&job->sentences[number], i),
    };
}

static int write_hypothesis(const struct acre_job *job, size_t number, size_t i,
                            struct written *written)
{
    const struct sentence_hypothesis *hypothesis = &job->sentences[number].hypotheses[i];
    int status = write_text(job, hypothesis, &written->text);
    if (status != 0 || !job->is_aligned)
        return status;
    written->alignments = mem_alloc(hypothesis->n_tokens * sizeof(*written->alignments));
    if (!written->alignments)
        return ACRE_ENOMEM;
    struct acre_range all = {0, strlen(written->text)};
    struct aligned_sentence aligned = result_aligned(job, number, i, written->text, all);
    return align_sentence(job->model->tokenizer, &aligned, written->alignments, NULL);
}

void result_write(struct acre_job *job, struct sentence *sentence)
{
    size_t number = (size_t)(sentence - job->sentences);
    if (sentence->status != 0)
        return;
    struct written *written = mem_calloc(sentence->n_hypotheses, sizeof(*written));
    job->written[number] = written;
    sentence->status = written ? 0 : ACRE_ENOMEM;
    for (size_t i = 0; i < sentence->n_hypotheses && sentence->status == 0; i++)
        sentence->status = write_hypothesis(job, number, i, &written[i]);
}

static void free_written(struct acre_job *job)
{
    for (size_t s = 0; job->written && s < job->document.n_sentences; s++) {
        for (size_t i = 0; job->written[s] && i < job->sentences[s].n_hypotheses; i++) {
            mem_free(job->written[s][i].text);
            mem_free(job->written[s][i].alignments);
        }
        mem_free(job->written[s]);
    }
    mem_free(job->written);
    job->written = NULL;
}

/* ---- Joined ---------------------------------------------------------------------------------- */

/* The i-th translation of the whole text, and where its sentences stand. *text is owned by the
 * caller. */
static int join_sentences(const struct acre_job *job, size_t i, char **text,
                          struct acre_range *places, struct acre_err *err)
{
    const char **texts = mem_alloc(job->document.n_sentences * sizeof(*texts));
    if (!texts)
        return err_set(err, ACRE_ENOMEM, "no memory for the translation");
    for (size_t s = 0; s < job->document.n_sentences; s++)
        texts[s] = pick_written(job, s, i)->text;
    int status = document_join(&job->document, texts, text, places, err);
    mem_free(texts);
    return status;
}

/* Where nothing is between two sentences of the request, document_join() may have put a space. */
static void tell_apart(const struct acre_job *job, const struct acre_range *places,
                       struct acre_part *parts)
{
    const struct acre_range *ranges = job->ranges;
    for (size_t s = 1; s < job->document.n_sentences; s++)
        parts[s].is_apart = ranges[s - 1].first + ranges[s - 1].n_bytes == ranges[s].first &&
                            places[s - 1].first + places[s - 1].n_bytes < places[s].first;
}

static void join_alignments(const struct acre_job *job, size_t i, const struct acre_range *places,
                            struct acre_alignment *alignments)
{
    for (size_t s = 0; s < job->document.n_sentences; s++) {
        const struct acre_alignment *from = pick_written(job, s, i)->alignments;
        size_t n = pick(&job->sentences[s], i)->n_tokens;
        for (size_t t = 0; t < n; t++) {
            *alignments = from[t];
            alignments++->target.first += places[s].first;
        }
    }
}

static int fill_hypothesis(const struct acre_job *job, size_t i, struct acre_hypothesis *hypothesis,
                           struct acre_err *err)
{
    struct acre_range *places = mem_alloc(job->document.n_sentences * sizeof(*places));
    struct acre_part *parts = mem_alloc(job->document.n_sentences * sizeof(*parts));
    hypothesis->sentences = places;
    hypothesis->parts = parts;
    if (!places || !parts || fill_tokens(job, i, hypothesis, parts) != 0)
        return err_set(err, ACRE_ENOMEM, "no memory for the translation");
    char *text = NULL;
    int status = join_sentences(job, i, &text, places, err);
    hypothesis->text = text;
    if (status == 0)
        tell_apart(job, places, parts);
    if (status != 0 || !job->is_aligned)
        return status;
    struct acre_alignment *alignments = mem_alloc(hypothesis->n_tokens * sizeof(*alignments));
    hypothesis->alignments = alignments;
    if (!alignments)
        return err_set(err, ACRE_ENOMEM, "no memory for the alignment of a text");
    join_alignments(job, i, places, alignments);
    return 0;
}

static int first_error(const struct acre_job *job)
{
    for (size_t s = 0; s < job->document.n_sentences; s++)
        if (job->sentences[s].status != 0)
            return job->sentences[s].status;
    return 0;
}

static void free_hypotheses(struct acre_job *job)
{
    for (size_t i = 0; i < job->result.n_hypotheses; i++) {
        mem_free((void *)(uintptr_t)job->hypotheses[i].text);
        mem_free((void *)(uintptr_t)job->hypotheses[i].tokens);
        mem_free((void *)(uintptr_t)job->hypotheses[i].sentences);
        mem_free((void *)(uintptr_t)job->hypotheses[i].parts);
        mem_free((void *)(uintptr_t)job->hypotheses[i].alignments);
    }
    mem_free(job->hypotheses);
    job->hypotheses = NULL;
    job->result.hypotheses = NULL;
    job->result.n_hypotheses = 0;
}

void result_free(struct acre_job *job)
{
    free_hypotheses(job);
    free_written(job);
}

int result_fail(int status, struct acre_err *err)
{
    if (status == ACRE_EMODEL)
        return err_set(err, status,
                       "model: expected finite numbers, found that they overflow in its type");
    return err_set(err, status, "%s", acre_status_text(status));
}

int result_fill(struct acre_job *job, struct acre_err *err)
{
    int status = first_error(job);
    if (status != 0)
        return result_fail(status, err);
    size_t n = 1;
    for (size_t s = 0; s < job->document.n_sentences; s++)
        if (job->sentences[s].n_hypotheses > n)
            n = job->sentences[s].n_hypotheses;
    job->hypotheses = mem_calloc(n, sizeof(*job->hypotheses));
    if (!job->hypotheses)
        return err_set(err, ACRE_ENOMEM, "no memory for the translation");
    job->result.hypotheses = job->hypotheses;
    job->result.n_hypotheses = n;
    for (size_t i = 0; i < n && status == 0; i++)
        status = fill_hypothesis(job, i, &job->hypotheses[i], err);
    if (status != 0)
        free_hypotheses(job);
    if (!job->next)
        free_written(job);
    return status;
}
