// One allocation in two programs: this one fills device memory and sends it, as a descriptor, to share_consumer, which
// it starts from its own directory. `virgate share produce` does the same over a socket with a path, and reports each
// step.
#include "check.h"

#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 262144 };

// Starts the other program with its end of the socket.
static pid_t start_consumer(int ends[2])
{
	char path[PATH_MAX] = "", number[12];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 20);

	if (length <= 0)
		exit(1);
	strcpy(strrchr(path, '/'), "/share_consumer");
	pid_t child = fork();
	if (child == 0) {
		close(ends[0]);
		snprintf(number, sizeof number, "%d", ends[1]);
		execl(path, path, number, NULL);
		_exit(127);
	}
	return child;
}

static struct vg_vram_handle make_filled_region(struct vg_vram *vram)
{
	const struct vg_vram_allocate_options shareable = {.size = sizeof shareable, .shareable = 1};
	unsigned *data = malloc(COUNT * sizeof *data);
	struct vg_vram_handle handle;

	if (!data)
		exit(1);
	for (unsigned i = 0; i < COUNT; i++)
		data[i] = (i * 2 + 1337) ^ 0xDEADBEEF;
	check(vg_vram_allocate(vram, COUNT * sizeof *data, &shareable, &handle));
	check(vg_vram_write_at(handle, 0, data, COUNT * sizeof *data));
	free(data);
	return handle;
}

int main(void)
{
	struct vg_share_offer *offer;
	struct vg_vram *vram;
	int ends[2], status = 1;
	char answer = 0;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return 1;
	pid_t consumer = start_consumer(ends); // start the consumer before this process uses CUDA
	close(ends[1]);
	check(vg_vram_open(NULL, &vram));
	struct vg_vram_handle handle = make_filled_region(vram);
	check(vg_share_offer_create(&offer));
	check(vg_share_offer_add(offer, handle, NULL)); // read-only
	check(vg_share_send(ends[0], offer, NULL));
	vg_share_offer_destroy(offer);
	ssize_t got = read(ends[0], &answer, 1); // the consumer has unmapped the memory when it answers
	check(vg_vram_free(handle));
	vg_vram_destroy(vram);
	waitpid(consumer, &status, 0);
	if (got != 1 || answer != 'y' || status != 0) {
		fprintf(stderr, "share_producer: the consumer %s (status %#x)\n",
			got != 1	? "did not answer"
			: answer != 'y' ? "read other values"
					: "failed after its answer",
			(unsigned)status);
		return 1;
	}
	printf("share_producer: the consumer read %d integers without a copy\n", COUNT);
	return 0;
}
