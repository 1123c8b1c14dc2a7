#include "core/supervisor/stay.h"

#include <stdio.h>
#include <string.h>

#include "core/base/deadline.h"
#include "core/base/os-files.h"
#include "core/wire/meet.h"

/* A session says what it has to in some microseconds; one that is stopped is not waited for. */
static const int64_t PATIENCE = 1000000000;
static const int64_t SLICE = 3600000000000;
static const int64_t PAUSE = 50000000; /* of the listener, when there is no descriptor */

enum { PATH = sizeof((clu_stay *)0)->path + sizeof CLU_STAY_SECRET + 4 };

static void secret_path(const clu_stay *s, const char *more, char out[PATH]) {
  snprintf(out, PATH, "%s" CLU_STAY_SECRET "%s", s->path, more);
}

/* ---- begin and end ---- */

/* Who sees the file sees all of it. */
static int write_secret(clu_stay *s, clu_err *e) {
  char path[PATH], new_path[PATH];
  clu_fd fd;
  int rc;
  secret_path(s, "", path);
  secret_path(s, "-", new_path);
  if (clu_os_secret_bytes(s->secret, sizeof s->secret) != CLU_OK)
    return clu_fail(e, CLU_SYS, 0, "the system gives no random bytes");
  clu_os_file_remove(new_path);
  if ((rc = clu_os_file_open(new_path, CLU_FILE_NEW, &fd, e)) != CLU_OK) return rc;
  rc = clu_os_file_write(fd, 0, s->secret, sizeof s->secret, e);
  clu_os_file_close(fd);
  if (rc == CLU_OK && rename(new_path, path) == 0) return CLU_OK;
  clu_os_file_remove(new_path);
  return rc != CLU_OK ? rc : clu_fail(e, CLU_SYS, 0, "%s cannot be written", path);
}

static int listen_at(clu_stay *s, clu_err *e) {
  clu_listen how = {16, 0, 0};
  clu_addr at;
  int granted, rc = clu_os_addr_path(s->path, &at, e);
  if (rc != CLU_OK) return rc;
  if ((rc = clu_os_path_clear(s->path)) != CLU_OK)
    return clu_fail(e, rc, 0, "something else is at %s", s->path);
  if ((rc = clu_os_listen(&at, &how, &s->listener, &granted, e)) != CLU_OK) s->listener = CLU_NO_FD;
  if (rc == CLU_OK) clu_os_path_id(s->path, s->id);
  return rc;
}

int clu_stay_offer(clu_stay *s, const char *path, clu_err *e) {
  int rc;
  memset(s, 0, sizeof *s);
  s->listener = CLU_NO_FD;
  if (!(clu_os_can() & CLU_CAN_PROC))
    return clu_fail(e, CLU_UNSUPPORTED, 0, "this system does not tell who connects");
  if (strlen(path) >= sizeof s->path) return clu_fail(e, CLU_SYS, 0, "the path is too long");
  strcpy(s->path, path);
  if ((rc = listen_at(s, e)) == CLU_OK) rc = write_secret(s, e);
  if (rc != CLU_OK) clu_stay_end(s);
  return rc;
}

void clu_stay_end(clu_stay *s) {
  char path[PATH];
  if (s->listener == CLU_NO_FD) return;
  secret_path(s, "", path);
  clu_os_file_remove(path);
  clu_os_path_remove(s->path, s->id);
  clu_os_close(s->listener);
  clu_os_wipe(s->secret, sizeof s->secret);
  s->listener = CLU_NO_FD;
}

/* ---- the wait ---- */

/* 1: CLU_SIG_TERM came. */
static int take_signals(void) {
  int term = 0;
  clu_pid pid;
  clu_exit how;
  clu_os_watch_clear(&term);
  while (clu_os_ended_child(&pid) == CLU_OK && clu_os_reap(pid, 0, &how) != CLU_AGAIN) continue;
  return term;
}

/* CLU_CANCELLED: CLU_SIG_TERM came; the end of a child is no reason. */
static int meet(clu_stay *s, clu_fd fd, clu_fd signals) {
  unsigned char nonce[CLU_NONCE];
  clu_hs h;
  int rc;
  if (clu_os_secret_bytes(nonce, sizeof nonce) != CLU_OK) return CLU_SYS;
  clu_hs_node(&h, s->secret, nonce, 0, (uint64_t)clu_os_getpid(), 0,
              clu_deadline_after(clu_os_now(), PATIENCE));
  do rc = clu_hs_meet(&h, fd, signals);
  while (rc == CLU_CANCELLED && !take_signals());
  return rc;
}

int clu_stay_await(clu_stay *s, clu_fd signals, uint64_t until, clu_fd *fd, clu_pid *session) {
  for (;;) {
    clu_watch set[2] = {{s->listener, CLU_READ, 0}, {signals, CLU_READ, 0}};
    int64_t left = clu_deadline_left(until, clu_os_now(), SLICE);
    int n = 0;
    *fd = CLU_NO_FD;
    if (clu_os_poll(set, 2, left, &n, NULL) != CLU_OK) return CLU_SYS;
    if (n > 0 && set[1].ready && take_signals()) return CLU_CANCELLED;
    if (n > 0 && set[0].ready) {
      int rc = clu_os_accept(s->listener, fd, NULL, NULL);
      if (rc == CLU_OK) {
        rc = clu_os_path_peer(*fd, session) == CLU_PEER_OWN ? meet(s, *fd, signals) : CLU_PROTO;
        if (rc == CLU_OK) return CLU_OK;
        clu_os_close(*fd);
        if (rc == CLU_CANCELLED) return rc;
        continue;
      }
      /* it stays readable: asked again at once it would spin */
      if (rc != CLU_AGAIN) clu_os_poll(&set[1], 1, left < PAUSE ? left : PAUSE, &n, NULL);
    }
    if (left == 0) return CLU_TIMEOUT;
  }
}
