"""Runs inside a vGPU: allocates memory through PyTorch until it is refused, keeps it, then continues to work."""

import time

import torch


def main():
    tensors, total, size = [], 0, 64 << 20
    torch.zeros(1, device="cuda")
    while True:
        try:
            tensors.append(torch.full((size,), 7, dtype=torch.uint8, device="cuda"))
            torch.cuda.synchronize()
            total += size
        except torch.OutOfMemoryError:
            if size <= 2 << 20:
                break
            size //= 2
    free, whole = torch.cuda.mem_get_info()
    print(f"torch_grow: {total / (1 << 20):.1f} MiB ({total} bytes) in {len(tensors)} chunks by torch, "
          f"then out of memory; free {free} of {whole}", flush=True)
    time.sleep(1.5)
    assert all(int(tensor[-1]) == 7 for tensor in tensors[:5])
    tensors.clear()
    torch.cuda.empty_cache()
    again = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")
    assert int(again[12345]) == 1
    print("works after the refusal", flush=True)


main()
