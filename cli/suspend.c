// suspend: moves the GPU memory of the programs of an evictable vGPU to the host.
#include <stddef.h>

#include "move.h"

static const struct option options[] = {
	{"pid", 'p', "PID", "suspend only this process", 0},
	{"deep", 0, NULL, "let the driver take the programs off the GPU then, with contexts and modules", 0},
	{"drain", 0, "SECONDS", "how long to wait for threads in the driver and for the GPU; default: 10", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_suspend = {
	.name = "suspend",
	.synopsis = "(NAME | --pid PID) [--deep] [--drain SECONDS] [--sim]",
	.summary = "Move the GPU memory of an evictable vGPU to the host",
	.details = "Its programs wait at their next call that uses the GPU, until virgate resume.\n"
		   "Programs that start in the vGPU meanwhile wait too. The memory stays charged.\n"
		   "With --deep the GPU memory of their contexts and modules is released, too; this also\n"
		   "works for a vGPU that is not evictable, whose memory the driver then moves.\n"
		   "Exit status: 3 if a process could not be suspended; the others stay suspended.",
	.options = options,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = suspend_memory,
};
