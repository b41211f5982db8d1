// image list, inspect, verify: lists images, shows the description of an image, verifies the checksums of an image.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "checkpoint.h"
#include "checkpoint/image/files.h"
#include "list.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "session.h"
#include "virgate/image.h"

// ---- list ---------------------------------------------------------------------------------------------

static json_t *number_json(const struct vg_image *image, uint64_t number)
{
	return image->state == VG_IMAGE_WHOLE ? json_integer((json_int_t)number) : json_null();
}

static json_t *image_json(const struct vg_image *image)
{
	bool whole = image->state == VG_IMAGE_WHOLE;

	return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "dir", text_json(image->dir),
			 "state", vg_image_state_name(image->state), "problem", text_json(image->problem), "created",
			 whole ? json_real(image->created) : json_null(), "command", text_json(image->command),
			 "processes", number_json(image, image->processes), "cuda_processes",
			 number_json(image, image->cuda_processes), "gpus", number_json(image, image->gpus), "vgpu",
			 text_json(image->vgpu), "bytes", number_json(image, image->bytes), "raw_bytes",
			 number_json(image, image->raw_bytes), "compression",
			 text_json(whole ? image_compression_name(image->compression) : NULL));
}

static void add_row(struct table *table, const struct vg_image *image)
{
	char created[CELL_TEXT], processes[CELL_TEXT], gpus[CELL_TEXT], size[CELL_TEXT], raw[CELL_TEXT];

	if (image->state != VG_IMAGE_WHOLE) {
		table_add(table, (const char *const[]){"-", "-", "-", "-", "-", "-", "-", "-", image->dir});
		return;
	}
	snprintf(processes, sizeof processes, "%zu", image->processes);
	snprintf(gpus, sizeof gpus, "%zu", image->gpus);
	table_add(table,
		  (const char *const[]){time_text(image->created, created), image->command ? image->command : "-",
					processes, gpus, image->vgpu ? image->vgpu : "-",
					vg_size_format(image->bytes, size), vg_size_format(image->raw_bytes, raw),
					image_compression_name(image->compression), image->dir});
}

static int run_image_list(const struct arguments *arguments)
{
	struct vg_image_list *images;
	int r = EXIT_OK;

	if (vg_image_list(arguments->words[0], &images))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json")) {
		json_t *array = json_array();
		for (size_t i = 0; i < images->count; i++)
			json_array_append_new(array, image_json(&images->images[i]));
		r = print_json(json_pack("{s:o}", "images", array));
	} else {
		struct table table = {.columns = 9, .right = {[2] = true, [3] = true, [5] = true, [6] = true}};
		table_add(&table, (const char *const[]){"CREATED", "COMMAND", "PROCESSES", "GPUS", "VGPU", "SIZE",
							"RAW", "STORED AS", "IMAGE"});
		for (size_t i = 0; i < images->count; i++)
			add_row(&table, &images->images[i]);
		table_print(&table);
		for (size_t i = 0; i < images->count; i++)
			if (images->images[i].problem)
				say_warning("%s is not an image: %s", images->images[i].dir, images->images[i].problem);
	}
	vg_image_list_free(images);
	return r;
}

static const struct option list_options[] = {OPTION_JSON, {0}};

const struct verb verb_image_list = {
	.name = "image list",
	.synopsis = "ROOT [--json]",
	.summary = "List the images below a directory",
	.options = list_options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_FILE,
	.run = run_image_list,
};

// ---- inspect ------------------------------------------------------------------------------------------

static const char *text_of(const json_t *group, const char *key)
{
	const char *text = json_string_value(json_object_get(group, key));

	return text ? text : "unknown";
}

static const char *size_of(const json_t *group, const char *key, char *buffer)
{
	json_t *bytes = json_object_get(group, key);

	return json_is_integer(bytes) ? vg_size_format((uint64_t)json_integer_value(bytes), buffer)
				      : strcpy(buffer, "unknown");
}

static const char *flag_of(const json_t *group, const char *key)
{
	json_t *flag = json_object_get(group, key);

	return json_is_boolean(flag) ? json_is_true(flag) ? "on" : "off" : "unknown";
}

static void print_field(const char *what, const char *text)
{
	print_line("%-11s%s", what, text);
}

static void print_machine(const json_t *image)
{
	const json_t *kernel = json_object_get(image, "kernel"), *driver = json_object_get(image, "driver");
	char text[CELL_TEXT], line[512];

	print_field("created", time_text(json_number_value(json_object_get(image, "created")), text));
	print_field("host", text_of(image, "host"));
	snprintf(line, sizeof line, "%.100s, %.60s", text_of(kernel, "release"), text_of(kernel, "machine"));
	print_field("kernel", line);
	print_field("processor", text_of(json_object_get(image, "cpu"), "model"));
	snprintf(line, sizeof line, "%.60s, CUDA %.20s", text_of(driver, "version"), text_of(driver, "cuda"));
	print_field("driver", line);
	print_field("CRIU", text_of(image, "criu"));
	print_field("Virgate", text_of(image, "virgate"));
}

static void print_gpus(const json_t *image)
{
	struct table table = {.columns = 9, .right = {[2] = true, [3] = true}};
	char memory[CELL_TEXT], held[CELL_TEXT];
	json_t *gpu;
	size_t i;

	printf("\n");
	table_add(&table, (const char *const[]){"GPU", "NAME", "MEMORY", "HELD", "CAPABILITY", "COMPUTE MODE", "ECC",
						"MIG", "PERSISTENCE"});
	json_array_foreach(json_object_get(image, "gpus"), i, gpu)
		table_add(&table,
			  (const char *const[]){text_of(gpu, "uuid"), text_of(gpu, "name"),
						size_of(gpu, "memory", memory), size_of(gpu, "held", held),
						text_of(gpu, "compute_capability"), text_of(gpu, "compute_mode"),
						flag_of(gpu, "ecc"), flag_of(gpu, "mig"), flag_of(gpu, "persistence")});
	table_print(&table);
}

static void print_vgpus(const json_t *image)
{
	struct table table = {.columns = 4, .right = {[1] = true, [2] = true}};
	char memory[CELL_TEXT], share[CELL_TEXT];
	json_t *vgpu;
	size_t i;

	if (json_array_size(json_object_get(image, "vgpus")) == 0)
		return;
	printf("\n");
	table_add(&table, (const char *const[]){"VGPU", "MEMORY", "SHARE", "ON GPU"});
	json_array_foreach(json_object_get(image, "vgpus"), i, vgpu) {
		json_int_t percent = json_integer_value(json_object_get(vgpu, "share"));
		snprintf(share, sizeof share, percent ? "%lld %%" : "-", (long long)percent);
		table_add(&table, (const char *const[]){text_of(vgpu, "name"), size_of(vgpu, "memory", memory), share,
							text_of(vgpu, "uuid")});
	}
	table_print(&table);
}

static void print_processes(const json_t *image)
{
	struct table table = {.columns = 6, .right = {[0] = true, [1] = true, [2] = true, [4] = true}};
	char pid[CELL_TEXT], parent[CELL_TEXT], threads[CELL_TEXT], memory[CELL_TEXT], command[TABLE_CELL];
	json_t *process, *word;
	size_t i, w;

	printf("\n");
	table_add(&table, (const char *const[]){"PID", "PARENT", "THREADS", "CUDA", "HOST MEMORY", "COMMAND"});
	json_array_foreach(json_object_get(image, "processes"), i, process) {
		size_t length = 0;
		snprintf(pid, sizeof pid, "%lld", (long long)json_integer_value(json_object_get(process, "pid")));
		snprintf(parent, sizeof parent, "%lld",
			 (long long)json_integer_value(json_object_get(process, "parent")));
		snprintf(threads, sizeof threads, "%zu", json_array_size(json_object_get(process, "threads")));
		command[0] = '\0';
		json_array_foreach(json_object_get(process, "command_line"), w, word)
			if (length < sizeof command - 1)
				length += (size_t)snprintf(command + length, sizeof command - length, "%s%s",
							   w ? " " : "", json_string_value(word));
		table_add(&table, (const char *const[]){pid, parent, threads,
							json_is_true(json_object_get(process, "cuda")) ? "yes" : "no",
							size_of(process, "host_memory", memory),
							*command ? command : text_of(process, "command")});
	}
	table_print(&table);
}

// Returns the memory of a process on a GPU, by kind. Only a ledger counts memory by kind; without one, returns
// "unknown".
static const char *kinds_text(const json_t *use, char *buffer, size_t capacity)
{
	char size[CELL_TEXT];
	const char *name;
	json_t *bytes;
	size_t length = 0;

	buffer[0] = '\0';
	json_object_foreach(json_object_get(use, "kinds"), name, bytes)
		if (json_integer_value(bytes) > 0 && length < capacity)
			length += (size_t)snprintf(buffer + length, capacity - length, "%s%.20s %s", length ? ", " : "",
						   name, vg_size_format((uint64_t)json_integer_value(bytes), size));
	return *buffer ? buffer : json_is_object(json_object_get(use, "kinds")) ? "nothing" : "unknown";
}

static void print_device_memory(const json_t *image)
{
	struct table table = {.columns = 5, .right = {[0] = true, [2] = true, [3] = true}};
	char pid[CELL_TEXT], held[CELL_TEXT], contexts[CELL_TEXT], kinds[TABLE_CELL];
	json_t *process, *use, *count;
	size_t i, g;

	printf("\n");
	table_add(&table, (const char *const[]){"PID", "ON GPU", "HELD", "CONTEXTS", "BY KIND"});
	json_array_foreach(json_object_get(image, "processes"), i, process) {
		snprintf(pid, sizeof pid, "%lld", (long long)json_integer_value(json_object_get(process, "pid")));
		if (json_is_null(json_object_get(process, "gpus")) && json_is_true(json_object_get(process, "cuda")))
			table_add(&table, (const char *const[]){pid, "unknown", "unknown", "unknown", "unknown"});
		json_array_foreach(json_object_get(process, "gpus"), g, use) {
			count = json_object_get(use, "contexts");
			if (json_is_integer(count))
				snprintf(contexts, sizeof contexts, "%lld", (long long)json_integer_value(count));
			else
				strcpy(contexts, "1 or more"); // NVML does not count the contexts of a process
			table_add(&table, (const char *const[]){pid, text_of(use, "uuid"), size_of(use, "held", held),
								contexts, kinds_text(use, kinds, sizeof kinds)});
		}
	}
	table_print(&table);
}

// Prints the sizes of the packs, the files in which an image stores device memory.
static void print_packs(const json_t *image)
{
	const json_t *device = json_object_get(image, "device");
	char bytes[VG_SIZE_TEXT], zero[VG_SIZE_TEXT], linked[VG_SIZE_TEXT];

	if (!json_is_object(device))
		return;
	printf("\n");
	print_line("in packs   %s of device memory, of which %s is zero; when it was written, %s of packs belonged to "
		   "base images, too",
		   size_of(device, "bytes", bytes), size_of(device, "zero", zero), size_of(device, "linked", linked));
}

static void print_files(const json_t *image)
{
	static const char *const lists[][2] = {
		{"open_files", "OPEN FILE"}, {"mapped_files", "MAPPED FILE"}, {"files", "FILE OF THE IMAGE"}};
	char size[CELL_TEXT];
	json_t *file;
	size_t i;

	for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
		struct table table = {.columns = 3, .right = {[0] = true}};
		printf("\n");
		table_add(&table, (const char *const[]){"SIZE", "BUILD", lists[l][1]});
		json_array_foreach(json_object_get(image, lists[l][0]), i, file) {
			const char *path = json_string_value(json_object_get(file, "path"));
			const char *build = json_string_value(json_object_get(file, "build_id"));
			char shortened[17];
			snprintf(shortened, sizeof shortened, "%s", build ? build : "-");
			table_add(&table, (const char *const[]){size_of(file, "bytes", size), shortened,
								path ? path : text_of(file, "name")});
		}
		table_print(&table);
	}
}

static int run_image_inspect(const struct arguments *arguments)
{
	char *text;

	if (vg_image_inspect(arguments->words[0], &text))
		return fail_with_last_error(arguments);
	json_t *image = json_loads(text, 0, NULL);
	free(text);
	if (!image) {
		say_error("out of memory while reading %s", arguments->words[0]);
		return EXIT_FAILED;
	}
	if (option_value(arguments, "json"))
		return print_json(json_pack("{s:o}", "image", image));
	print_field("image", arguments->words[0]);
	print_machine(image);
	print_gpus(image);
	print_vgpus(image);
	print_processes(image);
	print_device_memory(image);
	print_packs(image);
	print_files(image);
	json_decref(image);
	return EXIT_OK;
}

static const struct option inspect_options[] = {OPTION_JSON, {0}};

const struct verb verb_image_inspect = {
	.name = "image inspect",
	.synopsis = "DIR [--json]",
	.summary = "Show the processes in an image, and their machine",
	.details = "GPUs with their settings, contexts, device memory by kind, processes, and the files that they "
		   "need. Restores nothing and verifies no checksum: virgate image verify does.",
	.options = inspect_options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_FILE,
	.run = run_image_inspect,
};

// ---- verify -------------------------------------------------------------------------------------------

static int run_image_verify(const struct arguments *arguments)
{
	const struct vg_image_verify_options options = {.size = sizeof options, .progress = checkpoint_show_progress};
	const char *dir = arguments->words[0];

	progress_begin(arguments);
	enum vg_status status = vg_image_verify(dir, &options);
	progress_hide();
	if (status && (status != VG_INTEGRITY || !option_value(arguments, "json")))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json")) {
		int r = print_json(json_pack("{s:{s:o, s:b, s:o}}", "image", "dir", text_json(dir), "whole",
					     status == VG_OK, "problem",
					     text_json(status ? vg_last_error()->text : NULL)));
		return r ? r : status ? EXIT_FAILED : EXIT_OK;
	}
	print_line("%s: whole, all checksums agree", dir);
	return EXIT_OK;
}

static const struct option verify_options[] = {OPTION_JSON, {0}};

const struct verb verb_image_verify = {
	.name = "image verify",
	.synopsis = "DIR [--json]",
	.summary = "Verify all checksums of an image",
	.details = "Reads every file of the image, and names the first that was changed, is missing or does not "
		   "belong there. A restore does this too. Exit status: 0 if the image is whole, 1 if not.",
	.options = verify_options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_FILE,
	.run = run_image_verify,
};
