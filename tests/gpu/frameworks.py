#!/usr/bin/env python3
"""PyTorch, CuPy, JAX and a program with the static CUDA runtime behave in a vGPU as without one."""

import re

from harness import (GiB, HERE, MiB, PROGRAMS, PYTHON, Nvml, Suite, Skip, check, need_module, os, run_inside, wait_idle)

MEMORY = {"memory": "8G"}


def script(name, *words, module=None, where=None, env=None, timeout=90):
    if module:
        need_module(module)
    done = run_inside(where or MEMORY, [PYTHON, f"{HERE}/{name}", *words], timeout=timeout, env=env)
    lines = done.stdout.strip().splitlines()
    check(lines and lines[-1].startswith("good"), f"{done.stdout[-400:].strip()} {done.stderr[-400:].strip()}")
    return lines[-1][4:].strip(" :")


def static_runtime():
    program = f"{PROGRAMS}/static_runtime"
    if not os.path.exists(program):
        raise Skip("not built: nvcc had no host compiler")
    done = run_inside({"memory": "2G"}, [program])
    found = re.search(r"total (\d+) free (\d+) beyond (\w+)", done.stdout)
    check(found, done.stdout)
    total, free = int(found.group(1)), int(found.group(2))
    check(total == 2 * GiB, f"it sees {total} bytes in a vGPU of 2 GiB")
    check(free < total and free > GiB, f"free {free}")
    check(found.group(3) == "cudaErrorMemoryAllocation", f"beyond the quota: {found.group(3)}")
    return f"sees {total // MiB} MiB, {free // MiB} free"


def main():
    suite = Suite()
    wait_idle(Nvml())
    suite.test("static CUDA runtime", static_runtime)
    for what in ("train", "memory", "graphs", "graph_pool", "share", "share_most", "workers", "streams", "recovery"):
        suite.test(f"PyTorch {what}", script, "torch_cases.py", what)
    for backend in ("expandable_segments:True", "backend:cudaMallocAsync"):
        env = {"PYTORCH_CUDA_ALLOC_CONF": backend, "PYTORCH_ALLOC_CONF": backend}
        for what in ("train", "graphs", "recovery"):
            suite.test(f"PyTorch {what}, {backend}",
                       lambda what=what, env=env: script("torch_cases.py", what, module="torch", env=env))
    suite.test("CuPy", lambda: script("cupy_case.py", module="cupy"))
    suite.test("JAX", lambda: script("jax_case.py", module="jax", where={"memory": "12G"}))
    suite.end()


if __name__ == "__main__":
    main()
