"""Helpers of checkpoint.py, turns.py and bench/gpu_checkpoint.py: programs that are dumped and restored.

This process adopts and reaps all processes that it restores. No program that it starts has a pipe, a terminal or a
socket of this process."""

import atexit
import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time

from harness import HERE, PROGRAMS, SIM, VIRGATE, Failure, Skip, check, vgpu, virgate, wait_for

PR_SET_CHILD_SUBREAPER = 36
RUN_DUMPED = 75  # exit status of virgate run, if its program was dumped
CHECKPOINT = os.path.join(os.path.dirname(PROGRAMS), "checkpoint")
DIRECTORY = tempfile.mkdtemp(prefix="virgate-checkpoint-", dir=os.environ.get("TMPDIR", "/var/tmp"))
atexit.register(shutil.rmtree, DIRECTORY, True)
SUBJECT, WEIGHTS = f"{CHECKPOINT}/subject", f"{CHECKPOINT}/weights"


def adopt():
    """Makes this process the parent of orphans among its descendants: their pids are free as soon as it reaps them."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def need_criu():
    checks = json.loads(virgate("doctor", "cuda", "--json", good=False))["checks"]
    for one in checks:
        if one["name"] == "CRIU" and one["status"] == "failed":
            raise Skip("; ".join(str(one[key]) for key in ("name", "found", "fix") if one.get(key)))
    if os.geteuid() != 0:
        raise Skip("CRIU needs rights that this user has not")


def takes(verb, word):
    """Returns whether this build's verb has that option."""
    done = subprocess.run([VIRGATE, verb, "--help"], capture_output=True, text=True, check=False)
    return word in done.stdout


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()[-1500:].strip()


def tree_of(pid):
    pids = [pid]
    for one in pids:
        for thread in os.listdir(f"/proc/{one}/task"):
            with open(f"/proc/{one}/task/{thread}/children", encoding="utf-8") as file:
                pids += [int(word) for word in file.read().split()]
    return pids


def reap(pids, seconds=30):
    """Waits until none of these processes exists, not even as a zombie."""
    end = time.monotonic() + seconds
    for pid in pids:
        while os.path.exists(f"/proc/{pid}"):
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass  # the process is not our child, or not our child yet
            check(time.monotonic() < end, f"process {pid} is not gone after {seconds} s")
            time.sleep(0.001)


class Program:
    """Starts a program in its own session. The program writes its output to a file."""

    def __init__(self, command, file, env=None):
        self.file, self.log = file, f"{file}.log"
        if os.path.exists(file):
            os.unlink(file)
        with open(self.log, "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True, env=dict(os.environ, **(env or {})))
        process.returncode = 0  # this class reaps the process, so subprocess must not
        self.pid, self.status = process.pid, None

    def said(self):
        try:
            with open(self.file, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def complaint(self):
        return text_of(self.log)

    def ended(self):
        """Returns the exit status, or None while the program runs."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError as error:
                raise Failure(f"process {self.pid} is no child: {self.complaint()}") from error
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def wait_until(self, condition, seconds, words):
        def done():
            if condition():
                return True
            check(self.ended() is None, f"{words}: it ended with {self.status}: {self.complaint()}")
            return False
        try:
            wait_for(done, seconds, words)
        except Failure as what:
            raise Failure(f"{what}: {self.complaint()}") from None

    def wait(self, seconds):
        wait_for(lambda: self.ended() is not None, seconds, f"process {self.pid} ends")
        return self.status

    def signal(self, number):
        os.kill(self.pid, number)

    def stop(self):
        if self.status is None:
            pids = tree_of(self.pid) if os.path.exists(f"/proc/{self.pid}/task") else []
            for pid in reversed(pids):
                try:
                    os.kill(pid, 9)
                    os.kill(pid, 18)
                except ProcessLookupError:
                    pass
            reap(pids)

    def dump(self, directory, *words):
        """Dumps the program, and reaps its processes unless they are left running. Returns virgate's JSON result."""
        pids = tree_of(self.pid)
        result = json.loads(virgate("dump", "--json", "--pid", str(self.pid), "--dir", directory, *words, timeout=280))
        if "--leave-running" not in words:
            reap(pids)
        return result


def restore(directory, *words):
    detach = ["--detach"] if takes("restore", "--detach") else []
    return json.loads(virgate("restore", "--json", "--dir", directory, *detach, *words, timeout=280))


class Weights(Program):
    """Runs tests/checkpoint/weights, with sizes in MiB. "8+8" means 8 MiB with contents and 8 MiB never written."""

    def __init__(self, file, *sizes, before=()):
        super().__init__([*before, WEIGHTS, file, *map(str, sizes)], file)
        self.lines = 0
        self.next_line(120)

    def next_line(self, seconds):
        self.wait_until(lambda: self.said().count(b"\n") > self.lines, seconds, "the next line of weights")
        line = self.said().decode().splitlines()[self.lines]
        self.lines += 1
        return line

    def verify(self, number=10, seconds=60):
        """Sends a signal (SIGUSR1) that makes the program check its memory."""
        self.signal(number)
        line = self.next_line(seconds)
        check(line == "right", f"after the restore {line}")


def seconds_of(result):
    return " ".join(f"{phase} {seconds:.2f}" for phase, seconds in result["seconds"].items() if seconds >= 0.005)


def out_and_in(name, program):
    """Dumps and restores all tenants of a vGPU. `program` is first `virgate run`; after the restore it is the
    tenant."""
    image = f"{program.file}-image"
    pids = [one["pid"] for one in vgpu(name)["tenants"]]
    virgate("dump", "--vgpu", name, "--dir", image, timeout=120)
    reap(pids)
    check(program.wait(30) == RUN_DUMPED, f"virgate run ended with {program.status}: {program.complaint()}")
    wait_for(lambda: not vgpu(name)["tenants"], 10, "they are no tenants any more")
    restore(image)
    program.pid, program.status = pids[0], None
    back = [one["pid"] for one in vgpu(name)["tenants"]]
    check(back == pids, f"ps lists {back}, not {pids}")
    shutil.rmtree(image)


def need_vgpus():
    if not takes("dump", "--vgpu"):
        raise Skip("dump does not take a vGPU yet")


def lines_of(program, seconds=60):
    """Waits until the program has ended with 0, and returns the lines that it has written."""
    check(program.wait(seconds) == 0, f"it ended with {program.status}: {program.complaint()}")
    return program.said().decode().splitlines()


def steps(program):
    return program.said().count(b"\n")
