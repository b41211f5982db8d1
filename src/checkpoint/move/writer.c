#include "checkpoint/move/writer.h"

#include "base/descriptor.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PIECES = 8 };

struct piece {
	unsigned char *buffer; // NULL: not allocated yet
	size_t skip, bytes;
	off_t offset;
	int fd;
};

struct writer {
	size_t capacity;
	pthread_t thread;
	pthread_mutex_t lock; // protects the members below
	pthread_cond_t changed;
	struct piece pieces[PIECES]; // a ring
	size_t put, written;	     // number of pieces so far; pieces from `written` on are to be written
	size_t unwritten;	     // bytes of these pieces
	bool ends;
	int error; // -errno of the first error; 0: none
};

static void *write_pieces(void *user)
{
	struct writer *writer = user;

	pthread_mutex_lock(&writer->lock);
	for (;;) {
		while (writer->put == writer->written && !writer->ends)
			pthread_cond_wait(&writer->changed, &writer->lock);
		if (writer->ends)
			break;
		const struct piece piece = writer->pieces[writer->written % PIECES];
		bool failed = writer->error != 0;
		pthread_mutex_unlock(&writer->lock);
		int r = failed ? 0 : vg_write_all(piece.fd, piece.buffer + piece.skip, piece.bytes, piece.offset);
		pthread_mutex_lock(&writer->lock);
		if (r && !writer->error)
			writer->error = r;
		writer->written++;
		writer->unwritten -= piece.bytes;
		pthread_cond_broadcast(&writer->changed);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

int writer_start(size_t capacity, struct writer **ret_writer)
{
	struct writer *writer = calloc(1, sizeof *writer);

	if (!writer)
		return -ENOMEM;
	writer->capacity = capacity;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	int error = pthread_create(&writer->thread, NULL, write_pieces, writer);
	if (error) {
		pthread_cond_destroy(&writer->changed);
		pthread_mutex_destroy(&writer->lock);
		free(writer);
		return -error;
	}
	*ret_writer = writer;
	return 0;
}

int writer_put(struct writer *writer, int fd, unsigned char **buffer, size_t skip, size_t bytes, off_t offset)
{
	pthread_mutex_lock(&writer->lock);
	while (writer->put - writer->written == PIECES)
		pthread_cond_wait(&writer->changed, &writer->lock);
	struct piece *piece = &writer->pieces[writer->put % PIECES];
	unsigned char *other = piece->buffer ? piece->buffer : malloc(writer->capacity);
	int r = other ? writer->error : -ENOMEM;
	if (r == 0) {
		*piece = (struct piece){*buffer, skip, bytes, offset, fd};
		*buffer = other;
		writer->put++;
		writer->unwritten += bytes;
		pthread_cond_broadcast(&writer->changed);
	} else {
		piece->buffer = other;
	}
	pthread_mutex_unlock(&writer->lock);
	return r;
}

int writer_flush(struct writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	while (writer->put != writer->written)
		pthread_cond_wait(&writer->changed, &writer->lock);
	int r = writer->error;
	pthread_mutex_unlock(&writer->lock);
	return r;
}

size_t writer_unwritten(struct writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	size_t bytes = writer->unwritten;
	pthread_mutex_unlock(&writer->lock);
	return bytes;
}

void writer_end(struct writer *writer)
{
	if (!writer)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->ends = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	for (int i = 0; i < PIECES; i++)
		free(writer->pieces[i].buffer);
	pthread_cond_destroy(&writer->changed);
	pthread_mutex_destroy(&writer->lock);
	free(writer);
}
