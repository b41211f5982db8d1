#!/usr/bin/env python3
"""bench_suspend.py BUILD_OR_BUNDLE [--sizes 8,16] [--rounds N]: `virgate suspend` and `virgate resume` of a program that
holds so much device memory, beside the bare copy to pinned host memory and back (tests/gpu/server, "copy") and the driver's
own checkpoint of such a process. Sizes are GiB, on the simulated GPU tens of MiB. The first suspension also pins host
memory, so it is shown by itself. "answer": from the resume of a suspended server until it has answered a request."""

import argparse
import ctypes
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "gpu"))

from harness import PROGRAMS, SIM, Failure, check, find_real, inside, virgate

UNIT = 10 if SIM else 1024  # of a size, in MiB


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

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def timed(function, *arguments):
    begun = time.monotonic()
    function(*arguments)
    return time.monotonic() - begun


class Driver:
    """The driver's checkpoint of another process. Seconds out and back."""

    def __init__(self):
        path = os.path.join(os.path.dirname(os.environ["VIRGATE_NVML"]), "libcuda.so.1") if SIM else find_real("libcuda.so.1")
        self.library = ctypes.CDLL(path)
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
    """Seconds of the copy out and back, and of the driver's checkpoint out and back."""
    server, driver = Server(mib, []), Driver()
    server.send("copy")
    copy = [float(word) for word in server.answer().split()]
    out = timed(driver.out, server.process.pid)
    back = timed(driver.back, server.process.pid)
    server.end()
    return *copy, out, back


def printed_seconds(text):
    return float(re.search(r" in ([0-9.]+) s,", text).group(1))


def measure_virgate(mib, rounds):
    fixed = 64 if SIM else 2048
    virgate("create", "bench-suspend", "--memory", f"{mib + 2 * fixed}M", "--evictable", "--fixed", f"{fixed}M")
    server = Server(mib, inside({"vgpu": "bench-suspend"}, []))
    columns = {"out": [], "copy out": [], "back": [], "copy back": []}
    try:
        first = timed(virgate, "suspend", "bench-suspend")
        virgate("resume", "bench-suspend")
        for _ in range(rounds):
            for way, verb in (("out", "suspend"), ("back", "resume")):
                begun = time.monotonic()
                words = virgate(verb, "bench-suspend")
                columns[way].append(time.monotonic() - begun)
                columns[f"copy {way}"].append(printed_seconds(words))
        virgate("suspend", "bench-suspend")
        server.send("check")
        begun = time.monotonic()
        virgate("resume", "bench-suspend")
        server.expect("right")
        answer = time.monotonic() - begun
    finally:
        server.end()
        virgate("rm", "bench-suspend", good=False)
    return first, {name: statistics.median(values) for name, values in columns.items()}, answer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--sizes", default="8,16")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for size in map(int, options.sizes.split(",")):
        mib = size * UNIT
        copy_out, copy_back, out, back = measure_plain(mib)
        first, virgates, answer = measure_virgate(mib, options.rounds)
        print(f"{mib} MiB: bare copy {copy_out:.3f} s out, {copy_back:.3f} s back; driver's checkpoint {out:.3f} s, {back:.3f} s")
        print(f"{mib} MiB: first suspension {first:.3f} s; suspend {virgates['out']:.3f} s (copy {virgates['copy out']:.3f} s, "
              f"{copy_out / virgates['copy out'] * 100:.0f} % of the bare rate), resume {virgates['back']:.3f} s "
              f"(copy {virgates['copy back']:.3f} s, {copy_back / virgates['copy back'] * 100:.0f} %), "
              f"answer {answer:.3f} s", flush=True)


main()
