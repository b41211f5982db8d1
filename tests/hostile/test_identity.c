// Checks that the daemon identifies processes by pidfd instead of by pid, because the kernel reuses pids.
#include "hostile.h"

#include <sys/socket.h>

// Starts a process with this pid that waits for signals. Returns -1 if another process got the pid first.
static pid_t start_with_number(pid_t pid)
{
	char text[16];

	snprintf(text, sizeof text, "%d", (int)pid - 1);
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		SKIP("the next process ID cannot be chosen here");
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	close(fd);
	if (child == pid)
		return child;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return -1;
}

static void publish_and_wait(void)
{
	publish("w", ",'mode':384", 1);
	for (;;)
		pause();
}

static void revoke_by_force(void)
{
	int fd = connect_to_broker();

	CHECK_INT(send_request(fd, "{'op':'revoke','name':'w','deadline':0,'kill':true}"), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
}

// Connects to the daemon as the user, and exits. Returns the pid that this process had. *ret_fd is the connection,
// which stays open in the caller.
static pid_t connect_and_exit(uid_t uid, int *ret_fd)
{
	*ret_fd = -1;
	int pair[2];
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	pid_t reader = fork();
	if (reader == 0) {
		become(uid);
		int fd = connect_to_broker();
		_exit(vg_wire_send_raw(pair[1], "x", 1, "", 0, &fd, 1) < 0);
	}
	char byte[2];
	unsigned int count;
	int descriptors[VG_WIRE_DESCRIPTORS_MAX];
	struct iovec parts[2] = {{byte, 1}, {byte + 1, 1}};
	CHECK_INT(vg_wire_receive_raw(pair[0], parts, descriptors, &count), 1);
	CHECK_INT(count, 1);
	*ret_fd = descriptors[0];
	// The daemon accepts connections in order, so it has accepted the one above.
	CHECK_AGREED(ask("{'op':'ping'}"));
	CHECK_CHILD(reader);
	close(pair[0]);
	close(pair[1]);
	return reader;
}

static void await_publication(const char *name, bool is_there)
{
	for (int i = 0; i < 12000 && (listed_figure(name, 0, "leases", NULL) >= 0) != is_there; i++)
		poll(NULL, 0, 5);
	CHECK_INT(listed_figure(name, 0, "leases", NULL) >= 0, is_there);
}

// Makes a process of Alice connect and exit, and starts a process of root with the same pid. Sets *ret_fd to the
// connection of Alice's process. Returns 0 if another process got the pid.
static pid_t replace_process(int *ret_fd)
{
	pid_t number = connect_and_exit(alice, ret_fd);
	pid_t other = start_with_number(number);

	if (other < 0)
		close(*ret_fd);
	return other < 0 ? 0 : other;
}

static void end_replacement(pid_t other, int fd)
{
	CHECK_INT(waitpid(other, NULL, WNOHANG), 0); // the daemon must not have killed root's process
	kill(other, SIGKILL);
	CHECK_INT(waitpid(other, NULL, 0), other);
	close(fd);
}

static bool storm_goes_on(uint64_t begun_ns)
{
	// each of the two tests uses half of the time
	return vg_clock_monotonic_ns() - begun_ns < (uint64_t)storm_ms() * 500000;
}

TEST(reused_process_ids_are_not_signalled)
{
	int fd, count = 0;

	fresh_system();
	// The publisher creates its memory in this directory.
	CHECK_INT(chmod(directory, 0777), 0);
	pid_t publisher = start_user(alice, publish_and_wait);
	await_publication("w", true);
	for (uint64_t begun = vg_clock_monotonic_ns(); storm_goes_on(begun) || !count;) {
		pid_t other = replace_process(&fd);
		if (!other)
			continue;
		count++;
		// Begin a session on the connection of Alice's process, which has ended. Its pid belongs to root's
		// process now.
		CHECK_INT(send_request(fd, "{'op':'open','name':'w','access':'read'}"), 0);
		json_decref(receive_answer(fd, NULL));
		run_user(alice, revoke_by_force);
		end_replacement(other, fd);
		end_user(publisher);
		// Wait until this publication is gone, so that the next wait cannot find it in place of the new one.
		await_publication("w", false);
		publisher = start_user(alice, publish_and_wait);
		await_publication("w", true);
	}
	printf("%d process ids were used again\n", count);
	end_user(publisher);
}

static void kill_all_of_a(void)
{
	json_decref(ask("{'op':'kill','name':'a','signal':9}"));
	json_decref(ask("{'op':'rm','name':'a','force':true}"));
}

TEST(reused_process_ids_keep_no_vgpu_and_are_not_killed)
{
	static const char request[] = "{\"op\":\"enter\",\"name\":\"a\",\"memory\":67108864}";
	int fd, count = 0;

	fresh_system();
	for (uint64_t begun = vg_clock_monotonic_ns(); storm_goes_on(begun) || !count;) {
		pid_t other = replace_process(&fd);
		if (!other)
			continue;
		count++;
		CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, request, sizeof request - 1, NULL, 0), 0);
		json_decref(receive_answer(fd, NULL));
		if (count % 2)
			run_user(alice, kill_all_of_a);
		for (int i = 0; i < 600 && figure("a", "memory") >= 0; i++)
			poll(NULL, 0, 5);
		CHECK_INT(figure("a", "memory"), -1);
		end_replacement(other, fd);
	}
	printf("%d process ids were used again\n", count);
}
