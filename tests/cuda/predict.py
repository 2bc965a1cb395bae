#!/usr/bin/env python3
"""What a decoding step of the Base model should take on a GPU, from its kernels' bytes and
operations. Nothing here is measured: figures of GPUs are their makers' or, where marked, were taken
once on such a machine; overheads are guesses that a GPU must confirm.

Each kernel takes its launch and its latency, and then as long as the slower of memory and
arithmetic. Rows of a step: hypotheses of all sentences; 27 source and on average 14 target tokens.

plain    every kernel launched by the host
graph    a recorded step
overlap  and kernels begin before those before them have ended (sm_90 and newer)
folded   and the norm that closes a sublayer is no kernel: every block of the product that follows
         adds up and normalises its rows itself. This is not built.
"""

from dataclasses import dataclass

C, F, V, LAYERS = 512, 2048, 32000, 6
LOGITS = 8192  # ids whose logits are computed together (engine/device/cuda/rows.cu)
SOURCE, TARGET = 27, 14  # tokens: of a memory; of a cache on average
BYTES = 2  # of a number, f16


@dataclass
class Gpu:
    name: str
    bytes_per_s: float
    l2_bytes_per_s: float
    tensor_flops: float  # f16, dense
    mma_share: float  # of it that mma.sync reaches
    launch_s: float  # of a kernel within a graph
    overlaps: bool


GPUS = [
    Gpu("H200", 4.3e12, 7e12, 788e12, 0.62, 1.3e-6, True),  # bytes and flops: measured
    Gpu("L4", 0.27e12, 1.5e12, 110e12, 1.0, 1.5e-6, False),
    Gpu("T4", 0.29e12, 1.2e12, 60e12, 1.0, 2.0e-6, False),
]
PLAIN_LAUNCH_S = 2.5e-6  # of a kernel that the host launches, one after the other
LATENCY_S = 0.9e-6  # of a kernel that has next to nothing to do
OVERLAPPED_S = 1.25e-6  # both together, where kernels overlap
EFFICIENCY = 0.6  # of a product that fills the GPU, against mma.sync's best
MODES = ("plain", "graph", "overlap", "folded")


@dataclass
class Kernel:
    name: str
    count: int  # in a step
    bytes: float  # of each
    flops: float
    l2_bytes: float = 0  # that many blocks read again


def product(name, count, n, k, rows):
    """A weight is read once; rows of a tile that are not there are multiplied all the same."""
    tile_rows = max(16, rows)
    return Kernel(name, count, BYTES * (n * k + rows * (n + k)), 2 * n * k * tile_rows)


def closing_product(name, count, n, k, rows):
    """One that closes the sublayer before it: each of its blocks reads the residual and the sums of
    all columns of its rows, as floats. Blocks have 32 columns, from 512 rows on 64 (linear.cu)."""
    kernel = product(name, count, n, k, rows)
    columns = 32 if rows <= 128 else 64
    kernel.l2_bytes = n / columns * rows * C * 8
    return kernel


def step(rows, sentences, is_folded=False):
    """The kernels of a step, in the order of engine/device/cuda/README.md."""
    item = 2 * C * BYTES  # key and value of all heads
    reads_hidden = closing_product if is_folded else product
    parts = -(-V // LOGITS)
    return [
        Kernel("place_rows", 1, 0, 0),
        Kernel("embed", 1, rows * C * 8, 0),
        Kernel("convert", 1, rows * C * 6, 0),
        reads_hidden("qkv", LAYERS, 3 * C, C, rows),
        Kernel("attend step", LAYERS, rows * TARGET * item, 0),
        product("self out", LAYERS, C, C, rows),
        reads_hidden("query", LAYERS, C, C, rows),
        Kernel("attend memory", LAYERS, sentences * SOURCE * item, 0),
        product("cross out", LAYERS, C, C, rows),
        reads_hidden("inner", LAYERS, F, C, rows),
        product("outer", LAYERS, C, F, rows),
        Kernel("close", 1 if is_folded else 3 * LAYERS, rows * C * 14, 0),
        product("logits", parts, V / parts, C, rows),
        Kernel("scan", parts, rows * V / parts * 4, 0),
        Kernel("advance", 1, rows * V / 512 * 80, 0),
    ]


def overhead_of(gpu, mode):
    if mode == "plain":
        return PLAIN_LAUNCH_S + LATENCY_S
    return OVERLAPPED_S if mode != "graph" and gpu.overlaps else gpu.launch_s + LATENCY_S


def seconds_of(gpu, kernel, mode):
    arithmetic = kernel.flops / (gpu.tensor_flops * gpu.mma_share * EFFICIENCY)
    busy = max(kernel.bytes / gpu.bytes_per_s, arithmetic) + kernel.l2_bytes / gpu.l2_bytes_per_s
    return kernel.count * (overhead_of(gpu, mode) + busy)


def floor_of(gpu, kernels):
    """If nothing but memory and the tensor cores' peak counted."""
    return sum(k.count * max(k.bytes / gpu.bytes_per_s, k.flops / gpu.tensor_flops)
               for k in kernels)


def main():
    n_kernels = sum(kernel.count for kernel in step(1, 1))
    print(f"{n_kernels} kernels; microseconds of a step:")
    print("GPU     rows  floor " + " ".join(f"{mode:>8}" for mode in MODES)
          + "  tokens/s  most of it")
    for gpu in GPUS:
        for sentences, beam in ((1, 1), (32, 4), (256, 4)):
            rows = sentences * beam
            kernels = step(rows, sentences)
            times = [sum(seconds_of(gpu, kernel, mode)
                         for kernel in step(rows, sentences, mode == "folded")) for mode in MODES]
            built = MODES.index("overlap")
            most = sorted(kernels, key=lambda k: -seconds_of(gpu, k, "overlap"))[:3]
            print(f"{gpu.name:5} {rows:6} {floor_of(gpu, kernels) * 1e6:6.0f} "
                  + " ".join(f"{time * 1e6:8.0f}" for time in times)
                  + f" {sentences / times[built]:9.0f}  "
                  + ", ".join(f"{k.name} {seconds_of(gpu, k, 'overlap') / times[built]:.0%}"
                              for k in most))


if __name__ == "__main__":
    main()
