// resume: moves the device memory of suspended programs back to the GPU.
#include "move.h"

static int run(const struct arguments *arguments)
{
	return move_memory(arguments, false);
}

static const struct option options[] = {
	{"pid", 'p', "PID", "resume this process, which was suspended alone", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_resume = {
	.name = "resume",
	.synopsis = "(NAME | --pid PID) [--sim]",
	.summary = "Move the GPU memory of a suspended vGPU back to the GPU",
	.details = "It comes to the addresses that it had, and the programs continue. While the GPU has no room they\n"
		   "wait, and return by themselves when there is.\n"
		   "Exit status: 3 if a process is not back yet, or could not be resumed.",
	.options = options,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run,
};
