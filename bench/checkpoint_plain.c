// The plain way to what `virgate dump` and `virgate restore` do, to be measured beside them: the driver's calls and
// CRIU, one after the other, with the same options of CRIU, and everything brought to the disk; nothing of Virgate.
//   checkpoint_plain dump PID DIRECTORY [run-on] | restore PID DIRECTORY        CRIU is $VIRGATE_CRIU, or criu in PATH
// It prints what each step took, as JSON.
#include <cuda.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double last;
static const char *between = "{\"seconds\": {";

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// The step that ends here.
static void step(const char *name)
{
	double time = now();

	if (name) {
		printf("%s\"%s\": %.6f", between, name, time - last);
		between = ", ";
	}
	last = now();
}

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "checkpoint_plain: %s: %d\n", what, (int)result);
	exit(1);
}
#define MUST(call) must(call, #call)

static void fail(const char *what)
{
	fprintf(stderr, "checkpoint_plain: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void criu(const char *verb, const char *folder, const char *const *more)
{
	char plugins[] = "/tmp/checkpoint-plain.XXXXXX", log[32];
	const char *program = getenv("VIRGATE_CRIU");
	const char *argv[24] = {program && *program ? program : "criu",
				verb,
				"--no-default-config",
				"--libdir",
				plugins,
				"-D",
				folder,
				"-v2",
				"-o",
				log,
				"--link-remap"};
	size_t count = 0;
	pid_t pid;
	int status;

	while (argv[count])
		count++;
	while (*more)
		argv[count++] = *more++;
	snprintf(log, sizeof log, "%s.log", verb);
	if (!mkdtemp(plugins))
		fail(plugins);
	errno = posix_spawnp(&pid, argv[0], NULL, NULL, (char **)argv, environ);
	if (errno || waitpid(pid, &status, 0) != pid)
		fail(argv[0]);
	rmdir(plugins);
	if (status == 0)
		return;
	fprintf(stderr, "checkpoint_plain: criu %s: status %#x, see %s/%s\n", verb, (unsigned)status, folder, log);
	exit(1);
}

// The bytes of all files, which lie on the disk afterwards, and their names
// too.
static uint64_t bring_to_disk(const char *folder)
{
	uint64_t bytes = 0;
	struct dirent *entry;
	struct stat info;

	DIR *list = opendir(folder);
	while (list && (entry = readdir(list))) {
		int fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &info) || fsync(fd))
			fail(entry->d_name);
		close(fd);
		if (S_ISREG(info.st_mode))
			bytes += (uint64_t)info.st_size;
	}
	if (!list)
		fail(folder);
	closedir(list);
	return bytes;
}

static void unlock(int pid)
{
	CUcheckpointRestoreArgs restore = {0};
	CUcheckpointUnlockArgs unlock = {0};

	MUST(cuCheckpointProcessRestore(pid, &restore));
	step("device-in");
	MUST(cuCheckpointProcessUnlock(pid, &unlock));
	step("unlock");
}

static uint64_t dump(int pid, const char *folder, int run_on)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	CUcheckpointCheckpointArgs checkpoint = {0};
	char root[16];
	const char *const more[] = {"-t",    root, "--leave-stopped", "--network-lock", "skip", "--ghost-limit",
				    "1024G", NULL};

	snprintf(root, sizeof root, "%d", pid);
	if (mkdir(folder, 0700))
		fail(folder);
	step(NULL);
	MUST(cuCheckpointProcessLock(pid, &lock));
	step("lock");
	MUST(cuCheckpointProcessCheckpoint(pid, &checkpoint));
	step("device-out");
	criu("dump", folder, more);
	step("host-out");
	uint64_t bytes = bring_to_disk(folder);
	step("commit");
	kill(pid, run_on ? SIGCONT : SIGKILL);
	if (run_on)
		unlock(pid);
	return bytes;
}

static void restore(int pid, const char *folder)
{
	static const char *const more[] = {"-d", NULL};

	step(NULL);
	criu("restore", folder, more);
	step("host-in");
	unlock(pid);
}

int main(int argc, char **argv)
{
	uint64_t bytes = 0;

	if (argc < 4 || (strcmp(argv[1], "dump") != 0 && strcmp(argv[1], "restore") != 0)) {
		fprintf(stderr, "usage: checkpoint_plain dump PID DIRECTORY [run-on] | restore PID DIRECTORY\n");
		return 2;
	}
	last = now();
	MUST(cuInit(0)); // wakes a GPU that nobody uses
	step("start");
	if (strcmp(argv[1], "dump") == 0)
		bytes = dump(atoi(argv[2]), argv[3], argc > 4);
	else
		restore(atoi(argv[2]), argv[3]);
	printf("}, \"bytes\": %llu}\n", (unsigned long long)bytes);
	return 0;
}
