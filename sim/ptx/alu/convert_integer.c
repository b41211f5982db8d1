// Implements cvt between integers, and between integers and floats.
#include "narrow.h"

// The C types of registers, by the name of the PTX type.
typedef u16 register_u8;
typedef s16 register_s8;
typedef u16 register_u16;
typedef s16 register_s16;
typedef u32 register_u32;
typedef s32 register_s32;
typedef u64 register_u64;
typedef s64 register_s64;
typedef u16 register_f16;
typedef u16 register_bf16;
typedef f32 register_f32;
typedef f64 register_f64;

#define LOWEST(T) ((T)-1 > 0 ? (T)0 : (T)((u64)1 << (PTX_BITS(T) - 1)))
#define HIGHEST(T) ((T)~LOWEST(T))

#define EVERY_INTEGER(DO, ...) \
	DO(u8, __VA_ARGS__)    \
	DO(s8, __VA_ARGS__)    \
	DO(u16, __VA_ARGS__)   \
	DO(s16, __VA_ARGS__)   \
	DO(u32, __VA_ARGS__)   \
	DO(s32, __VA_ARGS__)   \
	DO(u64, __VA_ARGS__)   \
	DO(s64, __VA_ARGS__)

// Defines conversions from S to D, with and without saturation. W must hold every value of S and both limits of D.
#define RESIZE(D, S, W)                                                               \
	PTX_OP1("cvt." #D "." #S, cvt_##D##_##S, register_##D, register_##S, (D)(S)x) \
	PTX_OP1("cvt.sat." #D "." #S, cvt_sat_##D##_##S, register_##D, register_##S,  \
		(W)(S)x<(W)LOWEST(D) ? LOWEST(D) : (W)(S)x>(W) HIGHEST(D) ? HIGHEST(D) : (D)(S)x)
EVERY_INTEGER(RESIZE, u8, s64)
EVERY_INTEGER(RESIZE, s8, s64)
EVERY_INTEGER(RESIZE, u16, s64)
EVERY_INTEGER(RESIZE, s16, s64)
EVERY_INTEGER(RESIZE, u32, s128)
EVERY_INTEGER(RESIZE, s32, s128)
EVERY_INTEGER(RESIZE, u64, s128)
EVERY_INTEGER(RESIZE, s64, s128)

// Converts a rounded float to an integer, and clamps it to the limits. NaN becomes 0. But if a type has 64 bits, NaN
// becomes the integer with only the highest bit set.
#define CLAMPED(D, value, nan)                     \
	((value) != (value)	      ? (D)(nan)   \
	 : (value) <= (f64)LOWEST(D)  ? LOWEST(D)  \
	 : (value) >= (f64)HIGHEST(D) ? HIGHEST(D) \
				      : (D)(value))
#define VALUE_f16(x) ((f64)ptx_f16_value(x))
#define VALUE_bf16(x) ((f64)ptx_bf16_value(x))
#define VALUE_f32(x) ((f64)(x))
#define VALUE_f64(x) (x)

#define TO_INTEGER(D, S, mode, function, nan)                                                   \
	static inline D cvt_lane_##mode##_##D##_##S(register_##S x)                             \
	{                                                                                       \
		f64 value = function(VALUE_##S(x));                                             \
		return CLAMPED(D, value, nan);                                                  \
	}                                                                                       \
	PTX_OP1("cvt." #mode "." #D "." #S, cvt_##mode##_##D##_##S, register_##D, register_##S, \
		cvt_lane_##mode##_##D##_##S(x))                                                 \
	PTX_ROW1("cvt." #mode ".sat." #D "." #S, cvt_##mode##_##D##_##S, register_##D, register_##S)
#define HIGH_BIT(D) ((u64)1 << (PTX_BITS(D) - 1))
#define NAN_OF(D, of_f64) ((of_f64) || PTX_BITS(D) == 64 ? HIGH_BIT(D) : 0)
#define IDENTITY(x) (x) // the conversion truncates
#define TO_INTEGER_MODES(D, S, of_f64)                     \
	TO_INTEGER(D, S, rni, rint, NAN_OF(D, of_f64))     \
	TO_INTEGER(D, S, rzi, IDENTITY, NAN_OF(D, of_f64)) \
	TO_INTEGER(D, S, rmi, floor, NAN_OF(D, of_f64))    \
	TO_INTEGER(D, S, rpi, ceil, NAN_OF(D, of_f64))
EVERY_INTEGER(TO_INTEGER_MODES, f16, 0)
EVERY_INTEGER(TO_INTEGER_MODES, bf16, 0)
EVERY_INTEGER(TO_INTEGER_MODES, f32, 0)
EVERY_INTEGER(TO_INTEGER_MODES, f64, 1)

#define TO_INTEGER_FTZ(D, mode)                                                          \
	PTX_OP1("cvt." #mode ".ftz." #D ".f32", cvt_##mode##_ftz_##D, register_##D, f32, \
		cvt_lane_##mode##_##D##_f32(ptx_flush_f32(x)))                           \
	PTX_ROW1("cvt." #mode ".ftz.sat." #D ".f32", cvt_##mode##_ftz_##D, register_##D, f32)
EVERY_INTEGER(TO_INTEGER_FTZ, rni)
EVERY_INTEGER(TO_INTEGER_FTZ, rzi)
EVERY_INTEGER(TO_INTEGER_FTZ, rmi)
EVERY_INTEGER(TO_INTEGER_FTZ, rpi)

// Defines conversions from an integer to a float, which round with integer arithmetic. To round f32 and f64 to nearest,
// FROM_INTEGER_NATIVE uses the processor.
#define FROM_INTEGER(S, D, B, format, mode, name)                                                            \
	static inline B cvt_lane_##name##_##D##_##S(S x)                                                     \
	{                                                                                                    \
		int negative = x < (S)0;                                                                     \
		u64 magnitude = negative ? 0 - (u64)x : (u64)x;                                              \
		return (B)(ptx_round_u64(magnitude, negative, format, mode) | (negative ? PTX_SIGN(B) : 0)); \
	}                                                                                                    \
	PTX_SCALAR1(cvt_##name##_##D##_##S, B, register_##S, cvt_lane_##name##_##D##_##S((S)x))              \
	PTX_ROW1("cvt." #name "." #D "." #S, cvt_##name##_##D##_##S, B, register_##S)                        \
	PTX_OP1("cvt." #name ".sat." #D "." #S, cvt_##name##_sat_##D##_##S, B, register_##S, (S)x > (S)0 ? ONE_##D : 0)
// The bits of 1.0. With .sat, the result of converting an integer is 0 or 1.
#define ONE_f16 0x3c00
#define ONE_bf16 0x3f80
#define ONE_f32 0x3f800000
#define ONE_f64 0x3ff0000000000000
#define FROM_INTEGER_DIRECTED(S, D, B, format)      \
	FROM_INTEGER(S, D, B, format, PTX_ZERO, rz) \
	FROM_INTEGER(S, D, B, format, PTX_DOWN, rm) \
	FROM_INTEGER(S, D, B, format, PTX_UP, rp)
#define FROM_INTEGER_NARROW(S, D, format)                \
	FROM_INTEGER(S, D, u16, format, PTX_NEAREST, rn) \
	FROM_INTEGER_DIRECTED(S, D, u16, format)
EVERY_INTEGER(FROM_INTEGER_NARROW, f16, PTX_FORMAT_F16)
EVERY_INTEGER(FROM_INTEGER_NARROW, bf16, PTX_FORMAT_BF16)
EVERY_INTEGER(FROM_INTEGER_DIRECTED, f32, u32, PTX_FORMAT_F32)
EVERY_INTEGER(FROM_INTEGER_DIRECTED, f64, u64, PTX_FORMAT_F64)

#define FROM_INTEGER_NATIVE(S, D)                                                \
	PTX_OP1("cvt.rn." #D "." #S, cvt_rn_##D##_##S, D, register_##S, (D)(S)x) \
	PTX_OP1("cvt.rn.sat." #D "." #S, cvt_rn_sat_##D##_##S, D, register_##S, ptx_saturate_##D((D)(S)x))
EVERY_INTEGER(FROM_INTEGER_NATIVE, f32)
EVERY_INTEGER(FROM_INTEGER_NATIVE, f64)

// Defines the .ftz forms, which are the same because no integer becomes a subnormal number.
#define FROM_INTEGER_FTZ(S, mode)                                                      \
	PTX_ROW1("cvt." #mode ".ftz.f32." #S, cvt_##mode##_f32_##S, f32, register_##S) \
	PTX_ROW1("cvt." #mode ".ftz.sat.f32." #S, cvt_##mode##_sat_f32_##S, f32, register_##S)
EVERY_INTEGER(FROM_INTEGER_FTZ, rn)
EVERY_INTEGER(FROM_INTEGER_FTZ, rz)
EVERY_INTEGER(FROM_INTEGER_FTZ, rm)
EVERY_INTEGER(FROM_INTEGER_FTZ, rp)

// Clamps x to the limits of the narrow type, and returns the bits of that type. cvt.pack puts a above b in the result,
// and the low part of c above both.
static inline u32 clamp_pack(s32 x, s32 lowest, s32 highest)
{
	s32 clamped = x < lowest ? lowest : x > highest ? highest : x;
	return (u32)clamped & (u32)(highest - lowest);
}
#define PACK(name, bits, lowest, highest)                                                      \
	PTX_FUNCTION2(cvt_pack_##name, u32, s32, s32,                                          \
		      clamp_pack(x, lowest, highest) << bits | clamp_pack(y, lowest, highest)) \
	PTX_ROW2("cvt.pack.sat." #name ".s32", cvt_pack_##name, u32, s32, s32)
#define PACK_ABOVE(name, bits, lowest, highest)                                              \
	PTX_OP3("cvt.pack.sat." #name ".s32.b32", cvt_pack_above_##name, u32, s32, s32, u32, \
		z << (2 * bits) | clamp_pack(x, lowest, highest) << bits | clamp_pack(y, lowest, highest))
PACK(u16, 16, 0, 65535)
PACK(s16, 16, -32768, 32767)
PACK_ABOVE(u8, 8, 0, 255)
PACK_ABOVE(s8, 8, -128, 127)
PACK_ABOVE(u4, 4, 0, 15)
PACK_ABOVE(s4, 4, -8, 7)
PACK_ABOVE(u2, 2, 0, 3)
PACK_ABOVE(s2, 2, -2, 1)
