#include "core/node/node-parts.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_AGAIN 2000000     /* ns */

int clu_loop_init(clu_loop *l, clu_err *e) {
  memset(l, 0, sizeof *l);
  clu_children_init(&l->children);
  l->poller = clu_poller_new(e);
  return l->poller ? CLU_OK : CLU_SYS;
}

void clu_loop_fini(clu_loop *l) {
  clu_poller_free(l->poller);
  l->poller = NULL;
  clu_children_fini(&l->children);
}

/* Once: in a fork of the fork the number may be another file's. */
static void forget(clu_chan *c) {
  if (c->fd != CLU_NO_FD) clu_os_close(c->fd);
  c->fd = CLU_NO_FD;
}

void clu_loop_close_all(clu_loop *l) {
  for (clu_node *nd = l->nodes; nd; nd = nd->next) forget(&nd->chan);
  for (clu_server *s = l->servers; s; s = s->next) forget(&s->chan);
}

void clu_pool_push(clu_loop *l, clu_chan *c, unsigned *interest, void *what) {
  unsigned want;
  int rc;
  if (c->fd == CLU_NO_FD) return;
  rc = clu_chan_flush(c);
  want = CLU_READ | (rc == CLU_AGAIN ? CLU_WRITE : 0);
  if (want != *interest && clu_poller_set(l->poller, c->fd, *interest != 0, want, what, NULL) == CLU_OK)
    *interest = want;
}

void clu_pool_close(clu_loop *l, clu_chan *c, unsigned *interest) {
  if (c->fd == CLU_NO_FD) return;
  if (*interest) clu_poller_set(l->poller, c->fd, 1, 0, NULL, NULL);
  *interest = 0;
  clu_chan_fini(c);
}

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

void clu_node_push(clu_node *nd) { clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd); }

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
      r->arrival = ++nd->loop->arrivals;
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
  clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd);
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
  clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd);
  if (!gone_stale) return;
  if (!before) nd->stale_since = clu_os_now();
  signal_stale_head(nd);
}

int clu_node_in_step(const clu_node *nd) {
  uint32_t unwanted = 0;
  if (nd->state > CLU_NODE_READY) return 1;
  if (nd->tasks) nd->loop->tasks_at(nd, &unwanted);
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
  if (!nd->stopping) nd->loop->deaths++;
  if (nd->tasks && nd->loop->on_over) nd->loop->on_over(nd);
  nd->signals = 0;
  if (nd->leave_by) nd->loop->leaving--;
  if (nd->server)
    nd->server->live--;
  else if (nd->child)
    clu_child_end_by(nd->child, nd->over + CLU_LAST_GRACE);
  if (nd->child) clu_child_detach(nd->child);
  for (int i = nd->nreqs - 1; i >= 0; i--)
    if (nd->reqs[i].stale) drop_req(nd, &nd->reqs[i]);
  clu_pool_close(nd->loop, &nd->chan, &nd->interest);
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
        if (!answered(nd, &m) && nd->tasks) nd->loop->on_task(nd, &m);
      } else if ((m.kind == CLU_K_RESULT || m.kind == CLU_K_RELAY || m.kind == CLU_K_RESULTS_READY) && nd->tasks) {
        nd->loop->on_task(nd, &m);
      }
      clu_blob_unref(m.body);
    }
    if (rc == CLU_AGAIN && r >= 0) return;
    if (rc == CLU_OK && r >= 0) continue;
    if (!nd->server && nd->state == CLU_NODE_SPAWNING && !nd->refusal && !nd->stopping)
      clu_pool_close(nd->loop, &nd->chan, &nd->interest); /* it may connect anew */
    else
      clu_pool_node_over(nd);
  }
}

static void node_ready(void *self, unsigned ready) {
  clu_node *nd = self;
  if (ready & CLU_WRITE) clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd);
  if ((ready & CLU_READ) && nd->chan.fd != CLU_NO_FD) clu_pool_node_read(nd, 16);
}

static void unlink_node(clu_node *nd) {
  if (nd->prev)
    nd->prev->next = nd->next;
  else
    nd->loop->nodes = nd->next;
  if (nd->next) nd->next->prev = nd->prev;
}

static void link_node(clu_loop *l, clu_node *nd) {
  nd->on.ready = node_ready;
  nd->loop = l;
  nd->slot = -1;
  nd->id = ++l->next_id;
  nd->born = clu_os_now();
  nd->next = l->nodes;
  if (nd->next) nd->next->prev = nd;
  l->nodes = nd;
}

int clu_node_new(clu_loop *l, clu_node **out, clu_err *e) {
  clu_node *nd = calloc(1, sizeof *nd);
  if (!nd) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  nd->chan.fd = CLU_NO_FD;
  link_node(l, nd);
  *out = nd;
  return CLU_OK;
}

int clu_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e) {
  return clu_child_start(&nd->loop->children, spec, slot, folder, &nd->child, e);
}

int clu_node_join(clu_node *nd, clu_fd fd, clu_pid pid, clu_err *e) {
  int rc;
  clu_pool_close(nd->loop, &nd->chan, &nd->interest);
  if (clu_chan_init(&nd->chan, fd, INT64_MAX, 0) != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  rc = clu_poller_set(nd->loop->poller, fd, 0, CLU_READ, nd, e);
  if (rc != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return rc;
  }
  nd->interest = CLU_READ;
  nd->pid = pid;
  return CLU_OK;
}

void clu_node_tell(clu_node *nd, uint8_t kind, clu_blob *body) {
  if (nd->chan.fd == CLU_NO_FD || clu_chan_send(&nd->chan, kind, 0, body, CLU_NO_FD) != CLU_OK) return;
  clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd);
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

/* What only the time brings: ends of processes, and of patience. */
static void tick(clu_loop *l) {
  uint64_t now;
  if (clu_children_tick(&l->children))
    for (clu_node *nd = l->nodes; nd; nd = nd->next) learn_how(nd);
  if (!l->leaving) return;
  now = clu_os_now();
  for (clu_node *nd = l->nodes; nd; nd = nd->next)
    if (nd->leave_by && nd->leave_by <= now) clu_pool_node_over(nd);
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
  link_node(s->loop, nd);
  nd->slot = clu_pool_take_slot(s, nd->id);
  body[0] = (unsigned char)by_exec;
  clu_put32(body + 1, nd->slot < 0 ? CLU_SLOTS : (uint32_t)nd->slot);
  rc = clu_poller_set(s->loop->poller, pair[0], 0, CLU_READ, nd, e);
  if (rc != CLU_OK) {
    clu_os_close(pair[1]);
  } else {
    nd->interest = CLU_READ;
    rc = clu_server_send(s, CLU_K_SPAWN, nd->id, body, sizeof body, pair[1]);
    if (rc != CLU_OK) clu_fail(e, rc, 0, "the fork server has gone");
  }
  if (rc != CLU_OK) {
    clu_pool_close(s->loop, &nd->chan, &nd->interest);
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
  return nd->tasks && nd->loop->tasks_at(nd, NULL) > 0;
}

void clu_node_stop(clu_node *nd, uint32_t grace_ms) {
  unsigned char body[4];
  if (nd->state > CLU_NODE_READY) return;
  nd->stopping = 1;
  if (!nd->server && nd->state == CLU_NODE_SPAWNING && nd->chan.fd == CLU_NO_FD) grace_ms = 0; /* it would not hear of it */
  if (grace_ms && nd->chan.fd != CLU_NO_FD) {
    clu_chan_send(&nd->chan, CLU_K_DONE, 0, NULL, CLU_NO_FD);
    clu_pool_push(nd->loop, &nd->chan, &nd->interest, nd);
  }
  if (!nd->server) {
    uint64_t by = grace_ms ? clu_os_now() + grace_ms * 1000000ull : 0;
    if (nd->child) clu_child_end_by(nd->child, by);
    if (!by || nd->chan.fd == CLU_NO_FD) { /* without a channel: the caller has told it otherwise */
      clu_pool_node_over(nd);
    } else if (!nd->leave_by) {
      nd->leave_by = by;
      nd->loop->leaving++;
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

int clu_loop_pump(clu_loop *l, int64_t wait_ns, clu_err *e) {
  clu_event got[64];
  int n = 0, rc;
  /* nothing tells of the end of a process: it is asked for */
  if ((l->children.dying || l->leaving) && (wait_ns < 0 || wait_ns > LOOK_AGAIN)) wait_ns = LOOK_AGAIN;
  rc = clu_poller_wait(l->poller, got, 64, &n, wait_ns, e);
  l->events = n;
  /* no node and no server is freed in here, but an earlier event may have closed a channel */
  for (int i = 0; i < n; i++) ((clu_target *)got[i].what)->ready(got[i].what, got[i].ready);
  if (l->children.dying || l->leaving) tick(l);
  return rc;
}
