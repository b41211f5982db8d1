// Loads modules, binds their variables to memory, and answers queries about variables and functions.
#include <errno.h>
#include <stdlib.h>

#include "sim/ptx/engine.h"

static int load_texts(struct ptx_module *module, const char *const *texts, const size_t *lengths, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		module->text_index = (uint32_t)i;
		r = ptx_parse(module, texts[i], lengths[i]);
	}
	if (r)
		return r;
	r = ptx_link(module);
	if (r)
		return r;
	r = ptx_layout(module);
	for (uint32_t i = 0; i < module->function_count && r == 0; i++)
		if (module->functions[i]->is_defined)
			r = ptx_decode(module, module->functions[i]);
	return r ? r : ptx_gather(module);
}

int ptx_module_load(const char *const *texts, const size_t *lengths, size_t count, int target, struct ptx_log *log,
		    struct ptx_module **ret_module)
{
	struct ptx_module *module = calloc(1, sizeof *module);

	if (!module)
		return -ENOMEM;
	if (log && log->capacity && log->used < log->capacity)
		log->text[log->used] = 0;
	module->last_symbol = &module->symbols;
	module->device_target = target;
	module->log = log;
	module->text_count = (uint32_t)count;
	int r = load_texts(module, texts, lengths, count);
	module->log = NULL;
	if (r)
		ptx_module_destroy(module);
	else
		*ret_module = module;
	return r;
}

void ptx_module_destroy(struct ptx_module *module)
{
	if (!module)
		return;
	free(module->constants);
	free(module->constant_slots);
	ptx_arena_finish(&module->arena);
	free(module);
}

size_t ptx_module_image_size(const struct ptx_module *module)
{
	return module->image_size;
}

size_t ptx_module_image_align(const struct ptx_module *module)
{
	return module->image_align;
}

static uint64_t symbol_address(const struct ptx_module *module, struct ptx_symbol *symbol)
{
	symbol = ptx_definition(symbol);
	if (symbol->kind == PTX_SYMBOL_FUNCTION)
		return PTX_FUNCTION_WINDOW + (symbol->function ? symbol->function->index : 0) * 16ull;
	return ptx_variable_address(module, symbol);
}

size_t ptx_module_managed_size(const struct ptx_module *module)
{
	return module->managed_size;
}

void ptx_module_bind_managed(struct ptx_module *module, uint64_t address, bool is_kept)
{
	module->managed = address;
	module->is_managed_kept = is_kept;
}

// Stores a variable's initial contents. `base` is the start of the image or of the managed variables.
static void initialize_variable(const struct ptx_module *module, const struct ptx_symbol *variable, void *base)
{
	uint8_t *bytes = (uint8_t *)base + variable->offset;
	size_t given = variable->byte_count < variable->size ? variable->byte_count : variable->size;

	memset(bytes, 0, variable->size);
	if (given)
		memcpy(bytes, variable->bytes, given);
	for (const struct ptx_relocation *one = variable->relocations; one; one = one->next) {
		uint64_t value = symbol_address(module, one->symbol) + (uint64_t)one->addend;
		if (one->mask)
			value = (value & one->mask) >> __builtin_ctzll(one->mask);
		if (one->offset + one->size <= variable->size)
			memcpy(bytes + one->offset, &value, one->size < 8 ? one->size : 8);
	}
}

int ptx_module_bind(struct ptx_module *module, uint64_t device, void *host)
{
	module->device = device;
	if ((module->image_size && (device & (module->image_align - 1))) || (module->managed_size && !module->managed))
		return -EINVAL;
	for (uint32_t i = 0; i < module->variable_count; i++) {
		const struct ptx_symbol *variable = module->variables[i];
		if (!variable->is_managed)
			initialize_variable(module, variable, host);
		else if (!module->is_managed_kept)
			initialize_variable(module, variable, (void *)(uintptr_t)module->managed);
	}
	return 0;
}

// Returns whether a variable's initial contents have the address of another variable that is in device memory.
static bool needs_image(const struct ptx_symbol *variable)
{
	for (const struct ptx_relocation *one = variable->relocations; one; one = one->next) {
		const struct ptx_symbol *symbol = ptx_definition(one->symbol);
		if (symbol->kind != PTX_SYMBOL_FUNCTION && !symbol->is_managed)
			return true;
	}
	return false;
}

bool ptx_module_initialize_managed(const struct ptx_module *module)
{
	for (uint32_t i = 0; i < module->variable_count; i++)
		if (module->variables[i]->is_managed && needs_image(module->variables[i]))
			return false;
	for (uint32_t i = 0; i < module->variable_count; i++)
		if (module->variables[i]->is_managed)
			initialize_variable(module, module->variables[i], (void *)(uintptr_t)module->managed);
	return true;
}

static const struct ptx_symbol *find_variable(const struct ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->variable_count; i++)
		if (strcmp(module->variables[i]->name, name) == 0)
			return module->variables[i];
	return NULL;
}

bool ptx_module_variable(const struct ptx_module *module, const char *name, uint64_t *ret_device, size_t *ret_size)
{
	const struct ptx_symbol *variable = find_variable(module, name);

	if (!variable || ptx_type_is_opaque(variable->type))
		return false;
	if (ret_device)
		*ret_device = ptx_variable_address(module, variable);
	if (ret_size)
		*ret_size = variable->size;
	return true;
}

bool ptx_module_is_managed(const struct ptx_module *module, const char *name)
{
	const struct ptx_symbol *variable = find_variable(module, name);

	return variable && variable->is_managed;
}

bool ptx_module_reference(const struct ptx_module *module, const char *name, uint64_t *ret_device, bool *ret_is_surface)
{
	const struct ptx_symbol *variable = find_variable(module, name);

	if (!variable || (variable->type.class != 't' && variable->type.class != 'i'))
		return false;
	*ret_device = ptx_variable_address(module, variable);
	*ret_is_surface = variable->type.class == 'i';
	return true;
}

size_t ptx_module_function_count(const struct ptx_module *module)
{
	return module->entry_count;
}

const struct ptx_function *ptx_module_function_at(const struct ptx_module *module, size_t index)
{
	return index < module->entry_count ? module->entries[index] : NULL;
}

const struct ptx_function *ptx_module_function(const struct ptx_module *module, const char *name)
{
	for (uint32_t i = 0; i < module->entry_count; i++)
		if (strcmp(module->entries[i]->info.name, name) == 0)
			return module->entries[i];
	return NULL;
}

const struct ptx_function_info *ptx_function_info(const struct ptx_function *function)
{
	return &function->info;
}

const char *ptx_function_refusal(const struct ptx_function *function)
{
	return function->entry_refusal;
}
