/* Segments that cross: once each, whoever gets them there. */
#include <stdlib.h>
#include <string.h>

#include "core/base/os-segment.h"
#include "core/link/parts.h"

/* SPARE: streams that have ended here, and of which the other side does not know yet. */
enum { MOST = 64, SPARE = 256 };

#define LONGEST ((uint64_t)1 << 56) /* sums of some do not overflow */

/* ---- from here to there ---- */

static int is_whole(const clu_sent_segment *s) { return s->at == s->size; }

static void forget(clu_proxy *r, clu_sent_segment **at) {
  clu_sent_segment *s = *at;
  *at = s->next;
  clu_link_send(&r->link, CLU_L_FORGET, s->number, NULL, 0);
  clu_os_close(s->fd);
  free(s);
}

/* Tells whether a message waits for it. */
static int is_awaited(const clu_proxy *r, const clu_sent_segment *s) {
  for (const clu_link_stream *l = r->streams; l; l = l->next)
    for (int i = 0; i < l->brings; i++)
      if (l->bring[i] == s) return 1;
  return 0;
}

void clu_proxy_forget_segments(clu_proxy *r, uint64_t unused_since) {
  clu_sent_segment **at = &r->sent;
  while (*at) {
    if (is_whole(*at) && (*at)->used <= unused_since && !is_awaited(r, *at))
      forget(r, at);
    else
      at = &(*at)->next;
  }
}

void clu_proxy_forget_unawaited(clu_proxy *r) {
  clu_sent_segment **at = &r->sent;
  while (*at) {
    if ((!is_whole(*at) || !r->how.near) && !is_awaited(r, *at))
      forget(r, at);
    else
      at = &(*at)->next;
  }
}

/* Returns what was used longest ago, and by one message only if `once`; NULL: all of that waits.
 * `*n`: how many there are, `*bytes` long. */
static clu_sent_segment **oldest_of(clu_proxy *r, int once, int *n, uint64_t *bytes) {
  clu_sent_segment **oldest = NULL;
  *n = 0;
  *bytes = 0;
  for (clu_sent_segment **at = &r->sent; *at; at = &(*at)->next) {
    if (once && (*at)->is_used_again) continue;
    ++*n;
    *bytes += (*at)->size;
    if (is_whole(*at) && (!oldest || (*at)->used < (*oldest)->used) && !is_awaited(r, *at))
      oldest = at;
  }
  return oldest;
}

/* For one more, of `size` bytes. */
static void make_room(clu_proxy *r, uint64_t size) {
  uint64_t bytes;
  int n;
  clu_sent_segment **oldest = oldest_of(r, 0, &n, &bytes);
  if (n >= MOST && oldest) forget(r, oldest);
  while ((oldest = oldest_of(r, 1, &n, &bytes)) && bytes + size > r->how.segments_kept)
    forget(r, oldest);
}

clu_sent_segment *clu_link_stream_segment(clu_link_stream *stream, clu_fd fd, int *rc) {
  clu_proxy *r = stream->proxy;
  uint64_t id[2] = {0, 0}, size = 0;
  unsigned char body[16];
  clu_sent_segment *s;
  *rc = clu_os_segment_check(fd, &size);
  if (*rc == CLU_OK) *rc = clu_os_segment_id(fd, id);
  for (s = r->sent; s && *rc == CLU_OK; s = s->next) {
    if (s->is_lost || s->id[0] != id[0] || s->id[1] != id[1]) continue;
    clu_os_close(fd);
    s->used = clu_os_now();
    return s;
  }
  if (*rc == CLU_OK && size > LONGEST) *rc = CLU_LIMIT;
  if (*rc == CLU_OK) make_room(r, size);
  s = *rc == CLU_OK ? calloc(1, sizeof *s) : NULL;
  if (*rc == CLU_OK && !s) *rc = CLU_NOMEM;
  if (!s) {
    clu_os_close(fd);
    return NULL;
  }
  s->number = ++r->numbers;
  s->id[0] = id[0];
  s->id[1] = id[1];
  s->fd = fd;
  s->size = size;
  s->used = clu_os_now();
  clu_put64(body, size);
  clu_put64(body + 8, stream->id);
  if ((*rc = clu_link_send(&r->link, CLU_L_SEGMENT, s->number, body, sizeof body)) != CLU_OK) {
    clu_os_close(fd);
    free(s);
    return NULL;
  }
  stream->segments_there += size;
  s->next = r->sent;
  r->sent = s;
  return s;
}

int clu_proxy_send_piece(clu_proxy *r) {
  static unsigned char piece[CLU_LINK_MOST];
  clu_sent_segment *s = r->sent, *first = NULL;
  size_t n;
  for (; s; s = s->next) /* the oldest is the last of the list */
    if (!is_whole(s)) first = s;
  if (!first || clu_link_room(&r->link) == 0) return 0;
  n = first->size - first->at < sizeof piece ? (size_t)(first->size - first->at) : sizeof piece;
  if (clu_os_segment_read(first->fd, first->at, piece, n) != CLU_OK) {
    first->is_lost = 1;
    first->at = first->size;
    return 1;
  }
  if (clu_link_send(&r->link, CLU_L_PIECE, first->number, piece, n) != CLU_OK) return 0;
  first->at += n;
  return 1;
}

/* ---- from there to here ---- */

clu_got_segment *clu_proxy_got(clu_proxy *r, uint64_t number) {
  clu_got_segment *g = r->got;
  while (g && g->number != number) g = g->next;
  return g;
}

/* There is room for as many as the other side keeps, and messages of all streams may wait for. Each
 * has a descriptor here: more of them could take all that this process may have. */
static int is_room(const clu_proxy *r) {
  size_t n = 0, most = MOST + SPARE * CLU_MAX_FDS;
  for (const clu_link_stream *l = r->streams; l; l = l->next) most += CLU_MAX_FDS;
  for (const clu_got_segment *g = r->got; g; g = g->next) n++;
  return n < most;
}

/* Tells whether this one more may be announced for `s`: the first of a message where little waits
 * here; the others of the same message at any time. */
static int may_come(const clu_link_stream *s) {
  return s->announced > 0 ? s->announced < CLU_MAX_FDS
                          : s->segments_here < s->proxy->how.segment_window;
}

/* Nothing is counted for a stream that has ended here: its messages are dropped, but other streams
 * may wait for the segment, too. */
static int begin(clu_proxy *r, const clu_link_record *rec) {
  clu_got_segment *g;
  clu_link_stream *s;
  uint64_t size;
  if (!is_room(r)) {
    clu_proxy_give_up(r, CLU_PROTO,
                      "the other side has announced more segments than its streams can bring");
    return CLU_PROTO;
  }
  if (rec->n != 16 || clu_proxy_got(r, rec->stream)) return CLU_PROTO;
  size = clu_get64(rec->bytes);
  if (size > LONGEST) return CLU_PROTO;
  s = clu_link_stream_find(r, clu_get64(rec->bytes + 8));
  if (s && s->fd == CLU_NO_FD) s = NULL;
  if (s && !may_come(s)) {
    clu_proxy_give_up(r, CLU_PROTO,
                      "the other side has sent more in segments on a stream than it may");
    return CLU_PROTO;
  }
  g = calloc(1, sizeof *g);
  if (!g) return CLU_NOMEM;
  if (s) {
    s->announced++;
    s->segments_here += size;
    g->counts_for = s->id;
    g->is_counted = 1;
  }
  g->number = rec->stream;
  g->size = size;
  g->segment = clu_segment_new();
  g->next = r->got;
  r->got = g;
  return CLU_OK;
}

static void give_up(clu_got_segment *g) {
  clu_segment_unref(g->segment);
  g->segment = NULL;
}

static int piece(clu_got_segment *g, const clu_link_record *rec) {
  if (rec->n > g->size - g->at) return CLU_PROTO;
  g->at += rec->n;
  if (g->segment && clu_segment_append(g->segment, rec->bytes, rec->n) != CLU_OK) give_up(g);
  if (g->segment && g->at == g->size && clu_segment_seal(g->segment) != CLU_OK) give_up(g);
  return CLU_OK;
}

int clu_proxy_take_segment(clu_proxy *r, const clu_link_record *rec) {
  clu_got_segment *g = clu_proxy_got(r, rec->stream);
  if (rec->type == CLU_L_SEGMENT) return begin(r, rec);
  if (!g) return CLU_PROTO;
  if (rec->type == CLU_L_PIECE) return piece(g, rec);
  for (clu_got_segment **at = &r->got; *at; at = &(*at)->next) {
    if (*at != g) continue;
    *at = g->next;
    break;
  }
  give_up(g);
  free(g);
  return CLU_OK;
}

void clu_proxy_drop_segments(clu_proxy *r) {
  while (r->sent) {
    clu_sent_segment *s = r->sent;
    r->sent = s->next;
    clu_os_close(s->fd);
    free(s);
  }
  while (r->got) {
    clu_got_segment *g = r->got;
    r->got = g->next;
    give_up(g);
    free(g);
  }
}
