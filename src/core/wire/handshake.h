/* The handshake: by which a master and a node that have met over TCP prove to each other that they know the
 * cluster's secret, before either believes a word of the other.
 *
 * A state machine over bytes; the time is passed in; no descriptor is known here. Four messages of fixed size,
 * each behind "clutch", the protocol's version and the message's number:
 *
 *   1 HELLO    master: number of the cluster, nonce
 *   2 ANSWER   node:   nonce, rank, R version, pid, proof
 *   3 WELCOME  master: verdict, proof
 *   4 JOIN     node:   proof: it has seen the master's and is on this connection from now on
 *
 * A proof is HMAC-SHA256 with the secret over who speaks and at which step (so that no proof can be sent back, or
 * taken for one of another step), and over all that both sides have said until then (so that none of an earlier
 * handshake fits: both nonces are in it, and no word can be changed). The node is counted at the JOIN and
 * not before: one that gave up waiting and connected anew has left a connection behind which never gets there.
 *
 * So a master reads at most CLU_HS_ANSWER + CLU_HS_JOIN bytes of a stranger, and allocates nothing for it.
 */
#ifndef CLUTCH_HANDSHAKE_H
#define CLUTCH_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#define CLU_HS_VERSION 1
#define CLU_SECRET 32
#define CLU_NONCE 32

enum { CLU_HS_HELLO = 48, CLU_HS_ANSWER = 88, CLU_HS_WELCOME = 48, CLU_HS_JOIN = 40 };

enum clu_hs_state {
  CLU_HS_UNDER_WAY, /* bytes or time */
  CLU_HS_PROVEN,    /* master only: the node's proof holds, clu_hs_admit() comes next */
  CLU_HS_DONE,
  CLU_HS_FAILED
};

enum clu_hs_why {
  CLU_HS_NOTHING,
  CLU_HS_SILENT,   /* the time is up */
  CLU_HS_CLOSED,   /* the other side has closed or reset the connection */
  CLU_HS_GARBAGE,  /* not a message of this protocol */
  CLU_HS_VERSION_DIFFERS,
  CLU_HS_NO_PROOF, /* it does not know the secret */
  CLU_HS_REFUSED,  /* node: the master has proven itself and does not want this node */
  CLU_HS_NO_CRYPTO,
  CLU_HS_N_WHY
};

/* Why a node that has proven itself is not wanted. */
enum clu_hs_verdict { CLU_HS_WELCOME_TO, CLU_HS_NO_SUCH_RANK, CLU_HS_RANK_TAKEN };

typedef struct clu_hs {
  int is_master, state, why, verdict;
  const unsigned char *secret; /* CLU_SECRET bytes, the caller's */
  uint64_t deadline;           /* UINT64_MAX: none */
  size_t have;                 /* read of the message that is awaited */
  const unsigned char *out;    /* what is to be written */
  size_t out_left;
  int step;                    /* number of the message that is awaited */
  uint32_t rank, r_version;
  uint64_t pid;
  unsigned char hello[CLU_HS_HELLO], answer[CLU_HS_ANSWER], welcome[CLU_HS_WELCOME], join[CLU_HS_JOIN];
} clu_hs;

/* `deadline` as the clock that clu_hs_time() is given counts. The secret is kept as pointer. The nonce must not
 * have been used before. A master has something to write at once. */
void clu_hs_master(clu_hs *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint64_t cluster,
                     uint64_t deadline);
void clu_hs_node(clu_hs *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint32_t rank,
                   uint64_t pid, uint32_t r_version, uint64_t deadline);

/* How many bytes may be read now; 0: none. */
size_t clu_hs_want(const clu_hs *r);
/* Takes `n` bytes, at most as many as wanted. Returns the state. */
int clu_hs_feed(clu_hs *r, const void *p, size_t n);
/* So many bytes of `out` have been written. Until all are, DONE is not the end of it. */
void clu_hs_written(clu_hs *r, size_t n);
/* The master's verdict over a proven node; there is something to write then. */
int clu_hs_admit(clu_hs *r, int verdict);
/* The connection has ended. A handshake that is done stays so. */
int clu_hs_closed(clu_hs *r);
/* Ends it when its time is up. To be asked after all that has come was fed: this process may have been stopped. */
int clu_hs_time(clu_hs *r, uint64_t now);

/* CLU_SECRET bytes from twice as many hexadecimal digits; what follows these is not looked at. 1, or 0. */
int clu_secret_from_hex(const char *hex, unsigned char out[CLU_SECRET]);
void clu_secret_to_hex(const unsigned char *secret, char out[2 * CLU_SECRET + 1]);

/* "did not say ..." and so on; a constant, for a sentence about the other side. */
const char *clu_hs_why_text(int why);
const char *clu_hs_verdict_text(int verdict);

#endif
