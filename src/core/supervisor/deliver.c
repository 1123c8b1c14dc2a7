/* Bytes of the session for a socket of this host: lines that its user has typed for a node that is
 * at the prompt of browser() (R/node-browse.R).
 *
 * A child process connects and writes: the node may be stopped, and takes nothing then. */
#include <string.h>

#include "core/base/os.h"
#include "core/supervisor/parts.h"

static const uint64_t CONNECT_WITHIN = 20000 * CLU_MS;
static const int64_t PAUSE = (int64_t)(10 * CLU_MS); /* the queue of who listens is full */

static void write_all(clu_fd fd, unsigned char *p, size_t n) {
  while (n > 0) {
    clu_iov piece = {p, n};
    size_t put = 0;
    int rc = clu_os_writev(fd, &piece, 1, NULL, 0, &put);
    if (rc == CLU_AGAIN) continue;
    if (rc != CLU_OK) return;
    p += put;
    n -= put;
  }
}

/* Blocks. */
static void connect_and_write(const clu_addr *to, unsigned char *p, size_t n) {
  uint64_t deadline = clu_os_now() + CONNECT_WITHIN;
  clu_fd fd, nobody[2];
  clu_err e;
  int rc = clu_os_pair(nobody, &e);
  if (rc != CLU_OK) return;
  while ((rc = clu_os_connect_start(to, 0, 0, &fd, &e)) == CLU_BUSY && clu_os_now() < deadline)
    clu_os_wait_readable(nobody[0], PAUSE);
  if (rc != CLU_OK) return;
  clu_os_set_blocking(fd, 1);
  write_all(fd, p, n);
}

static void deliver_in_child(clu_supervisor *sv, clu_pid parent, const clu_addr *to,
                             unsigned char *p, size_t n) {
  clu_sv_close_in_child(sv);
  clu_sv_close_views(sv);
  clu_sv_close_output(sv);
  if (clu_os_follow_parent(parent, 1) == CLU_OK) connect_and_write(to, p, n);
  clu_os_end_self();
}

void clu_sv_deliver(clu_supervisor *sv, const clu_msg *m) {
  size_t size = m->body ? m->body->size : 0, n;
  clu_pid pid, me = clu_os_getpid();
  char path[128];
  clu_addr to;
  clu_err e;
  if (size < 4 || (n = clu_get32(m->body->data)) >= sizeof path || n > size - 4) return;
  memcpy(path, m->body->data + 4, n);
  path[n] = 0;
  if (clu_os_addr_path(path, &to, &e) != CLU_OK || clu_os_fork(&pid, &e) != CLU_OK) return;
  if (pid == 0) deliver_in_child(sv, me, &to, m->body->data + 4 + n, size - 4 - n);
}
