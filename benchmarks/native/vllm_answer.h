/* The answers of the upstream: vLLM's bytes, written into an output buffer. */
#ifndef PENSTOCK_VLLM_ANSWER_H
#define PENSTOCK_VLLM_ANSWER_H

#include <stdbool.h>

#include "buffer.h"

struct answer {
    long tokens_left;
    long tokens_sent;
    long prompt_tokens;
    long cached_tokens;
    bool include_usage;
    bool continuous_usage;
};

void write_page(struct buffer *out, int status, const char *type, const char *body);
/* What a router asks for before it sends work: models, server info, metrics, version, health. */
void write_page_at(struct buffer *out, const char *path);

void write_whole_answer(const struct answer *answer, struct buffer *out);

/* A stream is its head, then tokens until none is left, then its end. */
void write_stream_head(struct answer *answer, struct buffer *out);
void write_token(struct answer *answer, struct buffer *out, long long written_ns);
void write_stream_end(const struct answer *answer, struct buffer *out);

#endif
