/* These tests find out who listens: many ports at once, on the loopback. */
#include "test.h"

#include "core/net/port-probe.h"
#include "sock-help.h"

static void ports(clu_addr *to, const clu_sock *l, int n) {
  for (int i = 0; i < n; i++) {
    to[i] = l->local;
    clu_os_addr_set_port(&to[i], 1 + i); /* privileged ones: hardly anybody is there */
  }
}

TEST(more_ports_than_are_asked_at_a_time) {
  static clu_addr to[700];
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", -1);
  clu_probe *p;
  int alive = 0;
  ports(to, l, 700);
  to[650] = l->local;
  REQUIRE(p = clu_probe_new(to, 700, &e));
  CHECK_INT_EQ(clu_probe_answer(p, 0), -1);
  CHECK_SOON(clu_probe_step(p, 10 * MS, &e) == CLU_OK, 10000);
  CHECK_INT_EQ(clu_probe_answer(p, 650), 1);
  for (int i = 0; i < 700; i++) {
    CHECK(clu_probe_answer(p, i) >= 0);
    alive += clu_probe_answer(p, i);
  }
  CHECK(alive < 350);
  CHECK_INT_EQ(clu_probe_step(p, 0, &e), CLU_OK);
  clu_probe_free(p);
  clu_sock_free(l);
}

TEST(no_port_is_no_question) {
  clu_err e = {0, 0, ""};
  clu_probe *p = clu_probe_new(NULL, 0, &e);
  REQUIRE(p);
  CHECK_INT_EQ(clu_probe_step(p, 0, &e), CLU_OK);
  clu_probe_free(p);
  clu_probe_free(NULL);
}

TEST(who_does_not_answer_is_given_up) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", 0), *filler[8];
  clu_addr to[2];
  clu_probe *p;
  int n = 0;
  while (n < 8) { /* until the queue is full */
    filler[n] = clu_sock_new();
    REQUIRE(clu_sock_connect(filler[n], "127.0.0.1", port_of(l), NULL, 0, 0, &e) == CLU_OK);
    if (finish(filler[n++], 50, &e) != CLU_OK) break;
  }
  to[0] = l->local;
  to[1] = l->local;
  clu_os_addr_set_port(&to[1], 1);
  REQUIRE(p = clu_probe_new(to, 2, &e));
  CHECK_INT_EQ(clu_probe_step(p, 10 * MS, &e), CLU_AGAIN);
  CHECK_INT_EQ(clu_probe_answer(p, 0), -1);
  CHECK_INT_EQ(clu_probe_answer(p, 1), 0);
  clu_probe_free(p); /* closes what is under way */
  while (n) clu_sock_free(filler[--n]);
  clu_sock_free(l);
}

TEST(without_a_free_descriptor_there_is_no_answer) {
  struct rlimit old, low;
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", -1);
  clu_probe *p;
  REQUIRE(p = clu_probe_new(&l->local, 1, &e));
  getrlimit(RLIMIT_NOFILE, &old);
  low = old;
  low.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK_INT_EQ(clu_probe_step(p, 0, &e), CLU_LIMIT);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK_SOON(clu_probe_step(p, 10 * MS, &e) == CLU_OK, 2000);
  CHECK_INT_EQ(clu_probe_answer(p, 0), 1);
  clu_probe_free(p);
  clu_sock_free(l);
}
