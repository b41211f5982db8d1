// Declares the result of unsupported functions. Any thread.
#pragma once

// Stores cudaErrorNotSupported as the thread's last error, and returns it.
int rt_not_supported(void);
