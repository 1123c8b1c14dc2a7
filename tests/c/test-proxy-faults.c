/* Proxies when something fails that cannot be made good: nothing is left out, and nothing else
 * takes its place. */
// link: -Wl,--wrap=clu_os_segment_read -Wl,--wrap=malloc -Wl,--wrap=clu_loop_watch
#include "link-fixture.h"
#include "proxy-fixture.h"

#include "core/base/os-segment.h"

static size_t no_memory_for; /* so much or more cannot be had; 0: all can */
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) {
  return no_memory_for && n >= no_memory_for ? NULL : __real_malloc(n);
}

static uint64_t unreadable_from; /* in a segment; 0: all can be read */
int __real_clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n);
int __wrap_clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n);
int __wrap_clu_os_segment_read(clu_fd fd, uint64_t at, void *p, size_t n) {
  if (unreadable_from && at + n > unreadable_from) return CLU_SYS;
  return __real_clu_os_segment_read(fd, at, p, n);
}

static int no_watch;
int __real_clu_loop_watch(clu_loop *l, clu_fd fd, unsigned interest, clu_ready_fn *fn, void *self,
                          clu_watch_id *id, clu_err *e);
int __wrap_clu_loop_watch(clu_loop *l, clu_fd fd, unsigned interest, clu_ready_fn *fn, void *self,
                          clu_watch_id *id, clu_err *e);
int __wrap_clu_loop_watch(clu_loop *l, clu_fd fd, unsigned interest, clu_ready_fn *fn, void *self,
                          clu_watch_id *id, clu_err *e) {
  return no_watch ? CLU_LIMIT : __real_clu_loop_watch(l, fd, interest, fn, self, id, e);
}

TEST(a_segment_that_cannot_be_read_does_not_become_zeros) {
  host_fixture h;
  clu_blob *b;
  clu_err e;
  unreadable_from = 1000000; /* in the link process, which is forked now */
  host_up(&h, 2);
  unreadable_from = 0;
  b = blob_with_segment(3000000, SUM);
  REQUIRE(clu_node_call(h.f.nd[0], b, 1, 0, &e) == CLU_OK);
  PUMP(&h.f, has_answer(h.f.nd[0]) || !clu_node_is_open(h.f.nd[0]));
  CHECK(!has_answer(h.f.nd[0]));
  CHECK(clu_node_is_lost(h.f.nd[0]));
  clu_blob_unref(b);
  b = blob_with_segment(900000, SUM);
  REQUIRE(clu_node_call(h.f.nd[1], b, 1, 0, &e) == CLU_OK);
  expect_sum(&h, h.f.nd[1], 900000);
  clu_blob_unref(b);
  host_down(&h);
}

/* All that has come counts as received: after a new connection it would not be sent again. */
TEST(a_record_that_cannot_be_used_is_the_end_and_not_left_out) {
  one o;
  one_up_and_resumed(&o);
  record(&o, CLU_L_CREDIT, 0, "too long", 8);
  expect_end(&o, clu_code_text(CLU_PROTO));
  one_down(&o);
}

/* The caller of clu_proxy_turn() where there is something to do hears of the cut. */
TEST(a_connection_that_cannot_be_watched_is_a_cut_that_is_told) {
  one o;
  clu_fd conn[2];
  clu_proxy_status st;
  one_up_and_resumed(&o);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  CHECK(!clu_proxy_is_due(o.r));
  REQUIRE(clu_os_pair(conn, NULL) == CLU_OK);
  no_watch = 1;
  CHECK_INT_EQ(clu_proxy_connect(o.r, clu_conn_plain(conn[0])), CLU_SYS);
  no_watch = 0;
  CHECK(clu_proxy_is_due(o.r));
  clu_proxy_status_of(o.r, &st);
  CHECK_INT_EQ(st.state, CLU_PROXY_CUT);
  clu_os_close(conn[1]);
  one_down(&o);
}

TEST(a_record_for_which_there_is_no_memory_is_the_end_and_not_left_out) {
  static const unsigned char much[CLU_LINK_MOST];
  one o;
  clu_proxy_status st;
  int rc = CLU_OK;
  one_up(&o);
  no_memory_for = 200 << 10; /* what is kept of the link begins with 256 kB */
  for (int k = 0; k < 50 && rc == CLU_OK; k++) {
    clu_header h;
    unsigned char head[CLU_HEADER];
    memset(&h, 0, sizeof h);
    h.kind = CLU_K_SETTINGS;
    h.len = sizeof much;
    h.total = sizeof much;
    clu_header_put(head, &h);
    if (write((int)o.control, head, sizeof head) < 0 ||
        write((int)o.control, much, sizeof much) < 0)
      break;
    rc = turns(&o, 2);
  }
  no_memory_for = 0;
  CHECK_INT_EQ(rc, CLU_DEAD);
  clu_proxy_status_of(o.r, &st);
  CHECK_STR_EQ(st.why, clu_code_text(CLU_NOMEM));
  one_down(&o);
}
