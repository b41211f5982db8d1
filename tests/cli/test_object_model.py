#!/usr/bin/env python3
"""test_object_model.py SOURCE LIBRARY HEADER...: checks that the names in docs/object-model.md exist: functions are
exported, fields, types and constants declared. Every class of the reference and every function of the object model must
have a row, and no row may occur twice."""

import re
import sys

sys.dont_write_bytecode = True
import headers  # noqa: E402
import mapping  # noqa: E402
from mapping import check  # noqa: E402

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
MANAGER = ("balancer.h", "compute.h", "manager.h", "memory_space.h", "monitor.h", "operation.h")
OTHERS = ("audit.h", "broker.h", "journal.h", "profile.h", "seal.h", "share.h", "vgpu.h", "vram.h", "status.h", "log.h",
          "version.h") + MANAGER


def main():
    text = "\n".join(headers.text_of(HEADERS).values())
    found = mapping.check_document(f"{SOURCE}/docs/object-model.md", LIBRARY, text, apart=("the pointer",))
    words = set(re.findall(r"\w+", " ".join(cells[0] for cells in found)))
    check("every class of the reference has a row", [c for c in CLASSES if c not in words])
    model = "".join(t for path, t in headers.text_of(HEADERS).items() if not path.endswith(OTHERS))
    check("every function of the object model has a row", sorted(headers.functions(model) - mapping.named(found)))
    properties = headers.listed(text, "VG_DEVICE_PROPERTY_LIST")
    check("every property of a device has a row", [p for p in properties or ["none"] if p.lower() not in words])
    return mapping.finish()


if __name__ == "__main__":
    sys.exit(main())
