#!/usr/bin/env python3
"""Tests that PyTorch, CuPy, JAX and a program with the static CUDA runtime behave the same in a vGPU as outside.

frameworks.py ROOT contended: runs the same with a compute share of 50 %, beside a program that keeps the GPU busy.
frameworks.py ROOT evictable: runs the same in evictable vGPUs."""

import re
import sys

from harness import (GiB, HERE, MiB, PROGRAMS, PYTHON, Nvml, Suite, Skip, check, need_module, os, run_inside,
                     start_inside, stop, vgpu, wait_for, wait_idle)

MEMORY = {"memory": "8G"}
KIND = sys.argv[2] if len(sys.argv) > 2 else ""
MORE = {"contended": {"share": 50}, "evictable": {"evictable": True}}.get(KIND, {})  # options of the vGPUs
# Memory of pools does not move, so most of the limit must be for such memory.
POOLS = {**MEMORY, "fixed": "7G"} if KIND == "evictable" else MEMORY


class Rival:
    """Keeps the GPU busy with a program in a vGPU that has the other half of the GPU's time."""

    def __init__(self):
        load = f"{PROGRAMS}/../../bench/turn_load"
        where = {"name": "rival", "memory": "1G"}
        rounds = run_inside(where, [load, "calibrate"]).stdout.strip()
        self.process = start_inside({**where, **MORE}, ["sh", "-c", f"exec {load} train 300 {rounds} >/dev/null"],
                                    limit=310)
        wait_for(lambda: vgpu("rival"), 30, "the other program does not start")

    def check(self):
        turns = vgpu("rival")["turns"]
        check(self.process.poll() is None, "the other program has ended")
        check(turns["turns"] > 100, f"the GPU was not contended: {turns}")
        return f"{turns['turns']} turns of the other program"


def script(name, *words, module=None, where=None, env=None, timeout=90, complaint=None):
    if module:
        need_module(module)
    done = run_inside({**(where or MEMORY), **MORE}, [PYTHON, f"{HERE}/{name}", *words], timeout=timeout, env=env)
    lines = done.stdout.strip().splitlines()
    check(lines and lines[-1].startswith("good"), f"{done.stdout[-400:].strip()} {done.stderr[-400:].strip()}")
    if complaint:
        check(complaint in done.stderr, f"it does not say {complaint}: {done.stderr[-400:].strip()}")
    return lines[-1][4:].strip(" :")


def static_runtime():
    program = f"{PROGRAMS}/static_runtime"
    if not os.path.exists(program):
        raise Skip("not built: nvcc had no host compiler")
    done = run_inside({"memory": "2G", **MORE}, [program])
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
    rival = Rival() if KIND == "contended" else None
    suite.test("static CUDA runtime", static_runtime)
    cases = ["train", "memory", "graphs", "graph_pool", "share", "share_most", "workers", "streams", "recovery"]
    if KIND == "evictable":
        cases = [what for what in cases if not what.startswith("share")]
        suite.test("PyTorch share_refused",
                   lambda: script("torch_cases.py", "share_refused", complaint="cuIpcGetMemHandle"))
    for what in cases:
        suite.test(f"PyTorch {what}", script, "torch_cases.py", what)
    for backend in ("expandable_segments:True", "backend:cudaMallocAsync"):
        env = {"PYTORCH_CUDA_ALLOC_CONF": backend, "PYTORCH_ALLOC_CONF": backend}
        for what in ("train", "graphs", "recovery"):
            suite.test(f"PyTorch {what}, {backend}",
                       lambda what=what, env=env, where=POOLS if "Async" in backend else MEMORY:
                       script("torch_cases.py", what, module="torch", where=where, env=env))
    suite.test("CuPy", lambda: script("cupy_case.py", module="cupy", where=POOLS))
    suite.test("JAX", lambda: script("jax_case.py", module="jax", where={"memory": "12G"}))
    if rival:
        suite.test("contention", rival.check)
        stop(rival.process)
    suite.end()


if __name__ == "__main__":
    main()
