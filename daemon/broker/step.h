// Marks the steps at which a test can kill the daemon: only in a build with -DBROKER_STEPS. Main thread only.
#pragma once

#ifdef BROKER_STEPS
void broker_step(const char *where);
#define BROKER_STEP(where) broker_step(where)
#else
#define BROKER_STEP(where) ((void)0)
#endif
