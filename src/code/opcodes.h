// Instructions of machine code. NVIDIA documents none of it: tests/code derives these rows from what ptxas makes of
// each instruction of PTX, and holds them to that in every build. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// Architectures whose rows are here, by what their instructions have in common: X(group, sm).
#define CODE_ARCHITECTURES(X)                                                                      \
	X(TURING, 75)                                                                              \
	X(AMPERE, 80) X(AMPERE, 86) X(AMPERE, 87) X(AMPERE, 88)                                    \
	X(ADA, 89)                                                                                 \
	X(HOPPER, 90)                                                                              \
	X(SERVER_BLACKWELL, 100) X(SERVER_BLACKWELL, 103) X(SERVER_BLACKWELL, 110)                 \
	X(CLIENT_BLACKWELL, 120) X(CLIENT_BLACKWELL, 121)

enum {
	CODE_TURING = 1,
	CODE_AMPERE = 2,
	CODE_ADA = 4,
	CODE_HOPPER = 8,
	CODE_SERVER_BLACKWELL = 16,
	CODE_CLIENT_BLACKWELL = 32,
	CODE_BLACKWELL = CODE_SERVER_BLACKWELL | CODE_CLIENT_BLACKWELL,
	CODE_SINCE_AMPERE = CODE_AMPERE | CODE_ADA | CODE_HOPPER | CODE_BLACKWELL,
	CODE_ALL = CODE_TURING | CODE_SINCE_AMPERE,
};

#define CODE_NEVER 0
#define CODE_ALWAYS UINT64_MAX
// X(bits, name, tensor, mixed, groups): the low nine of an instruction's 128 bits tell it (the three above say where
// its operands come from). Tensor: it multiplies matrices. Mixed: which of the upper 64 bits are set, any of them,
// where its inputs are narrower than what it accumulates in, or tf32.
#define CODE_OPCODES(X)                                                                            \
	X(0x036, "HMMA", true, 0x1000, CODE_TURING)                                                \
	X(0x037, "IMMA", true, CODE_ALWAYS, CODE_ALL)                                              \
	X(0x03c, "HMMA", true, 0xc1000, CODE_ALL)                                                  \
	X(0x03d, "BMMA", true, CODE_ALWAYS, CODE_TURING | CODE_AMPERE | CODE_ADA | CODE_HOPPER)    \
	X(0x03f, "DMMA", true, CODE_NEVER, CODE_SINCE_AMPERE)                                      \
	X(0x07a, "QMMA", true, CODE_ALWAYS, CODE_ADA | CODE_CLIENT_BLACKWELL)                      \
	X(0x07f, "OMMA", true, CODE_ALWAYS, CODE_CLIENT_BLACKWELL)                                 \
	X(0x1f0, "HGMMA", true, 0x3800, CODE_HOPPER)                                               \
	X(0x1f1, "IGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                          \
	X(0x1f2, "BGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                          \
	X(0x1f3, "QGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                          \
	X(0x1ea, "UTCMMA", true, CODE_ALWAYS, CODE_SERVER_BLACKWELL)                               \
	X(0x021, "FADD of halves", false, 0x20000, CODE_BLACKWELL)                                           \
	X(0x023, "FFMA of halves", false, 0x20000, CODE_BLACKWELL)

// Of an architecture, 90 for sm_90; 0: its rows are not here.
unsigned code_group(unsigned architecture);
// The name of an instruction of that group that is tensor or mixed; NULL: it is neither.
const char *code_opcode(unsigned group, uint64_t low, uint64_t high, bool *ret_tensor, bool *ret_mixed);
