#define _GNU_SOURCE
#include "answer_reader.h"

#include <stdlib.h>
#include <string.h>

void reader_reset(struct answer_reader *reader)
{
    reader->part = HEAD;
    reader->head_length = 0;
    reader->status = 0;
    reader->server_closes = false;
}

static enum progress read_head(struct answer_reader *reader)
{
    const char *head = reader->head;
    reader->status = atoi(head + 9);
    reader->server_closes = strcasestr(head, "\r\nconnection: close") != NULL;
    if (strcasestr(head, "\r\ntransfer-encoding: chunked")) {
        reader->part = CHUNK_SIZE;
        reader->left = 0;
        return GOING_ON;
    }
    const char *field = strcasestr(head, "\r\ncontent-length:");
    if (!field)
        return BROKEN;
    reader->left = atoll(field + 17);
    reader->part = SIZED_BODY;
    return reader->left == 0 ? COMPLETE : GOING_ON;
}

/* Takes bytes of the head; how many of them belonged to it. */
static size_t take_head(struct answer_reader *reader, const char *data, size_t length,
                        enum progress *progress)
{
    size_t before = reader->head_length;
    size_t room = HEAD_BYTES_MAX - 1 - before;
    size_t size = length < room ? length : room;
    memcpy(reader->head + before, data, size);
    reader->head_length += size;
    reader->head[reader->head_length] = 0;
    char *end = strstr(reader->head, "\r\n\r\n");
    if (!end) {
        *progress = size < length ? BROKEN : GOING_ON;
        return size;
    }
    end[2] = 0;
    *progress = read_head(reader);
    return (size_t)(end + 4 - reader->head) - before;
}

static int hex_digit(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 32;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Takes one byte that is not payload; what the answer has come to. */
static enum progress take_framing(struct answer_reader *reader, char byte)
{
    if (reader->part == CHUNK_SIZE && byte != '\n') {
        int digit = hex_digit(byte);
        if (digit >= 0)
            reader->left = reader->left * 16 + digit;
        return GOING_ON;
    }
    if (byte != '\n')
        return GOING_ON;
    if (reader->part == LAST_LINE)
        return COMPLETE;
    if (reader->part == CHUNK_SIZE) {
        reader->part = reader->left ? CHUNK_DATA : LAST_LINE;
    } else {
        reader->part = CHUNK_SIZE;
        reader->left = 0;
    }
    return GOING_ON;
}

enum progress reader_take(struct answer_reader *reader, const char *data, size_t length,
                          take_payload_fn *take_payload, void *owner)
{
    enum progress progress = GOING_ON;
    while (length && progress == GOING_ON) {
        size_t size = 1;
        if (reader->part == HEAD) {
            size = take_head(reader, data, length, &progress);
        } else if (reader->part == SIZED_BODY || reader->part == CHUNK_DATA) {
            size = (long long)length < reader->left ? length : (size_t)reader->left;
            take_payload(owner, data, size);
            reader->left -= (long long)size;
            if (reader->left == 0 && reader->part == SIZED_BODY)
                progress = COMPLETE;
            else if (reader->left == 0)
                reader->part = CHUNK_END;
        } else {
            progress = take_framing(reader, *data);
        }
        data += size;
        length -= size;
    }
    return progress;
}
