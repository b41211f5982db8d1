// Implements the driver's log of errors for cuLogsDump* and for callbacks. It keeps the latest hundred messages of up
// to 255 bytes. A message says more about an error than its CUresult.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "entry.h"
#include "fault.h"
#include "log.h"

enum { MESSAGES = 100, MESSAGE_BYTES = 256, OUTPUT_BYTES = MESSAGES * MESSAGE_BYTES + 64 };

struct CUlogsCallbackEntry_st {
	CUlogsCallback function;
	void *data;
	struct CUlogsCallbackEntry_st *next;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; // recursive, because a callback may read the log
static char messages[MESSAGES][MESSAGE_BYTES];
static unsigned written; // number of messages written so far; message n is at index n % MESSAGES
static struct CUlogsCallbackEntry_st *callbacks;

void sim_log(const char *format, ...)
{
	char text[MESSAGE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	pthread_mutex_lock(&lock);
	memcpy(messages[written++ % MESSAGES], text, sizeof text);
	for (struct CUlogsCallbackEntry_st *entry = callbacks; entry; entry = entry->next)
		entry->function(entry->data, CU_LOG_LEVEL_ERROR, text, strlen(text));
	pthread_mutex_unlock(&lock);
}

// Checks a call on the log. Such a call works before cuInit and in a locked process, but injected faults apply.
static CUresult enter_log(enum vg_entry entry)
{
	return atomic_load(&sim_gate) & SIM_GATE_FAULTS ? sim_fault_enter(entry) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out)
{
	SIM_TRY(enter_log(VG_ENTRY_cuLogsRegisterCallback));
	if (!callbackFunc)
		return CUDA_ERROR_INVALID_VALUE;
	struct CUlogsCallbackEntry_st *entry = malloc(sizeof *entry);
	if (!entry)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	*entry = (struct CUlogsCallbackEntry_st){callbackFunc, userData, callbacks};
	callbacks = entry;
	pthread_mutex_unlock(&lock);
	if (callback_out)
		*callback_out = entry;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	struct CUlogsCallbackEntry_st *gone = NULL;

	SIM_TRY(enter_log(VG_ENTRY_cuLogsUnregisterCallback));
	pthread_mutex_lock(&lock);
	for (struct CUlogsCallbackEntry_st **link = &callbacks; *link && !gone; link = &(*link)->next)
		if (*link == callback) {
			gone = callback;
			*link = gone->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	if (!gone)
		return CUDA_ERROR_INVALID_VALUE;
	free(gone);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
	SIM_TRY(enter_log(VG_ENTRY_cuLogsCurrent));
	if (!iterator_out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*iterator_out = written;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static const char lost[] = "(older messages are not here)\n";

// Writes messages from number `first` on, one on each line. If not all fit into `capacity`, writes only the latest.
static size_t write_messages(unsigned first, bool truncated, char *to, size_t capacity)
{
	size_t all = 0, at = 0;

	for (unsigned n = first; n != written; n++)
		all += strlen(messages[n % MESSAGES]) + 1;
	truncated |= all + (truncated ? strlen(lost) : 0) >= capacity;
	for (; first != written && all + (truncated ? strlen(lost) : 0) >= capacity; first++)
		all -= strlen(messages[first % MESSAGES]) + 1;
	if (first == written)
		return 0;
	if (truncated)
		at = (size_t)sprintf(to, "%s", lost);
	for (; first != written; first++)
		at += (size_t)sprintf(to + at, "%s\n", messages[first % MESSAGES]);
	return at;
}

// Finds the number of the first message to return. `iterator` has that number; NULL: the oldest message. Returns false
// if the number is invalid.
static bool find_first(const CUlogIterator *iterator, unsigned *ret_first, bool *ret_truncated)
{
	unsigned oldest = written > MESSAGES ? written - MESSAGES : 0;
	unsigned first = iterator ? *iterator : 0;

	if (first > written)
		return false;
	*ret_truncated = first < oldest;
	*ret_first = first < oldest ? oldest : first;
	return true;
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;
	bool truncated;
	unsigned first;

	SIM_TRY(enter_log(VG_ENTRY_cuLogsDumpToMemory));
	if (!buffer || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	if (!find_first(iterator, &first, &truncated)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		size_t used = first == written ? 0 : write_messages(first, truncated, buffer, *size);
		if (used == 0 && *size > 0)
			buffer[0] = 0;
		if (used == 0 && first != written)
			result = CUDA_ERROR_INVALID_VALUE; // the buffer has no room for even one message
		else if (iterator)
			*iterator = written;
		*size = used;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	char *text = malloc(OUTPUT_BYTES);
	bool truncated;
	unsigned first;

	SIM_TRY(enter_log(VG_ENTRY_cuLogsDumpToFile));
	pthread_mutex_lock(&lock);
	if (text && pathToFile && find_first(iterator, &first, &truncated)) {
		size_t used = write_messages(first, truncated, text, OUTPUT_BYTES);
		int file = open(pathToFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (file >= 0 && write(file, text, used) == (ssize_t)used)
			result = CUDA_SUCCESS;
		if (file >= 0)
			close(file);
		if (result == CUDA_SUCCESS && iterator)
			*iterator = written;
	}
	pthread_mutex_unlock(&lock);
	free(text);
	return result;
}
