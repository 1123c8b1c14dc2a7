/* Records of a link as they come: whatever arrives, in whatever pieces, over one connection or
 * several, numbered records come out in their order or the connection is of no more use. The first
 * byte chooses the side and what has happened before, the second the pieces. */
#include "fuzz.h"

#include <string.h>

#include "core/base/err.h"
#include "core/link/link.h"
#include "core/wire/frame.h"

enum { WINDOW = 1 << 14, BEAT = 1000, RESUME_BYTES = 12 };

static void check(const clu_link *l) {
  FUZZ_CHECK(l->head <= l->at && l->at <= l->next && l->next <= l->tail && l->tail <= l->cap);
  FUZZ_CHECK(l->in_at <= l->in_n && l->in_n <= CLU_LINK_IN);
  FUZZ_CHECK(l->acked <= l->queued);
}

/* All that it says is written, and nobody hears it. */
static void say(clu_link *l) {
  size_t n;
  while (clu_link_out(l, &n) && n > 0) {
    check(l);
    clu_link_written(l, n > 100 ? 100 : n, 1);
  }
}

static int feed(clu_link *l, const uint8_t *p, size_t n) {
  clu_link_record r;
  int rc = 0;
  while (n > 0) {
    size_t room;
    unsigned char *to = clu_link_in(l, &room);
    if (room == 0) return -CLU_PROTO; /* it is in no state to take records */
    if (room > n) room = n;
    memcpy(to, p, room);
    clu_link_read(l, room, 1);
    p += room;
    n -= room;
    for (;;) {
      uint64_t before = l->received;
      rc = clu_link_next(l, &r);
      check(l);
      if (rc <= 0) break;
      FUZZ_CHECK(r.n <= CLU_LINK_MOST && r.bytes + r.n <= l->in + l->in_n);
      FUZZ_CHECK(r.type == CLU_L_BYE ? l->state == CLU_LINK_ENDED && l->received == before
                                     : l->received == before + 1);
    }
    if (rc < 0) return rc;
  }
  return 0;
}

/* A RESUME of the other side, which has received nothing. */
static void resume(clu_link *l) {
  unsigned char m[CLU_LINK_HEADER + RESUME_BYTES] = {CLU_L_RESUME, 0, 0, 0, RESUME_BYTES};
  clu_put32(m + CLU_LINK_HEADER, CLU_LINK_VERSION);
  clu_put64(m + CLU_LINK_HEADER + 4, 77);
  FUZZ_CHECK(feed(l, m, sizeof m) == 0 && l->state == CLU_LINK_UP);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  clu_link l;
  size_t piece, at = 2;
  if (n < 2 || n > 60000) return 0;
  piece = data[1] ? data[1] : n;
  FUZZ_CHECK(clu_link_init(&l, data[0] & 1 ? 77 : 0, WINDOW, BEAT) == CLU_OK);
  for (int i = 0; i < (data[0] >> 4); i++)
    FUZZ_CHECK(clu_link_send(&l, CLU_L_BYTES, 3, data, n < 500 ? n : 500) == CLU_OK);
  clu_link_connected(&l, 1);
  if (data[0] & 2) resume(&l);
  say(&l);
  while (at < n) {
    size_t k = n - at < piece ? n - at : piece;
    if (feed(&l, data + at, k) < 0 || l.state == CLU_LINK_ENDED) {
      clu_link_cut(&l);
      clu_link_connected(&l, 1);
    }
    at += k;
    say(&l);
    check(&l);
  }
  clu_link_fini(&l);
  return 0;
}
