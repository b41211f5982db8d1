"""Tables of a document that set a reference beside the library: `reference | here | note`. What a row names under
"here", and what of ours its note names, must be there: functions exported, fields, types and constants declared."""

import re
import subprocess

import headers

counts = {"passed": 0, "failed": 0}


def check(name, problems):
    counts["failed" if problems else "passed"] += 1
    print(f"FAIL {name}: {problems}" if problems else f"ok {name}")


def finish():
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


def exports(library):
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" T (vg_\w+)", symbols))


def rows(path):
    """(line number, [reference, here, note]) of every row."""
    heads = 0
    with open(path, encoding="utf-8") as document:
        for number, line in enumerate(document, 1):
            if not line.startswith("|"):
                continue
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            if cells[0] == "reference" or set(cells[0]) == {"-"}:
                heads += 1
                continue
            yield number, cells
    if heads < 2:
        yield 0, ["no table"]


def unknown(name, exported, text):
    """Why this backticked name is nothing of ours; None if it is."""
    if re.fullmatch(r"vg_\w+\(\)", name):
        return None if name[:-2] in exported else "not exported"
    if "." in name:
        struct, field = name.split(".", 1)
        return None if field in headers.fields(text).get(struct, ()) else "no such field"
    if name.startswith("VG_"):
        return None if name in headers.constants(text) else "no such constant"
    return None if name in headers.types(text) else "neither a function with (), a field, a type nor a constant"


def check_rows(path, library, text, apart=()):
    """Checks what all such tables have in common; `apart` may stand in the place of names. The rows that have a shape."""
    exported = exports(library)
    shape, wrong, twice, empty, found, seen = [], [], [], [], [], set()
    for number, cells in rows(path):
        if len(cells) != 3:
            shape.append(f"line {number}: {len(cells)} cells")
            continue
        reference, here, note = cells
        names = re.findall(r"`([^`]*)`", here)
        names += [name for name in re.findall(r"`([^`]*)`", note) if name.startswith(("vg_", "VG_"))]
        wrong += [f"line {number}: {name}: {why}" for name in names if (why := unknown(name, exported, text))]
        if not re.findall(r"`[^`]*`", here) and not (here in apart or (here == "–" and note)):
            empty.append(f"line {number}")
        if reference in seen:
            twice.append(f"line {number}: {reference}")
        seen.add(reference)
        found.append(cells)
    check("every row has three cells", shape)
    check("every name is the library's", wrong)
    check("what is not there has a reason", empty)
    check("no row stands twice", twice)
    return found


def named(found):
    """The functions that rows name, in whatever cell of ours."""
    return set().union(*(re.findall(r"vg_\w+(?=\(\)`)", " ".join(cells[1:])) for cells in found))
