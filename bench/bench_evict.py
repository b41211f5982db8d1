#!/usr/bin/env python3
"""bench_evict.py BUILD_OR_BUNDLE [options] CASE…: measures evictable vGPUs that do not fit on the GPU together, their
images, and what being evictable costs. Sizes are in GiB, on the simulated GPU in MiB. Each case uses vGPUs of its own
on the GPU that CUDA_VISIBLE_DEVICES names, or on GPU 0.

  tenants     two programs of --size each, that use all of their memory all the time, on --budget, for --seconds
  servers     three model servers (PyTorch, HTTP) with weights of --weights each, on --budget, for --seconds
  images      dumps and restore of a program of --image, beside a sequential writer in the same directory (--directory)
  neighbour   requests of another vGPU's program while the first suspension of a vGPU of --pin pins host memory
  frameworks  which part of a program's memory can leave the GPU: PyTorch, JAX, CuPy
  training    a training in an evictable vGPU and natively, in turns, for --rounds
  allocations cuMemAlloc and cuMemFree in an evictable vGPU and natively, in turns, for --rounds
"""

import argparse
import http.client
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "gpu")]

from harness import PROGRAMS, SIM, VIRGATE, Failure, Nvml, Skip, check, inside, need_module, vgpu, virgate

STEPS = os.path.join(os.path.dirname(os.path.dirname(PROGRAMS)), "bench", "evict_steps")
UNIT = 1 if SIM else 1024  # MiB in the unit of sizes
FIXED = 64 if SIM else 2048  # MiB of each vGPU that stay
SPARE = 16 if SIM else 256  # MiB of each vGPU for what a program allocates besides


class Program:
    """A program that reads requests line by line. It runs in a vGPU with these options, or natively if `mib` is 0."""

    def __init__(self, name, mib, command, *options):
        self.name, words = name, list(command)
        if mib:
            words = inside({"name": name, "memory": f"{mib}M"}, command)
            words[2:2] = options
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise Failure(f"{self.name} has ended with {self.process.wait()}")
        return line

    def expect(self, words):
        line = self.line()
        check(line == words, f"{self.name} says {line} instead of {words}")

    def send(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def lines_until_end(self):
        lines = []
        while (line := self.line()) != "end":
            lines.append(int(line))
        return lines

    def tenant(self):
        return vgpu(self.name)["tenants"][0]

    def end(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()


EVICTABLE = ("--evictable", "--fixed", f"{FIXED}M")


def reserve_rest(budget):
    """Leaves only the budget of the GPU to other vGPUs."""
    virgate("create", "evict-rest", "--memory", f"{Nvml().memory()['total'] // 1024 ** 2 - budget * UNIT}M")


def leave_rest():
    virgate("rm", "evict-rest", good=False)


def median(values):
    return statistics.median(values) if values else float("nan")


def run_steps(programs, seconds):
    """Runs the programs together. Returns the times at which each one has ended its steps."""
    for program in programs:
        program.send(f"run {seconds}")
    return [program.lines_until_end() for program in programs]


def longest_gaps(times, most):
    """Returns the gaps between steps that are longer than `most` seconds."""
    gaps = [(b - a) / 1e9 for a, b in zip(times, times[1:])]
    return [gap for gap in gaps if gap > most]


def tenants(options):
    size = options.size * UNIT
    reserve_rest(options.budget)
    programs = []
    try:
        piece = 16 if SIM else 1024
        for name in ("evict-one", "evict-two"):
            programs.append(Program(name, size, [STEPS, str(size - FIXED - SPARE), str(piece)], *EVICTABLE))
            programs[-1].expect("ready")
            if len(programs) == 1:  # the first one alone
                [alone] = run_steps(programs, 2 if SIM else 6)
        step = (alone[-1] - alone[len(alone) // 4]) / (len(alone) - 1 - len(alone) // 4) / 1e9
        run_steps(programs, 1)  # each one comes in once
        before = [program.tenant()["eviction"]["moves"] for program in programs]
        begun = time.monotonic()
        times = run_steps(programs, options.seconds)
        took = time.monotonic() - begun
        moves = [program.tenant()["eviction"]["moves"] - count for program, count in zip(programs, before)]
        for program in programs:
            program.send("check")
            program.expect("right")
        useful = sum(map(len, times)) * step
        gaps = [gap for one in times for gap in longest_gaps(one, max(1, 4 * step))]
        # One tenant computes until the other one has come back: the pause between them is the cost of the switch.
        ends = sorted((at, index) for index, one in enumerate(times) for at in one)
        switches = [(b - a) / 1e9 - step for (a, i), (b, k) in zip(ends, ends[1:]) if i != k]
        print(f"tenants: two of {options.size} on {options.budget}, {took:.0f} s: steps {[len(one) for one in times]}, "
              f"of {step * 1e3:.1f} ms alone: useful {useful / took * 100:.1f} %; moves {moves}; switches "
              f"{len(switches)}, median {median(switches):.2f} s, longest {max(switches, default=0):.2f} s; waits for "
              f"the other one: median {median(gaps):.1f} s, longest {max(gaps, default=0):.1f} s; all words right",
              flush=True)
    finally:
        for program in programs:
            program.end()
        leave_rest()


class Model:
    """A model server and the answers that it gave at first."""

    def __init__(self, index, options):
        self.name = f"evict-model{index}"
        mib = options.weights * UNIT + FIXED + SPARE
        self.program = Program(self.name, mib, [sys.executable, f"{HERE}/evict_server.py", str(options.weights),
                                                str(index + 1)], *EVICTABLE)
        self.port = int(self.program.line().split()[1])
        self.known = [self.ask(number)[0] for number in range(4)]

    def ask(self, number):
        """Returns the answer, and the seconds until its first byte."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        begun = time.monotonic()
        connection.request("GET", f"/{number}")
        response = connection.getresponse()
        took = time.monotonic() - begun
        body = response.read().decode()
        connection.close()
        check(response.status == 200, f"{self.name} answers with status {response.status}")
        return body, took


def servers(options):
    need_module("torch")
    reserve_rest(options.budget)
    models, chance = [], random.Random(3)
    waits = {"in": [], "out": []}
    try:
        for index in range(3):
            models.append(Model(index, options))
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            model, number = chance.choice(models), chance.randrange(4)
            # With a state such as "leaving" the answer waits for a switch as well.
            place = "in" if vgpu(model.name)["eviction"]["state"] == "running" else "out"
            body, took = model.ask(number)
            check(body == model.known[number], f"{model.name} answers {number} with {body}")
            waits[place].append(took)
            time.sleep(chance.random() * 2)
        moves = sum(vgpu(model.name)["tenants"][0]["eviction"]["moves"] for model in models)
        print(f"servers: three of {options.weights} on {options.budget}, {options.seconds:.0f} s: "
              f"{len(waits['in']) + len(waits['out'])} requests, all answered right, {moves} moves; first byte of "
              f"{len(waits['out'])} after a switch: median {median(waits['out']):.2f} s, longest "
              f"{max(waits['out'], default=0):.2f} s; of the others {median(waits['in']):.3f} s, longest "
              f"{max(waits['in'], default=0):.3f} s", flush=True)
    finally:
        for model in models:
            model.program.process.terminate()
            model.program.end()
        leave_rest()


def write_sequentially(directory, mib):
    """Writes a file of random bytes, as one writer. Returns the seconds until it is on the disk."""
    block = os.urandom(16 << 20)
    path = f"{directory}/sequential"
    begun = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(max(1, mib // 16)):
            file.write(block)
        os.fsync(file.fileno())
    took = time.monotonic() - begun
    os.unlink(path)
    return took


def images(options):
    from checkpoint_harness import Weights, adopt, need_criu, reap, restore, seconds_of
    need_criu()
    adopt()
    size = options.image * UNIT
    directory = tempfile.mkdtemp(prefix="evict-images.", dir=options.directory)
    program = None
    virgate("create", "evict-image", "--memory", f"{size + FIXED + SPARE}M", *EVICTABLE)
    try:
        program = Weights(f"{directory}/said", size, before=inside({"vgpu": "evict-image"}, []))
        pid = vgpu("evict-image")["tenants"][0]["pid"]
        begun = time.monotonic()
        virgate("suspend", "evict-image", timeout=120)
        print(f"images: first suspension, which pins host memory, {time.monotonic() - begun:.2f} s", flush=True)
        virgate("resume", "evict-image")

        def dump(name, *words):
            begun = time.monotonic()
            said = json.loads(virgate("dump", "--json", "--vgpu", "evict-image", "--dir", f"{directory}/{name}", *words,
                                      timeout=280))
            if "--leave-running" not in words:
                reap([pid])
            took = time.monotonic() - begun
            print(f"images: {options.image}, {' '.join([name, *words]).replace(directory, '')}: {took:.2f} s "
                  f"({seconds_of(said)}), {said.get('linked_bytes', 0) >> 20} MiB linked", flush=True)
            return took

        one = write_sequentially(directory, size)
        full = dump("full", "--leave-running")
        has_room = shutil.disk_usage(directory).free >> 20 > size * 11 // 10
        two = write_sequentially(directory, size) if has_room else None
        program.verify()
        again = dump("second", "--leave-running", "--base", f"{directory}/full")
        program.verify()
        dump("last", "--base", f"{directory}/second")
        program.wait(30)
        for name in ("full", "second"):
            shutil.rmtree(f"{directory}/{name}")
        begun = time.monotonic()
        said = restore(f"{directory}/last")
        took = time.monotonic() - begun
        program.pid, program.status = pid, None
        program.verify()
        print(f"images: {options.image} in {options.directory}: full {full:.2f} s, a sequential writer before "
              f"{one:.2f} s, {f'after {two:.2f} s' if two else 'no room for a second one'}; unchanged {again:.2f} s, "
              f"{full / again:.1f} times faster; restore {took:.2f} s ({seconds_of(said)})", flush=True)
    finally:
        if program:
            program.stop()
        virgate("rm", "evict-image", good=False)
        shutil.rmtree(directory)


def requests(worker, seconds, meanwhile):
    """Runs requests of a single kernel, and calls meanwhile(). Returns p50, p99 and the longest in ms, the number of
    requests, and what meanwhile() returned."""
    begin = time.monotonic_ns() + 200_000_000
    worker.send(f"run one {begin} {begin + int(seconds * 1e9)}")
    time.sleep(0.3)
    value = meanwhile()
    lines = json.loads(worker.receive())
    last = begin + int(value * 1e9) + 100_000_000 if value else begin + int(seconds * 1e9)
    times = sorted(ns / 1e6 for at, ns in lines if at < last)
    return times[len(times) // 2], times[len(times) * 99 // 100], times[-1], len(times), value


def neighbour(options):
    need_module("torch")
    from bench_turns_torch import Worker
    size = options.pin * UNIT
    worker = Worker([VIRGATE, "run", "--name", "evict-neighbour", "--memory", "4G", "--"], {})
    server = None

    def suspend():
        begun = time.monotonic()
        virgate("suspend", "evict-pin", timeout=200)
        return time.monotonic() - begun

    try:
        worker.send("prepare one")
        worker.receive()
        server = Program("evict-pin", size + FIXED + SPARE, [STEPS, str(size), "1024"], *EVICTABLE)
        server.expect("ready")
        alone = requests(worker, 5, lambda: 0)
        first = requests(worker, 60, suspend)
        virgate("resume", "evict-pin")
        again = requests(worker, 5, suspend)
        virgate("resume", "evict-pin")
        for name, (p50, p99, longest, count, took) in (("alone", alone), ("beside the first suspension", first),
                                                      ("beside the second one", again)):
            print(f"neighbour, {name}: p50 {p50:.3f}, p99 {p99:.3f}, longest {longest:.2f} ms of {count} requests"
                  + (f", {took:.1f} s" if took else ""), flush=True)
    finally:
        if server:
            server.end()
        worker.end()


def frameworks(options):
    for kind, module, environment in (("torch", "torch", {}),
                                      ("torch", "torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
                                      ("jax", "jax", {}), ("cupy", "cupy", {})):
        try:
            need_module(module)
        except Skip as reason:
            print(f"frameworks: skipped {module}: {reason}", flush=True)
            continue
        words = [f"{name}={value}" for name, value in environment.items()]
        program = Program("evict-framework", 12 * UNIT, ["env", *words, sys.executable, f"{HERE}/evict_frameworks.py",
                                                         kind, "8"], *EVICTABLE)
        try:
            program.expect("ready")
            charged = vgpu("evict-framework")["charged"]
            virgate("suspend", "evict-framework")
            out = vgpu("evict-framework")["eviction"]["in_host"]
            virgate("resume", "evict-framework")
            print(f"frameworks: {' '.join([kind, *words])}: {out >> 20} of {charged >> 20} MiB can leave, "
                  f"{out / charged * 100:.1f} %", flush=True)
        finally:
            program.end()


def training(options):
    need_module("torch")
    from bench_turns_torch import Result, Worker
    evictable = [VIRGATE, "run", "--name", "evict-training", "--memory", "40G", "--evictable", "--"]
    workers = {"native": Worker([], {}), "evictable": Worker(evictable, {})}
    try:
        for kind in ("loop", "train"):
            for worker in workers.values():
                worker.send(f"prepare {kind}")
                worker.receive()
            rates = {name: [] for name in workers}
            for index in range(options.rounds):
                for name in sorted(workers, reverse=index % 2):
                    begin = time.monotonic_ns() + 300_000_000
                    end = begin + 4_000_000_000
                    workers[name].send(f"run {kind} {begin} {end}")
                    lines = json.loads(workers[name].receive())
                    rates[name].append(Result(kind, lines).rate(lines[1][0], lines[-1][0]))
            ratios = [mine / other for mine, other in zip(rates["evictable"], rates["native"])]
            print(f"training, {kind}: evictable {median(rates['evictable']):.2f}, native "
                  f"{median(rates['native']):.2f} a second: {median(ratios) * 100:.2f} % (of single rounds "
                  f"{min(ratios) * 100:.2f} to {max(ratios) * 100:.2f})", flush=True)
    finally:
        for worker in workers.values():
            worker.end()


def allocations(options):
    sizes = [1, 2, 4, 64] if SIM else [2, 20, 256, 4096]  # MiB
    command = [sys.executable, f"{HERE}/evict_allocations.py", *map(str, sizes)]
    programs, times = [], {}
    try:
        for name, mib in (("native", 0), ("evictable", sizes[-1] + FIXED + SPARE)):
            programs.append(Program(f"evict-{name}", mib, command, *EVICTABLE))
            programs[-1].expect("ready")
            programs[-1].send("run 3")  # warms up
            programs[-1].line()
        for index in range(options.rounds):
            for program in sorted(programs, key=lambda one: one.name, reverse=index % 2):
                program.send("run 20")
                times.setdefault(program.name, []).append([float(word) for word in program.line().split()])
        for size, mine, other in zip(sizes, zip(*times["evict-evictable"]), zip(*times["evict-native"])):
            ratios = [one / two for one, two in zip(mine, other)]
            print(f"allocations of {size} MiB, with release: {median(mine):.1f} us, native {median(other):.1f} us: x "
                  f"{median(ratios):.2f} (of single rounds {min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    finally:
        for program in programs:
            program.end()


CASES = {case.__name__: case for case in (tenants, servers, images, neighbour, frameworks, training, allocations)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--size", type=int, default=60)
    parser.add_argument("--budget", type=int, default=79)
    parser.add_argument("--weights", type=int, default=40)
    parser.add_argument("--image", type=int, default=32)
    parser.add_argument("--pin", type=int, default=44)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--directory", default="/var/tmp")
    parser.add_argument("cases", nargs="+", choices=CASES, metavar="CASE")
    options = parser.parse_intermixed_args()
    failed = 0
    for name in options.cases:
        begun = time.monotonic()
        try:
            CASES[name](options)
        except Skip as reason:
            print(f"skipped {name}: {reason}", flush=True)
        except Failure as what:
            failed += 1
            print(f"FAILED {name}: {what}", flush=True)
        print(f"  ({name}: {time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
