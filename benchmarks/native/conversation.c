#include "conversation.h"

#define TAIL_BYTES 220
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

/* A conversation of about the wanted size, with quotes, escapes and some UTF-8 in it. */
void write_conversation(const struct conversation *wanted, struct buffer *body)
{
    static const char *words[] = {
        "the ",   "quick ", "function ", "return ", "value ", "of ",       "\\\"quoted\\\" ",
        "def ",   "class ", "self.",     "import ", "token ", "response ", "router ",
        "\\n    ", "caf\xc3\xa9 ",
    };
    unsigned random = 12345;
    buffer_format(body, "{\"model\":\"%s\"", wanted->model);
    if (wanted->has_tools)
        write_tools(body);
    buffer_text(body, ",\"messages\":[{\"role\":\"system\","
                      "\"content\":\"You are a helpful coding agent.\"}");
    for (int message = 0; body->length + TAIL_BYTES < wanted->body_bytes; message++) {
        size_t begin = body->length;
        buffer_format(body, ",{\"role\":\"%s\",\"content\":\"", message % 2 ? "assistant" : "user");
        while (body->length + TAIL_BYTES < wanted->body_bytes &&
               body->length - begin < wanted->message_bytes) {
            random = random * 1103515245 + 12345;
            buffer_text(body, words[(random >> 16) & 15]);
        }
        buffer_text(body, "\"}");
    }
    buffer_format(body, "],\"max_tokens\":%ld,\"seed\":%lld,\"temperature\":0.7%s}",
                  wanted->max_tokens, wanted->seed,
                  wanted->is_stream
                      ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"
                      : "");
}
