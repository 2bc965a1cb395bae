/* support.h - what the tests of kernels share: memory of the device, random shapes, and what every
 * kernel is asked: the same bits in every order of its threads, nothing found by the emulator, and
 * something found as soon as one of its barriers is left out. */
#ifndef TESTS_CUDA_SUPPORT_H
#define TESTS_CUDA_SUPPORT_H

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <setjmp.h>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

extern "C" {
#include <cmocka.h>

#include "../support/random.h"
}

#include "device/cuda/gpu.h"

/* An array of the device, with room for `n` numbers exactly. */
template <class T> struct device_array {
    T *at = nullptr;
    size_t n;

    explicit device_array(size_t n_) : n(n_)
    {
        if (cudaMalloc((void **)&at, n * sizeof(T)) != cudaSuccess)
            fail_msg("no device memory");
    }
    explicit device_array(const std::vector<T> &numbers) : device_array(numbers.size())
    {
        put(numbers);
    }
    device_array(const device_array &) = delete;
    ~device_array()
    {
        cudaFree(at);
    }
    void put(const std::vector<T> &numbers)
    {
        cudaMemcpy(at, numbers.data(), n * sizeof(T), cudaMemcpyHostToDevice);
    }
    std::vector<T> get() const
    {
        std::vector<T> numbers(n);
        cudaMemcpy(numbers.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost);
        return numbers;
    }
    operator T *() const
    {
        return at;
    }
};

/* While there is one. */
#if defined(__SANITIZE_ADDRESS__)
using leaks_allowed = __lsan::ScopedDisabler;
#else
struct leaks_allowed {
    leaks_allowed()
    {
    }
};
#endif

/* The stream that tests launch on. */
cudaStream_t test_stream();
void test_wait(); /* for all its work; no call may have failed */

/* What a run of kernels gives, as bytes. */
using result = std::vector<char>;
template <class T> result bytes_of(const std::vector<T> &numbers)
{
    const char *begin = (const char *)numbers.data();
    return result(begin, begin + numbers.size() * sizeof(T));
}

/* Runs it in every order: nothing is found, and the bits are those of the first run. */
void check_schedules(const char *what, const std::function<result()> &run);

/* Leaves out one barrier after the other. The race build must report each, whatever the order. */
void check_barriers(const char *what, const std::function<result()> &run);
const std::set<std::string> &barriers_reported(); /* FILE:LINE of all that it has left out */

/* |a - b| / |b| over whole vectors. */
double distance(const std::vector<float> &a, const std::vector<double> &b);
void check_near(const char *what, double off, double bound);

int random_int(int low, int high);
std::vector<float> random_numbers(size_t n, float spread);

/* Rounded to a type, and what it then is. */
template <class T> std::vector<T> narrowed(const std::vector<float> &x)
{
    std::vector<T> y(x.size());
    for (size_t i = 0; i < x.size(); i++)
        y[i] = narrow<T>(x[i]);
    return y;
}

template <class T> std::vector<float> widened(const std::vector<T> &x)
{
    std::vector<float> y(x.size());
    for (size_t i = 0; i < x.size(); i++)
        y[i] = widen(x[i]);
    return y;
}

#endif
