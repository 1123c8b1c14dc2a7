/* A node that is the bridge of a run on several hosts, on one of them: core/mesh/bridge.h. Its
 * channel is its connection to the hub in the session.
 *
 * It waits for two things, the channel and a word in memory, and there is no wait for both. So a
 * thread waits for the word, and writes a byte into a socket when it has changed; then it waits
 * until that was seen. This is no node that runs user's code, and ends with the run.
 *
 * No function of R is called while the run is under way.
 */
#include "r/node/channel-only.h"

#include "core/base/os-words.h"
#include "core/base/spins.h"
#include "core/mesh/bridge-message.h"
#include "core/mesh/bridge.h"

/* ns without anything to do, after which it looks whether all wait. */
static const int64_t IDLE = 200000000;

static struct {
  clu_channel_only only;
  clu_bridge *bridge;
  clu_watch_id woken;
  clu_fd pair[2]; /* the thread writes to the second */
  _Atomic uint32_t *word, *asleep, seen, is_over;
} self;

/* ---- the thread ---- */

static void watch_word(void *data) {
  const clu_iov one = {"", 1};
  size_t put;
  (void)data;
  while (!atomic_load(&self.is_over)) {
    uint32_t seen = atomic_load(&self.seen);
    if (atomic_load(self.word) == seen) {
      atomic_store(self.asleep, 1);
      clu_os_word_wait(self.word, seen, CLU_SLICE);
      atomic_store(self.asleep, 0);
      continue;
    }
    if (clu_os_writev(self.pair[1], &one, 1, NULL, 0, &put) != CLU_OK) return;
    while (atomic_load(&self.seen) == seen && !atomic_load(&self.is_over))
      clu_os_word_wait(&self.seen, seen, CLU_SLICE);
  }
}

/* ---- the hub ---- */

static void say(void *to, clu_blob *body) {
  (void)to;
  clu_only_say(&self.only, body);
}

static void say_text(int kind, const char *text) {
  clu_bridge_text t;
  clu_bridge_begin(&t, kind);
  clu_bridge_bytes(&t, text, strlen(text));
  if (t.b) say(NULL, t.b);
  clu_blob_unref(t.b);
}

static int hear(clu_blob *body) { return clu_bridge_heard(self.bridge, body); }

/* ---- the run ---- */

static void on_woken(void *data, unsigned ready) {
  unsigned char some[16];
  const clu_iov room = {some, sizeof some};
  size_t got;
  (void)data;
  (void)ready;
  clu_os_readv(self.pair[0], &room, 1, &got, NULL, NULL);
  atomic_store(&self.seen, atomic_load(self.word));
  clu_os_word_wake(&self.seen, 1);
}

static void serve(void) {
  clu_thread thread;
  int has_thread = 0, rc = CLU_OK;
  self.word = clu_bridge_word(self.bridge, &self.asleep);
  if (self.word) {
    self.seen = atomic_load(self.word);
    rc = clu_os_thread_start(watch_word, NULL, &thread, NULL);
    has_thread = rc == CLU_OK;
  }
  if (rc == CLU_OK)
    say_text(CLU_BRIDGE_OPEN, clu_bridge_path(self.bridge));
  else
    say_text(CLU_BRIDGE_FAILED, "no thread can be started");
  while (!self.only.ended) {
    int was_idle;
    if (clu_only_pump(&self.only, IDLE, NULL) != CLU_OK) break;
    was_idle = clu_loop_events(&self.only.loop) == 0;
    if (!self.only.ended) clu_bridge_turn(self.bridge, was_idle);
  }
  atomic_store(&self.is_over, 1);
  if (!has_thread) return;
  clu_os_word_wake(&self.seen, 1);
  clu_os_word_wake(self.word, 1);
  clu_os_thread_join(thread);
}

static int begin(int count, const char *is_here, const char *folder, clu_err *e) {
  int rc;
  self.pair[0] = self.pair[1] = CLU_NO_FD;
  rc = clu_os_pair(self.pair, e);
  if (rc == CLU_OK) rc = clu_only_begin(&self.only, CLU_K_MESH, hear, e);
  if (rc == CLU_OK)
    rc = clu_loop_watch(&self.only.loop, self.pair[0], CLU_READ, on_woken, NULL, &self.woken, e);
  if (rc == CLU_OK) rc = clu_bridge_new(count, is_here, folder, say, NULL, &self.bridge, e);
  return rc;
}

/* Is the bridge of a run until that is over. `is_here`: logical, by rank; `folder`: this node's
 * own. */
SEXP ffi_bridge_serve(SEXP is_here, SEXP folder) {
  int count = Rf_length(is_here);
  char *here = R_alloc((size_t)count, 1);
  clu_err e = {0};
  for (int i = 0; i < count; i++) here[i] = (char)(LOGICAL(is_here)[i] == 1);
  if (begin(count, here, CHAR(STRING_ELT(folder, 0)), &e) == CLU_OK)
    serve();
  else
    say_text(CLU_BRIDGE_FAILED, e.text);
  clu_only_end(&self.only);
  for (int i = 0; i < 2; i++)
    if (self.pair[i] != CLU_NO_FD) clu_os_close(self.pair[i]);
  clu_bridge_free(self.bridge);
  memset(&self, 0, sizeof self);
  return R_NilValue;
}
