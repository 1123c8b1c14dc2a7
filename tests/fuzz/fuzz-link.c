/* Records as they come to a proxy, from another host or from who took its place: whatever they are,
 * it goes on or says that the link is of no more use. The first byte chooses the side. Then there
 * are steps: what, stream, u16 number of bytes, bytes. They go to the proxy as a record that is
 * numbered as it should be; or, as the first byte of the step says, as they are; or to the proxy's
 * control channel, as from the session or fork server here. */
#include "fuzz.h"

#include <string.h>

#include "core/base/err.h"
#include "core/link/proxy.h"

enum { AS_IT_IS = 128, LOCAL = 64, HEAD = 4 };

static clu_fd other, local;
static uint64_t number;

static void record(int type, uint64_t stream, const uint8_t *p, size_t n, uint64_t its_number) {
  uint8_t h[CLU_LINK_HEADER] = {(uint8_t)type};
  for (int i = 0; i < 4; i++) h[4 + i] = (uint8_t)(n >> (8 * i));
  for (int i = 0; i < 8; i++) h[8 + i] = (uint8_t)(stream >> (8 * i));
  for (int i = 0; i < 8; i++) h[16 + i] = (uint8_t)(its_number >> (8 * i));
  fuzz_write(other, h, sizeof h);
  fuzz_write(other, p, n);
}

static void step(const uint8_t *s, const uint8_t *p, size_t n) {
  uint64_t stream = (s[1] & 128 ? (uint64_t)1 << 63 : 0) | (s[1] & 7);
  if (s[0] & LOCAL)
    fuzz_write(local, p, n);
  else if (s[0] & AS_IT_IS)
    fuzz_write(other, p, n);
  else if ((s[0] & 63) >= CLU_L_RESUME)
    record(s[0] & 63, stream, p, n, 0);
  else
    record(s[0] & 63, stream, p, n, ++number);
}

/* All that the proxy sends is read and dropped, so that there is room for more. */
static void forget(clu_fd fd) {
  static uint8_t bytes[65536];
  clu_fd passed[CLU_MAX_FDS];
  clu_iov iov = {bytes, sizeof bytes};
  size_t got;
  int k = 0;
  while (clu_os_readv(fd, &iov, 1, &got, passed, &k) == CLU_OK)
    for (; k > 0; k--) clu_os_close(passed[k - 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const uint8_t resume[12] = {CLU_LINK_VERSION, 0, 0, 0, 7};
  clu_proxy_options how = {.epoch = 7,
                           .beat = 10000000000u,
                           .window = 1 << 16,
                           .segment_window = 150,
                           .segments_kept = 150};
  clu_proxy_status st;
  clu_fd conn[2], control[2];
  clu_loop loop;
  clu_proxy *r;
  int rc = CLU_OK;
  if (n < 1 || n > 60000) return 0;
  how.near = data[0] & 1;
  FUZZ_CHECK(clu_loop_init(&loop, NULL) == CLU_OK && (r = clu_proxy_new(&loop, &how)) != NULL);
  FUZZ_CHECK(clu_os_pair(conn, NULL) == CLU_OK && clu_os_pair(control, NULL) == CLU_OK);
  FUZZ_CHECK(clu_proxy_control(r, control[0]) == CLU_OK);
  FUZZ_CHECK(clu_proxy_connect(r, clu_conn_plain(conn[0])) == CLU_OK);
  other = conn[1];
  local = control[1];
  number = 0;
  record(CLU_L_RESUME, 0, resume, sizeof resume, 0);
  data++, n--;
  for (;;) {
    size_t k;
    for (int turn = 0; turn < 3 && rc == CLU_OK; turn++) {
      rc = clu_proxy_turn(r);
      clu_loop_pump(&loop, 0, NULL);
    }
    clu_proxy_status_of(r, &st);
    forget(other);
    forget(local);
    if (rc != CLU_OK || !st.connected || st.state == CLU_PROXY_ENDED || n < HEAD) break;
    k = (size_t)(data[2] | data[3] << 8);
    if (k > n - HEAD) k = n - HEAD;
    step(data, data + HEAD, k);
    data += HEAD + k;
    n -= HEAD + k;
  }
  FUZZ_CHECK(strlen(st.why) < 256);
  clu_proxy_free(r);
  clu_loop_fini(&loop);
  clu_os_close(other);
  clu_os_close(local);
  return 0;
}
