"""evict_allocations.py MIB…: measures allocations of the driver for bench_evict.py. Prints "ready". For each line "run
N" it makes N allocations of each size, each followed by a release, and prints the median time of such a pair in
microseconds, for each size in one line. Both calls go through ctypes, which adds about a microsecond to each."""

import ctypes
import statistics
import sys
import time

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name} returned {result}")


def time_pairs(size, count):
    address, times = ctypes.c_uint64(), []
    allocate, release = cuda.cuMemAlloc_v2, cuda.cuMemFree_v2
    for _ in range(count):
        begin = time.perf_counter_ns()
        if allocate(ctypes.byref(address), size) or release(address):
            sys.exit(f"an allocation of {size} bytes failed")
        times.append((time.perf_counter_ns() - begin) / 1000)
    return statistics.median(times)


def main():
    sizes = [ctypes.c_size_t(int(mib) << 20) for mib in sys.argv[1:]]
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    print("ready", flush=True)
    for line in sys.stdin:
        count = int(line.split()[1])
        print(" ".join(f"{time_pairs(size, count):.1f}" for size in sizes), flush=True)


if __name__ == "__main__":
    main()
