/* Writes the seeds of all targets below the folder that is its argument: what a good peer would
 * send. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/journal/record.h"
#include "core/link/link.h"
#include "core/mesh/bridge-message.h"
#include "core/mesh/mesh-layout.h"
#include "core/net/tls.h"
#include "core/wire/frame.h"
#include "core/wire/handshake.h"

static unsigned char bytes[8192];
static size_t len;

static void add(const void *p, size_t n) {
  if (n == 0) return;
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

/* Saves what each side of TLS sends first: the client at once, the server when it has heard
 * that. */
static void save_tls(const char *dir) {
  char own[2][CLU_TLS_TEXT], certificate[2][CLU_TLS_TEXT];
  clu_tls_keys *k[2];
  clu_conn *s[2];
  clu_fd pair[2][2];
  for (int i = 0; i < 2; i++)
    if (clu_tls_make_identity(own[i], certificate[i], NULL) != CLU_OK) exit(1);
  for (int i = 0; i < 2; i++) {
    if (clu_tls_keys_new(own[i], certificate[1 - i], &k[i], NULL) != CLU_OK ||
        clu_os_pair(pair[i], NULL) != CLU_OK ||
        (i ? clu_conn_tls_client : clu_conn_tls_server)(pair[i][0], k[i], &s[i], NULL) != 0)
      exit(1);
  }
  for (int i = 1; i >= 0; i--) { /* the client first */
    unsigned char said[4096];
    clu_iov iov = {said, sizeof said};
    size_t n = 0;
    clu_conn_handshake(s[i]);
    if (clu_os_readv(pair[i][1], &iov, 1, &n, NULL, NULL) != CLU_OK) exit(1);
    for (int at_once = 0; at_once < 2; at_once++) {
      add_byte(i); /* what the client says goes to a server */
      add_byte(at_once ? 255 : 1);
      add(said, n);
      save(dir, "tls", 2 * i + at_once);
    }
    iov.len = n;
    if (i == 1 && clu_os_writev(pair[0][1], &iov, 1, NULL, 0, &n) != CLU_OK) exit(1);
  }
}

/* A step of fuzz-link.c. */
static void step(int what, int stream, const void *p, size_t n) {
  unsigned char head[4] = {(unsigned char)what, (unsigned char)stream, (unsigned char)n,
                           (unsigned char)(n >> 8)};
  add(head, sizeof head);
  add(p, n);
}

static void step_frame(int what, int stream, int kind, uint32_t n, uint64_t seq) {
  static unsigned char whole[CLU_HEADER + 1000];
  size_t before = len, k;
  frame(kind, 0, n, seq, n);
  k = len - before;
  memcpy(whole, bytes + before, k);
  len = before;
  step(what, stream, whole, k);
}

/* A node's life and a segment, as a host gets them and as the session does. */
static void save_link(const char *dir) {
  static const unsigned char open[13] = {0, 0, 0, 0, 0, 0, 0, 0, 1}, one[8] = {1},
                             size[16] = {100, 0, 0, 0, 0, 0, 0, 0, 1}, piece[100] = {5},
                             credit[8] = {0, 1}, use[72] = {9};
  for (int near = 0; near < 2; near++) {
    add_byte(near);
    if (!near) step(CLU_L_OPEN, 1, open, sizeof open);
    step_frame(CLU_L_BYTES, 0, near ? CLU_K_SPAWNED : CLU_K_SPAWN, 20, 1);
    step(CLU_L_SEGMENT, 1, size, sizeof size);
    step(CLU_L_PIECE, 1, piece, sizeof piece);
    step(CLU_L_BRING, 1, one, sizeof one);
    step_frame(CLU_L_BYTES, 1, CLU_K_CALL, 50, 9);
    step_frame(64, 0, near ? CLU_K_SETTINGS : CLU_K_READY, 40, 3);
    step(CLU_L_CREDIT, 1, credit, 4);
    step(CLU_L_SEGMENT_CREDIT, 1, credit, sizeof credit);
    step(CLU_L_FORGET, 1, NULL, 0);
    step(CLU_L_AFTER, 0, one, sizeof one);
    if (near)
      step(CLU_L_USE, 1, use, sizeof use);
    else
      step(CLU_L_ASK, 1, NULL, 0);
    step_frame(CLU_L_BYTES, 0, CLU_K_EXITED, 8, 1);
    step(CLU_L_ACK, 1, NULL, 0);
    step(CLU_L_CLOSE, 1, NULL, 0);
    step(CLU_L_BYE, 0, "it ends", 7);
    save(dir, "link", near);
  }
}

static void record(int type, uint64_t stream, uint64_t number, uint32_t n) {
  unsigned char h[CLU_LINK_HEADER] = {0};
  h[0] = (unsigned char)type;
  clu_put32(h + 4, n);
  clu_put64(h + 8, stream);
  clu_put64(h + 16, number);
  add(h, sizeof h);
}

/* Saves what the other side of a link says first. */
static void save_records(const char *dir) {
  for (int k = 0; k < 4; k++) {
    unsigned char version[12] = {CLU_LINK_VERSION};
    clu_put64(version + 4, 77);
    add_byte(16 * k + k);
    add_byte(10 * k);
    if (!(k & 2)) {
      record(CLU_L_RESUME, 0, 0, sizeof version);
      add(version, sizeof version);
    }
    record(CLU_L_BYTES, 3, 1, 20);
    for (int i = 0; i < 20; i++) add_byte(i);
    record(CLU_L_ACK, (uint64_t)k, 0, 0);
    record(CLU_L_CLOSE, 3, 2, 0);
    if (k == 3) record(CLU_L_BYE, 0, 0, 0);
    save(dir, "records", k);
  }
}

/* Records as a journal has them, behind the head that the target writes; the last has a head of its
 * own. */
static void save_journal(const char *dir) {
  for (int k = 0; k < 4; k++) {
    clu_journal_head head = {.salt = 77, .made = 1, .nr = 3, .r = "B"};
    unsigned char bytes[CLU_JOURNAL_HEAD], payload[64] = {0};
    add_byte(k < 3);
    clu_journal_head_put(bytes, &head);
    if (k == 3) add(bytes, sizeof bytes);
    for (int i = 0; i < 5; i++) {
      clu_record r = {
          .kind = (uint8_t)(i % 4 + 1), .size = (uint64_t)(8 + 5 * i * k), .attempt = 1};
      unsigned char h[CLU_RECORD_HEAD];
      r.key[0] = (unsigned char)i;
      if (r.size > sizeof payload) r.size = sizeof payload;
      clu_record_put(h, &r, payload, head.salt);
      add(h, sizeof h);
      add(payload, (size_t)(clu_record_length(r.size) - CLU_RECORD_HEAD));
    }
    save(dir, "journal", k);
  }
}

/* Writes as one rank does for another, behind where it lies in the ring: messages that are whole,
 * with a tag, in two pieces, and with segments that are none. */
static void ring_record(const record_head *h, const char *tag, size_t nbody) {
  static const unsigned char zeros[64];
  uint64_t n = sizeof *h + h->ntag + 8 * h->nsegments + nbody;
  add(&n, sizeof n);
  add(h, sizeof *h);
  add(tag, h->ntag);
  for (size_t left = n - sizeof *h - h->ntag + (8 - n % 8) % 8; left > 0; left--) add(zeros, 1);
}
static void save_mesh(const char *dir) {
  for (int k = 0; k < 4; k++) {
    const uint64_t skip = RING_SKIP;
    record_head whole = {.is_first = 1, .ntag = 3, .total = 40, .weight = 40},
                first = {.is_first = 1, .total = 40, .weight = 40}, then = {0},
                with = {.is_first = 1, .nsegments = (uint32_t)k, .is_apart = k > 2};
    uint16_t at = k == 1 ? (uint16_t)(PAIR_BYTES / 16 - 10) : 0;
    add_byte(at >> 8);
    add_byte(at & 255);
    ring_record(&whole, "tag", 40);
    if (k == 1) add(&skip, sizeof skip);
    ring_record(&first, "", 15);
    ring_record(&then, "", 25);
    ring_record(&with, "", 0);
    save(dir, "mesh", k);
  }
}

static void told(clu_bridge_text *t) {
  add_byte((int)(t->b->size & 255));
  add_byte((int)(t->b->size >> 8));
  add(t->b->data, t->b->size);
  clu_blob_unref(t->b);
}

static void told_message(int from, int to, int segments) {
  clu_bridge_text t;
  clu_bridge_begin(&t, CLU_BRIDGE_SEND);
  clu_bridge_number(&t, (uint64_t)from, 4);
  clu_bridge_number(&t, 1, 4);
  clu_bridge_number(&t, (uint64_t)to, 4);
  clu_bridge_number(&t, 2, 1);
  clu_bridge_bytes(&t, "ab", 2);
  clu_bridge_number(&t, (uint64_t)segments, 1);
  for (int i = 0; i < segments; i++) clu_bridge_number(&t, 3, 8);
  clu_bridge_number(&t, 5, 8);
  clu_bridge_bytes(&t, "a body and segments", 5 + 3 * (size_t)segments);
  told(&t);
}

static void told_state(int rank, int state) {
  clu_bridge_text t;
  clu_bridge_begin(&t, CLU_BRIDGE_STATE);
  clu_bridge_number(&t, (uint64_t)rank, 4);
  clu_bridge_number(&t, (uint64_t)state, 1);
  clu_bridge_number(&t, 1, 1);
  clu_bridge_number(&t, 9, 4);
  clu_bridge_number(&t, 4711, 8);
  told(&t);
}

static void told_meeting(int rank) {
  clu_meeting why = {
      .kind = CLU_MEET_RESULT + 7, .op = CLU_REDUCE_SUM, .type = CLU_REDUCE_INT, .n = 2};
  clu_bridge_text t;
  clu_bridge_begin(&t, CLU_BRIDGE_MEET);
  clu_bridge_number(&t, (uint64_t)rank, 4);
  clu_bridge_meeting(&t, &why);
  clu_bridge_bytes(&t, "12345678", 8);
  told(&t);
}

static void told_waits(int kind, int rank) {
  clu_rank_info is = {.waits = CLU_WAIT_MESSAGE, .wait_for = 1, .has_tag = 1, .tag = "reply"};
  clu_bridge_text t;
  clu_bridge_begin(&t, kind);
  clu_bridge_number(&t, kind == CLU_BRIDGE_QUIET ? 0 : CLU_AGAIN, kind == CLU_BRIDGE_QUIET ? 8 : 1);
  if (kind == CLU_BRIDGE_VERDICT) clu_bridge_number(&t, 0, 8);
  clu_bridge_wait(&t, rank, &is);
  told(&t);
}

static void save_bridge(const char *dir) {
  clu_bridge_text t;
  add_byte(0); /* to the hub, from hosts 0 and 1 in turn */
  told_message(0, 1, 1);
  told_message(1, 0, 0);
  told_state(2, CLU_RANK_ENDED);
  told_meeting(1);
  told_meeting(0);
  told_waits(CLU_BRIDGE_QUIET, 1);
  told_waits(CLU_BRIDGE_QUIET, 0);
  save(dir, "bridge", 0);
  add_byte(1); /* to the bridge of the first host */
  told_state(1, CLU_RANK_HERE);
  told_message(1, 0, 2);
  clu_bridge_begin(&t, CLU_BRIDGE_MET);
  clu_bridge_number(&t, 0, 1);
  clu_bridge_bytes(&t, "12345678", 8);
  told(&t);
  clu_bridge_begin(&t, CLU_BRIDGE_TAKEN);
  clu_bridge_number(&t, 1, 4);
  clu_bridge_number(&t, 0, 4);
  clu_bridge_number(&t, 1000, 8);
  told(&t);
  told_state(3, CLU_RANK_DEAD);
  told_waits(CLU_BRIDGE_VERDICT, 3);
  save(dir, "bridge", 1);
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
    clu_hs_session(&m, secret, nonce, 4711, 1000);
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
  save_tls(dir);
  save_link(dir);
  save_records(dir);
  save_journal(dir);
  save_mesh(dir);
  save_bridge(dir);
  return 0;
}
