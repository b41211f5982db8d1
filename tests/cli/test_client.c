// Tests libvirgate as a C program uses it, against a stand-in for the daemon.
#include <pthread.h>

#include "fixture.h"
#include "virgate/virgate.h"

static struct vg_node *node;

static void open_node(void)
{
	const struct vg_node_options options = {.size = sizeof options, .timeout = 3};

	CHECK_INT(vg_node_open(&options, &node), VG_OK);
}

static const char vgpu_answer[] =
	"{\"ok\":true,\"vgpus\":[{\"name\":\"train\",\"uuid\":\"GPU-1\",\"device\":0,\"memory\":8589934592,\"charged\":"
	"1,"
	"\"overhead\":0,\"physical\":null,\"share\":30,\"share_limit\":false,\"class\":\"batch\","
	"\"owner\":\"ann\",\"group\":null,"
	"\"ephemeral\":false,\"created\":1.5,\"refusals\":2,\"future\":[],\"tenants\":[{\"pid\":7,\"command\":\"a\","
	"\"charged\":1,\"overhead\":0,\"physical\":5,\"started\":2}]}]}";

TEST(library_version_matches_headers)
{
	CHECK_STR(vg_version(), VG_VERSION_TEXT);
}

TEST(list_is_parsed)
{
	struct vg_vgpu_list *list;

	fixture_start();
	serve_answer(vgpu_answer);
	open_node();
	CHECK_STR(vg_node_socket(node), fixture.socket);
	CHECK_INT(vg_vgpu_list(node, &list), VG_OK);
	CHECK_INT(list->count, 1);
	const struct vg_vgpu_info *vgpu = &list->vgpus[0];
	CHECK_STR(vgpu->name, "train");
	CHECK_INT(vgpu->memory, 8589934592);
	CHECK_INT(vgpu->physical_known, 0);
	CHECK_INT(vgpu->share_limit, 0);
	CHECK_INT(vgpu->scheduling_class, VG_CLASS_BATCH);
	CHECK_INT(vgpu->turns.known, 0);
	CHECK_STR(vgpu->group, "");
	CHECK_INT(vgpu->tenant_count, 1);
	CHECK_INT(vgpu->tenants[0].pid, 7);
	CHECK_INT(vgpu->tenants[0].physical_known, 1);
	CHECK_INT(vgpu->tenants[0].physical, 5);
	CHECK_INT(vgpu->tenants[0].guest, 0); // a missing field counts as 0
	CHECK_INT(vgpu->shared, 0);
	vg_vgpu_list_free(list);
	vg_vgpu_list_free(NULL);
	vg_device_list_free(NULL);
	vg_refusal_list_free(NULL);
	vg_entrance_free(NULL);
	vg_node_close(node);
	vg_node_close(NULL);
}

// Lists the vGPU of vgpu_answer with these fields about its compute share.
static enum vg_status list_with(const char *fields, struct vg_vgpu_list **ret_list)
{
	static const char plain[] = "\"share_limit\":false,\"class\":\"batch\"";
	const char *at = strstr(vgpu_answer, plain);
	char answer[2048];

	CHECK(at);
	snprintf(answer, sizeof answer, "%.*s%s%s", (int)(at - vgpu_answer), vgpu_answer, fields, at + strlen(plain));
	serve_answer(answer);
	return vg_vgpu_list(node, ret_list);
}

#define TURNS                                                                                                \
	"\"held\":true,\"reason\":\"no other vGPU is active\",\"holder\":null,\"recent\":29.5,\"gpu_ns\":1," \
	"\"waited_ns\":2,\"turns\":3,\"quantum_ns\":4,\"handovers\":0.5,\"weight\":30"

TEST(turns_are_parsed)
{
	struct vg_vgpu_list *list;

	fixture_start();
	open_node();
	CHECK_INT(
		list_with("\"share_limit\":true,\"class\":\"latency\",\"turns\":{\"mode\":\"time\"," TURNS "}", &list),
		VG_OK);
	const struct vg_vgpu_info *vgpu = &list->vgpus[0];
	CHECK_INT(vgpu->share_limit, 1);
	CHECK_INT(vgpu->scheduling_class, VG_CLASS_LATENCY);
	CHECK_INT(vgpu->turns.known, 1);
	CHECK_STR(vgpu->turns.mode, "time");
	CHECK_INT(vgpu->turns.held, 1);
	CHECK_STR(vgpu->turns.reason, "no other vGPU is active");
	CHECK_STR(vgpu->turns.holder, "");
	CHECK(vgpu->turns.recent == 29.5 && vgpu->turns.handovers == 0.5 && vgpu->turns.weight == 30);
	CHECK_INT(vgpu->turns.gpu_ns, 1);
	CHECK_INT(vgpu->turns.waited_ns, 2);
	CHECK_INT(vgpu->turns.turns, 3);
	CHECK_INT(vgpu->turns.quantum_ns, 4);
	vg_vgpu_list_free(list);
	CHECK_INT(list_with("\"share_limit\":true,\"class\":\"urgent\"", &list), VG_PROTOCOL);
	CHECK_INT(list_with("\"share_limit\":true,\"class\":\"batch\",\"turns\":{" TURNS "}", &list), VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "\"turns\"");
	vg_node_close(node);
}

#define EVICTION                                                                                         \
	"\"evictable\":true,\"swap\":7,\"eviction\":{\"state\":\"partly suspended\",\"suspended\":true," \
	"\"on_gpu\":5,\"in_host\":6}"
#define PROCESS                                                                                                  \
	"\"suspended\":true,\"pending\":true,\"reason\":\"thread\",\"call\":\"cuInit\",\"error\":1,\"bytes\":2," \
	"\"host\":3,\"missing\":4,\"state_ns\":5,\"moved_ns\":6,\"waited_ns\":7,\"waiting\":8,\"moves\":9"

// Lists a vGPU with the fields `vgpu` about its eviction. `process` is the state of eviction of its process.
static enum vg_status list_evicted(const char *vgpu, const char *process, struct vg_vgpu_list **ret_list)
{
	static const char end[] = "\"started\":2}";
	char fields[1024], answer[4096];

	snprintf(fields, sizeof fields, "\"share_limit\":false,\"class\":\"batch\"%s%s", *vgpu ? "," : "", vgpu);
	const char *plain = "\"share_limit\":false,\"class\":\"batch\"", *at = strstr(vgpu_answer, plain);
	const char *tenant = strstr(vgpu_answer, end);
	snprintf(answer, sizeof answer, "%.*s%s%.*s\"started\":2,\"eviction\":%s%s", (int)(at - vgpu_answer),
		 vgpu_answer, fields, (int)(tenant - at - strlen(plain)), at + strlen(plain), process,
		 tenant + strlen(end) - 1);
	serve_answer(answer);
	return vg_vgpu_list(node, ret_list);
}

TEST(evictions_are_parsed)
{
	struct vg_vgpu_list *list;

	fixture_start();
	open_node();
	CHECK_INT(list_evicted(EVICTION, "{\"state\":\"running\"," PROCESS "}", &list), VG_OK);
	const struct vg_vgpu_info *vgpu = &list->vgpus[0];
	CHECK_INT(vgpu->evictable, 1);
	CHECK_INT(vgpu->swap, 7);
	CHECK_INT(vgpu->suspended, 1);
	CHECK_STR(vgpu->eviction_state, "partly suspended");
	CHECK(vgpu->on_gpu == 5 && vgpu->in_host == 6);
	const struct vg_eviction_info *one = &vgpu->tenants[0].eviction;
	CHECK(one->known && one->suspended && one->pending);
	CHECK_STR(one->state, "running");
	CHECK_STR(one->reason, "thread");
	CHECK_STR(one->call, "cuInit");
	CHECK(one->error == 1 && one->bytes == 2 && one->host == 3 && one->missing == 4 && one->state_ns == 5);
	CHECK(one->moved_ns == 6 && one->waited_ns == 7 && one->waiting == 8 && one->moves == 9);
	vg_vgpu_list_free(list);
	CHECK_INT(list_evicted("", "null", &list), VG_OK); // an older daemon does not send the field
	CHECK(!list->vgpus[0].evictable && !list->vgpus[0].swap && !list->vgpus[0].tenants[0].eviction.known);
	CHECK_STR(list->vgpus[0].eviction_state, "");
	vg_vgpu_list_free(list);
	CHECK_INT(list_evicted(EVICTION, "{" PROCESS "}", &list), VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "\"eviction\"");
	CHECK_INT(list_evicted("\"evictable\":true,\"swap\":7,\"eviction\":{}", "null", &list), VG_PROTOCOL);
	vg_node_close(node);
}

TEST(failures_set_error_and_keep_output)
{
	struct vg_vgpu_list *list = (void *)1;
	struct vg_entrance *entrance = (void *)1;
	const struct vg_vgpu_options good = {.size = sizeof good, .name = "a", .memory = 1};

	fixture_start();
	serve_answer("{\"ok\":false,\"code\":\"limit\",\"message\":\"asked 9.0 GiB, 8.0 GiB there are\"}");
	open_node();
	CHECK_INT(vg_vgpu_create(node, &good), VG_LIMIT);
	CHECK_STR(vg_last_error()->text, "asked 9.0 GiB, 8.0 GiB there are");
	CHECK_STR(vg_last_error()->function, "vg_vgpu_create");
	CHECK_INT(vg_last_error()->status, VG_LIMIT);
	CHECK_INT(vg_vgpu_list(node, &list), VG_LIMIT);
	CHECK(list == (void *)1);
	CHECK_INT(vg_vgpu_enter(node, "a", NULL, &entrance), VG_LIMIT);
	CHECK(entrance == (void *)1);
	CHECK_INT(vg_vgpu_create(node, NULL), VG_INVALID);
	CHECK_INT(vg_vgpu_create(node, &(struct vg_vgpu_options){.size = 0}), VG_INVALID);
	CHECK_INT(vg_vgpu_create(node, &(struct vg_vgpu_options){.size = sizeof good, .memory = 1}), VG_INVALID);
	CHECK_INT(vg_vgpu_create(node, &(struct vg_vgpu_options){.size = sizeof good, .name = "a"}), VG_INVALID);
	CHECK_INT(vg_vgpu_create(
			  node, &(struct vg_vgpu_options){.size = sizeof good, .name = "a", .memory = 1, .share = 101}),
		  VG_INVALID);
	CHECK_INT(vg_vgpu_create(
			  node,
			  &(struct vg_vgpu_options){.size = sizeof good, .name = "a", .memory = 1, .share_limit = 1}),
		  VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "a limit needs a share");
	CHECK_INT(vg_vgpu_create(node,
				 &(struct vg_vgpu_options){.size = sizeof good, .name = "a", .memory = 1, .swap = 1}),
		  VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "a swap is for evictable vGPUs");
	CHECK_INT(vg_vgpu_create(
			  node,
			  &(struct vg_vgpu_options){
				  .size = sizeof good, .name = "a", .memory = 1, .evictable = 1, .swap = UINT64_MAX}),
		  VG_INVALID);
	CHECK_INT(vg_vgpu_create(node,
				 &(struct vg_vgpu_options){
					 .size = sizeof good, .name = "a", .memory = 1, .scheduling_class = 2}),
		  VG_INVALID);
	CHECK_INT(
		vg_vgpu_create(node, &(struct vg_vgpu_options){.size = sizeof good, .name = "a", .memory = UINT64_MAX}),
		VG_INVALID);
	CHECK_INT(vg_vgpu_create(
			  node,
			  &(struct vg_vgpu_options){.size = sizeof good, .name = "a", .memory = 1, .device = "\xff"}),
		  VG_INVALID); // JSON strings must be UTF-8
	CHECK_INT(vg_vgpu_set(node, "a", 0, 0), VG_INVALID);
	CHECK_INT(vg_vgpu_set(node, "a", 0, 101), VG_INVALID);
	CHECK_INT(vg_vgpu_set(node, "a/b", 1, 0), VG_INVALID);
	CHECK_INT(vg_vgpu_remove(node, NULL), VG_INVALID);
	CHECK_INT(vg_vgpu_inspect(node, "", &list), VG_INVALID);
	vg_node_close(node);
}

TEST(signal_counts_processes)
{
	unsigned count = 77;

	fixture_start();
	serve_answer("{\"ok\":true,\"signalled\":3}");
	open_node();
	CHECK_INT(vg_vgpu_signal(node, "a", SIGTERM, NULL), VG_INVALID);
	CHECK_INT(vg_vgpu_signal(NULL, "a", SIGTERM, &count), VG_INVALID);
	CHECK_INT(vg_vgpu_signal(node, "a/b", SIGTERM, &count), VG_INVALID);
	CHECK_INT(vg_vgpu_signal(node, "a", 0, &count), VG_INVALID);
	CHECK_INT(vg_vgpu_signal(node, "a", SIGRTMAX + 1, &count), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "there is no signal 65");
	serve_answer("{\"ok\":true}");
	CHECK_INT(vg_vgpu_signal(node, "a", SIGTERM, &count), VG_PROTOCOL);
	CHECK_INT(count, 77);
	serve_answer("{\"ok\":true,\"signalled\":3}");
	CHECK_INT(vg_vgpu_signal(node, "a", SIGTERM, &count), VG_OK);
	CHECK_INT(count, 3);
	vg_node_close(node);
}

TEST(reply_codes_become_statuses)
{
	static const struct {
		const char *code;
		enum vg_status status;
	} all[] = {{"limit", VG_LIMIT}, {"denied", VG_DENIED},	 {"not_found", VG_NOT_FOUND}, {"exists", VG_EXISTS},
		   {"busy", VG_BUSY},	{"invalid", VG_INVALID}, {"system", VG_SYSTEM},	      {"strange", VG_SYSTEM}};
	char answer[128];

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		fixture_start();
		snprintf(answer, sizeof answer, "{\"ok\":false,\"code\":\"%s\",\"message\":\"words\"}", all[i].code);
		serve_answer(answer);
		open_node();
		CHECK_INT(vg_node_ping(node), all[i].status);
		CHECK_STR(vg_last_error()->text, "words");
		vg_node_close(node);
	}
}

TEST(smaller_option_structs_are_accepted)
{
	struct vg_node_options options = {.size = sizeof(size_t) + sizeof(char *), .no_start = 1, .timeout = 77};

	fixture_start();
	options.runtime_dir = fixture.runtime;
	CHECK_INT(vg_node_open(&options, &node), VG_OK); // fields beyond the size of the struct are not read
	CHECK_STR(vg_node_socket(node), fixture.socket);
	vg_node_close(node);
	options.size = 3;
	CHECK_INT(vg_node_open(&options, &node), VG_INVALID);
	CHECK_INT(vg_node_open(NULL, &node), VG_OK);
	vg_node_close(node);
}

TEST(unknown_options_are_refused)
{
	struct {
		struct vg_node_options known;
		uint64_t later;
	} node_options = {.known.size = sizeof node_options};
	struct {
		struct vg_vgpu_options known;
		uint64_t later;
	} vgpu_options = {.known = {.size = sizeof vgpu_options, .name = "a", .memory = 1 << 20}};
	char requests[2048];

	fixture_start();
	serve_answer("{\"ok\":true,\"vgpu\":{}}");
	node_options.known.runtime_dir = fixture.runtime;
	// the library ignores fields that it does not know only if they are zero
	CHECK_INT(vg_node_open(&node_options.known, &node), VG_OK);
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_OK);
	vgpu_options.known.device_mode_count = 1;
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "`device_modes` is NULL");
	vgpu_options.known.device_modes = &(struct vg_device_mode){"0", (enum vg_sharing_mode)7};
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "unknown mode 7");
	vgpu_options.known.device_modes = &(struct vg_device_mode){NULL, VG_MODE_MPS};
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_INVALID);
	vgpu_options.known.device_modes = &(struct vg_device_mode){"0", VG_MODE_MPS};
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_OK);
	read_file("requests", requests, sizeof requests);
	CHECK_CONTAINS(requests, "\"device_modes\":{\"0\":\"mps\"}");
	vgpu_options.later = 1;
	CHECK_INT(vg_vgpu_create(node, &vgpu_options.known), VG_UNSUPPORTED);
	CHECK_CONTAINS(vg_last_error()->text, "the options have a field at byte");
	vg_node_close(node);
	node_options.later = 1;
	node = NULL;
	CHECK_INT(vg_node_open(&node_options.known, &node), VG_UNSUPPORTED);
	CHECK(!node);
}

static const char *find_variable(char **environment, const char *name)
{
	const char *found = NULL;
	size_t length = strlen(name);

	for (; *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
			if (found)
				FAIL("%s is there twice", name);
			found = *environment + length + 1;
		}
	return found ? found : "(none)";
}

TEST(entrance_builds_environment)
{
	char *const base[] = {"A=1",
			      "LD_PRELOAD=/x/libvirgate-cuda.so /x/other.so",
			      "VIRGATE_LEDGER=old",
			      "VIRGATE_SIM=1",
			      "CUDA_VISIBLE_DEVICES=3",
			      "Z=",
			      NULL};
	struct vg_entrance *entrance;
	char expected[1024];

	fixture_start();
	serve_answer("{\"ok\":true,\"name\":\"v-1\",\"ledger\":\"/l/v-1\",\"uuid\":\"GPU-9\",\"memory\":5,"
		     "\"share\":0}");
	open_node();
	CHECK_INT(vg_vgpu_enter(node, NULL,
				&(struct vg_vgpu_options){.size = sizeof(struct vg_vgpu_options), .memory = 5},
				&entrance),
		  VG_OK);
	CHECK_STR(vg_entrance_name(entrance), "v-1");
	CHECK_STR(vg_entrance_ledger(entrance), "/l/v-1");
	CHECK_INT(vg_entrance_memory(entrance), 5);
	for (int i = 0; i < 2; i++) { // the second environment replaces the first
		char **environment = vg_entrance_environment(entrance, base);
		CHECK(environment);
		CHECK_STR(find_variable(environment, "A"), "1");
		CHECK_STR(find_variable(environment, "Z"), "");
		CHECK_STR(find_variable(environment, "VIRGATE_LEDGER"), "/l/v-1");
		CHECK_STR(find_variable(environment, "VIRGATE_SIM"), "(none)");
		CHECK_STR(find_variable(environment, "CUDA_VISIBLE_DEVICES"), "GPU-9");
		snprintf(expected, sizeof expected, "%s/libvirgate-cuda.so:%s/libvirgate-nvml.so:/x/other.so",
			 STANDIN_DIR, STANDIN_DIR);
		CHECK_STR(find_variable(environment, "LD_PRELOAD"), expected);
	}
	char **alone = vg_entrance_environment(entrance, NULL);
	CHECK_STR(find_variable(alone, "VIRGATE_VGPU"), "v-1");
	vg_entrance_free(entrance);
	vg_node_close(node);
}

TEST(silent_daemon_times_out)
{
	fixture_start();
	int listener = listen_as_daemon();
	const struct vg_node_options options = {.size = sizeof options, .timeout = 1};
	CHECK_INT(vg_node_open(&options, &node), VG_OK);
	CHECK_INT(vg_node_ping(node), VG_NO_DAEMON);
	CHECK_CONTAINS(vg_last_error()->text, "did not answer within 1 s");
	vg_node_close(node);
	close(listener);
}

static void *use_node(void *unused)
{
	for (int i = 0; i < 20; i++)
		if (vg_node_ping(node) != VG_OK)
			return (void *)1;
	return NULL;
}

TEST(threads_use_one_node)
{
	pthread_t threads[8];
	void *failed;

	fixture_start();
	serve_answer("{\"ok\":true}");
	open_node();
	for (int i = 0; i < 8; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, use_node, NULL), 0);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &failed);
		CHECK(!failed);
	}
	vg_node_close(node);
}
