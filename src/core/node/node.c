#include "core/node/node.h"

#include <stdlib.h>
#include <string.h>

#include "core/node/node-private.h"

/* ---- what it is, its state ---- */

uint64_t clu_node_id(const clu_node *nd) { return nd->id; }
int clu_node_rank(const clu_node *nd) { return nd->rank; }
void clu_node_set_rank(clu_node *nd, int rank) { nd->rank = rank; }
clu_pid clu_node_pid(const clu_node *nd) { return nd->pid; }
void clu_node_set_data(clu_node *nd, void *data) { nd->data = data; }
void *clu_node_data(const clu_node *nd) { return nd->data; }
void clu_node_drop_data(clu_node *nd) {
  if (nd->data) nd->session->hooks->on_gone(nd);
  nd->data = NULL;
}
int clu_node_is_starting(const clu_node *nd) { return nd->state == CLU_NODE_STARTING; }
int clu_node_is_ready(const clu_node *nd) { return nd->state == CLU_NODE_READY; }
int clu_node_is_open(const clu_node *nd) {
  return nd->state == CLU_NODE_STARTING || nd->state == CLU_NODE_READY;
}
int clu_node_is_lost(const clu_node *nd) { return nd->state == CLU_NODE_LOST; }
int clu_node_takes_work(const clu_node *nd) { return clu_node_is_ready(nd) && !nd->stopping; }
int clu_node_is_connected(const clu_node *nd) { return nd->chan.fd != CLU_NO_FD; }
const char *clu_node_refusal(const clu_node *nd) { return nd->refusal; }

int clu_node_end_known(const clu_node *nd) {
  return !clu_node_is_open(nd) && nd->transport->end_known(nd);
}

const char *clu_node_last_copy(const clu_node *nd) { return nd->last_copy; }

int clu_node_over_limit(const clu_node *nd, uint64_t *bytes) {
  if (nd->over_limit) *bytes = nd->memory;
  return nd->over_limit;
}

clu_pid clu_node_own_pid(const clu_node *nd) {
  return nd->transport->own_pid ? nd->transport->own_pid(nd) : 0;
}

int clu_node_takes_segments(const clu_node *nd) { return nd->transport->takes_segments; }

int clu_node_is_cut(const clu_node *nd) {
  return nd->transport->is_cut ? nd->transport->is_cut(nd) : CLU_IS_REACHED;
}

int clu_node_clock_is_ours(const clu_node *nd) {
  return nd->transport->clock_is_ours && nd->transport->clock_is_ours(nd);
}

static uint32_t tasks_at(const clu_node *nd, uint32_t *cancelled) {
  if (cancelled) *cancelled = 0;
  return nd->data ? nd->session->hooks->tasks_at(nd, cancelled) : 0;
}

static const char *state_name(const clu_node *nd, int waiting) {
  switch (nd->state) {
  case CLU_NODE_STARTING: return "starting";
  case CLU_NODE_READY:
    if (nd->stopping) return "stopped"; /* in a moment */
    if (!waiting) return "idle";
    return clu_node_in_step(nd) ? "busy" : "cancelling";
  case CLU_NODE_LOST: return "dead";
  default: return "stopped";
  }
}

void clu_node_status_of(clu_node *nd, clu_node_status *out) {
  memset(out, 0, sizeof *out);
  clu_node_check(nd);
  out->waiting = (int)tasks_at(nd, NULL) + clu_requests_waiting(&nd->requests);
  out->state = state_name(nd, out->waiting);
  out->how_known = nd->how_known;
  out->how = nd->how;
  out->may_be_oom = nd->may_be_oom;
  out->age = clu_os_now() - nd->created;
  out->done = nd->done;
  if (nd->transport->describe) nd->transport->describe(nd, out);
}

/* ---- what others see of it ---- */

static clu_view_node *shown(const clu_node *nd) {
  return nd->view ? clu_view_node_at(nd->view, nd->view_at) : NULL;
}

static uint64_t shown_state(const clu_node *nd) {
  switch (nd->state) {
  case CLU_NODE_STARTING: return CLU_VIEW_STARTING;
  case CLU_NODE_READY:
    if (nd->stopping) return CLU_VIEW_STOPPED;
    return nd->held ? CLU_VIEW_HELD : CLU_VIEW_READY;
  case CLU_NODE_LOST: return CLU_VIEW_LOST;
  default: return CLU_VIEW_STOPPED;
  }
}

void clu_node_show_state(const clu_node *nd) {
  clu_view_node *to = shown(nd);
  if (!to) return;
  clu_view_set(&to->pid, (uint64_t)nd->pid);
  clu_view_set(&to->changed, clu_os_now());
  clu_view_set(&to->state, shown_state(nd));
}

/* One that shares no memory cannot say what it is at; and not every observer comes by that which
 * the session shares with those that it has started. */
static void show_work(const clu_node *nd) {
  clu_view_node *to = shown(nd);
  uint64_t before, now;
  if (!to || (clu_view_get(&to->slot) && clu_view_get(&to->server) != nd->view->memory->about.pid))
    return;
  before = clu_view_get(&to->waiting);
  now = tasks_at(nd, NULL) + (uint64_t)clu_requests_waiting(&nd->requests);
  if (!before != !now) clu_view_set(&to->changed, clu_os_now());
  clu_view_set(&to->waiting, now);
}

/* Where observers find what it is at, and 1; 0: nowhere. */
static uint64_t slot_shown(const clu_node *nd) {
  int slot = -1;
  clu_shared *s = nd->transport->shared ? nd->transport->shared(nd, &slot) : NULL;
  return s && clu_shared_activity(s, slot) ? (uint64_t)slot + 1 : 0;
}

void clu_node_show(clu_node *nd, clu_view *view, int at, const char *host) {
  clu_view_node *to;
  clu_node_status st;
  clu_view_unref(nd->view);
  nd->view = clu_view_ref(view);
  nd->view_at = at;
  if (!(to = shown(nd))) return;
  memset(&st, 0, sizeof st);
  if (nd->transport->describe) nd->transport->describe(nd, &st);
  clu_view_node_begins(to);
  clu_view_set(&to->id, nd->id);
  if (!st.server && slot_shown(nd)) {
    st.server = (clu_pid)view->memory->about.pid;
    clu_view_set(&view->memory->memory, clu_child_memory(&nd->session->children));
  }
  clu_view_set(&to->server, (uint64_t)st.server);
  clu_view_set(&to->slot, st.server ? slot_shown(nd) : 0);
  if (host) clu_view_set(&to->host, clu_view_host(view, host));
  clu_node_show_state(nd);
}

void clu_node_show_instead(clu_node *nd, clu_node *of) {
  if (of->view) clu_node_show(nd, of->view, of->view_at, NULL);
  clu_view_unref(of->view);
  of->view = NULL;
}

/* ---- sending ---- */

void clu_node_push(clu_node *nd) { clu_chan_watch_flush(&nd->session->loop, &nd->chan, nd->watch); }

int clu_node_all_sent(const clu_node *nd) { return !clu_chan_pending(&nd->chan); }

int clu_node_send(clu_node *nd, uint8_t kind, clu_blob *body) {
  int rc = CLU_DEAD;
  if (clu_node_is_connected(nd)) rc = clu_chan_send(&nd->chan, kind, 0, body, CLU_NO_FD);
  if (rc == CLU_OK) clu_node_push(nd);
  return rc;
}

int clu_node_pass(clu_node *nd, uint8_t kind, uint64_t seq, const void *p, size_t n, clu_fd fd) {
  int rc;
  if (!clu_node_is_connected(nd)) {
    if (fd != CLU_NO_FD) clu_os_close(fd);
    return CLU_DEAD;
  }
  rc = clu_chan_send_bytes(&nd->chan, kind, seq, p, n, fd);
  if (rc == CLU_OK) clu_node_push(nd);
  return rc;
}

void clu_node_say_done(clu_node *nd) { clu_node_send(nd, CLU_K_DONE, NULL); }

int clu_node_tasks(clu_node *nd, uint8_t kind, clu_blob *body, uint32_t n, uint64_t *seq) {
  if (!clu_node_is_open(nd) || nd->stopping) return CLU_DEAD;
  if (n) *seq = nd->seq + 1;
  if (clu_chan_send(&nd->chan, kind, *seq, body, CLU_NO_FD) != CLU_OK) return CLU_NOMEM;
  nd->seq += n;
  return CLU_OK;
}

void clu_node_count_done(clu_node *nd) {
  nd->done++;
  if (nd->view) show_work(nd);
}

void clu_node_interrupt(clu_node *nd, uint64_t seq) {
  if (clu_node_is_ready(nd) && nd->transport->interrupt) nd->transport->interrupt(nd, seq);
}

int clu_node_is_interrupted(const clu_node *nd) { return nd->interrupts > 0; }

int clu_node_ask_signalled(clu_node *nd) {
  if (!clu_node_is_ready(nd) || !nd->transport->ask_signalled) return 0;
  return nd->transport->ask_signalled(nd);
}

void clu_node_take_back(clu_node *nd, uint64_t end) {
  if (clu_node_is_ready(nd) && nd->transport->take_back) nd->transport->take_back(nd, end);
}

clu_claim *clu_node_claim(const clu_node *nd) {
  return nd->transport->claim ? nd->transport->claim(nd) : NULL;
}
clu_ring *clu_node_ring(const clu_node *nd) {
  return nd->transport->ring ? nd->transport->ring(nd) : NULL;
}

int clu_node_is_proxied(const clu_node *nd) { return nd->transport->is_proxied; }

/* ---- requests ---- */

const clu_req *clu_node_first(const clu_node *nd) { return clu_requests_first(&nd->requests); }
int clu_node_requests(const clu_node *nd) { return nd->requests.n; }
uint64_t clu_node_last_call(const clu_node *nd) { return nd->seq; }
int clu_node_awaits(const clu_node *nd, uint64_t scope) {
  return clu_requests_await(&nd->requests, scope, 0);
}
void clu_node_drop_requests(clu_node *nd) { clu_requests_fini(&nd->requests); }

uint64_t clu_node_cancelled_since(const clu_node *nd) {
  return clu_requests_some_cancelled(&nd->requests) ? nd->cancelled_since : 0;
}

clu_blob *clu_node_take_first(clu_node *nd) {
  clu_req *r = clu_requests_first(&nd->requests);
  clu_blob *b = r ? r->body : NULL;
  if (!r) return NULL;
  r->body = NULL;
  clu_requests_drop(&nd->requests, r);
  return b;
}

/* The request that the node is at has to be given up, if it is a cancelled one. */
static void interrupt_cancelled_head(clu_node *nd) {
  const clu_req *head = clu_requests_head(&nd->requests);
  if (head && head->cancelled) clu_node_interrupt(nd, head->seq);
}

/* 1: it was the answer to a request. */
static int take_answer(clu_node *nd, clu_msg *m) {
  clu_req *r = clu_requests_find(&nd->requests, m->seq);
  if (!r) return 0;
  if (r->arrival) return 1; /* it was answered before: this one belongs to nobody */
  if (r->cancelled) {
    clu_requests_drop(&nd->requests, r);
  } else {
    r->kind = m->kind;
    r->body = m->body;
    r->arrival = ++nd->session->arrivals;
    m->body = NULL;
    nd->done++;
  }
  if (nd->view) show_work(nd);
  interrupt_cancelled_head(nd); /* a cancelled one may be next in line */
  return 1;
}

int clu_node_call(clu_node *nd, clu_blob *body, uint64_t scope, int tag, clu_err *e) {
  int rc;
  if (!clu_node_is_open(nd) || nd->stopping) return clu_fail(e, CLU_DEAD, 0, "the node has ended");
  if ((rc = clu_requests_reserve(&nd->requests, e)) != CLU_OK) return rc;
  if (clu_chan_send(&nd->chan, CLU_K_CALL, nd->seq + 1, body, CLU_NO_FD) != CLU_OK)
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  clu_requests_add(&nd->requests, ++nd->seq, scope, tag);
  nd->called = 1;
  if (nd->view) show_work(nd);
  clu_node_push(nd);
  return CLU_OK;
}

int clu_node_was_called(const clu_node *nd) { return nd->called; }
void clu_node_set_called(clu_node *nd, int called) { nd->called = called; }

/* 1: it has left and is waited for. 0: it is removed. */
static int cancel(clu_node *nd, clu_req *r) {
  if (r->arrival || !clu_node_is_open(nd) || clu_chan_withdraw(&nd->chan, CLU_K_CALL, r->seq)) {
    clu_requests_drop(&nd->requests, r);
    return 0;
  }
  return r->cancelled = 1;
}

/* `before`: whether there were cancelled ones, `now`: whether there are more now. */
static void after_cancel(clu_node *nd, int before, int now) {
  clu_node_push(nd);
  if (!now) return;
  if (!before) nd->cancelled_since = clu_os_now();
  interrupt_cancelled_head(nd);
}

void clu_node_cancel(clu_node *nd, uint64_t scope) {
  int before = clu_requests_some_cancelled(&nd->requests), now = 0;
  for (int i = nd->requests.n - 1; i >= 0;
       i--) { /* the last first: what has not left is withdrawn */
    clu_req *r = &nd->requests.at[i];
    if (!r->cancelled && (!scope || r->scope == scope)) now |= cancel(nd, r);
  }
  after_cancel(nd, before, now);
}

void clu_node_cancel_one(clu_node *nd, uint64_t seq) {
  int before = clu_requests_some_cancelled(&nd->requests);
  clu_req *r = clu_requests_find(&nd->requests, seq);
  if (r && !r->cancelled) after_cancel(nd, before, cancel(nd, r));
}

int clu_node_in_step(const clu_node *nd) {
  uint32_t cancelled;
  if (!clu_node_is_open(nd)) return 1;
  tasks_at(nd, &cancelled);
  return !nd->interrupts && !cancelled && !clu_requests_some_cancelled(&nd->requests);
}

int clu_node_busy(const clu_node *nd) {
  return clu_requests_await(&nd->requests, 0, 1) || tasks_at(nd, NULL) > 0;
}

uint64_t clu_node_request_at_hand(const clu_node *nd) {
  const clu_req *r = clu_requests_head(&nd->requests);
  return r ? r->seq : 0;
}

/* ---- reading ---- */

void clu_node_set_ready(clu_node *nd, clu_pid pid) {
  nd->pid = pid;
  if (clu_node_is_starting(nd)) nd->state = CLU_NODE_READY;
  clu_node_show_state(nd);
}

void clu_node_set_refusal(clu_node *nd, const clu_blob *text) {
  size_t n = text ? text->size : 0;
  free(nd->refusal);
  nd->refusal = malloc(n + 1);
  if (!nd->refusal) return;
  if (n) memcpy(nd->refusal, text->data, n);
  nd->refusal[n] = 0;
}

static void tell(void (*hook)(clu_node *, const clu_msg *), clu_node *nd, const clu_msg *m) {
  if (hook) hook(nd, m); /* `m` NULL: it is closed */
}

static void handle(clu_node *nd, clu_msg *m) {
  switch (m->kind) {
  case CLU_K_HELLO:
    /* a fork server says the pid, too, but perhaps later */
    clu_node_set_ready(nd,
                       m->body && m->body->size == 8 ? (clu_pid)clu_get64(m->body->data) : nd->pid);
    interrupt_cancelled_head(nd); /* a signal before would have hit an R that is starting */
    break;
  case CLU_K_REFUSED: /* it cannot serve, and says why */ clu_node_set_refusal(nd, m->body); break;
  case CLU_K_VALUE:
  case CLU_K_FAILED:
  case CLU_K_CANCELLED:
    if (take_answer(nd, m)) break;
    if (nd->data) nd->session->hooks->on_message(nd, m);
    break;
  case CLU_K_RESULTS_READY:
    if (clu_node_ring(nd)) clu_ring_heard(clu_node_ring(nd));
    if (nd->data) nd->session->hooks->on_message(nd, m);
    break;
  case CLU_K_HOST_STATE: tell(nd->session->on_host, nd, m); break;
  case CLU_K_MESH: tell(nd->session->on_mesh, nd, m); break;
  case CLU_K_FORWARD: tell(nd->session->on_forward, nd, m); break;
  case CLU_K_RESULT:
  case CLU_K_RESULTS:
  case CLU_K_RELAY:
    if (nd->data) nd->session->hooks->on_message(nd, m);
    break;
  }
}

void clu_node_receive(clu_node *nd, int fills) {
  for (int k = 0; k != fills && clu_node_is_connected(nd); k++) {
    uint64_t before = nd->chan.bytes_in;
    int rc = clu_chan_fill(&nd->chan), r;
    clu_msg m;
    nd->session->received += nd->chan.bytes_in - before;
    while ((r = clu_chan_next(&nd->chan, &m)) == 1) {
      if (m.body) nd->session->received += clu_blob_weight(m.body) - m.body->size;
      handle(nd, &m);
      clu_blob_unref(m.body);
    }
    if (rc == CLU_AGAIN && r >= 0) return;
    if (rc == CLU_OK && r >= 0) continue;
    if (nd->transport->reconnects && clu_node_is_starting(nd) && !nd->refusal && !nd->stopping)
      clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch);
    else
      clu_node_close(nd);
  }
}

void clu_node_read_all(clu_node *nd) { clu_node_receive(nd, -1); }

static void channel_ready(void *self, unsigned ready) {
  clu_node *nd = self;
  if (ready & CLU_WRITE) clu_node_push(nd);
  if (ready & CLU_READ) clu_node_receive(nd, 16);
}

/* ---- its life ---- */

void clu_node_init(clu_node *nd, const clu_transport *transport, clu_session *s) {
  nd->transport = transport;
  nd->session = s;
  nd->chan.fd = CLU_NO_FD;
  nd->id = clu_session_new_id(s);
  nd->created = clu_os_now();
  nd->next = s->nodes;
  if (nd->next) nd->next->prev = nd;
  s->nodes = nd;
}

void clu_node_unlist(clu_node *nd) {
  if (nd->prev)
    nd->prev->next = nd->next;
  else
    nd->session->nodes = nd->next;
  if (nd->next) nd->next->prev = nd->prev;
}

int clu_node_start(clu_node *nd, const clu_spawn *spec, int slot, const char *folder, clu_err *e) {
  if (!nd->transport->start)
    return clu_fail(e, CLU_UNSUPPORTED, 0, "a node of this kind is not started so");
  return nd->transport->start(nd, spec, slot, folder, e);
}

int clu_node_connect(clu_node *nd, clu_fd fd, clu_pid pid, clu_err *e) {
  int rc;
  clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch);
  if (clu_chan_init(&nd->chan, fd, INT64_MAX, 0) != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  nd->chan.takes_fds = nd->transport->takes_segments ? CLU_TAKES_SEGMENTS : CLU_TAKES_NONE;
  rc = clu_loop_watch(&nd->session->loop, fd, CLU_READ, channel_ready, nd, &nd->watch, e);
  if (rc != CLU_OK) {
    clu_chan_fini(&nd->chan);
    return rc;
  }
  nd->pid = pid;
  return CLU_OK;
}

int clu_node_check(clu_node *nd) {
  int ended = nd->transport->ended && nd->transport->ended(nd);
  if (ended && clu_node_is_open(nd)) {
    clu_node_receive(nd, -1);
    clu_node_close(nd);
  }
  return clu_node_is_open(nd) && clu_node_is_connected(nd);
}

void clu_node_close(clu_node *nd) {
  if (!clu_node_is_open(nd)) return;
  nd->state = nd->stopping ? CLU_NODE_STOPPED : CLU_NODE_LOST;
  nd->closed = clu_os_now();
  if (!nd->stopping) nd->session->deaths++;
  clu_node_show_state(nd);
  if (!nd->stopping && shown(nd)) clu_view_add(&shown(nd)->deaths, 1);
  if (nd->data) nd->session->hooks->on_closed(nd);
  nd->interrupts = 0;
  nd->transport->closed(nd);
  clu_requests_drop_cancelled(&nd->requests);
  clu_chan_watch_close(&nd->session->loop, &nd->chan, &nd->watch);
  tell(nd->session->on_forward, nd, NULL);
}

void clu_node_stop(clu_node *nd, uint32_t grace_ms) {
  if (!clu_node_is_open(nd)) return;
  nd->stopping = 1;
  nd->transport->stop(nd, grace_ms);
}

void clu_node_free(clu_node *nd) {
  if (clu_node_is_open(nd)) {
    if (!nd->stopping)
      clu_node_stop(nd, clu_node_busy(nd) ? 0 : 2000); /* nobody can ask for its answer any more */
    clu_node_close(nd);
  }
  clu_node_drop_data(nd);
  clu_view_unref(nd->view);
  clu_requests_fini(&nd->requests);
  free(nd->refusal);
  free(nd->last_copy);
  clu_node_unlist(nd);
  nd->transport->free(nd);
}
