/*
 * An upstream that costs almost nothing: a single-threaded epoll server which answers like vLLM.
 *
 *   upstream BASE_PORT PORTS [short]
 *
 * It listens on 127.0.0.1, on PORTS ports from BASE_PORT, as so many replicas would. What it does
 * is asked for in the body, so that any proxy passes it on:
 *   "max_tokens": N           tokens in the answer
 *   "seed": U                 microseconds between streamed tokens, or before a whole answer
 *   "stream": true            server-sent events
 *   "stream_options": {…}     include_usage and continuous_usage_stats, as vLLM has them
 * Usage tells of cached tokens where the same replica has had the conversation before.
 * A streamed token's text is "T<nanoseconds> ", the monotonic time at which it was written, from
 * which the load generator tells how long it was under way. With `short` only the last three digits
 * are sent: then a text is as long as a token is in English.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buffer.h"
#include "json_peek.h"
#include "prefix_memory.h"
#include "vllm_answer.h"

#define HEAD_BYTES_MAX 65536
#define BODY_BYTES_MAX (64u << 20)
#define EVENTS_MAX 256
#define READ_BYTES 65536
#define INCOMPLETE (-1)
#define TOO_LARGE (-2)

enum state { IDLE, DELAYED, STREAMING };

struct connection {
    int fd;
    int replica; /* its port, counted from the first */
    bool is_listener;
    bool wants_write;
    bool closes_after_answer;
    enum state state;
    struct buffer in;
    struct buffer out;
    size_t out_sent;
    size_t body_expected;
    int timer_index; /* place in `timed`, or -1 */
    long long due_ns;
    long long interval_ns;
    struct answer answer;
};

static int epoll_fd;
static bool has_short_texts;
static struct connection **timed;
static int timed_count, timed_capacity;

/* Timers: an unordered list, scanned; there are never more than a few hundred. */

static void timer_add(struct connection *connection)
{
    if (connection->timer_index >= 0)
        return;
    if (timed_count == timed_capacity) {
        timed_capacity = timed_capacity ? timed_capacity * 2 : 256;
        timed = realloc(timed, (size_t)timed_capacity * sizeof *timed);
    }
    connection->timer_index = timed_count;
    timed[timed_count++] = connection;
}

static void timer_remove(struct connection *connection)
{
    if (connection->timer_index < 0)
        return;
    struct connection *last = timed[--timed_count];
    timed[connection->timer_index] = last;
    last->timer_index = connection->timer_index;
    connection->timer_index = -1;
}

/* Connections. */

static struct connection *connection_new(int fd, int replica, bool is_listener)
{
    struct connection *connection = calloc(1, sizeof *connection);
    connection->fd = fd;
    connection->replica = replica;
    connection->is_listener = is_listener;
    connection->timer_index = -1;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    return connection;
}

static void connection_free(struct connection *connection)
{
    timer_remove(connection);
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    close(connection->fd);
    free(connection->in.data);
    free(connection->out.data);
    free(connection);
}

static void watch_for_room(struct connection *connection, bool wanted)
{
    if (connection->wants_write == wanted)
        return;
    struct epoll_event event = {
        .events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN,
        .data.ptr = connection,
    };
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, connection->fd, &event);
    connection->wants_write = wanted;
}

/* Writes what is there; false if the peer is gone. */
static bool flush_output(struct connection *connection)
{
    struct buffer *out = &connection->out;
    while (connection->out_sent < out->length) {
        ssize_t sent = send(connection->fd, out->data + connection->out_sent,
                            out->length - connection->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch_for_room(connection, true);
            return true;
        }
        if (sent < 0)
            return false;
        connection->out_sent += (size_t)sent;
    }
    out->length = connection->out_sent = 0;
    watch_for_room(connection, false);
    return true;
}

/* Answers. */

static void finish_answer(struct connection *connection)
{
    if (connection->state == STREAMING)
        write_stream_end(&connection->answer, &connection->out);
    else
        write_whole_answer(&connection->answer, &connection->out);
    connection->state = IDLE;
    timer_remove(connection);
}

static long long text_number(long long written_ns)
{
    return has_short_texts ? written_ns % 1000 : written_ns;
}

static void start_stream(struct connection *connection)
{
    connection->state = STREAMING;
    write_stream_head(&connection->answer, &connection->out);
    long long now = now_ns();
    if (connection->interval_ns == 0) {
        while (connection->answer.tokens_left > 0)
            write_token(&connection->answer, &connection->out, text_number(now));
        finish_answer(connection);
        return;
    }
    write_token(&connection->answer, &connection->out, text_number(now));
    /* Streams that began together must not stay in step, or one wake-up would serve them all. */
    long long jitter = (rand() % 1000) * connection->interval_ns / 1000;
    connection->due_ns = now + connection->interval_ns + jitter;
    timer_add(connection);
}

/* Requests. */

static void answer_inference(struct connection *connection, const char *body, size_t length)
{
    struct answer *answer = &connection->answer;
    answer->tokens_left = (long)find_number(body, length, "\"max_tokens\"", 0);
    if (answer->tokens_left == 0)
        answer->tokens_left = (long)find_number(body, length, "\"max_completion_tokens\"", 16);
    answer->prompt_tokens = (long)(length / 4);
    answer->cached_tokens = take_cached(connection->replica, body, length, answer->prompt_tokens);
    connection->interval_ns = 1000 * find_number(body, length, "\"seed\"", 0);
    if (find_true(body, length, "\"stream\"")) {
        answer->include_usage = find_true(body, length, "\"include_usage\"");
        answer->continuous_usage =
            answer->include_usage && find_true(body, length, "\"continuous_usage_stats\"");
        start_stream(connection);
    } else if (connection->interval_ns == 0) {
        finish_answer(connection);
    } else {
        connection->state = DELAYED;
        connection->due_ns = now_ns() + connection->interval_ns;
        timer_add(connection);
    }
}

static bool has_known_method(const char *head)
{
    return !strncmp(head, "POST", 4) || !strncmp(head, "GET ", 4) || !strncmp(head, "HEAD", 4);
}

/* The length of the body, or INCOMPLETE or TOO_LARGE. `head` ends in a zero here. */
static ssize_t body_length(struct connection *connection, const char *head, size_t head_length)
{
    size_t received = connection->in.length - head_length;
    if (strcasestr(head, "\r\ntransfer-encoding: chunked")) {
        const char *end = connection->in.data + connection->in.length - 5;
        return received >= 5 && !memcmp(end, "0\r\n\r\n", 5) ? (ssize_t)received : INCOMPLETE;
    }
    const char *field = strcasestr(head, "\r\ncontent-length:");
    size_t length = field ? strtoul(field + 17, NULL, 10) : 0;
    if (length > BODY_BYTES_MAX)
        return TOO_LARGE;
    if (received >= length)
        return (ssize_t)length;
    if (received == 0 && strcasestr(head, "\r\nexpect: 100"))
        buffer_text(&connection->out, "HTTP/1.1 100 Continue\r\n\r\n");
    connection->body_expected = length;
    return INCOMPLETE;
}

/* Answers 400 and lets the connection end; all that was received is taken. */
static size_t refuse(struct connection *connection, const char *why)
{
    connection->closes_after_answer = true;
    write_page(&connection->out, 400, "text/plain", why);
    return connection->in.length;
}

/* Answers the request at the front of the input; the bytes it took, or 0 if it is not complete. */
static size_t take_request(struct connection *connection)
{
    struct buffer *in = &connection->in;
    size_t searched = in->length < HEAD_BYTES_MAX ? in->length : HEAD_BYTES_MAX;
    char *end = searched ? memmem(in->data, searched, "\r\n\r\n", 4) : NULL;
    if (in->length >= 4 && !has_known_method(in->data))
        return refuse(connection, "bad request");
    if (!end)
        return searched == HEAD_BYTES_MAX ? refuse(connection, "head too large") : 0;
    size_t head_length = (size_t)(end - in->data) + 4;
    *end = 0;
    ssize_t length = body_length(connection, in->data, head_length);
    if (strcasestr(in->data, "\r\nconnection: close"))
        connection->closes_after_answer = true;
    bool is_post = !strncmp(in->data, "POST", 4);
    *end = '\r';
    if (length == TOO_LARGE)
        return refuse(connection, "body too large");
    if (length == INCOMPLETE) {
        buffer_reserve(in, connection->body_expected);
        return 0;
    }
    char path[256] = "";
    sscanf(in->data, "%*s %255s", path);
    if (is_post)
        answer_inference(connection, in->data + head_length, (size_t)length);
    else
        write_page_at(&connection->out, path);
    return head_length + (size_t)length;
}

/* Reads what is there; false if the peer is gone. */
static bool read_input(struct connection *connection)
{
    struct buffer *in = &connection->in;
    for (;;) {
        buffer_reserve(in, READ_BYTES);
        size_t room = in->capacity - in->length - 1;
        ssize_t received = recv(connection->fd, in->data + in->length, room, 0);
        if (received == 0)
            return false;
        if (received < 0)
            return errno == EAGAIN;
        in->length += (size_t)received;
        in->data[in->length] = 0;
        if ((size_t)received < room)
            return true;
    }
}

/* Whether the last answer is out and the connection was to end after it. */
static bool is_over(const struct connection *connection)
{
    return connection->closes_after_answer && connection->state == IDLE &&
           connection->out.length == 0;
}

static bool serve(struct connection *connection, unsigned events)
{
    if ((events & EPOLLOUT) && !flush_output(connection))
        return false;
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return !is_over(connection);
    if (!read_input(connection))
        return false;
    if (connection->state == IDLE) {
        size_t taken = take_request(connection);
        if (taken)
            buffer_consume(&connection->in, taken);
        if (!flush_output(connection))
            return false;
    }
    return !is_over(connection);
}

static void accept_all(struct connection *listener)
{
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0)
            return;
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connection_new(fd, listener->replica, false);
    }
}

/* Sends what is due on one connection; false if the connection is over. */
static bool step(struct connection *connection, long long now)
{
    struct answer *answer = &connection->answer;
    if (connection->state == STREAMING && answer->tokens_left > 0)
        write_token(answer, &connection->out, text_number(now));
    connection->due_ns += connection->interval_ns;
    if (connection->due_ns < now)
        connection->due_ns = now;
    if (connection->state == DELAYED || answer->tokens_left <= 0)
        finish_answer(connection);
    return flush_output(connection) && !is_over(connection);
}

static void run_timers(void)
{
    long long now = now_ns();
    for (int index = 0; index < timed_count;) {
        struct connection *connection = timed[index];
        if (connection->due_ns <= now && !step(connection, now))
            connection_free(connection);
        /* If the timer is gone, another has taken its place. */
        if (index < timed_count && timed[index] == connection)
            index++;
    }
}

/* How long to wait for events: until the first timer, or for ever. */
static struct timespec *wait_time(struct timespec *wait)
{
    if (timed_count == 0)
        return NULL;
    long long first = timed[0]->due_ns;
    for (int index = 1; index < timed_count; index++)
        if (timed[index]->due_ns < first)
            first = timed[index]->due_ns;
    long long left = first - now_ns();
    if (left < 0)
        left = 0;
    wait->tv_sec = left / 1000000000;
    wait->tv_nsec = left % 1000000000;
    return wait;
}

static int listen_on(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((unsigned short)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024)) {
        perror("listen");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: upstream BASE_PORT PORTS [short]\n");
        return 2;
    }
    has_short_texts = argc == 4;
    signal(SIGPIPE, SIG_IGN);
    epoll_fd = epoll_create1(0);
    for (int index = 0; index < atoi(argv[2]); index++)
        connection_new(listen_on(atoi(argv[1]) + index), index, true);
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        struct timespec wait;
        int count = epoll_pwait2(epoll_fd, events, EVENTS_MAX, wait_time(&wait), NULL);
        for (int index = 0; index < count; index++) {
            struct connection *connection = events[index].data.ptr;
            if (connection->is_listener)
                accept_all(connection);
            else if (!serve(connection, events[index].events))
                connection_free(connection);
        }
        run_timers();
    }
}
