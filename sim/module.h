// Modules, libraries and their functions. The driver's opaque handles are pointers to these
// structs, under the tags that cuda.h gives them. Any thread.
#pragma once

#include "fatbin.h"
#include "sim.h"

enum {
	SIM_MODULE_MAGIC = 0x4d4f4432,
	SIM_FUNCTION_MAGIC = 0x46554e32,
	SIM_LIBRARY_MAGIC = 0x4c494232,
	SIM_KERNEL_MAGIC = 0x4b524e32,
};

// What cuFuncSetAttribute may change.
struct sim_settings {
	int dynamic_shared; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	int carveout, cluster[3], cluster_policy, cluster_any;
	bool dynamic_shared_set;
};

struct CUfunc_st {
	uint32_t magic;
	_Atomic bool loaded;
	struct CUmod_st *module;
	struct CUkern_st *kernel; // NULL: not of a library
	const struct ptx_function *ptx;
	const struct ptx_function_info *info;
	struct sim_settings settings;
	CUfunc_cache cache_config;
	// The launch interface of old: cuFuncSetBlockShape, cuParamSet*, cuLaunch.
	unsigned block[3], shared;
	unsigned char *parameters;
	size_t parameter_size;
};

struct CUmod_st {
	uint32_t magic;
	_Atomic int references; // the handle, and every launch that is queued
	struct sim_context *context;
	struct CUlib_st *library; // NULL: loaded by cuModuleLoad*
	struct ptx_module *ptx;
	CUdeviceptr image;
	void *managed; // its managed variables; a library's modules share theirs
	bool uses_heap;
	size_t function_count;
	struct CUfunc_st *functions;
	struct CUtexref_st *texture_references; // those that were asked for; surface references, too
	struct CUmod_st *next; // in the context
};

struct CUkern_st {
	uint32_t magic;
	struct CUlib_st *library;
	size_t index; // in the library
	const struct ptx_function *ptx; // of the library's own copy: never launched
	const struct ptx_function_info *info;
	struct sim_settings settings[SIM_DEVICES];
	CUfunc_cache cache_config[SIM_DEVICES];
};

struct CUlib_st {
	uint32_t magic;
	struct sim_image image;
	struct ptx_module *ptx; // to list kernels without a context
	CUresult broken;	// what every use says of PTX that does not compile: only the load went well
	pthread_mutex_t lock;	// loads into contexts
	void *managed;		// variables of all its modules; NULL: nobody needed them yet
	size_t kernel_count;
	struct CUkern_st *kernels;
};

// The options of a load or a link.
struct sim_jit {
	struct ptx_log information, error;
	void **information_size, **error_size, **wall_time; // written back
};
// Returns CUDA_ERROR_INVALID_VALUE for an option that does not exist.
CUresult sim_jit_read(unsigned count, const CUjit_option *options, void **values, struct sim_jit *ret_jit);
__attribute__((format(printf, 2, 3))) void sim_jit_log(struct ptx_log *log, const char *format, ...);
void sim_jit_write(struct sim_jit *jit);

// A file as an image; CUDA_ERROR_FILE_NOT_FOUND. `jit` may be NULL.
CUresult sim_image_file(const char *path, struct sim_jit *jit, struct sim_image *ret_image);
// Likewise from memory. Why an image is refused goes to the log of errors, and to that of `jit`.
CUresult sim_image_get(const void *data, size_t size, struct sim_jit *jit, struct sim_image *ret_image);
// Parses texts, with what nvcc expects the driver to define. `jit` may be NULL.
CUresult sim_module_parse(const struct sim_image *image, struct sim_jit *jit, struct ptx_module **ret_module);
int sim_module_target(void); // 90
CUresult sim_module_create(struct sim_context *context, const struct sim_image *image, struct sim_jit *jit,
			   struct CUlib_st *library, struct CUmod_st **ret_module);
void sim_module_unref(struct CUmod_st *module);
void sim_texture_references_finish(struct CUmod_st *module);
// Memory of managed variables: mapped and known to the driver. NULL passes.
CUresult sim_managed_variables_new(const struct ptx_module *ptx, void **ret_memory);
void sim_managed_variables_free(void *memory, size_t size);
CUresult sim_module_get(CUmodule handle, struct CUmod_st **ret_module);
// CUDA_ERROR_NOT_SUPPORTED, with line and opcode in the driver's log, if it holds an instruction that is not supported.
CUresult sim_function_usable(const struct ptx_function *function);
// A CUfunction, or a CUkernel in its place: its function in `context`.
CUresult sim_function_get(CUfunction handle, struct sim_context *context, struct CUfunc_st **ret_function);
// The library's module in a context, loaded when first needed.
CUresult sim_library_module(struct CUlib_st *library, struct sim_context *context, struct CUmod_st **ret_module);
CUresult sim_kernel_function(struct CUkern_st *kernel, struct sim_context *context, struct CUfunc_st **ret_function);

// What a context holds for programs: context->exec of the parent context.
struct sim_exec {
	pthread_mutex_t lock;
	struct CUmod_st *modules;
	struct ptx_heap *heap;
	CUdeviceptr heap_memory;
	CUdeviceptr workspaces; // of cooperative launches: slots of SIM_WORKSPACE bytes
	uint64_t workspace_used; // bit per slot
	// printf: output since the host last waited, the oldest first.
	char *printed;
	size_t printed_length;
};
enum { SIM_WORKSPACE = 256, SIM_WORKSPACES = 64 };
CUresult sim_exec_get(struct sim_context *context, struct sim_exec **ret_exec);
// The heap of kernels that call malloc, made with the first module that does.
CUresult sim_exec_heap(struct sim_context *context);
CUresult sim_exec_workspace_take(struct sim_context *context, CUdeviceptr *ret_workspace);
void sim_exec_workspace_give(struct sim_context *context, CUdeviceptr workspace);
void sim_exec_print(void *context, const char *text, size_t length);
bool sim_exec_verbose(void); // VIRGATE_SIM_LOG is set
