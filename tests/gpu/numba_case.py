"""numba_case.py NAME: a numba-cuda program that checks its results and prints "good".

Supplies a function that numba 0.68 imports from NumPy, and that NumPy 2.5 no longer has. With WITHOUT_NVJITLINK=1,
numba-cuda links by the driver, as it does where nvJitLink is missing. nvJitLink would make machine code, which the
simulated GPU cannot run."""

import math
import os
import sys

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack
if os.environ.get("WITHOUT_NVJITLINK"):
    from cuda.bindings._internal import nvjitlink

    nvjitlink._inspect_function_pointer = lambda name: 0

from numba import cuda, float32, float64, vectorize  # pylint: disable=wrong-import-position

TILE = 16


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


def vector_add():
    n = 100003
    a = np.arange(n, dtype=np.float32)
    b = 2 * a + 1
    d_a, d_b = cuda.to_device(a), cuda.to_device(b)
    d_out = cuda.device_array_like(a)
    add[(n + 255) // 256, 256](d_a, d_b, d_out)
    assert np.array_equal(d_out.copy_to_host(), a + b)


@cuda.jit
def multiply(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        sa[ty, tx] = 0
        sb[ty, tx] = 0
        if y < a.shape[0] and tx + tile * TILE < a.shape[1]:
            sa[ty, tx] = a[y, tx + tile * TILE]
        if x < b.shape[1] and ty + tile * TILE < b.shape[0]:
            sb[ty, tx] = b[ty + tile * TILE, x]
        cuda.syncthreads()
        for k in range(TILE):
            total += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


def matmul_shared():
    rng = np.random.default_rng(1)
    a = rng.integers(-8, 8, (70, 90)).astype(np.float32)
    b = rng.integers(-8, 8, (90, 50)).astype(np.float32)
    c = cuda.device_array((70, 50), np.float32)
    multiply[(4, 5), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    assert np.array_equal(c.copy_to_host(), a @ b)


@cuda.jit
def block_sums(values, sums):
    shared = cuda.shared.array(256, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = values[i] if i < values.size else 0.0
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        sums[cuda.blockIdx.x] = shared[0]


@cuda.jit
def warp_sums(values, sums):
    i = cuda.grid(1)
    value = values[i]
    for offset in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
    if cuda.laneid == 0:
        sums[i // 32] = value


def reduction():
    values = np.arange(10000, dtype=np.float64)
    sums = cuda.device_array(40, np.float64)
    block_sums[40, 256](cuda.to_device(values), sums)
    assert sums.copy_to_host().sum() == values.sum()
    assert cuda.reduce(lambda a, b: a + b)(values) == values.sum()
    whole = np.arange(1024, dtype=np.int32)
    parts = cuda.device_array(32, np.int32)
    warp_sums[4, 256](cuda.to_device(whole), parts)
    assert np.array_equal(parts.copy_to_host(), whole.reshape(32, 32).sum(axis=1))


@cuda.jit
def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


@cuda.jit
def extremes(values, least, most, swapped):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.min(least, 0, values[i])
        cuda.atomic.max(most, 0, values[i])
        cuda.atomic.compare_and_swap(swapped, 0, 7)


def atomics():
    rng = np.random.default_rng(2)
    values = rng.integers(0, 64, 50000).astype(np.int32)
    counts = cuda.to_device(np.zeros(64, np.int32))
    histogram[(values.size + 127) // 128, 128](cuda.to_device(values), counts)
    assert np.array_equal(counts.copy_to_host(), np.bincount(values, minlength=64))
    reals = rng.normal(size=20000)
    least, most = cuda.to_device(np.full(1, np.inf)), cuda.to_device(np.full(1, -np.inf))
    swapped = cuda.to_device(np.zeros(1, np.int32))
    extremes[(reals.size + 127) // 128, 128](cuda.to_device(reals), least, most, swapped)
    assert least.copy_to_host()[0] == reals.min() and most.copy_to_host()[0] == reals.max()
    assert swapped.copy_to_host()[0] == 7


@cuda.jit(device=True)
def wave(x, k):
    return math.sin(x) * math.exp(-x * k) + math.sqrt(abs(x))


@cuda.jit
def waves(x, out, k):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = wave(x[i], k)


def math_streams():
    @vectorize(["float64(float64, float64)"], target="cuda")
    def distance(x, y):
        return math.sqrt(x * x + y * y)

    x = np.linspace(-4, 4, 5001)
    stream = cuda.stream()
    start, end = cuda.event(), cuda.event()
    with cuda.pinned(x):
        start.record(stream)
        d_x = cuda.to_device(x, stream=stream)
        d_out = cuda.device_array_like(x, stream=stream)
        waves[8, 64, stream](d_x, d_out, 0.25)
        end.record(stream)
        out = d_out.copy_to_host(stream=stream)
        stream.synchronize()
    assert cuda.event_elapsed_time(start, end) >= 0
    # Near a zero of the function its terms nearly cancel out, so a small absolute error is allowed, too.
    np.testing.assert_allclose(out, np.sin(x) * np.exp(-x * 0.25) + np.sqrt(abs(x)), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(distance(x, x[::-1].copy()), np.hypot(x, x[::-1]), rtol=1e-14)


CASES = {case.__name__: case for case in (vector_add, matmul_shared, reduction, atomics, math_streams)}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
    print("good")
