// Helpers for the scheduler's tests: a scheduler with the tests' kernels, work of known length, and a log of the order
// in which kernels ran.
#pragma once
#include "core/code_test.h"

#include <pthread.h>
#include <time.h>

struct rig {
	struct vg_context *context;
	struct vg_compute *compute;
	vg_address log; // 16 KiB
};

static inline struct rig open_rig(const struct vg_compute_options *options)
{
	struct vg_object_code *code = built_code(VG_CODE_PTX, "compute-kernels.ptx");
	struct rig rig = {.context = first_context()};

	OK(vg_compute_create(vg_context_device(rig.context), options, &rig.compute));
	OK(vg_compute_register(rig.compute, code));
	vg_object_code_destroy(code);
	rig.log = words(rig.context, 16384);
	return rig;
}

static inline void close_rig(struct rig *rig)
{
	vg_compute_destroy(rig->compute);
	free_words(rig->context, rig->log);
	vg_context_destroy(rig->context);
}

static inline struct vg_compute_unit *unit_of(struct rig *rig, const char *name, double share)
{
	struct vg_compute_unit_options options = {.size = sizeof options, .name = name, .share = share};
	struct vg_compute_unit *unit;

	OK(vg_compute_unit_create(rig->compute, &options, &unit));
	return unit;
}

static inline enum vg_status try_launch(struct vg_compute_unit *unit, const char *kernel, unsigned stream,
					unsigned repeat, const struct vg_argument *arguments, size_t count,
					struct vg_execution **ret_execution)
{
	struct vg_work work = {.size = sizeof work,
			       .kernel = kernel,
			       .config = {.grid = {1}, .block = {32}},
			       .arguments = arguments,
			       .argument_count = count,
			       .stream = stream,
			       .repeat = repeat};

	return vg_compute_unit_execute(unit, &work, ret_execution);
}

// Launches a kernel that runs `rounds` rounds, `repeat` times. 10000 rounds take some hundred microseconds on the
// simulated device.
static inline struct vg_execution *spin(struct vg_compute_unit *unit, unsigned stream, unsigned rounds, unsigned repeat)
{
	struct vg_execution *execution;
	vg_address nowhere = 0;

	OK(try_launch(unit, "spin", stream, repeat, (struct vg_argument[]){VG_ARGUMENT(rounds), VG_ARGUMENT(nowhere)},
		      2, &execution));
	return execution;
}

static inline struct vg_execution *note(struct rig *rig, struct vg_compute_unit *unit, unsigned stream, unsigned id,
					int priority)
{
	struct vg_execution *execution;
	struct vg_work work = {.size = sizeof work,
			       .kernel = "note",
			       .config = {.grid = {1}, .block = {1}},
			       .arguments = (struct vg_argument[]){VG_ARGUMENT(id), VG_ARGUMENT(rig->log)},
			       .argument_count = 2,
			       .stream = stream,
			       .priority = priority};

	OK(vg_compute_unit_execute(unit, &work, &execution));
	return execution;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline struct vg_compute_unit_info info_of(struct vg_compute_unit *unit)
{
	struct vg_compute_unit_info info;

	OK(vg_compute_unit_info(unit, &info));
	return info;
}

// Reads the log and clears it.
static inline unsigned read_log(struct rig *rig, unsigned *ret_ids, unsigned room)
{
	static unsigned words_[4096];

	read_words(rig->context, words_, rig->log, sizeof words_);
	CHECK(words_[0] <= room);
	memcpy(ret_ids, words_ + 1, words_[0] * sizeof *ret_ids);
	return words_[0];
}
