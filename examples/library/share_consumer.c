// Receives device memory from share_producer.c, which starts this program: maps the memory that it gets over the
// socket, reads it, and replies.
#include "check.h"

#include <unistd.h>

enum { COUNT = 262144 };

static int verify(struct vg_vram_handle handle)
{
	unsigned *data = malloc(COUNT * sizeof *data), wrong = 0;

	if (!data)
		return 0;
	check(vg_vram_read_at(handle, 0, data, COUNT * sizeof *data));
	for (unsigned i = 0; i < COUNT; i++)
		wrong += data[i] != ((i * 2 + 1337) ^ 0xDEADBEEF);
	free(data);
	return wrong == 0;
}

int main(int argc, char **argv)
{
	struct vg_share_range range;
	struct vg_share_offer *offer;
	struct vg_vram_handle handle;
	struct vg_vram *vram;

	if (argc < 2) {
		printf("share_consumer: share_producer starts it\n");
		return 77;
	}
	int socket = atoi(argv[1]);
	check(vg_vram_open(NULL, &vram));
	check(vg_share_receive(socket, NULL, &offer)); // checks what was sent, and which user sent it
	check(vg_share_offer_range(offer, 0, &range));
	check(vg_share_import(vram, offer, 0, NULL, &handle));
	vg_share_offer_destroy(offer); // the import keeps the memory
	printf("share_consumer: %llu bytes on %s\n", (unsigned long long)range.bytes, range.device);
	int good = range.bytes == COUNT * sizeof(unsigned) && verify(handle);
	check(vg_vram_free(handle)); // unmaps the memory, before the producer frees it
	vg_vram_destroy(vram);
	return write(socket, good ? "y" : "n", 1) == 1 && good ? 0 : 1;
}
