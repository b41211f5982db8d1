// Finds kernels by name: the built-in ones, and those that programs register. Any thread.
#pragma once
#include <stdatomic.h>

#include "base/status.h"
#include "code/inspect.h"
#include "core/object_code.h"
#include "virgate/kernel.h"

// A registered kernel. It is reference-counted, so it stays valid after its removal from the table.
struct compute_entry {
	atomic_uint references;
	uint64_t serial;	  // unique in the process
	struct vg_kernel *kernel; // owns a reference
	struct code_report report;
	char name[];
};
void compute_entry_retain(struct compute_entry *entry);
void compute_entry_release(struct compute_entry *entry); // accepts NULL

struct compute_registry;

// Creates a table with the built-in kernels. `architecture`: the device's architecture, 90 for sm_90.
enum vg_status compute_registry_create(unsigned architecture, struct compute_registry **ret_registry);
void compute_registry_destroy(struct compute_registry *registry);

// Loads the code and adds all its kernels. Names each by the expression with which the program compiled it, or else by
// its symbol. Fails with EXISTS (the error names the first duplicate) or NOT_FOUND (the code has no kernel). After
// either error the table is unchanged.
enum vg_status compute_registry_add(struct compute_registry *registry, struct vg_object_code *code);
// Adds one kernel under any name, and retains the kernel.
enum vg_status compute_registry_add_kernel(struct compute_registry *registry, const char *name,
					   struct vg_kernel *kernel);
// Removes a name. Fails with NOT_FOUND if the name is not registered; the error lists similar names, and the number of
// kernels.
enum vg_status compute_registry_remove(struct compute_registry *registry, const char *name);

// Finds a kernel by name, and returns a new reference. Fails with NOT_FOUND; the error lists similar names, and the
// number of kernels.
enum vg_status compute_registry_find(struct compute_registry *registry, const char *name,
				     struct compute_entry **ret_entry);
// Returns the number of kernels.
size_t compute_registry_count(struct compute_registry *registry);
// Returns a new reference to a kernel by its index in the order of names, or NULL if the index is too large.
struct compute_entry *compute_registry_at(struct compute_registry *registry, size_t index);
