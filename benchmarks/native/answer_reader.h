/* Reads an HTTP/1.1 answer as it arrives, and hands on its payload. */
#ifndef PENSTOCK_ANSWER_READER_H
#define PENSTOCK_ANSWER_READER_H

#include <stdbool.h>
#include <stddef.h>

#define HEAD_BYTES_MAX 16384

enum part { HEAD, SIZED_BODY, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, LAST_LINE };
enum progress { GOING_ON, COMPLETE, BROKEN };

struct answer_reader {
    enum part part;
    char head[HEAD_BYTES_MAX];
    size_t head_length;
    int status;
    bool server_closes;
    long long left; /* of the sized body, or of the chunk */
};

typedef void take_payload_fn(void *owner, const char *data, size_t length);

/* Makes it ready for the next answer. */
void reader_reset(struct answer_reader *reader);

/* Takes bytes that arrived, and says what the answer has come to. */
enum progress reader_take(struct answer_reader *reader, const char *data, size_t length,
                          take_payload_fn *take_payload, void *owner);

#endif
