// Tests shared allocations of processes in one or two vGPUs, with a daemon that measures and reaps these processes.
#include "../shim/actor.h"
#include "ledger/shared.h"
#include "simulated.h"

#define CONTEXT (16 * MIB)

static struct actor owner, user;

static struct actor actor_in(const char *vgpu)
{
	char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, vgpu);
	setenv("VIRGATE_LEDGER", path, 1);
	setenv("VIRGATE_SOCKET", socket_path, 1);
	setenv("VIRGATE_DRIVER", SIMULATED_DRIVER, 1);
	struct actor actor = actor_start();
	CHECK_INT(act(&actor, START, 0), CUDA_SUCCESS);
	return actor;
}

// Starts two actors: the owner of the memory in vGPU a, and its user in the vGPU `other`.
static void start_actors(const char *other)
{
	unsetenv("LD_PRELOAD"); // only the actors need LD_PRELOAD, not the daemon
	set_up_simulated_node();
	CHECK_INT(virgate("create a --sim --memory 256M"), 0);
	CHECK_INT(virgate("create b --sim --memory 256M"), 0);
	owner = actor_in("a");
	user = actor_in(other);
}

static void check_stays_charged(const char *vgpu, uint64_t charged)
{
	for (int i = 0; i < 6; i++) { // the daemon measures every 250 ms
		CHECK_INT(figure(vgpu, "charged"), charged);
		poll(NULL, 0, 100);
	}
}

static struct act exported_handle(uint64_t bytes)
{
	CHECK_INT(act(&owner, ALLOC, bytes), CUDA_SUCCESS);
	struct act handle = act_with(&owner, GET_HANDLE, NULL, 0, -1, NULL);
	CHECK_INT(handle.result, CUDA_SUCCESS);
	return handle;
}

static void kill_the_daemon(void)
{
	json_t *reply = ask("{'op':'ping'}");
	pid_t pid = (pid_t)json_integer_value(json_object_get(reply, "pid"));
	struct pollfd end = {vg_pidfd_open(pid), POLLIN, 0};

	json_decref(reply);
	kill(pid, SIGKILL);
	CHECK_INT(poll(&end, 1, 5000), 1);
	close(end.fd);
}

static void end_both(void)
{
	actor_end(&owner);
	actor_end(&user);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	CHECK(await_figure("b", "charged", 0, 2000) >= 0);
	end_daemon();
}

// Ends the owner of memory that a second process has open. NVML then lists the memory under the second process. It must
// not count as that process's undeclared memory.
TEST(memory_of_an_ended_owner_is_charged_once)
{
	start_actors("a");
	struct act handle = exported_handle(160 * MIB);
	CHECK_INT(act_with(&user, OPEN, &handle, 0, -1, NULL).result, CUDA_SUCCESS);
	check_stays_charged("a", 2 * CONTEXT + 160 * MIB);
	actor_kill(&owner);
	CHECK(await_figure("a", "charged", CONTEXT + 160 * MIB, 2000) >= 0);
	CHECK_INT(figure("a", "shared"), 160 * MIB);
	// the interposer reads the daemon's measurement at this allocation
	CHECK_INT(act(&user, ALLOC, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(act(&user, FREE, 0), CUDA_SUCCESS);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	owner = actor_in("a");
	end_both();
}

TEST(memory_kept_by_a_descriptor_is_charged_once)
{
	int fd;

	start_actors("a");
	CHECK_INT(act_with(&owner, CREATE, NULL, 160 * MIB, -1, &fd).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&user, MAP, 160 * MIB), CUDA_SUCCESS);
	actor_kill(&owner);
	CHECK(await_figure("a", "charged", CONTEXT + 160 * MIB, 2000) >= 0);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	// While the descriptor is open, the memory is still charged to the ended owner. "shared" counts only the
	// charges of shared allocations without an owner.
	CHECK_INT(figure("a", "shared"), 0);
	close(fd);
	CHECK(await_figure("a", "shared", 160 * MIB, 2000) >= 0);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	CHECK_INT(act(&user, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK(await_figure("a", "charged", CONTEXT, 2000) >= 0);
	owner = actor_in("a");
	end_both();
}

TEST(user_in_another_vgpu_is_not_charged)
{
	start_actors("b");
	struct act handle = exported_handle(160 * MIB);
	CHECK_INT(act_with(&user, OPEN, &handle, 0, -1, NULL).result, CUDA_SUCCESS);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	check_stays_charged("b", CONTEXT);
	CHECK_INT(figure("a", "tenants"), 2);
	CHECK_INT(figure("a", "physical"), CONTEXT + 160 * MIB);
	actor_kill(&owner);
	CHECK(await_figure("a", "tenants", 1, 2000) >= 0);
	check_stays_charged("a", 160 * MIB); // the memory is charged to the vGPU that allocated it
	check_stays_charged("b", CONTEXT);
	CHECK_REFUSED(ask("{'op':'rm','name':'a'}"), "busy", "a");
	CHECK_INT(act(&user, CLOSE, 0), CUDA_SUCCESS);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	owner = actor_in("a");
	handle = exported_handle(64 * MIB);
	CHECK_INT(act_with(&user, OPEN, &handle, 0, -1, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&owner, FREE, 0), CUDA_SUCCESS);
	CHECK_INT(figure("a", "charged"), CONTEXT + 64 * MIB);
	actor_kill(&user);
	CHECK(await_figure("a", "charged", CONTEXT, 2000) >= 0);
	CHECK(await_figure("b", "charged", 0, 2000) >= 0);
	user = actor_in("b");
	end_both();
}

TEST(descriptor_in_another_vgpu_is_not_charged)
{
	int fd;

	start_actors("b");
	CHECK_INT(act_with(&owner, CREATE, NULL, 160 * MIB, -1, &fd).result, CUDA_SUCCESS);
	CHECK_INT(act_with(&user, IMPORT, NULL, 0, fd, NULL).result, CUDA_SUCCESS);
	CHECK_INT(act(&user, MAP, 160 * MIB), CUDA_SUCCESS);
	CHECK_INT(act(&owner, RELEASE, 0), CUDA_SUCCESS);
	close(fd);
	CHECK_INT(act(&owner, GET_INFO, 0), CUDA_SUCCESS);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	check_stays_charged("b", CONTEXT);
	CHECK_INT(act(&user, UNMAP, 0), CUDA_SUCCESS);
	CHECK_INT(act(&user, RELEASE, 0), CUDA_SUCCESS);
	CHECK(await_figure("a", "charged", CONTEXT, 2000) >= 0);
	end_both();
}

// Kills the daemon between export and import. The next daemon must know the earlier exports, and the earlier guests
// (processes of other vGPUs that opened memory).
TEST(daemon_is_killed_between_export_and_import)
{
	start_actors("b");
	struct act first = exported_handle(64 * MIB), second = exported_handle(96 * MIB);
	CHECK_INT(act_with(&user, OPEN, &first, 0, -1, NULL).result, CUDA_SUCCESS);
	kill_the_daemon();
	CHECK_INT(virgate("ps --sim"), 0); // starts the next daemon
	CHECK_INT(act_with(&user, OPEN, &second, 0, -1, NULL).result, CUDA_SUCCESS);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	check_stays_charged("b", CONTEXT);
	actor_kill(&owner);
	CHECK(await_figure("a", "tenants", 1, 2000) >= 0);
	check_stays_charged("a", 160 * MIB);
	actor_kill(&user);
	CHECK(await_figure("a", "charged", 0, 2000) >= 0);
	owner = actor_in("a");
	user = actor_in("b");
	end_both();
}

// Opens memory in a process of a second vGPU while no daemon runs. That process cannot learn which vGPU is charged, so
// both are charged. Otherwise the memory could be charged to neither.
TEST(without_a_daemon_user_in_another_vgpu_is_charged)
{
	start_actors("b");
	struct act handle = exported_handle(160 * MIB);
	kill_the_daemon();
	CHECK_INT(act_with(&user, OPEN, &handle, 0, -1, NULL).result, CUDA_SUCCESS);
	CHECK_INT(virgate("ps --sim"), 0);
	check_stays_charged("a", CONTEXT + 160 * MIB);
	check_stays_charged("b", CONTEXT + 160 * MIB);
	end_both();
}

static void send_guest(struct vg_wire_guest *guest, bool good)
{
	struct vg_wire_guest answer = {0};
	int r = vg_wire_be_guest(socket_path, guest, &answer);

	if (good)
		CHECK(r == 0 && answer.share == 0);
	else
		CHECK(r < 0);
}

TEST(guest_with_a_false_identity_is_refused)
{
	struct vg_wire_guest guest = {.self = {.pid = 1, .pid_namespace = 7, .start_time = 5, .ledger = "a"},
				      .key = 99};

	start_actors("b");
	send_guest(&guest, true);
	strcpy(guest.self.ledger, "nowhere");
	send_guest(&guest, true);
	guest.zero = 1;
	send_guest(&guest, false);
	guest.zero = 0;
	guest.share = 5; // a message with a shared allocation must name a vGPU, but guest.vgpu is empty
	send_guest(&guest, false);
	strcpy(guest.vgpu, "a");
	// This process, a guest of the vGPU, ends its use of memory that it has never used, which is allowed.
	CHECK_INT(vg_wire_be_guest(socket_path, &guest, NULL), 0);
	memset(guest.vgpu, 'a', sizeof guest.vgpu);
	send_guest(&guest, false);
	CHECK_INT(figure("a", "tenants"), 1);
	end_both();
}
