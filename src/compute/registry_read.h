// What the table of kernels is made from. Any thread.
#pragma once
#include "compute/registry.h"

// An entry for each kernel of the code, which is loaded; the caller frees the array and releases the entries.
enum vg_status compute_read_code(struct vg_object_code *code, unsigned architecture,
				 struct compute_entry ***ret_entries, size_t *ret_count);
// One for a kernel of any code, which it holds.
enum vg_status compute_read_kernel(const char *name, struct vg_kernel *kernel, unsigned architecture,
				   struct compute_entry **ret_entry);

// "matrix_multiply, matrix_add": the few names that are spelt most like this one. False: none is.
bool compute_names_like(const char *name, struct compute_entry *const *entries, size_t count, char *ret_text,
			size_t capacity);
