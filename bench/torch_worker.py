"""One side of a pair: does blocks of work when told on standard input, answers with the seconds."""

import sys
import time

import torch


def small(count):
    """Launch-bound: small elementwise operations, each of which allocates its result."""
    x = torch.ones(256, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count // 4):
        y = x + 1
        y = y * x
        y = torch.relu(y)
        x = y - y + 1
    torch.cuda.synchronize()
    return time.perf_counter() - start


def matmul(count):
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    c = torch.empty_like(a)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        torch.matmul(a, a, out=c)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main():
    works = {"small": small, "matmul": matmul}
    for work in works.values():
        work(400)
    print("ready", flush=True)
    for line in sys.stdin:
        what, count = line.split()
        print(works[what](int(count)), flush=True)


main()
