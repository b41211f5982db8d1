// Declares modules, libraries and their functions (module*.c, library.c). The driver's opaque handles are pointers to
// these structs, which have the names that cuda.h gives them. Any thread.
#pragma once

#include "exec.h"
#include "fatbin.h"
#include "ptx/ptx.h"
#include "sim.h"

enum {
	SIM_MODULE_MAGIC = 0x4d4f4432,
	SIM_FUNCTION_MAGIC = 0x46554e32,
	SIM_LIBRARY_MAGIC = 0x4c494232,
	SIM_KERNEL_MAGIC = 0x4b524e32,
};

// Settings that cuFuncSetAttribute can change.
struct sim_settings {
	int dynamic_shared; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
	int carveout, cluster[3], cluster_policy, cluster_any;
	bool dynamic_shared_set;
};

struct CUfunc_st {
	uint32_t magic;
	_Atomic bool loaded;
	struct CUmod_st *module;
	struct CUkern_st *kernel; // NULL: the function is not of a library
	const struct ptx_function *ptx;
	const struct ptx_function_info *info;
	struct sim_settings settings;
	CUfunc_cache cache_config;
	// Parameters of the deprecated launch functions: cuFuncSetBlockShape, cuParamSet*, cuLaunch.
	unsigned block[3], shared;
	unsigned char *parameters;
	size_t parameter_size;
};

struct CUmod_st {
	uint32_t magic;
	_Atomic int references; // references of the handle and of queued launches
	struct sim_context *context;
	struct CUlib_st *library; // NULL: loaded by cuModuleLoad*
	struct ptx_module *ptx;
	CUdeviceptr image;
	void *managed; // the managed variables, if the module belongs to no library; otherwise the library owns them
	bool uses_heap;
	size_t function_count;
	struct CUfunc_st *functions;
	struct CUtexref_st *texture_references; // the texture and surface references that the program looked up
	struct CUmod_st *next;			// next module of the context
};

struct CUkern_st {
	uint32_t magic;
	struct CUlib_st *library;
	size_t index;			// index in the library
	const struct ptx_function *ptx; // the kernel in the library's own copy of the code, which is never run
	const struct ptx_function_info *info;
	struct sim_settings settings[SIM_DEVICES];
	CUfunc_cache cache_config[SIM_DEVICES];
};

struct CUlib_st {
	uint32_t magic;
	struct sim_image image;
	struct ptx_module *ptx; // parsed once to list kernels without a context
	CUresult broken;	// error that each use returns if the PTX is invalid, although the load succeeded
	pthread_mutex_t lock;	// serializes loading into contexts
	void *managed;		// managed variables, which all modules of the library share; NULL: none yet
	size_t kernel_count;
	struct CUkern_st *kernels;
};

// The options of the just-in-time compiler for a load or a link.
struct sim_jit {
	struct ptx_log information, error;
	void **information_size, **error_size, **wall_time; // where the program receives results
};
// Reads the options. Returns CUDA_ERROR_INVALID_VALUE for an option that does not exist.
CUresult sim_jit_read(unsigned count, const CUjit_option *options, void **values, struct sim_jit *ret_jit);
__attribute__((format(printf, 2, 3))) void sim_jit_log(struct ptx_log *log, const char *format, ...);
void sim_jit_write(struct sim_jit *jit);

// Reads a file as an image. Returns CUDA_ERROR_FILE_NOT_FOUND if there is no such file. `jit` may be NULL.
CUresult sim_image_file(const char *path, struct sim_jit *jit, struct sim_image *ret_image);
// Reads an image from memory. Writes the reason of a failure to the log of errors, and to the log of `jit`.
CUresult sim_image_get(const void *data, size_t size, struct sim_jit *jit, struct sim_image *ret_image);
// Parses texts, and adds the device functions that nvcc expects the driver to define. `jit` may be NULL.
CUresult sim_module_parse(const struct sim_image *image, struct sim_jit *jit, struct ptx_module **ret_module);
int sim_module_target(void); // 90
CUresult sim_module_create(struct sim_context *context, const struct sim_image *image, struct sim_jit *jit,
			   struct CUlib_st *library, struct CUmod_st **ret_module);
void sim_module_unref(struct CUmod_st *module);
void sim_texture_references_finish(struct CUmod_st *module);
// Allocates managed memory for a module's managed variables.
CUresult sim_managed_variables_new(const struct ptx_module *ptx, void **ret_memory);
void sim_managed_variables_free(void *memory, size_t size); // NULL: does nothing
CUresult sim_module_get(CUmodule handle, struct CUmod_st **ret_module);
// Returns CUDA_ERROR_NOT_SUPPORTED if the function contains an instruction that is not supported. The driver's log then
// has its line and opcode.
CUresult sim_function_check(const struct ptx_function *function);
// Finds the function of a handle in `context`. The handle may also be a CUkernel, which is used as a CUfunction.
CUresult sim_function_get(CUfunction handle, struct sim_context *context, struct CUfunc_st **ret_function);
CUresult sim_kernel_get_function(struct CUkern_st *kernel, struct sim_context *context,
				 struct CUfunc_st **ret_function);
