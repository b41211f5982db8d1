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
#include "base/hint.h"
#include "base/printable.h"
#include "base/size.h"
#include "shim/log.h"

// Writes without raising SIGPIPE. If the reader of standard error has ended, a program that does not write to it must
// not die by our message.
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

static int read_level(void)
{
	static _Atomic int wanted; // the log level; 0: VIRGATE_LOG is not read yet
	static const char *const names[] = {"quiet", "error", "warning", "info", "debug"};
	int level = atomic_load_explicit(&wanted, memory_order_relaxed);

	if (level)
		return level;
	const char *name = secure_getenv("VIRGATE_LOG");
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

	if ((int)level > read_level())
		return;
	va_start(arguments, format);
	int written = vsnprintf(line + length, sizeof line - length - 1, format, arguments);
	va_end(arguments);
	if (written < 0)
		return;
	vg_make_printable(line + length); // the line may contain a name that another user chose
	written = (int)strlen(line + length);
	length += (size_t)written < sizeof line - length - 1 ? (size_t)written : sizeof line - length - 2;
	line[length++] = '\n';
	write_quietly(line, length);
}

struct unit {
	uint64_t bytes;
	const char *text;
};

// Returns the largest unit in which `bytes` is at least 1.0, and `least` is at least 0.1. So neither figure prints as
// 0.0.
static struct unit choose_unit(uint64_t bytes, uint64_t least)
{
	static const struct unit units[] = {
		{1ull << 40, "TiB"}, {1ull << 30, "GiB"}, {1ull << 20, "MiB"}, {1ull << 10, "KiB"}};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (bytes >= units[i].bytes && units[i].bytes / 10 <= least)
			return units[i];
	return (struct unit){1, "B"};
}

// Formats a size with one decimal ("7.1"), rounded to nearest, in any locale.
static const char *format_in_unit(uint64_t bytes, struct unit unit, char text[32])
{
	unsigned __int128 tenths = ((unsigned __int128)bytes * 10 + unit.bytes / 2) / unit.bytes;

	if (unit.bytes == 1)
		snprintf(text, 32, "%llu", (unsigned long long)bytes);
	else
		snprintf(text, 32, "%llu.%u", (unsigned long long)(tenths / 10), (unsigned int)(tenths % 10));
	return text;
}

enum { ADVICE = 512 };

// Writes a limit to suggest for `virgate set`: one and a half times the limit, or what this request needs if that is
// more. The value is rounded up, but is at most `ceiling`, the largest limit that the daemon could give the vGPU.
// Returns false if `ceiling` is not enough.
static bool suggest_limit(const struct vg_ledger_refusal *refusal, uint64_t ceiling, char text[32])
{
	const uint64_t gib = 1ull << 30, mib = 1ull << 20, step = refusal->limit >= 2 * gib ? gib : mib;
	uint64_t needed = refusal->charged + refusal->asked, wanted = refusal->limit + refusal->limit / 2;

	if (needed > wanted)
		wanted = needed;
	wanted = wanted < ceiling ? (wanted + step - 1) / step * step : ceiling;
	if (wanted > ceiling)
		wanted = ceiling;
	wanted = wanted / mib * mib;
	if (needed < refusal->asked || wanted < needed || wanted <= refusal->limit)
		return false;
	if (wanted % gib == 0)
		snprintf(text, 32, "%lluG", (unsigned long long)(wanted / gib));
	else
		snprintf(text, 32, "%lluM", (unsigned long long)(wanted / mib));
	return true;
}

static void write_advice(const struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal, char text[ADVICE])
{
	char sim[VG_HINT_SIM], limit[32], size[VG_SIZE_TEXT];
	uint64_t ceiling = vg_ledger_ceiling(ledger);
	const char *vgpu = vg_ledger_name(ledger);

	vg_hint_sim(secure_getenv("VIRGATE_SIM"), sim);
	bool helps = suggest_limit(refusal, ceiling ? ceiling : INT64_MAX, limit);
	if (!helps && ceiling)
		snprintf(text, ADVICE, "a larger limit does not help: the GPU has room for a limit of %s at most",
			 vg_size_format(ceiling, size));
	else if (!helps)
		snprintf(text, ADVICE, "no limit is large enough for that");
	else if (vg_ledger_flags(ledger) & VG_LEDGER_EPHEMERAL)
		snprintf(text, ADVICE,
			 "give it more with `virgate run%s --memory %s`, or while it runs `virgate set%s %s --memory "
			 "%s`",
			 sim, limit, sim, vgpu, limit);
	else
		snprintf(text, ADVICE, "raise with `virgate set%s %s --memory %s`", sim, vgpu, limit);
}

void shim_log_refusal(const struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal)
{
	static _Atomic uint64_t last_ns, left_out;
	uint64_t now = vg_clock_monotonic_ns(), last = atomic_load(&last_ns), asked = refusal->asked;
	char line[1024], asked_text[32], charged_text[32], limit_text[32], overhead_text[32], omitted[48] = "";
	char advice[ADVICE];
	// The unit must be small enough that the requested size and the overhead do not print as 0.0.
	uint64_t least = refusal->overhead && refusal->overhead < asked ? refusal->overhead : asked;
	struct unit asked_unit = choose_unit(asked, asked), unit = choose_unit(refusal->limit, least);

	if ((last && now - last < 1000000000ull) || !atomic_compare_exchange_strong(&last_ns, &last, now)) {
		atomic_fetch_add(&left_out, 1);
		return;
	}
	uint64_t omitted_count = atomic_exchange(&left_out, 0);
	if (omitted_count)
		snprintf(omitted, sizeof omitted, " (and %llu refusal%s before)", (unsigned long long)omitted_count,
			 omitted_count == 1 ? "" : "s");
	if (!refusal->limit) { // the daemon removed the vGPU
		shim_log(SHIM_ERROR,
			 "vGPU %s was removed: it grants no memory any more; run the program in another one%s",
			 vg_ledger_name(ledger), omitted);
		return;
	}
	write_advice(ledger, refusal, advice);
	int length = snprintf(line, sizeof line, "vGPU %s: asked %s %s, %s of %s %s used (%s overhead); %s%s\n",
			      vg_ledger_name(ledger), format_in_unit(asked, asked_unit, asked_text), asked_unit.text,
			      format_in_unit(refusal->charged, unit, charged_text),
			      format_in_unit(refusal->limit, unit, limit_text), unit.text,
			      format_in_unit(refusal->overhead, unit, overhead_text), advice, omitted);
	if (length > 0)
		write_quietly(line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}
