// The vGPU of a job, in the daemon of this node. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job.h"
#include "request.h"
#include "settings.h"

// The result of a request, by the person that it is reported to: the user of the job, or the operator.
enum node_result {
	NODE_OK,
	NODE_REFUSED, // the request cannot be met: a sentence for the user
	NODE_NO_ROOM, // the same, and it could be met if other vGPUs were removed
	NODE_MISSING, // the job has no vGPU
	NODE_FAILED,  // the daemon does not answer, or the driver fails: a matter of the node
};

struct vg_vgpu_list;

enum { NODE_TEXT = 1024 };

// Looks the request's profile up in the configuration of this machine, and copies its memory and share.
enum node_result node_find_profile(const struct settings *settings, struct request *request, char ret_text[NODE_TEXT]);
// Makes the vGPU of a job, which belongs to `owner`. One that is there already is kept if it is the same, and otherwise
// ended first. `gpu`: an index or UUID; NULL: the daemon chooses. For root.
enum node_result node_make(const struct settings *settings, uint32_t job, uid_t owner, const struct request *request,
			   const char *gpu, char ret_text[NODE_TEXT]);
// Ends the vGPU of a job, with all programs in it. NODE_MISSING: it has no vGPU.
enum node_result node_end(const struct settings *settings, uint32_t job, char ret_text[NODE_TEXT]);
// Reads what the daemon knows about the job's vGPU, for vg_vgpu_list_free().
enum node_result node_inspect(const struct settings *settings, uint32_t job, struct vg_vgpu_list **ret_list,
			      char ret_text[NODE_TEXT]);
// Reads all vGPUs of the node, likewise.
enum node_result node_list(const struct settings *settings, struct vg_vgpu_list **ret_list, char ret_text[NODE_TEXT]);

// Finds a vGPU "slurm-ID" on one of the GPUs in `list`, which is SLURM_JOB_GPUS. Returns false if it finds no such
// vGPU, or if the daemon does not answer.
bool node_find_tenant(const struct settings *settings, const char *list, char ret_name[JOB_NAME]);

// Enters the job's vGPU as the user of this process. `set` is called for each variable of a tenant that the environment
// `base` lacks or has with another value. `request`: what this step asks for; it cannot differ from the vGPU.
enum node_result node_enter(const struct settings *settings, uint32_t job, const struct request *request, char **base,
			    void (*set)(void *user, const char *name, const char *value), void *user,
			    char ret_text[NODE_TEXT]);
