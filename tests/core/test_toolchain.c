// Tests present and missing tools and drivers. Each case runs in a child, since a library that was found stays loaded.
#include "core_test.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct vg_program_options options = {sizeof(struct vg_program_options)};

static char child_said[4096];

// Runs the function in a child with this environment variable. Returns the child's status, and leaves its standard
// error in child_said.
static int status_of_child(void (*run)(void), const char *variable, const char *value)
{
	size_t length = 0;
	ssize_t got;
	int status, ends[2];

	fflush(stdout);
	CHECK_INT(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		setenv(variable, value, 1);
		run();
		_exit(0);
	}
	close(ends[1]);
	while ((got = read(ends[0], child_said + length, sizeof child_said - 1 - length)) > 0)
		length += got;
	child_said[length] = '\0';
	close(ends[0]);
	fputs(child_said, stderr);
	CHECK_INT(waitpid(child, &status, 0), child);
	return status;
}

static void check_child_status(int status)
{
	const char *reason = strstr(child_said, "in a child: ");

	if (WIFEXITED(status) && WEXITSTATUS(status) == 77 && reason) {
		reason += strlen("in a child: ");
		SKIP("%.*s", (int)strcspn(reason, "\n"), reason);
	}
	CHECK_INT(status, 0);
}

static void in_child(void (*run)(void), const char *variable, const char *value)
{
	check_child_status(status_of_child(run, variable, value));
}

static void find_a_device(void)
{
	struct vg_device *device;

	REFUSED(vg_device_get(0, &device), VG_DRIVER, "failed: CUDA_ERROR_INVALID_VALUE");
	CHECK_INT(vg_last_error()->code, 1);
}

TEST(a_driver_that_does_not_start_is_an_error)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("only the simulated driver fails to start when asked");
	in_child(find_a_device, "VIRGATE_SIM", "nonsense=1");
}

static void compile_without_a_driver(void)
{
	static const char source[] = "__global__ void k() {}";
	struct vg_program *program = NULL;
	struct vg_object_code *code;

	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, &options, &program), VG_NO_DRIVER,
		"the option arch is not given");
	CHECK(program == NULL);
	options.arch = "sm_90";
	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	OK(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code));
	REFUSED(vg_object_code_load(code), VG_NO_DRIVER, "no CUDA driver");
	vg_object_code_destroy(code);
	vg_program_destroy(program);
}

TEST(compiling_needs_no_driver)
{
	in_child(compile_without_a_driver, "VIRGATE_DRIVER", "/nowhere/driver.so");
}

static void find_all(void)
{
	static const char *const names[] = {[VG_BACKEND_NVRTC] = "nvrtc",
					    [VG_BACKEND_NVVM] = "nvvm",
					    [VG_BACKEND_NVJITLINK] = "nvJitLink",
					    [VG_BACKEND_DRIVER] = "cuda"};
	struct vg_toolchain tool;

	if (vg_toolchain_find(VG_BACKEND_NVRTC, &tool) == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	for (int i = VG_BACKEND_NVRTC; i <= VG_BACKEND_DRIVER; i++) {
		OK(vg_toolchain_find((enum vg_backend)i, &tool));
		CHECK_CONTAINS(tool.path, names[i]);
		CHECK(i == VG_BACKEND_NVVM ? tool.major >= 1 : tool.major >= 12);
	}
	REFUSED(vg_toolchain_find((enum vg_backend)0, &tool), VG_INVALID, "there is no back end 0");
	REFUSED(vg_toolchain_find(VG_BACKEND_NVRTC, NULL), VG_INVALID, "ret_toolchain is NULL");
}

TEST(tools_have_paths_and_versions)
{
	in_child(find_all, "UNUSED", "");
}

static void find_in_cuda_home(void)
{
	struct vg_toolchain tool;

	OK(vg_toolchain_find(VG_BACKEND_NVRTC, &tool));
	CHECK(strncmp(tool.path, getenv("CUDA_HOME"), strlen(getenv("CUDA_HOME"))) == 0);
	// NVRTC opens another library by name when it compiles: that library must be of the same toolkit.
	struct link_map *map;
	char name[64];
	snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", tool.major, tool.minor);
	void *builtins = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
	CHECK(builtins != NULL);
	CHECK_INT(dlinfo(builtins, RTLD_DI_LINKMAP, &map), 0);
	CHECK_CONTAINS(map->l_name, getenv("CUDA_HOME"));
}

TEST(the_given_toolkit_is_searched_first)
{
	char home[] = "/tmp/test-toolkit-XXXXXX", path[64];

	if (access("/usr/local/cuda/lib64/libnvrtc.so.13", R_OK))
		SKIP("no CUDA toolkit 13 in /usr/local/cuda");
	CHECK(mkdtemp(home) != NULL);
	snprintf(path, sizeof path, "%s/lib64", home);
	CHECK_INT(symlink("/usr/local/cuda/lib64", path), 0);
	in_child(find_in_cuda_home, "CUDA_HOME", home);
	unlink(path);
	rmdir(home);
}

static void find_elsewhere(void)
{
	struct vg_toolchain tool;

	if (vg_toolchain_find(VG_BACKEND_NVRTC, &tool) == VG_OK) {
		CHECK(strncmp(tool.path, getenv("CUDA_HOME"), strlen(getenv("CUDA_HOME"))) != 0);
		return;
	}
	// The text lists the libraries in the order of the search.
	CHECK_CONTAINS(vg_last_error()->text, "no NVRTC of CUDA 12.8 or later: ");
	CHECK_CONTAINS(vg_last_error()->text, "libnvrtc.so.13: file too short; ");
	CHECK_CONTAINS(vg_last_error()->text, " has no nvrtcGetErrorString");
	CHECK_CONTAINS(vg_last_error()->text, "; install cuda-nvrtc-13-0, or name its file in VIRGATE_NVRTC");
	SKIP("%s", vg_last_error()->text);
}

// Simulates a toolkit that is too old: the files exist, but lack functions.
TEST(the_search_continues_after_an_unusable_toolkit)
{
	char home[] = "/tmp/test-toolkit-XXXXXX", directory[64], old[128], broken[128];

	CHECK(mkdtemp(home) != NULL);
	snprintf(directory, sizeof directory, "%s/lib64", home);
	snprintf(old, sizeof old, "%s/libnvrtc.so.12", directory);
	snprintf(broken, sizeof broken, "%s/libnvrtc.so.13", directory);
	CHECK_INT(mkdir(directory, 0700), 0);
	CHECK_INT(symlink("/lib/x86_64-linux-gnu/libm.so.6", old), 0);
	fclose(fopen(broken, "w"));
	int status = status_of_child(find_elsewhere, "CUDA_HOME", home);
	unlink(old);
	unlink(broken);
	rmdir(directory);
	rmdir(home);
	check_child_status(status);
}

static void miss_nvrtc(void)
{
	struct vg_program *program = NULL;
	struct vg_toolchain tool;

	options.arch = "sm_90";
	REFUSED(vg_toolchain_find(VG_BACKEND_NVRTC, &tool), VG_NOT_FOUND,
		"no NVRTC: VIRGATE_NVRTC names it, and it does not load");
	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, &options, &program), VG_NOT_FOUND, "no NVRTC");
	CHECK(program == NULL);
}

static void refuse_missing_entry(void)
{
	struct vg_toolchain tool;

	REFUSED(vg_toolchain_find(VG_BACKEND_NVRTC, &tool), VG_NOT_FOUND,
		"has no nvrtcGetErrorString: NVRTC of CUDA 12.8 or later is needed; install cuda-nvrtc-13-0, or name "
		"its file in VIRGATE_NVRTC");
}

TEST(missing_tools)
{
	in_child(miss_nvrtc, "VIRGATE_NVRTC", "/nowhere/libnvrtc.so.13");
	in_child(refuse_missing_entry, "VIRGATE_NVRTC", "libc.so.6");
}

static void miss_libdevice(void)
{
	struct vg_program *program;
	struct vg_object_code *code;

	options.arch = "sm_90";
	options.use_libdevice = 1;
	static const char source[] = "target triple = \"nvptx64-nvidia-cuda\"\n";
	enum vg_status status = vg_program_create(VG_SOURCE_NVVM, source, strlen(source), &options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, &code), VG_NOT_FOUND,
		"no libdevice: VIRGATE_LIBDEVICE names /nowhere/libdevice.10.bc, which cannot be read");
	vg_program_destroy(program);
}

TEST(missing_libdevice)
{
	in_child(miss_libdevice, "VIRGATE_LIBDEVICE", "/nowhere/libdevice.10.bc");
}

static void link_by_the_driver(void)
{
	struct vg_linker_options link = {sizeof link, .arch = "sm_90", .backend = VG_BACKEND_NVJITLINK};
	struct vg_object_code *code;
	struct vg_linker *linker;

	CHECK_INT(vg_linker_default_backend(), VG_BACKEND_DRIVER);
	OK(vg_object_code_create(VG_CODE_PTX, ".version 8.0", 12, NULL, &code));
	REFUSED(vg_linker_create(&code, 1, &link, &linker), VG_NOT_FOUND, "no nvJitLink: VIRGATE_NVJITLINK names it");
	link.backend = (enum vg_backend)0;
	OK(vg_linker_create(&code, 1, &link, &linker));
	CHECK_INT(vg_linker_backend(linker), VG_BACKEND_DRIVER);
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
}

TEST(the_driver_links_without_nvjitlink)
{
	in_child(link_by_the_driver, "VIRGATE_NVJITLINK", "/nowhere/libnvJitLink.so.13");
}
