// The daemon's protocol: SOCK_SEQPACKET, one request per connection; a connection to the broker goes on. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>

enum {
	VG_WIRE_MAGIC = 0x31544756, // "VGT1"
	VG_WIRE_VERSION = 1,
	VG_WIRE_TEXT_MAX = 60 * 1024,	// of one message
	VG_WIRE_ANSWER_MAX = 16 << 20,	// of an answer in several messages
	VG_WIRE_DESCRIPTORS_MAX = 8,	// per message; more: the connection is closed
	VG_WIRE_NAME = 64,		// of a vGPU, with its end
	VG_WIRE_HELLO_TIMEOUT_MS = 20,	// a tenant never waits longer for the daemon when it allocates
	VG_WIRE_GUEST_TIMEOUT_MS = 250, // nor so long when it opens what another process has
};

enum vg_wire_type { VG_WIRE_HELLO = 1, VG_WIRE_ADMIN = 2, VG_WIRE_REPLY = 3, VG_WIRE_SHARE = 4, VG_WIRE_EVENT = 5,
		    VG_WIRE_GUEST = 6 };

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

// A tenant is about to open memory that its own vGPU does not know: is it charged in another one? If so, the daemon
// makes it a guest there, which holds that share, and answers with the same packet; to its leaving, by closing the
// connection.
struct vg_wire_guest {
	struct vg_wire_hello self;
	uint64_t key;	// of the memory (ledger/share.h); in the answer: its bytes
	uint32_t share; // joining: 0; in the answer: 0, no vGPU knows it
	uint32_t zero;
	char vgpu[VG_WIRE_NAME]; // whose share it is; empty when joining
};

// What the broker says without being asked, on a connection that publishes or holds a lease.
enum vg_wire_event_kind {
	VG_WIRE_ASKED_BACK = 1, // readers are to let go by the deadline
	VG_WIRE_WITHDRAWN = 2,	// nobody new can open it
	VG_WIRE_SUPERSEDED = 3, // there is a newer generation
};

struct vg_wire_event {
	uint32_t kind;
	uint32_t zero;
	uint64_t generation;
	uint64_t deadline_ns; // on the monotonic clock; 0: none
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
		struct vg_wire_event event;
		struct vg_wire_guest guest;
		char text[VG_WIRE_TEXT_MAX + 1]; // terminated by the receiver, no zero byte inside
	};
};

// The whole of a packet: magic, version, type, size, flags, and what each type demands of its
// contents. 0 or -EPROTO. Copies nothing but the header.
int vg_wire_check(const void *packet, size_t length, struct vg_wire_header *ret_header);

// -ENAMETOOLONG past the kernel's 107 bytes.
int vg_wire_address(const char *path, struct sockaddr_un *ret_address);
// Sends and receives on it give up after `timeout_ms`. The descriptor; -EPERM: another ordinary user listens there, who
// is not to be believed; -errno.
int vg_wire_connect(const char *path, int timeout_ms);
// One packet. 0 or -errno; never SIGPIPE.
int vg_wire_send(int fd, enum vg_wire_type type, uint32_t flags, const void *payload, size_t size,
		 const int *descriptors, unsigned int descriptor_count);
// The same for a packet of whatever kind, in two parts.
int vg_wire_send_raw(int fd, const void *head, size_t head_size, const void *body, size_t body_size,
		     const int *descriptors, unsigned int descriptor_count);
// What becomes of descriptors that came with what is refused: closed. Who must not wait for that, since the last close
// of a file may take as long as its owner likes, sets another way before the first message.
extern void (*vg_wire_discard)(int fd);
// A packet of whatever kind into two parts, with at most VG_WIRE_DESCRIPTORS_MAX descriptors, which become the
// caller's. Its length; -EPROTO: cut off, or more descriptors; -ECONNRESET at the end; -EAGAIN; -errno. After a failure
// no descriptor is left open.
ssize_t vg_wire_receive_raw(int fd, struct iovec parts[2], int *ret_descriptors, unsigned int *ret_count);
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
// A tenant joins what another vGPU is charged for, or leaves it: ret_answer NULL. 0: it is done; -ETIMEDOUT after 250
// ms: it may yet be; -errno.
int vg_wire_be_guest(const char *path, const struct vg_wire_guest *asked, struct vg_wire_guest *ret_answer);
