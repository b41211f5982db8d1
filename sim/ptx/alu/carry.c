// Implements additions and subtractions with a carry flag: add.cc, addc, sub.cc, subc, mad.cc, madc. A subtraction adds
// the complement, so flag 1 means "no borrow", as on a GPU. All forms must use the same flag, because nvcc's division
// of 128-bit integers reads the flag of a subc.cc with addc.
#include "form.h"

// Defines a form that reads or writes the carry flag. T is the type of the result. W is an unsigned type in which the
// sum cannot wrap, so that the bit above T is the carry. k is the carry that the lane reads.
#define CHAIN(function, T, W, reads, writes, third, ...)                                                           \
	static void function(const struct ptx_alu *alu)                                                            \
	{                                                                                                          \
		const T *a = alu->a, *b = alu->b, *c = third ? alu->c : alu->a;                                    \
		const u32 flags = *alu->carry;                                                                     \
		u8 out[PTX_ALU_LANES] __attribute__((aligned(64)));                                                \
		PTX_LANES(T, const T x = a[i]; const T y = b[i]; const T z = c[i];                                 \
			  const u32 k = reads ? flags >> i & 1 : 0; const W sum = (__VA_ARGS__); (void)z; (void)k; \
			  d[i] = (T)sum; out[i] = (u8)(sum >> PTX_BITS(T) & 1);)                                   \
		if (writes)                                                                                        \
			ptx_write_predicate(alu->carry, ptx_gather(out), alu->mask);                               \
	}
#define CHAIN2(text, function, bits, W, reads, writes, ...)                          \
	CHAIN(function##_b##bits, u##bits, W, reads, writes, 0, __VA_ARGS__)         \
	PTX_ROW(text ".u" #bits, function##_b##bits, bits, 0, 2, {bits, bits}, 0, 1) \
	PTX_ROW(text ".s" #bits, function##_b##bits, bits, 0, 2, {bits, bits}, 0, 1)
#define CHAIN3(text, function, T, bits, W, reads, writes, ...)     \
	CHAIN(function##_##T, T, W, reads, writes, 1, __VA_ARGS__) \
	PTX_ROW(text "." #T, function##_##T, bits, 0, 3, {bits, bits, bits}, 0, 1)

#define SUMS(bits, W)                                                    \
	CHAIN2("add.cc", add_cc, bits, W, 0, 1, (W)x + y)                \
	CHAIN2("addc", addc, bits, W, 1, 0, (W)x + y + k)                \
	CHAIN2("addc.cc", addc_cc, bits, W, 1, 1, (W)x + y + k)          \
	CHAIN2("sub.cc", sub_cc, bits, W, 0, 1, (W)x + (u##bits) ~y + 1) \
	CHAIN2("subc", subc, bits, W, 1, 0, (W)x + (u##bits) ~y + k)     \
	CHAIN2("subc.cc", subc_cc, bits, W, 1, 1, (W)x + (u##bits) ~y + k)
SUMS(32, u64)
SUMS(64, u128)

// Computes the low half of a product plus z; HIGH computes the upper half plus z. P is the type of the whole product.
#define LOW(T, U, W, P) ((W)(U)((P)x * y) + (U)z)
#define HIGH(T, U, W, P) ((W)(U)((P)((P)x * y) >> PTX_BITS(T)) + (U)z)
#define PRODUCTS(T, U, bits, W, P)                                              \
	CHAIN3("mad.lo.cc", mad_lo_cc, T, bits, W, 0, 1, LOW(T, U, W, P))       \
	CHAIN3("mad.hi.cc", mad_hi_cc, T, bits, W, 0, 1, HIGH(T, U, W, P))      \
	CHAIN3("madc.lo", madc_lo, T, bits, W, 1, 0, LOW(T, U, W, P) + k)       \
	CHAIN3("madc.hi", madc_hi, T, bits, W, 1, 0, HIGH(T, U, W, P) + k)      \
	CHAIN3("madc.lo.cc", madc_lo_cc, T, bits, W, 1, 1, LOW(T, U, W, P) + k) \
	CHAIN3("madc.hi.cc", madc_hi_cc, T, bits, W, 1, 1, HIGH(T, U, W, P) + k)
PRODUCTS(u32, u32, 32, u64, u64)
PRODUCTS(s32, u32, 32, u64, s64)
PRODUCTS(u64, u64, 64, u128, u128)
PRODUCTS(s64, u64, 64, u128, s128)
