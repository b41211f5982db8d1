// The first member of every object of this room.
//
// The program and the objects that depend on this one own references, so that any order of destruction is safe: the
// last reference releases the driver's handle. A closed object refuses the program's calls; objects that depend on it
// go on using it. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/return.h"

struct core_object;

struct core_class {
	const char *name; // for messages: "stream"
	// Releases the driver's handle. Called once; the caller ensures that nothing uses it any more. May be NULL.
	enum vg_status (*close)(struct core_object *object);
	// Releases references to other objects and frees the memory, after close. It must not fail.
	void (*free)(struct core_object *object);
};

struct core_object {
	const struct core_class *class;
	atomic_uint references;
	atomic_bool closed;   // by the program, which may not use it any more
	atomic_bool released; // the driver's handle was released
};

// Initialises an object with one reference, which the caller owns.
void core_object_init(struct core_object *object, const struct core_class *class);
void core_object_retain(struct core_object *object);
// For tables that own no references: false if the last reference was released meanwhile.
bool core_object_try_retain(struct core_object *object);
// Accepts NULL. The last release closes and frees; a failure to close goes to the log, and the last error is kept.
void core_object_release(struct core_object *object);
// For the public _close functions: ends the program's use of the object. The driver's handle is released now if there
// is one reference only, else with the last reference. Closing twice is OK.
enum vg_status core_object_close(struct core_object *object);

// Sets the error of an object that cannot be used: INVALID for NULL, or CLOSED.
enum vg_status core_object_refuse(const struct core_object *object, const char *name);
// VG_OK, or INVALID for NULL, or CLOSED.
static inline enum vg_status core_object_check(const struct core_object *object, const char *name)
{
	if (__builtin_expect(object && !atomic_load_explicit(&object->closed, memory_order_relaxed), 1))
		return VG_OK;
	return core_object_refuse(object, name);
}

// Sets the error of a list that does not fit into the program's array: LIMIT.
enum vg_status core_no_room(size_t count, size_t capacity, const char *what);
