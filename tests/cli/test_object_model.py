#!/usr/bin/env python3
"""test_object_model.py SOURCE LIBRARY HEADER...: what docs/object-model.md names is there: functions are exported,
fields, types and constants are declared; every class of the reference has a row, and every function of the object
model one; no row stands twice."""

import re
import subprocess
import sys

sys.dont_write_bytecode = True
import headers  # noqa: E402

SOURCE, LIBRARY, HEADERS = sys.argv[1], sys.argv[2], sys.argv[3:]
CLASSES = """Device DeviceProperties DeviceResources SMResource WorkqueueResource Context Stream Event launch
LaunchConfig StreamOptions EventOptions ContextOptions SMResourceOptions WorkqueueResourceOptions
LEGACY_DEFAULT_STREAM PER_THREAD_DEFAULT_STREAM Buffer MemoryResource DeviceMemoryResource
GraphMemoryResource PinnedMemoryResource ManagedMemoryResource LegacyPinnedMemoryResource
VirtualMemoryResource DeviceMemoryResourceOptions PinnedMemoryResourceOptions ManagedMemoryResourceOptions
VirtualMemoryResourceOptions Graph GraphBuilder GraphDefinition GraphNode GraphCondition GraphAllocOptions
GraphCompleteOptions GraphDebugPrintOptions EmptyNode KernelNode AllocNode FreeNode MemsetNode MemcpyNode
ChildGraphNode EventRecordNode EventWaitNode HostCallbackNode ConditionalNode IfNode IfElseNode WhileNode
SwitchNode GraphicsResource TensorMapDescriptor TensorMapDescriptorOptions Program Linker ObjectCode Kernel
ProgramOptions LinkerOptions Process StridedMemoryView args_viewable_as_strided_memory CUDAError
get_driver_version get_driver_version_full get_driver_branch get_num_devices get_nvml_version
get_process_name get_topology_common_ancestor get_p2p_status register_events NvlinkInfo""".split()
counts = {"passed": 0, "failed": 0}


def check(name, problems):
    counts["failed" if problems else "passed"] += 1
    print(f"FAIL {name}: {problems}" if problems else f"ok {name}")


def rows():
    """(line number, reference, here, note) of every row."""
    heads = 0
    with open(f"{SOURCE}/docs/object-model.md", encoding="utf-8") as document:
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


def main():
    text = "\n".join(headers.text_of(HEADERS).values())
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" T (vg_\w+)", symbols))
    shape, wrong, twice, empty, seen = [], [], [], [], set()
    for number, cells in rows():
        if len(cells) != 3:
            shape.append(f"line {number}: {len(cells)} cells")
            continue
        reference, here, note = cells
        names = re.findall(r"`([^`]*)`", here)
        names += [name for name in re.findall(r"`([^`]*)`", note) if name.startswith(("vg_", "VG_"))]
        wrong += [f"line {number}: {name}: {why}" for name in names if (why := unknown(name, exported, text))]
        if not re.findall(r"`[^`]*`", here) and not (here == "the pointer" or (here == "–" and note)):
            empty.append(f"line {number}")
        if reference in seen:
            twice.append(f"line {number}: {reference}")
        seen.add(reference)
    check("every row has three cells", shape)
    check("every name is the library's", wrong)
    check("what is not there has a reason", empty)
    check("no row stands twice", twice)
    words = set(re.findall(r"\w+", " ".join(seen)))
    check("every class of the reference has a row", [c for c in CLASSES if c not in words])
    others = ("audit.h", "broker.h", "seal.h", "share.h", "vgpu.h", "vram.h", "status.h", "log.h", "version.h")
    model = "".join(t for path, t in headers.text_of(HEADERS).items() if not path.endswith(others))
    named = set().union(*(re.findall(r"vg_\w+(?=\(\)`)", " ".join(cells[1:])) for _, cells in rows()))
    check("every function of the object model has a row", sorted(headers.functions(model) - named))
    properties = headers.listed(text, "VG_DEVICE_PROPERTY_LIST")
    check("every property of a device has a row", [p for p in properties or ["none"] if p.lower() not in words])
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
