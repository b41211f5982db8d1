#!/usr/bin/env python3
"""checkpoint.py [BUILD_OR_BUNDLE [CASE…]]: dumps and restores programs by `virgate`, with the CRIU of this machine.
Runs the named cases (see CASES below), or all except the long ones."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checkpoint_harness import (DIRECTORY, RUN_DUMPED, SUBJECT, Program, Weights, adopt, lines_of, need_criu,
                                need_vgpus, out_and_in, reap, restore, seconds_of, steps, takes, text_of, tree_of)
from checkpoint_trainings import TRAININGS, end_all, prepare_all
from harness import (GiB, HERE, MiB, PYTHON, SIM, VIRGATE, Failure, Nvml, Skip, Suite, check, inside, need_program,
                     vgpu, virgate, wait_for, wait_idle)

CYCLES = 3 if SIM else 20
KILLS = (0.05, 0.3, 0.5, 0.7, 0.9)  # times at which a dump is killed, as parts of its duration


def rounds(program):
    return int.from_bytes(program.said()[:4], "little")


def two_more_rounds(program):
    """Waits for two rounds of the program. Each round checks all its memory."""
    before = rounds(program)
    program.wait_until(lambda: rounds(program) >= before + 2, 60, "two rounds more")


def cycles():
    program = Program([SUBJECT, f"{DIRECTORY}/rounds"], f"{DIRECTORY}/rounds")
    dumps, restores = [], []
    try:
        two_more_rounds(program)
        for number in range(CYCLES):
            image = f"{DIRECTORY}/cycle"
            start = time.monotonic()
            program.dump(image, "--compress", ("none", "lz4", "zstd")[number % 3])
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
    """Dumps with --leave-running, dumps again without it, and restores."""
    program = Program([SUBJECT, f"{DIRECTORY}/stays"], f"{DIRECTORY}/stays")
    try:
        two_more_rounds(program)
        program.dump(f"{DIRECTORY}/stays-first", "--leave-running")
        two_more_rounds(program)
        program.dump(f"{DIRECTORY}/stays-second")
        restore(f"{DIRECTORY}/stays-second")
        two_more_rounds(program)
    finally:
        program.stop()


def killed():
    """Kills `virgate dump` at several moments. The program must continue, and the image must be complete or absent."""
    program, image = Weights(f"{DIRECTORY}/killed", 64 if SIM else 1024), f"{DIRECTORY}/killed-image"
    flags = ["--sim"] if SIM else []
    try:
        whole = sum(program.dump(f"{image}-first", "--leave-running")["seconds"].values())
        images = 0
        for moment in KILLS:
            command = [VIRGATE, "dump", *flags, "--leave-running", "--pid", str(program.pid), "--dir", image]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as dump:
                time.sleep(moment * whole)
                dump.kill()
            program.verify()
            if os.path.exists(image):
                images += 1
                if takes("image", "verify"):
                    subprocess.run([VIRGATE, "image", "verify", image], check=True, timeout=60, capture_output=True)
                shutil.rmtree(image)
        program.dump(image)
        restore(image)
        program.verify()
        return f"{len(KILLS)} times in {whole:.1f} s: {images} whole images, and one afterwards"
    finally:
        program.stop()


def foreground():
    """Checks that `virgate restore` waits for the restored program, forwards signals, and ends with the program's
    status."""
    if not takes("restore", "--detach"):
        raise Skip("restore does not wait for what it restores")
    program, image = Program([SUBJECT, f"{DIRECTORY}/waits"], f"{DIRECTORY}/waits"), f"{DIRECTORY}/waits-image"
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


def remove_names(image):
    """Removes the names that CRIU has given to unnamed files for the image."""
    try:
        with open(f"{image}/virgate.json", encoding="utf-8") as file:
            description = json.load(file)
    except FileNotFoundError:
        return
    for one in description.get("open_files", []) + description.get("mapped_files", []):
        if os.path.basename(one["path"]).startswith("link_remap.") and os.path.exists(one["path"]):
            os.unlink(one["path"])


def workers(method):
    """Dumps workers that share memory as PyTorch's data loaders do, without PyTorch."""
    steps_there, file = 150, f"{DIRECTORY}/workers-{method}"
    program = Program([PYTHON, f"{HERE}/checkpoint_loader.py", method, file, str(steps_there)], file)
    try:
        program.wait_until(lambda: steps(program) >= 30, 30, "30 steps")
        program.dump(f"{file}-image", "--cpu-only")
        at = steps(program)
        restore(f"{file}-image")
        lines = lines_of(program)
        check(at < steps_there == len(lines), f"dumped after {at} of {len(lines)} steps")
        for number, line in enumerate(lines):
            memory = hashlib.sha256(b"%d" % number).digest() * (4 * MiB // 32)
            check(line == f"{number} {hashlib.sha256(memory).hexdigest()}", f"step {number}: {line}")
    finally:
        program.stop()
        remove_names(f"{file}-image")


# ---- migration --------------------------------------------------------------------------------------------------

def migrate(namespace):
    """Migrates to a listener on this machine, also in a new PID namespace, where the program has the same pid."""
    if not takes("migrate", "--to"):
        raise Skip("there is no virgate migrate yet")
    file, flags = f"{DIRECTORY}/migrate-{namespace}", ["--sim"] if SIM else []
    before = [need_program("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc"] if namespace else []
    program, started = Weights(file, 64 if SIM else 512), []

    def begin(*command):
        with open(f"{file}.errors", "ab") as errors:
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors))
        return started[-1]
    try:
        there = begin(*before, VIRGATE, "restore", *flags, "--from", f"unix:{file}.socket")
        wait_for(lambda: os.path.exists(f"{file}.socket"), 10, "it listens")
        listener = tree_of(there.pid)[-1]
        here = begin(VIRGATE, "migrate", *flags, "--pid", str(program.pid), "--to", f"unix:{file}.socket")
        wait_for(lambda: program.ended() is not None or here.poll(), 60, "it ends here")
        check(here.wait(60) == 0, f"migrate ended with {here.returncode}: {text_of(f'{file}.errors')}")
        wait_for(lambda: len(tree_of(listener)) > 1, 10, "it is there")
        # the listener forwards the signal to the program, which then verifies its memory
        os.kill(listener, signal.SIGTERM)
        check(there.wait(60) == 0, f"restore ended with {there.returncode}: {text_of(f'{file}.errors')}")
        check(program.said().decode().splitlines() == ["ready", "right"], f"it said {program.said()}")
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
        program.status = None  # the pid may belong to another process now
        program.stop()


# ---- large, a tenant, two GPUs ----------------------------------------------------------------------------------

def there_is_room(mib):
    """Makes a directory with room for `mib` MiB, if as much memory is available too. Returns its path."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        available = int(re.search(r"MemAvailable: +(\d+)", file.read()).group(1)) >> 10
    for directory, memory in ("/dev/shm", 2 * mib), (DIRECTORY, mib):
        free = shutil.disk_usage(directory).free >> 20
        if free >= mib * 1.1 and available >= memory * 1.1:
            return tempfile.mkdtemp(prefix="virgate-checkpoint-", dir=directory)
    raise Skip(f"{mib} MiB need as much memory and a directory with as much: {available} MiB are available, "
               f"{free} on the disk")


def large():
    size = int(os.environ.get("LARGE", 64 if SIM else 40 << 10))
    directory = there_is_room(size)
    program = None
    try:
        program = Weights(f"{DIRECTORY}/large", size)
        start = time.monotonic()
        dumped = program.dump(f"{directory}/image")
        between = time.monotonic()
        restored = restore(f"{directory}/image")
        end = time.monotonic()
        program.verify()
        return (f"{size} MiB to {directory}: {dumped['bytes']} bytes, out in {between - start:.1f} s "
                f"({seconds_of(dumped)}), in in {end - between:.1f} s ({seconds_of(restored)})")
    finally:
        shutil.rmtree(directory)
        if program:
            program.stop()


def tenant():
    """Checks that a restored tenant is in its vGPU again: charged as before, listed by ps, and refused more than the
    limit."""
    need_vgpus()
    virgate("create", "dumped", "--memory", "2G")
    program = None
    try:
        program = Weights(f"{DIRECTORY}/tenant", 64 if SIM else 512, before=inside({"vgpu": "dumped"}, []))
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


def evictable():
    """Dumps an evictable tenant. Its memory must go to packs before the dump, and a second image must use the same
    packs."""
    need_vgpus()
    if not takes("dump", "--base"):
        raise Skip("dump takes no base image yet")
    size = int(os.environ.get("EVICTABLE", 64 if SIM else 8 << 10))
    directory = there_is_room(2 * size)
    virgate("create", "leaves", "--memory", f"{size + 2048}M", "--evictable", "--swap", f"{size + 64}M")
    program = None
    try:
        program = Weights(f"{DIRECTORY}/leaves", size, before=inside({"vgpu": "leaves"}, []))
        pid = vgpu("leaves")["tenants"][0]["pid"]
        first = json.loads(virgate("dump", "--json", "--vgpu", "leaves", "--dir", f"{directory}/first",
                                   "--leave-running", timeout=280))
        program.verify()
        check(first["device_bytes"] >= size * MiB, f"{first['device_bytes']} bytes in packs, not {size} MiB")
        virgate("suspend", "leaves")
        second = json.loads(virgate("dump", "--json", "--vgpu", "leaves", "--dir", f"{directory}/second", "--base",
                                    f"{directory}/first", timeout=280))
        reap([pid])
        check(second["linked_bytes"] >= size * MiB * 9 // 10,
              f"{second['linked_bytes']} bytes in common, not {size} MiB")
        check(program.wait(30) == RUN_DUMPED, f"virgate run ended with {program.status}: {program.complaint()}")
        shutil.rmtree(f"{directory}/first")
        wait_for(lambda: not vgpu("leaves")["tenants"], 10, "it is no tenant any more")
        virgate("resume", "leaves")
        restored = restore(f"{directory}/second")
        program.pid, program.status = pid, None
        program.verify()
        return (f"{size} MiB: out {seconds_of(first)}; again {seconds_of(second)}, "
                f"{second['linked_bytes'] // MiB} MiB in common; in {seconds_of(restored)}")
    finally:
        if program:
            program.stop()
        virgate("rm", "leaves", good=False)
        shutil.rmtree(directory)


def precopy():
    """Migrates most of the memory while the program runs and changes a part of it."""
    need_vgpus()
    if not takes("migrate", "--precopy"):
        raise Skip("migrate takes no --precopy yet")
    size = int(os.environ.get("PRECOPY", 64 if SIM else 16 << 10))
    changing = size // 16
    directory, flags = there_is_room(3 * size), ["--sim"] if SIM else []
    virgate("create", "ahead", "--memory", f"{size + changing + 2048}M", "--evictable",
            "--swap", f"{size + changing + 64}M")
    file, program, started = f"{DIRECTORY}/ahead", None, []

    def begin(*command, out=None):
        with open(f"{file}.errors", "ab") as errors:
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out or errors, stderr=errors,
                                            env={**os.environ, "TMPDIR": directory}))
        return started[-1]
    try:
        os.environ["WEIGHTS_CHANGE"] = str(changing)
        program = Weights(file, size, before=inside({"vgpu": "ahead"}, []))
        pid = vgpu("ahead")["tenants"][0]["pid"]
        with open(f"{file}.restored", "wb") as restored:
            there = begin(VIRGATE, "restore", *flags, "--json", "--from", f"unix:{file}.socket", "--detach",
                          out=restored)
        wait_for(lambda: os.path.exists(f"{file}.socket"), 10, "it listens")
        here = begin(VIRGATE, "migrate", *flags, "--json", "--vgpu", "ahead", "--precopy",
                     "--to", f"unix:{file}.socket", out=subprocess.PIPE)
        said = here.communicate(timeout=280)[0].decode()
        check(here.returncode == 0, f"migrate ended with {here.returncode}: {text_of(f'{file}.errors')}")
        check(there.wait(30) == 0, f"restore ended with {there.returncode}: {text_of(f'{file}.errors')}")
        result, restored = json.loads(said), json.loads(text_of(f"{file}.restored"))
        seconds = result["seconds"]
        stop = sum(value for name, value in seconds.items() if name not in ("find", "precopy"))
        check(program.wait(30) == RUN_DUMPED, f"virgate run ended with {program.status}: {program.complaint()}")
        program.pid, program.status = pid, None
        program.verify()
        check(result["precopied_bytes"] >= size * MiB, f"only {result['precopied_bytes'] // MiB} MiB went ahead")
        return (f"{size} MiB, {changing} MiB changing: {result['rounds']} rounds, "
                f"{result['precopied_bytes'] // MiB} MiB in {seconds['precopy']:.2f} s, "
                f"stop {stop:.2f} s ({seconds_of(result)}; there {seconds_of(restored)}); "
                f"{text_of(f'{file}.errors').strip()}")
    finally:
        os.environ.pop("WEIGHTS_CHANGE", None)
        for process in started:
            if process.poll() is None:
                process.kill()
                process.wait()
        if program:
            program.stop()
        virgate("rm", "ahead", good=False)
        shutil.rmtree(directory)


def two_gpus():
    """Restores with the two GPUs exchanged."""
    try:
        gpus = [Nvml(0), Nvml(1)]
    except Failure:
        raise Skip("there is one GPU only") from None
    if not takes("restore", "--gpu-map"):
        raise Skip("restore takes no map of GPUs yet")
    unit = 16 if SIM else 1024
    uuids = [gpu.uuid() for gpu in gpus]
    program = Weights(f"{DIRECTORY}/two", unit, 3 * unit)
    try:
        before = [gpu.processes()[program.pid] for gpu in gpus]
        program.dump(f"{DIRECTORY}/two-image")
        restored = restore(f"{DIRECTORY}/two-image", "--gpu-map", f"{uuids[0]}={uuids[1]}", "--gpu-map",
                           f"{uuids[1]}={uuids[0]}")
        after = [gpu.processes()[program.pid] for gpu in gpus]
        program.verify()
        check(abs(after[0] - before[1]) <= 64 << 20 and abs(after[1] - before[0]) <= 64 << 20,
              f"before {before}, and after {after}: not the other way round")
        return f"{before} bytes, then {after}; in: {seconds_of(restored)}"
    finally:
        program.stop()


CASES = {
    "cycles": ("a driver-API program, again and again", cycles),
    "stays": ("one that runs on", stays),
    "killed": ("dumps that are killed", killed),
    "foreground": ("restore waits", foreground),
    "workers": ("forked workers that share memory", lambda: workers("fork")),
    "workers-spawn": ("workers that are not forked", lambda: workers("spawn")),
    **{name: (title, lambda function=function, words=words: function(*words))
       for name, (title, function, *words) in TRAININGS.items()},
    "tenant": ("a vGPU's tenant", tenant),
    "evictable": ("an evictable vGPU's tenant, and a base image", evictable),
    "precopy": ("to another virgate, most of its memory while it runs", precopy),
    "migrate": ("to another virgate", lambda: migrate(False)),
    "migrate-namespace": ("to another namespace of pids", lambda: migrate(True)),
    "two-gpus": ("two GPUs, one for the other", two_gpus),
    "large": ("40 GiB", large),
}
LONG = () if SIM else ("large",)


def main():
    names = sys.argv[2:] or [name for name in CASES if name not in LONG]
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"there is no case {', '.join(unknown)}, but: {' '.join(CASES)}")
    adopt()
    suite = Suite()
    wait_idle(Nvml())
    try:
        prepare_all(names)
        for name in names:
            title, function = CASES[name]

            def with_criu(function=function):
                need_criu()
                return function()
            suite.test(f"{name}: {title}", with_criu)
    finally:
        end_all()
    suite.end()


if __name__ == "__main__":
    main()
