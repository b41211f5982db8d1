// Defines every driver function weakly. A strong definition elsewhere in the simulator overrides it. The functions here
// read no argument and return a 32-bit status, so all of them can have one type. For that reason, this file does not
// include cuda.h.
#include "fallback.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Appends a row to the file that the environment variable VIRGATE_SIM_UNIMPLEMENTED names. All processes write to this
// file. Returns CUDA_ERROR_NOT_SUPPORTED.
static int refuse_call(const char *entry)
{
	const char *path = getenv("VIRGATE_SIM_UNIMPLEMENTED");
	char row[160];

	if (!path || !*path)
		return 801; // CUDA_ERROR_NOT_SUPPORTED
	int length = snprintf(row, sizeof row, "%s called by %s\n", entry, program_invocation_short_name);
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (file >= 0) {
		(void)!write(file, row, length < (int)sizeof row ? (size_t)length : sizeof row - 1);
		close(file);
	}
	return 801;
}

#define ENTRY(abi, api, version, stream, family, need) \
	int sim_stub_##abi(void)                       \
	{                                              \
		return refuse_call(#abi);              \
	}                                              \
	int abi(void);                                 \
	__attribute__((weak, alias("sim_stub_" #abi), visibility("default"))) int abi(void);
#include "abi/entries.def"
