/* The other end of bench/peers/: a program that runs operations of another library on request. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_SIZE 512

extern char **environ;

struct bench_peer {
    pid_t process;
    int socket;  /* its standard input and output */
    FILE *lines; /* reads the socket, and owns it */
    char name[128];
    char answer[LINE_SIZE];
};

/* ----------------------------------------------------------------------------------------------
 * Lines
 */

/* Sends a line and reads one; false, with the reason, unless that begins with `wanted`. What
 * follows it is left at the start of peer->answer. */
static bool ask(bench_peer *peer, const char *line, const char *wanted, char *message, size_t size)
{
    const size_t length = strlen(wanted);

    if (send(peer->socket, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line) ||
        fgets(peer->answer, sizeof peer->answer, peer->lines) == NULL) {
        snprintf(message, size, "the peer has ended");
        return false;
    }
    peer->answer[strcspn(peer->answer, "\n")] = '\0';
    if (strncmp(peer->answer, wanted, length) != 0) {
        snprintf(message, size, "%.200s", peer->answer);
        return false;
    }
    memmove(peer->answer, peer->answer + length, strlen(peer->answer + length) + 1);
    return true;
}

static const char *scheme_name(bench_scheme scheme)
{
    switch (scheme) {
    case BENCH_ROPE: return "rope";
    case BENCH_MROPE: return "mrope";
    case BENCH_ROPE2D: return "rope2d";
    case BENCH_SINUSOIDAL: return "sinusoidal";
    case BENCH_LEARNED: return "learned";
    case BENCH_ALIBI: return "alibi";
    case BENCH_T5: return "t5";
    default: return "none"; /* no row of another has a peer */
    }
}

bool bench_peer_open(bench_peer *peer, uint32_t slot, const bench_row *row, double *ns,
                     char *message, size_t size)
{
    const bench_shape *s = &row->shape;
    char line[LINE_SIZE];

    snprintf(line, sizeof line,
             "open %u %s heads=%u kv_heads=%u q_rows=%u k_rows=%u head_dim=%u dtype=%s scheme=%s "
             "pairing=%s causal=%d in_place=%d\n",
             slot, row->peer, s->heads, s->kv_heads != 0 ? s->kv_heads : s->heads, s->q_rows,
             s->k_rows != 0 ? s->k_rows : s->q_rows, s->head_dim, bench_dtype_name(s->dtype),
             scheme_name(s->scheme), s->pairing == RHUMB_PAIRING_HALF ? "half" : "interleaved",
             s->causal, s->in_place);
    if (!ask(peer, line, "ok ", message, size))
        return false;
    *ns = strtod(peer->answer, NULL);
    return true;
}

bool bench_peer_run(bench_peer *peer, uint32_t slot, double *ns, char *message, size_t size)
{
    char line[32];

    snprintf(line, sizeof line, "run %u\n", slot);
    if (!ask(peer, line, "ns ", message, size))
        return false;
    *ns = strtod(peer->answer, NULL);
    if (*ns > 0.0)
        return true;
    snprintf(message, size, "the peer tells a time of \"%.40s\" ns", peer->answer);
    return false;
}

void bench_peer_close(bench_peer *peer)
{
    char message[LINE_SIZE];

    (void)ask(peer, "close\n", "ok", message, sizeof message);
}

/* ----------------------------------------------------------------------------------------------
 * The program
 */
static int spawn(const char *command, int its_end, pid_t *process)
{
    char *const words[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, its_end, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, its_end, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawnp(process, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Both ends closed for other programs: the end of the file is what ends a peer. */
static bool connect_ends(int *ends)
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return false;
    return fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 && fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0;
}

bench_peer *bench_peer_start(const char *command, char *message, size_t size)
{
    bench_peer *peer = calloc(1, sizeof *peer);
    int ends[2] = {-1, -1};
    int error = 0;

    if (peer != NULL && connect_ends(ends)) {
        error = spawn(command, ends[1], &peer->process);
        peer->socket = ends[0];
        peer->lines = error == 0 ? fdopen(ends[0], "r") : NULL;
    }
    if (ends[1] >= 0)
        close(ends[1]);
    if (peer == NULL || peer->lines == NULL) {
        snprintf(message, size, "%s", strerror(error != 0 ? error : errno));
        if (ends[0] >= 0)
            close(ends[0]);
        free(peer);
        return NULL;
    }
    if (!ask(peer, "hello\n", "peer ", message, size)) {
        bench_peer_stop(peer);
        return NULL;
    }
    snprintf(peer->name, sizeof peer->name, "%.100s", peer->answer);
    return peer;
}

const char *bench_peer_name(const bench_peer *peer)
{
    return peer->name;
}

void bench_peer_stop(bench_peer *peer)
{
    if (peer == NULL)
        return;
    fclose(peer->lines);
    waitpid(peer->process, NULL, 0);
    free(peer);
}
