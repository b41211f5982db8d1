#include "checkpoint/device/reader.h"

#include "base/status.h"
#include "checkpoint/image/directory.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum vg_status device_reader_begin(const struct image_dir *dir, struct device_reader *ret_reader)
{
	*ret_reader = (struct device_reader){.dir = dir, .pack = -1};
	ret_reader->buffer = malloc(DEVICE_STORED_MOST + DEVICE_BLOCK);
	return ret_reader->buffer ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for a block");
}

// Opens the pack of a block, unless it is open already.
static int open_pack(struct device_reader *reader, const struct device_block *block)
{
	char name[32];

	if (reader->pack >= 0 && reader->number == block->pack)
		return 0;
	if (reader->pack >= 0)
		close(reader->pack);
	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)block->pack);
	reader->pack = image_open_file(reader->dir->fd, name);
	reader->number = block->pack;
	return reader->pack < 0 ? reader->pack : 0;
}

enum vg_status device_reader_load(struct device_reader *reader, const struct device_block *block,
				  const unsigned char **ret_data)
{
	static const unsigned char zeros[DEVICE_BLOCK];
	unsigned char *data = reader->buffer + DEVICE_STORED_MOST;

	*ret_data = block->codec == DEVICE_ZERO ? zeros : block->codec == DEVICE_RAW ? reader->buffer : data;
	if (block->codec == DEVICE_ZERO)
		return VG_OK;
	int r = open_pack(reader, block);
	if (r == 0)
		r = device_block_load(reader->pack, block, reader->buffer);
	if (r == 0 && block->codec != DEVICE_RAW && !device_block_unpack(block, reader->buffer, data))
		r = DEVICE_DAMAGED;
	return r ? device_block_fail(r, reader->dir->path, block) : VG_OK;
}

void device_reader_end(struct device_reader *reader)
{
	if (reader->pack >= 0)
		close(reader->pack);
	free(reader->buffer);
}
