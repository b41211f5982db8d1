#include "checkpoint/suspend/nccl.h"

#include "base/descriptor.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SHARED = 64, MOST_ENVIRONMENT = 4 << 20 };

// What the kernel shows of a process that is a rank of an NCCL job.
struct rank {
	bool has_library;
	unsigned long ranks; // number of ranks in the job of this rank, as the launcher set it; 0: unknown
	char number[16];     // the rank's own number in the job; "": unknown
	uint64_t job;	     // hash that is the same for all ranks of a job; 0: unknown
	size_t shared_count;
	unsigned long shared[MOST_SHARED]; // inodes of NCCL's shared memory
};

static bool is_library(const char *path)
{
	const char *name = strrchr(path, '/');

	return name && strncmp(name, "/libnccl.so", 11) == 0;
}

static void read_maps(pid_t pid, struct rank *rank)
{
	char path[64], *line = NULL;
	size_t capacity = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && getline(&line, &capacity, file) > 0) {
		unsigned long inode;
		int at = 0;
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%*s %*s %*s %*s %lu %n", &inode, &at) != 1 || line[at] != '/')
			continue;
		rank->has_library |= is_library(line + at);
		if (strncmp(line + at, "/dev/shm/nccl-", 14) == 0 && rank->shared_count < MOST_SHARED)
			rank->shared[rank->shared_count++] = inode;
	}
	free(line);
	if (file)
		fclose(file);
}

static const char *find_variable(const char *text, size_t length, const char *name)
{
	size_t name_length = strlen(name);

	for (const char *one = text; one < text + length; one += strlen(one) + 1)
		if (strncmp(one, name, name_length) == 0 && one[name_length] == '=')
			return one + name_length + 1;
	return NULL;
}

// Reads the variables of launchers. If torchrun runs inside a Slurm job, both set variables; this function uses
// torchrun's, which is nearer to the program.
static void parse_environment(const char *text, size_t length, struct rank *rank)
{
	static const struct {
		const char *size, *number;
	} launchers[] = {{"WORLD_SIZE", "RANK"}, // torchrun
			 {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
			 {"PMI_SIZE", "PMI_RANK"}, // MPICH
			 {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
	static const char *const jobs[] = {"MASTER_ADDR", "MASTER_PORT", "PMIX_NAMESPACE", "SLURM_JOB_ID",
					   "SLURM_STEP_ID"};
	const char *value;

	for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !rank->ranks; i++) {
		value = find_variable(text, length, launchers[i].size);
		rank->ranks = value ? strtoul(value, NULL, 10) : 0;
		value = rank->ranks ? find_variable(text, length, launchers[i].number) : NULL;
		snprintf(rank->number, sizeof rank->number, "%s", value ? value : "");
	}
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
		value = find_variable(text, length, jobs[i]);
		rank->job = rank->job * 31 + (value ? sum_bytes(value, strlen(value)) : 0);
	}
}

static void read_environment(pid_t pid, struct rank *rank)
{
	char path[64], *text = malloc(MOST_ENVIRONMENT);

	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 && text ? vg_read_all(fd, text, MOST_ENVIRONMENT - 1, -1) : 0;
	if (length > 0) {
		text[length] = '\0';
		parse_environment(text, (size_t)length, rank);
	}
	free(text);
}

static bool have_common(const struct rank *left, const struct rank *right)
{
	for (size_t i = 0; i < left->shared_count; i++)
		for (size_t k = 0; k < right->shared_count; k++)
			if (left->shared[i] == right->shared[k])
				return true;
	return false;
}

static bool have_same_job(const struct rank *left, const struct rank *right)
{
	return left->ranks == right->ranks && left->job == right->job;
}

// Counts the ranks in the list that belong to the same job as `rank`. Processes of the job with the same rank number
// count as one rank: the others are its helpers. Processes without a known number count singly.
static size_t count_ranks(const struct rank *rank, const struct rank *ranks, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		bool is_new = have_same_job(rank, &ranks[i]);
		for (size_t k = 0; k < i && is_new && *ranks[i].number; k++)
			is_new = !have_same_job(rank, &ranks[k]) || strcmp(ranks[k].number, ranks[i].number) != 0;
		found += is_new;
	}
	return found;
}

static bool is_among(pid_t pid, const pid_t *pids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

// Returns the pid of a process that shares memory with the rank and is not in `pids`, or 0.
static pid_t find_partner(const struct rank *rank, const pid_t *pids, size_t count)
{
	DIR *directory = rank->shared_count ? opendir("/proc") : NULL;
	struct dirent *entry;
	pid_t found = 0;

	while (directory && !found && (entry = readdir(directory))) {
		struct rank other = {0};
		pid_t pid = (pid_t)atoi(entry->d_name);
		if (pid <= 0 || is_among(pid, pids, count))
			continue;
		read_maps(pid, &other);
		if (have_common(rank, &other))
			found = pid;
	}
	if (directory)
		closedir(directory);
	return found;
}

static const char *name_of(pid_t pid, struct proc_status *status)
{
	return proc_status_read(pid, status) == 0 ? status->command : "?";
}

static void describe_job(pid_t pid, const struct rank *rank, size_t suspended, pid_t partner, char *text,
			 size_t capacity)
{
	struct proc_status status;
	char others[96];

	if (partner)
		snprintf(others, sizeof others, "process %d is another one", (int)partner);
	else
		snprintf(others, sizeof others, "it has %lu ranks, and %zu of them %s suspended", rank->ranks,
			 suspended, suspended == 1 ? "is" : "are");
	snprintf(text, capacity,
		 "process %d (%s) is a rank of a NCCL job: %s. Other ranks that wait for it keep their GPUs busy, and "
		 "may run into timeouts of their programs: suspend all ranks, or resume it soon",
		 (int)pid, name_of(pid, &status), others);
}

void nccl_warn(const pid_t *pids, size_t count, char *ret_text, size_t capacity)
{
	struct rank *ranks = calloc(count + 1, sizeof *ranks);

	*ret_text = '\0';
	for (size_t i = 0; i < count && ranks; i++) {
		read_maps(pids[i], &ranks[i]);
		if (ranks[i].has_library)
			read_environment(pids[i], &ranks[i]);
	}
	for (size_t i = 0; i < count && ranks && !*ret_text; i++) {
		size_t suspended = count_ranks(&ranks[i], ranks, count);
		pid_t partner = find_partner(&ranks[i], pids, count);
		if (partner || ranks[i].ranks > suspended)
			describe_job(pids[i], &ranks[i], suspended, partner, ret_text, capacity);
	}
	free(ranks);
}
