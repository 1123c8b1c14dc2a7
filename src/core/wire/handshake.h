/* The handshake: a session and a node that have met over TCP prove to each other that they know the
 * cluster's secret, before either believes a word of the other. ("Session" is also what
 * stands for it, such as the link process.)
 *
 *   session                                                node
 *     HELLO     number of the cluster, nonce          -->
 *          <--  nonce, rank, R version, pid, proof         RESPONSE
 *     VERDICT   whether it is admitted, proof         -->
 *          <--  proof                                      CONFIRM
 *
 *   UNDER_WAY --RESPONSE is right (session)--> PROVEN --clu_hs_admit()--> UNDER_WAY
 *   UNDER_WAY --the last message--> DONE
 *      |  wrong bytes, no proof, time is up, connection closed
 *      `--> FAILED (`why` says what)
 *
 * Messages have fixed sizes. Each begins with "clutch", the version of the protocol and the number
 * of the message (1 to 4). A proof is HMAC-SHA256 (RFC 2104, FIPS 180-4), keyed with the secret, of
 * a label (who speaks, at which step) and of all bytes that both sides have sent before it. The
 * label makes a proof useless as one of another step or side; the nonces make one of an earlier
 * handshake useless; and no byte can be changed on the way. The secret itself never travels. The
 * node counts as connected at its CONFIRM and not before: a node that gave up waiting and connected
 * anew has left a connection behind that never gets there.
 *
 * A state machine over bytes: it knows no descriptor and no clock, and never blocks. It allocates
 * nothing; a session reads at most CLU_HS_RESPONSE + CLU_HS_CONFIRM bytes of a peer that has proven
 * nothing. The struct is the caller's, its secret is kept as pointer. Functions return the state.
 */
#ifndef CLUTCH_HANDSHAKE_H
#define CLUTCH_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#define CLU_HS_VERSION 1
#define CLU_SECRET 32
#define CLU_NONCE 32

/* Sizes of the messages, in bytes. */
enum { CLU_HS_HELLO = 48, CLU_HS_RESPONSE = 88, CLU_HS_VERDICT = 48, CLU_HS_CONFIRM = 40 };

enum clu_hs_state {
  CLU_HS_UNDER_WAY, /* waits for bytes, or has some to write */
  CLU_HS_PROVEN,    /* session only: the node's proof is right, clu_hs_admit() comes next */
  CLU_HS_DONE,
  CLU_HS_FAILED
};

enum clu_hs_why {
  CLU_HS_NOTHING,
  CLU_HS_SILENT,  /* the time is up */
  CLU_HS_CLOSED,  /* the other side has closed or reset the connection */
  CLU_HS_GARBAGE, /* not a message of this protocol */
  CLU_HS_VERSION_DIFFERS,
  CLU_HS_NO_PROOF, /* it does not know the secret */
  CLU_HS_REFUSED,  /* node: the session has proven itself and does not admit this node */
  CLU_HS_NO_CRYPTO,
  CLU_HS_N_WHY
};

/* The verdict on a node that has proven itself. NOT_YET: it is not known here yet, and may ask
 * again. */
enum clu_hs_verdict { CLU_HS_ADMITTED, CLU_HS_NO_SUCH_RANK, CLU_HS_RANK_TAKEN, CLU_HS_NOT_YET };

typedef struct clu_hs {
  int is_session, state, why, verdict;
  const unsigned char *secret; /* CLU_SECRET bytes, the caller's */
  uint64_t deadline;           /* UINT64_MAX: none */
  size_t have;                 /* bytes read of the message that is awaited */
  const unsigned char *out;    /* what is to be written */
  size_t out_left;
  int step;                 /* number of the message that is awaited */
  int other_version;        /* VERSION_DIFFERS: which the other side speaks */
  uint32_t rank, r_version; /* of the node, as in its RESPONSE */
  uint64_t pid;
  unsigned char hello[CLU_HS_HELLO], response[CLU_HS_RESPONSE], verdict_message[CLU_HS_VERDICT],
      confirm[CLU_HS_CONFIRM];
} clu_hs;

/* Begins. `deadline` counts as the clock that clu_hs_time() is given. The nonce must never have
 * been used before. A session has something to write at once. */
void clu_hs_session(clu_hs *h, const unsigned char *secret, const unsigned char nonce[CLU_NONCE],
                    uint64_t cluster, uint64_t deadline);
void clu_hs_node(clu_hs *h, const unsigned char *secret, const unsigned char nonce[CLU_NONCE],
                 uint32_t rank, uint64_t pid, uint32_t r_version, uint64_t deadline);

/* How many bytes may be read now; 0: none. */
size_t clu_hs_want(const clu_hs *h);
/* Takes `n` bytes, at most as many as wanted. */
int clu_hs_feed(clu_hs *h, const void *p, size_t n);
/* So many bytes of `out` have been written. Who is DONE still has to write what is left there. */
void clu_hs_written(clu_hs *h, size_t n);
/* The session's verdict on a proven node, which is to be written then. */
int clu_hs_admit(clu_hs *h, int verdict);
/* Session: whether the node's proof was right, whatever its verdict is. */
int clu_hs_is_proven(const clu_hs *h);
/* The connection has ended. One that is DONE stays so. */
int clu_hs_closed(clu_hs *h);
/* Ends it when its time is up. To be called after all that has come was fed: this process may
 * have been stopped. */
int clu_hs_time(clu_hs *h, uint64_t now);

/* CLU_SECRET bytes from twice as many hexadecimal digits; what follows these is not read. 1, or
 * 0: they are no digits. */
int clu_secret_from_hex(const char *hex, unsigned char out[CLU_SECRET]);
void clu_secret_to_hex(const unsigned char *secret, char out[2 * CLU_SECRET + 1]);

/* "did not say ..." and so on: a constant, for a sentence about the other side. */
const char *clu_hs_why_text(int why);
/* Does the same with what else is known. `out` gets it. */
void clu_hs_explain(const clu_hs *h, char *out, size_t size);
const char *clu_hs_verdict_text(int verdict);

#endif
