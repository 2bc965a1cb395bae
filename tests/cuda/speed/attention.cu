/* Attention of whole sentences in f16, 8 heads of 64: areas of width 1 and 4 by the scores
 * identity, and areas of width 4 the published way, whose keys and values are vectors made of
 * integral images. A line of JSON for each. Usage: attention [tiny] */
#include <cstring>

#include "clock.h"
#include "device/cuda/attend.h"
#include "device/cuda/attend_areas.h"

/* B sentences of L tokens; rows of [3][H][D]. */
struct batch {
    int b, l, h, d;
    uint16_t *qkv, *context;
    int32_t *n_rows, *n_sentences, *first, *sentences, *tiles, *n_tiles;
    int most_tiles;
};

static struct batch open_batch(int b, int l, int h, int d)
{
    struct batch batch = {};
    std::vector<int32_t> first(1, 0), sentences, tiles;
    batch.b = b, batch.l = l, batch.h = h, batch.d = d;
    for (int i = 0; i < b; i++) {
        first.push_back(first.back() + l);
        sentences.insert(sentences.end(), (size_t)l, i);
        for (int query = 0; query < l; query += ATTEND_TILE)
            tiles.insert(tiles.end(), {i, query});
    }
    size_t rows = (size_t)b * (size_t)l, c = (size_t)h * (size_t)d;
    batch.qkv = uploaded(random_halves(rows * 3 * c));
    batch.context = uploaded(std::vector<uint16_t>(rows * c));
    batch.n_rows = uploaded(std::vector<int32_t>(1, (int32_t)rows));
    batch.n_sentences = uploaded(std::vector<int32_t>(1, b));
    batch.first = uploaded(first);
    batch.sentences = uploaded(sentences);
    batch.tiles = uploaded(tiles);
    batch.most_tiles = (int)tiles.size() / 2;
    batch.n_tiles = uploaded(std::vector<int32_t>(1, batch.most_tiles));
    return batch;
}

static void close_batch(const struct batch &batch)
{
    for (void *each :
         {(void *)batch.qkv, (void *)batch.context, (void *)batch.n_rows, (void *)batch.n_sentences,
          (void *)batch.first, (void *)batch.sentences, (void *)batch.tiles, (void *)batch.n_tiles})
        cudaFree(each);
}

static double measure(cudaStream_t stream, const struct batch &batch, int area_width)
{
    attend_task task = {};
    task.items_of = ITEMS_OF_SENTENCE;
    task.query = batch.qkv, task.context = batch.context;
    task.n_heads = batch.h, task.head_width = batch.d;
    task.context_stride = batch.h * batch.d, task.query_stride = 3 * task.context_stride;
    task.area_width = area_width;
    task.max_length = batch.l;
    task.n_rows = batch.n_rows;
    task.sentences = batch.sentences, task.first = batch.first;
    task.tiles = batch.tiles, task.n_tiles = batch.n_tiles;
    size_t shared = shared_bytes_of_block();
    return microseconds_of(stream, [&](int) {
        attend_sentences_launch(stream, NUMBER_F16, task, batch.b * batch.l, batch.most_tiles,
                                shared);
        return cudaPeekAtLastError() == cudaSuccess;
    });
}

/* ---- The published way ----------------------------------------------------------------------- */

struct planes {
    float *image;
    uint16_t *means, *sums; /* [planes][R][H][D] */
};

static area_rows rows_of(const struct batch &batch)
{
    area_rows rows = {};
    rows.n_rows = batch.n_rows;
    rows.sentences = batch.sentences;
    rows.first = batch.first;
    rows.n_sentences = batch.n_sentences;
    return rows;
}

/* Of the keys, or of the values: `part` 1 or 2 of a row. */
static void make_planes(cudaStream_t stream, const struct batch &batch, const area_shape &shape,
                        int part, const struct planes &planes)
{
    int c = batch.h * batch.d, n_rows = batch.b * batch.l;
    integral_task image = {};
    image.rows = rows_of(batch), image.shape = shape;
    image.x = batch.qkv + part * c, image.x_type = NUMBER_F16, image.x_stride = 3 * c;
    image.integral = planes.image;
    integral_launch(stream, image, batch.b, batch.l, n_rows);
    feature_task features = {};
    features.rows = rows_of(batch), features.shape = shape;
    features.integral = planes.image;
    (part == 1 ? features.means : features.sums) = part == 1 ? planes.means : planes.sums;
    features.out_type = NUMBER_F16;
    features.plane_rows = (size_t)n_rows;
    features_launch(stream, features, n_rows);
}

static double measure_published(cudaStream_t stream, const struct batch &batch, int area_width)
{
    int c = batch.h * batch.d, n_rows = batch.b * batch.l;
    size_t numbers = (size_t)n_rows * (size_t)c;
    area_shape shape = {area_width, 1, 1, batch.h, batch.d};
    struct planes planes = {
        uploaded(std::vector<float>(numbers)),
        uploaded(std::vector<uint16_t>(numbers * (size_t)area_width)),
        uploaded(std::vector<uint16_t>(numbers * (size_t)area_width)),
    };
    attend_areas_task task = {};
    task.rows = rows_of(batch), task.shape = shape;
    task.value = AREA_VALUE_SUM;
    task.query = task.turned = batch.qkv;
    task.query_stride = task.turned_stride = 3 * c;
    task.has_key_planes = task.has_value_planes = true;
    task.keys = planes.means, task.values = planes.sums;
    task.key_stride = task.value_stride = (size_t)c;
    task.plane_rows = (size_t)n_rows;
    task.context = batch.context, task.context_stride = c;
    task.max_length = batch.l;
    double took = microseconds_of(stream, [&](int) {
        make_planes(stream, batch, shape, 1, planes);
        make_planes(stream, batch, shape, 2, planes);
        attend_areas_launch(stream, NUMBER_F16, task, n_rows);
        return cudaPeekAtLastError() == cudaSuccess;
    });
    cudaFree(planes.image), cudaFree(planes.means), cudaFree(planes.sums);
    return took;
}

static void compare(cudaStream_t stream, int b, int l, int h, int d)
{
    enum { WIDTH = 4 };
    struct batch batch = open_batch(b, l, h, d);
    double regular = measure(stream, batch, 1), areas = measure(stream, batch, WIDTH);
    double published = measure_published(stream, batch, WIDTH);
    printf("{\"sentences\": %d, \"length\": %d, \"heads\": %d, \"head_width\": %d, "
           "\"us\": %.3f, \"areas_us\": %.3f, \"published_us\": %.3f, "
           "\"areas_over_regular\": %.3f, \"published_over_areas\": %.2f}\n",
           b, l, h, d, regular, areas, published, areas / regular, published / areas);
    fflush(stdout);
    close_batch(batch);
}

int main(int argc, char **argv)
{
    static const int shapes[][2] = {{256, 27}, {64, 128}, {16, 512}};
    bool is_tiny = argc > 1 && strcmp(argv[1], "tiny") == 0;
    cudaStream_t stream;
    check(cudaSetDevice(0), "device");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    if (is_tiny)
        compare(stream, 2, 9, 1, 32);
    else
        for (const auto &shape : shapes)
            compare(stream, shape[0], shape[1], 8, 64);
    return 0;
}
