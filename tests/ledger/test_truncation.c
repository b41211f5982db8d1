// The owner of a ledger truncates its file while other processes read or write the ledger. They get SIGBUS, which must
// kill none of them.
#include "ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "ledger/guard.h"

static const uint64_t MIB = 1 << 20;

static struct vg_ledger_tenant make_tenant(void)
{
	struct vg_ledger_tenant tenant = {.used = 3 * MIB};

	tenant.by_kind[VG_LEDGER_DEVICE] = 2 * MIB;
	tenant.by_kind[VG_LEDGER_CONTEXT] = MIB;
	return tenant;
}

TEST(copy_survives_truncation_of_file)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB), *copy, *none = NULL;
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	CHECK_INT(vg_ledger_open_copy(ledger_path, &copy), 0);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	CHECK_INT(truncate(ledger_path, 0), 0);
	CHECK_STR(vg_ledger_name(copy), "test");
	CHECK_INT(vg_ledger_limit(copy), 16 * MIB);
	CHECK_INT(vg_ledger_charged(copy), MIB); // the copy keeps the figure that the ledger had when it was copied
	CHECK(vg_ledger_next_tenant(copy, &cursor, &tenant));
	CHECK_INT(tenant.owner.pid, getpid());
	CHECK_INT(vg_ledger_open_copy(ledger_path, &none), -EPROTO);
	CHECK(!none);
	vg_ledger_close(copy);
	vg_ledger_close(ledger);
}

// Opens a device and a FIFO as a ledger. They must be refused unopened: opening a device file may have effects, and
// opening a FIFO may block.
TEST(only_regular_files_are_opened)
{
	struct vg_ledger *ledger = create_ledger(MIB), *none = NULL;
	char fifo[PATH_MAX + 40];

	snprintf(fifo, sizeof fifo, "%s.fifo", ledger_path);
	CHECK_INT(mkfifo(fifo, 0600), 0);
	alarm(10); // ends the test if the call blocks
	CHECK_INT(vg_ledger_open_copy(fifo, &none), -EPROTO);
	CHECK_INT(vg_ledger_open_copy("/dev/null", &none), -EPROTO);
	CHECK_INT(vg_ledger_open_copy("/", &none), -EPROTO);
	CHECK_INT(unlink(fifo), 0);
	CHECK_INT(symlink(ledger_path, fifo), 0);
	CHECK_INT(vg_ledger_open_copy(fifo, &none), -ELOOP);
	CHECK_INT(vg_open_regular(fifo, O_RDONLY | O_NOFOLLOW), -ELOOP);
	int fd = vg_open_regular(fifo, O_RDONLY);
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	close(fd);
	CHECK_INT(vg_open_regular("/dev/zero", O_RDONLY), -EINVAL);
	alarm(0);
	vg_ledger_close(ledger);
}

TEST(guard_reports_truncation)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB);
	struct vg_ledger_tenant tenant = make_tenant();

	vg_ledger_guard(ledger);
	CHECK_INT(vg_ledger_stand_in(ledger, &tenant), 0);
	CHECK(!vg_ledger_unguard());
	CHECK_INT(truncate(ledger_path, 0), 0);
	vg_ledger_guard(ledger);
	vg_ledger_leave(ledger);
	CHECK(vg_ledger_unguard());
	vg_ledger_close(ledger);
}

static sigjmp_buf other_fault;

static void leave_fault(int signal)
{
	siglongjmp(other_fault, signal);
}

TEST(guard_passes_other_faults_to_previous_handler)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB);
	struct sigaction action = {.sa_handler = leave_fault}, now;
	int fd = memfd_create("other", MFD_CLOEXEC);
	volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(page != MAP_FAILED);
	sigaction(SIGBUS, &action, NULL);
	vg_ledger_guard(ledger);
	if (sigsetjmp(other_fault, 1) == 0) {
		(void)*page;
		FAIL("the handler was not called");
	}
	CHECK(!vg_ledger_unguard());
	sigaction(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL}, &now);
	CHECK(now.sa_handler == leave_fault);
	munmap((void *)page, 4096);
	close(fd);
	vg_ledger_close(ledger);
}

// Without a handler, SIGBUS kills the process, as it does without a guard.
TEST(fault_without_handler_kills_process)
{
	struct vg_ledger *ledger = create_ledger(16 * MIB);
	int status;

	pid_t child = fork();
	if (child == 0) {
		int fd = memfd_create("other", MFD_CLOEXEC);
		volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		vg_ledger_guard(ledger);
		(void)*page;
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	vg_ledger_close(ledger);
}

static void truncate_repeatedly(const char *path)
{
	static char whole[4 << 20];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t length = read(fd, whole, sizeof whole);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		if (ftruncate(fd, 0) < 0 || pwrite(fd, whole, (size_t)length, 0) != length)
			_exit(1);
}

// Runs for TRUNCATION_SECONDS, or 3 s.
TEST(readers_and_writers_survive_repeated_truncation)
{
	const char *seconds = getenv("TRUNCATION_SECONDS");
	uint64_t end = vg_clock_monotonic_ns() + (uint64_t)(seconds ? atoi(seconds) : 3) * 1000000000;
	struct vg_ledger *ledger = create_ledger(16 * MIB), *opened;
	struct vg_ledger_tenant tenant = make_tenant(), read;
	unsigned truncations = 0, copies = 0;
	int status;

	vg_ledger_close(ledger);
	pid_t child = fork();
	if (child == 0)
		truncate_repeatedly(ledger_path);
	// On a busy host it takes longer until truncations and copies have happened.
	while (vg_clock_monotonic_ns() < end + (truncations && copies ? 0 : 30000000000)) {
		unsigned int cursor = 0;
		if (vg_ledger_open_copy(ledger_path, &opened) == 0) {
			while (vg_ledger_next_tenant(opened, &cursor, &read))
				;
			CHECK_STR(vg_ledger_name(opened), "test");
			vg_ledger_close(opened);
			copies++;
		}
		if (vg_ledger_open(ledger_path, &opened))
			continue;
		vg_ledger_guard(opened);
		vg_ledger_stand_in(opened, &tenant);
		vg_ledger_leave(opened);
		truncations += vg_ledger_unguard();
		vg_ledger_close(opened);
	}
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status)); // the process was still running
	CHECK(truncations > 0 && copies > 0);
}
