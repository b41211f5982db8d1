// Reads blocks of device memory from the packs of an image. Each thread has a reader of its own.
#pragma once
#include "checkpoint/image/device_index.h"

struct device_reader {
	const struct image_dir *dir;
	unsigned char *buffer; // room for the stored bytes of a block, and for its contents
	int pack;	       // descriptor of the pack that was read last; -1: none
	uint32_t number;       // number of that pack
};
// NO_MEMORY. The caller calls device_reader_end() after every outcome.
enum vg_status device_reader_begin(const struct image_dir *dir, struct device_reader *ret_reader);
// Reads the DEVICE_BLOCK bytes of a block, and compares their checksum. *ret_data is valid until the next call.
// INTEGRITY (the pack is damaged), SYSTEM.
enum vg_status device_reader_load(struct device_reader *reader, const struct device_block *block,
				  const unsigned char **ret_data);
void device_reader_end(struct device_reader *reader);
