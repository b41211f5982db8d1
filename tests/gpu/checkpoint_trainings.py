"""Cases of checkpoint.py with PyTorch. A training is dumped and restored in the middle. Each of its losses must be
exactly that of another training, which runs at the same time and is not dumped."""

import os
import shutil
import subprocess

from checkpoint_harness import (DIRECTORY, Program, lines_of, need_criu, need_vgpus, out_and_in, restore, seconds_of,
                                steps, tree_of)
from harness import HERE, PYTHON, SIM, VIRGATE, Skip, check, inside, need_module, virgate

PREPARED = {}


def same(losses, expected, when):
    check(len(losses) == len(expected), f"{when} {len(losses)} steps of {len(expected)}")
    for one, other in zip(losses, expected):
        check(one == other, f"{when} step and loss are {one!r}, not {other!r}")
    check(len(set(line.split()[1] for line in losses)) > len(losses) // 2, "the loss stands still")


def prepare(what):
    """Starts two trainings, which wait for begin(): starting PyTorch takes most of the time."""
    if what not in PREPARED:
        name = f"{DIRECTORY}/{what.replace(':', '-')}"
        PREPARED[what] = [Program([PYTHON, f"{HERE}/checkpoint_train.py", what, f"{name}-{role}"], f"{name}-{role}")
                          for role in ("undisturbed", "dumped")]


def start_both(programs):
    """Lets both trainings begin, and waits until the second one has done 50 of its 300 steps."""
    for one in programs:
        with open(f"{one.file}.go", "wb"):
            pass
    programs[1].wait_until(lambda: steps(programs[1]) >= 50, 120, "50 steps")
    return programs


def begin(what):
    """Returns two running trainings: the undisturbed one, and the one to dump."""
    prepare(what)
    return start_both(PREPARED[what])


def end(what):
    for program in PREPARED.pop(what, ()):
        program.stop()


def training(what, count=1):
    """Dumps and restores a training in the middle, and compares its losses with those of the undisturbed one."""
    need_module("torch")
    try:
        other, program = begin(what)
        tree, image = len(tree_of(program.pid)), f"{program.file}-image"
        dumped = program.dump(image)
        at = steps(program)
        restored = restore(image)
        shutil.rmtree(image)
        losses = lines_of(program)
        check(at < len(losses), "it had ended before it was dumped")
        same(losses, lines_of(other), "with a dump after step " + str(at))
        check(tree >= count, f"{tree} processes of {count}")
        return (f"{len(losses)} losses identical, dumped after {at}, {tree} processes, {dumped['bytes'] >> 20} MiB; "
                f"out: {seconds_of(dumped)}; in: {seconds_of(restored)}")
    finally:
        end(what)


def refused_training(what):
    """Checks that a dump is refused, and harmless, if workers were forked after CUDA was used: they keep descriptors of
    the GPU."""
    need_module("torch")
    try:
        other, program = begin(what)
        flags = ["--sim"] if SIM else []
        done = subprocess.run([VIRGATE, "dump", *flags, "--pid", str(program.pid), "--dir", f"{DIRECTORY}/after-image"],
                              capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)
        at, errors = steps(program), done.stderr.strip()
        check(done.returncode != 0, "it was dumped")
        check("/dev/nvidia" in errors, f"refused for another reason: {errors}")
        check(not os.path.exists(f"{DIRECTORY}/after-image"), "there is an image")
        losses = lines_of(program)
        check(at < len(losses), "it had ended before")
        same(losses, lines_of(other), "after the refusal")
        return errors
    finally:
        end(what)


def tenant_training():
    """Dumps and restores a training in a vGPU, beside an undisturbed one in another vGPU."""
    need_vgpus()
    need_module("torch")
    names, programs = ["left-alone", "trains"], []
    try:
        for name in names:
            virgate("create", name, "--memory", "8G")
            file = f"{DIRECTORY}/{name}"
            command = [PYTHON, f"{HERE}/checkpoint_train.py", "plain", file]
            programs.append(Program(inside({"vgpu": name}, command), file))
        other, program = start_both(programs)
        out_and_in("trains", program)
        at, losses = steps(program), lines_of(program)
        check(at < len(losses), "it had ended before it was dumped")
        same(losses, lines_of(other), f"with a dump about step {at}")
        return f"{len(losses)} losses identical, dumped about {at}"
    finally:
        for program in programs:
            program.stop()
        for name in names:
            virgate("rm", name, good=False)


TRAININGS = {  # title, function, WHAT of checkpoint_train.py, the least number of processes
    "train": ("PyTorch training", training, "plain"),
    "graph": ("PyTorch training, a step a CUDA graph", training, "graph"),
    "loader": ("PyTorch, data loaders from before CUDA", training, "loader-before", 3),
    "loader-file-system": ("the same, tensors shared by name", training, "loader-before:file_system", 3),
    "loader-spawn": ("PyTorch, data loaders that are not forked, after CUDA", training, "loader-spawn", 3),
    "loader-after": ("PyTorch, data loaders from after CUDA are refused", refused_training, "loader-after"),
    "tenant-train": ("PyTorch training in a vGPU", tenant_training),
}


def prepare_all(names):
    """Starts the trainings of these cases, so that they are ready when their case runs."""
    try:
        need_criu()
        need_module("torch")
    except Skip:
        return  # each case reports what is missing
    for name in names:
        if len(TRAININGS.get(name, ())) > 2:
            prepare(TRAININGS[name][2])


def end_all():
    for what in list(PREPARED):
        end(what)
