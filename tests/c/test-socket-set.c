/* A set of sockets: bytes read ahead, members that are closed, forked children. */
#include "test.h"

#include "core/net/socket-set.h"
#include "sock-help.h"

static clu_sockset *new_set(void) {
  clu_err e = {0, 0, ""};
  clu_sockset *set = clu_sockset_new(&e);
  REQUIRE(set);
  return set;
}

static int put(clu_sockset *set, clu_sock *s, unsigned want) {
  int place = -1;
  clu_err e = {0, 0, ""};
  REQUIRE(clu_sockset_put(set, s, want, &place, &e) == CLU_OK);
  CHECK_INT_EQ(clu_sockset_place(set, s), place);
  return place;
}

/* Returns what is told of `place`, and how many members are ready in all. */
static unsigned told(clu_sockset *set, int place, int wait_ms, int *n) {
  const clu_sockset_ready *ready = NULL;
  unsigned got = 0;
  clu_err e = {0, 0, ""};
  REQUIRE(clu_sockset_wait(set, (int64_t)wait_ms * MS, &ready, n, &e) == CLU_OK);
  for (int i = 0; i < *n; i++)
    if (ready[i].place == place) got |= ready[i].ready;
  return got;
}

TEST(what_was_read_ahead_is_ready_without_a_wait_and_so_is_what_can_be_taken_back) {
  clu_sock *a, *b;
  clu_sockset *set = new_set();
  char got[8];
  int place, n;
  tcp_pair(&a, &b);
  place = put(set, b, CLU_READ);
  CHECK_INT_EQ(told(set, place, 0, &n), 0);
  put_all(a, "abc");
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ);
  CHECK_INT_EQ(fill_soon(b), CLU_OK); /* the system has nothing any more */
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ);
  CHECK_INT_EQ(n, 1);
  clu_sock_take(b, got, 3);
  CHECK_INT_EQ(told(set, place, 0, &n), 0);
  clu_sock_undo(b);
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ);
  clu_sock_take(b, got, 3);
  clu_sock_keep(b);
  CHECK_INT_EQ(told(set, place, 0, &n), 0);
  CHECK_INT_EQ(clu_sock_unread(b, "c", 1), CLU_OK);
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ);
  clu_sockset_free(set);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(interest_changes_and_the_place_stays) {
  clu_sock *a, *b;
  clu_sockset *set = new_set();
  int place, n;
  CHECK_INT_EQ(told(set, 0, 0, &n), 0); /* it is empty */
  tcp_pair(&a, &b);
  put_all(a, "abc");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  place = put(set, b, CLU_WRITE);
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_WRITE);
  CHECK_INT_EQ(put(set, b, CLU_READ | CLU_WRITE), place);
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ | CLU_WRITE);
  CHECK_INT_EQ(put(set, b, CLU_WRITE), place);
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_WRITE);
  CHECK_INT_EQ(clu_sockset_count(set), 1);
  clu_sockset_remove(set, place);
  CHECK_INT_EQ(told(set, place, 0, &n), 0);
  CHECK_INT_EQ(clu_sockset_place(set, b), -1);
  CHECK_INT_EQ(clu_sockset_left(set), -1); /* who removes it knows it */
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sockset_free(set);
}

TEST(a_closed_member_is_told_once_and_its_place_is_used_again_after_that) {
  clu_sock *a[3], *b[3];
  clu_sockset *set = new_set(), *other = new_set();
  int place[3], n;
  for (int i = 0; i < 3; i++) {
    tcp_pair(&a[i], &b[i]);
    if (i < 2) place[i] = put(set, b[i], CLU_READ);
  }
  put(other, b[0], CLU_READ);
  put_all(a[0], "x");
  CHECK_INT_EQ(told(set, place[0], 5000, &n), CLU_READ);
  clu_sock_free(b[0]);
  CHECK_INT_EQ(clu_sockset_count(set), 1);
  CHECK_INT_EQ(clu_sockset_count(other), 0);
  CHECK_INT_EQ(told(set, place[0], 0, &n), 0);
  place[2] = put(set, b[2], CLU_WRITE);
  CHECK(place[2] != place[0]);
  CHECK_INT_EQ(clu_sockset_left(set), place[0]);
  CHECK_INT_EQ(clu_sockset_left(set), -1);
  clu_sockset_remove(set, place[2]);
  clu_sockset_free(other); /* with a place that was not told */
  CHECK(clu_sockset_places(set) <= 3);
  n = put(set, b[2], CLU_WRITE);
  CHECK(n == place[0] || n == place[2]);
  for (int i = 0; i < 3; i++) clu_sock_free(a[i]);
  clu_sock_free(b[1]);
  clu_sockset_free(set); /* b[2] is not told any more */
  clu_sock_free(b[2]);
}

TEST(all_that_are_ready_are_told_each_once) {
  enum { N = 150 };
  clu_sock *a[N], *b[N];
  clu_sockset *set = new_set();
  const clu_sockset_ready *ready = NULL;
  int n;
  clu_err e = {0, 0, ""};
  for (int i = 0; i < N; i++) {
    tcp_pair(&a[i], &b[i]);
    put(set, b[i], CLU_READ | CLU_WRITE);
    if (i % 2) put_all(a[i], "x");
    if (i % 4 == 1) CHECK_INT_EQ(fill_soon(b[i]), CLU_OK);
  }
  for (int round = 0; round < 3; round++) {
    int seen[N] = {0};
    REQUIRE(clu_sockset_wait(set, 0, &ready, &n, &e) == CLU_OK);
    CHECK_INT_EQ(n, N);
    for (int i = 0; i < n; i++) {
      int place = ready[i].place;
      CHECK_INT_EQ(ready[i].ready, CLU_WRITE | (place % 2 ? CLU_READ : 0));
      CHECK_INT_EQ(seen[place]++, 0);
    }
  }
  for (int i = 0; i < N; i++) {
    clu_sock_free(a[i]);
    clu_sock_free(b[i]);
  }
  clu_sockset_free(set);
}

TEST(what_a_forked_child_closes_stays_a_member_of_the_parents_set) {
  clu_sock *a, *b;
  clu_sockset *set = new_set();
  int place, n, status;
  pid_t child;
  tcp_pair(&a, &b);
  place = put(set, b, CLU_READ);
  child = fork();
  if (child == 0) {
    int mine = clu_sockset_is_mine(set);
    clu_sock_free(b);
    clu_sockset_free(set);
    clu_sock_free(a);
    _exit(mine);
  }
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  put_all(a, "x");
  CHECK_INT_EQ(told(set, place, 5000, &n), CLU_READ);
  /* a child that still has the descriptor does not keep it in the set */
  child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  clu_sock_free(b);
  clu_sock_free(a);
  CHECK_INT_EQ(told(set, place, 50, &n), 0);
  CHECK_INT_EQ(n, 0);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  clu_sockset_free(set);
}
