// Implements Slurm's plugin callbacks. They run in these programs:
// - srun, sbatch, salloc: init, the options, init_post_opt. They check what the user has typed.
// - slurmd: init when it starts. A helper process of slurmd runs job_prolog and job_epilog as root; they create and end
//   the job's vGPU. The helper gets the options and the GPUs from the controller, not from the user's environment.
// - slurmstepd, for each step and batch script: user_init as the user, task_init in each task before it executes.
// If the prolog or the user_init of a batch script fails, Slurm may drain the node. So they succeed if the user made a
// mistake; the tasks then end with a message.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/spank.h>
#include <virgate/vgpu.h>

#include "job.h"
#include "leftover.h"
#include "node.h"
#include "refusal.h"
#include "request.h"
#include "settings.h"
#include "usage.h"

SPANK_PLUGIN(virgate, 1);

static struct settings settings;
static struct request request;	// what the job or step of this process asks for
static char node_name[256];	// the name of this node in Slurm
static char refusal[NODE_TEXT]; // in slurmstepd: why its tasks cannot start; "": they can
static struct variable {
	struct variable *next;
	char *name, *value;
} * variables; // in slurmstepd: the environment of a tenant

static int take_option(int option, const char *value, int remote)
{
	char text[256];
	const char *wrong = request_add(&request, (enum request_option)option, value, text, sizeof text);

	(void)remote;
	if (!wrong)
		return ESPANK_SUCCESS;
	slurm_error("%s", wrong);
	return ESPANK_BAD_ARG;
}

static struct spank_option make_option(enum request_option option)
{
	const struct request_option_text *text = &request_options[option];

	return (struct spank_option){(char *)text->name, (char *)text->argument, (char *)text->usage, 1, (int)option,
				     take_option};
}

// Finds Slurm's name for this node. It is not the host's name if several slurmd run on one machine.
static void find_node_name(void)
{
	const char *name = getenv("SLURMD_NODENAME");

	if (name && *name) {
		snprintf(node_name, sizeof node_name, "%s", name);
		return;
	}
	gethostname(node_name, sizeof node_name - 1);
	node_name[strcspn(node_name, ".")] = '\0';
}

static bool read_settings(int count, char **arguments)
{
	find_node_name();
	if (spank_context() == S_CTX_REMOTE || spank_context() == S_CTX_JOB_SCRIPT) {
		// Read no configuration file of a user or of root: only the system's profiles count here. The tasks do
		// not use this process's environment.
		unsetenv("HOME");
		unsetenv("XDG_CONFIG_HOME");
	}
	return settings_read(count, arguments, &settings) == 0;
}

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
	if (!read_settings(count, arguments))
		return ESPANK_ERROR;
	if (spank_context() == S_CTX_SLURMD) {
		leftover_end_all(&settings, node_name, 0);
		return ESPANK_SUCCESS;
	}
	for (int option = 0; option < REQUEST_OPTIONS; option++) {
		struct spank_option made = make_option((enum request_option)option);
		spank_err_t error = spank_option_register(spank, &made);
		if (error)
			return error;
	}
	return ESPANK_SUCCESS;
}

// Checks the options that the user has typed. If this machine has no profiles, because it only submits jobs, the
// profile is checked on the node.
int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments)
{
	struct request found = request;
	char text[NODE_TEXT];

	(void)spank, (void)count, (void)arguments;
	if (spank_context() != S_CTX_LOCAL && spank_context() != S_CTX_ALLOCATOR)
		return ESPANK_SUCCESS;
	const char *wrong = request_check(&request);
	enum node_result result = NODE_OK;
	if (!wrong && *request.profile)
		result = node_find_profile(&settings, &found, text);
	if (!wrong && (result == NODE_OK || result == NODE_MISSING))
		return ESPANK_SUCCESS;
	slurm_error("%s", wrong ? wrong : text);
	return ESPANK_ERROR;
}

// ---- job_prolog and job_epilog: as root, in a process of their own, which does not call slurm_spank_init() ------

// Reads the options that the controller keeps for the job. Returns NULL, or a message about an invalid option in
// `buffer`.
static const char *read_job_options(spank_t spank, char *buffer, size_t capacity)
{
	const char *wrong = NULL;

	for (int option = 0; option < REQUEST_OPTIONS && !wrong; option++) {
		struct spank_option made = make_option((enum request_option)option);
		char *value = NULL;
		if (spank_option_getopt(spank, &made, &value) == ESPANK_SUCCESS)
			wrong = request_add(&request, (enum request_option)option, value, buffer, capacity);
	}
	return wrong ? wrong : request_check(&request);
}

// Checks that the job has enough shards for the memory that it requests. Returns NODE_OK, NODE_REFUSED or NODE_FAILED.
static enum node_result check_shards(uint32_t job, char ret_text[NODE_TEXT])
{
	char asked[REQUEST_SIZE_TEXT], paid[REQUEST_SIZE_TEXT];
	uint64_t shards;

	if (!settings.shard_memory || !request.memory)
		return NODE_OK;
	if (job_count_shards(job, node_name, &shards) < 0) {
		snprintf(ret_text, NODE_TEXT, "the controller does not tell how many shards job %u has", job);
		return NODE_FAILED;
	}
	if (!shards || shards * settings.shard_memory >= request.memory) // 0 shards: the job has the whole GPU
		return NODE_OK;
	snprintf(ret_text, NODE_TEXT, "a vGPU of %s needs --gres=shard:%llu, and the job has %llu, for %s",
		 request_format_size(request.memory, asked),
		 (unsigned long long)((request.memory + settings.shard_memory - 1) / settings.shard_memory),
		 (unsigned long long)shards, request_format_size(shards * settings.shard_memory, paid));
	return NODE_REFUSED;
}

static enum node_result find_gpu(const char *list, char ret_gpu[JOB_GPU], char ret_text[NODE_TEXT])
{
	int r = job_find_gpu(list, job_driver_directory, ret_gpu);

	if (r == 0 || (r == 1 && settings.gres_is_optional))
		return NODE_OK;
	if (r == 1)
		snprintf(ret_text, NODE_TEXT,
			 "the job has no GPU on this node, so it has no vGPU: add --gres=shard:N or --gres=gpu:1");
	else if (r == -E2BIG)
		snprintf(ret_text, NODE_TEXT,
			 "the job has several GPUs on this node (%s), and a vGPU is on one: ask for --gres=gpu:1",
			 list);
	else
		snprintf(ret_text, NODE_TEXT,
			 "Slurm gave the job the GPU \"%s\", and the driver has none of that minor", list);
	return r == 1 || r == -E2BIG ? NODE_REFUSED : NODE_FAILED;
}

static enum node_result make_vgpu(uint32_t job, uid_t owner, char ret_text[NODE_TEXT])
{
	const char *list = getenv("SLURM_JOB_GPUS");
	char gpu[JOB_GPU] = "";

	enum node_result result = find_gpu(list, gpu, ret_text);
	if (result == NODE_OK && *request.profile)
		result = node_find_profile(&settings, &request, ret_text);
	if (result == NODE_OK)
		result = check_shards(job, ret_text);
	if (result)
		return result;
	result = node_make(&settings, job, owner, &request, *gpu ? gpu : NULL, ret_text);
	if (result == NODE_NO_ROOM && leftover_end_all(&settings, node_name, job))
		result = node_make(&settings, job, owner, &request, *gpu ? gpu : NULL, ret_text);
	return result;
}

static int refuse_job(uint32_t job, const char *text)
{
	slurm_info("virgate: job %u has no vGPU: %s", job, text);
	int r = refusal_write(settings.state_dir, job, text);
	if (r == 0)
		return ESPANK_SUCCESS;
	slurm_error("virgate: %s/refused-%u cannot be written: %s", settings.state_dir, job, strerror(-r));
	return ESPANK_ERROR;
}

// Refuses a job without vGPU to which Slurm gave a whole GPU on which another job has a vGPU. Slurm 22.05 gives whole
// GPUs to jobs even if other jobs have shards of them.
static int check_whole_gpu(uint32_t job)
{
	const char *list = getenv("SLURM_JOB_GPUS");
	char text[NODE_TEXT], tenant[JOB_NAME];
	uint64_t shards;

	if (!list || !*list || !node_find_tenant(&settings, list, tenant))
		return ESPANK_SUCCESS;
	if (job_count_shards(job, node_name, &shards) < 0 || shards)
		return ESPANK_SUCCESS;
	snprintf(text, sizeof text,
		 "Slurm gave this job the whole GPU %s, on which another job has the vGPU %s: submit it again, or ask "
		 "for "
		 "all shards of a GPU instead of --gres=gpu",
		 list, tenant);
	return refuse_job(job, text);
}

int slurm_spank_job_prolog(spank_t spank, int count, char **arguments)
{
	char text[NODE_TEXT];
	uint32_t job = 0;
	uid_t owner = 0;

	const char *wrong = read_job_options(spank, text, sizeof text);
	if (!wrong && !request_is_made(&request) && !getenv("SLURM_JOB_GPUS"))
		return ESPANK_SUCCESS;
	if (!read_settings(count, arguments) || spank_get_item(spank, S_JOB_ID, &job) ||
	    spank_get_item(spank, S_JOB_UID, &owner))
		return ESPANK_ERROR;
	refusal_remove(settings.state_dir, job);
	if (wrong)
		return refuse_job(job, wrong);
	if (!request_is_made(&request))
		return check_whole_gpu(job);
	enum node_result result = make_vgpu(job, owner, text);
	if (result == NODE_OK)
		return ESPANK_SUCCESS;
	int r = refuse_job(
		job,
		text); // also if the node is at fault: Slurm 22.05 starts the job even if the prolog of a plugin fails
	if (result != NODE_FAILED)
		return r;
	slurm_error("virgate: job %u: %s", job, text);
	return ESPANK_ERROR;
}

// Describes what the job's vGPU has used. Returns false if that is unknown.
static bool read_usage(uint32_t job, char ret_usage[USAGE_TEXT])
{
	struct vg_vgpu_list *list;
	char text[NODE_TEXT];

	if (node_inspect(&settings, job, &list, text))
		return false;
	bool is_known = list->count == 1;
	if (is_known)
		usage_describe(list->vgpus, node_name, ret_usage);
	vg_vgpu_list_free(list);
	return is_known;
}

int slurm_spank_job_epilog(spank_t spank, int count, char **arguments)
{
	char text[NODE_TEXT], usage[USAGE_TEXT];
	uint32_t job = 0;

	if (!read_job_options(spank, text, sizeof text) && !request_is_made(&request) && !getenv("SLURM_JOB_GPUS"))
		return ESPANK_SUCCESS;
	if (!read_settings(count, arguments) || spank_get_item(spank, S_JOB_ID, &job))
		return ESPANK_ERROR;
	refusal_remove(settings.state_dir, job);
	if (!request_is_made(&request))
		return ESPANK_SUCCESS;
	if (read_usage(job, usage)) // write the usage to the log, because the comment lacks it if the job was cancelled
		slurm_info("job %u: %s", job, usage);
	// Report no failure to Slurm, which would drain the node. A vGPU that is left is ended when slurmd starts
	// again, or when another job needs its room.
	enum node_result result = node_end(&settings, job, text);
	if (result && result != NODE_MISSING)
		slurm_error("virgate: the vGPU of job %u is left: %s", job, text);
	return ESPANK_SUCCESS;
}

// ---- slurmstepd ------------------------------------------------------------------------------------------------

static void keep_variable(void *user, const char *name, const char *value)
{
	struct variable *variable = calloc(1, sizeof *variable);

	(void)user;
	if (variable) {
		variable->name = strdup(name);
		variable->value = strdup(value);
		variable->next = variables;
		variables = variable;
	}
	if (!variable || !variable->name || !variable->value)
		snprintf(refusal, sizeof refusal, "no memory for the environment of the vGPU");
}

int slurm_spank_user_init(spank_t spank, int count, char **arguments)
{
	char **environment = NULL, text[NODE_TEXT];
	uint32_t job = 0;

	(void)count, (void)arguments;
	if (spank_get_item(spank, S_JOB_ID, &job) || spank_get_item(spank, S_JOB_ENV, &environment)) {
		snprintf(refusal, sizeof refusal, "Slurm does not tell the job's number");
		return ESPANK_SUCCESS;
	}
	if (refusal_read(settings.state_dir, job, refusal, sizeof refusal) || !request_is_made(&request))
		return ESPANK_SUCCESS;
	if (*request.profile) // get the figures of the profile; an unknown profile was refused earlier
		node_find_profile(&settings, &request, text);
	enum node_result result = node_enter(&settings, job, &request, environment, keep_variable, NULL, text);
	if (result == NODE_OK)
		return ESPANK_SUCCESS;
	if (result == NODE_MISSING)
		snprintf(text, sizeof text,
			 "job %u has no vGPU on this node: give the options --vgpu to sbatch, salloc or the first srun",
			 job);
	snprintf(refusal, sizeof refusal, "%s", text);
	return ESPANK_SUCCESS;
}

int slurm_spank_task_init(spank_t spank, int count, char **arguments)
{
	(void)count, (void)arguments;
	if (*refusal) {
		slurm_error("virgate: %s", refusal);
		// End the task here: if plugstack.conf calls the plugin optional, Slurm would ignore a returned error.
		_exit(EXIT_FAILURE);
	}
	for (const struct variable *variable = variables; variable; variable = variable->next)
		spank_setenv(spank, variable->name, variable->value, 1);
	if (variables && settings.runtime_dir)
		spank_setenv(spank, "VIRGATE_RUNTIME_DIR", settings.runtime_dir, 1);
	return ESPANK_SUCCESS;
}

// Writes the usage into the job's comment, when the last task of a step on the job's first node has ended. The epilog
// could not do it: Slurm 22.05 does not change a job that has ended.
int slurm_spank_task_exit(spank_t spank, int count, char **arguments)
{
	static unsigned ended;
	uint32_t job = 0, node = 0, tasks = 0;
	char usage[USAGE_TEXT];

	(void)count, (void)arguments;
	ended++;
	if (!variables || !settings.comment_is_written || spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) ||
	    ended < tasks || spank_get_item(spank, S_JOB_NODEID, &node) || node ||
	    spank_get_item(spank, S_JOB_ID, &job))
		return ESPANK_SUCCESS;
	if (read_usage(job, usage) && job_append_comment(job, usage) < 0)
		slurm_info("virgate: the controller did not take the usage of job %u: %s", job, usage);
	return ESPANK_SUCCESS;
}
