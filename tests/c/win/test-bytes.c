/* Pairs of sockets, channels over them, readiness, clock and chance. */
#include "test.h"

#include "core/wire/channel.h"

#define MB ((size_t)1 << 20)
#define MS 1000000

static void pair(clu_fd fd[2]) {
  clu_err e = {0, 0, ""};
  if (clu_os_pair(fd, &e) != CLU_OK) test_fail(__FILE__, __LINE__, "%s", e.text);
  REQUIRE(!test_failed);
}

static int read_some(clu_fd fd, void *p, size_t n, size_t *got) {
  clu_iov v = {p, n};
  *got = 0;
  return clu_os_readv(fd, &v, 1, got, NULL, NULL);
}

static int write_some(clu_fd fd, const char *p, size_t n, size_t *put) {
  clu_iov v = {(void *)p, n};
  *put = 0;
  return clu_os_writev(fd, &v, 1, NULL, 0, put);
}

/* ---- small things ---- */

TEST(the_clock_goes_forward_at_the_right_pace) {
  uint64_t a = clu_os_now(), b;
  DWORD wall = GetTickCount();
  clu_os_pause(100 * MS);
  b = clu_os_now();
  wall = GetTickCount() - wall;
  CHECK(b - a >= 99 * (uint64_t)MS);
  CHECK((double)(b - a) / MS < wall + 60.0);
}

TEST(random_bytes_differ) {
  unsigned char a[32], b[32];
  CHECK_INT_EQ(clu_os_random(a, sizeof a), CLU_OK);
  CHECK_INT_EQ(clu_os_random(b, sizeof b), CLU_OK);
  CHECK(memcmp(a, b, sizeof a) != 0);
}

TEST(limits_are_told) {
  clu_limits l;
  double t[5];
  clu_os_limits(&l);
  CHECK_INT_EQ(l.fds_soft, -1);
  CHECK_INT_EQ(clu_os_raise_fds(100000), CLU_OK);
  CHECK(clu_os_affinity_count() >= 1);
  CHECK(clu_os_thread_count() >= 2); /* the harness has one that watches */
  clu_os_times(t);
  CHECK(t[2] > 0);
}

TEST(what_windows_lacks_is_said) {
  clu_fd fd[2];
  clu_pid pid = 5;
  clu_err e = {0, 0, ""};
  size_t put;
  clu_iov v = {(char[]){'x'}, 1};
  int n;
  CHECK_INT_EQ(clu_os_fork(&pid, &e), CLU_UNSUPPORTED);
  CHECK_INT_EQ(pid, 5);
  CHECK(!(clu_os_can() & CLU_CAN_FORK));
  CHECK_INT_EQ(clu_os_watch_start(&fd[0], &e), CLU_UNSUPPORTED);
  CHECK_INT_EQ(clu_os_sockets(fd, 2, &n), CLU_UNSUPPORTED);
  CHECK_INT_EQ(clu_os_path_clear("nothing"), CLU_UNSUPPORTED);
  pair(fd);
  CHECK_INT_EQ(clu_os_writev(fd[0], &v, 1, &fd[1], 1, &put), CLU_UNSUPPORTED);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

/* ---- a pair ---- */

TEST(bytes_go_both_ways_and_the_end_is_seen) {
  clu_fd fd[2];
  char got[8] = "";
  size_t n;
  pair(fd);
  for (int i = 0; i < 2; i++) {
    CHECK_INT_EQ(read_some(fd[i], got, sizeof got, &n), CLU_AGAIN); /* it does not wait */
    CHECK_INT_EQ(write_some(fd[i], "hello", 5, &n), CLU_OK);
    CHECK_INT_EQ(n, 5);
    CHECK_INT_EQ(clu_os_wait_readable(fd[!i], 5000 * (int64_t)MS), CLU_OK);
    CHECK_INT_EQ(read_some(fd[!i], got, 5, &n), CLU_OK);
    CHECK_MEM_EQ(got, "hello", n);
  }
  clu_os_close(fd[0]);
  CHECK_INT_EQ(clu_os_wait_readable(fd[1], 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(read_some(fd[1], got, sizeof got, &n), CLU_EOF);
  clu_os_close(fd[1]);
}

TEST(several_buffers_in_one_call) {
  clu_fd fd[2];
  char a[3], b[4];
  clu_iov out[3] = {{"ab", 2}, {"", 0}, {"cdefg", 5}}, in[2] = {{a, 3}, {b, 4}};
  size_t n = 0;
  clu_fd passed[CLU_MAX_FDS];
  int n_passed = 7;
  pair(fd);
  CHECK_INT_EQ(clu_os_writev(fd[0], out, 3, NULL, 0, &n), CLU_OK);
  CHECK_INT_EQ(n, 7);
  CHECK_INT_EQ(clu_os_wait_readable(fd[1], 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(clu_os_readv(fd[1], in, 2, &n, passed, &n_passed), CLU_OK);
  CHECK_INT_EQ(n, 7);
  CHECK_INT_EQ(n_passed, 0);
  CHECK_MEM_EQ(a, "abc", 3);
  CHECK_MEM_EQ(b, "defg", 4);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

TEST(many_pairs_at_once_are_each_their_own) {
  enum { N = 50 };
  static clu_fd fd[N][2];
  size_t n;
  char c;
  for (int i = 0; i < N; i++) pair(fd[i]);
  for (int i = 0; i < N; i++) CHECK_INT_EQ(write_some(fd[i][0], &(char){(char)i}, 1, &n), CLU_OK);
  for (int i = 0; i < N; i++) {
    CHECK_INT_EQ(clu_os_wait_readable(fd[i][1], 5000 * (int64_t)MS), CLU_OK);
    CHECK_INT_EQ(read_some(fd[i][1], &c, 1, &n), CLU_OK);
    CHECK_INT_EQ(c, i);
  }
  for (int i = 0; i < N; i++) {
    clu_os_close(fd[i][0]);
    clu_os_close(fd[i][1]);
  }
}

TEST(no_socket_is_inherited) {
  clu_fd fd[2], copy;
  DWORD flags = 1;
  pair(fd);
  CHECK_INT_EQ(clu_os_dup(fd[0], &copy), CLU_OK);
  CHECK(GetHandleInformation((HANDLE)fd[0], &flags) && !(flags & HANDLE_FLAG_INHERIT));
  CHECK(GetHandleInformation((HANDLE)fd[1], &flags) && !(flags & HANDLE_FLAG_INHERIT));
  CHECK(GetHandleInformation((HANDLE)copy, &flags) && !(flags & HANDLE_FLAG_INHERIT));
  clu_os_close(copy);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

TEST(a_copy_keeps_the_connection) {
  clu_fd fd[2], copy;
  size_t n;
  char c = 0;
  pair(fd);
  CHECK_INT_EQ(clu_os_dup(fd[0], &copy), CLU_OK);
  clu_os_close(fd[0]);
  CHECK_INT_EQ(write_some(copy, "x", 1, &n), CLU_OK);
  CHECK_INT_EQ(clu_os_wait_readable(fd[1], 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(read_some(fd[1], &c, 1, &n), CLU_OK);
  CHECK_INT_EQ(c, 'x');
  clu_os_close(copy);
  CHECK_INT_EQ(clu_os_wait_readable(fd[1], 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(read_some(fd[1], &c, 1, &n), CLU_EOF);
  clu_os_close(fd[1]);
}

TEST(what_is_full_is_not_writable_and_becomes_so_again) {
  static char bytes[1 << 16];
  clu_fd fd[2];
  size_t n, put = 0, got = 0;
  int rc;
  clu_watch w;
  pair(fd);
  while ((rc = write_some(fd[0], bytes, sizeof bytes, &n)) == CLU_OK && put < 256 * MB) put += n;
  CHECK_INT_EQ(rc, CLU_AGAIN);
  w.fd = fd[0];
  w.want = CLU_WRITE;
  while (got < put) {
    rc = read_some(fd[1], bytes, sizeof bytes, &n);
    if (rc == CLU_OK) got += n;
    if (rc == CLU_AGAIN && clu_os_wait_readable(fd[1], 5000 * (int64_t)MS) != CLU_OK) break;
    if (rc != CLU_OK && rc != CLU_AGAIN) break;
  }
  CHECK_INT_EQ(got, put);
  {
    int ready = 0;
    CHECK_INT_EQ(clu_os_poll(&w, 1, 5000 * (int64_t)MS, &ready, NULL), CLU_OK);
    CHECK_INT_EQ(ready, 1);
    CHECK_INT_EQ(w.ready, CLU_WRITE);
  }
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

TEST(writing_to_nobody_is_a_reset) {
  clu_fd fd[2];
  size_t n;
  int rc = CLU_OK;
  pair(fd);
  clu_os_close(fd[1]);
  CHECK_SOON((rc = write_some(fd[0], "x", 1, &n)) != CLU_OK, 5000);
  CHECK_INT_EQ(rc, CLU_RESET);
  clu_os_close(fd[0]);
}

TEST(a_blocking_read_waits) {
  clu_fd fd[2];
  size_t n;
  char c = 0;
  pair(fd);
  CHECK_INT_EQ(clu_os_set_blocking(fd[0], 1), CLU_OK);
  CHECK_INT_EQ(write_some(fd[1], "y", 1, &n), CLU_OK);
  CHECK_INT_EQ(read_some(fd[0], &c, 1, &n), CLU_OK);
  CHECK_INT_EQ(c, 'y');
  CHECK_INT_EQ(clu_os_set_blocking(fd[0], 0), CLU_OK);
  CHECK_INT_EQ(read_some(fd[0], &c, 1, &n), CLU_AGAIN);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

/* ---- a channel over a pair ---- */

static clu_blob *pattern(size_t n, unsigned salt) {
  clu_blob *b = clu_blob_new(n);
  REQUIRE(b);
  for (size_t i = 0; i < n; i++) b->data[i] = (unsigned char)((i * 2654435761u + salt) >> 7);
  b->size = n;
  return b;
}

TEST(messages_of_all_sizes_arrive_as_they_left) {
  static const size_t sizes[] = {0, 1, 24, 16384, 100000, MB - 1, MB, MB + 1, 5 * MB + 123, 0, 7};
  enum { N = sizeof sizes / sizeof *sizes };
  clu_chan a, b;
  clu_fd fd[2];
  unsigned next = 0;
  double end = test_ms() + 20000;
  pair(fd);
  REQUIRE(clu_chan_init(&a, fd[0], INT64_MAX, 0) == CLU_OK);
  REQUIRE(clu_chan_init(&b, fd[1], INT64_MAX, 0) == CLU_OK);
  for (unsigned i = 0; i < N; i++) {
    clu_blob *body = sizes[i] ? pattern(sizes[i], i) : NULL;
    CHECK_INT_EQ(clu_chan_send(&a, (uint8_t)(1 + i), i, body, CLU_NO_FD), CLU_OK);
    clu_blob_unref(body);
  }
  while (next < N && test_ms() < end) {
    clu_msg m = {0, 0, NULL};
    int put = clu_chan_flush(&a), r = clu_chan_next(&b, &m);
    CHECK(put == CLU_OK || put == CLU_AGAIN);
    if (r == 0) {
      int rc = clu_chan_fill(&b);
      if (rc != CLU_OK && rc != CLU_AGAIN) break;
      continue;
    }
    CHECK_INT_EQ(r, 1);
    CHECK_INT_EQ(m.kind, 1 + next);
    CHECK_INT_EQ(m.body ? m.body->size : 0, sizes[next]);
    if (m.body && m.body->size == sizes[next]) {
      clu_blob *want = pattern(sizes[next], next);
      CHECK_MEM_EQ(m.body->data, want->data, want->size);
      clu_blob_unref(want);
    }
    clu_blob_unref(m.body);
    next++;
  }
  CHECK_INT_EQ(next, N);
  CHECK_INT_EQ(a.bytes_out, b.bytes_in);
  clu_chan_fini(&a);
  CHECK_INT_EQ(clu_os_wait_readable(b.fd, 5000 * (int64_t)MS), CLU_OK);
  CHECK_INT_EQ(clu_chan_fill(&b), CLU_EOF);
  clu_chan_fini(&b);
}

/* ---- readiness ---- */

TEST(a_poller_tells_who_is_ready) {
  enum { N = 10 };
  clu_fd fd[N][2];
  clu_event ev[N * 2];
  clu_err e;
  clu_poller *p = clu_poller_new(&e);
  size_t k;
  int n = -1, seen = 0;
  double from;
  REQUIRE(p);
  for (int i = 0; i < N; i++) {
    pair(fd[i]);
    CHECK_INT_EQ(clu_poller_set(p, fd[i][0], 0, CLU_READ, (uint64_t)i, &e), CLU_OK);
  }
  CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 0, &e), CLU_OK);
  CHECK_INT_EQ(n, 0);
  from = test_ms();
  CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 100 * MS, &e), CLU_OK);
  CHECK_INT_EQ(n, 0);
  CHECK(test_ms() - from > 90);
  write_some(fd[3][1], "x", 1, &k);
  write_some(fd[7][1], "x", 1, &k);
  for (int tries = 0; seen < 2 && tries < 100; tries++) {
    seen = 0;
    CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 50 * MS, &e), CLU_OK);
    for (int i = 0; i < n; i++) {
      CHECK(ev[i].id == 3 || ev[i].id == 7);
      CHECK_INT_EQ(ev[i].ready, CLU_READ);
      seen++;
    }
  }
  CHECK_INT_EQ(seen, 2);
  CHECK_INT_EQ(clu_poller_wait(p, ev, 1, &n, 0, &e), CLU_OK); /* not more than there is room for */
  CHECK_INT_EQ(n, 1);
  CHECK_INT_EQ(clu_poller_set(p, fd[3][0], 1, 0, 0, &e), CLU_OK);
  CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 0, &e), CLU_OK);
  CHECK_INT_EQ(n, 1);
  CHECK(ev[0].id == 7);
  CHECK_INT_EQ(clu_poller_set(p, fd[7][0], 1, CLU_READ | CLU_WRITE, 1, &e), CLU_OK);
  CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 0, &e), CLU_OK);
  CHECK_INT_EQ(n, 1);
  CHECK(ev[0].id == 1);
  CHECK_INT_EQ(ev[0].ready, CLU_READ | CLU_WRITE);
  clu_os_close(fd[5][1]); /* an end is readable */
  for (int tries = 0; n != 2 && tries < 100; tries++)
    CHECK_INT_EQ(clu_poller_wait(p, ev, N, &n, 0, &e), CLU_OK), Sleep(1);
  CHECK_INT_EQ(n, 2);
  fd[5][1] = CLU_NO_FD;
  clu_poller_free(p);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < 2; j++)
      if (fd[i][j] != CLU_NO_FD) clu_os_close(fd[i][j]);
}

TEST(a_poller_without_sockets_waits_its_time) {
  clu_err e;
  clu_event ev;
  int n = 1;
  double from = test_ms();
  clu_poller *p = clu_poller_new(&e);
  CHECK_INT_EQ(clu_poller_wait(p, &ev, 1, &n, 60 * MS, &e), CLU_OK);
  CHECK_INT_EQ(n, 0);
  CHECK(test_ms() - from > 50);
  clu_poller_free(p);
  clu_poller_free(NULL);
}

TEST(a_set_for_one_time_skips_what_is_none) {
  enum { N = 100 };
  static clu_watch w[N];
  clu_fd fd[2];
  size_t k;
  int n = 0;
  pair(fd);
  for (int i = 0; i < N; i++) {
    w[i].fd = CLU_NO_FD;
    w[i].want = CLU_READ;
  }
  CHECK_INT_EQ(clu_os_poll(w, N, 20 * MS, &n, NULL), CLU_OK);
  CHECK_INT_EQ(n, 0);
  w[41].fd = fd[0];
  w[77].fd = fd[1];
  w[77].want = CLU_WRITE;
  write_some(fd[1], "x", 1, &k);
  CHECK_SOON(clu_os_poll(w, N, 20 * MS, &n, NULL) == CLU_OK && n == 2, 5000);
  CHECK_INT_EQ(w[41].ready, CLU_READ);
  CHECK_INT_EQ(w[77].ready, CLU_WRITE);
  CHECK_INT_EQ(w[0].ready, 0);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}

TEST(readable_soon_without_a_sleep) {
  clu_fd fd[2];
  size_t k;
  uint64_t gave;
  pair(fd);
  CHECK_INT_EQ(clu_os_spin_readable(fd[0], MS, &gave), 0);
  CHECK_INT_EQ(clu_os_wait_readable(fd[0], 20 * MS), CLU_TIMEOUT);
  write_some(fd[1], "x", 1, &k);
  CHECK_INT_EQ(clu_os_wait_readable(fd[0], -1), CLU_OK);
  CHECK_INT_EQ(clu_os_spin_readable(fd[0], MS, &gave), 1);
  clu_os_close(fd[0]);
  clu_os_close(fd[1]);
}
