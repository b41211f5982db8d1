#!/usr/bin/env python3
"""Checks that the stream argument of each row of turns.def has type CUstream.

Usage: turn_arguments.py TURNS ENTRIES TYPEDEFS
"""

import re
import sys

turns, entries, typedefs = (open(path).read() for path in sys.argv[1:])
functions = dict(re.findall(r"typedef CUresult \(CUDAAPI \*PFN_(\w+)\)\(([^;]*)\);", typedefs))
names = {
    abi: f"{api}_v{version}" + ("" if stream == "plain" else f"_{stream}")
    for abi, api, version, stream in re.findall(r"^ENTRY\((\w+), (\w+), (\d+), (\w+),", entries, re.M)
}
failed = passed = 0
for abi, kind, stream, _ in re.findall(r"^TURN\((\w+), (\w+), (\w+), (\w+)\)", turns, re.M):
    types = [argument.strip() for argument in functions[names[abi]].split(",")]
    found = [index for index, text in enumerate(types) if text.startswith("CUstream ")]
    wanted = str(found[0]) if found and kind != "PASS" else "0" if kind == "EXTENDED" else "NONE"
    if stream == wanted:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {abi}: its stream is argument {wanted}, not {stream}")
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed != 0 or passed == 0)
