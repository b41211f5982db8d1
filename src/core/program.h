// A program, as this room sees it.
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
	char *source; // terminated
	size_t source_size;
	struct core_program_module {
		char *name, *data;
		size_t size;
	} * modules; // NVVM's extra sources
	size_t module_count;
	bool use_libdevice, link_time_optimization, pch;
	const char *reads_files;	 // the field of an option that makes the compiler read files; NULL: none
	struct core_arguments arguments; // whatever the target
	struct vg_linker *linker;	 // of PTX: held

	struct vg_mutex compiling; // what follows is of the last compilation
	char *log;
	enum vg_pch_status pch_status;
	void *native;
	struct core_arguments shown; // by vg_program_arguments()
};

// Checks every option and makes the arguments. `options` was copied by CORE_OPTIONS. INVALID, NO_DRIVER, NO_MEMORY.
enum vg_status core_program_options(struct vg_program *program, const struct vg_program_options *options);
// A linker's options for PTX, from a program's.
struct vg_linker_options core_program_link_options(const struct vg_program_options *options);

// Whether the tool is there; and compilations with all arguments of the target. NOT_FOUND; TOOLCHAIN, NO_MEMORY. The
// program is locked.
enum vg_status core_nvrtc_find(void);
enum vg_status core_nvrtc_compile(struct vg_program *program, enum vg_code_type target,
				  const struct core_arguments *arguments, const struct vg_texts *names,
				  struct core_compiled *ret_compiled);
void core_nvrtc_drop(struct vg_program *program); // its native program
enum vg_status core_nvvm_find(void);
enum vg_status core_nvvm_compile(struct vg_program *program, enum vg_code_type target,
				 const struct core_arguments *arguments, struct core_compiled *ret_compiled);
void core_nvvm_drop(struct vg_program *program);

// The arguments for a target.
void core_program_arguments(const struct vg_program *program, enum vg_code_type target,
			    struct core_arguments *ret_arguments);
