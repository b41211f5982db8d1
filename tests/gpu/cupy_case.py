"""Tests CuPy inside a vGPU: its pool, a compiled kernel, its other allocators, and work after an allocation failed."""

import cupy


def run_out():
    held = []
    try:
        while len(held) < 64:
            held.append(cupy.zeros(256 << 20, dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    count = len(held)
    del held
    cupy.get_default_memory_pool().free_all_blocks()
    return count


def main():
    free, total = cupy.cuda.runtime.memGetInfo()
    assert total == 8 << 30, total
    a = cupy.arange(1 << 20, dtype=cupy.float32)
    kernel = cupy.RawKernel('extern "C" __global__ void twice(float *a, int n)'
                            "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= 2; }", "twice")
    expected = float(a.sum()) * 2
    kernel((1024,), (1024,), (a, 1 << 20))
    assert abs(float(a.sum()) / expected - 1) < 1e-5
    assert int((cupy.sort(a)[::-1])[0]) == 2 * ((1 << 20) - 1)
    first = run_out()
    assert 20 <= first < 32, first
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    second = []
    try:
        while len(second) < 64:
            second.append(cupy.ones(256 << 20, dtype=cupy.uint8))
    except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError) as error:
        assert "emory" in str(error), error
    assert 20 <= len(second) < 32, len(second)
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)
    assert float(cupy.ones(1000).sum()) == 1000
    print(f"good: {first} and {len(second)} chunks of 256 MiB, by its pool and the driver's; "
          f"free at first {free >> 20} MiB")


main()
