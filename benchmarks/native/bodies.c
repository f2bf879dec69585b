#include "bodies.h"

static struct numbered history, turn;
static struct buffer *session_histories;
static long sessions;
static bool is_new;
static unsigned long long next_turn; /* no two runs have the same ones */

void bodies_prepare(const struct chat *chat, long wanted_sessions, bool each_is_new)
{
    sessions = wanted_sessions > 0 ? wanted_sessions : 1;
    is_new = each_is_new;
    write_turn(chat, &turn);
    write_history(chat, turn.text.length, &history);
    session_histories = calloc((size_t)sessions, sizeof *session_histories);
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    next_turn = (unsigned long long)time.tv_sec * 1000000000 + (unsigned long long)time.tv_nsec;
}

/* Puts a number into a copy of a text, which is made the first time. */
static void renumber(const struct numbered *original, struct buffer *copy,
                     unsigned long long number)
{
    if (!copy->length)
        buffer_append(copy, original->text.data, original->text.length);
    put_number(original, copy, number);
}

/* A session's text stays as it is: another connection may be sending it. */
static const struct buffer *history_of(long session)
{
    struct buffer *shared = &session_histories[session];
    if (!shared->length)
        renumber(&history, shared, (unsigned long long)session);
    return shared;
}

void body_next(struct body *body, long number)
{
    unsigned long long new = next_turn++;
    renumber(&turn, &body->own_turn, new);
    body->turn = &body->own_turn;
    if (is_new) {
        renumber(&history, &body->own_history, new);
        body->history = &body->own_history;
        body->session = new;
    } else {
        body->session = (unsigned long long)(number % sessions);
        body->history = history_of(number % sessions);
    }
}

size_t body_length(void)
{
    return history.text.length + turn.text.length;
}
