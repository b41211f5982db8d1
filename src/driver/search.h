// Libraries that are not the driver's, looked for by name. This room only; any thread.
#pragma once
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mutex.h"

struct tool {
	const char *name, *variable, *package;
	const char *since;    // "of CUDA 12.8 or later"
	const char *files[3]; // newest first
};

// The table of an opened library; 1 with what keeps it from serving.
typedef int tool_fill(void *table, const char *path, void *library, char *why, size_t capacity);

// A variable's value; NULL where it is not set, empty, or the program is of another user.
const char *tool_setting(const char *variable);
// Goes on where what is found does not serve: a toolkit may be named for other reasons. 1 with a sentence.
int tool_open(const struct tool *tool, tool_fill *fill, void *table, char *problem, size_t capacity);
int tool_lacks(const char *entry, char *why, size_t capacity);

// For lists of entries, in a tool_fill() that has `table`.
#define TOOL_ENTRY(name)                                                                                               \
	table->name = (__typeof__(table->name))dlsym(library, #name);                                                  \
	if (!table->name)                                                                                              \
		return tool_lacks(#name, why, capacity);

// The function vg_TOOL_load(): opens TOOL_tool on the first call that finds one and fills its table by fill_TOOL(), all
// or nothing.
#define TOOL_LOADER(tool)                                                                                              \
	int vg_##tool##_load(const struct vg_##tool **ret_table, char *problem, size_t capacity)                       \
	{                                                                                                              \
		static struct vg_mutex lock;                                                                           \
		static struct vg_##tool loaded;                                                                        \
		static bool done;                                                                                      \
                                                                                                                       \
		vg_mutex_take(&lock);                                                                                  \
		if (!done)                                                                                             \
			done = tool_open(&tool##_tool, fill_##tool, &loaded, problem, capacity) == 0;                  \
		int r = done ? 0 : 1;                                                                                  \
		vg_mutex_give(&lock);                                                                                  \
		if (r == 0)                                                                                            \
			*ret_table = &loaded;                                                                          \
		return r;                                                                                              \
	}
