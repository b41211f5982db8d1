#include "job.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

const char job_driver_directory[] = "/proc/driver/nvidia/gpus";

static const char prefix[] = "slurm-";

void job_vgpu_name(uint32_t job, char ret_name[JOB_NAME])
{
	snprintf(ret_name, JOB_NAME, "%s%u", prefix, job);
}

bool job_of_vgpu(const char *name, uint32_t *ret_job)
{
	char again[JOB_NAME], *end;

	if (strncmp(name, prefix, sizeof prefix - 1) != 0)
		return false;
	uint32_t job = (uint32_t)strtoul(name + sizeof prefix - 1, &end, 10);
	job_vgpu_name(job, again);
	if (!job || strcmp(name, again) != 0)
		return false;
	*ret_job = job;
	return true;
}

// Reads the fields "GPU UUID" and "Device Minor" of a file in which the driver describes a GPU.
static bool read_description(const char *path, unsigned *ret_minor, char ret_uuid[JOB_GPU])
{
	bool has_minor = false, has_uuid = false;
	char line[256];

	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof line, file)) {
		has_minor |= sscanf(line, "Device Minor: %u", ret_minor) == 1;
		has_uuid |= sscanf(line, "GPU UUID: %63s", ret_uuid) == 1;
	}
	fclose(file);
	return has_minor && has_uuid;
}

static int find_minor(const char *proc, unsigned wanted, char ret_gpu[JOB_GPU])
{
	char path[PATH_MAX], uuid[JOB_GPU] = "";
	unsigned minor = 0;
	bool found = false;

	DIR *directory = opendir(proc);
	if (!directory) {
		snprintf(ret_gpu, JOB_GPU, "%u", wanted);
		return 0;
	}
	for (struct dirent *entry; !found && (entry = readdir(directory));) {
		snprintf(path, sizeof path, "%s/%s/information", proc, entry->d_name);
		found = read_description(path, &minor, uuid) && minor == wanted;
	}
	closedir(directory);
	if (!found)
		return -ENODEV;
	snprintf(ret_gpu, JOB_GPU, "%s", uuid);
	return 0;
}

int job_find_gpu(const char *list, const char *proc, char ret_gpu[JOB_GPU])
{
	if (!list || !*list)
		return 1;
	if (list[strspn(list, "0123456789,-")] || !isdigit((unsigned char)*list))
		return -EINVAL;
	if (strpbrk(list, ",-"))
		return -E2BIG;
	return find_minor(proc, (unsigned)strtoul(list, NULL, 10), ret_gpu);
}

uint64_t job_parse_shards(const char *text)
{
	static const char name[] = "shard:";
	uint64_t sum = 0;

	for (const char *at = text; at && (at = strstr(at, name)); at += sizeof name - 1) {
		if (at != text && at[-1] != ',' && at[-1] != '/' && at[-1] != ':')
			continue;
		size_t length = strcspn(at, ",(");
		while (length > 0 && at[length - 1] != ':') // the count follows the last colon: "shard:TYPE:8"
			length--;
		sum += strtoull(at + length, NULL, 10);
	}
	return sum;
}

// Returns the index of this node among the job's nodes. Negative: the job has no such node.
static int find_node(const job_info_t *job, const char *node_name)
{
	hostlist_t nodes = job->nodes && *job->nodes ? slurm_hostlist_create(job->nodes) : NULL;

	if (!nodes)
		return -1;
	int position = slurm_hostlist_find(nodes, node_name);
	slurm_hostlist_destroy(nodes);
	return position;
}

// Requests the record of a job from the controller. NULL: slurm_get_errno() has the reason.
static job_info_msg_t *load_job(uint32_t job, uint16_t flags)
{
	job_info_msg_t *records = NULL;

	if (slurm_load_job(&records, job, flags) != SLURM_SUCCESS)
		return NULL;
	if (records && records->record_count)
		return records;
	slurm_free_job_info_msg(records);
	errno = ESLURM_INVALID_JOB_ID;
	return NULL;
}

// Returns the record of this job. For a job array, the controller answers with the records of all its tasks.
static const job_info_t *pick_job(const job_info_msg_t *records, uint32_t job)
{
	for (uint32_t i = 0; i < records->record_count; i++)
		if (records->job_array[i].job_id == job)
			return &records->job_array[i];
	return NULL;
}

int job_count_shards(uint32_t job, const char *node_name, uint64_t *ret_shards)
{
	job_info_msg_t *records = load_job(job, SHOW_DETAIL);

	if (!records)
		return -EIO;
	const job_info_t *record = pick_job(records, job);
	int position = record ? find_node(record, node_name) : -1;
	bool is_known = position >= 0 && (uint32_t)position < record->gres_detail_cnt;
	*ret_shards = is_known ? job_parse_shards(record->gres_detail_str[position]) : 0;
	slurm_free_job_info_msg(records);
	return 0;
}

enum job_life job_ask_life(uint32_t job, const char *node_name)
{
	job_info_msg_t *records = load_job(job, 0);

	if (!records)
		return errno == ESLURM_INVALID_JOB_ID ? JOB_IS_OVER : JOB_UNKNOWN;
	const job_info_t *record = pick_job(records, job);
	bool may_use_node = false;
	if (record && find_node(record, node_name) >= 0) {
		uint32_t state = record->job_state & JOB_STATE_BASE;
		may_use_node = state == JOB_RUNNING || state == JOB_SUSPENDED || (record->job_state & JOB_COMPLETING);
	}
	slurm_free_job_info_msg(records);
	return may_use_node ? JOB_MAY_USE_NODE : JOB_IS_OVER;
}

// Returns the length of the part of a comment that the user wrote: the text before what job_append_comment() has added.
static int own_length(const char *comment)
{
	const char *ours = strstr(comment, "virgate: ");

	if (!ours)
		return (int)strlen(comment);
	int length = (int)(ours - comment);
	return length >= 2 && strncmp(ours - 2, "; ", 2) == 0 ? length - 2 : length;
}

int job_append_comment(uint32_t job, const char *text)
{
	job_info_msg_t *records = load_job(job, 0);
	char *comment = NULL;
	job_desc_msg_t change;

	if (!records)
		return -EIO;
	const job_info_t *record = pick_job(records, job);
	const char *before = record && record->comment ? record->comment : "";
	int length = own_length(before);
	int r = asprintf(&comment, "%.*s%s%s", length, before, length ? "; " : "", text);
	slurm_free_job_info_msg(records);
	if (r < 0)
		return -ENOMEM;
	slurm_init_job_desc_msg(&change);
	change.job_id = job;
	change.comment = comment;
	r = slurm_update_job(&change) == SLURM_SUCCESS ? 0 : -EIO;
	free(comment);
	return r;
}
