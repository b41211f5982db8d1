// The daemon's protocol: SOCK_SEQPACKET, one request per connection. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

enum {
	VG_WIRE_MAGIC = 0x31544756, // "VGT1"
	VG_WIRE_VERSION = 1,
	VG_WIRE_TEXT_MAX = 60 * 1024,	// of one message
	VG_WIRE_ANSWER_MAX = 16 << 20,	// of an answer in several messages
	VG_WIRE_DESCRIPTORS_MAX = 8,	// per message; more: the connection is closed
	VG_WIRE_NAME = 64,		// of a vGPU, with its end
	VG_WIRE_HELLO_TIMEOUT_MS = 20,	// a tenant never waits longer for the daemon
};

enum vg_wire_type { VG_WIRE_HELLO = 1, VG_WIRE_ADMIN = 2, VG_WIRE_REPLY = 3 };

enum vg_wire_flag { VG_WIRE_MORE = 1 }; // the text goes on in the next message (REPLY only)

struct vg_wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t size; // of what follows
	uint32_t flags;
};

// "I am a tenant": nobody answers.
struct vg_wire_hello {
	uint32_t pid; // in its own pid namespace
	uint32_t pid_namespace;
	uint64_t start_time;
	char ledger[VG_WIRE_NAME]; // the vGPU's name
};

enum {
	VG_WIRE_MESSAGE_MAX = sizeof(struct vg_wire_header) + VG_WIRE_TEXT_MAX,
};

struct vg_wire_message {
	enum vg_wire_type type;
	uint32_t flags;
	uint32_t size;
	int descriptors[VG_WIRE_DESCRIPTORS_MAX]; // the receiver's to close
	unsigned int descriptor_count;
	union {
		struct vg_wire_hello hello;
		char text[VG_WIRE_TEXT_MAX + 1]; // terminated by the receiver, no zero byte inside
	};
};

// The whole of a packet: magic, version, type, size, flags, and what each type demands of its
// contents. 0 or -EPROTO. Copies nothing but the header.
int vg_wire_check(const void *packet, size_t length, struct vg_wire_header *ret_header);

// -ENAMETOOLONG past the kernel's 107 bytes.
int vg_wire_address(const char *path, struct sockaddr_un *ret_address);
// Sends and receives on it give up after `timeout_ms`. The descriptor or -errno.
int vg_wire_connect(const char *path, int timeout_ms);
// One packet. 0 or -errno; never SIGPIPE.
int vg_wire_send(int fd, enum vg_wire_type type, uint32_t flags, const void *payload, size_t size,
		 const int *descriptors, unsigned int descriptor_count);
// One packet. 0; -EPROTO for anything wrong (descriptors that came with it are closed),
// -ECONNRESET at the end of the stream, -EAGAIN when there is nothing, -errno.
int vg_wire_receive(int fd, struct vg_wire_message *ret_message);

// A request and its whole answer (free it), within `timeout_ms` a packet. 0 or -errno;
// -EMSGSIZE: the request is too long.
int vg_wire_request(const char *path, const char *text, int timeout_ms, char **ret_answer);
// The tenant's word at its start, or when it wants to be measured. With `wait` it returns once the
// daemon has looked at the tenant, or -ETIMEDOUT after 20 ms; else it never waits, and failure is
// for the caller to ignore. `exports`, unless negative: the epoll instance that knows which of the
// descriptors of memory that the tenant exported are still open somewhere.
int vg_wire_say_hello(const char *path, const struct vg_wire_hello *hello, int exports, bool wait);
