#include "core/view/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 100 };

/* ---- its life ---- */

clu_view *clu_view_new(const clu_view_about *about, clu_err *e) {
  clu_view *v = calloc(1, sizeof *v);
  void *p;
  if (!v) {
    clu_fail(e, CLU_NOMEM, 0, "not enough memory");
    return NULL;
  }
  if (clu_os_shared_new(sizeof *v->memory, &p, &v->fd, e) != CLU_OK) {
    free(v);
    return NULL;
  }
  clu_os_move_high(&v->fd, 1024);
  v->memory = p;
  v->memory->about = *about;
  v->refs = 1;
  return v;
}

/* Makes the view of a reader. NULL: not enough memory; the mapping is gone then. */
static clu_view *mapped(void *memory) {
  clu_view *v = calloc(1, sizeof *v);
  if (!v) {
    clu_os_shared_free(memory, sizeof *v->memory);
    return NULL;
  }
  v->memory = memory;
  v->fd = CLU_NO_FD;
  v->refs = 1;
  return v;
}

clu_view *clu_view_map(clu_fd fd, clu_err *e) {
  clu_view *v;
  void *p;
  if (clu_os_shared_map(fd, sizeof *v->memory, &p, e) != CLU_OK) return NULL;
  v = mapped(p);
  if (!v) clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  return v;
}

/* Others may have the same memory open, as the fork servers of the session and its forks. */
clu_view *clu_view_map_of(clu_pid pid, clu_fd fd) {
  clu_view *v;
  void *p;
  if (clu_os_shared_of(pid, fd, sizeof *v->memory, &p) != CLU_OK) return NULL;
  if (((clu_view_memory *)p)->about.pid == (uint64_t)pid) return mapped(p);
  clu_os_shared_free(p, sizeof *v->memory);
  return NULL;
}

clu_view *clu_view_ref(clu_view *v) {
  if (v) v->refs++;
  return v;
}

void clu_view_unref(clu_view *v) {
  if (!v || --v->refs > 0) return;
  clu_os_shared_free(v->memory, sizeof *v->memory);
  if (v->fd != CLU_NO_FD) clu_os_close(v->fd);
  free(v);
}

void clu_view_seal(clu_view *v) {
  if (v->fd != CLU_NO_FD) clu_os_close(v->fd);
  v->fd = CLU_NO_FD;
}

/* ---- what has several words ---- */

/* No part of a character is left at the end: bytes that continue one begin with 10. */
static void put_text(char *to, size_t room, const char *text) {
  size_t n = strlen(text);
  if (n >= room) {
    n = room - 1;
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
  }
  memcpy(to, text, n);
  memset(to + n, 0, room - n);
}

static void write_begins(clu_word *version) {
  clu_view_add(version, 1);
  atomic_thread_fence(memory_order_release);
}

static void write_ends(clu_word *version) {
  atomic_thread_fence(memory_order_release);
  clu_view_add(version, 1);
}

static int read_whole(const clu_word *version, void *out, const void *from, size_t n) {
  for (int k = 0; k < TRIES; k++) {
    uint64_t before = atomic_load_explicit(version, memory_order_acquire);
    memcpy(out, from, n);
    atomic_thread_fence(memory_order_acquire);
    if (before % 2 == 0 && clu_view_get(version) == before) return 1;
  }
  return 0;
}

int clu_view_read_job(const clu_view *v, int k, clu_view_job *out) {
  const clu_view_job *j = &v->memory->job[k];
  return read_whole(&j->version, out, j, sizeof *j);
}

int clu_view_read_event(const clu_view *v, int k, clu_view_event *out) {
  const clu_view_event *x = &v->memory->event[k];
  return read_whole(&x->version, out, x, sizeof *x);
}

int clu_view_read_actor(const clu_view *v, int k, clu_view_actor *out) {
  const clu_view_actor *a = &v->memory->actor[k];
  return read_whole(&a->version, out, a, sizeof *a);
}

/* ---- nodes ---- */

clu_view_node *clu_view_node_at(clu_view *v, int i) {
  return v && i >= 0 && i < CLU_VIEW_NODES ? &v->memory->node[i] : NULL;
}

/* Its own tasks are counted from 1 again, so those of the node before would be taken for them. */
void clu_view_node_begins(clu_view_node *nd) {
  clu_view_set(&nd->far, 0);
  for (int k = 0; k < CLU_VIEW_BATCHES; k++) clu_view_set(&nd->batch[k].n, 0);
  atomic_thread_fence(memory_order_release);
  for (int k = 0; k < CLU_VIEW_BATCHES; k++) {
    clu_view_set(&nd->batch[k].seq, 0);
    clu_view_set(&nd->batch[k].job, 0);
  }
}

uint64_t clu_view_host(clu_view *v, const char *name) {
  clu_view_memory *m = v->memory;
  char text[CLU_VIEW_TEXT];
  uint64_t n = clu_view_get(&m->nhosts);
  put_text(text, sizeof text, name);
  for (uint64_t k = 0; k < n; k++)
    if (strcmp(m->host[k], text) == 0) return k;
  if (n == CLU_VIEW_HOSTS) return n - 1;
  memcpy(m->host[n], text, sizeof text);
  atomic_store_explicit(&m->nhosts, n + 1, memory_order_release);
  return n;
}

const clu_view_far *clu_view_far_of(const clu_view *v, int i) {
  uint64_t place = clu_view_get(&v->memory->node[i].far);
  return place > 0 && place <= CLU_VIEW_HOSTS ? &v->memory->far[place - 1] : NULL;
}

uint32_t clu_view_ask_stack(clu_view *v, int i) {
  uint32_t question;
  if (i < 0 || i >= CLU_VIEW_STACKS) return 0;
  question = clu_stack_ask(&v->memory->stack_word[i]);
  atomic_fetch_add(&v->memory->questions, 1); /* after it: who reads this sees the question */
  return question;
}

int clu_view_task_of(const clu_view *v, int i, uint64_t seq, uint64_t *job, uint64_t *task) {
  const clu_view_node *nd = &v->memory->node[i];
  for (int k = 0; k < CLU_VIEW_BATCHES; k++) {
    const clu_view_batch *b = &nd->batch[k];
    uint64_t n = atomic_load_explicit(&b->n, memory_order_acquire), from = clu_view_get(&b->seq);
    if (seq < from || seq - from >= n) continue;
    *job = clu_view_get(&b->job);
    *task = clu_view_get(&b->first) + (seq - from);
    atomic_thread_fence(memory_order_acquire);
    if (clu_view_get(&b->n) == n && clu_view_get(&b->seq) == from) return 1;
  }
  return 0;
}

/* ---- jobs ---- */

/* NULL: another one is there by now. */
static clu_view_job *job_at(clu_view *v, int place, uint64_t number) {
  clu_view_job *j;
  if (!v || place < 0 || place >= CLU_VIEW_JOBS) return NULL;
  j = &v->memory->job[place];
  return clu_view_get(&j->number) == number ? j : NULL;
}

/* One of several tasks that goes on keeps its place as long as there are others. */
static int new_place(clu_view_memory *m, int is_map) {
  uint64_t n = clu_view_get(is_map ? &m->nmaps : &m->nsingles);
  int place;
  if (!is_map) {
    clu_view_set(&m->nsingles, n + 1);
    return CLU_VIEW_MAPS + (int)(n % (CLU_VIEW_JOBS - CLU_VIEW_MAPS));
  }
  for (int k = 0; k < CLU_VIEW_MAPS; k++, n++) {
    place = (int)(n % CLU_VIEW_MAPS);
    if (!clu_view_get(&m->job[place].number) || clu_view_get(&m->job[place].ended)) break;
  }
  clu_view_set(&m->nmaps, n + 1);
  return (int)(n % CLU_VIEW_MAPS);
}

int clu_view_job_begins(clu_view *v, uint64_t number, uint64_t total, uint64_t now) {
  clu_view_job *j;
  int place;
  if (!v) return -1;
  place = new_place(v->memory, total > 1);
  j = &v->memory->job[place];
  write_begins(&j->version);
  clu_view_set(&j->number, number);
  clu_view_set(&j->total, total);
  clu_view_set(&j->began, now);
  clu_view_set(&j->ended, 0);
  clu_view_set(&j->waiting, total);
  clu_view_set(&j->done, 0);
  clu_view_set(&j->failed, 0);
  clu_view_set(&j->retries, 0);
  j->label[0] = 0;
  write_ends(&j->version);
  clu_view_add(&v->memory->given, total);
  return place;
}

void clu_view_job_label(clu_view *v, int place, uint64_t number, const char *label) {
  clu_view_job *j = job_at(v, place, number);
  if (!j) return;
  write_begins(&j->version);
  put_text(j->label, sizeof j->label, label);
  write_ends(&j->version);
}

/* Tasks that have not ended never will. */
void clu_view_job_ends(clu_view *v, int place, uint64_t number, uint64_t now) {
  clu_view_job *j = job_at(v, place, number);
  uint64_t left;
  if (!j) return;
  left = clu_view_get(&j->total) - clu_view_get(&j->done) - clu_view_get(&j->failed);
  clu_view_set(&v->memory->given, clu_view_get(&v->memory->given) - left);
  if (!clu_view_get(&j->ended)) clu_view_set(&j->ended, now);
}

/* ---- tasks ---- */

static int has(const clu_view_batch *b, uint64_t seq) {
  uint64_t from = clu_view_get(&b->seq);
  return seq >= from && seq - from < clu_view_get(&b->n);
}

void clu_view_sent(clu_view *v, int node, const clu_view_batch *batch, uint64_t bytes, int place,
                   uint64_t waiting, uint64_t head) {
  clu_view_node *nd = clu_view_node_at(v, node);
  clu_view_batch *to;
  clu_view_job *j = v ? job_at(v, place, clu_view_get(&batch->job)) : NULL;
  uint64_t n;
  if (j) clu_view_set(&j->waiting, waiting);
  if (!nd) return;
  n = clu_view_get(&nd->nbatches);
  if (has(&nd->batch[n % CLU_VIEW_BATCHES], head)) n++;
  to = &nd->batch[n % CLU_VIEW_BATCHES];
  clu_view_set(&to->n, 0); /* the one that was there is not to be taken for the new one */
  atomic_thread_fence(memory_order_release);
  clu_view_set(&to->seq, clu_view_get(&batch->seq));
  clu_view_set(&to->job, clu_view_get(&batch->job));
  clu_view_set(&to->first, clu_view_get(&batch->first));
  atomic_store_explicit(&to->n, clu_view_get(&batch->n), memory_order_release);
  clu_view_set(&nd->nbatches, n + 1);
  clu_view_add(&nd->sent, bytes);
}

void clu_view_given(clu_view *v, int node, uint64_t job, uint64_t task, const char *text) {
  clu_view_node *nd = clu_view_node_at(v, node);
  if (!nd) return;
  write_begins(&nd->given_version);
  clu_view_set(&nd->given_job, job);
  clu_view_set(&nd->given_task, task);
  put_text(nd->given, sizeof nd->given, text);
  write_ends(&nd->given_version);
}

int clu_view_given_to(const clu_view *v, int i, uint64_t job, uint64_t task,
                      char text[CLU_VIEW_TEXT]) {
  const clu_view_node *nd = &v->memory->node[i];
  if (clu_view_get(&nd->given_job) != job || clu_view_get(&nd->given_task) != task) return 0;
  if (!read_whole(&nd->given_version, text, nd->given, CLU_VIEW_TEXT)) return 0;
  return clu_view_get(&nd->given_job) == job && clu_view_get(&nd->given_task) == task;
}

static void count_end(clu_view *v, const clu_view_end *x) {
  clu_view_node *nd = clu_view_node_at(v, x->node);
  clu_view_job *j = job_at(v, x->place, x->job);
  clu_view_add(x->ok ? &v->memory->done : &v->memory->failed, 1);
  if (nd) {
    clu_view_add(x->ok ? &nd->done : &nd->failed, 1);
    clu_view_add(&nd->received, x->bytes);
  }
  if (!j) return;
  clu_view_add(x->ok ? &j->done : &j->failed, 1);
  if (x->attempt > 1) clu_view_add(&j->retries, x->attempt - 1);
  if (clu_view_get(&j->done) + clu_view_get(&j->failed) == clu_view_get(&j->total))
    clu_view_set(&j->ended, x->began + x->took);
}

void clu_view_ended(clu_view *v, const clu_view_end *x) {
  clu_view_memory *m;
  clu_view_task *t;
  uint64_t n;
  if (!v) return;
  m = v->memory;
  count_end(v, x);
  n = clu_view_get(&m->ntasks);
  t = &m->task[n % CLU_VIEW_TASKS];
  clu_view_set(&t->job, x->job);
  clu_view_set(&t->task, x->task);
  clu_view_set(&t->began, x->began);
  clu_view_set(&t->took, x->took);
  clu_view_set(&t->node, (uint64_t)(x->node + 1));
  clu_view_set(&t->ok, (uint64_t)x->ok);
  atomic_store_explicit(&m->ntasks, n + 1, memory_order_release);
}

/* ---- events ---- */

void clu_view_tell(clu_view *v, const char *kind, int node, const char *text, uint64_t now) {
  clu_view_event *x;
  uint64_t n;
  if (!v) return;
  n = clu_view_get(&v->memory->nevents);
  x = &v->memory->event[n % CLU_VIEW_EVENTS];
  write_begins(&x->version);
  clu_view_set(&x->at, now);
  clu_view_set(&x->node, (uint64_t)node);
  put_text(x->kind, sizeof x->kind, kind);
  put_text(x->text, sizeof x->text, text);
  write_ends(&x->version);
  atomic_store_explicit(&v->memory->nevents, n + 1, memory_order_release);
}

/* ---- actors ---- */

/* A name that has no room here would lead nowhere. */
void clu_view_actor_begins(clu_view *v, uint64_t number, const char *name, const char *label) {
  clu_view_actor *a;
  if (!v || strlen(name) >= CLU_VIEW_NAME) return;
  a = &v->memory->actor[number % CLU_VIEW_ACTORS];
  write_begins(&a->version);
  clu_view_set(&a->number, number);
  put_text(a->name, sizeof a->name, name);
  put_text(a->label, sizeof a->label, label);
  write_ends(&a->version);
}
