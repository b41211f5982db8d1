// These six macros, and no other macros of this directory, may return from the function that contains them. Each is a
// statement in a function that returns enum vg_status, and sets the thread's last error when it returns. Memory and
// locks that the function has acquired before one of them need a cleanup attribute.
//
// "core/object.h" and "core/error.h" include this header. CORE_CALL and CORE_ENTER need "core/error.h".
#pragma once
#include "base/status.h"

// Returns the expression's status unless that is VG_OK.
#define CORE_TRY(expression)                              \
	do {                                              \
		enum vg_status tried_ = (expression);     \
		if (__builtin_expect(tried_ != VG_OK, 0)) \
			return tried_;                    \
	} while (0)
// Returns INVALID if an argument is NULL. Used mostly for output arguments.
#define CORE_NEEDED(pointer)                                                   \
	do {                                                                   \
		if (!(pointer))                                                \
			return vg_fail(VG_INVALID, 0, "%s is NULL", #pointer); \
	} while (0)
// Returns INVALID if the object is NULL, and CLOSED if the program has closed the object. The first member of an object
// is its struct core_object.
#define CORE_USABLE(pointer, name) CORE_TRY(core_object_check((const struct core_object *)(pointer), name))
// Copies an options structure of the program: NULL (all defaults), or a structure that begins with its size. Returns
// INVALID or UNSUPPORTED as vg_options_copy() does.
#define CORE_OPTIONS(copy, options) CORE_TRY(vg_options_copy(&(copy), sizeof(copy), (options)))
// Calls a driver function, and returns DRIVER if the call fails: CORE_CALL(cuEventRecord, event, stream).
#define CORE_CALL(entry, ...)                                                 \
	do {                                                                  \
		CUresult result_ = core_driver->entry(__VA_ARGS__);           \
		if (__builtin_expect(result_ != CUDA_SUCCESS, 0))             \
			return core_driver_failed(result_, #entry, "%s", ""); \
	} while (0)
// Makes `context` current until the end of the block, or returns DRIVER.
#define CORE_ENTER(scope, context)                                                         \
	CORE_SCOPE scope = {false};                                                        \
	do {                                                                               \
		CUresult entered_ = core_enter(&scope, context);                           \
		if (__builtin_expect(entered_ != CUDA_SUCCESS, 0))                         \
			return core_driver_failed(entered_, "cuCtxPushCurrent", "%s", ""); \
	} while (0)
