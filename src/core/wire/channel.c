#include "core/wire/channel.h"

#include "core/base/slab.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define IN_CAP CLU_CHAN_IN
#define GATHER 4096u /* bytes of small messages that one write takes together */

typedef struct clu_out {
  struct clu_out *next;
  clu_blob *body;
  clu_fd pass;
  uint64_t seq;
  size_t off, frame_end; /* written of the body; end of the frame under way */
  size_t head_off;       /* written of the header */
  unsigned char head[CLU_HEADER];
  uint8_t kind;
  uint8_t in_frame, abort;
} clu_out;

int clu_chan_init(clu_chan *c, clu_fd fd, uint64_t limit, int takes_fds) {
  memset(c, 0, sizeof *c);
  c->fd = fd;
  c->limit = limit;
  c->takes_fds = takes_fds;
  return CLU_OK;
}

/* A process with thousands of channels has no memory for the buffers of all: each has one while
 * there is something in it. A node, which has one channel, keeps it. The last buffer stays for the
 * next channel, of any thread: malloc() and free() took 1,000 of a small call's 201,000
 * instructions. */
static _Atomic(unsigned char *) spare;

static void give_buffer_back(clu_chan *c) {
  if (!c->in || c->in_pos < c->in_len || c->in_lent || c->stream) return;
  free(atomic_exchange(&spare, c->in));
  c->in = NULL;
  c->in_pos = c->in_len = 0;
}

void clu_chan_lend(clu_chan *c, unsigned char *p) {
  free(c->in);
  c->in = p;
  c->in_lent = 1;
}

static void out_free(clu_out *o) {
  clu_blob_unref(o->body);
  if (o->pass != CLU_NO_FD) clu_os_close(o->pass);
  clu_slab_free(o);
}

void clu_chan_fini(clu_chan *c) {
  while (c->head) {
    clu_out *o = c->head;
    c->head = o->next;
    out_free(o);
  }
  c->tail = NULL;
  for (int i = 0; i < c->nfds; i++)
    if (c->fds[i] != CLU_NO_FD) clu_os_close(c->fds[i]);
  c->nfds = 0;
  clu_blob_unref(c->body);
  c->body = NULL;
  clu_segments_drop(&c->segments);
  if (!c->in_lent) free(c->in);
  c->in = NULL;
  c->in_pos = c->in_len = 0; /* a caller that is taking messages finds no more */
  c->in_msg = 0;
  if (c->fd != CLU_NO_FD) clu_os_close(c->fd);
  c->fd = CLU_NO_FD;
}

/* ---- writing ---- */

int clu_chan_send(clu_chan *c, uint8_t kind, uint64_t seq, clu_blob *body, clu_fd pass) {
  int refused =
      body && body->segments && body->segments->n > 0 && c->takes_fds != CLU_TAKES_SEGMENTS;
  clu_out *o = refused ? NULL : clu_slab_new();
  _Static_assert(sizeof *o <= CLU_SLAB, "a queued message fits a block of the slab");
  if (!o) {
    if (pass != CLU_NO_FD) clu_os_close(pass);
    return refused ? CLU_UNSUPPORTED : CLU_NOMEM;
  }
  memset(o, 0, sizeof *o);
  o->kind = kind;
  o->seq = seq;
  o->body = body ? clu_blob_ref(body) : NULL;
  o->pass = pass;
  if (c->tail)
    c->tail->next = o;
  else
    c->head = o;
  c->tail = o;
  return CLU_OK;
}

int clu_chan_send_bytes(clu_chan *c, uint8_t kind, uint64_t seq, const void *p, size_t n,
                        clu_fd pass) {
  clu_blob *b = clu_blob_new(n);
  int rc;
  if (!b) {
    if (pass != CLU_NO_FD) clu_os_close(pass);
    return CLU_NOMEM;
  }
  clu_blob_append(b, p, n); /* cannot fail: there is room */
  rc = clu_chan_send(c, kind, seq, b, pass);
  clu_blob_unref(b);
  return rc;
}

static size_t out_size(const clu_out *o) { return o->body ? o->body->size : 0; }

/* The segments that go with what is to be written next. */
static const clu_segments *segments_of(const clu_out *o) {
  static const clu_segments none;
  int begins = o->off == 0 && (!o->in_frame || o->head_off == 0) && !o->abort;
  return begins && o->body && o->body->segments ? o->body->segments : &none;
}

static void start_frame(clu_out *o) {
  size_t left = o->abort ? 0 : out_size(o) - o->off;
  clu_header h = {0};
  h.kind = o->kind;
  h.flags = o->abort ? CLU_ABORT : 0;
  h.fds = (uint8_t)segments_of(o)->n;
  h.len = (uint32_t)(left < CLU_FRAME_MAX ? left : CLU_FRAME_MAX);
  h.seq = o->seq;
  h.total = out_size(o);
  clu_header_put(o->head, &h);
  o->head_off = 0;
  o->frame_end = o->off + h.len;
  o->in_frame = 1;
}

static void pop(clu_chan *c) {
  clu_out *o = c->head;
  c->head = o->next;
  if (!c->head) c->tail = NULL;
  out_free(o);
}

/* Copies to `to` what comes next, as long as it is whole frames of messages that pass no descriptor
 * and fit: many small messages leave in one system call, and wake the reader once. Returns the
 * bytes; 0: the first does not fit. */
static size_t gather(clu_chan *c, unsigned char to[GATHER]) {
  size_t n = 0;
  for (clu_out *o = c->head; o && o->pass == CLU_NO_FD && segments_of(o)->n == 0; o = o->next) {
    size_t head, body;
    if (!o->in_frame) start_frame(o);
    head = CLU_HEADER - o->head_off;
    body = o->frame_end - o->off;
    if (head + body > GATHER - n) break;
    memcpy(to + n, o->head + o->head_off, head);
    if (body > 0) memcpy(to + n + head, o->body->data + o->off, body);
    n += head + body;
    if (o->frame_end != out_size(o)) break; /* another frame of it comes next */
  }
  return n;
}

/* `put` bytes of what comes next have been written. */
static void written(clu_chan *c, size_t put) {
  while (put > 0) {
    clu_out *o = c->head;
    size_t head = CLU_HEADER - o->head_off, body = o->frame_end - o->off;
    if (head > put) head = put;
    if (body > put - head) body = put - head;
    o->head_off += head;
    o->off += body;
    put -= head + body;
    if (o->head_off < CLU_HEADER || o->off < o->frame_end) return;
    o->in_frame = 0;
    if (o->abort == 2 || o->off == out_size(o))
      pop(c);
    else if (o->abort)
      o->abort = 2; /* the next frame is the one with CLU_ABORT */
  }
}

/* Returns what comes next, as iov: several small messages in `small`, or one frame from where it
 * is. */
static int next_bytes(clu_chan *c, unsigned char small[GATHER], clu_iov iov[2]) {
  clu_out *o = c->head;
  int n = 0;
  if (o->next && (iov->len = gather(c, small)) > 0) {
    iov->base = small;
    return 1;
  }
  if (!o->in_frame) start_frame(o);
  if (o->head_off < CLU_HEADER) {
    iov[n].base = o->head + o->head_off;
    iov[n++].len = CLU_HEADER - o->head_off;
  }
  if (o->frame_end > o->off) {
    iov[n].base = o->body->data + o->off;
    iov[n++].len = o->frame_end - o->off;
  }
  return n;
}

/* Returns what is handed over with the first byte of what comes next. */
static int descriptors_of(const clu_out *o, clu_fd pass[CLU_MAX_FDS]) {
  const clu_segments *s = segments_of(o);
  if (o->pass != CLU_NO_FD) {
    pass[0] = o->pass;
    return 1;
  }
  for (int i = 0; i < s->n; i++) pass[i] = clu_segment_fd(s->of[i]);
  return s->n;
}

int clu_chan_flush(clu_chan *c) {
  while (c->head) {
    clu_out *o = c->head;
    unsigned char small[GATHER];
    clu_iov iov[2];
    size_t put = 0;
    clu_fd pass[CLU_MAX_FDS];
    int npass = descriptors_of(o, pass);
    int n = next_bytes(c, small, iov);
    int rc = clu_os_writev(c->fd, iov, n, pass, npass, &put);
    if (rc != CLU_OK) return rc;
    c->bytes_out += put;
    if (o->pass != CLU_NO_FD) { /* it went with the first byte */
      clu_os_close(o->pass);
      o->pass = CLU_NO_FD;
    }
    written(c, put);
  }
  return CLU_OK;
}

int clu_chan_pending(const clu_chan *c) { return c->head != NULL; }

int clu_chan_withdraw(clu_chan *c, uint8_t kind, uint64_t seq) {
  clu_out *prev = NULL, *o = c->head;
  while (o && !(o->kind == kind && o->seq == seq)) {
    prev = o;
    o = o->next;
  }
  if (!o) return 0;
  if (o->abort) return 1;
  if (o->off == 0 && (!o->in_frame || o->head_off == 0)) { /* nothing of it has left */
    if (prev)
      prev->next = o->next;
    else
      c->head = o->next;
    if (c->tail == o) c->tail = prev;
    out_free(o);
    return 1;
  }
  if (o->in_frame && o->frame_end == out_size(o)) return 0;
  /* abort 1: complete the frame first; 2: the frame with CLU_ABORT comes next or is under way */
  o->abort = o->in_frame ? 1 : 2;
  return 1;
}

/* ---- reading ---- */

/* Descriptors that one read has brought; n -1: it has lost them. */
static void keep_fds(clu_chan *c, const clu_fd *fds, int n) {
  static const clu_fd lost = CLU_NO_FD;
  if (n < 0) {
    fds = &lost;
    n = 1;
  }
  for (int i = 0; i < n; i++) {
    if (c->nfds < (int)(sizeof c->fds / sizeof *c->fds))
      c->fds[c->nfds++] = fds[i];
    else if (fds[i] != CLU_NO_FD)
      clu_os_close(fds[i]);
  }
}

/* Another read may bring more descriptors than there is room for, and messages are here with which
 * the others can be taken. */
static int has_many_fds(const clu_chan *c) {
  return c->nfds > (int)(sizeof c->fds / sizeof *c->fds) - CLU_MAX_FDS &&
         c->in_len - c->in_pos >= CLU_HEADER;
}

int clu_chan_fill(clu_chan *c) {
  clu_iov iov[2];
  clu_fd fds[CLU_MAX_FDS];
  size_t got = 0, direct = 0;
  int rc, n = 0, nfds = 0;
  if (c->in_pos == c->in_len) c->in_pos = c->in_len = 0;
  if (c->in_pos > 0 && c->in_len == IN_CAP) {
    memmove(c->in, c->in + c->in_pos, c->in_len - c->in_pos);
    c->in_len -= c->in_pos;
    c->in_pos = 0;
  }
  if (c->in_msg && !c->stream && c->cur.len > 0 && c->in_len == 0) {
    /* the rest of the frame goes straight to its place, what follows it into the buffer */
    iov[n].base = c->body->data + c->body->size;
    iov[n++].len = direct = c->cur.len;
  }
  if (c->in_len == IN_CAP || has_many_fds(c)) return CLU_OK; /* full: take messages first */
  if (!c->in && !(c->in = atomic_exchange(&spare, NULL)) && !(c->in = malloc(IN_CAP)))
    return CLU_NOMEM;
  iov[n].base = c->in + c->in_len;
  iov[n++].len = IN_CAP - c->in_len;
  rc = clu_os_readv(c->fd, iov, n, &got, c->takes_fds ? fds : NULL, &nfds);
  keep_fds(c, fds, nfds);
  if (rc != CLU_OK) {
    give_buffer_back(c);
    return rc;
  }
  c->bytes_in += got;
  if (direct) {
    size_t d = got < direct ? got : direct;
    c->body->size += d;
    c->cur.len -= (uint32_t)d;
    got -= d;
  }
  c->in_len += got;
  return CLU_OK;
}

/* The segments that come with a message: their descriptors came with the first byte of its header.
 * Without them the message is whole but for the elements of its large vectors, and who reads these
 * gets an error. 1 or a negative code. */
static int take_segments(clu_chan *c, int n) {
  int lost = n > 0 && c->nfds > 0 && c->fds[0] == CLU_NO_FD;
  if (n > 0 && (c->takes_fds != CLU_TAKES_SEGMENTS || (!lost && n > c->nfds))) return -CLU_PROTO;
  if (lost) clu_chan_take_fd(c);
  for (int i = 0; i < n; i++) {
    int rc = CLU_NOMEM;
    clu_segment *s = lost ? clu_segment_new_lost() : clu_segment_receive(clu_chan_take_fd(c), &rc);
    if (!s) return -rc;
    if (c->stream)
      c->segments.of[c->segments.n++] = s;
    else if (clu_blob_attach(c->body, s) < 0) {
      clu_segment_unref(s);
      return -CLU_NOMEM;
    }
  }
  return 1;
}

/* One header from the buffer into c->cur. 1, 0 (not there yet) or a negative code. */
static int take_header(clu_chan *c) {
  clu_header h;
  if (c->in_len - c->in_pos < CLU_HEADER) {
    if (c->in_pos > 0) {
      memmove(c->in, c->in + c->in_pos, c->in_len - c->in_pos);
      c->in_len -= c->in_pos;
      c->in_pos = 0;
    }
    give_buffer_back(c);
    return 0;
  }
  if (clu_header_get(c->in + c->in_pos, &h) != CLU_OK) return -CLU_PROTO;
  c->in_pos += CLU_HEADER;
  if (h.total > c->limit) return -CLU_PROTO;
  if (c->in_msg) {
    uint64_t have = c->stream ? c->read : c->body ? c->body->size : 0;
    if (h.kind != c->cur.kind || h.seq != c->cur.seq || h.total != c->cur.total ||
        h.len > h.total - have || (h.len == 0 && !(h.flags & CLU_ABORT)) || h.fds)
      return -CLU_PROTO;
    c->cur = h;
    return 1;
  }
  if (h.flags & CLU_ABORT) return -CLU_PROTO; /* no message is under way */
  if (h.len == 0 && h.total > 0) return -CLU_PROTO;
  c->cur = h;
  c->read = 0;
  clu_segments_drop(&c->segments);
  if (h.total > 0 && !c->stream) {
    if (h.total > SIZE_MAX / 2)
      return -CLU_NOMEM; /* where that has 32 bits the size would be cut off */
    c->body = clu_blob_new((size_t)h.total);
    if (!c->body) return -CLU_NOMEM;
  }
  c->in_msg = 1;
  return take_segments(c, h.fds);
}

/* No message is complete. Descriptors that are here belong to a header that has come in part. */
static int none_yet(const clu_chan *c) {
  return c->takes_fds == CLU_TAKES_SEGMENTS && c->nfds > CLU_MAX_FDS ? -CLU_PROTO : 0;
}

int clu_chan_next(clu_chan *c, clu_msg *m) {
  for (;;) {
    if (c->in_msg) {
      size_t n = c->in_len - c->in_pos;
      if (n > c->cur.len) n = c->cur.len;
      if (n > 0) {
        memcpy(c->body->data + c->body->size, c->in + c->in_pos, n);
        c->body->size += n;
        c->in_pos += n;
        c->cur.len -= (uint32_t)n;
      }
      if (c->cur.len > 0) return none_yet(c);
      if (c->cur.flags & CLU_ABORT) {
        clu_blob_unref(c->body);
        c->body = NULL;
        c->in_msg = 0;
        continue;
      }
      if ((c->body ? c->body->size : 0) == c->cur.total) {
        m->kind = c->cur.kind;
        m->seq = c->cur.seq;
        m->body = c->body;
        c->body = NULL;
        c->in_msg = 0;
        return 1;
      }
    }
    {
      int rc = take_header(c);
      if (rc <= 0) return rc < 0 ? rc : none_yet(c);
    }
  }
}

/* ---- a body in pieces ---- */

int clu_chan_begin(clu_chan *c, clu_msg *m) {
  int rc;
  c->stream = 1;
  rc = take_header(c);
  if (rc != 1) return rc;
  m->kind = c->cur.kind;
  m->seq = c->cur.seq;
  m->body = NULL;
  return 1;
}

/* Goes on to the next bytes of the body. CLU_OK: there are some; CLU_EOF: the body has ended. */
static int next_piece(clu_chan *c) {
  int rc;
  if (c->cur.len > 0) return CLU_OK;
  if (c->read == c->cur.total) return CLU_EOF;
  while ((rc = take_header(c)) == 0)
    if ((rc = clu_chan_fill(c)) != CLU_OK && rc != CLU_AGAIN) return rc == CLU_EOF ? CLU_RESET : rc;
  if (rc < 0) return -rc;
  if (!(c->cur.flags & CLU_ABORT)) return CLU_OK;
  c->in_msg = 0;
  c->read = c->cur.total;
  return CLU_CANCELLED;
}

int clu_chan_read(clu_chan *c, void *p, size_t n) {
  unsigned char *to = p;
  while (n > 0) {
    size_t part, got = 0;
    int rc = c->in_msg ? next_piece(c) : CLU_PROTO;
    if (rc != CLU_OK) return rc == CLU_EOF ? CLU_PROTO : rc;
    part = c->in_len - c->in_pos;
    if (part > c->cur.len) part = c->cur.len;
    if (part > n) part = n;
    if (part > 0) {
      memcpy(to, c->in + c->in_pos, part);
      c->in_pos += part;
    } else if (n < IN_CAP / 4) { /* through the buffer: small pieces follow each other */
      rc = clu_chan_fill(c);
      if (rc != CLU_OK && rc != CLU_AGAIN) return rc == CLU_EOF ? CLU_RESET : rc;
    } else {
      clu_iov iov;
      iov.base = to;
      iov.len = n < c->cur.len ? n : c->cur.len;
      rc = clu_os_readv(c->fd, &iov, 1, &got, NULL, NULL);
      if (rc != CLU_OK && rc != CLU_AGAIN) return rc == CLU_EOF ? CLU_RESET : rc;
      c->bytes_in += got;
      part = got;
    }
    c->cur.len -= (uint32_t)part;
    c->read += part;
    to += part;
    n -= part;
  }
  return CLU_OK;
}

int clu_chan_skip(clu_chan *c) {
  unsigned char waste[4096];
  int rc = CLU_OK;
  while (rc == CLU_OK && c->in_msg && (rc = next_piece(c)) == CLU_OK)
    rc = clu_chan_read(c, waste, c->cur.len < sizeof waste ? c->cur.len : sizeof waste);
  if (rc == CLU_EOF || rc == CLU_CANCELLED) rc = CLU_OK;
  clu_segments_drop(&c->segments);
  c->in_msg = 0;
  return rc;
}

clu_fd clu_chan_take_fd(clu_chan *c) {
  clu_fd fd;
  if (c->nfds == 0) return CLU_NO_FD;
  fd = c->fds[0];
  memmove(c->fds, c->fds + 1, sizeof *c->fds * (size_t)--c->nfds);
  return fd;
}
