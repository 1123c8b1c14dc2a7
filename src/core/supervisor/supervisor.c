#include "core/supervisor/supervisor.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/os-forks.h"
#include "core/base/os-machine.h"
#include "core/loop/channel-watch.h"
#include "core/supervisor/parts.h"

/* Messages that are handled before the answers leave. Many requests for nodes come in a row: the
 * session has to be woken for each write of answers, and then takes time from the forks. */
enum { MESSAGES_A_TURN = 16 };

/* ---- what the loop calls ---- */

static void on_control(void *self, unsigned ready) {
  clu_supervisor *sv = self;
  int rc;
  if (!(ready & CLU_READ)) return;
  rc = clu_chan_fill(&sv->chan);           /* its messages are handled by take_messages() */
  if (rc == CLU_OK) clu_sv_count_idle(sv); /* the idle limit may be due in this very pump */
  if (rc != CLU_OK && rc != CLU_AGAIN) sv->closed = 1;
}

static void take_signals(clu_supervisor *sv) {
  int term = 0;
  clu_os_watch_clear(&term);
  if (term) {
    sv->closed = 1;
    sv->why = CLU_SV_SIGNAL;
  }
  clu_sv_reap(sv);
}

static void on_signals(void *self, unsigned ready) {
  (void)ready;
  take_signals(self);
}

static void on_idle_time(void *self) {
  clu_supervisor *sv = self;
  /* this process may have been stopped, and a request be here */
  if (clu_chan_fill(&sv->chan) == CLU_OK) {
    clu_sv_count_idle(sv);
    return;
  }
  clu_supervisor_answer(sv, CLU_K_BYE, 0, NULL, 0);
  clu_chan_flush(&sv->chan);
  sv->closed = 1;
}

/* ---- begin and end ---- */

/* What is due is started by serve(): that may go on in the child. */
static void on_again_time(void *self) { (void)self; }

static void init_timers(clu_supervisor *sv) {
  clu_timer_init(&sv->idle, on_idle_time, sv);
  clu_timer_init(&sv->again, on_again_time, sv);
  clu_timer_init(&sv->kills, clu_sv_on_kill_time, sv);
  clu_timer_init(&sv->memory, clu_sv_on_memory_time, sv);
  clu_timer_init(&sv->orphans, clu_sv_on_orphans_time, sv);
  clu_timer_init(&sv->removals, clu_sv_on_removal_time, sv);
  clu_timer_init(&sv->listens, clu_sv_on_listens_time, sv);
}

static int watch_all(clu_supervisor *sv, clu_err *e) {
  int rc = clu_loop_watch(&sv->loop, sv->chan.fd, CLU_READ, on_control, sv, &sv->control, e);
  if (rc == CLU_OK) rc = clu_os_watch_start(&sv->signals, e);
  if (rc != CLU_OK) return rc;
  /* clu_os_fork() closes this one */
  return clu_loop_watch(&sv->loop, sv->signals, CLU_READ | CLU_KEEP_IN_CHILD, on_signals, sv,
                        &sv->children, e);
}

int clu_supervisor_init(clu_supervisor *sv, const clu_sv_options *how, clu_err *e) {
  int rc;
  memset(sv, 0, sizeof *sv);
  sv->chan.fd = sv->signals = sv->slots_fd = sv->output = sv->errors = CLU_NO_FD;
  sv->listener = sv->caller = CLU_NO_FD;
  sv->exec = how->exec;
  sv->idle_ns = how->idle_ns;
  init_timers(sv);
  if (clu_os_random(&sv->family, sizeof sv->family) != CLU_OK || sv->family == 0)
    sv->family = 1 + (uint64_t)clu_os_getpid();
  clu_os_adopt_orphans();
  sv->tmp = malloc(strlen(how->tmp) + 1);
  sv->table = clu_os_apart_new(sizeof *sv->table);
  if (!sv->tmp || !sv->table) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  sv->nodes = sv->table->nodes;
  strcpy(sv->tmp, how->tmp);
  clu_os_set_cloexec(how->control); /* it came through exec */
  clu_os_set_blocking(how->control, 0);
  if ((rc = clu_chan_init(&sv->chan, how->control, INT64_MAX, CLU_TAKES_SEGMENTS)) != CLU_OK)
    return clu_fail(e, rc, 0, "not enough memory");
  clu_chan_lend(&sv->chan, sv->table->in);
  if ((rc = clu_shared_new(&sv->shared, &sv->slots_fd, e)) != CLU_OK) {
    sv->slots_fd = CLU_NO_FD;
    return rc;
  }
  if ((rc = clu_loop_init(&sv->loop, e)) != CLU_OK) return rc;
  return watch_all(sv, e);
}

void clu_supervisor_fini(clu_supervisor *sv) {
  clu_loop_fini(&sv->loop);
  clu_chan_fini(&sv->chan);
  if (sv->signals != CLU_NO_FD) clu_os_watch_end();
  sv->signals = CLU_NO_FD;
  if (sv->slots_fd != CLU_NO_FD) clu_os_close(sv->slots_fd);
  clu_sv_close_listener(sv);
  clu_sv_close_views(sv);
  clu_sv_close_output(sv);
  sv->slots_fd = CLU_NO_FD;
  clu_sv_let_all_go(sv);
  free(sv->gone);
  free(sv->kept);
  free(sv->oom_file);
  clu_os_apart_free(sv->table, sizeof *sv->table);
  free(sv->tmp);
  sv->gone = NULL;
  sv->ngone = 0;
  sv->cap_gone = 0;
  sv->kept = NULL;
  sv->cap_kept = 0;
  sv->oom_file = NULL;
  sv->table = NULL;
  sv->nodes = NULL;
  sv->tmp = NULL;
  sv->n = 0;
}

/* ---- messages ---- */

/* The number is written before the signal is sent: the node's handler compares it. */
static void cancel(clu_supervisor *sv, const clu_sv_node *nd, uint64_t request) {
  sv->shared->cancel[nd->slot] = request;
  clu_os_interrupt(nd->pid);
}

/* It cannot begin any more what it has not begun. */
static void take_back(clu_supervisor *sv, const clu_sv_node *nd, uint64_t end) {
  unsigned char body[8];
  clu_put64(body, clu_claim_take_back(&sv->shared->claim[nd->slot], end));
  clu_supervisor_answer(sv, CLU_K_TAKEN, nd->id, body, sizeof body);
}

/* What a node has told of its calls goes to a session that has not mapped this memory. */
static void tell_of_stack(clu_supervisor *sv, const clu_sv_node *nd, int wish, uint64_t copy_of) {
  static clu_stack got;
  static unsigned char body[CLU_STACK_HEAD + CLU_STACK_TEXT];
  clu_stack_word *w = clu_shared_stack_word(sv->shared, nd->slot);
  const clu_stack *s = clu_shared_stack(sv->shared, nd->slot);
  uint64_t now = clu_os_now();
  if (!s) return;
  memset(body, 0, CLU_STACK_HEAD);
  if (wish == CLU_STACK_COPY) clu_put32(body + 24, clu_stack_ask_copy(w, copy_of));
  if (wish == CLU_STACK_CALLS) clu_stack_ask(w);
  if (wish != CLU_STACK_LAST) clu_put32(body, atomic_load(&w->asked));
  clu_put32(body + 28, atomic_load(&w->copies_told)); /* before what it has told of that is read */
  got.size = 0;
  if (clu_stack_read(w, s, &got)) {
    clu_put32(body + 4, got.told);
    clu_put64(body + 8, got.seq);
    clu_put64(body + 16, now > got.taken ? now - got.taken : 0);
    memcpy(body + 32, got.copy, CLU_COPY_TEXT);
    memcpy(body + CLU_STACK_HEAD, got.text, got.size);
  }
  clu_supervisor_answer(sv, CLU_K_STACK, nd->id, body, CLU_STACK_HEAD + got.size);
}

/* A message about one node. The node may have ended meanwhile: then it is ignored. */
static void handle_for_node(clu_supervisor *sv, const clu_msg *m) {
  clu_sv_node *nd = clu_sv_find(sv, m->seq);
  size_t size = m->body ? m->body->size : 0;
  if (m->kind == CLU_K_CANCEL) {
    if (nd && size == 8) cancel(sv, nd, clu_get64(m->body->data));
    clu_supervisor_answer(sv, CLU_K_SIGNALLED, m->seq, NULL, 0);
  } else if (m->kind == CLU_K_STOP) {
    if (size == 4) clu_sv_stop(sv, m->seq, clu_get32(m->body->data));
  } else if (m->kind == CLU_K_LIMIT) {
    if (nd && size == 8) clu_sv_limit(sv, nd, clu_get64(m->body->data));
  } else if (m->kind == CLU_K_HOLD) {
    if (nd && size == 1) clu_sv_hold(nd, m->body->data[0] == 1);
  } else if (m->kind == CLU_K_TAKE_BACK) {
    if (nd && size == 8) take_back(sv, nd, clu_get64(m->body->data));
  } else if (m->kind == CLU_K_STACK) {
    if (nd && size == 9) tell_of_stack(sv, nd, m->body->data[0], clu_get64(m->body->data + 1));
  }
}

static uint64_t or_unknown(double x) { return x < 0 ? UINT64_MAX : (uint64_t)x; }

/* -1 is ~0 */
static void put_machine(unsigned char *p) {
  clu_machine m;
  clu_os_machine(&m);
  clu_put64(p, or_unknown(1000 * m.load));
  clu_put64(p + 8, (uint64_t)m.memory);
  clu_put64(p + 16, (uint64_t)m.memory_free);
}

static void put_use(unsigned char *p, const clu_sv_node *nd) {
  clu_put64(p, nd->id);
  clu_put64(p + 8, (uint64_t)clu_os_process_cpu(nd->pid, NULL));
  clu_put64(p + 16, (uint64_t)clu_os_process_memory(nd->pid, -1));
}

static void tell_of_machine(clu_supervisor *sv, const clu_msg *m) {
  int nodes = m->body && m->body->size == 1 ? sv->n : 0;
  unsigned char *body = malloc(24 * (1 + (size_t)nodes));
  if (!body) return;
  put_machine(body);
  for (int i = 0; i < nodes; i++) put_use(body + 24 * (1 + (size_t)i), &sv->nodes[i]);
  clu_supervisor_answer(sv, CLU_K_MACHINE, m->seq, body, 24 * (1 + (size_t)nodes));
  free(body);
}

/* What was passed, or a file of this host. CLU_NO_FD: there is none. */
static clu_fd take_output(clu_supervisor *sv, const clu_msg *m) {
  char path[1024];
  clu_fd fd = CLU_NO_FD;
  if (!m->body) return clu_chan_take_fd(&sv->chan);
  if (m->body->size >= sizeof path) return CLU_NO_FD;
  memcpy(path, m->body->data, m->body->size);
  path[m->body->size] = 0;
  return clu_os_open_append(path, &fd, NULL) == CLU_OK ? fd : CLU_NO_FD;
}

/* A message QUIT says why all ends, and so whether this process may stay. */
static int why_of(const clu_msg *m) {
  return m->body && m->body->size == 1 ? CLU_SV_LEFT : CLU_SV_ASKED;
}

/* 1: the caller of serve() has to do something, `ev` says what. */
static int handle(clu_supervisor *sv, clu_msg *m, clu_sv_event *ev) {
  switch (m->kind) {
  case CLU_K_SETUP:
  case CLU_K_SETTINGS:
    sv->forks = 0;
    ev->what = m->kind == CLU_K_SETUP ? CLU_SV_SETUP : CLU_SV_SETTINGS;
    ev->msg = *m;
    m->body = NULL;
    return 1;
  case CLU_K_OUTPUT:
    clu_sv_close_output(sv);
    sv->output = take_output(sv, m);
    return 0;
  case CLU_K_ERRORS: sv->errors = take_output(sv, m); return 0;
  case CLU_K_SPAWN:
    ev->what = CLU_SV_CHILD;
    if (clu_sv_spawn(sv, m, &ev->node)) return 1;
    clu_sv_count_idle(sv);
    return 0;
  case CLU_K_MACHINE: tell_of_machine(sv, m); return 0;
  case CLU_K_VIEW: clu_sv_take_view(sv, m); return 0;
  case CLU_K_DELIVER: clu_sv_deliver(sv, m); return 0;
  case CLU_K_QUIT:
    sv->closed = 1;
    sv->why = why_of(m);
    return 0;
  default: handle_for_node(sv, m); return 0;
  }
}

enum turn { NONE_LEFT, SOME_LEFT, FOR_CALLER };

/* Handles some of the messages that have come. */
static enum turn take_messages(clu_supervisor *sv, clu_sv_event *ev) {
  for (int k = 0; k < MESSAGES_A_TURN && !sv->closed; k++) {
    clu_msg m;
    int r = clu_chan_next(&sv->chan, &m), for_caller;
    if (r < 0) {
      sv->closed = 1;
      sv->why = CLU_SV_ASKED;
    }
    if (r <= 0) return NONE_LEFT;
    for_caller = handle(sv, &m, ev);
    clu_blob_unref(m.body);
    if (for_caller) return FOR_CALLER;
    clu_chan_fill(&sv->chan); /* an end shows again when the loop reads */
  }
  return SOME_LEFT;
}

/* The session's end may be seen before all is done that it has said. Nothing of that is of use
 * then, but whether this process is to end, too. */
static void take_last_wish(clu_supervisor *sv) {
  clu_msg m;
  while (sv->why == CLU_SV_LEFT && clu_chan_next(&sv->chan, &m) == 1) {
    if (m.kind == CLU_K_QUIT) sv->why = why_of(&m);
    clu_blob_unref(m.body);
  }
}

/* ---- serve ---- */

int clu_supervisor_serve(clu_supervisor *sv, clu_sv_event *ev, clu_err *e) {
  take_signals(sv);
  clu_sv_count_idle(sv); /* the caller may have been at work */
  while (!sv->closed) {
    enum turn turn = take_messages(sv, ev);
    int rc;
    if (turn == FOR_CALLER) return CLU_OK;
    if (clu_sv_start_again(sv, &ev->node)) {
      ev->what = CLU_SV_CHILD;
      return CLU_OK;
    }
    if (clu_sv_observe(sv, &ev->node)) {
      ev->what = CLU_SV_OBSERVER;
      return CLU_OK;
    }
    clu_chan_watch_flush(&sv->loop, &sv->chan, sv->control);
    if (sv->closed) break;
    rc = clu_loop_pump(&sv->loop, turn == SOME_LEFT ? 0 : -1, e);
    if (rc != CLU_OK) return rc;
  }
  take_last_wish(sv);
  clu_sv_close_listener(sv);
  clu_sv_end_all(sv);
  ev->what = CLU_SV_END;
  ev->why = sv->why;
  return CLU_OK;
}
