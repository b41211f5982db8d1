// Checks that a client talks only to a daemon of root or of its own user.
#include "hostile.h"

#include <sys/socket.h>
#include <sys/un.h>

static char place[300]; // the directory in which the client looks for the daemon
static volatile struct {
	unsigned int requests; // requests that the attacker received
	// how many requests of the client got an answer, and how many the client refused to send
	unsigned int answered, refused;
} * seen;

static void serve_falsely(int listener)
{
	static struct vg_wire_message message;

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			continue;
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (poll(&ready, 1, 200) == 1 && vg_wire_receive(fd, &message) == 0) {
			seen->requests++;
			vg_wire_send(fd, VG_WIRE_REPLY, 0, "{\"ok\":true}", 11, NULL, 0);
		}
		close(fd);
	}
}

// Exchanges the directories of the daemon and the attacker again and again. A client that only checks the directory's
// owner before it connects would sometimes reach the attacker.
static void swap_directories(void)
{
	char fake[320], next[320], path[340];
	struct sockaddr_un address;
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(fake, sizeof fake, "%s-fake", place);
	snprintf(next, sizeof next, "%s-next", place);
	snprintf(path, sizeof path, "%s/virgated.sock", fake);
	umask(0);
	if (mkdir(fake, 0755) < 0 || vg_wire_address(path, &address) < 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0)
		_exit(1);
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve_falsely(listener);
	}
	for (unsigned int i = 0;; i++) {
		if (symlink(i % 2 ? runtime_dir : fake, next) < 0 || rename(next, place) < 0)
			_exit(1);
		if (i == 1)
			attack_begins();
	}
}

static void ask_first_listener(void)
{
	char path[340], *answer;

	snprintf(path, sizeof path, "%s/virgated.sock", place);
	for (uint64_t begun = vg_clock_monotonic_ns();
	     vg_clock_monotonic_ns() - begun < (uint64_t)storm_ms() * 1000000;) {
		int r = vg_wire_request(path, "{\"op\":\"ping\"}", 5000, &answer);
		if (r < 0) {
			seen->refused += r == -EPERM;
			continue;
		}
		json_t *reply = json_loads(answer, 0, NULL);
		if (json_integer_value(json_object_get(reply, "pid")) != daemon_pid)
			_exit(1);
		seen->answered++;
		json_decref(reply);
		free(answer);
	}
}

TEST(clients_never_talk_to_another_users_daemon)
{
	char open_place[290];

	fresh_system();
	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	snprintf(open_place, sizeof open_place, "%s/x", directory);
	CHECK_INT(mkdir(open_place, 0700), 0);
	CHECK_INT(chown(open_place, alice, alice), 0);
	CHECK_INT(chmod(open_place, 0755), 0);
	snprintf(place, sizeof place, "%s/p", open_place);
	pid_t attacker = start_attack(swap_directories);
	run_user(bob, ask_first_listener);
	printf("%u answers of the daemon, %u refusals to talk to another user's\n", seen->answered, seen->refused);
	CHECK_INT(seen->requests, 0);
	CHECK(seen->answered > 0 && seen->refused > 0);
	end_user(attacker);
}
