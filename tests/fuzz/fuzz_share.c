// Fuzzes what a process receives from a peer that offers memory: arbitrary bytes as parts of a packet, and as packets
// through both types of socket.
#include "share/channel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void send_through_socket(int type, const uint8_t *data, size_t size)
{
	static struct share_packet packet;
	struct share_channel channel;
	int ends[2];

	if (socketpair(AF_UNIX, type, 0, ends) < 0 || share_channel_open(ends[1], 0, &channel))
		abort();
	// The packet has no descriptor, so it must be refused.
	if (size && send(ends[0], data, size, MSG_DONTWAIT) == (ssize_t)size &&
	    share_packet_receive(&channel, &packet) == VG_OK)
		abort();
	close(ends[0]);
	close(ends[1]);
}

static void check_parts(const uint8_t *data, size_t size)
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
	// the block has exactly this size, so that the address sanitizer finds accesses beyond its end
	char *body = malloc(header.size);
	if (!body)
		abort();
	memcpy(body, data + sizeof header, header.size);
	if (!share_body_check(&header, body, problem, sizeof problem) && !*problem)
		abort();
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_parts(data, size);
	send_through_socket(SOCK_STREAM, data, size);
	send_through_socket(SOCK_SEQPACKET, data, size);
	return 0;
}
