/* What it costs others to connect to a listener on which many processes wait, and what one wait
 * costs.
 *
 *   herd listener MODE N DUPS REPS   N processes wait on one listener, each for DUPS copies of it
 *                                    (0: for the descriptor itself)
 *   herd connect PORT REPS           connects to 127.0.0.1:PORT, whoever listens there
 *   herd wait MODE K REPS            one wait for K sockets of which one is readable
 *
 * Modes of `listener`: select poll epoll exclusive accept reuseport io_uring. Of `wait`: select
 * poll epoll (registered once) epoll-each (registered for each wait). Prints one line: times in
 * microseconds (median, minimum, 90 % quantile, maximum), then for `listener` how many processes
 * were woken for a connection. "unsupported" where the system cannot do it.
 *
 * The woken are counted by the kernel: voluntary_ctxt_switches in /proc/PID/status, proc(5). A
 * waiting process gives up the processor once for each time it is woken. Every process but that of
 * `connect` ends with its parent (PR_SET_PDEATHSIG).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "times.h"

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif

static void fail(const char *what) {
  fprintf(stderr, "herd: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void pause_us(double us) {
  struct timespec t = {(time_t)(us / 1e6), (long)(1e3 * (us - 1e6 * (double)(time_t)(us / 1e6)))};
  nanosleep(&t, NULL);
}

static struct sockaddr_in here(int port) {
  struct sockaddr_in a;
  memset(&a, 0, sizeof a);
  a.sin_family = AF_INET;
  a.sin_port = htons((uint16_t)port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

static int listener(int port, int blocking, int reuse) {
  int s = socket(AF_INET, SOCK_STREAM | (blocking ? 0 : SOCK_NONBLOCK), 0), one = 1;
  struct sockaddr_in a = here(port);
  if (s < 0) fail("socket");
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (reuse && setsockopt(s, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one)) fail("SO_REUSEPORT");
  if (bind(s, (void *)&a, sizeof a) || listen(s, 4096)) fail("bind or listen");
  return s;
}

static int port_of(int s) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  if (getsockname(s, (void *)&a, &n)) fail("getsockname");
  return ntohs(a.sin_port);
}

/* A non-blocking connect, timed until it is connected; then until the other side has taken and
 * closed it. */
static double connect_once(int port) {
  struct sockaddr_in a = here(port);
  int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  struct pollfd p = {s, POLLOUT, 0};
  double t0, t;
  char c;
  struct linger reset = {1, 0};
  if (s < 0) fail("socket");
  t0 = now_us();
  if (connect(s, (void *)&a, sizeof a) && errno != EINPROGRESS) fail("connect");
  poll(&p, 1, 10000);
  t = now_us() - t0;
  p.events = POLLIN;
  if (poll(&p, 1, 10000) != 1) {
    errno = ETIMEDOUT;
    fail("nobody accepts");
  }
  if (read(s, &c, 1) > 0) fail("bytes");
  setsockopt(s, SOL_SOCKET, SO_LINGER, &reset,
             sizeof reset); /* no TIME_WAIT: thousands would use up the ports */
  close(s);
  return t;
}

/* ---- io_uring, by its system calls ---- */

static struct {
  int fd;
  unsigned *head, *tail, *mask, *array, *cq_head, *cq_tail, *cq_mask;
  struct io_uring_sqe *sqes;
  struct io_uring_cqe *cqes;
} ring;

static int ring_open(void) {
  struct io_uring_params p;
  char *sq, *cq;
  memset(&p, 0, sizeof p);
  ring.fd = (int)syscall(__NR_io_uring_setup, 4, &p);
  if (ring.fd < 0) return 0;
  sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
  cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
            PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_CQ_RING);
  ring.sqes = mmap(NULL, p.sq_entries * sizeof *ring.sqes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
  if (sq == MAP_FAILED || cq == MAP_FAILED || ring.sqes == MAP_FAILED) return 0;
  ring.head = (unsigned *)(sq + p.sq_off.head);
  ring.tail = (unsigned *)(sq + p.sq_off.tail);
  ring.mask = (unsigned *)(sq + p.sq_off.ring_mask);
  ring.array = (unsigned *)(sq + p.sq_off.array);
  ring.cq_head = (unsigned *)(cq + p.cq_off.head);
  ring.cq_tail = (unsigned *)(cq + p.cq_off.tail);
  ring.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
  ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
  return 1;
}

static int ring_accept(int s) {
  unsigned tail = *ring.tail, i = tail & *ring.mask, head;
  struct io_uring_sqe *e = &ring.sqes[i];
  int fd;
  memset(e, 0, sizeof *e);
  e->opcode = IORING_OP_ACCEPT;
  e->fd = s;
  ring.array[i] = i;
  __atomic_store_n(ring.tail, tail + 1, __ATOMIC_RELEASE);
  while (syscall(__NR_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
    if (errno != EINTR) return -1;
  head = *ring.cq_head;
  if (head == __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) return -1;
  fd = ring.cqes[head & *ring.cq_mask].res;
  __atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
  return fd;
}

/* ---- those who wait ---- */

static void take(int s) {
  int c = accept(s, NULL, NULL);
  if (c >= 0) close(c);
}

static void waiter(const char *mode, int s, int port, int dups, int ready) {
  int *fds = malloc((size_t)(dups + 1) * sizeof *fds), n = dups > 0 ? dups : 1, ep = -1;
  fd_set set;
  struct pollfd *polls = calloc((size_t)n, sizeof *polls);
  struct epoll_event ev;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (strcmp(mode, "reuseport") == 0) {
    close(s); /* the one inherited would get its share of connections, which nobody takes */
    s = listener(port, 1, 1);
  }
  for (int i = 0; i < n; i++) fds[i] = dups > 0 ? dup(s) : s;
  for (int i = 0; i < n; i++) {
    if (fds[i] < 0) fail("dup");
    polls[i].fd = fds[i];
    polls[i].events = POLLIN;
  }
  if (mode[0] == 'e') {
    ep = epoll_create1(0);
    for (int i = 0; i < n; i++) {
      memset(&ev, 0, sizeof ev);
      ev.events = EPOLLIN | (strcmp(mode, "exclusive") == 0 ? EPOLLEXCLUSIVE : 0);
      if (epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev)) fail("epoll_ctl");
    }
  }
  if (strcmp(mode, "io_uring") == 0 && !ring_open()) _exit(3);
  if (write(ready, "x", 1) != 1) _exit(1);
  close(ready);
  for (;;) {
    if (strcmp(mode, "select") == 0) {
      FD_ZERO(&set);
      int top = 0;
      for (int i = 0; i < n; i++) {
        FD_SET(fds[i], &set);
        if (fds[i] > top) top = fds[i];
      }
      select(top + 1, &set, NULL, NULL, NULL);
      take(s);
    } else if (strcmp(mode, "poll") == 0) {
      poll(polls, (nfds_t)n, -1);
      take(s);
    } else if (ep >= 0) {
      epoll_wait(ep, &ev, 1, -1);
      take(s);
    } else if (strcmp(mode, "io_uring") == 0) {
      int c = ring_accept(s);
      if (c >= 0) close(c);
    } else {
      take(s); /* accept and reuseport: it blocks */
    }
  }
}

static long switches(pid_t *pids, int n) {
  long sum = 0;
  for (int i = 0; i < n; i++) {
    char path[64], line[256];
    FILE *f;
    long x;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pids[i]);
    if (!(f = fopen(path, "r"))) continue;
    while (fgets(line, sizeof line, f))
      if (sscanf(line, "voluntary_ctxt_switches: %ld", &x) == 1) sum += x;
    fclose(f);
  }
  return sum;
}

static int on_listener(const char *mode, int n, int dups, int reps) {
  int blocking = strcmp(mode, "accept") == 0 || strcmp(mode, "reuseport") == 0 ||
                 strcmp(mode, "io_uring") == 0;
  int s = listener(0, blocking, strcmp(mode, "reuseport") == 0), port = port_of(s), pipes[2],
      got = 0, unsupported = 0, status;
  pid_t *pids = calloc((size_t)n + 1, sizeof *pids);
  double *t = malloc((size_t)reps * sizeof *t),
         settle = 1500 + 12.0 * n + (dups > 0 ? 0.5 * n * dups : 0);
  long before = 0, after = 0;
  char c;
  if (pipe(pipes)) fail("pipe");
  for (int i = 0; i < n; i++) {
    pids[i] = fork();
    if (pids[i] < 0) fail("fork");
    if (pids[i] == 0) {
      close(pipes[0]);
      waiter(mode, s, port, dups, pipes[1]);
    }
  }
  close(pipes[1]);
  while (read(pipes[0], &c, 1) == 1) got++;
  unsupported = got < n;
  if (n == 0 || strcmp(mode, "reuseport") != 0) {
    /* with nobody else there, a process of its own takes what was measured */
  } else {
    close(s);
    s = -1;
  }
  pause_us(20000 + 20.0 * n);
  if (n == 0) {
    pid_t p = fork();
    if (p == 0) { /* it looks now and then, and waits on nothing */
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      fcntl(s, F_SETFL, O_NONBLOCK);
      for (;;) {
        take(s);
        pause_us(200);
      }
    }
    for (int i = 0; i < reps; i++) t[i] = connect_once(port);
    kill(p, SIGKILL);
    waitpid(p, NULL, 0);
    before = after = 0;
  } else if (!unsupported) {
    for (int i = 0; i < (dups > 0 ? 1 : 3);
         i++) { /* warm-up; with many copies one takes long enough */
      connect_once(port);
      pause_us(settle);
    }
    before = switches(pids, n);
    for (int i = 0; i < reps; i++) {
      t[i] = connect_once(port);
      pause_us(settle); /* all are asleep again */
    }
    after = switches(pids, n);
  }
  for (int i = 0; i < n; i++) kill(pids[i], SIGKILL);
  for (int i = 0; i < n; i++) waitpid(pids[i], &status, 0);
  if (unsupported) {
    printf("unsupported\n");
    return 0;
  }
  print_times(t, reps);
  printf(" %.2f\n", (double)(after - before) / reps);
  return 0;
}

static int on_port(int port, int reps) {
  double *t = malloc((size_t)reps * sizeof *t);
  for (int i = 0; i < reps; i++) {
    t[i] = connect_once(port);
    pause_us(1000);
  }
  print_times(t, reps);
  printf(" 0\n");
  return 0;
}

static int one_wait(const char *mode, int k, int reps) {
  int(*pairs)[2] = calloc((size_t)k, sizeof *pairs), ep = -1;
  struct pollfd *polls = calloc((size_t)k, sizeof *polls);
  struct epoll_event ev, out[64];
  double *t = malloc((size_t)reps * sizeof *t);
  fd_set set;
  for (int i = 0; i < k; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) fail("socketpair");
    polls[i].fd = pairs[i][0];
    polls[i].events = POLLIN;
  }
  if (strcmp(mode, "select") == 0 && pairs[k - 1][1] >= FD_SETSIZE) {
    printf("unsupported\n");
    return 0;
  }
  if (write(pairs[k / 2][1], "x", 1) != 1) fail("write");
  for (int r = 0; r < reps; r++) {
    double t0;
    if (strcmp(mode, "epoll") == 0 && r == 0) {
      ep = epoll_create1(0);
      for (int i = 0; i < k; i++) {
        ev.events = EPOLLIN;
        ev.data.fd = i;
        epoll_ctl(ep, EPOLL_CTL_ADD, pairs[i][0], &ev);
      }
    }
    t0 = now_us();
    if (strcmp(mode, "select") == 0) {
      FD_ZERO(&set);
      for (int i = 0; i < k; i++) FD_SET(pairs[i][0], &set);
      select(pairs[k - 1][1] + 1, &set, NULL, NULL, NULL);
    } else if (strcmp(mode, "poll") == 0) {
      poll(polls, (nfds_t)k, -1);
    } else if (strcmp(mode, "epoll") == 0) {
      epoll_wait(ep, out, 64, -1);
    } else {
      ep = epoll_create1(0);
      for (int i = 0; i < k; i++) {
        ev.events = EPOLLIN;
        ev.data.fd = i;
        epoll_ctl(ep, EPOLL_CTL_ADD, pairs[i][0], &ev);
      }
      epoll_wait(ep, out, 64, -1);
      close(ep);
    }
    t[r] = now_us() - t0;
  }
  print_times(t, reps);
  printf(" 0\n");
  return 0;
}

int main(int argc, char **argv) {
  struct rlimit l;
  /* not for `connect`: who starts it in the background is a shell that ends at once, often after
   * this line */
  if (argc < 2 || strcmp(argv[1], "connect") != 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
  }
  if (argc == 6 && strcmp(argv[1], "listener") == 0)
    return on_listener(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
  if (argc == 4 && strcmp(argv[1], "connect") == 0) return on_port(atoi(argv[2]), atoi(argv[3]));
  if (argc == 5 && strcmp(argv[1], "wait") == 0)
    return one_wait(argv[2], atoi(argv[3]), atoi(argv[4]));
  fprintf(stderr, "see the head of lab/herd.c\n");
  return 2;
}
