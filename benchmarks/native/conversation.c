#include "conversation.h"

#define NUMBER_DIGITS 20
#define MESSAGE_BYTES_MIN 80
#define TURN_BYTES 200
#define TOOLS 10

/* Tools as a coding agent has them: some parameters, a few sentences on each. */
static void write_tools(struct buffer *body)
{
    static const char *names[TOOLS] = {"read_file",   "write_file", "edit_file", "list_folder",
                                       "search_code", "run_shell",  "run_tests", "fetch_page",
                                       "ask_user",    "finish"};
    buffer_text(body, ",\"tools\":[");
    for (int tool = 0; tool < TOOLS; tool++)
        buffer_format(body,
                      "%s{\"type\":\"function\",\"function\":{\"name\":\"%s\",\"description\":"
                      "\"Use this when the task needs it. Paths are relative to the project's "
                      "root. The result is text, cut after 2,000 lines. Call it again with another "
                      "offset for the rest, and say what you expect to find before you do.\","
                      "\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
                      "\"string\",\"description\":\"Which file or folder\"},\"offset\":{\"type\":"
                      "\"integer\",\"minimum\":0},\"text\":{\"type\":\"string\"}},\"required\":"
                      "[\"path\"],\"additionalProperties\":false}}}",
                      tool ? "," : "", names[tool]);
    buffer_text(body, "]");
}

/* Room for a number of 64 bits; what is put in later has leading zeros. */
static void write_place(struct numbered *numbered)
{
    if (numbered->count == NUMBERS_MAX) {
        fprintf(stderr, "more than %d messages\n", NUMBERS_MAX);
        exit(2);
    }
    numbered->places[numbered->count++] = numbered->text.length;
    buffer_append(&numbered->text, "00000000000000000000", NUMBER_DIGITS);
}

/* Words as in code and talk, with quotes, escapes and some UTF-8, until the text is so long. */
static void write_words(struct buffer *body, size_t length, unsigned *random)
{
    static const char *words[] = {
        "the ",   "quick ", "function ", "return ", "value ", "of ",       "\\\"quoted\\\" ",
        "def ",   "class ", "self.",     "import ", "token ", "response ", "router ",
        "\\n    ", "caf\xc3\xa9 ",
    };
    while (body->length < length) {
        *random = *random * 1103515245 + 12345;
        buffer_text(body, words[(*random >> 16) & 15]);
    }
}

void write_turn(const struct chat *chat, struct numbered *turn)
{
    struct buffer *text = &turn->text;
    unsigned random = 54321;
    buffer_text(text, ",{\"role\":\"user\",\"content\":\"Turn ");
    write_place(turn);
    buffer_text(text, ": ");
    write_words(text, TURN_BYTES, &random);
    buffer_format(text, "\"}],\"max_tokens\":%ld,\"seed\":%lld,\"temperature\":0.7%s}",
                  chat->max_tokens, chat->seed,
                  chat->is_stream
                      ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"
                      : "");
}

void write_history(const struct chat *chat, size_t turn_bytes, struct numbered *history)
{
    struct buffer *text = &history->text;
    unsigned random = 12345;
    size_t end = chat->body_bytes > turn_bytes ? chat->body_bytes - turn_bytes : 0;
    buffer_format(text, "{\"model\":\"%s\"", chat->model);
    if (chat->has_tools)
        write_tools(text);
    buffer_text(text, ",\"messages\":[{\"role\":\"system\","
                      "\"content\":\"You are a helpful coding agent, in conversation ");
    write_place(history);
    buffer_text(text, ".\"}");
    for (int message = 0; text->length + MESSAGE_BYTES_MIN < end; message++) {
        size_t message_end = text->length + chat->message_bytes;
        buffer_format(text, ",{\"role\":\"%s\",\"content\":\"", message % 2 ? "assistant" : "user");
        write_place(history);
        buffer_text(text, " ");
        write_words(text, message_end < end ? message_end : end, &random);
        buffer_text(text, "\"}");
    }
}

void put_number(const struct numbered *original, struct buffer *copy, unsigned long long number)
{
    char digits[NUMBER_DIGITS + 1];
    snprintf(digits, sizeof digits, "%020llu", number);
    for (size_t index = 0; index < original->count; index++)
        memcpy(copy->data + original->places[index], digits, NUMBER_DIGITS);
}
