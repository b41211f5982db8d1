#include "top/keys.h"

#include "top/model.h"

const struct binding bindings[] = {
	{'h', ACTION_HELP, 0, "h ? F1", "this help", "Help"},
	{'?', ACTION_HELP, 0, NULL, NULL, NULL},
	{KEYS_HELP, ACTION_HELP, 0, NULL, NULL, NULL},
	{KEYS_UP, ACTION_UP, 0, "arrows, PgUp, PgDn", "select a row; Home, End: the first, the last", NULL},
	{KEYS_DOWN, ACTION_DOWN, 0, NULL, NULL, NULL},
	{KEYS_PAGE_UP, ACTION_PAGE_UP, 0, NULL, NULL, NULL},
	{KEYS_PAGE_DOWN, ACTION_PAGE_DOWN, 0, NULL, NULL, NULL},
	{KEYS_HOME, ACTION_FIRST, 0, NULL, NULL, NULL},
	{KEYS_END, ACTION_LAST, 0, NULL, NULL, NULL},
	{'f', ACTION_FOLLOW, 0, "f Enter", "follow the vGPU: its charts alone; again: all", "Follow"},
	{KEYS_ENTER, ACTION_FOLLOW, 0, NULL, NULL, NULL},
	{'w', ACTION_WAITS, 0, "w", "which vGPU waits for which", "Waits"},
	{'/', ACTION_FILTER, 0, "/", "filter by name, owner, program, pid or container", "Filter"},
	{'t', ACTION_VIEW, 0, "t", "tree, vGPUs alone, programs alone", "Tree"},
	{'M', ACTION_SORT, SORT_MEMORY, "M P", "sort by memory, by physical memory", NULL},
	{'P', ACTION_SORT, SORT_PHYSICAL, NULL, NULL, NULL},
	{'G', ACTION_SORT, SORT_TIME, "G W R", "sort by GPU time, by waiting, by refusals", NULL},
	{'W', ACTION_SORT, SORT_WAIT, NULL, NULL, NULL},
	{'R', ACTION_SORT, SORT_REFUSALS, NULL, NULL, NULL},
	{'N', ACTION_SORT, SORT_NAME, "N O", "sort by name, by owner", NULL},
	{'O', ACTION_SORT, SORT_OWNER, NULL, NULL, NULL},
	{'>', ACTION_SORT_NEXT, 0, "< > I", "sort by the next column; reverse the order", "Sort"},
	{'<', ACTION_SORT_PREVIOUS, 0, NULL, NULL, NULL},
	{'I', ACTION_REVERSE, 0, NULL, NULL, NULL},
	{'m', ACTION_LIMIT, 0, "m", "set the vGPU's memory limit", "Limit"},
	{'+', ACTION_SHARE_MORE, 0, "+ -", "raise or lower the vGPU's share by 5 percent", "Share"},
	{'-', ACTION_SHARE_LESS, 0, NULL, NULL, NULL},
	{'s', ACTION_SHARE, 0, "s", "set the vGPU's share; none: no share", NULL},
	{'z', ACTION_SUSPEND, 0, "z", "suspend the vGPU or the program, or resume it", "Suspend"},
	{'k', ACTION_KILL, 0, "k", "send a signal to the programs, after a question", "Kill"},
	{KEYS_ESCAPE, ACTION_BACK, 0, "Esc", "back: without filter, all vGPUs", NULL},
	{'q', ACTION_QUIT, 0, "q F10", "quit", "Quit"},
	{KEYS_QUIT, ACTION_QUIT, 0, NULL, NULL, NULL},
};
const size_t binding_count = sizeof bindings / sizeof *bindings;

const struct binding *binding_find(uint32_t key)
{
	for (size_t i = 0; i < binding_count; i++)
		if (bindings[i].key == key)
			return &bindings[i];
	return NULL;
}
