#include "core/loop/channel-watch.h"

void clu_chan_watch_flush(clu_loop *l, clu_chan *c, clu_watch_id id) {
  int rc;
  if (c->fd == CLU_NO_FD) return;
  rc = clu_chan_flush(c);
  clu_loop_interest(l, id, CLU_READ | (rc == CLU_AGAIN ? CLU_WRITE : 0), NULL);
}

void clu_chan_watch_close(clu_loop *l, clu_chan *c, clu_watch_id *id) {
  clu_loop_unwatch(l, id);
  if (c->fd != CLU_NO_FD) clu_chan_fini(c);
}
