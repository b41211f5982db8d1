// Instructions of machine code. NVIDIA does not document them: tests/code derives these rows from what ptxas generates
// for each instruction of PTX, and checks them in every build. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

// The known architectures, in groups with the same instructions: X(group, sm).
// clang-format off
#define CODE_ARCHITECTURES(X) \
	X(TURING, 75) \
	X(AMPERE, 80) X(AMPERE, 86) X(AMPERE, 87) X(AMPERE, 88) \
	X(ADA, 89) \
	X(HOPPER, 90) \
	X(SERVER_BLACKWELL, 100) X(SERVER_BLACKWELL, 103) X(SERVER_BLACKWELL, 110) \
	X(CLIENT_BLACKWELL, 120) X(CLIENT_BLACKWELL, 121)
// clang-format on

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
// X(bits, name, tensor, mixed, groups). The low nine of an instruction's 128 bits identify the instruction; the next
// three are the kinds of its operands. `tensor`: the instruction multiplies matrices. `mixed`: a mask for the upper 64
// bits; if any of these bits is set, the results have another precision than the factors. `groups`: the generations of
// GPUs that have the instruction.
#define CODE_OPCODES(X)                                                                         \
	X(0x036, "HMMA", true, 0x1000, CODE_TURING)                                             \
	X(0x037, "IMMA", true, CODE_ALWAYS, CODE_ALL)                                           \
	X(0x03c, "HMMA", true, 0xc1000, CODE_ALL)                                               \
	X(0x03d, "BMMA", true, CODE_ALWAYS, CODE_TURING | CODE_AMPERE | CODE_ADA | CODE_HOPPER) \
	X(0x03f, "DMMA", true, CODE_NEVER, CODE_SINCE_AMPERE)                                   \
	X(0x07a, "QMMA", true, CODE_ALWAYS, CODE_ADA | CODE_CLIENT_BLACKWELL)                   \
	X(0x07f, "OMMA", true, CODE_ALWAYS, CODE_CLIENT_BLACKWELL)                              \
	X(0x1f0, "HGMMA", true, 0x3800, CODE_HOPPER)                                            \
	X(0x1f1, "IGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                       \
	X(0x1f2, "BGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                       \
	X(0x1f3, "QGMMA", true, CODE_ALWAYS, CODE_HOPPER)                                       \
	X(0x1ea, "UTCMMA", true, CODE_ALWAYS, CODE_SERVER_BLACKWELL)                            \
	X(0x021, "FADD of halves", false, 0x20000, CODE_BLACKWELL)                              \
	X(0x023, "FFMA of halves", false, 0x20000, CODE_BLACKWELL)

// Returns the group of an architecture (90 for sm_90); 0: unknown.
unsigned code_group(unsigned architecture);
// Returns the name of the instruction if it is a tensor or mixed instruction on this group of architectures, else NULL.
const char *code_opcode(unsigned group, uint64_t low, uint64_t high, bool *ret_tensor, bool *ret_mixed);
