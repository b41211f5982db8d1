#include "daemon/sweep.h"

#include "daemon/work.h"
#include "pager/host_file.h"

#include <stdlib.h>

static void remove_files(struct work *work)
{
	pager_file_sweep(0);
}

static void free_sweep(struct node *node, struct work *work)
{
	free(work);
}

void sweep_files(uid_t owner)
{
	struct work *sweep = malloc(sizeof *sweep);

	if (sweep)
		*sweep = (struct work){.lane = WORK_MEMORY, .run = remove_files, .done = free_sweep};
	if (sweep && work_post(owner, sweep))
		return;
	// Many sweeps wait already, and the last of them will find these files, too. Or there is no memory.
	free(sweep);
}
