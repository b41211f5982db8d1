// Tests failures of every call of a tool by programs and linkers, and rare results of real tools. The tools are
// fake_tools.c; each case runs in a process of its own.
#include "code_test.h"

#include <sys/wait.h>

static struct vg_program_options plain = {sizeof plain, .arch = "sm_90"};
static char warnings[1024];

static void note(void *user, enum vg_log_level level, const char *text)
{
	strncat(warnings, text, sizeof warnings - strlen(warnings) - 1);
}

static int count_alive(void)
{
	void *fake = dlopen(built_path("libfake-tools.so"), RTLD_NOW | RTLD_NOLOAD);
	int (*count)(void) = fake ? dlsym(fake, "fake_alive") : NULL;

	return count ? count() : 0;
}

static void in_child(void (*run)(void), const char *variable, const char *value)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		setenv("VIRGATE_NVRTC", built_path("libfake-tools.so"), 1);
		setenv("VIRGATE_NVVM", built_path("libfake-tools.so"), 1);
		setenv("VIRGATE_NVJITLINK", built_path("libfake-tools.so"), 1);
		setenv("VIRGATE_LIBDEVICE", built_path("libfake-tools.so"), 1); // never read
		setenv(variable, value, 1);
		run();
		CHECK_INT(count_alive(), 0);
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	if (status)
		FAIL("%s=%s: see the output of the child", variable, value);
}

static struct vg_program *make_program(enum vg_source_type type, const struct vg_program_options *options)
{
	struct vg_program *program;

	OK(vg_program_create(type, "x", 1, options, &program));
	return program;
}

static void expect_failure(struct vg_program *program, enum vg_code_type target, const struct vg_compile_options *how)
{
	struct vg_object_code *code = NULL;

	const char *entry = getenv("FAKE_FAIL");
	CHECK_INT(vg_program_compile(program, target, how, &code), VG_TOOLCHAIN);
	CHECK(code == NULL);
	char name[64];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, ":"), entry);
	// The error names the call NAME() also if the query of its size, NAMESize(), failed.
	if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, "Size") == 0)
		name[strlen(name) - 4] = '\0';
	CHECK_CONTAINS(vg_last_error()->text, name);
	OK(vg_program_compile(program, target, how, &code)); // only one call fails, so compiling again succeeds
	vg_object_code_destroy(code);
	vg_program_destroy(program);
}

static void fail_nvrtc(void)
{
	struct vg_compile_options how = {sizeof how, .name_expressions = VG_TEXTS("k<int>")};
	const char *entry = getenv("FAKE_FAIL");
	enum vg_code_type target = strstr(entry, "CUBIN")   ? VG_CODE_CUBIN
				   : strstr(entry, "LTOIR") ? VG_CODE_LTOIR
							    : VG_CODE_PTX;

	expect_failure(make_program(VG_SOURCE_CXX, &plain), target, &how);
}

static void fail_nvvm(void)
{
	struct vg_source extra = {"more", "x", 1};

	plain.extra_sources = &extra;
	plain.extra_source_count = 1;
	plain.use_libdevice = 1;
	expect_failure(make_program(VG_SOURCE_NVVM, &plain), VG_CODE_PTX, NULL);
}

static void fail_nvjitlink(void)
{
	setenv("FAKE_QUIET", "1", 1);
	plain.link_time_optimization = 1;
	expect_failure(make_program(VG_SOURCE_PTX, &plain),
		       strstr(getenv("FAKE_FAIL"), "Ptx") ? VG_CODE_PTX : VG_CODE_CUBIN, NULL);
}

TEST(failures_of_every_call_of_a_tool)
{
	static const struct {
		void (*run)(void);
		const char *calls[12];
	} tools[] = {
		{fail_nvrtc,
		 {"nvrtcCreateProgram:1=11", "nvrtcAddNameExpression:1=11", "nvrtcCompileProgram:1=6",
		  "nvrtcGetPTXSize:1=11", "nvrtcGetPTX:1=11", "nvrtcGetCUBINSize:1=11", "nvrtcGetCUBIN:1=11",
		  "nvrtcGetLTOIRSize:1=11", "nvrtcGetLTOIR:1=11", "nvrtcGetLoweredName:1=10"}},
		{fail_nvvm,
		 {"nvvmCreateProgram:1=1", "nvvmAddModuleToProgram:1=4", "nvvmAddModuleToProgram:2=4",
		  "nvvmLazyAddModuleToProgram:1=4", "nvvmVerifyProgram:1=6", "nvvmCompileProgram:1=9",
		  "nvvmGetCompiledResultSize:1=5", "nvvmGetCompiledResult:1=5"}},
		{fail_nvjitlink,
		 {"nvJitLinkCreate:1=1", "nvJitLinkAddData:1=4", "nvJitLinkComplete:1=6",
		  "nvJitLinkGetLinkedCubinSize:1=6", "nvJitLinkGetLinkedCubin:1=6", "nvJitLinkGetLinkedPtxSize:1=6",
		  "nvJitLinkGetLinkedPtx:1=6"}},
	};

	for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
		for (const char *const *call = tools[i].calls; *call; call++)
			in_child(tools[i].run, "FAKE_FAIL", *call);
}

static void compile_without_logs(void)
{
	struct vg_program *program = make_program(VG_SOURCE_CXX, &plain);
	struct vg_object_code *code;

	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_STR(vg_program_log(program), "");
	vg_object_code_destroy(code);
	vg_program_destroy(program);
}

TEST(a_log_that_cannot_be_read_is_empty)
{
	in_child(compile_without_logs, "FAKE_FAIL", "nvrtcGetProgramLogSize:1=11");
	in_child(compile_without_logs, "FAKE_FAIL", "nvrtcGetProgramLog:1=11");
}

static void expect_pch(enum vg_pch_status expected)
{
	plain.pch = 1;
	struct vg_program *program = make_program(VG_SOURCE_CXX, &plain);
	struct vg_object_code *code;

	CHECK_INT(vg_program_pch_status(program), VG_PCH_NONE);
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_INT(vg_program_pch_status(program), expected);
	// One NVRTC program exists. If the library compiled again, it has destroyed the program of the first attempt.
	CHECK_INT(count_alive(), 1);
	vg_object_code_destroy(code);
	vg_program_destroy(program);
}

static void expect_created(void)
{
	expect_pch(VG_PCH_CREATED);
}

static void expect_failed(void)
{
	expect_pch(VG_PCH_FAILED);
}

static void expect_not_attempted(void)
{
	expect_pch(VG_PCH_NOT_ATTEMPTED);
}

TEST(a_precompiled_header_that_does_not_fit_is_retried)
{
	in_child(expect_created, "FAKE_PCH", "small");
	in_child(expect_failed, "FAKE_PCH", "never");
	in_child(expect_failed, "FAKE_PCH", "refused");
	in_child(expect_not_attempted, "UNUSED", "");
}

static void warn_of_newer_ptx(void)
{
	struct vg_program *program;
	struct vg_object_code *code;
	struct vg_device *device;

	OK(vg_device_get(0, &device));
	program = make_program(VG_SOURCE_CXX, &plain);
	vg_log_set(note, NULL);
	OK(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code));
	vg_object_code_destroy(code);
	CHECK_STR(warnings, "");
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	vg_object_code_destroy(code);
	CHECK_CONTAINS(warnings, "may refuse the PTX of NVRTC 99.1: compile to a cubin");
	vg_program_destroy(program);
}

TEST(ptx_newer_than_the_driver_is_logged)
{
	in_child(warn_of_newer_ptx, "UNUSED", "");
}

static void link_with_an_error_log(void)
{
	struct vg_program *program = make_program(VG_SOURCE_PTX, &plain);
	struct vg_object_code *code = NULL;

	REFUSED(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code), VG_TOOLCHAIN, "nvJitLinkComplete of \"");
	check_log("ERROR of the linker");
	CHECK(code == NULL);
	vg_program_destroy(program);
}

TEST(success_with_errors_in_the_log_is_a_failure)
{
	in_child(link_with_an_error_log, "UNUSED", "");
}

static void find_without_version(void)
{
	struct vg_toolchain tool;

	REFUSED(vg_toolchain_find(VG_BACKEND_NVRTC, &tool), VG_NOT_FOUND,
		"libfake-tools.so does not say its version: NVRTC of CUDA 12.8 or later is needed");
	unsetenv("FAKE_FAIL");
	OK(vg_toolchain_find(VG_BACKEND_NVRTC, &tool)); // the library reads the version again
	CHECK_INT(tool.major, 99);
	CHECK_STR(tool.path, built_path("libfake-tools.so"));
}

TEST(a_tool_without_a_version)
{
	in_child(find_without_version, "FAKE_FAIL", "nvrtcVersion:1=11");
}
