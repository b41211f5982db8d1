/* Linkers, which combine several object codes into one. */
#ifndef VIRGATE_LINKER_H
#define VIRGATE_LINKER_H

#include <stddef.h>

#include <virgate/device.h>
#include <virgate/object_code.h>
#include <virgate/status.h>
#include <virgate/toolchain.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_linker;

/* Options of a linker. Fields that are 0 are not passed on. Each comment has nvJitLink's option. [D]: the driver's
 * linker has the option, too. [W]: the driver's linker ignores the option, with a warning in the log. It refuses all
 * other options. */
struct vg_linker_options {
	size_t size;	  /* sizeof(struct vg_linker_options) */
	const char *name; /* name of the object code; NULL: "<default linker>" */
	/* The device whose architecture is used if `arch` is NULL; NULL: device 0 [D]. */
	struct vg_device *device;
	const char *arch;		/* -arch= "sm_90" … [D] */
	int max_register_count;		/* -maxrregcount= [D] */
	int time;			/* -time: in the information log */
	int verbose;			/* -verbose [D] */
	int link_time_optimization;	/* -lto [D] */
	int ptx;			/* -ptx, with link-time optimisation; implied by the target PTX */
	int optimization_level;		/* -O: 3, or VG_OPTIMIZE_NOT [D] */
	int debug;			/* -g [D] */
	int lineinfo;			/* -lineinfo [D] */
	enum vg_choice ftz;		/* -ftz= [W] */
	enum vg_choice prec_div;	/* -prec-div= [W] */
	enum vg_choice prec_sqrt;	/* -prec-sqrt= [W] */
	enum vg_choice fma;		/* -fma= [W] */
	struct vg_texts kernels_used;	/* -kernels-used= each [W] */
	struct vg_texts variables_used; /* -variables-used= each [W] */
	int optimize_unused_variables;	/* -optimize-unused-variables [W] */
	struct vg_texts ptxas_options;	/* -Xptxas= each */
	int split_compile;		/* -split-compile= threads, or VG_SPLIT_ALL */
	int split_compile_extended;	/* -split-compile-extended= likewise */
	int no_cache;			/* -no-cache [D] */
	enum vg_backend backend;	/* NVJITLINK or DRIVER; 0: nvJitLink if it is installed, else the driver's */
};
/* Optimisation level 0. */
#define VG_OPTIMIZE_NOT (-1)

/* Creates a linker of object codes, which it keeps. `options` may be NULL. The caller owns *ret_linker and ends it with
 * vg_linker_destroy(). INVALID (no object code; an option that is invalid or that the back end does not have; LTO-IR
 * for the driver's linker, or without link_time_optimization), NOT_FOUND (nvJitLink was requested and is not
 * installed), NO_DRIVER, CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_linker_create(struct vg_object_code *const *codes, size_t code_count,
					  const struct vg_linker_options *options, struct vg_linker **ret_linker);
/* Closes the object: the program may use only its logs. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_linker_close(struct vg_linker *linker);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_linker_destroy(struct vg_linker *linker);

/* Links to a cubin, or to PTX (nvJitLink with link-time optimisation). The caller owns *ret_code. INVALID (another
 * target), UNSUPPORTED (PTX from the driver's linker), TOOLCHAIN or DRIVER with the tool's code and log, STATE
 * (in a forked child, if another thread was linking), CLOSED, NO_MEMORY. Any thread; links of one linker
 * wait for each other. Source: nvJitLinkComplete, cuLinkComplete. */
VG_PUBLIC enum vg_status vg_linker_link(struct vg_linker *linker, enum vg_code_type target,
					struct vg_object_code **ret_code);

/* Returns the linker's back end; 0 for NULL. */
VG_PUBLIC enum vg_backend vg_linker_backend(const struct vg_linker *linker);
/* Returns the back end of linkers that do not set the option. Loads nvJitLink if it is installed. */
VG_PUBLIC enum vg_backend vg_linker_default_backend(void);
/* These functions return the logs of the last link; "" before the first link. Valid until the next link, even after
 * closing. Do not call them while another thread links. */
VG_PUBLIC const char *vg_linker_error_log(const struct vg_linker *linker);
VG_PUBLIC const char *vg_linker_info_log(const struct vg_linker *linker);
/* Returns nvJitLink's arguments for a target; *ret_arguments is valid until the next call. 0 and NULL for the
 * driver's linker. Do not call it while another thread links. */
VG_PUBLIC size_t vg_linker_arguments(struct vg_linker *linker, enum vg_code_type target,
				     const char *const **ret_arguments);
/* Returns nvJitLink's handle of the last link, an nvJitLinkHandle, valid until the next link. NULL before the first
 * link, and for the driver's linker, which is destroyed after each link. */
VG_PUBLIC void *vg_linker_handle(const struct vg_linker *linker);

#ifdef __cplusplus
}
#endif
#endif
