/* Small results of nodes on this host lie in rings (core/shm/result-ring.h), in memory that nodes
 * and fork server share. The far proxy is their reader, in place of the session: it sends them as
 * RESULTS messages in the node's stream, many together. They are there also when their node has
 * died.
 *
 * Order. The session takes answers in the order of their numbers. What comes by the socket was
 * written there before what has a greater number was put into the ring. So, before such a message
 * leaves, what is in the ring and has a smaller number does; and when nothing is left in the
 * socket, what was in the ring before that was looked at.
 *
 * A node with quick tasks does not tell each time. For a while after there was something from it
 * or for it, its ring is looked at now and then.
 */
#include <string.h>

#include "core/link/parts.h"
#include "core/wire/task-message.h"

#define LOOK_EVERY 50000000u /* ns */
#define LOOK_FOR 200000000u

enum { HEAD = CLU_HEADER + CLU_RESULTS_HEAD, ONE = 4 + CLU_RING_MOST };

int clu_proxy_map(clu_proxy *r, clu_fd fd) {
  int rc = r->shared ? CLU_OK : clu_shared_map(&r->shared, fd, NULL);
  clu_os_close(fd);
  return rc;
}

clu_ring *clu_link_stream_ring(const clu_link_stream *s) {
  return s->has_said && s->proxy->shared ? clu_shared_ring(s->proxy->shared, s->slot) : NULL;
}

static void put_head(unsigned char *p, size_t n) {
  clu_header h;
  memset(&h, 0, sizeof h);
  h.kind = CLU_K_RESULTS;
  h.len = (uint32_t)(n - CLU_HEADER);
  h.total = h.len;
  clu_header_put(p, &h);
  clu_put64(p + CLU_HEADER, clu_os_now());
}

/* Tells whether the next record may leave; `*n`: its size. < 0: what is there is none. */
static int next_record(clu_ring *ring, uint64_t number, uint64_t upto, const unsigned char **p,
                       size_t *n) {
  if (clu_ring_read(ring) >= upto) return 0;
  *p = clu_ring_peek(ring, n);
  if (!*p) return *n ? -CLU_PROTO : 0;
  if (*n < CLU_RING_RESULT_HEAD) return -CLU_PROTO;
  return clu_get64(*p + 8) < number;
}

void clu_link_stream_look_soon(clu_link_stream *s) {
  clu_proxy *r = s->proxy;
  uint64_t now;
  if (!clu_link_stream_ring(s)) return;
  now = clu_os_now();
  r->look_until = now + LOOK_FOR;
  if (!clu_timer_is_armed(&r->look)) clu_timer_arm(r->loop, &r->look, now + LOOK_EVERY);
}

int clu_link_stream_send_results(clu_link_stream *s, uint64_t number, uint64_t upto) {
  clu_ring *ring = clu_link_stream_ring(s);
  unsigned char m[CLU_LINK_MOST];
  const unsigned char *p;
  int rc;
  size_t n;
  if (!ring) return 1;
  while ((rc = next_record(ring, number, upto, &p, &n)) == 1) {
    size_t at = HEAD, most = s->may_send < sizeof m ? (size_t)s->may_send : sizeof m;
    if (clu_link_room(&s->proxy->link) == 0 || most < HEAD + ONE) return 0;
    do {
      clu_put32(m + at, (uint32_t)n);
      memcpy(m + at + 4, p, n);
      at += 4 + n;
      clu_ring_took(ring);
    } while (most - at >= ONE && (rc = next_record(ring, number, upto, &p, &n)) == 1);
    put_head(m, at);
    if (clu_link_send(&s->proxy->link, CLU_L_BYTES, s->id, m, at) != CLU_OK) return -CLU_NOMEM;
    s->may_send -= at;
    clu_link_stream_look_soon(s);
    if (rc < 0) return rc;
  }
  return rc < 0 ? rc : 1;
}

int clu_link_stream_forward_ring(clu_link_stream *s, uint64_t upto) {
  if (s->in_at < s->in_n || s->frame_left || s->message_left) return 1;
  return clu_link_stream_send_results(s, UINT64_MAX, upto);
}

int clu_link_stream_tells_of_ring(const clu_link_stream *s, const clu_header *h) {
  return h->kind == CLU_K_RESULTS_READY && h->total == 0 && clu_link_stream_ring(s);
}

void clu_proxy_on_look_time(void *self) {
  clu_proxy *r = self;
  uint64_t now = clu_os_now();
  for (clu_link_stream *s = r->streams; s; s = s->next) {
    const clu_ring *ring = s->fd != CLU_NO_FD ? clu_link_stream_ring(s) : NULL;
    if (!ring || !clu_ring_used(ring)) continue;
    s->readable = 1;
    clu_proxy_touch(r);
  }
  if (now < r->look_until) clu_timer_arm(r->loop, &r->look, now + LOOK_EVERY);
}
