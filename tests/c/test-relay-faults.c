/* Relays when something fails that cannot be made good: nothing is left out, and nothing else takes
 * its place. */
// link: -Wl,--wrap=clu_os_segment_read -Wl,--wrap=malloc
#include "link-fixture.h"

#include "core/base/os-segment.h"
#include "core/link/link.h"
#include "core/link/relay.h"

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

/* ---- one relay, whose other side is this test ---- */

typedef struct one {
  clu_loop loop;
  clu_relay *r;
  clu_fd conn, control;
} one;

static void one_up(one *o) {
  clu_relay_options how = {.near = 1, .epoch = 4711, .beat = 10000000000u};
  clu_fd conn[2], control[2];
  clu_err e;
  REQUIRE(clu_loop_init(&o->loop, &e) == CLU_OK && clu_os_pair(conn, &e) == CLU_OK &&
          clu_os_pair(control, &e) == CLU_OK);
  REQUIRE(o->r = clu_relay_new(&o->loop, &how));
  REQUIRE(clu_relay_control(o->r, control[0]) == CLU_OK);
  REQUIRE(clu_relay_connect(o->r, clu_stream_plain(conn[0])) == CLU_OK);
  o->conn = conn[1];
  o->control = control[1];
}

static void one_down(one *o) {
  clu_relay_free(o->r);
  clu_loop_fini(&o->loop);
  clu_os_close(o->conn);
  clu_os_close(o->control);
}

static int turns(one *o, int n) {
  int rc = CLU_OK;
  clu_err e;
  for (int k = 0; k < n && rc == CLU_OK; k++) {
    rc = clu_relay_turn(o->r);
    clu_loop_pump(&o->loop, 10000000, &e);
  }
  return rc;
}

static void say(one *o, clu_link *l) {
  size_t n;
  const unsigned char *p;
  while ((p = clu_link_out(l, &n)) && n > 0) {
    REQUIRE(write((int)o->conn, p, n) == (ssize_t)n);
    clu_link_written(l, n, 1);
  }
}

/* What has come counts as received: after a new connection it would not be sent again. */
TEST(a_record_that_cannot_be_used_is_the_end_and_not_left_out) {
  one o;
  clu_link l;
  clu_link_record rec;
  size_t room;
  unsigned char *in;
  ssize_t got;
  clu_relay_status st;
  one_up(&o);
  REQUIRE(clu_link_init(&l, 0, 1 << 20, 10000000000u) == CLU_OK);
  clu_link_connected(&l, 1);
  say(&o, &l);
  CHECK_INT_EQ(turns(&o, 5), CLU_OK);
  in = clu_link_in(&l, &room);
  got = read((int)o.conn, in, room);
  REQUIRE(got > 0);
  clu_link_read(&l, (size_t)got, 1);
  CHECK_INT_EQ(clu_link_next(&l, &rec), 0);
  REQUIRE(l.state == CLU_LINK_UP);
  REQUIRE(clu_link_send(&l, CLU_L_CREDIT, 0, "too long", 8) == CLU_OK);
  say(&o, &l);
  CHECK_INT_EQ(turns(&o, 10), CLU_DEAD);
  clu_relay_status_of(o.r, &st);
  CHECK(strstr(st.why, clu_code_text(CLU_PROTO)));
  clu_link_fini(&l);
  one_down(&o);
}

TEST(a_record_for_which_there_is_no_memory_is_the_end_and_not_left_out) {
  static const unsigned char much[CLU_LINK_MOST];
  one o;
  clu_relay_status st;
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
  clu_relay_status_of(o.r, &st);
  CHECK_STR_EQ(st.why, clu_code_text(CLU_NOMEM));
  one_down(&o);
}
