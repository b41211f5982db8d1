// Kills the daemon at a step, as kill -9 does. The environment variable BROKER_STEP has the number of the step. Only a
// build for tests contains this file's code.
#include "daemon/broker/step.h"

#include "daemon/say.h"

#include <signal.h>
#include <stdlib.h>

void broker_step(const char *where)
{
	static int left = -2; // steps until the daemon is killed; -1: the daemon is never killed

	if (left == -2) {
		const char *text = getenv("BROKER_STEP");
		left = text ? atoi(text) : -1;
	}
	if (left >= 0 && left-- == 0) {
		say("killed: %s", where);
		raise(SIGKILL);
	}
}
