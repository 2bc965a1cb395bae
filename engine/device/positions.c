#include "device/positions.h"

#include <math.h>

#include "tensor/tensor.h"

/* Each position is the one before it, rotated by the frequency: calls of sin() for all of them
 * would be a tenth of the time in which a server gets ready. */
static void fill_sines(const struct positions *positions, size_t c, float *out)
{
    size_t n_sines = (c + 1) / 2;
    for (size_t i = 0; i < n_sines; i++) {
        double frequency = pow(10000.0, -(double)i / positions->steps);
        double step_sine = sin(frequency), step_cosine = cos(frequency);
        double first = (double)positions->first * frequency, sine = sin(first), cosine = cos(first);
        for (float *row = out; row < out + positions->n * c; row += c) {
            row[i] = (float)sine;
            if (n_sines + i < c)
                row[n_sines + i] = (float)cosine;
            double rotated = sine * step_cosine + cosine * step_sine;
            cosine = cosine * step_cosine - sine * step_sine;
            sine = rotated;
        }
    }
}

void positions_fill(const struct positions *positions, size_t c, float *out)
{
    if (positions->learned)
        tensor_read(positions->learned, positions->first * c, positions->n * c, out);
    else
        fill_sines(positions, c, out);
}
