#include "driver/toolchain.h"

#include "base/mutex.h"
#include "driver/library.h"

#include <dlfcn.h>
#include <link.h>
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

// In a toolkit's folder; NULL if it has none that loads.
static void *open_in(const char *root, const struct tool *tool, char *ret_path)
{
	static const char *const folders[] = {"lib64", "lib", "targets/x86_64-linux/lib", "nvvm/lib64"};
	void *library = NULL;

	for (size_t i = 0; root && i < sizeof folders / sizeof *folders; i++)
		for (const char *const *file = tool->files; *file && !library; file++)
			if (snprintf(ret_path, LIBRARY_PATH, "%s/%s/%s", root, folders[i], *file) < LIBRARY_PATH &&
			    access(ret_path, R_OK) == 0)
				library = dlopen(ret_path, RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void *open_tool(const struct tool *tool, char *ret_path, char *problem, size_t capacity)
{
	const char *named = nonempty(tool->variable);
	void *library = NULL;

	if (named) {
		snprintf(ret_path, LIBRARY_PATH, "%s", named);
		library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
		if (!library)
			snprintf(problem, capacity, "no %s: %s names it, and it does not load: %s", tool->name,
				 tool->variable, dlerror());
		return library;
	}
	library = open_in(nonempty("CUDA_HOME"), tool, ret_path);
	if (!library)
		library = open_in(nonempty("CUDA_PATH"), tool, ret_path);
	for (const char *const *file = tool->files; *file && !library; file++)
		library = dlopen(strcpy(ret_path, *file), RTLD_NOW | RTLD_LOCAL);
	if (!library)
		library = open_in("/usr/local/cuda", tool, ret_path);
	if (!library)
		snprintf(problem, capacity,
			 "no %s: %s is in no toolkit at CUDA_HOME, CUDA_PATH or /usr/local/cuda, and the dynamic "
			 "linker does not "
			 "find it: install %s, or name the file in %s",
			 tool->name, tool->files[0], tool->package, tool->variable);
	return library;
}

// Where the dynamic linker found it.
static const char *path_of(void *library, const char *asked)
{
	struct link_map *map;

	return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] ? map->l_name : asked;
}

static int lacks(const struct tool *tool, const char *path, const char *entry, char *problem, size_t capacity)
{
	snprintf(problem, capacity,
		 "%s has no %s: %s of CUDA 12.8 or later is needed; install %s, or name the file in %s", path, entry,
		 tool->name, tool->package, tool->variable);
	return 1;
}

static int version_fails(const struct tool *tool, const char *path, char *problem, size_t capacity)
{
	snprintf(problem, capacity, "%s: %s does not say its version", path, tool->name);
	return 1;
}

// The function vg_TOOL_load(): opens the library on the first call that finds one and fills its table, all or nothing.
#define LOADER(tool, CALLS, version_call, integer)                                                                     \
	static int fill_##tool(struct vg_##tool *table, void *library, char *problem, size_t capacity)                 \
	{                                                                                                              \
		integer major, minor;                                                                                  \
		CALLS(X)                                                                                               \
		if (table->version_call(&major, &minor))                                                               \
			return version_fails(&tool##_tool, table->path, problem, capacity);                            \
		table->major = (int)major;                                                                             \
		table->minor = (int)minor;                                                                             \
		return 0;                                                                                              \
	}                                                                                                              \
	int vg_##tool##_load(const struct vg_##tool **ret_table, char *problem, size_t capacity)                       \
	{                                                                                                              \
		static struct vg_mutex lock;                                               \
		static char path[LIBRARY_PATH];                                                                        \
		static struct vg_##tool loaded;                                                                        \
		static bool done;                                                                                      \
		void *library;                                                                                         \
                                                                                                                       \
		vg_mutex_take(&lock);                                                                             \
		if (!done && (library = open_tool(&tool##_tool, path, problem, capacity))) {                           \
			loaded.path = path_of(library, path);                                                          \
			done = fill_##tool(&loaded, library, problem, capacity) == 0;                                  \
			if (!done)                                                                                     \
				dlclose(library);                                                                      \
		}                                                                                                      \
		int r = done ? 0 : 1;                                                                                  \
		vg_mutex_give(&lock);                                                                           \
		if (r == 0)                                                                                            \
			*ret_table = &loaded;                                                                          \
		return r;                                                                                              \
	}

#define FILL(tool, name)                                                                                               \
	table->name = (__typeof__(&name))dlsym(library, #name);                                                        \
	if (!table->name)                                                                                              \
		return lacks(&tool, table->path, #name, problem, capacity);

#define X(name) FILL(nvrtc_tool, name)
LOADER(nvrtc, VG_NVRTC_CALLS, nvrtcVersion, int)
#undef X
#define X(name) FILL(nvjitlink_tool, name)
LOADER(nvjitlink, VG_NVJITLINK_CALLS, nvJitLinkVersion, unsigned int)
#undef X
#define X(name) FILL(nvvm_tool, name)
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
