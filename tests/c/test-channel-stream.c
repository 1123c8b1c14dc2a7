/* A message's body in pieces, read from a descriptor that blocks. Another process writes. */
#include "test.h"

#include <sys/socket.h>

#include "core/wire/channel.h"

#define MB ((size_t)1 << 20)

static unsigned char byte_at(size_t i, unsigned salt) {
  return (unsigned char)((i * 2654435761u + salt) >> 7);
}

static void send_all(int fd, const unsigned char *p, size_t n, size_t step) {
  while (n > 0) {
    ssize_t k = send(fd, p, n < step ? n : step, MSG_NOSIGNAL);
    if (k <= 0) _exit(3);
    p += k;
    n -= (size_t)k;
  }
}

/* A message of `n` bytes in frames, of which only the first `frames` are sent (< 0: all); then an
 * abort. */
static void send_message(int fd, uint64_t seq, size_t n, unsigned salt, int frames, size_t step) {
  unsigned char *buf = malloc(CLU_FRAME_MAX + CLU_HEADER);
  size_t off = 0;
  if (!buf) _exit(4);
  do {
    size_t len = n - off < CLU_FRAME_MAX ? n - off : CLU_FRAME_MAX;
    clu_header h = {CLU_K_CALL, 0, 0, (uint32_t)len, seq, n};
    if (frames == 0) {
      h.flags = CLU_ABORT;
      h.len = 0;
      clu_header_put(buf, &h);
      send_all(fd, buf, CLU_HEADER, step);
      break;
    }
    frames--;
    clu_header_put(buf, &h);
    for (size_t i = 0; i < len; i++) buf[CLU_HEADER + i] = byte_at(off + i, salt);
    send_all(fd, buf, CLU_HEADER + len, step);
    off += len;
  } while (off < n);
  free(buf);
}

/* `c` reads what `writer` writes in a process of its own. */
static pid_t up(clu_chan *c, void (*writer)(int fd, size_t arg), size_t arg) {
  clu_fd fd[2];
  clu_err e;
  pid_t pid;
  REQUIRE(clu_os_pair(fd, &e) == CLU_OK);
  clu_os_set_blocking(fd[0], 1);
  clu_os_set_blocking(fd[1], 1);
  pid = fork();
  if (pid == 0) {
    clu_os_close(fd[1]);
    writer((int)fd[0], arg);
    _exit(0);
  }
  clu_os_close(fd[0]);
  REQUIRE(clu_chan_init(c, fd[1], INT64_MAX, 0) == CLU_OK);
  return pid;
}

static void down(clu_chan *c, pid_t pid) {
  int status = 0;
  clu_chan_fini(c);
  CHECK_INT_EQ(waitpid(pid, &status, 0), pid);
  CHECK(WIFEXITED(status));
}

/* Waits for the next message; 0 at the end of the stream. */
static int begin(clu_chan *c, clu_msg *m) {
  int r;
  while ((r = clu_chan_begin(c, m)) == 0) {
    int rc = clu_chan_fill(c);
    if (rc == CLU_AGAIN || rc == CLU_OK) continue;
    return 0;
  }
  return r;
}

static void check_body(clu_chan *c, size_t n, unsigned salt, size_t piece) {
  unsigned char *p = malloc(piece);
  REQUIRE(p);
  for (size_t off = 0; off < n;) {
    size_t k = n - off < piece ? n - off : piece, bad = 0;
    if (!CHECK_INT_EQ(clu_chan_read(c, p, k), CLU_OK)) break;
    for (size_t i = 0; i < k; i++) bad += p[i] != byte_at(off + i, salt);
    if (!CHECK_INT_EQ(bad, 0)) break;
    off += k;
  }
  free(p);
}

static const size_t sizes[] = {0,    1,      23,       24,     25,           209,     4095,
                               4096, 16383,  16384,    16385,  100000,       MB - 24, MB - 1,
                               MB,   MB + 1, MB + 209, 3 * MB, 3 * MB + 5000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void all_sizes(int fd, size_t step) {
  for (int i = 0; i < N_SIZES; i++) send_message(fd, (uint64_t)i, sizes[i], (unsigned)i, -1, step);
}

TEST(bodies_of_all_sizes_arrive_in_pieces_of_all_sizes) {
  static const size_t pieces[] = {1, 7, 2048, 4096, 5000, 64768, 2 * MB},
                      steps[] = {999, 10007, 1 << 24};
  for (int s = 0; s < 3; s++)
    for (int k = s == 2 ? 0 : 3; k < 7; k++) {
      clu_chan c;
      clu_msg m;
      pid_t pid = up(&c, all_sizes, steps[s]);
      for (int i = 0; i < N_SIZES; i++) {
        REQUIRE(begin(&c, &m) == 1);
        CHECK_INT_EQ(m.kind, CLU_K_CALL);
        CHECK_INT_EQ(m.seq, i);
        check_body(&c, sizes[i], (unsigned)i, pieces[k]);
        CHECK_INT_EQ(clu_chan_skip(&c), CLU_OK);
      }
      CHECK_INT_EQ(begin(&c, &m), 0);
      down(&c, pid);
    }
}

TEST(what_is_not_read_is_skipped) {
  for (int k = 0; k < 4; k++) {
    clu_chan c;
    clu_msg m;
    pid_t pid = up(&c, all_sizes, (size_t)1 << 24);
    for (int i = 0; i < N_SIZES; i++) {
      static const size_t part[] = {0, 1, 5000, 70000};
      REQUIRE(begin(&c, &m) == 1);
      CHECK_INT_EQ(m.seq, i);
      check_body(&c, sizes[i] < part[k] ? sizes[i] : part[k], (unsigned)i, 3000);
      CHECK_INT_EQ(clu_chan_skip(&c), CLU_OK);
    }
    down(&c, pid);
  }
}

static void given_up(int fd, size_t step) {
  for (int i = 0; i < 3; i++) {
    send_message(fd, 10, 4 * MB, 1, 1 + i, step);
    send_message(fd, 11, 500, 2, -1, step);
  }
}

TEST(a_message_that_is_given_up_is_told_and_the_next_one_arrives) {
  for (int skip = 0; skip < 2; skip++) {
    clu_chan c;
    clu_msg m;
    pid_t pid = up(&c, given_up, 100000);
    for (int i = 0; i < 3; i++) {
      unsigned char *p = malloc(4 * MB);
      REQUIRE(p && begin(&c, &m) == 1);
      CHECK_INT_EQ(m.seq, 10);
      if (!skip) {
        CHECK_INT_EQ(clu_chan_read(&c, p, 4 * MB), CLU_CANCELLED);
        CHECK_INT_EQ(clu_chan_read(&c, p, 1), CLU_PROTO); /* there is nothing to read any more */
      }
      CHECK_INT_EQ(clu_chan_skip(&c), CLU_OK);
      free(p);
      REQUIRE(begin(&c, &m) == 1);
      CHECK_INT_EQ(m.seq, 11);
      check_body(&c, 500, 2, 100);
      CHECK_INT_EQ(clu_chan_skip(&c), CLU_OK);
    }
    down(&c, pid);
  }
}

TEST(more_than_there_is_cannot_be_read) {
  clu_chan c;
  clu_msg m;
  unsigned char p[600];
  pid_t pid = up(&c, given_up, 100000);
  REQUIRE(begin(&c, &m) == 1);
  clu_chan_skip(&c);
  REQUIRE(begin(&c, &m) == 1);
  CHECK_INT_EQ(clu_chan_read(&c, p, 501), CLU_PROTO);
  CHECK_INT_EQ(clu_chan_skip(&c), CLU_OK);
  REQUIRE(begin(&c, &m) == 1); /* and nothing is out of step */
  CHECK_INT_EQ(m.seq, 10);
  down(&c, pid);
}

static void cut_short(int fd, size_t n) {
  unsigned char buf[CLU_HEADER + 100];
  clu_header h = {CLU_K_CALL, 0, 0, 100, 5, 100};
  memset(buf, 1, sizeof buf);
  clu_header_put(buf, &h);
  send_all(fd, buf, n, 1 << 20);
}

TEST(an_end_within_a_message_is_a_reset) {
  static const size_t cuts[] = {CLU_HEADER, CLU_HEADER + 1, CLU_HEADER + 99};
  for (int i = 0; i < 3; i++) {
    clu_chan c;
    clu_msg m;
    unsigned char p[100];
    pid_t pid = up(&c, cut_short, cuts[i]);
    REQUIRE(begin(&c, &m) == 1);
    CHECK_INT_EQ(clu_chan_read(&c, p, 100), CLU_RESET);
    CHECK(clu_chan_skip(&c) != CLU_OK);
    down(&c, pid);
  }
}
