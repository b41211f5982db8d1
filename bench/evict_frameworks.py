"""evict_frameworks.py KIND GIB: allocates so much device memory by a framework's default allocator, in pieces of many
sizes, after a step of work. Prints "ready" and waits for the end of its standard input. KIND: torch, jax, cupy."""

import sys


def sizes(gib):
    """Returns sizes in MiB that add up to `gib` GiB."""
    left, size = gib << 10, 96
    while left > 0:
        yield min(size, left)
        left -= size
        size = size * 3 % 500 + 4


def use_torch(gib):
    import torch
    kept = [torch.ones(mib << 18, device="cuda") for mib in sizes(gib)]
    layer = torch.nn.Linear(4096, 4096, device="cuda", dtype=torch.bfloat16)
    layer(torch.randn(64, 4096, device="cuda", dtype=torch.bfloat16)).square().mean().backward()
    torch.cuda.synchronize()
    return kept, layer


def use_jax(gib):
    import jax.numpy as jnp
    kept = [jnp.ones(mib << 18, dtype=jnp.float32) for mib in sizes(gib)]
    product = jnp.dot(jnp.ones((4096, 4096)), jnp.ones((4096, 4096)))
    product.block_until_ready()
    for array in kept:
        array.block_until_ready()
    return kept, product


def use_cupy(gib):
    import cupy
    kept = [cupy.ones(mib << 18, dtype=cupy.float32) for mib in sizes(gib)]
    product = cupy.ones((4096, 4096), dtype=cupy.float32) @ cupy.ones((4096, 4096), dtype=cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    return kept, product


kept = {"torch": use_torch, "jax": use_jax, "cupy": use_cupy}[sys.argv[1]](int(sys.argv[2]))
print("ready", flush=True)
sys.stdin.read()
