// Tests packets of an offer over both types of socket: contents, and refusals of invalid data from a hostile peer.
#include "share/channel.h"
#include "count_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET};
static int ends[2];
static struct share_channel channel;
static struct share_packet sent, got;

static void open_pair(int kind, int timeout_ms)
{
	CHECK_INT(socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, ends), 0);
	CHECK_INT(share_channel_open(ends[1], timeout_ms, &channel), VG_OK);
}

static void close_pair(void)
{
	close(ends[0]);
	close(ends[1]);
}

static struct share_channel other_end(int timeout_ms)
{
	struct share_channel other;

	CHECK_INT(share_channel_open(ends[0], timeout_ms, &other), VG_OK);
	return other;
}

static struct share_entry *entries(struct share_packet *packet)
{
	return (struct share_entry *)packet->body;
}

// Fills `sent` with `count` ranges. Each range has a seal of another length, and a pipe in place of memory.
static void fill(unsigned count)
{
	memset(&sent, 0, sizeof sent);
	sent.header = (struct share_header){.magic = SHARE_MAGIC,
					    .version = SHARE_VERSION,
					    .count = (uint16_t)count,
					    .total = count,
					    .size = count * (uint32_t)sizeof(struct share_entry)};
	for (unsigned i = 0; i < count; i++) {
		entries(&sent)[i] = (struct share_entry){.bytes = 1 << 20,
							 .mapped = 2 << 20,
							 .granularity = 2 << 20,
							 .generation = i,
							 .access = i % 2,
							 .seal = i};
		memset(sent.body + sent.header.size, 'a' + (int)i, i);
		sent.header.size += i;
		sent.rights.descriptors[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	sent.rights.count = count;
}

static void release(struct share_packet *packet)
{
	while (packet->rights.count)
		close(packet->rights.descriptors[--packet->rights.count]);
}

TEST(packet_arrives_with_its_descriptors)
{
	int before = count_entries("/proc/self/fd");

	for (unsigned kind = 0; kind < 2; kind++)
		for (unsigned count = 1; count <= SHARE_PACKET_RANGES; count++) {
			open_pair(kinds[kind], 1000);
			fill(count);
			struct share_channel other = other_end(1000);
			CHECK_INT(share_packet_send(&other, &sent), VG_OK);
			// send two packets without a pause: the receiver must see two
			CHECK_INT(share_packet_send(&other, &sent), VG_OK);
			for (int i = 0; i < 2; i++) {
				CHECK_INT(share_packet_receive(&channel, &got), VG_OK);
				CHECK_INT(got.header.count, count);
				CHECK(memcmp(got.body, sent.body, sent.header.size) == 0);
				CHECK_INT(got.rights.count, count);
				CHECK_INT(fcntl(got.rights.descriptors[0], F_GETFD), FD_CLOEXEC);
				release(&got);
			}
			release(&sent);
			close_pair();
		}
	CHECK_INT(count_entries("/proc/self/fd"), before);
}

static void send_raw(const void *bytes, size_t size, unsigned descriptors)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {0};
	struct iovec part = {(void *)bytes, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	int fds[253];

	if (descriptors) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors);
		*CMSG_FIRSTHDR(&message) =
			(struct cmsghdr){CMSG_LEN(sizeof(int) * descriptors), SOL_SOCKET, SCM_RIGHTS};
		for (unsigned i = 0; i < descriptors; i++)
			fds[i] = STDERR_FILENO;
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, sizeof(int) * descriptors);
	}
	CHECK_INT(sendmsg(ends[0], &message, MSG_NOSIGNAL), (long)size);
}

static size_t packed(char *bytes)
{
	memcpy(bytes, &sent.header, sizeof sent.header);
	memcpy(bytes + sizeof sent.header, sent.body, sent.header.size);
	return sizeof sent.header + sent.header.size;
}

// Sends the packet in `sent` as it is, with `descriptors` descriptors, over both types of socket. Checks that the
// receiver refuses the packet with this text, and closes all descriptors.
static void refused(unsigned descriptors, const char *words)
{
	static char bytes[sizeof sent.header + SHARE_BODY_MAX];

	release(&sent);
	for (unsigned kind = 0; kind < 2; kind++) {
		int before = count_entries("/proc/self/fd");
		open_pair(kinds[kind], 1000);
		send_raw(bytes, packed(bytes), descriptors);
		CHECK_INT(share_packet_receive(&channel, &got), VG_PROTOCOL);
		CHECK_CONTAINS(vg_last_error()->text, words);
		close_pair();
		CHECK_INT(count_entries("/proc/self/fd"), before);
	}
}

#define LIE(count, descriptors, words, ...)  \
	do {                                 \
		fill(count);                 \
		__VA_ARGS__;                 \
		refused(descriptors, words); \
	} while (0)

TEST(invalid_header_is_refused)
{
	LIE(1, 1, "this is no offer of memory", sent.header.magic ^= 1);
	LIE(1, 1, "version 2, and this library knows version 1", sent.header.version = 2);
	LIE(1, 1, "a field of the header that must be 0 is 7", sent.header.zero = 7);
	LIE(1, 1, "the offer has 0 ranges", sent.header.total = 0);
	LIE(1, 1, "the offer has 65537 ranges", sent.header.total = SHARE_RANGES_MAX + 1);
	LIE(1, 1, "a packet has 0 ranges", sent.header.count = 0);
	LIE(1, 1, "a packet has 9 ranges", sent.header.count = 9, sent.header.total = 9);
	LIE(2, 2, "ranges 1 to 2 of an offer of 2", sent.header.first = 1);
	LIE(1, 1, "ranges 4294967295 to 4294967295 of an offer of 1", sent.header.first = UINT32_MAX);
	LIE(3, 3, "a packet of 3 ranges has 191 bytes", sent.header.size = 191);
}

TEST(invalid_range_is_refused)
{
	struct share_entry *entry = entries(&sent);

	LIE(1, 1, "its granularity is 0", entry->granularity = 0);
	LIE(1, 1, "its granularity is 2048", entry->granularity = 2048);
	LIE(1, 1, "its granularity is 2097153", entry->granularity++);
	LIE(1, 1, "range 0 has no bytes", entry->bytes = 0);
	LIE(2, 2, "range 1: 2097153 bytes are mapped, which is no multiple", entry[1].mapped++);
	LIE(1, 1, "cannot be what", entry->bytes = entry->mapped + 1);
	LIE(1, 1, "cannot be what", entry->mapped *= 2);
	LIE(1, 1, "cannot be what 0 mapped bytes were made for", entry->mapped = 0);
	LIE(1, 1, "cannot have it at 0x1000", entry->address = 0x1000);
	LIE(1, 1, "cannot have it at", entry->address = -(2ull << 20), entry->mapped = 4 << 20, entry->bytes = 4 << 20);
	LIE(1, 1, "its access is 2", entry->access = 2);
	LIE(1, 1, "its seal has 2048 bytes", entry->seal = SHARE_SEAL_MAX + 1);
	LIE(3, 3, "range 2: its seal ends past the packet", entry[2].seal++);
	LIE(3, 3, "1 bytes behind its ranges that belong to none", sent.header.size++);
	LIE(2, 2, "range 1: its seal is not one line of plain text", sent.body[sent.header.size - 1] = '\n');
}

TEST(each_range_needs_one_descriptor)
{
	LIE(2, 0, "0 descriptors came with 2 ranges", (void)0);
	LIE(2, 1, "1 descriptors came with 2 ranges", (void)0);
	LIE(2, 3, "3 descriptors came with 2 ranges", (void)0);
	LIE(1, 253, "253 descriptors came with 1 ranges", (void)0);
	// The peer of a stream socket may attach the descriptors to any byte.
	int before = count_entries("/proc/self/fd");
	char bytes[1024];
	fill(2);
	size_t size = packed(bytes);
	open_pair(SOCK_STREAM, 1000);
	send_raw(bytes, 30, 2);
	send_raw(bytes + 30, size - 30, 1);
	CHECK_INT(share_packet_receive(&channel, &got), VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "3 descriptors came with 2 ranges");
	close_pair();
	release(&sent);
	CHECK_INT(count_entries("/proc/self/fd"), before);
}

TEST(lost_descriptors_are_reported)
{
	struct rlimit limit, low;

	CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
	for (unsigned kind = 0; kind < 2; kind++) {
		fill(4);
		open_pair(kinds[kind], 1000);
		struct share_channel other = other_end(1000);
		CHECK_INT(share_packet_send(&other, &sent), VG_OK);
		release(&sent);
		int next = dup(0);
		close(next);
		low = (struct rlimit){(rlim_t)next + 2, limit.rlim_max};
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
		enum vg_status status = share_packet_receive(&channel, &got);
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
		CHECK_INT(status, VG_SYSTEM);
		CHECK_INT(vg_last_error()->code, EMFILE);
		CHECK_CONTAINS(vg_last_error()->text, "ulimit -n");
		CHECK_INT(dup(0), next); // the received descriptors were closed
		close(next);
		close_pair();
	}
}

TEST(truncated_message_is_refused)
{
	int before = count_entries("/proc/self/fd");
	char bytes[1024];

	for (unsigned kind = 0; kind < 2; kind++) {
		fill(2);
		size_t size = packed(bytes);
		for (size_t cut = 0; cut < size; cut++) {
			open_pair(kinds[kind], 1000);
			if (cut)
				send_raw(bytes, cut, 2);
			shutdown(ends[0], SHUT_WR);
			enum vg_status status = share_packet_receive(&channel, &got);
			CHECK_INT(status, cut ? VG_PROTOCOL : VG_SYSTEM);
			if (!cut)
				CHECK_INT(vg_last_error()->code, ECONNRESET);
			close_pair();
		}
		release(&sent);
	}
	CHECK_INT(count_entries("/proc/self/fd"), before);
}

TEST(receive_times_out_with_a_stopped_peer)
{
	char bytes[1024];

	for (unsigned kind = 0; kind < 2; kind++) {
		open_pair(kinds[kind], 20);
		CHECK_INT(share_packet_receive(&channel, &got), VG_NOT_READY);
		CHECK_CONTAINS(vg_last_error()->text, "did not send its message within 20 ms");
		close_pair();
	}
	fill(2);
	packed(bytes);
	release(&sent);
	open_pair(SOCK_STREAM, 20);
	send_raw(bytes, 40, 0);
	CHECK_INT(share_packet_receive(&channel, &got), VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "stopped after 40 of 153 bytes");
	close_pair();
}

TEST(send_times_out_with_a_stopped_peer)
{
	enum vg_status status = VG_OK;

	for (unsigned kind = 0; kind < 2; kind++) {
		open_pair(kinds[kind], 1000);
		fill(8);
		struct share_channel other = other_end(50);
		for (int i = 0; i < 100000 && (status = share_packet_send(&other, &sent)) == VG_OK; i++)
			;
		CHECK(status == VG_NOT_READY || (kinds[kind] == SOCK_STREAM && status == VG_PROTOCOL));
		CHECK_CONTAINS(vg_last_error()->text, "within 50 ms");
		release(&sent);
		close_pair();
	}
}

TEST(closed_connection_differs_from_a_timeout)
{
	for (unsigned kind = 0; kind < 2; kind++) {
		fill(1);
		open_pair(kinds[kind], 1000);
		struct share_channel other = other_end(1000);
		close(ends[1]);
		CHECK_INT(share_packet_send(&other, &sent), VG_SYSTEM); // without SIGPIPE
		CHECK_INT(vg_last_error()->code, ECONNRESET);
		CHECK_CONTAINS(vg_last_error()->text, "closed the connection before it sent or took the offer");
		close(ends[0]);
		release(&sent);
	}
}

static void *slow_reader(void *unused)
{
	usleep(20000);
	for (int i = 0; i < 40; i++) {
		if (share_packet_receive(&channel, &got) != VG_OK || memcmp(got.body, sent.body, sent.header.size) != 0)
			return "wrong";
		release(&got);
	}
	return NULL;
}

// A stream socket may accept a packet in pieces. The descriptors must then be sent only with one of them.
TEST(slow_reader_receives_all)
{
	for (unsigned kind = 0; kind < 2; kind++) {
		pthread_t reader;
		void *wrong;
		int little = 4608; // the buffer has room for about two packets
		open_pair(kinds[kind], 5000);
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
		fill(8);
		CHECK_INT(pthread_create(&reader, NULL, slow_reader, NULL), 0);
		struct share_channel other = other_end(5000);
		for (int i = 0; i < 40; i++)
			CHECK_INT(share_packet_send(&other, &sent), VG_OK);
		pthread_join(reader, &wrong);
		CHECK(!wrong);
		release(&sent);
		close_pair();
	}
}

TEST(bytes_with_descriptors_are_refused)
{
	char word[4];

	open_pair(SOCK_STREAM, 20);
	struct share_channel other = other_end(20);
	CHECK_INT(share_bytes_send(&other, "word", 4), VG_OK);
	CHECK_INT(share_bytes_receive(&channel, word, 4), VG_OK);
	CHECK(memcmp(word, "word", 4) == 0);
	int before = count_entries("/proc/self/fd");
	send_raw("word", 4, 3);
	CHECK_INT(share_bytes_receive(&channel, word, 4), VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "3 descriptors came with an answer that has none");
	CHECK_INT(count_entries("/proc/self/fd"), before);
	send_raw("wo", 2, 0);
	CHECK_INT(share_bytes_receive(&channel, word, 4), VG_PROTOCOL);
	CHECK_INT(share_bytes_receive(&channel, word, 4), VG_NOT_READY);
	close_pair();
}

TEST(unsuitable_descriptors_are_refused)
{
	int datagrams[2], network = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int alone = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_INT(share_channel_open(-1, 0, &channel), VG_INVALID);
	CHECK_INT(share_channel_open(STDOUT_FILENO, 0, &channel), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "is no socket");
	CHECK_INT(share_channel_open(network, 0, &channel), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "is no unix socket");
	CHECK_INT(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
	CHECK_INT(share_channel_open(datagrams[0], 0, &channel), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "datagrams");
	CHECK_INT(share_channel_open(alone, 0, &channel), VG_OK);
	CHECK_INT(share_channel_check_peer(&channel), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "is not connected");
	close(network);
	close(alone);
	close(datagrams[0]);
	close(datagrams[1]);
}

// Checks a peer of another user. The user `maker` creates the socket pair in a process of its own, and the user
// `checker` checks the peer, for which SO_PEERCRED names the creator.
static enum vg_status peer_check_as(uid_t maker, uid_t checker)
{
	int status;

	pid_t child = fork();
	if (child == 0) {
		if (setresuid(maker, maker, 0) != 0)
			_exit(100);
		open_pair(SOCK_STREAM, 0);
		if (setresuid(-1, 0, -1) != 0 || setresuid(checker, checker, 0) != 0)
			_exit(100);
		enum vg_status result = share_channel_check_peer(&channel);
		if (result == VG_DENIED && !strstr(vg_last_error()->text, "and this process is user"))
			_exit(101);
		_exit((int)result);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return (enum vg_status)WEXITSTATUS(status);
}

TEST(peers_of_other_users_are_refused)
{
	open_pair(SOCK_SEQPACKET, 0);
	CHECK_INT(share_channel_check_peer(&channel), VG_OK);
	close_pair();
	if (geteuid() != 0)
		SKIP("only root can be other users");
	CHECK_INT(peer_check_as(1001, 1001), VG_OK);
	CHECK_INT(peer_check_as(1001, 1002), VG_DENIED);
	CHECK_INT(peer_check_as(0, 1002), VG_OK);
	CHECK_INT(peer_check_as(1001, 0), VG_DENIED); // root must also refuse peers that run as another user
}
