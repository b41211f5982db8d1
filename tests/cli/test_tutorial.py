#!/usr/bin/env python3
"""test_tutorial.py SOURCE BUILD CC...: checks that the program in docs/tutorial.md compiles without a warning, runs
with NVRTC (if installed) and without it, and prints exactly what the tutorial says."""

import os
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]


def main():
    with open(f"{SOURCE}/docs/tutorial.md", encoding="utf-8") as file:
        page = file.read()
    program, said = (re.search(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) for kind in ("c", "text"))
    if not program or not said:
        print("FAIL tutorial: no program, or not what it prints\n0 passed, 1 failed, 0 skipped")
        return 1
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/add.c", "w", encoding="utf-8") as file:
            file.write(program.group(1))
        subprocess.run([*CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", f"{SOURCE}/include", f"{directory}/add.c",
                        "-o", f"{directory}/add", f"{BUILD}/src/libvirgate.so", f"-Wl,-rpath,{BUILD}/src"], check=True)
        # As in the tutorial, no variable names the directory of the simulated driver.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VIRGATE_")}
        environment.update(VIRGATE_SIM="1", VIRGATE_SIM_DIR=f"{directory}/sim")
        failed = 0
        for name, nvrtc in ("tutorial", {}), ("tutorial_without_nvrtc", {"VIRGATE_NVRTC": "/nonexistent"}):
            done = subprocess.run([f"{directory}/add"], capture_output=True, text=True, check=False, timeout=100,
                                  env={**environment, **nvrtc})
            good = not done.returncode and done.stdout == said.group(1) and not done.stderr
            failed += not good
            print(f"ok {name}" if good else f"FAIL {name}: {done.returncode}: {done.stdout}{done.stderr}")
    print(f"{2 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
