#!/usr/bin/env python3
"""test_reference.py SOURCE BUILT HEADER...: checks the generated reference of the library. It must have every public
function with its comment. It must not depend on the order of the headers or on the locale. The generator must refuse a
function without a comment."""

import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import headers  # noqa: E402

SOURCE, BUILT, HEADERS = sys.argv[1], sys.argv[2], sys.argv[3:]
counts = {"passed": 0, "failed": 0}


def check(name, problems):
    counts["failed" if problems else "passed"] += 1
    print(f"FAIL {name}: {problems}" if problems else f"ok {name}")


def make(*paths, **environment):
    return subprocess.run([f"{SOURCE}/scripts/reference", *paths], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


def main():
    with open(BUILT, encoding="utf-8") as file:
        built = file.read()
    again = make(*reversed(HEADERS), PYTHONHASHSEED="7", LC_ALL="C.UTF-8", TZ="Asia/Tokyo")
    same = again.stdout == built and again.returncode == 0
    check("the same in another order", "" if same else again.stderr or "differs")
    sections = {}
    for section in re.split(r"^#{2,4} ", built, flags=re.MULTILINE):
        head, _, rest = section.partition("\n")
        text = re.sub(r"```c\n.*?```|<a id=.*?</a>", "", rest, flags=re.DOTALL).strip()
        for name in head.split(", "):
            sections[name] = (text, rest)
    public = set().union(*(headers.functions(text) for text in headers.text_of(HEADERS).values()))
    none = ("", "")
    check("every function has words", sorted(name for name in public if not sections.get(name, none)[0]))
    check("every function is declared",
          sorted(name for name in public if f"{name}(" not in sections.get(name, none)[1]))
    anchors, links = re.findall(r'<a id="(\w+)">', built), re.findall(r"\]\(#(\w+)\)", built)
    check("links lead somewhere", sorted(set(links) - set(anchors)) or [a for a in anchors if anchors.count(a) > 1])
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/odd.h"
        with open(path, "w", encoding="utf-8") as file:
            file.write("/* Odd. */\n#ifndef ODD\n\n/* Even *now* <here>. */\nVG_PUBLIC int vg_odd(void);\n\n"
                       "VG_PUBLIC int vg_bare(void);\n")
        done = make(path)
        named = done.returncode and done.stderr.strip().endswith("vg_bare")
        check("a function without a comment is named", "" if named else done)
        check("the comment comes word by word", "" if "Even \\*now\\* \\<here\\>." in done.stdout else done.stdout)
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
