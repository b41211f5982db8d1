#include "code_test.h"

static int counter_of(struct vg_object_code *code, struct vg_context *context)
{
	vg_address address;
	size_t size;
	int value;

	OK(vg_object_code_global(code, context, "counter", &address, &size));
	CHECK_INT(size, sizeof value);
	read_words(context, &value, address, sizeof value);
	return value;
}

static void launch_bump(struct vg_object_code *code, struct vg_context *context)
{
	struct vg_stream *stream;
	struct vg_kernel *kernel;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_object_code_kernel(code, "bump", &kernel));
	OK(vg_launch(stream, CONFIG(1, 32), kernel, VG_ARGUMENTS(3)));
	OK(vg_stream_sync(stream));
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
}

TEST(ptx_and_fatbin_run_from_memory)
{
	struct vg_context *context = first_context();
	const struct {
		enum vg_code_type type;
		const char *file;
	} forms[] = {{VG_CODE_PTX, "kernels.ptx"}, {VG_CODE_FATBIN, "kernels.fatbin"}};

	for (size_t i = 0; i < 2; i++) {
		struct vg_object_code *code = built_code(forms[i].type, forms[i].file);
		CHECK_INT(vg_object_code_type(code), forms[i].type);
		CHECK_INT(counter_of(code, context), 5);
		launch_bump(code, context);
		CHECK_INT(counter_of(code, context), 5 + 32 * 3);
		vg_object_code_destroy(code);
	}
	vg_context_destroy(context);
}

TEST(a_cubin_runs_on_hardware)
{
	if (getenv("VIRGATE_SIM"))
		SKIP("the simulated driver executes PTX, not machine code");
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_CUBIN, "kernels.cubin");

	launch_bump(code, context);
	CHECK_INT(counter_of(code, context), 5 + 32 * 3);
	vg_object_code_destroy(code);
	vg_context_destroy(context);
}

TEST(a_file_is_read_when_it_is_loaded)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code;
	size_t size = 1;

	OK(vg_object_code_from_file(VG_CODE_PTX, built_path("kernels.ptx"), NULL, &code));
	CHECK_STR(vg_object_code_path(code), built_path("kernels.ptx"));
	CHECK_STR(vg_object_code_name(code), built_path("kernels.ptx"));
	CHECK(vg_object_code_data(code, &size) == NULL && size == 0);
	launch_bump(code, context);
	vg_object_code_destroy(code);
	REFUSED(vg_object_code_from_file(VG_CODE_PTX, "/nowhere/kernels.ptx", NULL, &code), VG_NOT_FOUND,
		"cannot read PTX /nowhere/kernels.ptx: No such file");
	vg_context_destroy(context);
}

TEST(a_kernel_keeps_its_code_loaded)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_PTX, "kernels.ptx");
	struct vg_stream *stream;
	struct vg_kernel *kernel, *other;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_object_code_kernel(code, "empty", &kernel));
	OK(vg_object_code_close(code));
	OK(vg_object_code_close(code));
	REFUSED(vg_object_code_kernel(code, "empty", &other), VG_CLOSED, "the object code has been closed");
	OK(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 0));
	vg_object_code_destroy(code);
	vg_context_destroy(context);
	OK(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 0));
	OK(vg_stream_sync(stream));
	vg_kernel_destroy(kernel);
	vg_stream_destroy(stream);
}

static size_t read_free_memory(struct vg_context *context)
{
	size_t free;

	OK(vg_device_memory_info(vg_context_device(context), &free, NULL));
	return free;
}

TEST(the_last_reference_unloads)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_PTX, "kernels.ptx");
	struct vg_kernel *kernel, *borrowed;
	vg_address address;
	size_t size;

	size_t before = read_free_memory(context);
	OK(vg_object_code_global(code, context, "ballast", &address, &size));
	CHECK_INT(size, 8 << 20);
	OK(vg_object_code_kernel(code, "empty", &kernel));
	OK(vg_kernel_borrow(vg_kernel_handle(kernel), code, NULL, NULL, &borrowed));
	size_t loaded = read_free_memory(context);
	CHECK(loaded <= before - size);
	struct CUlib_st *handle, *again;
	OK(vg_object_code_handle(code, &handle));
	OK(vg_object_code_handle(code, &again));
	CHECK(handle && handle == again); // loaded once
	REFUSED(vg_object_code_handle(code, NULL), VG_INVALID, "ret_handle is NULL");
	REFUSED(vg_object_code_handle(NULL, &handle), VG_INVALID, "code is NULL");
	vg_object_code_destroy(code);
	vg_kernel_destroy(kernel);
	CHECK_INT(read_free_memory(context), loaded);
	vg_kernel_destroy(borrowed);
	CHECK(read_free_memory(context) >= loaded + size);
	vg_context_destroy(context);
}

TEST(name_expressions_are_looked_up_first)
{
	struct vg_symbol symbols[] = {{"ns::increase<int>", "bump"}, {"counter", "results"}};
	struct vg_object_code_options options = {sizeof options, .name = "mapped", .symbols = symbols,
						 .symbol_count = 2};
	struct vg_context *context = first_context();
	const struct vg_symbol *kept;
	struct vg_object_code *code;
	struct vg_kernel *kernel;
	vg_address address;
	size_t size;

	char *data = read_built_file("kernels.ptx", &size);
	OK(vg_object_code_create(VG_CODE_PTX, data, size, &options, &code));
	free(data);
	CHECK_INT(vg_object_code_symbols(code, &kept), 2);
	CHECK(kept != symbols);
	CHECK_STR(kept[1].symbol, "results");
	CHECK_STR(vg_object_code_symbol(code, "ns::increase<int>"), "bump");
	CHECK(vg_object_code_symbol(code, "bump") == NULL);
	OK(vg_object_code_kernel(code, "ns::increase<int>", &kernel));
	CHECK_STR(vg_kernel_name(kernel), "bump");
	vg_kernel_destroy(kernel);
	OK(vg_object_code_kernel(code, "bump", &kernel));
	vg_kernel_destroy(kernel);
	OK(vg_object_code_global(code, context, "counter", &address, &size));
	CHECK_INT(size, 64 * sizeof(int));
	vg_object_code_destroy(code);
	symbols[1].symbol = NULL;
	REFUSED(vg_object_code_create(VG_CODE_PTX, "x", 1, &options, &code), VG_INVALID, "symbols[1] lacks its symbol");
	vg_context_destroy(context);
}

TEST(missing_names_are_refused)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code = built_code(VG_CODE_PTX, "kernels.ptx");
	struct vg_kernel *kernel = NULL;
	vg_address address = 1;

	REFUSED(vg_object_code_kernel(code, "absent", &kernel), VG_NOT_FOUND, "has no kernel \"absent\"; it has: ");
	CHECK_CONTAINS(vg_last_error()->text, "bump");
	REFUSED(vg_object_code_global(code, context, "absent", &address, NULL), VG_NOT_FOUND,
		"no device variable \"absent\"");
	REFUSED(vg_object_code_managed(code, context, "absent", &address, NULL), VG_NOT_FOUND,
		"no managed variable \"absent\"");
	REFUSED(vg_object_code_global(NULL, context, "counter", &address, NULL), VG_INVALID, "code is NULL");
	REFUSED(vg_object_code_global(code, NULL, "counter", &address, NULL), VG_INVALID, "context is NULL");
	REFUSED(vg_object_code_global(code, context, NULL, &address, NULL), VG_INVALID, "name is NULL");
	REFUSED(vg_object_code_managed(code, context, "counter", NULL, NULL), VG_INVALID, "ret_address is NULL");
	REFUSED(vg_object_code_managed(code, context, "counter", &address, NULL), VG_NOT_FOUND,
		"no managed variable \"counter\"");
	CHECK(!kernel && address == 1);
	vg_object_code_destroy(code);
	vg_context_destroy(context);
}

TEST(managed_variables_have_one_address)
{
	static const char ptx[] =
		".version 7.0\n.target sm_75\n.address_size 64\n"
		".visible .global .attribute(.managed) .align 4 .u32 shared_word = 7;\n"
		".visible .entry twice() { .reg .b32 %r<3>; .reg .b64 %d<2>; mov.u64 %d1, shared_word;\n"
		" ld.global.u32 %r1, [%d1]; add.u32 %r2, %r1, %r1; st.global.u32 [%d1], %r2; ret; }\n";
	struct vg_context *context = first_context();
	struct vg_object_code *code;
	struct vg_stream *stream;
	struct vg_kernel *kernel;
	vg_address address;
	size_t size;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code));
	OK(vg_object_code_kernel(code, "twice", &kernel));
	OK(vg_object_code_managed(code, context, "shared_word", &address, &size));
	CHECK_INT(size, 4);
	CHECK_INT(*(volatile int *)address, 7);
	OK(vg_launch(stream, CONFIG(1, 1), kernel, NULL, 0));
	OK(vg_stream_sync(stream));
	CHECK_INT(*(volatile int *)address, 14);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(only_loadable_types_are_loaded)
{
	struct vg_object_code *code;
	struct vg_kernel *kernel;

	OK(vg_object_code_create(VG_CODE_LTOIR, "ltoir", 5, NULL, &code));
	REFUSED(vg_object_code_kernel(code, "k", &kernel), VG_UNSUPPORTED, "LTO-IR of 5 B cannot be loaded");
	REFUSED(vg_object_code_load(code), VG_UNSUPPORTED, "only cubin, PTX and fatbin can");
	vg_object_code_destroy(code);
}

TEST(truncated_or_foreign_code_is_refused)
{
	struct vg_object_code *code = NULL;
	size_t size;

	for (int fatbin = 0; fatbin < 2; fatbin++) {
		enum vg_code_type type = fatbin ? VG_CODE_FATBIN : VG_CODE_CUBIN;
		char *data = read_built_file(fatbin ? "kernels.fatbin" : "kernels.cubin", &size);
		for (size_t cut = 0; cut < size; cut += cut < 128 ? 1 : 97)
			CHECK_INT(vg_object_code_create(type, data, cut, NULL, &code), VG_INVALID);
		REFUSED(vg_object_code_create(type, data, size - 1, NULL, &code), VG_INVALID, "is cut short");
		REFUSED(vg_object_code_create(type == VG_CODE_CUBIN ? VG_CODE_FATBIN : VG_CODE_CUBIN, data, size, NULL,
					      &code),
			VG_INVALID, fatbin ? "are no cubin" : "are no fatbin");
		free(data);
	}
	REFUSED(vg_object_code_create(VG_CODE_PTX, "", 0, NULL, &code), VG_INVALID, "0 bytes of PTX");
	REFUSED(vg_object_code_create(VG_CODE_PTX, "\0\0", 2, NULL, &code), VG_INVALID, "0 bytes of PTX");
	REFUSED(vg_object_code_create(VG_CODE_PTX, "a\0b", 3, NULL, &code), VG_INVALID, "no PTX: it is text");
	CHECK(code == NULL);
}

// An invalid field of a header must not cause an access outside the bytes; the address sanitizer checks this.
TEST(invalid_headers_are_refused)
{
	struct vg_object_code *code;
	size_t size;

	for (int fatbin = 0; fatbin < 2; fatbin++) {
		char *data = read_built_file(fatbin ? "kernels.fatbin" : "kernels.cubin", &size);
		char *exact = malloc(size);
		memcpy(exact, data, size);
		free(data);
		for (size_t at = 0; at < size; at++)
			for (int bit = 0; bit < 8; bit += 7) {
				exact[at] ^= (char)(1 << bit);
				if (vg_object_code_create(fatbin ? VG_CODE_FATBIN : VG_CODE_CUBIN, exact, size, NULL,
							  &code) == VG_OK)
					vg_object_code_destroy(code);
				else
					CHECK_INT(vg_last_error()->status, VG_INVALID);
				exact[at] ^= (char)(1 << bit);
			}
		free(exact);
	}
}

TEST(compiler_errors_are_in_the_log)
{
	struct vg_context *context = first_context();
	struct vg_object_code *code;

	OK(vg_object_code_create(VG_CODE_PTX, ".version 8.0\n.target sm_75\n.address_size 64\n.nonsense\n", 53, NULL,
				 &code));
	REFUSED(vg_object_code_load(code), VG_DRIVER, "cuLibraryLoadData: CUDA_ERROR_INVALID_PTX");
	check_log("nonsense");
	vg_object_code_destroy(code);
	vg_context_destroy(context);
}

static const char lacking[] = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry good() { ret; }\n"
			      ".visible .entry lacking() {\n.reg .b32 %r<8>;\n"
			      "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0, %r1}, {%r2}, {%r3}, {%r4, %r5};\n"
			      "ret;\n}\n";

static void check_missing_mma(enum vg_status status)
{
	CHECK_INT(status, VG_DRIVER);
	check_log("line 7");
	CHECK_CONTAINS(vg_last_error()->log, "mma.sync");
}

// Loads and links code with an instruction that the simulated driver lacks. The error must name the instruction even
// if no environment variable, such as VIRGATE_SIM_LOG, is set.
TEST(unsupported_instructions_are_in_the_error)
{
	struct vg_linker_options of_the_driver = {sizeof of_the_driver, .backend = VG_BACKEND_DRIVER};
	struct vg_context *context = first_context();
	struct vg_object_code *code, *linked = NULL;
	struct vg_kernel *kernel;
	struct vg_linker *linker;
	char path[] = "/tmp/test-lacking-XXXXXX";

	OK(vg_object_code_create(VG_CODE_PTX, lacking, sizeof lacking - 1, NULL, &code));
	OK(vg_object_code_kernel(code, "good", &kernel));
	vg_kernel_destroy(kernel);
	enum vg_status status = vg_object_code_kernel(code, "lacking", &kernel);
	if (status == VG_OK) {
		vg_kernel_destroy(kernel);
		vg_object_code_destroy(code);
		vg_context_destroy(context);
		SKIP("a GPU runs it");
	}
	check_missing_mma(status);
	OK(vg_linker_create(&code, 1, &of_the_driver, &linker));
	status = vg_linker_link(linker, VG_CODE_CUBIN, &linked);
	check_missing_mma(status ? status : vg_object_code_kernel(linked, "lacking", &kernel));
	vg_object_code_destroy(linked);
	vg_linker_destroy(linker);
	vg_object_code_destroy(code);
	int file = mkstemp(path);
	CHECK(file >= 0 && write(file, lacking, sizeof lacking - 1) == sizeof lacking - 1);
	close(file);
	OK(vg_object_code_from_file(VG_CODE_PTX, path, NULL, &code));
	status = vg_object_code_load(code);
	check_missing_mma(status ? status : vg_object_code_kernel(code, "lacking", &kernel));
	vg_object_code_destroy(code);
	unlink(path);
	vg_context_destroy(context);
}

TEST(wrong_arguments)
{
	struct vg_object_code *code = NULL;
	size_t size = 1;

	REFUSED(vg_object_code_create(VG_CODE_PTX, NULL, 5, NULL, &code), VG_INVALID, "data is NULL");
	REFUSED(vg_object_code_create(VG_CODE_PTX, "x", 1, NULL, NULL), VG_INVALID, "ret_code is NULL");
	REFUSED(vg_object_code_create((enum vg_code_type)0, "x", 1, NULL, &code), VG_INVALID,
		"there is no code type 0");
	REFUSED(vg_object_code_create((enum vg_code_type)7, "x", 1, NULL, &code), VG_INVALID,
		"there is no code type 7");
	REFUSED(vg_object_code_from_file(VG_CODE_PTX, NULL, NULL, &code), VG_INVALID, "path is NULL");
	REFUSED(vg_object_code_kernel(NULL, "x", NULL), VG_INVALID, "code is NULL");
	REFUSED(vg_object_code_close(NULL), VG_INVALID, "code is NULL");
	vg_object_code_destroy(NULL);
	CHECK_INT(vg_object_code_type(NULL), 0);
	CHECK_STR(vg_object_code_name(NULL), "");
	CHECK(!vg_object_code_path(NULL) && !vg_object_code_data(NULL, &size) && !size);
	CHECK_INT(vg_object_code_symbols(NULL, NULL), 0);
}
