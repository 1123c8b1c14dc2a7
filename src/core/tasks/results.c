/* Nodes answer tasks: their bytes are taken here. What comes within clu_loop_pump(), by the socket
 * or by way of a ring, is only queued. Results of a node come in the order of its tasks, whichever
 * way each of them takes: a record in the ring whose turn has not come waits for one that comes by
 * the socket.
 */
#include <string.h>

#include "core/wire/task-message.h"
#include "core/tasks/engine-private.h"

#define RING_RESULT_HEAD 16       /* bytes before each of the ring results that are queued */
#define KEEP_RING_RESULTS 1048576 /* so much of their memory stays for the next */
#define EARLY_FOR 5000000000u /* ns that a record in a ring waits for what comes by the socket */

/* ---- what nodes say, within clu_loop_pump() ---- */

/* All of it is queued, or, without memory, nothing. */
static int push_ring_result(clu_task_job *j, uint64_t task, uint32_t flags, const unsigned char *p,
                            size_t n) {
  unsigned char *to;
  if (!j->ring_results) j->ring_results = clu_blob_new(4096);
  if (!j->ring_results || clu_blob_append(j->ring_results, NULL, RING_RESULT_HEAD + n) != 0)
    return CLU_NOMEM;
  to = j->ring_results->data + j->ring_results->size - RING_RESULT_HEAD - n;
  clu_put64(to, task);
  clu_put32(to + 8, flags);
  clu_put32(to + 12, (uint32_t)n);
  memcpy(to + RING_RESULT_HEAD, p, n);
  return CLU_OK;
}

/* Whether the journal has all that is to be kept of a result. Then the task has ended. */
static int is_only_recorded(clu_task_job *j, uint64_t task, uint32_t flags) {
  if (!j->recording || !j->recording->as.only || (flags & CLU_RESULT_ERROR)) return 0;
  clu_task_job_has_value(j, task);
  return 1;
}

/* The node has answered, with `bytes` of them. */
static void note_answer(clu_engine *t, const clu_ended *x, uint32_t flags, uint64_t began,
                        uint64_t took, size_t bytes, uint64_t now) {
  clu_task_job *j = x->user;
  int is_error = (flags & CLU_RESULT_ERROR) != 0;
  clu_task_record r = {.began = began, .took = took, .received = now};
  r.bytes = (uint32_t)(bytes > UINT32_MAX ? UINT32_MAX : bytes);
  r.end = clu_task_end_of(x, is_error);
  if (t->nodes[x->node].room.peak) clu_task_node_room_ended(&t->nodes[x->node], j);
  clu_engine_remember(t, j, x, &r);
  clu_task_job_finish(j, began + took);
  clu_task_job_order_came(j, x->task, bytes);
  if (x->why == CLU_END_ANSWER) {
    clu_task_job_uncount(j);
    j->answered++;
    j->bytes_in += bytes;
    if (j->n == 1) j->sent_to[x->node] = 0; /* the node has forgotten the job */
  }
  if (x->why != CLU_END_ANSWER || is_error) clu_task_job_fail(j, x);
  clu_task_job_tell(j);
}

/* A record whose turn has not come waits for a result that comes by the socket, and has left before
 * it. What is no record of this node's, or waits for nothing, is as bad as an answer out of turn
 * there. */
static void on_early_record(clu_node *nd, clu_task_node *at, const unsigned char *p, size_t n,
                            uint64_t now) {
  uint64_t seq = p && n >= CLU_RING_RESULT_HEAD ? clu_get64(p + 8) : 0;
  if (!clu_node_is_ready(nd)) return; /* it has died */
  if (!clu_sched_node_has(at->engine->sched, at->index, seq)) {
    clu_task_node_kill(nd, at, CLU_KILL_CORRUPT);
  } else if (at->early != seq) {
    at->early = seq;
    at->early_since = now;
  }
}

/* The record of task `seq`, which is the next that the node has to answer. `ahead`: so much is
 * this machine's clock ahead of the node's. */
static void take_record(clu_node *nd, clu_task_node *at, uint64_t seq, const unsigned char *p,
                        size_t n, uint64_t now, uint64_t ahead) {
  uint32_t flags = clu_get32(p);
  uint64_t took = clu_get32(p + 4), began = clu_get64(p + 16) + ahead;
  clu_ended x;
  clu_task_job *j;
  if (clu_sched_answer(at->engine->sched, at->index, seq, 0, took, now, &x) <= 0)
    return; /* nobody wants it */
  clu_node_count_done(nd);
  j = x.user;
  at->engine->all->ring_bytes += n;
  if (j->recording)
    clu_task_job_record_result(j, &x, flags, took, p + CLU_RING_RESULT_HEAD,
                               n - CLU_RING_RESULT_HEAD);
  note_answer(at->engine, &x, flags, began, took, n, now);
  if (x.why == CLU_END_ANSWER && !(flags & CLU_RESULT_ERROR) &&
      clu_task_job_hand_on_bytes(j, flags, p + CLU_RING_RESULT_HEAD, n - CLU_RING_RESULT_HEAD) !=
          CLU_OK)
    clu_task_job_fail_takers(j);
  if (x.why != CLU_END_ANSWER || is_only_recorded(j, x.task, flags)) return;
  if (push_ring_result(j, x.task, flags, p + CLU_RING_RESULT_HEAD, n - CLU_RING_RESULT_HEAD) !=
      CLU_OK)
    j->out_of_memory = 1;
}

/* Takes what is in the node's ring, as far as its turn has come. Whether any was. */
static int take_ring(clu_node *nd, clu_task_node *at) {
  clu_ring *r = clu_node_ring(nd);
  const unsigned char *p;
  size_t n;
  uint64_t now;
  int any = 0;
  if (!r || at->id != clu_node_id(nd) || !clu_ring_used(r)) return 0;
  now = clu_os_now();
  while ((p = clu_ring_peek(r, &n)) || n) {
    uint64_t head = clu_sched_node_head(at->engine->sched, at->index);
    if (!p || n < CLU_RING_RESULT_HEAD || head == 0 || clu_get64(p + 8) != head) {
      on_early_record(nd, at, p, n, now);
      return any;
    }
    any = 1;
    at->early = 0;
    take_record(nd, at, head, p, n, now, 0);
    clu_ring_took(r);
  }
  return any;
}

/* What an early record waits for was written before it: when all that has come was read for long,
 * nothing will come. */
static void end_early_record(clu_node *nd, clu_task_node *at) {
  uint64_t seq = at->early;
  if (!seq || at->id != clu_node_id(nd) || clu_os_now() - at->early_since < EARLY_FOR) return;
  clu_node_read_all(nd);
  if (at->early == seq && at->id == clu_node_id(nd) && clu_node_is_ready(nd))
    clu_task_node_kill(nd, at, CLU_KILL_CORRUPT);
}

int clu_engine_take_rings(clu_engine *t) {
  int any = 0;
  if (!t->rings.any) return 0;
  for (int i = 0; i < t->n; i++) {
    clu_node *nd = clu_engine_node(t, i);
    if (!nd || !clu_node_is_ready(nd)) continue;
    any |= take_ring(nd, &t->nodes[i]);
    end_early_record(nd, &t->nodes[i]);
  }
  return any;
}

void clu_engine_look(const clu_engine *t, int looking) {
  if (!t->rings.any) return;
  for (int i = 0; i < t->n; i++) {
    clu_node *nd = clu_engine_node(t, i);
    if (nd && clu_node_ring(nd)) clu_ring_look(clu_node_ring(nd), looking);
  }
}

static void on_relay(clu_task_node *at, const clu_msg *m) {
  void *job;
  uint64_t task;
  clu_task_job *j;
  if (!m->body || !clu_sched_node_current(at->engine->sched, at->index, m->seq, &job, &task))
    return;
  j = job;
  /* output that there is no memory for is lost: it is no result */
  if (clu_queue_push(&j->relays, task, 0, m->body) == CLU_OK && j->is_heard) {
    j->unheard++;
    j->engine->jobs.unheard += !j->is_hearing;
  }
  if (j->awaited) clu_engine_tell_all(at->engine);
}

/* The task has ended, with a result or, given up, without one. */
static void on_result(clu_node *nd, clu_task_node *at, const clu_msg *m) {
  int given_up = m->kind == CLU_K_CANCELLED, rc;
  uint64_t now = clu_os_now(), began = now, took = 0, late = 0;
  uint32_t flags = 0;
  size_t failed;
  clu_ended x;
  clu_task_job *j;
  if (m->kind == CLU_K_RESULT) {
    flags = clu_get32(m->body->data);
    late =
        1000 * (uint64_t)clu_get32(m->body->data + 4); /* the node's time is what is planned with */
    took = clu_get64(m->body->data + 16);
    /* a node of another machine has another clock */
    began = clu_node_clock_is_ours(nd) ? clu_get64(m->body->data + 8) : now - took;
    if (clu_segments_are_lost(m->body->segments)) flags = CLU_RESULT_ERROR;
  }
  rc = clu_sched_answer(at->engine->sched, at->index, m->seq, given_up, took + late, now, &x);
  if (rc < 0) clu_task_node_kill(nd, at, CLU_KILL_CORRUPT);
  if (rc <= 0) return;
  clu_node_count_done(nd);
  j = x.user;
  failed = j->nfailures;
  if (x.why == CLU_END_ANSWER && given_up) x.why = CLU_END_CANCELLED;
  if (j->recording && x.why != CLU_END_ANSWER) clu_task_job_record_end(j, &x);
  if (j->recording && x.why == CLU_END_ANSWER && m->body)
    clu_task_job_record_result(j, &x, flags, took, m->body->data + CLU_RESULT_HEAD,
                               m->body->size - CLU_RESULT_HEAD);
  note_answer(at->engine, &x, flags, began, took, m->body ? clu_blob_weight(m->body) : 0, now);
  if (x.why == CLU_END_ANSWER && m->body && !(flags & CLU_RESULT_ERROR) &&
      clu_task_job_hand_on(j, m->body) != CLU_OK)
    clu_task_job_fail_takers(j);
  if (given_up && m->body && j->nfailures > failed)
    j->failures[failed].stack = clu_blob_ref(m->body);
  if (x.why == CLU_END_ANSWER && !is_only_recorded(j, x.task, flags) &&
      clu_queue_push(&j->results, x.task, flags, m->body) != CLU_OK)
    j->out_of_memory = 1;
  take_ring(nd, at); /* what had to wait for this one */
}

/* Records that the proxy of another host has taken from the node's ring, in order. What is not
 * those that the node has to answer next is as bad as an answer out of turn. */
static void on_results(clu_node *nd, clu_task_node *at, const clu_msg *m) {
  size_t size = m->body ? m->body->size : 0, k = CLU_RESULTS_HEAD;
  const unsigned char *p = size ? m->body->data : NULL;
  uint64_t now = clu_os_now(), ahead = size >= CLU_RESULTS_HEAD ? now - clu_get64(p) : 0;
  while (k < size && at->id == clu_node_id(nd)) {
    size_t n = size - k > 4 ? clu_get32(p + k) : 0;
    uint64_t head = clu_sched_node_head(at->engine->sched, at->index);
    if (n < CLU_RING_RESULT_HEAD || n > CLU_RING_MOST || n > size - k - 4 || head == 0 ||
        clu_get64(p + k + 12) != head) {
      clu_task_node_kill(nd, at, CLU_KILL_CORRUPT);
      return;
    }
    take_record(nd, at, head, p + k + 4, n, now, ahead);
    k += 4 + n;
  }
}

static void on_message(clu_node *nd, clu_msg *m) {
  clu_task_node *at = clu_node_data(nd);
  if (at->id != clu_node_id(nd)) return; /* the scheduler has given it up */
  take_ring(nd, at);
  if (m->kind == CLU_K_RESULTS_READY) return;
  if (m->kind == CLU_K_RELAY)
    on_relay(at, m);
  else if (m->kind == CLU_K_RESULTS)
    on_results(nd, at, m);
  else if (m->kind == CLU_K_EXITED)
    clu_sched_node_begun(at->engine->sched, at->index, clu_get64(m->body->data + 20));
  else if (m->kind == CLU_K_SIGNALLED)
    clu_sched_interrupt_arrived(at->engine->sched, at->index, clu_os_now());
  else if (m->kind == CLU_K_TAKEN)
    clu_sched_node_taken(at->engine->sched, at->index, clu_get64(m->body->data));
  else if (m->kind == CLU_K_RESULT && (!m->body || m->body->size < CLU_RESULT_HEAD))
    clu_task_node_kill(nd, at, CLU_KILL_CORRUPT);
  else
    on_result(nd, at, m);
}

static void on_closed(clu_node *nd) {
  clu_task_node *at = clu_node_data(nd);
  at->engine->deaths.may_be = 1;
  if (at->id != clu_node_id(nd)) return;
  take_ring(nd, at);
  clu_sched_node_closed(at->engine->sched, at->index);
  clu_engine_tell_all(at->engine);
}

static uint32_t tasks_at(const clu_node *nd, uint32_t *cancelled) {
  clu_task_node *at = clu_node_data(nd);
  if (at->id != clu_node_id(nd)) return 0;
  return clu_sched_node_tasks(at->engine->sched, at->index, cancelled);
}

static void on_gone(clu_node *nd) {
  clu_task_node *at = clu_node_data(nd);
  at->engine->deaths.may_be = 1;
  if (at->node == nd) at->node = NULL;
}

void clu_engines_listen(clu_engines *all) {
  static const clu_task_hooks hooks = {on_message, tasks_at, on_closed, on_gone};
  clu_session_set_task_hooks(all->session, &hooks);
}

clu_engine *clu_engine_of(const clu_node *nd) {
  const clu_task_node *at = clu_node_data(nd);
  return at ? at->engine : NULL;
}

/* ---- results for the caller ---- */

/* What comes while the caller makes a value of one may add to them or take them: nothing points
 * into them then. */
static int next_ring_result(clu_task_job *j, unsigned char *small, clu_task_result *out) {
  clu_blob *b = j->ring_results;
  const unsigned char *p;
  if (!b) return 0;
  if (j->ring_results_at < b->size) {
    p = b->data + j->ring_results_at;
    out->task = clu_get64(p);
    out->flags = clu_get32(p + 8);
    out->size = clu_get32(p + 12);
    out->body = NULL;
    memcpy(small, p + RING_RESULT_HEAD, out->size);
    j->ring_results_at += RING_RESULT_HEAD + out->size;
    return 1;
  }
  j->ring_results_at = b->size = 0;
  if (b->cap > KEEP_RING_RESULTS) {
    clu_blob_unref(b);
    j->ring_results = NULL;
  }
  return 0;
}

int clu_task_job_next_result(clu_task_job *j, unsigned char *small, clu_task_result *out) {
  clu_queued x;
  if (j->recording) clu_task_job_flush_journal(j);
  if (next_ring_result(j, small, out)) return 1;
  while (clu_queue_take(&j->results, &x)) {
    if (!x.body) continue;
    out->task = x.task;
    out->flags = x.flags;
    out->body = x.body;
    out->size = 0;
    return 1;
  }
  return 0;
}

/* ---- what a node is at ---- */

uint64_t clu_engine_at_hand(const clu_node *nd, clu_task_job **job, uint64_t *task,
                            uint64_t *since) {
  const clu_task_node *at = clu_node_data(nd);
  uint64_t head = 0;
  void *user = NULL;
  *job = NULL;
  *since = 0;
  if (at && at->id == clu_node_id(nd)) head = clu_sched_node_head(at->engine->sched, at->index);
  if (!head) return 0;
  *since = clu_sched_node_since(at->engine->sched, at->index);
  if (clu_sched_node_current(at->engine->sched, at->index, head, &user, task)) *job = user;
  return head;
}
