/* Nodes that have ended, nodes that have to end, and what nodes leave. */
#include <stdio.h>
#include <string.h>

#include "core/supervisor/orphans.h"
#include "core/supervisor/parts.h"

static const uint64_t MEMORY_EVERY =
    20 * CLU_MS; /* between two checks of the memory of nodes with a limit */
static const uint64_t ORPHANS_EVERY =
    20 * CLU_MS; /* between two searches for what nodes have left */

/* ---- reaping ---- */

/* In a forked child where that may take long: cancels, limits and deaths of others must not wait
 * for it. */
static void remove_folder(clu_supervisor *sv, const char *path) {
  clu_err e;
  clu_pid pid;
  if (clu_os_remove_few(path) == 0) return;
  if (clu_os_fork(&pid, &e) != CLU_OK) {
    clu_os_remove_tree(path);
  } else if (pid == 0) {
    clu_sv_close_in_child(sv);
    clu_sv_close_output(sv);
    clu_os_remove_tree(path);
    clu_os_end_self();
  }
}

static void tell_end(clu_supervisor *sv, const clu_sv_node *nd, const clu_exit *how) {
  unsigned char body[20];
  clu_put32(body, (uint32_t)how->by_signal);
  clu_put32(body + 4, (uint32_t)how->code);
  clu_put32(body + 8, (uint32_t)nd->over_limit);
  clu_put64(body + 12, nd->memory);
  clu_supervisor_answer(sv, CLU_K_EXITED, nd->id, body, sizeof body);
  clu_chan_flush(&sv->chan);
}

/* The folder is renamed before the master is told: who hears of the end finds no folder, and does
 * not wait until all in it is removed. */
static void bury(clu_supervisor *sv, clu_sv_node *nd, const clu_exit *how) {
  char tmp[1024], gone[1040];
  snprintf(tmp, sizeof tmp, "%s/%s", sv->tmp, nd->leaf);
  snprintf(gone, sizeof gone, "%s-gone", tmp);
  if (rename(tmp, gone) != 0) memcpy(gone, tmp, sizeof tmp);
  if (!clu_sv_kept_died(sv, nd->id)) tell_end(sv, nd, how);
  remove_folder(sv, gone);
  clu_sv_forget(sv, nd);
}

void clu_sv_reap(clu_supervisor *sv) {
  clu_pid pid;
  while (clu_os_ended_child(&pid) == CLU_OK) {
    clu_exit how = {0, 0};
    clu_sv_node *nd = clu_sv_find_pid(sv, pid);
    if (clu_os_reap(pid, nd != NULL, &how) == CLU_AGAIN) break;
    clu_timer_arm_by(&sv->loop, &sv->orphans,
                     sv->orphans_checked + ORPHANS_EVERY); /* it may have left some */
    if (nd) bury(sv, nd, &how);
  }
}

/* ---- stops and limits ---- */

void clu_sv_stop(clu_supervisor *sv, uint64_t id, uint32_t grace_ms) {
  clu_sv_node *nd = clu_sv_find(sv, id), none = {0};
  clu_exit killed = {1, CLU_SIG_KILL};
  none.id = id;
  if (clu_sv_let_go(sv, id)) tell_end(sv, &none, &killed);
  if (!nd) return;
  if (grace_ms == 0) {
    clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
    return;
  }
  nd->kill_at = clu_os_now() + grace_ms * CLU_MS;
  clu_timer_arm_by(&sv->loop, &sv->kills, nd->kill_at);
}

void clu_sv_on_kill_time(void *self) {
  clu_supervisor *sv = self;
  uint64_t now = clu_os_now();
  for (int i = 0; i < sv->n; i++) {
    clu_sv_node *nd = &sv->nodes[i];
    if (!nd->kill_at) continue;
    if (nd->kill_at <= now) {
      clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
      nd->kill_at = now + 1000 * CLU_MS; /* should it take longer, once more */
    }
    clu_timer_arm_by(&sv->loop, &sv->kills, nd->kill_at);
  }
}

void clu_sv_limit(clu_supervisor *sv, clu_sv_node *nd, uint64_t bytes) {
  nd->limit = bytes > INT64_MAX ? 0 : bytes; /* nobody has more */
  if (nd->limit) clu_timer_arm_by(&sv->loop, &sv->memory, sv->memory_checked + MEMORY_EVERY);
}

/* Kills whoever has more memory than it may. */
void clu_sv_on_memory_time(void *self) {
  clu_supervisor *sv = self;
  sv->memory_checked = clu_os_now();
  for (int i = 0; i < sv->n; i++) {
    clu_sv_node *nd = &sv->nodes[i];
    int64_t has;
    if (!nd->limit || nd->over_limit) continue;
    clu_timer_arm_by(&sv->loop, &sv->memory, sv->memory_checked + MEMORY_EVERY);
    if ((has = clu_os_process_memory(nd->pid, (int64_t)nd->limit)) <= (int64_t)nd->limit) continue;
    nd->over_limit = 1;
    nd->memory = (uint64_t)has;
    clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
  }
}

/* ---- what nodes leave ---- */

static int is_node(void *sv, clu_pid pid) { return clu_sv_find_pid(sv, pid) != NULL; }

static int is_alive(void *sv, uint64_t id) { return clu_sv_find(sv, id) != NULL; }

static int end_orphans(clu_supervisor *sv) {
  clu_orphans o;
  o.family = sv->family;
  o.is_node = is_node;
  o.is_alive = is_alive;
  o.data = sv;
  sv->orphans_checked = clu_os_now();
  return clu_orphans_end(&o, sv->n == 0);
}

void clu_sv_on_orphans_time(void *sv) { end_orphans(sv); }

/* ---- the end of all ---- */

static void wait_for_ends(clu_supervisor *sv) {
  clu_loop_pump(&sv->loop, (int64_t)(20 * CLU_MS), NULL);
  clu_sv_reap(sv);
}

void clu_sv_end_all(clu_supervisor *sv) {
  uint64_t deadline = clu_os_now() + 2000 * CLU_MS;
  clu_loop_interest(&sv->loop, sv->control, 0,
                    NULL); /* its end would make it readable all the time */
  clu_sv_let_all_go(sv);
  for (int i = 0; i < sv->n; i++) clu_os_kill(sv->nodes[i].pid, CLU_SIG_KILL, 1);
  while (sv->n > 0 && clu_os_now() < deadline) wait_for_ends(sv);
  while (end_orphans(sv) > 0 && clu_os_now() < deadline) wait_for_ends(sv);
}
