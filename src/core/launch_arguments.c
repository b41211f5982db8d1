// Checks arguments against the parameters of a kernel: their number, their sizes and their addresses.
#include "base/hot.h"
#include "core/error.h"
#include "core/launch.h"

#include <immintrin.h>

enum { FEW = 8 }; // up to this number of arguments, the simple loop is faster

static bool is_address(const void *value)
{
	// Returns false for NULL, and for addresses in the half of the address space that belongs to the operating
	// system.
	return !(((size_t)value - 1) >> 63);
}

enum vg_status core_launch_check_argument(const struct vg_kernel *kernel, size_t index, const void *value, size_t size)
{
	if (index >= kernel->parameter_count)
		return vg_fail(VG_INVALID, 0, "argument %zu: kernel \"%s\" takes %u, counted from 0", index,
			       core_kernel_title(kernel), kernel->parameter_count);
	if (!is_address(value))
		return vg_fail(VG_INVALID, 0,
			       "argument %zu of kernel \"%s\" (counted from 0) is %s: point to its value", index,
			       core_kernel_title(kernel), value ? "at no address" : "NULL");
	if (size != kernel->sizes[index])
		return vg_fail(VG_INVALID, 0,
			       "argument %zu of kernel \"%s\" (counted from 0) has %zu byte%s: the kernel takes %d",
			       index, core_kernel_title(kernel), size, size == 1 ? "" : "s", kernel->sizes[index]);
	return VG_OK;
}

static VG_COLD enum vg_status find_wrong_argument(const struct vg_kernel *kernel, const struct vg_argument *arguments)
{
	for (size_t i = 0; i < kernel->parameter_count; i++)
		CORE_TRY(core_launch_check_argument(kernel, i, arguments[i].value, arguments[i].size));
	return VG_OK;
}

static VG_COLD enum vg_status fail_count(const struct vg_kernel *kernel, size_t count)
{
	if (count == kernel->parameter_count)
		return vg_fail(VG_INVALID, 0, "arguments is NULL, but argument_count is %zu", count);
	return vg_fail(VG_INVALID, 0, "%zu argument%s for kernel \"%s\", which takes %u", count, count == 1 ? "" : "s",
		       core_kernel_title(kernel), kernel->parameter_count);
}

// Copies the addresses of the arguments from `i` on. Returns 0 if all these arguments are valid. Does not branch for
// each argument, since hundreds are common and invalid ones are rare.
static inline size_t copy_rest(size_t i, size_t count, const struct vg_argument *arguments, const uint16_t *sizes,
			       void **ret_values)
{
	size_t wrong = 0, lowest = 0;

	for (; i < count; i++) {
		wrong |= arguments[i].size ^ sizes[i];
		lowest |= (size_t)arguments[i].value - 1; // an invalid address sets the highest bit, see is_address()
		ret_values[i] = (void *)arguments[i].value;
	}
	return wrong | lowest >> 63;
}

// Copies and checks the arguments four at a time.
static __attribute__((target("avx2"))) VG_HOT size_t copy_many(size_t count, const struct vg_argument *arguments,
							       const uint16_t *sizes, void **ret_values)
{
	typedef size_t lanes __attribute__((vector_size(32), aligned(8), may_alias));
	lanes wrong = {0}, lowest = {0};
	size_t i = 0;

	for (; i + 4 <= count; i += 4) {
		lanes two = *(const lanes *)&arguments[i], more = *(const lanes *)&arguments[i + 2];
		lanes values = __builtin_shufflevector(two, more, 0, 2, 4, 6);
		lanes expected = (lanes)_mm256_cvtepu16_epi64(_mm_loadl_epi64((const __m128i *)&sizes[i]));
		wrong |= __builtin_shufflevector(two, more, 1, 3, 5, 7) ^ expected;
		lowest |= values - 1;
		*(lanes *)&ret_values[i] = values;
	}
	wrong |= lowest >> 63;
	return wrong[0] | wrong[1] | wrong[2] | wrong[3] | copy_rest(i, count, arguments, sizes, ret_values);
}

VG_HOT enum vg_status core_launch_check_arguments(const struct vg_kernel *kernel, const struct vg_argument *arguments,
						  size_t count, void **ret_values)
{
	if (__builtin_expect(count != kernel->parameter_count || (count && !arguments), 0))
		return fail_count(kernel, count);
	size_t wrong = count >= FEW && core_launching.avx2 ? copy_many(count, arguments, kernel->sizes, ret_values)
							   : copy_rest(0, count, arguments, kernel->sizes, ret_values);
	return __builtin_expect(wrong != 0, 0) ? find_wrong_argument(kernel, arguments) : VG_OK;
}
