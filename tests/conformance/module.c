// Tests modules and libraries: loading PTX, its errors, functions, variables, costs of lazy loading.
#include "conformance.h"

static const char ptx_variables[] = PTX_HEAD
	".visible .global .align 4 .u32 counter = 42;\n"
	".visible .const .align 4 .u32 table[4] = {1, 2, 3, 4};\n"
	".visible .global .align 16 .b8 large[4194304];\n"
	".visible .entry bump() {\n	.reg .b32 %v;\n"
	"	ld.global.u32 %v, [counter];\n	add.u32 %v, %v, 1;\n	st.global.u32 [counter], %v;\n	ret;\n}\n"
	".visible .entry shared() {\n	.reg .b32 %v;\n	.shared .align 4 .b8 area[1024];\n"
	"	mov.u32 %v, 1;\n	st.shared.u32 [area], %v;\n	ret;\n}\n";

CONFORM(functions)
{
	CUmodule module;
	CUfunction function = NULL, again = NULL;
	CUmodule owner = NULL;
	unsigned count = 0;
	const char *name = NULL;

	need_context();
	module = need_module(ptx_variables);
	WORKS(cuModuleGetFunction(&function, module, "bump"));
	WORKS(cuModuleGetFunction(&again, module, "bump"));
	HOLDS(function == again);
	GIVES(cuModuleGetFunction(&function, module, "missing"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetFunction(&function, module, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuModuleGetFunction(NULL, module, "bump"), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuModuleGetFunction(&function, NULL, "bump"), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuFuncGetModule(&owner, again));
	HOLDS(owner == module);
	WORKS(cuModuleGetFunctionCount(&count, module));
	EQUALS(count, 2);
	WORKS(cuFuncGetName(&name, again));
	CHECK_STR(name, "bump");
	WORKS(cuModuleUnload(module));
	GIVES(cuModuleUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
}

CONFORM(variables)
{
	CUmodule module;
	CUdeviceptr address = 0;
	size_t size = 0;
	unsigned value = 0, table[4] = {0};

	need_context();
	module = need_module(ptx_variables);
	WORKS(cuModuleGetGlobal(&address, &size, module, "counter"));
	EQUALS(size, 4);
	WORKS(cuMemcpyDtoH(&value, address, 4));
	EQUALS(value, 42);
	NEED(cuLaunchKernel(need_function(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORKS(cuCtxSynchronize());
	WORKS(cuMemcpyDtoH(&value, address, 4));
	EQUALS(value, 43);
	WORKS(cuModuleGetGlobal(&address, &size, module, "table"));
	EQUALS(size, 16);
	WORKS(cuMemcpyDtoH(table, address, 16));
	EQUALS(table[3], 4);
	WORKS(cuModuleGetGlobal(NULL, &size, module, "large"));
	EQUALS(size, 4 * MiB);
	WORKS(cuModuleGetGlobal(&address, NULL, module, "large"));
	GIVES(cuModuleGetGlobal(&address, &size, module, "missing"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetGlobal(&address, &size, module, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuModuleUnload(module));
}

CONFORM(cost_of_a_module)
{
	CUmodule module, again;
	CUdeviceptr address;
	size_t size, before;

	need_context();
	module = need_module(ptx_variables); // loads a first module, which allocates memory for the context
	WORKS(cuModuleGetGlobal(&address, &size, module, "large"));
	before = memory_used();
	again = need_module(ptx_variables);
	WORKS(cuModuleGetGlobal(&address, &size, again, "large"));
	BETWEEN(memory_used() - before, 4 * MiB, 8 * MiB); // its variables
	WORKS(cuModuleUnload(again));
	EQUALS(memory_used(), before);
	WORKS(cuModuleUnload(module));
}

CONFORM(libraries_of_bad_ptx)
{
	char log[2048] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};
	CUlibrary library = NULL;
	CUmodule module;
	CUkernel kernel;
	unsigned count = 7;

	need_context();
	// The load succeeds and writes the compiler's log; the first use returns the error.
	NEED(cuLibraryLoadData(&library, PTX_HEAD ".visible .entry a() { nonsense.u32 %r1; ret; }", options, values, 2,
			       NULL, NULL, 0));
	HOLDS(log[0] != 0);
	GIVES(cuLibraryGetKernel(&kernel, library, "a"), CUDA_ERROR_INVALID_PTX);
	WORKS(cuLibraryGetKernelCount(&count, library));
	EQUALS(count, 0);
	GIVES(cuLibraryGetModule(&module, library), CUDA_ERROR_INVALID_PTX);
	WORKS(cuLibraryUnload(library));
}

CONFORM(kernel_calls_without_a_context)
{
	CUlibrary library = NULL;
	CUfunction function;
	CUkernel kernel;
	CUcontext popped;
	size_t offset, size;
	int value;

	need_context();
	NEED(cuLibraryLoadData(&library, PTX_HEAD ".visible .entry a(.param .u64 p) { ret; }", NULL, NULL, 0, NULL,
			       NULL, 0));
	NEED(cuLibraryGetKernel(&kernel, library, "a"));
	NEED(cuCtxPopCurrent(&popped));
	CUresult parameter = cuKernelGetParamInfo(kernel, 0, &offset, &size),
		 get = cuKernelGetFunction(&function, kernel);
	CUresult attribute = cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, device);
	NEED(cuCtxPushCurrent(popped));
	EQUALS(parameter, CUDA_ERROR_INVALID_CONTEXT);
	EQUALS(get, CUDA_ERROR_INVALID_CONTEXT);
	EQUALS(attribute, CUDA_SUCCESS);
	WORKS(cuKernelGetParamInfo(kernel, 0, &offset, &size));
	GIVES(cuKernelGetParamInfo(kernel, 1, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuLibraryUnload(library));
}

CONFORM(bad_images)
{
	CUmodule module = NULL;
	char log[4096] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof log};

	need_context();
	GIVES(cuModuleLoadData(&module, "no ptx at all"), CUDA_ERROR_INVALID_IMAGE);
	GIVES(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
	GIVES(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuModuleLoadData(NULL, ptx_basic), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuModuleLoadData(
		      &module, PTX_HEAD
		      ".visible .entry a() { .local .b32 x; .reg .b32 %r; ld.volatile.local.u32 %r, [x]; ret; }"),
	      CUDA_ERROR_INVALID_PTX);
	GIVES(cuModuleLoadData(&module, PTX_HEAD ".visible .entry a() { nonsense.u32 %r1; ret; }"),
	      CUDA_ERROR_INVALID_PTX);
	GIVES(cuModuleLoadDataEx(&module, PTX_HEAD ".visible .entry a() {\n nonsense.u32 %r1;\n ret; }", 2, options,
				 values),
	      CUDA_ERROR_INVALID_PTX);
	HOLDS(strstr(log, "ptxas") && strstr(log, "line")); // says where
	GIVES(cuModuleLoadData(&module, ".version 99.0\n.target sm_75\n.address_size 64\n"),
	      CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	GIVES(cuModuleLoadData(&module, PTX_HEAD ".extern .func other(); .visible .entry a() { call other; ret; }"),
	      CUDA_ERROR_INVALID_PTX);
	GIVES(cuModuleLoad(&module, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
	GIVES(cuModuleLoad(&module, NULL), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(a_newer_target_is_refused)
{
	CUmodule module = NULL;

	need_context();
	GIVES(cuModuleLoadData(&module, ".version 8.7\n.target sm_120\n.address_size 64\n.visible .entry a() { ret; }"),
	      CUDA_ERROR_INVALID_PTX);
}

CONFORM(function_attributes)
{
	CUmodule module;
	CUfunction shared;
	int value = -1;

	need_context();
	module = need_module(ptx_variables);
	shared = need_function(module, "shared");
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, shared));
	EQUALS(value, 1024);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, shared));
	EQUALS(value, 1024);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, shared));
	EQUALS(value, 0);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, shared));
	HOLDS(value > 0 && value <= 255);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, shared));
	EQUALS(value, 75);
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, shared));
	HOLDS(value >= 75);
	WORKS(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
	WORKS(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared));
	EQUALS(value, 65536);
	GIVES(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
	      CUDA_ERROR_INVALID_VALUE);
	GIVES(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_NUM_REGS, 5), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuFuncGetAttribute(&value, 99, shared), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, shared), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuModuleUnload(module));
}

CONFORM(parameters)
{
	size_t offset = 99, size = 99;
	CUfunction store;

	need_context();
	store = need_function(need_module(ptx_basic), "store");
	WORKS(cuFuncGetParamInfo(store, 0, &offset, &size));
	EQUALS(offset, 0);
	EQUALS(size, 8);
	WORKS(cuFuncGetParamInfo(store, 1, &offset, &size));
	EQUALS(offset, 8);
	EQUALS(size, 4);
	GIVES(cuFuncGetParamInfo(store, 2, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(libraries)
{
	CUlibrary library = NULL;
	CUkernel kernel = NULL, again = NULL;
	CUfunction function = NULL;
	CUmodule module = NULL;
	CUlibrary owner = NULL;
	CUdeviceptr address = 0;
	unsigned count = 0;
	size_t size = 0;
	int value = -1;

	need_context();
	WORKS(cuLibraryLoadData(&library, ptx_variables, NULL, NULL, 0, NULL, NULL, 0));
	WORKS(cuLibraryGetKernel(&kernel, library, "bump"));
	WORKS(cuLibraryGetKernel(&again, library, "bump"));
	HOLDS(kernel == again);
	GIVES(cuLibraryGetKernel(&again, library, "missing"), CUDA_ERROR_NOT_FOUND);
	WORKS(cuLibraryGetKernelCount(&count, library));
	EQUALS(count, 2);
	WORKS(cuKernelGetFunction(&function, kernel));
	WORKS(cuLibraryGetModule(&module, library));
	WORKS(cuKernelGetLibrary(&owner, kernel));
	HOLDS(owner == library);
	WORKS(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device));
	EQUALS(value, 1024);
	WORKS(cuLibraryGetGlobal(&address, &size, library, "counter"));
	EQUALS(size, 4);
	GIVES(cuLibraryGetGlobal(&address, &size, library, "missing"), CUDA_ERROR_NOT_FOUND);
	// A kernel handle is accepted where a function is required.
	WORKS(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORKS(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	WORKS(cuCtxSynchronize());
	unsigned counted = 0;
	WORKS(cuMemcpyDtoH(&counted, address, 4));
	EQUALS(counted, 44);
	WORKS(cuLibraryUnload(library));
	GIVES(cuLibraryUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
	FAILS(cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
}

CONFORM(linker)
{
	CUlinkState state = NULL;
	void *image = NULL;
	size_t size = 0;
	CUmodule module = NULL;
	CUfunction function = NULL;
	static const char caller[] =
		PTX_HEAD ".extern .func (.param .b32 r) helper();\n"
			 ".visible .entry outer(.param .u64 to) {\n	.reg .b64 %a;\n	.reg .b32 %v;\n"
			 "	ld.param.u64 %a, [to];\n	{\n	.param .b32 r;\n	call (r), "
			 "helper;\n	ld.param.b32 %v, [r];\n	}\n"
			 "	st.global.b32 [%a], %v;\n	ret;\n}\n";
	static const char callee[] = PTX_HEAD ".visible .func (.param .b32 r) helper() {\n	.reg .b32 %v;\n"
					      "	mov.b32 %v, 99;\n	st.param.b32 [r], %v;\n	ret;\n}\n";
	CUdeviceptr to;
	unsigned word = 0;

	need_context();
	NEED(cuLinkCreate(0, NULL, NULL, &state));
	WORKS(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)caller, sizeof caller, "caller", 0, NULL, NULL));
	WORKS(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)callee, sizeof callee, "callee", 0, NULL, NULL));
	NEED(cuLinkComplete(state, &image, &size));
	HOLDS(image && size > 0);
	NEED(cuModuleLoadData(&module, image));
	WORKS(cuLinkDestroy(state));
	NEED(cuModuleGetFunction(&function, module, "outer"));
	NEED(cuMemAlloc(&to, 4));
	void *arguments[] = {&to};
	NEED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuMemcpyDtoH(&word, to, 4));
	EQUALS(word, 99);
	WORKS(cuMemFree(to));
	WORKS(cuModuleUnload(module));
}

CONFORM(loading_mode)
{
	CUmoduleLoadingMode mode = 0;

	NEED(cuInit(0));
	WORKS(cuModuleGetLoadingMode(&mode));
	EQUALS(mode, CU_MODULE_LAZY_LOADING); // lazy loading is the default on Linux since CUDA 12.2
}
