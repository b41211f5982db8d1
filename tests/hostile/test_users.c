// Checks that subordinate user ids count as the user who owns them, and that slow look-ups of users do not delay other
// requests.
#include "victim.h"

#include <sys/socket.h>

// ---- subordinate ids ------------------------------------------------------------------------------------------

enum { FIRST_SUBORDINATE = 700000000, USERS = 20, VGPUS_EACH = 8, CONNECTIONS_EACH = 20 };

// Writes /etc/subuid in a copy of /etc. Only this mount namespace sees the copy.
static void write_subordinate_ids(const char *format, ...)
{
	char text[4096], path[300];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	snprintf(path, sizeof path, "%s/etc/subuid", directory);
	CHECK_INT(vg_file_write_atomic(path, text, strlen(text), 0644), 0);
}

static void copy_etc(void)
{
	char command[600];

	snprintf(command, sizeof command, "cp -a /etc %s/etc && mount --bind %s/etc /etc", directory, directory);
	CHECK_INT(system(command), 0);
}

static volatile unsigned int *made; // number of vGPUs made, in memory shared with the children

static void make_vgpus(void)
{
	for (int i = 0; i < VGPUS_EACH; i++) {
		json_t *reply = ask("{'op':'create','name':'v%u-%d','memory':16777216}", (unsigned int)getuid(), i);
		*made += agreed(reply);
		json_decref(reply);
	}
}

static void hold_connections(void)
{
	for (int i = 0; i < CONNECTIONS_EACH; i++)
		vg_wire_connect(socket_path, 1000);
	attack_begins();
	for (;;)
		pause();
}

static void make_one(void)
{
	static char name[40];

	snprintf(name, sizeof name, "one%u", (unsigned int)getuid());
	json_t *reply = ask("{'op':'create','name':'%s','memory':16777216}", name);
	_exit(agreed(reply) ? 0 : 7);
}

TEST(subordinate_ids_count_as_their_owner)
{
	made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*made = 0;
	simulated_gpu = "memory=8G,ctx=16M";
	prepare_system();
	copy_etc();
	write_subordinate_ids("# ids\nnobody-of-that-name:1:2\n%u:%u:65536\nroot:%u:100\nbroken:1\n:\n",
			      (unsigned int)alice, FIRST_SUBORDINATE, FIRST_SUBORDINATE + 100000);
	start_system_daemon();
	for (unsigned int i = 0; i < USERS; i++)
		run_user(FIRST_SUBORDINATE + i, make_vgpus);
	CHECK_INT(*made, 64);
	CHECK_INT(try_user(alice, make_one), 7);
	CHECK_INT(try_user(bob, make_one), 0);
	// The subordinate ids of root count as one user together. They do not count as root.
	*made = 0;
	for (unsigned int i = 0; i < USERS; i++)
		run_user(FIRST_SUBORDINATE + 100000 + i, make_vgpus);
	CHECK_INT(*made, 64);
	CHECK_INT(try_user(0, make_one), 0);
	// A subordinate id without an owner counts as a user of its own. The daemon reads /etc/subuid at most once a
	// second, so wait for that.
	write_subordinate_ids("# none\n");
	int status = 7;
	for (unsigned int i = 0; i < 1000 && status == 7; i++) {
		status = try_user(FIRST_SUBORDINATE + 1000 + i, make_one);
		poll(NULL, 0, 10);
	}
	CHECK_INT(status, 0);
	CHECK_INT(umount2("/etc", MNT_DETACH), 0);
}

TEST(connections_of_subordinate_ids_count_as_their_owners)
{
	prepare_system();
	copy_etc();
	write_subordinate_ids("%u:%u:65536\n", (unsigned int)alice, FIRST_SUBORDINATE);
	start_system_daemon();
	size_t before = count_descriptors(daemon_pid);
	for (unsigned int i = 0; i < USERS; i++)
		start_attack_of(FIRST_SUBORDINATE + i, hold_connections);
	check_victim("connections of many subordinate ids");
	CHECK(count_descriptors(daemon_pid) < before + 128 + 30);
	end_all_users();
	CHECK_INT(umount2("/etc", MNT_DETACH), 0);
}

// ---- a slow directory of users and groups -------------------------------------------------------------------------

static void ask_for_groups(void)
{
	for (int i = 0; i < 32; i++)
		if (fork() == 0)
			for (int j = 0;; j++) {
				char request[200];
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				snprintf(request, sizeof request,
					 "{\"op\":\"create\",\"name\":\"g\",\"memory\":16777216,"
					 "\"group\":\"g%d-%d\"}",
					 i, j);
				int fd = vg_wire_connect(socket_path, 1000);
				vg_wire_send(fd, VG_WIRE_ADMIN, 0, request, strlen(request), NULL, 0);
				poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 100);
				close(fd);
			}
	attack_begins();
	for (;;)
		pause();
}

TEST(groups_that_are_slow_to_look_up)
{
	char gates[300], path[400];

	prepare_system();
	snprintf(gates, sizeof gates, "%s/gates", directory);
	snprintf(path, sizeof path, "%s/hold-groups", gates);
	CHECK_INT(mkdir(gates, 0700), 0);
	CHECK_INT(mknod(path, S_IFREG | 0600, 0), 0);
	setenv("SLOW_SYSTEM", gates, 1);
	setenv("LD_PRELOAD", SLOW_SYSTEM_LIBRARY, 1);
	start_system_daemon();
	unsetenv("LD_PRELOAD");
	pid_t attacker = start_attack(ask_for_groups);
	snprintf(path, sizeof path, "%s/waits-groups", gates);
	for (int i = 0; i < 1000 && access(path, F_OK) < 0; i++)
		poll(NULL, 0, 5);
	CHECK_INT(access(path, F_OK), 0);
	check_victim("groups that are slow to look up");
	end_user(attacker);
	end_daemon_at_once();
}
