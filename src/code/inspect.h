// Detects which instructions the code of a kernel contains. Any thread; an image does not change after its creation.
#pragma once
#include <stddef.h>

// CODE_FOUND and CODE_CLEAN are certain answers. CODE_UNKNOWN means that the code could not be read.
enum code_answer { CODE_CLEAN, CODE_FOUND, CODE_UNKNOWN };

// The report on one kernel and all functions that it may call. `tensor` is about instructions that multiply matrices on
// tensor cores. `mixed` is about instructions that compute in tf32, or whose inputs are narrower than their
// accumulator.
struct code_report {
	enum code_answer tensor, mixed;
	// The name of the first instruction of each kind, such as "wgmma.mma_async" or "HGMMA", if the answer is
	// CODE_FOUND.
	char tensor_instruction[48], mixed_instruction[48];
	char reason[128]; // why the answer is CODE_UNKNOWN
};

struct code_image;

// Reads PTX, a cubin or a fatbin. Of a fatbin, reads the member that the driver would choose on a device of
// `architecture` (90 for sm_90). Keeps no reference to `image`. Returns 0; -EBADMSG: another format, or invalid;
// -ENOMEM.
int code_image_create(const void *image, size_t size, unsigned architecture, struct code_image **ret_image);
void code_image_destroy(struct code_image *image);

// Returns the number of kernels. code_image_kernel() returns the name of one kernel, by an index from 0. Code that
// cannot be read has no kernels.
size_t code_image_kernel_count(const struct code_image *image);
const char *code_image_kernel(const struct code_image *image, size_t index);

// Reports on the kernel with this name. Returns 0; -ENOENT: no such kernel. If the image cannot be read, reports
// CODE_UNKNOWN for every name.
int code_image_inspect(const struct code_image *image, const char *kernel, struct code_report *ret_report);
