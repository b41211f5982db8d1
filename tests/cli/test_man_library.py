#!/usr/bin/env python3
"""test_man_library.py SOURCE BUILD CC...: checks the pages of section 3. Each page must name every public function of
its header and no unknown one. Its built SYNOPSIS must have their prototypes, and the program in its EXAMPLE must
compile. Every public function must have a page."""

import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from headers import functions  # noqa: E402

SOURCE, BUILD, CC = sys.argv[1], sys.argv[2], sys.argv[3:]
SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLE", "SEE ALSO")
counts = {"passed": 0, "failed": 0}


def check(name, problems):
    counts["failed" if problems else "passed"] += 1
    print(f"FAIL {name}: {problems}" if problems else f"ok {name}")


def compiles(program):
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(program)
        file.flush()
        done = subprocess.run([*CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                               f"{SOURCE}/include", file.name],
                              capture_output=True, text=True, check=False)
        return done.stderr


def prototypes(path):
    """Returns the declarations in the SYNOPSIS of the built page, which must compile with the header."""
    with open(f"{BUILD}/man/{os.path.basename(path)}", encoding="utf-8") as file:
        page = file.read()
    block = re.search(r"^# SYNOPSIS$.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL).group(1)
    return block, set(re.findall(r"^\w[^;]*?\b(vg_[a-z0-9_]+)\(", block, re.MULTILINE))


def known():
    """Returns every function of every header, because a page may also name functions of other headers."""
    headers = subprocess.run(["sh", "-c", f"cat {SOURCE}/include/virgate/*.h"], capture_output=True, text=True,
                             check=True)
    return functions(headers.stdout)


def main():
    everything, left, undeclared = known(), known(), known()
    built = open(f"{SOURCE}/man/meson.build", encoding="utf-8").read()
    for path in sorted(glob.glob(f"{SOURCE}/man/*.3.scd")):
        name = os.path.basename(path).removesuffix(".3.scd")
        page = open(path, encoding="utf-8").read()
        check(f"{name} is built", "" if f"'{name}'" in built else "not in man/meson.build")
        header = f"{SOURCE}/include/virgate/{name.removeprefix('vg_')}.h"
        own = functions(open(header, encoding="utf-8").read()) if name != "libvirgate" else set()
        named = set(re.findall(r"\b(vg_[a-z0-9_]+)\*?\(\)", page))
        left -= named
        check(f"{name} names its functions", sorted(own - named))
        check(f"{name} names no others", sorted(named - everything))
        block, declared = prototypes(path)
        undeclared -= declared
        check(f"{name} has the prototypes of its functions", sorted(own - declared))
        check(f"{name} has prototypes that compile", compiles(re.sub(r"^cc .*$", "", block, flags=re.MULTILINE)))
        check(f"{name} has its sections", [s for s in SECTIONS if f"\n# {s}\n" not in page])
        example = re.search(r"^# EXAMPLE$.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        # scdoc removes a backslash, so the page has two for each
        code = example.group(1) if example else ""
        check(f"{name} has an example that compiles", compiles(code.replace(r"\\", "\\")) if example else "none")
        check(f"{name} writes a backslash as two", re.findall(r"^.*(?<!\\)\\(?!\\).*$", code, re.MULTILINE))
    check("every function has a page", sorted(left))
    check("every function has a prototype in a page", sorted(undeclared))
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
