// What programs hand to module loads, reduced to PTX texts: PTX itself, fat binaries
// (plain, LZ4 and zstd entries) and the wrappers that nvcc embeds. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum sim_image_status {
	SIM_IMAGE_READ = 0,
	SIM_IMAGE_INVALID = 1,	 // neither PTX nor a fat binary nor ELF, or a damaged one
	SIM_IMAGE_NO_BINARY = 2, // machine code only, or PTX for newer devices only
};

#define SIM_IMAGE_UNBOUNDED ((size_t)-1)

struct sim_image {
	size_t count;
	char **texts; // each terminated
	size_t *lengths;
};

// Reads an image of `size` bytes, or one that states its own end (SIM_IMAGE_UNBOUNDED).
// `target` is the device's compute capability as 10 * major + minor: of a fat binary's
// texts, those with the highest target that it can run are taken.
// Returns a sim_image_status or negative errno.
int sim_image_read(const void *data, size_t size, int target, struct sim_image *ret_image);
// Separable compilation: the image is a wrapper of several containers.
bool sim_image_has_modules(const void *data);
// Adds a text from malloc, which the image owns from then on (on failure it is the caller's).
int sim_image_append_consume(struct sim_image *image, char *text, size_t length);
// Moves the texts of `more` to the end; on failure those not moved stay. 0 or -ENOMEM.
int sim_image_append_all(struct sim_image *image, struct sim_image *more);
// A fat binary of all texts as one program, from malloc; NULL: out of memory.
void *sim_image_link(const struct sim_image *image, size_t *ret_size);
void sim_image_finish(struct sim_image *image);
