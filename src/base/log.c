#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vg_log_fn *log_callback;
static void *log_user;

void vg_log_set(vg_log_fn *callback, void *user)
{
	pthread_mutex_lock(&lock);
	log_callback = callback;
	log_user = user;
	pthread_mutex_unlock(&lock);
}

void vg_log(enum vg_log_level level, const char *format, ...)
{
	pthread_mutex_lock(&lock);
	vg_log_fn *callback = log_callback;
	void *user = log_user;
	pthread_mutex_unlock(&lock);
	if (!callback)
		return;

	char text[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	callback(user, level, text);
}
