// Waits for signals and for changes of a publication or lease. One thread.
#pragma once
#include "virgate/broker.h"

// Blocks the signals that end a program, so that share_wait_for_change() receives them. Threads that are started later
// inherit the blocked signals.
void share_block_signals(void);
// Unblocks the signals of share_block_signals() in the calling thread, so that each of them ends the program as usual.
void share_unblock_signals(void);
// Reads the state of a publication or lease. Returns the library's status.
typedef enum vg_status (*share_read_state)(void *object, struct vg_publication_view *ret_view);
// Waits for a blocked signal (returns 0), or until the state in *ret_view differs from `known` (returns 1). While the
// daemon is away, keeps waiting. A negative result means a failure: see the library's last error.
int share_wait_for_change(void *object, int descriptor, share_read_state read_state, enum vg_publication_state known,
			  struct vg_publication_view *ret_view);
