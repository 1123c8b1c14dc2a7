/* A node that joins a cluster over TCP, where the session is not what it should be. test-acceptor.c
 * has sessions and nodes that get on with each other. */
#include "test.h"

#include "sock-help.h"

#include "core/node/joiner.h"

static const unsigned char secret[CLU_SECRET] = "the secret of these tests is 32";
static int asked, gives_up_at;
static clu_sock *session; /* closes at once what connects, where there is one */
static int came;          /* to it; after the second time the node is told to give up */

static int go_on(void) {
  if (session) {
    clu_sock *s = clu_sock_new();
    if (clu_sock_accept(session, s, NULL) == CLU_OK) came++;
    clu_sock_free(s);
  }
  asked++;
  return came < 2 && (!gives_up_at || asked < gives_up_at);
}

static int join(int port, int ms, clu_err *e) {
  clu_join j;
  clu_chan c;
  clu_msg settings;
  memset(&j, 0, sizeof j);
  j.host = "127.0.0.1";
  j.port = port;
  j.secret = secret;
  j.rank = 1;
  j.deadline = clu_os_now() + (uint64_t)ms * MS;
  j.go_on = go_on;
  return clu_join_cluster(&j, &c, &settings, e);
}

static int dead_port(void) {
  clu_sock *l = listener("127.0.0.1", -1);
  int port = port_of(l);
  clu_sock_free(l);
  return port;
}

TEST(where_nobody_listens_it_tries_until_the_time_is_up) {
  clu_err e = {0, 0, ""};
  uint64_t start = clu_os_now();
  int fds = test_count_fds();
  CHECK_INT_EQ(join(dead_port(), 400, &e), CLU_TIMEOUT);
  CHECK_INT_EQ(e.code, CLU_TIMEOUT);
  CHECK(strlen(e.text) > 0);
  CHECK(clu_os_now() - start >= 400 * (uint64_t)MS);
  CHECK(asked > 1);
  CHECK_INT_EQ(test_count_fds(), fds);
}

/* The session has listened before it started anybody. */
TEST(where_nobody_listens_for_long_it_gives_up) {
  clu_err e = {0, 0, ""};
  uint64_t start = clu_os_now();
  CHECK_INT_EQ(join(dead_port(), 60000, &e), CLU_REFUSED);
  CHECK(clu_os_now() - start >= 2000 * (uint64_t)MS);
  CHECK(clu_os_now() - start < 8000 * (uint64_t)MS);
}

TEST(a_deadline_that_has_passed_ends_it_at_once) {
  clu_err e = {0, 0, ""};
  CHECK_INT_EQ(join(dead_port(), 0, &e), CLU_TIMEOUT);
}

TEST(who_is_told_to_give_up_does_so) {
  clu_err e = {0, 0, ""};
  int fds = test_count_fds();
  gives_up_at = 2;
  CHECK_INT_EQ(join(dead_port(), 25000, &e), CLU_CANCELLED);
  CHECK_INT_EQ(e.code, CLU_CANCELLED);
  CHECK_INT_EQ(asked, 2);
  CHECK_INT_EQ(test_count_fds(), fds);
}

TEST(after_a_session_that_closes_it_connects_anew) {
  clu_err e = {0, 0, ""};
  session = listener("127.0.0.1", -1);
  CHECK_INT_EQ(join(port_of(session), 25000, &e), CLU_CANCELLED); /* as soon as it has come twice */
  CHECK_INT_EQ(came, 2);
  clu_sock_free(session);
}

TEST(a_session_that_says_nothing_is_given_up) {
  clu_err e = {0, 0, ""};
  clu_sock *l = listener("127.0.0.1", -1);
  int fds = test_count_fds();
  CHECK_INT_EQ(join(port_of(l), 300, &e), CLU_TIMEOUT);
  CHECK(strstr(e.text, "127.0.0.1") != NULL);
  CHECK_INT_EQ(test_count_fds(), fds);
  clu_sock_free(l);
}
