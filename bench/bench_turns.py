#!/usr/bin/env python3
"""Compute shares between processes: bench_turns.py BUILD_OR_BUNDLE [--sim] [--seconds N] [CASE...]

Each case runs its tenants alone and together in the same minute, natively and in vGPUs with compute shares. It prints
the rates together as parts of the rates alone. A window is 2 seconds of the tenants' own counters. It also prints the
CPU time of the arbiters of this user's daemons, and how often they woke up. With --sim, VIRGATE_SIM must have `slice`
(docs/simulator.md), and --rounds 1 makes the interpreter do little."""

import argparse
import glob
import os
import re
import subprocess
import sys
import threading
import time

# kind, share
CASES = {
    "train-30-70": [("train", 30), ("train", 70)],
    "train-10-90": [("train", 10), ("train", 90)],
    "train-20-30-50": [("train", 20), ("train", 30), ("train", 50)],
    "train-4x25": [("train", 25)] * 4,
    "long-30-70": [("long", 30), ("long", 70)],
    "long-30-train-70": [("long", 30), ("train", 70)],
    "graph-30-70": [("graph", 30), ("graph", 70)],
    "shapes-30-70": [("shapes", 30), ("shapes", 70)],
    "half-30-train-70": [("half", 30), ("train", 70)],
    "launch-30-70": [("launch", 30), ("launch", 70)],
    "launch-50-alone": [("launch", 50)],
    "limit-30-alone": [("train", "30!")],
    "infer-40-train-60": [("infer", "40L"), ("train", 60)],
    "infer-40-long-60": [("infer", "40L"), ("long", 60)],
    "infer-20-train-80": [("infer", "20L"), ("train", 80)],
    "infer-20-long-80": [("infer", "20L"), ("long", 80)],
    "closed-20-train-80": [("closed", "20L"), ("train", 80)],
    "handover-50-50": [("stamps", 50), ("stamps", 50)],
}
REQUESTS = ("infer", "closed")  # kinds that print a line for each request
# duration of a kernel on the simulated GPU, in microseconds; other kinds: 200
KERNEL_US = {"long": 6500, "shapes": 20, "launch": 1, "infer": 7, "closed": 7}


def read_arbiters():
    """Returns what the threads of this user's daemons, except their main threads, have used: seconds of CPU time, and
    how often they went to sleep."""
    seconds, sleeps = 0.0, 0
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*"):
        process, thread = path.split("/")[2::2]
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                is_arbiter = file.read().strip() == "virgated" and process != thread
            if not is_arbiter or os.stat(path).st_uid != os.getuid():
                continue
            with open(f"{path}/schedstat", encoding="ascii") as file:
                seconds += int(file.read().split()[0]) / 1e9
            with open(f"{path}/status", encoding="utf-8") as file:
                sleeps += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", file.read(), re.M).group(1))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return seconds, sleeps


class ArbiterTime(threading.Thread):
    """Measures the arbiters from 2 seconds after the start on, for some seconds."""

    def __init__(self, seconds):
        super().__init__(daemon=True)
        self.seconds = seconds
        self.start()

    def run(self):
        time.sleep(2)
        begin, (seconds, sleeps) = time.monotonic(), read_arbiters()
        time.sleep(self.seconds)
        elapsed, (seconds_after, sleeps_after) = time.monotonic() - begin, read_arbiters()
        self.part = (seconds_after - seconds) / elapsed * 100
        self.rate = (sleeps_after - sleeps) / elapsed

    def text(self):
        self.join()
        return f" | arbiter {self.part:.2f} % of a core, {self.rate:.0f} wakes a second"


class Tenant:
    def __init__(self, bench, kind, share, seconds, native):
        command = [bench.load, kind, str(seconds), bench.rounds]
        options = ["--memory", "1G"]
        if not native:
            text = str(share)
            options += ["--share", text.rstrip("!L")]
            options += ["--limit"] if text.endswith("!") else []
            options += ["--class", "latency"] if text.endswith("L") else []
        environment = dict(os.environ)
        if bench.sim or not native:
            command = [bench.virgate, "run", *bench.sim, *options, "--", *command]
        if bench.sim:
            environment["VIRGATE_SIM_COST"] = f"kernel={KERNEL_US.get(kind, 200)}us"
        self.kind = kind
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def finish(self):
        output = self.process.communicate()[0]
        self.lines = [tuple(map(int, line.split())) for line in output.splitlines()]
        if self.process.returncode or not self.lines:
            sys.exit(f"{self.kind} ended with {self.process.returncode}")

    def rate(self, begin, end):
        """Returns how many units of work, or requests, were done per second between the two times."""
        if self.kind in REQUESTS:
            return sum(begin <= at < end for at, _ in self.lines) / (end - begin) * 1e9
        inside = [line for line in self.lines if begin <= line[0] <= end]
        if len(inside) < 2:
            return 0.0
        return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0]) * 1e9

    def quantiles(self, begin, end):
        """Returns the 50th, 90th and 99th percentile of the requests' durations in microseconds."""
        times = sorted(ns for at, ns in self.lines if begin <= at < end)
        return [times[len(times) * part // 100] / 1e3 if times else 0.0 for part in (50, 90, 99)]


class Bench:
    def __init__(self, options):
        root = options.root
        if os.path.exists(f"{root}/bin/virgate"):
            self.virgate, self.load = f"{root}/bin/virgate", f"{root}/libexec/virgate/bench/turn_load"
        else:
            self.virgate, self.load = f"{root}/cli/virgate", f"{root}/bench/turn_load"
        self.sim = ["--sim"] if options.sim else []
        self.seconds = options.seconds
        self.rounds = options.rounds or subprocess.run(
            [self.virgate, "run", *self.sim, "--memory", "1G", "--", self.load, "calibrate"],
            check=True, capture_output=True, text=True).stdout.strip()

    def run(self, tenants, native):
        running = [Tenant(self, kind, share, self.seconds + 3, native) for kind, share in tenants]
        self.arbiter = None if native else ArbiterTime(self.seconds)
        for tenant in running:
            tenant.finish()
        begin = max(tenant.lines[0][0] for tenant in running) + 1_000_000_000
        end = min(begin + int(self.seconds * 1e9), *(tenant.lines[-1][0] for tenant in running), begin + 10**12)
        return running, begin, end

    def solo(self, kind):
        seconds, self.seconds = self.seconds, min(self.seconds, 2)
        [tenant], begin, end = self.run([(kind, 0)], True)
        self.seconds = seconds
        return [tenant.rate(begin, end)] + (tenant.quantiles(begin, end) if kind in REQUESTS else [])

    def handovers(self, name, native):
        """Prints how long the GPU is idle between the last kernel of one tenant and the first of the other."""
        running = [Tenant(self, kind, share, self.seconds, native) for kind, share in CASES[name]]
        for tenant in running:
            tenant.finish()
        begin, end = max(tenant.lines[0][0] for tenant in running), min(tenant.lines[-1][1] for tenant in running)
        kernels = sorted((first, last, index) for index, tenant in enumerate(running)
                         for first, last in tenant.lines if begin <= first and last <= end)
        gaps = sorted(max(after[0] - before[1], 0) / 1e3 for before, after in zip(kernels, kernels[1:])
                      if before[2] != after[2])
        lengths = sorted((last - first) / 1e3 for first, last, _ in kernels)
        at = [gaps[len(gaps) * part // 100] for part in (50, 90, 99)] if gaps else []
        print(f"{name:20} {'native' if native else 'shares':7} {len(gaps)} handovers | p50, p90, p99 of the gap "
              + ", ".join(f"{us:.0f}" for us in at) + f" us | a kernel {lengths[len(lengths) // 2]:.0f} us, p99 "
              f"{lengths[len(lengths) * 99 // 100]:.0f}", flush=True)

    def case(self, name, native):
        tenants = CASES[name]
        if name.startswith("handover"):
            return self.handovers(name, native)
        kinds = {kind for kind, _ in tenants}
        before = {kind: self.solo(kind) for kind in kinds}
        running, begin, end = self.run(tenants, native)
        arbiter = self.arbiter.text() if self.arbiter else ""
        after = {kind: self.solo(kind) for kind in kinds}  # repeat the solo runs, since the GPU's clock changes
        solo = {kind: [(a + b) / 2 for a, b in zip(before[kind], after[kind])] for kind in kinds}
        parts = [tenant.rate(begin, end) / solo[tenant.kind][0] * 100 for tenant in running]
        loads = [tenant for tenant in running if tenant.kind not in REQUESTS]
        windows, at = [], begin
        while at + 2_000_000_000 <= end and len(loads) > 1:
            rates = [tenant.rate(at, at + 2_000_000_000) / solo[tenant.kind][0] for tenant in loads]
            windows.append([rate / (sum(rates) or 1) * 100 for rate in rates])
            at += 2_000_000_000
        text = f"{name:20} {'native' if native else 'shares':7}"
        text += " of solo " + " ".join(f"{part:5.1f}" for part in parts) + f" sum {sum(parts):5.1f} %"
        if windows:
            for index, tenant in enumerate(loads):
                values = [window[index] for window in windows]
                text += f" | part {sum(values) / len(values):.1f} ({min(values):.1f} to {max(values):.1f})"
        for tenant in running:
            if tenant.kind in REQUESTS:
                got, alone = tenant.quantiles(begin, end), solo[tenant.kind][1:]
                text += " | p50, p90, p99 " + ", ".join(f"{us:.0f}" for us in got) + " us; solo "
                text += ", ".join(f"{us:.0f}" for us in alone) + f"; {got[2] / alone[2]:.2f} x"
        print(text + arbiter, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--sim", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", help="of the kernel in a microsecond, instead of measuring them")
    parser.add_argument("--native", action="store_true", help="each case natively, too")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    for name in options.cases:
        if name not in CASES:
            sys.exit(f"there is no case {name}, but: {' '.join(CASES)}")
    bench = Bench(options)
    print(f"rounds of a microsecond: {bench.rounds}")
    start = time.monotonic()
    for name in options.cases or CASES:
        if options.native:
            bench.case(name, True)
        bench.case(name, False)
    print(f"{time.monotonic() - start:.0f} seconds")


main()
