/* The arguments of a launch: the address of each value, and its size in bytes. */
#ifndef VIRGATE_ARGUMENT_H
#define VIRGATE_ARGUMENT_H

#include <stddef.h>

/* One argument of a launch. Its size must be that of the kernel's parameter. The call that gets it copies the
 * value. */
struct vg_argument {
	const void *value;
	size_t size;
};
/* One argument that is read again at each launch (vg_argument_list_create()): the address of a variable. */
struct vg_variable {
	struct vg_argument place;
};

/* VG_ARGUMENTS(vector, n * 4, 2.5f): 1 to 32 arguments and their number, for the two parameters `arguments` and
 * `argument_count` of a call. Any expression is an argument, in its own type: nothing is promoted, so that a char has
 * 1 byte. An array stands for its bytes, as a structure does. In C the literal 'a' is an int; write (char)'a'.
 * Lifetime: in C to the end of the enclosing block; in C++ to the end of the statement, so only in the call itself.
 *
 * VG_ARGUMENT(n): one such argument, for an array of them. In C any expression, with the same lifetime. In C++ a
 * variable, to which it points; a temporary value does not compile, since it would be gone at the launch.
 *
 * VG_VARIABLE(n): the address of a variable, which must last as long as the argument list. */
/* clang-format off */
#ifdef __cplusplus
#ifdef __clang__
#define VG_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define VG_LIFETIME_BOUND
#endif
extern "C++" {
template <typename T> const void *vg_place_of(const volatile T &value)
{
	return const_cast<const T *>(__builtin_addressof(value));
}
template <typename T> vg_argument vg_argument_of(T &value)
{
	return {vg_place_of(value), sizeof(T)};
}
template <typename T> vg_argument vg_argument_of(const T &&)
{
	static_assert(sizeof(T) == 0, "VG_ARGUMENT of a temporary value, which is gone at the launch: "
				      "use VG_ARGUMENTS in the call, or store the value in a variable");
	return {};
}
template <size_t count> struct vg_arguments_of_call {
	vg_argument arguments[count];
	const vg_argument *first() const VG_LIFETIME_BOUND { return arguments; }
};
template <typename... T> vg_arguments_of_call<sizeof...(T)> vg_arguments_of(const T &...values)
{
	return {{{vg_place_of(values), sizeof(T)}...}};
}
template <typename... T> char (&vg_argument_count_of(const T &...))[sizeof...(T)];
}
#define VG_ARGUMENTS(...) vg_arguments_of(__VA_ARGS__).first(), sizeof(vg_argument_count_of(__VA_ARGS__))
#define VG_ARGUMENT(...) vg_argument_of(__VA_ARGS__)
#define VG_VARIABLE(variable) (vg_variable{{vg_place_of(variable), sizeof(variable)}})
#else
#define VG_ARGUMENTS(...) \
	((struct vg_argument[]){VG_EACH_ITEM(__VA_ARGS__)(__VA_ARGS__)}), VG_COUNT(__VA_ARGS__)
#define VG_ARGUMENT(...) ((struct vg_argument)VG_ITEM((__VA_ARGS__)))
#define VG_VARIABLE(variable) ((struct vg_variable){{&(variable), sizeof(variable)}})
/* Parts of the macros above. The comma operator turns an array into a pointer to it, and promotes nothing: if it
 * changes the type, the expression is an array. */
#define VG_DECAYED(x) __typeof__(((void)0, x))
#define VG_ITEM(x) \
	{__builtin_choose_expr(__builtin_types_compatible_p(__typeof__(x), VG_DECAYED(x)), (VG_DECAYED(x)[1]){x}, x), \
	 sizeof x}
#define VG_PICK(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, \
	a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, pick, ...) pick
#define VG_COUNT(...) VG_PICK(__VA_ARGS__, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, \
	16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define VG_EACH_ITEM(...) VG_PICK(__VA_ARGS__, VG_ITEMS_32, VG_ITEMS_31, VG_ITEMS_30, VG_ITEMS_29, \
	VG_ITEMS_28, VG_ITEMS_27, VG_ITEMS_26, VG_ITEMS_25, VG_ITEMS_24, VG_ITEMS_23, VG_ITEMS_22, \
	VG_ITEMS_21, VG_ITEMS_20, VG_ITEMS_19, VG_ITEMS_18, VG_ITEMS_17, VG_ITEMS_16, VG_ITEMS_15, \
	VG_ITEMS_14, VG_ITEMS_13, VG_ITEMS_12, VG_ITEMS_11, VG_ITEMS_10, VG_ITEMS_9, VG_ITEMS_8, \
	VG_ITEMS_7, VG_ITEMS_6, VG_ITEMS_5, VG_ITEMS_4, VG_ITEMS_3, VG_ITEMS_2, VG_ITEMS_1, 0)
#define VG_ITEMS_1(a) VG_ITEM((a))
#define VG_ITEMS_2(a, ...) VG_ITEM((a)), VG_ITEMS_1(__VA_ARGS__)
#define VG_ITEMS_3(a, ...) VG_ITEM((a)), VG_ITEMS_2(__VA_ARGS__)
#define VG_ITEMS_4(a, ...) VG_ITEM((a)), VG_ITEMS_3(__VA_ARGS__)
#define VG_ITEMS_5(a, ...) VG_ITEM((a)), VG_ITEMS_4(__VA_ARGS__)
#define VG_ITEMS_6(a, ...) VG_ITEM((a)), VG_ITEMS_5(__VA_ARGS__)
#define VG_ITEMS_7(a, ...) VG_ITEM((a)), VG_ITEMS_6(__VA_ARGS__)
#define VG_ITEMS_8(a, ...) VG_ITEM((a)), VG_ITEMS_7(__VA_ARGS__)
#define VG_ITEMS_9(a, ...) VG_ITEM((a)), VG_ITEMS_8(__VA_ARGS__)
#define VG_ITEMS_10(a, ...) VG_ITEM((a)), VG_ITEMS_9(__VA_ARGS__)
#define VG_ITEMS_11(a, ...) VG_ITEM((a)), VG_ITEMS_10(__VA_ARGS__)
#define VG_ITEMS_12(a, ...) VG_ITEM((a)), VG_ITEMS_11(__VA_ARGS__)
#define VG_ITEMS_13(a, ...) VG_ITEM((a)), VG_ITEMS_12(__VA_ARGS__)
#define VG_ITEMS_14(a, ...) VG_ITEM((a)), VG_ITEMS_13(__VA_ARGS__)
#define VG_ITEMS_15(a, ...) VG_ITEM((a)), VG_ITEMS_14(__VA_ARGS__)
#define VG_ITEMS_16(a, ...) VG_ITEM((a)), VG_ITEMS_15(__VA_ARGS__)
#define VG_ITEMS_17(a, ...) VG_ITEM((a)), VG_ITEMS_16(__VA_ARGS__)
#define VG_ITEMS_18(a, ...) VG_ITEM((a)), VG_ITEMS_17(__VA_ARGS__)
#define VG_ITEMS_19(a, ...) VG_ITEM((a)), VG_ITEMS_18(__VA_ARGS__)
#define VG_ITEMS_20(a, ...) VG_ITEM((a)), VG_ITEMS_19(__VA_ARGS__)
#define VG_ITEMS_21(a, ...) VG_ITEM((a)), VG_ITEMS_20(__VA_ARGS__)
#define VG_ITEMS_22(a, ...) VG_ITEM((a)), VG_ITEMS_21(__VA_ARGS__)
#define VG_ITEMS_23(a, ...) VG_ITEM((a)), VG_ITEMS_22(__VA_ARGS__)
#define VG_ITEMS_24(a, ...) VG_ITEM((a)), VG_ITEMS_23(__VA_ARGS__)
#define VG_ITEMS_25(a, ...) VG_ITEM((a)), VG_ITEMS_24(__VA_ARGS__)
#define VG_ITEMS_26(a, ...) VG_ITEM((a)), VG_ITEMS_25(__VA_ARGS__)
#define VG_ITEMS_27(a, ...) VG_ITEM((a)), VG_ITEMS_26(__VA_ARGS__)
#define VG_ITEMS_28(a, ...) VG_ITEM((a)), VG_ITEMS_27(__VA_ARGS__)
#define VG_ITEMS_29(a, ...) VG_ITEM((a)), VG_ITEMS_28(__VA_ARGS__)
#define VG_ITEMS_30(a, ...) VG_ITEM((a)), VG_ITEMS_29(__VA_ARGS__)
#define VG_ITEMS_31(a, ...) VG_ITEM((a)), VG_ITEMS_30(__VA_ARGS__)
#define VG_ITEMS_32(a, ...) VG_ITEM((a)), VG_ITEMS_31(__VA_ARGS__)
#endif
/* clang-format on */
#endif
