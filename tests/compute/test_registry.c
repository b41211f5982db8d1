// Tests kernels by name: registration, duplicates, removal, unknown names.
#include "compute/registry.h"
#include "core/code_test.h"

#include <pthread.h>

static const char two_kernels[] = ".version 7.8\n.target sm_75\n.address_size 64\n"
				  ".visible .entry first(.param .u64 to)\n{\nret;\n}\n"
				  ".visible .entry second()\n{\nret;\n}\n";

static struct compute_registry *open_registry(void)
{
	struct compute_registry *registry;

	OK(compute_registry_create(90, &registry));
	return registry;
}

static struct vg_object_code *ptx(const char *text)
{
	struct vg_object_code *code;

	OK(vg_object_code_create(VG_CODE_PTX, text, strlen(text), NULL, &code));
	return code;
}

static void check_sorted(struct compute_registry *registry)
{
	size_t count = compute_registry_count(registry);
	char before[256] = "";

	for (size_t i = 0; i < count; i++) {
		struct compute_entry *entry = compute_registry_at(registry, i);
		CHECK(entry);
		CHECK(strcmp(before, entry->name) < 0);
		snprintf(before, sizeof before, "%s", entry->name);
		compute_entry_release(entry);
	}
	CHECK(!compute_registry_at(registry, count));
}

static bool has(struct compute_registry *registry, const char *name)
{
	struct compute_entry *entry = NULL;
	bool found = compute_registry_find(registry, name, &entry) == VG_OK;

	compute_entry_release(entry);
	return found;
}

TEST(code_is_registered_entirely_or_not_at_all)
{
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code = ptx(two_kernels);
	size_t builtin = compute_registry_count(registry);

	CHECK(builtin > 0);
	OK(compute_registry_add(registry, code));
	CHECK_INT(compute_registry_count(registry), builtin + 2);
	check_sorted(registry);
	CHECK(has(registry, "first") && has(registry, "second"));
	OK(compute_registry_remove(registry, "first"));
	REFUSED(compute_registry_add(registry, code), VG_EXISTS, "\"second\"");
	CHECK_INT(compute_registry_count(registry), builtin + 1);
	CHECK(!has(registry, "first"));
	check_sorted(registry);
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}

TEST(a_kernel_is_registered_under_any_name)
{
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code = ptx(two_kernels);
	struct compute_entry *entry;
	struct vg_kernel *kernel;

	OK(vg_object_code_kernel(code, "first", &kernel));
	OK(compute_registry_add_kernel(registry, "mine", kernel));
	REFUSED(compute_registry_add_kernel(registry, "mine", kernel), VG_EXISTS, "\"mine\"");
	REFUSED(compute_registry_add_kernel(registry, "matrix_multiply", kernel), VG_EXISTS, "matrix_multiply");
	REFUSED(compute_registry_add_kernel(registry, "", kernel), VG_INVALID, "empty");
	REFUSED(compute_registry_add_kernel(registry, NULL, kernel), VG_INVALID, "NULL");
	REFUSED(compute_registry_add_kernel(registry, "other", NULL), VG_INVALID, "kernel");
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	OK(compute_registry_find(registry, "mine", &entry));
	CHECK_STR(vg_kernel_name(entry->kernel), "first");
	CHECK_INT(entry->report.tensor, CODE_CLEAN);
	compute_entry_release(entry);
	compute_registry_destroy(registry);
}

// Queued work keeps the entry of its kernel valid after the entry was removed from the registry.
TEST(an_entry_stays_valid_after_its_removal)
{
	struct compute_registry *registry = open_registry();
	struct compute_entry *entry;

	OK(compute_registry_find(registry, "fill", &entry));
	OK(compute_registry_remove(registry, "fill"));
	CHECK(!has(registry, "fill"));
	compute_registry_destroy(registry);
	CHECK_STR(entry->name, "fill");
	CHECK_INT(vg_kernel_parameter_count(entry->kernel), 3);
	compute_entry_release(entry);
}

TEST(unknown_names_are_refused_with_similar_ones)
{
	struct compute_registry *registry = open_registry();
	struct compute_entry *entry = NULL;
	char there[64], lengthy[4096];

	snprintf(there, sizeof there, "among %zu", compute_registry_count(registry));
	REFUSED(compute_registry_find(registry, "matrix_multipy", &entry), VG_NOT_FOUND, "matrix_multiply");
	CHECK_CONTAINS(vg_last_error()->text, there);
	REFUSED(compute_registry_find(registry, "vector_sum", &entry), VG_NOT_FOUND, "vector_add");
	REFUSED(compute_registry_remove(registry, "matrix"), VG_NOT_FOUND, "matrix_multiply");
	REFUSED(compute_registry_find(registry, "qqqqqqqqqqqq", &entry), VG_NOT_FOUND, "nor one with a similar name");
	REFUSED(compute_registry_find(registry, "", &entry), VG_NOT_FOUND, "\"\"");
	REFUSED(compute_registry_find(registry, NULL, &entry), VG_INVALID, "NULL");
	REFUSED(compute_registry_remove(registry, NULL), VG_INVALID, "NULL");
	memset(lengthy, 'x', sizeof lengthy);
	lengthy[sizeof lengthy - 1] = '\0';
	REFUSED(compute_registry_find(registry, lengthy, &entry), VG_NOT_FOUND, "nor one with a similar name");
	CHECK(!entry);
	compute_registry_destroy(registry);
}

TEST(code_without_kernels_is_refused)
{
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code = ptx(".version 7.8\n.target sm_75\n.address_size 64\n");

	REFUSED(compute_registry_add(registry, code), VG_NOT_FOUND, "no kernel");
	REFUSED(compute_registry_add(registry, NULL), VG_INVALID, "code");
	OK(vg_object_code_close(code));
	REFUSED(compute_registry_add(registry, code), VG_CLOSED, "code");
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}

enum { THREADS = 8, ROUNDS = 200 };

struct worker {
	struct compute_registry *registry;
	struct vg_kernel *kernel;
	int number;
	const char *problem;
};

// Adds and removes a name again and again, while other threads do the same with other names. Every entry that is found
// must be complete.
static void *work(void *worker_)
{
	struct worker *worker = worker_;
	char mine[32], others[32];

	snprintf(mine, sizeof mine, "of_thread_%d", worker->number);
	for (int i = 0; i < ROUNDS; i++) {
		struct compute_entry *entry = NULL;
		snprintf(others, sizeof others, "of_thread_%d", i % THREADS);
		if (compute_registry_add_kernel(worker->registry, mine, worker->kernel))
			worker->problem = "cannot add its own";
		if (compute_registry_find(worker->registry, others, &entry) == VG_OK &&
		    (strcmp(entry->name, others) != 0 || !vg_kernel_handle(entry->kernel)))
			worker->problem = "found another";
		compute_entry_release(entry);
		entry = compute_registry_at(worker->registry, (size_t)i % 16);
		if (entry && !entry->name[0])
			worker->problem = "found no name";
		compute_entry_release(entry);
		if (compute_registry_remove(worker->registry, mine))
			worker->problem = "cannot remove its own";
	}
	return NULL;
}

TEST(many_threads_use_one_registry)
{
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code = ptx(two_kernels);
	size_t builtin = compute_registry_count(registry);
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct vg_kernel *kernel;

	OK(vg_object_code_kernel(code, "first", &kernel));
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){registry, kernel, i, NULL};
		CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		if (workers[i].problem)
			FAIL("thread %d %s", i, workers[i].problem);
	CHECK_INT(compute_registry_count(registry), builtin);
	check_sorted(registry);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}

// Kernels with mangled C++ names are found by the expression with which they were compiled.
TEST(kernels_are_found_by_expression)
{
	static const char mangled[] =
		".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry _Z3addIfEvT_() { ret; }\n"
		".visible .entry _Z3subv() { ret; }\n";
	struct vg_symbol symbols[] = {{"add<float>", "_Z3addIfEvT_"}};
	struct vg_object_code_options options = {.size = sizeof options, .symbols = symbols, .symbol_count = 1};
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code;

	OK(vg_object_code_create(VG_CODE_PTX, mangled, sizeof mangled, &options, &code));
	OK(compute_registry_add(registry, code));
	CHECK(has(registry, "add<float>") && has(registry, "_Z3subv") && !has(registry, "_Z3addIfEvT_"));
	struct compute_entry *entry;
	OK(compute_registry_find(registry, "add<float>", &entry));
	CHECK_INT(entry->report.tensor, CODE_CLEAN);
	compute_entry_release(entry);
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}

// Code in a file is inspected, too.
TEST(code_in_a_file_is_inspected)
{
	static const char text[] =
		".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry filed() { .reg .b32 %r<8>;\n"
		"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 "
		"{%r3,%r4},{%r0,%r1},{%r2},{%r3,%r4}; ret; }\n";
	char path[] = "/tmp/virgate-registry-XXXXXX";
	struct compute_registry *registry = open_registry();
	struct vg_object_code *code;
	struct compute_entry *entry;
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1);
	close(fd);
	OK(vg_object_code_from_file(VG_CODE_PTX, path, NULL, &code));
	OK(vg_object_code_load(code));
	OK(compute_registry_add(registry, code));
	OK(compute_registry_find(registry, "filed", &entry));
	CHECK_INT(entry->report.tensor, CODE_FOUND);
	compute_entry_release(entry);
	OK(compute_registry_remove(registry, "filed"));
	unlink(path); // the code is loaded, but its file is removed, so the library cannot inspect it any more
	OK(compute_registry_add(registry, code));
	OK(compute_registry_find(registry, "filed", &entry));
	CHECK_INT(entry->report.tensor, CODE_UNKNOWN);
	CHECK_CONTAINS(entry->report.reason, "No such file");
	compute_entry_release(entry);
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}
