// Defines the computations of wide.cu, as expressions for its kernels and for the reference on the host. Any thread.
#pragma once

typedef unsigned __int128 wide;
typedef __int128 signed_wide;
#define WIDE_CONSTANT ((wide)0x123456789abcdef0u << 64 | 0x0fedcba987654321u)

#ifndef WIDE_FUNCTION
#define WIDE_FUNCTION static inline
#endif

// The operands of divisions. No divisor is 0, and no signed quotient overflows.
struct wide_operands {
	wide a, b;
	signed_wide sa, sb;
	unsigned long long c;
	unsigned d;
};

// Makes a number from 128 random bits. Depending on the bits, it has any magnitude, or is near a power of two.
WIDE_FUNCTION wide wide_number(const unsigned *random)
{
	wide bits = (wide)((unsigned long long)random[3] << 32 | random[2]) << 64 |
		    ((unsigned long long)random[1] << 32 | random[0]);
	unsigned by = random[0] >> 8 & 127;

	switch (random[0] & 7) {
	case 0:
		return ((wide)1 << by) + (random[1] & 3) - 2;
	case 1:
		return ~(wide)0 >> by;
	case 2:
		return ~(wide)0 << by;
	case 3:
		return ~(bits >> by);
	case 4:
		return bits & ~(wide)0 << by;
	case 5:
		return bits;
	default:
		return bits >> by;
	}
}

WIDE_FUNCTION struct wide_operands wide_operands_take(const unsigned random[8])
{
	struct wide_operands operands;
	const wide least = (wide)1 << 127;

	operands.a = wide_number(random);
	operands.b = wide_number(random + 4);
	operands.b += operands.b == 0;
	operands.c = (unsigned long long)operands.b;
	operands.c += operands.c == 0;
	operands.d = (unsigned)operands.b;
	operands.d += operands.d == 0;
	operands.sa = (signed_wide)operands.a;
	operands.sb = operands.a == least && operands.b == ~(wide)0 ? 1 : (signed_wide)operands.b;
	if (operands.a == least && operands.d == ~0u)
		operands.d = 1;
	return operands;
}

#define WIDE_DIVISIONS(X)                     \
	X(o.a / o.b)                          \
	X(o.a % o.b)                          \
	X(o.sa / o.sb)                        \
	X(o.sa % o.sb)                        \
	X(o.a / o.c)                          \
	X(o.a % o.c)                          \
	X(o.a / o.d)                          \
	X(o.a % o.d)                          \
	X(o.sa / (int)o.d)                    \
	X(o.sa % (int)o.d)                    \
	X(o.a / 3)                            \
	X(o.a % 3)                            \
	X(o.a / 10)                           \
	X(o.a % 10)                           \
	X(o.a / 1000000007)                   \
	X(o.a % 1000000007)                   \
	X(o.a / 10000000000000000000u)        \
	X(o.a % 10000000000000000000u)        \
	X(o.a / WIDE_CONSTANT)                \
	X(o.a % WIDE_CONSTANT)                \
	X(o.sa / 7)                           \
	X(o.sa % 7)                           \
	X(o.sa / -10)                         \
	X(o.sa % -10)                         \
	X(o.sa / 1024)                        \
	X(o.sa % 1024)                        \
	X(o.sa / -(signed_wide)WIDE_CONSTANT) \
	X(o.sa % -(signed_wide)WIDE_CONSTANT)
enum { WIDE_DIVISION_COUNT = 28 };

// Lists instructions that write the carry flag. Each row has the instruction and the new flag, for the operands x, y, z
// and the old flag f. A subtraction sets the flag if there is no borrow. T and S are the unsigned and the signed type
// with this number of bits.
#define CARRY_FLAGS(X, T, S, bits)                                                                                \
	X(T, bits, "add.cc.u" #bits " t, x, y;", ((wide)x + y) >> bits)                                           \
	X(T, bits, "addc.cc.u" #bits " t, x, y;", ((wide)x + y + f) >> bits)                                      \
	X(T, bits, "sub.cc.u" #bits " t, x, y;", x >= y)                                                          \
	X(T, bits, "subc.cc.u" #bits " t, x, y;", x >= (wide)y + !f)                                              \
	X(T, bits, "mad.lo.cc.u" #bits " t, x, y, z;", ((wide)(T)((wide)x * y) + z) >> bits)                      \
	X(T, bits, "madc.lo.cc.u" #bits " t, x, y, z;", ((wide)(T)((wide)x * y) + z + f) >> bits)                 \
	X(T, bits, "mad.hi.cc.u" #bits " t, x, y, z;", ((wide)(T)((wide)x * y >> bits) + z) >> bits)              \
	X(T, bits, "madc.hi.cc.u" #bits " t, x, y, z;", ((wide)(T)((wide)x * y >> bits) + z + f) >> bits)         \
	X(T, bits, "mad.lo.cc.s" #bits " t, x, y, z;", ((wide)(T)((wide)x * y) + z) >> bits)                      \
	X(T, bits, "madc.lo.cc.s" #bits " t, x, y, z;", ((wide)(T)((wide)x * y) + z + f) >> bits)                 \
	X(T, bits, "mad.hi.cc.s" #bits " t, x, y, z;", ((wide)(T)((signed_wide)(S)x * (S)y >> bits) + z) >> bits) \
	X(T, bits, "madc.hi.cc.s" #bits " t, x, y, z;", ((wide)(T)((signed_wide)(S)x * (S)y >> bits) + z + f) >> bits)
#define CARRY_FLAGS_ALL(X) CARRY_FLAGS(X, unsigned, int, 32) CARRY_FLAGS(X, unsigned long long, long long, 64)
enum { CARRY_FLAG_COUNT = 24, CARRY_EDGES = 24 };
