/* The tools that compile and link, which are found at run time, and the types of their options. */
#ifndef VIRGATE_TOOLCHAIN_H
#define VIRGATE_TOOLCHAIN_H

#include <stddef.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_backend {
	VG_BACKEND_NVRTC = 1, /* CUDA C++ */
	VG_BACKEND_NVVM,      /* NVVM IR */
	VG_BACKEND_NVJITLINK, /* PTX, and linking */
	VG_BACKEND_DRIVER,    /* the driver's own linker */
};

struct vg_toolchain {
	const char *path; /* path of the library; valid as long as the process */
	int major, minor;
};
/* Returns the library of a back end, and loads it if it is not loaded. It is the file that VIRGATE_NVRTC, VIRGATE_NVVM
 * or VIRGATE_NVJITLINK names; otherwise the first one that is new enough of the toolkit at CUDA_HOME or CUDA_PATH, the
 * dynamic linker's directories, and /usr/local/cuda. INVALID, NOT_FOUND (the text says why a library that was found
 * cannot be used, and what to install), NO_DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_toolchain_find(enum vg_backend backend, struct vg_toolchain *ret_toolchain);

/* An option for which the tool has a default. */
enum vg_choice { VG_CHOICE_DEFAULT, VG_CHOICE_ON, VG_CHOICE_OFF };
/* Options that may be given several times. */
struct vg_texts {
	const char *const *values;
	size_t count;
};
struct vg_numbers {
	const int *values;
	size_t count;
};
/* VG_TEXTS("a", "b") makes a list of texts, and the next macro one of integers. Lists exist until the end of the
 * enclosing block. */
#define VG_TEXTS(...)                                                                                                 \
	{                                                                                                             \
		(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *) \
	}
#define VG_NUMBERS(...)                                                                      \
	{                                                                                    \
		(const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int) \
	}

/* Number of threads of a tool that splits its work: one for each processor. */
#define VG_SPLIT_ALL (-1)

#ifdef __cplusplus
}
#endif
#endif
