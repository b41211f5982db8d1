#!/usr/bin/env python3
"""Runs numba-cuda programs (numba_case.py) natively, in a vGPU and on the simulated GPU."""

import tempfile

from harness import (HERE, PYTHON, VIRGATE, Suite, check, need_module, os, run_inside, shutil, subprocess)

CASES = ("vector_add", "matmul_shared", "reduction", "atomics", "math_streams")


def judge(done):
    check(done.returncode == 0 and done.stdout.strip().endswith("good"),
          f"ended with {done.returncode}: {done.stdout[-300:].strip()} {done.stderr[-600:].strip()}")


def words(case):
    return [PYTHON, f"{HERE}/numba_case.py", case]


def natively(case):
    need_module("numba")
    judge(subprocess.run(words(case), capture_output=True, text=True, timeout=90, check=False))


def in_a_vgpu(case):
    need_module("numba")
    judge(run_inside({"memory": "4G"}, words(case), good=False))


def simulated(case, directory):
    """Runs on the simulated GPU, with another daemon, since a daemon serves only one kind of GPU."""
    need_module("numba")
    environment = dict(os.environ, WITHOUT_NVJITLINK="1", VIRGATE_RUNTIME_DIR=f"{directory}/run",
                       VIRGATE_STATE_DIR=f"{directory}/state", VIRGATE_SIM_DIR=f"{directory}/sim")
    judge(subprocess.run([VIRGATE, "run", "--sim", "--memory", "1G", "--", *words(case)],
                         capture_output=True, text=True,
                         timeout=120, check=False, env=environment))


def main():
    suite = Suite()
    directory = tempfile.mkdtemp(prefix="virgate-numba-")
    for name in ("run", "state", "sim"):
        os.mkdir(f"{directory}/{name}", 0o700)
    for case in CASES:
        suite.test(f"{case}, natively", natively, case)
        suite.test(f"{case}, in a vGPU", in_a_vgpu, case)
        suite.test(f"{case}, simulated", simulated, case, directory)
    subprocess.run([VIRGATE, "shutdown", "--sim"], capture_output=True, check=False,
                   env=dict(os.environ, VIRGATE_RUNTIME_DIR=f"{directory}/run", VIRGATE_STATE_DIR=f"{directory}/state"))
    shutil.rmtree(directory, ignore_errors=True)
    suite.end()


if __name__ == "__main__":
    main()
