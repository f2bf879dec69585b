/*
 * The body of a chat request in two parts: the conversation so far, and a last message with what
 * is asked for. A number stands in each message, so that a text is written once and made another
 * by putting in other numbers.
 */
#ifndef PENSTOCK_CONVERSATION_H
#define PENSTOCK_CONVERSATION_H

#include <stdbool.h>

#include "buffer.h"

#define NUMBERS_MAX 4096

struct chat {
    const char *model;
    size_t body_bytes;    /* of both parts, about */
    size_t message_bytes; /* a message is at most about this long */
    bool has_tools;       /* an agent's, in front of the messages */
    long max_tokens;
    long long seed;
    bool is_stream;
};

struct numbered {
    struct buffer text;
    size_t places[NUMBERS_MAX]; /* where the numbers are */
    size_t count;
};

/* The last message and what follows the messages; its number is the turn's. */
void write_turn(const struct chat *chat, struct numbered *turn);

/* All before the last message, to go before so many bytes; its numbers are the conversation's. */
void write_history(const struct chat *chat, size_t turn_bytes, struct numbered *history);

/* Puts a number into all places of a copy of the text. */
void put_number(const struct numbered *original, struct buffer *copy, unsigned long long number);

#endif
