#include "driver/toolchain.h"

#include "base/mutex.h"
#include "driver/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tool {
	const char *name, *variable, *package;
	const char *files[3]; // newest first
};

static const struct tool nvrtc_tool = {
	"NVRTC", "VIRGATE_NVRTC", "cuda-nvrtc-13-0", {"libnvrtc.so.13", "libnvrtc.so.12"}};
static const struct tool nvjitlink_tool = {
	"nvJitLink", "VIRGATE_NVJITLINK", "libnvjitlink-13-0", {"libnvJitLink.so.13", "libnvJitLink.so.12"}};
static const struct tool nvvm_tool = {"NVVM", "VIRGATE_NVVM", "libnvvm-13-0", {"libnvvm.so.4"}};

static const char *nonempty(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

// The table of an opened library; 1 with what keeps it from serving.
typedef int fill_fn(void *table, const char *path, void *library, char *why, size_t capacity);

struct search {
	const struct tool *tool;
	fill_fn *fill;
	void *table;
	char found[800]; // what is there and does not serve, each with the reason
};

__attribute__((format(printf, 2, 3))) static void note(struct search *search, const char *format, ...)
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

// Where the dynamic linker found it; valid as long as it is open.
static const char *path_of(void *library, const struct tool *tool)
{
	struct link_map *map;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : tool->files[0];
}

// Whether this library serves; it stays open then.
static bool takes(struct search *search, void *library)
{
	const char *path = path_of(library, search->tool);
	char why[300];

	if (search->fill(search->table, path, library, why, sizeof why) == 0)
		return true;
	note(search, "%s %s", path, why);
	dlclose(library);
	return false;
}

static bool serves_from(struct search *search, const char *root)
{
	static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib", "nvvm/lib64"};
	char path[LIBRARY_PATH];

	for (size_t i = 0; root && i < sizeof folders / sizeof *folders; i++)
		for (const char *const *file = search->tool->files; *file; file++) {
			if (snprintf(path, sizeof path, "%s/%s/%s", root, folders[i], *file) >= LIBRARY_PATH ||
			    access(path, R_OK))
				continue;
			void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (!library)
				note(search, "it does not load: %s", dlerror()); // which names the file
			else if (takes(search, library))
				return true;
		}
	return false;
}

static bool linker_serves(struct search *search)
{
	for (const char *const *file = search->tool->files; *file; file++) {
		void *library = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
		if (library && takes(search, library))
			return true;
	}
	return false;
}

// The program's own choice: no other one is looked for.
static int open_named(struct search *search, const char *named, char *problem, size_t capacity)
{
	const struct tool *tool = search->tool;
	void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);

	if (library && takes(search, library))
		return 0;
	if (library)
		snprintf(problem, capacity,
			 "%s: %s of CUDA 12.8 or later is needed; install %s, or name its file in %s",
			 search->found, tool->name, tool->package, tool->variable);
	else
		snprintf(problem, capacity, "no %s: %s names it, and it does not load: %s", tool->name, tool->variable,
			 dlerror());
	return 1;
}

// Goes on where what is found is too old: a toolkit may be named for other reasons.
static int open_tool(struct search *search, char *problem, size_t capacity)
{
	const struct tool *tool = search->tool;
	const char *named = nonempty(tool->variable);

	if (named)
		return open_named(search, named, problem, capacity);
	if (serves_from(search, nonempty("CUDA_HOME")) || serves_from(search, nonempty("CUDA_PATH")) ||
	    linker_serves(search) || serves_from(search, "/usr/local/cuda"))
		return 0;
	if (search->found[0])
		snprintf(problem, capacity, "no %s of CUDA 12.8 or later: %s; install %s, or name its file in %s",
			 tool->name, search->found, tool->package, tool->variable);
	else
		snprintf(problem, capacity,
			 "no %s: %s is in no toolkit at CUDA_HOME, CUDA_PATH or /usr/local/cuda, and the dynamic "
			 "linker does not find it: install %s, or name the file in %s",
			 tool->name, tool->files[0], tool->package, tool->variable);
	return 1;
}

static int lacks(const char *entry, char *why, size_t capacity)
{
	snprintf(why, capacity, "has no %s", entry);
	return 1;
}

// The function vg_TOOL_load(): opens the library on the first call that finds one and fills its table, all or nothing.
#define LOADER(tool, CALLS, version_call, integer)                                                                     \
	static int fill_##tool(void *table_, const char *path, void *library, char *why, size_t capacity)              \
	{                                                                                                              \
		struct vg_##tool *table = table_;                                                                      \
		integer major, minor;                                                                                  \
		CALLS(X)                                                                                               \
		if (table->version_call(&major, &minor)) {                                                             \
			snprintf(why, capacity, "does not say its version");                                           \
			return 1;                                                                                      \
		}                                                                                                      \
		table->path = path;                                                                                    \
		table->major = (int)major;                                                                             \
		table->minor = (int)minor;                                                                             \
		return 0;                                                                                              \
	}                                                                                                              \
	int vg_##tool##_load(const struct vg_##tool **ret_table, char *problem, size_t capacity)                       \
	{                                                                                                              \
		static struct vg_mutex lock;                                                                           \
		static struct vg_##tool loaded;                                                                        \
		static bool done;                                                                                      \
                                                                                                                       \
		vg_mutex_take(&lock);                                                                                  \
		if (!done) {                                                                                           \
			struct search search = {&tool##_tool, fill_##tool, &loaded, ""};                               \
			done = open_tool(&search, problem, capacity) == 0;                                             \
		}                                                                                                      \
		int r = done ? 0 : 1;                                                                                  \
		vg_mutex_give(&lock);                                                                                  \
		if (r == 0)                                                                                            \
			*ret_table = &loaded;                                                                          \
		return r;                                                                                              \
	}

#define X(name)                                                                                                        \
	table->name = (__typeof__(&name))dlsym(library, #name);                                                        \
	if (!table->name)                                                                                              \
		return lacks(#name, why, capacity);
LOADER(nvrtc, VG_NVRTC_CALLS, nvrtcVersion, int)
LOADER(nvjitlink, VG_NVJITLINK_CALLS, nvJitLinkVersion, unsigned int)
LOADER(nvvm, VG_NVVM_CALLS, nvvmVersion, int)
#undef X

int vg_libdevice_find(const struct vg_nvvm *nvvm, char *ret_path, size_t path_capacity, char *problem, size_t capacity)
{
	static const char file[] = "libdevice/libdevice.10.bc";
	const char *named = nonempty("VIRGATE_LIBDEVICE"), *slash = strrchr(nvvm->path, '/');
	char folder[LIBRARY_PATH];
	// beside nvvm/lib64, in the toolkit of lib64, in the usual ones
	const struct {
		const char *root, *below;
	} places[] = {{folder, "/../"},
		      {folder, "/../nvvm/"},
		      {nonempty("CUDA_HOME"), "/nvvm/"},
		      {nonempty("CUDA_PATH"), "/nvvm/"},
		      {"/usr/local/cuda", "/nvvm/"}};

	if (named) {
		snprintf(ret_path, path_capacity, "%s", named);
		if (access(ret_path, R_OK) == 0)
			return 0;
		snprintf(problem, capacity, "no libdevice: VIRGATE_LIBDEVICE names %s, which cannot be read", named);
		return 1;
	}
	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - nvvm->path) : 0, nvvm->path);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (!places[i].root || !*places[i].root)
			continue;
		snprintf(ret_path, path_capacity, "%s%s%s", places[i].root, places[i].below, file);
		if (access(ret_path, R_OK) == 0)
			return 0;
	}
	snprintf(problem, capacity,
		 "no libdevice: there is no nvvm/%s beside %s, nor in CUDA_HOME, CUDA_PATH or /usr/local/cuda: install "
		 "%s, or "
		 "name the file in VIRGATE_LIBDEVICE",
		 file, nvvm->path, nvvm_tool.package);
	return 1;
}
