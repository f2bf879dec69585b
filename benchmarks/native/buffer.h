/* A byte buffer that grows, shared by the upstream and the load generator. */
#ifndef PENSTOCK_BUFFER_H
#define PENSTOCK_BUFFER_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

/* Makes room for `more` bytes and a closing zero. */
static inline void buffer_reserve(struct buffer *buffer, size_t more)
{
    size_t wanted = buffer->length + more + 1;
    if (wanted <= buffer->capacity)
        return;
    size_t capacity = buffer->capacity ? buffer->capacity : 4096;
    while (capacity < wanted)
        capacity *= 2;
    buffer->data = realloc(buffer->data, capacity);
    if (!buffer->data) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    buffer->capacity = capacity;
}

static inline void buffer_append(struct buffer *buffer, const char *data, size_t length)
{
    buffer_reserve(buffer, length);
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    buffer->data[buffer->length] = 0;
}

static inline void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

__attribute__((format(printf, 2, 3)))
static inline void buffer_format(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    buffer_reserve(buffer, (size_t)length);
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
}

/* Drops the first `count` bytes. */
static inline void buffer_consume(struct buffer *buffer, size_t count)
{
    memmove(buffer->data, buffer->data + count, buffer->length - count);
    buffer->length -= count;
    if (buffer->data)
        buffer->data[buffer->length] = 0;
}

static inline long long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

#endif
