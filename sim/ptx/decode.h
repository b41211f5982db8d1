// Turning instructions into operations. One thread.
#pragma once

#include "sim/ptx/engine.h"
#include "sim/ptx/special.h"

enum { PTX_REFUSED = 100 }; // a decoder's answer: known, not implemented

struct ptx_part {
	const char *text;
	unsigned length;
};

struct ptx_decoder {
	struct ptx_module *module;
	struct ptx_function *function;
	const struct ptx_instruction *instruction;
	struct ptx_part parts[PTX_PARTS]; // the opcode at its dots
	unsigned part_count;
	struct ptx_op *ops;
	uint32_t op_count, op_capacity;
	uint32_t *positions; // of instructions, in ops
	uint64_t temporary;  // next free byte of the frame
	uint64_t frame_bytes;
};

typedef int ptx_decode_fn(struct ptx_decoder *decoder);

// Appends an operation with the instruction's guard. NULL: no memory.
struct ptx_op *ptx_emit(struct ptx_decoder *decoder, ptx_op_fn *run);
bool ptx_has(const struct ptx_decoder *decoder, const char *modifier);
// The type named last in the opcode.
bool ptx_last_type(const struct ptx_decoder *decoder, struct ptx_type *ret_type);
ptx_ref ptx_temporary(struct ptx_decoder *decoder, unsigned bits);
int ptx_constant(struct ptx_decoder *decoder, uint64_t low, uint64_t high, unsigned bits, ptx_ref *ret_ref);
// Lane arrays of `bits` for a source; moves and narrowings are emitted before.
int ptx_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref);
// The register of a destination; *ret_bits is its lanes' width. Sinks get a temporary.
int ptx_destination(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref,
		    unsigned *ret_bits);
int ptx_wants(struct ptx_decoder *decoder, unsigned count); // operands, or a syntax error
int ptx_malformed(struct ptx_decoder *decoder, const char *what);
int ptx_destination_resized(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits,
			    ptx_ref *ret_ref, struct ptx_op *ret_resize);
int ptx_emit_resize(struct ptx_decoder *decoder, const struct ptx_op *resize); // after the operation
int ptx_symbol_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, unsigned bits, ptx_ref *ret_ref);
int ptx_use_function(struct ptx_decoder *decoder, struct ptx_function *function);
// A label of the function, as an index of instructions.
int ptx_label(struct ptx_decoder *decoder, const struct ptx_operand *operand, uint32_t *ret_position);
void *ptx_keep(struct ptx_decoder *decoder, size_t size); // arena memory
// The register (or literal) of an address, 64 or 32 bits wide, and its offset.
int ptx_address_source(struct ptx_decoder *decoder, const struct ptx_operand *operand, ptx_ref *ret_ref,
		       unsigned *ret_bits, int64_t *ret_offset);
enum ptx_space_kind ptx_named_space(const struct ptx_decoder *decoder);

ptx_decode_fn ptx_decode_move, ptx_decode_alu, ptx_decode_memory, ptx_decode_branch, ptx_decode_branch_table,
	ptx_decode_call, ptx_decode_return, ptx_decode_exit, ptx_decode_atomic, ptx_decode_barrier, ptx_decode_fence,
	ptx_decode_shuffle, ptx_decode_vote, ptx_decode_match, ptx_decode_redux, ptx_decode_activemask,
	ptx_decode_elect, ptx_decode_mbarrier, ptx_decode_copy_async, ptx_decode_cvta, ptx_decode_isspacep,
	ptx_decode_nothing, ptx_decode_trap, ptx_decode_alloca, ptx_decode_stack, ptx_decode_nanosleep, ptx_decode_mapa,
	ptx_decode_cache_hint, ptx_decode_getctarank, ptx_decode_bulk, ptx_decode_texture, ptx_decode_surface,
	ptx_decode_image_query, ptx_decode_mma, ptx_decode_wmma, ptx_decode_matrix, ptx_decode_transpose,
	ptx_decode_cluster_barrier, ptx_decode_tensor;
int ptx_emit_complete(struct ptx_decoder *decoder, const struct ptx_operand *mbarrier, uint32_t bytes);
#define PTX_RESIZE(from, to, is_signed) ((uint32_t)(from) << 16 | (uint32_t)(to) << 8 | (is_signed))

struct ptx_branch_table {
	uint32_t count;
	union {
		uint32_t position; // while decoding
		const struct ptx_op *op;
	} targets[];
};

ptx_op_fn ptx_op_nothing, ptx_op_resize, ptx_op_not1, ptx_op_pack, ptx_op_unpack, ptx_op_symbol, ptx_op_nanosleep,
	ptx_op_warp_barrier;
ptx_op_fn ptx_op_move1, ptx_op_move16, ptx_op_move32, ptx_op_move64, ptx_op_move128;
