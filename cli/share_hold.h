// Holding a publication or a lease until somebody says it is over. One thread.
#pragma once
#include "virgate/broker.h"

// From here on signals that end a program are for share_hold() to see.
void share_hold_begin(void);
// They end it again, until the next begin; not by way of threads that were started meanwhile.
void share_hold_pause(void);
// How what is held stands now; the library's status.
typedef enum vg_status (*share_look)(void *held, struct vg_publication_view *ret_view);
// Until one of the signals comes (0), or `look` says something else than `known`, in *ret_view (1). That the daemon is
// away is nothing new. Negative: the library's last error.
int share_hold(void *held, int descriptor, share_look look, enum vg_publication_state known,
	       struct vg_publication_view *ret_view);
