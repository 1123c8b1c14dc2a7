#include "core/sched/sched-queue.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/grow.h"

#define COMPACT_FROM 64 /* items taken before the rest is moved to the front, at least */

/* ---- first in, first out ---- */

int clu_fifo_push(clu_fifo *q, const void *item, size_t size) {
  void *items;
  if (q->head > COMPACT_FROM &&
      2 * q->head > q->end) { /* each item is moved once at most, on average */
    memmove(q->items, q->items + q->head * size, clu_fifo_length(q) * size);
    q->end -= q->head;
    q->head = 0;
  }
  items = clu_grow(q->items, &q->cap, q->end + 1, size);
  if (!items) return CLU_NOMEM;
  q->items = items;
  memcpy(q->items + q->end++ * size, item, size);
  return CLU_OK;
}

void clu_fifo_fini(clu_fifo *q) {
  free(q->items);
  memset(q, 0, sizeof *q);
}

/* ---- the tasks of a job that are with no node ---- */

static clu_retry *retry_at(const clu_pending *q, size_t k) {
  return clu_fifo_at(&q->retries, k, sizeof(clu_retry));
}

void clu_pending_init(clu_pending *q, uint64_t total) {
  memset(q, 0, sizeof *q);
  q->total = q->waiting = total;
  q->until = UINT64_MAX;
}

void clu_pending_fini(clu_pending *q) {
  free(q->returned);
  free(q->starts);
  free(q->excused);
  clu_fifo_fini(&q->retries);
  memset(q, 0, sizeof *q);
}

int clu_pending_init_without(clu_pending *q, uint64_t total, const unsigned char *done) {
  uint64_t end = total;
  clu_pending_init(q, total);
  clu_pending_clear(q);
  while (end > 0) { /* what is returned last leaves first */
    uint64_t first = end;
    while (first > 0 && !done[first - 1]) first--;
    if (clu_pending_return(q, first, end - first) != CLU_OK) {
      clu_pending_clear(q);
      return CLU_NOMEM;
    }
    end = first > 0 ? first - 1 : 0;
  }
  return CLU_OK;
}

int clu_pending_return(clu_pending *q, uint64_t first, uint64_t n) {
  clu_range *top = q->nreturned ? &q->returned[q->nreturned - 1] : NULL;
  if (n == 0) return CLU_OK;
  if (top && top->first == first + n) { /* taken back from the end: one range again */
    top->first = first;
    top->n += n;
  } else {
    clu_range *more = clu_grow(q->returned, &q->capreturned, q->nreturned + 1, sizeof *more);
    if (!more) return CLU_NOMEM;
    q->returned = more;
    q->returned[q->nreturned].first = first;
    q->returned[q->nreturned++].n = n;
  }
  q->waiting += n;
  return CLU_OK;
}

int clu_pending_retry(clu_pending *q, uint64_t task, uint32_t attempt, int last) {
  clu_retry r;
  if (!q->starts) q->starts = calloc(q->total ? (size_t)q->total : 1, 1);
  if (!q->starts) return CLU_NOMEM;
  memset(&r, 0, sizeof r);
  r.task = task;
  r.last = last;
  if (clu_fifo_push(&q->retries, &r, sizeof r) != CLU_OK) return CLU_NOMEM;
  q->starts[task] = (uint8_t)attempt;
  q->waiting++;
  return CLU_OK;
}

int clu_pending_excuse(clu_pending *q, uint64_t task) {
  if (!q->excused) q->excused = calloc(q->total ? (size_t)q->total : 1, 1);
  if (!q->excused) return CLU_NOMEM;
  if (q->excused[task] < UINT8_MAX) q->excused[task]++;
  return CLU_OK;
}

/* The first retry that may meet node `avoid`; their number: there is none. */
static size_t find_retry(const clu_pending *q, int avoid) {
  size_t k = 0, n = clu_fifo_length(&q->retries);
  while (avoid >= 0 && k < n && retry_at(q, k)->last == avoid) k++;
  return k;
}

/* Which of those that were taken back leave next, counted from 1; 0: none may. */
static size_t find_returned(const clu_pending *q) {
  size_t k = q->nreturned;
  while (k > 0 && q->returned[k - 1].first >= q->until) k--;
  return k;
}

int clu_pending_has_plain(const clu_pending *q) {
  return find_returned(q) || (q->next < q->total && q->next < q->until);
}

int clu_pending_has(const clu_pending *q, int avoid) {
  return clu_pending_has_plain(q) || find_retry(q, avoid) < clu_fifo_length(&q->retries);
}

static int take_retry(clu_pending *q, int avoid, clu_taken *out) {
  size_t k = find_retry(q, avoid);
  clu_retry r;
  if (k == clu_fifo_length(&q->retries)) return 0;
  r = *retry_at(q, k);
  *retry_at(q, k) = *retry_at(q, 0); /* their order among each other does not matter */
  clu_fifo_pop(&q->retries);
  out->first = r.task;
  out->n = 1;
  out->attempt = clu_pending_starts(q, r.task) + 1;
  out->last = r.last;
  return 1;
}

static uint32_t least(uint64_t n, uint64_t most) { return (uint32_t)(n < most ? n : most); }

/* The first tasks of the range with number `k`. */
static void take_returned(clu_pending *q, size_t k, uint32_t most, clu_taken *out) {
  clu_range *r = &q->returned[k];
  uint64_t may = q->until - r->first;
  out->first = r->first;
  out->n = least(r->n < may ? r->n : may, most);
  r->first += out->n;
  r->n -= out->n;
  if (r->n > 0) return;
  memmove(r, r + 1, (--q->nreturned - k) * sizeof *r);
}

int clu_pending_take(clu_pending *q, uint32_t most, int avoid, clu_taken *out) {
  size_t k;
  if (clu_fifo_length(&q->retries) && take_retry(q, avoid, out)) {
    q->waiting--;
    return 1;
  }
  out->attempt = 1;
  out->last = -1;
  if ((k = find_returned(q)) > 0) {
    take_returned(q, k - 1, most, out);
  } else if (q->next < q->total && q->next < q->until) {
    out->first = q->next;
    out->n = least((q->total < q->until ? q->total : q->until) - q->next, most);
    q->next += out->n;
  } else {
    return 0;
  }
  q->waiting -= out->n;
  return 1;
}

uint64_t clu_pending_first(const clu_pending *q, int avoid) {
  size_t k = find_retry(q, avoid);
  if (k < clu_fifo_length(&q->retries)) return retry_at(q, k)->task;
  if ((k = find_returned(q)) > 0) return q->returned[k - 1].first;
  if (q->next < q->total) return q->next;
  return q->nreturned ? q->returned[q->nreturned - 1].first : UINT64_MAX;
}

void clu_pending_clear(clu_pending *q) {
  q->nreturned = 0;
  clu_fifo_clear(&q->retries);
  q->next = q->total;
  q->waiting = 0;
}

/* ---- the batches of a node ---- */

int clu_batches_push(clu_batches *q, clu_batch **out) {
  if (q->len == q->cap) {
    uint32_t cap = q->cap ? 2 * q->cap : 4;
    clu_batch *more = malloc(cap * sizeof *more);
    if (!more) return CLU_NOMEM;
    for (uint32_t k = 0; k < q->len; k++) more[k] = *clu_batches_at(q, k);
    free(q->items);
    q->items = more;
    q->head = 0;
    q->cap = cap;
  }
  *out = clu_batches_at(q, q->len++);
  return CLU_OK;
}

void clu_batches_fini(clu_batches *q) {
  free(q->items);
  memset(q, 0, sizeof *q);
}
