"""Checks documents that compare a reference, such as another library, with this library. Their tables have the columns
"reference", "here" and "note". Every name of this library in the column "here" and in the text must exist: functions
must be exported, and fields, types and constants declared. Tables without the column "reference" count as text."""

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


def rows(document):
    """Yields (line number, [reference, here, note]) for every row of the tables that have these columns."""
    inside = False
    for number, line in enumerate(document.splitlines(), 1):
        cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[0] == "reference":
            inside = True
        elif inside and set(cells[0]) != {"-"}:
            yield number, cells


class Library:
    """Reads the names of the library once, since hundreds are looked up."""

    def __init__(self, library, text):
        self.exported = exports(library)
        self.fields, self.constants, self.types = headers.fields(text), headers.constants(text), headers.types(text)

    def unknown(self, name):
        """Returns why a name in backticks does not exist in the library; None: it does."""
        if re.fullmatch(r"vg_\w+\(\)", name):
            return None if name[:-2] in self.exported else "not exported"
        if "." in name:
            struct, field = name.split(".", 1)
            return None if field in self.fields.get(struct, ()) else "no such field"
        if name.startswith("VG_"):
            return None if name in self.constants else "no such constant"
        return None if name in self.types else "neither a function with (), a field, a type nor a constant"


def check_document(path, library, text, apart=()):
    """Checks a document and returns the rows of its tables. `apart` lists texts that may stand in the column "here"
    instead of a name."""
    with open(path, encoding="utf-8") as file:
        document = file.read()
    known = Library(library, text)
    shape, wrong, twice, empty, found, seen = [], [], [], [], [], set()
    for number, cells in rows(document):
        if len(cells) != 3:
            shape.append(f"line {number}: {len(cells)} cells")
            continue
        reference, here, note = cells
        names = re.findall(r"`([^`]*)`", here)
        wrong += [f"line {number}: {name}: {why}" for name in names if (why := known.unknown(name))]
        if not names and not (here in apart or (here == "–" and note)):
            empty.append(f"line {number}")
        if reference in seen:
            twice.append(f"line {number}: {reference}")
        seen.add(reference)
        found.append(cells)
    check("every row has three cells", shape or ([] if found else ["no row"]))
    check("every name is the library's", wrong)
    ours = set(re.findall(r"`((?:(?:enum|struct) )?(?:vg|VG)_\w+(?:\.\w+|\(\))?)`", document))
    check("so are those elsewhere", sorted(f"{name}: {why}" for name in ours if (why := known.unknown(name))))
    check("what is not there has a reason", empty)
    check("no row stands twice", twice)
    return found


def named(found):
    """Returns the functions that the rows name in the columns "here" and "note"."""
    return set().union(*(re.findall(r"vg_\w+(?=\(\)`)", " ".join(cells[1:])) for cells in found))
