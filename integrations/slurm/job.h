// Asks Slurm about a job, and gives the job's vGPU its name. For slurmd and its helpers, as root. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_NAME = 32, JOB_GPU = 64 };

// Writes the name of the job's vGPU, "slurm-ID".
void job_vgpu_name(uint32_t job, char ret_name[JOB_NAME]);
// Returns whether `name` is the name of a job's vGPU, and stores the number of that job.
bool job_of_vgpu(const char *name, uint32_t *ret_job);

extern const char job_driver_directory[]; // has a directory for each GPU; missing on a simulated node

// Finds the job's GPU in `list`, the value of SLURM_JOB_GPUS: the GPUs on this node that Slurm gave to the job, as
// device minors. `proc` is job_driver_directory. If that is missing, as on a simulated node, the list has indexes
// instead. Returns 0 and the UUID or index of the only GPU; 1: the list is NULL or empty; -E2BIG: the list has several
// GPUs; -ENODEV: no GPU has that minor; -EINVAL: the list is invalid.
int job_find_gpu(const char *list, const char *proc, char ret_gpu[JOB_GPU]);

// Asks the controller how many gres/shard the job has on this node. Returns 0, and the number in *ret_shards, which is
// 0 for a job with whole GPUs; or -EIO if the controller does not answer.
int job_count_shards(uint32_t job, const char *node_name, uint64_t *ret_shards);
// Returns the sum of the shards in a text such as "gpu:1(IDX:0),shard:8(IDX:0)".
uint64_t job_parse_shards(const char *text);

enum job_life {
	JOB_UNKNOWN,	  // the controller does not answer
	JOB_MAY_USE_NODE, // the job runs on this node, or is about to run, or its epilog will still come
	JOB_IS_OVER,	  // the job has ended, or is not on this node any more
};
enum job_life job_ask_life(uint32_t job, const char *node_name);

// Adds a text to the job's comment, in place of the text that an earlier call has added. Returns 0 or -EIO.
int job_append_comment(uint32_t job, const char *text);
