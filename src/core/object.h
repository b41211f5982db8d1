// What every object of this room begins with.
//
// References are held by the program and by objects that depend on this one, so that any order of
// destruction is safe: the driver's handle goes with the last reference. A closed object refuses the
// program's calls; its dependants go on using it. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/return.h"

struct core_object;

struct core_class {
	const char *name; // as messages say it: "stream"
	// Gives back what the driver holds; called once, by whoever comes last. NULL: nothing to close.
	enum vg_status (*close)(struct core_object *object);
	// Drops dependencies and memory, after close. It must not fail.
	void (*free)(struct core_object *object);
};

struct core_object {
	const struct core_class *class;
	atomic_uint references;
	atomic_bool closed;   // the program may not use it any more
	atomic_bool released; // the driver's handle is gone
};

// One reference, the caller's.
void core_object_init(struct core_object *object, const struct core_class *class);
void core_object_retain(struct core_object *object);
// For tables that do not hold what they list: false where the last reference has gone meanwhile.
bool core_object_try_retain(struct core_object *object);
// NULL is fine. The last one closes and frees; a failure to close goes to the log, and the last error stays.
void core_object_release(struct core_object *object);
// For the public _close functions: no further use by the program, and the driver's handle goes
// now if nobody else holds the object, else with the last holder. Closing twice is fine.
enum vg_status core_object_close(struct core_object *object);

// VG_OK, or INVALID for NULL, or CLOSED.
enum vg_status core_object_refuse(const struct core_object *object, const char *name);
static inline enum vg_status core_object_check(const struct core_object *object, const char *name)
{
	if (__builtin_expect(object && !atomic_load_explicit(&object->closed, memory_order_relaxed), 1))
		return VG_OK;
	return core_object_refuse(object, name);
}

// LIMIT: there are more than the program's array takes.
enum vg_status core_no_room(size_t count, size_t capacity, const char *what);
