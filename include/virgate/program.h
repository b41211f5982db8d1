/* Programs: source that is compiled at run time to object code.
 *
 * NVRTC compiles CUDA C++, libNVVM compiles NVVM IR, and a linker compiles PTX (linker.h). The tools are found at run
 * time (toolchain.h); no GPU is needed if the architecture is given. */
#ifndef VIRGATE_PROGRAM_H
#define VIRGATE_PROGRAM_H

#include <stddef.h>

#include <virgate/compile_cache.h>
#include <virgate/device.h>
#include <virgate/object_code.h>
#include <virgate/status.h>
#include <virgate/toolchain.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_program;

enum vg_source_type {
	VG_SOURCE_CXX = 1, /* CUDA C++ */
	VG_SOURCE_PTX,
	VG_SOURCE_NVVM, /* NVVM IR, text or bitcode */
};

struct vg_source {
	const char *name;
	const void *data;
	size_t size;
};

/* Options of a program. Fields that are 0 are not passed on, so the tool's default applies. Each comment has NVRTC's
 * option. [V]: NVVM IR has the option, too. [P]: PTX has it, too. Other options are refused for NVVM IR and PTX. */
struct vg_program_options {
	size_t size;	  /* sizeof(struct vg_program_options) */
	const char *name; /* name of source and object code; NULL: "default_program" */
	/* The device whose architecture is used if `arch` is NULL; NULL: device 0 [V][P]. */
	struct vg_device *device;
	const char *arch;			     /* -arch= "sm_90", "compute_90", "sm_90a" … [V][P] */
	enum vg_choice relocatable_device_code;	     /* --relocatable-device-code= */
	int extensible_whole_program;		     /* --extensible-whole-program */
	int debug;				     /* --device-debug [V][P] */
	int lineinfo;				     /* --generate-line-info [P] */
	enum vg_choice device_code_optimize;	     /* --dopt=on, off passes nothing; NVVM: -opt=3, -opt=0 [V] */
	struct vg_texts ptxas_options;		     /* --ptxas-options= each [P] */
	int max_register_count;			     /* --maxrregcount= [P] */
	enum vg_choice ftz;			     /* --ftz= [V][P] */
	enum vg_choice prec_sqrt;		     /* --prec-sqrt= [V][P] */
	enum vg_choice prec_div;		     /* --prec-div= [V][P] */
	enum vg_choice fma;			     /* --fmad= [V][P] */
	int use_fast_math;			     /* --use_fast_math */
	int extra_device_vectorization;		     /* --extra-device-vectorization */
	int link_time_optimization;		     /* --dlink-time-opt; implied by the target LTO-IR [P] */
	int gen_opt_lto;			     /* --gen-opt-lto */
	struct vg_texts define_macro;		     /* --define-macro= each, "NAME" or "NAME=VALUE" */
	struct vg_texts undefine_macro;		     /* --undefine-macro= each */
	struct vg_texts include_path;		     /* --include-path= each */
	struct vg_texts pre_include;		     /* --pre-include= each */
	int no_source_include;			     /* --no-source-include */
	const char *std;			     /* --std= "c++17" … */
	enum vg_choice builtin_move_forward;	     /* --builtin-move-forward= */
	enum vg_choice builtin_initializer_list;     /* --builtin-initializer-list= */
	int disable_warnings;			     /* --disable-warnings */
	int restrict_pointers;			     /* --restrict */
	int device_as_default_execution_space;	     /* --device-as-default-execution-space */
	int device_int128;			     /* --device-int128 */
	int device_float128;			     /* --device-float128 */
	const char *optimization_info;		     /* --optimization-info= "inline" */
	int no_display_error_number;		     /* --no-display-error-number */
	struct vg_numbers diag_error;		     /* --diag-error= each */
	struct vg_numbers diag_suppress;	     /* --diag-suppress= each */
	struct vg_numbers diag_warn;		     /* --diag-warn= each */
	enum vg_choice brief_diagnostics;	     /* --brief-diagnostics= */
	const char *time;			     /* --time= a file; for PTX: the linker's log has it [P] */
	int split_compile;			     /* --split-compile= threads, or VG_SPLIT_ALL [P] */
	int fdevice_syntax_only;		     /* --fdevice-syntax-only */
	int minimal;				     /* --minimal */
	int no_cache;				     /* --no-cache: do not use the tool's cache [P] */
	const char *fdevice_time_trace;		     /* --fdevice-time-trace= a file */
	const char *frandom_seed;		     /* --frandom-seed= */
	const char *ofast_compile;		     /* --Ofast-compile= "0", "min", "mid", "max" */
	int pch;				     /* --pch: automatic precompiled headers */
	const char *create_pch;			     /* --create-pch= a file */
	const char *use_pch;			     /* --use-pch= a file */
	const char *pch_dir;			     /* --pch-dir= a directory */
	enum vg_choice pch_verbose;		     /* --pch-verbose= */
	enum vg_choice pch_messages;		     /* --pch-messages= */
	enum vg_choice instantiate_templates_in_pch; /* --instantiate-templates-in-pch= */
	int numba_debug;			     /* --numba-debug, NVRTC 13.2 */
	const struct vg_source *extra_sources;	     /* for NVVM only: further modules [V] */
	size_t extra_source_count;
	int use_libdevice; /* for NVVM only: link the functions of libdevice [V] */
};

/* Creates a program. The source and the options are copied; `options` may be NULL. The caller owns *ret_program and
 * ends it with vg_program_destroy(). INVALID (an option that is invalid, or that this back end does not have),
 * NOT_FOUND (the tool is not installed: the text says what to install), NO_DRIVER (no architecture is given, and
 * there is no device), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_program_create(enum vg_source_type type, const void *source, size_t source_size,
					   const struct vg_program_options *options, struct vg_program **ret_program);
/* Closes the program, which may not be used any more. Object code is not affected. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_program_close(struct vg_program *program);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_program_destroy(struct vg_program *program);

struct vg_compile_options {
	size_t size;			  /* sizeof(struct vg_compile_options) */
	struct vg_texts name_expressions; /* CUDA C++: names for vg_object_code_symbol() */
	struct vg_compile_cache *cache;	  /* NULL: none */
	/* Digest for the cache, which identifies the contents of files that the compiler reads. */
	const void *digest;
	size_t digest_size;
};
/* Compiles CUDA C++ to PTX, cubin or LTO-IR; NVVM IR to PTX or LTO-IR; or PTX to cubin, or to PTX again with link-time
 * optimisation. `options` may be NULL. The caller owns *ret_code. INVALID (invalid target; a cache without a digest
 * although files are read), TOOLCHAIN with the tool's code and log, STATE (in a forked child, if another thread was
 * compiling), CLOSED, NO_MEMORY. Any thread; compilations of one program wait for each other. Source:
 * nvrtcCompileProgram, nvvmCompileProgram, nvJitLinkComplete, cuLinkComplete. */
VG_PUBLIC enum vg_status vg_program_compile(struct vg_program *program, enum vg_code_type target,
					    const struct vg_compile_options *options, struct vg_object_code **ret_code);

/* Returns the back end; 0 for NULL. */
VG_PUBLIC enum vg_backend vg_program_backend(const struct vg_program *program);
/* Returns the tool's log of the last compilation, including warnings; "" if the log is empty, or if the result came
 * from the cache. Valid until the next compilation. Do not call it while another thread compiles. */
VG_PUBLIC const char *vg_program_log(const struct vg_program *program);

enum vg_pch_status {
	VG_PCH_NONE, /* no header was requested, the compiler is not NVRTC, or the program was not compiled yet */
	VG_PCH_CREATED,
	VG_PCH_NOT_ATTEMPTED, /* a precompiled header existed already, or there was no room for one */
	VG_PCH_FAILED,
};
/* Returns what happened to the precompiled header in the last compilation. */
VG_PUBLIC enum vg_pch_status vg_program_pch_status(const struct vg_program *program);
/* Returns the tool's arguments for a target; *ret_arguments is valid until the next call. Returns 0 and NULL if there
 * are no arguments. Do not call it while another thread compiles. */
VG_PUBLIC size_t vg_program_arguments(struct vg_program *program, enum vg_code_type target,
				      const char *const **ret_arguments);
/* Returns the tool's handle of the last compilation, an nvrtcProgram or nvvmProgram, valid until the next
 * compilation. NULL before the first compilation, for PTX, and if the result came from the cache. */
VG_PUBLIC void *vg_program_handle(const struct vg_program *program);

#ifdef __cplusplus
}
#endif
#endif
