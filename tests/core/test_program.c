#include "code_test.h"

#define PLAIN_OPTIONS(...) (&(struct vg_program_options){.size = sizeof(struct vg_program_options), __VA_ARGS__})
#define OPTIONS(...) PLAIN_OPTIONS(.arch = "sm_90", __VA_ARGS__)
#define COMPILE(...) (&(struct vg_compile_options){.size = sizeof(struct vg_compile_options), __VA_ARGS__})

static const char store[] = "extern \"C\" __global__ void store(int *p, int v) { *p = v + ADD; }\n"
			    "template <typename T> __global__ void twice(T *p, T v) { *p = 2 * v; }\n";

static struct vg_program *make_program(enum vg_source_type type, const char *source,
				       const struct vg_program_options *options)
{
	struct vg_program *program;

	enum vg_status status = vg_program_create(type, source, strlen(source), options, &program);
	if (status == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(status);
	return program;
}

TEST(cxx_to_ptx_runs_and_has_symbols)
{
	struct vg_program *program =
		make_program(VG_SOURCE_CXX, store, OPTIONS(.name = "stores", .define_macro = VG_TEXTS("ADD=40")));
	struct vg_object_code *code;

	CHECK_INT(vg_program_backend(program), VG_BACKEND_NVRTC);
	CHECK(vg_program_handle(program) == NULL);
	OK(vg_program_compile(program, VG_CODE_PTX,
			      COMPILE(.name_expressions = VG_TEXTS("twice<int>", "&twice<float>")), &code));
	CHECK(vg_program_handle(program) != NULL);
	CHECK_INT(vg_program_pch_status(program), VG_PCH_NONE);
	CHECK_STR(vg_object_code_name(code), "stores");
	CHECK_INT(vg_object_code_type(code), VG_CODE_PTX);
	CHECK_INT(vg_object_code_symbols(code, NULL), 2);
	CHECK_CONTAINS(vg_object_code_symbol(code, "twice<int>"), "twice");
	CHECK_INT(run_kernel_once(code, "store", 2), 42);
	CHECK_INT(run_kernel_once(code, "twice<int>", 21), 42);
	OK(vg_program_close(program));
	OK(vg_program_close(program));
	CHECK(vg_program_handle(program) == NULL);
	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, &code), VG_CLOSED, "the program has been closed");
	vg_program_destroy(program);
	CHECK_INT(run_kernel_once(code, "store", 2), 42);
	vg_object_code_destroy(code);
}

TEST(cxx_to_cubin_and_ltoir)
{
	struct vg_program *program = make_program(VG_SOURCE_CXX, store, OPTIONS(.define_macro = VG_TEXTS("ADD=40")));
	struct vg_object_code *cubin, *ltoir, *linked;
	size_t size;

	OK(vg_program_compile(program, VG_CODE_CUBIN, NULL, &cubin));
	CHECK(memcmp(vg_object_code_data(cubin, &size), "\177ELF", 4) == 0 && size > 500);
	if (!getenv("VIRGATE_SIM"))
		CHECK_INT(run_kernel_once(cubin, "store", 2), 42);
	OK(vg_program_compile(program, VG_CODE_LTOIR, NULL, &ltoir));
	CHECK_INT(vg_object_code_type(ltoir), VG_CODE_LTOIR);
	struct vg_linker_options options = {sizeof options, .arch = "sm_90", .link_time_optimization = 1};
	struct vg_linker *linker;
	OK(vg_linker_create(&ltoir, 1, &options, &linker));
	OK(vg_linker_link(linker, VG_CODE_PTX, &linked));
	CHECK_INT(run_kernel_once(linked, "store", 2), 42);
	vg_linker_destroy(linker);
	vg_object_code_destroy(linked);
	vg_object_code_destroy(ltoir);
	vg_object_code_destroy(cubin);
	vg_program_destroy(program);
}

TEST(compiler_log_is_in_the_error)
{
	struct vg_program *program =
		make_program(VG_SOURCE_CXX, "__global__ void k() { undeclared = 1; }", OPTIONS(.name = "wrong.cu"));
	struct vg_object_code *code = NULL;

	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, &code), VG_TOOLCHAIN,
		"nvrtcCompileProgram of program \"wrong.cu\": NVRTC_ERROR_COMPILATION; see the log");
	check_log("wrong.cu(1): error: identifier \"undeclared\" is undefined");
	CHECK_INT(vg_last_error()->code, 6);
	CHECK_CONTAINS(vg_program_log(program), "undeclared");
	CHECK(code == NULL);
	vg_program_destroy(program);
	program = make_program(VG_SOURCE_CXX, "__global__ void k() { int unused; }", OPTIONS());
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_CONTAINS(vg_program_log(program), "\"unused\" was declared but never referenced");
	vg_object_code_destroy(code);
	vg_program_destroy(program);
}

static void expect_arguments(struct vg_program *program, enum vg_code_type target, const char *const *expected)
{
	const char *const *arguments;
	size_t count = vg_program_arguments(program, target, &arguments);

	check_arguments(arguments, count, expected);
	vg_program_destroy(program);
}

// Checks every option's argument against the spelling in NVRTC's manual.
TEST(every_option_of_nvrtc)
{
	struct vg_program_options options = {
		.size = sizeof options,
		.arch = "sm_90a",
		.relocatable_device_code = VG_CHOICE_ON,
		.extensible_whole_program = 1,
		.debug = 1,
		.lineinfo = 1,
		.device_code_optimize = VG_CHOICE_ON,
		.ptxas_options = VG_TEXTS("-v", "-O2"),
		.max_register_count = 32,
		.ftz = VG_CHOICE_ON,
		.prec_sqrt = VG_CHOICE_OFF,
		.prec_div = VG_CHOICE_OFF,
		.fma = VG_CHOICE_ON,
		.use_fast_math = 1,
		.extra_device_vectorization = 1,
		.link_time_optimization = 1,
		.gen_opt_lto = 1,
		.define_macro = VG_TEXTS("A", "B=2"),
		.undefine_macro = VG_TEXTS("C"),
		.include_path = VG_TEXTS("/a", "/b c"),
		.pre_include = VG_TEXTS("p.h"),
		.no_source_include = 1,
		.std = "c++17",
		.builtin_move_forward = VG_CHOICE_OFF,
		.builtin_initializer_list = VG_CHOICE_ON,
		.disable_warnings = 1,
		.restrict_pointers = 1,
		.device_as_default_execution_space = 1,
		.device_int128 = 1,
		.device_float128 = 1,
		.optimization_info = "inline",
		.no_display_error_number = 1,
		.diag_error = VG_NUMBERS(1, 2),
		.diag_suppress = VG_NUMBERS(177),
		.diag_warn = VG_NUMBERS(3),
		.brief_diagnostics = VG_CHOICE_ON,
		.time = "t.csv",
		.split_compile = VG_SPLIT_ALL,
		.fdevice_syntax_only = 1,
		.minimal = 1,
		.no_cache = 1,
		.fdevice_time_trace = "trace",
		.frandom_seed = "7",
		.ofast_compile = "mid",
		.pch = 1,
		.create_pch = "c.pch",
		.use_pch = "u.pch",
		.pch_dir = "/p",
		.pch_verbose = VG_CHOICE_ON,
		.pch_messages = VG_CHOICE_OFF,
		.instantiate_templates_in_pch = VG_CHOICE_ON,
		.numba_debug = 1,
	};
	const char *expected[] = {"-arch=sm_90a",
				  "--relocatable-device-code=true",
				  "--extensible-whole-program",
				  "--device-debug",
				  "--generate-line-info",
				  "--ptxas-options=-v",
				  "--ptxas-options=-O2",
				  "--maxrregcount=32",
				  "--ftz=true",
				  "--prec-sqrt=false",
				  "--prec-div=false",
				  "--fmad=true",
				  "--use_fast_math",
				  "--extra-device-vectorization",
				  "--dlink-time-opt",
				  "--gen-opt-lto",
				  "--define-macro=A",
				  "--define-macro=B=2",
				  "--undefine-macro=C",
				  "--include-path=/a",
				  "--include-path=/b c",
				  "--pre-include=p.h",
				  "--no-source-include",
				  "--std=c++17",
				  "--builtin-move-forward=false",
				  "--builtin-initializer-list=true",
				  "--disable-warnings",
				  "--restrict",
				  "--device-as-default-execution-space",
				  "--device-int128",
				  "--device-float128",
				  "--optimization-info=inline",
				  "--no-display-error-number",
				  "--diag-error=1",
				  "--diag-error=2",
				  "--diag-suppress=177",
				  "--diag-warn=3",
				  "--brief-diagnostics=true",
				  "--time=t.csv",
				  "--split-compile=0",
				  "--fdevice-syntax-only",
				  "--minimal",
				  "--no-cache",
				  "--fdevice-time-trace=trace",
				  "--frandom-seed=7",
				  "--Ofast-compile=mid",
				  "--pch",
				  "--create-pch=c.pch",
				  "--use-pch=u.pch",
				  "--pch-dir=/p",
				  "--pch-verbose=true",
				  "--pch-messages=false",
				  "--instantiate-templates-in-pch=true",
				  "--numba-debug",
				  "--dopt=on",
				  NULL};

	expect_arguments(make_program(VG_SOURCE_CXX, "x", &options), VG_CODE_PTX, expected);
	expect_arguments(make_program(VG_SOURCE_CXX, "x", OPTIONS()), VG_CODE_PTX,
			 (const char *[]){"-arch=sm_90", NULL});
	expect_arguments(make_program(VG_SOURCE_CXX, "x", OPTIONS(.device_code_optimize = VG_CHOICE_OFF)),
			 VG_CODE_LTOIR, (const char *[]){"-arch=sm_90", "--dlink-time-opt", NULL});
}

// Compiles once with each element of `forms`. NVRTC must accept the options. Options that only later releases of NVRTC
// have are not in `forms`.
TEST(nvrtc_accepts_the_options)
{
	struct vg_program_options forms[] = {
		*OPTIONS(.relocatable_device_code = VG_CHOICE_ON),
		*OPTIONS(.extensible_whole_program = 1),
		*OPTIONS(.debug = 1),
		*OPTIONS(.lineinfo = 1),
		*OPTIONS(.device_code_optimize = VG_CHOICE_ON),
		*OPTIONS(.ptxas_options = VG_TEXTS("-v")),
		*OPTIONS(.max_register_count = 32),
		*OPTIONS(.ftz = VG_CHOICE_ON, .prec_sqrt = VG_CHOICE_OFF, .prec_div = VG_CHOICE_OFF,
			 .fma = VG_CHOICE_OFF),
		*OPTIONS(.use_fast_math = 1, .extra_device_vectorization = 1),
		*OPTIONS(.undefine_macro = VG_TEXTS("C"), .include_path = VG_TEXTS("/"), .no_source_include = 1,
			 .std = "c++20"),
		*OPTIONS(.builtin_move_forward = VG_CHOICE_OFF, .builtin_initializer_list = VG_CHOICE_OFF),
		*OPTIONS(.disable_warnings = 1, .restrict_pointers = 1, .device_as_default_execution_space = 1),
		*OPTIONS(.device_int128 = 1),
		*OPTIONS(.optimization_info = "inline", .no_display_error_number = 1),
		*OPTIONS(.diag_error = VG_NUMBERS(20), .diag_suppress = VG_NUMBERS(177), .diag_warn = VG_NUMBERS(550)),
		*OPTIONS(.brief_diagnostics = VG_CHOICE_ON, .split_compile = VG_SPLIT_ALL),
		*OPTIONS(.minimal = 1),
		*OPTIONS(.no_cache = 1),
		*OPTIONS(.frandom_seed = "7"),
		*OPTIONS(.ofast_compile = "min"),
	};

	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		struct vg_program *program =
			make_program(VG_SOURCE_CXX, "__global__ void k(int *p) { *p = 1; }", &forms[i]);
		struct vg_object_code *code;
		if (vg_program_compile(program, VG_CODE_PTX, NULL, &code))
			FAIL("form %zu: %s", i, vg_last_error()->text);
		vg_object_code_destroy(code);
		vg_program_destroy(program);
	}
}

#define BAD_ARCH(part, name) \
	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, PLAIN_OPTIONS(.arch = name), &program), VG_INVALID, part)
#define BAD(part, ...) \
	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, OPTIONS(__VA_ARGS__), &program), VG_INVALID, part)
TEST(invalid_options_are_refused)
{
	struct vg_program *program = NULL;

	BAD_ARCH("option arch: \"hopper\" is none", "hopper");
	BAD_ARCH("option arch: \"sm_9\" is none", "sm_9");
	BAD_ARCH("option arch: \"sm_90b\" is none", "sm_90b");
	BAD_ARCH("option arch: \"\" is none", "");
	BAD("option name is empty", .name = "");
	BAD("option define_macro: \"=3\" is neither NAME nor NAME=VALUE", .define_macro = VG_TEXTS("A", "=3"));
	BAD("option define_macro: \"a b\" is neither", .define_macro = VG_TEXTS("a b"));
	BAD("option define_macro: \"3a=1\" is neither", .define_macro = VG_TEXTS("3a=1"));
	BAD("option include_path: a text is NULL", .include_path = VG_TEXTS(NULL));
	BAD("option include_path: 2 texts at NULL", .include_path = {NULL, 2});
	BAD("option std: a text is empty", .std = "");
	BAD("option diag_error: -1: numbers from 1", .diag_error = VG_NUMBERS(-1));
	BAD("option diag_warn: 1 numbers at NULL", .diag_warn = {NULL, 1});
	BAD("option max_register_count: -3", .max_register_count = -3);
	BAD("option split_compile: -2: numbers from 1 are meant, or VG_SPLIT_ALL", .split_compile = -2);
	BAD("option ftz: 3 is no enum vg_choice", .ftz = (enum vg_choice)3);
	BAD("option device_code_optimize: -1 is no enum vg_choice", .device_code_optimize = (enum vg_choice) - 1);
	BAD("option ofast_compile: \"fast\": there are 0, min, mid and max", .ofast_compile = "fast");
	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, &(struct vg_program_options){.size = 3}, &program), VG_INVALID,
		"size is 3");
	CHECK(program == NULL);
}

TEST(options_of_other_back_ends_are_refused)
{
	struct vg_source source = {"more", "x", 1};
	struct vg_program *program = NULL;

	BAD("the following options are not supported by NVRTC, which compiles CUDA C++: use_libdevice",
	    .use_libdevice = 1);
	BAD("the following options are not supported by NVRTC, which compiles CUDA C++: extra_sources",
	    .extra_sources = &source, .extra_source_count = 1);
	REFUSED(vg_program_create(VG_SOURCE_NVVM, "x", 1, OPTIONS(.lineinfo = 1, .std = "c++17", .pch = 1), &program),
		VG_INVALID, "the following options are not supported by NVVM: lineinfo, std, pch");
	REFUSED(vg_program_create(VG_SOURCE_PTX, "x", 1, OPTIONS(.define_macro = VG_TEXTS("A"), .minimal = 1),
				  &program),
		VG_INVALID,
		"the following options are not supported by linkers, which compile PTX: define_macro, minimal");
	REFUSED(vg_program_create(VG_SOURCE_PTX, "x", 1, OPTIONS(.device_code_optimize = VG_CHOICE_ON), &program),
		VG_INVALID, "device_code_optimize");
	REFUSED(vg_program_create(VG_SOURCE_NVVM, "x", 1, OPTIONS(.extra_source_count = 1), &program), VG_INVALID,
		"option extra_sources is NULL, but extra_source_count is 1");
	source.data = NULL;
	REFUSED(vg_program_create(VG_SOURCE_NVVM, "x", 1, OPTIONS(.extra_sources = &source, .extra_source_count = 1),
				  &program),
		VG_INVALID, "more has no source");
	source.name = NULL;
	REFUSED(vg_program_create(VG_SOURCE_NVVM, "x", 1, OPTIONS(.extra_sources = &source, .extra_source_count = 1),
				  &program),
		VG_INVALID, "extra_sources[0] has no name");
	CHECK(program == NULL);
}

TEST(invalid_sources_and_targets_are_refused)
{
	struct vg_program *program = NULL;
	struct vg_object_code *code = NULL;

	REFUSED(vg_program_create((enum vg_source_type)4, "x", 1, NULL, &program), VG_INVALID,
		"unsupported source type 4");
	REFUSED(vg_program_create(VG_SOURCE_CXX, NULL, 1, NULL, &program), VG_INVALID, "source is NULL");
	REFUSED(vg_program_create(VG_SOURCE_CXX, "", 0, NULL, &program), VG_INVALID, "has no source: 0 bytes");
	REFUSED(vg_program_create(VG_SOURCE_CXX, "a\0b", 3, NULL, &program), VG_INVALID,
		"has a zero byte in its source");
	REFUSED(vg_program_create(VG_SOURCE_CXX, "x", 1, NULL, NULL), VG_INVALID, "ret_program is NULL");
	REFUSED(vg_program_create(VG_SOURCE_PTX, "a\0b", 3, NULL, &program), VG_INVALID, "no PTX: it is text");
	CHECK_STR(vg_last_error()->function, "vg_program_create");
	REFUSED(vg_program_create(VG_SOURCE_PTX, "x", 1, PLAIN_OPTIONS(.arch = "x"), &program), VG_INVALID,
		"option arch");
	CHECK_STR(vg_last_error()->function, "vg_program_create");
	CHECK(program == NULL);
	program = make_program(VG_SOURCE_CXX, "x", OPTIONS());
	REFUSED(vg_program_compile(program, VG_CODE_FATBIN, NULL, &code), VG_INVALID,
		"unsupported target fatbin (4) for NVRTC: supported are PTX, cubin, LTO-IR");
	REFUSED(vg_program_compile(program, (enum vg_code_type)0, NULL, &code), VG_INVALID,
		"unsupported target type (0)");
	REFUSED(vg_program_compile(program, VG_CODE_PTX, COMPILE(.name_expressions = {NULL, 1}), &code), VG_INVALID,
		"name_expressions: 0 of 1 is empty");
	REFUSED(vg_program_compile(program, VG_CODE_PTX, COMPILE(.digest_size = 1), &code), VG_INVALID,
		"digest has 1 bytes at NULL");
	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, NULL), VG_INVALID, "ret_code is NULL");
	REFUSED(vg_program_compile(NULL, VG_CODE_PTX, NULL, &code), VG_INVALID, "program is NULL");
	vg_program_destroy(program);
	program = make_program(VG_SOURCE_CXX, "__global__ void k() {}", PLAIN_OPTIONS(.arch = "compute_90"));
	REFUSED(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code), VG_TOOLCHAIN,
		"an architecture that begins with sm_");
	REFUSED(vg_program_compile(program, VG_CODE_PTX, COMPILE(.name_expressions = VG_TEXTS("absent<int>")), &code),
		VG_TOOLCHAIN, "nvrtcCompileProgram of program");
	check_log("absent");
	vg_program_destroy(program);
	program = make_program(VG_SOURCE_CXX, "__global__ void k() {}", OPTIONS(.link_time_optimization = 1));
	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, &code), VG_TOOLCHAIN, "there is LTO-IR only");
	vg_program_destroy(program);
	CHECK(code == NULL);
	vg_program_destroy(NULL);
	CHECK_STR(vg_program_log(NULL), "");
	CHECK_INT(vg_program_backend(NULL), 0);
}

TEST(the_default_architecture_is_the_devices)
{
	struct vg_program_options options = {.size = sizeof options};
	struct vg_program *program = make_program(VG_SOURCE_CXX, "x", &options);
	struct vg_device *device;
	const char *const *arguments;
	char expected[32];
	int major, minor;

	OK(vg_device_get(0, &device));
	OK(vg_device_property(device, 75, &major));
	OK(vg_device_property(device, 76, &minor));
	snprintf(expected, sizeof expected, "-arch=sm_%d%d", major, minor);
	CHECK_INT(vg_program_arguments(program, VG_CODE_PTX, &arguments), 1);
	CHECK_STR(arguments[0], expected);
	vg_program_destroy(program);
}

static const char *make_ir(const char *body)
{
	static char text[2048];

	snprintf(text, sizeof text,
		 "target datalayout = "
		 "\"e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
		 "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64\"\ntarget triple = \"nvptx64-nvidia-cuda\"\n%s"
		 "!nvvmir.version = !{!1}\n!1 = !{i32 2, i32 0, i32 3, i32 1}\n",
		 body);
	return text;
}

TEST(nvvm_with_extra_sources_and_libdevice)
{
	char more[2048];
	strcpy(more, make_ir("define i32 @add(i32 %a) {\n %r = add i32 %a, 40\n ret i32 %r\n}\n"));
	const char *main_source = make_ir(
		"declare i32 @add(i32)\ndeclare double @__nv_pow(double, double)\n"
		"define void @store(i32* %p, i32 %v) {\n %s = call i32 @add(i32 %v)\n %d = sitofp i32 %s to double\n"
		" %w = call double @__nv_pow(double %d, double 2.0)\n %i = fptosi double %w to i32\n"
		" store i32 %i, i32* %p\n ret void\n}\n"
		"!nvvm.annotations = !{!0}\n!0 = !{void (i32*, i32)* @store, !\"kernel\", i32 1}\n");
	struct vg_source extra = {"more", more, strlen(more)};
	struct vg_program *program =
		make_program(VG_SOURCE_NVVM, main_source,
			     OPTIONS(.extra_sources = &extra, .extra_source_count = 1, .use_libdevice = 1));
	struct vg_object_code *code;

	CHECK_INT(vg_program_backend(program), VG_BACKEND_NVVM);
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_INT(run_kernel_once(code, "store", 2), 1764);
	vg_object_code_destroy(code);
	OK(vg_program_compile(program, VG_CODE_LTOIR, NULL, &code));
	vg_object_code_destroy(code);
	REFUSED(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code), VG_INVALID,
		"unsupported target cubin (1) for NVVM: supported are PTX, LTO-IR");
	REFUSED(vg_program_compile(program, VG_CODE_PTX, COMPILE(.name_expressions = VG_TEXTS("a")), &code), VG_INVALID,
		"name_expressions are of CUDA C++ only");
	vg_program_destroy(program);
	program = make_program(VG_SOURCE_NVVM, "define nonsense", OPTIONS());
	REFUSED(vg_program_compile(program, VG_CODE_PTX, NULL, &code), VG_TOOLCHAIN,
		"of program \"default_program\": NVVM_ERROR_");
	check_log("");
	vg_program_destroy(program);
}

TEST(every_option_of_nvvm)
{
	expect_arguments(
		make_program(VG_SOURCE_NVVM, "x",
			     OPTIONS(.debug = 1, .device_code_optimize = VG_CHOICE_OFF, .ftz = VG_CHOICE_ON,
				     .prec_sqrt = VG_CHOICE_OFF, .prec_div = VG_CHOICE_ON, .fma = VG_CHOICE_OFF)),
		VG_CODE_LTOIR,
		(const char *[]){"-arch=compute_90", "-g", "-opt=0", "-ftz=1", "-prec-sqrt=0", "-prec-div=1", "-fma=0",
				 "-gen-lto", NULL});
	expect_arguments(make_program(VG_SOURCE_NVVM, "x", OPTIONS(.device_code_optimize = VG_CHOICE_ON)), VG_CODE_PTX,
			 (const char *[]){"-arch=compute_90", "-opt=3", NULL});
}

TEST(ptx_is_compiled_by_a_linker)
{
	size_t size;
	char *ptx = read_built_file("kernels.ptx", &size);
	struct vg_program *program;
	struct vg_object_code *code = NULL;
	struct vg_toolchain tool;

	// Without nvJitLink, the library compiles PTX with the driver's linker. The test is skipped then.
	if (vg_toolchain_find(VG_BACKEND_NVJITLINK, &tool) == VG_NOT_FOUND)
		SKIP("%s", vg_last_error()->text);
	OK(vg_program_create(VG_SOURCE_PTX, ptx, size,
			     OPTIONS(.name = "linked", .max_register_count = 64, .lineinfo = 1), &program));
	free(ptx);
	CHECK_INT(vg_program_backend(program), VG_BACKEND_NVJITLINK);
	OK(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code));
	CHECK_INT(vg_object_code_type(code), VG_CODE_CUBIN);
	CHECK_STR(vg_object_code_name(code), "linked");
	vg_object_code_destroy(code);
	REFUSED(vg_program_compile(program, VG_CODE_LTOIR, NULL, &code), VG_INVALID,
		"unsupported target LTO-IR (3) for nvJitLink: supported are cubin, PTX");
	vg_program_destroy(program);
	program = make_program(VG_SOURCE_PTX, ".version 8.0\n.target sm_75\nnonsense\n", OPTIONS(.name = "bad"));
	REFUSED(vg_program_compile(program, VG_CODE_CUBIN, NULL, &code), VG_TOOLCHAIN,
		"of PTX \"bad\" in \"bad\": NVJITLINK_ERROR_PTX_COMPILE");
	check_log("");
	vg_program_destroy(program);
}

TEST(precompiled_headers)
{
	char directory[] = "/tmp/test-pch-XXXXXX", source[256], path[128];

	CHECK(mkdtemp(directory) != NULL);
	snprintf(path, sizeof path, "%s/header.h", directory);
	FILE *file = fopen(path, "w");
	fprintf(file, "template <typename T> struct box { T value; };\n");
	fclose(file);
	snprintf(source, sizeof source,
		 "#include \"header.h\"\n#pragma nv_hdrstop\n__global__ void k(box<int> *p) { p->value = 3; }\n");
	const char *paths[] = {directory};
	struct vg_program_options options = {.size = sizeof options,
					     .arch = "sm_90",
					     .include_path = {paths, 1},
					     .pch_dir = directory,
					     .create_pch = "one.pch"};
	struct vg_program *program = make_program(VG_SOURCE_CXX, source, &options);
	struct vg_object_code *code;
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_INT(vg_program_pch_status(program), VG_PCH_CREATED);
	vg_object_code_destroy(code);
	vg_program_destroy(program);
	snprintf(path, sizeof path, "%s/one.pch", directory);
	CHECK(access(path, R_OK) == 0);
	options.create_pch = NULL;
	options.use_pch = "one.pch";
	program = make_program(VG_SOURCE_CXX, source, &options);
	OK(vg_program_compile(program, VG_CODE_PTX, NULL, &code));
	CHECK_INT(vg_program_pch_status(program), VG_PCH_NONE);
	vg_object_code_destroy(code);
	vg_program_destroy(program);
	snprintf(path, sizeof path, "rm -r %s", directory);
	CHECK_INT(system(path), 0);
}
