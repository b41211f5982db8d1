#!/usr/bin/env python3
"""test_architecture.py ROOT: checks that all files and functions that docs/architecture.md names exist. A function in a
step (a line of a diagram) must be defined in the file of that step. A function in a sentence must be defined in the
file that the sentence names. Also makes mistakes in copies of the page, which these checks must find."""

import os
import re
import sys

sys.dont_write_bytecode = True
ROOT = os.path.realpath(sys.argv[1])
PAGE = "docs/architecture.md"
passed = failed = 0

PATH = r"(?:[\w-]+/)*[\w-]+\.(?:c|h|S|def|inc|md|py|svg)\b"
STEP = re.compile(rf"^[│ ]*(?P<path>{PATH})? *(?P<name>\w+)\(\) +\S")
PAIRS = (rf"`(?P<path>{PATH})` \(`(?P<name>\w+)\(\)`\)", rf"`(?P<name>\w+)\(\)` of `(?P<path>{PATH})`")


def check(name, is_true, output=""):
    global passed, failed
    passed, failed = passed + bool(is_true), failed + (not is_true)
    if not is_true:
        print(f"FAIL {name}: {output}")


def read(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as file:
        return file.read()


def defines(text, name):
    """Returns whether a source file defines a function: with a body, as a label in assembly, or by a macro whose only
    argument is the function's name."""
    if re.search(rf"^{name}:", text, re.M) or re.search(rf"^[A-Z_]+\({name}\)$", text, re.M):
        return True
    for match in re.finditer(rf"^[A-Za-z_][^;={{}}\n]*\b{name}\(", text, re.M):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if text[at:].lstrip().startswith("{"):
            return True
    return False


def find_functions(page):
    """Returns a list of pairs (file, function): one for each step of the page's diagrams, and one for each function
    that a sentence names with its file. A step without a file has the file of the step above it. The file is None if
    no step above it in the diagram has one."""
    found, path, in_diagram = [], None, False
    for line in page.splitlines():
        if line.startswith("```"):
            in_diagram, path = not in_diagram, None
        step = STEP.match(line) if in_diagram else None
        if step:
            path = step["path"] or path
            found.append((path, step["name"]))
    text = page.replace("\n", " ")
    return found + [(match["path"], match["name"]) for pair in PAIRS for match in re.finditer(pair, text)]


def find_path(path, neighbour):
    """Returns the path of a file. Searches below the root, beside the page, and beside `neighbour`, the file of the
    step. Returns None if it is not found."""
    for candidate in (path, f"docs/{path}", f"{os.path.dirname(neighbour or '')}/{path}"):
        if os.path.isfile(f"{ROOT}/{candidate}"):
            return candidate
    return None


def find_mistakes(page):
    functions = find_functions(page)
    mistakes = []
    for line in page.splitlines():
        step = STEP.match(line)
        mistakes += [f"{path} is not found" for path in re.findall(rf"(?<![\w./-]){PATH}", line)
                     if not find_path(path, step and step["path"])]
    for path, name in functions:
        if not path:
            mistakes.append(f"{name}() has no file")
        elif os.path.isfile(f"{ROOT}/{path}") and not defines(read(path), name):
            mistakes.append(f"{name}() is not defined in {path}")
    known = {name for _, name in functions}
    mistakes += [f"{name}() has no step and no file" for name in re.findall(r"\b(\w+)\(\)", page) if name not in known]
    return mistakes


def test_mistakes(page):
    """Makes one mistake at a time in a copy of the page. The checks must find each."""
    for name, old, new, message in (
            ("a file of a step", "shim/records.c ", "shim/no-records.c ", "shim/no-records.c is not found"),
            ("a file beside that of a step", " watch.c", " no_watch.c", "no_watch.c is not found"),
            ("a file in a sentence", "src/pager/memory.c", "src/pager/none.c", "src/pager/none.c is not found"),
            ("a link", "(architecture.svg)", "(none.svg)", "none.svg is not found"),
            ("a function", "turn_order()", "turn_orders()", "turn_orders() is not defined in src/turn/orders.c"),
            ("a function that is only called", "shim_refuse()", "shim_log_refusal()",
             "shim_log_refusal() is not defined in shim/charge.c"),
            ("a function that is only declared", "shim_turn_call()", "shim_driver_has()",
             "shim_driver_has() is not defined in shim/turn.c"),
            ("a label", "turn_call()", "turn_none()", "turn_none() is not defined in shim/cuda_exports.S"),
            ("a step without a file", "│ cli/main.c", "│           ", "main() has no file"),
            ("a function in a sentence", "`roll_back()`", "`roll_on()`",
             "roll_on() is not defined in src/checkpoint/dump.c"),
            ("a function without a file", "\nThis page", "\n`find_none()`. This page",
             "find_none() has no step and no file")):
        wrong = page.replace(old, new, 1)
        check(f"the page has what the test replaces for {name}", wrong != page, old)
        mistakes = find_mistakes(wrong)
        check(f"{name} that does not exist", message in mistakes, mistakes)


def main():
    page = read(PAGE)
    mistakes = find_mistakes(page)
    check(f"all files and functions of {PAGE} exist", not mistakes, "\n  ".join(mistakes))
    diagrams = re.findall(r"^## (.+?)$.*?^```text$\n(.*?)^```$", page, re.M | re.S)
    for title, diagram in diagrams[1:]:
        check(f"the steps of {title}", len(find_functions(f"```\n{diagram}```")) >= 15, diagram)
    check("seven diagrams, of which six have steps", len(diagrams) == 7, [title for title, _ in diagrams])
    rows = [line for _, diagram in diagrams[1:] for line in diagram.splitlines() if re.search(r"\.[chS] +\w", line)]
    check("each line with a file and a function is a step", rows and all(STEP.match(row) for row in rows),
          [row for row in rows if not STEP.match(row)])
    test_mistakes(page)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
