// A tenant's slot is written down, refunded, and handed to it again: with the one who does it killed at every step.
#include "ledger/process.h"
#include "steps.h"

#include <sys/uio.h>

static const uint64_t MIB = 1 << 20, HELD = 5 << 20;

static struct vg_ledger_tenant tenant_of(struct vg_ledger *ledger, pid_t pid)
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

TEST(nobody_in_the_midst_of_an_operation_is_at_rest)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = fresh_ledger(16 * MIB);
		pid_t child = run_until(ledger, do_work, step, SIGSTOP);
		if (reached_end) {
			CHECK(step >= 25);
			vg_ledger_close(ledger);
			return;
		}
		struct vg_ledger_tenant tenant;
		unsigned int cursor = 0;
		if (vg_ledger_next_tenant(ledger, &cursor, &tenant)) // it may have stopped before it had one
			CHECK(vg_ledger_lift(ledger, &tenant, child) != 0);
		kill(child, SIGKILL);
		CHECK_INT(waitpid(child, NULL, 0), child);
		vg_ledger_close(ledger);
	}
}

// A tenant that goes on when it is told to, and tells what it found.
struct program {
	pid_t pid;
	int go, found; // pipes
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

static char tell(const struct program *program)
{
	char byte = 0;

	CHECK_INT(write(program->go, &byte, 1), 1);
	CHECK_INT(read(program->found, &byte, 1), 1);
	return byte;
}

static struct program start(struct vg_ledger *ledger)
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

static void halt(pid_t pid)
{
	kill(pid, SIGSTOP);
	CHECK_INT(waitpid(pid, NULL, WUNTRACED), pid);
}

static void end(struct program *program)
{
	close(program->go);
	kill(program->pid, SIGKILL);
	CHECK_INT(waitpid(program->pid, NULL, 0), program->pid);
	close(program->found);
}

static struct vg_ledger_tenant written;
static pid_t written_pid;

// As if it had been dumped: what it had is refunded, and the process stands still.
static struct program dump(struct vg_ledger *ledger)
{
	struct program program = start(ledger);
	uint64_t refunded;

	halt(program.pid);
	written = tenant_of(ledger, program.pid);
	written_pid = program.pid;
	CHECK_INT(vg_ledger_lift(ledger, &written, program.pid), 0);
	CHECK_INT(vg_ledger_lift(ledger, &written, program.pid), VG_LEDGER_GONE); // once is enough
	CHECK_INT(vg_ledger_reap(ledger, &written, NULL, &refunded), 0);
	CHECK_INT(refunded, 4 * MIB);
	return program;
}

static void do_restore(struct vg_ledger *ledger)
{
	struct vg_ledger *mine;

	if (vg_ledger_open(ledger_path, &mine) || vg_ledger_stand_in(mine, &written) ||
	    vg_ledger_hand_over(mine, &written, written_pid))
		_exit(3);
	vg_ledger_close(mine);
}

// What the process knows of its restores.
static uint32_t restores_of(const struct vg_ledger_tenant *tenant, pid_t pid)
{
	struct ledger_process process;
	const struct iovec here = {&process, sizeof process};
	const struct iovec there = {(void *)(uintptr_t)tenant->process, sizeof process};

	CHECK_INT(process_vm_readv(pid, &here, 1, &there, 1, 0), sizeof process);
	return process.restores;
}

TEST(a_tenant_goes_on_in_another_slot)
{
	struct vg_ledger *ledger = fresh_ledger(16 * MIB), *other;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, HELD), 0);
	struct program program = dump(ledger);
	// Somebody has its slot meanwhile.
	CHECK_INT(vg_ledger_open(ledger_path, &other), 0);
	CHECK_INT(vg_ledger_reserve(other, VG_LEDGER_DEVICE, 3 * MIB), 0);
	CHECK_INT(tenant_of(ledger, getpid()).slot + 1, written.slot);
	CHECK_INT(restores_of(&written, program.pid), 0);
	do_restore(ledger);
	CHECK_INT(restores_of(&written, program.pid), 1); // also if the slot has the same number
	struct vg_ledger_tenant now = tenant_of(ledger, program.pid);
	CHECK(now.slot != written.slot);
	CHECK_INT(now.used, 4 * MIB);
	CHECK(memcmp(now.by_kind, written.by_kind, sizeof now.by_kind) == 0);
	CHECK_INT(now.overhead, MIB);
	CHECK_INT(now.declared, 3 * MIB);
	CHECK_INT(now.program, written.program);
	CHECK_INT(now.image, written.image);
	CHECK_STR(now.command, written.command);
	CHECK_INT(now.entered_ns, written.entered_ns);
	CHECK_INT(vg_ledger_put_back(&now, program.pid), VG_LEDGER_GONE); // it knows it
	CHECK_INT(vg_ledger_charged(ledger), HELD + 7 * MIB);
	kill(program.pid, SIGCONT);
	CHECK_INT(tell(&program), 0); // 14 of 16
	CHECK_INT(vg_ledger_charged(ledger), HELD + 9 * MIB);
	CHECK_INT(tell(&program), 0); // 16 of 16
	CHECK_INT(tell(&program), VG_LEDGER_REFUSED);
	end(&program);
	CHECK_INT(reap_all_dead(ledger), 8 * MIB); // the last refund found nothing left
	vg_ledger_leave(other);
	vg_ledger_close(other);
	check_exact(ledger, HELD);
	vg_ledger_close(ledger);
}

TEST(what_does_not_fit_changes_nothing)
{
	struct vg_ledger *ledger = fresh_ledger(16 * MIB), *mine;

	struct program program = dump(ledger);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 13 * MIB), 0);
	CHECK_INT(vg_ledger_open(ledger_path, &mine), 0);
	CHECK_INT(vg_ledger_stand_in(mine, &written), VG_LEDGER_REFUSED);
	check_exact(ledger, 13 * MIB);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, MIB);
	CHECK_INT(vg_ledger_stand_in(mine, &written), 0);
	// A process that is not the one that was written down.
	struct program stranger = start(ledger);
	halt(stranger.pid);
	struct vg_ledger_tenant wrong = written;
	wrong.process = 4096; // where nothing is
	CHECK(vg_ledger_hand_over(mine, &wrong, stranger.pid) != 0);
	CHECK_INT(vg_ledger_hand_over(mine, &written, stranger.pid), VG_LEDGER_GONE); // it has a slot
	wrong.process = 0;
	CHECK_INT(vg_ledger_hand_over(mine, &wrong, program.pid), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_charged(ledger), 16 * MIB);
	vg_ledger_leave(mine);
	vg_ledger_close(mine);
	end(&stranger);
	end(&program);
	reap_all_dead(ledger);
	check_exact(ledger, 12 * MIB);
	vg_ledger_close(ledger);
}

// Whoever hands over is killed: the charge is his, or the process's, and what the process does then is counted.
TEST(killed_while_handing_over)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = fresh_ledger(16 * MIB), *other;
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, HELD), 0);
		struct program program = dump(ledger);
		CHECK_INT(vg_ledger_open(ledger_path, &other), 0);
		CHECK_INT(vg_ledger_reserve(other, VG_LEDGER_DEVICE, MIB), 0);
		run_until(ledger, do_restore, step, SIGKILL);
		bool ended = reached_end;
		reap_all_dead(ledger);
		CHECK(vg_ledger_charged(ledger) == HELD + MIB || vg_ledger_charged(ledger) == HELD + 5 * MIB);
		end(&program);
		reap_all_dead(ledger);
		vg_ledger_leave(other);
		vg_ledger_close(other);
		check_exact(ledger, HELD);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 30);
			return;
		}
	}
}

// The same, and the process is let go instead of ended: nobody else's slot is touched by it.
TEST(killed_while_handing_over_and_the_process_goes_on)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = fresh_ledger(64 * MIB), *other;
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, HELD), 0);
		struct program program = dump(ledger);
		CHECK_INT(vg_ledger_open(ledger_path, &other), 0);
		CHECK_INT(vg_ledger_reserve(other, VG_LEDGER_DEVICE, MIB), 0);
		run_until(ledger, do_restore, step, SIGKILL);
		bool ended = reached_end;
		reap_all_dead(ledger);
		struct vg_ledger_tenant tenant;
		unsigned int cursor = 0;
		uint64_t sum = 0;
		kill(program.pid, SIGCONT);
		CHECK_INT(tell(&program), 0);
		while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
			sum += tenant.used;
			if (tenant.slot == written.slot)
				CHECK_INT(tenant.used, MIB);
		}
		CHECK_INT(sum, vg_ledger_charged(ledger));
		end(&program);
		reap_all_dead(ledger);
		vg_ledger_leave(other);
		vg_ledger_close(other);
		check_exact(ledger, HELD);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 30);
			return;
		}
	}
}

TEST(what_was_lifted_is_put_back)
{
	struct vg_ledger *ledger = fresh_ledger(16 * MIB);
	struct program program = start(ledger);

	halt(program.pid);
	struct vg_ledger_tenant tenant = tenant_of(ledger, program.pid);
	CHECK_INT(vg_ledger_put_back(&tenant, program.pid), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_lift(ledger, &tenant, program.pid), 0);
	CHECK_INT(vg_ledger_put_back(&tenant, program.pid), 0);
	kill(program.pid, SIGCONT);
	CHECK_INT(tell(&program), 0);
	struct vg_ledger_tenant now = tenant_of(ledger, program.pid);
	CHECK_INT(now.slot, tenant.slot);
	CHECK_INT(now.used, 6 * MIB);
	end(&program);
	CHECK_INT(reap_all_dead(ledger), 6 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), 0);
	vg_ledger_close(ledger);
}
