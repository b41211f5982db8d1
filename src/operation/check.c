#include "operation/check.h"

#include "base/size.h"

enum vg_status check_description(void *copy, size_t size, const void *description)
{
	if (!description)
		return vg_fail(VG_INVALID, 0, "the description is NULL");
	return vg_options_copy(copy, size, description);
}

enum vg_status check_type(enum vg_element_type type, const struct operation_type **ret_type)
{
	*ret_type = operation_type_of(type);
	if (*ret_type)
		return VG_OK;
	return vg_fail(VG_INVALID, 0, "there is no element type %d: take VG_F32, VG_TF32, VG_F16, VG_BF16 or VG_F64",
		       (int)type);
}

enum vg_status check_extents(const struct check_extent *extents, size_t count, uint64_t most)
{
	for (size_t i = 0; i < count; i++)
		if (extents[i].value < 1 || extents[i].value > most)
			return vg_fail(VG_INVALID, 0, "%s is %llu: it has to be from 1 to %llu", extents[i].name,
				       (unsigned long long)extents[i].value, (unsigned long long)most);
	return VG_OK;
}

enum vg_status check_elements(const char *name, const struct operation_type *type, const uint64_t *factors,
			      size_t count, uint64_t *ret_elements)
{
	uint64_t elements = 1, bytes;
	bool over = false;

	for (size_t i = 0; i < count; i++)
		over |= __builtin_mul_overflow(elements, factors[i], &elements);
	if (over || __builtin_mul_overflow(elements, type->bytes, &bytes) || bytes > INT64_MAX)
		return vg_fail(VG_INVALID, 0, "%s would take more than 2^63 bytes: the shape is too large", name);
	*ret_elements = elements;
	return VG_OK;
}

static enum vg_status check_address(const char *name, vg_address address, const struct operation_type *type)
{
	if (!address)
		return vg_fail(VG_INVALID, 0, "%s is 0: it needs the address of device memory", name);
	if (address % type->bytes)
		return vg_fail(VG_INVALID, 0, "%s is 0x%llx, not a multiple of the %u bytes of an element (%s)", name,
			       (unsigned long long)address, type->bytes, type->name);
	return VG_OK;
}

enum vg_status check_range(struct operation_ranges *ranges, const char *name, vg_address address, uint64_t elements,
			   const struct operation_type *type, bool write)
{
	uint64_t bytes = elements * type->bytes;
	char size[VG_SIZE_TEXT];

	enum vg_status status = check_address(name, address, type);
	if (status)
		return status;
	if (bytes > UINT64_MAX - address)
		return vg_fail(VG_INVALID, 0, "%s, %s at 0x%llx, goes past the end of the address space", name,
			       vg_size_format(bytes, size), (unsigned long long)address);
	for (unsigned i = 0; i < ranges->count; i++) {
		vg_address other = ranges->range[i].address;
		bool apart = address >= other + ranges->range[i].bytes || other >= address + bytes;
		if (!apart && (write || ranges->range[i].write))
			return vg_fail(
				VG_INVALID, 0,
				"%s (%llu bytes at 0x%llx) and %s (%llu bytes at 0x%llx) overlap, and %s is written",
				name, (unsigned long long)bytes, (unsigned long long)address, ranges->range[i].name,
				(unsigned long long)ranges->range[i].bytes, (unsigned long long)other,
				write ? name : ranges->range[i].name);
	}
	ranges->range[ranges->count].address = address;
	ranges->range[ranges->count].bytes = bytes;
	ranges->range[ranges->count].write = write;
	ranges->range[ranges->count++].name = name;
	return VG_OK;
}
