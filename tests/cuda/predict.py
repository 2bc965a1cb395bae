#!/usr/bin/env python3
"""What a decoding step of the Base model should take on a GPU, from its kernels' bytes and
operations. Nothing here is measured: figures of GPUs are their makers' or, where marked, were taken
once on such a machine; overheads are guesses that a GPU must confirm.

Each kernel takes its launch and its latency, and then as long as the slower of memory and
arithmetic. Rows of a step: hypotheses of all sentences; 27 source and on average 14 target tokens.
"""

from dataclasses import dataclass

C, F, V, LAYERS = 512, 2048, 32000, 6
SOURCE, TARGET = 27, 14  # tokens: of a memory; of a cache on average
BYTES = 2  # of a number, f16


@dataclass
class Gpu:
    name: str
    bytes_per_s: float
    tensor_flops: float  # f16, dense
    mma_share: float  # of it that mma.sync reaches
    launch_s: float  # of a kernel within a graph


GPUS = [
    Gpu("H200", 4.3e12, 788e12, 0.62, 1.3e-6),  # bytes and flops: measured
    Gpu("L4", 0.27e12, 110e12, 1.0, 1.5e-6),
    Gpu("T4", 0.29e12, 60e12, 1.0, 2.0e-6),
]
LATENCY_S = 0.9e-6  # of a kernel that has next to nothing to do
EFFICIENCY = 0.6  # of a product that fills the GPU, against mma.sync's best


@dataclass
class Kernel:
    name: str
    count: int  # in a step
    bytes: float  # of each
    flops: float


def product(name, count, n, k, rows):
    """A weight is read once; rows of a tile that are not there are multiplied all the same."""
    tile_rows = max(16, rows)
    return Kernel(name, count, BYTES * (n * k + rows * (n + k)), 2 * n * k * tile_rows)


def step(rows, sentences):
    """The kernels of a step, in the order of engine/device/cuda/README.md."""
    item = 2 * C * BYTES  # key and value of all heads
    return [
        Kernel("place_rows", 1, 0, 0),
        Kernel("embed", 1, rows * C * 8, 0),
        product("qkv", LAYERS, 3 * C, C, rows),
        Kernel("attend step", LAYERS, rows * TARGET * item, 0),
        product("self out", LAYERS, C, C, rows),
        product("query", LAYERS, C, C, rows),
        Kernel("attend memory", LAYERS, sentences * SOURCE * item, 0),
        product("cross out", LAYERS, C, C, rows),
        product("inner", LAYERS, F, C, rows),
        product("outer", LAYERS, C, F, rows),
        Kernel("close", 3 * LAYERS, rows * C * 14, 0),
        product("logits", 1, V, C, rows),
        Kernel("scan", 1, rows * V * 4, 0),
        Kernel("advance", 1, rows * V / 512 * 80, 0),
    ]


def seconds_of(gpu, kernel):
    arithmetic = kernel.flops / (gpu.tensor_flops * gpu.mma_share * EFFICIENCY)
    busy = max(kernel.bytes / gpu.bytes_per_s, arithmetic)
    return kernel.count * (gpu.launch_s + LATENCY_S + busy)


def floor_of(gpu, kernels):
    """If nothing but memory and the tensor cores' peak counted."""
    return sum(k.count * max(k.bytes / gpu.bytes_per_s, k.flops / gpu.tensor_flops)
               for k in kernels)


def main():
    print("GPU     rows  floor us  step us  tokens/s  most of it")
    for gpu in GPUS:
        for sentences, beam in ((1, 1), (32, 4), (256, 4)):
            kernels = step(sentences * beam, sentences)
            total = sum(seconds_of(gpu, kernel) for kernel in kernels)
            most = sorted(kernels, key=lambda k: -seconds_of(gpu, k))[:3]
            print(f"{gpu.name:5} {sentences * beam:6} {floor_of(gpu, kernels) * 1e6:9.0f} "
                  f"{total * 1e6:8.0f} {sentences / total:9.0f}  "
                  + ", ".join(f"{k.name} {seconds_of(gpu, k) / total:.0%}" for k in most))


if __name__ == "__main__":
    main()
