#!/usr/bin/env python3
"""Tests attempts to get around a quota: copies of descriptors, lazily loaded libraries, local memory, and processes
that end or execute another program meanwhile."""

import sys

from harness import (GiB, MiB, PROGRAMS, SIM, Nvml, Suite, check, os, run_inside, size_text, start_inside, stop, vgpu,
                     wait_idle)

LIMIT = 512 * MiB if SIM else 4 * GiB
SIZE = LIMIT // 8 // MiB


def closed(nvml, what):
    """Runs a program that tries to exceed its quota, and checks what is left of the quota. When the program has ended,
    its memory must be free on the GPU."""
    before = nvml.memory()["used"]
    done = run_inside({"name": f"hole-{what}", "memory": f"{LIMIT // MiB}M"},
                      [f"{PROGRAMS}/loopholes", what, str(SIZE)], good=False)
    check(done.returncode == 0 and done.stdout.strip().endswith(f"held: {'after' if what == 'exec' else what}"),
          f"ended with {done.returncode}: {done.stdout[-400:].strip()} {done.stderr[-600:].strip()}")
    wait_idle(nvml)
    check(nvml.memory()["used"] <= before + 32 * MiB, "memory was left on the GPU")


def shared(nvml, what):
    """Tests memory that three processes have open. It must be charged once, even after the process that allocated it
    was killed."""
    before = nvml.memory()["used"]
    size = LIMIT * 2 // 5 // MiB  # three times this size would not fit
    done = run_inside({"name": f"shared-{what}", "memory": f"{LIMIT // MiB}M"},
                      [f"{PROGRAMS}/sharers", what, str(size)], good=False)
    check(done.returncode == 0 and done.stdout.strip().endswith(f"held: {what}"),
          f"ended with {done.returncode}: {done.stdout[-400:].strip()} {done.stderr[-600:].strip()}")
    wait_idle(nvml)
    check(nvml.memory()["used"] <= before + 32 * MiB, "memory was left on the GPU")
    return f"{size} MiB"


def held(nvml, what, over=0):
    """Runs a program that allocates all it can and then prints a line. NVML must not report more than the limit
    plus `over` bytes, with some slack."""
    name = f"hole-{what}"
    process = start_inside({"name": name, "memory": f"{LIMIT // MiB}M"}, [f"{PROGRAMS}/loopholes", what, str(SIZE)])
    try:
        line = process.stdout.readline()
        check(line.strip() == "holding", f"it did not get that far: {line.strip()}")
        tenants = {tenant["pid"] for tenant in vgpu(name)["tenants"]}
        seen = sum(used for pid, used in nvml.processes().items() if pid in tenants)
        output, errors = process.communicate()
        check(process.returncode == 0 and output.strip().endswith(f"held: {what}"),
              f"ended with {process.returncode}: {output[-400:].strip()} {errors[-600:].strip()}")
        check(f"vGPU {name}: asked" in errors, f"no word of the refusal on stderr: {errors[-300:].strip()}")
        check(0 < seen <= LIMIT + over + 32 * MiB, f"NVML sees {size_text(seen)}, the limit is {size_text(LIMIT)}")
        return f"{size_text(seen)} by NVML"
    finally:
        stop(process)
        wait_idle(nvml)


def main():
    suite = Suite()
    nvml = Nvml()
    wait_idle(nvml)
    for what in ("duplicated", "sent", "several", "dead", "exec"):
        suite.test(f"loophole {what}", closed, nvml, what)
    for what in ("handles", "descriptors", "pools"):
        suite.test(f"shared {what}", shared, nvml, what)
    for what in ("libraries", "local", "elsewhere"):
        suite.test(f"loophole {what}", held, nvml, what)
    suite.test("loophole contexts", held, nvml, "contexts", SIZE * MiB)
    suite.end()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
