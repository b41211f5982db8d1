// Tests the handover of a slot. A tenant is dumped, and its slot is refunded. Then a process that restores (the
// restorer) reserves a new slot, and passes it to the restored tenant. The test kills the restorer at every step.
#include "ledger/process.h"
#include "steps.h"

#include <sys/uio.h>

static const uint64_t MIB = 1 << 20, CHARGED = 5 << 20;

static struct vg_ledger_tenant find_tenant(struct vg_ledger *ledger, pid_t pid)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (tenant.owner.pid == (uint32_t)pid)
			return tenant;
	FAIL("process %d has no slot", (int)pid);
}

static void do_work(struct vg_ledger *ledger)
{
	vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, MIB);
	vg_ledger_reserve(ledger, VG_LEDGER_MANAGED, MIB);
	vg_ledger_refund(ledger, VG_LEDGER_CONTEXT, MIB);
}

TEST(tenant_within_an_operation_cannot_be_lifted)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(16 * MIB);
		pid_t child = run_until(ledger, do_work, step, SIGSTOP);
		if (reached_end) {
			CHECK(step >= 25);
			vg_ledger_close(ledger);
			return;
		}
		struct vg_ledger_tenant tenant;
		unsigned int cursor = 0;
		// The child may have been stopped before it had a slot.
		if (vg_ledger_next_tenant(ledger, &cursor, &tenant))
			CHECK(vg_ledger_lift(ledger, &tenant, child) != 0);
		kill(child, SIGKILL);
		CHECK_INT(waitpid(child, NULL, 0), child);
		vg_ledger_close(ledger);
	}
}

// A tenant that charges memory on request and reports the result.
struct program {
	pid_t pid;
	int go, found; // pipes: requests, results
};

__attribute__((noreturn)) static void be_tenant(struct vg_ledger *ledger, int go, int found)
{
	char byte = 0;

	vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, MIB);
	vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 2 * MIB);
	vg_ledger_reserve(ledger, VG_LEDGER_MANAGED, MIB);
	while (write(found, &byte, 1) == 1 && read(go, &byte, 1) == 1) {
		vg_ledger_refund(ledger, VG_LEDGER_DEVICE, MIB);
		byte = (char)vg_ledger_reserve(ledger, VG_LEDGER_POOL, 3 * MIB);
	}
	_exit(0);
}

static char let_charge(const struct program *program)
{
	char byte = 0;

	CHECK_INT(write(program->go, &byte, 1), 1);
	CHECK_INT(read(program->found, &byte, 1), 1);
	return byte;
}

static struct program start_program(struct vg_ledger *ledger)
{
	int go[2], found[2];
	char byte;

	CHECK_INT(pipe(go), 0);
	CHECK_INT(pipe(found), 0);
	struct program program = {.pid = fork(), .go = go[1], .found = found[0]};
	if (program.pid == 0) {
		close(go[1]);
		be_tenant(ledger, go[0], found[1]);
	}
	close(go[0]);
	close(found[1]);
	CHECK_INT(read(program.found, &byte, 1), 1);
	return program;
}

static void stop_process(pid_t pid)
{
	kill(pid, SIGSTOP);
	CHECK_INT(waitpid(pid, NULL, WUNTRACED), pid);
}

static void kill_program(struct program *program)
{
	close(program->go);
	kill(program->pid, SIGKILL);
	CHECK_INT(waitpid(program->pid, NULL, 0), program->pid);
	close(program->found);
}

static struct vg_ledger_tenant dumped;
static pid_t dumped_pid;

// Stops the process and refunds its charges, as a dump does.
static struct program dump_program(struct vg_ledger *ledger)
{
	struct program program = start_program(ledger);
	uint64_t refunded;

	stop_process(program.pid);
	dumped = find_tenant(ledger, program.pid);
	dumped_pid = program.pid;
	CHECK_INT(vg_ledger_lift(ledger, &dumped, program.pid), 0);
	CHECK_INT(vg_ledger_lift(ledger, &dumped, program.pid), VG_LEDGER_GONE); // a second call finds nothing to do
	CHECK_INT(vg_ledger_reap(ledger, &dumped, NULL, &refunded), 0);
	CHECK_INT(refunded, 4 * MIB);
	return program;
}

static void do_restore(struct vg_ledger *ledger)
{
	struct vg_ledger *mine;

	if (vg_ledger_open(ledger_path, &mine) || vg_ledger_stand_in(mine, &dumped) ||
	    vg_ledger_hand_over(mine, &dumped, dumped_pid))
		_exit(3);
	vg_ledger_close(mine);
}

// Reads the restore counter in the memory of the process.
static uint32_t read_restores(const struct vg_ledger_tenant *tenant, pid_t pid)
{
	struct ledger_process process;
	const struct iovec here = {&process, sizeof process};
	const struct iovec there = {(void *)(uintptr_t)tenant->process, sizeof process};

	CHECK_INT(process_vm_readv(pid, &here, 1, &there, 1, 0), sizeof process);
	return process.restores;
}

TEST(restored_tenant_continues_in_another_slot)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB), *other;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
	struct program program = dump_program(ledger);
	// Another tenant uses the old slot meanwhile.
	CHECK_INT(vg_ledger_open(ledger_path, &other), 0);
	CHECK_INT(vg_ledger_reserve(other, VG_LEDGER_DEVICE, 3 * MIB), 0);
	CHECK_INT(find_tenant(ledger, getpid()).slot + 1, dumped.slot);
	CHECK_INT(read_restores(&dumped, program.pid), 0);
	do_restore(ledger);
	// The restore counter changes even if the new slot has the same number as the old one.
	CHECK_INT(read_restores(&dumped, program.pid), 1);
	struct vg_ledger_tenant now = find_tenant(ledger, program.pid);
	CHECK(now.slot != dumped.slot);
	CHECK_INT(now.used, 4 * MIB);
	CHECK(memcmp(now.by_kind, dumped.by_kind, sizeof now.by_kind) == 0);
	CHECK_INT(now.overhead, MIB);
	CHECK_INT(now.declared, 3 * MIB);
	CHECK_INT(now.program, dumped.program);
	CHECK_INT(now.image, dumped.image);
	CHECK_STR(now.command, dumped.command);
	CHECK_INT(now.entered_ns, dumped.entered_ns);
	// The restore counter was written already.
	CHECK_INT(vg_ledger_put_back(&now, program.pid), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED + 7 * MIB);
	kill(program.pid, SIGCONT);
	CHECK_INT(let_charge(&program), 0); // 14 of the limit's 16 MiB are used now
	CHECK_INT(vg_ledger_charged(ledger), CHARGED + 9 * MIB);
	CHECK_INT(let_charge(&program), 0); // 16 of 16 MiB are used now
	CHECK_INT(let_charge(&program), VG_LEDGER_REFUSED);
	kill_program(&program);
	// only the new slot is refunded, since the dump has refunded the old one
	CHECK_INT(reap_all_dead(ledger), 8 * MIB);
	vg_ledger_leave(other);
	vg_ledger_close(other);
	check_sum(ledger, CHARGED);
	vg_ledger_close(ledger);
}

TEST(failed_restore_changes_nothing)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB), *mine;

	struct program program = dump_program(ledger);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 13 * MIB), 0);
	CHECK_INT(vg_ledger_open(ledger_path, &mine), 0);
	CHECK_INT(vg_ledger_stand_in(mine, &dumped), VG_LEDGER_REFUSED);
	check_sum(ledger, 13 * MIB);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, MIB);
	CHECK_INT(vg_ledger_stand_in(mine, &dumped), 0);
	// Try to hand the slot to another process than the dumped one.
	struct program stranger = start_program(ledger);
	stop_process(stranger.pid);
	struct vg_ledger_tenant wrong = dumped;
	wrong.process = 4096; // an address that is not mapped
	CHECK(vg_ledger_hand_over(mine, &wrong, stranger.pid) != 0);
	// The stranger already has a slot, so the handover is refused.
	CHECK_INT(vg_ledger_hand_over(mine, &dumped, stranger.pid), VG_LEDGER_GONE);
	wrong.process = 0;
	CHECK_INT(vg_ledger_hand_over(mine, &wrong, program.pid), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_charged(ledger), 16 * MIB);
	vg_ledger_leave(mine);
	vg_ledger_close(mine);
	kill_program(&stranger);
	kill_program(&program);
	reap_all_dead(ledger);
	check_sum(ledger, 12 * MIB);
	vg_ledger_close(ledger);
}

// Dumps a program, and kills its restorer at this step, while another tenant uses the old slot. Returns whether the
// restorer had ended before.
static bool kill_restorer(struct vg_ledger *ledger, int step, struct vg_ledger **ret_other, struct program *ret_program)
{
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
	*ret_program = dump_program(ledger);
	CHECK_INT(vg_ledger_open(ledger_path, ret_other), 0);
	CHECK_INT(vg_ledger_reserve(*ret_other, VG_LEDGER_DEVICE, MIB), 0);
	run_until(ledger, do_restore, step, SIGKILL);
	bool ended = reached_end;
	reap_all_dead(ledger);
	return ended;
}

static void end_handover(struct vg_ledger *ledger, struct vg_ledger *other, struct program *program)
{
	kill_program(program);
	reap_all_dead(ledger);
	vg_ledger_leave(other);
	vg_ledger_close(other);
	check_sum(ledger, CHARGED);
	vg_ledger_close(ledger);
}

// Kills the restorer at every step. The charge must belong to the restorer or to the restored process.
TEST(sum_is_exact_if_restorer_is_killed)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(16 * MIB), *other;
		struct program program;
		bool ended = kill_restorer(ledger, step, &other, &program);
		CHECK(vg_ledger_charged(ledger) == CHARGED + MIB || vg_ledger_charged(ledger) == CHARGED + 5 * MIB);
		end_handover(ledger, other, &program);
		if (ended) {
			CHECK(step >= 30);
			return;
		}
	}
}

// Kills the restorer, and lets the process continue. The process must not change a slot that belongs to another
// process.
TEST(process_continues_correctly_if_restorer_is_killed)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(64 * MIB), *other;
		struct program program;
		bool ended = kill_restorer(ledger, step, &other, &program);
		struct vg_ledger_tenant tenant;
		unsigned int cursor = 0;
		uint64_t sum = 0;
		kill(program.pid, SIGCONT);
		CHECK_INT(let_charge(&program), 0);
		while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
			sum += tenant.used;
			if (tenant.slot == dumped.slot)
				CHECK_INT(tenant.used, MIB);
		}
		CHECK_INT(sum, vg_ledger_charged(ledger));
		end_handover(ledger, other, &program);
		if (ended) {
			CHECK(step >= 30);
			return;
		}
	}
}

TEST(lifted_tenant_is_put_back)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB);
	struct program program = start_program(ledger);

	stop_process(program.pid);
	struct vg_ledger_tenant tenant = find_tenant(ledger, program.pid);
	CHECK_INT(vg_ledger_put_back(&tenant, program.pid), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_lift(ledger, &tenant, program.pid), 0);
	CHECK_INT(vg_ledger_put_back(&tenant, program.pid), 0);
	kill(program.pid, SIGCONT);
	CHECK_INT(let_charge(&program), 0);
	struct vg_ledger_tenant now = find_tenant(ledger, program.pid);
	CHECK_INT(now.slot, tenant.slot);
	CHECK_INT(now.used, 6 * MIB);
	kill_program(&program);
	CHECK_INT(reap_all_dead(ledger), 6 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}
