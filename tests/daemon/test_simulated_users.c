// Tests the system's daemon on a simulated GPU with two users, each with vGPUs of their own. Needs root, to run
// processes of both users.
#include "simulated.h"

#include <grp.h>
#include <sched.h>

enum { ALICE = 60001, BOB = 60002 };

// Standard output and standard error of the last command of a user.
static char out[8192], err[2048];

static void set_up_system_node(void)
{
	char path[300], number[12], byte;
	int ready[2];

	if (geteuid() != 0)
		SKIP("only root can be several users");
	test_needs_reach(VIRGATE);
	fresh_node();
	CHECK_INT(chmod(directory, 0755), 0);
	unsetenv("VIRGATE_SIM_DIR");
	unsetenv("VIRGATE_NVML");
	CHECK_INT(pipe(ready), 0);
	daemon_pid = fork();
	if (daemon_pid == 0) {
		snprintf(path, sizeof path, "%s/log", directory);
		dup2(open(path, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
		setenv("VIRGATE_RUNTIME_DIR", runtime_dir, 1);
		snprintf(path, sizeof path, "%s/state", directory);
		setenv("VIRGATE_STATE_DIR", path, 1);
		setenv("VIRGATE_SIM", "memory=1G,ctx=16M", 1);
		snprintf(number, sizeof number, "%d", ready[1]);
		execl(VIRGATED, "virgated", "--system", "--ready-fd", number, NULL);
		_exit(127);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		FAIL("the daemon does not start: see %s/log", directory);
	close(ready[0]);
	// Removes variables that the environment of a user does not have.
	unsetenv("VIRGATE_RUNTIME_DIR");
	setenv("VIRGATE_SYSTEM_DIR", runtime_dir, 1);
	setenv("VIRGATE_SIM", "1", 1);
}

static void switch_user(uid_t uid)
{
	char home[300];

	snprintf(home, sizeof home, "%s/home-%u", directory, (unsigned)uid);
	mkdir(home, 0700);
	if (chown(home, uid, uid) < 0 || setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0)
		_exit(99);
	setenv("HOME", home, 1);
	unsetenv("VIRGATE_STATE_DIR");
	if (chdir(home) < 0)
		_exit(99);
}

// Runs a shell command as the user, with `virgate` and `holder` of this build. Returns its exit status.
static int run_as(uid_t uid, const char *command)
{
	char paths[2][300], text[1200];
	int status;

	for (int i = 0; i < 2; i++)
		snprintf(paths[i], sizeof paths[i], "%s/said-%d", directory, i);
	pid_t child = fork();
	if (child == 0) {
		dup2(open(paths[0], O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		dup2(open(paths[1], O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
		switch_user(uid);
		snprintf(text, sizeof text,
			 "virgate() { " VIRGATE " \"$@\"; }; holder=" HOLDER "; loader=" LOADER "; %s", command);
		execl("/bin/sh", "sh", "-c", text, NULL);
		_exit(99);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	*out = *err = '\0';
	vg_file_read(paths[0], out, sizeof out);
	vg_file_read(paths[1], err, sizeof err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define CHECK_RUN(uid, command, wanted)                                                     \
	do {                                                                                \
		int code_ = run_as(uid, command);                                           \
		if (code_ != (wanted))                                                      \
			FAIL("%s:%d: %s: %d: %s", __FILE__, __LINE__, command, code_, err); \
	} while (0)

static pid_t start_holder(uid_t uid, const char *name, const char *mib)
{
	int ready[2];
	char word[8];

	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		switch_user(uid);
		dup2(ready[1], 1);
		close(ready[0]);
		execl(VIRGATE, "virgate", "run", "--sim", "--vgpu", name, "--", HOLDER, mib, NULL);
		_exit(9);
	}
	close(ready[1]);
	ssize_t length = read(ready[0], word, sizeof word);
	close(ready[0]);
	if (length != 6)
		FAIL("no program of user %u in %s", (unsigned)uid, name);
	return child;
}

static void end_tenant(const char *name, pid_t launcher)
{
	kill(find_tenant(name), SIGKILL);
	CHECK_INT(waitpid(launcher, NULL, 0), launcher);
}

TEST(two_users_share_a_simulated_gpu)
{
	set_up_system_node();
	CHECK_RUN(ALICE, "virgate create a --memory 512M", 0);
	// the vGPUs of both users count together, and only 256 MiB are left
	CHECK_RUN(BOB, "virgate create b --memory 768M", 1);
	CHECK_CONTAINS(err, "other vGPUs reserve 512.0 MiB of its 1.0 GiB");
	CHECK_RUN(BOB, "virgate create b --memory 256M", 0);
	pid_t alice = start_holder(ALICE, "a", "300"), bob = start_holder(BOB, "b", "100");
	json_int_t charged = figure("a", "charged");
	CHECK(charged >= (json_int_t)(316 * MIB) && charged < (json_int_t)(350 * MIB));
	CHECK(figure("a", "physical") >= (json_int_t)(316 * MIB));
	CHECK(figure("b", "physical") >= (json_int_t)(116 * MIB));
	CHECK_RUN(ALICE, "virgate run --vgpu a -- $holder 300", 2);
	CHECK_CONTAINS(err, "vGPU a: asked 300.0 MiB");
	CHECK_RUN(BOB, "virgate run --vgpu a -- true", 125);
	CHECK_CONTAINS(err, "only its owner");
	CHECK_RUN(BOB, "virgate run --memory 300M -- true", 125); // only 256 MiB are left for the vGPU
	CHECK_RUN(BOB, "virgate run --memory 200M -- true", 0);
	CHECK_RUN(BOB, "virgate ps --sim", 0);
	CHECK_CONTAINS(out, "a ");
	CHECK_CONTAINS(out, "b ");
	end_tenant("a", alice);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	CHECK(figure("b", "charged") > 0);
	end_tenant("b", bob);
	CHECK(await_figure("b", "charged", 0, 3000) >= 0);
}

TEST(names_of_containers_are_reserved_for_root)
{
	set_up_system_node();
	CHECK_RUN(ALICE, "virgate create k8s.1g.00112233.0 --memory 64M", 1);
	CHECK_CONTAINS(err, "vGPU k8s.1g.00112233.0: names that begin with \"k8s.\" are for containers of Kubernetes");
	CHECK_RUN(ALICE, "virgate run --name k8s.x --memory 64M -- true", 125);
	CHECK_CONTAINS(err, "vGPU k8s.x: names that begin");
	CHECK_RUN(ALICE, "virgate create k8s --memory 64M", 0);
	CHECK_RUN(0, "virgate create k8s.1g.00112233.0 --memory 64M", 0);
}

// Both users have the same simulated GPUs, so one can open memory that the other one publishes.
TEST(user_opens_publication_of_another_user)
{
	set_up_system_node();
	char script[600];
	int status;

	pid_t publisher = fork();
	if (publisher == 0) {
		switch_user(ALICE);
		dup2(open("/dev/null", O_WRONLY), 1);
		execl(VIRGATE, "virgate", "share", "publish", "w", "--size", "4M", "--mode", "644", "--sim", NULL);
		_exit(9);
	}
	for (int i = 0; i < 1000; i++) {
		json_t *reply = ask("{'op':'publications'}");
		bool there = json_array_size(json_object_get(reply, "publications")) == 1;
		json_decref(reply);
		if (there)
			break;
		CHECK_INT(waitpid(publisher, &status, WNOHANG), 0);
		poll(NULL, 0, 10);
	}
	snprintf(script, sizeof script, "virgate share open w --to copy --sim && test $(stat -c %%s copy) = 4194304");
	CHECK_RUN(BOB, script, 0);
	kill(publisher, SIGTERM);
	CHECK_INT(waitpid(publisher, NULL, 0), publisher);
}

// A program that has another user id, because it runs in a user namespace, finds the daemon and the simulated GPUs of
// its vGPU.
TEST(program_with_another_user_id_works)
{
	set_up_system_node();
	CHECK_RUN(ALICE, "virgate create a --memory 512M", 0);
	if (run_as(ALICE, "unshare -Ur true") != 0)
		SKIP("no user namespaces here");
	CHECK_RUN(
		ALICE,
		"VIRGATE_SIM_DIR=$HOME/sim VIRGATE_RUNTIME_DIR=$HOME/run VIRGATE_STATE_DIR=$HOME/state; export "
		"VIRGATE_SIM_DIR VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR; "
		"virgate run --sim --memory 512M -- unshare -Ur $loader modules; r=$?; virgate shutdown --sim; exit $r",
		0);
	CHECK_STR(err, "");
	// The root user has no id in that namespace, so the program cannot verify that root owns the directory of the
	// simulated GPUs. It then reports that.
	int code = run_as(ALICE, "virgate run --vgpu a -- unshare -Ur $loader modules");
	if (code != 0)
		CHECK_CONTAINS(err, "belongs to another user");
}

TEST(node_of_another_user_is_refused)
{
	set_up_system_node();
	CHECK_RUN(ALICE,
		  "VIRGATE_SIM_DIR=$HOME/sim VIRGATE_RUNTIME_DIR=$HOME/run VIRGATE_STATE_DIR=$HOME/state; export "
		  "VIRGATE_SIM_DIR VIRGATE_RUNTIME_DIR VIRGATE_STATE_DIR; virgate devices --sim; virgate shutdown "
		  "--sim; chmod 755 $HOME $HOME/sim; chmod 666 $HOME/sim/*",
		  0);
	char command[800];
	snprintf(command, sizeof command,
		 "VIRGATE_SIM_DIR=%s/home-%d/sim VIRGATE_RUNTIME_DIR=$HOME/run VIRGATE_STATE_DIR=$HOME/state virgate "
		 "devices "
		 "--sim",
		 directory, ALICE);
	CHECK_RUN(BOB, command, 1);
	CHECK_CONTAINS(err, "belongs to another user (60001)");
	snprintf(command, sizeof command,
		 "VIRGATE_SIM_DIR=%s/home-%d/sim VIRGATE_RUNTIME_DIR=%s/root-run virgate devices --sim", directory,
		 ALICE, directory);
	CHECK_RUN(0, command, 1); // programs of root must not use the user's simulated GPUs, either
	CHECK_CONTAINS(err, "belongs to another user (60001)");
}
