// Declares the protocol of the daemon: SOCK_SEQPACKET, one request for each connection, except connections to the
// broker. Any thread.
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
	VG_WIRE_TEXT_MAX = 60 * 1024,  // bytes of text in one message
	VG_WIRE_ANSWER_MAX = 16 << 20, // bytes of an answer in several messages
	VG_WIRE_DESCRIPTORS_MAX = 8,   // descriptors of one message; with more, the connection is closed
	VG_WIRE_NAME = 64,	       // bytes of a vGPU's name, with the zero byte
	// How long a tenant that registers waits until the daemon has measured the tenant's memory.
	VG_WIRE_HELLO_TIMEOUT_MS = 20,
	// How long a tenant waits for the daemon when it opens memory of other processes.
	VG_WIRE_GUEST_TIMEOUT_MS = 250,
};

enum vg_wire_type {
	VG_WIRE_REGISTRATION = 1,
	VG_WIRE_ADMIN = 2,
	VG_WIRE_REPLY = 3,
	VG_WIRE_SHARE = 4,
	VG_WIRE_EVENT = 5,
	VG_WIRE_GUEST = 6
};

enum vg_wire_flag { VG_WIRE_MORE = 1 }; // the text continues in the next message (REPLY only)

struct vg_wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	uint32_t size; // bytes of the payload after the header
	uint32_t flags;
};

// The registration of a tenant, which the daemon does not answer.
struct vg_wire_registration {
	uint32_t pid; // the tenant's pid in its own pid namespace
	uint32_t pid_namespace;
	uint64_t start_time;
	char ledger[VG_WIRE_NAME]; // the vGPU's name
};

// A tenant asks whether memory that it is about to open is charged in another vGPU. If so, the daemon makes the tenant
// a guest of that vGPU, and answers with the same packet. To stop being a guest, the tenant sends the packet with
// `vgpu` and `share`; the daemon then closes the connection without an answer.
struct vg_wire_guest {
	struct vg_wire_registration self;
	// In the question: the hash by which processes recognise the memory (vg_ledger_key). In the answer: the size of
	// the memory in bytes.
	uint64_t key;
	// The number of the shared allocation. In a question, 0 means that the tenant wants to become a guest. In the
	// answer, 0 means that the memory is charged in no vGPU.
	uint32_t share;
	uint32_t zero;
	char vgpu[VG_WIRE_NAME]; // name of the vGPU to which the memory is charged; empty in the question
};

// Events that the broker sends without a request, on a connection that publishes or has a lease.
enum vg_wire_event_kind {
	VG_WIRE_ASKED_BACK = 1, // readers must close the memory by the deadline
	VG_WIRE_WITHDRAWN = 2,	// no new reader can open the publication
	VG_WIRE_SUPERSEDED = 3, // the publication has a newer generation
};

struct vg_wire_event {
	uint32_t kind;
	uint32_t zero;
	uint64_t generation;
	uint64_t deadline_ns; // deadline on the monotonic clock; 0: none
};

enum {
	VG_WIRE_MESSAGE_MAX = sizeof(struct vg_wire_header) + VG_WIRE_TEXT_MAX,
};

struct vg_wire_message {
	enum vg_wire_type type;
	uint32_t flags;
	uint32_t size;
	int descriptors[VG_WIRE_DESCRIPTORS_MAX]; // received descriptors, which the receiver closes
	unsigned int descriptor_count;
	union {
		struct vg_wire_registration registration;
		struct vg_wire_event event;
		struct vg_wire_guest guest;
		char text[VG_WIRE_TEXT_MAX + 1]; // the receiver adds the terminating zero byte; there is no other one
	};
};

// Checks a packet: magic, version, type, size, flags, and the payload of each type. Returns 0 or -EPROTO. Copies only
// the header to *ret_header.
int vg_wire_check(const void *packet, size_t length, struct vg_wire_header *ret_header);

// Fills the address of a socket. Returns 0, or -ENAMETOOLONG if the path is longer than 107 bytes.
int vg_wire_address(const char *path, struct sockaddr_un *ret_address);
// Connects to the socket. Sending and receiving on the connection fail after `timeout_ms`. Returns the descriptor or
// -errno; -EPERM: the listener belongs to another user, not root, so it cannot be trusted. In a user namespace without
// root, a user that the namespace does not have is trusted if no group and no others may write to the directories above
// the socket.
int vg_wire_connect(const char *path, int timeout_ms);
// Sends a packet. Returns 0 or -errno; never raises SIGPIPE.
int vg_wire_send(int fd, enum vg_wire_type type, uint32_t flags, const void *payload, size_t size,
		 const int *descriptors, unsigned int descriptor_count);
// Sends a packet of any kind, whose contents are in two parts.
int vg_wire_send_raw(int fd, const void *head, size_t head_size, const void *body, size_t body_size,
		     const int *descriptors, unsigned int descriptor_count);
// Closes a descriptor of a refused message. The last close() of a file may block for as long as the file's owner likes.
// So a process that must not block replaces this function before the first message.
extern void (*vg_wire_discard)(int fd);
// Receives a packet of any kind into two parts, with at most VG_WIRE_DESCRIPTORS_MAX descriptors, which the caller
// closes. Returns the length or -errno; -EPROTO: truncated, or too many descriptors; -ECONNRESET: end of the stream;
// -EAGAIN. After a failure no descriptor is open.
ssize_t vg_wire_receive_raw(int fd, struct iovec parts[2], int *ret_descriptors, unsigned int *ret_count);
// Receives and checks a packet. Returns 0 or -errno; -EPROTO: invalid (its descriptors are closed); -ECONNRESET: end of
// the stream; -EAGAIN: no packet.
int vg_wire_receive(int fd, struct vg_wire_message *ret_message);

// Sends a request and receives the complete answer, which the caller frees. Each packet may take `timeout_ms`. Returns
// 0 or -errno; -EMSGSIZE: the request is too long.
int vg_wire_request(const char *path, const char *text, int timeout_ms, char **ret_answer);
// Registers a tenant at its start, or asks the daemon to measure the tenant's memory. Does not wait; the caller ignores
// a failure. `exports`, unless negative: an epoll instance that shows which of the tenant's exported descriptors are
// still open.
int vg_wire_register(const char *path, const struct vg_wire_registration *registration, int exports);
// Registers a tenant as vg_wire_register() does, and waits until the daemon has measured it. Returns 0 or -errno;
// -ETIMEDOUT: not within 20 ms.
int vg_wire_register_and_wait(const char *path, const struct vg_wire_registration *registration, int exports);
// Makes a tenant a guest of the vGPU that is charged for a shared allocation. If ret_answer is NULL, ends that again.
// Returns 0 or -errno; -ETIMEDOUT: no answer in 250 ms, but the daemon may still do it.
int vg_wire_be_guest(const char *path, const struct vg_wire_guest *asked, struct vg_wire_guest *ret_answer);
