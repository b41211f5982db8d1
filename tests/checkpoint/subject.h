// Declares the parts of the subject, which the tests dump: its work (subject.c), and its other resources
// (subject_kinds.c, subject_zeros.c).
#pragma once
#include <cuda.h>

#include <signal.h>
#include <stdint.h>

enum { WORDS = 1 << 18, BYTES = WORDS * 4 };

// The resources of a thread.
struct work {
	CUdeviceptr memory[3]; // one allocation of each kind of device memory
	CUstream stream;
	CUevent event;
	CUgraphExec graph;
	uint32_t *words, seed;
	char wrong[256];
};

extern volatile sig_atomic_t ended;
extern const char *file_name;
extern CUdevice device;

void must(CUresult result, const char *what);
#define MUST(call) must(call, #call)
void make(struct work *work);
// Checks all memory. Returns 0 if any word differs; `wrong` then says which.
int look(struct work *work, uint32_t round);
// Runs the subject to its end.
__attribute__((noreturn)) void run(const char *file_to_write, int count, char **names);
// Creates the resources with these names. If `early` is set, creates only those that must exist before the first use of
// CUDA, and else only the others.
void make_kinds(int early, int count, char **names);
void have_zeros(void);
