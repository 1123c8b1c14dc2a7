#include "core/node/request.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"

int clu_requests_reserve(clu_requests *q, clu_err *e) {
  clu_req *more = clu_grow(q->at, &q->cap, (size_t)q->n + 1, sizeof *more);
  if (!more) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  q->at = more;
  return CLU_OK;
}

void clu_requests_add(clu_requests *q, uint64_t seq, uint64_t scope, int tag) {
  clu_req *r = &q->at[q->n++];
  memset(r, 0, sizeof *r);
  r->seq = seq;
  r->scope = scope;
  r->tag = tag;
}

clu_req *clu_requests_find(const clu_requests *q, uint64_t seq) {
  for (int i = 0; i < q->n; i++)
    if (q->at[i].seq == seq) return &q->at[i];
  return NULL;
}

clu_req *clu_requests_first(const clu_requests *q) {
  for (int i = 0; i < q->n; i++)
    if (!q->at[i].cancelled) return &q->at[i];
  return NULL;
}

clu_req *clu_requests_head(const clu_requests *q) {
  for (int i = 0; i < q->n; i++)
    if (!q->at[i].arrival) return &q->at[i];
  return NULL;
}

int clu_requests_await(const clu_requests *q, uint64_t scope, int any) {
  for (int i = 0; i < q->n; i++)
    if (!q->at[i].arrival && (any || q->at[i].scope == scope)) return 1;
  return 0;
}

int clu_requests_some_cancelled(const clu_requests *q) {
  for (int i = 0; i < q->n; i++)
    if (q->at[i].cancelled) return 1;
  return 0;
}

int clu_requests_waiting(const clu_requests *q) {
  int n = 0;
  for (int i = 0; i < q->n; i++) n += !q->at[i].arrival;
  return n;
}

void clu_requests_drop(clu_requests *q, clu_req *r) {
  clu_blob_unref(r->body);
  memmove(r, r + 1, (size_t)(q->at + --q->n - r) * sizeof *r);
}

void clu_requests_drop_cancelled(clu_requests *q) {
  for (int i = q->n - 1; i >= 0; i--)
    if (q->at[i].cancelled) clu_requests_drop(q, &q->at[i]);
}

void clu_requests_fini(clu_requests *q) {
  while (q->n) clu_requests_drop(q, &q->at[q->n - 1]);
  free(q->at);
  memset(q, 0, sizeof *q);
}
