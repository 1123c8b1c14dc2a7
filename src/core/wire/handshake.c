#include "core/wire/handshake.h"

#include <stdio.h>
#include <string.h>

#include "core/wire/frame.h"
#include "core/base/os.h"

enum { HELLO = 1, RESPONSE, VERDICT, CONFIRM };
enum { HEAD = 8, PROOF = 32 };

static const size_t sizes[] = {0, CLU_HS_HELLO, CLU_HS_RESPONSE, CLU_HS_VERDICT, CLU_HS_CONFIRM};

static void put_head(unsigned char *m, int type) {
  memcpy(m, "clutch", 6);
  m[6] = CLU_HS_VERSION;
  m[7] = (unsigned char)type;
}

static int fail(clu_hs *h, int why) {
  h->state = CLU_HS_FAILED;
  h->why = why;
  h->out_left = 0;
  return h->state;
}

/* The proof of message `step`: over its label, all that was said before, and the message up to
 * the proof. */
static int proof(const clu_hs *h, int step, unsigned char out[PROOF]) {
  static const char *const labels[] = {"", "", "clutch node is ", "clutch master i",
                                       "clutch node join"};
  unsigned char said[16 + CLU_HS_HELLO + CLU_HS_RESPONSE + CLU_HS_VERDICT + CLU_HS_CONFIRM];
  const unsigned char *const parts[] = {NULL, h->hello, h->response, h->verdict_message,
                                        h->confirm};
  size_t n = 16;
  memset(said, 0, 16);
  memcpy(said, labels[step], strlen(labels[step]));
  for (int i = HELLO; i <= step; i++) {
    size_t part = i == step ? sizes[i] - PROOF : sizes[i];
    memcpy(said + n, parts[i], part);
    n += part;
  }
  return clu_os_hmac_sha256(h->secret, CLU_SECRET, said, n, out);
}

/* Message `step` is complete but for its proof: adds it and has it written. */
static int say(clu_hs *h, int step, unsigned char *m) {
  if (proof(h, step, m + sizes[step] - PROOF) != CLU_OK) return fail(h, CLU_HS_NO_CRYPTO);
  h->out = m;
  h->out_left = sizes[step];
  return h->state;
}

void clu_hs_session(clu_hs *h, const unsigned char *secret, const unsigned char nonce[CLU_NONCE],
                    uint64_t cluster, uint64_t deadline) {
  memset(h, 0, sizeof *h);
  h->is_session = 1;
  h->secret = secret;
  h->deadline = deadline;
  put_head(h->hello, HELLO);
  clu_put64(h->hello + HEAD, cluster);
  memcpy(h->hello + HEAD + 8, nonce, CLU_NONCE);
  h->out = h->hello;
  h->out_left = sizeof h->hello;
  h->step = RESPONSE;
}

void clu_hs_node(clu_hs *h, const unsigned char *secret, const unsigned char nonce[CLU_NONCE],
                 uint32_t rank, uint64_t pid, uint32_t r_version, uint64_t deadline) {
  memset(h, 0, sizeof *h);
  h->secret = secret;
  h->deadline = deadline;
  h->rank = rank;
  h->pid = pid;
  h->r_version = r_version;
  put_head(h->response, RESPONSE);
  memcpy(h->response + HEAD, nonce, CLU_NONCE);
  clu_put32(h->response + HEAD + CLU_NONCE, rank);
  clu_put32(h->response + HEAD + CLU_NONCE + 4, r_version);
  clu_put64(h->response + HEAD + CLU_NONCE + 8, pid);
  h->step = HELLO;
}

size_t clu_hs_want(const clu_hs *h) {
  return h->state == CLU_HS_UNDER_WAY ? sizes[h->step] - h->have : 0;
}

static unsigned char *awaited(clu_hs *h) {
  return h->step == HELLO      ? h->hello
         : h->step == RESPONSE ? h->response
         : h->step == VERDICT  ? h->verdict_message
                               : h->confirm;
}

/* Tells as soon as it can be known that these are not the bytes of the message that is awaited. */
static int head_fits(clu_hs *h, const unsigned char *m) {
  unsigned char want[HEAD];
  size_t n = h->have < HEAD ? h->have : HEAD;
  put_head(want, h->step);
  if (memcmp(m, want, n < 6 ? n : 6) != 0) return fail(h, CLU_HS_GARBAGE), 0;
  if (n >= 7 && m[6] != want[6]) {
    h->other_version = m[6];
    return fail(h, CLU_HS_VERSION_DIFFERS), 0;
  }
  if (n >= 8 && m[7] != want[7]) return fail(h, CLU_HS_GARBAGE), 0;
  return 1;
}

static int proof_holds(clu_hs *h, int step, const unsigned char *m) {
  unsigned char want[PROOF];
  if (proof(h, step, want) != CLU_OK) return fail(h, CLU_HS_NO_CRYPTO), 0;
  if (!clu_os_same_secret(want, m + sizes[step] - PROOF, PROOF)) return fail(h, CLU_HS_NO_PROOF), 0;
  return 1;
}

int clu_hs_feed(clu_hs *h, const void *p, size_t n) {
  unsigned char *m = awaited(h);
  size_t want = clu_hs_want(h);
  if (want == 0) return h->state;
  if (n > want) n = want;
  memcpy(m + h->have, p, n);
  h->have += n;
  if (!head_fits(h, m) || h->have < sizes[h->step]) return h->state;
  h->have = 0;
  switch (h->step) {
  case HELLO: h->step = VERDICT; return say(h, RESPONSE, h->response);
  case RESPONSE:
    if (!proof_holds(h, RESPONSE, m)) return h->state;
    h->rank = clu_get32(m + HEAD + CLU_NONCE);
    h->r_version = clu_get32(m + HEAD + CLU_NONCE + 4);
    h->pid = clu_get64(m + HEAD + CLU_NONCE + 8);
    return h->state = CLU_HS_PROVEN;
  case VERDICT:
    if (!proof_holds(h, VERDICT, m)) return h->state;
    h->verdict = (int)clu_get32(m + HEAD);
    if (h->verdict != CLU_HS_ADMITTED) return fail(h, CLU_HS_REFUSED);
    put_head(h->confirm, CONFIRM);
    h->state = CLU_HS_DONE;
    return say(h, CONFIRM, h->confirm);
  default:
    if (!proof_holds(h, CONFIRM, m)) return h->state;
    return h->state = CLU_HS_DONE;
  }
}

void clu_hs_written(clu_hs *h, size_t n) {
  if (n > h->out_left) n = h->out_left;
  h->out += n;
  h->out_left -= n;
}

int clu_hs_admit(clu_hs *h, int verdict) {
  if (!h->is_session || h->state != CLU_HS_PROVEN) return h->state;
  put_head(h->verdict_message, VERDICT);
  clu_put32(h->verdict_message + HEAD, (uint32_t)verdict);
  clu_put32(h->verdict_message + HEAD + 4, 0);
  h->verdict = verdict;
  h->step = CONFIRM;
  h->state = CLU_HS_UNDER_WAY;
  return say(h, VERDICT, h->verdict_message);
}

int clu_hs_is_proven(const clu_hs *h) {
  return h->state == CLU_HS_PROVEN || h->state == CLU_HS_DONE ||
         (h->state == CLU_HS_UNDER_WAY && h->step == CONFIRM);
}

int clu_hs_closed(clu_hs *h) {
  return h->state == CLU_HS_DONE || h->state == CLU_HS_FAILED ? h->state : fail(h, CLU_HS_CLOSED);
}

int clu_hs_time(clu_hs *h, uint64_t now) {
  if (h->state == CLU_HS_DONE || h->state == CLU_HS_FAILED || now < h->deadline) return h->state;
  return fail(h, CLU_HS_SILENT);
}

static int digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int clu_secret_from_hex(const char *hex, unsigned char out[CLU_SECRET]) {
  for (int i = 0; i < CLU_SECRET; i++) {
    int a = digit(hex[2 * i]), b = a < 0 ? -1 : digit(hex[2 * i + 1]);
    if (b < 0) return 0;
    out[i] = (unsigned char)(16 * a + b);
  }
  return 1;
}

void clu_secret_to_hex(const unsigned char *secret, char out[2 * CLU_SECRET + 1]) {
  for (int i = 0; i < 2 * CLU_SECRET; i++)
    out[i] = "0123456789abcdef"[secret[i / 2] >> (i % 2 ? 0 : 4) & 15];
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

void clu_hs_explain(const clu_hs *h, char *out, size_t size) {
  if (h->why == CLU_HS_VERSION_DIFFERS)
    snprintf(
        out, size,
        "speaks version %d of the protocol, and this side version %d: install the same version "
        "of package clutch on both",
        h->other_version, CLU_HS_VERSION);
  else
    snprintf(out, size, "%s", clu_hs_why_text(h->why));
}

const char *clu_hs_verdict_text(int verdict) {
  return verdict == CLU_HS_NO_SUCH_RANK ? "the cluster has no node of this number"
         : verdict == CLU_HS_RANK_TAKEN ? "another process is the node of this number already"
         : verdict == CLU_HS_NOT_YET    ? "the cluster has not told of a node of this number yet"
                                        : "welcome";
}
