// Dumps and restores a process without Virgate, to be measured beside `virgate dump` and `virgate restore`. Runs the
// driver's calls and CRIU one after the other, with the same options of CRIU, and writes everything to the disk.
//   checkpoint_plain dump PID DIRECTORY [run-on] | restore PID DIRECTORY        CRIU is $VIRGATE_CRIU, or criu in PATH
// Prints the time of each step as JSON.
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

static double step_begin;
static const char *separator = "{\"seconds\": {";

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Starts the clock of the next step.
static void begin_step(void)
{
	step_begin = now();
}

// Prints the time of the step that ends here, and begins the next one.
static void end_step(const char *name)
{
	printf("%s\"%s\": %.6f", separator, name, now() - step_begin);
	separator = ", ";
	begin_step();
}

static void check(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "checkpoint_plain: %s: %d\n", what, (int)result);
	exit(1);
}
#define MUST(call) check(call, #call)

static void fail(const char *what)
{
	fprintf(stderr, "checkpoint_plain: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void run_criu(const char *verb, const char *directory, const char *const *more)
{
	char plugins[] = "/tmp/checkpoint-plain.XXXXXX", log[32];
	const char *program = getenv("VIRGATE_CRIU");
	const char *argv[24] = {program && *program ? program : "criu",
				verb,
				"--no-default-config",
				"--libdir",
				plugins,
				"-D",
				directory,
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
	fprintf(stderr, "checkpoint_plain: criu %s: status %#x, see %s/%s\n", verb, (unsigned)status, directory, log);
	exit(1);
}

// Flushes the directory and all its files to the disk. Returns the bytes of the files.
static uint64_t sync_directory(const char *directory)
{
	uint64_t bytes = 0;
	struct dirent *entry;
	struct stat info;

	DIR *list = opendir(directory);
	while (list && (entry = readdir(list))) {
		int fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &info) || fsync(fd))
			fail(entry->d_name);
		close(fd);
		if (S_ISREG(info.st_mode))
			bytes += (uint64_t)info.st_size;
	}
	if (!list)
		fail(directory);
	closedir(list);
	return bytes;
}

static void unlock(int pid)
{
	CUcheckpointRestoreArgs restore = {0};
	CUcheckpointUnlockArgs unlock = {0};

	MUST(cuCheckpointProcessRestore(pid, &restore));
	end_step("device-in");
	MUST(cuCheckpointProcessUnlock(pid, &unlock));
	end_step("unlock");
}

static uint64_t dump(int pid, const char *directory, int run_on)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	CUcheckpointCheckpointArgs checkpoint = {0};
	char root[16];
	const char *const more[] = {"-t",    root, "--leave-stopped", "--network-lock", "skip", "--ghost-limit",
				    "1024G", NULL};

	snprintf(root, sizeof root, "%d", pid);
	if (mkdir(directory, 0700))
		fail(directory);
	begin_step();
	MUST(cuCheckpointProcessLock(pid, &lock));
	end_step("lock");
	MUST(cuCheckpointProcessCheckpoint(pid, &checkpoint));
	end_step("device-out");
	run_criu("dump", directory, more);
	end_step("host-out");
	uint64_t bytes = sync_directory(directory);
	end_step("commit");
	kill(pid, run_on ? SIGCONT : SIGKILL);
	if (run_on)
		unlock(pid);
	return bytes;
}

static void restore(int pid, const char *directory)
{
	static const char *const more[] = {"-d", NULL};

	begin_step();
	run_criu("restore", directory, more);
	end_step("host-in");
	unlock(pid);
}

int main(int argc, char **argv)
{
	uint64_t bytes = 0;

	if (argc < 4 || (strcmp(argv[1], "dump") != 0 && strcmp(argv[1], "restore") != 0)) {
		fprintf(stderr, "usage: checkpoint_plain dump PID DIRECTORY [run-on] | restore PID DIRECTORY\n");
		return 2;
	}
	begin_step();
	MUST(cuInit(0)); // wakes an idle GPU
	end_step("start");
	if (strcmp(argv[1], "dump") == 0)
		bytes = dump(atoi(argv[2]), argv[3], argc > 4);
	else
		restore(atoi(argv[2]), argv[3]);
	printf("}, \"bytes\": %llu}\n", (unsigned long long)bytes);
	return 0;
}
