#include "core/node/take.h"

#include <stdio.h>

#include "core/base/deadline.h"
#include "core/base/os-files.h"
#include "core/wire/meet.h"

static const int64_t SLICE = 100000000;

/* A listener of this user's. */
static int reach(const char *path, clu_fd *fd, clu_pid *pid, clu_err *e) {
  clu_addr at;
  int rc = clu_os_addr_path(path, &at, e);
  if (rc != CLU_OK) return rc;
  if ((rc = clu_os_connect_start(&at, 0, 0, fd, e)) != CLU_OK) {
    if (rc == CLU_AGAIN) clu_os_close(*fd);
    return rc == CLU_AGAIN ? clu_fail(e, CLU_TIMEOUT, 0, "%s cannot be reached", path) : rc;
  }
  if (clu_os_path_peer(*fd, pid) == CLU_PEER_OWN && *pid > 0) return CLU_OK;
  clu_os_close(*fd);
  return clu_fail(e, CLU_PROTO, 0, "who listens at %s is no process of this user", path);
}

static int read_secret(const char *path, unsigned char out[CLU_SECRET], clu_err *e) {
  char file[200];
  clu_fd fd;
  int n = snprintf(file, sizeof file, "%s.secret", path), rc;
  if (n < 0 || (size_t)n >= sizeof file) return clu_fail(e, CLU_SYS, 0, "the path is too long");
  if ((rc = clu_os_file_open(file, CLU_FILE_READ, &fd, e)) != CLU_OK) return rc;
  rc = clu_os_file_read(fd, 0, out, CLU_SECRET);
  clu_os_file_close(fd);
  return rc == CLU_OK ? rc : clu_fail(e, CLU_SYS, 0, "%s is no secret", file);
}

static int meet(clu_fd fd, const unsigned char *secret, uint64_t deadline, clu_err *e) {
  unsigned char nonce[CLU_NONCE];
  clu_hs h;
  if (clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK)
    return clu_fail(e, CLU_SYS, 0, "the system gives no random bytes");
  clu_hs_session(&h, secret, nonce, 0, deadline);
  if (clu_hs_meet(&h, fd, CLU_NO_FD) == CLU_OK) return CLU_OK;
  return clu_fail(e,
                  h.why == CLU_HS_CLOSED   ? CLU_RESET
                  : h.why == CLU_HS_SILENT ? CLU_TIMEOUT
                                           : CLU_PROTO,
                  0, "it %s", clu_hs_why_text(h.why));
}

int clu_server_take(clu_session *session, const char *path, uint64_t deadline, clu_server **out,
                    clu_err *e) {
  unsigned char secret[CLU_SECRET];
  clu_fd fd;
  clu_pid pid;
  int rc = read_secret(path, secret, e);
  if (rc != CLU_OK) return rc;
  if ((rc = reach(path, &fd, &pid, e)) == CLU_OK) {
    rc = meet(fd, secret, deadline, e);
    if (rc == CLU_OK)
      rc = clu_server_adopt(session, fd, pid, out, e);
    else
      clu_os_close(fd);
  }
  clu_os_wipe(secret, sizeof secret);
  return rc;
}

/* A process that waits in its queue hears when it is closed: 1. As long as it is not, the number is
 * still that process's. */
static int closes(clu_fd fd, uint64_t deadline) {
  int64_t left;
  while ((left = clu_deadline_left(deadline, clu_os_now(), SLICE)) > 0) {
    clu_watch w = {fd, CLU_READ, 0};
    int n = 0;
    clu_os_poll(&w, 1, left, &n, NULL);
    if (n > 0 && clu_os_reader_has_gone(fd)) return 1;
    if (n > 0) clu_os_pause(1000000); /* it has taken this connection, and says something */
  }
  return 0;
}

int clu_server_end_kept(const char *path, uint64_t deadline, clu_pid *pid, clu_err *e) {
  clu_fd fd;
  int rc = reach(path, &fd, pid, e);
  if (rc != CLU_OK) return rc;
  clu_os_kill(*pid, CLU_SIG_TERM, 0);
  if (!closes(fd, deadline)) clu_os_kill(*pid, CLU_SIG_KILL, 0);
  clu_os_close(fd);
  return CLU_OK;
}
