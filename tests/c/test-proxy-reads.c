/* How often a proxy looks at its sockets: a small message costs one read where it comes from. */
// link: -Wl,--wrap=clu_os_readv
#include "proxy-fixture.h"

static int reads, vain;
int __real_clu_os_readv(clu_fd fd, const clu_iov *v, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *v, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *v, int n, size_t *got, clu_fd *fds, int *nfds) {
  int rc = __real_clu_os_readv(fd, v, n, got, fds, nfds);
  reads++;
  vain += rc == CLU_AGAIN;
  return rc;
}

static void frame(unsigned char *p, uint32_t n) {
  clu_header h;
  memset(&h, 0, sizeof h);
  h.kind = CLU_K_CANCEL;
  h.len = n;
  h.total = n;
  clu_header_put(p, &h);
  memset(p + CLU_HEADER, 7, n);
}

TEST(a_small_message_costs_one_read_and_none_in_vain) {
  enum { N = 50 };
  unsigned char m[CLU_HEADER + 100], got[sizeof m];
  one o;
  frame(m, 100);
  one_up_and_resumed(&o);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  reads = vain = 0;
  for (int k = 0; k < N; k++) { /* from here to there */
    uint64_t before = o.there.received;
    REQUIRE(write((int)o.control, m, sizeof m) == (ssize_t)sizeof m);
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    hear(&o);
    CHECK_INT_EQ(o.there.received, before + 1);
  }
  CHECK_INT_EQ(reads, N);
  CHECK_INT_EQ(vain, 0);
  reads = vain = 0;
  for (int k = 0; k < N; k++) { /* from there to here */
    record(&o, CLU_L_BYTES, 0, m, sizeof m);
    CHECK_INT_EQ(turns(&o, 3), CLU_OK);
    REQUIRE(read((int)o.control, got, sizeof got) == (ssize_t)sizeof m);
    CHECK_MEM_EQ(got, m, sizeof m);
  }
  CHECK_INT_EQ(reads, N);
  CHECK_INT_EQ(vain, 0);
  one_down(&o);
}

/* A message that comes after a read that had room for more is not overlooked, nor is the end. */
TEST(what_comes_later_is_seen) {
  unsigned char m[CLU_HEADER + 100];
  one o;
  clu_proxy_status st;
  frame(m, 100);
  one_up_and_resumed(&o);
  for (size_t k = 0; k < sizeof m; k++) { /* byte by byte */
    REQUIRE(write((int)o.control, m + k, 1) == 1);
    CHECK_INT_EQ(turns(&o, 2), CLU_OK);
  }
  hear(&o);
  CHECK(o.there.received >= 1);
  CHECK_INT_EQ(clu_os_shutdown(o.control, CLU_WRITE), CLU_OK);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  clu_proxy_status_of(o.r, &st);
  CHECK_INT_EQ(st.state, CLU_PROXY_ENDED);
  one_down(&o);
}
