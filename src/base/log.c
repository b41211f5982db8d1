#include "base/log.h"

#include "base/mutex.h"
#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1024 };

struct callback {
	vg_log_fn *call;
	void *user;
};

struct waiting {
	struct waiting *next;
	enum vg_log_level level;
	char text[];
};

static struct vg_mutex lock;
static struct callback registered; // the program's callback; protected by `lock`
static _Thread_local unsigned hold_depth;
// The list of this thread's messages that are kept until vg_log_go_on(). `end` points to the pointer where the next
// message will be linked.
static _Thread_local struct waiting *first, **end;

void vg_log_set(vg_log_fn *callback, void *user)
{
	vg_mutex_lock(&lock);
	registered = (struct callback){callback, user};
	vg_mutex_unlock(&lock);
}

static struct callback get_callback(void)
{
	vg_mutex_lock(&lock);
	struct callback callback = registered;
	vg_mutex_unlock(&lock);
	return callback;
}

// Calls the program's callback. The callback may call the library, so the thread's last error is saved and restored.
static void call_back(enum vg_log_level level, const char *text)
{
	struct callback callback = get_callback();
	struct vg_kept_error kept;

	if (!callback.call)
		return;
	vg_error_keep(&kept);
	callback.call(callback.user, level, text);
	vg_error_restore(&kept);
}

static void keep_for_later(enum vg_log_level level, const char *text)
{
	struct waiting *one = malloc(sizeof *one + strlen(text) + 1);

	if (!one) // out of memory: only this message is lost
		return;
	one->next = NULL;
	one->level = level;
	strcpy(one->text, text);
	*(first ? end : &first) = one;
	end = &one->next;
}

void vg_log_hold(void)
{
	hold_depth++;
}

void vg_log_go_on(void)
{
	if (--hold_depth || !first)
		return;
	struct waiting *one = first;
	first = NULL; // clear the list first, because the callback may log messages, which change the list
	for (struct waiting *next; one; one = next) {
		next = one->next;
		call_back(one->level, one->text);
		free(one);
	}
}

void vg_log(enum vg_log_level level, const char *format, ...)
{
	char text[LONGEST];
	va_list arguments;

	if (!get_callback().call)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (hold_depth)
		keep_for_later(level, text);
	else
		call_back(level, text);
}
