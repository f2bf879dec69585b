#include "vllm_answer.h"

static const char CHUNK_HEAD[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
    "\"created\":1700000000,\"model\":\"m\",\"choices\":[";

static const char MODELS[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":1700000000,"
    "\"owned_by\":\"vllm\",\"root\":\"m\",\"parent\":null,\"max_model_len\":1000000}]}";

static const char SERVER_INFO[] =
    "{\"model_path\":\"m\",\"model_id\":\"m\",\"served_model_name\":\"m\","
    "\"tokenizer_path\":\"m\",\"is_generation\":true,\"tp_size\":1,\"dp_size\":1,"
    "\"version\":\"0.32.0\"}";

static const char METRICS[] =
    "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0.0\n"
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0.0\n"
    "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.0\n"
    "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"65536\"} 1.0\n";

void write_page(struct buffer *out, int status, const char *type, const char *body)
{
    buffer_format(out,
                  "HTTP/1.1 %d %s\r\nserver: uvicorn\r\ncontent-length: %zu\r\n"
                  "content-type: %s\r\n\r\n%s",
                  status, status == 200 ? "OK" : "Bad Request", strlen(body), type, body);
}

void write_page_at(struct buffer *out, const char *path)
{
    if (strstr(path, "models"))
        write_page(out, 200, "application/json", MODELS);
    else if (strstr(path, "info"))
        write_page(out, 200, "application/json", SERVER_INFO);
    else if (strstr(path, "metrics"))
        write_page(out, 200, "text/plain; version=0.0.4", METRICS);
    else if (strstr(path, "version"))
        write_page(out, 200, "application/json", "{\"version\":\"0.32.0\"}");
    else
        write_page(out, 200, "application/json", "{}");
}

/* Sends an event as one chunk of the transfer coding. */
static void frame_event(struct buffer *out, const struct buffer *event)
{
    buffer_format(out, "%zx\r\n", event->length);
    buffer_append(out, event->data, event->length);
    buffer_text(out, "\r\n");
}

static void append_running_usage(const struct answer *answer, struct buffer *event)
{
    if (!answer->continuous_usage)
        return;
    buffer_format(event,
                  ",\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
                  "\"completion_tokens\":%ld,\"completion_tokens_details\":null}",
                  answer->prompt_tokens,
                  answer->prompt_tokens + answer->tokens_sent, answer->tokens_sent);
}

/* One event with a choice in it; `choice` is its JSON, and `tail` what follows the usage. */
static void write_choice_event(const struct answer *answer, struct buffer *out,
                               const char *choice, const char *tail)
{
    static struct buffer event;
    event.length = 0;
    buffer_append(&event, CHUNK_HEAD, sizeof CHUNK_HEAD - 1);
    buffer_text(&event, choice);
    buffer_text(&event, "]");
    append_running_usage(answer, &event);
    buffer_text(&event, tail);
    buffer_text(&event, "}\n\n");
    frame_event(out, &event);
}

static void write_role(const struct answer *answer, struct buffer *out)
{
    write_choice_event(answer, out,
                       "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                       "\"logprobs\":null,\"finish_reason\":null}",
                       ",\"prompt_token_ids\":null,\"prompt_text\":null");
}

void write_token(struct answer *answer, struct buffer *out, long long written_ns)
{
    char choice[256];
    answer->tokens_sent++;
    answer->tokens_left--;
    snprintf(choice, sizeof choice,
             "{\"index\":0,\"delta\":{\"content\":\"T%lld \"},\"logprobs\":null,"
             "\"finish_reason\":%s,\"token_ids\":null}",
             written_ns,
             answer->tokens_left > 0 ? "null" : "\"length\",\"stop_reason\":null");
    bool is_last_chunk = answer->tokens_left <= 0 && !answer->include_usage;
    write_choice_event(answer, out, choice,
                       is_last_chunk ? ",\"system_fingerprint\":\"vllm-0.32.0\"" : "");
}

static void write_usage_event(const struct answer *answer, struct buffer *out)
{
    static struct buffer event;
    event.length = 0;
    buffer_append(&event, CHUNK_HEAD, sizeof CHUNK_HEAD - 1);
    buffer_format(&event,
                  "],\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
                  "\"completion_tokens\":%ld,\"prompt_tokens_details\":{\"cached_tokens\":%ld,"
                  "\"created_cache_tokens\":0}},\"system_fingerprint\":\"vllm-0.32.0\"}\n\n",
                  answer->prompt_tokens,
                  answer->prompt_tokens + answer->tokens_sent, answer->tokens_sent,
                  answer->cached_tokens);
    frame_event(out, &event);
}

void write_stream_end(const struct answer *answer, struct buffer *out)
{
    if (answer->include_usage)
        write_usage_event(answer, out);
    buffer_text(out, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

void write_stream_head(struct answer *answer, struct buffer *out)
{
    buffer_text(out, "HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\nserver: uvicorn\r\n"
                     "content-type: text/event-stream; charset=utf-8\r\n"
                     "transfer-encoding: chunked\r\n\r\n");
    answer->tokens_sent = 0;
    write_role(answer, out);
}

void write_whole_answer(const struct answer *answer, struct buffer *out)
{
    char body[2048];
    long tokens = answer->tokens_left;
    int length = snprintf(
        body, sizeof body,
        "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\","
        "\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{"
        "\"role\":\"assistant\",\"content\":\"Lorem ipsum dolor sit amet, consectetur adipiscing "
        "elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.\","
        "\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,"
        "\"reasoning\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null,"
        "\"token_ids\":null,\"routed_experts\":null}],\"service_tier\":null,"
        "\"system_fingerprint\":\"vllm-0.32.0\",\"usage\":{\"prompt_tokens\":%ld,"
        "\"total_tokens\":%ld,\"completion_tokens\":%ld,\"prompt_tokens_details\":{"
        "\"cached_tokens\":%ld,\"created_cache_tokens\":0,\"multimodal_tokens\":null},"
        "\"completion_tokens_details\":null},\"prompt_logprobs\":null,"
        "\"prompt_token_ids\":null,\"prompt_text\":null,\"kv_transfer_params\":null,"
        "\"ec_transfer_params\":null,\"metrics\":null}",
        answer->prompt_tokens, answer->prompt_tokens + tokens, tokens, answer->cached_tokens);
    buffer_format(out,
                  "HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\nserver: uvicorn\r\n"
                  "content-length: %d\r\ncontent-type: application/json\r\n\r\n",
                  length);
    buffer_append(out, body, (size_t)length);
}
