// What stands in for entries that the simulator lacks. Any thread.
#pragma once

int sim_not_supported(void);
