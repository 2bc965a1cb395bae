/* config.h - what config.json, generation_config.json and tokenizer_config.json say of a model.
 *
 * Keys are those of transformers' configurations; which of them a model has is its architecture's
 * (struct config_kind). Missing keys, wrong types and values out of range are errors that name
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

enum { CONFIG_MAX_LAYERS = 64, CONFIG_MAX_ATTENTIONS = 3 };

struct config;
struct json_object;
struct tensor_list;

/* Area settings of one kind of attention (encoder self, decoder self, cross). Where width and
 * height are 1 attention is regular, and of the others only `sigmoid` acts. */
struct area_config {
    int n_layers; /* that have this attention; 0: the model has none of this kind */
    enum area_key_mode key;
    enum area_value value;
    int width[CONFIG_MAX_LAYERS], height[CONFIG_MAX_LAYERS]; /* of the largest areas per layer */
    int memory_height; /* rows of the grid that the memory is; 1: a line */
    bool sigmoid;      /* weights are normalised sigmoids, not softmax; in every layer */
    int top_k;         /* 0 = all areas count, else the k most probable */
    float temperature; /* divides the logits of areas */
};

/* An attention that a model has, and what section `area` may say of it. */
struct config_attention {
    const char *name; /* "encoder_self" */
    struct area_config *area;
    int n_layers, head_width;
    int max_rows; /* of its memory as a grid; 1: it is not known as a whole, so it cannot be one */
};

/* An architecture, as config.json sees it; the beginning of each table in nn/. */
struct config_kind {
    const char *model_type;
    bool shares_embeddings; /* always; share_encoder_decoder_embeddings is not read */
    bool forbids_pad;       /* never emits the pad token, whether bad_words_ids has it or not */

    /* Reads what is its own, once the sizes that all have are read: other sizes and their limits,
     * keys with one value only. */
    int (*read)(const struct json_object *object, struct config *config, struct acre_err *err);

    /* Its attentions, once all sizes are known. Returns how many there are. */
    size_t (*attentions)(struct config *config, struct config_attention *attentions);

    /* Names and shapes of its tensors, besides embeddings and output layer (random_weights.h). */
    void (*list)(const struct config *config, struct tensor_list *list);
};

struct config {
    const struct config_kind *kind;
    char source[16], target[16]; /* language codes, from tokenizer_config.json; "" if absent */
    char tokenizer_class[32];    /* config.json's, or what stands for it; "" if absent */
    int d_model;
    int encoder_layers, decoder_layers;
    int encoder_heads, decoder_heads;
    int encoder_ffn, decoder_ffn;
    enum activation activation;
    int vocab_size;         /* source embedding rows */
    int decoder_vocab_size; /* target embedding and output rows */
    int max_positions;      /* max_position_embeddings: most tokens of a sentence, end included */
    int max_source;         /* likewise of a source that is split: model_max_length, if less */
    enum compute_type compute_type; /* what "auto" means for this model; f32 if it does not say */
    bool normalize_before;          /* layer norms stand before each sublayer, not behind it */
    bool normalize_embedding;       /* one stands before the first layer, too */
    float norm_epsilon;             /* of layer norms */
    bool has_learned_positions;     /* of each side a table, not sines */
    int first_position;             /* what the first token's position counts as */
    double position_steps;          /* column i of the sines has the wavelength 10000^(i / steps) */
    bool scale_embedding;           /* multiply embeddings by sqrt(d_model) */
    bool share_embeddings;          /* share_encoder_decoder_embeddings */
    int pad_token, end_token, start_token;
    int first_token;  /* forced_bos_token_id: what every translation begins with; -1: nothing */
    bool renormalize; /* renormalize_logits: forbidden tokens have no share of the softmax */
    int *forbidden;   /* owned: single-token bad_words_ids, [n_forbidden] */
    int n_forbidden;
    struct acre_decoding decoding; /* defaults, in Acre's meaning (lengths without end token) */
    char ignored[384]; /* decoding keys that would change translations but are not applied, and
                        * their file; "": none */
    struct area_config encoder_self, decoder_self, decoder_cross;
};

/* Reads the files of `directory`. The model's name tells the languages where no file does. The
 * kinds that there are end with NULL and live longer than the config. On success config_fini()
 * frees what it owns. */
int config_load(const char *directory, const char *name, const struct config_kind *const *kinds,
                struct config *config, struct acre_err *err);

/* The same from the files' contents; those after config.json are optional (bytes == NULL). */
struct config_texts {
    const char *name;
    struct text config, generation, tokenizer; /* borrowed */
};
int config_parse(const struct config_texts *texts, const struct config_kind *const *kinds,
                 struct config *config, struct acre_err *err);
void config_fini(struct config *config);

int config_max_area_width(const struct config *config);

#endif
