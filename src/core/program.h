// Declares the program object, and its back ends. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/object_code.h"
#include "core/options.h"
#include "virgate/program.h"

struct vg_linker;

struct vg_program {
	struct core_object object;
	enum vg_source_type type;
	enum vg_backend backend;
	char *name;
	char *source; // followed by a zero byte
	size_t source_size;
	struct core_program_module {
		char *name, *data;
		size_t size;
	} * modules; // extra sources for NVVM
	size_t module_count;
	bool use_libdevice, link_time_optimization, pch;
	// Name of an option that makes the compiler read files; NULL: no such option is set.
	const char *reads_files;
	struct core_arguments arguments; // arguments that are the same for every target
	struct vg_linker *linker;	 // the linker that compiles PTX; owns a reference

	struct vg_mutex compiling; // protects the members below, which describe the last compilation
	char *log;
	enum vg_pch_status pch_status;
	void *native;
	struct core_arguments shown; // returned by vg_program_arguments()
};

// Checks every option and makes the arguments from `options`, which CORE_OPTIONS has copied. INVALID, NO_DRIVER,
// NO_MEMORY.
enum vg_status core_program_options(struct vg_program *program, const struct vg_program_options *options);
// Returns the linker's options for a PTX program.
struct vg_linker_options core_program_link_options(const struct vg_program_options *options);

// Declares the back ends. find() loads the compiler, or returns NOT_FOUND. compile() gets all arguments for the target.
// It is called with `compiling` locked, and returns TOOLCHAIN or NO_MEMORY on failure. drop() destroys the compiler's
// own object of the program.
enum vg_status core_nvrtc_find(void);
enum vg_status core_nvrtc_compile(struct vg_program *program, enum vg_code_type target,
				  const struct core_arguments *arguments, const struct vg_texts *names,
				  struct core_compiled *ret_compiled);
void core_nvrtc_drop(struct vg_program *program);
enum vg_status core_nvvm_find(void);
enum vg_status core_nvvm_compile(struct vg_program *program, enum vg_code_type target,
				 const struct core_arguments *arguments, struct core_compiled *ret_compiled);
void core_nvvm_drop(struct vg_program *program);

// Makes the complete arguments for one target.
void core_program_arguments(const struct vg_program *program, enum vg_code_type target,
			    struct core_arguments *ret_arguments);
