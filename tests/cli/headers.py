"""Finds what the public headers declare, for tests of documents."""

import re


def text_of(paths):
    return {path: open(path, encoding="utf-8").read() for path in paths}


def functions(text):
    return set(re.findall(r"^VG_PUBLIC [^(]*?\b(vg_[a-z0-9_]+)\(", text, re.MULTILINE))


def fields(text):
    """Returns the fields of each structure: {"vg_stream_options": {"size", "blocking", …}, …}"""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    found = {}
    for name, body in re.findall(r"^struct (vg_\w+) \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        members = found.setdefault(name, set())
        for member in body.split(";"):
            pointed = re.search(r"\(\*(\w+)\)", member)
            if pointed:
                members.add(pointed.group(1))
            else:
                members.update(re.findall(r"\b(\w+)(?:\[\w+(?: - \d+)?\])*\s*(?:,|$)", member.strip()))
    return found


def listed(text, macro):
    """Returns the first argument of each X(…) in the X macro."""
    rows = re.findall(rf"^#define {macro}\(X\)(.*?[^\\])\n", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"\bX\((\w+),", " ".join(rows))


def constants(text):
    """Returns the names of enumerators and macros, also of enumerators that an X macro defines."""
    found = set(re.findall(r"^#define (VG_\w+)", text, re.MULTILINE))
    for body in re.findall(r"^enum(?: vg_\w+)? \{(.*?)\};", text, re.MULTILINE | re.DOTALL):
        found.update(re.findall(r"\b(VG_\w+)\b(?!##)", re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)))
    for _, prefix, macro in re.findall(r"#define X\((\w+)[^)]*\) (VG_\w*?)##\1\b.*\n\s*(VG_\w+_LIST)\(X\)", text):
        found.update(prefix + name for name in listed(text, macro))
    return found


def types(text):
    return {f"{kind} {name}" for kind, name in re.findall(r"^(enum|struct) (vg_\w+)", text, re.MULTILINE)}
