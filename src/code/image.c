#include "code/fatbin.h"
#include "code/inspect.h"
#include "code/module.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/fatbin.h"

struct code_image {
	struct code_module *modules;
	size_t count;
};

static int read_single(struct code_image *image, const void *data, size_t size, bool elf)
{
	image->modules = calloc(1, sizeof *image->modules);
	if (!image->modules)
		return -ENOMEM;
	image->count = 1;
	return elf ? code_read_cubin(image->modules, data, size)
		   : code_read_ptx(image->modules, data, size ? strnlen(data, size) : 0);
}

int code_image_create(const void *data, size_t size, unsigned architecture, struct code_image **ret_image)
{
	uint32_t magic = 0;
	int r;

	struct code_image *image = calloc(1, sizeof *image);
	if (!image)
		return -ENOMEM;
	if (size >= sizeof magic)
		memcpy(&magic, data, sizeof magic);
	if (magic == FATBIN_MAGIC)
		r = code_read_fatbin(data, size, architecture, &image->modules, &image->count);
	else
		r = read_single(image, data, size, magic == 0x464c457f);
	if (r)
		code_image_destroy(image);
	else
		*ret_image = image;
	return r;
}

void code_image_destroy(struct code_image *image)
{
	if (!image)
		return;
	for (size_t i = 0; i < image->count; i++)
		code_module_finish(&image->modules[i]);
	free(image->modules);
	free(image);
}

// Finds a kernel by its index among the kernels of all modules. Does not count a kernel if an earlier module has a
// function of the same name. If the index is too high, sets *ret_count to the number of kernels, and returns NULL.
static const struct code_function *find_kernel(const struct code_image *image, size_t index, size_t *ret_count)
{
	size_t count = 0;

	for (size_t m = 0; m < image->count; m++) {
		const struct code_module *module = &image->modules[m];
		for (size_t i = 0; i < module->count; i++) {
			bool again = !module->functions[i].is_kernel;
			const char *name = module->functions[i].name;
			for (size_t before = 0; before < m && !again; before++)
				again = code_module_find(&image->modules[before], name, strlen(name)) != NULL;
			if (!again && count++ == index)
				return &module->functions[i];
		}
	}
	*ret_count = count;
	return NULL;
}

size_t code_image_kernel_count(const struct code_image *image)
{
	size_t count = 0;

	find_kernel(image, SIZE_MAX, &count);
	return count;
}

const char *code_image_kernel(const struct code_image *image, size_t index)
{
	size_t count;
	const struct code_function *function = find_kernel(image, index, &count);

	return function ? function->name : NULL;
}

struct walk {
	const struct code_module *module;
	bool *reached, all;
	size_t *open, open_count; // `open`: functions whose calls the walk must still follow
};

static void mark_reached(struct walk *walk, size_t index)
{
	if (walk->reached[index])
		return;
	walk->reached[index] = true;
	walk->open[walk->open_count++] = index;
}

// Marks all functions that a kernel may call, directly or indirectly.
static void follow_calls(struct walk *walk, size_t kernel)
{
	const struct code_module *module = walk->module;
	const char *name = module->functions[kernel].name;

	for (size_t i = kernel; i < module->count && strcmp(module->functions[i].name, name) == 0; i++)
		// Only invalid code, which an attacker may write, has several functions with one name.
		mark_reached(walk, i);
	for (size_t i = 0; i < module->count; i++)
		if (module->functions[i].is_called_by_all)
			mark_reached(walk, i);
	while (walk->open_count) {
		const struct code_function *function = &module->functions[walk->open[--walk->open_count]];
		for (size_t i = 0; i < function->call_count; i++)
			mark_reached(walk, module->calls[function->first_call + i]);
		for (size_t i = 0; function->has_indirect_calls && !walk->all && i < module->count; i++)
			mark_reached(walk, i);
		walk->all |= function->has_indirect_calls;
	}
}

// Changes the answer CODE_CLEAN to CODE_UNKNOWN. CODE_FOUND stays, because the instruction was seen.
static void set_unknown(struct code_report *report, const char *reason)
{
	if (report->tensor == CODE_CLEAN)
		report->tensor = CODE_UNKNOWN;
	if (report->mixed == CODE_CLEAN)
		report->mixed = CODE_UNKNOWN;
	if (!report->reason[0])
		snprintf(report->reason, sizeof report->reason, "%s", reason);
}

static void add_to_report(struct code_report *report, const struct code_function *function)
{
	char reason[128];

	if (function->tensor[0]) {
		report->tensor = CODE_FOUND;
		code_note(report->tensor_instruction, function->tensor, strlen(function->tensor));
	}
	if (function->mixed[0]) {
		report->mixed = CODE_FOUND;
		code_note(report->mixed_instruction, function->mixed, strlen(function->mixed));
	}
	if (!function->is_missing)
		return;
	snprintf(reason, sizeof reason, "it may call \"%.64s\", which is not in this code", function->name);
	set_unknown(report, reason);
}

static int inspect_module(const struct code_module *module, const char *kernel, bool *found, struct code_report *report)
{
	const struct code_function *function = code_module_find(module, kernel, strlen(kernel));

	if (!function || !function->is_kernel) {
		if (module->count == 0 && module->reason[0]) {
			set_unknown(report, module->reason);
			*found = true;
		}
		return 0;
	}
	*found = true;
	struct walk walk = {.module = module,
			    .reached = calloc(module->count, sizeof *walk.reached),
			    .open = calloc(module->count, sizeof *walk.open)};
	int r = -ENOMEM;
	if (!walk.reached || !walk.open)
		goto out;
	follow_calls(&walk, (size_t)(function - module->functions));
	for (size_t i = 0; i < module->count; i++)
		if (walk.reached[i])
			add_to_report(report, &module->functions[i]);
	if (module->reason[0])
		set_unknown(report, module->reason);
	r = 0;
out:
	free(walk.reached);
	free(walk.open);
	return r;
}

int code_image_inspect(const struct code_image *image, const char *kernel, struct code_report *ret_report)
{
	struct code_report report = {CODE_CLEAN, CODE_CLEAN};
	bool found = false;
	int r = 0;

	for (size_t i = 0; i < image->count && r == 0; i++)
		r = inspect_module(&image->modules[i], kernel, &found, &report);
	if (r || !found)
		return r ? r : -ENOENT;
	if (report.tensor != CODE_UNKNOWN && report.mixed != CODE_UNKNOWN)
		report.reason[0] = '\0';
	*ret_report = report;
	return 0;
}
