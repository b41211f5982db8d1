#!/usr/bin/env python3
"""gpu_overhead.py BUILD_OR_BUNDLE [--json FILE] [--only PART,…]: compares the speed of programs under virgate run with
native ones on a real GPU. In each pair, a native and a Virgate process run in random order on one processor core. A
second native process is the control, which shows the noise of the machine.

Parts: small (PyTorch small-operation loop), matmul (4096³, bf16), start (a trivial CUDA program),
many (20 programs starting at once)."""

import os
import random
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "gpu")]

from figures import Report, upper_bound
from harness import EXAMPLES, PYTHON, Nvml, Skip, inside, need_module, virgate, wait_idle

GENERATIONS = 8  # new processes, since random addresses make some processes faster
ROUNDS = 5  # pairs in a generation
TURNS = 12  # short blocks of each side in a pair, alternating, since clocks and temperatures drift
COUNTS = {"small": 2000, "matmul": 120}  # operations a block, about 25 ms
LIMITS = {"small": 1.02, "matmul": 1.005}
TITLES = {"small": "PyTorch, small operations", "matmul": "PyTorch, 4096³ bf16 products"}


class Worker:
    def __init__(self, kind, core):
        command = [PYTHON, f"{HERE}/torch_worker.py", str(core)]
        if kind == "virgate":
            command = inside({"memory": "16G"}, command)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, PYTHONHASHSEED="0", OMP_NUM_THREADS="1"))

    def ready(self):
        if self.process.stdout.readline().strip() != "ready":
            raise SystemExit("a worker did not start")

    def work(self, what, turn):
        self.process.stdin.write(f"{what} {COUNTS[what]} {turn}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)


def one_pair(workers, part, generator):
    """Returns the median of each side's blocks."""
    blocks = {kind: [] for kind in workers}
    for turn in range(TURNS):
        order = list(workers)
        generator.shuffle(order)
        for kind in order:
            blocks[kind].append(workers[kind].work(part, turn))
    return {kind: statistics.median(times) for kind, times in blocks.items()}


def paired_torch(report, parts):
    generator = random.Random(7)
    core = max(os.sched_getaffinity(0))
    seconds = {part: {"native": [], "virgate": [], "control": []} for part in parts}
    groups = []
    for generation in range(GENERATIONS):
        workers = {kind: Worker(kind, core) for kind in ("native", "virgate", "control")}
        for worker in workers.values():
            worker.ready()
        for _ in range(ROUNDS):
            groups.append(generation)
            for part in parts:
                for kind, median in one_pair(workers, part, generator).items():
                    seconds[part][kind].append(median)
        for worker in workers.values():
            worker.end()
    for part in parts:
        per_operation = 1e6 / COUNTS[part]
        native = seconds[part]["native"]
        for kind, limit in (("virgate", LIMITS[part]), ("control", None)):
            ratios = [mine / other for mine, other in zip(seconds[part][kind], native)]
            title = TITLES[part] + (", native twice" if kind == "control" else "")
            report.add(title, "µs/operation", statistics.median(native) * per_operation,
                       statistics.median(seconds[part][kind]) * per_operation, statistics.median(ratios),
                       upper_bound(ratios, groups=groups), limit, len(ratios))
            by_process = [statistics.median(ratios[i:i + ROUNDS]) for i in range(0, len(ratios), ROUNDS)]
            print(f"# {title}: by process {' '.join(f'{ratio:.4f}' for ratio in by_process)}", flush=True)


def timed(command):
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr}")
    return time.perf_counter() - start


def start_times(report, rounds=100):
    """Starts two native programs in each round: one as the baseline, both to measure the noise."""
    program = [f"{EXAMPLES}/vector_add", "1024"]
    commands = {"native": program, "virgate": inside({"memory": "2G"}, program), "control": program}
    generator = random.Random(5)
    times = {kind: [] for kind in commands}
    for kind in commands:
        timed(commands[kind])
    for _ in range(rounds):
        order = list(commands)
        generator.shuffle(order)
        for kind in order:
            times[kind].append(timed(commands[kind]) * 1e3)
    title = "start to end of a trivial CUDA program"
    native = [(one + other) / 2 for one, other in zip(times["native"], times["control"])]
    for kind, beside, limit in (("virgate", native, 10), ("control", times["native"], None)):
        differences = [mine - other for mine, other in zip(times[kind], beside)]
        report.add(title + (", native twice" if kind == "control" else ""), "ms, + ms", statistics.median(beside),
                   statistics.median(times[kind]), statistics.median(differences), upper_bound(differences), limit,
                   rounds)


def burst(command, count=20):
    start = time.perf_counter()
    programs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(count)]
    for program in programs:
        _, errors = program.communicate()
        if program.returncode:
            raise SystemExit(f"{command} ended with {program.returncode}: {errors}")
    return time.perf_counter() - start


def many(report, budget=40):
    program = [f"{EXAMPLES}/vector_add", "1024"]
    commands = {"native": program, "virgate": inside({"memory": "2G"}, program)}
    times = {"native": [], "virgate": []}
    start = time.perf_counter()
    while len(times["native"]) < 3 or (len(times["native"]) < 12 and time.perf_counter() - start < budget):
        order = list(commands)
        random.shuffle(order)
        for kind in order:
            times[kind].append(burst(commands[kind]))
    ratios = [mine / native for mine, native in zip(times["virgate"], times["native"])]
    report.add("20 CUDA programs at once, all done", "s", statistics.median(times["native"]),
               statistics.median(times["virgate"]), statistics.median(ratios), upper_bound(ratios), 1.2, len(ratios))


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def main():
    parts = option("--only", "small,matmul,start,many").split(",")
    unknown = set(parts) - {"small", "matmul", "start", "many"}
    if unknown:
        raise SystemExit(f"there is no part {', '.join(sorted(unknown))}")
    report, missing = Report(), ""
    wait_idle(Nvml())
    virgate("create", "keeps-the-daemon", "--memory", "1G")
    try:
        if "start" in parts:
            start_times(report)
        if "many" in parts:
            many(report)
        torch_parts = [part for part in ("small", "matmul") if part in parts]
        if torch_parts:
            try:
                need_module("torch")
                paired_torch(report, torch_parts)
            except Skip as reason:
                missing = f"; not measured: {', '.join(torch_parts)}: {reason}"
    finally:
        virgate("rm", "keeps-the-daemon", good=False)
    report.print()
    report.write(option("--json", os.devnull))
    print(("every limit is kept" if report.all_met() else
           "a limit is NOT kept" if report.rows else "nothing was measured")
          + missing)
    sys.exit(0 if report.all_met() else 1)


if __name__ == "__main__":
    main()
