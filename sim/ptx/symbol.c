// Implements scopes of names, sizes of types, and the log.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "sim/ptx/source.h"

static struct ptx_symbol **find_slot(const struct ptx_scope *scope, const char *name, size_t length)
{
	for (uint64_t i = vg_hash(name, length);; i++) {
		struct ptx_symbol **slot = &scope->slots[i & (scope->capacity - 1)];
		if (!*slot || (strncmp((*slot)->name, name, length) == 0 && (*slot)->name[length] == 0))
			return slot;
	}
}

struct ptx_symbol *ptx_scope_find_here(const struct ptx_scope *scope, const char *name, size_t length)
{
	return scope->capacity ? *find_slot(scope, name, length) : NULL;
}

struct ptx_symbol *ptx_scope_find(const struct ptx_scope *scope, const char *name, size_t length)
{
	for (; scope; scope = scope->parent) {
		struct ptx_symbol *symbol = ptx_scope_find_here(scope, name, length);
		if (symbol)
			return symbol;
	}
	return NULL;
}

int ptx_scope_add(struct ptx_arena *arena, struct ptx_scope *scope, struct ptx_symbol *symbol)
{
	if (scope->count * 2 >= scope->capacity) {
		struct ptx_scope larger = {.capacity = scope->capacity ? scope->capacity * 2 : 8};
		larger.slots = ptx_arena_allocate(arena, larger.capacity * sizeof *larger.slots);
		if (!larger.slots)
			return -ENOMEM;
		for (uint32_t i = 0; i < scope->capacity; i++)
			if (scope->slots[i])
				*find_slot(&larger, scope->slots[i]->name, strlen(scope->slots[i]->name)) =
					scope->slots[i];
		scope->slots = larger.slots;
		scope->capacity = larger.capacity;
	}
	struct ptx_symbol **slot = find_slot(scope, symbol->name, strlen(symbol->name));
	scope->count += !*slot;
	*slot = symbol;
	return 0;
}

void ptx_scope_replace(struct ptx_scope *scope, struct ptx_symbol *symbol)
{
	*find_slot(scope, symbol->name, strlen(symbol->name)) = symbol;
}

bool ptx_type_find(const char *name, size_t length, struct ptx_type *ret_type)
{
	static const struct {
		const char *name;
		struct ptx_type type;
	} types[] = {
		{"pred", {1, 'p'}},  {"b8", {8, 'b'}},	    {"b16", {16, 'b'}},	    {"b32", {32, 'b'}},
		{"b64", {64, 'b'}},  {"b128", {128, 'b'}},  {"u8", {8, 'u'}},	    {"u16", {16, 'u'}},
		{"u32", {32, 'u'}},  {"u64", {64, 'u'}},    {"s8", {8, 's'}},	    {"s16", {16, 's'}},
		{"s32", {32, 's'}},  {"s64", {64, 's'}},    {"f16", {16, 'f'}},	    {"f16x2", {32, 'f'}},
		{"f32", {32, 'f'}},  {"f64", {64, 'f'}},    {"bf16", {16, 'f'}},    {"bf16x2", {32, 'f'}},
		{"tf32", {32, 'f'}}, {"texref", {64, 't'}}, {"surfref", {64, 'i'}}, {"samplerref", {64, 'o'}},
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strlen(types[i].name) == length && memcmp(types[i].name, name, length) == 0) {
			*ret_type = types[i].type;
			return true;
		}
	return false;
}

uint32_t ptx_lane_bits(struct ptx_type type)
{
	return type.bits == 8 ? 16 : type.bits;
}

uint32_t ptx_register_bytes(struct ptx_type type)
{
	return type.bits == 1 ? 4 : ptx_lane_bits(type) * 4;
}

int ptx_list_add(struct ptx_arena *arena, void ***list, uint32_t *count, uint32_t *capacity, void *item)
{
	if (*count == *capacity) {
		uint32_t larger = *capacity ? *capacity * 2 : 4;
		void **grown = ptx_arena_allocate(arena, larger * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		if (*count)
			memcpy(grown, *list, *count * sizeof *grown);
		*list = grown;
		*capacity = larger;
	}
	(*list)[(*count)++] = item;
	return 0;
}

void ptx_log_add(struct ptx_log *log, const char *format, ...)
{
	if (!log || log->used + 1 >= log->capacity)
		return;
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(log->text + log->used, log->capacity - log->used, format, arguments);
	va_end(arguments);
	size_t left = log->capacity - log->used - 1;
	log->used += (size_t)length < left ? (size_t)length : left;
}

int ptx_syntax(struct ptx_module *module, unsigned line, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (module->text_count > 1)
		ptx_log_add(module->log, "text %u, ", module->text_index + 1);
	ptx_log_add(module->log, "line %u: error: %s\n", line, text);
	return PTX_SYNTAX;
}
