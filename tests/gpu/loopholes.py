#!/usr/bin/env python3
"""Ways around a quota that it has to cover: copies of descriptors, libraries that load late, local
memory, and processes that end or become others in between."""

import sys

from harness import GiB, MiB, PROGRAMS, SIM, Nvml, Suite, check, os, run_inside, wait_idle

LIMIT = 512 * MiB if SIM else 4 * GiB
SIZE = LIMIT // 8 // MiB


def closed(nvml, what):
    """The program judges by what the quota has left; afterwards nothing of it may be on the GPU."""
    before = nvml.memory()["used"]
    done = run_inside({"name": f"hole-{what}", "memory": f"{LIMIT // MiB}M"}, [f"{PROGRAMS}/loopholes", what, str(SIZE)],
                      good=False)
    check(done.returncode == 0 and done.stdout.strip().endswith(f"held: {'after' if what == 'exec' else what}"),
          f"ended with {done.returncode}: {done.stdout[-400:].strip()} {done.stderr[-600:].strip()}")
    wait_idle(nvml)
    check(nvml.memory()["used"] <= before + 32 * MiB, "memory was left on the GPU")


def main():
    suite = Suite()
    nvml = Nvml()
    wait_idle(nvml)
    for what in ("duplicated", "sent", "several", "dead", "exec"):
        suite.test(f"loophole {what}", closed, nvml, what)
    suite.end()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    sys.exit(main())
