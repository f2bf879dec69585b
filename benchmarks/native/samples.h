/* Latencies and their quantiles. */
#ifndef PENSTOCK_SAMPLES_H
#define PENSTOCK_SAMPLES_H

#include <stddef.h>

/* More than this are not kept. */
#define SAMPLES_MAX 8000000u

struct samples {
    long long *values; /* nanoseconds */
    size_t count;
    size_t capacity;
};

void samples_add(struct samples *samples, long long value);

/* Sorts them, and prints `"name_us":{…},` in microseconds; -1 if there are none. */
void samples_print(struct samples *samples, const char *name);

#endif
