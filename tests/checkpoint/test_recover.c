// Tests recover while other programs have taken the room on the GPU. The driver's restore must not be tried then: if it
// runs out of memory, it may be stuck for good.
#include "evictable_test.h"

// Checks that recover refuses while the GPU is full, and leaves the process as it is. Then makes room and recovers it.
static void recover_without_room(const struct program *program, const char *vgpu, bool is_stopped)
{
	char again[64];

	struct program other = fill_device();
	for (int i = 0; i < 2; i++) {
		CHECK_INT(run("recover --pid %d", (int)program->pid), 1);
		CHECK_CONTAINS(said, "refused (device-memory): GPU-");
		snprintf(again, sizeof again, " free, and the processes of vGPU %s need ", vgpu);
		CHECK_CONTAINS(said, again);
		snprintf(again, sizeof again, "then repeat virgate recover --sim --pid %d", (int)program->pid);
		CHECK_CONTAINS(said, again);
		if (is_stopped)
			await_stopped(program->pid);
	}
	kill(other.run, SIGKILL);
	waitpid(other.run, NULL, 0);
	CHECK_RUN("recover --pid %d", (int)program->pid);
}

TEST(a_recovery_without_room_can_be_repeated)
{
	prepare(false);
	struct program program = start_evictable("fuller", "");
	must("suspend fuller --deep");
	recover_without_room(&program, "fuller", false);
	CHECK_STR(field_of("fuller", program.pid, "deep"), "null");
	wait_for_field("fuller", program.pid, "state", "suspended");
	must("resume fuller");
	check_looks_on(&program);
	end(&program);
}

// Kills a dump when the process is off the GPU, before and after it is stopped. The program checks its memory.
static void recover_from_dump(const char *vgpu, bool is_evictable)
{
	if (!is_evictable)
		create_vgpu(vgpu, "256M");
	struct program program = is_evictable ? start_evictable(vgpu, "") : start(vgpu, vgpu, "64", "32", "512");
	struct vg_ledger_tenant before = place_of(vgpu, program.pid);

	for (int is_stopped = 0; is_stopped < 2; is_stopped++) {
		const char *step = is_stopped ? "commit" : "host-out";
		CHECK_INT(coordinate("dump", program.pid, path_of("killed.image"), step, "kill"), -SIGKILL);
		if (is_stopped)
			await_stopped(program.pid);
		recover_without_room(&program, vgpu, is_stopped);
		check_looks_on(&program);
		CHECK_INT(place_of(vgpu, program.pid).slot, before.slot);
		check_charged(vgpu, before.used);
		check_quota(&program);
	}
	end(&program);
}

TEST(a_killed_dump_is_not_rolled_back_without_room)
{
	prepare(false);
	recover_from_dump("killed0", false);
	recover_from_dump("killed1", true);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
