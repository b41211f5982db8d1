#!/usr/bin/env python3
"""test_names.py SOURCE: checks that each name of a refusal has exactly one row in docs/checkpoint.md, that each row has
a name, and that the source uses each name."""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
names = (source / "src/checkpoint/process/refusal.def").read_text()
listed = re.findall(r'^REFUSAL\((\w+), "([a-z-]+)", VG_\w+\)$', names, re.M)
page = (source / "docs/checkpoint.md").read_text()
section = page[page.index("## What is refused"):page.index("### What CRIU refuses")]
rows = re.findall(r"^\| `([a-z-]+)` \|", section, re.M)
used = "".join(file.read_text() for file in (source / "src/checkpoint").rglob("*.c"))

wrong = []
if len(listed) < 20:
    wrong.append(f"only {len(listed)} names were found: the list's form has changed")
for constant, name in listed:
    if rows.count(name) != 1:
        wrong.append(f"{name} has {rows.count(name)} rows in docs/checkpoint.md")
    if f"REFUSE_{constant}" not in used:
        wrong.append(f"REFUSE_{constant} is used nowhere")
for row in rows:
    if row not in {name for _, name in listed}:
        wrong.append(f"docs/checkpoint.md has a row for {row}, which is no name")
print("\n".join(wrong) or f"{len(listed)} names")
sys.exit(1 if wrong else 0)
