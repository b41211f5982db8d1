// Checks that objects used by graph nodes live as long as a graph or a launch can use them. Checks also that they are
// released on the program's threads, not on the driver's.
#include "graph_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

// A buffer that counts how often its memory was released, and notes the thread of the last release.
struct witness {
	atomic_int dropped;
	pthread_t by;
	struct vg_buffer *buffer;
};

static void drop(void *owner)
{
	struct witness *witness = owner;

	witness->by = pthread_self();
	witness->dropped++;
}

static void witness_open(struct witness *witness, vg_address address)
{
	OK(vg_buffer_borrow(address, 16,
			    &(struct vg_buffer_borrow_options){
				    .size = sizeof(struct vg_buffer_borrow_options), .owner = witness, .release = drop},
			    &witness->buffer));
}

// Adds a node that sets a byte, and has the only reference to the witness.
static void add_witness(struct vg_graph_definition *definition, vg_address byte, unsigned value,
			struct witness *witness)
{
	witness_open(witness, byte);
	OK(vg_graph_add_memset(
		definition, NULL, 0,
		MEMSET(.destination = byte, .value = value, .width = 1, .destination_buffer = witness->buffer), NULL));
	vg_buffer_destroy(witness->buffer);
}

struct gate {
	sem_t reached, open;
};

static void pass_gate(void *data)
{
	struct gate *gate = *(struct gate **)data;

	sem_post(&gate->reached);
	sem_wait(&gate->open);
}

static struct vg_graph_node *add_gate(struct bench *bench, struct gate *gate)
{
	struct vg_graph_node *node;

	sem_init(&gate->reached, 0, 0);
	sem_init(&gate->open, 0, 0);
	OK(vg_graph_add_callback(bench->definition, NULL, 0, pass_gate, &gate, sizeof gate, &node));
	return node;
}

// Creates and destroys a graph definition. Each library call for graphs releases the objects that the driver has
// dropped, so any such call would do.
static void release_dropped(struct bench *bench)
{
	struct vg_graph_definition *definition;

	OK(vg_graph_definition_create(bench->context, &definition));
	vg_graph_definition_destroy(definition);
}

// Waits until the driver has dropped the objects, which it does with a delay.
static int wait_for_drop(struct bench *bench, struct witness *witness)
{
	for (int i = 0; i < 1000 && !witness->dropped; i++) {
		usleep(1000);
		release_dropped(bench);
	}
	return witness->dropped;
}

TEST(a_running_launch_keeps_its_objects)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness = {0};
	struct vg_graph *graph;
	struct gate gate;

	witness_open(&witness, word);
	struct vg_graph_node *first = add_gate(&bench, &gate);
	OK(vg_graph_add_memset(
		bench.definition, &first, 1,
		MEMSET(.destination = word, .value = 5, .width = 16, .destination_buffer = witness.buffer), NULL));
	vg_buffer_destroy(witness.buffer);
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	OK(vg_graph_definition_close(bench.definition));
	CHECK_INT(witness.dropped, 0); // the executable graph keeps the buffer
	OK(vg_graph_launch(graph, bench.stream));
	sem_wait(&gate.reached);
	vg_graph_destroy(graph);
	release_dropped(&bench);
	CHECK_INT(witness.dropped, 0); // the launch keeps the buffer
	sem_post(&gate.open);
	OK(vg_stream_sync(bench.stream));
	CHECK_INT(wait_for_drop(&bench, &witness), 1);
	CHECK(pthread_equal(witness.by, pthread_self()));
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(a_removed_node_releases_its_objects)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness[2] = {{0}};
	struct vg_graph_node *node;

	witness_open(&witness[0], word);
	witness_open(&witness[1], word);
	OK(vg_graph_add_memcpy(bench.definition, NULL, 0,
			       MEMCPY(.destination = word, .source = word + 8, .bytes = 4,
				      .destination_buffer = witness[0].buffer, .source_buffer = witness[1].buffer),
			       &node));
	for (int i = 0; i < 2; i++)
		vg_buffer_destroy(witness[i].buffer);
	struct vg_graph_memcpy read;
	OK(vg_graph_node_get_memcpy(node, &read));
	CHECK(read.destination_buffer == witness[0].buffer && read.source_buffer == witness[1].buffer);
	CHECK_INT(witness[0].dropped + witness[1].dropped, 0);
	OK(vg_graph_node_remove(node));
	CHECK(wait_for_drop(&bench, &witness[0]) == 1 && wait_for_drop(&bench, &witness[1]) == 1);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(a_refused_change_keeps_the_old_objects)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness old = {0}, new = {0};
	struct vg_graph_node *node;

	witness_open(&old, word);
	witness_open(&new, word);
	OK(vg_graph_add_memset(bench.definition, NULL, 0,
			       MEMSET(.destination = word, .width = 1, .destination_buffer = old.buffer), &node));
	vg_buffer_destroy(old.buffer);
	struct vg_buffer *kept = new.buffer;
	CHECK_INT(vg_graph_node_set_memset(node, MEMSET(.destination = 1, .width = 1, .destination_buffer = kept)),
		  VG_DRIVER);
	CHECK_INT(vg_graph_add_memset(bench.definition, NULL, 0,
				      MEMSET(.destination = 1, .width = 1, .destination_buffer = kept), NULL),
		  VG_DRIVER);
	vg_buffer_destroy(new.buffer);
	CHECK(wait_for_drop(&bench, &new) == 1 && old.dropped == 0);
	OK(vg_graph_node_set_memset(node, MEMSET(.destination = word, .width = 2)));
	CHECK_INT(wait_for_drop(&bench, &old), 1);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(old_objects_of_a_changed_node_are_kept_until_launches_end)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness[3] = {{0}};
	struct vg_graph_node *set;
	struct vg_graph *graph;
	struct gate gate;

	struct vg_graph_node *first = add_gate(&bench, &gate);
	OK(vg_graph_add_memset(bench.definition, &first, 1, MEMSET(.destination = word, .width = 16), &set));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	for (int i = 0; i < 3; i++) {
		witness_open(&witness[i], word);
		OK(vg_graph_set_memset(graph, set,
				       MEMSET(.destination = word, .value = 1 + i, .width = 16,
					      .destination_buffer = witness[i].buffer)));
		vg_buffer_destroy(witness[i].buffer);
		if (i == 1) {
			// No launch uses the first buffer, so replacing the memset has released it.
			CHECK_INT(witness[0].dropped, 1);
			OK(vg_graph_launch(graph, bench.stream));
			sem_wait(&gate.reached);
		}
	}
	CHECK_INT(witness[1].dropped, 0); // still running
	sem_post(&gate.open);
	OK(vg_stream_sync(bench.stream));
	OK(vg_graph_set_memset(graph, set, MEMSET(.destination = word, .width = 16)));
	CHECK(witness[1].dropped == 1 && witness[2].dropped == 1);
	vg_graph_destroy(graph);
	free_words(bench.context, word);
	bench_close(&bench);
}

static void *open_later(void *gate)
{
	usleep(20000);
	sem_post(&((struct gate *)gate)->open);
	return NULL;
}

TEST(destroying_a_changed_executable_waits_for_its_launch)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness = {0};
	struct vg_graph_node *set;
	struct vg_graph *graph;
	struct gate gate;
	pthread_t thread;
	unsigned char seen = 0;

	struct vg_graph_node *first = add_gate(&bench, &gate);
	OK(vg_graph_add_memset(bench.definition, &first, 1, MEMSET(.destination = word, .width = 16), &set));
	OK(vg_graph_definition_instantiate(bench.definition, NULL, &graph));
	witness_open(&witness, word);
	OK(vg_graph_set_memset(
		graph, set,
		MEMSET(.destination = word, .value = 9, .width = 16, .destination_buffer = witness.buffer)));
	vg_buffer_destroy(witness.buffer);
	OK(vg_graph_launch(graph, bench.stream));
	sem_wait(&gate.reached);
	CHECK_INT(pthread_create(&thread, NULL, open_later, &gate), 0);
	vg_graph_destroy(graph);
	CHECK_INT(witness.dropped, 1);
	read_words(bench.context, &seen, word, 1);
	CHECK_INT(seen, 9);
	pthread_join(thread, NULL);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(a_new_child_of_an_executable_is_kept)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness = {0};
	struct vg_graph_definition *child;
	struct vg_graph_node *node;
	unsigned char seen = 0;

	OK(vg_graph_definition_create(bench.context, &child));
	OK(vg_graph_add_memset(child, NULL, 0, MEMSET(.destination = word, .value = 3, .width = 1), NULL));
	OK(vg_graph_add_child(bench.definition, NULL, 0, child, &node));
	vg_graph_definition_destroy(child);
	struct vg_graph *graph = bench_run(&bench);
	OK(vg_graph_definition_create(bench.context, &child));
	add_witness(child, word, 4, &witness);
	OK(vg_graph_set_child(graph, node, child));
	vg_graph_definition_destroy(child);
	release_dropped(&bench);
	CHECK_INT(witness.dropped, 0);
	launch_and_wait(&bench, graph);
	read_words(bench.context, &seen, word, 1);
	CHECK_INT(seen, 4);
	CHECK_INT(witness.dropped, 0);
	vg_graph_destroy(graph);
	CHECK_INT(wait_for_drop(&bench, &witness), 1);
	free_words(bench.context, word);
	bench_close(&bench);
}

TEST(an_invalidated_capture_releases_its_objects)
{
	struct bench bench = bench_open();
	vg_address word = words(bench.context, 16);
	struct witness witness = {0};
	struct vg_graph_definition *child;
	struct vg_graph_builder *builder;

	OK(vg_graph_definition_create(bench.context, &child));
	add_witness(child, word, 3, &witness);
	OK(vg_graph_builder_create_on(bench.stream, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_RELAXED));
	OK(vg_graph_builder_embed_definition(builder, child));
	vg_graph_definition_destroy(child);
	release_dropped(&bench);
	CHECK_INT(witness.dropped, 0);
	CHECK_INT(vg_stream_sync(bench.stream), VG_DRIVER);
	CHECK_INT(vg_graph_builder_end(builder), VG_DRIVER);
	CHECK_INT(wait_for_drop(&bench, &witness), 1); // the driver destroyed the graph, and drops the buffer
	vg_graph_builder_destroy(builder);
	OK(vg_stream_sync(bench.stream));
	free_words(bench.context, word);
	bench_close(&bench);
}
