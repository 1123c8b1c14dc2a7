/* A fork server as its session sees it: a process that forks nodes, and the control channel to it.
 * It is a process of this machine, or of another host, where it is reached by the link process
 * (core/link/near.h).
 *
 *   starting --READY--> ready --its channel ends--> ended --reaped
 *
 * A server that ends takes its nodes along: what they had still said is read, then they are closed.
 * It is counted: the caller has one reference, each of its nodes another. Nothing here blocks; what
 * it says is read in clu_loop_pump().
 */
#ifndef CLUTCH_FORK_SERVER_H
#define CLUTCH_FORK_SERVER_H

#include "core/base/blob.h"
#include "core/node/session.h"

/* Starts the program `spec` with the control channel as descriptor 3. */
int clu_server_start(clu_session *session, clu_spawn *spec, clu_server **out, clu_err *e);
/* One on another host, or any that is no process of this one: `fd` is its control channel, which is
 * taken over. Its status has neither pid nor how it ended. */
int clu_server_connect(clu_session *session, clu_fd fd, clu_server **out, clu_err *e);
int clu_server_is_remote(const clu_server *s);
/* It is that of this host behind the link process that is node `link`. */
void clu_server_set_host(clu_server *s, uint64_t link, uint64_t host);
/* The connection to that host is cut, or is there again (`reach`: enum clu_reach): see
 * clu_node_is_cut(). */
void clu_session_host_cut(clu_session *session, uint64_t link, uint64_t host, int reach);
/* One more reference, as the caller's. */
clu_server *clu_server_ref(clu_server *s);
/* Gives the caller's reference back. The last one closes the server and frees it. */
void clu_server_unref(clu_server *s);

/* Queues a message and sends what can be sent now. `pass`: a descriptor that goes with it, taken
 * over; or CLU_NO_FD. CLU_OK, CLU_DEAD (it has ended), CLU_NOMEM. */
int clu_server_send(clu_server *s, uint8_t kind, uint64_t seq, const void *p, size_t n,
                    clu_fd pass);
/* Does the same with a body of which it takes its own reference. It may bring segments, but not to
 * a server that is remote: CLU_UNSUPPORTED. */
int clu_server_send_blob(clu_server *s, uint8_t kind, uint64_t seq, clu_blob *body);
/* Closes the control channel: server and nodes end. */
void clu_server_close(clu_server *s);
/* Tells whether its process has ended; reaps it. */
int clu_server_reap(clu_server *s);

int clu_server_is_starting(const clu_server *s);
int clu_server_is_ready(const clu_server *s);
int clu_server_has_ended(const clu_server *s);
/* Returns what it reported when it became ready, or NULL. It stays the server's. */
clu_blob *clu_server_report(const clu_server *s);
/* The number of the settings that it answered last. `*refusal` becomes why it refused them, or
 * NULL. The server's. */
uint64_t clu_server_answered(const clu_server *s, const clu_blob **refusal);

typedef struct clu_server_status {
  clu_pid pid;
  const char *state; /* "starting", "ready", "ended" */
  int idle;          /* it ended because it had nothing to do */
  int asked;         /* it was asked to end */
  int reaped;
  clu_exit how;     /* once it is reaped; code -1: somebody else reaped it */
  uint64_t applied; /* number of the settings in force; 0: none */
  int live;         /* nodes of it that are open */
} clu_server_status;
void clu_server_status_of(const clu_server *s, clu_server_status *out);

/* Tells what its machine has left to do, and to give: see clu_os_machine(). -1: not known. */
typedef struct clu_server_machine_status {
  uint64_t question; /* its number, until it is answered */
  uint64_t number;   /* of the last question */
  uint64_t trip;     /* ns from the question to the answer */
  double load, memory, memory_free;
} clu_server_machine_status;
/* `of_nodes`: what they have used, too. As clu_server_send(). */
int clu_server_ask_machine(clu_server *s, int of_nodes);
/* 1: what was asked last is answered. */
int clu_server_machine(const clu_server *s, clu_server_machine_status *out);
/* 1: the last answer had this node of a fork server's. Seconds of processor time, bytes of memory
 * of its own; -1: not known. */
int clu_server_node_use(const clu_node *nd, double *cpu, double *memory);

#endif
