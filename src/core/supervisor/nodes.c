#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/supervisor/parts.h"

/* ---- by number, by pid ---- */

static uint64_t id_of(const clu_sv_node *nd) { return nd->id; }
static uint64_t pid_of(const clu_sv_node *nd) { return (uint64_t)nd->pid; }

static uint32_t after(uint32_t at) { return (at + 1) % CLU_SV_PLACES; }

/* Where this key is, or where it would go. */
static uint32_t place(const clu_supervisor *sv, const clu_sv_index in,
                      uint64_t key_of(const clu_sv_node *), uint64_t key) {
  uint32_t at = (uint32_t)(key % CLU_SV_PLACES);
  while (in[at] && key_of(&sv->nodes[in[at] - 1]) != key) at = after(at);
  return at;
}

static clu_sv_node *find(const clu_supervisor *sv, const clu_sv_index in,
                         uint64_t key_of(const clu_sv_node *), uint64_t key) {
  uint32_t found = in[place(sv, in, key_of, key)];
  return found ? &sv->nodes[found - 1] : NULL;
}

/* Those behind the place that is free now move up, if they are not where they belong. */
static void take_out(const clu_supervisor *sv, clu_sv_index in,
                     uint64_t key_of(const clu_sv_node *), uint64_t key) {
  uint32_t gap = place(sv, in, key_of, key);
  in[gap] = 0;
  for (uint32_t at = after(gap); in[at]; at = after(at)) {
    uint32_t home = (uint32_t)(key_of(&sv->nodes[in[at] - 1]) % CLU_SV_PLACES);
    if ((at - home) % CLU_SV_PLACES < (at - gap) % CLU_SV_PLACES) continue;
    in[gap] = in[at];
    in[at] = 0;
    gap = at;
  }
}

clu_sv_node *clu_sv_find(clu_supervisor *sv, uint64_t id) {
  return find(sv, sv->table->by_id, id_of, id);
}

clu_sv_node *clu_sv_find_pid(clu_supervisor *sv, clu_pid pid) {
  return find(sv, sv->table->by_pid, pid_of, (uint64_t)pid);
}

/* ---- the table ---- */

int clu_sv_add(clu_supervisor *sv, uint64_t id, clu_pid pid, int slot, const char *tmp) {
  clu_activity *a = clu_shared_activity(sv->shared, slot);
  clu_sv_node *nd;
  if (sv->n == CLU_SLOTS) return CLU_NOMEM;
  nd = &sv->nodes[sv->n++];
  memset(nd, 0, sizeof *nd);
  snprintf(nd->leaf, sizeof nd->leaf, "%s", tmp + strlen(sv->tmp) + 1);
  nd->id = id;
  nd->pid = pid;
  nd->slot = slot;
  if (a) atomic_store_explicit(&a->pid, (uint64_t)pid, memory_order_relaxed);
  sv->table->by_id[place(sv, sv->table->by_id, id_of, id)] = (uint32_t)sv->n;
  sv->table->by_pid[place(sv, sv->table->by_pid, pid_of, (uint64_t)pid)] = (uint32_t)sv->n;
  return CLU_OK;
}

void clu_sv_forget(clu_supervisor *sv, clu_sv_node *nd) {
  clu_sv_node *last = &sv->nodes[sv->n - 1];
  uint32_t number = (uint32_t)(nd - sv->nodes) + 1;
  take_out(sv, sv->table->by_id, id_of, nd->id);
  take_out(sv, sv->table->by_pid, pid_of, (uint64_t)nd->pid);
  if (nd != last) {
    sv->table->by_id[place(sv, sv->table->by_id, id_of, last->id)] = number;
    sv->table->by_pid[place(sv, sv->table->by_pid, pid_of, (uint64_t)last->pid)] = number;
    *nd = *last;
  }
  sv->n--;
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
  if (sv->listener != CLU_NO_FD) clu_os_close(sv->listener);
  if (sv->caller != CLU_NO_FD) clu_os_close(sv->caller);
}

int clu_supervisor_answer(clu_supervisor *sv, uint8_t kind, uint64_t seq, const void *p, size_t n) {
  clu_fd pass = CLU_NO_FD;
  if (kind == CLU_K_READY) clu_os_dup(sv->slots_fd, &pass);
  return clu_chan_send_bytes(&sv->chan, kind, seq, p, n, pass);
}
