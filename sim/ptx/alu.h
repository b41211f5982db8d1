// Arithmetic of the PTX interpreter: one function per instruction form, over 32 lanes.
// Pure: no state, any thread.
//
// A register is a lane array: predicates are one uint32_t lane mask; everything else is
// an array of 32 elements of its width, 16 bits (also for .b8), 32, or 64; aligned to 64 bytes.
#pragma once

#include <stdint.h>

// Sources narrower than their register (cvt.u32.u8 of a .b32 register) are the caller's to
// truncate; so is extending a result to a wider register, by the sign if its type has one.
// A predicate operand is one word; lop3.or.b32 d|p, a, b, c, 0x1e, q has q in f.
struct ptx_alu {
	void *d;	  // destination; may be NULL ("_") in setp and lop3.and/or
	void *e;	  // second destination: the q of setp p|q, the p of lop3.or d|p; or NULL
	const void *a, *b, *c, *f; // sources in the order of the PTX text
	uint32_t mask;	  // lanes to write; others keep their old value
	uint32_t *carry;  // the CC.CF of the 32 lanes, for .cc forms
	uint32_t immediate; // the trailing literal of lop3 (and of instructions like it)
};

typedef void ptx_alu_fn(const struct ptx_alu *alu);

enum { PTX_ALU_SOURCES = 4 };

struct ptx_alu_form {
	const char *mnemonic;	// whole, as in the text: "mad.wide.u32", "setp.lt.and.s32"
	ptx_alu_fn *run;
	uint8_t d_bits, e_bits; // 1 for a predicate, 16, 32, 64; 0: none
	uint8_t sources;	// how many of a, b, c, f
	uint8_t bits[PTX_ALU_SOURCES];
	uint8_t immediate;	// 1: the last operand in the text is a literal
	uint8_t carry;		// 1: reads and/or writes the carry
};

// NULL: no such form. `mnemonic` need not be terminated at `length`.
const struct ptx_alu_form *ptx_alu_find(const char *mnemonic, unsigned length);
