// Sentences that the checks of all operations share. This room only.
#pragma once
#include "operation/plan.h"

// Copies the program's description, which may not be NULL, and looks its type up. INVALID.
enum vg_status check_description(void *copy, size_t size, const void *description);
enum vg_status check_type(enum vg_element_type type, const struct operation_type **ret_type);

// Fields that start at 1, in the order of the description.
struct check_extent {
	const char *name;
	uint64_t value;
};
// INVALID where one is 0, or above `most`.
enum vg_status check_extents(const struct check_extent *extents, size_t count, uint64_t most);
// first * rest[0] * …; INVALID where it does not fit the address space as bytes, naming the tensor.
enum vg_status check_elements(const char *name, const struct operation_type *type, const uint64_t *factors,
			      size_t count, uint64_t *ret_elements);
// Adds what a tensor takes. INVALID: address 0 or misaligned, the end of the address space, another range that overlaps
// where one of both is written.
enum vg_status check_range(struct operation_ranges *ranges, const char *name, vg_address address, uint64_t elements,
			   const struct operation_type *type, bool write);
