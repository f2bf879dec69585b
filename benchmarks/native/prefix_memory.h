/*
 * Which conversations a replica has seen, so that it can say how much of a prompt it had cached, as
 * an engine would whose cache keeps them all. Bounded: one conversation may take another's place.
 */
#ifndef PENSTOCK_PREFIX_MEMORY_H
#define PENSTOCK_PREFIX_MEMORY_H

#include "json_peek.h"

#define SEEN_MAX (1u << 18)
#define BLOCK_TOKENS 16
#define TURN_TOKENS 64 /* about what conversation.c's last message and the rest come to */

/* Tokens of a prompt that the replica had cached; from now on it has them all. */
static inline long take_cached(int replica, const char *body, size_t length, long prompt_tokens)
{
    static unsigned long long seen[SEEN_MAX];
    long long number = find_number(body, length, "conversation ", -1);
    if (number < 0)
        return 0;
    /* Sessions of another kind of traffic have the same numbers, and other lengths. */
    unsigned long long kind = (unsigned long long)length >> 13;
    unsigned long long key = ((unsigned long long)number * 256 + (unsigned)replica) * 4096 + kind;
    key = (key + 1) * 0x9e3779b97f4a7c15ULL;
    unsigned long long *place = &seen[key >> 46];
    bool is_known = *place == key;
    *place = key;
    long known_tokens = is_known ? prompt_tokens - TURN_TOKENS : 0;
    return known_tokens > 0 ? known_tokens / BLOCK_TOKENS * BLOCK_TOKENS : 0;
}

#endif
