// Checks that all operations have in common. For this room only.
#pragma once
#include "operation/plan.h"

// Copies the program's description, which must not be NULL; looks up its type. INVALID.
enum vg_status check_description(void *copy, size_t size, const void *description);
enum vg_status check_type(enum vg_element_type type, const struct operation_type **ret_type);

// Fields that must be at least 1, in the order of the description.
struct check_extent {
	const char *name;
	uint64_t value;
};
// Fails with INVALID if one is 0 or above `most`.
enum vg_status check_extents(const struct check_extent *extents, size_t count, uint64_t most);
// Multiplies the factors. Fails with INVALID, naming the tensor, if its bytes exceed the address space.
enum vg_status check_elements(const char *name, const struct operation_type *type, const uint64_t *factors,
			      size_t count, uint64_t *ret_elements);
// Adds a tensor's range. INVALID: the address is 0 or misaligned, the range exceeds the address space, or it overlaps
// another range and one of them is written.
enum vg_status check_range(struct operation_ranges *ranges, const char *name, vg_address address, uint64_t elements,
			   const struct operation_type *type, bool write);
