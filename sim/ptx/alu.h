// Declares the arithmetic of the PTX interpreter. Each instruction form, such as mad.wide.u32, is one function that
// computes 32 lanes. The functions are pure, so any thread may call them.
//
// A register is a lane array: a predicate is one uint32_t with a bit for each lane. Any other register is an array of
// 32 elements of 16 (also for .b8), 32 or 64 bits, aligned to 64 bytes.
#pragma once

#include <stdint.h>

// The operands of an instruction form. The caller truncates a source that is narrower than its register (cvt.u32.u8 of
// a .b32 register). It extends a result to a wider register, by its sign if the type is signed. For lop3.or.b32 d|p, a,
// b, c, 0x1e, q the operand q is in f.
struct ptx_alu {
	void *d;		   // destination; may be NULL ("_") in setp and lop3.and/or
	void *e;		   // second destination, as q in setp p|q and p in lop3.or d|p; or NULL
	const void *a, *b, *c, *f; // sources in the order of the PTX text
	uint32_t mask;		   // lanes to write; the other lanes keep their values
	uint32_t *carry;	   // the CC.CF flags of the 32 lanes, for .cc forms
	uint32_t immediate;	   // the literal that is the last operand of lop3 and similar instructions
};

typedef void ptx_alu_fn(const struct ptx_alu *alu);

enum { PTX_ALU_SOURCES = 4 };

struct ptx_alu_form {
	const char *mnemonic; // the whole mnemonic, as in the text: "mad.wide.u32", "setp.lt.and.s32"
	ptx_alu_fn *run;
	uint8_t d_bits, e_bits; // bits of d and of e: 1 (predicate), 16, 32, 64; 0: there is no such operand
	uint8_t sources;	// how many of a, b, c, f the form has
	uint8_t bits[PTX_ALU_SOURCES];
	uint8_t immediate; // 1: the last operand in the text is a literal
	uint8_t carry;	   // 1: the form reads or writes the carry
};

// Finds the form of a mnemonic of `length` characters. NULL: no such form.
const struct ptx_alu_form *ptx_alu_find(const char *mnemonic, unsigned length);
