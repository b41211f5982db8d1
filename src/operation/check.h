// Declares the checks that all operations share. For this directory only.
#pragma once
#include "operation/plan.h"

// check_description() copies the program's description, which must not be NULL. check_type() looks up an element type.
// Both fail with INVALID.
enum vg_status check_description(void *copy, size_t size, const void *description);
enum vg_status check_type(enum vg_element_type type, const struct operation_type **ret_type);

// A field of the description that must be at least 1. Arrays of these are in the order of the description.
struct check_extent {
	const char *name;
	uint64_t value;
};
// Fails with INVALID if one of the fields is 0 or above `most`.
enum vg_status check_extents(const struct check_extent *extents, size_t count, uint64_t most);
// Multiplies the factors. Fails with INVALID, naming the tensor, if the tensor's bytes exceed the address space.
enum vg_status check_elements(const char *name, const struct operation_type *type, const uint64_t *factors,
			      size_t count, uint64_t *ret_elements);
// Adds the range of a tensor to the plan. Fails with INVALID if the address is 0 or misaligned, if the range exceeds
// the address space, or if it overlaps another range and the operation writes one of the two.
enum vg_status check_range(struct operation_ranges *ranges, const char *name, vg_address address, uint64_t elements,
			   const struct operation_type *type, bool write);
