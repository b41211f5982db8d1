// Declares struct core_object, the first member of every object of this directory.
//
// The program and every dependent object own references, so that objects can be destroyed in any order. The last
// release closes the driver's handle. A closed object rejects calls of the program; dependent objects can still use it.
// Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/return.h"

struct core_object;

struct core_class {
	const char *name; // for messages: "stream"
	// Releases the driver's handle. Called once, when nothing uses the handle any more. May be NULL.
	enum vg_status (*close)(struct core_object *object);
	// Releases references to other objects and frees the memory. Called after close; must not fail.
	void (*free)(struct core_object *object);
};

struct core_object {
	const struct core_class *class;
	atomic_uint references;
	atomic_bool closed;   // the program has closed the object and may not use it any more
	atomic_bool released; // the driver's handle was released
};

// Initialises an object with one reference, which the caller owns.
void core_object_init(struct core_object *object, const struct core_class *class);
void core_object_retain(struct core_object *object);
// Retains an object that was found in a table. Such a table owns no references to its objects. Returns false if the
// last reference was released meanwhile.
bool core_object_try_retain(struct core_object *object);
// Accepts NULL. The last release closes and frees the object. A failure to close is logged; the last error is kept.
void core_object_release(struct core_object *object);
// Ends the program's use of the object, for the public _close functions. Releases the driver's handle now if there is
// only one reference, otherwise with the last reference. Closing twice is allowed.
enum vg_status core_object_close(struct core_object *object);

// Sets the error of an object that cannot be used: INVALID for NULL, or CLOSED.
enum vg_status core_object_refuse(const struct core_object *object, const char *name);
// Returns VG_OK if the object can be used. Otherwise sets the error, and returns INVALID (the object is NULL) or CLOSED
// (the program has closed it).
static inline enum vg_status core_object_check(const struct core_object *object, const char *name)
{
	if (__builtin_expect(object && !atomic_load_explicit(&object->closed, memory_order_relaxed), 1))
		return VG_OK;
	return core_object_refuse(object, name);
}

// Sets the error LIMIT for a list that does not fit into the program's array.
enum vg_status core_no_room(size_t count, size_t capacity, const char *what);
