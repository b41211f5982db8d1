#include "driver/toolchain.h"

#include "driver/library.h"
#include "driver/search.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SINCE "of CUDA 12.8 or later"

static const struct tool nvrtc_tool = {
	"NVRTC", "VIRGATE_NVRTC", "cuda-nvrtc-13-0", SINCE, {"libnvrtc.so.13", "libnvrtc.so.12"}};
static const struct tool nvjitlink_tool = {
	"nvJitLink", "VIRGATE_NVJITLINK", "libnvjitlink-13-0", SINCE, {"libnvJitLink.so.13", "libnvJitLink.so.12"}};
static const struct tool nvvm_tool = {"NVVM", "VIRGATE_NVVM", "libnvvm-13-0", SINCE, {"libnvvm.so.4"}};

// Loads NVRTC's built-in functions from NVRTC's directory. NVRTC opens that library by name alone when it compiles, and
// does not find it if the dynamic linker does not search the directory. If the library is missing, NVRTC reports that
// later.
static void load_builtins(const struct vg_nvrtc *nvrtc)
{
	const char *slash = strrchr(nvrtc->path, '/');
	char path[LIBRARY_PATH];

	if (slash && snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - nvrtc->path),
			      nvrtc->path, nvrtc->major, nvrtc->minor) < LIBRARY_PATH)
		dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// Defines fill_TOOL(), which fills the table of a tool from its library. If that succeeds, it evaluates `then`.
#define FILL(tool, CALLS, version_call, integer, then)                                                    \
	static int fill_##tool(void *table_, const char *path, void *library, char *why, size_t capacity) \
	{                                                                                                 \
		struct vg_##tool *table = table_;                                                         \
		integer major, minor;                                                                     \
		CALLS(TOOL_ENTRY)                                                                         \
		if (table->version_call(&major, &minor)) {                                                \
			snprintf(why, capacity, "does not say its version");                              \
			return 1;                                                                         \
		}                                                                                         \
		table->path = path;                                                                       \
		table->major = (int)major;                                                                \
		table->minor = (int)minor;                                                                \
		then;                                                                                     \
		return 0;                                                                                 \
	}
FILL(nvrtc, VG_NVRTC_CALLS, nvrtcVersion, int, load_builtins(table))
FILL(nvjitlink, VG_NVJITLINK_CALLS, nvJitLinkVersion, unsigned int, (void)0)
FILL(nvvm, VG_NVVM_CALLS, nvvmVersion, int, (void)0)
TOOL_LOADER(nvrtc)
TOOL_LOADER(nvjitlink)
TOOL_LOADER(nvvm)

int vg_libdevice_find(const struct vg_nvvm *nvvm, char *ret_path, size_t path_capacity, char *problem, size_t capacity)
{
	static const char file[] = "libdevice/libdevice.10.bc";
	const char *named = tool_setting("VIRGATE_LIBDEVICE"), *slash = strrchr(nvvm->path, '/');
	// Directory that contains NVVM's library: in a toolkit, either nvvm/lib64 or lib64.
	char directory[LIBRARY_PATH];
	const struct {
		const char *root, *below;
	} places[] = {{directory, "/../"},
		      {directory, "/../nvvm/"},
		      {tool_setting("CUDA_HOME"), "/nvvm/"},
		      {tool_setting("CUDA_PATH"), "/nvvm/"},
		      {"/usr/local/cuda", "/nvvm/"}};

	if (named) {
		snprintf(ret_path, path_capacity, "%s", named);
		if (access(ret_path, R_OK) == 0)
			return 0;
		snprintf(problem, capacity, "no libdevice: VIRGATE_LIBDEVICE names %s, which cannot be read", named);
		return 1;
	}
	snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - nvvm->path) : 0, nvvm->path);
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (!places[i].root || !*places[i].root)
			continue;
		snprintf(ret_path, path_capacity, "%s%s%s", places[i].root, places[i].below, file);
		if (access(ret_path, R_OK) == 0)
			return 0;
	}
	snprintf(problem, capacity,
		 "no libdevice: there is no nvvm/%s beside %s, nor in CUDA_HOME, CUDA_PATH or /usr/local/cuda: install "
		 "%s, or name the file in VIRGATE_LIBDEVICE",
		 file, nvvm->path, nvvm_tool.package);
	return 1;
}
