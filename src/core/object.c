#include "core/object.h"

#include "core/core.h"
#include "core/scope.h"

#include "base/log.h"

#include <string.h>

void core_object_init(struct core_object *object, const struct core_class *class)
{
	object->class = class;
	atomic_init(&object->references, 1);
	atomic_init(&object->closed, false);
	atomic_init(&object->released, false);
}

void core_object_retain(struct core_object *object)
{
	atomic_fetch_add_explicit(&object->references, 1, memory_order_relaxed);
}

bool core_object_try_retain(struct core_object *object)
{
	unsigned references = atomic_load(&object->references);

	while (references)
		if (atomic_compare_exchange_weak(&object->references, &references, references + 1))
			return true;
	return false;
}

static enum vg_status release_handle(struct core_object *object)
{
	if (atomic_exchange(&object->released, true) || !object->class->close || core_forked)
		return VG_OK;
	CORE_RELAXED relaxed = core_relax();
	return object->class->close(object);
}

void core_object_release(struct core_object *object)
{
	if (!object || atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) != 1)
		return;
	struct vg_kept_error kept; // keep the error, because programs clean up before they report it
	vg_error_keep(&kept);
	if (release_handle(object))
		vg_log(VG_LOG_WARNING, "destroying a %s: %s", object->class->name, vg_last_error()->text);
	object->class->free(object);
	vg_error_restore(&kept);
}

enum vg_status core_object_close(struct core_object *object)
{
	atomic_store(&object->closed, true);
	// Other references still need the handle: the last release closes it.
	if (atomic_load(&object->references) > 1)
		return VG_OK;
	return release_handle(object);
}

enum vg_status core_object_refuse(const struct core_object *object, const char *name)
{
	if (!object)
		return vg_fail(VG_INVALID, 0, "%s is NULL", name);
	return vg_fail(VG_CLOSED, 0, "the %s has been closed", object->class->name);
}

enum vg_status core_no_room(size_t count, size_t capacity, const char *what)
{
	return vg_fail(VG_LIMIT, 0, "there are %zu %s, and room for %zu: ask for the count first", count, what,
		       capacity);
}
