// Tests the daemon's requests, admission, malformed messages, and its runtime directory.
#include "daemon_fixture.h"

#include <sys/socket.h>

TEST(create_list_enter_rm)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'ping'}"));
	CHECK_AGREED(ask("{'op':'create','name':'train','memory':%llu,'share':30,'device':'1'}", 2 * GIB));
	CHECK_INT(figure("train", "memory"), 2 * GIB);
	CHECK_INT(figure("train", "share"), 30);
	CHECK_INT(figure("train", "device"), 1);
	CHECK_INT(figure("train", "charged"), 0);
	json_t *entered = ask("{'op':'enter','vgpu':'train'}");
	CHECK_STR(json_string_value(json_object_get(entered, "name")), "train");
	CHECK_STR(json_string_value(json_object_get(entered, "uuid")), "GPU-00000000-0000-0000-0000-000000000002");
	struct vg_ledger *ledger;
	CHECK_INT(vg_ledger_open(json_string_value(json_object_get(entered, "ledger")), &ledger), 0);
	CHECK_INT(vg_ledger_limit(ledger), 2 * GIB);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_POOL, MIB), 0);
	json_decref(entered);
	CHECK_INT(figure("train", "charged"), MIB);
	CHECK_INT(figure("train", "tenants"), 1);
	CHECK_REFUSED(ask("{'op':'rm','name':'train'}"), "busy", "1 on the GPU (`virgate inspect train` lists them)");
	vg_ledger_leave(ledger);
	CHECK_AGREED(ask("{'op':'rm','name':'train'}"));
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_POOL, 1), VG_LEDGER_REFUSED);
	vg_ledger_close(ledger);
	CHECK_REFUSED(ask("{'op':'rm','name':'train'}"), "not_found", "there is no vGPU train");
}

TEST(invalid_requests_are_refused)
{
	fresh_node();
	start_daemon();
	CHECK_REFUSED(ask("nonsense"), "invalid", "not a JSON object");
	CHECK_REFUSED(ask("[1]"), "invalid", "not a JSON object");
	CHECK_REFUSED(ask("{}"), "invalid", "no \"op\"");
	CHECK_REFUSED(ask("{'op':'fly'}"), "invalid", "no such op");
	CHECK_REFUSED(ask("{'op':5}"), "invalid", "no \"op\"");
	CHECK_REFUSED(ask("{'op':'create','memory':1}"), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'create','name':'../x','memory':1}"), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'create','name':'a/b','memory':1}"), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'create','name':'%070d','memory':1}", 7), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'create','name':'x'}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':-5}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':0}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1.5}"), "invalid", "\"memory\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':99999999999999999999}"), "invalid", "");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':9223372036854775807}"), "limit",
		      "larger than GPU 0 (8.0 GiB)");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'share':101}"), "invalid", "percentage");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'share':'all'}"), "invalid", "percentage");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'device':'7'}"), "not_found", "this node has 2");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'device':-1}"), "not_found", "no GPU -1");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'device':'GPU-1'}"), "not_found", "no GPU GPU-1");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'group':'root'}"), "invalid", "system's daemon");
	CHECK_REFUSED(ask("{'op':'set','name':'x','memory':1}"), "not_found", "no vGPU x");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'group':7}"), "invalid", "\"group\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1,'device':''}"), "invalid", "\"device\" must be");
	CHECK_REFUSED(ask("{'op':'create','name':7,'memory':1}"), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'enter','name':7,'memory':1}"), "invalid", "name has 1 to 63");
	CHECK_REFUSED(ask("{'op':'list','simulate':'memory=1G'}"), "invalid", "not the simulated");
	CHECK_REFUSED(ask("{'op':'enter','vgpu':7}"), "invalid", "needs a valid name");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1}"), "invalid",
		      "asked for 1 B, but a CUDA context alone takes 544.0 MiB");
	CHECK_REFUSED(ask("{'op':'enter','memory':%llu}", 544 * MIB - 1), "invalid",
		      "CUDA context alone takes 544.0 MiB");
	CHECK_AGREED(ask("{'op':'create','name':'x','memory':%llu}", 544 * MIB));
	CHECK_REFUSED(ask("{'op':'set','name':'x','memory':1}"), "invalid", "CUDA context alone takes 544.0 MiB");
	CHECK_REFUSED(ask("{'op':'create','name':'x','memory':1}"), "exists", "a vGPU x already");
	CHECK_AGREED(ask("{'op':'ping'}"));
}

static uint64_t ceiling_of(const char *name)
{
	struct vg_ledger *ledger;
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	uint64_t ceiling = vg_ledger_ceiling(ledger);
	vg_ledger_close(ledger);
	return ceiling;
}

TEST(limits_beyond_the_device_are_refused)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 5 * GIB));
	CHECK_REFUSED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 4 * GIB), "limit",
		      "GPU 0: asked for 4.0 GiB, but 3.0 GiB is left: other vGPUs reserve 5.0 GiB of its 8.0 GiB; ask "
		      "for less, or shrink or remove one of them");
	CHECK_REFUSED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 9 * GIB), "limit",
		      "asked for 9.0 GiB, larger than GPU 0 (8.0 GiB), of which 3.0 GiB is left");
	CHECK_REFUSED(ask("{'op':'create','name':'b','memory':%llu,'device':1}", 8 * GIB + 1), "limit",
		      "asked for 8.0 GiB (8589934593 bytes), larger than GPU 1 (8.0 GiB (8589934592 bytes))");
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 3 * GIB));
	CHECK_REFUSED(ask("{'op':'set','name':'b','memory':%llu}", 3 * GIB + 1), "limit",
		      "other vGPUs reserve 5.0 GiB of its 8.0 GiB");
	CHECK_AGREED(ask("{'op':'set','name':'b','memory':%llu}", 2 * GIB));
	CHECK_AGREED(ask("{'op':'set','name':'a','memory':%llu}", 6 * GIB));
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", 7 * GIB)); // vGPU c goes to the GPU with more room
	CHECK_INT(figure("c", "device"), 1);
	CHECK_REFUSED(
		ask("{'op':'create','name':'d','memory':%llu,'device':0}", GIB), "limit",
		"asked for 1.0 GiB, but nothing is left: other vGPUs reserve all of its 8.0 GiB; shrink or remove "
		"one of them, or choose another GPU");
	json_t *devices = ask("{'op':'devices'}");
	json_t *first = json_array_get(json_object_get(devices, "devices"), 0);
	CHECK_INT(json_integer_value(json_object_get(first, "reserved")), 8 * GIB);
	CHECK_INT(json_integer_value(json_object_get(first, "vgpus")), 2);
	json_decref(devices);
}

// Checks that the daemon writes into the ledger the largest limit that it would admit.
TEST(ledger_has_the_largest_possible_limit)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 5 * GIB));
	CHECK_INT(ceiling_of("a"), 8 * GIB);
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu,'device':0}", 2 * GIB));
	CHECK_INT(ceiling_of("a"), 6 * GIB);
	CHECK_INT(ceiling_of("b"), 3 * GIB);
	CHECK_AGREED(ask("{'op':'set','name':'a','memory':%llu}", 6 * GIB));
	CHECK_INT(ceiling_of("b"), 2 * GIB);
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu,'device':1}", 2 * GIB));
	CHECK_INT(ceiling_of("c"), 8 * GIB);
	CHECK_AGREED(ask("{'op':'rm','name':'a'}"));
	CHECK_INT(ceiling_of("b"), 8 * GIB);
	kill_daemon();
	start_daemon();
	CHECK_INT(ceiling_of("b"), 8 * GIB);
}

TEST(limit_below_the_charge_is_refused)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", 5 * GIB));
	pid_t tenant = start_tenant("a", 3 * GIB);
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", 2 * GIB), "limit",
		      "asked for a limit of 2.0 GiB, but 3.0 GiB is in use");
	CHECK_INT(figure("a", "memory"), 5 * GIB);
	CHECK_AGREED(ask("{'op':'set','name':'a','memory':%llu}", 3 * GIB));
	kill_tenant(tenant);
}

// Two daemons share one GPU: two runtime directories, one directory of claims.
TEST(limits_of_all_daemons_fit_the_device)
{
	char other_socket[330];

	fresh_node();
	start_daemon();
	pid_t other = start_other_daemon(other_socket);
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0}", 5 * GIB));
	CHECK_REFUSED(ask_at(other_socket, "{'op':'create','name':'b','memory':%llu,'device':0}", 4 * GIB), "limit",
		      "other vGPUs reserve 5.0 GiB of its 8.0 GiB");
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'b','memory':%llu,'device':0}", 3 * GIB));
	// Both daemons count the claims of both. A vGPU for which no device is requested gets one with room.
	json_t *reply = ask_at(other_socket, "{'op':'devices'}"),
	       *first = json_array_get(json_object_get(reply, "devices"), 0);
	CHECK_INT(json_integer_value(json_object_get(first, "reserved")), 8 * GIB);
	json_decref(reply);
	CHECK_AGREED(ask_at(other_socket, "{'op':'create','name':'c','memory':%llu}", 6 * GIB));
	CHECK_AGREED(ask_at(other_socket, "{'op':'rm','name':'c'}"));
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", 5 * GIB + 1), "limit", "3.0 GiB of its 8.0 GiB");
	kill_daemon(); // the limits of created vGPUs stay reserved without a daemon
	CHECK_REFUSED(ask_at(other_socket, "{'op':'set','name':'b','memory':%llu}", 4 * GIB), "limit",
		      "5.0 GiB of its 8.0 GiB");
	start_daemon();
	CHECK_AGREED(ask("{'op':'rm','name':'a'}"));
	CHECK_AGREED(ask_at(other_socket, "{'op':'set','name':'b','memory':%llu}", 8 * GIB));
	kill(other, SIGTERM);
	waitpid(other, NULL, 0);
}

// Tests a directory of claims that cannot be used. The daemon cannot know then what other daemons have admitted, so it
// must not admit more.
TEST(unusable_claims_directory_admits_nothing)
{
	char claims[300];

	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu}", GIB));
	snprintf(claims, sizeof claims, "%s/claims", directory);
	// The directory now lacks the sticky bit. A daemon of root sets the bit again. Other daemons cannot do that, so
	// they must refuse the next request.
	CHECK_INT(chmod(claims, 0755), 0);
	if (geteuid() == 0)
		CHECK_AGREED(ask("{'op':'create','name':'b','memory':%llu}", GIB));
	else
		CHECK_REFUSED(ask("{'op':'create','name':'b','memory':%llu}", GIB), "system",
			      "claims of users' daemons");
	char aside[320];
	snprintf(aside, sizeof aside, "%s.aside", claims);
	CHECK_INT(rename(claims, aside), 0);
	CHECK_INT(vg_file_write_atomic(claims, "no folder", 9, 0600), 0);
	CHECK_REFUSED(ask("{'op':'create','name':'c','memory':%llu}", GIB), "system", "claims of users' daemons");
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':%llu}", 2 * GIB), "system", "claims of users' daemons");
	// A limit that does not grow needs no claim.
	CHECK_AGREED(ask("{'op':'set','name':'a','memory':%llu}", GIB));
	CHECK_INT(unlink(claims), 0);
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':%llu}", GIB));
}

static int raw_connection(void)
{
	int fd = vg_wire_connect(socket_path, 5000);

	CHECK(fd >= 0);
	return fd;
}

// Sends a ping with that many descriptors. Returns the length of the answer; 0: the connection was closed.
static ssize_t send_descriptors(size_t count)
{
	static const char text[] = "{\"op\":\"ping\"}";
	struct vg_wire_header header = {
		.magic = VG_WIRE_MAGIC, .version = VG_WIRE_VERSION, .type = VG_WIRE_ADMIN, .size = sizeof text - 1};
	struct iovec parts[2] = {{&header, sizeof header}, {(void *)text, sizeof text - 1}};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {0}, answer[256];
	struct msghdr message = {.msg_iov = parts,
				 .msg_iovlen = 2,
				 .msg_control = control,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

	CHECK(count <= 64);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(count * sizeof(int)); // put the same descriptor, 0, into each element
	int fd = raw_connection();
	CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) > 0);
	ssize_t length = recv(fd, answer, sizeof answer, 0);
	close(fd);
	return length;
}

TEST(malformed_messages_close_the_connection)
{
	static char packet[VG_WIRE_MESSAGE_MAX + 64];
	struct vg_wire_header header = {
		.magic = VG_WIRE_MAGIC, .version = VG_WIRE_VERSION, .type = VG_WIRE_ADMIN, .size = 4};
	char byte;

	fresh_node();
	start_daemon();
	for (int kind = 0; kind < 8; kind++) {
		struct vg_wire_header bad = header;
		size_t length = sizeof bad + 4;
		bad.magic += kind == 0, bad.version += kind == 1, bad.type = kind == 2 ? 77 : bad.type;
		bad.size = kind == 3 ? 5 : kind == 4 ? UINT32_MAX : bad.size;
		bad.type = kind == 5 ? VG_WIRE_REGISTRATION : bad.type;
		length = kind == 6 ? 3 : kind == 7 ? sizeof packet : length;
		memcpy(packet, &bad, sizeof bad);
		int fd = raw_connection();
		CHECK_INT(send(fd, packet, length, MSG_NOSIGNAL), (long)length);
		CHECK_INT(recv(fd, &byte, 1, 0), 0); // the daemon closed the connection without an answer
		close(fd);
	}
	int descriptors[VG_WIRE_DESCRIPTORS_MAX] = {0, 0, 0, 0, 0, 0, 0, 0}, fd = raw_connection();
	CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, "{\"op\":\"ping\"}", 13, descriptors, VG_WIRE_DESCRIPTORS_MAX), 0);
	CHECK(recv(fd, packet, sizeof packet, 0) > 0);
	close(fd);
	CHECK_INT(send_descriptors(VG_WIRE_DESCRIPTORS_MAX + 1), 0); // one too many: the daemon closes the connection
	CHECK_AGREED(ask("{'op':'ping'}"));
	// A thread of the daemon closes the received descriptors.
	snprintf(packet, sizeof packet, "/proc/%d/fd/40", (int)daemon_pid);
	for (int i = 0; i < 2000 && access(packet, F_OK) == 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(access(packet, F_OK), -1);
}

static int count_of(const char *text, const char *part)
{
	int count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

// Checks that a peer cannot fill the disk with log lines.
TEST(log_lines_are_limited)
{
	enum { MANY = 500 };
	static char text[65536];
	char path[300];
	int status;

	fresh_node();
	start_daemon();
	for (int i = 0; i < MANY; i++) {
		int fd = raw_connection();
		CHECK_INT(send(fd, "no message", 10, MSG_NOSIGNAL), 10);
		CHECK_INT(recv(fd, text, 1, 0), 0);
		close(fd);
	}
	kill(daemon_pid, SIGTERM);
	CHECK_INT(waitpid(daemon_pid, &status, 0), daemon_pid);
	daemon_pid = 0;
	snprintf(path, sizeof path, "%s/log", directory);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK_INT(count_of(text, "a malformed message"), 21);
	CHECK_CONTAINS(text, "480 more lines of this kind were left out, the last: a malformed message from process");
}

TEST(silent_connections_delay_no_other_client)
{
	enum { MANY = 600 };
	int fds[MANY];

	fresh_node();
	start_daemon();
	for (int i = 0; i < MANY; i++)
		fds[i] = vg_wire_connect(socket_path, 5000);
	CHECK_AGREED(ask("{'op':'ping'}"));
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	CHECK_AGREED(ask("{'op':'ping'}"));
}

TEST(only_one_of_many_daemons_starts)
{
	enum { MANY = 6 };
	bool ready;
	int status;

	fresh_node();
	start_daemon();
	for (int i = 0; i < MANY; i++) {
		pid_t second = start_daemon_at(runtime_dir, "0", &ready);
		CHECK(!ready);
		CHECK_INT(waitpid(second, &status, 0), second);
		CHECK_INT(WEXITSTATUS(status), 125);
	}
	CHECK_AGREED(ask("{'op':'ping'}"));
}

TEST(stale_socket_is_replaced)
{
	bool ready;

	fresh_node();
	start_daemon();
	kill_daemon();
	CHECK_INT(access(socket_path, F_OK), 0);
	start_daemon();
	CHECK_AGREED(ask("{'op':'ping'}"));
	kill_daemon();
	unlink(socket_path);
	// A daemon does not replace the socket of another process that still listens.
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(vg_wire_address(socket_path, &address), 0);
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_INT(listen(fd, 8), 0);
	pid_t second = start_daemon_at(runtime_dir, "0", &ready);
	CHECK(!ready);
	waitpid(second, NULL, 0);
	int client = vg_wire_connect(socket_path, 1000);
	CHECK(client >= 0);
	close(client);
	close(fd);
}

TEST(removed_socket_is_created_again)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'x','memory':%llu}", GIB));
	CHECK_INT(unlink(socket_path), 0);
	for (int i = 0; i < 500 && access(socket_path, F_OK) < 0; i++)
		usleep(10000);
	CHECK_AGREED(ask("{'op':'inspect','name':'x'}"));
}

TEST(idle_daemon_ends)
{
	bool ready;

	fresh_node();
	pid_t child = start_daemon_at(runtime_dir, "1", &ready);
	CHECK(ready);
	CHECK_AGREED(ask("{'op':'create','name':'kept','memory':%llu}", GIB));
	CHECK_CHILD(child);
	CHECK_INT(access(socket_path, F_OK), -1);
	start_daemon();
	CHECK_INT(figure("kept", "memory"), GIB);
}

// Connects while the daemon ends. The client must reach that daemon or the next one.
TEST(daemon_starts_while_another_ends)
{
	bool ready;

	fresh_node();
	for (int i = 0; i < 10; i++) {
		start_daemon();
		pid_t leaving = daemon_pid;
		CHECK_AGREED(ask("{'op':'shutdown'}"));
		// the path is removed before the answer; otherwise the ending daemon would get the next request
		CHECK(access(socket_path, F_OK) < 0);
		daemon_pid = start_daemon_at(runtime_dir, "0", &ready);
		CHECK(ready);
		CHECK_AGREED(ask("{'op':'ping'}"));
		CHECK_INT(waitpid(leaving, NULL, 0), leaving);
		kill_daemon();
	}
}

// Shuts down a daemon that still waits for its last client. Meanwhile another process listens on the socket's path, and
// the daemon must not remove that socket.
TEST(daemon_that_was_shut_down_leaves_the_next_socket)
{
	struct sockaddr_un address;

	fresh_node();
	start_daemon();
	int client = raw_connection();
	CHECK_AGREED(ask("{'op':'shutdown'}"));
	CHECK_INT(vg_wire_address(socket_path, &address), 0);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	close(client);
	CHECK_INT(waitpid(daemon_pid, NULL, 0), daemon_pid);
	daemon_pid = 0;
	CHECK_INT(access(socket_path, F_OK), 0);
	close(listener);
}

TEST(directory_of_another_user_is_not_used)
{
	bool ready;

	fresh_node();
	CHECK_INT(mkdir(runtime_dir, 0700), 0);
	CHECK_INT(chmod(runtime_dir, 0777), 0);
	pid_t child = start_daemon_at(runtime_dir, "0", &ready);
	CHECK(!ready);
	waitpid(child, NULL, 0);
}
