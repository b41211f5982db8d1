/* Object code: the output of a compiler or linker, which the driver loads or a linker takes.
 *
 * Code is loaded when the program first asks for a kernel or a variable. It is unloaded when neither the program nor a
 * kernel has a reference any more. One load serves every device. */
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
	VG_CODE_LTOIR,	 /* LTO-IR, for nvJitLink only */
	VG_CODE_FATBIN,	 /* several of the above */
	VG_CODE_OBJECT,	 /* a host object file with device code in it, for a linker only */
	VG_CODE_LIBRARY, /* an archive of object files, for a linker only */
};

/* A name in the source, and the symbol that the compiler made of it. */
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

/* Creates object code from memory, which is copied; PTX needs no terminating zero byte. No driver is needed before the
 * code is loaded. `options` may be NULL. The caller owns *ret_code and ends it with vg_object_code_destroy(). INVALID
 * (no such type, no bytes, bytes of another type, incomplete), NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_object_code_create(enum vg_code_type type, const void *data, size_t data_size,
					       const struct vg_object_code_options *options,
					       struct vg_object_code **ret_code);
/* Creates object code from a file. The file is read when the code is loaded or linked; the path is copied. NOT_FOUND or
 * DENIED if the file cannot be read now. */
VG_PUBLIC enum vg_status vg_object_code_from_file(enum vg_code_type type, const char *path,
						  const struct vg_object_code_options *options,
						  struct vg_object_code **ret_code);
/* Closes the object: the program may not use it any more. The code is unloaded now, or together with the last kernel
 * of it. No kernel of it may still run. May be closed twice. DRIVER. Any thread. Source: cuLibraryUnload. */
VG_PUBLIC enum vg_status vg_object_code_close(struct vg_object_code *code);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_object_code_destroy(struct vg_object_code *code);

/* Returns the type; 0 for NULL. */
VG_PUBLIC enum vg_code_type vg_object_code_type(const struct vg_object_code *code);
/* Returns the name; not NULL. */
VG_PUBLIC const char *vg_object_code_name(const struct vg_object_code *code);
/* Returns the bytes, valid as long as the object; NULL and 0 for a file. */
VG_PUBLIC const void *vg_object_code_data(const struct vg_object_code *code, size_t *ret_size);
/* Returns the file's path; NULL for bytes. */
VG_PUBLIC const char *vg_object_code_path(const struct vg_object_code *code);
/* Returns the names with which the object was created; *ret_symbols is valid as long as the object. */
VG_PUBLIC size_t vg_object_code_symbols(const struct vg_object_code *code, const struct vg_symbol **ret_symbols);
/* Returns the symbol of a name expression; NULL if the expression is unknown. */
VG_PUBLIC const char *vg_object_code_symbol(const struct vg_object_code *code, const char *expression);

/* Loads the code if it is not loaded yet. UNSUPPORTED (only cubin, PTX and fatbin can be loaded), CLOSED, NO_DRIVER,
 * DRIVER with the log of the driver's compiler. Any thread. Source: cuLibraryLoadData, cuLibraryLoadFromFile. */
VG_PUBLIC enum vg_status vg_object_code_load(struct vg_object_code *code);
/* Loads the code if necessary and returns the driver's handle. Errors: see vg_object_code_load(). */
VG_PUBLIC enum vg_status vg_object_code_handle(struct vg_object_code *code, struct CUlib_st **ret_handle);
/* Finds a kernel by its name expression or symbol. The caller owns *ret_kernel, which keeps the code, and ends it
 * with vg_kernel_destroy(). NOT_FOUND (the text lists the kernels), and the errors of vg_object_code_load(). Any
 * thread. Source: cuLibraryGetKernel. */
VG_PUBLIC enum vg_status vg_object_code_kernel(struct vg_object_code *code, const char *name,
					       struct vg_kernel **ret_kernel);
/* Finds the address of a __device__ or __constant__ variable in a context, and its size in bytes. Valid while the code
 * is loaded. NOT_FOUND, and the errors of vg_object_code_load(). Any thread. Source: cuLibraryGetGlobal. */
VG_PUBLIC enum vg_status vg_object_code_global(struct vg_object_code *code, struct vg_context *context,
					       const char *name, vg_address *ret_address, size_t *ret_size);
/* Finds a __managed__ variable, whose address is the same in every context and on the host. The variable exists
 * after the code was loaded into a context, which this function does. Source: cuLibraryGetManaged. */
VG_PUBLIC enum vg_status vg_object_code_managed(struct vg_object_code *code, struct vg_context *context,
						const char *name, vg_address *ret_address, size_t *ret_size);

#ifdef __cplusplus
}
#endif
#endif
