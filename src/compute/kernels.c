// Implements the public functions of the table of kernels.
#include "compute/engine.h"

#include <string.h>

#define USABLE_COMPUTE(compute)                            \
	do {                                               \
		CORE_USABLE(compute, "compute");           \
		enum vg_status forked_ = compute_usable(); \
		if (forked_)                               \
			return forked_;                    \
	} while (0)

enum vg_status vg_compute_register(struct vg_compute *compute, struct vg_object_code *code)
{
	VG_ENTRY();
	USABLE_COMPUTE(compute);
	CORE_USABLE(code, "code");
	return compute_registry_add(compute->registry, code);
}

enum vg_status vg_compute_register_kernel(struct vg_compute *compute, const char *name, struct vg_kernel *kernel)
{
	VG_ENTRY();
	USABLE_COMPUTE(compute);
	CORE_NEEDED(name);
	CORE_USABLE(kernel, "kernel");
	return compute_registry_add_kernel(compute->registry, name, kernel);
}

enum vg_status vg_compute_unregister(struct vg_compute *compute, const char *name)
{
	VG_ENTRY();
	USABLE_COMPUTE(compute);
	CORE_NEEDED(name);
	return compute_registry_remove(compute->registry, name);
}

size_t vg_compute_kernel_count(struct vg_compute *compute)
{
	return compute && !core_forked ? compute_registry_count(compute->registry) : 0;
}

enum vg_status vg_compute_kernel_name(struct vg_compute *compute, size_t index, char *name, size_t size)
{
	VG_ENTRY();
	USABLE_COMPUTE(compute);
	CORE_NEEDED(name);
	struct compute_entry *entry = compute_registry_at(compute->registry, index);
	if (!entry)
		return vg_fail(VG_NOT_FOUND, 0, "kernel %zu: there are %zu, counted from 0", index,
			       compute_registry_count(compute->registry));
	size_t needed = strlen(entry->name) + 1;
	if (needed <= size)
		memcpy(name, entry->name, needed);
	compute_entry_release(entry);
	return needed <= size
		       ? VG_OK
		       : vg_fail(VG_LIMIT, 0, "the name takes %zu bytes, and there is room for %zu", needed, size);
}
