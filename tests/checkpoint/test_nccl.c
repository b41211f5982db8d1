// Tests the warning about ranks (processes of one NCCL job) that are not suspended with the others. The test starts
// processes that look like ranks.
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "checkpoint/suspend/nccl.h"
#include "test.h"

enum { MOST = 4 };

// Pretends to be a rank of an NCCL job, if the test has started this program for that.
__attribute__((constructor)) static void be_rank(void)
{
	const char *path = getenv("RANK_MAPS"), *ready = getenv("RANK_READY");

	if (!path)
		return;
	int fd = open(path, O_RDONLY);
	if (mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED || write(atoi(ready), "x", 1) != 1)
		_exit(1);
	pause();
	_exit(0);
}

// Starts a process with these environment variables, separated by spaces.
static pid_t start_rank(const char *library, const char *variables)
{
	char text[256], number[16], byte, *rest = text;
	int ready[2];

	CHECK_INT(pipe(ready), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		snprintf(number, sizeof number, "%d", ready[1]);
		setenv("RANK_READY", number, 1);
		setenv("RANK_MAPS", library, 1);
		snprintf(text, sizeof text, "%s", variables);
		for (char *one; (one = strsep(&rest, " "));)
			putenv(one);
		execl("/proc/self/exe", "rank", (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	CHECK_INT(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

// Suspends processes with these variables, and checks that the warning counts `suspended` ranks; 0: there must be no
// warning.
static void check_warning(const char *const *variables, unsigned suspended)
{
	char directory[] = "/tmp/virgate-nccl.XXXXXX", library[64], text[512], wanted[64];
	pid_t pids[MOST];
	size_t count = 0;

	CHECK(mkdtemp(directory) != NULL);
	snprintf(library, sizeof library, "%s/libnccl.so.2", directory);
	int fd = open(library, O_CREAT | O_WRONLY, 0600);
	CHECK_INT(write(fd, "x", 1), 1);
	close(fd);
	for (; count < MOST && variables[count]; count++)
		pids[count] = start_rank(library, variables[count]);
	nccl_warn(pids, count, text, sizeof text);
	for (size_t i = 0; i < count; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	unlink(library);
	rmdir(directory);
	snprintf(wanted, sizeof wanted, "it has 2 ranks, and %u of them is suspended", suspended);
	if (suspended ? !strstr(text, wanted) : *text)
		FAIL("%s and %s: \"%s\"", variables[0], variables[1], text);
}

TEST(all_ranks_of_jobs_give_no_warning)
{
	check_warning((const char *[MOST]){"WORLD_SIZE=2 RANK=0", "WORLD_SIZE=2 RANK=1"}, 0);
	check_warning((const char *[MOST]){"WORLD_SIZE=2", "WORLD_SIZE=2"}, 0);
	check_warning((const char *[MOST]){"WORLD_SIZE=2 RANK=0 MASTER_PORT=1", "WORLD_SIZE=2 RANK=0 MASTER_PORT=2",
					   "WORLD_SIZE=2 RANK=1 MASTER_PORT=2", "WORLD_SIZE=2 RANK=1 MASTER_PORT=1"},
		      0);
	check_warning((const char *[MOST]){"WORLD_SIZE=1", "OTHER=1"}, 0);
}

TEST(ranks_of_two_jobs_are_counted_separately)
{
	check_warning((const char *[MOST]){"WORLD_SIZE=2 RANK=0 MASTER_PORT=1", "WORLD_SIZE=2 RANK=1 MASTER_PORT=2"},
		      1);
	check_warning((const char *[MOST]){"SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_JOB_ID=7",
					   "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_JOB_ID=8"},
		      1);
	check_warning((const char *[MOST]){"PMI_SIZE=2 PMI_RANK=0", "PMI_SIZE=2 PMI_RANK=0"}, 1);
	check_warning((const char *[MOST]){"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_SIZE=3"}, 1);
}

TEST(the_launcher_nearest_to_the_program_counts)
{
	check_warning((const char *[MOST]){"SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 WORLD_SIZE=2 RANK=1"}, 1);
}
