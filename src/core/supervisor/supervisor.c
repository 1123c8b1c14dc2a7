#include "core/supervisor/supervisor.h"

#include "core/supervisor/orphans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct clu_sv_node {
  uint64_t id;
  clu_pid pid;
  int slot;
  uint64_t kill_at; /* 0: never */
  uint64_t limit;   /* bytes of memory; 0: none */
  int over_limit;   /* and so killed: */
  uint64_t memory;  /* what it had */
  char leaf[16];    /* its folder in the supervisor's own */
} clu_sv_node;

enum { WATCH_CONTROL = 1, WATCH_SIGNALS };
static const uint64_t MS = 1000000u;
static const uint64_t MEMORY_EVERY = 20000000u; /* ns between looks at the memory of nodes with a limit */
static const uint64_t ORPHANS_EVERY = 20000000u; /* and between looks for what nodes have left */

int clu_supervisor_init(clu_supervisor *sv, clu_fd control, clu_pid master, const char *tmp,
                        char *const *exec, uint64_t idle_ns, clu_err *e) {
  int rc;
  memset(sv, 0, sizeof *sv);
  sv->chan.fd = sv->signals = sv->slots_fd = sv->output = sv->errors = CLU_NO_FD;
  sv->master = master;
  sv->exec = exec;
  sv->idle_ns = idle_ns;
  sv->idle_since = clu_os_now();
  if (clu_os_random(&sv->family, sizeof sv->family) != CLU_OK || sv->family == 0) sv->family = 1 + (uint64_t)clu_os_getpid();
  clu_os_adopt_orphans();
  sv->tmp = malloc(strlen(tmp) + 1);
  sv->cap = 64;
  sv->nodes = malloc((size_t)sv->cap * sizeof *sv->nodes);
  if (!sv->tmp || !sv->nodes) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  strcpy(sv->tmp, tmp);
  clu_os_set_cloexec(control); /* it came through exec */
  clu_os_set_blocking(control, 0);
  if ((rc = clu_chan_init(&sv->chan, control, INT64_MAX, 1)) != CLU_OK)
    return clu_fail(e, rc, 0, "not enough memory");
  if ((rc = clu_shared_new(&sv->shared, &sv->slots_fd, e)) != CLU_OK) {
    sv->slots_fd = CLU_NO_FD;
    return rc;
  }
  if ((rc = clu_os_watch_start(&sv->signals, e)) != CLU_OK) return rc;
  if (!(sv->poller = clu_poller_new(e))) return CLU_SYS;
  sv->interest = CLU_READ;
  if ((rc = clu_poller_set(sv->poller, control, 0, CLU_READ, WATCH_CONTROL, e)) != CLU_OK) return rc;
  return clu_poller_set(sv->poller, sv->signals, 0, CLU_READ, WATCH_SIGNALS, e);
}

static void close_output(clu_supervisor *sv) {
  if (sv->output != CLU_NO_FD) clu_os_close(sv->output);
  if (sv->errors != CLU_NO_FD) clu_os_close(sv->errors);
  sv->output = sv->errors = CLU_NO_FD;
}

static clu_fd errors_of(const clu_supervisor *sv) {
  return sv->errors != CLU_NO_FD ? sv->errors : sv->output;
}

void clu_supervisor_fini(clu_supervisor *sv) {
  clu_chan_fini(&sv->chan);
  clu_poller_free(sv->poller);
  sv->poller = NULL;
  clu_os_watch_end();
  if (sv->slots_fd != CLU_NO_FD) clu_os_close(sv->slots_fd);
  close_output(sv);
  sv->slots_fd = CLU_NO_FD;
  free(sv->nodes);
  free(sv->tmp);
  sv->nodes = NULL;
  sv->tmp = NULL;
  sv->n = sv->cap = 0;
}

int clu_supervisor_answer(clu_supervisor *sv, uint8_t kind, uint64_t seq, const void *p, size_t n) {
  clu_fd pass = CLU_NO_FD;
  if (kind == CLU_K_READY) clu_os_dup(sv->slots_fd, &pass);
  return clu_chan_send_bytes(&sv->chan, kind, seq, p, n, pass);
}

static clu_sv_node *find(clu_supervisor *sv, uint64_t id) {
  for (int i = 0; i < sv->n; i++)
    if (sv->nodes[i].id == id) return &sv->nodes[i];
  return NULL;
}

/* ---- ends ---- */

static void forget(clu_supervisor *sv, int i) {
  sv->nodes[i] = sv->nodes[--sv->n];
  if (sv->n == 0) sv->idle_since = clu_os_now();
}

/* Not here where that may take long: cancels, limits and deaths of others do not wait for it. */
static void remove_folder(clu_supervisor *sv, const char *path) {
  clu_err e;
  clu_pid pid;
  if (clu_os_remove_few(path) == 0) return;
  if (clu_os_fork(&pid, &e) != CLU_OK) {
    clu_os_remove_tree(path);
  } else if (pid == 0) {
    clu_os_close(sv->chan.fd); /* its end is this server's */
    clu_poller_free(sv->poller);
    clu_os_close(sv->slots_fd);
    close_output(sv);
    clu_os_remove_tree(path);
    clu_os_end_self();
  }
}

static void reap(clu_supervisor *sv) {
  clu_pid pid;
  while (clu_os_ended_child(&pid) == CLU_OK) {
    clu_exit how = {0, 0};
    int i = 0;
    while (i < sv->n && sv->nodes[i].pid != pid) i++;
    if (clu_os_reap(pid, i < sv->n, &how) == CLU_AGAIN) break;
    sv->left = 1;
    if (i < sv->n) {
      unsigned char body[20];
      char tmp[1024], gone[1040];
      clu_put32(body, (uint32_t)how.by_signal);
      clu_put32(body + 4, (uint32_t)how.code);
      clu_put32(body + 8, (uint32_t)sv->nodes[i].over_limit);
      clu_put64(body + 12, sv->nodes[i].memory);
      /* who hears of the end finds no folder any more, and does not wait until all in it is removed */
      snprintf(tmp, sizeof tmp, "%s/%s", sv->tmp, sv->nodes[i].leaf);
      snprintf(gone, sizeof gone, "%s-gone", tmp);
      if (rename(tmp, gone) != 0) memcpy(gone, tmp, sizeof tmp);
      clu_supervisor_answer(sv, CLU_K_EXITED, sv->nodes[i].id, body, sizeof body);
      clu_chan_flush(&sv->chan);
      remove_folder(sv, gone);
      forget(sv, i);
    }
  }
}

/* ---- what nodes leave ---- */

static int is_node(void *data, clu_pid pid) {
  clu_supervisor *sv = data;
  for (int i = 0; i < sv->n; i++)
    if (sv->nodes[i].pid == pid) return 1;
  return 0;
}

static int is_alive(void *data, uint64_t id) { return find(data, id) != NULL; }

static int end_orphans(clu_supervisor *sv) {
  clu_orphans o;
  o.family = sv->family;
  o.is_node = is_node;
  o.is_alive = is_alive;
  o.data = sv;
  sv->left = 0;
  sv->looked_for_orphans = clu_os_now();
  return clu_orphans_end(&o, sv->n == 0);
}

static void end_all(clu_supervisor *sv) {
  uint64_t deadline = clu_os_now() + 2000 * MS;
  int term = 0;
  for (int i = 0; i < sv->n; i++) clu_os_kill(sv->nodes[i].pid, CLU_SIG_KILL, 1);
  while (sv->n > 0 && clu_os_now() < deadline) {
    clu_os_wait_readable(sv->signals, 20 * (int64_t)MS);
    clu_os_watch_clear(&term);
    reap(sv);
  }
  while (end_orphans(sv) > 0 && clu_os_now() < deadline) {
    clu_os_wait_readable(sv->signals, 20 * (int64_t)MS);
    clu_os_watch_clear(&term);
    reap(sv);
  }
}

void clu_node_await_end(const clu_boot *b) {
  for (int i = 0; i < 200 && clu_os_getppid() == b->parent; i++) clu_os_pause(25 * MS);
  if (clu_os_getppid() == b->parent) return;
  clu_os_remove_tree(b->tmp);
  /* where the system does not send it: clu_os_on_term() removes the server's folder, too */
  clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
}

/* ---- births ---- */

static void refuse(clu_supervisor *sv, uint64_t id, const char *text) {
  clu_supervisor_answer(sv, CLU_K_REFUSED, id, text, strlen(text));
}

static int add_node(clu_supervisor *sv, uint64_t id, clu_pid pid, int slot, const char *tmp) {
  clu_sv_node *nd;
  if (sv->n == sv->cap) {
    int cap = 2 * sv->cap;
    clu_sv_node *more = realloc(sv->nodes, (size_t)cap * sizeof *more);
    if (!more) return CLU_NOMEM;
    sv->nodes = more;
    sv->cap = cap;
  }
  nd = &sv->nodes[sv->n];
  snprintf(nd->leaf, sizeof nd->leaf, "%s", tmp + strlen(sv->tmp) + 1);
  nd->id = id;
  nd->pid = pid;
  nd->slot = slot;
  nd->kill_at = nd->limit = 0;
  nd->over_limit = 0;
  nd->memory = 0;
  sv->n++;
  return CLU_OK;
}

/* A node by exec: its own temporary folder becomes the folder in which it makes its temporary folder;
 * the arguments carry what was in TMPDIR, so that the node can put it back. */
static int start_by_exec(clu_supervisor *sv, uint64_t id, const char *tmp, int slot, clu_fd fd, clu_pid *pid,
                         clu_err *e) {
  enum { MAX = 64 };
  const char *argv[MAX], *old = getenv("TMPDIR");
  char slot_arg[16], env_tmp[1100], env_mark[sizeof CLU_MARK + 1 + CLU_MARK_DIGITS], **envp, **env = clu_os_environ();
  int n = 0, m = 0, k = 0, rc;
  clu_fd keep[2];
  clu_spawn s;
  while (sv->exec[n] && n < MAX - 5) {
    argv[n] = sv->exec[n];
    n++;
  }
  snprintf(slot_arg, sizeof slot_arg, "%d", slot);
  argv[n++] = slot_arg;
  argv[n++] = old ? "set" : "unset";
  argv[n++] = old ? old : "";
  argv[n++] = tmp;
  argv[n] = NULL;
  while (env[m]) m++;
  envp = malloc((size_t)(m + 3) * sizeof *envp);
  if (!envp) return clu_fail(e, CLU_NOMEM, 0, "not enough memory");
  for (int i = 0; i < m; i++)
    if (strncmp(env[i], "TMPDIR=", 7) != 0 && strncmp(env[i], CLU_MARK "=", sizeof CLU_MARK) != 0) envp[k++] = env[i];
  snprintf(env_tmp, sizeof env_tmp, "TMPDIR=%s", tmp);
  envp[k++] = env_tmp;
  strcpy(env_mark, CLU_MARK "=");
  clu_mark_text(env_mark + sizeof CLU_MARK, sv->family, id);
  envp[k++] = env_mark;
  envp[k] = NULL;
  keep[0] = fd;
  keep[1] = sv->slots_fd;
  memset(&s, 0, sizeof s);
  s.file = argv[0];
  s.argv = (char *const *)argv;
  s.envp = envp;
  s.in = CLU_NO_FD;
  s.out = sv->output == CLU_NO_FD ? 1 : sv->output;
  s.err = sv->output == CLU_NO_FD ? 2 : errors_of(sv);
  s.keep = keep;
  s.nkeep = 2;
  s.follow = 1;
  rc = clu_os_spawn(&s, pid, e);
  free(envp);
  return rc;
}

/* Forks or starts one node. 1: this process is the node. */
static int spawn(clu_supervisor *sv, const clu_msg *m, clu_boot *b) {
  clu_err e = {0, 0, ""};
  clu_fd fd = clu_chan_take_fd(&sv->chan);
  uint32_t slot = CLU_SLOTS;
  int by_exec = 0;
  clu_pid pid = 0;
  unsigned char answer[8];
  if (m->body && m->body->size == 5) {
    by_exec = m->body->data[0] == 1;
    slot = clu_get32(m->body->data + 1);
  }
  if (fd == CLU_NO_FD) {
    refuse(sv, m->seq, "its end of the data socket did not arrive");
    return 0;
  }
  if (slot >= CLU_SLOTS) {
    clu_os_close(fd);
    refuse(sv, m->seq, "a fork server has no more than 65536 nodes");
    return 0;
  }
  clu_shared_reset(sv->shared, (int)slot);
  if (clu_os_make_temp(sv->tmp, b->tmp, sizeof b->tmp, &e) != CLU_OK) goto refused;
  if (by_exec) {
    if (start_by_exec(sv, m->seq, b->tmp, (int)slot, fd, &pid, &e) != CLU_OK) goto no_process;
  } else {
    clu_pid me = clu_os_getpid();
    if (clu_os_fork(&pid, &e) != CLU_OK) goto no_process;
    if (pid == 0) {
      /* Only descriptors are given back here: writing to the heap would copy shared pages. The
       * control channel above all: while a node held it, nobody would see this server die. */
      clu_os_close(sv->chan.fd);
      for (int i = 0; i < sv->chan.nfds; i++) clu_os_close(sv->chan.fds[i]);
      clu_poller_free(sv->poller);
      clu_os_close(sv->slots_fd);
      if (sv->output != CLU_NO_FD) clu_os_redirect_output(sv->output, errors_of(sv));
      close_output(sv);
      clu_mark_self(sv->family, m->seq);
      b->id = m->seq;
      b->fd = fd;
      clu_boot_slot(b, sv->shared, (int)slot);
      b->parent = me;
      clu_os_on_term(me, sv->tmp); /* with this server gone, its folder is of no more use either */
      if (clu_os_follow_parent(me, 1) == CLU_DEAD) clu_os_kill(clu_os_getpid(), CLU_SIG_TERM, 0);
      return 1;
    }
  }
  clu_os_close(fd);
  if (add_node(sv, m->seq, pid, (int)slot, b->tmp) != CLU_OK) {
    clu_exit how;
    clu_os_kill(pid, CLU_SIG_KILL, 1);
    clu_os_reap(pid, 1, &how);
    clu_os_remove_tree(b->tmp);
    refuse(sv, m->seq, "not enough memory");
    return 0;
  }
  clu_put64(answer, (uint64_t)pid);
  clu_supervisor_answer(sv, CLU_K_SPAWNED, m->seq, answer, sizeof answer);
  return 0;
no_process:
  clu_os_remove_tree(b->tmp);
refused:
  clu_os_close(fd);
  refuse(sv, m->seq, e.text);
  return 0;
}

/* ---- the loop ---- */

/* 1: the caller has to do something, `ev` says what. */
static int handle(clu_supervisor *sv, clu_msg *m, clu_sv_event *ev) {
  clu_sv_node *nd;
  switch (m->kind) {
  case CLU_K_SETUP:
  case CLU_K_SETTINGS:
    ev->what = m->kind == CLU_K_SETUP ? CLU_SV_SETUP : CLU_SV_SETTINGS;
    ev->msg = *m;
    m->body = NULL;
    return 1;
  case CLU_K_OUTPUT:
    close_output(sv);
    sv->output = clu_chan_take_fd(&sv->chan);
    return 0;
  case CLU_K_ERRORS:
    sv->errors = clu_chan_take_fd(&sv->chan);
    return 0;
  case CLU_K_SPAWN:
    sv->idle_since = clu_os_now();
    if (!spawn(sv, m, &ev->node)) return 0;
    ev->what = CLU_SV_CHILD;
    return 1;
  case CLU_K_CANCEL:
    if ((nd = find(sv, m->seq)) && m->body && m->body->size == 8) {
      sv->shared->cancel[nd->slot] = clu_get64(m->body->data);
      clu_os_kill(nd->pid, CLU_SIG_INT, 1);
      clu_os_kill(nd->pid, CLU_SIG_NUDGE, 0); /* R may be in system(), which ignores the other */
    }
    clu_supervisor_answer(sv, CLU_K_SIGNALLED, m->seq, NULL, 0);
    return 0;
  case CLU_K_STOP:
    if ((nd = find(sv, m->seq)) && m->body && m->body->size == 4) {
      uint32_t grace = clu_get32(m->body->data);
      if (grace == 0)
        clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
      else
        nd->kill_at = clu_os_now() + grace * MS;
    }
    return 0;
  case CLU_K_LIMIT:
    if ((nd = find(sv, m->seq)) && m->body && m->body->size == 8) {
      nd->limit = clu_get64(m->body->data);
      if (nd->limit > INT64_MAX) nd->limit = 0; /* nobody has more */
    }
    return 0;
  case CLU_K_QUIT:
    ev->what = CLU_SV_END;
    return 1;
  default:
    return 0;
  }
}

/* Kills whoever has more memory than it may. Whether there is somebody with a limit. */
static int memory_limits(clu_supervisor *sv, uint64_t now) {
  int some = 0, look = now - sv->looked_at_memory >= MEMORY_EVERY;
  for (int i = 0; i < sv->n; i++) {
    clu_sv_node *nd = &sv->nodes[i];
    int64_t has;
    if (!nd->limit || nd->over_limit) continue;
    some = 1;
    if (!look || (has = clu_os_process_memory(nd->pid, (int64_t)nd->limit)) <= (int64_t)nd->limit) continue;
    nd->over_limit = 1;
    nd->memory = (uint64_t)has;
    clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
  }
  if (look) sv->looked_at_memory = now;
  return some;
}

/* Kills whoever has outstayed its grace, or has too much; nanoseconds until the next deadline, -1 for none. */
static int64_t deadlines(clu_supervisor *sv) {
  uint64_t now = clu_os_now(), next = memory_limits(sv, now) ? sv->looked_at_memory + MEMORY_EVERY : 0;
  if (sv->left && now - sv->looked_for_orphans >= ORPHANS_EVERY) end_orphans(sv);
  if (sv->left && (!next || sv->looked_for_orphans + ORPHANS_EVERY < next)) next = sv->looked_for_orphans + ORPHANS_EVERY;
  for (int i = 0; i < sv->n; i++) {
    clu_sv_node *nd = &sv->nodes[i];
    if (!nd->kill_at) continue;
    if (nd->kill_at <= now) {
      clu_os_kill(nd->pid, CLU_SIG_KILL, 1);
      nd->kill_at = now + 1000 * MS; /* should it take longer, once more */
    }
    if (!next || nd->kill_at < next) next = nd->kill_at;
  }
  if (sv->n == 0 && sv->idle_ns) {
    uint64_t idle_end = sv->idle_since + sv->idle_ns;
    if (!next || idle_end < next) next = idle_end;
  }
  if (sv->n == 0 && sv->quiet_ns) {
    uint64_t quiet = sv->idle_since + sv->quiet_ns;
    if (!next || quiet < next) next = quiet;
  }
  if (!next) return -1;
  return next > now ? (int64_t)(next - now) : 0;
}

int clu_supervisor_serve(clu_supervisor *sv, clu_sv_event *ev, clu_err *e) {
  int closed = 0, busy = 0; /* busy: messages handled since the last flush */
  sv->idle_since = clu_os_now(); /* the caller may have been at work */
  for (;;) {
    clu_event got[2];
    clu_msg m;
    int term = 0, n = 0, rc, more = 0;
    unsigned interest;
    int64_t wait;

    clu_os_watch_clear(&term);
    if (term) closed = 1;
    reap(sv);
    if (!closed) {
      int r = clu_chan_next(&sv->chan, &m);
      if (r < 0) closed = 1;
      if (r == 1) {
        int act = handle(sv, &m, ev);
        clu_blob_unref(m.body);
        if (act && ev->what == CLU_SV_CHILD) return CLU_OK;
        if (act && ev->what == CLU_SV_END)
          closed = 1;
        else if (act)
          return CLU_OK;
        /* many requests for nodes come in a row: answer them together, the master has to be woken
         * for each answer and takes time from the forks */
        if (++busy < 16 && ((rc = clu_chan_fill(&sv->chan)) == CLU_OK || rc == CLU_AGAIN)) {
          if (rc == CLU_OK) continue;
        }
        more = 1;
      }
    }
    busy = 0;
    rc = closed ? CLU_EOF : clu_chan_flush(&sv->chan);
    if (rc != CLU_OK && rc != CLU_AGAIN) closed = 1;
    if (closed) {
      end_all(sv);
      ev->what = CLU_SV_END;
      return CLU_OK;
    }
    interest = CLU_READ | (rc == CLU_AGAIN ? CLU_WRITE : 0);
    if (interest != sv->interest) {
      if ((rc = clu_poller_set(sv->poller, sv->chan.fd, 1, interest, WATCH_CONTROL, e)) != CLU_OK)
        return rc;
      sv->interest = interest;
    }
    if (more) continue;
    wait = deadlines(sv);
    if (sv->n == 0 && sv->idle_ns && clu_os_now() >= sv->idle_since + sv->idle_ns) {
      clu_supervisor_answer(sv, CLU_K_BYE, 0, NULL, 0);
      clu_chan_flush(&sv->chan);
      closed = 1;
      continue;
    }
    if (sv->n == 0 && sv->quiet_ns && clu_os_now() >= sv->idle_since + sv->quiet_ns) {
      sv->quiet_ns = 0;
      ev->what = CLU_SV_QUIET;
      return CLU_OK;
    }
    if ((rc = clu_poller_wait(sv->poller, got, 2, &n, wait, e)) != CLU_OK) return rc;
    for (int i = 0; i < n; i++) {
      if (got[i].id != WATCH_CONTROL || !(got[i].ready & CLU_READ)) continue;
      rc = clu_chan_fill(&sv->chan);
      if (rc != CLU_OK && rc != CLU_AGAIN) closed = 1;
    }
  }
}
