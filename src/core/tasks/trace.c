#include "core/tasks/trace.h"

#include <stdlib.h>
#include <string.h>

clu_job_facts *clu_facts_new(uint64_t number, uint64_t n, const char *label) {
  size_t size = strlen(label) + 1;
  clu_job_facts *f = malloc(sizeof *f + size);
  if (!f) return NULL;
  f->refs = 1;
  f->number = number;
  f->n = n;
  f->begun = f->bytes_out = 0;
  memcpy(f->label, label, size);
  return f;
}

void clu_facts_unref(clu_job_facts *f) {
  if (f && --f->refs == 0) free(f);
}

int clu_trace_grow(clu_trace *t) {
  size_t cap = t->cap ? 2 * t->cap : 256;
  clu_task_record *more;
  if (cap > t->most) cap = t->most;
  if (cap == t->cap) {
    t->at = 0;
    return cap > 0;
  }
  more = t->n > t->cap ? NULL : realloc(t->records, cap * sizeof *more);
  if (!more) { /* the oldest ones make room; it stays as large as it is */
    t->most = t->cap;
    t->at = 0;
    return t->cap > 0;
  }
  t->records = more;
  t->cap = cap;
  return 1;
}

size_t clu_trace_size(const clu_trace *t) { return t->n < t->cap ? t->n : t->cap; }

const clu_task_record *clu_trace_at(const clu_trace *t, size_t k) {
  return &t->records[(t->n - clu_trace_size(t) + k) % t->cap];
}

void clu_trace_free(clu_trace *t) {
  for (size_t k = 0; k < clu_trace_size(t); k++) clu_facts_unref(t->records[k].job);
  free(t->records);
  t->records = NULL;
  t->n = t->cap = t->at = 0;
}
