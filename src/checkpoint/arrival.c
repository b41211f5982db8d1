// Receives the processes of a migration and restores them, or restores an image that arrives as a stream.
#include "base/status.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/restore.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

struct arrival {
	struct vg_restore_options options;
	bool keep;
	struct frames frames;
	struct stream_header header;
	struct image_draft store; // temporary directory with the packs that arrive before the image
	struct packs packs;
	struct prefill prefill;
	bool stands;				    // true: the complete image is in the directory options.dir
	struct image_dir image;			    // open directory of the image
	struct vg_checkpoint_result coming, result; // `coming`: result of receiving; `result`: of the whole operation
};

static enum vg_status check_descriptors(const struct arrival *arrival)
{
	for (int i = 0; i < 2; i++) {
		int fd = i ? arrival->frames.out : arrival->frames.in;
		if (fd < 0 ? i == 0 : fcntl(fd, F_GETFD) < 0)
			return vg_fail(VG_INVALID, EBADF, "%d is no open descriptor", fd);
	}
	return VG_OK;
}

static enum vg_status receive_header(struct arrival *arrival)
{
	enum vg_status status = stream_accept(&arrival->frames, &arrival->header);

	if (status)
		return status;
	if (arrival->header.answers && arrival->frames.out < 0)
		return vg_fail(VG_PROTOCOL, 0,
			       "what comes in waits for answers, and there is no way for them (--answer)");
	if (!arrival->header.answers)
		arrival->frames.out = -1; // the sender does not read answers
	return arrival->header.answers ? frame_write(&arrival->frames, FRAME_READY, NULL, 0, NULL, 0) : VG_OK;
}

// Receives the packs into a draft: a directory that keeps the packs until the image has hard links to them.
static enum vg_status take_packs(struct arrival *arrival)
{
	char path[PATH_MAX];

	if (!arrival->header.has_packs)
		return VG_OK;
	if (snprintf(path, sizeof path, "%s" IMAGE_PRECOPY, arrival->options.dir) >= (int)sizeof path)
		return vg_fail(VG_INVALID, 0, "%.60s… is too long a path", arrival->options.dir);
	enum vg_status status = image_begin(path, &arrival->store);
	arrival->prefill = (struct prefill){.packs = &arrival->packs};
	arrival->packs.store = &arrival->store;
	arrival->packs.round = prefill_round;
	arrival->packs.user = &arrival->prefill;
	arrival->frames.packs = &arrival->packs;
	return status ? status : stream_receive_packs(&arrival->frames, &arrival->packs);
}

static enum vg_status take_in(struct arrival *arrival)
{
	struct phase phase = {
		.progress = arrival->options.progress, .user = arrival->options.user, .result = &arrival->coming};
	struct image_draft draft = {0};
	json_t *description = NULL;

	arrival->frames.phase = &phase;
	arrival->frames.may_stop = true;
	enum vg_status status = phase_begin(&phase, VG_CHECKPOINT_RECEIVE);
	if (status)
		goto finish;
	status = image_begin(arrival->options.dir, &draft);
	if (status)
		goto finish;
	status = receive_header(arrival);
	if (status)
		goto finish;
	status = take_packs(arrival);
	if (status)
		goto finish;
	status = stream_receive(&arrival->frames, &draft, &description);
	if (status)
		goto finish;
	if (!arrival->header.answers)
		status = frames_read_end(&arrival->frames);
	if (status)
		goto finish;
	status = image_publish(&draft, description, arrival->keep);
	if (status)
		goto finish;
	arrival->stands = true;
	const struct image_dir dir = image_draft_dir(&draft);
	status = image_open_again(&dir, &arrival->image);
finish:
	arrival->image.path = arrival->options.dir;
	arrival->frames.phase = NULL;
	phase_end(&phase);
	arrival->frames.packs = NULL;
	packs_finish(&arrival->packs);
	image_finish(&arrival->store);
	image_finish(&draft);
	json_decref(description);
	return status;
}

// Reports to the sender that the image is complete and fits this machine. Then waits until the sender reports that the
// processes have ended there.
static enum vg_status wait_for_go(void *user, struct phase *phase)
{
	struct arrival *arrival = user;
	enum frame_type type = FRAME_END;

	if (!arrival->header.answers)
		return VG_OK;
	arrival->frames.phase = phase;
	enum vg_status status = phase_begin(phase, VG_CHECKPOINT_HANDOVER);
	if (status)
		goto finish;
	status = frame_write(&arrival->frames, FRAME_READY, NULL, 0, NULL, 0);
	if (status)
		goto finish;
	status = frame_read(&arrival->frames, &type);
finish:
	arrival->frames.phase = NULL;
	if (status == VG_OK && type != FRAME_GO)
		status = vg_fail(VG_INTEGRITY, 0, "the other side says %d, and not that the processes ended", type);
	return status;
}

// Tells the sender the outcome if the connection is still open. Ignores a failure to send.
static void send_outcome(struct arrival *arrival, enum vg_status status)
{
	const struct frame_running running = {.pid = (int32_t)arrival->result.pid,
					      .processes = (uint32_t)arrival->result.processes,
					      .cuda_processes = (uint32_t)arrival->result.cuda_processes};
	struct vg_error before = *vg_last_error();
	uint32_t word = (uint32_t)status;
	char text[512];

	if (arrival->frames.out < 0)
		return;
	arrival->frames.may_stop = false;
	if (status == VG_OK) {
		(void)frame_write(&arrival->frames, FRAME_RUNNING, &running, sizeof running, NULL, 0);
		return;
	}
	snprintf(text, sizeof text, "%s", before.text);
	(void)frame_write(&arrival->frames, FRAME_REFUSED, &word, sizeof word, text, strlen(text));
	(void)vg_fail(status, before.code, "%s", text);
	vg_fail_amounts(before.need, before.have);
}

enum vg_status vg_checkpoint_restore_from(int in, int out, const struct vg_restore_options *options, int keep,
					  struct vg_checkpoint_result *ret_result)
{
	VG_ENTRY();
	struct arrival arrival = {
		.keep = keep != 0,
		.image = {.fd = -1},
		.frames = {.in = in, .out = out},
	};

	CORE_NEEDED(options);
	CORE_OPTIONS(arrival.options, options);
	CORE_NEEDED(arrival.options.dir);
	enum vg_status status = check_descriptors(&arrival);
	if (status)
		return status;
	status = take_in(&arrival);
	const struct restore_gate gate = {.pass = wait_for_go,
					  .user = &arrival,
					  .image = &arrival.image,
					  .prefill = &arrival.prefill,
					  .is_late = arrival.header.answers && arrival.header.same_processes};
	if (status == VG_OK)
		status = restore_run(&arrival.options, &gate, &arrival.result);
	for (int i = 0; i < VG_CHECKPOINT_PHASES; i++)
		arrival.result.seconds[i] += arrival.coming.seconds[i];
	send_outcome(&arrival, status);
	// Remove the image unless the caller keeps it. After a failure, also remove it if the sender waits for answers,
	// because then the sender keeps or restores the processes.
	if (arrival.stands && (!arrival.keep || (status && arrival.header.answers)))
		image_remove(arrival.options.dir);
	prefill_finish(&arrival.prefill);
	image_close(&arrival.image);
	frames_finish(&arrival.frames);
	if (ret_result)
		*ret_result = arrival.result;
	return status;
}
