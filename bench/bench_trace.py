#!/usr/bin/env python3
"""bench_trace.py BUILD_OR_BUNDLE [--seconds N] [--traces N] [CASE...]: measures what `virgate trace` costs PyTorch
programs in vGPUs. Each case (of bench_turns_torch.py) runs once; meanwhile, traces of N seconds alternate with times of
the same length without a trace. Prints the ratio of each program's rate during a trace to its rate before and after it,
as the median and for each trace."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from bench_turns_torch import CASES, Bench, Result  # noqa: E402

SETTLE_NS = 500_000_000  # not evaluated at the begin and the end of each time, when `virgate trace` starts and ends


def measure(bench, name, seconds, traces):
    tenants = CASES[name]
    workers = [bench.worker("shares", index, share) for index, (_, share) in enumerate(tenants)]
    for worker, (kind, _) in zip(workers, tenants):
        worker.send(f"prepare {kind}")
        worker.receive()
    bench.set_shares(tenants)
    begin = time.monotonic_ns() + SETTLE_NS
    period = int(seconds * 1e9)
    path = f"{bench.directory}/trace.json"
    for worker, (kind, _) in zip(workers, tenants):
        worker.send(f"run {kind} {begin} {begin + (2 * traces + 1) * period}")
    for at in range(traces):
        time.sleep(max(0, (begin + (2 * at + 1) * period - time.monotonic_ns()) / 1e9))
        subprocess.run([bench.virgate, "trace", "--seconds", str(seconds), "-o", path], check=True,
                       stdout=subprocess.DEVNULL)
    results = [Result(kind, json.loads(worker.receive())) for worker, (kind, _) in zip(workers, tenants)]
    bench.remove_shares()
    with open(path, encoding="utf-8") as file:
        events = len(json.load(file)["traceEvents"])
    for result in results:
        rates = [result.rate(begin + at * period + SETTLE_NS, begin + (at + 1) * period - SETTLE_NS)
                 for at in range(2 * traces + 1)]
        ratios = [100 * 2 * rates[at] / (rates[at - 1] + rates[at + 1]) for at in range(1, 2 * traces, 2)]
        print(f"{name:18} {result.kind:6} {statistics.median(rates[0::2]):9.2f} units/s; with a trace "
              f"{statistics.median(ratios):6.2f} % ({' '.join(f'{ratio:.2f}' for ratio in ratios)}); "
              f"{events} events, {os.path.getsize(path)} bytes in the last trace", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--traces", type=int, default=5)
    parser.add_argument("--memory", default="12G", help="of each vGPU")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_intermixed_args()
    options.mode = "time"
    cases = options.cases or ["small-50-alone", "train-30-70"]
    for name in cases:
        if name not in CASES:
            sys.exit(f"there is no case {name}, but: {' '.join(CASES)}")
    bench = Bench(options)
    for name in cases:
        measure(bench, name, options.seconds, options.traces)
    bench.end()


if __name__ == "__main__":
    main()
