/* areas.cuh - places and sums of areas, for the kernels of areas.cu and attend_areas.cu. */
#ifndef DEVICE_CUDA_AREAS_CUH
#define DEVICE_CUDA_AREAS_CUH

#include "device/cuda/areas.h"

/* The items that a row sees: item m is row at(m). */
struct item_view {
    const int32_t *path;
    int first, length;
    int last; /* the row's own item; of a step the last one */

    GPU_CODE int at(int m) const
    {
        return path ? path[m] : first + m;
    }
};

GPU_CODE item_view view_of(const area_rows &rows, int row)
{
    item_view view;
    if (rows.sentences) {
        int sentence = rows.sentences[row];
        int first = rows.first[sentence];
        view.path = nullptr;
        view.first = rows.bases ? rows.bases[sentence] : first;
        view.length = rows.first[sentence + 1] - first;
        view.last = row - first;
    } else {
        int path = rows.path_rows ? rows.path_rows[row] : row;
        view.path = rows.paths + (size_t)path * (size_t)rows.path_stride;
        view.first = 0;
        view.length = rows.lengths[row];
        view.last = view.length - 1;
    }
    return view;
}

GPU_CODE int planes_of(const area_shape &shape)
{
    return shape.width * shape.height;
}

GPU_CODE int columns_of(const area_shape &shape, int length)
{
    return shape.memory_height > 1 ? length / shape.memory_height : length;
}

/* The area of one plane that ends at an item. */
struct area {
    int plane, width, height;
    int x, y, columns; /* of the last item, and of the grid */

    GPU_CODE area(const area_shape &shape, int plane_, int columns_, int last)
        : plane(plane_), width(plane_ % shape.width + 1), height(plane_ / shape.width + 1),
          x(last % columns_), y(last / columns_), columns(columns_)
    {
    }

    GPU_CODE bool exists() const
    {
        return x + 1 >= width && y + 1 >= height;
    }

    GPU_CODE int item(int above, int left) const
    {
        return (y - above) * columns + x - left;
    }

    GPU_CODE float share() const
    {
        return __fdiv_rn(1.0f, (float)(width * height));
    }
};

/* The sum over the part of an area that lies in one block of an integral image: four corners. */
GPU_CODE float part_sum(const float *image, const item_view &view, size_t stride, int columns,
                        int first_y, int first_x, int last_y, int last_x)
{
    bool has_above = first_y % AREA_BLOCK > 0, has_left = first_x % AREA_BLOCK > 0;
    float last = image[(size_t)view.at(last_y * columns + last_x) * stride];
    float above = 0.0f, left = 0.0f, corner = 0.0f;
    if (has_above)
        above = image[(size_t)view.at((first_y - 1) * columns + last_x) * stride];
    if (has_left)
        left = image[(size_t)view.at(last_y * columns + first_x - 1) * stride];
    if (has_above && has_left)
        corner = image[(size_t)view.at((first_y - 1) * columns + first_x - 1) * stride];
    return __fsub_rn(__fadd_rn(last, corner), __fadd_rn(above, left));
}

/* Over the part in every block that the area reaches into; `image` is one channel of row 0. */
GPU_CODE float area_sum(const area &area, const float *image, const item_view &view, size_t stride)
{
    float sum = 0.0f;
    int first_y = area.y + 1 - area.height, first_x = area.x + 1 - area.width;
    for (int y = first_y; y <= area.y; y = (y / AREA_BLOCK + 1) * AREA_BLOCK) {
        int last_y = (y / AREA_BLOCK + 1) * AREA_BLOCK - 1;
        last_y = last_y < area.y ? last_y : area.y;
        for (int x = first_x; x <= area.x; x = (x / AREA_BLOCK + 1) * AREA_BLOCK) {
            int last_x = (x / AREA_BLOCK + 1) * AREA_BLOCK - 1;
            last_x = last_x < area.x ? last_x : area.x;
            sum = __fadd_rn(sum, part_sum(image, view, stride, area.columns, y, x, last_y, last_x));
        }
    }
    return sum;
}

/* From the sums of x and of its squares. */
GPU_CODE float deviation_of(float sum, float squares, int count)
{
    float mean = __fdiv_rn(sum, (float)count);
    float variance = __fsub_rn(__fdiv_rn(squares, (float)count), __fmul_rn(mean, mean));
    return __fsqrt_rn(__fadd_rn(fabsf(variance), AREA_EPSILON));
}

GPU_CODE float area_maximum(const area &area, const float *items, const item_view &view,
                            size_t stride)
{
    float largest = -INFINITY;
    for (int above = 0; above < area.height; above++)
        for (int left = 0; left < area.width; left++)
            largest = fmaxf(largest, items[(size_t)view.at(area.item(above, left)) * stride]);
    return largest;
}

/* A sum built up as area_extend() does: rows from the right, then upwards. */
GPU_CODE float window_sum(const area &area, const float *items, const item_view &view,
                          size_t stride)
{
    float sum = 0.0f;
    for (int above = 0; above < area.height; above++) {
        float row = items[(size_t)view.at(area.item(above, 0)) * stride];
        for (int left = 1; left < area.width; left++)
            row = __fadd_rn(row, items[(size_t)view.at(area.item(above, left)) * stride]);
        sum = above > 0 ? __fadd_rn(sum, row) : row;
    }
    return sum;
}

#endif
