#!/usr/bin/env python3
"""test_man_rendered.py SCDOC PAGE...: checks that scdoc keeps every word of a manual page. For scdoc, "++" at the end
of a line is a line break, "*" and "_" mark bold and underlined text, and a backslash escapes these."""

import re
import subprocess
import sys

SCDOC, PAGES = sys.argv[1], sys.argv[2:]
counts = {"passed": 0, "failed": 0}


def plain(line):
    """Returns the line without the marks that scdoc interprets, by the rules of scdoc's manual."""
    line = re.sub(r"(?<!C)\+\+$", "", line, flags=re.MULTILINE)
    out, last, underlined, i = "", "", False, 0
    while i < len(line):
        char, after = line[i], line[i + 1:i + 2]
        if char == "\\" and after:
            out, i, char = out + after, i + 1, after
        elif char == "_" and (not last.isalnum() or underlined and not after.isalnum()):
            underlined = not underlined
        elif char == "*" and (not last.strip() and not after.strip()):
            out += char  # a mark between two blanks is an ordinary character
        elif char != "*":
            out += char
        last, i = char, i + 1
    return out


def written(page):
    """Returns the words of the page's source, without its marks."""
    text = []
    for i, part in enumerate(re.split(r"^\t*```$", page.split("\n", 1)[1], flags=re.MULTILINE)):
        if i % 2:
            text.append(part.replace("\\\\", "\\"))  # literal
            continue
        part = re.sub(r"^;.*$", "", part, flags=re.MULTILINE)
        lead = r"^\t*(?:[-.] |#+ |(?:\[\[|[|:\]])[-<>\[\]=]?(?: |$))?"
        text.append(plain(re.sub(lead, "", part, flags=re.MULTILINE)))
    return " ".join(text).split()


def rendered(page):
    """Returns the words of the page as scdoc renders it."""
    roff = subprocess.run([SCDOC], input=page, capture_output=True, text=True, check=True).stdout
    lines, format_of_table = [], False
    for line in roff.split("Begin generated content:")[1].split("\n")[1:]:
        if line.startswith(".TS"):
            format_of_table = True
        elif format_of_table:
            format_of_table = not line.endswith(".")
        elif line.startswith((".SH ", ".SS ")):
            lines.append(line[4:])
        elif not line.startswith((".", "\\h", "T{", "T}\tT{")) and line != "T}":
            lines.append(line)
    return re.sub(r"\\(\\|&|f[BIR]|\(..|e|-)", shown, " ".join(lines)).split()


def shown(escape):
    return {"\\": "\\", "e": "\\", "-": "-", "(ti": "~", "(ha": "^", "(aq": "'", "(dq": '"'}.get(escape.group(1), "")


def lost(page):
    source, result = written(page), rendered(page)
    for i, (one, other) in enumerate(zip(source + [""], result + [""])):
        if one != other:
            return f"after \"{' '.join(source[max(i - 5, 0):i])}\" the source has \"{one}\", the page \"{other}\""
    return ""


def check(name, problem):
    counts["failed" if problem else "passed"] += 1
    print(f"FAIL {name}: {problem}" if problem else f"ok {name}")


def main():
    # Test the function lost() itself. In the first two pages, scdoc loses a sign. In the third page, it loses nothing.
    check("a sign at a line's end", not lost("x(3)\n\n# NAME\n\nx - of C++\nis C++ code\n") and "C++ was not missed")
    check("a sign between blanks", not lost("x(3)\n\n# NAME\n\nx - n * 4 * 5\n") and "* was not missed")
    page = ("x(3)\n\n# NAME\n\nx - *bold* _under_ a\\_b n \\* 4 snake_case_name++\n_of two\nlines_.\n\n- one\n- two\n\n"
            "[[ *a*\n:- b\n|  c\n:  d_e\n\n```\nif (a * b) \"\\\\n\"\n```\n\n\tindented\n")
    check("a page with everything", lost(page))
    for path in PAGES:
        with open(path, encoding="utf-8") as file:
            check(path.rsplit("/", 1)[-1].removesuffix(".scd"), lost(file.read()))
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
