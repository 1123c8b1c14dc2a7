#include "core/node/fork-server.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/node/fork-private.h"

int clu_server_take_slot(clu_server *s, uint64_t id) {
  int i = s->taken;
  while (i < s->nslots && s->slots[i]) i++;
  s->taken = i;
  if (i == CLU_SLOTS) return -1;
  if (i >= s->nslots) {
    size_t n = (size_t)s->nslots;
    uint64_t *more = clu_grow(s->slots, &n, (size_t)i + 1, sizeof *more);
    if (!more) return -1;
    memset(more + s->nslots, 0, (n - (size_t)s->nslots) * sizeof *more);
    s->slots = more;
    s->nslots = (int)n;
  }
  s->slots[i] = id;
  if (s->shared) clu_shared_reset(s->shared, i);
  return i;
}

void clu_server_free_slot(clu_server *s, uint64_t id) {
  int i = s->found && s->found->node.id == id && s->found->slot >= 0 ? s->found->slot : 0;
  while (i < s->nslots && s->slots[i] != id) i++;
  if (i == s->nslots) return;
  s->slots[i] = 0;
  if (i < s->taken) s->taken = i;
}

static void server_ready(void *self, unsigned ready);

static void list(clu_server *s) {
  s->next = s->session->servers;
  if (s->next) s->next->prev = s;
  s->session->servers = s;
}

int clu_server_start(clu_session *session, clu_spawn *spec, clu_server **out, clu_err *e) {
  clu_fd pair[2];
  clu_server *s;
  int rc = clu_os_pair(pair, e);
  if (rc != CLU_OK) return rc;
  clu_os_move_high(&pair[0], 1024);
  s = calloc(1, sizeof *s);
  if (!s || clu_chan_init(&s->chan, pair[0], INT64_MAX, CLU_TAKES_SEGMENTS) != CLU_OK) {
    free(s);
    clu_os_close(pair[0]);
    clu_os_close(pair[1]);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  s->session = session;
  s->refs = 1;
  spec->keep = &pair[1];
  spec->nkeep = 1;
  rc = clu_os_spawn(spec, &s->pid, e);
  clu_os_close(pair[1]);
  if (rc == CLU_OK && (rc = clu_loop_watch(&session->loop, pair[0], CLU_READ, server_ready, s,
                                           &s->watch, e)) != CLU_OK) {
    clu_os_kill(s->pid, CLU_SIG_KILL, 0);
    while (clu_os_reap(s->pid, 1, &s->how) == CLU_AGAIN) clu_os_pause(1000000);
  }
  if (rc != CLU_OK) {
    clu_chan_fini(&s->chan);
    free(s);
    return rc;
  }
  list(s);
  *out = s;
  return CLU_OK;
}

/* One that is no child of this process. */
static int server_at(clu_session *session, clu_fd fd, int takes, clu_server **out, clu_err *e) {
  clu_server *s;
  int rc;
  clu_os_move_high(&fd, 1024);
  s = calloc(1, sizeof *s);
  if (!s || clu_chan_init(&s->chan, fd, INT64_MAX, takes) != CLU_OK) {
    free(s);
    clu_os_close(fd);
    return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  }
  s->session = session;
  s->refs = 1;
  s->reaped = 1;
  s->how.code = -1;
  rc = clu_loop_watch(&session->loop, fd, CLU_READ, server_ready, s, &s->watch, e);
  if (rc != CLU_OK) {
    clu_chan_fini(&s->chan);
    free(s);
    return rc;
  }
  list(s);
  *out = s;
  return CLU_OK;
}

int clu_server_connect(clu_session *session, clu_fd fd, clu_server **out, clu_err *e) {
  int rc = server_at(session, fd, CLU_TAKES_FDS, out, e);
  if (rc == CLU_OK) (*out)->remote = 1;
  return rc;
}

int clu_server_adopt(clu_session *session, clu_fd fd, clu_pid pid, clu_server **out, clu_err *e) {
  int rc = server_at(session, fd, CLU_TAKES_SEGMENTS, out, e);
  if (rc != CLU_OK) return rc;
  (*out)->pid = pid;
  (*out)->adopted = 1;
  return rc;
}

void clu_server_set_host(clu_server *s, uint64_t link, uint64_t host) {
  s->link = link;
  s->host = host;
}

void clu_session_host_cut(clu_session *session, uint64_t link, uint64_t host, int reach) {
  for (clu_server *s = session->servers; s; s = s->next) {
    if (!s->remote || s->link != link || s->host != host || s->cut == reach) continue;
    s->cut = reach;
    session->cuts++;
  }
}

int clu_server_send(clu_server *s, uint8_t kind, uint64_t seq, const void *p, size_t n,
                    clu_fd pass) {
  int rc;
  if (s->state == CLU_SERVER_ENDED) {
    if (pass != CLU_NO_FD) clu_os_close(pass);
    return CLU_DEAD;
  }
  rc = clu_chan_send_bytes(&s->chan, kind, seq, p, n, pass);
  if (rc == CLU_OK) clu_chan_watch_flush(&s->session->loop, &s->chan, s->watch);
  return rc;
}

int clu_server_send_blob(clu_server *s, uint8_t kind, uint64_t seq, clu_blob *body) {
  int rc;
  if (s->state == CLU_SERVER_ENDED) return CLU_DEAD;
  rc = clu_chan_send(&s->chan, kind, seq, body, CLU_NO_FD);
  if (rc == CLU_OK) clu_chan_watch_flush(&s->session->loop, &s->chan, s->watch);
  return rc;
}

/* A node that stands still cannot end with its server, should that have ended before it stopped. */
static void let_go_on(const clu_node *nd) {
  if (nd->held && nd->pid > 0) clu_os_kill(nd->pid, CLU_SIG_CONT, 1);
}

static void server_ended(clu_server *s) {
  if (s->state == CLU_SERVER_ENDED) return;
  s->state = CLU_SERVER_ENDED;
  clu_chan_watch_close(&s->session->loop, &s->chan, &s->watch);
  for (clu_fork_node *f = s->nodes; f; f = f->next) {
    if (!clu_node_is_open(&f->node)) continue;
    if (!s->remote) let_go_on(&f->node);
    clu_node_receive(&f->node, -1); /* what it still had to say */
    clu_node_close(&f->node);
  }
  clu_server_reap(s);
}

void clu_server_close(clu_server *s) {
  s->asked = 1;
  server_ended(s);
}

int clu_server_reap(clu_server *s) {
  int rc;
  if (s->reaped) return 1;
  rc = clu_os_reap(s->pid, 0, &s->how);
  if (rc == CLU_DEAD) s->how.code = -1; /* somebody else reaped it: how it ended is not known */
  if (rc != CLU_AGAIN) s->reaped = 1;
  return s->reaped;
}

clu_server *clu_server_ref(clu_server *s) {
  s->refs++;
  return s;
}

void clu_server_unref(clu_server *s) {
  if (--s->refs > 0) return;
  if (s->state != CLU_SERVER_ENDED) clu_server_close(s);
  clu_server_reap(s);
  clu_blob_unref(s->ready);
  clu_blob_unref(s->refusal);
  if (s->shared) clu_os_shared_free(s->shared, sizeof *s->shared);
  free(s->slots);
  if (s->prev)
    s->prev->next = s->next;
  else
    s->session->servers = s->next;
  if (s->next) s->next->prev = s->prev;
  free(s);
}

static int is_of(const clu_fork_node *f, uint64_t id) { return f && f->node.id == id; }

/* Nodes start in their order, and nearly so they end: the next one is beside the last. */
static clu_node *node_of(clu_server *s, uint64_t id) {
  clu_fork_node *f = s->found;
  if (f && !is_of(f, id)) f = is_of(f->prev, id) ? f->prev : f->next;
  if (!is_of(f, id))
    for (f = s->nodes; f && f->node.id != id;) f = f->next;
  if (f) s->found = f;
  return f ? &f->node : NULL;
}

/* Without it all works, but a task that was sent to a node can never be taken back. */
static void take_shared(clu_server *s) {
  clu_fd fd = clu_chan_take_fd(&s->chan);
  if (fd == CLU_NO_FD) return;
  if (!s->shared) clu_shared_map(&s->shared, fd, NULL);
  clu_os_close(fd);
}

static void node_spawned(clu_server *s, const clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  if (!nd || !m->body || m->body->size != 8) return;
  nd->pid = (clu_pid)clu_get64(m->body->data);
  clu_node_show_state(nd);
}

static void node_refused(clu_server *s, const clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  clu_server_free_slot(s, m->seq);
  if (!nd) return;
  clu_node_set_refusal(nd, m->body);
  clu_node_close(nd);
}

static void take_last_copy(clu_node *nd, const unsigned char *text, size_t n) {
  if (n == 0 || n >= CLU_COPY_TEXT || nd->last_copy || !(nd->last_copy = malloc(n + 1))) return;
  memcpy(nd->last_copy, text, n);
  nd->last_copy[n] = 0;
}

static void node_exited(clu_server *s, clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  clu_server_free_slot(s, m->seq);
  if (!nd || !m->body || m->body->size < 28) return;
  nd->how.by_signal = (int)clu_get32(m->body->data);
  nd->how.code = (int)clu_get32(m->body->data + 4);
  nd->how_known = 1;
  nd->over_limit = clu_get32(m->body->data + 8) == CLU_OVER_LIMIT;
  nd->may_be_oom = clu_get32(m->body->data + 8) == CLU_MAY_BE_OOM;
  nd->memory = clu_get64(m->body->data + 12);
  take_last_copy(nd, m->body->data + 28, m->body->size - 28);
  clu_node_receive(nd, -1); /* an answer given before the end counts */
  if (nd->data) s->session->hooks->on_message(nd, m);
  clu_node_close(nd);
}

static void node_signalled(clu_server *s, clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  if (!nd || nd->interrupts == 0) return;
  if (--nd->interrupts == 0 && nd->data) s->session->hooks->on_message(nd, m);
}

static void node_taken(clu_server *s, clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  if (nd && nd->data && m->body && m->body->size == 8) s->session->hooks->on_message(nd, m);
}

static void settings_answered(clu_server *s, clu_msg *m) {
  clu_blob_unref(s->refusal);
  s->refusal = m->body;
  m->body = NULL;
  s->answered = m->seq;
  s->applied = s->refusal ? 0 : m->seq;
}

static void server_is_ready(clu_server *s, clu_msg *m) {
  s->state = CLU_SERVER_READY;
  clu_blob_unref(s->ready);
  s->ready = m->body;
  m->body = NULL;
  take_shared(s);
}

static double number_at(const clu_msg *m, size_t at, double unit) {
  uint64_t x = clu_get64(m->body->data + at);
  return x == UINT64_MAX ? -1 : (double)x / unit;
}

static void machine_told(clu_server *s, const clu_msg *m) {
  size_t size = m->body ? m->body->size : 0;
  if (size < 24 || size % 24 != 0 || m->seq != s->machine.question) return;
  s->machine.trip = clu_os_now() - s->asked_machine;
  s->machine.load = number_at(m, 0, 1000);
  s->machine.memory = number_at(m, 8, 1);
  s->machine.memory_free = number_at(m, 16, 1);
  s->machine.question = 0;
  for (size_t at = 24; at < size; at += 24) {
    clu_node *nd = node_of(s, clu_get64(m->body->data + at));
    if (!nd) continue;
    nd->use_of = m->seq;
    nd->cpu = number_at(m, at + 8, 1000);
    nd->own_memory = number_at(m, at + 16, 1);
  }
}

static void stack_told(clu_server *s, const clu_msg *m) {
  clu_node *nd = node_of(s, m->seq);
  if (nd && m->body && nd->transport->told) nd->transport->told(nd, m->body);
}

static void handle(clu_server *s, clu_msg *m) {
  switch (m->kind) {
  case CLU_K_READY: server_is_ready(s, m); break;
  case CLU_K_APPLIED: settings_answered(s, m); break;
  case CLU_K_SPAWNED: node_spawned(s, m); break;
  case CLU_K_REFUSED: node_refused(s, m); break;
  case CLU_K_EXITED: node_exited(s, m); break;
  case CLU_K_SIGNALLED: node_signalled(s, m); break;
  case CLU_K_TAKEN: node_taken(s, m); break;
  case CLU_K_MACHINE: machine_told(s, m); break;
  case CLU_K_STACK: stack_told(s, m); break;
  case CLU_K_BYE: s->idle = 1; break;
  }
}

static void server_read(clu_server *s) {
  for (int k = 0; k < 16 && s->chan.fd != CLU_NO_FD; k++) {
    int rc = clu_chan_fill(&s->chan), r;
    clu_msg m;
    while ((r = clu_chan_next(&s->chan, &m)) == 1) {
      handle(s, &m);
      clu_blob_unref(m.body);
    }
    if (rc == CLU_AGAIN && r >= 0) return;
    if (rc != CLU_OK || r < 0) server_ended(s);
  }
}

static void server_ready(void *self, unsigned ready) {
  clu_server *s = self;
  if (ready & CLU_WRITE) clu_chan_watch_flush(&s->session->loop, &s->chan, s->watch);
  if ((ready & CLU_READ) && s->chan.fd != CLU_NO_FD) server_read(s);
}

/* ---- what is asked of it ---- */

int clu_server_is_starting(const clu_server *s) { return s->state == CLU_SERVER_STARTING; }
int clu_server_is_ready(const clu_server *s) { return s->state == CLU_SERVER_READY; }
int clu_server_is_remote(const clu_server *s) { return s->remote; }
int clu_server_is_adopted(const clu_server *s) { return s->adopted; }
int clu_server_has_ended(const clu_server *s) { return s->state == CLU_SERVER_ENDED; }
clu_blob *clu_server_report(const clu_server *s) { return s->ready; }

uint64_t clu_server_answered(const clu_server *s, const clu_blob **refusal) {
  *refusal = s->refusal;
  return s->answered;
}

int clu_server_ask_machine(clu_server *s, int of_nodes) {
  memset(&s->machine, 0, sizeof s->machine);
  s->machine.question = s->machine.number = clu_session_new_id(s->session);
  s->asked_machine = clu_os_now();
  return clu_server_send(s, CLU_K_MACHINE, s->machine.question, "\1", of_nodes ? 1 : 0, CLU_NO_FD);
}

int clu_server_machine(const clu_server *s, clu_server_machine_status *out) {
  *out = s->machine;
  return s->asked_machine && !s->machine.question;
}

int clu_server_node_use(const clu_node *nd, double *cpu, double *memory) {
  const clu_fork_node *f = (const clu_fork_node *)nd;
  *cpu = nd->cpu;
  *memory = nd->own_memory;
  return nd->use_of != 0 && nd->use_of == f->server->machine.number;
}

void clu_server_status_of(const clu_server *s, clu_server_status *out) {
  static const char *const names[] = {"starting", "ready", "ended"};
  out->pid = s->pid;
  out->state = names[s->state];
  out->idle = s->idle;
  out->asked = s->asked;
  out->reaped = s->reaped;
  out->how = s->how;
  out->applied = s->applied;
  out->live = s->live;
}
