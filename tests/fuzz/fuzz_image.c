// Fuzzes the simulated driver's reader of program images with arbitrary bytes: PTX, fat binaries with compressed
// entries, or neither.
#include "../../sim/fatbin.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_image image = {0};
	uint32_t magic = 0;

	if (size >= 4)
		memcpy(&magic, data, 4);
	if (magic == 0x466243b1) // skip wrappers, which contain a pointer that would be arbitrary
		return 0;
	int r = sim_image_read(data, size, 90, &image);
	if (r == SIM_IMAGE_READ) {
		if (!image.count)
			abort();
		for (size_t i = 0; i < image.count; i++)
			if (strlen(image.texts[i]) != image.lengths[i])
				abort();
		size_t linked;
		void *again = sim_image_link(&image, &linked);
		struct sim_image second = {0};
		if (!again || sim_image_read(again, linked, 90, &second) != SIM_IMAGE_READ ||
		    second.count != image.count)
			abort();
		sim_image_finish(&second);
		free(again);
	} else if (image.count) {
		abort();
	}
	sim_image_finish(&image);
	return 0;
}
