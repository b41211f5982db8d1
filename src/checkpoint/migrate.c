// Sends processes to another machine. The sender keeps the processes until the receiver has verified that their image
// is complete and fits. Then the sender ends them, and tells the receiver to restore them. So the processes never run
// on both machines at the same time.
#include "base/clock.h"
#include "base/parts.h"
#include "base/status.h"
#include "checkpoint/dump.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/move/channel.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/precopy.h"
#include "checkpoint/restore.h"
#include "core/object.h"
#include "node/node.h"
#include "virgate/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GREETING_NS UINT64_C(60000000000)
#define PATIENCE_NS UINT64_C(5000000000)

struct migration {
	struct vg_migrate_options options;
	struct vg_dump_options dump;
	struct channel channel;
	struct frames frames;
	struct precopy precopy;
	bool refused;			    // the receiver has refused, and has removed everything that it received
	struct vg_checkpoint_result result; // result of the dump and the steps after it
	struct vg_checkpoint_result ahead;  // result of the steps before the dump
};

// Appends the last message of ssh to the last error.
static enum vg_status add_complaint(const struct migration *migration, enum vg_status status)
{
	char text[512], complaint[256];
	int code = vg_last_error()->code;

	const char *said = channel_complaint(&migration->channel, complaint, sizeof complaint);
	if (!*said)
		return status;
	snprintf(text, sizeof text, "%s", vg_last_error()->text);
	return vg_fail(status, code, "%s; ssh says: %s", text, said);
}

// Sets the last error from a refusal of the receiver.
static enum vg_status fail_refused(struct migration *migration)
{
	struct frames *frames = &migration->frames;
	uint32_t status = VG_SYSTEM;

	migration->refused = true;
	if (frames->payload_bytes < sizeof status)
		return vg_fail(VG_INTEGRITY, 0, "the other side refuses without a reason");
	memcpy(&status, frames->payload, sizeof status);
	int length = (int)(frames->payload_bytes - sizeof status);
	// Replace control characters: the text comes from the receiver, and may be printed to a terminal.
	for (int i = 0; i < length; i++)
		if (frames->payload[sizeof status + (size_t)i] < ' ' ||
		    frames->payload[sizeof status + (size_t)i] > '~')
			frames->payload[sizeof status + (size_t)i] = '?';
	return vg_fail(status > VG_OK && *vg_status_text((enum vg_status)status) ? (enum vg_status)status : VG_SYSTEM,
		       0, "the other side: %.*s", length, (char *)frames->payload + sizeof status);
}

static enum vg_status wait_for_frame(struct migration *migration, enum frame_type wanted)
{
	enum frame_type type;

	enum vg_status status = frame_read(&migration->frames, &type);
	if (status)
		return add_complaint(migration, status);
	if (type == FRAME_REFUSED)
		return fail_refused(migration);
	return type == wanted ? VG_OK
			      : vg_fail(VG_INTEGRITY, 0, "the other side gives answer %d, not %d", type, wanted);
}

// Checks that the receiver answers, before any process is changed.
static enum vg_status check_receiver(struct migration *migration)
{
	struct phase phase = {
		.progress = migration->dump.progress, .user = migration->dump.user, .result = &migration->result};
	struct frames *frames = &migration->frames;

	enum vg_status status = phase_begin(&phase, VG_CHECKPOINT_FIND);
	if (status)
		return status;
	frames->phase = &phase;
	frames->may_stop = true;
	frames->deadline = vg_clock_monotonic_ns() + GREETING_NS;
	status = stream_begin(frames, true, migration->options.precopy != 0);
	status = status ? add_complaint(migration, status) : wait_for_frame(migration, FRAME_READY);
	frames->deadline = 0;
	frames->phase = NULL;
	return status;
}

// Copies device memory to the receiver while the processes run.
static enum vg_status copy_ahead(struct migration *migration)
{
	struct precopy *precopy = &migration->precopy;
	struct phase phase = {
		.progress = migration->dump.progress, .user = migration->dump.user, .result = &migration->ahead};
	struct frames *frames = &migration->frames;

	if (!migration->options.precopy)
		return VG_OK;
	*precopy = (struct precopy){.dump = &migration->dump, .phase = &phase, .frames = frames};
	frames->phase = &phase;
	frames->may_stop = true;
	enum vg_status status = precopy_run(precopy);
	// A failed write may mean that the receiver has refused, and closed the connection. Look for the refusal.
	if (status == VG_SYSTEM && vg_last_error()->code == ECONNRESET) {
		enum vg_status reason = wait_for_frame(migration, FRAME_READY);
		status = reason ? reason : status;
	}
	frames->phase = NULL;
	frames->packs = &precopy->packs;
	precopy->phase = NULL;
	phase_end(&phase);
	migration->ahead.rounds = precopy->rounds;
	migration->ahead.precopied_bytes = precopy->sent_bytes;
	snprintf(migration->ahead.warning, sizeof migration->ahead.warning, "%s", precopy->warning);
	return status;
}

// Adds the times of the steps before the dump to the result.
static void add_ahead(struct migration *migration)
{
	struct vg_checkpoint_result *result = &migration->result;
	const struct vg_checkpoint_result *ahead = &migration->ahead;

	result->seconds[VG_CHECKPOINT_PRECOPY] += ahead->seconds[VG_CHECKPOINT_PRECOPY];
	result->rounds = ahead->rounds;
	result->precopied_bytes = ahead->precopied_bytes;
	if (*ahead->warning)
		memcpy(result->warning, ahead->warning, sizeof result->warning);
}

static enum vg_status send_image(void *user, struct phase *phase, const struct image_dir *dir)
{
	struct migration *migration = user;
	struct frames *frames = &migration->frames;

	enum vg_status status = phase_begin(phase, VG_CHECKPOINT_SEND);
	if (status)
		return status;
	if (migration->options.precopy)
		status = precopy_end_packs(&migration->precopy, phase);
	frames->phase = phase;
	if (status == VG_OK)
		status = stream_send(frames, dir, true);
	// A failed write may mean that the receiver has refused, and closed the connection. Look for the refusal.
	if (status == VG_SYSTEM && vg_last_error()->code == ECONNRESET) {
		enum vg_status reason = wait_for_frame(migration, FRAME_READY);
		status = reason ? reason : status;
	} else if (status == VG_OK) {
		status = wait_for_frame(migration, FRAME_READY);
	}
	frames->phase = NULL;
	return status;
}

// Restores the processes on this machine, where they have ended. Call it only if the receiver certainly does not run
// them.
static enum vg_status restore_here(struct migration *migration, enum vg_status status)
{
	const struct vg_restore_options options = {.size = sizeof options,
						   .dir = migration->dump.dir,
						   .node = migration->dump.node,
						   .progress = migration->dump.progress,
						   .user = migration->dump.user};
	int code = vg_last_error()->code;
	char reason[512], problem[512];

	snprintf(reason, sizeof reason, "%s", vg_last_error()->text);
	const struct restore_gate anyhow = {.is_late = true};
	if (restore_run(&options, &anyhow, NULL)) {
		snprintf(problem, sizeof problem, "%s", vg_last_error()->text);
		return vg_fail(VG_STATE, code,
			       "%s; and they could not be made here again (%s): they run nowhere, and their image is "
			       "%s: restore it",
			       reason, problem, migration->dump.dir);
	}
	image_remove(migration->dump.dir);
	return vg_fail(status, code, "%s; they run here again, as children of init", reason);
}

static enum vg_status fail_unknown(struct migration *migration)
{
	char reason[512];

	snprintf(reason, sizeof reason, "%s", vg_last_error()->text);
	return vg_fail(VG_STATE, 0,
		       "%s, after the processes had ended here and the other side was told to restore them: look there "
		       "whether "
		       "process %d runs; only if it does not, restore its image here, which is %s",
		       reason, (int)migration->result.pid, migration->dump.dir);
}

// Tells the receiver to restore the processes. They have already ended on this machine.
static enum vg_status hand_over(struct migration *migration)
{
	struct phase phase = {
		.progress = migration->dump.progress, .user = migration->dump.user, .result = &migration->result};
	struct frames *frames = &migration->frames;
	struct frame_running running = {0};

	phase_go_on(&phase, VG_CHECKPOINT_HANDOVER);
	frames->phase = &phase;
	frames->may_stop = false;
	// The receiver ignores an incomplete frame, so after a failure here it restores nothing.
	enum vg_status status = frame_write(frames, FRAME_GO, NULL, 0, NULL, 0);
	bool is_sent = status == VG_OK;
	frames->may_stop = true;
	frames->patience = PATIENCE_NS;
	if (is_sent)
		status = wait_for_frame(migration, FRAME_RUNNING);
	frames->phase = NULL;
	phase_end(&phase);
	if (status == VG_OK && frames->payload_bytes == sizeof running)
		memcpy(&running, frames->payload, sizeof running);
	if (status == VG_OK && running.pid <= 0)
		status = vg_fail(VG_INTEGRITY, 0, "the other side's answer makes no sense");
	if (status == VG_OK) {
		migration->result.pid = running.pid;
		image_remove(migration->dump.dir);
		return VG_OK;
	}
	return !is_sent || migration->refused ? restore_here(migration, status) : fail_unknown(migration);
}

static enum vg_status check_options(const struct migration *migration)
{
	const struct vg_dump_options *dump = &migration->dump;
	struct stat info;

	if (!dump->dir || !*dump->dir)
		return vg_fail(VG_INVALID, 0, "dump->dir is missing: the directory for the image during the migration");
	if (lstat(dump->dir, &info) == 0)
		return vg_fail(VG_EXISTS, 0, "%s exists: name another directory", dump->dir);
	if (dump->leave_running)
		return vg_fail(
			VG_INVALID, 0,
			"processes cannot run on here and there: leave leave_running out, or dump and send them");
	if (migration->options.gpu_count && !migration->options.gpus)
		return vg_fail(VG_INVALID, 0, "gpus is NULL, and gpu_count is %zu", migration->options.gpu_count);
	return VG_OK;
}

enum vg_status vg_checkpoint_migrate(const struct vg_migrate_options *options, struct vg_checkpoint_result *ret_result)
{
	VG_ENTRY();
	struct migration migration = {0};

	CORE_NEEDED(options);
	CORE_OPTIONS(migration.options, options);
	CORE_NEEDED(migration.options.dump);
	CORE_NEEDED(migration.options.to);
	CORE_OPTIONS(migration.dump, migration.options.dump);
	enum vg_status status = check_options(&migration);
	const char *simulate = migration.dump.node ? migration.dump.node->simulate : vg_simulation_wanted();
	if (status)
		return status;
	status = channel_open(migration.options.to, migration.options.gpus, migration.options.gpu_count, simulate,
			      &migration.channel);
	if (status)
		return status;
	migration.frames = (struct frames){.in = migration.channel.fd, .out = migration.channel.fd};
	migration.precopy.base.dir.fd = -1;
	const struct device_packed packed = {precopy_send_last, &migration.precopy};
	const struct dump_gate gate = {.pass = send_image,
				       .user = &migration,
				       .packed = migration.options.precopy ? &packed : NULL,
				       .base = &migration.precopy.base};
	status = check_receiver(&migration);
	if (status)
		goto finish;
	status = copy_ahead(&migration);
	if (status)
		goto finish;
	status = dump_run(&migration.dump, &gate, &migration.result);
	if (status)
		goto finish;
	status = hand_over(&migration);
finish:
	add_ahead(&migration);
	migration.frames.packs = NULL;
	precopy_finish(&migration.precopy);
	channel_close(&migration.channel);
	frames_finish(&migration.frames);
	if (ret_result)
		*ret_result = migration.result;
	return status;
}
