// Runs programs in vGPUs for the tests of dumps and restores, and checks what the vGPUs are charged. Include in exactly
// one file per program.
#pragma once
#include "checkpoint/image/image.h"
#include "checkpoint/image/text.h"
#include "checkpoint_test.h"
#include "ledger/shared.h"
#include "tenant_report.h"

enum { OUT_OF_MEMORY = 2 };
static const uint64_t MIB = 1 << 20;

static inline void prepare(bool real)
{
	setenv("VIRGATE_RUNTIME_DIR", path_of("run"), 1);
	setenv("VIRGATE_STATE_DIR", path_of("state"), 1);
	unlink(path_of("fail"));
	unlink(path_of("said"));
	static char given[PATH_MAX];
	static bool looked;
	if (!looked && getenv("VIRGATE_CRIU"))
		snprintf(given, sizeof given, "%s", getenv("VIRGATE_CRIU"));
	looked = true;
	if (!real)
		setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	else if (*given)
		setenv("VIRGATE_CRIU", given, 1);
	else
		unsetenv("VIRGATE_CRIU");
	if (real)
		need_criu();
}

// ---- a program in a vGPU -----------------------------------------------------------------------------

struct program {
	pid_t run; // the process of virgate run
	pid_t pid;
	char file[PATH_MAX];
};

// Waits for the end of the program. A restored process leads no group, and is a child of the test or of init.
static inline void await_end(pid_t pid)
{
	for (int i = 0; i < 3000; i++) {
		waitpid(pid, NULL, WNOHANG);
		if (kill(pid, 0) != 0)
			return;
		usleep(10000);
	}
	FAIL("process %d does not end", (int)pid);
}

static inline struct tenant_report report_of(const struct program *program)
{
	struct tenant_report report = {0};
	_cleanup_close_ int fd = open(program->file, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && pread(fd, &report, sizeof report, 0) != sizeof report)
		report = (struct tenant_report){0};
	return report;
}

static inline void await_round(const struct program *program, unsigned round)
{
	uint64_t end = vg_clock_monotonic_ns() + UINT64_C(30000000000);

	while (report_of(program).round < round) {
		if (vg_clock_monotonic_ns() > end)
			FAIL("%s: round %u does not come", program->file, round);
		usleep(5000);
	}
}

static inline void check_looks_on(const struct program *program)
{
	await_round(program, report_of(program).round + 2);
}

// Restores an image, and waits until its program runs.
static inline void restore_and_wait(const struct program *program, const char *options, const char *image)
{
	unsigned round = report_of(program).round;

	CHECK_RUN("restore --detach %s --dir %s", options, image);
	await_round(program, round + 2);
}

// Starts a program in a vGPU. `how` are the options of `virgate run` that choose the vGPU, ended by NULL.
static inline struct program start_so(const char *const *how, const char *name, const char *hold, const char *small,
				      const char *big)
{
	struct program program;
	char log[PATH_MAX + 8];
	const char *argv[24] = {VIRGATE, "run"};
	size_t count = 2;

	while (*how)
		argv[count++] = *how++;
	const char *const rest[] = {"--", TENANT, program.file, hold, small, big};
	memcpy(argv + count, rest, sizeof rest);
	snprintf(program.file, sizeof program.file, "%s", path_of(name));
	unlink(program.file);
	snprintf(log, sizeof log, "%s.log", program.file);
	fflush(stdout);
	program.run = fork();
	if (program.run == 0) {
		setsid();
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(open(log, O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
		dup2(1, 2);
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		execv(VIRGATE, (char *const *)argv);
		_exit(127);
	}
	await_round(&program, 1);
	program.pid = report_of(&program).pid;
	return program;
}

static inline struct program start(const char *vgpu, const char *name, const char *hold, const char *small,
				   const char *big)
{
	return start_so((const char *const[]){"--vgpu", vgpu, NULL}, name, hold, small, big);
}

// Starts a program in an ephemeral vGPU with a memory limit of 256 MiB. The vGPU gets at most 30 % of the GPU's time,
// and has the class "latency".
static inline struct program start_once(const char *vgpu, const char *name)
{
	return start_so((const char *const[]){"--name", vgpu, "--memory", "256M", "--share", "30", "--limit", "--class",
					      "latency", NULL},
			name, "64", "32", "512");
}

// Makes the program allocate more: the small size must succeed, and the big one must be refused.
static inline void check_quota(const struct program *program)
{
	unsigned before = report_of(program).asked;

	CHECK_INT(kill(program->pid, SIGUSR1), 0);
	for (int i = 0; i < 6000 && report_of(program).asked == before; i++)
		usleep(10000);
	CHECK_INT(report_of(program).asked, before + 1);
	CHECK_INT(report_of(program).small, 0);
	CHECK_INT(report_of(program).big, OUT_OF_MEMORY);
}

static inline int await_run(const struct program *program)
{
	int status;

	CHECK_INT(waitpid(program->run, &status, 0), program->run);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline void end(const struct program *program)
{
	kill(program->pid, SIGKILL);
	await_end(program->pid);
	waitpid(program->run, NULL, 0);
}

// ---- what the vGPU is charged --------------------------------------------------------------------------

static inline uint64_t charged_now(const char *vgpu)
{
	struct vg_ledger_tenant tenant;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;
	char path[PATH_MAX];
	uint64_t sum = 0;

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		sum += tenant.used;
	uint64_t charged = vg_ledger_charged(ledger);
	vg_ledger_close(ledger);
	CHECK_INT(sum, charged);
	return charged;
}

// Waits until the vGPU is charged `expected` bytes. The daemon refunds an ended process only after a moment.
static inline void check_charged(const char *vgpu, uint64_t expected)
{
	for (int i = 0; i < 500 && charged_now(vgpu) != expected; i++)
		usleep(10000);
	CHECK_INT(charged_now(vgpu), expected);
}

static inline struct vg_ledger_tenant place_of(const char *vgpu, pid_t pid)
{
	struct vg_ledger_tenant tenant;
	struct vg_ledger *ledger;
	unsigned int cursor = 0;
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/run/ledgers/%s", directory, vgpu);
	CHECK_INT(vg_ledger_open(path, &ledger), 0);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (tenant.owner.pid == (uint32_t)pid) {
			vg_ledger_close(ledger);
			return tenant;
		}
	FAIL("process %d has no place in %s", (int)pid, vgpu);
}

static inline bool ps_shows(const char *vgpu, pid_t pid)
{
	char wanted[64];

	CHECK_RUN("inspect %s --json", vgpu);
	snprintf(wanted, sizeof wanted, "\"pid\": %d,", (int)pid);
	return strstr(said, wanted) != NULL;
}

static inline void create_vgpu(const char *name, const char *memory)
{
	if (run("create %s --memory %s", name, memory))
		FAIL("create %s: %s", name, said);
}

static inline int coordinate(const char *verb, pid_t pid, const char *dir, const char *phase, const char *what)
{
	return run_command("VIRGATE_LIBDIR=%s exec %s %s %d %s %s %s 2>&1", BUILD, COORDINATOR, verb, (int)pid, dir,
			   phase, what);
}

static inline bool criu_was_asked_to_restore(void)
{
	char text[4096];

	return vg_file_read(path_of("said"), text, sizeof text) > 0 && strstr(text, "restore");
}
