#!/usr/bin/env python3
"""gpu_checkpoint.py BUILD_OR_BUNDLE [--sizes 1,8,32] [--targets tmpfs,disk] [--rounds N] [--restores SIZES]
[--halves SIZE] [--tmpfs DIRECTORY] [--disk DIRECTORY] [--json FILE]: compares `virgate dump` and `virgate restore` with
the plain sequence of the driver's calls and CRIU (checkpoint_plain), in alternating turns, on processes with random
device memory. Sizes are in GiB, on the simulated GPU in MiB.

A dump is measured from the start of the command until its image is on the disk and the process is killed and reaped. A
restore is measured until the process's CUDA calls continue; from the disk, the page cache has no page of the image.
Sizes that are not in --restores (the default is all) are dumped on both sides with the process left running; the time
until it runs again is not counted. --halves measures, with lz4, a process with half random and half never written
memory; 0 turns this off. Needs CRIU, as VIRGATE_CRIU or in PATH."""

import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests", "gpu")]

from checkpoint_harness import Weights, adopt, need_criu, reap, restore, takes
from harness import PROGRAMS, SIM, Nvml, Skip, virgate, wait_idle

PLAIN = os.path.join(os.path.dirname(os.path.dirname(PROGRAMS)), "bench", "checkpoint_plain")
UNIT = 1 if SIM else 1024  # MiB in the unit of sizes
MOST = 1.05  # the limit of a dump or restore, relative to the plain sequence
MARGIN = 0.05  # the most by which an image's part of all pages may exceed the part of the nonzero pages
READ_MOST = 4 << 30
BLOCK, PAGE = 8 << 20, 4096


def option(name, default):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def numbers(text):
    return [int(word) for word in text.split(",") if word and word != "0"]


# ---- files ------------------------------------------------------------------------------------------------------

def files_of(directory):
    return [os.path.join(where, name) for where, _, names in os.walk(directory) for name in names]


def stored(directory):
    """Returns the bytes used on the disk, without holes."""
    return sum(os.stat(path).st_blocks * 512 for path in files_of(directory))


def forget(directory):
    """Drops the files from the page cache; they are on the disk already."""
    for path in files_of(directory):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_rate(directory):
    """Returns how many bytes per second one reader gets without the page cache. A restore that reads one file at a time
    cannot be faster."""
    forget(directory)
    total, start, buffer = 0, time.perf_counter(), bytearray(BLOCK)
    for path in sorted(files_of(directory), key=os.path.getsize, reverse=True):
        with open(path, "rb", buffering=0) as file:
            while total < READ_MOST and (count := file.readinto(buffer)):
                total += count
    seconds = time.perf_counter() - start
    forget(directory)
    return total / seconds


def pages_of(directory):
    """Returns how many pages of memory an image of CRIU contains, and how many of them are not zero."""
    pages = zero = 0
    page, block = bytes(PAGE), bytes(BLOCK)
    for path in files_of(directory):
        if not re.fullmatch(r"pages-\d+\.img", os.path.basename(path)):
            continue
        with open(path, "rb", buffering=0) as file:
            while data := file.read(BLOCK):
                pages += len(data) // PAGE
                zero += (len(data) // PAGE if data == block else
                         sum(data[at:at + PAGE] == page for at in range(0, len(data), PAGE)))
    return pages, pages - zero


# ---- memory and disk space --------------------------------------------------------------------------------------

def available():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return int(re.search(r"MemAvailable: +(\d+)", file.read()).group(1)) << 10


def touch(need):
    """Runs in a child: allocates and writes memory step by step, as long as the machine has some available."""
    with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("1000")
    blocks = []
    for _ in range(need >> 30):
        end = time.monotonic() + 5
        while available() < 3 << 30:
            if time.monotonic() > end:
                return
            time.sleep(0.05)
        blocks.append(mmap.mmap(-1, 1 << 30))
        blocks[-1][::PAGE] = b"1" * ((1 << 30) // PAGE)


def grow(need):
    """Uses much memory once. A virtual machine may get its memory only when it is used, which would slow the first
    measurement."""
    if available() >= need:
        return
    pid = os.fork()
    if pid == 0:
        touch(need)
        os._exit(0)
    os.waitpid(pid, 0)


def need_room(directory, on_tmpfs, device, image):
    """Raises Skip unless the process fits in memory, and its image in the directory."""
    memory = int((device + (image if on_tmpfs else 0)) * 1.1) + (1 << 30)
    free, gpu = shutil.disk_usage(directory).free, Nvml().memory()["free"]
    grow(memory)
    for name, have, need in (("memory", available(), memory), (directory, free, int(image * 1.1)),
                             ("the GPU", gpu, device)):
        if have < need:
            raise Skip(f"{need >> 20} MiB of {name} are needed, {have >> 20} are there")


# ---- the two ways -----------------------------------------------------------------------------------------------

def plain(*words):
    done = subprocess.run([PLAIN, *map(str, words)], capture_output=True, text=True, check=False, timeout=560,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Way:
    """Dumps and restores in one of the two ways, and keeps the times of its runs."""

    def __init__(self, name, compress=None):
        self.name, self.compress = name, compress
        self.dumps, self.restores, self.stored = [], [], 0

    def dump(self, program, directory, run_on):
        start = time.perf_counter()
        if self.name == "plain":
            said = plain("dump", program.pid, directory, *(["run-on"] if run_on else []))
        else:
            words = ["--json", "--pid", str(program.pid), "--dir", directory]
            words += (["--leave-running"] if run_on else []) + (["--compress", self.compress] if self.compress else [])
            said = json.loads(virgate("dump", *words, timeout=560))
        if not run_on:
            reap([program.pid])
        seconds = time.perf_counter() - start
        if run_on:  # the time until the program runs again is not part of the dump
            seconds -= sum(said["seconds"].pop(phase, 0) for phase in ("end", "device-in", "unlock"))
        self.dumps.append((seconds, said["seconds"]))
        self.stored = stored(directory)

    def restore(self, program, directory):
        start = time.perf_counter()
        said = plain("restore", program.pid, directory) if self.name == "plain" else restore(directory)
        self.restores.append((time.perf_counter() - start, said["seconds"]))


def turn(way, program, directory, restored, on_disk, rates, look=None):
    image = f"{directory}/image"
    way.dump(program, image, not restored)
    if look:
        look(image)
    if on_disk and not rates:
        rates.append(read_rate(image))
    if restored:
        if on_disk:
            forget(image)
        way.restore(program, image)
    program.verify()
    shutil.rmtree(image)


def no_driver(one):
    """Returns the seconds without the driver's steps. These steps are the same in both ways, and vary most."""
    seconds, phases = one
    return seconds - sum(phases.get(phase, 0) for phase in ("lock", "device-out", "device-in", "unlock"))


# ---- the report -------------------------------------------------------------------------------------------------

class Report:
    def __init__(self):
        self.rows, self.skipped = [], []

    def add(self, what, unit, value, limit=None, **more):
        limit = None if SIM else limit  # times of the simulated driver have no limit
        met = None if limit is None else value <= limit
        self.rows.append({"what": what, "unit": unit, "value": value, "limit": limit, "met": met, **more})
        verdict = "" if met is None else f"at most {limit:.3f}: {'kept' if met else 'MISSED'}"
        print(f"{what:<46} {value:>8.3f} {unit:<10} {verdict}", flush=True)

    def compare(self, what, ours, other, bytes_, limit):
        """Compares the times of both ways in pairs."""
        ratios, rest = ([time(mine) / time(its) for mine, its in zip(ours, other)]
                        for time in (lambda one: one[0], no_driver))
        print(f"  pairs {' '.join(f'{ratio:.3f}' for ratio in ratios)}; without the driver's steps "
              f"{' '.join(f'{ratio:.3f}' for ratio in rest)}")
        self.add(what, "x plain", statistics.median(ratios), limit, ratios=ratios, without_driver=rest,
                 plain=self.side("plain", other, bytes_), virgate=self.side("virgate", ours, bytes_))

    @staticmethod
    def side(name, times, bytes_):
        seconds = statistics.median(time for time, _ in times)
        phases = {phase: statistics.median(one.get(phase, 0) for _, one in times) for phase in times[0][1]}
        print(f"  {name:<8} {seconds:8.2f} s {bytes_ / seconds / 1e9:6.2f} GB/s  "
              + " ".join(f"{phase} {value:.2f}" for phase, value in phases.items() if value >= 0.005), flush=True)
        return {"seconds": seconds, "all": [time for time, _ in times], "phases": phases,
                "gb_per_second": bytes_ / seconds / 1e9}

    def end(self, path):
        limits = [row for row in self.rows if row["met"] is not None]
        missed = [row for row in limits if not row["met"]]
        if path:
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"schema": 1, "rows": self.rows, "skipped": self.skipped}, file, indent=1)
        print(f"{len(limits) - len(missed)} of {len(limits)} limits are kept, {len(self.skipped)} skipped", flush=True)
        return 1 if missed or not self.rows else 0


def size_text(size):
    return f"{size} {'MiB' if SIM else 'GiB'}"


def measure_size(report, directory, target, size, rounds, restored):
    """Measures both ways in alternating turns; each goes first equally often."""
    need_room(directory, target == "tmpfs", size * UNIT << 20, size * UNIT << 20)
    ways = [Way("plain"), Way("virgate", "none" if takes("dump", "--compress") else None)]
    rates, program = [], Weights(f"{directory}/said", size * UNIT)
    try:
        for number in range(rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                turn(way, program, directory, restored, target == "disk", rates)
    finally:
        program.stop()
    title = f"{size_text(size)}, {target}"
    report.compare(f"dump {title}" + ("" if restored else ", runs on"), ways[1].dumps, ways[0].dumps, ways[0].stored,
                   MOST)
    if restored:
        report.compare(f"restore {title}", ways[1].restores, ways[0].restores, ways[0].stored, MOST)
    for way in ways:
        report.add(f"image {title}, {way.name}", "GB", way.stored / 1e9)
    for rate in rates:
        report.add(f"reading {title}, one reader", "GB/s", rate / 1e9)


def measure_halves(report, directory, size, rounds):
    """Measures a half random process with lz4, beside the plain way, on disk."""
    if not takes("dump", "--compress"):
        raise Skip("dump does not compress yet")
    half = size * UNIT // 2
    need_room(directory, False, 2 * half << 20, 2 * half << 20)
    ways, counted = [Way("plain"), Way("virgate", "lz4")], []
    program = Weights(f"{directory}/said", f"{half}+{half}")

    def look(image):
        if not counted:
            counted.append(pages_of(image))
    try:
        for number in range(rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                turn(way, program, directory, True, True, [0], look if way.name == "plain" else None)
    finally:
        program.stop()
    title = f"{size_text(size)}, half of it random, disk"
    pages, full = counted[0]
    report.add(f"image {title}, lz4", "of the pages", ways[1].stored / (pages * PAGE), full / pages + MARGIN,
               bytes=ways[1].stored, pages=pages, not_zero=full, plain=ways[0].stored)
    report.compare(f"restore {title}, lz4", ways[1].restores, ways[0].restores, ways[0].stored, 1.0)
    report.compare(f"dump {title}, lz4", ways[1].dumps, ways[0].dumps, ways[0].stored, None)


def warm_up(directory):
    """Brings the programs into the page cache, and makes the driver compile once, before anything is measured."""
    program = Weights(f"{directory}/said", 16)
    try:
        for way in Way("plain"), Way("virgate"):
            turn(way, program, directory, True, False, [0])
    finally:
        program.stop()


def main():
    sizes, targets = numbers(option("--sizes", "1,8,32")), option("--targets", "tmpfs,disk").split(",")
    restores = numbers(option("--restores", option("--sizes", "1,8,32")))
    halves, rounds = int(option("--halves", "8")), int(option("--rounds", "0"))
    where = {"tmpfs": option("--tmpfs", "/dev/shm"), "disk": option("--disk", "/var/tmp")}
    if set(targets) - set(where):
        raise SystemExit(f"unknown target {' '.join(set(targets) - set(where))}; the targets are: tmpfs disk")
    try:
        need_criu()
    except Skip as reason:
        print(f"nothing was measured: {reason}")
        sys.exit(77)
    adopt()
    wait_idle(Nvml())
    report = Report()
    directories = {target: tempfile.mkdtemp(prefix="virgate-bench-", dir=parent) for target, parent in where.items()}

    def measure(what, function, *words):
        start = time.monotonic()
        try:
            function(report, *words)
            print(f"  ({time.monotonic() - start:.0f} s)", flush=True)
        except Skip as reason:
            report.skipped.append(f"{what}: {reason}")
            print(f"skip {what}: {reason}", flush=True)
    try:
        warm_up(directories["tmpfs"])
        for size in sizes:
            for target in targets:
                measure(f"{size_text(size)}, {target}", measure_size, directories[target], target, size,
                        rounds or (2 if size <= 2 else 1), size in restores)
        if halves:
            measure(f"{size_text(halves)} with lz4", measure_halves, directories["disk"], halves, rounds or 1)
    finally:
        for directory in directories.values():
            shutil.rmtree(directory)
    sys.exit(report.end(option("--json", None)))


if __name__ == "__main__":
    main()
