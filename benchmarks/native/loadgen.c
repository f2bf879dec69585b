/*
 * A closed-loop HTTP/1.1 load generator for chat completions: each connection sends its next
 * request when the last answer is complete. Prints one line of JSON. Exits 1 if any request
 * failed, was cut, had wrong usage, or was unfinished.
 *
 *   loadgen -p PORT -c CONNECTIONS -d SECONDS [-n REQUESTS_MAX] [-b BODY_BYTES] [-l MESSAGE_BYTES]
 *           [-T] [-t MAX_TOKENS] [-i SEED_MICROSECONDS] [-s] [-k KEY] [-m MODEL] [-u PATH]
 *           [-x SESSIONS] [-h HEADER] [-H LINE] [-N] [-B]
 *
 * Each of SESSIONS rotating sessions, named in HEADER, has its own conversation, of which all but
 * the last message is the same in every request; no two bodies are equal. With -N each request is
 * of a new session with a new conversation. -s asks for a stream, with usage; -T sends an agent's
 * tools. -t and -i mean to the upstream what upstream.c says. -H adds a header line to each request.
 * -B only prints REQUESTS_MAX bodies, a line each. At most SAMPLES_MAX samples are kept.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "answer_reader.h"
#include "bodies.h"
#include "buffer.h"
#include "samples.h"

#define LINE_BYTES_MAX 4096
#define EVENTS_MAX 256
#define FAILURES_MAX 1000
#define OVERTIME_NS 15000000000LL

struct options {
    int port;
    int connections;
    double seconds;
    long requests_max;
    size_t body_bytes;
    size_t message_bytes;
    bool has_tools;
    long max_tokens;
    long long seed;
    bool is_stream;
    const char *key;
    const char *model;
    const char *path;
    const char *session_header;
    const char *header_line;
    long sessions;
    bool is_new;
    bool prints_bodies;
};

static struct options options = {
    .port = 9001,
    .connections = 1,
    .seconds = 2,
    .body_bytes = 2048,
    .message_bytes = 20000,
    .max_tokens = 16,
    .key = "sk-test",
    .model = "m",
    .path = "/v1/chat/completions",
    .session_header = "x-session-id",
};

struct connection {
    int fd;
    struct buffer head;
    struct body body;
    size_t request_sent;
    long request_number;
    long long started_ns;
    struct answer_reader reader;
    char line[LINE_BYTES_MAX];
    size_t line_length;
    long tokens_seen;
    long tokens_told; /* completion_tokens of the last usage, or -1 */
    bool has_done;
};

static struct {
    struct samples latency, first_token, chunk_delay;
    long requests, failures, events, reads, started;
    int active;
    long long read_ns; /* when the bytes at hand arrived */
    long long last_ns; /* when the last answer was complete */
    char failure[400];
} totals;

static int epoll_fd;

/* Requests. */

static void prepare_bodies(void)
{
    struct chat chat = {
        .model = options.model,
        .body_bytes = options.body_bytes,
        .message_bytes = options.message_bytes,
        .has_tools = options.has_tools,
        .max_tokens = options.max_tokens,
        .seed = options.seed,
        .is_stream = options.is_stream,
    };
    bodies_prepare(&chat, options.sessions, options.is_new);
}

static void make_request(struct connection *connection)
{
    struct buffer *head = &connection->head;
    body_next(&connection->body, connection->request_number * 7919);
    head->length = 0;
    buffer_format(head,
                  "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                  "Content-Type: application/json\r\nAccept: application/json\r\n"
                  "User-Agent: loadgen\r\n",
                  options.path, options.port, options.key);
    if (options.sessions)
        buffer_format(head, "%s: session-%llu\r\n", options.session_header,
                      connection->body.session);
    if (options.header_line)
        buffer_format(head, "%s\r\n", options.header_line);
    buffer_format(head, "Content-Length: %zu\r\n\r\n", body_length());
    connection->request_sent = 0;
    connection->request_number++;
    totals.started++;
}

static void watch(struct connection *connection, int operation, unsigned events)
{
    struct epoll_event event = {.events = events, .data.ptr = connection};
    epoll_ctl(epoll_fd, operation, connection->fd, &event);
}

static void open_connection(struct connection *connection)
{
    connection->fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((unsigned short)options.port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    if (connect(connection->fd, (struct sockaddr *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    int one = 1;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(connection, EPOLL_CTL_ADD, EPOLLIN);
}

/* What is left to send of the request's parts; how many of them that is. */
static size_t parts_left(const struct connection *connection, struct iovec left[3])
{
    const struct body *body = &connection->body;
    const struct buffer *parts[] = {&connection->head, body->history, body->turn};
    size_t sent = connection->request_sent, count = 0;
    for (int index = 0; index < 3; index++) {
        size_t length = parts[index]->length;
        if (sent < length)
            left[count++] = (struct iovec){parts[index]->data + sent, length - sent};
        sent -= sent < length ? sent : length;
    }
    return count;
}

/* Sends as much of the request as there is room for; false if the peer is gone. */
static bool send_request(struct connection *connection)
{
    struct iovec left[3];
    struct msghdr message = {.msg_iov = left};
    while ((message.msg_iovlen = parts_left(connection, left))) {
        ssize_t sent = sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (sent < 0)
            return false;
        connection->request_sent += (size_t)sent;
    }
    watch(connection, EPOLL_CTL_MOD, EPOLLIN);
    return true;
}

static bool start_request(struct connection *connection)
{
    make_request(connection);
    reader_reset(&connection->reader);
    connection->line_length = 0;
    connection->tokens_seen = 0;
    connection->tokens_told = -1;
    connection->has_done = false;
    connection->started_ns = now_ns();
    return send_request(connection);
}

/* Answers. */

static void read_usage(struct connection *connection, const char *text)
{
    const char *usage = strstr(text, "\"usage\"");
    const char *count = usage ? strstr(usage, "\"completion_tokens\":") : NULL;
    if (count)
        connection->tokens_told = strtol(count + 20, NULL, 10);
}

static void read_event(struct connection *connection, long long now)
{
    const char *line = connection->line;
    if (strncmp(line, "data:", 5))
        return;
    totals.events++;
    if (strstr(line, "[DONE]"))
        connection->has_done = true;
    const char *content = strstr(line, "\"content\":");
    if (content) {
        content += strlen("\"content\":");
        content += strspn(content, " \"");
        if (content[0] == 'T' && content[1] >= '0' && content[1] <= '9') {
            if (connection->tokens_seen++ == 0)
                samples_add(&totals.first_token, now - connection->started_ns);
            if (options.seed)
                samples_add(&totals.chunk_delay, now - strtoll(content + 1, NULL, 10));
        }
    }
    read_usage(connection, line);
}

/* Takes bytes of the answer's body: lines of a stream, or the end of a whole answer. */
static void take_payload(void *owner, const char *data, size_t length)
{
    struct connection *connection = owner;
    while (length) {
        const char *newline = options.is_stream ? memchr(data, '\n', length) : NULL;
        size_t size = newline ? (size_t)(newline - data) : length;
        if (connection->line_length + size < LINE_BYTES_MAX) {
            memcpy(connection->line + connection->line_length, data, size);
            connection->line_length += size;
            connection->line[connection->line_length] = 0;
        }
        if (!newline)
            return;
        read_event(connection, totals.read_ns);
        connection->line_length = 0;
        connection->line[0] = 0;
        data += size + 1;
        length -= size + 1;
    }
}

/* Why this answer does not count, or NULL if it is right. */
static const char *fault_of(struct connection *connection)
{
    if (connection->reader.status != 200)
        return "status";
    if (!options.is_stream)
        read_usage(connection, connection->line);
    if (connection->tokens_told != options.max_tokens)
        return "usage";
    if (options.is_stream && connection->tokens_seen != options.max_tokens)
        return "tokens";
    if (options.is_stream && !connection->has_done)
        return "no [DONE]";
    return NULL;
}

static void record_failure(struct connection *connection, const char *why)
{
    if (totals.failures++ == 0)
        snprintf(totals.failure, sizeof totals.failure, "%s: %d %.300s", why, connection->reader.status,
                 connection->line);
}

/* Begins the next request if there is time, on a new connection if this one is over. */
static void go_on(struct connection *connection, bool reconnects, long long end_ns)
{
    bool has_time = totals.last_ns < end_ns && totals.failures < FAILURES_MAX &&
                    (!options.requests_max || totals.started < options.requests_max);
    if (!has_time || reconnects)
        close(connection->fd);
    if (!has_time) {
        totals.active--;
        return;
    }
    if (reconnects)
        open_connection(connection);
    if (!start_request(connection)) {
        record_failure(connection, "send");
        close(connection->fd);
        totals.active--;
    }
}

static void serve(struct connection *connection, unsigned events, long long end_ns)
{
    static char data[1 << 18];
    if ((events & EPOLLOUT) && !send_request(connection)) {
        record_failure(connection, "send");
        go_on(connection, true, end_ns);
        return;
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t received = recv(connection->fd, data, sizeof data, MSG_DONTWAIT);
    if (received < 0 && errno == EAGAIN)
        return;
    long long now = now_ns();
    totals.read_ns = now;
    totals.reads++;
    enum progress progress = BROKEN;
    if (received > 0)
        progress = reader_take(&connection->reader, data, (size_t)received, take_payload,
                               connection);
    if (progress == GOING_ON)
        return;
    totals.last_ns = now;
    const char *fault = progress == BROKEN ? "cut" : fault_of(connection);
    if (fault) {
        record_failure(connection, fault);
    } else {
        totals.requests++;
        samples_add(&totals.latency, now - connection->started_ns);
    }
    go_on(connection, progress == BROKEN || connection->reader.server_closes, end_ns);
}

static void print_report(double elapsed)
{
    printf("{\"requests\":%ld,\"failures\":%ld,\"unfinished\":%d,\"elapsed_seconds\":%.3f,"
           "\"requests_per_second\":%.1f,\"events\":%ld,\"events_per_second\":%.0f,"
           "\"reads\":%ld,\"body_bytes\":%zu,",
           totals.requests, totals.failures, totals.active, elapsed,
           (double)totals.requests / elapsed, totals.events, (double)totals.events / elapsed,
           totals.reads, body_length());
    samples_print(&totals.latency, "latency");
    samples_print(&totals.first_token, "first_token");
    samples_print(&totals.chunk_delay, "chunk_delay");
    printf("\"failure\":\"");
    for (const char *at = totals.failure; *at; at++)
        putchar(*at == '"' || *at == '\\' || (unsigned char)*at < 32 ? '\'' : *at);
    printf("\"}\n");
}

static void read_options(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "p:c:d:n:b:l:t:i:sTNBk:m:u:x:h:H:")) > 0) {
        switch (option) {
        case 'p': options.port = atoi(optarg); break;
        case 'c': options.connections = atoi(optarg); break;
        case 'd': options.seconds = atof(optarg); break;
        case 'n': options.requests_max = atol(optarg); break;
        case 'b': options.body_bytes = strtoul(optarg, NULL, 10); break;
        case 'l': options.message_bytes = strtoul(optarg, NULL, 10); break;
        case 'T': options.has_tools = true; break;
        case 't': options.max_tokens = atol(optarg); break;
        case 'i': options.seed = atoll(optarg); break;
        case 's': options.is_stream = true; break;
        case 'N': options.is_new = true; break;
        case 'B': options.prints_bodies = true; break;
        case 'k': options.key = optarg; break;
        case 'm': options.model = optarg; break;
        case 'u': options.path = optarg; break;
        case 'x': options.sessions = atol(optarg); break;
        case 'h': options.session_header = optarg; break;
        case 'H': options.header_line = optarg; break;
        default: exit(2);
        }
    }
}

static void print_bodies(void)
{
    struct connection connection = {0};
    while (totals.started < options.requests_max) {
        make_request(&connection);
        fputs(connection.body.history->data, stdout);
        puts(connection.body.turn->data);
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    read_options(argc, argv);
    prepare_bodies();
    if (options.prints_bodies) {
        print_bodies();
        return 0;
    }
    epoll_fd = epoll_create1(0);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    long long begin_ns = now_ns();
    long long end_ns = begin_ns + (long long)(options.seconds * 1e9);
    totals.last_ns = begin_ns;
    totals.active = options.connections;
    for (int index = 0; index < options.connections; index++) {
        connections[index].request_number = index * 31;
        open_connection(&connections[index]);
        if (!start_request(&connections[index])) {
            record_failure(&connections[index], "send");
            totals.active--;
        }
    }
    struct epoll_event events[EVENTS_MAX];
    while (totals.active > 0 && now_ns() < end_ns + OVERTIME_NS) {
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, 200);
        for (int index = 0; index < count; index++)
            serve(events[index].data.ptr, events[index].events, end_ns);
    }
    print_report((double)(totals.last_ns - begin_ns) / 1e9);
    return totals.failures || totals.active || totals.requests == 0;
}
