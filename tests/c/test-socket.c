/* Sockets: bytes, what is told of them, and the end. */
// link: -Wl,--wrap=shutdown -Wl,--wrap=clu_os_readv
#include "test.h"

#include "sock-help.h"

/* ---- faults on demand ---- */

static int shutdown_fails;
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
  if (shutdown_fails) {
    errno = EIO;
    return -1;
  }
  return __real_shutdown(fd, how);
}

static size_t endless; /* bytes that every socket has to be read */
int __real_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds);
int __wrap_clu_os_readv(clu_fd fd, const clu_iov *iov, int n, size_t *got, clu_fd *fds, int *nfds) {
  if (!endless) return __real_clu_os_readv(fd, iov, n, got, fds, nfds);
  *got = iov[0].len < endless ? iov[0].len : endless;
  endless -= *got;
  return CLU_OK;
}

/* ---- bytes ---- */

TEST(what_was_handed_out_can_be_taken_back) {
  clu_sock *a, *b;
  char got[8];
  tcp_pair(&a, &b);
  put_all(a, "abcdef");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 2), 2);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 3), 3);
  put_all(a, "ghi");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  clu_sock_undo(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 8), 7);
  CHECK_MEM_EQ(got, "cdefghi", 7);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(bytes_are_put_back_in_front) {
  clu_sock *a, *b;
  char got[16];
  tcp_pair(&a, &b);
  put_all(a, "defgh");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 2), 2);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_unread(b, "abcde", 5), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 16), 8);
  CHECK_MEM_EQ(got, "abcdefgh", 8);
  clu_sock_keep(b);
  for (int i = 0; i < 3; i++) CHECK_INT_EQ(clu_sock_unread(b, "0123456789", 10), CLU_OK);
  CHECK_INT_EQ(b->end - b->pos, 30);
  CHECK_INT_EQ(clu_sock_unread(b, NULL, 0), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(bytes_are_put_back_behind_those_that_can_still_be_taken_back) {
  clu_sock *a, *b;
  char got[32];
  static char many[200000];
  tcp_pair(&a, &b);
  put_all(a, "0123456789");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 2), 2);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 3), 3);
  CHECK_INT_EQ(clu_sock_unread(b, "abc", 3), CLU_OK);
  clu_sock_undo(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 32), 11);
  CHECK_MEM_EQ(got, "234abc56789", 11);
  clu_sock_undo(b);
  CHECK_INT_EQ(clu_sock_take(b, got, 3), 3);
  memset(many, 'x', sizeof many); /* more than there is room for */
  CHECK_INT_EQ(clu_sock_unread(b, many, sizeof many), CLU_OK);
  clu_sock_undo(b);
  CHECK_INT_EQ(b->end - b->pos, 11 + sizeof many);
  CHECK_INT_EQ(clu_sock_take(b, got, 4), 4);
  CHECK_MEM_EQ(got, "234x", 4);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(memory_of_a_large_read_is_given_back) {
  clu_sock *a, *b;
  char got[8];
  static char many[2 << 20];
  tcp_pair(&a, &b);
  put_all(a, "abc");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, 1), 1);
  clu_sock_keep(b);
  CHECK_INT_EQ(clu_sock_unread(b, many, sizeof many), CLU_OK);
  clu_sock_trim(b);
  CHECK(b->cap >= sizeof many); /* all of it is still to be read */
  b->pos += sizeof many;
  clu_sock_keep(b);
  clu_sock_trim(b);
  CHECK(b->cap < sizeof many);
  CHECK_INT_EQ(clu_sock_take(b, got, 8), 2);
  CHECK_MEM_EQ(got, "bc", 2);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(much_data_passes_whole_and_the_memory_for_taking_back_is_bounded) {
  clu_sock *a, *b;
  static unsigned char out[1 << 16], in[1 << 16];
  size_t sent = 0, got = 0, total = CLU_SOCK_KEEP + (24u << 20), wrong = 0;
  tcp_pair(&a, &b);
  while (got < total) {
    size_t put = 0, k;
    for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)((sent + i) % 251);
    if (sent < total) {
      size_t n = total - sent < sizeof out ? total - sent : sizeof out;
      int rc = clu_sock_put(a, out, n, &put, NULL);
      REQUIRE(rc == CLU_OK || rc == CLU_AGAIN);
      sent += put;
    }
    if (b->pos == b->end) {
      int rc = clu_sock_fill(b, NULL);
      REQUIRE(rc == CLU_OK || rc == CLU_AGAIN);
    }
    k = clu_sock_take(b, in, sizeof in);
    for (size_t i = 0; i < k; i++) wrong += in[i] != (got + i) % 251;
    got += k;
  }
  CHECK_INT_EQ(wrong, 0);
  CHECK(b->cap <= 2 * CLU_SOCK_KEEP);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_dead_peer_is_an_error_and_no_signal) {
  clu_sock *a, *b;
  size_t put;
  int rc = CLU_OK;
  tcp_pair(&a, &b);
  linger_zero(b);
  clu_sock_free(b);
  CHECK_SOON((rc = clu_sock_put(a, "x", 1, &put, NULL)) == CLU_RESET, 2000);
  CHECK_INT_EQ(clu_sock_put(a, "x", 1, &put, NULL), CLU_RESET);
  for (int i = 0; i < 3; i++) CHECK_INT_EQ(clu_sock_fill(a, NULL), CLU_RESET); /* never an end */
  clu_sock_free(a);
}

TEST(after_a_shutdown_that_side_is_closed) {
  clu_sock *a, *b;
  clu_err e = {0, 0, ""};
  size_t put;
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_sock_shutdown(a, CLU_WRITE, &e), CLU_OK);
  CHECK_INT_EQ(clu_sock_put(a, "x", 1, &put, &e), CLU_CLOSED);
  CHECK(strstr(e.text, "127.0.0.1:") != NULL);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  if (clu_os_can() & CLU_CAN_TCP_INFO) {
    CHECK_INT_EQ(state(b), CLU_TCP_CLOSE_WAIT);
    CHECK_SOON(state(a) == CLU_TCP_FIN_WAIT2, 2000);
  }
  put_all(b, "still open this way");
  CHECK_INT_EQ(fill_soon(a), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(states_and_counts_are_told) {
  clu_sock *a, *b;
  clu_sock_status st;
  if (!(clu_os_can() & CLU_CAN_TCP_INFO)) SKIP("the system does not tell");
  tcp_pair(&a, &b);
  CHECK_INT_EQ(state(a), CLU_TCP_ESTABLISHED);
  put_all(a, "12345");
  CHECK_SOON(clu_os_sock_status(b->fd, &st) == CLU_OK && st.queued_in == 5, 2000);
  CHECK_INT_EQ(st.retransmits, 0);
  CHECK(clu_os_sock_status(a->fd, &st) == CLU_OK && st.rtt_us > 0);
  CHECK_INT_EQ(st.kind, CLU_KIND_STREAM);
  CHECK_INT_EQ(st.family, CLU_INET);
  CHECK_INT_EQ(clu_os_sock_status(0, &st), CLU_SYS); /* not a socket */
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(options_are_set_and_read) {
  static const struct {
    clu_sockopt which;
    int value;
  } all[] = {{CLU_OPT_NODELAY, 1},       {CLU_OPT_KEEPALIVE, 1},  {CLU_OPT_KEEP_IDLE, 30},
             {CLU_OPT_KEEP_INTERVAL, 5}, {CLU_OPT_KEEP_COUNT, 4}, {CLU_OPT_USER_TIMEOUT, 3000},
             {CLU_OPT_LINGER, 7},        {CLU_OPT_LINGER, -1}};
  clu_sock *a, *b;
  clu_fd pair[2];
  int v;
  tcp_pair(&a, &b);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].which == CLU_OPT_USER_TIMEOUT && !(clu_os_can() & CLU_CAN_USER_TIMEOUT)) continue;
    CHECK_INT_EQ(clu_os_sockopt_set(a->fd, all[i].which, all[i].value), CLU_OK);
    CHECK_INT_EQ(clu_os_sockopt_get(a->fd, all[i].which, &v), CLU_OK);
    CHECK_INT_EQ(v, all[i].value);
  }
  CHECK_INT_EQ(clu_os_sockopt_set(a->fd, CLU_OPT_SEND_BUFFER, 65536), CLU_OK);
  CHECK(clu_os_sockopt_get(a->fd, CLU_OPT_SEND_BUFFER, &v) == CLU_OK && v >= 65536);
  REQUIRE(clu_os_pair(pair, NULL) == CLU_OK);
  CHECK_INT_EQ(clu_os_sockopt_set(pair[0], CLU_OPT_NODELAY, 1), CLU_UNSUPPORTED);
  clu_os_close(pair[0]);
  clu_os_close(pair[1]);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(the_table_knows_every_socket_of_the_process) {
  clu_fd got[64];
  int n = 0, found = 0;
  clu_sock *a, *b;
  int other = socket(AF_INET, SOCK_DGRAM, 0);
  tcp_pair(&a, &b);
  CHECK_INT_EQ(clu_os_sockets(got, 64, &n), CLU_OK);
  for (int i = 0; i < n; i++) found += got[i] == a->fd || got[i] == b->fd || got[i] == other;
  CHECK_INT_EQ(found, 3);
  CHECK_INT_EQ(clu_os_sockets(got, 1, &found), CLU_OK); /* counts those that found no room */
  CHECK_INT_EQ(found, n);
  close(other);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_wait_for_descriptors_beyond_those_of_select) {
  struct rlimit lim;
  clu_watch w[3];
  clu_sock *a, *b;
  clu_fd high;
  int n = 0;
  getrlimit(RLIMIT_NOFILE, &lim);
  if (lim.rlim_max < 2500) SKIP("the hard limit on descriptors is too low");
  lim.rlim_cur = lim.rlim_cur > 2500 ? lim.rlim_cur : 2500;
  setrlimit(RLIMIT_NOFILE, &lim);
  tcp_pair(&a, &b);
  high = fcntl((int)b->fd, F_DUPFD_CLOEXEC, 2000);
  w[0].fd = high;
  w[0].want = CLU_READ;
  w[1].fd = a->fd;
  w[1].want = CLU_READ | CLU_WRITE;
  w[2].fd = CLU_NO_FD;
  w[2].want = CLU_READ;
  CHECK_INT_EQ(clu_os_poll(w, 3, 0, &n, NULL), CLU_OK);
  CHECK_INT_EQ(n, 1);
  CHECK_INT_EQ(w[0].ready, 0);
  CHECK_INT_EQ(w[1].ready, CLU_WRITE);
  put_all(a, "x");
  w[1].want = 0;
  CHECK_INT_EQ(clu_os_poll(w, 3, 2000 * (int64_t)MS, &n, NULL), CLU_OK);
  CHECK_INT_EQ(w[0].ready, CLU_READ);
  CHECK_INT_EQ(w[2].ready, 0);
  clu_os_close(high);
  clu_sock_free(a);
  clu_sock_free(b);
}

/* ---- the end ---- */

/* Unread bytes at a plain close() would make it a reset. */
TEST(an_end_with_unread_bytes_is_no_reset) {
  clu_sock *a, *b;
  char got[16];
  tcp_pair(&a, &b);
  put_all(b, "never read");
  put_all(a, "goodbye");
  CHECK_SOON(clu_sock_wait(a, CLU_READ, 0) == CLU_OK, 2000);
  end_soon(a);
  CHECK_INT_EQ(a->fd, CLU_NO_FD);
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  CHECK_INT_EQ(clu_sock_take(b, got, sizeof got), 7);
  CHECK_INT_EQ(fill_soon(b), CLU_EOF);
  end_soon(b);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(every_step_of_the_end_is_tried_whatever_the_earlier_ones_said) {
  for (int how = 0; how < 5; how++) {
    clu_sock *a, *b;
    tcp_pair(&a, &b);
    switch (how) {
    case 0: end_soon(b); break; /* the peer first */
    case 1:
      linger_zero(b);
      end_soon(b);
      break; /* reset: shutdown() answers ENOTCONN */
    case 2: clu_sock_shutdown(b, CLU_WRITE, NULL); break;
    case 3: put_all(b, "unread"); break;
    default: shutdown_fails = 1; break; /* no step but the last works */
    }
    end_soon(a);
    CHECK_INT_EQ(a->fd, CLU_NO_FD);
    CHECK_INT_EQ(end_soon(a), CLU_OK); /* again is harmless */
    shutdown_fails = 0;
    clu_sock_free(a);
    clu_sock_free(b);
  }
}

TEST(a_peer_that_goes_on_sending_is_not_listened_to_for_ever) {
  clu_sock *a, *b;
  tcp_pair(&a, &b);
  endless = 64u << 20; /* more is always there */
  CHECK_INT_EQ(clu_sock_end(a, 0), CLU_OK);
  CHECK(endless > 0);
  CHECK(a->drained < CLU_SOCK_DRAIN + (64u << 10));
  CHECK_INT_EQ(a->fd, CLU_NO_FD);
  endless = 0;
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(bytes_the_peer_has_no_room_for_are_waited_for_then_dropped) {
  static char junk[1 << 16];
  clu_sock *a, *b;
  size_t put;
  tcp_pair(&a, &b);
  while (clu_sock_put(a, junk, sizeof junk, &put, NULL) == CLU_OK) continue;
  CHECK_INT_EQ(clu_sock_end(a, 5 * MS), CLU_AGAIN);
  CHECK_INT_EQ(clu_sock_end(a, 5 * MS), CLU_AGAIN);
  while (b->bytes_in < a->bytes_out) {
    REQUIRE(fill_soon(b) == CLU_OK);
    b->pos = b->mark = b->end;
  }
  CHECK_INT_EQ(fill_soon(b), CLU_EOF); /* the first step is done: before the descriptor is closed */
  CHECK(a->fd != CLU_NO_FD);
  end_soon(a);
  clu_sock_free(a);
  clu_sock_free(b);
  tcp_pair(&a, &b);
  while (clu_sock_put(a, junk, sizeof junk, &put, NULL) == CLU_OK) continue;
  clu_sock_drop(a); /* without any wait */
  CHECK_INT_EQ(a->fd, CLU_NO_FD);
  clu_sock_free(a);
  clu_sock_free(b);
}

TEST(a_forked_child_closes_and_leaves_the_connection_alone) {
  char dir[] = "/tmp/clutch-XXXXXX", path[64];
  struct stat st;
  clu_sock *a, *b, *l;
  pid_t child;
  int rc, status;
  REQUIRE(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/s", dir);
  l = at_path(path, &rc);
  tcp_pair(&a, &b);
  child = fork();
  if (child == 0) {
    clu_sock_free(a);
    clu_sock_free(b);
    clu_sock_free(l);
    _exit(0);
  }
  waitpid(child, &status, 0);
  CHECK(stat(path, &st) == 0);
  if (clu_os_can() & CLU_CAN_TCP_INFO) CHECK_INT_EQ(state(a), CLU_TCP_ESTABLISHED);
  put_all(a, "x");
  CHECK_INT_EQ(fill_soon(b), CLU_OK);
  clu_sock_free(a);
  clu_sock_free(b);
  clu_sock_free(l);
  CHECK(stat(path, &st) != 0);
  rmdir(dir);
}
