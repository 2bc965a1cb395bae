/* What the memory of a GPU gives: bytes read and written by a large copy, in GB/s. */
#include <cstdio>
#include <cuda_runtime.h>

int main()
{
    const size_t bytes = (size_t)1 << 30;
    const int n = 50;
    void *from, *to;
    cudaEvent_t begin, end;
    float ms = 0;
    if (cudaMalloc(&from, bytes) != cudaSuccess || cudaMalloc(&to, bytes) != cudaSuccess)
        return 1;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    cudaMemset(from, 1, bytes);
    cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice);
    cudaEventRecord(begin);
    for (int i = 0; i < n; i++)
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice);
    cudaEventRecord(end);
    if (cudaEventSynchronize(end) != cudaSuccess)
        return 1;
    cudaEventElapsedTime(&ms, begin, end);
    printf("%.0f\n", 2e-6 * n * (double)bytes / (double)ms);
    return 0;
}
