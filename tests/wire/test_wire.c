// Tests the frames of messages and the descriptors that come with them, for valid and hostile messages.
#include "wire/wire.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int ends[2];
static struct vg_wire_message message;

static void open_pair(void)
{
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_pair(void)
{
	close(ends[0]);
	close(ends[1]);
}

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int send_and_receive(const void *packet, size_t length)
{
	open_pair();
	CHECK_INT(send(ends[0], packet, length, 0), (long)length);
	int r = vg_wire_receive(ends[1], &message);
	close_pair();
	return r;
}

TEST(text_and_descriptors_are_received)
{
	const char *text = "{\"op\":\"ping\"}";
	int sent[VG_WIRE_DESCRIPTORS_MAX];

	open_pair();
	for (int i = 0; i < VG_WIRE_DESCRIPTORS_MAX; i++)
		sent[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK_INT(vg_wire_send(ends[0], VG_WIRE_ADMIN, 0, text, strlen(text), sent, VG_WIRE_DESCRIPTORS_MAX), 0);
	CHECK_INT(vg_wire_receive(ends[1], &message), 0);
	CHECK_INT(message.type, VG_WIRE_ADMIN);
	CHECK_STR(message.text, text);
	CHECK_INT(message.descriptor_count, VG_WIRE_DESCRIPTORS_MAX);
	for (int i = 0; i < VG_WIRE_DESCRIPTORS_MAX; i++) {
		CHECK_INT(fcntl(message.descriptors[i], F_GETFD), FD_CLOEXEC);
		close(message.descriptors[i]);
		close(sent[i]);
	}
	close(ends[0]);
	CHECK_INT(vg_wire_receive(ends[1], &message), -ECONNRESET);
	close(ends[1]);
}

TEST(registration_is_received)
{
	struct vg_wire_registration registration = {.pid = 7, .pid_namespace = 8, .start_time = 9, .ledger = "train"};

	open_pair();
	CHECK_INT(vg_wire_send(ends[0], VG_WIRE_REGISTRATION, 0, &registration, sizeof registration, NULL, 0), 0);
	CHECK_INT(vg_wire_receive(ends[1], &message), 0);
	CHECK_INT(message.type, VG_WIRE_REGISTRATION);
	CHECK_INT(memcmp(&message.registration, &registration, sizeof registration), 0);
	close_pair();
}

static struct vg_wire_header make_header(uint16_t type, uint32_t size)
{
	return (struct vg_wire_header){.magic = VG_WIRE_MAGIC, .version = VG_WIRE_VERSION, .type = type, .size = size};
}

static int receive_packet(struct vg_wire_header header, const void *payload, size_t length)
{
	char packet[256];

	memcpy(packet, &header, sizeof header);
	memcpy(packet + sizeof header, payload, length);
	return send_and_receive(packet, sizeof header + length);
}

TEST(invalid_messages_are_refused)
{
	struct vg_wire_header header = make_header(VG_WIRE_ADMIN, 4);
	struct vg_wire_registration registration = {.pid = 7};

	CHECK_INT(receive_packet(header, "text", 4), 0);
	CHECK_INT(receive_packet(header, "tex", 3), -EPROTO); // truncated
	CHECK_INT(receive_packet(header, "texts", 5), -EPROTO);
	CHECK_INT(receive_packet(header, "te\0t", 4), -EPROTO);
	CHECK_INT(send_and_receive("VG", 2), -EPROTO);
	CHECK_INT(receive_packet(make_header(VG_WIRE_ADMIN, 0), "", 0), -EPROTO);
	CHECK_INT(receive_packet(make_header(0, 4), "text", 4), -EPROTO);
	CHECK_INT(receive_packet(make_header(99, 4), "text", 4), -EPROTO);
	header.magic++;
	CHECK_INT(receive_packet(header, "text", 4), -EPROTO);
	header = make_header(VG_WIRE_ADMIN, 4), header.version = 2;
	CHECK_INT(receive_packet(header, "text", 4), -EPROTO);
	// VG_WIRE_MORE says that the text continues in the next message, which only replies may do
	header = make_header(VG_WIRE_ADMIN, 4), header.flags = VG_WIRE_MORE;
	CHECK_INT(receive_packet(header, "text", 4), -EPROTO);
	header = make_header(VG_WIRE_ADMIN, UINT32_MAX);
	CHECK_INT(receive_packet(header, "text", 4), -EPROTO);
	CHECK_INT(receive_packet(make_header(VG_WIRE_REGISTRATION, sizeof registration), &registration,
				 sizeof registration),
		  0);
	CHECK_INT(receive_packet(make_header(VG_WIRE_REGISTRATION, sizeof registration - 1), &registration,
				 sizeof registration - 1),
		  -EPROTO);
	memset(registration.ledger, 'x', sizeof registration.ledger); // the name has no zero byte at its end
	CHECK_INT(receive_packet(make_header(VG_WIRE_REGISTRATION, sizeof registration), &registration,
				 sizeof registration),
		  -EPROTO);
	memset(&registration, 0, sizeof registration);
	CHECK_INT(receive_packet(make_header(VG_WIRE_REGISTRATION, sizeof registration), &registration,
				 sizeof registration),
		  -EPROTO);
}

TEST(too_long_text_is_refused)
{
	static char packet[sizeof(struct vg_wire_header) + VG_WIRE_TEXT_MAX + 100];

	for (uint32_t more = 0; more < 4; more++) {
		struct vg_wire_header header = make_header(VG_WIRE_ADMIN, VG_WIRE_TEXT_MAX + more);
		memset(packet, 'x', sizeof packet);
		memcpy(packet, &header, sizeof header);
		CHECK_INT(send_and_receive(packet, sizeof header + header.size), more ? -EPROTO : 0);
	}
	CHECK_INT(vg_wire_send(-1, VG_WIRE_ADMIN, 0, packet, VG_WIRE_TEXT_MAX + 1, NULL, 0), -EMSGSIZE);
}

TEST(too_many_descriptors_are_closed)
{
	enum { MANY = VG_WIRE_DESCRIPTORS_MAX + 5 };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * MANY)] = {0};
	struct vg_wire_header header = make_header(VG_WIRE_ADMIN, 4);
	struct iovec parts[2] = {{&header, sizeof header}, {(char[]){"text"}, 4}};
	struct msghdr raw = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&raw);
	int descriptors[MANY];

	open_pair();
	for (int i = 0; i < MANY; i++)
		descriptors[i] = ends[0];
	rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS,
	rights->cmsg_len = CMSG_LEN(sizeof descriptors);
	memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
	int before = count_descriptors();
	CHECK_INT(sendmsg(ends[0], &raw, 0), (long)(sizeof header + 4));
	CHECK_INT(vg_wire_receive(ends[1], &message), -EPROTO);
	CHECK_INT(count_descriptors(), before);
	// The descriptors that come with an invalid message must be closed, too.
	header.version = 9;
	raw.msg_controllen = CMSG_SPACE(sizeof(int) * 2), rights->cmsg_len = CMSG_LEN(sizeof(int) * 2);
	CHECK_INT(sendmsg(ends[0], &raw, 0), (long)(sizeof header + 4));
	CHECK_INT(vg_wire_receive(ends[1], &message), -EPROTO);
	CHECK_INT(count_descriptors(), before);
	close_pair();
}

static void *answer_in_parts(void *argument)
{
	int fd = accept(*(int *)argument, NULL, NULL);
	static struct vg_wire_message request;

	if (vg_wire_receive(fd, &request) == 0) {
		vg_wire_send(fd, VG_WIRE_REPLY, VG_WIRE_MORE, "{\"a\":", 5, NULL, 0);
		vg_wire_send(fd, VG_WIRE_REPLY, VG_WIRE_MORE, "[1,2", 4, NULL, 0);
		vg_wire_send(fd, VG_WIRE_REPLY, 0, "]}", 2, NULL, 0);
	}
	close(fd);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK_INT(vg_wire_address(path, &address), 0);
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(fd, 1), 0);
	return fd;
}

TEST(request_gets_answer_in_parts)
{
	char directory[] = "/tmp/test-wire-XXXXXX", path[64], long_path[200], *answer;
	pthread_t thread;

	CHECK(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/socket", directory);
	int listening = listen_at(path);
	CHECK_INT(pthread_create(&thread, NULL, answer_in_parts, &listening), 0);
	CHECK_INT(vg_wire_request(path, "{}", 5000, &answer), 0);
	CHECK_STR(answer, "{\"a\":[1,2]}");
	free(answer);
	pthread_join(thread, NULL);
	// no process accepts the connection, so the call must not wait
	CHECK_INT(vg_wire_request(path, "{}", 100, &answer), -EAGAIN);
	struct vg_wire_registration registration = {.pid = 1};
	int r = 0;
	for (int i = 0; i < 10 && r == 0; i++) // connect until the queue of connections is full; no call may wait
		r = vg_wire_register(path, &registration, -1);
	CHECK_INT(r, -EAGAIN);
	close(listening);
	CHECK_INT(vg_wire_request(path, "{}", 100, &answer), -ECONNREFUSED);
	unlink(path);
	CHECK_INT(vg_wire_request(path, "{}", 100, &answer), -ENOENT);
	memset(long_path, 'x', sizeof long_path - 1), long_path[sizeof long_path - 1] = '\0';
	CHECK_INT(vg_wire_request(long_path, "{}", 100, &answer), -ENAMETOOLONG);
	rmdir(directory);
}

// ---- whom a client trusts -------------------------------------------------------------------------------

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(77);
	close(fd);
}

// Connects to /mnt/s as an ordinary user, and exits with the error, or with 0. With `map`, does so in a user namespace
// that has only this user, as a container without root. 77: that is not possible here.
static void connect_as_another_user(const char *map)
{
	if (setresuid(65534, 65534, 65534) < 0 || (map && unshare(CLONE_NEWUSER) < 0))
		_exit(77);
	prctl(PR_SET_DUMPABLE, 1); // setresuid() has given /proc/self to root
	if (map)
		write_file("/proc/self/uid_map", map);
	int fd = vg_wire_connect("/mnt/s", 1000);
	_exit(fd < 0 ? -fd : 0);
}

// Listens at /mnt/s as the user `listener`, in a directory with this mode, and connects to it. Returns the exit status
// of connect_as_another_user().
static int trust(uid_t listener, mode_t mode, const char *map)
{
	struct sockaddr_un address;
	int status;

	pid_t pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("none", "/mnt", "tmpfs", 0, NULL) < 0)
			_exit(77);
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		vg_wire_address("/mnt/s", &address);
		if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || chmod("/mnt/s", 0666) < 0 ||
		    chmod("/mnt", mode) < 0 || seteuid(listener) < 0 || listen(fd, 8) < 0 || seteuid(0) < 0)
			_exit(78);
		pid = fork();
		if (pid == 0)
			connect_as_another_user(map);
		waitpid(pid, &status, 0);
		_exit(WEXITSTATUS(status));
	}
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

TEST(client_trusts_root_and_its_own_user)
{
	if (geteuid() != 0)
		SKIP("needs root, to be several users");
	int root = trust(0, 0755, NULL);
	if (root == 77)
		SKIP("needs the right to mount");
	CHECK_INT(root, 0);
	CHECK_INT(trust(65534, 0755, NULL), 0);
	CHECK_INT(trust(1, 0755, NULL), EPERM);
}

TEST(client_in_a_user_namespace_trusts_protected_directories)
{
	if (geteuid() != 0)
		SKIP("needs root, to be several users");
	int root = trust(0, 0755, "0 65534 1");
	if (root == 77)
		SKIP("needs the right to make namespaces");
	CHECK_INT(root, 0);
	CHECK_INT(trust(65534, 0777, "0 65534 1"), 0);
	CHECK_INT(trust(0, 0775, "0 65534 1"), EPERM);
	CHECK_INT(trust(0, 0757, "0 65534 1"), EPERM);
	CHECK_INT(trust(0, 01777, "0 65534 1"), EPERM);
	CHECK_INT(trust(1, 0777, "0 65534 1"), EPERM);
}
