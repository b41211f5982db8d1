// Kernels by name: the built-in set and what programs register. Any thread.
#pragma once
#include <stdatomic.h>

#include "base/status.h"
#include "code/inspect.h"
#include "core/object_code.h"
#include "virgate/kernel.h"

// Held by whoever was given it: one that was removed meanwhile stays as it is.
struct compute_entry {
	atomic_uint references;
	uint64_t serial;	  // no other of the process ever has it
	struct vg_kernel *kernel; // held
	struct code_report report;
	char name[];
};
void compute_entry_retain(struct compute_entry *entry);
void compute_entry_release(struct compute_entry *entry); // NULL is fine

struct compute_registry;

// With the built-in set. `architecture`: the device's, 90 for sm_90.
enum vg_status compute_registry_create(unsigned architecture, struct compute_registry **ret_registry);
void compute_registry_destroy(struct compute_registry *registry);

// All kernels of it, each under the expression that the program compiled it for, or else its symbol. EXISTS names the
// first clash, NOT_FOUND: it has no kernel; nothing changes then. Loads the code.
enum vg_status compute_registry_add(struct compute_registry *registry, struct vg_object_code *code);
// One under any name; holds it.
enum vg_status compute_registry_add_kernel(struct compute_registry *registry, const char *name,
					   struct vg_kernel *kernel);
// NOT_FOUND, in words as of compute_registry_find().
enum vg_status compute_registry_remove(struct compute_registry *registry, const char *name);

// The caller releases it. NOT_FOUND names what is spelt alike, and says how many there are.
enum vg_status compute_registry_find(struct compute_registry *registry, const char *name,
				     struct compute_entry **ret_entry);
// In the order of their names.
size_t compute_registry_count(struct compute_registry *registry);
// Retained; NULL: there are not so many.
struct compute_entry *compute_registry_at(struct compute_registry *registry, size_t index);
