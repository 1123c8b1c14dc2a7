#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/supervisor/parts.h"

clu_sv_node *clu_sv_find(clu_supervisor *sv, uint64_t id) {
  for (int i = 0; i < sv->n; i++)
    if (sv->nodes[i].id == id) return &sv->nodes[i];
  return NULL;
}

clu_sv_node *clu_sv_find_pid(clu_supervisor *sv, clu_pid pid) {
  for (int i = 0; i < sv->n; i++)
    if (sv->nodes[i].pid == pid) return &sv->nodes[i];
  return NULL;
}

int clu_sv_add(clu_supervisor *sv, uint64_t id, clu_pid pid, int slot, const char *tmp) {
  clu_sv_node *nd;
  if (sv->n == CLU_SLOTS) return CLU_NOMEM;
  nd = &sv->nodes[sv->n++];
  memset(nd, 0, sizeof *nd);
  snprintf(nd->leaf, sizeof nd->leaf, "%s", tmp + strlen(sv->tmp) + 1);
  nd->id = id;
  nd->pid = pid;
  nd->slot = slot;
  return CLU_OK;
}

void clu_sv_forget(clu_supervisor *sv, clu_sv_node *nd) {
  *nd = sv->nodes[--sv->n];
  if (sv->n == 0) clu_sv_count_idle(sv);
}

void clu_sv_count_idle(clu_supervisor *sv) {
  clu_timer_cancel(&sv->idle);
  if (sv->n > 0 || sv->nkept > 0 || sv->closed || !sv->idle_ns) return;
  clu_timer_arm(&sv->loop, &sv->idle, clu_os_now() + sv->idle_ns);
}

void clu_sv_close_output(clu_supervisor *sv) {
  if (sv->output != CLU_NO_FD) clu_os_close(sv->output);
  if (sv->errors != CLU_NO_FD) clu_os_close(sv->errors);
  sv->output = sv->errors = CLU_NO_FD;
}

clu_fd clu_sv_errors(const clu_supervisor *sv) {
  return sv->errors != CLU_NO_FD ? sv->errors : sv->output;
}

/* The control channel above all: while a node held it, nobody would see this server die. */
void clu_sv_close_in_child(clu_supervisor *sv) {
  clu_loop_close_in_child(&sv->loop);
  for (int i = 0; i < sv->chan.nfds; i++) clu_os_close(sv->chan.fds[i]);
  clu_os_close(sv->slots_fd);
  for (int i = 0; i < sv->nkept; i++) clu_os_close(sv->kept[i].fd);
}

int clu_supervisor_answer(clu_supervisor *sv, uint8_t kind, uint64_t seq, const void *p, size_t n) {
  clu_fd pass = CLU_NO_FD;
  if (kind == CLU_K_READY) clu_os_dup(sv->slots_fd, &pass);
  return clu_chan_send_bytes(&sv->chan, kind, seq, p, n, pass);
}
