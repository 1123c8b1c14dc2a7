#include "core/node/node-parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- requests ---- */

static void drop_req(clu_node *nd, clu_req *r) {
  clu_blob_unref(r->body);
  memmove(r, r + 1, (size_t)(nd->reqs + --nd->nreqs - r) * sizeof *r);
}

clu_req *clu_node_first(clu_node *nd) {
  for (int i = 0; i < nd->nreqs; i++)
    if (!nd->reqs[i].stale) return &nd->reqs[i];
  return NULL;
}

clu_blob *clu_node_take(clu_node *nd, clu_req *r) {
  clu_blob *b = r->body;
  r->body = NULL;
  drop_req(nd, r);
  return b;
}

/* The request the node is at, if that is a stale one, is to be given up. Only then: a signal must
 * not hit the work of another. */
static void signal_stale_head(clu_node *nd) {
  clu_req *head = NULL;
  for (int i = 0; i < nd->nreqs && !head; i++)
    if (!nd->reqs[i].arrival) head = &nd->reqs[i];
  if (head && head->stale) clu_node_interrupt(nd, head->seq);
}

void clu_node_interrupt(clu_node *nd, uint64_t seq) {
  unsigned char body[8];
  if (nd->state != CLU_NODE_READY) return;
  if (!nd->server) {
    /* its own process and our child, not reaped: the signal reaches nobody else */
    volatile uint64_t *cancel = nd->child ? clu_child_cancel(nd->child) : NULL;
    if (!cancel || nd->child->ended || nd->child->pid != nd->pid || *cancel == seq) return;
    *cancel = seq;
    clu_os_kill(nd->pid, CLU_SIG_INT, 1); /* it leads a group: what it waits for in system() hears it, too */
    clu_os_kill(nd->pid, CLU_SIG_NUDGE, 0);
    return;
  }
  clu_put64(body, seq);
  if (clu_server_send(nd->server, CLU_K_CANCEL, nd->id, body, sizeof body, CLU_NO_FD) == CLU_OK)
    nd->signals++;
}

int clu_node_tasks(clu_node *nd, uint8_t kind, clu_blob *body, uint32_t n, uint64_t *seq) {
  if (nd->state > CLU_NODE_READY) return CLU_DEAD;
  if (n) *seq = nd->seq + 1;
  if (clu_chan_send(&nd->chan, kind, *seq, body, CLU_NO_FD) != CLU_OK) return CLU_NOMEM;
  nd->seq += n;
  return CLU_OK;
}

void clu_node_limit(clu_node *nd, uint64_t bytes) {
  unsigned char body[8];
  if (nd->state > CLU_NODE_READY || !nd->server || nd->limit == bytes) return;
  clu_put64(body, bytes);
  if (clu_server_send(nd->server, CLU_K_LIMIT, nd->id, body, sizeof body, CLU_NO_FD) == CLU_OK) nd->limit = bytes;
}

void clu_node_push(clu_node *nd) { clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch); }

clu_claim *clu_node_claim(const clu_node *nd) {
  if (!nd->server) return nd->child ? clu_child_claim(nd->child) : NULL;
  return nd->server->shared && nd->slot >= 0 ? &nd->server->shared->claim[nd->slot] : NULL;
}

clu_ring *clu_node_ring(const clu_node *nd) {
  if (!nd->server) return nd->child ? clu_child_ring(nd->child) : NULL;
  return nd->server->shared ? clu_shared_ring(nd->server->shared, nd->slot) : NULL;
}

/* 1: it was a request's. */
static int answered(clu_node *nd, clu_msg *m) {
  for (int i = 0; i < nd->nreqs; i++) {
    clu_req *r = &nd->reqs[i];
    if (r->seq != m->seq) continue;
    if (r->arrival) return 1; /* it has answered before: nobody wants that */
    if (r->stale) {
      drop_req(nd, r);
      signal_stale_head(nd);
    } else {
      r->kind = m->kind;
      r->body = m->body;
      r->arrival = ++nd->session->arrivals;
      m->body = NULL;
      nd->done++;
      signal_stale_head(nd); /* one that was given up may be next in line */
    }
    return 1;
  }
  return 0;
}

int clu_node_call(clu_node *nd, clu_blob *body, uint64_t owner, int tag, clu_err *e) {
  clu_req *r;
  if (nd->state > CLU_NODE_READY) return clu_fail(e, CLU_DEAD, 0, "the node is gone");
  if (nd->nreqs == nd->cap) {
    int cap = nd->cap ? 2 * nd->cap : 4;
    clu_req *more = realloc(nd->reqs, (size_t)cap * sizeof *more);
    if (!more) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    nd->reqs = more;
    nd->cap = cap;
  }
  if (clu_chan_send(&nd->chan, CLU_K_CALL, nd->seq + 1, body, CLU_NO_FD) != CLU_OK)
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  r = &nd->reqs[nd->nreqs++];
  memset(r, 0, sizeof *r);
  r->seq = ++nd->seq;
  r->owner = owner;
  r->tag = tag;
  clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch);
  return CLU_OK;
}

void clu_node_cancel(clu_node *nd, uint64_t owner) {
  int gone_stale = 0, before = 0;
  for (int i = nd->nreqs - 1; i >= 0; i--) { /* the last first: what has not left goes away */
    clu_req *r = &nd->reqs[i];
    before |= r->stale;
    if (r->stale || (owner && r->owner != owner)) continue;
    if (r->arrival || nd->state > CLU_NODE_READY ||
        clu_chan_withdraw(&nd->chan, CLU_K_CALL, r->seq)) {
      drop_req(nd, r);
    } else {
      r->stale = 1;
      gone_stale = 1;
    }
  }
  clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch);
  if (!gone_stale) return;
  if (!before) nd->stale_since = clu_os_now();
  signal_stale_head(nd);
}

int clu_node_in_step(const clu_node *nd) {
  uint32_t unwanted = 0;
  if (nd->state > CLU_NODE_READY) return 1;
  if (nd->tasks) nd->session->tasks_at(nd, &unwanted);
  if (nd->signals || unwanted) return 0;
  for (int i = 0; i < nd->nreqs; i++)
    if (nd->reqs[i].stale) return 0;
  return 1;
}

/* ---- nodes ---- */

void clu_pool_node_over(clu_node *nd) {
  if (nd->state > CLU_NODE_READY) return;
  nd->state = nd->stopping ? CLU_NODE_STOPPED : CLU_NODE_DEAD;
  nd->over = clu_os_now();
  if (!nd->stopping) nd->session->deaths++;
  if (nd->tasks && nd->session->on_over) nd->session->on_over(nd);
  nd->signals = 0;
  clu_timer_cancel(&nd->leave);
  if (nd->server)
    nd->server->live--;
  else if (nd->child)
    clu_child_end_by(nd->child, nd->over + CLU_LAST_GRACE);
  if (nd->child) clu_child_detach(nd->child);
  for (int i = nd->nreqs - 1; i >= 0; i--)
    if (nd->reqs[i].stale) drop_req(nd, &nd->reqs[i]);
  clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch);
}

void clu_pool_refused(clu_node *nd, const clu_blob *text) {
  size_t n = text ? text->size : 0;
  free(nd->refusal);
  nd->refusal = malloc(n + 1);
  if (!nd->refusal) return;
  if (n) memcpy(nd->refusal, text->data, n);
  nd->refusal[n] = 0;
}

void clu_pool_node_read(clu_node *nd, int fills) {
  for (int k = 0; k != fills && nd->chan.fd != CLU_NO_FD; k++) {
    int rc = clu_chan_fill(&nd->chan), r;
    clu_msg m;
    while ((r = clu_chan_next(&nd->chan, &m)) == 1) {
      if (m.kind == CLU_K_HELLO) {
        if (nd->state == CLU_NODE_SPAWNING) nd->state = CLU_NODE_READY;
        /* the server says so, too, but perhaps later */
        if (m.body && m.body->size == 8) nd->pid = (clu_pid)clu_get64(m.body->data);
        signal_stale_head(nd); /* a signal before would have hit an R that is starting */
      } else if (m.kind == CLU_K_REFUSED) { /* it cannot serve, and says why */
        clu_pool_refused(nd, m.body);
      } else if (m.kind == CLU_K_VALUE || m.kind == CLU_K_FAILED || m.kind == CLU_K_CANCELLED) {
        if (!answered(nd, &m) && nd->tasks) nd->session->on_task(nd, &m);
      } else if ((m.kind == CLU_K_RESULT || m.kind == CLU_K_RELAY || m.kind == CLU_K_RESULTS_READY) && nd->tasks) {
        nd->session->on_task(nd, &m);
      }
      clu_blob_unref(m.body);
    }
    if (rc == CLU_AGAIN && r >= 0) return;
    if (rc == CLU_OK && r >= 0) continue;
    if (!nd->server && nd->state == CLU_NODE_SPAWNING && !nd->refusal && !nd->stopping)
      clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch); /* it may connect anew */
    else
      clu_pool_node_over(nd);
  }
}

static void node_ready(void *self, unsigned ready) {
  clu_node *nd = self;
  if (ready & CLU_WRITE) clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch);
  if ((ready & CLU_READ) && nd->chan.fd != CLU_NO_FD) clu_pool_node_read(nd, 16);
}

static void unlink_node(clu_node *nd) {
  if (nd->prev)
    nd->prev->next = nd->next;
  else
    nd->session->nodes = nd->next;
  if (nd->next) nd->next->prev = nd->prev;
}

static void leave_time_is_up(void *self) { clu_pool_node_over(self); }

static void link_node(clu_session *s, clu_node *nd) {
  nd->session = s;
  clu_timer_init(&nd->leave, leave_time_is_up, nd);
  nd->slot = -1;
  nd->id = ++s->next_id;
  nd->born = clu_os_now();
  nd->next = s->nodes;
  if (nd->next) nd->next->prev = nd;
  s->nodes = nd;
}

int clu_node_new(clu_session *s, clu_node **out, clu_err *e) {
  clu_node *nd = calloc(1, sizeof *nd);
  if (!nd) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  nd->chan.fd = CLU_NO_FD;
  link_node(s, nd);
  *out = nd;
  return CLU_OK;
}

int clu_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e) {
  return clu_child_start(&nd->session->children, spec, slot, folder, &nd->child, e);
}

int clu_node_join(clu_node *nd, clu_fd fd, clu_pid pid, clu_err *e) {
  int rc;
  clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch);
  if (clu_chan_init(&nd->chan, fd, INT64_MAX, 0) != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  rc = clu_loop_watch(&nd->session->loop, fd, CLU_READ, node_ready, nd, &nd->watch, e);
  if (rc != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return rc;
  }
  nd->pid = pid;
  return CLU_OK;
}

void clu_node_tell(clu_node *nd, uint8_t kind, clu_blob *body) {
  if (nd->chan.fd == CLU_NO_FD || clu_chan_send(&nd->chan, kind, 0, body, CLU_NO_FD) != CLU_OK) return;
  clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch);
}

static void learn_how(clu_node *nd) {
  if (nd->how_known || !nd->child || !nd->child->how_known) return;
  nd->how = nd->child->how;
  nd->how_known = 1;
}

int clu_node_look(clu_node *nd) {
  if (nd->state <= CLU_NODE_READY && nd->child && clu_child_ended(nd->child)) {
    clu_pool_node_read(nd, -1);
    clu_pool_node_over(nd);
  }
  learn_how(nd);
  return nd->state <= CLU_NODE_READY && nd->chan.fd != CLU_NO_FD;
}

void clu_node_read_all(clu_node *nd) { clu_pool_node_read(nd, -1); }

void clu_node_lose(clu_node *nd) { clu_pool_node_over(nd); }

int clu_node_gone(const clu_node *nd) {
  if (nd->state <= CLU_NODE_READY) return 0;
  if (nd->server) return nd->how_known || nd->refusal || nd->server->state == CLU_SERVER_ENDED;
  return !nd->child || nd->child->ended;
}

int clu_node_spawn(clu_server *s, int by_exec, clu_node **out, clu_err *e) {
  clu_fd pair[2];
  clu_node *nd;
  unsigned char body[5];
  int rc = clu_os_pair(pair, e);
  if (rc != CLU_OK) return rc;
  clu_os_move_high(&pair[0], 1024);
  nd = calloc(1, sizeof *nd);
  if (!nd || clu_chan_init(&nd->chan, pair[0], INT64_MAX, 0) != CLU_OK) {
    free(nd);
    clu_os_close(pair[0]);
    clu_os_close(pair[1]);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  nd->server = s;
  link_node(s->session, nd);
  nd->slot = clu_pool_take_slot(s, nd->id);
  body[0] = (unsigned char)by_exec;
  clu_put32(body + 1, nd->slot < 0 ? CLU_SLOTS : (uint32_t)nd->slot);
  rc = clu_loop_watch(&s->session->loop, pair[0], CLU_READ, node_ready, nd, &nd->watch, e);
  if (rc != CLU_OK) {
    clu_os_close(pair[1]);
  } else {
    rc = clu_server_send(s, CLU_K_SPAWN, nd->id, body, sizeof body, pair[1]);
    if (rc != CLU_OK) clu_fail(e, rc, 0, "the fork server has gone");
  }
  if (rc != CLU_OK) {
    clu_chan_watch_close(&s->session->loop, &nd->chan, &nd->watch);
    clu_chan_fini(&nd->chan);
    clu_pool_give_slot_back(s, nd->id);
    unlink_node(nd);
    free(nd);
    return rc;
  }
  s->refs++;
  s->live++;
  *out = nd;
  return CLU_OK;
}

int clu_node_busy(const clu_node *nd) {
  for (int i = 0; i < nd->nreqs; i++)
    if (!nd->reqs[i].arrival) return 1;
  return nd->tasks && nd->session->tasks_at(nd, NULL) > 0;
}

void clu_node_stop(clu_node *nd, uint32_t grace_ms) {
  unsigned char body[4];
  if (nd->state > CLU_NODE_READY) return;
  nd->stopping = 1;
  if (!nd->server && nd->state == CLU_NODE_SPAWNING && nd->chan.fd == CLU_NO_FD) grace_ms = 0; /* it would not hear of it */
  if (grace_ms && nd->chan.fd != CLU_NO_FD) {
    clu_chan_send(&nd->chan, CLU_K_DONE, 0, NULL, CLU_NO_FD);
    clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch);
  }
  if (!nd->server) {
    uint64_t by = grace_ms ? clu_os_now() + grace_ms * 1000000ull : 0;
    if (nd->child) clu_child_end_by(nd->child, by);
    if (!by || nd->chan.fd == CLU_NO_FD) { /* without a channel: the caller has told it otherwise */
      clu_pool_node_over(nd);
    } else if (!clu_timer_is_armed(&nd->leave)) {
      clu_timer_arm(&nd->session->loop, &nd->leave, by);
    }
    return;
  }
  clu_put32(body, grace_ms);
  clu_server_send(nd->server, CLU_K_STOP, nd->id, body, sizeof body, CLU_NO_FD);
}

void clu_node_free(clu_node *nd) {
  if (nd->state <= CLU_NODE_READY) {
    if (!nd->stopping) clu_node_stop(nd, clu_node_busy(nd) ? 0 : 2000); /* nobody can ask for its answer any more */
    clu_pool_node_over(nd);
  }
  while (nd->nreqs) drop_req(nd, &nd->reqs[nd->nreqs - 1]);
  free(nd->reqs);
  free(nd->refusal);
  unlink_node(nd);
  if (nd->server) clu_server_unref(nd->server);
  if (nd->child) clu_child_release(nd->child);
  free(nd);
}
