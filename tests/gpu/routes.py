#!/usr/bin/env python3
"""Tests every way to allocate device memory. Each must be refused at the vGPU's limit. NVML's figures of the processes
must stay within the limit and the declared slack."""

import re
import sys
import time

from harness import (EXAMPLES, GiB, HERE, MiB, POOL_SLACK, PROGRAMS, PYTHON, SIM, Nvml, Suite, check, inside,
                     need_module, os, size_text, start, start_inside, stop, vgpu, wait_idle)

LIMIT = 512 * MiB if SIM else 4 * GiB
MEMORY = f"{LIMIT // MiB}M"
CHUNK = "32M" if SIM else "64M"
# The part of the quota that each way of allocating must be able to use. Less would mean that too much is charged.
USABLE = 0.7
LINE = re.compile(r"(?:grow|torch_grow): .*?\((\d+) bytes\) in (\d+) chunks by (\w+), (.*)")


def watch_holding(process, name, nvml, before):
    """Returns the line that the program prints, and the largest figures in the next second."""
    line = process.stdout.readline()
    largest = {"physical": 0, "charged": 0, "device": 0, "tenants": 0}
    end = time.monotonic() + 1.0
    while time.monotonic() < end and process.poll() is None:
        one = vgpu(name)
        if one:
            tenants = {tenant["pid"] for tenant in one["tenants"]}
            physical = sum(used for pid, used in nvml.processes().items() if pid in tenants)
            largest["physical"] = max(largest["physical"], physical)
            largest["charged"] = max(largest["charged"], one["charged"])
            largest["tenants"] = max(largest["tenants"], len(tenants))
        largest["device"] = max(largest["device"], nvml.memory()["used"] - before)
        time.sleep(0.1)
    return line, largest


def judge(name, line, errors, largest, slack):
    found = LINE.match(line)
    check(found, f"the program did not say what it got: {line.strip()} {errors[-600:].strip()}")
    total = int(found.group(1))
    check("out of memory" in found.group(4), f"it was never refused: {line.strip()}")
    check(total <= LIMIT, f"it got {size_text(total)} of {size_text(LIMIT)}")
    check(total >= USABLE * LIMIT, f"refused already at {size_text(total)} of {size_text(LIMIT)}")
    check(f"vGPU {name}: asked" in errors, f"no word of the refusal on stderr: {errors[-300:].strip()}")
    check(largest["tenants"] >= 1, "virgate ps never showed the program")
    check(largest["charged"] <= LIMIT, f"charged {size_text(largest['charged'])}")
    check(largest["physical"] <= LIMIT + slack,
          f"NVML sees {size_text(largest['physical'])}, the limit is {size_text(LIMIT)}, the slack {size_text(slack)}")
    return (f"{size_text(total)} granted, {size_text(largest['charged'])} charged, "
            f"{size_text(largest['physical'])} by NVML's process list, "
            f"{size_text(largest['device'])} more on the device")


def judge_once(name, line, errors, largest, size):
    """Checks that memory was charged once, although it was imported many times."""
    found = LINE.match(line)
    check(found and "as much as asked" in found.group(4), f"it was refused: {line.strip()} {errors[-600:].strip()}")
    check(size <= largest["charged"] <= LIMIT, f"charged {size_text(largest['charged'])} for {size_text(size)}")
    return f"{found.group(2)} imports, {size_text(largest['charged'])} charged"


def judge_too_large(name, line, errors, largest, _):
    found = LINE.match(line)
    check(found and int(found.group(1)) == 0 and "out of memory" in found.group(4), f"it got it: {line.strip()}")
    check(f"vGPU {name}: asked" in errors, f"no word of the refusal on stderr: {errors[-300:].strip()}")
    check(largest["charged"] <= LIMIT, f"charged {size_text(largest['charged'])}")
    return "more than the limit is refused"


def grow(nvml, route, slack, chunk=CHUNK, prefix=(), extra=("--exact",), verdict=judge):
    name = f"route-{route}"
    before = nvml.memory()["used"]
    command = [f"{EXAMPLES}/grow", "--via", route, "--chunk", chunk, "--hold", "1.5", *extra]
    if prefix:  # `prefix` is a program outside the vGPU that starts `virgate run`
        process = start([*prefix, *inside({"name": name, "memory": MEMORY}, command)])
    else:
        process = start_inside({"name": name, "memory": MEMORY}, command)
    try:
        line, largest = watch_holding(process, name, nvml, before)
        _, errors = process.communicate()
        check(process.returncode == 0, f"ended with {process.returncode}: {line.strip()} {errors[-600:].strip()}")
        return verdict(name, line, errors, largest, slack)
    finally:
        stop(process)
        wait_idle(nvml)


def imported(nvml):
    # Memory of a process outside every vGPU is charged to the importing vGPU, but only once.
    words = []
    for size, most, verdict in ((LIMIT // 8, 8 * LIMIT, judge_once), (LIMIT + 32 * MiB, 8 * LIMIT, judge_too_large)):
        words.append(grow(nvml, "import", size, chunk=f"{size // MiB}M",
                          prefix=(f"{PROGRAMS}/exporter", str(size // MiB), "9"),
                          extra=("--descriptor", "9", "--no-touch", "--most", str(most)), verdict=verdict))
    return "; ".join(words)


def torch_backend(nvml, backend):
    need_module("torch")
    name = f"torch-{backend or 'caching'}".replace(":", "-").replace("_", "-")[:30].lower()
    before = nvml.memory()["used"]
    env = {"PYTORCH_CUDA_ALLOC_CONF": backend, "PYTORCH_ALLOC_CONF": backend} if backend else {}
    process = start_inside({"name": name, "memory": MEMORY}, [PYTHON, f"{HERE}/torch_grow.py"], env)
    try:
        line, largest = watch_holding(process, name, nvml, before)
        rest, errors = process.communicate()
        check(process.returncode == 0, f"ended with {process.returncode}: {line.strip()} {errors[-900:].strip()}")
        check("works after the refusal" in rest, f"it did not go on: {rest.strip()}")
        return judge(name, line, errors, largest, POOL_SLACK if "Async" in backend else 0)
    finally:
        stop(process)
        wait_idle(nvml)


def main():
    suite = Suite()
    nvml = Nvml()
    wait_idle(nvml)
    for route, slack in (("alloc", 0), ("pitch", 0), ("async", POOL_SLACK), ("pool", 2 * POOL_SLACK), ("create", 0),
                         ("vmm", 0), ("released", 0), ("exported", 0), ("array", 0), ("mipmap", 0),
                         ("graph", POOL_SLACK), ("managed", 0)):
        suite.test(f"route {route}", grow, nvml, route, slack)
    suite.test("route import", imported, nvml)
    if SIM:
        suite.end()
    for backend in ("", "expandable_segments:True", "backend:cudaMallocAsync"):
        suite.test(f"route torch {backend or 'caching allocator'}", torch_backend, nvml, backend)
    suite.end()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
