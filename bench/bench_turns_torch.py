#!/usr/bin/env python3
"""Compute shares between PyTorch programs: bench_turns_torch.py BUILD_OR_BUNDLE [options] [CASE...]

Each case runs natively, over NVIDIA's MPS (--mps), and in vGPUs (--runs times). Rates are divided by the rate of a
native process that runs alone, which is measured before and after each case. A window is 2 seconds of the tenants' own
counters. The programs (turn_torch.py) are started once; between cases, `virgate set` changes their compute shares.

--busy keeps every CPU core busy with other work all the time, also while a program runs alone."""

import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOW = 2  # seconds
CHANGED = 0.1  # seconds after which a change of compute shares is in effect
REQUESTS = ("infer", "one", "closed")  # kinds that report the durations of requests
# the rate of the first kind is divided by the rate of the second kind alone, which does the same work
SCALE = {"half": "train"}
# Seconds for which tenants go on after the time that is evaluated. A loop reports each ten steps, which take 3.5 s with
# a share of 20 %. Without this time, a part of its last ten steps would run alone, and they would count as too fast.
TAIL = {"loop": 4, "small-loop": 4}

# The kind and the compute share of each tenant. L: in the latency class; !: with --limit; 30>70: the compute share
# changes in the middle.
CASES = {
    "train-30-70": [("train", "30"), ("train", "70")],
    "train-10-90": [("train", "10"), ("train", "90")],
    "train-20-30-50": [("train", "20"), ("train", "30"), ("train", "50")],
    "train-4x25": [("train", "25")] * 4,
    "long-30-70": [("long", "30"), ("long", "70")],
    "long-30-train-70": [("long", "30"), ("train", "70")],
    "graph-30-70": [("graph", "30"), ("graph", "70")],
    "loop-50-50": [("loop", "50"), ("loop", "50")],
    "loop-20-80": [("loop", "20"), ("loop", "80")],
    "small-loop-50-50": [("small-loop", "50"), ("small-loop", "50")],
    "small-loop-20-80": [("small-loop", "20"), ("small-loop", "80")],
    "one-40-long-60": [("one", "40L"), ("long", "60")],
    "small-30-70": [("small", "30"), ("small", "70")],
    "small-50-50": [("small", "50"), ("small", "50")],
    "infer-40-train-60": [("infer", "40L"), ("train", "60")],
    "infer-40-long-60": [("infer", "40L"), ("long", "60")],
    "closed-20-train-80": [("closed", "20L"), ("train", "80")],
    "half-30-train-70": [("half", "30"), ("train", "70")],
    "change-30-70": [("train", "30>70"), ("train", "70>30")],
    "small-50-alone": [("small", "50")],
    "limit-30-alone": [("train", "30!")],
}


class Worker:
    """A PyTorch process, started once."""

    def __init__(self, prefix, environment):
        command = [*prefix, sys.executable, f"{HERE}/turn_torch.py"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **environment))
        self.prepared = set()

    def send(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a program ended with {self.process.wait()}")
        return line

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Result:
    """Has the counters of one tenant between two times."""

    def __init__(self, kind, lines):
        self.kind, self.lines = kind, lines

    def rate(self, begin, end):
        """Returns the units of work a second, interpolated between the counters."""
        if self.kind in REQUESTS:
            return sum(begin <= at < end for at, _ in self.lines) / (end - begin) * 1e9
        return (self.count(end) - self.count(begin)) / (end - begin) * 1e9

    def count(self, at):
        for (t0, n0), (t1, n1) in zip(self.lines, self.lines[1:]):
            if t0 <= at <= t1:
                return n0 + (n1 - n0) * (at - t0) / (t1 - t0)
        return self.lines[-1][1] if at > self.lines[-1][0] else 0

    def quantiles(self, begin, end):
        times = sorted(ns for at, ns in self.lines if begin <= at < end)
        return [times[len(times) * part // 100] / 1e3 for part in (50, 90, 99)] if times else [0.0] * 3


def daemon_seconds():
    """Returns the CPU time of this user's daemons."""
    ticks = 0
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{path}/stat", encoding="utf-8") as file:
                before, _, after = file.read().rpartition(")")
            if before.endswith("(virgated") and os.stat(path).st_uid == os.getuid():
                ticks += sum(map(int, after.split()[11:13]))
        except FileNotFoundError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


class Clocks:
    """The clock of the GPU's multiprocessors, read ten times a second. It is lower while a program needs much power."""

    def __init__(self):
        command = ["nvidia-smi", "-i", "0", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-lms", "100"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic_ns(), float(line)))

    def mean(self, begin, end):
        values = [mhz for at, mhz in self.lines if begin <= at < end]
        return statistics.mean(values) if values else float("nan")

    def end(self):
        self.process.kill()
        self.process.wait()


class Bench:
    def __init__(self, options):
        self.options = options
        self.virgate = next(path for path in (f"{options.root}/bin/virgate", f"{options.root}/cli/virgate")
                            if os.path.exists(path))
        self.workers = {}
        self.directory = tempfile.mkdtemp(prefix="virgate-turns.")
        self.mps_environment = {"CUDA_MPS_PIPE_DIRECTORY": f"{self.directory}/pipe",
                                "CUDA_MPS_LOG_DIRECTORY": f"{self.directory}/log"}
        self.mps = None
        self.note = ""
        self.clocks = Clocks()
        self.kinds, self.last = None, None  # the rates of the programs when they last ran alone, and their kinds

    def start_mps(self):
        if not self.mps:
            os.mkdir(f"{self.directory}/pipe")
            os.mkdir(f"{self.directory}/log")
            self.mps = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, env=dict(os.environ, **self.mps_environment))

    def worker(self, side, index, share):
        """Returns program number `index` of a side (native, mps, shares), and starts it if necessary."""
        key = (side, self.name(index, share if side == "shares" else ""))
        if key not in self.workers:
            prefix, environment = [], {}
            if side == "mps":
                self.start_mps()
                environment = self.mps_environment
            elif side == "shares":
                options = ["--class", "latency"] if share.endswith("L") else []
                options += ["--share", share[:-1], "--limit"] if share.endswith("!") else []
                prefix = [self.virgate, "run", "--name", key[1], "--memory", self.options.memory]
                options += ["--evictable"] if self.options.evictable else []
                prefix += ["--mode", self.options.mode, *options, "--"]
            self.workers[key] = Worker(prefix, environment)
        return self.workers[key]

    @staticmethod
    def name(index, share):
        return f"turns-{'latency' if share.endswith('L') else 'limit' if share.endswith('!') else index}"

    def set_share(self, name, share):
        subprocess.run([self.virgate, "set", name, "--share", share], check=True, stdout=subprocess.DEVNULL)

    def remove_shares(self):
        for side, name in self.workers:
            if side == "shares" and not name.endswith("limit"):
                self.set_share(name, "none")

    def set_shares(self, tenants):
        for index, (_, share) in enumerate(tenants):
            if not share.endswith("!"):
                self.set_share(self.name(index, share), share.rstrip("L").split(">")[0])

    def change_shares(self, tenants):
        """Changes the compute shares, smaller ones first. Returns the time after the last change."""
        changes = [(int(share.split(">")[1]), self.name(index, share)) for index, (_, share) in enumerate(tenants)]
        for share, name in sorted(changes):
            self.set_share(name, str(share))
        return time.monotonic_ns()

    def measure(self, side, tenants, seconds):
        """Runs the tenants together. Returns a Result for each, the begin and the end of the time to evaluate, and the
        time when their compute shares had changed, if they did."""
        if side == "shares":
            self.remove_shares()  # remove the old shares first: their sum with the new ones could exceed 100 %
        workers = [self.worker(side, index, share) for index, (_, share) in enumerate(tenants)]
        for worker, (kind, _) in zip(workers, tenants):
            if kind not in worker.prepared:
                worker.send(f"prepare {kind}")
                if worker.receive().strip() != "ready":
                    sys.exit(f"{kind} cannot be prepared")
                worker.prepared.add(kind)
        if side == "shares":
            self.set_shares(tenants)
        begin = time.monotonic_ns() + 300_000_000
        end = begin + int((seconds + 1) * 1e9)
        tail = max(TAIL.get(kind, 0.1) for kind, _ in tenants) if len(tenants) > 1 else 0.1
        changed = None
        for worker, (kind, _) in zip(workers, tenants):
            worker.send(f"run {kind} {begin} {end + int(tail * 1e9)}")
        if side == "shares":
            before = daemon_seconds()
            time.sleep(seconds / 2)
            if ">" in tenants[0][1]:
                changed = self.change_shares(tenants)
            time.sleep(seconds / 2)
            cpu = (daemon_seconds() - before) / seconds * 100
            self.note = f" | daemon {cpu:.1f} % of a core{self.device_figures()}"
        results = [Result(kind, json.loads(worker.receive())) for worker, (kind, _) in zip(workers, tenants)]
        for key in [key for key in self.workers if key[1].endswith("limit")]:
            self.workers.pop(key).end()
        return results, begin + 1_000_000_000, end, changed

    def device_figures(self):
        """Returns the arbiter's figures while the programs run, as text."""
        listed = json.loads(subprocess.run([self.virgate, "ps", "--json"], check=True, capture_output=True).stdout)
        turns = [one["turns"] for one in listed["vgpus"]
                 if one["name"].startswith("turns-") and one["turns"] and one["turns"]["recent"]]
        reasons = sorted({one["reason"] for one in turns})
        recent = " ".join(f"{one['recent']:.1f}" for one in turns)
        return (f" | by ps {recent} %, {turns[0]['handovers']:.0f} handovers/s, "
                f"turns of {turns[0]['quantum'] * 1e3:.0f} ms: {'; '.join(reasons)}" if turns else "")

    def solo(self, kinds):
        rates = {}
        for kind in kinds:
            [result], begin, end, _ = self.measure("native", [(kind, "")], self.options.solo)
            rates[kind] = [result.rate(begin, end), self.clocks.mean(begin, end)]
            rates[kind] += result.quantiles(begin, end) if kind in REQUESTS else []
        return rates

    def compare(self, name, side):
        tenants = CASES[name]
        kinds = sorted({SCALE.get(kind, kind) for kind, _ in tenants})
        before = self.solo(kinds) if kinds != self.kinds else self.last
        seconds = self.options.seconds if side == "shares" else self.options.peer_seconds
        results, begin, end, changed = self.measure(side, tenants, seconds)
        after = self.solo(kinds)  # repeat the solo runs, since the GPU's clock changes
        self.kinds, self.last = kinds, after
        solo = {kind: [(a + b) / 2 for a, b in zip(before[kind], after[kind])] for kind in kinds}
        alone = {kind: solo[SCALE.get(kind, kind)][0] for kind, _ in tenants}
        clock = self.clocks.mean(begin, end)
        scales = [solo[SCALE.get(kind, kind)][1] / clock for kind, _ in tenants]
        parts = [result.rate(begin, end) / alone[result.kind] * 100 for result in results]
        text = f"{name:18} {side:6} of solo " + " ".join(f"{part:5.1f}" for part in parts) + f" sum {sum(parts):5.1f} %"
        loads = [result for result in results if result.kind not in REQUESTS]
        for since, until in ((begin, changed), (changed + int(CHANGED * 1e9), end)) if changed else ((begin, end),):
            text += self.windows(loads, alone, since, until)
        for result in results:
            if result.kind in REQUESTS:
                got = result.quantiles(begin, end)
                text += " | p50, p90, p99 " + ", ".join(f"{us:.0f}" for us in got) + " us; solo "
                text += ", ".join(f"{us:.0f}" for us in solo[result.kind][2:])
                text += f"; {got[2] / solo[result.kind][4]:.2f} x"
        scaled = [part * scale for part, scale in zip(parts, scales)]
        text += f" | {clock:.0f} MHz, alone " + ", ".join(f"{solo[kind][1]:.0f}" for kind in kinds)
        text += "; at equal clocks " + " ".join(f"{part:.1f}" for part in scaled) + f", sum {sum(scaled):.1f} %"
        print(text + (self.note if side == "shares" else ""), flush=True)

    @staticmethod
    def windows(loads, alone, at, end):
        """Returns each tenant's part of the sum, in windows of 2 seconds."""
        windows = []
        while len(loads) > 1 and at + WINDOW * 1_000_000_000 <= end:
            rates = [load.rate(at, at + WINDOW * 1_000_000_000) / alone[load.kind] for load in loads]
            windows.append([rate / (sum(rates) or 1) * 100 for rate in rates])
            at += WINDOW * 1_000_000_000
        return "".join(f" | part {statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"
                       for values in zip(*windows))

    def end(self):
        for worker in self.workers.values():
            worker.end()
        self.clocks.end()
        if self.mps:
            self.mps.terminate()
            self.mps.wait()
        shutil.rmtree(self.directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--peer-seconds", type=float, default=10, help="of the same natively and over MPS")
    parser.add_argument("--solo", type=float, default=2, help="seconds of a program alone")
    parser.add_argument("--runs", type=int, default=3, help="in vGPUs")
    parser.add_argument("--memory", default="12G", help="of each vGPU; a loop needs 30G")
    parser.add_argument("--mode", default="time", help="of the vGPUs")
    parser.add_argument("--evictable", action="store_true", help="vGPUs whose memory can move")
    parser.add_argument("--busy", action="store_true", help="beside other work on every CPU core")
    parser.add_argument("--native", action="store_true", help="each case natively, too")
    parser.add_argument("--mps", action="store_true", help="each case over NVIDIA's MPS, too")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    for name in options.cases:
        if name not in CASES:
            sys.exit(f"there is no case {name}, but: {' '.join(CASES)}")
    bench = Bench(options)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() * options.busy)]
    start = time.monotonic()
    for name in options.cases or CASES:
        for side in ["native"] * options.native + ["mps"] * options.mps + ["shares"] * options.runs:
            bench.compare(name, side)
    for other in busy:
        other.kill()
    bench.end()
    print(f"{time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    main()
