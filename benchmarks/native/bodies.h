/* The bodies that a load generator sends: no two are equal, and those of a session begin alike. */
#ifndef PENSTOCK_BODIES_H
#define PENSTOCK_BODIES_H

#include "conversation.h"

struct body {
    const struct buffer *history; /* its session's, or its own if each is new */
    const struct buffer *turn;
    unsigned long long session;
    struct buffer own_history, own_turn;
};

/* Writes the texts once. A conversation for each of `sessions`, or a new one for each request. */
void bodies_prepare(const struct chat *chat, long sessions, bool is_new);

/* Makes the next body of the `number`th session's; only numbers are written anew. */
void body_next(struct body *body, long number);

/* How long every body is. */
size_t body_length(void);

#endif
