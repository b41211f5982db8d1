#!/usr/bin/env python3
"""Checks the layers of shim/. shim/README.md lists its files from the top layer to the bottom one. No file may include
the header of a file that comes earlier in that list.

Usage: check_layers.py SHIM
"""
import pathlib
import re
import sys

shim = pathlib.Path(sys.argv[1])
readme = (shim / "README.md").read_text()
lists = re.findall(r"^- (?:[^:]*): ((?:.|\n  )*)", readme, re.MULTILINE)
words = [word for text in lists for word in re.findall(r"\w+", text.split(",")[0])]
files = sorted(file for file in shim.iterdir() if file.suffix in (".c", ".h", ".S"))
errors = [f"{name}: listed twice in README.md" for name in set(words) if words.count(name) > 1]
errors += [f"{file.name}: not listed in README.md" for file in files if file.stem not in words]
errors += [f"{name}: listed in README.md, but not there" for name in words if name not in {f.stem for f in files}]
for file in files:
    for header in re.findall(r'^#include "shim/(\w+)\.h"', file.read_text(), re.MULTILINE):
        is_nvml = file.stem.startswith("nvml")
        if not is_nvml and file.stem in words and header in words and words.index(header) < words.index(file.stem):
            errors.append(f"{file.name}: includes {header}.h, which is in a higher layer")
print("\n".join(errors) or f"{len(files)} files in order")
sys.exit(1 if errors else 0)
