// Allocates device memory chunk by chunk, by a route of choice, until the driver refuses.
#include <errno.h>
#include <time.h>

#include "grow_routes.h"

struct options {
	const struct route *route;
	uint64_t chunk, most;
	double hold;
	bool exact;
};

static void usage(FILE *file)
{
	fprintf(file,
		"grow [--via ROUTE] [--chunk SIZE] [--most SIZE] [--hold SECONDS] [--exact] [--no-touch]\n"
		"     [--descriptor N] [--device N]\n"
		"Takes device memory in chunks (64M) until the driver answers that it is out of memory, or --most\n"
		"is reached; --exact then halves the chunk down to 2 MiB. Prints the total, keeps it for --hold\n"
		"seconds. Exit status 0 if it ended that way, 1 on any other error. Routes:\n");
	route_list(file);
}

static struct options read_options(int argc, char **argv, int *ret_ordinal)
{
	struct options options = {.route = route_find("alloc"), .chunk = 64 << 20, .most = UINT64_MAX};

	setup.touch = true;
	setup.descriptor = -1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--via") == 0) {
			options.route = route_find(option_value(argc, argv, &i));
			if (!options.route)
				usage(stderr), give_up("there is no route %s", argv[i]);
		} else if (strcmp(argv[i], "--chunk") == 0) {
			options.chunk = read_size("--chunk", option_value(argc, argv, &i));
		} else if (strcmp(argv[i], "--most") == 0) {
			options.most = read_size("--most", option_value(argc, argv, &i));
		} else if (strcmp(argv[i], "--hold") == 0) {
			options.hold = read_number("--hold", option_value(argc, argv, &i));
		} else if (strcmp(argv[i], "--descriptor") == 0) {
			setup.descriptor = read_number("--descriptor", option_value(argc, argv, &i));
		} else if (strcmp(argv[i], "--device") == 0) {
			*ret_ordinal = read_number("--device", option_value(argc, argv, &i));
		} else if (strcmp(argv[i], "--exact") == 0) {
			options.exact = true;
		} else if (strcmp(argv[i], "--no-touch") == 0) {
			setup.touch = false;
		} else if (strcmp(argv[i], "--help") == 0) {
			usage(stdout), exit(0);
		} else {
			usage(stderr), give_up("unknown option %s", argv[i]);
		}
	}
	if (options.chunk < options.route->grain || options.chunk % options.route->grain != 0)
		give_up("--chunk: by %s it must be a multiple of %s", options.route->how,
			size_text(options.route->grain));
	if (strcmp(options.route->name, "import") == 0 && setup.descriptor < 0)
		give_up("--via import needs --descriptor");
	return options;
}

// Sleeps for the whole time, also if a checkpoint interrupts it.
static void wait_for(double seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)seconds;
	until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

int main(int argc, char **argv)
{
	int ordinal = 0;
	uint64_t total = 0;
	unsigned long chunks = 0;
	size_t available = 0, whole = 0;
	CUresult result = CUDA_SUCCESS;

	program = "grow";
	setvbuf(stdout, NULL, _IOLBF, 0);
	struct options options = read_options(argc, argv, &ordinal);
	setup.context = open_device(ordinal, &setup.device);
	uint64_t chunk = options.chunk;
	while (total + chunk <= options.most) {
		size_t bytes = 0;
		result = options.route->allocate(chunk, &bytes);
		total += bytes; // count the chunk also if it was allocated but writing to it failed
		chunks += bytes != 0;
		if (result == CUDA_ERROR_OUT_OF_MEMORY && options.exact && chunk / 2 >= (2 << 20) &&
		    chunk / 2 % options.route->grain == 0) {
			chunk /= 2;
			continue;
		}
		if (result != CUDA_SUCCESS)
			break;
	}
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
		give_up("after %s by %s: %s", size_text(total), options.route->how, error_text(result));
	CUresult asked = cuMemGetInfo(&available, &whole);
	if (asked != CUDA_SUCCESS)
		give_up("cannot ask for the memory: %s", error_text(asked));
	printf("grow: %s (%llu bytes) in %lu chunks by %s, %s; free %s of %s\n", size_text(total),
	       (unsigned long long)total, chunks, options.route->name,
	       result == CUDA_SUCCESS ? "as much as asked" : "then out of memory", size_text(available),
	       size_text(whole));
	wait_for(options.hold);
	return 0;
}
