"""checkpoint_train.py WHAT FILE: trains with a fixed seed, and writes a line to FILE for every step: its number and its
exact loss. Begins when FILE.go exists.

WHAT: plain; graph (a step is a CUDA graph); loader-before, loader-after (two forked data loaders, started before or
after CUDA is used); loader-spawn (two data loaders that are not forked). The suffix ":file_system" selects PyTorch's
other way to share tensors."""

import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

STEPS, WIDTH, ROWS = 300, 256, 64
PAUSE = 0.01  # seconds in each step, so that there is time for a dump in the middle


class Rows(torch.utils.data.Dataset):
    """Has batches of 4 MiB. That is more than CRIU dumps of an unnamed file by default."""

    def __len__(self):
        return STEPS * ROWS

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        row = torch.randn(WIDTH, generator=generator)
        return row, torch.zeros(16384 - WIDTH)


def from_memory():
    generator = torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        yield torch.randn(ROWS, WIDTH, generator=generator)


def from_loader(method):
    loader = torch.utils.data.DataLoader(Rows(), batch_size=ROWS, num_workers=2, multiprocessing_context=method,
                                         # pinning makes PyTorch use CUDA before it forks the workers
                                         pin_memory=method == "spawn")
    return (row for row, _ in iter(loader))


class Training:
    def __init__(self):
        torch.manual_seed(7)
        self.model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 512), torch.nn.GELU(), torch.nn.Dropout(0.1),
                                         torch.nn.Linear(512, 1)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, capturable=True)

    def step(self, x):
        self.optimizer.zero_grad(set_to_none=True)
        y = x[:, :1] * 2 - x[:, 1:2]
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class Captured(Training):
    """Trains with a whole step captured as one CUDA graph, including the optimizer and the random numbers."""

    def __init__(self):
        super().__init__()
        self.x = torch.zeros(ROWS, WIDTH, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                super().step(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = super().step(self.x)

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.loss


def main():
    what, _, strategy = sys.argv[1].partition(":")
    torch.use_deterministic_algorithms(True)
    if strategy:
        torch.multiprocessing.set_sharing_strategy(strategy)
    out = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    assert not torch.cuda.is_initialized()
    batches = from_loader("fork") if what == "loader-before" else from_memory()
    training = Captured() if what == "graph" else Training()
    if what in ("loader-after", "loader-spawn"):
        batches = from_loader("fork" if what == "loader-after" else "spawn")
    while not os.path.exists(f"{sys.argv[2]}.go"):
        time.sleep(0.02)
    for number, batch in enumerate(batches):
        loss = training.step(batch.cuda(non_blocking=True))
        os.write(out, f"{number} {float(loss).hex()}\n".encode())
        time.sleep(PAUSE)
    assert number == STEPS - 1


if __name__ == "__main__":
    main()
