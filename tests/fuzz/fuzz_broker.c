// Fuzzes the broker with several sessions at a time, with arbitrary requests, packets and descriptors. The input has
// records of {session and action, length, bytes}. When all sessions have ended, the broker must have no session and no
// publication left.
#include "daemon/broker/broker.h"
#include "daemon/broker/state.h"
#include "daemon/say.h"
#include "daemon/work.h"

#include "base/descriptor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PEERS = 4, BEGIN_OR_REQUEST = 0, PACKET = 1, RAW_PACKET = 2, CLOSE = 3 };

static struct node node = {.simulated = true, .listener.fd = -1, .signals.fd = -1, .lock_fd = -1};
static int memory;

void say_line(struct say_kind *kind, const char *format, ...)
{
}

void say_left_out(uint64_t now, uint64_t *deadline)
{
}

static void clean_up(void)
{
	char command[PATH_MAX + 16];

	snprintf(command, sizeof command, "rm -rf '%s'", node.runtime_dir);
	if (system(command) != 0)
		abort();
}

static void prepare(void)
{
	char path[128];

	snprintf(node.runtime_dir, sizeof node.runtime_dir, "/tmp/fuzz-broker-XXXXXX");
	if (!mkdtemp(node.runtime_dir))
		abort();
	snprintf(path, sizeof path, "%s/export-1-0", node.runtime_dir);
	if (mkfifo(path, 0600) < 0 || (memory = open(path, O_RDWR | O_CLOEXEC)) < 0)
		abort();
	atexit(clean_up);
	node.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (work_start(&node) < 0)
		abort();
}

static void run_loop(void)
{
	struct epoll_event event;

	for (int i = 0; i < 1000 && epoll_wait(node.epoll_fd, &event, 1, 0) == 1; i++) {
		struct source *source = event.data.ptr;
		source->ready(&node, source, event.events);
	}
}

static void begin_session(int *peer, const char *text)
{
	struct authority_peer self;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		abort();
	*peer = ends[0];
	if (authority_read_peer(ends[1], &self) < 0)
		abort();
	json_t *request = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	broker_begin_session(&node, ends[1], &self, request);
	json_decref(request);
}

// Sends the bytes as the body of a valid packet, or as a whole packet if `is_raw`.
static void send_packet(int peer, const uint8_t *bytes, size_t length, bool is_raw, unsigned int count)
{
	struct share_header header = {
		.magic = SHARE_MAGIC, .version = SHARE_VERSION, .count = 1, .total = 1, .size = (uint32_t)length};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];

	for (unsigned int i = 0; i < VG_WIRE_DESCRIPTORS_MAX; i++)
		descriptors[i] = memory;
	if (is_raw)
		vg_wire_send_raw(peer, bytes, length, NULL, 0, descriptors, count % 9);
	else
		vg_wire_send_raw(peer, &header, sizeof header, bytes, length, descriptors, 1);
}

static void run_record(int *peer, unsigned int what, const uint8_t *bytes, size_t length)
{
	char text[512];

	switch (what & 3) {
	case BEGIN_OR_REQUEST:
		length = length < sizeof text - 1 ? length : sizeof text - 1;
		memcpy(text, bytes, length);
		text[length] = '\0';
		if (*peer < 0)
			begin_session(peer, text);
		else
			vg_wire_send(*peer, VG_WIRE_SHARE, 0, text, strlen(text), NULL, 0);
		break;
	case CLOSE:
		if (*peer >= 0)
			close(*peer);
		*peer = -1;
		break;
	default:
		if (*peer >= 0)
			send_packet(*peer, bytes, length, (what & 3) == RAW_PACKET, what >> 4);
	}
	run_loop();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int peers[PEERS] = {-1, -1, -1, -1};

	if (!*node.runtime_dir)
		prepare();
	while (size > 2) {
		size_t length = data[1] < size - 2 ? data[1] : size - 2;
		run_record(&peers[data[0] >> 2 & 3], (data[0] & 3) | (data[0] & 0xf0), data + 2, length);
		data += 2 + length;
		size -= 2 + length;
	}
	for (int i = 0; i < PEERS; i++)
		if (peers[i] >= 0)
			close(peers[i]);
	run_loop();
	if (node.sessions || node.publications)
		abort();
	return 0;
}
