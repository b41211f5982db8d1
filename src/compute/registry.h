// Kernels by name: the built-in set and what programs register. Any thread.
#pragma once
#include <stdatomic.h>

#include "base/status.h"
#include "code/inspect.h"
#include "core/object_code.h"
#include "virgate/kernel.h"

// Has a reference count: an entry stays valid after its removal.
struct compute_entry {
	atomic_uint references;
	uint64_t serial;	  // unique in the process
	struct vg_kernel *kernel; // a reference
	struct code_report report;
	char name[];
};
void compute_entry_retain(struct compute_entry *entry);
void compute_entry_release(struct compute_entry *entry); // accepts NULL

struct compute_registry;

// Creates a table with the built-in set. `architecture`: the device's, 90 for sm_90.
enum vg_status compute_registry_create(unsigned architecture, struct compute_registry **ret_registry);
void compute_registry_destroy(struct compute_registry *registry);

// Adds all kernels of the code, by the expression with which the program compiled them, or else by symbol. Loads the
// code. EXISTS names the first duplicate, NOT_FOUND: no kernel in it; the table is unchanged then.
enum vg_status compute_registry_add(struct compute_registry *registry, struct vg_object_code *code);
// Adds one kernel under any name, and retains it.
enum vg_status compute_registry_add_kernel(struct compute_registry *registry, const char *name,
					   struct vg_kernel *kernel);
// NOT_FOUND, with the message of compute_registry_find().
enum vg_status compute_registry_remove(struct compute_registry *registry, const char *name);

// Returns a new reference. NOT_FOUND names similar kernels, and the number of kernels.
enum vg_status compute_registry_find(struct compute_registry *registry, const char *name,
				     struct compute_entry **ret_entry);
// Index by name.
size_t compute_registry_count(struct compute_registry *registry);
// Returns a new reference, or NULL if the index is too large.
struct compute_entry *compute_registry_at(struct compute_registry *registry, size_t index);
