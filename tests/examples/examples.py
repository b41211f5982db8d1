#!/usr/bin/env python3
"""examples.py EXAMPLES SIM: tests the example programs on a simulated device of 512 MiB, and their messages when
something is wrong."""

import os
import re
import subprocess
import sys
import tempfile

EXAMPLES, SIM = sys.argv[1], sys.argv[2]
MiB = 1 << 20
DEVICE, CONTEXT = 512 * MiB, 16 * MiB
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES")}
ENVIRONMENT.update(VIRGATE_SIM="memory=512M,ctx=16M,sms=16", LD_LIBRARY_PATH=SIM)
counts = {"passed": 0, "failed": 0}


def run(program, *words, environment=None):
    return subprocess.run([f"{EXAMPLES}/{program}", *words], capture_output=True, text=True, timeout=60,
                          env=environment or ENVIRONMENT, stdin=subprocess.DEVNULL, check=False)


def check(name, good, done):
    counts["passed" if good else "failed"] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {done.returncode}: {done.stdout.strip()} {done.stderr.strip()}",
          flush=True)


def says(name, words, status, *command):
    done = run(*command)
    check(name, done.returncode == status and re.search(words, done.stdout + done.stderr), done)


def grow(route, least, extra=()):
    done = run("grow", "--via", route, "--chunk", "64M", "--exact", *extra)
    found = re.search(r"\((\d+) bytes\) in \d+ chunks by \w+, then out of memory", done.stdout)
    check(f"grow by {route}", done.returncode == 0 and found and least <= int(found.group(1)) <= DEVICE - CONTEXT, done)


def main():
    with tempfile.TemporaryDirectory(prefix="virgate-examples.", dir="/var/tmp") as folder:
        ENVIRONMENT["VIRGATE_SIM_DIR"] = folder
        says("vector_add", "vector_add: 10000 elements correct", 0, "vector_add", "10000")
        says("vector_add of nothing", "COUNT 0: from 1", 1, "vector_add", "0")
        says("matmul", "1 products of 64 \\* 64 .*, correct", 0, "matmul", "--size", "64", "--repeat", "1")
        says("matmul of an odd size", "correct", 0, "matmul", "--size", "37", "--repeat", "2")
        says("matmul, unknown option", "unknown option --sise", 1, "matmul", "--sise", "64")
        says("matmul, bad size", "--size: from 1|from 1 to 32768", 1, "matmul", "--size", "0")
        says("device_query", r"memory 512.00 MiB \(536870912 bytes\)", 0, "device_query")
        # These kinds allocate blocks of 2 MiB, so they can use almost all memory. The kinds below leave more unused:
        # pools allocate 32 MiB at a time, and a mipmapped array needs 4/3 of its first level.
        for route in ("alloc", "pitch", "create", "vmm", "released", "exported", "array"):
            grow(route, DEVICE - CONTEXT - 4 * MiB)
        for route in ("async", "pool", "graph"):
            grow(route, DEVICE - CONTEXT - 64 * MiB)
        grow("mipmap", DEVICE - CONTEXT - 128 * MiB)
        says("grow, as much as asked", r"128.00 MiB \(134217728 bytes\) in 2 chunks by alloc, as much as asked", 0,
             "grow", "--most", "128M")
        # Outside a vGPU, a program can allocate more managed memory than the device has.
        says("grow by managed", r"128.00 MiB \(134217728 bytes\) in 2 chunks by managed, as much as asked", 0,
             "grow", "--via", "managed", "--most", "128M")
        says("grow, unknown route", "there is no route tunnel", 1, "grow", "--via", "tunnel")
        says("grow, bad chunk", "--chunk -3 is not a size", 1, "grow", "--chunk", "-3")
        says("grow, odd chunk", "must be a multiple of 2.00 MiB", 1, "grow", "--via", "vmm", "--chunk", "1M")
        alone = {name: value for name, value in ENVIRONMENT.items() if name != "VIRGATE_SIM"}
        done = run("vector_add", environment=alone)
        check("no device", done.returncode == 1 and "cannot start the CUDA driver: " in done.stderr, done)
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
