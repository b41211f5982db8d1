// Creates, ends, inspects and enters the vGPU of a job, by requests to the daemon of this node. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job.h"
#include "request.h"
#include "settings.h"

// The result of a request. It also decides to whom the text is reported: to the job's user, or to the operator.
enum node_result {
	NODE_OK,
	NODE_REFUSED, // the request cannot be met; the text is for the user
	NODE_NO_ROOM, // as NODE_REFUSED, but the request could be met if other vGPUs were removed
	NODE_MISSING, // the job has no vGPU
	NODE_FAILED,  // the daemon does not answer, or the driver fails; the text is for the operator
};

struct vg_vgpu_list;

enum { NODE_TEXT = 1024 };

// Finds the request's profile in the configuration of this machine, and copies its memory and share into the request.
enum node_result node_find_profile(const struct settings *settings, struct request *request, char ret_text[NODE_TEXT]);
// Creates the vGPU of a job for the user `owner`, as root. If a vGPU of that name exists, keeps it if it is the same,
// and otherwise replaces it. `gpu` is an index or UUID; NULL: the daemon chooses a GPU.
enum node_result node_make(const struct settings *settings, uint32_t job, uid_t owner, const struct request *request,
			   const char *gpu, char ret_text[NODE_TEXT]);
// Ends the vGPU of a job and all programs in it. NODE_MISSING: the job has no vGPU.
enum node_result node_end(const struct settings *settings, uint32_t job, char ret_text[NODE_TEXT]);
// Reads what the daemon knows about the job's vGPU. The caller frees *ret_list with vg_vgpu_list_free().
enum node_result node_inspect(const struct settings *settings, uint32_t job, struct vg_vgpu_list **ret_list,
			      char ret_text[NODE_TEXT]);
// Reads all vGPUs of the node. The caller frees *ret_list with vg_vgpu_list_free().
enum node_result node_list(const struct settings *settings, struct vg_vgpu_list **ret_list, char ret_text[NODE_TEXT]);

// Finds the vGPU of any job on one of the GPUs in `list`, the value of SLURM_JOB_GPUS. Returns false if there is no
// such vGPU, or if the daemon does not answer.
bool node_find_tenant(const struct settings *settings, const char *list, char ret_name[JOB_NAME]);

// Enters the job's vGPU as the user of this process. Calls `set` for each environment variable of a tenant that `base`
// lacks or has with another value. `request` is what this step asks for; the step is refused if the vGPU differs.
enum node_result node_enter(const struct settings *settings, uint32_t job, const struct request *request, char **base,
			    void (*set)(void *user, const char *name, const char *value), void *user,
			    char ret_text[NODE_TEXT]);
