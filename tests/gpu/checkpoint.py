#!/usr/bin/env python3
"""checkpoint.py [BUILD_OR_BUNDLE [CASE…]]: programs dumped and restored by `virgate`, with the CRIU of this machine; the cases that
are named (see CASES below), or all but those that take long."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checkpoint_harness import SUBJECT, Program, Weights, adopt, need_criu, reap, restore, takes, tree_of
from harness import (GiB, HERE, MiB, PYTHON, SIM, VIRGATE, Failure, Nvml, Skip, Suite, check, inside, need_module, vgpu, virgate,
                     wait_for, wait_idle)

PREPARED = {}
CYCLES = 3 if SIM else 20
FOLDER = tempfile.mkdtemp(prefix="virgate-checkpoint-", dir=os.environ.get("TMPDIR", "/var/tmp"))


def seconds_of(result):
    return " ".join(f"{phase} {seconds:.2f}" for phase, seconds in result["seconds"].items() if seconds >= 0.005)


def rounds(program):
    return int.from_bytes(program.said()[:4], "little")


def two_more_rounds(program):
    """Each of them looks at all of its memory."""
    before = rounds(program)
    program.wait_until(lambda: rounds(program) >= before + 2, 60, "two rounds more")


def cycles():
    program = Program([SUBJECT, f"{FOLDER}/rounds"], f"{FOLDER}/rounds")
    dumps, restores = [], []
    try:
        two_more_rounds(program)
        for number in range(CYCLES):
            image = f"{FOLDER}/cycle"
            start = time.monotonic()
            program.dump(image)
            dumped = time.monotonic()
            before = rounds(program)
            restore(image)
            restores.append(time.monotonic() - dumped)
            dumps.append(dumped - start)
            two_more_rounds(program)
            check(rounds(program) > before, f"cycle {number}: it does not go on")
            shutil.rmtree(image)
        program.signal(signal.SIGTERM)
        check(program.wait(30) == 0, f"it ended with {program.status}: {program.complaint()}")
    finally:
        program.stop()
    return f"{CYCLES} times, {sum(dumps) / CYCLES:.2f} s out and {sum(restores) / CYCLES:.2f} s back"


def stays():
    """With --leave-running, and then for good."""
    program = Program([SUBJECT, f"{FOLDER}/stays"], f"{FOLDER}/stays")
    try:
        two_more_rounds(program)
        program.dump(f"{FOLDER}/stays-first", "--leave-running")
        two_more_rounds(program)
        program.dump(f"{FOLDER}/stays-second")
        restore(f"{FOLDER}/stays-second")
        two_more_rounds(program)
    finally:
        program.stop()


def foreground():
    """`virgate restore` waits for what it restores, passes signals on, and ends as that does."""
    if not takes("restore", "--detach"):
        raise Skip("restore does not wait for what it restores")
    program, image = Program([SUBJECT, f"{FOLDER}/waits"], f"{FOLDER}/waits"), f"{FOLDER}/waits-image"
    try:
        two_more_rounds(program)
        program.dump(image)
        before = rounds(program)
        flags = ["--sim"] if SIM else []
        with subprocess.Popen([VIRGATE, "restore", *flags, "--dir", image], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as waits:
            wait_for(lambda: rounds(program) > before + 2 or waits.poll() is not None, 60, "it goes on")
            check(waits.poll() is None, f"it did not wait: {waits.returncode}")
            waits.send_signal(signal.SIGTERM)
            errors = waits.communicate(timeout=30)[1]
        check(waits.returncode == 0, f"it ended with {waits.returncode}: {errors}")
        check(not os.path.exists(f"/proc/{program.pid}"), "its program is still there")
    finally:
        program.status = program.status or 0
        if os.path.exists(f"/proc/{program.pid}"):
            os.kill(program.pid, signal.SIGKILL)


def workers(method):
    """As PyTorch's data loaders do it, without PyTorch."""
    steps_there, file = 150, f"{FOLDER}/workers-{method}"
    program = Program([PYTHON, f"{HERE}/checkpoint_loader.py", method, file, str(steps_there)], file)
    try:
        program.wait_until(lambda: steps(program) >= 30, 30, "30 steps")
        program.dump(f"{file}-image", "--cpu-only")
        at = steps(program)
        restore(f"{file}-image")
        lines = trained(program)
        check(at < steps_there == len(lines), f"dumped after {at} of {len(lines)} steps")
        for number, line in enumerate(lines):
            memory = hashlib.sha256(b"%d" % number).digest() * (4 * MiB // 32)
            check(line == f"{number} {hashlib.sha256(memory).hexdigest()}", f"step {number}: {line}")
    finally:
        program.stop()


# ---- PyTorch ---------------------------------------------------------------------------------------------------

def trained(program, seconds=60):
    check(program.wait(seconds) == 0, f"training ended with {program.status}: {program.complaint()}")
    return program.said().decode().splitlines()


def steps(program):
    return program.said().count(b"\n")


def same(losses, expected, when):
    check(len(losses) == len(expected), f"{when} {len(losses)} steps of {len(expected)}")
    for one, other in zip(losses, expected):
        check(one == other, f"{when} step and loss are {one!r}, not {other!r}")
    check(len(set(line.split()[1] for line in losses)) > len(losses) // 2, "the loss stands still")


def prepare(what):
    """Two of them: they stand ready, which takes PyTorch most of the time."""
    if what not in PREPARED:
        name = f"{FOLDER}/{what.replace(':', '-')}"
        PREPARED[what] = [Program([PYTHON, f"{HERE}/checkpoint_train.py", what, f"{name}-{role}"], f"{name}-{role}")
                          for role in ("undisturbed", "dumped")]


def start_both(programs):
    """Until the second has made 50 of its 300 steps."""
    for one in programs:
        with open(f"{one.file}.go", "wb"):
            pass
    programs[1].wait_until(lambda: steps(programs[1]) >= 50, 120, "50 steps")
    return programs


def begin(what):
    """One that is left alone, and one that is not."""
    prepare(what)
    return start_both(PREPARED[what])


def end(what):
    for program in PREPARED.pop(what, ()):
        program.stop()


def training(what, count=1):
    """Dumped in the middle, beside another that is not."""
    need_module("torch")
    try:
        other, program = begin(what)
        tree, image = len(tree_of(program.pid)), f"{program.file}-image"
        dumped = program.dump(image)
        at = steps(program)
        restored = restore(image)
        shutil.rmtree(image)
        losses = trained(program)
        check(at < len(losses), "it had ended before it was dumped")
        same(losses, trained(other), "with a dump after step " + str(at))
        check(tree >= count, f"{tree} processes of {count}")
        return (f"{len(losses)} losses identical, dumped after {at}, {tree} processes, {dumped['bytes'] >> 20} MiB; "
                f"out: {seconds_of(dumped)}; in: {seconds_of(restored)}")
    finally:
        end(what)


def refused_training(what):
    """Workers that were forked after CUDA was used keep descriptors of the GPU. It is refused, and does no harm."""
    need_module("torch")
    try:
        other, program = begin(what)
        flags = ["--sim"] if SIM else []
        done = subprocess.run([VIRGATE, "dump", *flags, "--pid", str(program.pid), "--dir", f"{FOLDER}/after-image"],
                              capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
        at, errors = steps(program), done.stderr.strip()
        check(done.returncode != 0, "it was dumped")
        check("/dev/nvidia" in errors, f"refused for another reason: {errors}")
        check(not os.path.exists(f"{FOLDER}/after-image"), "there is an image")
        losses = trained(program)
        check(at < len(losses), "it had ended before")
        same(losses, trained(other), "after the refusal")
        return errors
    finally:
        end(what)


# ---- large, a tenant, two GPUs ----------------------------------------------------------------------------------

def there_is_room(mib):
    """A folder that takes so much beside as much in memory."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        available = int(re.search(r"MemAvailable: +(\d+)", file.read()).group(1)) >> 10
    for folder, memory in ("/dev/shm", 2 * mib), (FOLDER, mib):
        free = shutil.disk_usage(folder).free >> 20
        if free >= mib * 1.1 and available >= memory * 1.1:
            return tempfile.mkdtemp(prefix="virgate-checkpoint-", dir=folder)
    raise Skip(f"{mib} MiB need as much memory and a folder for as much: {available} MiB are available, {free} on the disk")


def large():
    size = int(os.environ.get("LARGE", 64 if SIM else 40 << 10))
    folder = there_is_room(size)
    program = None
    try:
        program = Weights(f"{FOLDER}/large", size)
        start = time.monotonic()
        dumped = program.dump(f"{folder}/image")
        between = time.monotonic()
        restored = restore(f"{folder}/image")
        end = time.monotonic()
        program.verify()
        return (f"{size} MiB to {folder}: {dumped['bytes']} bytes, out in {between - start:.1f} s ({seconds_of(dumped)}), "
                f"in in {end - between:.1f} s ({seconds_of(restored)})")
    finally:
        shutil.rmtree(folder)
        if program:
            program.stop()


def out_and_in(name, program):
    """All tenants of a vGPU; `program` is what was started with virgate run, and then its program itself."""
    image = f"{program.file}-image"
    pids = [one["pid"] for one in vgpu(name)["tenants"]]
    virgate("dump", "--vgpu", name, "--dir", image, timeout=120)
    reap(pids)
    check(program.wait(30) == 128 + signal.SIGKILL, f"virgate run ended with {program.status}")
    wait_for(lambda: not vgpu(name)["tenants"], 10, "they are no tenants any more")
    restore(image)
    program.pid, program.status = pids[0], None
    back = [one["pid"] for one in vgpu(name)["tenants"]]
    check(back == pids, f"ps lists {back}, not {pids}")
    shutil.rmtree(image)


def need_vgpus():
    if not takes("dump", "--vgpu"):
        raise Skip("dump does not take a vGPU yet")


def tenant():
    """It is in its vGPU again: charged as before, seen by ps, and refused what is beyond the limit."""
    need_vgpus()
    virgate("create", "dumped", "--memory", "2G")
    program = None
    try:
        program = Weights(f"{FOLDER}/tenant", 512, before=inside({"vgpu": "dumped"}, []))
        before = vgpu("dumped")["charged"]
        out_and_in("dumped", program)
        program.verify()
        after = vgpu("dumped")["charged"]
        check(after == before, f"charged {after} bytes, before {before}")
        program.signal(signal.SIGUSR2)
        more = program.next_line(30)
        left = (2 * GiB - after) // MiB
        check(left - 64 <= int(more.split()[0]) <= left, f"{more}, with {left} MiB left of the limit")
        return f"{after // MiB} MiB charged before and after; {more}"
    finally:
        if program:
            program.stop()
        virgate("rm", "dumped", good=False)


def tenant_training():
    """Beside another, in a vGPU of its own, that is left alone."""
    need_vgpus()
    need_module("torch")
    names, programs = ["left-alone", "trains"], []
    try:
        for name in names:
            virgate("create", name, "--memory", "8G")
            file = f"{FOLDER}/{name}"
            programs.append(Program(inside({"vgpu": name}, [PYTHON, f"{HERE}/checkpoint_train.py", "plain", file]), file))
        other, program = start_both(programs)
        out_and_in("trains", program)
        at, losses = steps(program), trained(program)
        check(at < len(losses), "it had ended before it was dumped")
        same(losses, trained(other), f"with a dump about step {at}")
        return f"{len(losses)} losses identical, dumped about {at}"
    finally:
        for program in programs:
            program.stop()
        for name in names:
            virgate("rm", name, good=False)


def two_gpus():
    """What was on one GPU is on the other afterwards."""
    try:
        gpus = [Nvml(0), Nvml(1)]
    except Failure:
        raise Skip("there is one GPU only") from None
    if not takes("restore", "--gpu-map"):
        raise Skip("restore takes no map of GPUs yet")
    unit = 16 if SIM else 1024
    uuids = [gpu.uuid() for gpu in gpus]
    program = Weights(f"{FOLDER}/two", unit, 3 * unit)
    try:
        before = [gpu.processes()[program.pid] for gpu in gpus]
        program.dump(f"{FOLDER}/two-image")
        restored = restore(f"{FOLDER}/two-image", "--gpu-map", f"{uuids[0]}={uuids[1]}", "--gpu-map",
                           f"{uuids[1]}={uuids[0]}")
        after = [gpu.processes()[program.pid] for gpu in gpus]
        program.verify()
        check(abs(after[0] - before[1]) <= 64 << 20 and abs(after[1] - before[0]) <= 64 << 20,
              f"before {before}, and after {after}: not the other way round")
        return f"{before} bytes, then {after}; in: {seconds_of(restored)}"
    finally:
        program.stop()


TRAININGS = {  # title, function, what it trains, the processes there must be
    "train": ("PyTorch training", training, "plain"),
    "graph": ("PyTorch training, a step a CUDA graph", training, "graph"),
    "loader": ("PyTorch, data loaders from before CUDA", training, "loader-before", 3),
    "loader-file-system": ("the same, tensors shared by name", training, "loader-before:file_system", 3),
    "loader-spawn": ("PyTorch, data loaders that are not forked, after CUDA", training, "loader-spawn", 3),
    "loader-after": ("PyTorch, data loaders from after CUDA are refused", refused_training, "loader-after"),
}
CASES = {
    "cycles": ("a driver-API program, again and again", cycles),
    "stays": ("one that runs on", stays),
    "foreground": ("restore waits", foreground),
    "workers": ("forked workers that share memory", lambda: workers("fork")),
    "workers-spawn": ("workers that are not forked", lambda: workers("spawn")),
    **{name: (title, lambda function=function, words=words: function(*words))
       for name, (title, function, *words) in TRAININGS.items()},
    "tenant": ("a vGPU's tenant", tenant),
    "tenant-train": ("PyTorch training in a vGPU", tenant_training),
    "two-gpus": ("two GPUs, one for the other", two_gpus),
    "large": ("40 GiB", large),
}
LONG = () if SIM else ("large",)


def prepare_trainings(names):
    try:
        need_criu()
        need_module("torch")
    except Skip:
        return  # each case says it
    for name in names:
        if name in TRAININGS:
            prepare(TRAININGS[name][2])


def main():
    names = sys.argv[2:] or [name for name in CASES if name not in LONG]
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"there is no case {', '.join(unknown)}, but: {' '.join(CASES)}")
    adopt()
    suite = Suite()
    wait_idle(Nvml())
    try:
        prepare_trainings(names)
        for name in names:
            title, function = CASES[name]

            def with_criu(function=function):
                need_criu()
                return function()
            suite.test(f"{name}: {title}", with_criu)
    finally:
        for what in list(PREPARED):
            end(what)
        shutil.rmtree(FOLDER, ignore_errors=True)
    suite.end()


if __name__ == "__main__":
    main()
