/* The body of a chat request: a conversation of a wanted size. */
#ifndef PENSTOCK_CONVERSATION_H
#define PENSTOCK_CONVERSATION_H

#include <stdbool.h>

#include "buffer.h"

struct conversation {
    const char *model;
    size_t body_bytes;
    size_t message_bytes; /* a message is at most this long */
    bool has_tools;       /* an agent's, in front of the messages */
    long max_tokens;
    long long seed;
    bool is_stream;
};

void write_conversation(const struct conversation *wanted, struct buffer *body);

#endif
