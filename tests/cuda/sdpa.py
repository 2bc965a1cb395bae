"""PyTorch's scaled dot product attention in f16, for gpu-run: sdpa.py [[B, H, L, D], ...] prints a
line of JSON with the microseconds of each, as a graph replayed."""

import json
import sys
import time

LAUNCHES, REPLAYS, ROUNDS = 50, 10, 3


def measure(torch, shape):
    query, key, value = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    for _ in range(3):
        attend(query, key, value)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            attend(query, key, value)
    best = float("inf")
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(REPLAYS):
            graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / (REPLAYS * LAUNCHES))
    return 1e6 * best


def main():
    try:
        import torch
    except ImportError:
        sys.exit("this Python has no torch")
    if not torch.cuda.is_available():
        sys.exit("this PyTorch sees no GPU")
    for shape in json.loads(sys.argv[1]):
        print(json.dumps({"shape": shape, "us": measure(torch, shape)}))


if __name__ == "__main__":
    main()
