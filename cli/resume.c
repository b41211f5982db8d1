// resume: moves the GPU memory of suspended programs back to the GPU.
#include "move.h"

static const struct option options[] = {
	{"pid", 'p', "PID", "resume only this process, which was suspended with --pid", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_resume = {
	.name = "resume",
	.synopsis = "(NAME | --pid PID) [--sim]",
	.summary = "Move the GPU memory of a suspended vGPU back to the GPU",
	.details = "The addresses do not change, and the programs continue. While the GPU has no room,\n"
		   "they wait, and are resumed as soon as there is room.\n"
		   "Exit status: 3 if a process could not be resumed, or waits for room.",
	.options = options,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = resume_memory,
};
