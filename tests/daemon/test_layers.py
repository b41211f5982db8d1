#!/usr/bin/env python3
"""test_layers.py DIRECTORY: checks the order of the modules of daemon or daemon/broker.

The README of DIRECTORY lists the modules in lines that begin with "- ", lowest layer first. A module may include only
modules that the list has before it. A module is a header NAME.h with the files that implement it: NAME.c and NAME_*.c.
If the list has NAME_X itself, that is another module. The module `request_parts` has all files request_*.c. The
broker's README also lists, after "of daemon:", the modules of daemon that the broker may include.
"""
import pathlib
import re
import sys

room = pathlib.Path(sys.argv[1])
readme = (room / "README.md").read_text()
is_broker = room.name == "broker"
lines = re.findall(r"^- (.*)", readme, re.M)
names = re.findall(r"[a-z_/]+", re.sub(r"[A-Z][A-Za-z ]*:", "", " ".join(lines)))
order = {name: number for number, name in reversed(list(enumerate(names)))}
allowed = set(re.findall(r"[a-z_]+", readme.partition("of daemon:")[2]))


def module_of(name):
    if not is_broker and name.startswith("request_"):
        return "request_parts"
    while name not in order and "_" in name:
        name = name.rsplit("_", 1)[0]
    return name


def problem_of(module, included):
    if is_broker and not included.startswith("broker/"):
        return None if included in allowed else f"it includes {included}, which the README does not allow"
    target = module_of(included.removeprefix("broker/") if is_broker else included)
    if target not in order:
        return f"it includes {included}, which the README does not name"
    if order[target] > order.get(module, -1):
        return f"it includes {included}, which is in a later layer"
    return None


failed = 0
files = sorted([*room.glob("*.c"), *room.glob("*.h")])
for path in files:
    included = re.findall(r'#include "daemon/([a-z_/]+)\.h"', path.read_text())
    problems = list(filter(None, (problem_of(module_of(path.stem), name) for name in included)))
    if module_of(path.stem) not in order:
        problems.append("the README does not name it")
    for problem in problems:
        print(f"FAIL {path}: {problem}")
    failed += bool(problems)
print(f"{len(files) - failed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0 or not files)
