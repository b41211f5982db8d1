// Defines points at which a test kills a process. The test compiles the sources of this directory with -DSHARE_STEPS.
#pragma once

#ifdef SHARE_STEPS
void share_step(const char *where);
#define SHARE_STEP(where) share_step(where)
#else
#define SHARE_STEP(where) ((void)0)
#endif
