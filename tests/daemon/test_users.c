// Tests the system's daemon with several users. Needs root, to run processes of these users.
#include "ledger/layout.h"
#include "ledger/shared.h"
#include "users_fixture.h"

#include <sys/mman.h>
#include <sys/prctl.h>

TEST(rights_of_owner_group_others_and_root)
{
	char path[400];
	struct stat status;

	start_system_daemon();
	CHECK_ANSWER(ALICE, SHARED_GROUP, "{'op':'create','name':'a','memory':1000000000,'group':'games'}", "");
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(stat(path, &status), 0);
	CHECK_INT(status.st_uid, ALICE);
	CHECK_INT(status.st_gid, SHARED_GROUP);
	CHECK_INT(status.st_mode & 0777, 0660);
	CHECK_ANSWER(ALICE, 0, "{'op':'enter','vgpu':'a'}", "");
	CHECK_ANSWER(BOB, SHARED_GROUP, "{'op':'enter','vgpu':'a'}", "");
	CHECK_ANSWER(BOB, 0, "{'op':'enter','vgpu':'a'}", "denied");
	CHECK_ANSWER(BOB, SHARED_GROUP, "{'op':'set','name':'a','memory':2000000000}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'inspect','name':'a'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'logs','name':'a'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'rm','name':'a'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'suspend','name':'a'}", "denied");
	CHECK_ANSWER(BOB, SHARED_GROUP, "{'op':'resume','name':'a'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'list'}", "");
	CHECK_OUTCOME(ALICE, 0, "{'op':'list'}", tenants_of_first, "a list");
	CHECK_OUTCOME(BOB, SHARED_GROUP, "{'op':'list'}", tenants_of_first, "a list");
	// tenants are listed as null, because Bob may not see them
	CHECK_OUTCOME(BOB, 0, "{'op':'list'}", tenants_of_first, "null");
	CHECK_ANSWER(BOB, 0, "{'op':'shutdown'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000,'group':'games'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000}", "");
	snprintf(path, sizeof path, "%s/ledgers/b", runtime_dir);
	CHECK_INT(stat(path, &status), 0);
	CHECK_INT(status.st_mode & 0777, 0600);
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','memory':3000000000}", "");
	// The request comes from root, who may change every vGPU.
	CHECK_AGREED(ask("{'op':'set','name':'b','memory':2000000000}"));
	CHECK_ANSWER(ALICE, 0, "{'op':'rm','name':'a'}", "");
}

// Checks that the shares of all users on a GPU are at most 100 %, and that users cannot change the shares of others.
TEST(shares_of_all_users_fit_the_device)
{
	start_system_daemon();
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000,'share':60,'device':0}", "");
	CHECK_OUTCOME(
		BOB, 0, "{'op':'create','name':'b','memory':1000000000,'share':50,'device':0}", find_message,
		"GPU 0: asked for a share of 50 %, but 40 % is left: other vGPUs have 60 %; ask for less, or lower a "
		"share with `virgate set NAME --share PERCENT`");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000,'share':40,'device':0}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','share':61}", "limit");
	CHECK_ANSWER(BOB, 0, "{'op':'set','name':'a','share':10}", "denied");
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','share':10}", "");
	CHECK_ANSWER(BOB, 0, "{'op':'set','name':'b','share':90}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','share':11}", "limit");
}

TEST(refusal_names_the_users_with_the_right)
{
	static const struct {
		const char *request, *says;
	} all[] = {
		{"{'op':'enter','vgpu':'a'}", "vGPU a: only its owner (60001), members of the group games and root "
					      "may run programs in it"},
		{"{'op':'set','name':'a','memory':1}", "vGPU a: only its owner (60001) and root may change it"},
		{"{'op':'rm','name':'a'}", "vGPU a: only its owner (60001) and root may remove it"},
		{"{'op':'suspend','name':'a'}", "vGPU a: only its owner (60001) and root may suspend its programs"},
		{"{'op':'resume','name':'a'}", "vGPU a: only its owner (60001) and root may resume its programs"},
		{"{'op':'inspect','name':'a'}", "members of the group games and root may see its programs"},
		{"{'op':'logs','name':'a'}", "members of the group games and root may see what it refused"},
		{"{'op':'enter','vgpu':'b'}", "vGPU b: only its owner (60001) and root may run programs in it"},
	};
	char outcome[256];

	start_system_daemon();
	CHECK_ANSWER(ALICE, SHARED_GROUP, "{'op':'create','name':'a','memory':1000000000,'group':'games'}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'b','memory':1000000000}", "");
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		ask_as(BOB, 0, all[i].request, find_message, outcome);
		CHECK_CONTAINS(outcome, all[i].says);
	}
}

static const char *ledger_of_vgpu(json_t *reply)
{
	const json_t *vgpu = json_object_get(reply, "vgpu");

	return json_is_string(json_object_get(vgpu, "ledger")) ? "a path" : "nothing";
}

TEST(root_creates_vgpus_for_other_users)
{
	char path[400];
	struct stat status;

	start_system_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':1000000000,'owner':'%d'}", ALICE));
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(stat(path, &status), 0);
	CHECK_INT(status.st_uid, ALICE);
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','memory':2000000000}", "");
	CHECK_OUTCOME(ALICE, 0, "{'op':'inspect','name':'a'}", ledger_of_vgpu, "a path");
	CHECK_AGREED(ask("{'op':'enter','name':'b','memory':1000000000,'owner':'daemon'}")); // owner by name
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':1000000000,'owner':'60001'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':1000000000,'owner':'root'}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':1000000000,'owner':'60002'}", "");
	CHECK_ANSWER(BOB, 0, "{'op':'rm','name':'c'}", "");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':1000000000,'owner':'nobody-of-that-name'}"), "not_found",
		      "there is no user nobody-of-that-name");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':1000000000,'owner':'-1'}"), "not_found", "-1");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':1000000000,'owner':'4294967295'}"), "not_found", "429");
	CHECK_REFUSED(ask("{'op':'create','name':'d','memory':1000000000,'owner':7}"), "invalid", "owner");
}

#define CHECK_ENDED(child, signal)                                            \
	do {                                                                  \
		int status_;                                                  \
		CHECK_INT(waitpid(child, &status_, 0), child);                \
		CHECK(WIFSIGNALED(status_) && WTERMSIG(status_) == (signal)); \
	} while (0)

// Returns "damaged" if vGPU a is damaged, else "sound"; "no row" if vGPU a is not listed, or if a number in any row is
// negative.
static const char *state_of_a(json_t *reply)
{
	const char *state = "no row", *key;
	json_t *row, *value;
	size_t i;

	json_array_foreach(json_object_get(reply, "vgpus"), i, row) {
		json_object_foreach(row, key, value)
			if (json_is_integer(value) && json_integer_value(value) < 0)
				return "no row";
		if (strcmp(json_string_value(json_object_get(row, "name")), "a") == 0)
			state = json_is_true(json_object_get(row, "damaged")) ? "damaged" : "sound";
	}
	return state;
}

// Overwrites the ledger of a user's own vGPU. All users must see the vGPU as damaged, and its owner and root must be
// able to remove it.
TEST(overwritten_ledger_is_listed_as_damaged)
{
	char path[400], outcome[256];
	uint64_t ones = UINT64_MAX;

	for (int who = 0; who < 2; who++) {
		uid_t remover = who ? 0 : ALICE;
		start_system_daemon();
		CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000}", "");
		CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000}", "");
		CHECK_OUTCOME(BOB, 0, "{'op':'list'}", state_of_a, "sound");
		snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		CHECK_INT(pwrite(fd, &ones, sizeof ones, 192), sizeof ones); // this word is the sum of what is charged
		close(fd);
		CHECK_OUTCOME(BOB, 0, "{'op':'list'}", state_of_a, "damaged");
		CHECK_OUTCOME(0, 0, "{'op':'list'}", state_of_a, "damaged");
		CHECK_ANSWER(BOB, 0, "{'op':'rm','name':'a','force':true}", "denied");
		CHECK_ANSWER(BOB, 0, "{'op':'inspect','name':'b'}", "");
		ask_as(remover, 0, "{'op':'rm','name':'a','force':true}", find_code, outcome);
		CHECK_STR(outcome, "");
		CHECK_OUTCOME(BOB, 0, "{'op':'list'}", state_of_a, "no row");
		CHECK_ANSWER(BOB, 0, "{'op':'rm','name':'b'}", "");
	}
}

enum { KEY = 4711 };

// Starts a tenant of a user in the vGPU, with `bytes` charged. The tenant calls `then`, which returns whether all
// checks passed, and waits.
static pid_t start_user(uid_t uid, gid_t group, const char *name, uint64_t bytes,
			bool (*then)(struct vg_ledger *ledger, struct vg_wire_guest *self))
{
	char path[400], byte = 0;
	int ready[2];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	CHECK_INT(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger *ledger;
		struct vg_ledger_owner owner;
		struct vg_wire_guest self = {.key = KEY};
		byte = setgroups(group != 0, &group) == 0 && setgid((gid_t)uid) == 0 && setuid(uid) == 0 &&
		       vg_ledger_open(path, &ledger) == 0 && vg_ledger_reserve(ledger, VG_LEDGER_VMM, bytes) == 0 &&
		       vg_ledger_self(&owner) == 0;
		self.self = (struct vg_wire_registration){
			.pid = owner.pid, .pid_namespace = owner.pid_namespace, .start_time = owner.start_time};
		snprintf(self.self.ledger, sizeof self.self.ledger, "%s", name);
		byte = byte && then(ledger, &self);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL); // after setuid(), which clears it
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || !byte)
		FAIL("the tenant of user %u in %s does not get what it should", (unsigned int)uid, name);
	close(ready[0]);
	return child;
}

static bool share_memory(struct vg_ledger *ledger, struct vg_wire_guest *self)
{
	uint32_t share;

	return vg_ledger_shared_create(ledger, 64 * MIB, &share) == 0 &&
	       vg_ledger_shared_add_name(ledger, share, KEY, true) == 0;
}

static bool join_memory(struct vg_ledger *ledger, struct vg_wire_guest *self)
{
	struct vg_wire_guest answer;
	struct vg_ledger *other;
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	return vg_ledger_open(path, &other) == -EACCES && vg_wire_be_guest(socket_path, self, &answer) == 0 &&
	       answer.share && answer.key == 64 * MIB && strcmp(answer.vgpu, "a") == 0;
}

// Tries to make a process a guest (a user of memory of another vGPU), with a false identity or an unknown key of a
// shared allocation. Returns whether the daemon refuses that.
static bool is_refused(struct vg_ledger *ledger, struct vg_wire_guest *self)
{
	struct vg_wire_guest answer, other = *self;

	other.key = KEY + 1;
	if (vg_wire_be_guest(socket_path, &other, &answer) != 0 || answer.share)
		return false;
	other = *self;
	other.self.pid = (uint32_t)getppid();
	return vg_wire_be_guest(socket_path, &other, &answer) == 0 && !answer.share;
}

static bool keep_running(struct vg_ledger *ledger, struct vg_wire_guest *self)
{
	return vg_wire_register_and_wait(socket_path, &self->self, -1) == 0;
}

// Writes the process into the first slot of a vGPU's ledger, as the owner of the vGPU can.
static void name_process(const char *name, pid_t pid)
{
	struct vg_ledger_owner owner;
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct ledger_file *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(file != MAP_FAILED);
	close(fd);
	CHECK_INT(vg_ledger_self(&owner), 0);
	owner.pid = (uint32_t)pid;
	CHECK_INT(vg_process_start_time(pid, &owner.start_time), 0);
	file->slots[0].owner = ledger_owner_word(&owner);
	file->header.slots_touched = 1;
	munmap(file, sizeof *file);
}

static const char *vgpu_asked(json_t *reply)
{
	return agreed(reply) ? json_string_value(json_object_get(reply, "name")) : find_message(reply);
}

TEST(owner_and_root_suspend_processes)
{
	char request[80], outcome[256];

	start_system_daemon();
	CHECK_ANSWER(ALICE, SHARED_GROUP,
		     "{'op':'create','name':'a','memory':1000000000,'group':'games','evictable':true}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'plain','memory':1000000000}", "");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'z','memory':1000000000,'evictable':true}", "");
	pid_t program = start_user(ALICE, 0, "a", MIB, keep_running),
	      other = start_user(ALICE, 0, "plain", MIB, keep_running);
	snprintf(request, sizeof request, "{'op':'suspend','pid':%d}", (int)program);
	CHECK_ANSWER(BOB, 0, request, "not_found"); // Bob may not see the process
	CHECK_ANSWER(BOB, SHARED_GROUP, request, "denied");
	ask_as(BOB, SHARED_GROUP, request, find_message, outcome);
	CHECK_STR(outcome, "vGPU a: only its owner (60001) and root may suspend its programs");
	CHECK_OUTCOME(ALICE, 0, request, vgpu_asked, "a");
	CHECK_AGREED(ask("{'op':'resume','pid':%d}", (int)program)); // the request comes from root
	// A request to suspend a process does not reach a ledger of another user that names this process.
	name_process("z", getpid());
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)getpid()), "not_found", "does not run in a vGPU of yours");
	name_process("z", other);
	CHECK(await_figure("z", "tenants", 1, 2000) >= 0);
	CHECK_REFUSED(ask("{'op':'suspend','pid':%d}", (int)other), "unsupported", "vGPU plain is not evictable");
	name_process("z", program);
	poll(NULL, 0, 300);
	snprintf(request, sizeof request, "{'op':'suspend','pid':%d}", (int)program);
	CHECK_OUTCOME(0, 0, request, vgpu_asked, "a");
	CHECK_ANSWER(BOB, 0, request, "not_found");
	kill_tenant(program);
	kill_tenant(other);
}

TEST(signals_reach_the_tenants_of_all_users)
{
	start_system_daemon();
	CHECK_ANSWER(ALICE, SHARED_GROUP, "{'op':'create','name':'a','memory':1000000000,'group':'games'}", "");
	CHECK_SIGNALLED("a", SIGTERM, 0);
	pid_t alice = start_user(ALICE, 0, "a", MIB, keep_running),
	      bob = start_user(BOB, SHARED_GROUP, "a", MIB, keep_running);
	CHECK_ANSWER(BOB, SHARED_GROUP, "{'op':'kill','name':'a','signal':9}", "denied");
	CHECK_ANSWER(BOB, 0, "{'op':'kill','name':'a','signal':9}", "denied");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'b','signal':9}", "not_found");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'a','signal':0}", "invalid");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'a','signal':65}", "invalid");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'a','signal':'TERM'}", "invalid");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'a'}", "invalid");
	CHECK_ANSWER(ALICE, 0, "{'op':'kill','name':'a','signal':15}", "");
	CHECK_ENDED(alice, SIGTERM);
	CHECK_ENDED(bob, SIGTERM); // Alice may end Bob's program, since it runs in her vGPU
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	pid_t another = start_user(ALICE, 0, "a", MIB, keep_running);
	CHECK_SIGNALLED("a", SIGUSR1, 1); // the request comes from root
	CHECK_ENDED(another, SIGUSR1);
}

// Starts a process outside all vGPUs that answers each byte that it reads, until it is killed.
static pid_t start_bystander(int *ret_ends)
{
	int to[2], from[2];
	char byte;

	CHECK_INT(pipe(to), 0);
	CHECK_INT(pipe(from), 0);
	pid_t child = fork();
	if (child == 0) {
		close(to[1]);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	ret_ends[0] = from[0], ret_ends[1] = to[1];
	return child;
}

static bool process_is_of(pid_t pid, uid_t uid)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &status) == 0 && status.st_uid == uid;
}

// Starts a process of the user, which waits until it is killed.
static pid_t start_process(uid_t uid)
{
	pid_t child = fork();

	if (child == 0) {
		if (setgid((gid_t)uid) < 0 || setuid(uid) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	while (!process_is_of(child, uid))
		poll(NULL, 0, 1);
	return child;
}

// Makes an invented container id that occurs in the control group paths of all processes of this machine: the first
// word in this process's own path. A daemon that only searches for the id would take all processes for those of the
// container.
static void format_common_id(char ret_id[32])
{
	char groups[4096];

	CHECK(vg_file_read("/proc/self/cgroup", groups, sizeof groups) > 0);
	const char *word = strpbrk(groups, "abcdefghijklmnopqrstuvwxyz");
	if (!word)
		SKIP("this machine's control groups have no names");
	snprintf(ret_id, 32, "%.*s", (int)strspn(word, "abcdefghijklmnopqrstuvwxyz"), word);
}

// Alice starts a container whose id matches the control groups of all users. She lets the daemon kill processes in it
// that use the GPU without the interposer. Bob's process must not be killed.
TEST(a_container_does_not_reach_processes_of_others)
{
	char request[256], id[32];

	start_system_daemon();
	format_common_id(id);
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000}", "");
	pid_t first = start_process(ALICE), alice = start_process(ALICE), bob = start_process(BOB);
	set_world("gpu %llu\nprocess 0 %d 1000000\nprocess 0 %d 1000000\n", 8 * GIB, (int)alice, (int)bob);
	snprintf(request, sizeof request,
		 "{'op':'enter','vgpu':'a','container':{'pid':%d,'id':'%s','kill_outside':true}}", (int)first, id);
	CHECK_ANSWER(ALICE, 0, request, "");
	// The daemon scans all processes on the GPU. The scan that killed Alice's process has also seen Bob's, and must
	// not have killed it.
	CHECK_ENDED(alice, SIGKILL);
	poll(NULL, 0, 300);
	CHECK_INT(waitpid(bob, NULL, WNOHANG), 0);
	kill(bob, SIGKILL);
	CHECK_ENDED(bob, SIGKILL);
	kill(first, SIGKILL);
	CHECK_ENDED(first, SIGKILL);
}

// Writes a process into a ledger, as each user can do in a ledger of its own. The daemon must not send a signal to that
// process.
TEST(signals_do_not_reach_a_process_named_in_a_ledger)
{
	char path[400], byte = 1;
	struct vg_ledger_owner named;
	int ends[2];

	start_system_daemon();
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000}", "");
	pid_t alice = start_user(ALICE, 0, "a", MIB, keep_running), bystander = start_bystander(ends);
	const pid_t targets[] = {bystander, daemon_pid};
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct ledger_file *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(fd >= 0 && file != MAP_FAILED);
	CHECK_INT(vg_ledger_self(&named), 0);
	for (int i = 0; i < 2; i++) {
		file->slots[1 + i] = file->slots[0];
		file->processes[1 + i] = file->processes[0];
		named.pid = (uint32_t)targets[i];
		CHECK_INT(vg_process_start_time(targets[i], &named.start_time), 0);
		file->slots[1 + i].owner =
			(ledger_word)named.start_time << 64 | (ledger_word)named.pid_namespace << 32 | named.pid;
		file->slots[1 + i].image = 0; // 0: any program
	}
	file->header.slots_touched = 3;
	munmap(file, sizeof *file);
	close(fd);
	CHECK_INT(figure("a", "tenants"), 3);
	CHECK_SIGNALLED("a", SIGKILL, 1);
	CHECK_ENDED(alice, SIGKILL);
	CHECK_INT(write(ends[1], &byte, 1), 1);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	CHECK_AGREED(ask("{'op':'ping'}"));
	kill_tenant(bystander);
}

TEST(memory_stays_charged_to_the_vgpu_of_another_user)
{
	start_system_daemon();
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000,'device':0}", "");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000,'device':0}", "");
	pid_t alice = start_user(ALICE, 0, "a", 80 * MIB, share_memory);
	pid_t stranger = start_user(BOB, 0, "b", MIB, is_refused);
	CHECK_INT(figure("a", "tenants"), 1);
	pid_t bob = start_user(BOB, 0, "b", MIB, join_memory);
	CHECK_INT(figure("a", "charged"), 80 * MIB);
	CHECK_INT(figure("a", "tenants"), 2);
	CHECK_SIGNALLED("a", SIGKILL, 1); // the signal does not reach the process that only opened memory
	CHECK_ENDED(alice, SIGKILL);
	CHECK(await_figure("a", "charged", 64 * MIB, 3000) >= 0);
	CHECK_INT(figure("b", "charged"), 2 * MIB);
	kill_tenant(bob);
	CHECK(await_figure("a", "charged", 0, 3000) >= 0);
	kill_tenant(stranger);
}

static bool is_pristine(struct vg_ledger *ledger, struct vg_wire_guest *self)
{
	vg_ledger_set_pristine(ledger, true);
	return vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, 544 * MIB) == 0;
}

// Makes a tenant report falsely that it has no memory except for a context. The daemon's estimate of a context's size
// for other users must not change.
TEST(context_overhead_is_measured_for_each_user)
{
	char path[300], text[4096];
	struct vg_ledger *ledger;

	start_system_daemon();
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000,'device':0}", "");
	pid_t alice = start_user(ALICE, 0, "a", 0, is_pristine);
	set_world("gpu %llu\ngpu %llu\nprocess 0 %d %llu\n", 8 * GIB, 8 * GIB, (int)alice, 900 * MIB);
	snprintf(path, sizeof path, "%s/ledgers/a", runtime_dir);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	for (int i = 0; i < 1000 && vg_ledger_context_overhead(ledger) != 900 * MIB; i++)
		poll(NULL, 0, 5);
	CHECK_INT(vg_ledger_context_overhead(ledger), 900 * MIB);
	vg_ledger_close(ledger);
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'c','memory':700000000,'device':0}", "invalid");
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':700000000,'device':0}", "");
	snprintf(path, sizeof path, "%s/state/state.json", directory);
	CHECK(vg_file_read(path, text, sizeof text) > 0);
	CHECK(!strstr(text, "943718400"));
	kill_tenant(alice);
}

// Publishes claims as a user. The system's daemon must ignore them.
TEST(system_daemon_ignores_claims_of_users)
{
	char path[700], text[200];

	start_system_daemon();
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'b','memory':1000000000,'device':0}", "");
	json_t *devices = ask("{'op':'devices'}");
	const json_t *device = json_array_get(json_object_get(devices, "devices"), 0);
	snprintf(text, sizeof text, "{\"claims\":[{\"uuid\":\"%s\",\"bytes\":9000000000000}]}",
		 json_string_value(json_object_get(device, "uuid")));
	json_decref(devices);
	snprintf(path, sizeof path, "%s/claims/%d-1", directory, ALICE);
	CHECK_INT(vg_file_write_atomic(path, text, strlen(text), 0644), 0);
	CHECK_INT(chown(path, ALICE, ALICE), 0);
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'c','memory':1000000000,'device':0}", "");
	// another daemon of root has left this claim, which counts
	snprintf(path, sizeof path, "%s/claims/0-1", directory);
	CHECK_INT(vg_file_write_atomic(path, text, strlen(text), 0644), 0);
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'d','memory':1000000000,'device':0}", "limit");
	CHECK_INT(unlink(path), 0);
	// The daemon must also ignore a file that a user puts in place of the directory of claims.
	snprintf(path, sizeof path, "rm -rf '%s/claims' && touch '%s/claims'", directory, directory);
	CHECK_INT(system(path), 0);
	CHECK_ANSWER(BOB, 0, "{'op':'create','name':'d','memory':1000000000,'device':0}", "");
}

// Restarts the daemon. It must be able to open the ledgers of users, although each belongs to its user and other
// users have no rights to it.
TEST(restarted_daemon_opens_ledgers_of_users)
{
	start_system_daemon();
	CHECK_ANSWER(ALICE, 0, "{'op':'create','name':'a','memory':1000000000}", "");
	kill_daemon();
	launch_system_daemon();
	CHECK_OUTCOME(ALICE, 0, "{'op':'list'}", state_of_a, "sound");
	CHECK_ANSWER(ALICE, 0, "{'op':'set','name':'a','memory':2000000000}", "");
	CHECK_ANSWER(ALICE, 0, "{'op':'enter','vgpu':'a'}", "");
}
