// Compiles the instructions of a function into operations. One thread.
#pragma once

#include "sim/ptx/op.h"

enum { PTX_REFUSED = 100 }; // error of a decoder: the instruction is valid, but not implemented

struct ptx_part {
	const char *text;
	unsigned length;
};

struct ptx_decoder {
	struct ptx_module *module;
	struct ptx_function *function;
	const struct ptx_instruction *instruction;
	struct ptx_part parts[PTX_PARTS]; // the opcode, split at its dots
	unsigned part_count;
	int error; // first error of the instruction: 0, PTX_REFUSED, an enum ptx_load_status or a negative errno
	struct ptx_op *ops;
	uint32_t op_count, op_capacity;
	uint32_t *positions; // for each instruction, the index of its first operation in ops
	uint64_t temporary;  // offset in the frame (struct ptx_frame) at which the next temporary array begins
	uint64_t frame_bytes;
};

// Compiles the current instruction. Returns 0 or the recorded error.
typedef int ptx_decode_fn(struct ptx_decoder *decoder);

// ---- errors: the functions below record the first error of an instruction in the decoder, and do nothing after an
// error. So a decoder may handle all operands, and only then check the result of ptx_emit().

// Records the error, unless one is recorded already. Returns the recorded error.
int ptx_fail(struct ptx_decoder *decoder, int error);
// Records PTX_SYNTAX and logs a line that begins with the opcode. Returns the recorded error.
int ptx_malformed(struct ptx_decoder *decoder, const char *reason);
// Returns an error unless the instruction has `count` operands.
int ptx_expect_operands(struct ptx_decoder *decoder, unsigned count);
// Appends an operation, with the guard predicate and the line of the instruction. Returns 0 or the recorded error.
int ptx_emit(struct ptx_decoder *decoder, struct ptx_op op);
// Emits `op` with a result of `bits`, which is stored in `operand`. If that register is wider, extends the result, by
// its sign if the first type in the opcode is signed.
int ptx_emit_extended(struct ptx_decoder *decoder, struct ptx_op op, const struct ptx_operand *operand, unsigned bits);

// Returns a temporary array in the frame, with an element of `bits` for each lane. Later instructions use the same
// memory again.
ptx_ref ptx_temporary(struct ptx_decoder *decoder, unsigned bits);
// Returns an array with the literal's value for each lane. Equal literals have the same array.
ptx_ref ptx_constant(struct ptx_decoder *decoder, uint64_t low, uint64_t high, unsigned bits);
// Returns an array with the operand's value for each lane, in `bits` bits. Emits operations that compute the value if
// necessary.
ptx_ref ptx_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits);
// Returns the register of a destination of `bits`. For a sink ("_"), returns a temporary register.
ptx_ref ptx_destination(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits);
// Returns the register of a destination of `bits`, or PTX_NO_REF for a sink ("_").
ptx_ref ptx_destination_or_sink(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits);
// Decodes an address in brackets. If `is_shared` is set, the operand is an offset in shared memory.
struct ptx_address ptx_address_operand(struct ptx_decoder *decoder, const struct ptx_operand *operand, bool is_shared);
// Returns the operands of a vector with `count` elements. A single operand counts as a vector of one. NULL after an
// error.
const struct ptx_operand *ptx_vector(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned count);
// Returns an array with the address of a variable or function for each lane.
ptx_ref ptx_symbol_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits);
// Returns the index of the instruction at a label.
uint32_t ptx_label_position(struct ptx_decoder *decoder, const struct ptx_operand *operand);
// Records that the current function calls `callee`.
int ptx_add_callee(struct ptx_decoder *decoder, struct ptx_function *callee);

// Emits an operation that subtracts `bytes` from what an mbarrier expects, for st.async and red.async.
int ptx_emit_complete(struct ptx_decoder *decoder, const struct ptx_operand *mbarrier, uint32_t bytes);

// Allocates zeroed memory that lives as long as the module. NULL: out of memory.
void *ptx_allocate(struct ptx_decoder *decoder, size_t size);
// Returns whether the opcode has a part of this name after the first part.
bool ptx_has(const struct ptx_decoder *decoder, const char *modifier);
// Returns the index in `names` of the first name that the opcode has. Returns `count` if it has none.
unsigned ptx_find_modifier(const struct ptx_decoder *decoder, const char *const *names, unsigned count);
bool ptx_part_is(const struct ptx_decoder *decoder, unsigned index, const char *name);
bool ptx_first_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type);
bool ptx_last_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type);
// Returns the number of elements that .v2, .v4 or .v8 gives. Without these, returns 1.
unsigned ptx_vector_length(const struct ptx_decoder *decoder);
// Returns the state space named in the opcode, or PTX_SPACE_GENERIC.
enum ptx_space_kind ptx_named_space(const struct ptx_decoder *decoder);

ptx_decode_fn ptx_decode_move, ptx_decode_alu, ptx_decode_memory, ptx_decode_branch, ptx_decode_branch_table,
	ptx_decode_call, ptx_decode_return, ptx_decode_exit, ptx_decode_atomic, ptx_decode_barrier, ptx_decode_fence,
	ptx_decode_shuffle, ptx_decode_vote, ptx_decode_match, ptx_decode_redux, ptx_decode_activemask,
	ptx_decode_elect, ptx_decode_mbarrier, ptx_decode_copy_async, ptx_decode_cvta, ptx_decode_isspacep,
	ptx_decode_nothing, ptx_decode_trap, ptx_decode_alloca, ptx_decode_stack, ptx_decode_nanosleep, ptx_decode_mapa,
	ptx_decode_cache_hint, ptx_decode_getctarank, ptx_decode_bulk, ptx_decode_texture, ptx_decode_surface,
	ptx_decode_image_query, ptx_decode_mma, ptx_decode_wmma, ptx_decode_matrix, ptx_decode_transpose,
	ptx_decode_cluster_barrier, ptx_decode_tensor, ptx_decode_copy_arrive;
