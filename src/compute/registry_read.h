// Creates the entries of the table of kernels. Any thread.
#pragma once
#include "compute/registry.h"

// Creates an entry for each kernel of the code, and loads the code. The caller frees the array and releases the
// entries.
enum vg_status compute_read_code(struct vg_object_code *code, unsigned architecture,
				 struct compute_entry ***ret_entries, size_t *ret_count);
// Creates an entry for a kernel of any code, and retains the kernel.
enum vg_status compute_read_kernel(const char *name, struct vg_kernel *kernel, unsigned architecture,
				   struct compute_entry **ret_entry);

// Writes the names that are most similar to `name` into the text, such as "matrix_multiply, matrix_add". Returns false
// if no name is similar.
bool compute_names_like(const char *name, struct compute_entry *const *entries, size_t count, char *ret_text,
			size_t capacity);
