// Predicts whether the dynamic linker will load the interposer into a program. One thread.
#pragma once
#include <limits.h>
#include <stdbool.h>

enum preload {
	PRELOAD_WORKS,	    // the program, or its script's interpreter, is dynamically linked: the interposer is loaded
	PRELOAD_STATIC,	    // statically linked (no PT_INTERP): no dynamic linker reads LD_PRELOAD
	PRELOAD_OTHER_ABI,  // the file is not an x86-64 program
	PRELOAD_OTHER_LIBC, // needs another C library, whose dynamic linker refuses the interposer
	PRELOAD_PRIVILEGED, // setuid, setgid or file capabilities: the dynamic linker ignores LD_PRELOAD
	PRELOAD_UNKNOWN,    // the file is unreadable, or neither ELF nor a script
};

struct preload_program {
	enum preload preload;
	bool asan;	       // linked with the shared library of the address sanitizer
	char linker[PATH_MAX]; // path of the program's dynamic linker; "": it has none, or the linker is unknown
};

// Inspects the program file. For a script, inspects the interpreter that its "#!" line names.
void preload_inspect(const char *path, struct preload_program *ret_program);
// Returns why the interposer is not loaded, such as "is statically linked"; NULL: no reason to warn.
const char *preload_text(enum preload preload);
