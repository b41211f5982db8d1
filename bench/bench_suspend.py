#!/usr/bin/env python3
"""bench_suspend.py BUILD_OR_BUNDLE [--sizes 8,16] [--rounds N] [--switch SIZE --budget SIZE]: measures `virgate
suspend` and `virgate resume` of a program with device memory of each size. Compares them with the bare copy to pinned
host memory and back (tests/gpu/server, "copy"), and with the driver's own checkpoint of such a process. Sizes are in
GiB, on the simulated GPU in tens of MiB. The first suspension also pins host memory, so it is shown separately.
"answer" is the time from the resume of a suspended server until it has answered a request. The program writes all its
memory before each suspension, except those called "unchanged". With --switch, two vGPUs of that size run on a part of
the GPU of the size --budget, where only one fits. The time is then measured from a request to the suspended vGPU until
its answer."""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "gpu"))

from harness import MiB, Nvml, PROGRAMS, SIM, Failure, check, find_real, inside, vgpu, virgate

UNIT = 10 if SIM else 1024  # MiB in the unit of sizes


class Server:
    def __init__(self, mib, prefix):
        self.process = subprocess.Popen([*prefix, f"{PROGRAMS}/server", str(mib), "7"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"the server ended with {self.process.wait()}")
        return line.strip()

    def expect(self, words):
        got = self.answer()
        check(got == words, f"the server says {got} instead of {words}")

    def send(self, words):
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()

    def ask(self, words, answer):
        begun = time.monotonic()
        self.send(words)
        self.expect(answer)
        return time.monotonic() - begun

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def timed(function, *arguments):
    begun = time.monotonic()
    function(*arguments)
    return time.monotonic() - begun


class Driver:
    """Calls the driver's checkpoint functions for another process."""

    def __init__(self):
        simulated = os.path.join(os.path.dirname(os.environ.get("VIRGATE_NVML", "")), "libcuda.so.1")
        self.library = ctypes.CDLL(simulated if SIM else find_real("libcuda.so.1"))
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        check(result == 0, f"{name} gave {result}")

    def out(self, pid):
        lock = (ctypes.c_uint * 16)(60000)  # milliseconds
        self.call("cuCheckpointProcessLock", pid, lock)
        self.call("cuCheckpointProcessCheckpoint", pid, None)

    def back(self, pid):
        self.call("cuCheckpointProcessRestore", pid, None)
        self.call("cuCheckpointProcessUnlock", pid, None)


def measure_plain(mib):
    """Returns the seconds of a copy to the host and back, and of the driver's checkpoint and restore."""
    server, driver = Server(mib, []), Driver()
    server.send("copy")
    copy = [float(word) for word in server.answer().split()]
    out = timed(driver.out, server.process.pid)
    back = timed(driver.back, server.process.pid)
    server.end()
    return *copy, out, back


def printed_seconds(text):
    return float(re.search(r" in ([0-9.]+) s", text).group(1))


def move(columns, way, verb):
    begun = time.monotonic()
    words = virgate(verb, "bench-suspend")
    columns[way].append(time.monotonic() - begun)
    columns[f"copy {way}"].append(printed_seconds(words))


def measure_virgate(mib, rounds):
    fixed = 64 if SIM else 2048
    virgate("create", "bench-suspend", "--memory", f"{mib + 2 * fixed}M", "--evictable", "--fixed", f"{fixed}M")
    server = Server(mib, inside({"vgpu": "bench-suspend"}, []))
    ways = ("out", "back", "unchanged out", "unchanged back")
    columns = {f"{part}{way}": [] for part in ("", "copy ") for way in ways}
    try:
        first = timed(virgate, "suspend", "bench-suspend")
        virgate("resume", "bench-suspend")
        for i in range(rounds):
            server.ask(f"write {i + 100}", "written")
            move(columns, "out", "suspend")
            move(columns, "back", "resume")
        for _ in range(rounds):
            move(columns, "unchanged out", "suspend")
            eviction = vgpu("bench-suspend")["tenants"][0]["eviction"]
            move(columns, "unchanged back", "resume")
        virgate("suspend", "bench-suspend")
        server.send("check")
        begun = time.monotonic()
        virgate("resume", "bench-suspend")
        server.expect("right")
        answer = time.monotonic() - begun
    finally:
        server.end()
        virgate("rm", "bench-suspend", good=False)
    return first, {name: statistics.median(values) for name, values in columns.items()}, answer, eviction


def report_unchanged(mib, virgates, eviction):
    took, size = virgates["copy unchanged out"], eviction["bytes"]
    print(f"{mib} MiB unchanged: {eviction['unchanged'] / max(size, 1) * 100:.1f} % not copied, hash error "
          f"{eviction['hash_error']}; suspend {virgates['unchanged out']:.3f} s (hashes, release: {took:.4f} s, "
          f"{size / took / 1e9:.0f} GB/s), resume {virgates['unchanged back']:.3f} s", flush=True)


def wait_until_one_runs(names):
    """Waits until one vGPU is suspended and the other runs. Returns the index of the running one."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        states = [vgpu(name)["eviction"]["state"] for name in names]
        if sorted(states) == ["out", "running"]:
            return states.index("running")
        time.sleep(0.05)
    raise Failure(f"the vGPUs are {states}")


def switch(servers, names, value, columns):
    """Sends a request to the suspended server while the other one is idle."""
    here = wait_until_one_runs(names)
    if value:
        servers[here].ask(f"write {value}", "written")
    time.sleep(2)
    columns["answer"].append(servers[1 - here].ask("check", "right"))
    wait_until_one_runs(names)
    moved = [vgpu(name)["tenants"][0]["eviction"]["moved"] for name in names]
    columns["out"].append(moved[here])
    columns["in"].append(moved[1 - here])


def measure_switch(mib, budget, rounds):
    fixed = 64 if SIM else 2048
    names = ["bench-one", "bench-two"]
    servers = []
    virgate("create", "bench-rest", "--memory", f"{Nvml().memory()['total'] // MiB - budget}M")
    try:
        for name in names:
            virgate("create", name, "--memory", f"{mib}M", "--evictable", "--fixed", f"{fixed}M")
            servers.append(Server(mib - fixed, inside({"vgpu": name}, [])))
        for server in servers:
            server.ask("check", "right")
        for changes in (True, False):
            columns = {"answer": [], "out": [], "in": []}
            for i in range(2 * rounds):
                switch(servers, names, i + 100 if changes else 0, columns)
            median = {name: statistics.median(values) for name, values in columns.items()}
            print(f"switch of two vGPUs of {mib} MiB on {budget} MiB, memory {'changed' if changes else 'unchanged'}: "
                  f"answer median {median['answer']:.3f} s, longest {max(columns['answer']):.3f} s; one out "
                  f"{median['out']:.3f} s, the other in {median['in']:.3f} s", flush=True)
    finally:
        for server in servers:
            server.end()
        for name in [*names, "bench-rest"]:
            virgate("rm", name, good=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--sizes", default="8,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--switch", type=int, help="size of each of two vGPUs that change places")
    parser.add_argument("--budget", type=int, default=79, help="of the GPU, for both")
    options = parser.parse_args()
    if options.switch:
        measure_switch(options.switch * UNIT, options.budget * UNIT, options.rounds)
    for size in [] if options.switch else map(int, options.sizes.split(",")):
        mib = size * UNIT
        copy_out, copy_back, out, back = measure_plain(mib)
        first, virgates, answer, eviction = measure_virgate(mib, options.rounds)
        print(f"{mib} MiB: bare copy {copy_out:.3f} s out, {copy_back:.3f} s back; "
              f"driver's checkpoint {out:.3f} s, {back:.3f} s")
        print(f"{mib} MiB: first suspension {first:.3f} s; suspend {virgates['out']:.3f} s "
              f"(copy {virgates['copy out']:.3f} s, {copy_out / virgates['copy out'] * 100:.0f} % of the bare rate), "
              f"resume {virgates['back']:.3f} s "
              f"(copy {virgates['copy back']:.3f} s, {copy_back / virgates['copy back'] * 100:.0f} %), "
              f"answer {answer:.3f} s", flush=True)
        report_unchanged(mib, virgates, eviction)


main()
