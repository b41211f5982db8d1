// Fuzzes the reader of the daemon's messages with arbitrary packets, directly and through a socket.
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void send_through_socket(const uint8_t *data, size_t size)
{
	static struct vg_wire_message message;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
		abort();
	if (size && send(ends[0], data, size, MSG_DONTWAIT) == (ssize_t)size &&
	    vg_wire_receive(ends[1], &message) == 0) {
		if (message.type == VG_WIRE_REGISTRATION) {
			if (strnlen(message.registration.ledger, VG_WIRE_NAME) == VG_WIRE_NAME)
				abort();
		} else if (message.type == VG_WIRE_EVENT) {
			if (message.event.kind < VG_WIRE_ASKED_BACK || message.event.kind > VG_WIRE_SUPERSEDED)
				abort();
		} else if (strlen(message.text) != message.size) {
			abort();
		}
	}
	close(ends[0]);
	close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vg_wire_header header = {0};

	if (vg_wire_check(data, size, &header) == 0 && header.size + sizeof header != size)
		abort();
	send_through_socket(data, size);
	return 0;
}
