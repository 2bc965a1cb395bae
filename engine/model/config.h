/* config.h - what config.json, generation_config.json and tokenizer_config.json say of a model.
 *
 * Keys are MarianConfig's. Missing keys, wrong types and values out of range are errors that name
 * file, field, what was expected and what was found; keys Acre does not use are ignored, because
 * transformers writes many. Everything is checked here, so that the rest of the engine may trust
 * it.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>

#include "acre.h"
#include "base/file.h" /* struct text */
#include "shapes.h"
#include "tensor/area.h"
#include "tensor/compute.h"

enum { CONFIG_MAX_LAYERS = 64 };

/* Area settings of one kind of attention (encoder self, decoder self, cross). Where width and
 * height are 1 attention is regular, and of the others only `sigmoid` acts. */
struct area_config {
    enum area_key_mode key;
    enum area_value value;
    int width[CONFIG_MAX_LAYERS], height[CONFIG_MAX_LAYERS]; /* of the largest areas per layer */
    int memory_height; /* rows of the grid that the memory is; 1: a line */
    bool sigmoid;      /* weights are normalised sigmoids, not softmax; in every layer */
    int top_k;         /* 0 = all areas count, else the k most probable */
    float temperature; /* divides the logits of areas */
};

struct config {
    char model_type[32];         /* "marian" or "acre-lstm" */
    char source[16], target[16]; /* language codes, from tokenizer_config.json; "" if absent */
    int d_model;
    int encoder_layers, decoder_layers;
    int encoder_heads, decoder_heads;
    int encoder_ffn, decoder_ffn;
    enum activation activation;
    int vocab_size;         /* source embedding rows */
    int decoder_vocab_size; /* target embedding and output rows */
    int max_positions;      /* max_position_embeddings: most tokens of a sentence, end included */
    enum compute_type compute_type; /* what "auto" means for this model; f32 if it does not say */
    bool scale_embedding;           /* multiply embeddings by sqrt(d_model) */
    bool share_embeddings;          /* share_encoder_decoder_embeddings */
    int pad_token, end_token, start_token;
    bool renormalize; /* renormalize_logits: forbidden tokens have no share of the softmax */
    int *forbidden;   /* owned: single-token bad_words_ids, [n_forbidden] */
    int n_forbidden;
    struct acre_decoding decoding; /* defaults, in Acre's meaning (lengths without end token) */
    struct area_config encoder_self, decoder_self, decoder_cross;
};

/* Reads the files of `directory`. On success config_fini() frees what config owns. */
int config_load(const char *directory, struct config *config, struct acre_err *err);

/* The same from the files' contents; those after config.json are optional (bytes == NULL). The
 * directory's name tells the languages where no file does. */
struct config_texts {
    const char *directory;
    struct text config, generation, tokenizer; /* borrowed */
};
int config_parse(const struct config_texts *texts, struct config *config, struct acre_err *err);
void config_fini(struct config *config);

/* Whether it is of LSTMs: d_model cells, as many decoder as encoder layers, decoder_heads that are
 * each as wide as the model, one attention (decoder_cross). What only Transformers have is zero. */
bool config_is_lstm(const struct config *config);

int config_max_area_width(const struct config *config);

#endif
