#!/usr/bin/env python3
"""test_checks.py ROOT: tests the scripts check-includes and check-style, on the source tree and on copies of it with
mistakes. Also tests count-tokens and sample-comments."""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(sys.argv[1])
PRODUCT = ("include", "src", "sim", "shim", "runtime", "daemon", "exporter", "top", "cli", "integrations")
OTHERS = ("examples", "docs", "man", "tests", "bench")
passed = failed = 0


def check(name, is_true, output=""):
    global passed, failed
    passed, failed = passed + bool(is_true), failed + (not is_true)
    if not is_true:
        print(f"FAIL {name}: {output}")


def run(script, *arguments):
    """Returns the exit status and the output of a script."""
    done = subprocess.run([f"{ROOT}/scripts/{script}", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    return done.returncode, done.stdout


def write(tree, path, text):
    os.makedirs(os.path.dirname(f"{tree}/{path}"), exist_ok=True)
    if os.path.exists(f"{tree}/{path}"):
        os.unlink(f"{tree}/{path}")  # remove the old file first, because it may be a link to the file of another tree
    with open(f"{tree}/{path}", "w", encoding="utf-8") as file:
        file.write(text)


def edit(path, old, new):
    """Returns a function that makes one change in a tree: it replaces the first `old` in a file by `new`. If `old` is
    "", it appends `new`."""
    def apply(tree):
        with open(f"{tree}/{path}", encoding="utf-8") as file:
            text = file.read()
        assert old in text, (path, old)
        write(tree, path, text.replace(old, new, 1) if old else text + new)
    return apply


def add_room(tree, path, included):
    name = included.split("/")[-1]
    write(tree, f"{path}/README.md", f"May include: {included}.\n")
    write(tree, f"{path}/{path.split('/')[-1]}.h", f'#include "{included}/{name}.h"\n')


def add_inner_room(tree):
    """Adds a room inside another room. Each of the two includes the other."""
    add_room(tree, "daemon/one", "daemon")
    write(tree, "daemon/daemon.h", '#include "daemon/one/one.h"\n')
    edit("daemon/README.md", "May include: ", "May include: daemon/one, ")(tree)


# Each row has a name, a change of the tree, and the output that check-includes must have. LAST in it stands for the
# number of the last line of the file.
MISTAKES = (
    ("an include that the README does not name", edit("src/base/size.c", "", '#include "core/core.h"\n'),
     'src/base/size.c:LAST: includes "core/core.h", but src/base/README.md does not name core'),
    ("an include of an inner room", edit("daemon/main.c", "", '#include "sim/ptx/ptx.h"\n'),
     'daemon/main.c:LAST: includes "sim/ptx/ptx.h", but daemon/README.md does not name sim/ptx'),
    ("an include of a header that is not there", edit("src/wire/wire.c", "", '#include "nowhere/thing.h"\n'),
     'src/wire/wire.c:LAST: "nowhere/thing.h" is in no room of the table'),
    ("public headers in a room outside src", edit("shim/turn.c", "", "#include <virgate/log.h>\n"),
     'shim/turn.c:LAST: includes "virgate/log.h", but shim/README.md does not name virgate'),
    ("a permission for a room below", edit("src/wire/README.md", "May include: base.", "May include: base, core."),
     "names core, which is below it in the table in CONTRIBUTING.md"),
    ("a permission that no file uses", edit("src/system/README.md", "May include: base", "May include: abi, base"),
     "names abi, but no file includes anything of it"),
    ("a permission for no room", edit("src/wire/README.md", "May include: base.", "May include: base, libc."),
     "libc is no room"),
    ("a permission without a reason", edit("cli/README.md", "- ledger: for", "- the ledger: for"),
     'names ledger without a line "- ledger: for ..."'),
    ("a README without permissions", edit("src/wire/README.md", "May include: base.\n", ""),
     'src/wire/README.md:1: has no line "May include: base."'),
    ("permissions in the middle of a line",
     edit("src/wire/README.md", "May include: base.", "It may. May include: base."),
     'write this as a line "May include: NAME, NAME."'),
    ("a room without a row", edit("CONTRIBUTING.md", "| `src/wire/` |", "| wire |"),
     "src/wire:1: the table in CONTRIBUTING.md has no row for this directory"),
    ("a row without a room", edit("CONTRIBUTING.md", "| `src/wire/` |", "| `src/wire/`, `src/none/` |"),
     "there is no directory src/none/"),
    ("another order in the build", edit("meson.build", "subdir('src/base')\nsubdir('src/abi')",
                                        "subdir('src/abi')\nsubdir('src/base')"),
     "src/base comes after src/abi, but is above it in the table"),
    ("a row that is not built", edit("meson.build", "subdir('src/wire')\n", ""),
     "meson.build has no subdir('src/wire')"),
    ("a directory that is built without a row", edit("meson.build", "subdir('src/wire')", "subdir('other')"),
     "other is not in the table in CONTRIBUTING.md"),
    ("rooms that include each other",
     lambda tree: (add_room(tree, "daemon/one", "daemon/two"), add_room(tree, "daemon/two", "daemon/one")),
     "names daemon/two, which includes daemon/one again"),
)


def test_includes(work):
    status, output = run("check-includes")
    check("the source tree includes what the map allows", status == 0 and "rooms include" in output, output)
    clean = f"{work}/clean"
    for room in PRODUCT:
        shutil.copytree(f"{ROOT}/{room}", f"{clean}/{room}", ignore=shutil.ignore_patterns("__pycache__"))
    for room in OTHERS:
        write(clean, f"{room}/README.md", "")
    for file in ("CONTRIBUTING.md", "meson.build"):
        shutil.copy(f"{ROOT}/{file}", clean)
    status, output = run("check-includes", clean)
    check("a copy of the source tree has no mistakes", status == 0, output)
    add_inner_room(clean)
    status, output = run("check-includes", clean)
    check("a room and the room around it include each other", status == 0, output)
    for name, change, expected in MISTAKES:
        tree = f"{work}/changed"
        shutil.copytree(clean, tree, copy_function=os.link)
        change(tree)
        if "LAST" in expected:
            path = expected.split(":")[0]
            with open(f"{tree}/{path}", encoding="utf-8") as file:
                expected = expected.replace("LAST", str(file.read().count("\n")))
        status, output = run("check-includes", tree)
        check(name, status == 1 and expected in output, output)
        shutil.rmtree(tree)


# Each row has a name, a file, its text, and the message of check-style, which is "" if the text is right.
STYLE = (
    ("a forbidden word in a comment of C", "scripts/a.c", "int x; // Removes the folder.\n",
     'scripts/a.c:1: "folder": say'),
    ("a forbidden word over two lines", "scripts/a.h", "int x;\n/* After\n * words on stderr. */\n", "scripts/a.h:2: "),
    ("a forbidden word in Python", "scripts/a.py", '"""Removes the folder."""\n', 'scripts/a.py:1: "folder"'),
    ("a forbidden word in shell", "scripts/a.sh", "x='#' # the folder\n", 'scripts/a.sh:1: "folder"'),
    ("a forbidden word in a name", "scripts/a.c", "int a;\nint find_folder;\n",
     'scripts/a.c:2: "folder" in the name find_'),
    ("a long line", "scripts/a.c", "\t" * 14 + "int xxxxxx;\n", "scripts/a.c:1: more than 120 columns"),
    ("a line of 120 columns", "scripts/a.c", "\t" * 14 + "int xxx;\n", ""),
    ("a word in a string", "scripts/a.c", 'const char *x = "// folder";\n', ""),
    ("a word in a string of Python", "scripts/a.py", 'x = "folder"\ny = f("""the folder""")\n', ""),
    ("a name of the public interface", "scripts/a.c", "int x = VG_WIRE_HELLO;\n", ""),
    ("a part of a longer word", "scripts/a.c", "// The scaffolder and the shellout.\n", ""),
    ("a pronoun that is no subject", "scripts/a.c", "// Returns the user who owns the file.\n", ""),
    ("a file that is no source", "scripts/a.txt", "folder\n", ""),
)


def test_style(work):
    status, output = run("check-style")
    check("the source tree has no mistakes of style", status == 0, output)
    for name, path, text, expected in STYLE:
        tree = f"{work}/style"
        write(tree, "scripts/README.md", "")
        write(tree, path, text)
        status, output = run("check-style", tree)
        check(name, (status == 1 and expected in output) if expected else status == 0, output)
        check("without a history, subjects are skipped", "subjects of commits: skipped" in output, output)
        shutil.rmtree(tree)


def test_subjects(work):
    tree = f"{work}/history"
    if not shutil.which("git"):
        print("skip subjects of commits: no git")
        return

    def commit(subject):
        subprocess.run(["git", "-C", tree, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q",
                        "--allow-empty", "-m", subject], check=True)
    write(tree, "README.md", "")
    subprocess.run(["git", "init", "-q", tree], check=True)
    commit("what was before the script is not read")
    write(tree, "scripts/check-style", "")
    subprocess.run(["git", "-C", tree, "add", "scripts"], check=True)
    commit("scripts: check the style")
    commit("daemon, sim: share one simulated GPU between users")
    status, output = run("check-style", tree)
    check("good subjects", status == 0, output)
    for subject in ("share one simulated GPU", "daemon: shared one GPU", "daemon: shares one GPU",
                    "daemon: who is told", "daemon: sharing", "daemon: Share one GPU"):
        commit(subject)
        status, output = run("check-style", tree)
        check("a bad subject", status == 1 and f'"area: imperative": {subject}\n' in output, output)
        subprocess.run(["git", "-C", tree, "reset", "-q", "--soft", "HEAD~1"], check=True)
    commit("daemon: " + "share " * 11)
    status, output = run("check-style", tree)
    check("a long subject", status == 1 and "more than 72 characters" in output, output)


def test_counts():
    status, output = run("count-tokens")
    rows = dict(line.split() for line in output.splitlines()[1:])
    rooms = sum(int(count) for room, count in rows.items() if room not in ("product", "tests"))
    check("the rooms add up to the product", status == 0 and rooms == int(rows["product"]) > 0, output)
    sys.path.insert(0, f"{ROOT}/scripts")
    import source  # pylint: disable=import-error,import-outside-toplevel
    code = '#include <a.h>\n/* one\n */ int x = \'"\' + 0x1p-3 + a->b; // two\nchar *s = "/*";\n'
    check("tokens of C", source.count_code(code) == 20, source.count_code(code))


def test_samples():
    first, second = run("sample-comments", "cli"), run("sample-comments", "cli")
    check("the same comments for the same seed", first == second and first[0] == 0, first)
    places = [line for line in first[1].splitlines() if line.startswith("cli/") and line.split(":")[-1].isdigit()]
    check("50 comments with FILE:LINE", len(places) == 50, first[1])
    check("other comments for another seed", run("sample-comments", "cli", "1")[1] != first[1])
    check("a directory without comments", run("sample-comments", "docs/none")[0] == 1)


def main():
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory(prefix="virgate-test-") as work:
        test_includes(work)
        test_style(work)
        test_subjects(work)
    test_counts()
    test_samples()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


sys.exit(main())
