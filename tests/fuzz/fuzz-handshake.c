/* A pending peer in a handshake, at the session's end or at a node's: it does not get in, and no
 * more of it is read than a handshake has. The first byte chooses the side, the second the pieces.
 */
#include "fuzz.h"

#include "core/wire/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const unsigned char secret[CLU_SECRET] = "what the peer does not know...";
  unsigned char nonce[CLU_NONCE] = {1, 2, 3};
  clu_hs r;
  size_t at = 2, piece, taken = 0;
  if (n < 2) return 0;
  if (data[0] & 1)
    clu_hs_session(&r, secret, nonce, 4711, 1000);
  else
    clu_hs_node(&r, secret, nonce, 3, 99, 0x040202, 1000);
  piece = data[1] ? data[1] : n;
  while (at < n && clu_hs_want(&r) > 0) {
    size_t k = n - at < piece ? n - at : piece;
    if (k > clu_hs_want(&r)) k = clu_hs_want(&r);
    clu_hs_feed(&r, data + at, k);
    if (r.out_left) clu_hs_written(&r, r.out_left);
    at += k;
    taken += k;
  }
  FUZZ_CHECK(taken <= 128);
  FUZZ_CHECK(r.state != CLU_HS_PROVEN && r.state != CLU_HS_DONE);
  clu_hs_closed(&r);
  FUZZ_CHECK(clu_hs_time(&r, 2000) == CLU_HS_FAILED);
  return 0;
}
