// Reads and writes gRPC's frames inside HTTP/2. A frame is a byte that says whether the message is compressed, four
// bytes with its length, and the message. Any thread. Source:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEAD = 5 };

// The status codes of gRPC that this program sends.
enum rpc_status {
	RPC_OK = 0,
	RPC_INVALID_ARGUMENT = 3,
	RPC_NOT_FOUND = 5,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
};

// Finds the only message in the body of a request. Returns NULL, or a text that says why the body is invalid.
const char *frame_read(const uint8_t *body, size_t length, const uint8_t **ret_message, size_t *ret_length);
void frame_write_head(uint8_t head[FRAME_HEAD], size_t message_length);
// Converts a text for the header grpc-message: all bytes that are not printable ASCII become %XX. Truncates the text if
// it does not fit.
void frame_write_text(const char *text, char *ret_header, size_t capacity);
