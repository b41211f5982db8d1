// Tests the total that a dump announces for its longest step, in which CRIU writes the memory of the processes.
#include <inttypes.h>

#include "checkpoint/machine/describe.h"
#include "evictable_test.h"

static const uint64_t device = 64 * MIB; // device memory of the program

struct announced {
	pid_t pid;
	uint64_t total, host; // what CRIU may write, as announced; the memory of the stopped process
};

static int note_total(void *user, const struct vg_checkpoint_progress *progress)
{
	struct announced *announced = user;

	if (progress->phase != VG_CHECKPOINT_HOST_OUT || access(path_of("slow"), F_OK) < 0)
		return 0;
	announced->total = progress->total;
	CHECK(describe_host_memory(announced->pid, &announced->host) && announced->host > 0);
	unlink(path_of("slow")); // the stand-in goes on
	return 0;
}

// Tests that the total of what CRIU may write includes the process's memory, but not what Virgate writes.
TEST(the_total_of_criu_has_no_parked_memory)
{
	prepare(false);
	struct program program = start_evictable("counts", "");
	struct announced announced = {.pid = program.pid};
	const struct vg_dump_options options = {.size = sizeof options,
						.vgpu = "counts",
						.dir = path_of("counts.image"),
						.leave_running = 1,
						.progress = note_total,
						.user = &announced};
	write_text("fail", "slow\n");
	if (vg_checkpoint_dump(&options, NULL))
		FAIL("dump: %s", vg_last_error()->text);
	if (announced.total < announced.host || announced.total >= announced.host + device)
		FAIL("%" PRIu64 " bytes announced, and the process has %" PRIu64, announced.total, announced.host);
	end(&program);
}

TEST(zz_shut_down_the_daemon)
{
	prepare(false);
	run("shutdown");
}
