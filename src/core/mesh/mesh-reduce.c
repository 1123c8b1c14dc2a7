#include <limits.h>
#include <string.h>

#include "core/mesh/mesh-layout.h"

#define MISSING INT_MIN /* of integers, as R has it */
#define AT_ONCE 512     /* elements: what all ranks have of them fits into a processor's cache */

static size_t width(int type) { return type == CLU_REDUCE_DOUBLE ? sizeof(double) : sizeof(int); }

int clu_mesh_reduce_room(clu_mesh *m, size_t n, void **own, void **result, clu_err *e) {
  if (n > CLU_REDUCE_BYTES) return clu_fail(e, CLU_LIMIT, 0, "too many bytes at a time");
  if (!m->area) {
    void *p;
    int rc = clu_os_common_map(m->fd, mesh_area_at(m->count, 0),
                               (size_t)((uint64_t)(m->count + 1) * CLU_REDUCE_BYTES), &p, e);
    if (rc != CLU_OK) return rc;
    m->area = p;
  }
  *own = m->area + (uint64_t)m->rank * CLU_REDUCE_BYTES;
  *result = m->area + (uint64_t)m->count * CLU_REDUCE_BYTES;
  return CLU_OK;
}

/* The smaller, or the one that is no number: what is in `a` first. */
static inline double lesser(double a, double b) { return a != a ? a : b != b ? b : b < a ? b : a; }

static inline double greater(double a, double b) { return a != a ? a : b != b ? b : b > a ? b : a; }

static void reduce_doubles(int op, double *a, const double *b, size_t n) {
  size_t i;
  switch (op) {
  case CLU_REDUCE_SUM:
    for (i = 0; i < n; i++) a[i] += b[i];
    break;
  case CLU_REDUCE_PRODUCT:
    for (i = 0; i < n; i++) a[i] *= b[i];
    break;
  case CLU_REDUCE_MIN:
    for (i = 0; i < n; i++) a[i] = lesser(a[i], b[i]);
    break;
  default:
    for (i = 0; i < n; i++) a[i] = greater(a[i], b[i]);
  }
}

static int of_ints(int op, int a, int b, int *overflow) {
  int64_t x;
  if (op == CLU_REDUCE_AND) {
    if (a == 0 || b == 0) return 0;
    return a == MISSING || b == MISSING ? MISSING : 1;
  }
  if (op == CLU_REDUCE_OR) {
    if ((a != 0 && a != MISSING) || (b != 0 && b != MISSING)) return 1;
    return a == MISSING || b == MISSING ? MISSING : 0;
  }
  if (a == MISSING || b == MISSING) return MISSING;
  if (op == CLU_REDUCE_MIN) return a < b ? a : b;
  if (op == CLU_REDUCE_MAX) return a > b ? a : b;
  x = op == CLU_REDUCE_SUM ? (int64_t)a + b : (int64_t)a * b;
  if (x > INT_MAX || x < -(int64_t)INT_MAX) {
    *overflow = 1;
    return MISSING;
  }
  return (int)x;
}

size_t clu_reduce_width(int type) { return width(type); }

uint64_t clu_meeting_bytes(const clu_meeting *m) {
  if (m->kind < CLU_MEET_RESULT) return 0;
  return m->n > CLU_REDUCE_BYTES ? m->n : m->n * width((int)m->type);
}

void clu_reduce_into(int op, int type, void *a, const void *b, size_t n, int *overflow) {
  if (type == CLU_REDUCE_DOUBLE)
    reduce_doubles(op, a, b, n);
  else
    for (size_t k = 0; k < n; k++)
      ((int *)a)[k] = of_ints(op, ((int *)a)[k], ((const int *)b)[k], overflow);
}

/* How many ranks are on this host; `*before`: of these below this one. */
static size_t ranks_here(const clu_mesh *m, size_t *before) {
  size_t n = 0;
  for (int i = 0; i < m->count; i++) {
    if (i == m->rank) *before = n;
    n += (size_t)mesh_is_here(m, i);
  }
  return n;
}

int clu_mesh_reduce(clu_mesh *m, int op, int type, size_t n, int *overflow, clu_err *e) {
  size_t w = width(type), shares = n * w / 32768, from, to, mine = 0, here = ranks_here(m, &mine);
  void *own, *result;
  int rc = clu_mesh_reduce_room(m, n * w, &own, &result, e);
  if (rc != CLU_OK) return rc;
  if (shares > here) shares = here;
  if (shares < 1) shares = 1;
  if (mine >= shares) return CLU_OK;
  from = n / shares * mine;
  to = mine + 1 == shares ? n : from + n / shares;
  for (size_t at = from; at < to; at += AT_ONCE) {
    size_t some = to - at < AT_ONCE ? to - at : AT_ONCE;
    unsigned char *out = (unsigned char *)result + at * w;
    int is_first = 1;
    for (int i = 0; i < m->count; i++) {
      const unsigned char *b = m->area + (uint64_t)i * CLU_REDUCE_BYTES + at * w;
      if (!mesh_is_here(m, i)) continue;
      if (is_first)
        memcpy(out, b, some * w);
      else
        clu_reduce_into(op, type, out, b, some, overflow);
      is_first = 0;
    }
  }
  return CLU_OK;
}

int clu_mesh_has_overflowed(const clu_mesh *m) { return (int)atomic_load(&m->head->overflowed); }
