#include "frame.h"

#include <stdio.h>

const char *frame_read(const uint8_t *body, size_t length, const uint8_t **ret_message, size_t *ret_length)
{
	if (length < FRAME_HEAD)
		return "the request has no complete message";
	if (body[0])
		return "the message is compressed, which this plugin does not support";
	size_t told = (size_t)body[1] << 24 | (size_t)body[2] << 16 | (size_t)body[3] << 8 | body[4];
	if (told != length - FRAME_HEAD)
		return "the length of the message is not that of the request";
	*ret_message = body + FRAME_HEAD;
	*ret_length = told;
	return NULL;
}

void frame_write_head(uint8_t head[FRAME_HEAD], size_t message_length)
{
	head[0] = 0;
	for (int i = 0; i < 4; i++)
		head[1 + i] = (uint8_t)(message_length >> (24 - 8 * i));
}

void frame_write_text(const char *text, char *ret_header, size_t capacity)
{
	size_t at = 0;

	for (; *text && at + 4 <= capacity; text++) {
		unsigned char character = (unsigned char)*text;
		if (character >= ' ' && character <= '~' && character != '%')
			ret_header[at++] = *text;
		else
			at += (size_t)snprintf(ret_header + at, 4, "%%%02X", character);
	}
	ret_header[at] = '\0';
}
