// Makes a disk, or the look-up of users, slow or fail. The daemon must answer other requests meanwhile, and confirm no
// change before it is on the disk.
#include "daemon_fixture.h"

#include <pwd.h>

static char gates[280];

static void path_of(const char *word, const char *what, char path[400])
{
	snprintf(path, 400, "%s/%s-%s", gates, word, what);
}

static void create_gate(const char *word, const char *what)
{
	char path[400];

	path_of(word, what, path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void remove_gate(const char *word, const char *what)
{
	char path[400];

	path_of(word, what, path);
	unlink(path);
}

// Waits until a thread of the daemon is blocked in an operation that the test makes slow. `what`: "disk" (a write), or
// "users" or "groups" (a lookup in the system's database).
static void await_wait(const char *what)
{
	char path[400];

	path_of("waits", what, path);
	for (int i = 0; i < 2000 && access(path, F_OK) < 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(access(path, F_OK), 0);
	unlink(path);
}

static void start_slow(void)
{
	setenv("SLOW_SYSTEM", gates, 1);
	setenv("LD_PRELOAD", SLOW_SYSTEM_LIBRARY, 1);
	start_daemon();
	unsetenv("LD_PRELOAD");
}

static void fresh_slow(void)
{
	fresh_node();
	snprintf(gates, sizeof gates, "%s/gates", directory);
	CHECK_INT(mkdir(gates, 0700), 0);
	start_slow();
}

// Sends a request without waiting for its answer.
static int send_only(const char *request)
{
	char text[300];
	int fd = vg_wire_connect(socket_path, 20000);

	snprintf(text, sizeof text, "%s", request);
	for (char *at = text; *at; at++)
		if (*at == '\'')
			*at = '"';
	CHECK(fd >= 0);
	CHECK_INT(vg_wire_send(fd, VG_WIRE_ADMIN, 0, text, strlen(text), NULL, 0), 0);
	return fd;
}

static bool has_answer(int fd)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

static json_t *receive_reply(int fd)
{
	static struct vg_wire_message message;

	CHECK_INT(vg_wire_receive(fd, &message), 0);
	close(fd);
	return json_loads(message.text, 0, NULL);
}

TEST(slow_disk_delays_no_other_request)
{
	fresh_slow();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1073741824}"));
	create_gate("hold", "disk");
	int create = send_only("{'op':'create','name':'b','memory':1073741824}");
	await_wait("disk");
	int raise = send_only("{'op':'set','name':'a','memory':2147483648}");
	int enter = send_only("{'op':'enter','vgpu':'b'}");
	int raise_again = send_only("{'op':'set','name':'a','memory':3221225472}");
	// The daemon reads connections in order: after this answer it has also read the earlier requests.
	CHECK_AGREED(ask("{'op':'list'}"));
	CHECK_AGREED(ask("{'op':'list'}"));
	CHECK_INT(figure("a", "memory"), GIB);
	CHECK(!has_answer(create) && !has_answer(raise) && !has_answer(enter) && !has_answer(raise_again));
	// The requested memory is reserved while the disk is slow, so that the daemon does not admit it twice.
	CHECK_REFUSED(ask("{'op':'create','name':'c','device':0,'memory':8589934592}"), "limit", "GPU 0");
	remove_gate("hold", "disk");
	CHECK_AGREED(receive_reply(create));
	CHECK_AGREED(receive_reply(raise));
	CHECK_AGREED(receive_reply(enter));
	CHECK_AGREED(receive_reply(raise_again));
	CHECK_INT(figure("a", "memory"), 3 * GIB);
	kill_daemon();
	start_slow();
	CHECK_INT(figure("a", "memory"), 3 * GIB);
}

TEST(change_is_undone_if_the_disk_fails)
{
	fresh_slow();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':2147483648}"));
	create_gate("fail", "disk");
	CHECK_REFUSED(ask("{'op':'create','name':'b','memory':1073741824}"), "system", "cannot be saved");
	CHECK_INT(figure("b", "memory"), -1);
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':3221225472,'share':30}"), "system", "not changed");
	CHECK_INT(figure("a", "memory"), 2 * GIB);
	CHECK_INT(figure("a", "share"), 0);
	CHECK_REFUSED(ask("{'op':'set','name':'a','memory':1073741824}"), "system", "is changed, but");
	CHECK_REFUSED(ask("{'op':'rm','name':'a'}"), "system", "is removed, but");
	remove_gate("fail", "disk");
	CHECK_AGREED(ask("{'op':'create','name':'c','memory':1073741824}"));
	kill_daemon();
	start_slow();
	CHECK_INT(figure("a", "memory"), -1);
	CHECK_INT(figure("b", "memory"), -1);
	CHECK_INT(figure("c", "memory"), GIB);
}

TEST(unanswered_change_is_atomic)
{
	fresh_slow();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1073741824}"));
	create_gate("hold", "disk");
	int create = send_only("{'op':'create','name':'b','memory':1073741824}");
	await_wait("disk");
	int raise = send_only("{'op':'set','name':'a','memory':2147483648}");
	CHECK_AGREED(ask("{'op':'list'}"));
	kill_daemon();
	close(create);
	close(raise);
	remove_gate("hold", "disk");
	start_slow();
	CHECK_INT(figure("a", "memory"), GIB);
	// The daemon removes vGPU b, since no process uses the new ledger of b.
	CHECK(await_figure("b", "memory", -1, 10000) >= 0);
	CHECK_AGREED(ask("{'op':'create','name':'b','memory':1073741824}"));
}

TEST(ending_daemon_writes_its_state)
{
	fresh_slow();
	create_gate("hold", "disk");
	int create = send_only("{'op':'create','name':'a','memory':1073741824}");
	await_wait("disk");
	kill(daemon_pid, SIGTERM);

	remove_gate("hold", "disk");
	CHECK_AGREED(receive_reply(create));
	CHECK_INT(waitpid(daemon_pid, NULL, 0), daemon_pid);
	start_slow();
	CHECK_INT(figure("a", "memory"), GIB);
}

static void check_owner(const char *name, const char *owner)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name);

	CHECK_STR(json_string_value(json_object_get(json_object_get(reply, "vgpu"), "owner")), owner);
	json_decref(reply);
}

TEST(slow_directory_of_users_delays_no_other_user)
{
	const struct passwd *self = getpwuid(geteuid());
	char number[16];

	if (!self)
		SKIP("this user has no name");
	snprintf(number, sizeof number, "%u", (unsigned int)geteuid());
	fresh_node();
	snprintf(gates, sizeof gates, "%s/gates", directory);
	CHECK_INT(mkdir(gates, 0700), 0);
	create_gate("hold", "users");
	start_slow();
	int create = send_only("{'op':'create','name':'a','memory':1073741824}");
	await_wait("users");
	CHECK_AGREED(ask("{'op':'ping'}"));
	// The daemon waits only for a limited time for a user's name, and then answers with the number.
	CHECK_AGREED(receive_reply(create));
	check_owner("a", number);
	remove_gate("hold", "users");
	for (int i = 0; i < 400; i++) {
		json_t *reply = ask("{'op':'list'}");
		const json_t *row = json_array_get(json_object_get(reply, "vgpus"), 0);
		bool is_named = strcmp(json_string_value(json_object_get(row, "owner")), number) != 0;
		json_decref(reply);
		if (is_named)
			break;
		poll(NULL, 0, 5);
	}
	check_owner("a", self->pw_name);
	kill_daemon();
	start_slow();
	check_owner("a", self->pw_name); // by now, the daemon has the user's name
}

// ---- truncated ledgers ----------------------------------------------------------------------------------------------

static void start_while_ledgers_are_truncated(void)
{
	create_gate("truncate", "ledgers");
	start_slow();
	remove_gate("truncate", "ledgers");
	CHECK_AGREED(ask("{'op':'list'}"));
}

TEST(ledger_truncated_during_start_is_created_again)
{
	fresh_slow();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1073741824}"));
	kill_daemon();
	start_while_ledgers_are_truncated();
	CHECK_INT(figure("a", "memory"), GIB);
	// No process used the truncated ledger, so the daemon created it again.
	CHECK_AGREED(ask("{'op':'enter','vgpu':'a'}"));
}

TEST(stray_ledger_truncated_during_start_is_ignored)
{
	char command[700];

	fresh_slow();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1073741824}"));
	kill_daemon();
	snprintf(command, sizeof command, "rm -r %s/state && rm %s/vgpus.json", runtime_dir, runtime_dir);
	CHECK_INT(system(command), 0);
	start_while_ledgers_are_truncated();
}
