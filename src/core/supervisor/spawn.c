/* The start of a node: by fork, or by exec of a new R.
 *
 * Rules of a fork. Before it there are no threads and no open devices, output is flushed, garbage
 * was collected, and functions that every node uses were read. The child closes the control
 * channel, other nodes' descriptors, the poller and the signal pipe, and the supervisor closes
 * its copy of the node's socket: else nobody would see an end of file. The child frees nothing,
 * since a write to the heap copies a shared page. Signals are blocked around the fork. A fork
 * server has a process session of its own, a node a process group, so Ctrl-C at the terminal
 * reaches neither.
 *
 * The child has a folder of its own within one that the supervisor names and removes. Until a
 * node is ready R's pointers lead to the fork server's folder, so it must not quit(). On another
 * host the proxy and the fork server have one folder: whichever of them quits last removes it.
 * The random seed is one number from the system for each fork server; each node adds its number
 * times an odd constant. The data channel has descriptor 200 or more, so that user code that
 * closes low descriptors does not hit it. A node's last act is SIGKILL to itself: R's exit would
 * run finalizers and exit handlers that belong to the fork server. When the user forks
 * (mclapply()) in the session or in a node, a handler of pthread_atfork() closes all channels in
 * the child.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os-folders.h"
#include "core/base/os-forks.h"
#include "core/supervisor/orphans.h"
#include "core/supervisor/parts.h"

/* Each fork is made cheaper (see core/base/os-forks.h) before the first of `WORTH_IT` that are
 * expected: that takes as long as ten of them. Where nobody has said how many follow, before the
 * `MANY_FORKS`th in a row. Code of R in between writes anywhere, and they cost more again. */
enum { WORTH_IT = 12, MANY_FORKS = 65 };

void clu_supervisor_expect(clu_supervisor *sv, uint64_t n) {
  sv->forks = n >= WORTH_IT ? MANY_FORKS - 1 : 0;
}

/* What SPAWN asks for; see core/wire/frame.h. */
typedef struct {
  uint64_t id;
  int kind; /* enum clu_start_kind */
  int slot;
  clu_fd fd;      /* the node's end of its data socket */
  uint32_t again; /* of a kept one: how often it was started before */
} request;

static int is_by_exec(const request *r) {
  return r->kind == CLU_START_EXEC || r->kind == CLU_START_EXEC_PROGRAM ||
         r->kind == CLU_START_EXEC_KEPT;
}

static int is_kept(const request *r) {
  return r->kind == CLU_START_KEPT || r->kind == CLU_START_EXEC_KEPT;
}

/* NULL, or what is wrong with it. */
static const char *read_request(clu_supervisor *sv, const clu_msg *m, request *r) {
  uint32_t slot = CLU_SLOTS;
  memset(r, 0, sizeof *r);
  r->id = m->seq;
  r->fd = clu_chan_take_fd(&sv->chan);
  if (m->body && m->body->size == 5) {
    r->kind = m->body->data[0];
    slot = clu_get32(m->body->data + 1);
  }
  r->slot = (int)slot;
  if (r->fd == CLU_NO_FD) return "its end of the data socket did not arrive";
  if (r->kind >= CLU_START_AFTER_LAST) return "the fork server does not know this kind of start";
  return slot >= CLU_SLOTS ? "a fork server has no more than 65536 nodes" : NULL;
}

/* ---- by exec ---- */

/* The environment of the new R: this process's, with another TMPDIR and mark. One block; NULL
 * without memory. */
static char **make_environment(clu_supervisor *sv, uint64_t id, const char *tmp) {
  enum { TMP = 1100, MARK = sizeof CLU_MARK + 1 + CLU_MARK_DIGITS };
  char **env = clu_os_environ(), **out, *text;
  int n = 0, k = 0;
  while (env[n]) n++;
  out = malloc((size_t)(n + 3) * sizeof *out + TMP + MARK);
  if (!out) return NULL;
  text = (char *)(out + n + 3);
  for (int i = 0; i < n; i++)
    if (strncmp(env[i], "TMPDIR=", 7) != 0 && strncmp(env[i], CLU_MARK "=", sizeof CLU_MARK) != 0)
      out[k++] = env[i];
  snprintf(text, TMP, "TMPDIR=%s", tmp);
  out[k++] = text;
  text += TMP;
  strcpy(text, CLU_MARK "=");
  clu_mark_text(text + sizeof CLU_MARK, sv->family, id);
  out[k++] = text;
  out[k] = NULL;
  return out;
}

/* The node's folder is given as TMPDIR, in which it makes its temporary folder. The arguments carry
 * what was in TMPDIR, so that the node can put it back. One that runs a program is told its number;
 * others get 0. The last one is this process: it may have ended when the new R can look for it. */
static int start_by_exec(clu_supervisor *sv, const request *r, const char *tmp, clu_pid *pid,
                         clu_err *e) {
  enum { MAX = 64 };
  const char *argv[MAX], *old = getenv("TMPDIR");
  char slot_arg[16], id_arg[24], again_arg[16], server_arg[24];
  char **envp = make_environment(sv, r->id, tmp);
  int n = 0, rc;
  clu_fd keep[2] = {r->fd, sv->slots_fd};
  clu_spawn s;
  if (!envp) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  for (; sv->exec[n] && n < MAX - 8; n++) argv[n] = sv->exec[n];
  snprintf(slot_arg, sizeof slot_arg, "%d", r->slot);
  argv[n++] = slot_arg;
  argv[n++] = old ? "set" : "unset";
  argv[n++] = old ? old : "";
  argv[n++] = tmp;
  snprintf(id_arg, sizeof id_arg, "%llu",
           (unsigned long long)(r->kind == CLU_START_EXEC ? 0 : r->id));
  argv[n++] = id_arg;
  snprintf(again_arg, sizeof again_arg, "%u", (unsigned)r->again);
  argv[n++] = again_arg;
  snprintf(server_arg, sizeof server_arg, "%lld", (long long)clu_os_getpid());
  argv[n++] = server_arg;
  argv[n] = NULL;
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = (char *const *)argv;
  s.envp = envp;
  s.in = CLU_NO_FD;
  s.out = sv->output == CLU_NO_FD ? 1 : sv->output;
  s.err = sv->output == CLU_NO_FD ? 2 : clu_sv_errors(sv);
  s.keep = keep;
  s.nkeep = 2;
  s.follow = 1;
  rc = clu_os_spawn(&s, pid, e);
  free(envp);
  return rc;
}

/* ---- by fork ---- */

/* In the child. `parent`: the supervisor's process. */
static void become_node(clu_supervisor *sv, const request *r, clu_pid parent, clu_boot *b) {
  clu_sv_close_in_child(sv);
  clu_sv_close_views(sv);
  if (sv->output != CLU_NO_FD) clu_os_redirect_output(sv->output, clu_sv_errors(sv));
  clu_sv_close_output(sv);
  clu_mark_self(sv->family, r->id);
  b->id = r->id;
  b->fd = r->fd;
  clu_boot_slot(b, sv->shared, r->slot);
  b->parent = parent;
  b->is_link = r->kind == CLU_START_LINK;
  b->program = r->kind >= CLU_START_PROGRAM && !b->is_link;
  b->again = r->again;
  clu_os_on_term(parent, sv->tmp); /* without this server its folder is of no use either */
  if (clu_os_follow_parent(parent, 1) == CLU_DEAD) clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
}

/* ---- the request ---- */

static void refuse(clu_supervisor *sv, uint64_t id, const char *why) {
  clu_supervisor_answer(sv, CLU_K_REFUSED, id, why, strlen(why));
}

static int add_started(clu_supervisor *sv, const request *r, clu_pid pid, const char *tmp,
                       clu_err *e) {
  clu_exit how;
  if (clu_sv_add(sv, r->id, pid, r->slot, tmp) == CLU_OK) return CLU_OK;
  clu_os_kill(pid, CLU_SIG_KILL, 1);
  clu_os_reap(pid, 1, &how);
  return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
}

/* The folder in which the node is to have its temporary one. A new R needs it at once. A forked
 * node makes it when it has something to do: so 64 nodes start in a fifth of the time less. */
static int name_folder(clu_supervisor *sv, const request *r, clu_boot *b, clu_err *e) {
  unsigned long long number;
  int n;
  if (is_by_exec(r)) return clu_os_make_temp(sv->tmp, b->tmp, sizeof b->tmp, e);
  number = sv->nspare > 0 ? sv->spare[--sv->nspare] : ++sv->folders;
  n = snprintf(b->tmp, sizeof b->tmp, "%s/" CLU_SV_FOLDER, sv->tmp, number);
  if (n > 0 && (size_t)n < sizeof b->tmp) return CLU_OK;
  return clu_fail(e, CLU_SYS, 0, "the path of the temporary folder is too long");
}

/* Takes the request's descriptor over. CLU_OK; then `*pid` is 0 in the child. */
static int start(clu_supervisor *sv, const request *r, clu_boot *b, clu_pid *pid, clu_err *e) {
  clu_pid me = clu_os_getpid();
  int rc;
  clu_shared_reset(sv->shared, r->slot);
  atomic_store_explicit(&sv->shared->started, clu_os_now(), memory_order_relaxed);
  if ((rc = name_folder(sv, r, b, e)) != CLU_OK) {
    clu_os_close(r->fd);
    return rc;
  }
  if (!is_by_exec(r) && ++sv->forks == MANY_FORKS) clu_os_expect_forks();
  rc = is_by_exec(r) ? start_by_exec(sv, r, b->tmp, pid, e) : clu_os_fork(pid, e);
  if (rc == CLU_OK && *pid == 0) {
    become_node(sv, r, me, b);
    return CLU_OK;
  }
  clu_os_close(r->fd);
  if (rc == CLU_OK) rc = add_started(sv, r, *pid, b->tmp, e);
  if (rc != CLU_OK) clu_os_remove_tree(b->tmp);
  return rc;
}

static void tell_started(clu_supervisor *sv, uint64_t id, clu_pid pid) {
  unsigned char answer[8];
  clu_put64(answer, (uint64_t)pid);
  clu_supervisor_answer(sv, CLU_K_SPAWNED, id, answer, sizeof answer);
}

static int keep(clu_supervisor *sv, const request *r, clu_err *e) {
  clu_sv_kept place;
  memset(&place, 0, sizeof place);
  place.id = r->id;
  place.kind = r->kind;
  place.slot = r->slot;
  place.fd = r->fd;
  return clu_sv_keep(sv, &place, e);
}

int clu_sv_spawn(clu_supervisor *sv, const clu_msg *m, clu_boot *b) {
  clu_err e = {0, 0, ""};
  clu_pid pid = 0;
  request r;
  const char *problem = read_request(sv, m, &r);
  if (!problem && is_kept(&r) && keep(sv, &r, &e) != CLU_OK) problem = e.text;
  if (problem) {
    if (r.fd != CLU_NO_FD) clu_os_close(r.fd);
    refuse(sv, r.id, problem);
    return 0;
  }
  if (start(sv, &r, b, &pid, &e) != CLU_OK) {
    clu_sv_let_go(sv, r.id);
    refuse(sv, r.id, e.text);
    return 0;
  }
  if (pid == 0) return 1;
  tell_started(sv, r.id, pid);
  return 0;
}

int clu_sv_start_again(clu_supervisor *sv, clu_boot *b) {
  clu_sv_kept place;
  while (clu_sv_next_due(sv, &place)) {
    clu_err e = {0, 0, ""};
    clu_pid pid = 0;
    request r;
    int rc;
    r.id = place.id;
    r.kind = place.kind;
    r.slot = place.slot;
    r.fd = place.fd;
    r.again = place.again + 1;
    rc = start(sv, &r, b, &pid, &e);
    if (rc == CLU_OK && pid == 0) return 1;
    clu_sv_kept_started(sv, place.id, rc == CLU_OK);
    if (rc == CLU_OK) tell_started(sv, place.id, pid);
  }
  return 0;
}
