// Tests pools and buffers that are sent to another process, by descriptors over a socket. Both processes are children
// of this one. This process never uses the driver: otherwise its forked children could not.
#include "memory_test.h"

#include <fcntl.h>
#include <sys/socket.h>

enum { SIZE = 1 << 20 };

// A message on the socket, with a descriptor of a pool or of something else.
struct message {
	unsigned char uuid[16];
	struct vg_buffer_descriptor buffer;
	uint64_t word;
};

static void send_message(int socket, const struct message *message, int descriptor)
{
	char space[CMSG_SPACE(sizeof descriptor)] = {0};
	struct iovec part = {(void *)message, sizeof *message};
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);

	*rights = (struct cmsghdr){CMSG_LEN(sizeof descriptor), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
	CHECK_INT(sendmsg(socket, &header, 0), sizeof *message);
}

static int receive_message(int socket, struct message *ret_message)
{
	char space[CMSG_SPACE(sizeof(int))];
	struct iovec part = {ret_message, sizeof *ret_message};
	struct msghdr header = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	int descriptor;

	CHECK_INT(recvmsg(socket, &header, MSG_CMSG_CLOEXEC), sizeof *ret_message);
	CHECK(CMSG_FIRSTHDR(&header) != NULL);
	memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof descriptor);
	return descriptor;
}

// Waits for a byte from the other process if `wait` is set, and else sends it a byte.
static void signal_or_wait(int socket, int wait)
{
	char byte = 0;

	CHECK_INT(wait ? read(socket, &byte, 1) : write(socket, &byte, 1), 1);
}

// Runs two processes with a socket between them.
static void run_both(void (*one)(int socket), void (*other)(int socket))
{
	void (*sides[])(int) = {one, other};
	pid_t children[2];
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	for (int i = 0; i < 2; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			close(ends[!i]);
			sides[i](ends[i]);
			exit(0);
		}
	}
	close(ends[0]);
	close(ends[1]);
	for (int i = 0; i < 2; i++)
		CHECK_CHILD(children[i]);
}

static unsigned read_word(struct vg_buffer *buffer, struct vg_stream *stream)
{
	unsigned word = 0;

	OK(vg_buffer_read(buffer, 0, &word, 4, stream));
	OK(vg_stream_sync(stream));
	return word;
}

// ---- both kinds of pool --------------------------------------------------------------------------

static enum vg_status import_pool(int pinned, struct vg_device *device, int descriptor,
				  struct vg_memory_resource **ret_pool)
{
	return pinned ? vg_pinned_pool_import(device, descriptor, ret_pool)
		      : vg_device_pool_import(device, descriptor, ret_pool);
}

// Frees the last import of a buffer. That waits for the work of all streams that used the buffer, also of a stream that
// was closed before.
static void free_in_order(struct message *m, int descriptor, int pinned, struct bench *b, struct vg_stream *busy)
{
	struct vg_memory_resource *pool;
	struct vg_buffer *first, *second;
	atomic_int hold = 1;
	int done;

	OK(import_pool(pinned, b->device, descriptor, &pool));
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, busy, &first));
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &second));
	hold_up(busy, &hold);
	vg_buffer_destroy(first);
	OK(vg_stream_query(b->stream, &done));
	CHECK_INT(done, 1);
	vg_buffer_destroy(second);
	OK(vg_stream_query(b->stream, &done));
	hold = 0;
	CHECK_INT(done, 0);
	OK(vg_stream_sync(b->stream));
	OK(vg_stream_query(busy, &done));
	CHECK_INT(done, 1);
	vg_memory_resource_destroy(pool);
}

// Checks that a UUID is registered for one pool only.
static void check_registry(struct message *m, struct vg_memory_resource *pool, struct vg_memory_resource *again)
{
	struct vg_memory_resource *known;
	unsigned char uuid[16];

	REFUSED(vg_memory_pool_uuid(pool, uuid), VG_STATE, "the pool has no UUID");
	REFUSED(vg_memory_pool_find(m->uuid, &known), VG_NOT_FOUND, "no pool of this UUID is registered");
	OK(vg_memory_pool_register(pool, m->uuid, &known));
	CHECK(known == pool);
	vg_memory_resource_destroy(known);
	OK(vg_memory_pool_register(again, m->uuid, &known));
	CHECK(known == pool);
	vg_memory_resource_destroy(known);
	OK(vg_memory_pool_find(m->uuid, &known));
	CHECK(known == pool);
	vg_memory_resource_destroy(known);
	OK(vg_memory_pool_uuid(pool, uuid));
	CHECK(memcmp(uuid, m->uuid, 16) == 0);
	REFUSED(vg_memory_pool_register(pool, (unsigned char[16]){1}, &known), VG_INVALID, "another UUID already");
}

// Checks that descriptors of other kinds are refused.
static void check_descriptor_claims(struct message *m, struct vg_memory_resource *pool, struct bench *b)
{
	struct vg_buffer_descriptor claim = m->buffer;
	struct vg_buffer *buffer = NULL;

	REFUSED(vg_buffer_import(pool, &m->buffer, 8, b->stream, &buffer), VG_INVALID,
		"the descriptor is 8 bytes; expected at least 72");
	// the simulator refuses any wrong size; a GPU refuses only sizes that are much too large
	if (getenv("VIRGATE_SIM")) {
		claim.size = SIZE + 1;
		REFUSED(vg_buffer_import(pool, &claim, sizeof claim, b->stream, &buffer), VG_INVALID,
			"the descriptor claims 1048577 bytes, where the buffer has 1048576");
	}
	claim.size = (uint64_t)1 << 40;
	REFUSED(vg_buffer_import(pool, &claim, sizeof claim, b->stream, &buffer), VG_INVALID,
		"the descriptor claims 1099511627776 bytes, where the buffer has ");
	claim.size = UINT64_MAX;
	REFUSED(vg_buffer_import(pool, &claim, sizeof claim, b->stream, &buffer), VG_INVALID, "where the buffer has ");
	claim.size = 0;
	REFUSED(vg_buffer_import(pool, &claim, sizeof claim, b->stream, &buffer), VG_INVALID, "of 0 bytes");
	memset(claim.payload, 0xff, sizeof claim.payload);
	claim.size = 64;
	REFUSED(vg_buffer_import(pool, &claim, sizeof claim, b->stream, &buffer), VG_DRIVER, "cuMemPoolImportPointer");
	REFUSED(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, NULL, &buffer), VG_INVALID, "stream is NULL");
	REFUSED(vg_buffer_import(b->pool, &m->buffer, sizeof m->buffer, b->stream, &buffer), VG_STATE,
		"the pool was not imported");
	REFUSED(vg_buffer_import(pool, NULL, sizeof m->buffer, b->stream, &buffer), VG_INVALID, "descriptor is NULL");
	REFUSED(vg_buffer_create(pool, 64, b->stream, &buffer), VG_STATE, "the pool was imported");
	REFUSED(vg_memory_pool_export(pool, &(int){0}), VG_STATE, "the pool was imported");
	REFUSED(vg_memory_pool_attributes(pool, &(struct vg_memory_pool_attributes){0}), VG_STATE, "can ask");
	CHECK(!buffer);
}

// Uses a second import of the buffer. It has the same address as the first one. The mapping exists until all imports
// are freed, on any streams.
static void use_buffer(struct message *m, struct vg_memory_resource *pool, struct bench *b, struct vg_stream *stream)
{
	struct vg_buffer *first, *second, *more;

	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &first));
	CHECK(vg_buffer_is_mapped(first));
	CHECK_INT(vg_buffer_size(first), SIZE);
	CHECK_INT(read_word(first, b->stream), m->word);
	REFUSED(vg_buffer_export(first, &(struct vg_buffer_descriptor){0}), VG_STATE, "the buffer was imported");
	int last = dup(0); // a leaked descriptor would get this number
	for (int i = 0; i < (getenv("VIRGATE_TEST_FULL") ? 100000 : 1000); i++) {
		OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &more));
		vg_buffer_destroy(more);
	}
	close(last);
	CHECK_INT(dup(0), last);
	close(last);
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, stream, &second));
	CHECK(vg_buffer_address(second) == vg_buffer_address(first) && vg_buffer_equal(second, first));
	OK(vg_buffer_close(first, NULL));
	vg_buffer_destroy(first);
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &more));
	OK(vg_buffer_fill(second, &(unsigned){(unsigned)m->word + 1}, 4, stream));
	OK(vg_stream_sync(stream));
	vg_buffer_destroy(more);
	vg_memory_resource_destroy(pool); // the buffer keeps the pool
	CHECK_INT(read_word(second, stream), m->word + 1);
	vg_buffer_destroy(second);
	OK(vg_stream_sync(stream));
}

// Imports one address twice, and frees the imports in either order. After both are freed, the address can be imported
// again.
static void check_any_order(struct message *m, struct vg_memory_resource *pool, struct bench *b)
{
	struct vg_buffer *both[2];

	for (int first = 0; first < 2; first++) {
		for (int i = 0; i < 2; i++)
			OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &both[i]));
		CHECK(vg_buffer_address(both[0]) == vg_buffer_address(both[1]));
		vg_buffer_destroy(both[first]);
		OK(vg_stream_sync(b->stream));
		CHECK_INT(read_word(both[!first], b->stream), m->word);
		vg_buffer_destroy(both[!first]);
		OK(vg_stream_sync(b->stream));
	}
	// Imports the buffer twice, from descriptors that differ in the last byte. Only the simulator ignores
	// that byte, so that both imports get the same address. The driver cannot import host memory twice.
	struct vg_memory_properties properties;
	OK(vg_memory_resource_properties(pool, &properties));
	if (!getenv("VIRGATE_SIM") || properties.host_accessible)
		return;
	struct vg_buffer_descriptor other = m->buffer;
	other.payload[sizeof other.payload - 1] ^= 1;
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &both[0]));
	OK(vg_buffer_import(pool, &other, sizeof other, b->stream, &both[1]));
	CHECK(vg_buffer_address(both[0]) == vg_buffer_address(both[1]));
	vg_buffer_destroy(both[0]);
	OK(vg_stream_sync(b->stream));
	CHECK_INT(read_word(both[1], b->stream), m->word);
	vg_buffer_destroy(both[1]);
	OK(vg_stream_sync(b->stream));
}

// Imports one pool twice. The pool and its buffer must exist until both imports have freed them.
static void check_two_pools(struct message *m, struct vg_memory_resource *pool, struct vg_memory_resource *again,
			    struct bench *b)
{
	struct vg_buffer *one, *other;

	CHECK(pool != again && vg_memory_pool_handle(pool) == vg_memory_pool_handle(again));
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &one));
	OK(vg_buffer_import(again, &m->buffer, sizeof m->buffer, b->stream, &other));
	CHECK(vg_buffer_address(one) == vg_buffer_address(other));
	vg_buffer_destroy(one);
	OK(vg_stream_sync(b->stream));
	CHECK_INT(read_word(other, b->stream), m->word);
	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &one));
	vg_buffer_destroy(other);
	OK(vg_memory_resource_close(again));
	vg_memory_resource_destroy(again);
	OK(vg_stream_sync(b->stream));
	CHECK_INT(read_word(one, b->stream), m->word);
	vg_buffer_destroy(one);
	OK(vg_stream_sync(b->stream));
}

struct importer {
	struct message *message;
	struct vg_memory_resource *pool;
	struct bench *bench;
	pthread_t thread;
};

static void *import_often(void *of)
{
	const struct importer *importer = of;
	struct vg_stream *stream;
	struct vg_buffer *buffer;

	OK(vg_stream_create(importer->bench->context, NULL, &stream));
	for (int i = 0; i < 200; i++) {
		OK(vg_buffer_import(importer->pool, &importer->message->buffer, sizeof importer->message->buffer,
				    stream, &buffer));
		CHECK_INT(read_word(buffer, stream), importer->message->word);
		vg_buffer_destroy(buffer);
	}
	OK(vg_stream_sync(stream));
	vg_stream_destroy(stream);
	return NULL;
}

static void check_threads(struct message *m, struct vg_memory_resource *pool, struct bench *b)
{
	struct importer importers[4];
	struct vg_buffer *held;

	OK(vg_buffer_import(pool, &m->buffer, sizeof m->buffer, b->stream, &held));
	for (int i = 0; i < 4; i++) {
		importers[i] = (struct importer){m, pool, b, 0};
		CHECK_INT(pthread_create(&importers[i].thread, NULL, import_often, &importers[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK_INT(pthread_join(importers[i].thread, NULL), 0);
	CHECK_INT(read_word(held, b->stream), m->word);
	vg_buffer_destroy(held);
	OK(vg_stream_sync(b->stream));
}

static void use_import(int socket, int pinned)
{
	struct message m;
	int descriptor = receive_message(socket, &m);
	struct bench b = open_bench();
	struct vg_memory_resource *pool, *again, *known;
	struct vg_stream *stream;

	OK(vg_stream_create(b.context, NULL, &stream));
	OK(import_pool(pinned, b.device, descriptor, &pool));
	OK(import_pool(pinned, b.device, descriptor, &again));
	CHECK(fcntl(descriptor, F_GETFD) >= 0); // still open
	CHECK(vg_memory_pool_is_mapped(pool) && vg_memory_pool_is_shareable(pool) && vg_memory_pool_is_owned(pool));
	check_registry(&m, pool, again);
	check_two_pools(&m, pool, again, &b);
	check_descriptor_claims(&m, pool, &b);
	check_any_order(&m, pool, &b);
	check_threads(&m, pool, &b);
	use_buffer(&m, pool, &b, stream);
	REFUSED(vg_memory_pool_find(m.uuid, &known), VG_NOT_FOUND, "import it, and register it");
	free_in_order(&m, descriptor, pinned, &b, stream);
	close(descriptor);
	vg_stream_destroy(stream);
	close_bench(&b);
	signal_or_wait(socket, 0);
}

static void use_device_import(int socket)
{
	use_import(socket, 0);
}

static void use_pinned_import(int socket)
{
	use_import(socket, 1);
}

static void share_pool(int socket, int pinned)
{
	int descriptor = -1;
	struct bench b = open_bench();
	struct vg_memory_resource *pool, *known;
	struct message m = {.word = 4711};
	struct vg_buffer *buffer;

	if (pinned)
		OK(vg_pinned_pool_create(
			b.device,
			&(struct vg_pinned_pool_options){.size = sizeof(struct vg_pinned_pool_options), .shareable = 1},
			&pool));
	else
		OK(vg_device_pool_create(
			b.device,
			&(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .shareable = 1},
			&pool));
	CHECK(vg_memory_pool_is_shareable(pool) && !vg_memory_pool_is_mapped(pool));
	OK(vg_buffer_create(pool, SIZE, b.stream, &buffer));
	CHECK(!vg_buffer_is_mapped(buffer));
	OK(vg_buffer_fill(buffer, &(unsigned){4711}, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	OK(vg_memory_pool_export(pool, &descriptor));
	CHECK(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
	OK(vg_memory_pool_uuid(pool, m.uuid));
	REFUSED(vg_memory_pool_find(m.uuid, &known), VG_NOT_FOUND, "no pool of this UUID");
	OK(vg_buffer_export(buffer, &m.buffer));
	CHECK_INT(m.buffer.size, SIZE);
	send_message(socket, &m, descriptor);
	close(descriptor);
	signal_or_wait(socket, 1);
	CHECK_INT(read_word(buffer, b.stream), 4712);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(pool);
	close_bench(&b);
}

static void share_device(int socket)
{
	share_pool(socket, 0);
}

static void share_pinned(int socket)
{
	share_pool(socket, 1);
}

TEST(a_device_pool_and_its_buffer_in_another_process)
{
	run_both(share_device, use_device_import);
}

TEST(a_pinned_pool_and_its_buffer_in_another_process)
{
	run_both(share_pinned, use_pinned_import);
}

// ---- physical memory ---------------------------------------------------------------------------------

static void map_memory(int socket)
{
	struct message m;
	int descriptor = receive_message(socket, &m);
	struct bench b = open_bench();
	struct vg_physical_memory *memory;
	struct vg_address_range *range;
	struct vg_mapping *mapping;
	struct vg_buffer *buffer;
	size_t size = m.buffer.size;

	OK(vg_physical_memory_import(b.device, descriptor, size, &memory));
	close(descriptor);
	OK(vg_address_range_create(size, 0, 0, &range));
	OK(vg_mapping_create(range, 0, memory, &mapping));
	vg_physical_memory_destroy(memory);
	vg_address_range_destroy(range);
	OK(vg_mapping_set_access(mapping, &b.device, 1, VG_ACCESS_READ_WRITE));
	OK(vg_buffer_borrow(vg_mapping_address(mapping), size, NULL, &buffer));
	CHECK_INT(read_word(buffer, b.stream), 815);
	OK(vg_buffer_fill(buffer, &(unsigned){816}, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	vg_buffer_destroy(buffer);
	vg_mapping_destroy(mapping);
	close_bench(&b);
	signal_or_wait(socket, 0);
}

static void share_memory(int socket)
{
	int descriptor;
	struct bench b = open_bench();
	struct message m = {0};
	struct vg_physical_memory *memory;
	struct vg_address_range *range;
	struct vg_mapping *mapping;
	struct vg_buffer *buffer;

	OK(vg_physical_memory_create(b.device, SIZE, NULL, &memory));
	m.buffer.size = vg_physical_memory_size(memory);
	OK(vg_address_range_create(m.buffer.size, 0, 0, &range));
	OK(vg_mapping_create(range, 0, memory, &mapping));
	OK(vg_mapping_set_access(mapping, &b.device, 1, VG_ACCESS_READ_WRITE));
	OK(vg_buffer_borrow(vg_mapping_address(mapping), m.buffer.size, NULL, &buffer));
	OK(vg_buffer_fill(buffer, &(unsigned){815}, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	OK(vg_physical_memory_export(memory, &descriptor));
	CHECK(fcntl(descriptor, F_GETFD) & FD_CLOEXEC);
	send_message(socket, &m, descriptor);
	close(descriptor);
	signal_or_wait(socket, 1);
	CHECK_INT(read_word(buffer, b.stream), 816);
	vg_buffer_destroy(buffer);
	vg_mapping_destroy(mapping);
	vg_address_range_destroy(range);
	vg_physical_memory_destroy(memory);
	close_bench(&b);
}

TEST(physical_memory_in_another_process)
{
	run_both(share_memory, map_memory);
}

// ---- refusals within one process -----------------------------------------------------------------------

static void check_refusals(int socket)
{
	struct bench b = open_bench();
	struct vg_memory_resource *pool = NULL, *shareable, *plain;
	struct vg_buffer_descriptor descriptor;
	struct vg_buffer *buffer;
	unsigned char uuid[16];
	int fd = -1;

	REFUSED(vg_memory_pool_export(b.pool, &fd), VG_STATE, "the device pool is not shareable");
	REFUSED(vg_memory_pool_uuid(b.pool, uuid), VG_STATE, "it is not shareable");
	REFUSED(vg_memory_pool_register(b.pool, uuid, &pool), VG_INVALID, "is not shareable");
	REFUSED(vg_device_pool_import(b.device, -1, &pool), VG_INVALID, "descriptor -1 is not open");
	REFUSED(vg_device_pool_import(b.device, socket, &pool), VG_DRIVER, "cuMemPoolImportFromShareableHandle");
	REFUSED(vg_pinned_pool_import(b.device, 77777, &pool), VG_INVALID, "descriptor 77777 is not open");
	REFUSED(vg_device_pool_import(NULL, socket, &pool), VG_INVALID, "device is NULL");
	REFUSED(vg_memory_pool_find(NULL, &pool), VG_INVALID, "uuid is NULL");
	OK(vg_buffer_create(b.pool, 64, b.stream, &buffer));
	REFUSED(vg_buffer_export(buffer, &descriptor), VG_STATE, "the buffer's pool is not shareable");
	vg_buffer_destroy(buffer);
	OK(vg_synchronous_resource_create(b.context, &plain));
	OK(vg_buffer_create(plain, 64, NULL, &buffer));
	REFUSED(vg_buffer_export(buffer, &descriptor), VG_INVALID, "the buffer is not of a memory pool");
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(plain);
	OK(vg_device_pool_create(
		b.device,
		&(struct vg_device_pool_options){.size = sizeof(struct vg_device_pool_options), .shareable = 1},
		&shareable));
	OK(vg_buffer_create(shareable, 0, b.stream, &buffer));
	REFUSED(vg_buffer_export(buffer, &descriptor), VG_INVALID, "the buffer has 0 bytes");
	vg_buffer_destroy(buffer);
	// A pool has its UUID. After its registration, other users in the process find it by UUID.
	OK(vg_memory_pool_uuid(shareable, uuid));
	OK(vg_memory_pool_register(shareable, uuid, &pool));
	CHECK(pool == shareable);
	OK(vg_memory_resource_close(shareable));
	vg_memory_resource_destroy(pool);
	REFUSED(vg_memory_pool_find(uuid, &pool), VG_NOT_FOUND, "no pool of this UUID");
	vg_memory_resource_destroy(shareable);
	close_bench(&b);
}

TEST(invalid_exports_and_imports_are_refused)
{
	run_both(check_refusals, check_refusals);
}
