/* area.h - what areas an attention has, and how they are numbered.
 *
 * A memory's L items are a grid of rule->memory_height rows, in row-major order (1: a line). An
 * area is h rows high and w columns wide and is named by its last item, bottom right. All areas of
 * one size are a plane of L entries; planes are ordered by height, then by width. Entries whose
 * area would begin outside of the grid are void. Pure functions, any thread.
 */
#ifndef TENSOR_AREA_H
#define TENSOR_AREA_H

#include <stdbool.h>
#include <stddef.h>

/* What an area's key is made of (Eq. 9 and its relatives, in the authors' names). At inference
 * their sample modes use the mean, so that "sample" is AREA_KEY_MEAN. */
enum area_key_mode {
    AREA_KEY_MEAN,
    AREA_KEY_MAX,
    AREA_KEY_CONCAT,        /* dense layers over mean, deviation and size embeddings */
    AREA_KEY_MAX_CONCAT,    /* over maximum and size embeddings */
    AREA_KEY_SUM,           /* over the sum of mean, deviation and size embeddings */
    AREA_KEY_SAMPLE_CONCAT, /* over mean and size embeddings */
    AREA_KEY_SAMPLE_SUM,    /* over their sum */
};

/* What an area's value is made of its items' values. */
enum area_value { AREA_VALUE_SUM, AREA_VALUE_MEAN, AREA_VALUE_MAX };

/* How the items of a memory are joined into areas, and areas are weighed. */
struct area_rule {
    int width;         /* A, the widest area; 1 = regular attention */
    int height;        /* of the highest area where the memory is a grid; 0 is 1 */
    int memory_height; /* rows of that grid; 0 is 1, a line */
    enum area_value value;
    int top_k;    /* 0 = all areas count; else only those as probable as the k-th */
    bool sigmoid; /* weights are sigmoids of the logits, normalised, and not their softmax */
};

/* Softmax over all areas of a line, values sums or means: what the scores identity serves. */
static inline bool area_is_plain(const struct area_rule *rule)
{
    bool is_line = rule->height <= 1 && rule->memory_height <= 1;
    return is_line && rule->value != AREA_VALUE_MAX && rule->top_k == 0 && !rule->sigmoid;
}

/* Inputs of a mode's first dense layer; 0 for modes without dense layers. */
size_t area_key_inputs(enum area_key_mode mode, size_t head_width);
bool area_key_is_sum(enum area_key_mode mode); /* of the features, not side by side */
bool area_key_has_deviation(enum area_key_mode mode);

/* Planes of a rule, also void ones. */
size_t area_planes(const struct area_rule *rule);

/* Columns of the grid that l items are. */
size_t area_columns(const struct area_rule *rule, size_t l);

/* One size of area after the other, from narrow to wide and within that from low to high: start
 * with a zeroed walk and the rule. */
struct area_walk {
    const struct area_rule *rule;
    int height, width; /* of the present size */
    size_t plane;
};
bool area_next(struct area_walk *walk); /* false: there are no more */

/* Whether the entry of item `last` is an area, of a memory of l items. */
bool area_exists(const struct area_walk *walk, size_t l, size_t last);

#endif
