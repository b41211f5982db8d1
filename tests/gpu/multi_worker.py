#!/usr/bin/env python3
"""Programs of a job with several GPUs, in PyTorch.

multi_worker.py ddp RANKS SECONDS SIZE [one]: starts RANKS processes, each of which trains on one GPU with
  DistributedDataParallel over NCCL. The first one prints "step TIME COUNT" after every 5 steps, with the monotonic
  time. With `one`, each process gets CUDA_VISIBLE_DEVICES with its own GPU only.
multi_worker.py threads: one process reduces over all GPUs by NCCL, and checks the sums.
multi_worker.py quota: allocates on each GPU until it is refused, and prints how much it got there.
multi_worker.py share: a process opens memory of another one on the other GPU by IPC, and checks its contents."""

import os
import socket
import subprocess
import sys
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def launch(ranks, words, one):
    """Starts the processes with the variables that torchrun sets. Kills all and returns 1 if one fails, otherwise 0."""
    port, children = free_port(), []
    for rank in range(ranks):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port))
        if one:
            env["CUDA_VISIBLE_DEVICES"] = str(rank)
        children.append(subprocess.Popen([sys.executable, __file__, "rank", *words], env=env))
    while children:
        for child in children:
            if child.poll() is not None:
                children.remove(child)
                if child.returncode:
                    for other in children:
                        other.kill()
                    return 1
                break
        time.sleep(0.05)
    return 0


def train(seconds, size):
    import torch
    import torch.distributed as dist

    device = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    layers = [torch.nn.Linear(size, size) for _ in range(6)]
    model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.randn(4096, size, device="cuda")
    first, stop, count = dist.get_rank() == 0, torch.zeros(1, device="cuda"), 0
    end = None
    while True:
        for _ in range(5):
            optimizer.zero_grad(set_to_none=True)
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        count += 5
        now = time.monotonic()
        end = end or now + seconds
        if first:
            print("step", now, count, flush=True)
        stop.fill_(float(now >= end))
        dist.broadcast(stop, 0)  # all ranks end at the same step
        if stop.item():
            break
    assert loss.isfinite().item(), loss
    dist.destroy_process_group()


def reduce_in_one_process():
    import torch
    from torch.cuda import nccl

    count = torch.cuda.device_count()
    tensors = [torch.full((1 << 22,), float(i + 1), device=f"cuda:{i}") for i in range(count)]
    for _ in range(50):
        results = [torch.empty_like(tensor) for tensor in tensors]
        nccl.all_reduce(tensors, results)
        for result in results:
            torch.cuda.synchronize(result.device)
            assert (result == sum(range(1, count + 1))).all().item()
    peer = tensors[0].to(f"cuda:{count - 1}")  # a copy between the GPUs
    assert (peer == 1).all().item()
    print("reduced on", count)


def fill():
    import torch

    for index in range(torch.cuda.device_count()):
        blocks, got = [], 0
        try:
            while True:
                blocks.append(torch.empty(64 << 20, dtype=torch.uint8, device=f"cuda:{index}"))
                got += 64
        except torch.cuda.OutOfMemoryError:
            pass
        free, total = torch.cuda.mem_get_info(index)
        print("device", index, "got", got, "total", total >> 20, "free", free >> 20, flush=True)
        del blocks
        torch.cuda.empty_cache()


def receive(queue, done):
    import torch

    tensor = queue.get()
    copy = tensor.to(f"cuda:{torch.cuda.device_count() - 1}")
    done.put(bool((copy == 7).all().item()))
    del tensor, copy


def share():
    import torch
    import torch.multiprocessing as processes

    context = processes.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    child = context.Process(target=receive, args=(queue, done))
    child.start()
    tensor = torch.full((1 << 24,), 7.0, device="cuda:0")
    queue.put(tensor)
    assert done.get(timeout=60)
    child.join()
    print("shared")


def main():
    kind = sys.argv[1]
    if kind == "ddp":
        sys.exit(launch(int(sys.argv[2]), sys.argv[3:5], "one" in sys.argv[5:]))
    if kind == "rank":
        train(float(sys.argv[2]), int(sys.argv[3]))
    else:
        {"threads": reduce_in_one_process, "quota": fill, "share": share}[kind]()


if __name__ == "__main__":
    main()
