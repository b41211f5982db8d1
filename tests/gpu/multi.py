#!/usr/bin/env python3
"""Tests jobs with several GPUs (virgate run --gpus) on a machine with two: quotas on each GPU, NCCL in and between
processes, and the speed of DistributedDataParallel of PyTorch, alone, beside a second job on the same GPUs, over MPS.

SECONDS is the duration of one training (12), and RUNS how often native and inside are compared (3). MEMORY is the limit
on each GPU (24G). SIZE is the width of the model's layers (4096)."""

import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from harness import (HERE, PYTHON, Failure, Skip, Suite, check, inside, kill_group, need_module, need_program,
                     run_inside, virgate, wait_for)

WORKER = f"{HERE}/multi_worker.py"
SECONDS = float(os.environ.get("SECONDS", "12"))
RUNS = int(os.environ.get("RUNS", "3"))
MEMORY = os.environ.get("MEMORY", "24G")
SIZE = os.environ.get("SIZE", "4096")
HANG = 40  # seconds without a step
alone = {}


def count_gpus():
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return len([line for line in done.stdout.splitlines() if line.startswith("GPU")])


class Training:
    """A training that runs, and the steps that it has printed."""

    def __init__(self, where=None, seconds=SECONDS, one=False, prefix=None, variables=None):
        command = prefix or [PYTHON, WORKER, "ddp", "2", str(seconds), SIZE] + (["one"] if one else [])
        self.steps, self.changed, self.hung = [], time.monotonic(), False
        env = dict(os.environ, NCCL_DEBUG=os.environ.get("NCCL_DEBUG", "WARN"), **(variables or {}))
        self.process = subprocess.Popen(inside(where, command) if where else command, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env, stdin=subprocess.DEVNULL,
                                        start_new_session=True)
        self.readers = [threading.Thread(target=self.read, daemon=True),
                        threading.Thread(target=self.read_errors, daemon=True)]
        self.errors = ""
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["step"]:
                self.steps.append((float(words[1]), int(words[2])))
                self.changed = time.monotonic()

    def read_errors(self):
        for line in self.process.stderr:
            self.errors = (self.errors + line)[-2000:]

    def wait(self):
        """Waits for the end. Kills a training that makes no step for HANG seconds."""
        while self.process.poll() is None:
            if time.monotonic() > self.changed + HANG + (60 if not self.steps else 0):
                self.hung = True
                print("hangs:", virgate("ps", good=False), flush=True)
                kill_group(self.process)
            time.sleep(0.05)
        for reader in self.readers:
            reader.join(10)
        check(not self.hung, f"no step for {HANG} s: {self.errors[-800:]}")
        check(self.process.returncode == 0, f"ended with {self.process.returncode}: {self.errors[-1200:]}")

    def count(self, at):
        for (t0, n0), (t1, n1) in zip(self.steps, self.steps[1:]):
            if t0 <= at <= t1:
                return n0 + (n1 - n0) * (at - t0) / (t1 - t0)
        raise Failure("the training was too short")

    def rate(self, begin, end):
        return (self.count(end) - self.count(begin)) / (end - begin)

    def own_rate(self):
        """Returns the rate from 2 s after the first step to the end."""
        begin, end = self.steps[0][0] + 2, self.steps[-1][0]
        return self.rate(begin, end)


def run_alone(where=None, **options):
    training = Training(where, **options)
    training.wait()
    return training.own_rate()


def run_both(places, seconds):
    """Runs two trainings at the same time, and returns their rates while both ran."""
    both = [Training(where, seconds) for where in places]
    for training in both:
        training.wait()
    begin = max(training.steps[0][0] for training in both) + 2
    end = min(training.steps[-1][0] for training in both)
    check(end - begin > seconds / 3, f"both ran together for {end - begin:.1f} s only")
    longest = max(t1 - t0 for training in both for (t0, _), (t1, _) in zip(training.steps, training.steps[1:])
                  if t0 > begin and t1 < end)
    return [training.rate(begin, end) for training in both], longest


def test_quota(mode="time"):
    output = run_inside({"gpus": 2, "memory": "4G", "mode": mode}, [PYTHON, WORKER, "quota"]).stdout
    lines = [line.split() for line in output.splitlines() if line.startswith("device")]
    check(len(lines) == 2, f"not two devices: {output}")
    for words in lines:
        check(int(words[5]) == 4096, f"total {words[5]} MiB, not 4096")
        check(2048 <= int(words[3]) <= 4096, f"got {words[3]} MiB of 4096")
    return ", ".join(f"GPU {words[1]}: {words[3]} of 4096 MiB" for words in lines)


def test_threads():
    check("reduced on 2" in run_inside({"gpus": 2, "memory": "8G"}, [PYTHON, WORKER, "threads"]).stdout, "no sums")


def test_share():
    done = run_inside({"gpus": 2, "memory": "8G"}, [PYTHON, WORKER, "share"], timeout=120)
    check("shared" in done.stdout, "not shared")


def test_speed():
    native, within = [], []
    for _ in range(RUNS):
        native.append(run_alone())
        within.append(run_alone({"gpus": 2, "memory": MEMORY}))
    alone["native"] = statistics.median(native)
    ratio = statistics.median(within) / alone["native"]
    words = (f"native {', '.join(f'{rate:.2f}' for rate in native)}, inside {', '.join(f'{r:.2f}' for r in within)} "
             f"steps/s: {100 * ratio:.1f} %")
    check(ratio >= 0.98, words)
    return words


def test_speed_with_share():
    rate = run_alone({"gpus": 2, "memory": MEMORY, "share": 50})
    words = f"{rate:.2f} steps/s, {100 * rate / alone['native']:.1f} % of native"
    check(rate >= 0.98 * alone["native"], words)
    return words


def test_launcher_devices():
    rate = run_alone({"gpus": 2, "memory": MEMORY}, one=True, seconds=5)
    return f"{rate:.2f} steps/s with one GPU in CUDA_VISIBLE_DEVICES of each rank"


def test_torchrun():
    need_program("torchrun")
    training = Training({"gpus": 2, "memory": MEMORY},
                        prefix=["torchrun", "--standalone", "--nproc-per-node", "2", WORKER, "rank", "5", SIZE])
    training.wait()
    return f"{training.own_rate():.2f} steps/s"


def test_two_native():
    rates, longest = run_both([None, None], 2 * SECONDS)
    return tell_both(rates, longest)


def tell_both(rates, longest):
    parts = [100 * rate / alone["native"] for rate in rates]
    return (f"{rates[0]:.2f} + {rates[1]:.2f} steps/s = {parts[0]:.1f} + {parts[1]:.1f} = {sum(parts):.1f} % of one "
            f"alone, longest time of 5 steps {longest:.2f} s")


def test_two_jobs(first, second):
    places = [{"gpus": 2, "memory": MEMORY, "share": share} for share in (first, second)]
    rates, longest = run_both(places, 2 * SECONDS)
    words = tell_both(rates, longest)
    check(sum(rates) >= 0.9 * alone["native"], words)
    part = 100 * rates[0] / sum(rates)
    check(abs(part - first) <= 5, f"{words}; the first got {part:.1f} % of the sum, not {first}")
    return f"{words}; {part:.1f} % for {first}"


def test_job_killed():
    """Kills one of two jobs. The other one must make its next step within 5 s."""
    victim = Training({"gpus": 2, "memory": MEMORY, "share": 50}, 60)
    other = Training({"gpus": 2, "memory": MEMORY, "share": 50}, 2 * SECONDS)
    deadline = time.monotonic() + 90
    while (not victim.steps or not other.steps) and time.monotonic() < deadline:
        check(victim.process.poll() is None and other.process.poll() is None, f"{victim.errors} {other.errors}")
        time.sleep(0.05)
    time.sleep(2)
    kill_group(victim.process)
    killed = time.monotonic()
    other.wait()
    victim.process.wait()
    gap = min(at for at, _ in other.steps if at > killed) - killed
    check(gap < 5, f"the other job made no step for {gap:.1f} s")
    return f"next steps of the other one after {gap:.2f} s"


@contextlib.contextmanager
def native_mps():
    """Runs a control daemon of MPS without Virgate, and returns the variables of its clients."""
    with tempfile.TemporaryDirectory(prefix="virgate-multi-") as directory:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": f"{directory}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{directory}/log"}
        for path in variables.values():
            os.mkdir(path)
        control = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env=dict(os.environ, **variables),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            wait_for(lambda: os.path.exists(f"{directory}/pipe/control"), 10, "MPS does not start")
            yield variables
        finally:
            kill_group(control)
            control.wait()


def test_mps():
    """Trains over MPS, natively and in a job. Both ranks of the job are clients of one server. About 40 s."""
    need_program("nvidia-cuda-mps-control")
    with native_mps() as variables:
        native = run_alone(seconds=5, variables=variables)
    place = {"gpus": 2, "memory": MEMORY, "mode": "mps"}
    shown = run_inside(place, ["sh", "-c", "ls -d $CUDA_MPS_PIPE_DIRECTORY/control"]).stdout.strip()
    check(re.search(r"/mps/\d+\+\d+-\d+/pipe/control$", shown), f"no server for two GPUs: {shown}")
    quota = test_quota("mps")
    within = run_alone(place, seconds=5)
    words = f"{quota}; native MPS {native:.2f}, job {within:.2f} steps/s: {100 * within / native:.1f} %"
    check(within >= 0.95 * native, words)
    return words


def main():
    suite = Suite()
    tests = [("quota on each GPU", test_quota), ("NCCL in one process", test_threads), ("IPC", test_share),
             ("DDP alone", test_speed), ("DDP alone, with a share", test_speed_with_share),
             ("one GPU for each rank", test_launcher_devices), ("torchrun", test_torchrun),
             ("two jobs, native", test_two_native), ("two jobs, 50 and 50", test_two_jobs, 50, 50),
             ("two jobs, 30 and 70", test_two_jobs, 30, 70), ("a job is killed", test_job_killed),
             ("mps", test_mps)]
    chosen = [one for one in tests if not sys.argv[2:] or any(word in one[0] for word in sys.argv[2:])]
    for name, function, *arguments in chosen:
        suite.test(name, guarded, function, arguments)
    suite.end()


def guarded(function, arguments):
    need_module("torch")
    if count_gpus() < 2:
        raise Skip("this machine has less than two GPUs")
    if function in (test_speed_with_share, test_two_native, test_two_jobs) and "native" not in alone:
        alone["native"] = run_alone()
    return function(*arguments)


if __name__ == "__main__":
    main()
