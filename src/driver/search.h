// Finds and loads libraries of CUDA toolkits. This directory only; any thread.
#pragma once
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mutex.h"

struct tool {
	const char *name, *variable, *package;
	const char *since;    // text for messages: "of CUDA 12.8 or later"
	const char *files[3]; // newest first
};

// Fills the table from an opened library. Returns 0, or 1 with the reason in `why` if the library is not suitable.
typedef int tool_fill(void *table, const char *path, void *library, char *why, size_t capacity);

// Returns the value of an environment variable; NULL: it is unset or empty, or the program is setuid.
const char *tool_setting(const char *variable);
// Opens the first suitable library and fills the table. Continues after an unsuitable one, since CUDA_HOME and
// CUDA_PATH may be set for other reasons. Returns 0, or 1 with a sentence in `problem`.
int tool_open(const struct tool *tool, tool_fill *fill, void *table, char *problem, size_t capacity);
// Writes to `why` that the library lacks the function `entry`. Returns 1.
int tool_lacks(const char *entry, char *why, size_t capacity);

// Finds the function `name` in the library and stores its address in `table`. If the library lacks it, the function
// that contains this macro fails. Functions of the type tool_fill use the macro with a list of functions (an X macro).
#define TOOL_ENTRY(name)                                              \
	table->name = (__typeof__(table->name))dlsym(library, #name); \
	if (!table->name)                                             \
		return tool_lacks(#name, why, capacity);

// Defines vg_TOOL_load(): opens TOOL_tool and fills its table with fill_TOOL(), until that has succeeded once.
#define TOOL_LOADER(tool)                                                                             \
	int vg_##tool##_load(const struct vg_##tool **ret_table, char *problem, size_t capacity)      \
	{                                                                                             \
		static struct vg_mutex lock;                                                          \
		static struct vg_##tool loaded;                                                       \
		static bool done;                                                                     \
                                                                                                      \
		vg_mutex_lock(&lock);                                                                 \
		if (!done)                                                                            \
			done = tool_open(&tool##_tool, fill_##tool, &loaded, problem, capacity) == 0; \
		int r = done ? 0 : 1;                                                                 \
		vg_mutex_unlock(&lock);                                                               \
		if (r == 0)                                                                           \
			*ret_table = &loaded;                                                         \
		return r;                                                                             \
	}
