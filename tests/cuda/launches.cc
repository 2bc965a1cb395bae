#include "launches.h"

#include <cstdio>
#include <initializer_list>

#include "device/cuda/attend.h"
#include "device/cuda/attend_areas.h"
#include "device/cuda/convert.h"
#include "device/cuda/linear.h"
#include "device/cuda/lstm.h"
#include "device/cuda/norm.h"
#include "device/cuda/search.h"
#include "device/cuda/slots.h"

enum { C = 512, F = 2048, H = 8, D = 64, V = 32000, ROWS = 1024, BEAM = 8, POSITIONS = 512 };
enum { WIDTH = 5 }; /* A, of the Tiny and Small models */

static const enum number_type types[] = {NUMBER_F32, NUMBER_F16, NUMBER_BF16};

static void print(const emulate::work *work)
{
    printf("%p %u %zu\n", work->function, work->block.x, work->shared_bytes);
}

static void launch_linear(size_t shared_bytes)
{
    linear_task task = {};
    task.n = C;
    task.k = F;
    for (enum number_type type : {NUMBER_F32, NUMBER_F16, NUMBER_BF16, NUMBER_INT8})
        for (int tile : {16, 32, 64, 128})
            linear_launch(nullptr, type, task, ROWS, tile, shared_bytes);
    for (enum number_type type : types)
        quantise_launch(nullptr, type, {}, ROWS);
}

static void launch_rows()
{
    close_task close = {};
    close.hidden.width = C;
    close_launch(nullptr, close, ROWS);
    close.hidden.width = C + 1;
    close_launch(nullptr, close, ROWS);
    cell_task cell = {};
    cell.c = C;
    cell_launch(nullptr, cell, ROWS);
    states_read_launch(nullptr, {}, ROWS);
    states_write_launch(nullptr, {}, ROWS);
    embed_launch(nullptr, {}, ROWS);
    convert_launch(nullptr, {}, ROWS);
}

static void launch_attention(size_t shared_bytes)
{
    attend_task task = {};
    task.n_heads = H;
    task.area_width = WIDTH;
    task.max_length = POSITIONS;
    for (enum number_type type : types)
        for (int width : {32, 64, 128, 24}) {
            task.head_width = width;
            attend_step_launch(nullptr, type, task, ROWS);
            attend_memory_launch(nullptr, type, task, ROWS, BEAM);
            attend_sentences_launch(nullptr, type, task, ROWS, ROWS, shared_bytes);
            store_memory_launch(nullptr, type, {}, ROWS);
        }
}

static void launch_areas()
{
    static const int32_t word = 0;
    area_rows sentences = {&word, &word, &word, &word, nullptr, nullptr, nullptr, 0, nullptr},
              step = {};
    area_shape shape = {WIDTH, 1, 1, H, D};
    attend_areas_task attend = {};
    integral_launch(nullptr, {sentences, shape, nullptr, NUMBER_F16, C, nullptr, nullptr}, 1,
                    POSITIONS, ROWS);
    integral_launch(nullptr, {step, shape, nullptr, NUMBER_F16, C, nullptr, nullptr}, 1, POSITIONS,
                    ROWS);
    items_launch(nullptr, {}, ROWS);
    head_product_task product = {};
    product.n_heads = H, product.head_width = D;
    head_product_launch(nullptr, product, ROWS);
    feature_task features = {};
    features.shape = shape;
    features_launch(nullptr, features, ROWS);
    area_key_task keys = {};
    keys.shape = shape;
    area_keys_launch(nullptr, keys, ROWS);
    attend.shape = shape;
    attend.max_length = POSITIONS;
    for (enum number_type type : types)
        attend_areas_launch(nullptr, type, attend, ROWS);
}

static void launch_search()
{
    slots_shape shape = {ROWS / BEAM, BEAM, POSITIONS};
    place_task place = {};
    place.shape = shape;
    place_launch(nullptr, place);
    scan_task scan = {};
    scan.n_ids = V;
    scan_launch(nullptr, scan, ROWS);
    advance_task advance = {};
    advance.shape = shape;
    advance_launch(nullptr, advance);
    force_launch(nullptr, {advance, 0, 0});
    enter_launch(nullptr, {}, ROWS / BEAM);
    drop_launch(nullptr, {});
    align_launch(nullptr, {}, ROWS);
}

void launches_print(size_t shared_bytes)
{
    emulate::red_zone_bytes = 0;
    emulate::on_launch = print;
    launch_linear(shared_bytes);
    launch_rows();
    launch_attention(shared_bytes);
    launch_areas();
    launch_search();
}
