/* Nodes that have ended, nodes that have to end, and what nodes leave.
 *
 * A node that ends: the supervisor kills its process group, reaps it, renames its folder, sends
 * EXITED and removes the folder. A folder that a node has left empty is kept for a node to come
 * (keep_folder()).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/grow.h"
#include "core/base/os-folders.h"
#include "core/base/os-machine.h"
#include "core/supervisor/orphans.h"
#include "core/supervisor/parts.h"

static const uint64_t REMOVED_AFTER = 200 * CLU_MS; /* many nodes have ended: their folders */
enum { FEW_FOLDERS = 8 };                           /* that are removed at once */
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

static void gone_path(const clu_supervisor *sv, const char *leaf, char *out, size_t size) {
  snprintf(out, size, "%s/%s" CLU_GONE, sv->tmp, leaf);
}

static int make_room(clu_supervisor *sv) {
  clu_sv_gone *more = clu_grow(sv->gone, &sv->cap_gone, (size_t)sv->ngone + 1, sizeof *more);
  if (!more) return CLU_NOMEM;
  sv->gone = more;
  return CLU_OK;
}

static void remove_gone(clu_supervisor *sv) {
  char path[1100];
  while (sv->ngone > 0) {
    gone_path(sv, sv->gone[--sv->ngone].leaf, path, sizeof path);
    remove_folder(sv, path);
  }
}

/* Called where there are many. These are removed by a process of their own, as are large ones:
 * nodes may be wanted meanwhile, and to remove writes to memory that these share. */
void clu_sv_on_removal_time(void *self) {
  clu_supervisor *sv = self;
  clu_err e;
  clu_pid pid;
  if (clu_os_fork(&pid, &e) != CLU_OK) {
    remove_gone(sv);
    return;
  }
  if (pid == 0) {
    clu_sv_close_in_child(sv);
    clu_sv_close_output(sv);
    remove_gone(sv);
    clu_os_end_self();
  }
  sv->ngone = 0;
}

/* One in which nothing is left is kept for a node to come: to make a folder takes a file system
 * such as ext4 up to 0.5 ms where many were removed a moment ago. */
static int keep_folder(clu_supervisor *sv, const clu_sv_node *nd, const char *gone) {
  unsigned long long number;
  if (sv->nspare == CLU_SV_SPARE || sscanf(nd->leaf, CLU_SV_FOLDER, &number) != 1) return 0;
  if (!clu_os_is_empty_folder(gone)) return 0;
  sv->spare[sv->nspare++] = number;
  return 1;
}

/* The folder is renamed, and removed later: of many nodes that end together the last would be told
 * of when the folders of all others are removed. */
static void put_folder_away(clu_supervisor *sv, const clu_sv_node *nd) {
  char tmp[1024], gone[1100];
  snprintf(tmp, sizeof tmp, "%s/%s", sv->tmp, nd->leaf);
  gone_path(sv, nd->leaf, gone, sizeof gone);
  if (rename(tmp, gone) != 0) {
    remove_folder(sv, tmp);
    keep_folder(sv, nd, gone); /* the node has not taken it */
  } else if (keep_folder(sv, nd, gone)) {
    return;
  } else if (make_room(sv) != CLU_OK) {
    remove_folder(sv, gone);
  } else {
    memcpy(sv->gone[sv->ngone++].leaf, nd->leaf, sizeof nd->leaf);
  }
}

/* Whether a kill by the kernel explains this death. The kernel tells how often it has killed, and
 * not whom: each kill explains one death, and is counted here. */
static int attribute_oom_kill(clu_supervisor *sv, const clu_exit *how) {
  if (!sv->oom_file || !how->by_signal || how->code != CLU_SIG_KILL) return 0;
  if (clu_os_count_in_file(sv->oom_file, "oom_kill") <= sv->oom_kills) return 0;
  sv->oom_kills++;
  return 1;
}

int clu_supervisor_count_oom(clu_supervisor *sv, const char *file) {
  free(sv->oom_file);
  sv->oom_file = malloc(strlen(file) + 1);
  if (!sv->oom_file) return CLU_NOMEM;
  strcpy(sv->oom_file, file);
  sv->oom_kills = clu_os_count_in_file(file, "oom_kill");
  return CLU_OK;
}

static void tell_end(clu_supervisor *sv, const clu_sv_node *nd, const clu_exit *how) {
  unsigned char body[28 + CLU_COPY_TEXT];
  size_t copy = nd->pid ? clu_sv_last_copy(sv, nd, (char *)body + 28) : 0;
  uint64_t begun = nd->pid ? clu_claim_first(&sv->shared->claim[nd->slot]) : 0;
  unsigned memory = nd->over_limit                ? CLU_OVER_LIMIT
                    : attribute_oom_kill(sv, how) ? CLU_MAY_BE_OOM
                                                  : 0;
  clu_put32(body, (uint32_t)how->by_signal);
  clu_put32(body + 4, (uint32_t)how->code);
  clu_put32(body + 8, memory);
  clu_put64(body + 12, nd->memory);
  clu_put64(body + 20, begun);
  clu_supervisor_answer(sv, CLU_K_EXITED, nd->id, body, 28 + copy);
  clu_chan_flush(&sv->chan);
}

/* Who hears of the end finds no folder: that has another name by then. */
static void bury(clu_supervisor *sv, clu_sv_node *nd, const clu_exit *how) {
  put_folder_away(sv, nd);
  if (!clu_sv_kept_died(sv, nd->id)) tell_end(sv, nd, how);
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
    if (nd)
      bury(sv, nd, &how);
    else
      clu_sv_observer_ended(sv, pid);
  }
  if (sv->ngone <= FEW_FOLDERS)
    remove_gone(sv);
  else
    clu_timer_arm_by(&sv->loop, &sv->removals, clu_os_now() + REMOVED_AFTER);
}

/* ---- stops ---- */

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
  if (nd->held) clu_sv_hold(nd, 0); /* else it cannot end */
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

void clu_sv_hold(clu_sv_node *nd, int held) {
  nd->held = held;
  clu_os_kill(nd->pid, held ? CLU_SIG_STOP : CLU_SIG_CONT, 1);
}

/* ---- what nodes leave ---- */

static int is_node(void *sv, clu_pid pid) { return clu_sv_find_pid(sv, pid) != NULL; }

static int is_alive(void *sv, uint64_t id) { return clu_sv_find(sv, id) != NULL; }

static int end_orphans(clu_supervisor *sv) {
  clu_orphans o;
  o.family = sv->family;
  o.is_node = is_node;
  o.is_alive = is_alive;
  o.at_end = sv->closed;
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

static void remove_spare(clu_supervisor *sv) {
  char leaf[28], path[1100];
  while (sv->nspare > 0) {
    snprintf(leaf, sizeof leaf, CLU_SV_FOLDER, (unsigned long long)sv->spare[--sv->nspare]);
    gone_path(sv, leaf, path, sizeof path);
    remove_folder(sv, path);
  }
}

/* What copies of nodes have left (r/node/frozen.c): sockets, which R would not remove. */
static void remove_frozen(clu_supervisor *sv) {
  char path[1100];
  snprintf(path, sizeof path, "%s/frozen", sv->tmp);
  clu_os_remove_tree(path);
}

void clu_sv_end_all(clu_supervisor *sv) {
  uint64_t deadline = clu_os_now() + 2000 * CLU_MS;
  clu_loop_interest(&sv->loop, sv->control, 0,
                    NULL); /* its end would make it readable all the time */
  clu_sv_let_all_go(sv);
  clu_sv_end_observers(sv);
  for (int i = 0; i < sv->n; i++) clu_os_kill(sv->nodes[i].pid, CLU_SIG_KILL, 1);
  while (sv->n > 0 && clu_os_now() < deadline) wait_for_ends(sv);
  while (end_orphans(sv) > 0 && clu_os_now() < deadline) wait_for_ends(sv);
  remove_gone(sv);
  remove_spare(sv);
  remove_frozen(sv);
}
