/* Object code: what a compiler or linker made, for the driver to load or for a linker to take.
 *
 * Code is loaded when a kernel or a variable is first asked for, and unloaded when nobody holds the object
 * any more, neither the program nor a kernel of it. One load serves every device. */
#ifndef VIRGATE_OBJECT_CODE_H
#define VIRGATE_OBJECT_CODE_H

#include <stddef.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/kernel.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_object_code;

enum vg_code_type {
	VG_CODE_CUBIN = 1, /* machine code of one architecture */
	VG_CODE_PTX,
	VG_CODE_LTOIR,	 /* for nvJitLink only */
	VG_CODE_FATBIN,	 /* several of the above */
	VG_CODE_OBJECT,	 /* a host object file with device code in it, for a linker only */
	VG_CODE_LIBRARY, /* an archive of such, for a linker only */
};

/* A name as the source says it, and the symbol that the compiler made of it. */
struct vg_symbol {
	const char *expression;
	const char *symbol;
};

struct vg_object_code_options {
	size_t size;			 /* sizeof(struct vg_object_code_options) */
	const char *name;		 /* NULL: a file's path; "" for bytes, which messages call "PTX of 1.2 KiB" */
	const struct vg_symbol *symbols; /* looked up first by vg_object_code_kernel() and its neighbours; copied */
	size_t symbol_count;
};

/* Object code from memory, which is copied; PTX need not be terminated. No driver is needed before it is
 * loaded. `options` may be NULL. The caller owns *ret_code and ends it with vg_object_code_destroy(). INVALID (no such
 * type, no bytes, not what the type says, cut short), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_object_code_create(enum vg_code_type type, const void *data, size_t data_size,
					       const struct vg_object_code_options *options,
					       struct vg_object_code **ret_code);
/* Likewise from a file, which is read when it is loaded or linked; the path is copied. NOT_FOUND or DENIED if
 * it cannot be read now. */
VG_PUBLIC enum vg_status vg_object_code_from_file(enum vg_code_type type, const char *path,
						  const struct vg_object_code_options *options,
						  struct vg_object_code **ret_code);
/* No further use by the program; the code is unloaded now if no kernel of it is held, else with the last
 * one. Nothing of it may still run. Closing twice is fine. DRIVER. Any thread. Source: cuLibraryUnload. */
VG_PUBLIC enum vg_status vg_object_code_close(struct vg_object_code *code);
/* Drops the caller's reference. NULL is fine. Any thread. */
VG_PUBLIC void vg_object_code_destroy(struct vg_object_code *code);

/* 0 for NULL. */
VG_PUBLIC enum vg_code_type vg_object_code_type(const struct vg_object_code *code);
/* Never NULL. */
VG_PUBLIC const char *vg_object_code_name(const struct vg_object_code *code);
/* The bytes, valid as long as the object; NULL and 0 for a file. */
VG_PUBLIC const void *vg_object_code_data(const struct vg_object_code *code, size_t *ret_size);
/* The file's path; NULL for bytes. */
VG_PUBLIC const char *vg_object_code_path(const struct vg_object_code *code);
/* The names it was given with; *ret_symbols is valid as long as the object. */
VG_PUBLIC size_t vg_object_code_symbols(const struct vg_object_code *code, const struct vg_symbol **ret_symbols);
/* The symbol of a name expression; NULL if there is none. */
VG_PUBLIC const char *vg_object_code_symbol(const struct vg_object_code *code, const char *expression);

/* Loads it now, if it is not. UNSUPPORTED (only cubin, PTX and fatbin can be loaded), CLOSED, NO_DRIVER, DRIVER
 * with the driver's compiler's log. Any thread. Source: cuLibraryLoadData, cuLibraryLoadFromFile. */
VG_PUBLIC enum vg_status vg_object_code_load(struct vg_object_code *code);
/* The driver's handle, loaded if it was not; as vg_object_code_load(). */
VG_PUBLIC enum vg_status vg_object_code_handle(struct vg_object_code *code, struct CUlib_st **ret_handle);
/* A kernel by its name expression or symbol. The caller owns *ret_kernel, which keeps the code, and ends it with
 * vg_kernel_destroy(). NOT_FOUND (says what there is), and as vg_object_code_load(). Any thread. Source:
 * cuLibraryGetKernel. */
VG_PUBLIC enum vg_status vg_object_code_kernel(struct vg_object_code *code, const char *name,
					       struct vg_kernel **ret_kernel);
/* Where a __device__ or __constant__ variable lies in a context, and its size in bytes. Valid while the code is
 * loaded. NOT_FOUND, and as vg_object_code_load(). Any thread. Source: cuLibraryGetGlobal. */
VG_PUBLIC enum vg_status vg_object_code_global(struct vg_object_code *code, struct vg_context *context,
					       const char *name, vg_address *ret_address, size_t *ret_size);
/* Likewise of a __managed__ variable: its address is the same in every context, and on the host; it is there once
 * the code is loaded into one, which this does. Source: cuLibraryGetManaged. */
VG_PUBLIC enum vg_status vg_object_code_managed(struct vg_object_code *code, struct vg_context *context,
						const char *name, vg_address *ret_address, size_t *ret_size);

#ifdef __cplusplus
}
#endif
#endif
