// Arbitrary bytes from a peer that shares memory: as the parts of a packet, and through both kinds of socket.
#include "share/channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void through_a_socket(int type, const uint8_t *data, size_t size)
{
	static struct share_packet packet;
	struct share_channel channel;
	int ends[2];

	if (socketpair(AF_UNIX, type, 0, ends) < 0 || share_channel_open(ends[1], 0, __func__, &channel))
		abort();
	// No descriptor comes with it, so that it is refused in the end whatever it says.
	if (size && send(ends[0], data, size, MSG_DONTWAIT) == (ssize_t)size &&
	    share_packet_receive(&channel, &packet) == VG_OK)
		abort();
	close(ends[0]);
	close(ends[1]);
}

static void by_parts(const uint8_t *data, size_t size)
{
	struct share_header header;
	char problem[256] = "";

	if (size < sizeof header)
		return;
	memcpy(&header, data, sizeof header);
	if (!share_header_check(&header, problem, sizeof problem)) {
		if (!*problem)
			abort();
		return;
	}
	if (header.size > size - sizeof header)
		return;
	char *body = malloc(header.size); // exactly as much, for the address sanitizer
	if (!body)
		abort();
	memcpy(body, data + sizeof header, header.size);
	if (!share_body_check(&header, body, problem, sizeof problem) && !*problem)
		abort();
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	by_parts(data, size);
	through_a_socket(SOCK_STREAM, data, size);
	through_a_socket(SOCK_SEQPACKET, data, size);
	return 0;
}
