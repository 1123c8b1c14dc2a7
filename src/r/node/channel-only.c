#include "r/node/channel-only.h"

void clu_only_say(clu_channel_only *x, clu_blob *body) {
  int rc = clu_chan_send(&clu_me.chan, x->kind, 0, body, CLU_NO_FD);
  if (rc == CLU_OK) rc = clu_chan_flush(&clu_me.chan);
  while (rc == CLU_AGAIN) rc = clu_chan_flush(&clu_me.chan);
  if (rc != CLU_OK) x->ended = 1;
}

static void hear(clu_channel_only *x) {
  uint64_t n = clu_me.chan.cur.total;
  clu_blob *body = n <= SIZE_MAX / 2 ? clu_blob_new((size_t)n) : NULL;
  if (!body || (n && clu_blob_append(body, NULL, (size_t)n) != 0) ||
      clu_chan_read(&clu_me.chan, body->data, (size_t)n) != CLU_OK || x->hear(body) != CLU_OK)
    x->ended = 1;
  clu_blob_unref(body);
}

/* Takes the messages that have been read from the descriptor. The number of them. */
static int take(clu_channel_only *x) {
  clu_msg m;
  int rc = 0, n = 0;
  while (!x->ended && (rc = clu_chan_begin(&clu_me.chan, &m)) > 0) {
    if (m.kind == x->kind) hear(x);
    if (m.kind == CLU_K_DONE) x->ended = clu_me.asked_to_end = clu_me.closed = 1;
    if (clu_chan_skip(&clu_me.chan) != CLU_OK) x->ended = clu_me.closed = 1;
    n++;
  }
  if (rc < 0) x->ended = clu_me.closed = 1;
  return n;
}

static void on_channel(void *data, unsigned ready) {
  clu_channel_only *x = data;
  int rc = clu_chan_fill(&clu_me.chan);
  (void)ready;
  if (rc != CLU_OK && rc != CLU_AGAIN) x->ended = clu_me.closed = 1;
  take(x);
}

int clu_only_pump(clu_channel_only *x, int64_t ns, clu_err *e) {
  return clu_loop_pump(&x->loop, take(x) || x->ended ? 0 : ns, e);
}

int clu_only_begin(clu_channel_only *x, uint8_t kind, int (*heard)(clu_blob *), clu_err *e) {
  int rc;
  x->kind = kind;
  x->hear = heard;
  rc = clu_loop_init(&x->loop, e);
  if (rc != CLU_OK) return rc;
  return clu_loop_watch(&x->loop, clu_me.chan.fd, CLU_READ, on_channel, x, &x->channel, e);
}

void clu_only_end(clu_channel_only *x) { clu_loop_fini(&x->loop); }
