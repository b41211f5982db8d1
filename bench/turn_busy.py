#!/usr/bin/env python3
"""Measures how busy a training loop of turn_torch.py keeps the GPU when it runs alone: turn_busy.py
[loop|small-loop]...

The first figure compares a step of the loop with the same step replayed as a CUDA graph, which needs almost no work of
the host. The second figure is from PyTorch's profiler, which slows the host: the part of the time in which a kernel or
a copy ran."""

import os
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from turn_torch import KINDS


def time_loop(loop, seconds):
    """Returns the milliseconds of one step."""
    begin, steps = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        steps += loop.work()
    return (time.monotonic() - begin) / steps * 1e3


def capture_step(loop):
    """Captures one step of the loop with a constant batch."""
    tokens = next(loop.batches).cuda()
    for group in loop.optimizer.param_groups:
        group["capturable"] = True

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = loop.layers(loop.embed(tokens[:, :-1]), mask=loop.mask, is_causal=True)
            loss = nn.functional.cross_entropy(loop.head(hidden).flatten(0, 1), tokens[:, 1:].flatten())
        loop.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        loop.optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def time_graph(graph, steps):
    graph.replay()
    torch.cuda.synchronize()
    begin = time.monotonic()
    for _ in range(steps):
        graph.replay()
    torch.cuda.synchronize()
    return (time.monotonic() - begin) / steps * 1e3


def profile_loop(loop):
    """Returns the part of the time in which the GPU was busy, and the number of kernels and copies in a step."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        steps = loop.work() + loop.work()
    events = sorted((event.time_range.start, event.time_range.end) for event in profiler.events()
                    if event.device_type == torch.autograd.DeviceType.CUDA)
    busy, last = 0, events[0][0]
    for begin, end in events:
        busy += max(0, end - max(begin, last))
        last = max(last, end)
    return busy / (last - events[0][0]), len(events) / steps


def main():
    for kind in sys.argv[1:] or ("loop", "small-loop"):
        loop = KINDS[kind]()
        loop.work()
        busy, launches = profile_loop(loop)
        before = time_loop(loop, 3)
        graph = capture_step(loop)
        alone = time_graph(graph, 100)
        print(f"{kind}: a step takes {before:.2f} ms, as a graph {alone:.2f} ms ({alone / before * 100:.1f} %); "
              f"{launches:.0f} kernels and copies a step, busy by the profiler {busy * 100:.1f} %", flush=True)
        del loop, graph
    os._exit(0)  # the data loader's processes may be in the middle of a batch


if __name__ == "__main__":
    main()
