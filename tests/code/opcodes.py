#!/usr/bin/env python3
"""opcodes.py OPCODES_H CUBIN...: checks the table of src/code/opcodes.h against what ptxas made of the kernels of
instructions.py.

A row describes one opcode. On each architecture of a tensor-core row, at least one kernel must contain its opcode.
Kernels with tensor-core instructions (t?1…) must contain the opcode of such a row; other kernels must not. The other
rows describe scalar instructions, with a mask of bits. They are checked in kernels without tensor-core instructions.
Kernels with and without mixed precision must contain such an instruction. One of the bits must be set in a kernel with
mixed precision, and in none without."""
import re
import struct
import sys

ALWAYS = (1 << 64) - 1


def read_table(path):
    text = open(path).read()
    groups = {}
    for name, value in re.findall(r"CODE_(\w+) = ([^,]+),", text):
        groups[name] = eval(re.sub(r"CODE_(\w+)", lambda m: str(groups[m[1]]), value))
    architectures = {int(sm): groups[group] for group, sm in re.findall(r"X\((\w+), (\d+)\)", text)}
    rows = []
    for bits, name, tensor, mixed, where in re.findall(
            r'X\((0x\w+), "([\w ]+)", (true|false), (\w+), ([^)]+)\)', text):
        mixed = {"CODE_ALWAYS": ALWAYS, "CODE_NEVER": 0}.get(mixed) if mixed.startswith("CODE") else int(mixed, 16)
        mask = eval(re.sub(r"CODE_(\w+)", lambda m: str(groups[m[1]]), where))
        rows.append((int(bits, 16), name, tensor == "true", mixed, mask))
    return architectures, rows


def read_kernels(path):
    """Returns the architecture of a cubin, and the name and the instructions [(low, high)…] of each kernel."""
    data = open(path, "rb").read()
    offset, = struct.unpack_from("<Q", data, 0x28)
    flags, = struct.unpack_from("<I", data, 0x30)
    count, names = struct.unpack_from("<HH", data, 0x3C)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i) for i in range(count)]
    kernels = []
    for section in sections:
        start = sections[names][4] + section[0]
        name = data[start:data.index(b"\0", start)].decode()
        if name.startswith(".text."):
            code = data[section[4]:section[4] + section[5]]
            kernels.append((name[len(".text."):], list(struct.iter_unpack("<QQ", code))))
    return flags >> 8 & 0xFF, kernels


def check(path, architectures, rows):
    architecture, kernels = read_kernels(path)
    group = architectures.get(architecture)
    if not group:
        return [f"{path}: sm_{architecture} is not in the table"]
    known = {bits for bits, _, tensor, _, groups in rows if tensor and groups & group}
    wrong, held = [], set()
    for name, code in kernels:
        its = {low & 0x1FF for low, _ in code} & known
        held |= its
        if bool(its) != (name[2] == "1"):
            wrong.append(f"sm_{architecture}: {name} holds {' '.join(map(hex, its)) or 'no row of the table'}")
    wrong += [f"sm_{architecture}: no kernel holds 0x{bits:03x}" for bits in known - held]
    for bits, name, tensor, mask, groups in rows:
        if tensor or not groups & group:
            continue
        for mixed in (True, False):
            seen = [bool(high & mask) for kernel, code in kernels for low, high in code
                    if low & 0x1FF == bits and (kernel[5] == "1") == mixed and kernel[2] == "0"]
            if not seen or (mixed and not any(seen)) or (not mixed and any(seen)):
                wrong.append(f"sm_{architecture}: the bits 0x{mask:x} of {name} do not tell mixed ones from others")
    return wrong


def main():
    architectures, rows = read_table(sys.argv[1])
    wrong, checked = [], set()
    for path in sys.argv[2:]:
        wrong += check(path, architectures, rows)
        checked.add(read_kernels(path)[0])
    wrong += [f"sm_{architecture} is in the table, but no cubin is for it"
              for architecture in set(architectures) - checked]
    if not architectures or not rows:
        wrong.append(f"{sys.argv[1]} has no table")
    for line in wrong:
        print("FAIL " + line)
    print(f"{len(checked)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


sys.exit(main())
