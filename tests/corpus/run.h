// Runs a case in the current context, the primary context of a device. One thread.
#pragma once

#include <cuda.h>

#include "corpus.h"

struct corpus_directories {
	const char *ptx;
	const char *keep; // the directory into which complete outputs are written; NULL: they are not written
};

// Runs the case. Returns 0, or 1 with the reason in corpus_problem(). After a failure, a new context has replaced the
// current one.
int corpus_run(const struct corpus_case *one, const struct corpus_directories *where, CUdevice device,
	       struct corpus_result *ret_result);
const char *corpus_problem(void);
