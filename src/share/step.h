// The steps of sharing, where a test that kills processes stops them: this room's sources are built with -DSHARE_STEPS
// for it.
#pragma once

#ifdef SHARE_STEPS
void share_step(const char *where);
#define SHARE_STEP(where) share_step(where)
#else
#define SHARE_STEP(where) ((void)0)
#endif
