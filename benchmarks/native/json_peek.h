/* Looks for a key's value in a JSON text without reading it all; enough for our own requests. */
#ifndef PENSTOCK_JSON_PEEK_H
#define PENSTOCK_JSON_PEEK_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The number after `key` in a JSON text, or `otherwise`. */
static inline long long find_number(const char *body, size_t length, const char *key,
                                    long long otherwise)
{
    const char *at = memmem(body, length, key, strlen(key));
    if (!at)
        return otherwise;
    at += strlen(key);
    at += strspn(at, " :");
    char *end;
    long long value = strtoll(at, &end, 10);
    return end == at ? otherwise : value;
}

/* Whether `key` is followed by true in a JSON text. */
static inline bool find_true(const char *body, size_t length, const char *key)
{
    const char *at = memmem(body, length, key, strlen(key));
    if (!at)
        return false;
    at += strlen(key);
    at += strspn(at, " :");
    return strncmp(at, "true", 4) == 0;
}

#endif
