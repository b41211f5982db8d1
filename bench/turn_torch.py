"""turn_torch.py: a PyTorch tenant for bench_turns_torch.py. Reads commands, one a line:
  prepare KIND             answers "ready"
  run KIND BEGIN END       works between the two times (CLOCK_MONOTONIC in ns); answers with a JSON list: [time,
                           units of work done] after each synchronization; of infer, closed and one [end, duration
                           in ns] for each request
KIND: train, half, long, graph, loop, small-loop, infer, closed, one, small. Work counts as done when the GPU has
finished it. A request of closed begins when the previous one has ended; infer and one begin a request every 5 ms."""

import json
import os
import sys
import time

import torch
from torch import nn

now_ns = time.monotonic_ns


class Products:
    """Products of bf16 matrices, `batch` of them before each synchronization."""

    def __init__(self, size, batch):
        self.a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        self.c = torch.empty_like(self.a)
        self.batch = batch

    def work(self):
        for _ in range(self.batch):
            torch.matmul(self.a, self.a, out=self.c)
        torch.cuda.synchronize()
        return self.batch


class Half(Products):
    """Keeps the GPU busy for about 40 % of the time: 2 ms of work on the GPU, then a pause of 3 ms."""

    def __init__(self):
        super().__init__(4096, 10)

    def work(self):
        done = super().work()
        time.sleep(0.003)
        return done


class Graph:
    """Training steps of a small network, each captured as one CUDA graph of about 5 ms."""

    def __init__(self):
        model = nn.Sequential(*(nn.Linear(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(8)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

        def step():
            optimizer.zero_grad(set_to_none=False)
            model(x).square().mean().backward()
            optimizer.step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step()

    def work(self):
        for _ in range(4):
            self.graph.replay()
        torch.cuda.synchronize()
        return 4


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.randint(32000, (513,), generator=torch.Generator().manual_seed(index))


class Loop:
    """A typical training loop: a transformer, a data loader with two processes, `.item()` every ten steps. With small
    batches, the host is hardly faster than the GPU."""

    def __init__(self, batch):
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.1, batch_first=True, norm_first=True,
                                           activation="gelu")
        self.embed = nn.Embedding(32000, 1024).cuda()
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False).cuda()
        self.head = nn.Linear(1024, 32000).cuda()
        parameters = [p for part in (self.embed, self.layers, self.head) for p in part.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        self.mask = nn.Transformer.generate_square_subsequent_mask(512, device="cuda")
        self.batches = iter(torch.utils.data.DataLoader(Tokens(), batch_size=batch, num_workers=2, pin_memory=True,
                                                        prefetch_factor=8))

    def work(self):
        for _ in range(10):
            tokens = next(self.batches).cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                hidden = self.layers(self.embed(tokens[:, :-1]), mask=self.mask, is_causal=True)
                loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), tokens[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        loss.item()
        return 10


class Infer:
    """Runs a multilayer perceptron of 16 layers for each request. The launches take most of its time."""

    def __init__(self):
        layers = [part for _ in range(16) for part in (nn.Linear(1024, 1024), nn.ReLU())]
        self.model = nn.Sequential(*layers).cuda().bfloat16()
        self.x = torch.randn(32, 1024, device="cuda", dtype=torch.bfloat16)

    @torch.inference_mode()
    def work(self):
        self.model(self.x)
        torch.cuda.synchronize()
        return 1


class One:
    """Runs a single kernel of some microseconds for each request."""

    def __init__(self):
        self.x = torch.zeros(32, device="cuda")

    def work(self):
        self.x.add_(1)
        torch.cuda.synchronize()
        return 1


KINDS = {"train": lambda: Products(4096, 64), "half": Half, "long": lambda: Products(13568, 2),
         "small": lambda: Products(512, 256), "graph": Graph, "loop": lambda: Loop(48), "small-loop": lambda: Loop(16),
         "infer": Infer, "closed": Infer, "one": One}
REQUESTS = ("infer", "closed", "one")
works = {}


def prepare(kind):
    if kind not in works:
        works[kind] = KINDS[kind]()
    for _ in range(3):
        works[kind].work()


def run(kind, begin, end):
    work, lines, done = works[kind].work, [], 0
    while now_ns() < begin:
        time.sleep(0.001)
    lines.append((now_ns(), 0))
    while (start := now_ns()) < end:
        done += work()
        now = now_ns()
        lines.append((now, now - start if kind in REQUESTS else done))
        if kind in REQUESTS and kind != "closed" and now < start + 5_000_000:
            time.sleep((start + 5_000_000 - now) / 1e9)
    return lines[1:] if kind in REQUESTS else lines


def main():
    torch.set_num_threads(2)
    torch.zeros(1, device="cuda")
    for line in sys.stdin:
        command, kind, *times = line.split()
        if command == "prepare":
            prepare(kind)
            answer = "ready"
        else:
            answer = json.dumps(run(kind, *map(int, times)))
        print(answer, flush=True)
    os._exit(0)  # the data loader's processes may be in the middle of a batch


if __name__ == "__main__":
    main()
