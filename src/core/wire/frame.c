#include "core/wire/frame.h"

#include "core/base/err.h"
#include "core/base/os.h"

void clu_header_put(unsigned char out[CLU_HEADER], const clu_header *h) {
  out[0] = CLU_MAGIC;
  out[1] = h->kind;
  out[2] = h->flags;
  out[3] = h->fds;
  clu_put32(out + 4, h->len);
  clu_put64(out + 8, h->seq);
  clu_put64(out + 16, h->total);
}

int clu_header_get(const unsigned char in[CLU_HEADER], clu_header *h) {
  h->kind = in[1];
  h->flags = in[2];
  h->fds = in[3];
  h->len = clu_get32(in + 4);
  h->seq = clu_get64(in + 8);
  h->total = clu_get64(in + 16);
  if (in[0] != CLU_MAGIC || h->fds > CLU_MAX_FDS || h->kind == 0 || h->kind >= CLU_K_AFTER_LAST ||
      (h->flags & ~CLU_ABORT) || h->len > CLU_FRAME_MAX || h->len > h->total ||
      h->total > INT64_MAX || ((h->flags & CLU_ABORT) && h->len) || (h->fds && !h->len))
    return CLU_PROTO;
  return CLU_OK;
}
