#!/usr/bin/env python3
"""test_null.py LIBRARY HEADER...: checks that no function of the library crashes when arguments are missing. The test
calls each function with zeros only. If the first argument is an object, it also calls it with a valid object and zeros
after it. Every call has its own process."""

import ctypes
import os
import re
import signal
import sys

LIBRARY, HEADERS = sys.argv[1], sys.argv[2:]
PTX = b".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry one(.param .u32 n)\n{\n\tret;\n}\n"
ZEROS = [ctypes.c_void_p(0)] * 10
SECONDS = 20


def declared():
    """Returns {function: (type of its result, type of its first argument)}."""
    text = "".join(open(path, encoding="utf-8").read() for path in HEADERS)
    found = re.findall(r"^VG_PUBLIC ([^(;]*?)\b(vg_[a-z0-9_]+)\(([^;]*?)\);", text, re.MULTILINE)
    return {name: (result.strip(), arguments.split(",")[0].strip()) for result, name, arguments in found}


class Objects:
    """Creates a valid object of a given kind, such as a stream."""

    def __init__(self, library):
        self.library = library

    def make(self, function, *arguments):
        made = ctypes.c_void_p()
        if getattr(self.library, function)(*arguments, ctypes.byref(made)):
            raise RuntimeError(f"{function} failed")
        return made

    def get(self, kind):
        return getattr(self, kind)() if hasattr(Objects, kind) and kind not in ("get", "make") else None

    def device(self):
        return self.make("vg_device_get", 0)

    def context(self):
        return self.make("vg_context_primary", self.device())

    def stream(self):
        return self.make("vg_stream_create", self.context(), None)

    def event(self):
        return self.make("vg_event_create", self.context(), None)

    def memory_resource(self):
        return self.make("vg_device_pool_create", self.device(), None)

    def buffer(self):
        return self.make("vg_buffer_create", self.memory_resource(), ctypes.c_size_t(4096), self.stream())

    def sm_resource(self):
        return self.make("vg_device_sm_resource", self.device())

    def object_code(self):
        return self.make("vg_object_code_create", 2, PTX, ctypes.c_size_t(len(PTX)), None)

    def kernel(self):
        return self.make("vg_object_code_kernel", self.object_code(), b"one")

    def argument_list(self):
        self.number = ctypes.c_uint32()  # stored here, since the list keeps the number's address
        argument = (ctypes.c_void_p * 2)(ctypes.addressof(self.number), 4)
        return self.make("vg_argument_list_create", self.kernel(), argument, ctypes.c_size_t(1))

    def program(self):
        return self.make("vg_program_create", 2, PTX, ctypes.c_size_t(len(PTX)), None)

    def compile_cache(self):
        return self.make("vg_compile_cache_open", None)

    def graph_definition(self):
        return self.make("vg_graph_definition_create", self.context())

    def graph_node(self):
        return self.make("vg_graph_add_empty", self.graph_definition(), None, ctypes.c_size_t(0))

    def graph_builder(self):
        return self.make("vg_graph_builder_create", self.context())

    def graph(self):
        return self.make("vg_graph_definition_instantiate", self.graph_definition(), None)

    def physical_memory(self):
        return self.make("vg_physical_memory_create", self.device(), ctypes.c_size_t(1 << 21), None)

    def address_range(self):
        return self.make("vg_address_range_create", ctypes.c_size_t(1 << 21), ctypes.c_size_t(0), ctypes.c_uint64(0))

    def mapping(self):
        return self.make("vg_mapping_create", self.address_range(), ctypes.c_size_t(0), self.physical_memory())

    def vram(self):
        return self.make("vg_vram_open", None)

    def manager(self):
        return self.make("vg_manager_create", self.device(), None)

    def virtual_gpu(self):
        # the fields are the struct's size, no id, no name, and a memory limit
        options = (ctypes.c_uint64 * 4)(32, 0, 0, 1 << 26)
        return self.make("vg_virtual_gpu_create", self.manager(), options)

    def monitor(self):
        return self.make("vg_monitor_create", self.manager(), None)

    def balancer(self):
        managers = (ctypes.c_void_p * 1)(self.manager())
        return self.make("vg_balancer_create", managers, ctypes.c_size_t(1), None)

    def process(self):
        return self.make("vg_process_open", os.getppid())

    def gpu(self):
        return self.make("vg_gpu_by_index", 0)


def crash(name, first):
    """Returns why the process of the call failed, or "" if it succeeded."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        status = 1
        try:
            library = ctypes.CDLL(LIBRARY)
            given = Objects(library).get(first) if first else ctypes.c_void_p(0)
            getattr(library, name)(given, *ZEROS[1:])
            status = 0
        except BaseException as problem:  # reported to the parent
            print(f"{name}: {problem}", flush=True)
        os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "" if os.WEXITSTATUS(status) == 0 else "the call could not be made"


def main():
    failed = passed = 0
    for name, (_, argument) in sorted(declared().items()):
        kind = re.fullmatch(r"(?:const )?struct vg_(\w+) \*\w+", argument)
        made = kind.group(1) if kind and hasattr(Objects, kind.group(1)) else None
        for first in [None, made] if made else [None]:
            why = crash(name, first)
            if why:
                print(f"FAIL {name}({first or ''}): {why}")
                failed += 1
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
