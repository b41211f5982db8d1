// Declares a parsed PTX text: symbols, functions and instructions, before they are compiled to operations. One thread,
// until the module is loaded; then any thread may read it.
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/ptx/arena.h"
#include "sim/ptx/lex.h"
#include "sim/ptx/ptx.h"

enum ptx_space_kind {
	PTX_SPACE_GENERIC, // the generic space; also if the text names no state space
	PTX_SPACE_REGISTER,
	PTX_SPACE_GLOBAL,
	PTX_SPACE_CONST,
	PTX_SPACE_SHARED,
	PTX_SPACE_LOCAL,
	PTX_SPACE_PARAM,
};

enum ptx_symbol_kind {
	PTX_SYMBOL_VARIABLE, // a variable or a register: see `space`
	PTX_SYMBOL_FUNCTION,
	PTX_SYMBOL_LABEL,
	PTX_SYMBOL_PROTOTYPE,
	PTX_SYMBOL_TARGETS, // .branchtargets and .calltargets
};

struct ptx_type {
	uint8_t bits; // width in bits; 0: no type; 1: a predicate
	char class;   // b, u, s, f, p (predicate), t (.texref), i (.surfref), o (.samplerref)
};

// An address in a variable's initial contents. At `offset`, `size` bytes hold (address & mask), shifted down by the
// number of trailing zeros of the mask.
struct ptx_relocation {
	struct ptx_relocation *next;
	struct ptx_symbol *symbol;
	int64_t addend;
	uint64_t mask; // 0: the whole address
	size_t offset;
	uint8_t size;
};

struct ptx_symbol {
	const char *name;
	enum ptx_symbol_kind kind;
	unsigned line;
	enum ptx_space_kind space;
	struct ptx_type type;
	uint8_t vector; // number of elements: 2 or 4 for .v2 and .v4, else 1
	uint32_t align;
	uint64_t size;	// bytes of the whole array
	uint32_t range; // number of registers: 100 for %r<100>
	bool is_extern, is_visible, is_weak, is_array, is_formal, is_managed;
	uint64_t offset; // offset in the memory of the symbol: registers, device image, frame or parameters
	uint32_t index;	 // index of a shared variable in the module's table
	uint8_t *bytes;	 // initial contents; may be shorter than size
	size_t byte_count;
	struct ptx_relocation *relocations;
	struct ptx_function *function;
	struct ptx_symbol *definition; // if the symbol is extern: its definition, perhaps in another text
	uint32_t position;	       // for a label: index of the instruction that follows
	struct ptx_operand *targets;
	uint32_t target_count;
	struct ptx_symbol *next; // next symbol in the order of declaration
};

struct ptx_scope {
	struct ptx_scope *parent;
	struct ptx_symbol **slots;
	uint32_t capacity, count;
};

enum ptx_operand_kind {
	PTX_OPERAND_SINK, // _
	PTX_OPERAND_REGISTER,
	PTX_OPERAND_SPECIAL, // a special register; `value` is an enum ptx_special
	PTX_OPERAND_INTEGER,
	PTX_OPERAND_FLOAT,
	PTX_OPERAND_DOUBLE,
	PTX_OPERAND_SYMBOL,  // + value
	PTX_OPERAND_NAME,    // a name that is not declared yet: perhaps a label
	PTX_OPERAND_ADDRESS, // an address such as [base + 4]: list[0] is the base, and its `value` is the offset
	PTX_OPERAND_VECTOR,  // {…}
	PTX_OPERAND_LIST,    // (…)
};

struct ptx_operand {
	enum ptx_operand_kind kind;
	bool negated;	      // !p
	bool partial;	      // an operand such as %r.b0 or -%r, which only video instructions can have
	struct ptx_type type; // type of a register
	uint32_t offset;      // offset of a register in the register file
	int64_t value;
	struct ptx_symbol *symbol;
	const char *name;
	uint32_t count;
	struct ptx_operand *list;
	struct ptx_operand *second; // p|q
};

enum { PTX_PARTS = 16 };

struct ptx_instruction {
	const char *opcode; // terminated
	unsigned line;
	struct ptx_scope *scope;
	bool guarded, guard_negated;
	uint32_t guard; // register offset
	uint32_t operand_count;
	struct ptx_operand *operands;
};

struct ptx_function {
	struct ptx_symbol *symbol;
	struct ptx_module *module;
	struct ptx_function_info info;
	bool is_entry, is_defined, is_address_taken;
	uint32_t index;
	unsigned version; // PTX version of the function's text
	struct ptx_scope *scope;
	struct ptx_symbol **results, **formals;
	uint32_t result_count, formal_count;
	struct ptx_instruction *instructions;
	uint32_t instruction_count, instruction_capacity;
	uint64_t register_bytes; // bytes of a warp's frame for the function's registers and parameters
	uint32_t register_count; // number of declared registers, for info.registers
	uint32_t local_bytes;
	struct ptx_op *ops;
	uint32_t op_count;
	char *refusal;		   // the reason why the function itself cannot run; NULL: it can
	const char *entry_refusal; // for a kernel: the reason why it, or a function that it may call, cannot run
	struct ptx_function **callees;
	uint32_t callee_count, callee_capacity;
	bool calls_indirectly, uses_alloca, uses_cluster;
	struct ptx_symbol **shared; // shared variables that the function uses
	uint32_t shared_count, shared_capacity;
	uint32_t *shared_offsets;   // for a kernel: the offset of each shared variable of the module
	uint32_t dynamic_shared_at; // for a kernel: where dynamic shared memory begins, counted from PTX_SHARED_FIRST
	uint32_t static_stack;	    // for a kernel: local memory of all functions that it may call
	bool is_queued;		    // by ptx_gather()
};

struct ptx_module {
	struct ptx_arena arena;
	struct ptx_scope global;		   // symbols that other texts can use
	struct ptx_symbol *symbols, **last_symbol; // symbols of all texts that are not inside a function
	struct ptx_function **functions;
	uint32_t function_count, function_capacity;
	struct ptx_function **entries;
	uint32_t entry_count;
	struct ptx_symbol **variables; // .global and .const
	uint32_t variable_count;
	struct ptx_symbol **shared;
	uint32_t shared_count;
	uint64_t image_size, image_align, const_size;
	uint64_t managed, managed_size; // address and size of the managed variables
	bool is_managed_kept;		// another load has stored the initial values of managed variables
	uint64_t device;		// device address of the image, once bound
	uint8_t *constants;		// the literals, each as an array with an element for each lane
	size_t constant_bytes, constant_capacity;
	uint32_t *constant_slots; // hash table of the literals (literal.c)
	uint32_t constant_slot_count, constant_count;
	unsigned version, target; // PTX version and target of the text that is parsed now
	int device_target;
	struct ptx_log *log;
	uint32_t text_index, text_count;
};

enum {
	PTX_REGISTER_FIRST = 64, // the carry flags are before the registers
	PTX_REGISTER_LIMIT = 64 << 20,
	PTX_SHARED_FIRST = 1024, // the first bytes are reserved, as on hardware; cooperative groups use them
};

// Appends "line 12: error: …" to the log. Returns PTX_SYNTAX.
__attribute__((format(printf, 3, 4))) int ptx_syntax(struct ptx_module *module, unsigned line, const char *format, ...);
__attribute__((format(printf, 2, 3))) void ptx_log_add(struct ptx_log *log, const char *format, ...);

// The following functions are in symbol.c. This one finds a symbol in the scope or in those around it.
struct ptx_symbol *ptx_scope_find(const struct ptx_scope *scope, const char *name, size_t length);
struct ptx_symbol *ptx_scope_find_here(const struct ptx_scope *scope, const char *name, size_t length);
int ptx_scope_add(struct ptx_arena *arena, struct ptx_scope *scope, struct ptx_symbol *symbol); // Returns 0 or -ENOMEM
void ptx_scope_replace(struct ptx_scope *scope, struct ptx_symbol *symbol);
bool ptx_type_find(const char *name, size_t length, struct ptx_type *ret_type);
static inline bool ptx_type_is_opaque(struct ptx_type type)
{
	return type.class == 't' || type.class == 'i' || type.class == 'o';
}
static inline uint32_t ptx_type_bytes(struct ptx_type type)
{
	return type.bits <= 8 ? 1 : type.bits / 8;
}
// Returns how many bytes a lane has for a .param variable in the frame.
static inline uint32_t ptx_parameter_stride(const struct ptx_symbol *symbol)
{
	bool is_scalar = symbol->size <= 16 && (symbol->size & (symbol->size - 1)) == 0;
	return (uint32_t)(is_scalar ? symbol->size : (symbol->size + 15) & ~15ull);
}
uint32_t ptx_lane_bits(struct ptx_type type);	   // Returns the width of one lane of a register
uint32_t ptx_register_bytes(struct ptx_type type); // bytes of a register with its 32 lanes
// Appends to an array of pointers in the arena. Returns 0 or -ENOMEM.
int ptx_list_add(struct ptx_arena *arena, void ***list, uint32_t *count, uint32_t *capacity, void *item);

// State of the parser (parse.c, parse_body.c, parse_variable.c). Its functions return 0, an enum ptx_load_status or a
// negative errno.
struct ptx_parser {
	struct ptx_lexer lexer;
	struct ptx_module *module;
	struct ptx_scope *file;	       // scope of this text
	struct ptx_scope *scope;       // the current scope
	struct ptx_function *function; // function whose heading or body is being read; NULL at module scope
	unsigned depth;
};
int ptx_parse(struct ptx_module *module, const char *text, size_t length);
int ptx_parse_body(struct ptx_parser *parser);
int ptx_parse_variable(struct ptx_parser *parser, enum ptx_space_kind space, struct ptx_symbol linkage, bool is_formal,
		       struct ptx_symbol **ret_symbol);
int ptx_parse_constant(struct ptx_parser *parser, int64_t *ret_value); // parses an integer expression
int ptx_parse_mark(struct ptx_parser *parser, char mark);	       // this character
int ptx_parse_error(struct ptx_parser *parser, const char *expected);  // reports the current token as wrong
void ptx_parse_skip_line(struct ptx_parser *parser);
int ptx_parse_skip_pragma(struct ptx_parser *parser);
struct ptx_symbol *ptx_symbol_create(struct ptx_parser *parser, enum ptx_symbol_kind kind, const char *name,
				     size_t length);

// link.c
int ptx_link(struct ptx_module *module);   // finds the definitions of extern symbols
int ptx_layout(struct ptx_module *module); // gives variables their offsets in the image; numbers shared variables
int ptx_gather(struct ptx_module *module); // lists the kernels, and gathers what each of them needs (link.c)

// Compiles a function to operations (decode.c).
int ptx_decode(struct ptx_module *module, struct ptx_function *function);

// Returns the address of a .global or .const variable of a bound module.
static inline uint64_t ptx_variable_address(const struct ptx_module *module, const struct ptx_symbol *symbol)
{
	return (symbol->is_managed ? module->managed : module->device) + symbol->offset;
}

static inline struct ptx_symbol *ptx_definition(struct ptx_symbol *symbol)
{
	return symbol->definition ? symbol->definition : symbol;
}
