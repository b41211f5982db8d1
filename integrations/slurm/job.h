// What Slurm knows about a job. For slurmd and its helpers, as root; one thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JOB_NAME = 32, JOB_GPU = 64 };

// Writes the name of the job's vGPU, "slurm-ID".
void job_vgpu_name(uint32_t job, char ret_name[JOB_NAME]);
// Returns whether `name` is such a name, and the job in it.
bool job_of_vgpu(const char *name, uint32_t *ret_job);

extern const char job_driver_directory[]; // has a directory for each GPU; it is missing on a simulated node

// Interprets SLURM_JOB_GPUS, a list of the GPUs on this node that Slurm gave to the job: their device minors, or on a
// simulated node their indexes. Returns 0 and the UUID or index of the only GPU, for the daemon; 1: the list is NULL or
// empty; -E2BIG: it has several GPUs; -ENODEV: no GPU has that minor; -EINVAL. `proc`:
// job_driver_directory; if it is missing, minors are indexes.
int job_find_gpu(const char *list, const char *proc, char ret_gpu[JOB_GPU]);

// Asks the controller how many gres/shard the job has on this node. Returns 0; *ret_shards: 0 if it has none, as with
// whole GPUs. -EIO: the controller does not answer.
int job_count_shards(uint32_t job, const char *node_name, uint64_t *ret_shards);
// Returns how many shards a text such as "gpu:1(IDX:0),shard:8(IDX:0)" names.
uint64_t job_parse_shards(const char *text);

enum job_life {
	JOB_UNKNOWN,	  // the controller does not answer
	JOB_MAY_USE_NODE, // it runs on this node, is about to, or its epilog will come
	JOB_IS_OVER,	  // it has ended, or is not on this node any more
};
enum job_life job_ask_life(uint32_t job, const char *node_name);

// Replaces what an earlier call has appended to the job's comment. Returns 0 or -EIO.
int job_append_comment(uint32_t job, const char *text);
