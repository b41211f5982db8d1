// Which instructions a kernel's code holds. Any thread; an image is read only once it is made.
#pragma once
#include <stddef.h>

// FOUND and CLEAN are certain; UNKNOWN is code that cannot be read.
enum code_answer { CODE_CLEAN, CODE_FOUND, CODE_UNKNOWN };

// Of one kernel with all that it may call. Tensor: instructions that multiply matrices on the tensor cores. Mixed:
// arithmetic whose inputs are narrower than what it accumulates in, and tf32.
struct code_report {
	enum code_answer tensor, mixed;
	char tensor_instruction[48], mixed_instruction[48]; // of FOUND: the first, "wgmma.mma_async" or "HGMMA"
	char reason[128];				    // of UNKNOWN
};

struct code_image;

// What a program hands to the library: PTX text, a cubin, a fatbin, of which the member that the driver would take on a
// device of `architecture` (90 for sm_90). Nothing is kept of `image`. -EBADMSG: none of these, or damaged; -ENOMEM.
int code_image_create(const void *image, size_t size, unsigned architecture, struct code_image **ret_image);
void code_image_destroy(struct code_image *image);

// Its kernels, counted from 0, in the order of the image. What cannot be read has none.
size_t code_image_kernel_count(const struct code_image *image);
const char *code_image_kernel(const struct code_image *image, size_t index);

// -ENOENT: it has no such kernel. An image that cannot be read answers UNKNOWN for every name.
int code_image_inspect(const struct code_image *image, const char *kernel, struct code_report *ret_report);
