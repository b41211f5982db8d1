// Provides a small device for the tests of the interpreter: memory at a fixed device address, and one module. One
// thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptx.h"
#include "test.h"

enum { MACHINE_BYTES = 1 << 20, MACHINE_SHIFT = 12, MACHINE_IMAGE = 512 << 10, MACHINE_HEAP = 768 << 10 };
#define MACHINE_BASE 0x700000000000ull

struct machine {
	struct ptx_module *module;
	struct ptx_fault fault;
	struct ptx_launch launch;
	struct ptx_space space;
	uint8_t permission[MACHINE_BYTES >> MACHINE_SHIFT];
	char log_text[2048], printed[4096];
	struct ptx_log log;
	uint64_t parameters[3];
	_Alignas(4096) uint8_t memory[MACHINE_BYTES];
};

static inline void machine_print(void *context, const char *text, size_t length)
{
	struct machine *machine = context;
	size_t used = strlen(machine->printed);

	if (used + length < sizeof machine->printed)
		memcpy(machine->printed + used, text, length);
}

static inline struct machine *machine_create(void)
{
	struct machine *machine = aligned_alloc(4096, (sizeof *machine + 4095) & ~4095ul);

	memset(machine, 0, sizeof *machine);
	memset(machine->permission, 3, sizeof machine->permission);
	machine->log = (struct ptx_log){.text = machine->log_text, .capacity = sizeof machine->log_text};
	machine->space = (struct ptx_space){.base = MACHINE_BASE,
					    .size = MACHINE_BYTES,
					    .offset = (intptr_t)((uintptr_t)machine->memory - MACHINE_BASE),
					    .permission = machine->permission,
					    .granule_shift = MACHINE_SHIFT};
	machine->launch = (struct ptx_launch){.grid = {1, 1, 1},
					      .block = {32, 1, 1},
					      .space = &machine->space,
					      .print = machine_print,
					      .print_context = machine,
					      .deadlock_ms = 200,
					      .sm_count = 4};
	return machine;
}

static inline void machine_destroy(struct machine *machine)
{
	ptx_module_destroy(machine->module);
	ptx_heap_destroy(machine->launch.heap);
	free(machine);
}

// Loads a module and binds its variables at MACHINE_IMAGE. Returns an enum ptx_load_status.
static inline int machine_load(struct machine *machine, const char *text)
{
	size_t length = strlen(text);
	int r = ptx_module_load(&text, &length, 1, 90, &machine->log, &machine->module);

	if (r == 0)
		r = ptx_module_bind(machine->module, MACHINE_BASE + MACHINE_IMAGE, machine->memory + MACHINE_IMAGE);
	return r;
}

// Runs a kernel with three 64-bit parameters. Returns the result of ptx_run(), or -1 if the kernel does not exist.
static inline int machine_run(struct machine *machine, const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	machine->launch.function = ptx_module_function(machine->module, name);
	memcpy(machine->parameters, (uint64_t[]){a, b, c}, sizeof machine->parameters);
	machine->launch.parameters = machine->parameters;
	if (!machine->launch.function)
		return -1;
	memset(&machine->fault, 0, sizeof machine->fault);
	return ptx_run(&machine->launch, &machine->fault);
}

static inline uint32_t *machine_words(struct machine *machine)
{
	return (uint32_t *)machine->memory;
}
#define WORD(i) ((long long)machine_words(machine)[i])

// Creates a machine with a module that must load.
static inline struct machine *machine_with(const char *text)
{
	struct machine *machine = machine_create();

	if (machine_load(machine, text))
		FAIL("does not load: %s", machine->log_text);
	return machine;
}

// Runs kernel "k", which must end without a fault.
static inline void machine_run_well(struct machine *machine)
{
	int r = machine_run(machine, "k", MACHINE_BASE, MACHINE_BASE + 65536, 100);

	if (r)
		FAIL("%d %s", r, machine->fault.text);
}

// Runs kernel "k", which must end with this fault.
static inline struct machine *machine_run_to_fault(struct machine *machine, enum ptx_fault_kind kind)
{
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, MACHINE_BASE + 65536, 0), 1);
	if (machine->fault.kind != kind)
		FAIL("kind %d, not %d: %s", machine->fault.kind, kind, machine->fault.text);
	return machine;
}

// Runs one block of kernel "k", which must end without a fault.
static inline struct machine *machine_run_block(const char *text, uint32_t threads)
{
	struct machine *machine = machine_with(text);

	machine->launch.block[0] = threads;
	machine_run_well(machine);
	return machine;
}

#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"
// Defines a kernel that loads its first parameter into %rd1, and the number of its thread into %r0. The body begins in
// line 9 of the text.
#define KERNEL(name, body)                                                                                         \
	HEAD ".visible .entry " name "(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n"                       \
	     ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<8>; .reg .f64 " \
	     "%fd<8>;\n"                                                                                           \
	     "ld.param.u64 %rd1, [p0];\n"                                                                          \
	     "mov.u32 %r0, %tid.x;\n" body "\nret;\n}\n"
// Stores a register in the word of this thread: the memory at %rd1 has a word for each thread.
#define STORE_WORD(r) "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3;\nst.global.u32 [%rd4], " r ";"
