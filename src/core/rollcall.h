/* The roll call: by which a master and a node that have met over TCP prove to each other that they know the
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
 * roll call fits: both nonces are in it, and no word can be changed). The node is counted at the JOIN and
 * not before: one that gave up waiting and connected anew has left a connection behind which never gets there.
 *
 * So a master reads at most CLU_ROLL_ANSWER + CLU_ROLL_JOIN bytes of a stranger, and allocates nothing for it.
 */
#ifndef CLUTCH_ROLLCALL_H
#define CLUTCH_ROLLCALL_H

#include <stddef.h>
#include <stdint.h>

#define CLU_ROLL_VERSION 1
#define CLU_SECRET 32
#define CLU_NONCE 32

enum { CLU_ROLL_HELLO = 48, CLU_ROLL_ANSWER = 88, CLU_ROLL_WELCOME = 48, CLU_ROLL_JOIN = 40 };

enum clu_roll_state {
  CLU_ROLL_UNDER_WAY, /* bytes or time */
  CLU_ROLL_PROVEN,    /* master only: the node's proof holds, clu_roll_admit() comes next */
  CLU_ROLL_DONE,
  CLU_ROLL_FAILED
};

enum clu_roll_why {
  CLU_ROLL_NOTHING,
  CLU_ROLL_SILENT,   /* the time is up */
  CLU_ROLL_CLOSED,   /* the other side has closed or reset the connection */
  CLU_ROLL_GARBAGE,  /* not a message of this protocol */
  CLU_ROLL_VERSION_DIFFERS,
  CLU_ROLL_NO_PROOF, /* it does not know the secret */
  CLU_ROLL_REFUSED,  /* node: the master has proven itself and does not want this node */
  CLU_ROLL_NO_CRYPTO,
  CLU_ROLL_N_WHY
};

/* Why a node that has proven itself is not wanted. */
enum clu_roll_verdict { CLU_ROLL_WELCOME_TO, CLU_ROLL_NO_SUCH_RANK, CLU_ROLL_RANK_TAKEN };

typedef struct clu_roll {
  int is_master, state, why, verdict;
  const unsigned char *secret; /* CLU_SECRET bytes, the caller's */
  uint64_t deadline;           /* UINT64_MAX: none */
  size_t have;                 /* read of the message that is awaited */
  const unsigned char *out;    /* what is to be written */
  size_t out_left;
  int step;                    /* number of the message that is awaited */
  uint32_t rank, r_version;
  uint64_t pid;
  unsigned char hello[CLU_ROLL_HELLO], answer[CLU_ROLL_ANSWER], welcome[CLU_ROLL_WELCOME], join[CLU_ROLL_JOIN];
} clu_roll;

/* `deadline` as the clock that clu_roll_time() is given counts. The secret is kept as pointer. The nonce must not
 * have been used before. A master has something to write at once. */
void clu_roll_master(clu_roll *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint64_t cluster,
                     uint64_t deadline);
void clu_roll_node(clu_roll *r, const unsigned char *secret, const unsigned char nonce[CLU_NONCE], uint32_t rank,
                   uint64_t pid, uint32_t r_version, uint64_t deadline);

/* How many bytes may be read now; 0: none. */
size_t clu_roll_want(const clu_roll *r);
/* Takes `n` bytes, at most as many as wanted. Returns the state. */
int clu_roll_feed(clu_roll *r, const void *p, size_t n);
/* So many bytes of `out` have been written. Until all are, DONE is not the end of it. */
void clu_roll_written(clu_roll *r, size_t n);
/* The master's verdict over a proven node; there is something to write then. */
int clu_roll_admit(clu_roll *r, int verdict);
/* The connection has ended. A roll call that is done stays so. */
int clu_roll_closed(clu_roll *r);
/* Ends it when its time is up. To be asked after all that has come was fed: this process may have been stopped. */
int clu_roll_time(clu_roll *r, uint64_t now);

/* CLU_SECRET bytes from twice as many hexadecimal digits; what follows these is not looked at. 1, or 0. */
int clu_secret_from_hex(const char *hex, unsigned char out[CLU_SECRET]);
void clu_secret_to_hex(const unsigned char *secret, char out[2 * CLU_SECRET + 1]);

/* "did not say ..." and so on; a constant, for a sentence about the other side. */
const char *clu_roll_why_text(int why);
const char *clu_roll_verdict_text(int verdict);

#endif
