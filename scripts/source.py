"""Finds the source files of a tree, their tokens and their comments."""

import os
import re
import subprocess

C_ENDS = (".c", ".h", ".cu", ".cuh", ".inc", ".def", ".S")
C_TOKEN = re.compile(r"""
    (?P<comment>//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z))
  | (?P<literal>(?:L|u8|u|U)?"(?:[^"\\\n]|\\.)*"|(?:L|u8|u|U)?'(?:[^'\\\n]|\\.)*'|(?<=include\ )<[^>\n]+>)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)
  | (?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|&&|\|\||\#\#|[-+*/%&|^<>=!]=|[^\s\\])
""", re.X | re.S)


def root():
    """Returns the source tree that this script belongs to."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_git(tree, *arguments, **options):
    """Returns what git prints; None if it fails or there is no git."""
    try:
        done = subprocess.run(["git", "-C", tree, *arguments], capture_output=True, **options)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def list_files(tree):
    """Returns the tracked files of a source tree; without git, those below its directories that have a README.md."""
    # A tree that stands inside another repository has no tracked files of its own.
    top = run_git(tree, "rev-parse", "--show-toplevel", text=True)
    if top and os.path.realpath(top.strip()) == os.path.realpath(tree):
        listed = run_git(tree, "ls-files", "-z", text=True).split("\0")
        return sorted(path for path in listed if path and os.path.isfile(os.path.join(tree, path)))
    found = []
    for entry in os.scandir(tree):
        if entry.is_dir() and os.path.exists(f"{entry.path}/README.md"):
            for directory, names, files in os.walk(entry.path):
                names[:] = [name for name in names if name != "__pycache__"]
                found += [os.path.relpath(os.path.join(directory, file), tree) for file in files]
    return sorted(found)


def read_text(tree, path):
    with open(os.path.join(tree, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def language(path, text):
    """Returns "c", "python" or "shell"; None for anything else."""
    if path.endswith(C_ENDS):
        return "c"
    first = text[:80].split("\n", 1)[0]
    if path.endswith(".py") or (first.startswith("#!") and "python" in first):
        return "python"
    if path.endswith(".sh") or re.match(r"#!.*\b(ba)?sh\b", first):
        return "shell"
    return None


def tokens(text):
    """Yields the kind, the text and the offset of each token of C."""
    for match in C_TOKEN.finditer(text):
        yield match.lastgroup, match[0], match.start()


def count_code(text):
    return sum(kind != "comment" for kind, _, _ in tokens(text))


def line_comments(text, shell):
    """Yields the offset and the text of each `#` comment and each docstring."""
    quoted = r"'[^']*'|\"(?:[^\"\\]|\\.)*\""
    if not shell:
        quoted = r"(?P<doc>(?<![=(,\[] )(?<![=(,\[])\"\"\"(?:[^\\]|\\.)*?\"\"\")|'''.*?'''|\"\"\".*?\"\"\"" \
            r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
    for match in re.finditer(quoted + r"|\\.|(?P<comment>(?:(?<=\s)|^)#[^\n]*)", text, re.S | re.M):
        kind = match.lastgroup
        if kind and not match[0].startswith("#!"):
            yield match.start(), match[0]


def comments(path, text):
    """Returns (line, text, code) for each comment. Consecutive lines of comments are one comment. `code` is the line of
    code with the comment, or the first line after it; of a docstring, the line before it."""
    kind = language(path, text)
    lines = text.split("\n")
    found = []  # [first line, last line, column, stands alone, texts]
    if kind == "c":
        pieces = [(at, piece) for name, piece, at in tokens(text) if name == "comment"]
    elif kind:
        pieces = line_comments(text, kind == "shell")
    else:
        pieces = []
    for at, piece in pieces:
        first = text.count("\n", 0, at)
        column = at - (text.rfind("\n", 0, at) + 1)
        column = len(lines[first][:column].expandtabs(8))
        alone = not lines[first][:at - (text.rfind("\n", 0, at) + 1)].strip()
        last = found[-1] if found else None
        if last and alone and last[1] == first - 1 and last[2] == column and not piece.startswith(("/*", '"')):
            last[1] = first
            last[4].append(piece)
        else:
            found.append([first, first + piece.count("\n"), column, alone, [piece]])
    result = []
    for first, last, _, alone, pieces in found:
        code = lines[first]
        if pieces[0].startswith('"'):
            code = lines[first - 1] if first else ""  # a docstring belongs to the line before it
        elif alone:
            code = next((line for line in lines[last + 1:] if line.strip()), "")
        result.append((first + 1, "\n".join(pieces), code.strip()))
    return result


def words_of(comment):
    """Returns the words of a comment on one line, without the marks around them."""
    text = re.sub(r"^\s*(?://+|/\*+|\*/|\*|#+)", " ", comment, flags=re.M)
    return " ".join(re.sub(r"\*/\s*$|\"\"\"", " ", text).split())
