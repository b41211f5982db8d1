#include "eviction.h"

#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/size.h"
#include "list.h"
#include "options.h"
#include "say.h"

// Reads the size option `name`. If the option is missing, reads the size from `setting`. Returns 0, or the verb's usage
// exit code.
static int read_size(const struct arguments *arguments, const char *name, const char *setting, bool evictable,
		     uint64_t *ret_bytes)
{
	const char *given = option_value(arguments, name);
	const char *wrong = given ? config_check(KIND_SIZE, given) : NULL;

	if (wrong)
		say_usage(arguments->verb, "--%s: \"%s\" %s", name, given, wrong);
	else if (given && !evictable)
		say_usage(arguments->verb, "--%s is for evictable vGPUs: give --evictable too", name);
	if (wrong || (given && !evictable))
		return verb_usage_code(arguments->verb);
	if (!given && evictable)
		given = setting;
	if (given)
		vg_size_parse(given, ret_bytes);
	return 0;
}

static int read_idle_suspend(const struct arguments *arguments, struct vg_vgpu_options *options)
{
	const char *given = option_value(arguments, "idle-suspend");
	const char *wrong = given ? config_check(KIND_SECONDS, given) : NULL;

	if (wrong)
		say_usage(arguments->verb, "--idle-suspend: \"%s\" %s", given, wrong);
	else if (given && !options->evictable)
		say_usage(arguments->verb, "--idle-suspend is for evictable vGPUs: give --evictable too");
	if (wrong || (given && !options->evictable))
		return verb_usage_code(arguments->verb);
	options->idle_suspend = given ? (unsigned)strtoul(given, NULL, 10) : 0;
	return 0;
}

int read_eviction(const struct arguments *arguments, const struct config *config, struct vg_vgpu_options *options)
{
	const char *setting = config ? config->values[CONFIG_EVICTABLE] : NULL;

	options->evictable = option_value(arguments, "evictable") || (setting && strcmp(setting, "yes") == 0);
	int code = read_size(arguments, "swap", config ? config->values[CONFIG_SWAP] : NULL, options->evictable,
			     &options->swap);
	if (code == 0)
		code = read_size(arguments, "fixed", NULL, options->evictable, &options->fixed);
	return code ? code : read_idle_suspend(arguments, options);
}

// ---- texts -----------------------------------------------------------------------------------------------

static bool is_reason(const struct vg_eviction_info *eviction, const char *reason)
{
	return strcmp(eviction->reason, reason) == 0;
}

const char *eviction_reason(const struct vg_eviction_info *eviction, char buffer[EVICTION_TEXT])
{
	char missing[VG_SIZE_TEXT];
	const char *call = *eviction->call ? eviction->call : "a call of the driver";

	vg_size_format(eviction->missing, missing);
	if (strcmp(eviction->state, "broken") == 0)
		snprintf(buffer, EVICTION_TEXT,
			 "a copy failed, and its GPU memory is lost: end the program and start it again");
	else if (!*eviction->reason && (strcmp(eviction->state, "out") == 0 || strcmp(eviction->state, "waiting") == 0))
		snprintf(buffer, EVICTION_TEXT, "other vGPUs have the GPU; it resumes when there is room");
	else if (is_reason(eviction, "thread"))
		snprintf(buffer, EVICTION_TEXT,
			 "a thread did not return from %s in time: wait until it has, or allow more time with --drain",
			 call);
	else if (is_reason(eviction, "gpu"))
		snprintf(buffer, EVICTION_TEXT,
			 "the GPU did not finish its work in time: wait until it has, or allow more time with --drain");
	else if (is_reason(eviction, "capture"))
		snprintf(buffer, EVICTION_TEXT,
			 "a stream capture did not end in time: wait until it has, or allow more time with --drain");
	else if (is_reason(eviction, "host"))
		snprintf(buffer, EVICTION_TEXT,
			 "the host lacks %s: free host memory, or create the vGPU with a larger --swap", missing);
	else if (is_reason(eviction, "device"))
		snprintf(buffer, EVICTION_TEXT,
			 "the GPU lacks %s: end or suspend other programs on it; the process resumes when there is "
			 "room",
			 missing);
	else if (is_reason(eviction, "file"))
		snprintf(buffer, EVICTION_TEXT, "the file with its memory in /dev/shm cannot be used: %s",
			 strerror(eviction->error));
	else if (is_reason(eviction, "driver"))
		snprintf(buffer, EVICTION_TEXT, "the driver failed with CUDA error %u: try again, or end the program",
			 eviction->error);
	else
		snprintf(buffer, EVICTION_TEXT, "the process did not report a reason: try again");
	return buffer;
}

const char *unchanged_text(const struct vg_eviction_info *eviction, char buffer[EVICTION_TEXT])
{
	char size[VG_SIZE_TEXT];

	buffer[0] = '\0';
	if (eviction->hash_error)
		snprintf(buffer, EVICTION_TEXT,
			 "; the GPU could not hash it (CUDA error %u), so unchanged blocks were copied, too",
			 eviction->hash_error);
	else if (eviction->unchanged)
		snprintf(buffer, EVICTION_TEXT, "; %s of it had not changed since the last time, and were not copied",
			 vg_size_format(eviction->unchanged, size));
	return buffer;
}

bool has_state(const struct vg_vgpu_info *vgpu)
{
	if (vgpu->evictable)
		return true;
	for (size_t i = 0; i < vgpu->tenant_count; i++)
		if (vgpu->tenants[i].deep)
			return true;
	return false;
}

const char *eviction_state(const struct vg_tenant_info *tenant)
{
	const struct vg_eviction_info *eviction = &tenant->eviction;

	if (tenant->deep == VG_DEEP_DONE)
		return "suspended, deep";
	return eviction->known && strcmp(eviction->state, "none") != 0 ? eviction->state : "-";
}

void print_not_moved(const struct vg_vgpu_info *vgpu, FILE *out)
{
	char line[2 * EVICTION_TEXT], reason[EVICTION_TEXT], program[CELL_TEXT];

	for (size_t i = 0; i < vgpu->tenant_count; i++) {
		const struct vg_tenant_info *tenant = &vgpu->tenants[i];
		const struct vg_eviction_info *eviction = &tenant->eviction;
		bool is_broken = eviction->known && strcmp(eviction->state, "broken") == 0;
		bool is_waiting = eviction->known && strcmp(eviction->state, "waiting") == 0;
		if (!eviction->known || (!is_broken && (!*eviction->reason || (eviction->pending && !is_waiting))))
			continue;
		snprintf(line, sizeof line, "%s: process %lld (%s) could not be %s: %s", vgpu->name,
			 (long long)tenant->pid, program_text(tenant, program),
			 eviction->suspended ? "suspended" : "resumed", eviction_reason(eviction, reason));
		fprintf(out, "%s\n", vg_make_printable(line));
	}
}

void print_eviction(const struct vg_vgpu_info *vgpu)
{
	char swap[VG_SIZE_TEXT], fixed[VG_SIZE_TEXT], on_gpu[VG_SIZE_TEXT], in_host[VG_SIZE_TEXT];

	if (!vgpu->evictable)
		return;
	print_line("%-11sup to %s of host memory for each process, up to %s of memory that cannot move", "evictable",
		   vg_size_format(vgpu->swap, swap), vg_size_format(vgpu->fixed, fixed));
	if (vgpu->idle_suspend)
		print_line("%-11sits memory leaves the GPU after %u s without use", "", vgpu->idle_suspend);
	if (*vgpu->eviction_state)
		print_line("%-11s%s: %s on the GPU, %s in the host", "memory", vgpu->eviction_state,
			   vg_size_format(vgpu->on_gpu, on_gpu), vg_size_format(vgpu->in_host, in_host));
}

// ---- JSON ------------------------------------------------------------------------------------------------

json_t *eviction_json(const struct vg_eviction_info *eviction)
{
	if (!eviction->known)
		return json_null();
	return json_pack("{s:s, s:b, s:b, s:o, s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "state",
			 eviction->state, "suspended", eviction->suspended, "pending", eviction->pending, "reason",
			 text_or_null(eviction->reason), "call", text_or_null(eviction->call), "error",
			 (json_int_t)eviction->error, "bytes", (json_int_t)eviction->bytes, "host",
			 (json_int_t)eviction->host, "missing", (json_int_t)eviction->missing, "in_state",
			 (double)eviction->state_ns / 1e9, "moved", (double)eviction->moved_ns / 1e9, "waited",
			 (double)eviction->waited_ns / 1e9, "waiting", (json_int_t)eviction->waiting, "moves",
			 (json_int_t)eviction->moves, "unchanged", (json_int_t)eviction->unchanged, "hash_error",
			 (json_int_t)eviction->hash_error);
}

json_t *deep_json(const struct vg_tenant_info *tenant)
{
	return tenant->deep == VG_DEEP_NONE ? json_null()
					    : json_string(tenant->deep == VG_DEEP_DONE ? "done" : "begun");
}

json_t *vgpu_eviction_json(const struct vg_vgpu_info *vgpu)
{
	if (!*vgpu->eviction_state)
		return json_null();
	return json_pack("{s:s, s:b, s:I, s:I}", "state", vgpu->eviction_state, "suspended", vgpu->suspended, "on_gpu",
			 (json_int_t)vgpu->on_gpu, "in_host", (json_int_t)vgpu->in_host);
}
