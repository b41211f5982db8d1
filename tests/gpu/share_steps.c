// Runs `virgate` with a hook at each step of sharing. At step number VIRGATE_SHARE_STEP, the process prints the step's
// name and gets the signal VIRGATE_SHARE_SIGNAL.
#include "share/step.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void share_step(const char *where)
{
	static int count;
	const char *at = getenv("VIRGATE_SHARE_STEP"), *number = getenv("VIRGATE_SHARE_SIGNAL");

	if (++count != (at ? atoi(at) : 0))
		return;
	fprintf(stderr, "step %d: %s\n", count, where);
	kill(getpid(), number ? atoi(number) : SIGKILL);
}
