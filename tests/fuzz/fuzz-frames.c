/* Frames as they come: whatever arrives, in whatever pieces, the reader hands out messages within
 * its limit or says that it is of no more use. The first two bytes choose limit and pieces. */
#include "fuzz.h"

#include "core/wire/channel.h"
#include "core/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  clu_fd pair[2];
  clu_chan c;
  uint64_t limit = 64, sum = 0;
  size_t piece, at = 2;
  int usable = 1;
  if (n < 2 || n > 60000) return 0;
  limit <<= data[0] % 15;
  piece = data[1] ? data[1] : n;
  FUZZ_CHECK(clu_os_pair(pair, NULL) == CLU_OK);
  FUZZ_CHECK(clu_chan_init(&c, pair[0], limit,
                           data[0] & 128 ? CLU_TAKES_SEGMENTS : CLU_TAKES_NONE) == CLU_OK);
  while (at < n && usable) {
    size_t k = n - at < piece ? n - at : piece;
    fuzz_write(pair[1], data + at, k);
    at += k;
    for (;;) {
      int rc = clu_chan_fill(&c), r;
      clu_msg m;
      while ((r = clu_chan_next(&c, &m)) == 1) {
        if (m.body) {
          FUZZ_CHECK(m.body->size <= limit);
          sum += m.body->size;
        }
        FUZZ_CHECK(m.kind != 0);
        clu_blob_unref(m.body);
      }
      FUZZ_CHECK(!c.body ||
                 c.body->cap <= limit + CLU_FRAME_MAX + 64); /* bounded before it is allocated */
      if (r < 0) usable = 0;
      if (rc != CLU_OK || r < 0) break;
    }
  }
  FUZZ_CHECK(sum <= n); /* no byte is handed out twice */
  clu_chan_fini(&c);
  clu_os_close(pair[1]);
  return 0;
}
