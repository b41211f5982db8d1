#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shim/log.h"

// A reader of stderr that went away must not end a program that never wrote to it.
static void write_quietly(const char *line, size_t length)
{
	sigset_t pipe_signal, before, pending;
	int saved = errno;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
	if (write(STDERR_FILENO, line, length) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE)) {
		const struct timespec now = {0};
		sigtimedwait(&pipe_signal, NULL, &now);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
}

static int level_wanted(void)
{
	static _Atomic int wanted; // 0: not looked up yet
	static const char *const names[] = {"quiet", "error", "warning", "info", "debug"};
	int level = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (level)
		return level;
	const char *name = getenv("VIRGATE_LOG");
	level = SHIM_ERROR;
	for (int i = SHIM_WARNING; name && i <= SHIM_DEBUG; i++)
		if (strcmp(name, names[i]) == 0)
			level = i;
	atomic_store_explicit(&wanted, level, memory_order_relaxed);
	return level;
}

void shim_log(enum shim_log_level level, const char *format, ...)
{
	char line[1024] = "virgate: ";
	size_t length = strlen(line);
	va_list arguments;

	if ((int)level > level_wanted())
		return;
	va_start(arguments, format);
	int written = vsnprintf(line + length, sizeof line - length - 1, format, arguments);
	va_end(arguments);
	if (written < 0)
		return;
	length += (size_t)written < sizeof line - length - 1 ? (size_t)written : sizeof line - length - 2;
	line[length++] = '\n';
	write_quietly(line, length);
}

struct unit {
	uint64_t bytes;
	const char *text;
};

// The unit of `bytes`, or a smaller one as long as a tenth of it is more than `least`.
static struct unit unit_of(uint64_t bytes, uint64_t least)
{
	static const struct unit units[] = {
		{1ull << 40, "TiB"}, {1ull << 30, "GiB"}, {1ull << 20, "MiB"}, {1ull << 10, "KiB"}};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (bytes >= units[i].bytes && units[i].bytes / 10 <= least)
			return units[i];
	return (struct unit){1, "B"};
}

// "7.1": one decimal, rounded to nearest, whatever the locale.
static const char *in_unit(uint64_t bytes, struct unit unit, char text[32])
{
	unsigned __int128 tenths = ((unsigned __int128)bytes * 10 + unit.bytes / 2) / unit.bytes;

	if (unit.bytes == 1)
		snprintf(text, 32, "%llu", (unsigned long long)bytes);
	else
		snprintf(text, 32, "%llu.%u", (unsigned long long)(tenths / 10), (unsigned int)(tenths % 10));
	return text;
}

enum { ADVICE = 256 };

// Half as much again, or what this request needs, in whole units that `virgate set` takes.
static void suggestion(uint64_t asked, uint64_t charged, uint64_t limit, char text[32])
{
	uint64_t wanted = limit + limit / 2;
	uint64_t step = limit >= 2ull << 30 ? 1ull << 30 : 1ull << 20;

	if (asked < 1ull << 60 && charged + asked > wanted)
		wanted = charged + asked;
	snprintf(text, 32, "%llu%c", (unsigned long long)((wanted + step - 1) / step), step == 1ull << 30 ? 'G' : 'M');
}

static void advice(const char *vgpu, bool ephemeral, const char *memory, char text[ADVICE])
{
	if (ephemeral)
		snprintf(text, ADVICE,
			 "give it more with `virgate run --memory %s`, or while it runs `virgate set %s --memory %s`",
			 memory, vgpu, memory);
	else
		snprintf(text, ADVICE, "raise with `virgate set %s --memory %s`", vgpu, memory);
}

void shim_log_refusal(const char *vgpu, bool ephemeral, const struct vg_ledger_refusal *refusal)
{
	static _Atomic uint64_t last_ns, left_out;
	uint64_t now = vg_clock_monotonic_ns(), last = atomic_load(&last_ns), asked = refusal->asked;
	char line[768], asked_text[32], charged_text[32], limit_text[32], overhead_text[32], more_text[32],
		omitted[48] = "";
	char advice_text[ADVICE];
	// What was asked must show in the figures that it is compared with.
	uint64_t least = refusal->overhead && refusal->overhead < asked ? refusal->overhead : asked;
	struct unit asked_unit = unit_of(asked, asked), unit = unit_of(refusal->limit, least);

	if ((last && now - last < 1000000000ull) || !atomic_compare_exchange_strong(&last_ns, &last, now)) {
		atomic_fetch_add(&left_out, 1);
		return;
	}
	uint64_t omitted_count = atomic_exchange(&left_out, 0);
	if (omitted_count)
		snprintf(omitted, sizeof omitted, " (and %llu refusals before)", (unsigned long long)omitted_count);
	suggestion(asked, refusal->charged, refusal->limit, more_text);
	advice(vgpu, ephemeral, more_text, advice_text);
	int length = snprintf(line, sizeof line, "vGPU %s: asked %s %s, %s of %s %s used (%s overhead); %s%s\n", vgpu,
			      in_unit(asked, asked_unit, asked_text), asked_unit.text,
			      in_unit(refusal->charged, unit, charged_text), in_unit(refusal->limit, unit, limit_text),
			      unit.text, in_unit(refusal->overhead, unit, overhead_text), advice_text, omitted);
	if (length > 0)
		write_quietly(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}
