// Implements setp and set for integers.
#include "compare.h"

typedef u16 b16;
typedef u32 b32;
typedef u64 b64;

#define EQUALITY(T)                  \
	COMPARISON(eq, T, T, x == y) \
	COMPARISON(ne, T, T, x != y)
#define ORDER(T)                     \
	COMPARISON(lt, T, T, x < y)  \
	COMPARISON(le, T, T, x <= y) \
	COMPARISON(gt, T, T, x > y)  \
	COMPARISON(ge, T, T, x >= y)
// Defines other names of the unsigned comparisons.
#define UNSIGNED_ORDER(T)                                   \
	COMPARE_FORMS(lo_##T, lo, "", T, T, compare_lt_##T) \
	COMPARE_FORMS(ls_##T, ls, "", T, T, compare_le_##T) \
	COMPARE_FORMS(hi_##T, hi, "", T, T, compare_gt_##T) \
	COMPARE_FORMS(hs_##T, hs, "", T, T, compare_ge_##T)

#define WIDTH(bits)       \
	EQUALITY(b##bits) \
	EQUALITY(u##bits) \
	EQUALITY(s##bits) \
	ORDER(u##bits)    \
	ORDER(s##bits)    \
	UNSIGNED_ORDER(u##bits)
WIDTH(16)
WIDTH(32)
WIDTH(64)
