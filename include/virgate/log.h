/* Log messages of the library. It prints nothing: a program that wants the messages registers a callback. */
#ifndef VIRGATE_LOG_H
#define VIRGATE_LOG_H

#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_log_level { VG_LOG_ERROR, VG_LOG_WARNING, VG_LOG_INFO, VG_LOG_DEBUG };

typedef void vg_log_fn(void *user, enum vg_log_level level, const char *text);

/* Replaces the process's callback; NULL turns logging off (the default). Any thread may call the callback. It holds no
 * lock of the library then, so the callback may use the library. The last error of the call that logs does not change.
 * Any thread. */
VG_PUBLIC void vg_log_set(vg_log_fn *callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
