// Implements the forms that select bits, bytes or words by an operand: lop3, prmt, selp, slct.
#include "form.h"

// Computes lop3: looks up each bit of the result in the instruction's table of eight bits. A tree of selections by x, y
// and z does so for all 32 bits at once. LEAF copies one bit of the table to all bits of a word.
#define LEAF(table, at) (0 - ((table) >> (at)&1))
#define SELECT(by, one, zero) ((zero) ^ ((by) & ((one) ^ (zero))))
#define TABLE_PAIR(table, at, z) SELECT(z, LEAF(table, (at) + 1), LEAF(table, at))
#define TABLE_LOOKUP(table, x, y, z)                                           \
	SELECT(x, SELECT(y, TABLE_PAIR(table, 6, z), TABLE_PAIR(table, 4, z)), \
	       SELECT(y, TABLE_PAIR(table, 2, z), TABLE_PAIR(table, 0, z)))

static void lop3_b32(const struct ptx_alu *alu)
{
	const u32 *a = alu->a, *b = alu->b, *c = alu->c;
	const u32 table = alu->immediate;

	PTX_LANES(u32, d[i] = TABLE_LOOKUP(table, a[i], b[i], c[i]);)
}
PTX_ROW("lop3.b32", lop3_b32, 32, 0, 3, {32, 32, 32}, 1, 0)

// Defines lop3 with a predicate, such as lop3.or.b32 d|p, a, b, c, table, q. The result p combines d != 0 with q, which
// is in f.
#define LOP3_BOOLEAN(name, operator)                                                                          \
	static void lop3_##name##_b32(const struct ptx_alu *alu)                                              \
	{                                                                                                     \
		const u32 *a = alu->a, *b = alu->b, *c = alu->c, q = *(const u32 *)alu->f;                    \
		const u32 table = alu->immediate;                                                             \
		u8 nonzero[PTX_ALU_LANES] __attribute__((aligned(64)));                                       \
		if (alu->d) {                                                                                 \
			PTX_LANES(u32, d[i] = TABLE_LOOKUP(table, a[i], b[i], c[i]); nonzero[i] = d[i] != 0;) \
		} else {                                                                                      \
			PTX_EACH_LANE nonzero[i] = TABLE_LOOKUP(table, a[i], b[i], c[i]) != 0;                \
		}                                                                                             \
		ptx_write_predicate(alu->e, ptx_gather(nonzero) operator q, alu->mask);                       \
	}                                                                                                     \
	PTX_ROW("lop3." #name ".b32", lop3_##name##_b32, 32, 1, 4, {32, 32, 32, 1}, 1, 0)
LOP3_BOOLEAN(or, |)
LOP3_BOOLEAN(and, &)

// Selects one of the eight bytes in b:a. If bit 3 of the selector is set, returns eight copies of the byte's sign
// instead.
static inline u32 permuted_byte(u64 eight, u32 selector)
{
	u32 byte = (u32)(eight >> (selector & 7) * 8) & 0xff;
	u32 sign = (0 - (byte >> 7)) & 0xff;

	return selector & 8 ? sign : byte;
}
static inline u32 permute(u32 x, u32 y, u32 selectors)
{
	u64 eight = (u64)y << 32 | x;

	return permuted_byte(eight, selectors) | permuted_byte(eight, selectors >> 4) << 8 |
	       permuted_byte(eight, selectors >> 8) << 16 | permuted_byte(eight, selectors >> 12) << 24;
}
PTX_OP3("prmt.b32", prmt_b32, u32, u32, u32, u32, permute(x, y, z))

// Defines prmt with a mode. s0 to s3 are the selectors for the four values of c's two low bits.
#define PERMUTE_MODE(mode, s0, s1, s2, s3)                              \
	static const u32 prmt_##mode##_selectors[4] = {s0, s1, s2, s3}; \
	PTX_OP3("prmt.b32." #mode, prmt_##mode, u32, u32, u32, u32, permute(x, y, prmt_##mode##_selectors[z & 3]))
PERMUTE_MODE(f4e, 0x3210, 0x4321, 0x5432, 0x6543)
PERMUTE_MODE(b4e, 0x5670, 0x6701, 0x7012, 0x0123)
PERMUTE_MODE(rc8, 0x0000, 0x1111, 0x2222, 0x3333)
PERMUTE_MODE(ecl, 0x3210, 0x3211, 0x3222, 0x3333)
PERMUTE_MODE(ecr, 0x0000, 0x1110, 0x2210, 0x3210)
PERMUTE_MODE(rc16, 0x1010, 0x3232, 0x1010, 0x3232)

#define SELP_FUNCTION(bits)                                                    \
	static void selp_b##bits(const struct ptx_alu *alu)                    \
	{                                                                      \
		const u##bits *a = alu->a, *b = alu->b;                        \
		const u32 chosen = *(const u32 *)alu->c;                       \
		PTX_LANES(u##bits, d[i] = chosen & (u32)1 << i ? a[i] : b[i];) \
	}                                                                      \
	SLCT(bits, s32, s32, z >= 0)                                           \
	SLCT(bits, f32, f32, z >= 0)                                           \
	SLCT(bits, ftz_f32, f32, z > -0x1p-126f)                               \
	SELP(b##bits, bits)                                                    \
	SELP(u##bits, bits)                                                    \
	SELP(s##bits, bits)
#define SELP(type, bits)                                                                   \
	PTX_ROW("selp." #type, selp_b##bits, bits, 0, 3, {bits, bits, 1}, 0, 0)            \
	PTX_ROW3("slct." #type ".s32", slct_b##bits##_s32, u##bits, u##bits, u##bits, s32) \
	PTX_ROW3("slct." #type ".f32", slct_b##bits##_f32, u##bits, u##bits, u##bits, f32) \
	PTX_ROW3("slct.ftz." #type ".f32", slct_b##bits##_ftz_f32, u##bits, u##bits, u##bits, f32)
#define SLCT(bits, name, C, condition) \
	PTX_FUNCTION3(slct_b##bits##_##name, u##bits, u##bits, u##bits, C, (condition) ? x : y)
SELP_FUNCTION(16)
SELP_FUNCTION(32)
SELP_FUNCTION(64)
SELP(f32, 32)
SELP(f64, 64)
