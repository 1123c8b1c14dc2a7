/* Observers: children that tell who asks what the nodes are at. Who asks connects to a Unix-domain
 * socket. */
#include <string.h>

#include "core/supervisor/parts.h"

/* ---- who asks ---- */

static const uint64_t PAUSE = 50 * CLU_MS; /* of the listener, when there is no descriptor */

static void pause_listener(clu_supervisor *sv) {
  clu_loop_interest(&sv->loop, sv->listener_watch, 0, NULL);
  clu_timer_arm(&sv->loop, &sv->listens, clu_os_now() + PAUSE);
}

void clu_sv_on_listens_time(void *self) {
  clu_supervisor *sv = self;
  if (clu_loop_interest(&sv->loop, sv->listener_watch, CLU_READ, NULL) != CLU_OK)
    pause_listener(sv);
}

/* One connection at a time: serve() goes on with it, since the fork is to happen there. */
static void on_caller(void *self, unsigned ready) {
  clu_supervisor *sv = self;
  int rc;
  (void)ready;
  if (sv->caller != CLU_NO_FD) return;
  if ((rc = clu_os_accept(sv->listener, &sv->caller, NULL, NULL)) == CLU_OK) return;
  sv->caller = CLU_NO_FD;
  if (rc != CLU_AGAIN) pause_listener(sv); /* it stays readable: asked at once it would spin */
}

void clu_sv_close_listener(clu_supervisor *sv) {
  if (sv->listener == CLU_NO_FD) return;
  clu_os_path_remove(sv->listener_path, sv->listener_id);
  if (sv->owns_folder) clu_os_path_remove_folder(sv->listener_path);
  clu_timer_cancel(&sv->listens);
  clu_loop_unwatch(&sv->loop, &sv->listener_watch);
  clu_os_close(sv->listener);
  if (sv->caller != CLU_NO_FD) clu_os_close(sv->caller);
  sv->listener = sv->caller = CLU_NO_FD;
}

int clu_supervisor_listen(clu_supervisor *sv, const char *path, int owns_folder, clu_err *e) {
  clu_listen how = {16, 0, 0};
  clu_addr at;
  int granted, rc = clu_os_addr_path(path, &at, e);
  if (rc != CLU_OK) return rc;
  if (strlen(path) >= sizeof sv->listener_path)
    return clu_fail(e, CLU_SYS, 0, "the path is too long");
  clu_os_path_clear(path);
  if ((rc = clu_os_listen(&at, &how, &sv->listener, &granted, e)) != CLU_OK) {
    sv->listener = CLU_NO_FD;
    return rc;
  }
  strcpy(sv->listener_path, path);
  sv->owns_folder = owns_folder;
  clu_os_path_id(path, sv->listener_id);
  clu_os_move_high(&sv->listener, 200);
  rc = clu_loop_watch(&sv->loop, sv->listener, CLU_READ, on_caller, sv, &sv->listener_watch, e);
  if (rc != CLU_OK) clu_sv_close_listener(sv);
  return rc;
}

/* ---- views ---- */

static void forget_view(clu_supervisor *sv, int i) {
  clu_os_close(sv->views[i].fd);
  sv->views[i] = sv->views[--sv->nviews];
}

void clu_sv_close_views(clu_supervisor *sv) {
  while (sv->nviews > 0) forget_view(sv, 0);
}

/* Where there is no room the oldest goes. An empty message has no descriptor: one that has come
 * already is the next message's. */
void clu_sv_take_view(clu_supervisor *sv, const clu_msg *m) {
  uint64_t size = m->body && m->body->size == 8 ? clu_get64(m->body->data) : 0;
  clu_fd fd = m->body ? clu_chan_take_fd(&sv->chan) : CLU_NO_FD;
  for (int i = sv->nviews - 1; i >= 0; i--)
    if (sv->views[i].number == m->seq) forget_view(sv, i);
  if (fd == CLU_NO_FD) return;
  if (size != sizeof(clu_view_memory)) { /* of another version of this package */
    clu_os_close(fd);
    return;
  }
  if (sv->nviews == CLU_SV_VIEWS) {
    int oldest = 0;
    for (int i = 1; i < sv->nviews; i++)
      if (sv->views[i].number < sv->views[oldest].number) oldest = i;
    forget_view(sv, oldest);
  }
  sv->views[sv->nviews].number = m->seq;
  sv->views[sv->nviews++].fd = fd;
}

/* ---- observers ---- */

void clu_sv_observer_ended(clu_supervisor *sv, clu_pid pid) {
  for (int i = 0; i < sv->nobservers; i++) {
    if (sv->observers[i] != pid) continue;
    sv->observers[i] = sv->observers[--sv->nobservers];
    return;
  }
}

void clu_sv_end_observers(clu_supervisor *sv) {
  for (int i = 0; i < sv->nobservers; i++) clu_os_kill(sv->observers[i], CLU_SIG_KILL, 1);
}

/* In the child. Views stay open: they are what it is for. */
static void become_observer(clu_supervisor *sv, clu_pid parent, clu_fd caller, clu_boot *b) {
  clu_sv_close_in_child(sv);
  clu_sv_close_output(sv);
  memset(b, 0, sizeof *b);
  b->fd = caller;
  b->parent = parent;
  clu_os_on_term(parent, sv->tmp);
  if (clu_os_follow_parent(parent, 1) == CLU_DEAD) clu_os_end_self();
}

int clu_sv_observe(clu_supervisor *sv, clu_boot *b) {
  clu_fd caller = sv->caller;
  clu_pid pid = 0, me = clu_os_getpid();
  clu_err e;
  if (caller == CLU_NO_FD) return 0;
  sv->caller = CLU_NO_FD;
  if (sv->nobservers == CLU_SV_OBSERVERS || clu_os_fork(&pid, &e) != CLU_OK) {
    clu_os_close(caller);
    return 0;
  }
  if (pid == 0) {
    become_observer(sv, me, caller, b);
    return 1;
  }
  clu_os_close(caller);
  sv->observers[sv->nobservers++] = pid;
  return 0;
}
