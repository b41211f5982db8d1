#include "code_test.h"

#include <stdbool.h>

#define OPTIONS(...) \
	(&(struct vg_linker_options){.size = sizeof(struct vg_linker_options), .arch = "sm_90", __VA_ARGS__})

#define PTX_HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"
static const char caller[] =
	PTX_HEAD ".extern .func (.param .b32 r) forty(.param .b32 v);\n"
		 ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
		 " .reg .b32 %r<3>; .reg .b64 %d<3>;\n"
		 " ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; ld.param.u32 %r1, [v];\n"
		 " { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), forty, (a);\n"
		 " ld.param.b32 %r2, [b]; }\n st.global.u32 [%d2], %r2; ret; }\n";
static const char callee[] = PTX_HEAD ".visible .func (.param .b32 r) forty(.param .b32 v) {\n"
				      " .reg .b32 %r<3>; ld.param.b32 %r1, [v]; add.s32 %r2, %r1, 40;\n"
				      " st.param.b32 [r], %r2; ret; }\n";

static struct vg_object_code *ptx_of(const char *text, const char *name)
{
	struct vg_object_code_options options = {sizeof options, .name = name};
	struct vg_object_code *code;

	OK(vg_object_code_create(VG_CODE_PTX, text, strlen(text), &options, &code));
	return code;
}

static struct vg_linker *linker_of(struct vg_object_code *const *codes, size_t count,
				   const struct vg_linker_options *options)
{
	struct vg_linker *linker;

	enum vg_status status = vg_linker_create(codes, count, options, &linker);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	return linker;
}

TEST(nvjitlink_links_ptx_to_a_cubin)
{
	struct vg_object_code *codes[] = {ptx_of(caller, "caller"), ptx_of(callee, "callee")}, *linked;
	struct vg_linker *linker =
		linker_of(codes, 2, OPTIONS(.name = "both", .backend = VG_BACKEND_NVJITLINK, .verbose = 1));
	size_t size;

	CHECK(vg_linker_handle(linker) == NULL);
	vg_object_code_destroy(codes[0]); // the linker keeps the codes
	vg_object_code_destroy(codes[1]);
	for (int i = 0; i < 2; i++) { // a linker can link several times
		OK(vg_linker_link(linker, VG_CODE_CUBIN, &linked));
		CHECK_STR(vg_object_code_name(linked), "both");
		CHECK_INT(vg_object_code_type(linked), VG_CODE_CUBIN);
		CHECK(memcmp(vg_object_code_data(linked, &size), "\177ELF", 4) == 0);
		if (!getenv("VIRGATE_SIM"))
			CHECK_INT(run_kernel_once(linked, "store", 2), 42);
		vg_object_code_destroy(linked);
	}
	CHECK(vg_linker_handle(linker) != NULL);
	CHECK_CONTAINS(vg_linker_info_log(linker), "store");
	OK(vg_linker_close(linker));
	OK(vg_linker_close(linker));
	CHECK(vg_linker_handle(linker) == NULL);
	CHECK_CONTAINS(vg_linker_info_log(linker), "store"); // the logs are valid after the close
	REFUSED(vg_linker_link(linker, VG_CODE_CUBIN, &linked), VG_CLOSED, "the linker has been closed");
	vg_linker_destroy(linker);
}

TEST(the_drivers_linker_links_ptx)
{
	struct vg_object_code *codes[] = {ptx_of(caller, "caller"), ptx_of(callee, "callee")}, *linked = NULL;
	struct vg_linker_options options = {sizeof options, .backend = VG_BACKEND_DRIVER, .verbose = 1};
	struct vg_linker *linker = linker_of(codes, 2, &options);

	CHECK_INT(vg_linker_backend(linker), VG_BACKEND_DRIVER);
	CHECK_INT(vg_linker_arguments(linker, VG_CODE_CUBIN, NULL), 0);
	REFUSED(vg_linker_link(linker, VG_CODE_PTX, &linked), VG_UNSUPPORTED, "the driver's linker makes cubins only");
	CHECK(linked == NULL);
	OK(vg_linker_link(linker, VG_CODE_CUBIN, &linked));
	CHECK_INT(run_kernel_once(linked, "store", 2), 42);
	vg_linker_destroy(linker);
	vg_object_code_destroy(linked);
	vg_object_code_destroy(codes[0]);
	vg_object_code_destroy(codes[1]);
}

TEST(missing_symbols_are_in_the_log)
{
	struct vg_object_code *code = ptx_of(caller, "caller"), *linked = NULL;
	struct vg_linker *linker = linker_of(&code, 1, OPTIONS(.name = "half", .backend = VG_BACKEND_NVJITLINK));

	REFUSED(vg_linker_link(linker, VG_CODE_CUBIN, &linked), VG_TOOLCHAIN,
		"nvJitLinkComplete of \"half\": NVJITLINK_ERROR_");
	check_log("forty");
	CHECK_CONTAINS(vg_linker_error_log(linker), "forty");
	vg_linker_destroy(linker);
	struct vg_linker_options options = {sizeof options, .name = "half", .backend = VG_BACKEND_DRIVER};
	linker = linker_of(&code, 1, &options);
	REFUSED(vg_linker_link(linker, VG_CODE_CUBIN, &linked), VG_DRIVER, "CUDA_ERROR_");
	check_log("forty");
	CHECK_CONTAINS(vg_linker_error_log(linker), "forty");
	CHECK(linked == NULL);
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
}

TEST(files_are_linked)
{
	struct vg_object_code *code, *linked;

	OK(vg_object_code_from_file(VG_CODE_FATBIN, built_path("kernels.fatbin"), NULL, &code));
	struct vg_linker *linker = linker_of(&code, 1, OPTIONS(.backend = VG_BACKEND_NVJITLINK));
	OK(vg_linker_link(linker, VG_CODE_CUBIN, &linked));
	CHECK_STR(vg_object_code_name(linked), "<default linker>");
	vg_linker_destroy(linker);
	vg_object_code_destroy(linked);
	vg_object_code_destroy(code);
}

// Links nvcc's output for hosts: an object with device code, and an archive of it.
TEST(objects_and_libraries_are_linked)
{
	const struct {
		enum vg_code_type type;
		const char *file;
	} parts[] = {{VG_CODE_OBJECT, "forty.o"}, {VG_CODE_LIBRARY, "forty.a"}};

	if (access(built_path("forty.o"), R_OK) != 0)
		NO_BUILT_FILE("forty.o");
	for (int i = 0; i < 4; i++) { // cases 0 and 1 link from files, the others from memory
		struct vg_object_code *codes[2] = {ptx_of(caller, "caller")}, *linked;
		const char *path = built_path(parts[i % 2].file);
		char *data = NULL;
		size_t size;

		if (i < 2) {
			OK(vg_object_code_from_file(parts[i].type, path, NULL, &codes[1]));
		} else {
			data = read_built_file(parts[i % 2].file, &size);
			OK(vg_object_code_create(parts[i % 2].type, data, size, NULL, &codes[1]));
		}
		REFUSED(vg_object_code_load(codes[1]), VG_UNSUPPORTED, "only cubin, PTX and fatbin can; link it first");
		struct vg_linker *linker = linker_of(codes, 2, OPTIONS(.backend = VG_BACKEND_NVJITLINK));
		OK(vg_linker_link(linker, VG_CODE_CUBIN, &linked));
		if (!getenv("VIRGATE_SIM")) // the simulated GPU cannot run cubins
			CHECK_INT(run_kernel_once(linked, "store", 2), 42);
		vg_object_code_destroy(linked);
		vg_linker_destroy(linker);
		vg_object_code_destroy(codes[0]);
		vg_object_code_destroy(codes[1]);
		free(data);
	}
}

static void expect_arguments(struct vg_object_code *code, const struct vg_linker_options *options,
			     enum vg_code_type target, const char *const *expected)
{
	struct vg_linker *linker = linker_of(&code, 1, options);
	const char *const *arguments;
	size_t count = vg_linker_arguments(linker, target, &arguments);

	check_arguments(arguments, count, expected);
	vg_linker_destroy(linker);
}

TEST(every_option_of_nvjitlink)
{
	struct vg_object_code *code = ptx_of(callee, "callee");
	const char *used[] = {"a", "b"};
	struct vg_linker_options options = {
		.size = sizeof options,
		.arch = "sm_90",
		.backend = VG_BACKEND_NVJITLINK,
		.max_register_count = 32,
		.time = 1,
		.verbose = 1,
		.link_time_optimization = 1,
		.ptx = 1,
		.optimization_level = VG_OPTIMIZE_NOT,
		.debug = 1,
		.lineinfo = 1,
		.ftz = VG_CHOICE_ON,
		.prec_div = VG_CHOICE_OFF,
		.prec_sqrt = VG_CHOICE_ON,
		.fma = VG_CHOICE_OFF,
		.kernels_used = {used, 2},
		.variables_used = {used, 1},
		.optimize_unused_variables = 1,
		.ptxas_options = VG_TEXTS("-v", "-O1"),
		.split_compile = 4,
		.split_compile_extended = VG_SPLIT_ALL,
		.no_cache = 1,
	};
	const char *expected[] = {"-arch=sm_90",
				  "-maxrregcount=32",
				  "-time",
				  "-verbose",
				  "-lto",
				  "-ptx",
				  "-O0",
				  "-g",
				  "-lineinfo",
				  "-ftz=1",
				  "-prec-div=0",
				  "-prec-sqrt=1",
				  "-fma=0",
				  "-kernels-used=a",
				  "-kernels-used=b",
				  "-variables-used=a",
				  "-optimize-unused-variables",
				  "-Xptxas=-v",
				  "-Xptxas=-O1",
				  "-split-compile=4",
				  "-split-compile-extended=0",
				  "-no-cache",
				  NULL};

	expect_arguments(code, &options, VG_CODE_PTX, expected);
	expect_arguments(code, OPTIONS(.time = 0), VG_CODE_CUBIN, (const char *[]){"-arch=sm_90", NULL});
	expect_arguments(code, OPTIONS(.optimization_level = 3, .link_time_optimization = 1), VG_CODE_PTX,
			 (const char *[]){"-arch=sm_90", "-lto", "-O3", "-ptx", NULL});
	vg_object_code_destroy(code);
}

// Links once with each element of `forms`. nvJitLink must accept the options.
TEST(nvjitlink_accepts_the_options)
{
	static const char source[] = "extern \"C\" __global__ void store(int *p, int v) { *p = v; }";
	struct vg_program_options compile = {sizeof compile, .arch = "sm_90"};
	struct vg_object_code *codes[] = {ptx_of(caller, "caller"), ptx_of(callee, "callee")}, *ltoir, *linked;
	struct vg_program *program;
	const struct vg_linker_options forms[] = {
		*OPTIONS(.max_register_count = 32),
		*OPTIONS(.time = 1),
		*OPTIONS(.verbose = 1),
		*OPTIONS(.optimization_level = VG_OPTIMIZE_NOT),
		*OPTIONS(.optimization_level = 3),
		*OPTIONS(.debug = 1),
		*OPTIONS(.lineinfo = 1),
		*OPTIONS(.link_time_optimization = 1),
		*OPTIONS(.link_time_optimization = 1, .ftz = VG_CHOICE_ON, .prec_div = VG_CHOICE_OFF,
			 .prec_sqrt = VG_CHOICE_OFF, .fma = VG_CHOICE_OFF),
		*OPTIONS(.link_time_optimization = 1, .kernels_used = VG_TEXTS("store"),
			 .variables_used = VG_TEXTS("none"), .optimize_unused_variables = 1),
		*OPTIONS(.ptxas_options = VG_TEXTS("-v")),
		*OPTIONS(.split_compile = 2),
		*OPTIONS(.split_compile_extended = 2),
		*OPTIONS(.no_cache = 1),
	};

	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &compile, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	OK(vg_program_compile(program, VG_CODE_LTOIR, NULL, &ltoir));
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		bool lto = forms[i].link_time_optimization;
		struct vg_linker *linker = linker_of(lto ? &ltoir : codes, lto ? 1 : 2, &forms[i]);
		if (vg_linker_link(linker, VG_CODE_CUBIN, &linked))
			FAIL("form %zu: %s", i, vg_last_error()->text);
		vg_object_code_destroy(linked);
		vg_linker_destroy(linker);
	}
	vg_program_destroy(program);
	vg_object_code_destroy(ltoir);
	vg_object_code_destroy(codes[0]);
	vg_object_code_destroy(codes[1]);
}

static char warnings[1024];

static void note_warning(void *user, enum vg_log_level level, const char *text)
{
	strncat(warnings, text, sizeof warnings - strlen(warnings) - 1);
}

#define BAD(part, ...) REFUSED(vg_linker_create(&code, 1, OPTIONS(__VA_ARGS__), &linker), VG_INVALID, part)
TEST(invalid_options_are_refused)
{
	struct vg_object_code *code = ptx_of(callee, "callee"), *ltoir, *linked = NULL;
	struct vg_linker *linker = NULL;
	struct vg_toolchain tool;

	// Without nvJitLink, the library uses the driver's linker, which supports fewer options. Then the test
	// is skipped.
	if (vg_toolchain_find(VG_BACKEND_NVJITLINK, &tool) == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);

	REFUSED(vg_linker_create(NULL, 0, NULL, &linker), VG_INVALID, "at least one is needed");
	REFUSED(vg_linker_create(&code, 0, NULL, &linker), VG_INVALID, "at least one is needed");
	REFUSED(vg_linker_create(&linked, 1, OPTIONS(), &linker), VG_INVALID, "an object code is NULL");
	REFUSED(vg_linker_create(&code, 1, NULL, NULL), VG_INVALID, "ret_linker is NULL");
	BAD("option name is empty", .name = "");
	BAD("option backend: 1 does not link", .backend = VG_BACKEND_NVRTC);
	BAD("option optimization_level: 4: there are 3 and VG_OPTIMIZE_NOT", .optimization_level = 4);
	BAD("option ptx needs link-time optimisation", .ptx = 1);
	BAD("option kernels_used: a text is empty", .kernels_used = VG_TEXTS(""));
	BAD("the following options are not supported by the driver's linker: time, ptxas_options, split_compile, "
	    "split_compile_extended",
	    .backend = VG_BACKEND_DRIVER, .time = 1, .ptxas_options = VG_TEXTS("-v"), .split_compile = 1,
	    .split_compile_extended = 1);
	BAD("the following options are not supported by the driver's linker: ptx", .backend = VG_BACKEND_DRIVER,
	    .ptx = 1, .link_time_optimization = 1);
	OK(vg_object_code_create(VG_CODE_LTOIR, "ltoir", 5, NULL, &ltoir));
	REFUSED(vg_linker_create(&ltoir, 1, OPTIONS(.backend = VG_BACKEND_DRIVER), &linker), VG_INVALID,
		"object code 0 (LTO-IR of 5 B) is LTO-IR, which the driver's linker does not take");
	REFUSED(vg_linker_create(&ltoir, 1, OPTIONS(), &linker), VG_INVALID, "set link_time_optimization to link it");
	vg_object_code_destroy(ltoir);
	CHECK(linker == NULL);
	linker = linker_of(&code, 1, OPTIONS());
	REFUSED(vg_linker_link(linker, VG_CODE_LTOIR, &linked), VG_INVALID,
		"unsupported target LTO-IR (3) for a linker");
	REFUSED(vg_linker_link(linker, VG_CODE_PTX, &linked), VG_INVALID, "set link_time_optimization");
	REFUSED(vg_linker_link(linker, VG_CODE_PTX, NULL), VG_INVALID, "ret_code is NULL");
	vg_linker_destroy(linker);
	linker = linker_of(&code, 1, OPTIONS(.link_time_optimization = 1, .ptx = 1));
	REFUSED(vg_linker_link(linker, VG_CODE_CUBIN, &linked), VG_INVALID, "option ptx is set");
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
	vg_linker_destroy(NULL);
	CHECK_STR(vg_linker_error_log(NULL), "");
	CHECK_INT(vg_linker_backend(NULL), 0);
}

TEST(options_ignored_by_the_driver_are_logged)
{
	struct vg_object_code *code = ptx_of(callee, "callee");

	vg_log_set(note_warning, NULL);
	struct vg_linker *linker = linker_of(&code, 1,
					     OPTIONS(.backend = VG_BACKEND_DRIVER, .name = "old", .fma = VG_CHOICE_OFF,
						     .kernels_used = VG_TEXTS("a")));
	vg_log_set(NULL, NULL);
	CHECK_CONTAINS(warnings, "linker \"old\": the driver's linker ignores the option fma");
	CHECK_CONTAINS(warnings, "ignores the option kernels_used");
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
}
