#include "samples.h"

#include <stdio.h>
#include <stdlib.h>

void samples_add(struct samples *samples, long long value)
{
    if (samples->count >= SAMPLES_MAX)
        return;
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity ? samples->capacity * 2 : 65536;
        samples->values = realloc(samples->values, samples->capacity * sizeof *samples->values);
    }
    samples->values[samples->count++] = value;
}

static int compare(const void *left, const void *right)
{
    long long a = *(const long long *)left, b = *(const long long *)right;
    return a < b ? -1 : a > b;
}

/* Microseconds at a share of the sorted samples, or -1 if there are none. */
static double quantile(const struct samples *samples, double share)
{
    if (samples->count == 0)
        return -1;
    return (double)samples->values[(size_t)(share * (double)(samples->count - 1))] / 1000.0;
}

void samples_print(struct samples *samples, const char *name)
{
    if (samples->count)
        qsort(samples->values, samples->count, sizeof *samples->values, compare);
    printf("\"%s_us\":{\"p10\":%.1f,\"p50\":%.1f,\"p95\":%.1f,\"p99\":%.1f},", name,
           quantile(samples, 0.1), quantile(samples, 0.5), quantile(samples, 0.95),
           quantile(samples, 0.99));
}
