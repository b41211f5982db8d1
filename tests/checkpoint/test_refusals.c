// Causes each reason for refusing a dump, checks its name, and checks that the process goes on unchanged.
#include "checkpoint_test.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#define GPU_NAME "Virgate Simulated GPU"

static void standin(void)
{
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	unlink(path_of("fail"));
}

// Checks that a dump is refused with that name and text, and leaves no files.
static void refused(pid_t pid, const char *name, const char *words)
{
	char wanted[64];

	snprintf(wanted, sizeof wanted, "refused (%s): ", name);
	CHECK_INT(run("dump --pid %d --dir %s", (int)pid, path_of("never")), 1);
	CHECK_CONTAINS(said, wanted);
	CHECK_CONTAINS(said, words);
	CHECK(access(path_of("never"), F_OK) != 0);
}

static pid_t start_idle(void)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void end_idle(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

// ---- named processes ------------------------------------------------------------------------------------

TEST(a_thread_is_refused_with_its_process)
{
	standin();
	struct subject subject = start_subject_with(path_of("thread"), "threads");
	char directory_of[64];
	int thread = 0;

	check_goes_on(path_of("thread"));
	snprintf(directory_of, sizeof directory_of, "ls /proc/%d/task | tail -1", (int)subject.pid);
	FILE *list = popen(directory_of, "re");
	CHECK_INT(fscanf(list, "%d", &thread), 1);
	pclose(list);
	CHECK(thread != subject.pid);
	refused(thread, "thread-id", "is a thread of process");
	end_subject(subject);
}

TEST(a_kernel_thread_is_refused)
{
	char text[64];

	standin();
	if (vg_file_read("/proc/2/comm", text, sizeof text) < 0 || strcmp(text, "kthreadd\n") != 0)
		SKIP("no thread of the kernel's is seen in this pid namespace");
	CHECK_INT(run("dump --pid 2 --dir %s --cpu-only", path_of("never")), 1);
	CHECK_CONTAINS(said, "refused (kernel-thread): process 2 (kthreadd) ");
	CHECK(access(path_of("never"), F_OK) != 0);
}

// Checks that a dump is refused for another user or with other rights, which options of setpriv set. Ends the process.
static void refused_as(const char *who, pid_t idle, const char *words)
{
	run_command(
		"HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent setpriv %s %s dump --pid %d --dir /tmp/x --cpu-only "
		"2>&1",
		who, VIRGATE, (int)idle);
	end_idle(idle);
	if (strstr(said, "not found") || strstr(said, "setpriv:"))
		SKIP("no setpriv here: %s", said);
	CHECK_CONTAINS(said, words);
}

TEST(a_process_of_another_user_is_refused)
{
	if (geteuid() != 0)
		SKIP("it takes root to be two users");
	test_needs_reach(VIRGATE);
	standin();
	pid_t idle = start_idle();
	refused_as("--reuid 65534 --clear-groups", idle, "refused (other-user): ");
}

TEST(missing_rights_are_named)
{
	if (geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE) != 1)
		SKIP("it takes a right that this user has not");
	standin();
	// Drops every capability that the dump could use. Besides CAP_SYS_PTRACE, these are CAP_SYS_ADMIN and, on newer
	// kernels, CAP_PERFMON (38).
	refused_as("--bounding-set -sys_ptrace,-sys_admin,-cap_38", start_idle(), "that takes CAP_SYS_PTRACE");
}

TEST(a_process_without_cuda_is_refused)
{
	standin();
	pid_t idle = start_idle();

	refused(idle, "no-cuda", "--cpu-only");
	end_idle(idle);
}

TEST(a_process_cannot_dump_itself)
{
	standin();
	// The command does not exec virgate, so the shell stays the parent of virgate.
	run_command("%s dump --pid $$ --dir %s --cpu-only 2>&1; true", VIRGATE, path_of("never"));
	CHECK_CONTAINS(said, "refused (own-process): ");
}

// ---- states of the process -------------------------------------------------------------------------------

TEST(an_ended_process_is_refused)
{
	standin();
	pid_t idle = start_idle();

	kill(idle, SIGKILL);
	siginfo_t info;
	CHECK_INT(waitid(P_PID, (id_t)idle, &info, WEXITED | WNOWAIT), 0);
	refused(idle, "ended", "its parent has not waited");
	waitpid(idle, NULL, 0);
}

TEST(a_zombie_child_is_allowed)
{
	standin();
	struct subject subject = start_subject_with(path_of("zombie"), "zombie");

	check_goes_on(path_of("zombie"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("with-zombie"));
	check_goes_on(path_of("zombie"));
	end_subject(subject);
}

// In a stopped process the driver's thread is stopped, too, so a call to the driver would never return.
TEST(a_stopped_process_is_refused_and_not_waited_for)
{
	standin();
	struct subject subject = start_subject_with(path_of("halt"), "cuda-child");

	check_goes_on(path_of("halt"));
	kill(subject.pid, SIGSTOP);
	refused(subject.pid, "stopped", "kill -CONT");
	kill(subject.pid, SIGCONT);
	check_goes_on(path_of("halt"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)subject.pid, path_of("halted"));
	end_subject(subject);
}

TEST(a_traced_process_is_refused)
{
	standin();
	struct subject subject = start_subject(path_of("traced"));

	check_goes_on(path_of("traced"));
	if (ptrace(PTRACE_SEIZE, subject.pid, 0, 0) != 0) {
		end_subject(subject);
		SKIP("ptrace: %s", strerror(errno));
	}
	refused(subject.pid, "traced", "is traced by process");
	CHECK_INT(ptrace(PTRACE_INTERRUPT, subject.pid, 0, 0), 0);
	CHECK_INT(waitpid(subject.pid, NULL, __WALL), subject.pid);
	CHECK_INT(ptrace(PTRACE_DETACH, subject.pid, 0, 0), 0);
	check_goes_on(path_of("traced"));
	end_subject(subject);
}

TEST(the_leader_of_a_terminal_is_refused)
{
	standin();
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		setsid();
		// This terminal becomes the controlling terminal.
		open(ptsname(master), O_RDWR);
		for (;;)
			pause();
	}
	char path[64], text[1024];
	int terminal = 0;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	while (!terminal && vg_file_read(path, text, sizeof text) > 0)
		sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %d", &terminal);
	refused(pid, "terminal", "leads the session of a terminal");
	end_idle(pid);
	close(master);
}

TEST(two_dumps_of_one_process_are_kept_apart)
{
	standin();
	write_text("fail", "slow\n");
	struct subject subject = start_subject_with(path_of("two"), "cuda-child");
	char pid[16];

	check_goes_on(path_of("two"));
	snprintf(pid, sizeof pid, "%d", (int)subject.pid);
	fflush(stdout);
	pid_t first = fork();
	if (first == 0) {
		execl(VIRGATE, VIRGATE, "dump", "--leave-running", "--pid", pid, "--dir", path_of("one"), (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 1000 && access(path_of("slow"), F_OK) != 0; i++)
		usleep(10000);
	refused(subject.pid, "in-use", "by somebody else");
	unlink(path_of("slow"));
	CHECK_CHILD(first);
	check_goes_on(path_of("two"));
	end_subject(subject);
}

// ---- resources of the process -----------------------------------------------------------------------------

static void check_kind_refused(const char *kinds, const char *name, const char *words)
{
	standin();
	struct subject subject = start_subject_with(path_of(kinds), kinds);

	check_goes_on(path_of(kinds));
	refused(subject.pid, name, words);
	check_goes_on(path_of(kinds));
	end_subject(subject);
}

TEST(managed_memory_is_refused_where_the_driver_does_not_take_it)
{
	check_kind_refused("managed", "managed-memory", "cuMemAllocManaged");
}

// NVML reports the process on a MIG device, a part of a GPU.
TEST(a_process_on_a_part_of_a_gpu_is_refused)
{
	standin();
	struct subject subject = start_subject(path_of("part"));
	check_goes_on(path_of("part"));
	setenv("VIRGATE_SIM", "mig=1", 1);
	refused(subject.pid, "mig", "(subject) runs on a MIG device of " GPU_NAME);
	setenv("VIRGATE_SIM", "1", 1);
	CHECK_CONTAINS(said, "use a whole GPU");
	check_goes_on(path_of("part"));
	end_subject(subject);
}

TEST(an_image_of_a_whole_gpu_is_not_restored_on_a_divided_one)
{
	standin();
	struct subject subject = start_subject(path_of("whole"));
	check_goes_on(path_of("whole"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("whole-image"));
	end_subject(subject);
	setenv("VIRGATE_SIM", "mig=1", 1);
	CHECK_INT(run("restore --dir %s --detach", path_of("whole-image")), 125);
	setenv("VIRGATE_SIM", "1", 1);
	CHECK_CONTAINS(said, "refused (gpu-setting): ");
	CHECK_CONTAINS(said, GPU_NAME ") has MIG on, and had it off: nvidia-smi -mig 0");
}

// The driver moves work only to a GPU of the same model.
TEST(a_map_needs_gpus_of_the_same_model)
{
	static const struct {
		const char *map, *words;
	} cases[] = {
		{"0=2,1=0", "refused (gpu-missing): there is no GPU \"2\" here: there are 2"},
		{"0=1,1=0", "is a Sim B, and GPU-"},
		{"0=1,1=0", "refused (gpu-model): GPU-"},
	};

	standin();
	setenv("VIRGATE_SIM", "devices=2,names=Sim A:Sim B", 1);
	setenv("VIRGATE_SIM_DIR", path_of("two-models"), 1);
	struct subject subject = start_subject(path_of("mapped"));
	check_goes_on(path_of("mapped"));
	CHECK_RUN("dump --pid %d --dir %s", (int)subject.pid, path_of("mapped-image"));
	end_subject(subject);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK_INT(run("restore --dir %s --detach --gpu-map %s", path_of("mapped-image"), cases[i].map), 125);
		CHECK_CONTAINS(said, cases[i].words);
	}
	setenv("VIRGATE_SIM", "1", 1);
	setenv("VIRGATE_SIM_DIR", path_of("node"), 1);
}

// The driver refuses to lock a client of MPS. No process is locked, so nothing is rolled back.
TEST(a_client_of_mps_is_refused_and_left_as_it_was)
{
	standin();
	setenv("VIRGATE_SIM", "mps=1", 1);
	struct subject client = start_subject(path_of("client"));
	setenv("VIRGATE_SIM", "1", 1);
	check_goes_on(path_of("client"));
	refused(client.pid, "mps", "a client of MPS is not taken off the GPU");
	CHECK_CONTAINS(said, "CUDA_ERROR_NOT_SUPPORTED");
	CHECK_CONTAINS(said, "start it without CUDA_MPS_PIPE_DIRECTORY, or end MPS");
	CHECK_RUN("recover --pid %d", (int)client.pid);
	CHECK_CONTAINS(said, "was running already");
	check_goes_on(path_of("client"));
	end_subject(client);
}

// The parent of the MPS client is locked first, and must be unlocked again.
TEST(a_client_of_mps_leaves_its_parent_unlocked)
{
	standin();
	setenv("SUBJECT_CHILD_SIM", "mps=1", 1);
	struct subject parent = start_subject_with(path_of("above"), "cuda-child");
	unsetenv("SUBJECT_CHILD_SIM");
	check_goes_on(path_of("above"));
	check_goes_on(path_of("above.child"));
	refused(parent.pid, "mps", "a client of MPS");
	check_goes_on(path_of("above"));
	check_goes_on(path_of("above.child"));
	end_subject(parent);
}

TEST(memory_opened_by_others_is_allowed)
{
	standin();
	struct subject exporter = start_subject_with(path_of("exporter"), "ipc-export pool-export");
	check_goes_on(path_of("exporter"));
	setenv("SUBJECT_IPC", path_of("exporter.ipc"), 1);
	struct subject importer = start_subject_with(path_of("importer"), "ipc-import");
	check_goes_on(path_of("importer"));
	CHECK_RUN("dump --pid %d --dir %s --leave-running", (int)exporter.pid, path_of("exported"));
	check_goes_on(path_of("exporter"));
	check_goes_on(path_of("importer"));
	end_subject(importer);
	end_subject(exporter);
}

// The driver takes a process with imported memory off the GPU, but cannot return it. Before that, nothing shows that
// the memory is imported.
TEST(a_process_with_imported_memory_is_lost_with_a_message)
{
	standin();
	struct subject exporter = start_subject_with(path_of("exporter2"), "ipc-export");
	check_goes_on(path_of("exporter2"));
	setenv("SUBJECT_IPC", path_of("exporter2.ipc"), 1);
	struct subject importer = start_subject_with(path_of("importer2"), "ipc-import");
	check_goes_on(path_of("importer2"));
	CHECK_INT(run("dump --pid %d --dir %s --leave-running", (int)importer.pid, path_of("imported")), 1);
	CHECK_CONTAINS(said, "CUDA IPC");
	CHECK_CONTAINS(said, "can only be ended");
	check_goes_on(path_of("exporter2"));
	end_subject(importer);
	end_subject(exporter);
}

// The only sign of CUDA IPC is the driver's file of shared events.
TEST(cuda_ipc_is_refused_where_it_shows)
{
	char name[64];

	standin();
	snprintf(name, sizeof name, "/dev/shm/cuda.shm.0.%x.1", (unsigned)getpid());
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		SKIP("/dev/shm cannot be written: %s", strerror(errno));
	void *page = ftruncate(fd, 4096) == 0 ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	CHECK(page != MAP_FAILED);
	pid_t idle = start_idle();
	munmap(page, 4096);
	refused(idle, "cuda-ipc", name);
	unlink(name);
	end_idle(idle);
}

// Files with the names of devices act as devices that this machine lacks.
TEST(an_open_device_is_refused_with_its_process)
{
	char name[64];

	standin();
	snprintf(name, sizeof name, "/dev/nvidia-test-%d", (int)getpid());
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		SKIP("/dev cannot be written: %s", strerror(errno));
	close(fd);
	setenv("SUBJECT_DEVICE", name, 1);
	struct subject one = start_subject_with(path_of("with-device"), "device");
	struct subject two = start_subject_with(path_of("with-child"), "device-in-child");
	for (int i = 0; i < 3000 && (round_of(path_of("with-device")) == 0 || round_of(path_of("with-child")) == 0);
	     i++)
		usleep(10000);
	unlink(name);
	refused(one.pid, "device-open", name);
	refused(two.pid, "device-open-in-child", "forked when its parent used CUDA already");
	check_goes_on(path_of("with-device"));
	check_goes_on(path_of("with-child"));
	end_subject(one);
	end_subject(two);
}

// The process maps the page by which the daemon publishes leases of the broker.
TEST(a_lease_of_the_broker_is_refused)
{
	standin();
	CHECK_INT(mkdir(path_of("publications"), 0700), 0);
	write_text("publications/weights", "");
	CHECK_INT(truncate(path_of("publications/weights"), 4096), 0);
	int fd = open(path_of("publications/weights"), O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(page != MAP_FAILED);
	pid_t idle = start_idle();
	munmap(page, 4096);
	close(fd);
	refused(idle, "broker-lease", "weights");
	end_idle(idle);
}
