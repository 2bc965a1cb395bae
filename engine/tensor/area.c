#include "tensor/area.h"

bool area_key_is_sum(enum area_key_mode mode)
{
    return mode == AREA_KEY_SUM || mode == AREA_KEY_SAMPLE_SUM;
}

bool area_key_has_deviation(enum area_key_mode mode)
{
    return mode == AREA_KEY_CONCAT || mode == AREA_KEY_SUM;
}

size_t area_key_inputs(enum area_key_mode mode, size_t head_width)
{
    if (mode == AREA_KEY_MEAN || mode == AREA_KEY_MAX)
        return 0;
    if (area_key_is_sum(mode))
        return head_width;
    return head_width + (area_key_has_deviation(mode) ? head_width : 0) + head_width / 2 * 2;
}

static int max_height(const struct area_rule *rule)
{
    return rule->height > 1 ? rule->height : 1;
}

size_t area_columns(const struct area_rule *rule, size_t l)
{
    return rule->memory_height > 1 ? l / (size_t)rule->memory_height : l;
}

size_t area_planes(const struct area_rule *rule)
{
    return (size_t)max_height(rule) * (size_t)rule->width;
}

bool area_next(struct area_walk *walk)
{
    if (walk->width == 0) {
        walk->width = walk->height = 1;
    } else if (walk->height < max_height(walk->rule)) {
        walk->height++;
    } else {
        walk->height = 1;
        walk->width++;
    }
    walk->plane = (size_t)((walk->height - 1) * walk->rule->width + walk->width - 1);
    return walk->width <= walk->rule->width;
}

bool area_exists(const struct area_walk *walk, size_t l, size_t last)
{
    size_t columns = area_columns(walk->rule, l);
    return last % columns + 1 >= (size_t)walk->width && last / columns + 1 >= (size_t)walk->height;
}
