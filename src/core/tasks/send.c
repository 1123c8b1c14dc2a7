/* Nodes are sent tasks: the JOB message once, batches of tasks (TASKS), and that a job has ended
 * (JOB_END). The formats: core/wire/task-message.h. */
#include <string.h>

#include "core/base/rng-stream.h"
#include "core/wire/task-message.h"
#include "core/tasks/engine-private.h"

#define NO_LIMIT_FROM 4e15     /* bytes: more than the message can say */
#define NODE_ITSELF 33554432.0 /* bytes */

typedef struct sending {
  clu_engine *t;
  clu_task_job *j;
  clu_node *nd;
  clu_action a;
  clu_blob *body;
} sending;

/* MB that the node may have, so that it collects garbage before a task where it has half of that;
 * 0: any number. Where memory is short, that is what a task needs, and what a node has by itself.
 */
static uint32_t may_have(const sending *s) {
  double bytes = s->t->limits.bytes;
  if (s->t->all->room.is.is_short && clu_node_clock_is_ours(s->nd)) {
    double needs = (double)clu_task_job_expected(s->t, s->j) + NODE_ITSELF;
    if (s->a.need && (double)s->a.need->memory + NODE_ITSELF > needs)
      needs = (double)s->a.need->memory + NODE_ITSELF;
    if (bytes == 0 || needs < bytes) bytes = needs;
  }
  return bytes > 0 && bytes < NO_LIMIT_FROM ? (uint32_t)(bytes / 1048576) + 1 : 0;
}

/* The stream of a task is mostly a short way from that of the task sent before. */
static void stream_of(clu_task_job *j, uint64_t task, uint32_t seed[6]) {
  if (j->sent_at == 0 || task < j->sent_at) {
    memcpy(j->sent_seed, j->seed, sizeof j->seed);
    j->sent_at = 0;
  }
  clu_stream_jump(j->sent_seed, task - j->sent_at);
  j->sent_at = task;
  memcpy(seed, j->sent_seed, sizeof j->sent_seed);
}

static void write_head(unsigned char *head, const sending *s) {
  clu_task_job *j = s->j;
  uint32_t flags = 0, seed[6];
  if (j->seeded) flags |= CLU_TASKS_SEEDED;
  if (j->bare) flags |= CLU_TASKS_BARE;
  if (s->a.need) flags |= CLU_TASKS_GRANT;
  if (j->recording) flags |= CLU_TASKS_RECORDED;
  if (j->n == 1) flags |= CLU_TASKS_ONLY;
  if (!clu_node_ring(s->nd) && !clu_node_is_proxied(s->nd)) flags |= CLU_TASKS_NO_RING;
  memcpy(seed, j->seed, sizeof seed);
  if (j->seeded) stream_of(j, s->a.first, seed);
  clu_put64(head, j->name);
  clu_put32(head + 8, s->a.n);
  clu_put32(head + 12, s->a.attempt);
  clu_put32(head + 16, flags);
  clu_put32(head + 20, may_have(s));
  for (int i = 0; i < 6; i++) clu_put32(head + 24 + 4 * i, seed[i]);
}

/* The JOB message, and values of other tasks, if the node has not got them yet. */
static int send_job(clu_task_job *j, clu_node *nd, int node) {
  uint64_t seq = j->name;
  int rc;
  if (j->sent_to[node] == clu_node_id(nd)) return CLU_OK;
  rc = clu_node_tasks(nd, CLU_K_JOB, j->message, 0, &seq);
  if (rc != CLU_OK) return rc;
  j->sent_to[node] = clu_node_id(nd);
  j->facts->bytes_out += clu_blob_weight(j->message);
  for (size_t k = 0; k < j->given.n && rc == CLU_OK; k++) {
    rc = clu_node_tasks(nd, CLU_K_GIVEN, j->given.list[k].body, 0, &seq);
    j->facts->bytes_out += clu_blob_weight(j->given.list[k].body);
  }
  return rc;
}

/* What a task was given of its host, in one line. */
static void show_given(const sending *s) {
  clu_blob *b = s->a.need ? clu_engine_granted(s->t, s->a.node) : NULL;
  char text[CLU_VIEW_TEXT] = "";
  if (!b) return;
  for (size_t k = 0; k + 1 < b->size && k + 1 < sizeof text; k++)
    text[k] = b->data[k] == '\n' ? ' ' : (char)b->data[k];
  clu_blob_unref(b);
  clu_view_given(s->t->view, s->a.node, s->j->number, s->a.first, text);
}

static void show_sent(const sending *s, uint64_t seq, uint64_t bytes) {
  clu_view_batch batch = {seq, s->a.n, s->j->number, s->a.first};
  if (!s->t->view) return;
  show_given(s);
  clu_view_sent(s->t->view, s->a.node, &batch, bytes, s->j->shown, clu_job_waiting(s->j->job),
                clu_sched_node_head(s->t->sched, s->a.node));
}

/* Queues the messages, and reports to the scheduler. */
static int send_batch(const sending *s, clu_node *nd) {
  uint64_t seq = 0, bytes = s->body->size;
  int rc = send_job(s->j, nd, s->a.node);
  if (rc == CLU_OK) rc = clu_node_tasks(nd, CLU_K_TASKS, s->body, s->a.n, &seq);
  if (rc != CLU_OK) {
    clu_sched_unsent(s->t->sched, &s->a);
    return rc;
  }
  s->j->facts->bytes_out += clu_blob_weight(s->body);
  if (s->j->bare) bytes += s->j->message->size; /* each task has one of its own */
  rc = clu_sched_sent(s->t->sched, &s->a, seq, bytes, clu_os_now());
  if (rc == CLU_OK) show_sent(s, seq, bytes);
  return rc;
}

/* The message without its elements; NULL without memory. */
static clu_blob *new_message(const sending *s) {
  unsigned char head[CLU_TASKS_HEAD];
  clu_blob *b = clu_blob_new(sizeof head + (s->j->bare ? 0 : 64));
  if (!b) return NULL;
  write_head(head, s);
  clu_blob_append(b, head, sizeof head); /* there is room */
  if (!s->a.need) return b;
  if (clu_engine_write_grant(s->t, b, s->a.node, s->a.need, s->a.grant) == CLU_OK) return b;
  clu_blob_unref(b);
  return NULL;
}

/* The caller may give up this job and others meanwhile, work at them, and replace nodes. So the job
 * is held, by the scheduler and here. */
static int add_elements(sending *s) {
  int rc;
  s->j->pins++;
  rc = s->t->all->caller->elements(s->j->caller, s->a.first, s->a.n, clu_node_takes_segments(s->nd),
                                   &s->body);
  if (rc != CLU_OK) {
    clu_sched_unsent(s->t->sched, &s->a);
    clu_task_job_unpin(s->j);
  }
  return rc;
}

int clu_engine_send(clu_engine *t, const clu_action *a) {
  clu_task_node *at = &t->nodes[a->node];
  sending s = {t, a->user, clu_engine_node(t, a->node), *a, NULL};
  uint64_t id = at->id;
  int bare = s.j->bare, rc;
  if (!s.nd || !(s.body = new_message(&s))) { /* replaced: seen to soon */
    clu_sched_unsent(t->sched, a);
    if (s.nd) clu_task_node_kill(s.nd, at, CLU_KILL_NO_MEMORY);
    return CLU_OK;
  }
  if (!bare && (rc = add_elements(&s)) != CLU_OK) return rc;
  s.nd = clu_engine_node(t, a->node);
  if (!s.j->engine || !s.nd || at->id != id) {
    clu_sched_unsent(t->sched, a);
  } else {
    rc = send_batch(&s, s.nd);
    if (rc == CLU_DEAD) /* it was told to end: nothing more for it, until its end is seen */
      clu_sched_node_drain(t->sched, a->node, 1);
    else if (rc != CLU_OK)
      clu_task_node_kill(s.nd, at, CLU_KILL_NO_MEMORY);
  }
  if (!bare) clu_task_job_unpin(s.j);
  clu_blob_unref(s.body);
  return CLU_OK;
}

void clu_engine_flush(clu_engine *t, int node) {
  clu_node *nd = node >= 0 ? clu_engine_node(t, node) : NULL;
  if (nd) clu_node_push(nd);
}

void clu_task_job_send_end(clu_engine *t, clu_task_job *j) {
  for (int i = 0; i < j->nsent_to; i++) {
    clu_node *nd = i < t->n ? clu_engine_node(t, i) : NULL;
    uint64_t seq = j->name;
    if (!nd || !j->sent_to[i] || clu_node_id(nd) != j->sent_to[i]) continue;
    if (clu_node_tasks(nd, CLU_K_JOB_END, NULL, 0, &seq) == CLU_OK) clu_node_push(nd);
    j->sent_to[i] = 0;
  }
}
