/* What nodes say of their tasks, from bytes to the values of a job.
 *
 * What comes within clu_pump(), by the socket or by way of a ring, is only queued, as bytes: no R function is called
 * there. clu_take_results() makes values of it.
 */
#include "r/tasks/tasks.h"
#include "core/wire/task-message.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_NOTE 16      /* before each of the small results that are queued */
#define KEEP_SMALL 1048576 /* so much of their memory stays for the next */
#define ODD_FOR 5000000000u /* ns that a record in a ring waits for what comes by the socket */

/* ---- queues ---- */

/* 0 without memory. */
static int add_note(notes *q, uint64_t element, uint32_t flags, clu_blob *body) {
  note *x = malloc(sizeof *x);
  if (!x) return 0;
  x->next = NULL;
  x->element = element;
  x->flags = flags;
  x->body = body ? clu_blob_ref(body) : NULL;
  if (q->last)
    q->last->next = x;
  else
    q->first = x;
  q->last = x;
  return 1;
}

/* The body is the caller's. */
int clu_take_note(notes *q, note *out) {
  note *x = q->first;
  if (!x) return 0;
  *out = *x;
  q->first = x->next;
  if (!q->first) q->last = NULL;
  free(x);
  return 1;
}

void clu_drop_notes(notes *q) {
  note x;
  while (clu_take_note(q, &x)) clu_blob_unref(x.body);
}

int clu_tasks_lost(const tjob *j) { return j->lost || (j->job && clu_job_out_of_memory(j->job)); }

void clu_job_fail(tjob *j, const clu_ended *x) {
  failure *f;
  if (j->nfailures == j->capfailures) {
    size_t cap = j->capfailures ? 2 * j->capfailures : 4;
    failure *more = realloc(j->failures, cap * sizeof *more);
    if (!more) {
      j->lost = 1; /* R is told: an element without a value must not look like one whose value is NULL */
      return;
    }
    j->failures = more;
    j->capfailures = cap;
  }
  f = &j->failures[j->nfailures++];
  j->ended[x->task] = 1;
  f->element = x->task;
  f->why = x->why;
  f->cause = x->cause;
  f->node = x->node;
  f->attempt = x->attempt;
}

void clu_tasks_trace(tasks *t, const tjob *j, const clu_ended *x, uint64_t began, uint64_t took, size_t bytes, int ok) {
  record *r;
  if (t->most == 0) return;
  if (t->ntrace < t->most && t->ntrace == t->captrace) {
    size_t cap = t->captrace ? 2 * t->captrace : 256;
    record *more;
    if (cap > t->most) cap = t->most;
    more = realloc(t->trace, cap * sizeof *more);
    if (!more) return;
    t->trace = more;
    t->captrace = cap;
  }
  r = &t->trace[t->ntrace++ % t->captrace];
  r->job = j->number;
  r->element = x->task;
  r->node = x->node;
  r->attempt = x->attempt;
  r->sent = x->sent;
  r->began = began;
  r->took = took;
  r->bytes = (uint32_t)(bytes > UINT32_MAX ? UINT32_MAX : bytes);
  r->ok = ok;
}

/* ---- what nodes say, within clu_pump() ---- */

static int add_small(tjob *j, uint64_t element, uint32_t flags, const unsigned char *p, size_t n) {
  unsigned char *to;
  if (!j->small && !(j->small = clu_blob_new(4096))) return 0;
  if (clu_blob_append(j->small, NULL, SMALL_NOTE + n) != 0) return 0; /* all of it or nothing */
  to = j->small->data + j->small->size - SMALL_NOTE - n;
  clu_put64(to, element);
  clu_put32(to + 8, flags);
  clu_put32(to + 12, (uint32_t)n);
  memcpy(to + SMALL_NOTE, p, n);
  return 1;
}

/* The node has answered, with so many bytes. */
static void ended(tasks *t, const clu_ended *x, uint32_t flags, uint64_t began, uint64_t took, size_t wire) {
  tjob *j = x->user;
  clu_tasks_trace(t, j, x, began, took, wire, x->why == CLU_END_ANSWER && !(flags & CLU_RESULT_ERROR));
  if (x->why != CLU_END_ANSWER) {
    clu_job_fail(j, x);
    return;
  }
  j->answered++;
  j->bytes_in += wire;
  if (flags & CLU_RESULT_ERROR) clu_job_fail(j, x);
}

/* A record whose turn has not come waits for a result that comes by the socket, and has left before it. What is no record
 * of this node's, or waits for nothing, is as bad as an answer out of turn there. */
static void odd_record(clu_node *nd, tnode *at, const unsigned char *p, size_t n, uint64_t now) {
  uint64_t seq = p && n >= CLU_SMALL_HEAD ? clu_get64(p + 8) : 0;
  if (!clu_node_is_ready(nd)) return; /* it has died */
  if (!clu_sched_node_has(at->of->e, at->index, seq)) {
    clu_tasks_kill(nd, at, CLU_NO_SENSE);
  } else if (at->odd != seq) {
    at->odd = seq;
    at->odd_since = now;
  }
}

/* Takes what is in the node's ring. A result whose turn it is not has another before it, which came, or will come,
 * by the socket. */
static void take_ring(clu_node *nd, tnode *at) {
  tasks *t = at->of;
  clu_ring *r = clu_node_ring(nd);
  const unsigned char *p;
  size_t n;
  uint64_t now;
  if (!r || at->id != clu_node_id(nd) || !clu_ring_used(r)) return;
  now = clu_os_now();
  while ((p = clu_ring_peek(r, &n)) || n) {
    clu_ended x;
    uint32_t flags;
    uint64_t began, took, head = clu_sched_node_head(t->e, at->index);
    int rc;
    if (!p || n < CLU_SMALL_HEAD || head == 0 || clu_get64(p + 8) != head) {
      odd_record(nd, at, p, n, now);
      return;
    }
    at->odd = 0;
    flags = clu_get32(p);
    took = clu_get32(p + 4);
    began = clu_get64(p + 16);
    rc = clu_sched_answer(t->e, at->index, head, 0, took, now, &x);
    if (rc > 0) {
      clu_node_count_done(nd);
      ended(t, &x, flags, began, took, n);
      if (x.why == CLU_END_ANSWER && !add_small(x.user, x.task, flags, p + CLU_SMALL_HEAD, n - CLU_SMALL_HEAD))
        ((tjob *)x.user)->lost = 1;
    }
    clu_ring_took(r);
  }
}

static void on_over(clu_node *nd) {
  tnode *at = clu_node_data(nd);
  if (at->id != clu_node_id(nd)) return;
  take_ring(nd, at);
  clu_sched_node_closed(at->of->e, at->index);
}

/* What a record in the ring waits for was written before it: when all that has come was read for long, nothing will come. */
static void wait_no_longer(clu_node *nd, tnode *at) {
  uint64_t seq = at->odd;
  if (!seq || at->id != clu_node_id(nd) || clu_os_now() - at->odd_since < ODD_FOR) return;
  clu_node_read_all(nd);
  if (at->odd == seq && at->id == clu_node_id(nd) && clu_node_is_ready(nd)) clu_tasks_kill(nd, at, CLU_NO_SENSE);
}

void clu_tasks_take_rings(tasks *t, SEXP handles) {
  for (int i = 0; i < t->n; i++) {
    clu_node *nd = t->nodes[i].id ? clu_tasks_node(handles, i) : NULL;
    if (!nd || clu_node_data(nd) != &t->nodes[i] || !clu_node_is_ready(nd)) continue;
    take_ring(nd, &t->nodes[i]);
    wait_no_longer(nd, &t->nodes[i]);
  }
}

static void on_task(clu_node *nd, clu_msg *m) {
  tnode *at = clu_node_data(nd);
  tasks *t = at->of;
  clu_ended x;
  tjob *j;
  int rc;
  uint64_t now, began, took = 0;
  uint32_t flags = 0;
  void *owner;
  uint64_t element;
  if (at->id != clu_node_id(nd)) return; /* the scheduler has given it up */
  take_ring(nd, at);
  if (m->kind == CLU_K_RESULTS_READY) return;
  began = now = clu_os_now();
  if (m->kind == CLU_K_RELAY) {
    if (m->body && clu_sched_node_current(t->e, at->index, m->seq, &owner, &element))
      add_note(&((tjob *)owner)->relays, element, 0, m->body);
    return;
  }
  if (m->kind == CLU_K_RESULT && (!m->body || m->body->size < CLU_RESULT_HEAD)) { /* it is out of its mind */
    clu_tasks_kill(nd, at, CLU_NO_SENSE);
    return;
  }
  if (m->kind == CLU_K_RESULT) {
    flags = clu_get32(m->body->data);
    began = clu_get64(m->body->data + 8);
    took = clu_get64(m->body->data + 16);
    if (!clu_node_clock_is_ours(nd)) began = now - took; /* another clock */
  }
  rc = clu_sched_answer(t->e, at->index, m->seq, m->kind == CLU_K_CANCELLED, took, now, &x);
  if (rc < 0) clu_tasks_kill(nd, at, CLU_NO_SENSE);
  if (rc <= 0) return;
  clu_node_count_done(nd);
  j = x.user;
  if (x.why == CLU_END_ANSWER && m->kind == CLU_K_CANCELLED) x.why = CLU_END_CANCELLED;
  ended(t, &x, flags, began, took, m->body ? m->body->size : 0);
  if (x.why == CLU_END_ANSWER && !add_note(&j->results, x.task, flags, m->body)) j->lost = 1;
  take_ring(nd, at); /* what had to wait for this one */
}

static uint32_t tasks_at(const clu_node *nd, uint32_t *unwanted) {
  tnode *at = clu_node_data(nd);
  if (at->id != clu_node_id(nd)) return 0;
  return clu_sched_node_tasks(at->of->e, at->index, unwanted);
}

void clu_tasks_listen(void) {
  static const clu_task_hooks hooks = {on_task, tasks_at, on_over};
  clu_session_set_task_hooks(clu_the_session, &hooks);
}

/* ---- values ---- */

static void set_value(tjob *j, SEXP prot, uint64_t element, uint32_t flags, SEXP v) {
  if (flags & CLU_RESULT_LOG) {
    if (VECTOR_ELT(prot, 3) == R_NilValue) {
      PROTECT(v);
      SET_VECTOR_ELT(prot, 3, Rf_allocVector(VECSXP, Rf_xlength(VECTOR_ELT(prot, 2))));
      UNPROTECT(1);
    }
    SET_VECTOR_ELT(VECTOR_ELT(prot, 3), (R_xlen_t)element, VECTOR_ELT(v, 1));
    v = VECTOR_ELT(v, 0);
  }
  SET_VECTOR_ELT(VECTOR_ELT(prot, 2), (R_xlen_t)element, v);
  j->ended[element] = 1;
}

/* Those that came by way of rings. A jump (no memory, an object that cannot be read) leaves the rest for later. R code may run
 * while one is read (a namespace is loaded, finalizers), and add to them or take them: nothing points into them then. */
static void take_small(tjob *j, SEXP prot) {
  unsigned char now[CLU_RING_MOST];
  while (j->small && j->small_at < j->small->size) {
    const unsigned char *p = j->small->data + j->small_at;
    uint32_t flags = clu_get32(p + 8), n = clu_get32(p + 12);
    uint64_t element = clu_get64(p);
    SEXP v;
    memcpy(now, p + SMALL_NOTE, n);
    j->small_at += SMALL_NOTE + n;
    v = PROTECT(flags & CLU_RESULT_BARE ? clu_plain_bare_get(now, n) : clu_unserialize_bytes(now, n));
    set_value(j, prot, element, flags, v);
    UNPROTECT(1);
  }
  if (!j->small) return;
  j->small_at = j->small->size = 0;
  if (j->small->cap > KEEP_SMALL) {
    clu_blob_unref(j->small);
    j->small = NULL;
  }
}

/* Results that have come become values. */
void clu_take_results(tjob *j, SEXP prot) {
  note x;
  take_small(j, prot);
  while (clu_take_note(&j->results, &x)) {
    SEXP v;
    if (!x.body) continue;
    v = PROTECT(clu_unserialize(x.body, CLU_RESULT_HEAD)); /* gives it back */
    set_value(j, prot, x.element, x.flags, v);
    UNPROTECT(1);
  }
}
