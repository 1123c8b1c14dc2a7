#include "core/link/link.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/wire/frame.h"

enum { RESUME_BYTES = 12, KEPT_CAP = 256 << 10 };

int clu_link_init(clu_link *l, uint64_t epoch, size_t window, uint64_t beat) {
  memset(l, 0, sizeof *l);
  l->epoch = epoch;
  l->leads = epoch != 0;
  l->window = window;
  l->beat = beat;
  l->in = malloc(CLU_LINK_IN);
  return l->in ? CLU_OK : CLU_NOMEM;
}

void clu_link_fini(clu_link *l) {
  free(l->in);
  free(l->out);
  memset(l, 0, sizeof *l);
}

/* ---- what is sent ---- */

static void put_header(unsigned char *h, int type, uint64_t stream, uint32_t n, uint64_t number) {
  memset(h, 0, 4);
  h[0] = (unsigned char)type;
  clu_put32(h + 4, n);
  clu_put64(h + 8, stream);
  clu_put64(h + 16, number);
}

static size_t size_at(const clu_link *l, size_t at) {
  return CLU_LINK_HEADER + clu_get32(l->out + at + 4);
}

size_t clu_link_room(const clu_link *l) {
  size_t kept = l->tail - l->head;
  return kept < l->window ? l->window - kept : 0;
}

size_t clu_link_unwritten(const clu_link *l) { return l->tail - l->next; }

/* Room for `n` more bytes: what is kept moves to the beginning where that frees half, else the
 * buffer grows. */
static int make_room(clu_link *l, size_t n) {
  size_t kept = l->tail - l->head, cap = l->cap ? l->cap : KEPT_CAP;
  unsigned char *more;
  if (l->cap - l->tail >= n) return CLU_OK;
  if (l->head > 0 && kept + n <= l->cap / 2) {
    memmove(l->out, l->out + l->head, kept);
    l->at -= l->head;
    l->next -= l->head;
    l->tail = kept;
    l->head = 0;
    return CLU_OK;
  }
  while (cap / 2 < kept + n) cap *= 2;
  if (!(more = malloc(cap))) return CLU_NOMEM;
  if (kept) memcpy(more, l->out + l->head, kept);
  free(l->out);
  l->out = more;
  l->cap = cap;
  l->at -= l->head;
  l->next -= l->head;
  l->tail = kept;
  l->head = 0;
  return CLU_OK;
}

int clu_link_send(clu_link *l, int type, uint64_t stream, const void *p, size_t n) {
  if (make_room(l, CLU_LINK_HEADER + n) != CLU_OK) {
    l->out_of_memory = 1;
    return CLU_NOMEM;
  }
  put_header(l->out + l->tail, type, stream, (uint32_t)n, ++l->queued);
  if (n) memcpy(l->out + l->tail + CLU_LINK_HEADER, p, n);
  l->tail += CLU_LINK_HEADER + n;
  return CLU_OK;
}

void clu_link_say_bye(clu_link *l, const char *why) {
  size_t n = strlen(why);
  if (n >= sizeof l->bye) n = sizeof l->bye - 1;
  memcpy(l->bye, why, n);
  l->bye[n] = 0;
  l->say_bye = 1;
}

/* Records up to this number have arrived there. */
static int acknowledged(clu_link *l, uint64_t number) {
  if (number < l->acked || number > l->queued) return -CLU_PROTO;
  while (l->acked < number) {
    size_t size = size_at(l, l->head);
    /* in RESUME also what was written to a connection before, and not to this one */
    if (l->state == CLU_LINK_UP && l->head + size > l->next) return -CLU_PROTO;
    l->head += size;
    l->acked++;
  }
  if (l->at < l->head) l->at = l->head;
  if (l->next < l->head) l->next = l->head;
  if (l->head == l->tail) l->head = l->at = l->next = l->tail = 0;
  return 0;
}

/* ---- the connection ---- */

static void forget_connection(clu_link *l) {
  l->at = l->next = l->head;
  l->side_at = l->side_n = 0;
  l->say_resume = l->say_ack = 0;
  if (l->say_bye == 2) l->say_bye = 1;
  l->in_at = l->in_n = 0;
}

void clu_link_connected(clu_link *l, uint64_t now) {
  forget_connection(l);
  l->state = CLU_LINK_RESUMING;
  l->say_resume = 1;
  l->heard = l->said = now;
}

void clu_link_cut(clu_link *l) {
  if (l->state == CLU_LINK_CUT || l->state == CLU_LINK_ENDED) return;
  forget_connection(l);
  l->state = CLU_LINK_CUT;
  l->cuts++;
}

static void put_side(clu_link *l, int type, uint64_t stream, const void *p, size_t n) {
  put_header(l->side, type, stream, (uint32_t)n, 0);
  if (n) memcpy(l->side + CLU_LINK_HEADER, p, n);
  l->side_at = 0;
  l->side_n = CLU_LINK_HEADER + n;
}

/* Between two records: the next one without a number, if there is one to be sent. */
static void next_side(clu_link *l) {
  if (l->side_at < l->side_n) return;
  if (l->say_resume) {
    unsigned char body[RESUME_BYTES];
    clu_put32(body, CLU_LINK_VERSION);
    clu_put64(body + 4, l->epoch);
    put_side(l, CLU_L_RESUME, l->received, body, sizeof body);
    l->say_resume = 0;
  } else if (l->state != CLU_LINK_UP) {
    return;
  } else if (l->say_ack) {
    put_side(l, CLU_L_ACK, l->received, NULL, 0);
    l->say_ack = 0;
    l->to_acknowledge = 0;
  } else if (l->say_bye == 1) {
    put_side(l, CLU_L_BYE, 0, l->bye, strlen(l->bye));
    l->say_bye = 2;
  }
}

const unsigned char *clu_link_out(clu_link *l, size_t *n) {
  *n = 0;
  if (l->state != CLU_LINK_UP && l->state != CLU_LINK_RESUMING) return NULL;
  if (l->next == l->at) next_side(l);
  if (l->side_at < l->side_n) {
    *n = l->side_n - l->side_at;
    return l->side + l->side_at;
  }
  if (l->state != CLU_LINK_UP || l->next == l->tail || l->say_bye == 2) return NULL;
  /* to the end of the record under way, where something else is to be said */
  *n = (l->say_ack || l->say_bye) && l->next > l->at ? l->at + size_at(l, l->at) - l->next
                                                     : l->tail - l->next;
  return l->out + l->next;
}

void clu_link_written(clu_link *l, size_t n, uint64_t now) {
  l->said = now;
  l->bytes_out += n;
  if (l->side_at < l->side_n) {
    l->side_at += n;
    return;
  }
  l->next += n;
  while (l->at < l->next && l->at + size_at(l, l->at) <= l->next) l->at += size_at(l, l->at);
}

unsigned char *clu_link_in(clu_link *l, size_t *n) {
  if (l->in_at == l->in_n) l->in_at = l->in_n = 0;
  if (l->in_at > 0 && CLU_LINK_IN - l->in_n < CLU_LINK_MOST) {
    memmove(l->in, l->in + l->in_at, l->in_n - l->in_at);
    l->in_n -= l->in_at;
    l->in_at = 0;
  }
  *n = CLU_LINK_IN - l->in_n;
  return l->in + l->in_n;
}

void clu_link_read(clu_link *l, size_t n, uint64_t now) {
  l->in_n += n;
  l->heard = now;
  l->bytes_in += n;
}

static int resume(clu_link *l, const clu_link_record *r) {
  uint64_t epoch;
  int rc;
  if (l->state != CLU_LINK_RESUMING || r->n < 4) return -CLU_PROTO;
  if (clu_get32(r->bytes) != CLU_LINK_VERSION) {
    l->other_version = clu_get32(r->bytes);
    return -CLU_PROTO;
  }
  if (r->n != RESUME_BYTES) return -CLU_PROTO;
  epoch = clu_get64(r->bytes + 4);
  if (l->leads) {
    /* it has had no RESUME of this side yet: then it has nothing either */
    int is_new = l->received == 0 && r->stream == 0 && l->acked == 0;
    if (epoch != l->epoch && (epoch != 0 || !is_new)) return -CLU_DEAD;
  } else if (l->epoch == 0 && epoch != 0) {
    l->epoch = epoch;
  } else if (epoch != l->epoch || epoch == 0) {
    return -CLU_DEAD;
  }
  if ((rc = acknowledged(l, r->stream)) != 0) return -CLU_DEAD;
  l->state = CLU_LINK_UP;
  return 0;
}

/* A record without a number. 1: the caller's; 0: done; < 0: as clu_link_next(). */
static int take_side(clu_link *l, const clu_link_record *r) {
  switch (r->type) {
  case CLU_L_RESUME: return resume(l, r);
  case CLU_L_ACK: return l->state == CLU_LINK_UP ? acknowledged(l, r->stream) : -CLU_PROTO;
  case CLU_L_BYE:
    if (l->state != CLU_LINK_UP) return -CLU_PROTO;
    l->state = CLU_LINK_ENDED;
    return 1;
  default: return -CLU_PROTO;
  }
}

int clu_link_next(clu_link *l, clu_link_record *r) {
  while (l->in_n - l->in_at >= CLU_LINK_HEADER &&
         (l->state == CLU_LINK_UP || l->state == CLU_LINK_RESUMING)) {
    const unsigned char *h = l->in + l->in_at;
    uint64_t number = clu_get64(h + 16);
    int rc;
    r->type = h[0];
    r->n = clu_get32(h + 4);
    r->stream = clu_get64(h + 8);
    r->bytes = h + CLU_LINK_HEADER;
    if (r->n > CLU_LINK_MOST || h[1] || h[2] || h[3]) return -CLU_PROTO;
    if (l->in_n - l->in_at < CLU_LINK_HEADER + r->n) return 0;
    l->in_at += CLU_LINK_HEADER + r->n;
    if (number == 0) {
      if ((rc = take_side(l, r)) != 0) return rc;
      continue;
    }
    if (l->state != CLU_LINK_UP || number != l->received + 1 || r->type == 0 ||
        r->type >= CLU_L_AFTER_NUMBERED)
      return -CLU_PROTO;
    l->received++;
    l->to_acknowledge += CLU_LINK_HEADER + r->n;
    if (l->to_acknowledge >= l->window / 8) l->say_ack = 1;
    return 1;
  }
  return 0;
}

/* ---- time ---- */

int clu_link_tick(clu_link *l, uint64_t now) {
  if (l->state != CLU_LINK_UP && l->state != CLU_LINK_RESUMING) return CLU_OK;
  if (now >= l->heard + l->beat) return CLU_TIMEOUT;
  if (now >= l->said + l->beat / 3) l->say_ack = 1;
  if (l->tail == 0 && l->cap > KEPT_CAP) { /* nothing is kept: neither is the memory for it */
    free(l->out);
    l->out = NULL;
    l->cap = 0;
  }
  return CLU_OK;
}

uint64_t clu_link_due(const clu_link *l) {
  uint64_t say = l->said + l->beat / 3, hear = l->heard + l->beat;
  if (l->state != CLU_LINK_UP && l->state != CLU_LINK_RESUMING) return UINT64_MAX;
  return say < hear && !l->say_ack ? say : hear;
}
