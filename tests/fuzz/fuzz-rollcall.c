/* A stranger in a roll call, at the master's end or at a node's: it does not get in, and no more of it is read than a roll call
 * has. The first byte chooses the side, the second the pieces. */
#include "fuzz.h"

#include "rollcall.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const unsigned char secret[CLU_SECRET] = "what the stranger does not know";
  unsigned char nonce[CLU_NONCE] = {1, 2, 3};
  clu_roll r;
  size_t at = 2, piece, taken = 0;
  if (n < 2) return 0;
  if (data[0] & 1)
    clu_roll_master(&r, secret, nonce, 4711, 1000);
  else
    clu_roll_node(&r, secret, nonce, 3, 99, 0x040202, 1000);
  piece = data[1] ? data[1] : n;
  while (at < n && clu_roll_want(&r) > 0) {
    size_t k = n - at < piece ? n - at : piece;
    if (k > clu_roll_want(&r)) k = clu_roll_want(&r);
    clu_roll_feed(&r, data + at, k);
    if (r.out_left) clu_roll_written(&r, r.out_left);
    at += k;
    taken += k;
  }
  FUZZ_CHECK(taken <= 128);
  FUZZ_CHECK(r.state != CLU_ROLL_PROVEN && r.state != CLU_ROLL_DONE);
  clu_roll_closed(&r);
  FUZZ_CHECK(clu_roll_time(&r, 2000) == CLU_ROLL_FAILED);
  return 0;
}
