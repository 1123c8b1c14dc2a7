/* Writes the seeds of all targets below the folder that is its argument: what a good peer would
 * send. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/wire/frame.h"
#include "core/wire/handshake.h"

static unsigned char bytes[8192];
static size_t len;

static void add(const void *p, size_t n) {
  memcpy(bytes + len, p, n);
  len += n;
}

static void add_byte(int b) { bytes[len++] = (unsigned char)b; }

static void frame(int kind, int flags, uint32_t n, uint64_t seq, uint64_t total) {
  unsigned char h[CLU_HEADER];
  clu_header x;
  x.kind = (uint8_t)kind;
  x.flags = (uint8_t)flags;
  x.len = n;
  x.seq = seq;
  x.total = total;
  clu_header_put(h, &x);
  add(h, sizeof h);
  for (uint32_t i = 0; i < n; i++) add_byte((int)(i & 255));
}

static void save(const char *dir, const char *target, int number) {
  char path[1024];
  FILE *f;
  snprintf(path, sizeof path, "%s/%s", dir, target);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/seed-%d", dir, target, number);
  if (!(f = fopen(path, "wb")) || fwrite(bytes, 1, len, f) != len || fclose(f)) exit(1);
  len = 0;
}

int main(int argc, char **argv) {
  static const unsigned char secret[CLU_SECRET] = "another one than the target's..",
                             nonce[CLU_NONCE] = {7};
  const char *dir = argc > 1 ? argv[1] : ".";
  clu_hs m, n;
  mkdir(dir, 0777);
  for (int k = 0; k < 4; k++)
    for (int stream = 0; stream < 2; stream++) {
      add_byte(14);
      if (!stream) add_byte(k == 0 ? 0 : 7 * k);
      frame(CLU_K_CALL, 0, (uint32_t)(100 * k), 1, (uint64_t)(100 * k));
      frame(CLU_K_VALUE, 0, 50, 2, 150); /* in three frames, or given up after the first */
      if (k == 2) {
        frame(CLU_K_VALUE, CLU_ABORT, 0, 2, 150);
      } else {
        frame(CLU_K_VALUE, 0, 50, 2, 150);
        frame(CLU_K_VALUE, 0, 50, 2, 150);
      }
      frame(CLU_K_DONE, 0, 0, 3, 0);
      if (k == 3) frame(CLU_K_CALL, 0, 10, 4, (uint64_t)1 << 62); /* more than anybody has */
      save(dir, stream ? "stream" : "frames", k);
    }
  for (int k = 0; k < 2; k++) { /* what the other side of a handshake says first */
    clu_hs_master(&m, secret, nonce, 4711, 1000);
    clu_hs_node(&n, secret, nonce, 3, 99, 0x040202, 1000);
    add_byte(k);
    add_byte(20 * k);
    if (k == 0) {
      add(m.out, m.out_left);
    } else {
      clu_hs_feed(&n, m.out, m.out_left);
      add(n.out, n.out_left);
    }
    for (int i = 0; i < 60; i++) add_byte(i);
    save(dir, "handshake", k);
  }
  return 0;
}
