#!/usr/bin/env python3
"""library.py SOURCE BUILD: checks the list of examples in examples/README.md, which must have all examples. The list
must mark those that compile with NVRTC, and they must exit with 77 on a machine without NVRTC. The example for two
devices must run with two."""

import glob
import os
import re
import subprocess
import sys

SOURCE, BUILD = sys.argv[1], sys.argv[2]
counts = {"passed": 0, "failed": 0}


def check(name, problem):
    counts["failed" if problem else "passed"] += 1
    print(f"FAIL {name}: {problem}" if problem else f"ok {name}", flush=True)


def run(program, **environment):
    return subprocess.run([f"{SOURCE}/tests/core/run-sim.sh", BUILD, f"{BUILD}/examples/{program}"],
                          capture_output=True, text=True, timeout=60, env=dict(os.environ, **environment),
                          stdin=subprocess.DEVNULL, check=False)


def programs():
    """Returns the source of each example program by the program's name, {"matmul": …}. A file with a main() is a
    program."""
    found = {}
    for path in glob.glob(f"{SOURCE}/examples/*.c") + glob.glob(f"{SOURCE}/examples/library/*.c"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if re.search(r"^int main\(", text, re.MULTILINE):
            found[os.path.basename(path)[:-2]] = text
    return found


def main():
    with open(f"{SOURCE}/examples/README.md", encoding="utf-8") as file:
        listed = re.findall(r"^\| `(\w+)`", file.read(), re.MULTILINE)
    sources = programs()
    check("examples/README.md lists each example once", sorted(listed) != sorted(sources) and
          f"more or less than there are: {sorted(set(listed) ^ set(sources)) or listed}")
    for name in sorted(name for name, text in sources.items() if '#include "nvrtc.h"' in text):
        done = run(name, VIRGATE_NVRTC="/nowhere/at/all", VIRGATE_SIM="devices=2")
        check(f"{name} without NVRTC", (done.returncode != 77 or "skipped: no NVRTC" not in done.stdout) and
              f"{done.returncode}: {done.stdout}{done.stderr}")
    done = run("peers", VIRGATE_SIM="devices=2")
    good = done.returncode == 0 or done.returncode == 77 and "no NVRTC" in done.stdout
    check("peers with two devices", not good and f"{done.returncode}: {done.stdout}{done.stderr}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
