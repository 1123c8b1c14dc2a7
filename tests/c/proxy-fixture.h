/* One proxy, whose other side, and whose session or fork server, is the test. */
#ifndef PROXY_FIXTURE_H
#define PROXY_FIXTURE_H

#include "test.h"

#include <unistd.h>

#include "core/base/err.h"
#include "core/link/proxy.h"
#include "core/wire/frame.h"

typedef struct one {
  clu_loop loop;
  clu_proxy *r;
  clu_fd conn, control;
  clu_link there;                 /* the other side */
  uint64_t granted;               /* bytes on stream 0, by CREDIT */
  int seen[CLU_L_AFTER_NUMBERED]; /* records of each type */
} one;

static clu_proxy_options how = {.near = 1, .epoch = 4711, .beat = 10000000000u};

TEST_UNUSED static void one_up(one *o) {
  clu_fd conn[2], control[2];
  clu_err e;
  memset(o, 0, sizeof *o);
  REQUIRE(clu_loop_init(&o->loop, &e) == CLU_OK && clu_os_pair(conn, &e) == CLU_OK &&
          clu_os_pair(control, &e) == CLU_OK);
  REQUIRE(o->r = clu_proxy_new(&o->loop, &how));
  REQUIRE(clu_proxy_control(o->r, control[0]) == CLU_OK);
  REQUIRE(clu_proxy_connect(o->r, clu_conn_plain(conn[0])) == CLU_OK);
  REQUIRE(clu_link_init(&o->there, 0, 1 << 20, 10000000000u) == CLU_OK);
  o->conn = conn[1];
  o->control = control[1];
}

TEST_UNUSED static void one_down(one *o) {
  clu_proxy_free(o->r);
  clu_loop_fini(&o->loop);
  clu_link_fini(&o->there);
  clu_os_close(o->conn);
  clu_os_close(o->control);
}

/* Has turns of the proxy. CLU_OK, or why there are no more. */
TEST_UNUSED static int turns(one *o, int n) {
  int rc = CLU_OK;
  clu_err e;
  for (int k = 0; k < n && rc == CLU_OK; k++) {
    rc = clu_proxy_turn(o->r);
    clu_loop_pump(&o->loop, 10000000, &e);
  }
  return rc;
}

/* The other side says what it has to say. */
TEST_UNUSED static void say(one *o) {
  size_t n;
  const unsigned char *p;
  while ((p = clu_link_out(&o->there, &n)) && n > 0) {
    REQUIRE(write((int)o->conn, p, n) == (ssize_t)n);
    clu_link_written(&o->there, n, 1);
  }
}

/* It takes what has come. */
TEST_UNUSED static void hear(one *o) {
  for (;;) {
    size_t room;
    unsigned char *to = clu_link_in(&o->there, &room);
    ssize_t n = read((int)o->conn, to, room);
    clu_link_record rec;
    if (n <= 0) return;
    clu_link_read(&o->there, (size_t)n, 1);
    while (clu_link_next(&o->there, &rec) == 1) {
      if (rec.type < CLU_L_AFTER_NUMBERED) o->seen[rec.type]++;
      if (rec.type == CLU_L_CREDIT && rec.stream == 0) o->granted += clu_get32(rec.bytes);
    }
  }
}

TEST_UNUSED static void one_up_and_resumed(one *o) {
  one_up(o);
  clu_link_connected(&o->there, 1);
  say(o);
  CHECK_INT_EQ(turns(o, 5), CLU_OK);
  hear(o);
  REQUIRE(o->there.state == CLU_LINK_UP);
}

TEST_UNUSED static void record(one *o, int type, uint64_t stream, const void *p, size_t n) {
  REQUIRE(clu_link_send(&o->there, type, stream, p, n) == CLU_OK);
  say(o);
}

/* Nothing of the link can be used any more, for a reason that has these words. */
TEST_UNUSED static void expect_end(one *o, const char *words) {
  clu_proxy_status st;
  CHECK_INT_EQ(turns(o, 10), CLU_DEAD);
  clu_proxy_status_of(o->r, &st);
  CHECK_INT_EQ(st.state, CLU_PROXY_ENDED);
  CHECK(!st.connected);
  if (!CHECK(strstr(st.why, words))) fprintf(stderr, "why: %s\n", st.why);
}

#endif
