// Fuzzes the complete daemon, one step of its loop at a time. Two users connect, send messages and descriptors, write
// to their ledgers, truncate them, and end; and time passes. The input has records of {action, which, length, bytes}.
// The users are two processes, so that the kernel reports their credentials. If the fuzzer runs as root, each has a
// user id of its own.
#include "daemon/directory.h"
#include "daemon/discard.h"
#include "daemon/loop.h"
#include "daemon/say.h"
#include "daemon/start.h"
#include "daemon/verbs.h"
#include "daemon/work.h"
#include "wire/wire.h"

#include "base/clock.h"
#include "base/descriptor.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
uint64_t __real_vg_clock_monotonic_ns(void);
uint64_t __wrap_vg_clock_monotonic_ns(void);

enum { USERS = 2, PEERS = 8, VGPUS = 3, FIRST_UID = 60001, MOST_STEPS = 64, MOST_DESCRIPTORS = 4000 };
enum action {
	CONNECT,
	REQUEST,
	TEXT,
	REGISTER,
	GUEST,
	SHARE,
	PACKET,
	WRITE,
	RESIZE,
	CLOSE,
	WAIT,
	MAP,
	END,
	REPLACE,
	ACTIONS
};

static struct node node = {.system_wide = true,
			   .listener.fd = -1,
			   .signals.fd = -1,
			   .name_lock.fd = -1,
			   .lock_fd = -1,
			   .epoll_fd = -1,
			   .directory = -1};
static char directory[64];
static const char *const vgpus[VGPUS] = {"a", "b", "c"};
static int peers[PEERS];
static uint64_t passed_ns;

// ---- time and messages of the daemon ---------------------------------------------------------------------

uint64_t __wrap_vg_clock_monotonic_ns(void)
{
	return __real_vg_clock_monotonic_ns() + passed_ns;
}

void say_line(struct say_kind *kind, const char *format, ...)
{
}

void say_left_out(uint64_t now, uint64_t *deadline)
{
}

// ---- users -----------------------------------------------------------------------------------------------

static struct player {
	pid_t pid;
	// `order` is a pipe for orders to the process; `answer` is a socket for the descriptors that it sends
	int order, answer;
	// The process has mapped a ledger, or was killed. It is replaced before its next order and the next input.
	bool is_used;
} users[USERS];

static void send_descriptor(int channel, int descriptor)
{
	vg_wire_send_raw(channel, "", 1, NULL, 0, &descriptor, descriptor >= 0);
}

// Runs the process of a user, which connects or maps a ledger for each order.
__attribute__((noreturn)) static void be_user(int user, int order, int answer)
{
	char path[128], word;

	if (geteuid() == 0 && (setgid(FIRST_UID) < 0 || setuid((uid_t)(FIRST_UID + user)) < 0))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); // set this after setuid(), which clears it
	while (read(order, &word, 1) == 1) {
		if (word == 'c') {
			snprintf(path, sizeof path, "%s/run/virgated.sock", directory);
			int fd = vg_wire_connect(path, 1000);
			send_descriptor(answer, fd);
			if (fd >= 0)
				close(fd);
			continue;
		}
		snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpus[(unsigned char)word % VGPUS]);
		int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0)
			mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		send_descriptor(answer, fd);
		if (fd >= 0)
			close(fd);
	}
	_exit(0);
}

static void start_user(int index)
{
	struct player *user = &users[index];
	int orders[2], answers[2];

	if (pipe2(orders, O_CLOEXEC) < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answers) < 0)
		abort();
	user->pid = fork();
	if (user->pid < 0)
		abort();
	if (user->pid == 0) {
		dup2(orders[0], 3);
		dup2(answers[1], 4);
		close_range(5, ~0u, 0);
		be_user(index, 3, 4);
	}
	close(orders[0]);
	close(answers[1]);
	user->order = orders[1];
	user->answer = answers[0];
	user->is_used = false;
}

static void end_user(int index)
{
	struct player *user = &users[index];

	kill(user->pid, SIGKILL);
	waitpid(user->pid, NULL, 0);
	close(user->order);
	close(user->answer);
}

// Sends an order to the process of a user. Returns the descriptor that the process sends back, a connection or a
// ledger; -1: none.
static int order_user(int index, char word)
{
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count = 0;
	char byte;
	struct iovec parts[2] = {{&byte, 1}, {NULL, 0}};

	if (write(users[index].order, &word, 1) != 1 ||
	    vg_wire_receive_raw(users[index].answer, parts, descriptors, &count) < 0) {
		users[index].is_used = true; // the daemon has killed this user's process
		return -1;
	}
	return count ? descriptors[0] : -1;
}

// ---- the daemon --------------------------------------------------------------------------------------------

static void run_loop(void)
{
	for (int i = 0; i < MOST_STEPS; i++) {
		int r = loop_step(&node, 0);
		if (r < 0) { // a request has shut the daemon down, so start the next one
			node.is_leaving = node.is_interrupted = node.was_shut_down = false;
			if (directory_listen(&node) < 0)
				abort();
		}
		if (r == 0)
			return;
	}
}

static void clean_up(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (getpid() == getpgid(0) || *directory)
		(void)!system(command);
}

static void prepare(void)
{
	char path[128];

	snprintf(directory, sizeof directory, "/tmp/fuzz-daemon-XXXXXX");
	if (!mkdtemp(directory) || chmod(directory, 0755) < 0)
		abort();
	atexit(clean_up);
	snprintf(path, sizeof path, "%s/world", directory);
	if (vg_file_write_atomic(path, "gpu 8589934592\ngpu 8589934592\n", 30, 0644))
		abort();
	setenv("FAKE_NVML", path, 1);
	setenv("VIRGATE_NVML", FAKE_NVML_LIBRARY, 1);
	unsetenv("VIRGATE_SIM");
	snprintf(node.runtime_dir, sizeof node.runtime_dir, "%s/run", directory);
	snprintf(node.claims_dir, sizeof node.claims_dir, "%s/claims", directory);
	snprintf(node.state_path, sizeof node.state_path, "%s/state.json", directory);
	umask(077);
	vg_wire_discard = discard;
	if (start_node(&node) < 0)
		abort();
	for (int i = 0; i < USERS; i++)
		start_user(i);
}

// ---- actions of a record -----------------------------------------------------------------------------------

static uint64_t number_at(const uint8_t *bytes, size_t length, size_t at)
{
	uint64_t value = 0;

	if (at < length)
		memcpy(&value, bytes + at, length - at < 8 ? length - at : 8);
	return value;
}

// Writes a request in the form that clients send. The bytes of the input are the numbers in it.
static void write_request(char *text, size_t room, unsigned int which, const uint8_t *bytes, size_t length)
{
	static const char *const plain[] = {"list", "devices", "publications", "shutdown"};
	const char *name = vgpus[which / 16 % VGPUS];
	uint64_t figure = number_at(bytes, length, 0);

	switch (which % 14) {
	case 0:
		snprintf(text, room, "{\"op\":\"create\",\"name\":\"%s\",\"memory\":%llu%s}", name,
			 (unsigned long long)(figure >> 28) + 1, (figure & 15) == 15 ? ",\"evictable\":true" : "");
		break;
	case 1:
		snprintf(text, room, "{\"op\":\"enter\",\"name\":\"%s\",\"memory\":%llu,\"share\":%u%s}", name,
			 (unsigned long long)figure, (unsigned)number_at(bytes, length, 8) % 128,
			 figure & 1 ? ",\"wait\":5" : "");
		break;
	case 2:
		snprintf(text, room, "{\"op\":\"enter\",\"vgpu\":\"%s\"}", name);
		break;
	case 3:
		snprintf(text, room, "{\"op\":\"set\",\"name\":\"%s\",\"memory\":%lld}", name, (long long)figure);
		break;
	case 4:
		snprintf(text, room, "{\"op\":\"rm\",\"name\":\"%s\",\"force\":%s}", name,
			 figure & 1 ? "true" : "false");
		break;
	case 5:
		snprintf(text, room, "{\"op\":\"inspect\",\"name\":\"%s\"}", name);
		break;
	case 6:
		snprintf(text, room, "{\"op\":\"logs\",\"name\":\"%s\"}", name);
		break;
	case 7:
		if (figure & 128)
			snprintf(text, room, "{\"op\":\"%s\",\"name\":\"%s\"}", figure & 1 ? "suspend" : "resume",
				 name);
		else
			snprintf(text, room, "{\"op\":\"kill\",\"name\":\"%s\",\"signal\":%lld}", name,
				 (long long)(figure & 127));
		break;
	case 8:
		snprintf(text, room, "{\"op\":\"drain\",\"device\":\"%llu\",\"undo\":%s}",
			 (unsigned long long)(figure >> 1) % 3, figure & 1 ? "true" : "false");
		break;
	default:
		snprintf(text, room, "{\"op\":\"%s\"}", plain[which % 4]);
	}
}

static void send_text(int peer, enum vg_wire_type type, const uint8_t *bytes, size_t length)
{
	char text[256];

	memcpy(text, bytes, length);
	text[length] = '\0';
	vg_wire_send(peer, type, 0, text, strlen(text), NULL, 0);
}

static struct vg_wire_registration make_registration(unsigned int which, const uint8_t *bytes, size_t length)
{
	struct vg_wire_registration registration = {.pid = (uint32_t)users[which % USERS].pid,
						    .pid_namespace = node.pid_namespace};

	vg_process_start_time(users[which % USERS].pid, &registration.start_time);
	strcpy(registration.ledger, vgpus[which / USERS % VGPUS]);
	for (size_t i = 0; i + 1 < length && i < 8; i += 2) // overwrite some bytes
		((uint8_t *)&registration)[bytes[i] % 24] = bytes[i + 1];
	return registration;
}

static int make_descriptor(unsigned int kind)
{
	char path[128];
	int ends[2];

	switch (kind % 8) {
	case 0:
		return memfd_create("fuzz", MFD_CLOEXEC);
	case 1:
		return epoll_create1(EPOLL_CLOEXEC);
	case 2:
		return eventfd(0, EFD_CLOEXEC);
	case 3:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 4:
		return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 5:
		snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpus[kind / 8 % VGPUS]);
		return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	case 6: // send a socket that has a descriptor in its queue
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
			return -1;
		send_descriptor(ends[0], ends[1]);
		close(ends[0]);
		return ends[1];
	default:
		if (pipe2(ends, O_CLOEXEC) < 0)
			return -1;
		close(ends[1]);
		return ends[0];
	}
}

static void send_packet(int peer, unsigned int which, const uint8_t *bytes, size_t length)
{
	struct vg_wire_header header = {VG_WIRE_MAGIC, VG_WIRE_VERSION, (uint16_t)(1 + which % 6), (uint32_t)length, 0};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	unsigned int count = 0;

	for (unsigned int i = 0; i < which / 8 % (VG_WIRE_DESCRIPTORS_MAX + 1); i++)
		if ((descriptors[count] = make_descriptor(length ? bytes[i % length] : i)) >= 0)
			count++;
	if (which & 0x80)
		vg_wire_send_raw(peer, bytes, length, NULL, 0, descriptors, count);
	else
		vg_wire_send_raw(peer, &header, sizeof header, bytes, length, descriptors, count);
	while (count)
		close(descriptors[--count]);
}

// Writes into a ledger as a tenant may: one word at a time, most of them in the header and the first slots.
static void write_ledger(const char *path, unsigned int which, const uint8_t *bytes, size_t length)
{
	struct stat info;

	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_size < 4096)
		return;
	uint64_t at = number_at(bytes, length < 4 ? length : 4, 0), room = which & 1 ? (uint64_t)info.st_size : 4096;
	if (length > 4)
		(void)!pwrite(fd, bytes + 4, length - 4, (off_t)(at * 8 % (room - 256)));
}

static void touch_file(enum action action, unsigned int which, const uint8_t *bytes, size_t length)
{
	char path[128];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpus[which / 4 % VGPUS]);
	if (action == WRITE) {
		write_ledger(path, which, bytes, length);
	} else if (action == RESIZE) {
		(void)!truncate(path, (off_t)(number_at(bytes, length, 0) % (2 << 20)));
	} else {
		unlink(path);
		if (which & 1)
			mkfifo(path, 0666);
	}
}

static void send_message(int peer, enum action action, unsigned int which, const uint8_t *bytes, size_t length)
{
	char text[512];

	if (action == REQUEST) {
		write_request(text, sizeof text, which, bytes, length);
		vg_wire_send(peer, VG_WIRE_ADMIN, 0, text, strlen(text), NULL, 0);
	} else if (action == TEXT || action == SHARE) {
		send_text(peer, action == TEXT ? VG_WIRE_ADMIN : VG_WIRE_SHARE, bytes, length);
	} else if (action == REGISTER) {
		struct vg_wire_registration registration = make_registration(which, bytes, length);
		int descriptor = which & 0x40 ? make_descriptor(which / 8) : -1;
		vg_wire_send(peer, VG_WIRE_REGISTRATION, 0, &registration, sizeof registration, &descriptor,
			     descriptor >= 0);
		if (descriptor >= 0)
			close(descriptor);
	} else if (action == GUEST) {
		struct vg_wire_guest guest = {.self = make_registration(which, bytes, length),
					      .key = number_at(bytes, length, 4),
					      .share = which & 0x20 ? (uint32_t)number_at(bytes, length, 6) : 0};
		if (guest.share)
			strcpy(guest.vgpu, vgpus[which / 64 % VGPUS]);
		vg_wire_send(peer, VG_WIRE_GUEST, 0, &guest, sizeof guest, NULL, 0);
	} else if (action == PACKET) {
		send_packet(peer, which, bytes, length);
	}
}

static void run_action(enum action action, unsigned int which, const uint8_t *bytes, size_t length)
{
	int *peer = &peers[which % PEERS], user = (int)(which % USERS);

	if (action == CONNECT || action == MAP || action == END) {
		if (users[user].is_used && action != END) {
			end_user(user);
			start_user(user);
		}
		int fd = action == END ? -1 : order_user(user, action == CONNECT ? 'c' : (char)(which / USERS % VGPUS));
		users[user].is_used |= action != CONNECT;
		if (action == END)
			kill(users[user].pid, SIGKILL);
		if (action != CONNECT && fd >= 0)
			close(fd);
		if (action == CONNECT && *peer >= 0)
			close(*peer);
		if (action == CONNECT)
			*peer = fd;
	} else if (action == WRITE || action == RESIZE || action == REPLACE) {
		touch_file(action, which, bytes, length);
	} else if (action == WAIT) {
		passed_ns += (which + 1) * UINT64_C(100000000);
	} else if (*peer >= 0 && action == CLOSE) {
		close(*peer);
		*peer = -1;
	} else if (*peer >= 0) {
		send_message(*peer, action, which, bytes, length);
	}
	run_loop();
}

// Waits for the threads of the daemon, which write its state and close descriptors.
static void wait_for_threads(bool (*is_done)(void))
{
	for (int i = 0; i < 500 && !is_done(); i++) {
		work_collect(&node, 10);
		run_loop();
	}
}

static bool has_no_connection(void)
{
	return !node.connections && !node.sessions;
}

static bool has_no_change(void)
{
	for (const struct vgpu *vgpu = node.vgpus; vgpu; vgpu = vgpu->next)
		if (vgpu->change)
			return false;
	return true;
}

// Removes everything from the daemon before the next input.
static void reset_daemon(void)
{
	const struct authority_peer root = {.pid = getpid()};

	for (int i = 0; i < PEERS; i++) {
		if (peers[i] >= 0)
			close(peers[i]);
		peers[i] = -1;
	}
	for (int i = 0; i < USERS; i++)
		if (users[i].is_used) {
			end_user(i);
			start_user(i);
		}
	wait_for_threads(has_no_change); // a vGPU that is being written to disk cannot be removed
	for (int i = 0; i < VGPUS; i++) {
		json_t *request = json_pack("{s:s, s:s, s:b}", "op", "rm", "name", vgpus[i], "force", 1);
		json_decref(verbs_answer(&node, &root, request));
		json_decref(request);
	}
	for (int i = 0; i < 3; i++) {
		passed_ns += UINT64_C(20000000000);
		run_loop();
	}
	wait_for_threads(has_no_connection);
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (next < 0 || next > MOST_DESCRIPTORS || node.connections || node.sessions)
		abort();
	close(next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!*directory)
		prepare();
	memset(peers, -1, sizeof peers);
	while (size > 3) {
		size_t length = data[2] < size - 3 ? data[2] : size - 3;
		run_action((enum action)(data[0] % ACTIONS), data[1], data + 3, length);
		data += 3 + length;
		size -= 3 + length;
	}
	reset_daemon();
	return 0;
}
