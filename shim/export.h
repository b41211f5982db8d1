// Descriptors of physical memory that this process has exported. Any thread.
#pragma once

// Refunds the memory of those that have been closed and that nothing else keeps.
void shim_exports_settle(void);
