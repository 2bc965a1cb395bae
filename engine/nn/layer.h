/* layer.h - one encoder or decoder layer: its weights and their binding. Private to nn/. */
#ifndef NN_LAYER_H
#define NN_LAYER_H

#include "device/device.h"
#include "model/config.h"
#include "model/safetensors.h"

struct layer {
    struct attention self_attention, cross_attention;
    enum area_key_mode self_key_mode, cross_key_mode;
    struct area_key *self_key, *cross_key; /* what the attentions point to; NULL: mean keys */
    float self_scale, cross_scale;         /* of the queries; binding folds it into their weights */
    struct weight *self_qkv, *self_out;    /* [3C,C], [C,C] */
    struct weight *cross_query, *cross_memory, *cross_out; /* decoder: [C,C], [2C,C], [C,C] */
    struct weight *inner, *outer;                          /* [F,C], [C,F] */
    struct norm *self_norm, *cross_norm, *final_norm;
};

/* Where a layer's tensors are: "model.encoder.layers.3." and what they must look like. */
struct layer_source {
    struct device *device;
    struct safetensors *weights;
    const char *prefix;
    enum compute_type type;
    float norm_epsilon;
    size_t c, f;
};

/* What a configuration says of the attention of a layer; `key` is not bound. */
struct attention layer_attention(const struct config *config, int n_heads,
                                 const struct area_config *area, size_t layer);
enum area_key_mode layer_key_mode(const struct area_config *area, size_t layer);

/* What divides the logits of its areas; 1 for regular attention. */
float layer_temperature(const struct area_config *area, size_t layer);

/* Binds the keys of areas that are not their items' means, of the attention called `name`; `scale`
 * multiplies those of dense layers. *key is owned by the caller, NULL for means; attention->key
 * points to it. */
int layer_bind_area_key(const struct layer_source *source, const char *name,
                        enum area_key_mode mode, float scale, struct attention *attention,
                        struct area_key **key, struct acre_err *err);

/* Fill in the weights; the attentions, key modes and scales are there already. */
int layer_bind_norm(const struct layer_source *source, const char *name, struct norm **norm,
                    struct acre_err *err);
int layer_bind_encoder(struct layer *layer, const struct layer_source *source,
                       struct acre_err *err);
int layer_bind_decoder(struct layer *layer, const struct layer_source *source,
                       struct acre_err *err);
void layer_fini(struct layer *layer, struct device *device);

#endif
