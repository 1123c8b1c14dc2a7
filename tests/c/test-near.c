/* The link process and the proxy when descriptors are short, or others crowd at the listener. */
#include "link-fixture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "core/link/link.h"

static rlim_t soft_limit(rlim_t n) {
  struct rlimit r;
  rlim_t before;
  REQUIRE(getrlimit(RLIMIT_NOFILE, &r) == 0);
  before = r.rlim_cur;
  r.rlim_cur = n;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &r) == 0);
  return before;
}

/* A limit at which a process has no free number; poll() refuses a lower one. -1: not known. */
static int first_free(pid_t pid) {
  char path[64];
  struct stat st;
  for (int fd = 0;; fd++) {
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    if (lstat(path, &st) != 0) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    if (lstat(path, &st) != 0) return fd;
  }
}

static double cpu_ms(pid_t pid) {
  clockid_t clock;
  struct timespec t;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return -1;
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* The limit that they begin with is for programs that use select(). */
TEST(a_host_has_more_nodes_than_the_soft_limit_of_descriptors) {
  enum { NODES = 60 };
  host_fixture h;
  clu_err e;
  rlim_t before = soft_limit(40);
  host_up(&h, 1);
  soft_limit(before);
  for (; h.f.n < NODES; h.f.n++) REQUIRE(clu_node_new_host(h.f.s, 0, &h.f.nd[h.f.n], &e) == CLU_OK);
  PUMP(&h.f, all_in(&h.f, CLU_NODE_READY) || h.f.s->state != CLU_SERVER_READY);
  CHECK(all_in(&h.f, CLU_NODE_READY));
  if (all_in(&h.f, CLU_NODE_READY)) echo_all(&h.f, -1);
  host_down(&h);
}

/* A connection that cannot be accepted keeps the listener readable. */
TEST(without_descriptors_the_link_process_waits_and_goes_on) {
  host_fixture h;
  struct rlimit few, before;
  int fds[40];
  double cpu;
  host_up(&h, 1);
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, NULL, &before) == 0);
  few = before;
  few.rlim_cur = 12;
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, &few, NULL) == 0);
  for (int i = 0; i < 40; i++) fds[i] = connect_here(h.port);
  echo_all(&h.f, -1);
  cpu = cpu_ms(h.near_pid);
  CHECK(cpu >= 0);
  pump_for(&h.f, 1000);
  CHECK(cpu_ms(h.near_pid) - cpu < 200);
  echo_all(&h.f, -1);
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, &before, NULL) == 0);
  h.proxy->cuts++;
  echo_all(&h.f, -1);
  for (int i = 0; i < 40; i++)
    if (fds[i] >= 0) close(fds[i]);
  host_down(&h);
}

/* A descriptor that a node needs is not there: that node is missed, and nothing else. */
TEST(a_node_for_which_there_is_no_descriptor_does_not_end_its_host) {
  host_fixture h;
  struct rlimit few, before;
  clu_node *nd;
  clu_err e;
  int free_from;
  host_up(&h, 2);
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, NULL, &before) == 0);
  few = before;
  free_from = first_free(h.near_pid);
  REQUIRE(free_from > 0);
  few.rlim_cur = (rlim_t)free_from;
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, &few, NULL) == 0);
  REQUIRE(clu_node_new_host(h.f.s, 0, &nd, &e) == CLU_OK);
  PUMP(&h.f, !clu_node_is_starting(nd) || h.f.s->state != CLU_SERVER_READY);
  CHECK(h.f.s->state == CLU_SERVER_READY);
  CHECK(!clu_node_is_open(nd));
  REQUIRE(prlimit(h.near_pid, RLIMIT_NOFILE, &before, NULL) == 0);
  echo_all(&h.f, -1);
  clu_node_free(nd);
  host_down(&h);
}

/* Then the session sees that there is none; nobody could connect. */
TEST(a_link_process_that_cannot_listen_ends) {
  unsigned char body[CLU_SECRET + 24] = {0};
  clu_chan near;
  clu_fd pair[2];
  clu_err e;
  pid_t pid;
  REQUIRE(clu_os_pair(pair, &e) == CLU_OK);
  pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    close_others((int)pair[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(clu_near_serve(pair[1], &e) == CLU_OK ? 0 : 1);
  }
  clu_os_close(pair[1]);
  REQUIRE(clu_chan_init(&near, pair[0], 1 << 20, CLU_TAKES_FDS) == CLU_OK);
  clu_chan_send_bytes(&near, CLU_K_LISTEN, 0, body, sizeof body, CLU_NO_FD);
  CHECK_SOON(clu_chan_flush(&near) == CLU_OK, 1000);
  end_process(&pid, 0);
  clu_chan_fini(&near);
}

/* ---- a host's handshake by hand ---- */

static void take_in(int fd, clu_hs *hs) {
  unsigned char bytes[CLU_HS_RESPONSE];
  size_t n = clu_hs_want(hs);
  read_all(fd, bytes, n);
  clu_hs_feed(hs, bytes, n);
}

TEST(who_has_proven_itself_does_not_lose_its_place_to_others) {
  static const unsigned char nonce[CLU_NONCE] = {7};
  host_fixture h;
  clu_hs hs;
  clu_server *other;
  unsigned char first;
  int fd, fds[2 * CLU_NEAR_PENDING];
  host_up(&h, 1);
  other = add_host(&h, 2);
  fd = connect_here(h.port);
  clu_hs_node(&hs, link_secret, nonce, 2, 4711, 0, UINT64_MAX);
  take_in(fd, &hs); /* HELLO */
  say_out(fd, &hs);
  take_in(fd, &hs); /* VERDICT */
  CHECK_INT_EQ(hs.state, CLU_HS_DONE);
  for (int i = 0; i < 2 * CLU_NEAR_PENDING; i++) fds[i] = connect_here(h.port);
  for (int i = 0; i < 2 * CLU_NEAR_PENDING; i++) {
    struct pollfd p = {fds[i], POLLIN, 0};
    CHECK_INT_EQ(poll(&p, 1, 5000), 1); /* it was accepted */
  }
  say_out(fd, &hs); /* CONFIRM */
  CHECK_INT_EQ(read(fd, &first, 1), 1);
  CHECK_INT_EQ(first, CLU_L_RESUME);
  close(fd);
  for (int i = 0; i < 2 * CLU_NEAR_PENDING; i++) close(fds[i]);
  clu_server_close(other);
  clu_server_unref(other);
  host_down(&h);
}

/* The command ends as ssh does, which is killed where the start of a cluster fails, while R there
 * still begins. */
TEST(a_host_that_never_connected_ends_with_who_has_started_it) {
  host_fixture h;
  int p[2];
  pid_t far;
  double from;
  host_up(&h, 1);
  h.proxy->hold = 1;
  REQUIRE(pipe(p) == 0);
  h.starter = p[1];
  far = start_far(&h, h.proxy_port, 2, link_secret, 20000);
  close(p[1]);
  pump_for(&h.f, 500);
  CHECK_INT_EQ(waitpid(far, NULL, WNOHANG), 0);
  close(p[0]);
  from = test_ms();
  end_process(&far, 1);
  CHECK(test_ms() - from < 1500);
  h.proxy->hold = 0;
  host_down(&h);
}

/* The session tells of a host before it starts it, but over another connection. */
TEST(a_host_that_is_quicker_than_what_was_said_of_it_asks_again) {
  host_fixture h;
  clu_server *other;
  pid_t far;
  uint64_t before;
  host_up(&h, 1);
  before = h.proxy->to_host;
  far = start_far(&h, h.proxy_port, 2, link_secret, 20000);
  CHECK_SOON(h.proxy->to_host - before >= CLU_HS_HELLO + CLU_HS_VERDICT, 10000);
  pump_for(&h.f, 50);
  CHECK_INT_EQ(waitpid(far, NULL, WNOHANG), 0);
  other = add_host(&h, 2);
  PUMP(&h.f, other->state != CLU_SERVER_STARTING);
  CHECK(other->state == CLU_SERVER_READY);
  clu_server_close(other);
  end_process(&far, 0);
  clu_server_unref(other);
  host_down(&h);
}

/* It is of no importance any more once there is a connection. */
TEST(a_host_that_has_connected_stays_without_who_has_started_it) {
  host_fixture h;
  int p[2];
  clu_server *other;
  pid_t far;
  host_up(&h, 1);
  REQUIRE(pipe(p) == 0);
  h.starter = p[1];
  other = add_host(&h, 2);
  far = start_far(&h, h.proxy_port, 2, link_secret, 10000);
  PUMP(&h.f, other->state == CLU_SERVER_READY);
  close(p[0]);
  close(p[1]);
  pump_for(&h.f, 600);
  CHECK_INT_EQ(waitpid(far, NULL, WNOHANG), 0);
  CHECK(other->state == CLU_SERVER_READY);
  clu_server_close(other);
  end_process(&far, 0);
  clu_server_unref(other);
  host_down(&h);
}

/* A host that has connected waits for an answer no longer than it may, whenever its last try
 * was. */
TEST(a_host_that_is_cut_off_ends_in_time_also_between_two_tries) {
  host_fixture h;
  double from;
  host_up_with(&h, 2, 10000, 2000);
  kill(h.near_pid, SIGKILL); /* the proxy accepts and closes from now on */
  end_process(&h.near_pid, -1);
  from = test_ms();
  CHECK_SOON(all_gone(&h.f), 10000);
  CHECK(test_ms() - from > 1900);
  CHECK(test_ms() - from < 2500);
  end_process(&h.far_pid, 1);
  host_down(&h);
}
