/* acre_result.h - what the engine gives back: errors, translations, and what they attended to.
 *
 * Included by acre.h, which says how to get them. Ranges are of bytes, in UTF-8.
 */
#ifndef ACRE_RESULT_H
#define ACRE_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(symbol, number, name for programs, HTTP status, text for people) */
#define ACRE_ERRORS(X)                                                                             \
    X(ACRE_ENOMEM, -1, "out_of_memory", 503, "out of memory")                                      \
    X(ACRE_EIO, -2, "io_error", 500, "a file cannot be read")                                      \
    X(ACRE_EMODEL, -3, "bad_model", 500, "the model directory is not valid")                       \
    X(ACRE_EINPUT, -4, "bad_input", 400, "the input is not valid")                                 \
    X(ACRE_EOPTION, -5, "bad_option", 400, "an option is out of range")                            \
    X(ACRE_EUNSUPPORTED, -6, "unsupported", 500, "this build or machine cannot do that")           \
    X(ACRE_EBUSY, -7, "queue_full", 429, "too much work is waiting")                               \
    X(ACRE_ECANCELLED, -8, "cancelled", 503, "the request was cancelled")                          \
    X(ACRE_ECLOSED, -9, "shutting_down", 503, "the engine is shutting down")                       \
    X(ACRE_ETIMEOUT, -10, "deadline_exceeded", 504, "the deadline has passed")                     \
    X(ACRE_EDEVICE, -11, "device_lost", 503, "the device that computes is lost")                   \
    X(ACRE_ETOOLARGE, -12, "request_too_large", 413, "more text than is queued at once")           \
    X(ACRE_ELATE, -13, "deadline_unreachable", 503, "it would not be done by its deadline")

enum acre_status {
    ACRE_OK = 0,
#define ACRE_X_(symbol, number, name, http, text) symbol = number,
    ACRE_ERRORS(ACRE_X_)
#undef ACRE_X_
};

/* What went wrong: a code above and one line for people, "config.json: d_model: expected ..." */
struct acre_err {
    int code;
    char text[512];
    int retry_after_s; /* of ACRE_ELATE: when it might be done in time; else 0 */
};

/* Bytes first ... first + n_bytes - 1 of a text. */
struct acre_range {
    size_t first, n_bytes;
};

/* Where a token of a translation stands, and where the source token is that the decoder looked at
 * most when it chose it. The range is empty of a token that has no text of its own; where
 * characters have several tokens, each has the whole character. */
struct acre_alignment {
    struct acre_range source, target;
};

/* How one sentence of a translation came out. */
struct acre_part {
    size_t n_tokens; /* without its end token */
    double normalized_score;
    bool is_truncated; /* it has max_length tokens: it was ended there, not by the model. Of bytes
                        * it may end up to 3 before, where a character did not fit; then not */
    bool is_apart;     /* a space belongs before it, where the request's text has nothing */
};

/* score: sum of the natural logarithms of the token probabilities, end tokens included.
 * normalized_score: score / (number of tokens with end tokens)^length_penalty, the ranking.
 * A text of several sentences has the sums over its sentences, and its hypothesis i is made of the
 * i-th best of each. */
struct acre_hypothesis {
    const char *text; /* UTF-8, NUL-terminated; tokens separated by spaces if is_tokens */
    const char *const *tokens;
    size_t n_tokens; /* without end tokens */
    double score;
    double normalized_score;
    const struct acre_range *sentences;      /* [n_sentences]: the parts of `text` that they are */
    const struct acre_part *parts;           /* [n_sentences] */
    const struct acre_alignment *alignments; /* [n_tokens]; NULL: not asked for */
    bool is_truncated;                       /* one of its sentences is */
};

struct acre_result {
    int status; /* 0 or ACRE_E..., then err says more and there are no hypotheses */
    struct acre_err err;
    const struct acre_hypothesis *hypotheses; /* [n_hypotheses], best first */
    size_t n_hypotheses;
    const struct acre_range *sentences; /* [n_sentences]: the parts of the request's text that were
                                         * translated; all else is in every translation as it is,
                                         * with a space before each part that is_apart */
    size_t n_sentences;
    size_t n_source_tokens; /* without end tokens */
};

/* A sentence of a job whose later ones may still be translated: acre_job_next(). */
struct acre_sentence {
    size_t number, n_sentences; /* equal: there are no more */
    struct acre_range source;
    const char *text; /* NULL: not translated yet; else lives until the next call */
    struct acre_part part;
    const struct acre_alignment *alignments; /* [part.n_tokens], targets in this `text`; likewise */
};

/* Adjacent source tokens: `width` from token `first` on and, where the source is a grid, as many in
 * each of `height` rows, n_columns apart. */
struct acre_area {
    int first, width, height;
    float weight;
};

/* The cross-attention that made one sentence's best translation. Tokens are the vocabulary's, end
 * tokens included, whose ranges are empty; lives until it is closed, its tokens as long as the
 * model. */
struct acre_attention {
    size_t n_layers, n_heads; /* of the decoder */
    size_t n_source, n_target;
    size_t n_columns; /* of the source as a grid; n_source if it is a line */
    const char *const *source, *const *target;
    const struct acre_range *source_ranges, *target_ranges; /* where they stand in the texts */
    const struct acre_area *areas;
    const size_t *first; /* the areas of layer y, head h and target token t are first[i] ...
                          * first[i + 1] - 1 with i = (y * n_heads + h) * n_target + t, the
                          * heaviest first */
};

#endif
