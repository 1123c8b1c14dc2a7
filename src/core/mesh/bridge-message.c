#include "core/mesh/bridge-message.h"

#include <string.h>

/* ---- writing ---- */

void clu_bridge_begin(clu_bridge_text *t, int kind) {
  t->b = clu_blob_new(64);
  clu_bridge_number(t, (uint64_t)kind, 1);
}

void clu_bridge_bytes(clu_bridge_text *t, const void *p, size_t n) {
  if (!t->b || n == 0 || clu_blob_append(t->b, p, n) == 0) return;
  clu_blob_unref(t->b);
  t->b = NULL;
}

void clu_bridge_number(clu_bridge_text *t, uint64_t x, int bytes) {
  unsigned char p[8];
  clu_bytes_put(p, x, bytes);
  clu_bridge_bytes(t, p, (size_t)bytes);
}

void clu_bridge_meeting(clu_bridge_text *t, const clu_meeting *m) {
  clu_bridge_number(t, m->kind, 4);
  clu_bridge_number(t, m->op, 4);
  clu_bridge_number(t, m->type, 4);
  clu_bridge_number(t, m->root, 4);
  clu_bridge_number(t, m->shape, 4);
  clu_bridge_number(t, m->n, 8);
}

void clu_bridge_wait(clu_bridge_text *t, int rank, const clu_rank_info *r) {
  size_t n = r->has_tag ? strlen(r->tag) : 0;
  clu_bridge_number(t, (uint64_t)rank, 4);
  clu_bridge_number(t, (uint64_t)r->waits, 1);
  clu_bridge_number(t, (uint64_t)(r->wait_for + 1), 4);
  clu_bridge_number(t, (uint64_t)(r->has_tag != 0), 1);
  clu_bridge_number(t, n, 1);
  clu_bridge_bytes(t, r->tag, n);
  clu_bridge_meeting(t, &r->meeting);
}

/* ---- reading ---- */

int clu_bridge_read(clu_bridge_reader *r, const clu_blob *b) {
  *r = (clu_bridge_reader){b ? b->data : NULL, b ? b->size : 0, 0};
  return (int)clu_bridge_take(r, 1);
}

const unsigned char *clu_bridge_take_bytes(clu_bridge_reader *r, uint64_t n) {
  const unsigned char *p = r->p;
  if (r->is_bad || n > r->n) {
    r->is_bad = 1;
    return NULL;
  }
  r->p += n;
  r->n -= (size_t)n;
  return p;
}

uint64_t clu_bridge_take(clu_bridge_reader *r, int bytes) {
  const unsigned char *p = clu_bridge_take_bytes(r, (uint64_t)bytes);
  return p ? clu_bytes_get(p, bytes) : 0;
}

int clu_bridge_take_rank(clu_bridge_reader *r, int count) {
  uint64_t rank = clu_bridge_take(r, 4);
  if (rank >= (uint64_t)count) r->is_bad = 1;
  return r->is_bad ? -1 : (int)rank;
}

void clu_bridge_take_meeting(clu_bridge_reader *r, clu_meeting *m) {
  *m = (clu_meeting){0};
  m->kind = (uint32_t)clu_bridge_take(r, 4);
  m->op = (uint32_t)clu_bridge_take(r, 4);
  m->type = (uint32_t)clu_bridge_take(r, 4);
  m->root = (uint32_t)clu_bridge_take(r, 4);
  m->shape = (uint32_t)clu_bridge_take(r, 4);
  m->n = clu_bridge_take(r, 8);
}

int clu_bridge_take_wait(clu_bridge_reader *r, int count, clu_rank_info *out) {
  int rank = clu_bridge_take_rank(r, count);
  const unsigned char *tag;
  uint64_t n, wait_for;
  memset(out, 0, sizeof *out);
  out->waits = (int)clu_bridge_take(r, 1);
  wait_for = clu_bridge_take(r, 4);
  out->has_tag = (int)clu_bridge_take(r, 1);
  n = clu_bridge_take(r, 1);
  if (n > CLU_TAG_MOST || out->waits > CLU_WAIT_MEETING || wait_for > (uint64_t)count)
    r->is_bad = 1;
  else
    out->wait_for = (int)wait_for - 1;
  tag = clu_bridge_take_bytes(r, n);
  if (tag) memcpy(out->tag, tag, n);
  clu_bridge_take_meeting(r, &out->meeting);
  return r->is_bad ? -1 : rank;
}
