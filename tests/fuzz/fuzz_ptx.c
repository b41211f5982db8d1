// Fuzzes the interpreter of PTX with arbitrary bytes. It must parse, link and decode them, or reject them. A module
// that loads is run for a moment, unless it needs much memory.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 64 << 10 };

static void *outside(void *context, uint64_t address, size_t length, bool write)
{
	(void)context;
	(void)address;
	(void)length;
	(void)write;
	return NULL;
}

static void run_functions(struct ptx_module *module, uint8_t *memory)
{
	static volatile int cancel = 1; // cancels a launch after its threads have run once
	static uint8_t permission[MEMORY >> 12], parameters[4096];
	struct ptx_space space = {.base = 1 << 20,
				  .size = MEMORY,
				  .offset = (intptr_t)memory - (1 << 20),
				  .permission = permission,
				  .granule_shift = 12,
				  .other = outside};
	struct ptx_fault fault;

	memset(permission, 3, sizeof permission);
	for (size_t i = 0; i < ptx_module_function_count(module) && i < 4; i++) {
		const struct ptx_function *function = ptx_module_function_at(module, i);
		const struct ptx_function_info *info = ptx_function_info(function);
		struct ptx_launch launch = {.function = function,
					    .grid = {2, 1, 1},
					    .block = {33, 1, 1},
					    .space = &space,
					    .parameters = parameters,
					    .stack_bytes = 4096,
					    .cancel = &cancel};
		if (info->parameter_bytes > sizeof parameters || ptx_function_refusal(function))
			continue;
		(void)ptx_run(&launch, &fault);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t memory[MEMORY] __attribute__((aligned(4096))), managed[MEMORY];
	char log_text[256];
	struct ptx_log log = {log_text, sizeof log_text, 0};
	struct ptx_module *module;
	const char *text = (const char *)data;

	if (ptx_module_load(&text, &size, 1, 90, &log, &module))
		return 0;
	if (ptx_module_managed_size(module) <= MEMORY)
		ptx_module_bind_managed(module, (uintptr_t)managed, false);
	if (ptx_module_image_size(module) <= MEMORY && ptx_module_image_align(module) <= 4096 &&
	    ptx_module_bind(module, 1 << 20, memory) == 0)
		run_functions(module, memory);
	ptx_module_destroy(module);
	return 0;
}
