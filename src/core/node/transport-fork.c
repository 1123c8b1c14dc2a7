/* Transport: a node that a fork server of this machine has made. It is interrupted, limited and
 * killed by the server, which also says how it ended. Its end of a socket pair goes to the
 * server with the request. */
#include <stdlib.h>

#include "core/node/fork-private.h"
#include "core/node/transports.h"

static clu_fork_node *fork_node(clu_node *nd) { return (clu_fork_node *)nd; }
static const clu_fork_node *const_fork_node(const clu_node *nd) {
  return (const clu_fork_node *)nd;
}

void clu_fork_node_stop(clu_node *nd, uint32_t grace_ms) {
  unsigned char body[4];
  if (grace_ms) clu_node_say_done(nd);
  clu_put32(body, grace_ms);
  clu_server_send(fork_node(nd)->server, CLU_K_STOP, nd->id, body, sizeof body, CLU_NO_FD);
}

void clu_fork_node_interrupt(clu_node *nd, uint64_t seq) {
  unsigned char body[8];
  clu_put64(body, seq);
  if (clu_server_send(fork_node(nd)->server, CLU_K_CANCEL, nd->id, body, sizeof body, CLU_NO_FD) ==
      CLU_OK)
    nd->interrupts++;
}

void clu_fork_node_limit_memory(clu_node *nd, uint64_t bytes) {
  clu_fork_node *f = fork_node(nd);
  unsigned char body[8];
  if (f->limit == bytes) return;
  clu_put64(body, bytes);
  if (clu_server_send(f->server, CLU_K_LIMIT, nd->id, body, sizeof body, CLU_NO_FD) == CLU_OK)
    f->limit = bytes;
}

int clu_fork_node_deliver(clu_node *nd, clu_blob *body) {
  return clu_server_send_blob(fork_node(nd)->server, CLU_K_DELIVER, nd->id, body);
}

static void fork_hold(clu_node *nd, int held) {
  unsigned char body[1];
  body[0] = (unsigned char)(held != 0);
  clu_server_send(fork_node(nd)->server, CLU_K_HOLD, nd->id, body, sizeof body, CLU_NO_FD);
}

static clu_claim *fork_claim(const clu_node *nd) {
  const clu_fork_node *f = const_fork_node(nd);
  return f->server->shared && f->slot >= 0 ? &f->server->shared->claim[f->slot] : NULL;
}

static clu_ring *fork_ring(const clu_node *nd) {
  const clu_fork_node *f = const_fork_node(nd);
  return f->server->shared ? clu_shared_ring(f->server->shared, f->slot) : NULL;
}

static clu_shared *fork_shared(const clu_node *nd, int *slot) {
  const clu_fork_node *f = const_fork_node(nd);
  *slot = f->slot;
  return f->slot >= 0 ? f->server->shared : NULL;
}

int clu_fork_node_end_known(const clu_node *nd) {
  return nd->how_known || nd->refusal || clu_server_has_ended(const_fork_node(nd)->server);
}

void clu_fork_node_closed(clu_node *nd) { fork_node(nd)->server->live--; }

static int fork_clock_is_ours(const clu_node *nd) {
  (void)nd;
  return 1;
}

void clu_fork_node_describe(const clu_node *nd, clu_node_status *out) {
  const clu_server *s = const_fork_node(nd)->server;
  out->server = s->pid;
  out->server_ended = clu_server_has_ended(s);
}

static void list(clu_fork_node *f) {
  f->next = f->server->nodes;
  if (f->next) f->next->prev = f;
  f->server->nodes = f;
}

static void unlist(clu_fork_node *f) {
  if (f->prev)
    f->prev->next = f->next;
  else
    f->server->nodes = f->next;
  if (f->next) f->next->prev = f->prev;
}

void clu_fork_node_free(clu_node *nd) {
  clu_fork_node *f = fork_node(nd);
  if (f->server->found == f) f->server->found = NULL;
  unlist(f);
  clu_server_unref(f->server);
  free(f->far);
  free(f);
}

static const clu_transport transport = {
    .stop = clu_fork_node_stop,
    .closed = clu_fork_node_closed,
    .end_known = clu_fork_node_end_known,
    .free = clu_fork_node_free,
    .interrupt = clu_fork_node_interrupt,
    .limit_memory = clu_fork_node_limit_memory,
    .deliver = clu_fork_node_deliver,
    .hold = fork_hold,
    .claim = fork_claim,
    .ring = fork_ring,
    .shared = fork_shared,
    .takes_segments = 1,
    .clock_is_ours = fork_clock_is_ours,
    .describe = clu_fork_node_describe,
};

/* Sends the request, with the node's end of the channel; takes that over. */
static int ask_server(clu_fork_node *f, int kind, clu_fd end, clu_err *e) {
  unsigned char body[5];
  int rc;
  body[0] = (unsigned char)kind;
  clu_put32(body + 1, f->slot < 0 ? CLU_SLOTS : (uint32_t)f->slot);
  rc = clu_server_send(f->server, CLU_K_SPAWN, f->node.id, body, sizeof body, end);
  return rc == CLU_OK ? rc : clu_fail(e, rc, 0, "the fork server has ended");
}

int clu_fork_node_new(clu_server *s, const clu_transport *kind_of_node, int kind, clu_node **out,
                      clu_err *e) {
  clu_fd pair[2];
  clu_fork_node *f;
  int rc = clu_os_pair(pair, e);
  if (rc != CLU_OK) return rc;
  clu_os_move_high(&pair[0], 1024);
  f = calloc(1, sizeof *f);
  if (!f) {
    clu_os_close(pair[0]);
    clu_os_close(pair[1]);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  clu_node_init(&f->node, kind_of_node, s->session);
  f->server = s;
  f->slot = clu_server_take_slot(s, f->node.id);
  rc = clu_node_connect(&f->node, pair[0], 0, e);
  if (rc == CLU_OK)
    rc = ask_server(f, kind, pair[1], e);
  else
    clu_os_close(pair[1]);
  if (rc != CLU_OK) {
    clu_chan_watch_close(&s->session->loop, &f->node.chan, &f->node.watch);
    clu_server_free_slot(s, f->node.id);
    clu_node_unlist(&f->node);
    free(f);
    return rc;
  }
  list(f);
  s->refs++;
  s->live++;
  *out = &f->node;
  return CLU_OK;
}

int clu_node_new_fork(clu_server *s, int kind, clu_node **out, clu_err *e) {
  return clu_fork_node_new(s, &transport, kind, out, e);
}
