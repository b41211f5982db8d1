"""torch_worker.py CORE: one side of a pair. Reads commands from standard input, does a block of work for each, and
prints its seconds. All sides use the same core, since they never run at the same time and cores differ."""

import gc
import os
import sys
import time

import torch

SETS = 4  # matrices at different addresses, used in turn, since the address influences the speed
matrices = []


def small(count, turn):
    """Runs small elementwise operations, each of which allocates its result. Their launches take most of the time."""
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


def matmul(count, turn):
    if not matrices:
        for _ in range(SETS):
            a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
            matrices.append((a, torch.empty_like(a)))
    a, c = matrices[turn % SETS]
    torch.matmul(a, a, out=c)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        torch.matmul(a, a, out=c)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def stay_on(core):
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {core})


def main():
    works = {"small": small, "matmul": matmul}
    for work in works.values():
        work(1000, 0)
    stay_on(int(sys.argv[1]))  # choose the core only now, since three workers start at the same time
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        what, count, turn = line.split()
        print(works[what](int(count), int(turn)), flush=True)


main()
