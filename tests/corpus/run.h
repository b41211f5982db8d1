// Runs a case on the current context, which is a device's primary one. One thread.
#pragma once

#include <cuda.h>

#include "corpus.h"

struct corpus_folders {
	const char *ptx;
	const char *keep; // outputs go there whole; may be NULL
};

// 0, or 1 with the reason in corpus_problem(); the context is then a new one.
int corpus_run(const struct corpus_case *one, const struct corpus_folders *where, CUdevice device,
	       struct corpus_result *ret_result);
const char *corpus_problem(void);
