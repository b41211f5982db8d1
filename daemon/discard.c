#include "daemon/discard.h"

#include "daemon/source.h"
#include "daemon/work.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct closing {
	struct work work;
	int descriptor;
};

static uid_t sender; // the user who sent the descriptors to be discarded

static void close_descriptor(struct work *work)
{
	close(((struct closing *)work)->descriptor);
}

static void free_closing(struct node *node, struct work *work)
{
	free(work);
}

void discard_from(uid_t uid)
{
	sender = uid;
}

bool discard_is_full(const struct node *node, uid_t uid)
{
	return user_is_limited(node, uid) && work_is_full(uid, WORK_ANY);
}

// Closes the descriptor in the thread that the sender has for this kind of work (enum work_lane in user.h).
static void close_in_lane(enum work_lane lane, int descriptor)
{
	struct closing *closing = malloc(sizeof *closing);

	if (closing)
		*closing = (struct closing){{.lane = lane, .run = close_descriptor, .done = free_closing}, descriptor};
	if (closing && work_post(sender, &closing->work))
		return;
	free(closing);
	// The user's queue is full (hundreds of descriptors wait to be closed), or there is no memory. The main thread
	// then closes this descriptor itself. Left open, it would use up a descriptor that all users need.
	work_start_timer();
	close(descriptor);
	work_stop_timer();
}

void discard(int descriptor)
{
	close_in_lane(WORK_ANY, descriptor);
}

void discard_connection(int socket)
{
	shutdown(socket, SHUT_RDWR); // shut down now, so that the peer does not have to wait for the close
	close_in_lane(WORK_UNREAD, socket);
}

void discard_source(struct node *node, struct source *source, uid_t uid)
{
	if (source->fd < 0)
		return;
	source_ignore(node, source);
	discard_from(uid);
	discard_connection(source->fd);
	source->fd = -1;
}

void discard_with_refusal(int socket, const char *text)
{
	static struct vg_wire_message message; // too large for the stack

	// Discard the unread request. Otherwise close() would reset the connection, and the client would not get the
	// refusal.
	shutdown(socket, SHUT_RD);
	if (vg_wire_receive(socket, &message) == 0)
		for (unsigned int i = 0; i < message.descriptor_count; i++)
			discard(message.descriptors[i]);
	vg_wire_send(socket, VG_WIRE_REPLY, 0, text, strlen(text), NULL, 0);
	discard_connection(socket);
}
