// A program that the test makes set-user-ID. It loads an interposer and calls one of its functions. Prints "secure=0|1
// named=0|1": whether the kernel has set AT_SECURE, and whether the process has loaded a file whose name contains the
// third argument.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static int is_loaded(const char *word)
{
	char line[4352];
	FILE *maps = fopen("/proc/self/maps", "re");
	int found = 0;

	while (maps && fgets(line, sizeof line, maps))
		found |= strstr(line, word) != NULL;
	if (maps)
		fclose(maps);
	return found;
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	void *interposer = dlopen(argv[1], RTLD_NOW);
	int (*function)(unsigned) = interposer ? (int (*)(unsigned))dlsym(interposer, argv[2]) : NULL;
	if (!function) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	function(0);
	printf("secure=%d named=%d\n", getauxval(AT_SECURE) != 0, is_loaded(argv[3]));
	return 0;
}
