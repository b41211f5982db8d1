// Links the texts of a module. Finds the definitions of extern symbols and gives variables their places in memory.
// Gathers for each kernel what it and the functions that it may call need, such as shared memory.
#include <errno.h>
#include <string.h>

#include "sim/ptx/source.h"

static bool is_definition(const struct ptx_symbol *symbol)
{
	if (symbol->kind == PTX_SYMBOL_FUNCTION)
		return symbol->function && symbol->function->is_defined;
	return !symbol->is_extern;
}

// Makes a definition visible to the other texts. A strong definition replaces a weak one.
static int export_symbol(struct ptx_module *module, struct ptx_symbol *symbol)
{
	struct ptx_symbol *other = ptx_scope_find_here(&module->global, symbol->name, strlen(symbol->name));

	if (!other)
		return ptx_scope_add(&module->arena, &module->global, symbol);
	if (other->kind != symbol->kind || (!other->is_weak && !symbol->is_weak)) {
		ptx_log_add(module->log, "error: '%s' is defined twice (lines %u and %u)\n", symbol->name, other->line,
			    symbol->line);
		return PTX_SYNTAX;
	}
	if (other->is_weak && !symbol->is_weak) {
		ptx_scope_replace(&module->global, symbol);
		other->definition = symbol;
	} else {
		symbol->definition = other;
	}
	return 0;
}

int ptx_link(struct ptx_module *module)
{
	for (struct ptx_symbol *symbol = module->symbols; symbol; symbol = symbol->next) {
		if (!is_definition(symbol) || (!symbol->is_visible && !symbol->is_weak))
			continue;
		int r = export_symbol(module, symbol);
		if (r)
			return r;
	}
	for (struct ptx_symbol *symbol = module->symbols; symbol; symbol = symbol->next) {
		if (is_definition(symbol) || symbol->definition)
			continue;
		symbol->definition = ptx_scope_find_here(&module->global, symbol->name, strlen(symbol->name));
		if (symbol->definition && symbol->definition->kind != symbol->kind)
			symbol->definition = NULL;
		if (!symbol->definition && symbol->kind == PTX_SYMBOL_VARIABLE && symbol->space != PTX_SPACE_SHARED) {
			ptx_log_add(module->log, "line %u: error: extern '%s' is not defined\n", symbol->line,
				    symbol->name);
			return PTX_UNRESOLVED;
		}
	}
	// If a symbol refers to a weak definition that another one has replaced, make it refer to that other one.
	for (struct ptx_symbol *symbol = module->symbols; symbol; symbol = symbol->next)
		for (int steps = 0; symbol->definition && symbol->definition->definition && steps < 8; steps++)
			symbol->definition = symbol->definition->definition;
	for (struct ptx_symbol *symbol = module->symbols; symbol; symbol = symbol->next)
		if (symbol->kind == PTX_SYMBOL_FUNCTION && symbol->definition && symbol->function &&
		    symbol->definition->function)
			symbol->definition->function->is_address_taken |= symbol->function->is_address_taken;
	return 0;
}

// Gives a variable its offset in the device image or in the managed memory.
static int lay_out_variable(struct ptx_module *module, struct ptx_symbol *symbol, uint32_t *capacity)
{
	uint64_t *size = symbol->is_managed ? &module->managed_size : &module->image_size;

	symbol->offset = (*size + symbol->align - 1) & ~(uint64_t)(symbol->align - 1);
	*size = symbol->offset + symbol->size;
	if (symbol->align > module->image_align)
		module->image_align = symbol->align;
	if (*size > 1ull << 42)
		return ptx_syntax(module, symbol->line, "variables exceed the device's memory");
	return ptx_list_add(&module->arena, (void ***)&module->variables, &module->variable_count, capacity, symbol);
}

// Gives .const variables the first offsets of the image, so that an address shows whether it is constant memory.
int ptx_layout(struct ptx_module *module)
{
	uint32_t capacity = 0, shared_capacity = 0;
	int r = 0;

	module->image_align = 256;
	for (int pass = 0; pass < 2; pass++) {
		enum ptx_space_kind space = pass ? PTX_SPACE_GLOBAL : PTX_SPACE_CONST;
		for (struct ptx_symbol *symbol = module->symbols; symbol && r == 0; symbol = symbol->next) {
			if (symbol->kind != PTX_SYMBOL_VARIABLE || symbol->definition)
				continue;
			if (symbol->align == 0)
				symbol->align = 1;
			if (symbol->space == space) {
				r = lay_out_variable(module, symbol, &capacity);
			} else if (symbol->space == PTX_SPACE_SHARED && pass == 0) {
				symbol->index = module->shared_count;
				r = ptx_list_add(&module->arena, (void ***)&module->shared, &module->shared_count,
						 &shared_capacity, symbol);
			}
		}
		if (pass == 0)
			module->const_size = module->image_size;
	}
	return r;
}

// The registers, memory and stack that a kernel needs, together with the functions that it may call.
struct gathering {
	struct ptx_module *module;
	struct ptx_function *entry;
	struct ptx_function **queue;
	uint32_t count, capacity;
	bool *uses_shared;
	uint32_t deepest_local;
};

static int queue_function(struct gathering *gathering, struct ptx_function *function)
{
	if (function->is_queued || !function->is_defined)
		return 0;
	function->is_queued = true;
	return ptx_list_add(&gathering->module->arena, (void ***)&gathering->queue, &gathering->count,
			    &gathering->capacity, function);
}

// Adds what a function needs. Also puts the functions that it may call into the queue.
static int gather_function(struct gathering *gathering, struct ptx_function *function)
{
	struct ptx_module *module = gathering->module;
	int r = 0;

	gathering->entry->info.uses_cluster |= function->uses_cluster;
	if (function->refusal && !gathering->entry->entry_refusal)
		gathering->entry->entry_refusal = function->refusal;
	for (uint32_t i = 0; i < function->shared_count; i++)
		gathering->uses_shared[function->shared[i]->index] = true;
	if (function != gathering->entry) {
		gathering->entry->static_stack += function->local_bytes + 48;
		if (function->local_bytes > gathering->deepest_local)
			gathering->deepest_local = function->local_bytes;
	}
	for (uint32_t i = 0; i < function->callee_count && r == 0; i++)
		r = queue_function(gathering, function->callees[i]);
	for (uint32_t i = 0; function->calls_indirectly && i < module->function_count && r == 0; i++)
		if (module->functions[i]->is_address_taken && !module->functions[i]->is_entry)
			r = queue_function(gathering, module->functions[i]);
	return r;
}

static int lay_out_shared(struct gathering *gathering)
{
	struct ptx_module *module = gathering->module;
	struct ptx_function *entry = gathering->entry;
	uint64_t at = PTX_SHARED_FIRST, align = 16;

	for (uint32_t i = 0; i < module->shared_count; i++) {
		const struct ptx_symbol *symbol = module->shared[i];
		if (!gathering->uses_shared[i])
			continue;
		if (symbol->is_extern) {
			align = symbol->align > align ? symbol->align : align;
			continue;
		}
		at = (at + symbol->align - 1) & ~(uint64_t)(symbol->align - 1);
		entry->shared_offsets[i] = (uint32_t)at;
		at += symbol->size;
		if (at - PTX_SHARED_FIRST > 227 << 10)
			return ptx_syntax(module, symbol->line, "'%s' uses too much shared memory", entry->info.name);
	}
	entry->info.static_shared = (uint32_t)(at - PTX_SHARED_FIRST);
	at = (at + align - 1) & ~(align - 1);
	entry->dynamic_shared_at = (uint32_t)(at - PTX_SHARED_FIRST);
	for (uint32_t i = 0; i < module->shared_count; i++)
		if (module->shared[i]->is_extern)
			entry->shared_offsets[i] = (uint32_t)at;
	return 0;
}

static void set_info(struct ptx_function *entry, uint32_t deepest_local)
{
	uint32_t most = 65536 / (entry->info.max_threads ? entry->info.max_threads : 1024) & ~7u;

	most = most > 255 ? 255 : most;
	entry->info.local = entry->local_bytes + deepest_local;
	entry->info.registers = entry->register_count < 16 ? 16 : entry->register_count;
	if (entry->info.registers > most)
		entry->info.registers = most;
	entry->info.empty = entry->instruction_count == 1 && (strcmp(entry->instructions[0].opcode, "ret") == 0 ||
							      strcmp(entry->instructions[0].opcode, "exit") == 0);
}

static int gather_entry(struct ptx_module *module, struct ptx_function *entry)
{
	struct gathering gathering = {.module = module, .entry = entry};
	int r = 0;

	gathering.uses_shared = ptx_arena_allocate(&module->arena, module->shared_count + 1);
	entry->shared_offsets =
		ptx_arena_allocate(&module->arena, (module->shared_count + 1) * sizeof *entry->shared_offsets);
	if (!gathering.uses_shared || !entry->shared_offsets)
		return -ENOMEM;
	r = queue_function(&gathering, entry);
	for (uint32_t i = 0; i < gathering.count && r == 0; i++)
		r = gather_function(&gathering, gathering.queue[i]);
	if (r)
		return r;
	for (uint32_t i = 0; i < gathering.count; i++)
		gathering.queue[i]->is_queued = false;
	set_info(entry, gathering.deepest_local);
	return lay_out_shared(&gathering);
}

int ptx_gather(struct ptx_module *module)
{
	uint32_t capacity = 0;

	for (uint32_t i = 0; i < module->function_count; i++) {
		struct ptx_function *entry = module->functions[i];
		if (!entry->is_entry || !entry->is_defined)
			continue;
		int r = gather_entry(module, entry);
		if (r)
			return r;
		r = ptx_list_add(&module->arena, (void ***)&module->entries, &module->entry_count, &capacity, entry);
		if (r)
			return r;
	}
	return 0;
}
