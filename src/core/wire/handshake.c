#include "core/wire/handshake.h"

#include <string.h>

#include "core/wire/frame.h"
#include "core/base/os.h"

enum { HELLO = 1, ANSWER, WELCOME, JOIN };
enum { HEAD = 8, PROOF = 32 };

static const size_t sizes[] = {0, CLU_HS_HELLO, CLU_HS_ANSWER, CLU_HS_WELCOME, CLU_HS_JOIN};

static void put_head(unsigned char *m, int type) {
  memcpy(m, "clutch", 6);
  m[6] = CLU_HS_VERSION;
  m[7] = (unsigned char)type;
}

static int fail(clu_hs *r, int why) {
  r->state = CLU_HS_FAILED;
  r->why = why;
  r->out_left = 0;
  return r->state;
}

/* The proof of message `step`: over its label, all that was said before, and the message up to the proof. */
static int proof(const clu_hs *r, int step, unsigned char out[PROOF]) {
  static const char *const labels[] = {"", "", "clutch node is ", "clutch master i", "clutch node join"};
  unsigned char said[16 + CLU_HS_HELLO + CLU_HS_ANSWER + CLU_HS_WELCOME + CLU_HS_JOIN];
  const unsigned char *const parts[] = {NULL, r->hello, r->answer, r->welcome, r->join};
  size_t n = 16;
  memset(said, 0, 16);
  memcpy(said, labels[step], strlen(labels[step]));
  for (int i = HELLO; i <= step; i++) {
    size_t part = i == step ? sizes[i] - PROOF : sizes[i];
    memcpy(said + n, parts[i], part);
    n += part;
  }
  return clu_os_hmac_sha256(r->secret, CLU_SECRET, said, n, out);
}

/* Message `step` is complete but for its proof: adds it and has it written. */
static int say(clu_hs *r, int step, unsigned char *m) {
  if (proof(r, step, m + sizes[step] - PROOF) != CLU_OK) return fail(r, CLU_HS_NO_CRYPTO);
  r->out = m;
  r->out_left = sizes[step];
  return r->state;
}

void clu_hs_master(clu_hs *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint64_t cluster,
                     uint64_t deadline) {
  memset(r, 0, sizeof *r);
  r->is_master = 1;
  r->secret = secret;
  r->deadline = deadline;
  put_head(r->hello, HELLO);
  clu_put64(r->hello + HEAD, cluster);
  memcpy(r->hello + HEAD + 8, nonce, CLU_NONCE);
  r->out = r->hello;
  r->out_left = sizeof r->hello;
  r->step = ANSWER;
}

void clu_hs_node(clu_hs *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint32_t rank,
                   uint64_t pid, uint32_t r_version, uint64_t deadline) {
  memset(r, 0, sizeof *r);
  r->secret = secret;
  r->deadline = deadline;
  r->rank = rank;
  r->pid = pid;
  r->r_version = r_version;
  put_head(r->answer, ANSWER);
  memcpy(r->answer + HEAD, nonce, CLU_NONCE);
  clu_put32(r->answer + HEAD + CLU_NONCE, rank);
  clu_put32(r->answer + HEAD + CLU_NONCE + 4, r_version);
  clu_put64(r->answer + HEAD + CLU_NONCE + 8, pid);
  r->step = HELLO;
}

size_t clu_hs_want(const clu_hs *r) {
  return r->state == CLU_HS_UNDER_WAY ? sizes[r->step] - r->have : 0;
}

static unsigned char *awaited(clu_hs *r) {
  return r->step == HELLO ? r->hello : r->step == ANSWER ? r->answer : r->step == WELCOME ? r->welcome : r->join;
}

/* As soon as it can be told that these are not the bytes of the message that is awaited. */
static int head_fits(clu_hs *r, const unsigned char *m) {
  unsigned char want[HEAD];
  size_t n = r->have < HEAD ? r->have : HEAD;
  put_head(want, r->step);
  if (memcmp(m, want, n < 6 ? n : 6) != 0) return fail(r, CLU_HS_GARBAGE), 0;
  if (n >= 7 && m[6] != want[6]) return fail(r, CLU_HS_VERSION_DIFFERS), 0;
  if (n >= 8 && m[7] != want[7]) return fail(r, CLU_HS_GARBAGE), 0;
  return 1;
}

static int proof_holds(clu_hs *r, int step, const unsigned char *m) {
  unsigned char want[PROOF];
  if (proof(r, step, want) != CLU_OK) return fail(r, CLU_HS_NO_CRYPTO), 0;
  if (!clu_os_same_secret(want, m + sizes[step] - PROOF, PROOF)) return fail(r, CLU_HS_NO_PROOF), 0;
  return 1;
}

int clu_hs_feed(clu_hs *r, const void *p, size_t n) {
  unsigned char *m = awaited(r);
  size_t want = clu_hs_want(r);
  if (want == 0) return r->state;
  if (n > want) n = want;
  memcpy(m + r->have, p, n);
  r->have += n;
  if (!head_fits(r, m) || r->have < sizes[r->step]) return r->state;
  r->have = 0;
  switch (r->step) {
  case HELLO:
    r->step = WELCOME;
    return say(r, ANSWER, r->answer);
  case ANSWER:
    if (!proof_holds(r, ANSWER, m)) return r->state;
    r->rank = clu_get32(m + HEAD + CLU_NONCE);
    r->r_version = clu_get32(m + HEAD + CLU_NONCE + 4);
    r->pid = clu_get64(m + HEAD + CLU_NONCE + 8);
    return r->state = CLU_HS_PROVEN;
  case WELCOME:
    if (!proof_holds(r, WELCOME, m)) return r->state;
    r->verdict = (int)clu_get32(m + HEAD);
    if (r->verdict != CLU_HS_WELCOME_TO) return fail(r, CLU_HS_REFUSED);
    put_head(r->join, JOIN);
    r->state = CLU_HS_DONE;
    return say(r, JOIN, r->join);
  default:
    if (!proof_holds(r, JOIN, m)) return r->state;
    return r->state = CLU_HS_DONE;
  }
}

void clu_hs_written(clu_hs *r, size_t n) {
  if (n > r->out_left) n = r->out_left;
  r->out += n;
  r->out_left -= n;
}

int clu_hs_admit(clu_hs *r, int verdict) {
  if (!r->is_master || r->state != CLU_HS_PROVEN) return r->state;
  put_head(r->welcome, WELCOME);
  clu_put32(r->welcome + HEAD, (uint32_t)verdict);
  clu_put32(r->welcome + HEAD + 4, 0);
  r->verdict = verdict;
  r->step = JOIN;
  r->state = CLU_HS_UNDER_WAY;
  return say(r, WELCOME, r->welcome);
}

int clu_hs_closed(clu_hs *r) {
  return r->state == CLU_HS_DONE || r->state == CLU_HS_FAILED ? r->state : fail(r, CLU_HS_CLOSED);
}

int clu_hs_time(clu_hs *r, uint64_t now) {
  if (r->state == CLU_HS_DONE || r->state == CLU_HS_FAILED || now < r->deadline) return r->state;
  return fail(r, CLU_HS_SILENT);
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

int clu_secret_from_hex(const char *hex, unsigned char out[CLU_SECRET]) {
  for (int i = 0; i < CLU_SECRET; i++) {
    int a = digit(hex[2 * i]), b = a < 0 ? -1 : digit(hex[2 * i + 1]);
    if (b < 0) return 0;
    out[i] = (unsigned char)(16 * a + b);
  }
  return 1;
}

void clu_secret_to_hex(const unsigned char *secret, char out[2 * CLU_SECRET + 1]) {
  for (int i = 0; i < 2 * CLU_SECRET; i++) out[i] = "0123456789abcdef"[secret[i / 2] >> (i % 2 ? 0 : 4) & 15];
  out[2 * CLU_SECRET] = 0;
}

const char *clu_hs_why_text(int why) {
  static const char *const texts[CLU_HS_N_WHY] = {
      "nothing went wrong",
      "did not say what was awaited in time",
      "closed or reset the connection",
      "sent what is no message of a handshake",
      "speaks another version of the protocol",
      "did not know the cluster's secret",
      "did not want this node",
      "could not be checked: the system's cryptography failed"};
  return why >= 0 && why < CLU_HS_N_WHY ? texts[why] : "";
}

const char *clu_hs_verdict_text(int verdict) {
  return verdict == CLU_HS_NO_SUCH_RANK ? "the cluster has no node of this number"
         : verdict == CLU_HS_RANK_TAKEN ? "another process is the node of this number already"
                                          : "welcome";
}
