"""torch_server.py MIB VALUE: does what server.c does, with tensors of PyTorch. Answers "check" with "right" or
"wrong"."""

import sys

import torch


def main():
    mib, value = int(sys.argv[1]), int(sys.argv[2])
    tensors, size = [], 96
    while mib > 0:
        tensors.append(torch.full((min(size, mib) << 20,), value, dtype=torch.uint8, device="cuda"))
        mib -= size
        size = size * 3 % 500 + 4  # many different sizes
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "check\n":
            right = all(bool((tensor == value).all()) for tensor in tensors)
            print("right" if right else "wrong", flush=True)


main()
