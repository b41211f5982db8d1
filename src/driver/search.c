#include "driver/search.h"

#include "driver/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *tool_setting(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

struct search {
	const struct tool *tool;
	tool_fill *fill;
	void *table;
	char found[800]; // text with the unsuitable libraries that were found, and the reasons
};

__attribute__((format(printf, 2, 3))) static void note_unsuitable(struct search *search, const char *format, ...)
{
	size_t length = strlen(search->found);
	va_list arguments;

	if (length)
		length += (size_t)snprintf(search->found + length, sizeof search->found - length, "; ");
	if (length >= sizeof search->found)
		return;
	va_start(arguments, format);
	vsnprintf(search->found + length, sizeof search->found - length, format, arguments);
	va_end(arguments);
}

// Returns the path where the dynamic linker found the library. The text is valid while the library is open.
static const char *find_path(void *library, const struct tool *tool)
{
	struct link_map *map;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : tool->files[0];
}

// Fills the table from a library. If the library is not suitable, closes it and returns false.
static bool try_library(struct search *search, void *library)
{
	const char *path = find_path(library, search->tool);
	char why[300];

	if (search->fill(search->table, path, library, why, sizeof why) == 0)
		return true;
	note_unsuitable(search, "%s %s", path, why);
	dlclose(library);
	return false;
}

static bool search_toolkit(struct search *search, const char *root)
{
	static const char *const directories[] = {"lib64", "lib", "targets/x86_64-linux/lib", "nvvm/lib64"};
	char path[LIBRARY_PATH];

	for (size_t i = 0; root && i < sizeof directories / sizeof *directories; i++)
		for (const char *const *file = search->tool->files; *file; file++) {
			if (snprintf(path, sizeof path, "%s/%s/%s", root, directories[i], *file) >= LIBRARY_PATH ||
			    access(path, R_OK))
				continue;
			void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (!library)
				note_unsuitable(search, "it does not load: %s", dlerror()); // dlerror() names the file
			else if (try_library(search, library))
				return true;
		}
	return false;
}

static bool search_linker(struct search *search)
{
	for (const char *const *file = search->tool->files; *file; file++) {
		void *library = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
		if (library && try_library(search, library))
			return true;
	}
	return false;
}

// Opens the file that the user names, and tries no other file.
static int open_named(struct search *search, const char *named, char *problem, size_t capacity)
{
	const struct tool *tool = search->tool;
	void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);

	if (library && try_library(search, library))
		return 0;
	if (library)
		snprintf(problem, capacity, "%s: %s %s is needed; install %s, or name its file in %s", search->found,
			 tool->name, tool->since, tool->package, tool->variable);
	else
		snprintf(problem, capacity, "no %s: %s names it, and it does not load: %s", tool->name, tool->variable,
			 dlerror());
	return 1;
}

int tool_open(const struct tool *tool, tool_fill *fill, void *table, char *problem, size_t capacity)
{
	struct search s = {tool, fill, table, ""}, *search = &s;
	const char *named = tool_setting(tool->variable);

	if (named)
		return open_named(search, named, problem, capacity);
	if (search_toolkit(search, tool_setting("CUDA_HOME")) || search_toolkit(search, tool_setting("CUDA_PATH")) ||
	    search_linker(search) || search_toolkit(search, "/usr/local/cuda"))
		return 0;
	if (search->found[0])
		snprintf(problem, capacity, "no %s %s: %s; install %s, or name its file in %s", tool->name, tool->since,
			 search->found, tool->package, tool->variable);
	else
		snprintf(problem, capacity,
			 "no %s: %s is in no toolkit at CUDA_HOME, CUDA_PATH or /usr/local/cuda, and the dynamic "
			 "linker does not find it: install %s, or name the file in %s",
			 tool->name, tool->files[0], tool->package, tool->variable);
	return 1;
}

int tool_lacks(const char *entry, char *why, size_t capacity)
{
	snprintf(why, capacity, "has no %s", entry);
	return 1;
}
