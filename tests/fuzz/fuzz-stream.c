/* Frames read as a node reads them: a message begins, its body is read in pieces, its end is
 * skipped to. The first byte chooses how much is asked for at a time. */
#include "fuzz.h"

#include "core/wire/channel.h"
#include "core/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static unsigned char body[4096];
  clu_fd pair[2];
  clu_chan c;
  size_t ask;
  uint64_t sum = 0;
  if (n < 1 || n > 60000) return 0;
  ask = 1 + data[0] * 16u;
  FUZZ_CHECK(clu_os_pair(pair, NULL) == CLU_OK);
  fuzz_write(pair[1], data + 1, n - 1);
  clu_os_close(pair[1]); /* then it never waits for more */
  clu_os_set_blocking(pair[0], 1);
  FUZZ_CHECK(clu_chan_init(&c, pair[0], INT64_MAX, 0) == CLU_OK);
  for (;;) {
    clu_msg m;
    int r = clu_chan_begin(&c, &m);
    if (r < 0) break;
    if (r == 0) {
      if (clu_chan_fill(&c) != CLU_OK) break;
      continue;
    }
    while (c.read < c.cur.total) {
      uint64_t left = c.cur.total - c.read;
      size_t k = left < ask ? (size_t)left : ask;
      if (clu_chan_read(&c, body, k) != CLU_OK) break;
      sum += k;
    }
    if (clu_chan_skip(&c) != CLU_OK) break;
  }
  FUZZ_CHECK(sum <= n);
  clu_chan_fini(&c);
  return 0;
}
