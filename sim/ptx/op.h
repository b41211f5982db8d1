// Declares operations. PTX instructions are compiled into them (decode.h), and warps execute them (engine.h).
// Operations do not change after a module is loaded: any thread.
#pragma once

#include <stddef.h>

#include "sim/ptx/alu.h"
#include "sim/ptx/source.h"

enum { PTX_LANES = 32, PTX_OPERANDS = 6 };

struct ptx_warp;
struct ptx_op;

// Executes an operation for the lanes of warp->mask. Returns the next operation. Returns NULL to make the scheduler
// choose a group, after the warp's groups have changed or after a fault.
typedef const struct ptx_op *ptx_op_fn(struct ptx_warp *warp, const struct ptx_op *op);

// A reference to a lane array, which has an element for each lane of a warp. It is a byte offset in the frame's
// registers. If bit 0 is set, it is a byte offset in the module's literals.
typedef uint32_t ptx_ref;
#define PTX_NO_REF ((ptx_ref)0) // no lane array, because the carry flags are at offset 0

struct ptx_op {
	ptx_op_fn *run;
	union {
		ptx_alu_fn *alu;
		const struct ptx_op *target;
		const void *data; // the function `run` knows the type
		uint64_t value;
	};
	union {
		ptx_ref refs[PTX_OPERANDS];
		struct {
			ptx_ref d, e, a, b, c, f; // destinations d and e, sources a to f
		};
	};
	uint32_t immediate;
	uint32_t guard; // offset of the predicate that guards the operation; 0: none; bit 0: negated predicate
	uint32_t line;	// line of the PTX text
};

// An address operand. For each lane, it is a register or literal of 32 or 64 bits, plus an offset.
struct ptx_address {
	ptx_ref ref;
	int64_t offset;
	uint8_t bits;
	bool is_shared; // the address is an offset in shared memory, and not a generic address
};

// Where the data of a warp's lanes is in host memory.
struct ptx_access {
	uint8_t *base; // lane i is at base + i * stride; if base is NULL, lane i is at host[i]
	ptrdiff_t stride;
	uint8_t *host[PTX_LANES];
};

// Finds the host addresses of a load or store, whose ptx_op.data is a struct ptx_memory_op. Returns false after a
// fault.
typedef bool ptx_resolve_fn(struct ptx_warp *warp, const struct ptx_op *op, struct ptx_access *access);
// Copies one element of each lane in `mask` from registers to memory, or back. `lanes` is the array of a register, with
// an element for each lane. The memory is `offset` bytes after the lane's address.
typedef void ptx_move_fn(uint8_t *lanes, const struct ptx_access *access, unsigned offset, uint32_t mask);

// A load, store or atomic. Its address is in ptx_op.a.
struct ptx_memory_op {
	ptx_resolve_fn *resolve; // NULL: the operand is a parameter at parameter_offset
	ptx_move_fn *move;
	uint8_t bytes, count; // bytes of an element, number of elements
	uint8_t address_bits; // width of the address register
	bool write, is_poll;
	bool is_shared_state; // the operation is a store that other threads can see
	int64_t offset;
	uint64_t parameter_offset; // offset in the frame (struct ptx_frame), or in the parameters of the kernel
	uint32_t parameter_stride; // bytes that each lane has in the frame; 0: a parameter of the kernel
	ptx_ref refs[8];	   // registers; PTX_NO_REF: a sink ("_")
};

// An argument or a result of a call. It is in the caller's registers, or in the literals.
struct ptx_argument {
	ptx_ref ref;
	uint32_t size; // bytes of each lane; 0: a predicate
	bool is_literal;
};

// Executes a function of the device runtime for the lanes of warp->mask.
typedef const struct ptx_op *ptx_builtin_fn(struct ptx_warp *warp, const struct ptx_op *op);

struct ptx_call {
	const struct ptx_function *function; // NULL: the address of the function is in `address`
	ptx_builtin_fn *builtin;
	ptx_ref address;
	uint32_t result_count, argument_count;
	const struct ptx_argument *results, *arguments;
};

// Finds vprintf, malloc, free or __assertfail (builtin.c). NULL: no such function.
ptx_builtin_fn *ptx_builtin_find(const char *name, uint32_t *ret_arguments);

struct ptx_branch_table {
	uint32_t count;
	union {
		uint32_t position; // while the function is decoded: index of the target instruction
		const struct ptx_op *op;
	} targets[];
};

// Makes ptx_op.immediate for the operation ptx_op_resize.
#define PTX_RESIZE(from, to, is_signed) ((uint32_t)(from) << 16 | (uint32_t)(to) << 8 | (is_signed))

// Functions of memory.c that find the memory of a state space, and that copy elements between it and registers.
ptx_resolve_fn *ptx_resolver(enum ptx_space_kind space);
ptx_move_fn *ptx_load_mover(unsigned bytes, unsigned register_bits, bool is_signed);
ptx_move_fn *ptx_store_mover(unsigned bytes, unsigned register_bits);

// Operations that are defined in one file and emitted in others.
ptx_op_fn ptx_op_branch, ptx_op_branch_back, ptx_op_branch_table, ptx_op_call, ptx_op_return, ptx_op_exit;
ptx_op_fn ptx_op_alu, ptx_op_refused, ptx_op_nothing, ptx_op_special, ptx_op_symbol;
ptx_op_fn ptx_op_resize, ptx_op_not1, ptx_op_warp_barrier;
