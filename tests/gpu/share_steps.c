// `virgate` with the steps of sharing built in: VIRGATE_SHARE_STEP=N sends the process VIRGATE_SHARE_SIGNAL at its Nth
// step, and says which one that is.
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
