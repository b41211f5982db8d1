// Reads the PTX texts out of images, which programs load as modules: PTX itself, fat binaries (plain, LZ4 and zstd
// entries) and the wrappers that nvcc embeds. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sim_image_status {
	SIM_IMAGE_READ = 0,
	SIM_IMAGE_INVALID = 1,	 // the image is neither PTX nor a fat binary nor ELF, or is damaged
	SIM_IMAGE_NO_BINARY = 2, // the image has machine code only, or PTX for newer devices only
};

#define SIM_IMAGE_UNBOUNDED ((size_t)-1)

struct sim_image {
	size_t count;
	char **texts; // each terminated
	size_t *lengths;
};

// Reads an image of `size` bytes. SIM_IMAGE_UNBOUNDED: the image itself says how long it is. `target` is the device's
// compute capability as 10 * major + minor. Of a fat binary, reads the texts for the highest target that the device can
// run. Returns a sim_image_status or negative errno.
int sim_image_read(const void *data, size_t size, int target, struct sim_image *ret_image);
// Returns whether the image is a wrapper of several fat binaries (separable compilation).
bool sim_image_has_modules(const void *data);
// Moves the texts of `more` to the end of `image`. If that fails, the texts that were not moved stay in `more`. Returns
// 0 or -ENOMEM.
int sim_image_append_all(struct sim_image *image, struct sim_image *more);
// Returns a fat binary that has all texts as one program. The caller frees it with free(). NULL: out of memory.
void *sim_image_link(const struct sim_image *image, size_t *ret_size);
void sim_image_finish(struct sim_image *image);
