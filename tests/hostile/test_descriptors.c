// Sends descriptors to the daemon whose close() takes a long time, as the sender determines.
#include "victim.h"

#include "hanging_files.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <netinet/in.h>

static int open_hanging(void)
{
	char path[400];

	snprintf(path, sizeof path, "%s/x", hanging_path);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int (*make_slow)(void); // makes a descriptor whose last close() takes a long time
static unsigned int at_once;   // number of descriptors in one packet
static int senders_packets;    // how many such packets each sender sends

// Sends descriptors with a packet and exits. If `malformed`, the packet is one that the daemon refuses.
static void send_slow(bool malformed)
{
	struct vg_wire_header header = {
		.magic = VG_WIRE_MAGIC, .version = VG_WIRE_VERSION, .type = VG_WIRE_ADMIN, .size = 2};
	int descriptors[VG_WIRE_DESCRIPTORS_MAX], fd = vg_wire_connect(socket_path, 1000);
	unsigned int count = 0;

	if (fd < 0)
		return;
	while (count < at_once && (descriptors[count] = make_slow()) >= 0)
		count++;
	header.size -= malformed;
	vg_wire_send_raw(fd, &header, sizeof header, "{}", 2, descriptors, count);
	// The daemon closes the connection after the first packet if it is malformed. This packet then stays in the
	// connection's queue.
	vg_wire_send_raw(fd, &header, sizeof header, "{}", 2, descriptors, count);
	// Closes this process's copies before the connection, so that the daemon most likely closes the last copies.
	for (unsigned int i = 0; i < count && make_slow != open_hanging; i++)
		close(descriptors[i]);
	close(fd);
}

static void attack(void)
{
	attack_begins();
	for (unsigned int i = 0;; i++) {
		pid_t sender = fork();
		if (sender == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (int j = 0; j < senders_packets; j++)
				send_slow(i & 1);
			for (;;)
				// keeps those files open whose descriptors were sent, so that closing them takes long
				pause();
		}
		poll(NULL, 0, 50);
		waitpid(-1, NULL, WNOHANG);
	}
}

static void check_attack(int (*make)(void), unsigned int count, int packets, const char *what)
{
	make_slow = make;
	at_once = count;
	senders_packets = packets;
	pid_t attacker = start_attack(attack);
	check_victim(what);
	size_t most = count_descriptors(daemon_pid);
	end_user(attacker);
	if (most > 2000)
		FAIL("%s: the daemon has %zu descriptors", what, most);
}

TEST(files_that_never_close)
{
	fresh_system();
	start_hanging_files(directory);
	check_attack(open_hanging, 8, 20, "files that never close");
	end_hanging_files(); // lets all close() calls that hang in the daemon return
	for (int i = 0; i < 1000 && count_descriptors(daemon_pid) > 30; i++)
		poll(NULL, 0, 5);
	CHECK(count_descriptors(daemon_pid) <= 30);
}

// Returns a TCP connection with unacknowledged data. Its last close() takes as long as SO_LINGER says, which this
// process sets.
static int make_lingering(void)
{
	static char data[1 << 20];
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
	    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0 ||
	    connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 600}, sizeof(struct linger));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (write(fd, data, sizeof data) > 0)
		;
	fcntl(fd, F_SETFL, 0);
	return fd; // the listening socket stays open, with the other end of the connection in its queue
}

// Returns a socket with a message in its queue that contains a lingering connection.
static int make_nested(void)
{
	int pair[2], inner = make_lingering();

	if (inner < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	vg_wire_send_raw(pair[0], "x", 1, "", 0, &inner, 1);
	close(inner);
	close(pair[0]);
	return pair[1];
}

// Checks that a daemon exits although one of its threads hangs in close(), and that another daemon can then start.
TEST(files_that_never_close_do_not_stop_a_restart)
{
	fresh_system();
	start_hanging_files(directory);
	check_attack(open_hanging, 8, 20, "files that never close");
	pid_t old = daemon_pid;
	kill(old, SIGTERM);
	for (int i = 0; i < 1000 && vg_wire_connect(socket_path, 100) >= 0; i++)
		poll(NULL, 0, 5);
	start_system_daemon();
	CHECK_AGREED(ask("{'op':'ping'}"));
	end_hanging_files();
	CHECK_INT(waitpid(old, NULL, 0), old);
}

TEST(sockets_with_lingering_sockets_inside)
{
	fresh_system();
	check_attack(make_nested, 2, 1, "sockets with lingering sockets inside");
	end_daemon_at_once();
}

// Starts sessions that the daemon refuses, and never reads the refusals.
static void be_refused(void)
{
	for (int i = 0; i < 300; i++)
		// the daemon closes a session above the limit at once
		send_request(connect_to_broker(), "{'op':'open','name':'none','access':'read'}");
	attack_begins();
	for (;;)
		pause();
}

TEST(refused_sessions_keep_nothing)
{
	descriptor_limit = 512;
	fresh_system();
	descriptor_limit = 0;
	pid_t attacker = start_attack(be_refused);
	check_victim("refused sessions");
	CHECK(count_descriptors(daemon_pid) < 200);
	end_user(attacker);
}

static void make_a(void)
{
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':67108864}"));
}

// Enters vGPU a. Tries again if the daemon has closed the connection: a busy daemon closes connections of a user that
// have waited too long.
static void enter_a(void)
{
	char *answer;

	while (vg_wire_request(socket_path, "{\"op\":\"enter\",\"vgpu\":\"a\"}", 20000, &answer) < 0)
		poll(NULL, 0, 1);
	free(answer);
}

// Ends many programs at the same time, again and again. The daemon must handle the end of each.
static void end_many_programs(void)
{
	enum { PROGRAMS = 1000, AT_ONCE = 32 }; // AT_ONCE: number of programs that enter at the same time
	int entered[2], end[2];

	for (int round = 0;; round++) {
		if (pipe(entered) < 0 || pipe(end) < 0)
			_exit(1);
		for (int i = 0; i < PROGRAMS; i++) {
			if (fork() == 0) {
				char byte;
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				close(end[1]);
				enter_a();
				if (write(entered[1], "x", 1) != 1 || read(end[0], &byte, 1) != 0)
					_exit(1);
				_exit(0);
			}
			char byte;
			if (i >= AT_ONCE && read(entered[0], &byte, 1) != 1)
				_exit(1);
		}
		for (int i = 0; i < AT_ONCE; i++) {
			char byte;
			if (read(entered[0], &byte, 1) != 1)
				_exit(1);
		}
		if (round == 0)
			attack_begins();
		close(end[1]); // ends all these programs
		while (waitpid(-1, NULL, 0) > 0)
			;
		close(end[0]);
		close(entered[0]);
		close(entered[1]);
	}
}

TEST(many_programs_that_end_at_once)
{
	fresh_system();
	run_user(alice, make_a);
	pid_t attacker = start_attack(end_many_programs);
	check_victim("many programs that end at once");
	end_user(attacker);
}

TEST(all_descriptors_and_ends_at_once)
{
	fresh_system();
	start_hanging_files(directory);
	run_user(alice, make_a);
	start_attack_of(alice, end_many_programs);
	start_attack_of(alice + 1, be_refused);
	make_slow = open_hanging;
	at_once = 8;
	senders_packets = 20;
	start_attack_of(alice + 2, attack);
	make_slow = make_nested;
	at_once = 2;
	senders_packets = 1;
	start_attack_of(alice + 3, attack);
	most_ms = ONE_USERS_MS + 3 * MORE_USERS_MS;
	check_victim_for(storm_ms(), "all of these at once");
	CHECK(count_descriptors(daemon_pid) < 3000);
	end_all_users();
	end_hanging_files();
	end_daemon_at_once();
}
